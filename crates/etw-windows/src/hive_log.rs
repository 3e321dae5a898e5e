//! [`replay`]: the newest pages of a registry hive, from its transaction logs.
//!
//! Windows writes changes to a log first. While it runs, and after a crash, the hive itself has older pages: its two sequence numbers
//! differ. Windows 8.1 and later append to two logs (`.LOG1`, `.LOG2`) by turns:
//!
//! ```text
//! 000 copy of the hive's first 512 bytes   1c u32 6   1fc u32 XOR of the numbers before it
//! 200 entries: "HvLE"   04 u32 size   08 u32 flags   0c u32 sequence number   10 u32 size of the hive's bins   14 u32 n
//!     18 u64 Marvin32 of the bytes from 28 on   20 u64 Marvin32 of the first 32 bytes   28 n × { u32 place in the bins, u32 size }
//!     pages
//! ```
//!
//! The first entry to apply has the hive's second sequence number or a later one, and the numbers have no gap. Windows XP to 8 have one
//! change in a log (`.LOG` or `.LOG1`):
//!
//! ```text
//! 000 copy of the hive's first bytes, 2c × 512 of them   0c u64 time of the hive's last change   1c u32 1 or 2
//!     "DIRT", a bit for each 512 bytes of the bins, then these pages, from a multiple of the copy's size on
//! ```
//!
//! Source: public descriptions of the format.

use etw_types::le;

const SECTOR: usize = 512;
const BINS: usize = 0x1000;
/// Bytes of bins that a log may give a hive.
const BINS_LIMIT: usize = 512 << 20;
/// Bytes by which a change makes a hive longer without writing them.
const UNUSED_LIMIT: usize = 1 << 20;
/// The seed of the entries' hashes. Public descriptions differ in the order of its bytes, so either order is accepted.
const SEED: u64 = 0x82ef_4d88_7a4e_55c5;

/// Applies logs to the bytes of a hive that was not closed; returns the number of changes that were applied.
pub(crate) fn replay(hive: &mut Vec<u8>, logs: &[Vec<u8>]) -> usize {
    let Some(head) = hive.get(..SECTOR) else { return 0 };
    let is_sound = is_sound_head(head);
    let number = |at: usize| le::u32(head, at).unwrap_or(0);
    let (first_wanted, changed) = (number(8), head[0xc..0x14].to_vec());
    let mut runs: Vec<Vec<Entry<'_>>> = Vec::new();
    for log in logs {
        let Some(log_head) = log.get(..SECTOR).filter(|head| is_sound_head(head)) else { continue };
        match le::u32(log_head, 0x1c) {
            Some(6) => {
                let mut run = entries(log);
                if is_sound {
                    run.retain(|entry| follows(entry.sequence, first_wanted));
                }
                runs.push(run);
            }
            // A log of another change has another time.
            Some(1 | 2) if !is_sound || log_head[0xc..0x14] == changed => {
                if let Some(pages) = dirty_pages(log) {
                    return apply_old(hive, log_head, &pages);
                }
            }
            _ => {}
        }
    }
    runs.retain(|run| !run.is_empty());
    runs.sort_by_key(|run| run[0].sequence.wrapping_sub(first_wanted));
    let mut next = None;
    let mut applied = 0;
    for entry in runs.iter().flatten() {
        if next.is_some_and(|next| next != entry.sequence) {
            break;
        }
        if !entry.apply(hive) {
            break;
        }
        next = Some(entry.sequence.wrapping_add(1));
        applied += 1;
    }
    if applied > 0 && !is_sound {
        // The root key is where the log's copy says.
        if let Some(log) = logs.iter().find(|log| log.get(..SECTOR).is_some_and(is_sound_head)) {
            hive[0x24..0x28].copy_from_slice(&log[0x24..0x28]);
        }
    }
    applied
}

/// Whether the first sector of a hive or log is whole.
pub(crate) fn is_sound_head(head: &[u8]) -> bool {
    let numbers = head.get(..0x1fc).into_iter().flat_map(|head| head.chunks_exact(4));
    let sum = numbers.filter_map(|number| le::u32(number, 0)).fold(0, |sum, number| sum ^ number);
    // 0 and -1 are stored as their neighbours.
    let sum = match sum {
        0 => 1,
        u32::MAX => u32::MAX - 1,
        sum => sum,
    };
    head.starts_with(b"regf") && le::u32(head, 0x1fc) == Some(sum)
}

/// Whether a sequence number is `first` or comes behind it.
fn follows(number: u32, first: u32) -> bool {
    number.wrapping_sub(first) < 1 << 31
}

/// A change in a log of Windows 8.1 and later.
struct Entry<'l> {
    sequence: u32,
    bins_size: usize,
    /// Places in the bins, and the bytes there.
    pages: Vec<Page<'l>>,
}

struct Page<'l> {
    place: usize,
    bytes: &'l [u8],
}

impl Entry<'_> {
    /// Writes the pages; `false` if they are not pages of the hive.
    fn apply(&self, hive: &mut Vec<u8>) -> bool {
        write_pages(hive, self.bins_size, &self.pages)
    }
}

/// Writes pages into a hive whose bins then have at least `bins_size` bytes; `false` if they are not pages of it.
fn write_pages(hive: &mut Vec<u8>, bins_size: usize, pages: &[Page<'_>]) -> bool {
    let size = BINS + bins_size;
    // The bytes by which a hive grows are in the log, but for what its bins do not use.
    let written: usize = pages.iter().map(|page| page.bytes.len()).sum();
    let is_outside = |page: &Page<'_>| BINS + page.place + page.bytes.len() > size;
    if size > hive.len().max(BINS) + written + UNUSED_LIMIT || pages.iter().any(is_outside) {
        return false;
    }
    if hive.len() < size {
        hive.resize(size, 0);
    }
    for page in pages {
        let start = BINS + page.place;
        hive[start..start + page.bytes.len()].copy_from_slice(page.bytes);
    }
    true
}

/// The entries of a log up to the first one that is damaged. Entries of an earlier round may follow the newest one; their numbers are lower.
fn entries(log: &[u8]) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut rest = &log[SECTOR..];
    while let Some((entry, size)) = entry(rest) {
        entries.push(entry);
        rest = &rest[size..];
    }
    entries
}

fn entry(bytes: &[u8]) -> Option<(Entry<'_>, usize)> {
    let number = |at: usize| Some(le::u32(bytes, at)? as usize);
    let size = number(4)?;
    let is_entry = bytes.starts_with(b"HvLE") && size >= SECTOR && size % SECTOR == 0;
    let whole = bytes.get(..size).filter(|_| is_entry)?;
    let (pages_hash, head_hash) = (le::u64(whole, 0x18)?, le::u64(whole, 0x20)?);
    let is_sound = [SEED, SEED.swap_bytes()].into_iter().any(|seed| {
        head_hash == marvin32(seed, &whole[..0x20]) && pages_hash == marvin32(seed, &whole[0x28..])
    });
    if !is_sound {
        return None;
    }
    let (bins_size, count) = (number(0x10)?, number(0x14)?);
    if bins_size > BINS_LIMIT {
        return None;
    }
    let references = whole.get(0x28..0x28usize.checked_add(count.checked_mul(8)?)?)?;
    let mut at = 0x28 + references.len();
    let mut pages = Vec::new();
    for reference in references.chunks_exact(8) {
        let (place, size) = (le::u32(reference, 0)? as usize, le::u32(reference, 4)? as usize);
        pages.push(Page { place, bytes: whole.get(at..at.checked_add(size)?)? });
        at += size;
    }
    Some((Entry { sequence: number(0xc)? as u32, bins_size, pages }, size))
}

/// The pages of a log of Windows XP to 8, 512 bytes each.
fn dirty_pages(log: &[u8]) -> Option<Vec<Page<'_>>> {
    let number = |at: usize| Some(le::u32(log, at)? as usize);
    let bins_size = number(0x28).filter(|size| *size <= BINS_LIMIT)?;
    let head = SECTOR * number(0x2c).filter(|factor| (1..=8).contains(factor))?;
    if number(4) != number(8) || log.get(head..head + 4)? != b"DIRT" {
        return None;
    }
    let bits = log.get(head + 4..head + 4 + (bins_size / SECTOR).div_ceil(8))?;
    let mut at = head + (4 + bits.len()).next_multiple_of(head);
    let mut pages = Vec::new();
    for page in 0..bins_size / SECTOR {
        if bits[page / 8] & 1 << (page % 8) != 0 {
            pages.push(Page { place: page * SECTOR, bytes: log.get(at..at + SECTOR)? });
            at += SECTOR;
        }
    }
    Some(pages)
}

/// Applies the one change of an old log; returns the number of changes.
fn apply_old(hive: &mut Vec<u8>, head: &[u8], pages: &[Page<'_>]) -> usize {
    let bins_size = le::u32(head, 0x28).unwrap_or(0) as usize;
    if !write_pages(hive, bins_size, pages) {
        return 0;
    }
    hive[0x24..0x28].copy_from_slice(&head[0x24..0x28]);
    1
}

/// The hash Marvin32 with 64 bits.
fn marvin32(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = [seed as u32, (seed >> 32) as u32];
    let mut add = |number: u32| {
        let [low, high] = &mut state;
        *low = low.wrapping_add(number);
        *high ^= *low;
        *low = low.rotate_left(20).wrapping_add(*high);
        *high = high.rotate_left(9) ^ *low;
        *low = low.rotate_left(27).wrapping_add(*high);
        *high = high.rotate_left(19);
    };
    let words = bytes.chunks_exact(4);
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    last[words.remainder().len()] = 0x80;
    words.filter_map(|word| le::u32(word, 0)).for_each(&mut add);
    add(u32::from_le_bytes(last));
    add(0);
    u64::from(state[1]) << 32 | u64::from(state[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published answers of the hash.
    #[test]
    fn marvin32_gives_the_published_hashes() {
        let cases: [(&[u8], u64); 4] = [
            (&[], 0x30ed_35c1_00cd_3c7d),
            (&[0xaf], 0x48e7_3fc7_7d75_ddc1),
            (&[0xe7, 0x0f], 0xb5f6_e1fc_485d_bff8),
            (&[0x37, 0xf4, 0x95], 0xf0b0_7c78_9b8c_f7e8),
        ];
        for (bytes, hash) in cases {
            assert_eq!(marvin32(0x004f_b61a_001b_dbcc, bytes), hash, "{bytes:x?}");
        }
    }

    /// Wrong numbers under sound hashes, which a mutation of a log does not find.
    #[test]
    fn hostile_numbers_make_no_large_hive() {
        let mut hive = vec![0; 0x2000];
        hive[..12].copy_from_slice(b"regf\x02\0\0\0\x01\0\0\0");
        let mut entry = vec![0; 0x400];
        entry[..4].copy_from_slice(b"HvLE");
        let mut put = |at: usize, number: u32| {
            entry[at..at + 4].copy_from_slice(&number.to_le_bytes());
        };
        for (at, number) in [(4, 0x400), (0xc, 1), (0x10, 0x1000), (0x14, 1), (0x2c, 0x200)] {
            put(at, number);
        }
        let numbers = [0, 1, 7, 0x200, 0x201, 0x1000, 0x1_0000, 0x1fff_f000, 0x7fff_ffff, u32::MAX];
        let mut applied = 0;
        for place in [4, 0xc, 0x10, 0x14, 0x28, 0x2c] {
            for number in numbers {
                let mut entry = entry.clone();
                entry[place..place + 4].copy_from_slice(&number.to_le_bytes());
                let hash = marvin32(SEED, &entry[0x28..]);
                entry[0x18..0x20].copy_from_slice(&hash.to_le_bytes());
                let hash = marvin32(SEED, &entry[..0x20]);
                entry[0x20..0x28].copy_from_slice(&hash.to_le_bytes());
                let mut changed = hive.clone();
                let mut log = vec![0; SECTOR];
                log[..4].copy_from_slice(b"regf");
                log[0x1c] = 6;
                let words = log.chunks_exact(4).filter_map(|word| le::u32(word, 0));
                let sum = words.fold(0, |sum, word| sum ^ word);
                log[0x1fc..].copy_from_slice(&sum.to_le_bytes());
                log.extend(entry);
                applied += replay(&mut changed, &[log]);
                assert!(changed.len() <= hive.len() + 0x400 + UNUSED_LIMIT);
            }
        }
        assert!(applied > 10, "{applied}");
    }
}
