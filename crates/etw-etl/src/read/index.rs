//! The index of a file: the buffers of each CPU stream, in reading order.
//!
//! A stream is a list of varint deltas, some five bytes a buffer, cut into *runs* of rising sequence numbers where
//! the file is circular. A file that has wrapped is read by merging its runs by sequence number, any other in file
//! order. Past 16 MiB the lists move to a temporary file.

use super::spill::{SpillFile, SpillList};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

/// Bytes of the index that stay in memory.
const MEMORY_LIMIT: usize = 16 << 20;
/// Runs of a file beyond this many are not told apart; only a hostile file has more.
const RUN_LIMIT: usize = 1 << 18;

/// One buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Number in the file.
    pub(crate) index: u64,
    /// File offset of its header.
    pub(crate) offset: u64,
    /// As stored.
    pub(crate) sequence: i64,
}

struct Run {
    first: Entry,
    /// Offset in the list of the deltas of the entries after the first.
    at: u64,
    count: u64,
}

struct Stream {
    cpu: u16,
    list: SpillList,
    runs: Vec<Run>,
    last: Entry,
}

/// The buffers of a file by CPU.
#[derive(Default)]
pub(crate) struct Index {
    streams: Vec<Stream>,
    /// Stream number + 1 by CPU.
    by_cpu: Vec<u16>,
    in_memory: usize,
    spill: Option<SpillFile>,
    /// Cut at falling sequence numbers.
    split: bool,
    run_count: usize,
    /// Merge runs by sequence number.
    pub(crate) wrapped: bool,
}

impl Index {
    pub(crate) fn new(circular: bool) -> Index {
        Index { split: circular, ..Index::default() }
    }

    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn cpu(&self, stream: usize) -> u16 {
        self.streams[stream].cpu
    }

    /// The last buffer of a CPU so far.
    pub(crate) fn last(&self, cpu: u16) -> Option<Entry> {
        let slot = *self.by_cpu.get(usize::from(cpu))?;
        Some(self.streams.get(usize::from(slot).checked_sub(1)?)?.last)
    }

    pub(crate) fn push(&mut self, cpu: u16, entry: Entry) -> io::Result<()> {
        let slot = usize::from(cpu);
        if self.by_cpu.len() <= slot {
            self.by_cpu.resize(slot + 1, 0);
        }
        if self.by_cpu[slot] == 0 {
            self.streams.push(Stream {
                cpu,
                list: SpillList::default(),
                runs: vec![Run { first: entry, at: 0, count: 1 }],
                last: entry,
            });
            self.by_cpu[slot] = self.streams.len() as u16;
            return Ok(());
        }
        let stream = &mut self.streams[usize::from(self.by_cpu[slot]) - 1];
        let before = stream.list.in_memory();
        let split = self.split && self.run_count < RUN_LIMIT;
        self.run_count += usize::from(stream.push(entry, split));
        self.in_memory += stream.list.in_memory() - before;
        if self.in_memory > MEMORY_LIMIT {
            self.spill_all()?;
        }
        Ok(())
    }

    fn spill_all(&mut self) -> io::Result<()> {
        let file = match &mut self.spill {
            Some(file) => file,
            empty => empty.insert(SpillFile::create()?),
        };
        for stream in &mut self.streams {
            stream.list.spill(file)?;
        }
        self.in_memory = 0;
        Ok(())
    }

    pub(crate) fn cursor(&self, stream: usize) -> Cursor {
        let runs = self.streams[stream].runs.iter().enumerate();
        let heap = runs.map(|(number, run)| {
            let walk = RunWalk { number, next: run.first, at: run.at, left: run.count };
            Reverse((self.key(&walk), walk))
        });
        Cursor { stream, heap: heap.collect() }
    }

    /// The smallest sequence number of the buffers behind the header's.
    pub(crate) fn first_sequence(&self) -> Option<i64> {
        let first_of = |stream| {
            let mut cursor = self.cursor(stream);
            let mut next = || self.next(&mut cursor).ok().flatten();
            let first = next()?;
            if first.offset == 0 { next() } else { Some(first) }
        };
        (0..self.stream_count()).filter_map(first_of).map(|entry| entry.sequence).min()
    }

    fn key(&self, walk: &RunWalk) -> i64 {
        if self.wrapped { walk.next.sequence } else { walk.number as i64 }
    }

    /// The next buffer of a stream.
    ///
    /// # Errors
    /// The temporary file could not be read.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> io::Result<Option<Entry>> {
        let Some(Reverse((_, mut walk))) = cursor.heap.pop() else { return Ok(None) };
        let entry = walk.next;
        walk.left -= 1;
        if walk.left > 0 {
            self.step(&self.streams[cursor.stream].list, &mut walk)?;
            cursor.heap.push(Reverse((self.key(&walk), walk)));
        }
        Ok(Some(entry))
    }

    fn step(&self, list: &SpillList, walk: &mut RunWalk) -> io::Result<()> {
        let mut bytes = [0; 30];
        let mut have = 0;
        while have < bytes.len() {
            match list.read(self.spill.as_ref(), walk.at + have as u64, &mut bytes[have..])? {
                0 => break,
                count => have += count,
            }
        }
        let mut at = 0;
        walk.next.index += get_varint(&bytes, &mut at);
        walk.next.offset += get_varint(&bytes, &mut at);
        let delta = get_varint(&bytes, &mut at);
        let delta = (delta >> 1) as i64 ^ -((delta & 1) as i64);
        walk.next.sequence = walk.next.sequence.wrapping_add(delta);
        walk.at += at as u64;
        Ok(())
    }
}

impl Stream {
    /// Whether a run was begun, which only happens where it may `split`.
    fn push(&mut self, entry: Entry, split: bool) -> bool {
        let last = std::mem::replace(&mut self.last, entry);
        if split && entry.sequence < last.sequence {
            self.runs.push(Run { first: entry, at: self.list.len(), count: 1 });
            return true;
        }
        let delta = entry.sequence.wrapping_sub(last.sequence);
        let mut bytes = [0; 30];
        let mut at = 0;
        put_varint(&mut bytes, &mut at, entry.index - last.index);
        put_varint(&mut bytes, &mut at, entry.offset - last.offset);
        put_varint(&mut bytes, &mut at, (delta << 1 ^ delta >> 63) as u64);
        self.list.push(&bytes[..at]);
        if let Some(run) = self.runs.last_mut() {
            run.count += 1;
        }
        false
    }
}

/// A position in a stream.
#[derive(Clone)]
pub(crate) struct Cursor {
    stream: usize,
    heap: BinaryHeap<Reverse<(i64, RunWalk)>>,
}

#[derive(Clone)]
struct RunWalk {
    number: usize,
    next: Entry,
    at: u64,
    left: u64,
}

impl PartialEq for RunWalk {
    fn eq(&self, other: &RunWalk) -> bool {
        self.number == other.number
    }
}

impl Eq for RunWalk {}

impl PartialOrd for RunWalk {
    fn partial_cmp(&self, other: &RunWalk) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RunWalk {
    fn cmp(&self, other: &RunWalk) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

fn put_varint(bytes: &mut [u8; 30], at: &mut usize, mut value: u64) {
    while value >= 0x80 {
        bytes[*at] = value as u8 | 0x80;
        *at += 1;
        value >>= 7;
    }
    bytes[*at] = value as u8;
    *at += 1;
}

fn get_varint(bytes: &[u8; 30], at: &mut usize) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    while let Some(&byte) = bytes.get(*at) {
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 || shift > 63 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(index: &Index, stream: usize) -> Vec<i64> {
        let mut cursor = index.cursor(stream);
        std::iter::from_fn(|| index.next(&mut cursor).unwrap()).map(|e| e.sequence).collect()
    }

    fn fill(index: &mut Index, sequences: &[i64]) {
        for (at, &sequence) in sequences.iter().enumerate() {
            let entry = Entry { index: at as u64, offset: at as u64 * 65_536, sequence };
            index.push((at % 2) as u16 * 1000, entry).unwrap();
        }
    }

    #[test]
    fn file_order_unless_wrapped() {
        let stored = [9, 10, 13, 12, 11, 16, 3, 4, 5, 6, 7, 8];
        let mut index = Index::new(true);
        fill(&mut index, &stored);
        assert_eq!(sequences(&index, 0), [9, 13, 11, 3, 5, 7]);
        index.wrapped = true;
        assert_eq!(sequences(&index, 0), [3, 5, 7, 9, 11, 13]);
        assert_eq!(sequences(&index, 1), [4, 6, 8, 10, 12, 16]);
        assert_eq!((index.cpu(0), index.cpu(1)), (0, 1000));
    }

    #[test]
    fn an_index_past_its_memory_spills_and_reads_the_same() {
        let mut index = Index::new(false);
        let count = 5_000_000u64;
        for at in 0..count {
            let entry = Entry { index: at, offset: at * 4096, sequence: (at as i64) ^ 1 };
            index.push((at % 3) as u16, entry).unwrap();
        }
        assert!(index.spill.is_some());
        assert!(index.in_memory <= MEMORY_LIMIT);
        let mut cursor = index.cursor(1);
        let mut expected = 1;
        while let Some(entry) = index.next(&mut cursor).unwrap() {
            assert_eq!((entry.index, entry.offset), (expected, expected * 4096));
            assert_eq!(entry.sequence, expected as i64 ^ 1);
            expected += 3;
        }
        assert_eq!(expected, 5_000_002);
    }
}
