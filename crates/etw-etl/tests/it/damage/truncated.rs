//! Files that were cut short.

use super::*;

#[test]
fn a_file_cut_at_any_byte_keeps_the_records_before_the_cut() {
    let sound = Sound::uniform();
    let logfile_end = end_of(&sound, &sound.rows[0]);
    let buffers = sound.offsets.len() - 1;
    for length in 0..sound.bytes.len() {
        let bytes = &sound.bytes[..length];
        if length < logfile_end {
            assert!(matches!(open(bytes), Err(Error::NotAnEtl { .. })), "{length}");
            continue;
        }
        let missing_bytes = (GRID - length % GRID) % GRID;
        let missing_buffers = buffers - length.div_ceil(GRID);
        let outcome = read_once(bytes);
        let expected = damages([(length, truncated(missing_bytes, missing_buffers))]);
        assert_eq!(outcome.damage, expected, "{length}");
        let rows = sound.without(|row| end_of(&sound, row) > length);
        assert_same(&format!("cut at {length}"), &outcome.rows, &rows);
    }
}

#[test]
fn an_unfinalised_file_cut_at_any_byte_keeps_the_records_before_the_cut() {
    let mut file = builder(GRID as u32);
    file.finalised = false;
    push_numbered(&mut file, 2, 60);
    let sound = Sound::new(file.finish());
    let logfile_end = end_of(&sound, &sound.rows[0]);
    for length in logfile_end..sound.bytes.len() {
        let outcome = read_once(&sound.bytes[..length]);
        let (buffer, inside) = (length / GRID, length % GRID);
        let filled = u32_at(&sound.bytes, buffer * GRID + 0x30) as usize;
        // Bytes that are zero may be space that was reserved.
        let zeros = sound.bytes[buffer * GRID..length].iter().all(|&byte| byte == 0);
        let expected = if zeros || inside >= filled {
            vec![]
        } else {
            damages([(length, truncated(GRID - inside, 0))])
        };
        assert_eq!(outcome.damage, expected, "{length}");
        let rows = sound.without(|row| end_of(&sound, row) > length);
        assert_same(&format!("cut at {length}"), &outcome.rows, &rows);
    }
}

#[test]
fn a_compressed_file_cut_at_any_byte_keeps_the_buffers_before_the_cut() {
    let sound = Sound::compressed();
    let buffers = sound.offsets.len() - 1;
    for length in sound.offsets[1]..sound.bytes.len() {
        let whole = sound.offsets.iter().filter(|&&offset| offset <= length).count() - 1;
        let (start, size) = sound.buffer(whole);
        let outcome = read_once(&sound.bytes[..length]);
        let expected = if start == length {
            truncated(0, buffers - whole)
        } else {
            let want = if length - start < HEAD { HEAD } else { size };
            truncated(start + want - length, buffers - whole - 1)
        };
        assert_eq!(outcome.damage, damages([(length, expected)]), "{length}");
        // Some records of the cut buffer may come, as they were.
        let rows = sound.without(|row| row.buffer as usize >= whole);
        let (cut, kept): (Vec<Row>, Vec<Row>) =
            outcome.rows.into_iter().partition(|row| row.buffer as usize >= whole);
        assert_same(&format!("cut at {length}"), &kept, &rows);
        assert!(cut.iter().all(|row| sound.rows.contains(row)), "cut at {length}");
    }
}

#[test]
fn a_large_file_cut_anywhere_keeps_the_records_before_the_cut() {
    let sound = Sound::new(numbered(0x2000, 3, 3000));
    let mut rng = Rng::new(1);
    for _ in 0..40 {
        let length = 0x2000 + rng.below(sound.bytes.len() - 0x2000);
        let outcome = read_once(&sound.bytes[..length]);
        assert_eq!(outcome.damage.len(), 1, "{length}");
        let rows = sound.without(|row| end_of(&sound, row) > length);
        assert_same(&format!("cut at {length}"), &outcome.rows, &rows);
    }
}

#[test]
fn a_truncated_wnode_is_reported_once() {
    let start = FileBuilder::new().header.start_raw;
    let mut file = builder(GRID as u32);
    file.push_buffer(BufferBuilder::new(GRID as u32, 0));
    etw_etl::write::sample::with_record(etw_types::HeaderType::Wnode, |record| {
        record.order_time = start + 1;
        file.push(0, record)
    })
    .unwrap();
    let bytes = file.finish();
    for length in 2 * GRID + HEAD + 1..2 * GRID + HEAD + 69 {
        let outcome = read_once(&bytes[..length]);
        let expected = damages([(length, truncated(3 * GRID - length, 0))]);
        assert_eq!(outcome.damage, expected, "{length}");
    }
}
