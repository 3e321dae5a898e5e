//! Buffers, headers and ranges that were overwritten.

use super::*;

#[test]
fn overwritten_buffers_cost_only_their_own_records() {
    for (fill, zeros) in [(Some(0), true), (Some(0xff), false), (None, false)] {
        let sound = Sound::uniform();
        let buffers = sound.offsets.len() - 1;
        for first in 1..buffers {
            for count in 1..=(buffers - first).min(3) {
                let what = format!("{count} buffers from {first} filled with {fill:?}");
                let range = first * GRID..(first + count) * GRID;
                let bytes = sound.damaged(|bytes| match fill {
                    Some(byte) => bytes[range.clone()].fill(byte),
                    None => Rng::new(first as u64).fill(&mut bytes[range.clone()]),
                });
                let expected = damages([(first * GRID, no_buffer(count * GRID, zeros))]);
                let lost = |row: &Row| range.contains(&(sound.offsets[row.buffer as usize]));
                sound.check(&what, &bytes, expected, lost);
            }
        }
    }
}

#[test]
fn overwritten_compressed_buffers_cost_only_their_own_records() {
    for (fill, zeros) in [(Some(0), true), (Some(0xff), false), (None, false)] {
        let sound = Sound::compressed();
        let buffers = sound.offsets.len() - 1;
        for first in 1..buffers {
            let (start, size) = sound.buffer(first);
            let what = format!("buffer {first} filled with {fill:?}");
            let bytes = sound.damaged(|bytes| match fill {
                Some(byte) => bytes[start..start + size].fill(byte),
                None => Rng::new(first as u64).fill(&mut bytes[start..start + size]),
            });
            let expected = damages([(start, no_buffer(size, zeros))]);
            sound.check(&what, &bytes, expected, |row| row.buffer == first as u64);
        }
    }
}

#[test]
fn an_overwritten_first_buffer_leaves_the_others_readable() {
    for sound in [Sound::uniform(), Sound::compressed()] {
        let (_, size) = sound.buffer(0);
        for (fill, zeros) in [(0, true), (0xff, false)] {
            let bytes = sound.damaged(|bytes| bytes[..size].fill(fill));
            let expected = damages([(0, DamageKind::LogfileHeader), (0, no_buffer(size, zeros))]);
            sound.check("first buffer", &bytes, expected, |row| row.buffer == 0);
        }
        // Only its buffer header: the logfile header behind it still tells the clock.
        let bytes = sound.damaged(|bytes| bytes[..HEAD].fill(0));
        assert!(open(&bytes).unwrap().header().is_some());
        let expected = damages([(0, no_buffer(size, true))]);
        sound.check("first buffer header", &bytes, expected, |row| row.buffer == 0);
        // Only the logfile header.
        let bytes = sound.damaged(|bytes| bytes[HEAD..HEAD + 0x40].fill(0));
        let filled = u32_at(&bytes, 0x30) as usize;
        let skipped = (filled - HEAD) as u32;
        let expected = damages([
            (0, DamageKind::LogfileHeader),
            (HEAD, DamageKind::UnknownRecord { marker: 0, at: 0, skipped }),
        ]);
        sound.check("logfile header", &bytes, expected, |row| row.buffer == 0);
    }
}

#[test]
fn an_overwritten_buffer_header_costs_only_its_buffer() {
    let mut rng = Rng::new(2);
    for sound in [Sound::uniform(), Sound::compressed()] {
        for number in 1..sound.offsets.len() - 1 {
            let (start, size) = sound.buffer(number);
            let bytes = sound.damaged(|bytes| rng.fill(&mut bytes[start..start + HEAD]));
            let expected = damages([(start, no_buffer(size, false))]);
            let what = format!("header of buffer {number}");
            sound.check(&what, &bytes, expected, |row| row.buffer == number as u64);
        }
    }
}

#[test]
fn an_overwritten_record_header_costs_only_its_buffer() {
    let sound = Sound::uniform();
    for victim in sound.rows.iter().filter(|row| row.buffer > 0) {
        let at = sound.offsets[victim.buffer as usize] + HEAD + victim.offset as usize;
        let filled = u32_at(&sound.bytes, victim.buffer as usize * GRID + 0x30) as usize;
        let skipped = (filled - HEAD - victim.offset as usize) as u32;
        let lost = |row: &Row| row.buffer == victim.buffer && row.offset >= victim.offset;
        for (byte, marker) in [(0, 0), (0xff, u32::MAX), (0xab, 0xabab_abab)] {
            let bytes = sound.damaged(|bytes| bytes[at..at + 0x10].fill(byte));
            let kind = DamageKind::UnknownRecord { marker, at: victim.offset, skipped };
            sound.check("record header", &bytes, damages([(at, kind)]), lost);
        }
    }
}

#[test]
fn random_ranges_stay_local() {
    let sound = Sound::uniform();
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let start = GRID + rng.below(sound.bytes.len() - GRID);
        let end = (start + 1 + rng.below(1500)).min(sound.bytes.len());
        let bytes = sound.damaged(|bytes| match seed % 3 {
            0 => bytes[start..end].fill(0),
            1 => bytes[start..end].fill(0xff),
            _ => rng.fill(&mut bytes[start..end]),
        });
        let outcome = read_once(&bytes);
        let hit = start / GRID..end.div_ceil(GRID);
        let elsewhere = |row: &Row| !hit.contains(&(row.buffer as usize));
        let expected: Vec<Row> = sound.rows.iter().filter(|row| elsewhere(row)).cloned().collect();
        let rows: Vec<Row> = outcome.rows.iter().filter(|row| elsewhere(row)).cloned().collect();
        assert_same_set(&format!("seed {seed}"), &rows, &expected);
        // Records before the range are kept unless the buffer's own header was hit.
        let safe = |row: &&Row| {
            row.buffer as usize == hit.start && start % GRID >= HEAD && end_of(&sound, row) <= start
        };
        for row in sound.rows.iter().filter(safe) {
            assert!(outcome.rows.contains(row), "seed {seed}: {row:?}");
        }
        for (offset, kind) in &outcome.damage {
            let buffer = *offset as usize / GRID;
            assert!(hit.contains(&buffer), "seed {seed}: {kind:?} at {offset}");
        }
    }
}
