//! Files with holes, and zeros that nobody needs to read.

use super::changing::Temporary;
use super::*;
use std::sync::atomic::AtomicU64;

/// Bytes at some offsets of a source that is zero elsewhere, and says so. Counts the bytes that are read.
struct Sparse {
    size: u64,
    pieces: Vec<(u64, Vec<u8>)>,
    /// Adds this to what `next_data` returns: a wrong answer.
    error: i64,
    read: Arc<AtomicU64>,
}

impl ByteSource for Sparse {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        let buffer = &mut buffer[..count];
        buffer.fill(0);
        for (start, bytes) in &self.pieces {
            let (from, to) =
                (offset.max(*start), (offset + count as u64).min(start + bytes.len() as u64));
            if from < to {
                let piece = &bytes[(from - start) as usize..(to - start) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
            }
        }
        Ok(count)
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        let later = self.pieces.iter().filter(|(start, bytes)| start + bytes.len() as u64 > offset);
        let next = later.map(|(start, _)| *start).min().unwrap_or(self.size).max(offset);
        Ok(next.saturating_add_signed(self.error))
    }
}

/// Reads it, and returns how many bytes were read.
fn read_sparse(size: u64, pieces: Vec<(u64, Vec<u8>)>, error: i64) -> (Outcome, u64) {
    let read = Arc::new(AtomicU64::new(0));
    let source = Sparse { size, pieces, error, read: read.clone() };
    let file = TraceFile::from_source(Path::new("sparse"), Box::new(source)).unwrap();
    let outcome = read_files(vec![file], options(0));
    (outcome, read.load(Ordering::Relaxed))
}

#[test]
fn malicious_holes_are_not_read() {
    const SIZE: u64 = 1 << 50;
    for compressed in [false, true] {
        let sound = if compressed { Sound::compressed() } else { Sound::uniform() };
        let (whole, end) = (sound.bytes.clone(), sound.bytes.len());
        let (outcome, read) = read_sparse(SIZE, vec![(0, whole)], 0);
        assert_eq!(outcome.damage, damages([(end, no_buffer(SIZE as usize - end, true))]));
        assert_same("a hole behind the file", &outcome.rows, &sound.rows);
        assert!(read < 8 << 20, "{read} bytes read");
        // The last buffer stands at the end of the hole, on the grid or, in the other file, anywhere.
        let (start, size) = sound.buffer(sound.offsets.len() - 2);
        let (first, last) = sound.bytes.split_at(start);
        assert_eq!(size, last.len());
        for skew in [0, 1, 3, 5] {
            let at = SIZE
                - (if compressed { size } else { GRID }) as u64
                - if compressed { skew } else { 0 };
            let pieces = vec![(0, first.to_vec()), (at, last.to_vec())];
            let (outcome, read) = read_sparse(at + size as u64, pieces, 0);
            let gap = damages([(start, no_buffer(at as usize - start, true))]);
            assert_eq!(outcome.damage, gap, "{skew}");
            assert_same("a hole in the file", &outcome.rows, &sound.rows);
            assert!(read < 8 << 20, "{read} bytes read");
        }
    }
}

/// A buffer of 64 KiB has two zero bytes in front: they may be the last ones of a hole.
#[test]
fn a_buffer_whose_first_bytes_are_in_a_hole() {
    let sound = numbered(0x10000, 2, 6000);
    let count = sound.len() / 0x10000;
    assert!(count > 3, "{count}");
    let expected = read(&sound).rows;
    let (first, last) = sound.split_at(2 * 0x10000);
    for (at, gap) in [(5 << 40, 1), (5 << 40 | 0x1234, 2)] {
        let pieces = vec![(0, first.to_vec()), (at + 2, last[2..].to_vec())];
        let (outcome, _) = read_sparse(at + last.len() as u64, pieces, 0);
        assert!(outcome.damage.len() <= gap, "{:?}", outcome.damage);
        assert_same("two bytes in the hole", &outcome.rows, &expected);
    }
}

#[test]
fn malicious_answers_about_holes() {
    let sound = Sound::uniform();
    for error in [i64::MIN, -5000, -1, 1, 70, 0x400, 5000, i64::MAX] {
        let mut bytes = sound.bytes.clone();
        bytes[3 * GRID..5 * GRID].fill(0);
        let size = bytes.len() as u64 + 7 * GRID as u64;
        let (outcome, _) = read_sparse(size, vec![(0, bytes)], error);
        assert!(!outcome.damage.is_empty(), "{error}");
        for row in &outcome.rows {
            assert!(sound.rows.iter().any(|other| other.stored == row.stored), "{error}");
        }
    }
}

/// 200 GB that take no space on the disk. Without the system's help, reading them takes minutes.
#[cfg(target_os = "linux")]
#[test]
fn a_sparse_file_is_read_at_once() {
    const SIZE: u64 = 200 << 30;
    let sound = Sound::uniform();
    let end = sound.bytes.len();
    let temporary = Temporary::new("sparse", &sound.bytes);
    let file = std::fs::File::options().write(true).open(&temporary.0).unwrap();
    if file.set_len(SIZE).is_err() {
        println!("skipped: the file system has no sparse files of this size");
        return;
    }
    let before = std::time::Instant::now();
    let opened = TraceFile::open(&temporary.0).unwrap();
    let outcome = read_files(vec![opened], options(0));
    let seconds = before.elapsed().as_secs();
    assert_eq!(outcome.damage, damages([(end, no_buffer(SIZE as usize - end, true))]));
    assert_same("a sparse file", &outcome.rows, &sound.rows);
    assert!(seconds < 20, "{seconds} seconds");
}
