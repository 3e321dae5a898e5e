//! The host's side of a pool: [`Reader`] copies committed records out of memory that it does not trust, merges them by time, and
//! publishes consumed positions.
//!
//! ```text
//!   drain ─► time_of_drain, barrier ─► bound (writes in flight) ─► watermark_of        watermark.rs, pass.rs
//!         ─► begin: lines, all_chunks, collect ─► streams                              chunks.rs, overflow.rs
//!         ─► run: the k-way merge, each record to the sink                             merge.rs, stream.rs
//!         ─► end: settle (consumed positions, released and revoked chunks)             chunks.rs
//!   advance ─► prepare: the journal ─► commit: the stores, as one step                 control.rs
//! ```

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::control::Control;
use crate::layout::*;

mod chunks;
mod drain;
mod ledger;
mod merge;
mod overflow;
mod pass;
mod quiet;
mod record;
mod site_table;
mod source;
mod stream;
mod watermark;

use chunks::{ChunkState, Still};
pub use drain::{DrainOptions, Drained};
pub use ledger::{Ledger, RegistrationLosses};
pub(crate) use merge::{put_first, second};
pub use record::{Record, RecordBytes, RecordSink, Run};
pub use site_table::SiteTable;
use source::Segment;
pub use source::Source;
use watermark::Blocked;
pub use watermark::{BUSY_PATIENCE, PATIENCE};
pub(crate) use watermark::{time_of_drain, wait_for_writers};

/// The reader of one pool. See the [crate documentation](crate) for the order of calls.
#[derive(Debug)]
pub struct Reader {
    control: Control,
    segments: Vec<Segment>,
    blocked: HashMap<u16, Blocked>,
    chunks: HashMap<u16, ChunkState>,
    /// A window buffer that is kept between drains; at most one, of a busy pool.
    windows: Vec<Vec<u8>>,
    /// A buffer for a segment's unit words.
    table: Vec<u8>,
    /// The view of the last look for writes in flight, if there was none.
    still: Option<Still>,
    /// The next sequence number by thread slot; a value beyond 32 bits: unknown.
    next_seq: Vec<u64>,
    fresh: bool,
    scan_time: u64,
    watermark: u64,
    late: [u64; SESSIONS],
    batch: u64,
    releases: u64,
    revocations: u64,
    stores: BTreeMap<u32, u64>,
    drained: [u64; SESSIONS],
    /// The counts at the last advance.
    drained_before: [u64; SESSIONS],
    gaps: u64,
    shared_seen: u64,
    shared_span: Option<(u32, u32)>,
    /// The number that writers publish when they wake the host, once they have been asked to.
    quiet: Option<u32>,
    is_quiet: bool,
}

impl Reader {
    /// A reader of the pool whose segment 0 is `first`. If an earlier host has used the control page, the reader continues behind that
    /// host's last [`advance`](Self::advance).
    ///
    /// # Errors
    /// `InvalidData`: the segment holds no pool of this version.
    pub fn new(control: Control, first: Source) -> io::Result<Reader> {
        let mut head = [0; 16];
        first.read(0, &mut head);
        let bad = |what: &'static str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if head[..8] != POOL_MAGIC.to_le_bytes() || head[8..12] != VERSION.to_le_bytes() {
            return bad("the memory holds no pool of this version");
        }
        let len = first.len() as usize;
        if len < DATA_OFFSET + BLOCK_SIZE {
            return bad("the memory is too small for a pool");
        }
        let units = ((len - DATA_OFFSET) / BLOCK_SIZE * BLOCK_UNITS).min(MAX_SEGMENT_UNITS);
        let memory = &control.memory;
        let word = |at: usize| memory.word(at).load(Ordering::Acquire);
        Ok(Reader {
            segments: vec![Segment { source: Arc::new(first), base: DATA_OFFSET, units }],
            blocked: HashMap::new(),
            chunks: HashMap::new(),
            windows: Vec::new(),
            table: Vec::new(),
            still: None,
            next_seq: Vec::new(),
            fresh: word(C_BATCH) == 0,
            scan_time: 0,
            watermark: word(C_WATERMARK),
            late: std::array::from_fn(|i| word(C_LATE + i * 8)),
            batch: word(C_BATCH),
            releases: word(C_RELEASES),
            // One more: an earlier host may have been killed between a chunk's word and the count.
            revocations: word(C_REVOCATIONS) + 1,
            stores: BTreeMap::new(),
            drained: std::array::from_fn(|i| word(C_DRAINED + i * 8)),
            drained_before: std::array::from_fn(|i| word(C_DRAINED + i * 8)),
            gaps: 0,
            shared_seen: 0,
            shared_span: None,
            quiet: None,
            is_quiet: false,
            control,
        })
    }

    /// Adds the segment that the provider's [`grow`](crate::Writer::grow) added, in the same order.
    ///
    /// # Errors
    /// `InvalidInput`: the segment is too small, or a 17th.
    pub fn add_segment(&mut self, source: Source) -> io::Result<()> {
        let units = (source.len() as usize / BLOCK_SIZE * BLOCK_UNITS).min(MAX_SEGMENT_UNITS);
        if units == 0 || self.segments.len() >= MAX_SEGMENTS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.segments.push(Segment { source: Arc::new(source), base: 0, units });
        Ok(())
    }

    /// The number of the next [`advance`](Self::advance)'s batch.
    pub fn next_batch(&self) -> u64 {
        self.batch + 1
    }

    /// The control page.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Records drained since the pool was made, by session slot of their masks. Of an earlier host, those of final batches.
    pub fn drained(&self) -> [u64; SESSIONS] {
        self.drained
    }

    /// Records counted late since the pool was made, by session slot.
    pub fn late(&self) -> [u64; SESSIONS] {
        self.late
    }

    /// The pool's site table, which can be read during a drain. It keeps the entries that it has copied.
    pub fn site_table(&self) -> SiteTable {
        SiteTable { source: self.segments[0].source.clone(), sites: HashMap::new(), size: 0 }
    }

    /// How often writers have found less than half of the pool free, by their own count.
    pub fn pressure(&self) -> u32 {
        let mut pressure = [0; 4];
        self.segments[0].source.read(P_PRESSURE, &mut pressure);
        u32::from_le_bytes(pressure)
    }

    /// Makes the drains since the last advance final as one step, and releases emptied chunks to the writers; the number of this batch.
    ///
    /// A host that is killed before this call drains the same records again; one that is killed in it or after it does not. A host
    /// that keeps session buffers in recoverable memory writes the batch number beside them, and compares it with
    /// [`Control::batch`] after a restart.
    pub fn advance(&mut self) -> u64 {
        let batch = self.batch + 1;
        self.prepare(batch);
        self.commit();
        batch
    }

    /// The first half of an [`advance`](Self::advance): the stores are in the journal, but not made.
    pub(crate) fn prepare(&mut self, batch: u64) {
        self.batch = batch;
        for slot in 0..SESSIONS {
            if self.late[slot] != 0 {
                self.store(C_LATE + slot * 8, self.late[slot]);
            }
            if self.drained[slot] != self.drained_before[slot] {
                self.store(C_DRAINED + slot * 8, self.drained[slot]);
            }
        }
        self.drained_before = self.drained;
        let mut stores: Vec<(u32, u64)> = std::mem::take(&mut self.stores).into_iter().collect();
        // Behind the chunks' words: a writer that sees a new count looks at its chunk's word, or for released chunks, once.
        if self.has_revoked() {
            stores.push((C_REVOCATIONS as u32, self.revocations));
        }
        stores.push((C_RELEASES as u32, self.releases));
        self.control.prepare(&stores, batch);
    }

    /// The second half of an [`advance`](Self::advance): makes the stores.
    pub(crate) fn commit(&mut self) {
        self.control.apply(self.batch);
    }

    /// Whether an [`advance`](Self::advance) would change anything but the batch's number.
    pub fn has_changed(&self) -> bool {
        !self.stores.is_empty() || self.drained != self.drained_before || self.has_revoked()
    }

    fn has_revoked(&self) -> bool {
        self.revocations != self.control.memory.word(C_REVOCATIONS).load(Ordering::Relaxed)
    }

    pub(super) fn store(&mut self, offset: usize, value: u64) {
        self.stores.insert(offset as u32, value);
    }

    pub(super) fn slots(&self) -> usize {
        let mut high = [0; 4];
        self.segments[0].source.read(P_SLOTS, &mut high);
        (u32::from_le_bytes(high) as usize).min(MAX_THREADS)
    }

    pub(super) fn position(&self, number: u16) -> (usize, usize) {
        let segment = usize::from(number) / MAX_SEGMENT_UNITS;
        let local = usize::from(number) % MAX_SEGMENT_UNITS;
        (segment, self.segments[segment].base + local * UNIT_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{CLOSING, RELEASED};
    use crate::sys::{Barrier, Memory, RawClock};
    use crate::{Admission, PoolOptions, Request, Writer};

    /// A pool of small chunks, whose first session takes every event.
    fn pool() -> (Control, Writer) {
        let memory = |size| Memory::heap(size).unwrap();
        let clock = RawClock::Monotonic;
        let control = Control::create(memory(CONTROL_SIZE), clock, Barrier::WriterFences).unwrap();
        let admission = Admission { open: true, largest_size: 65535, ..Admission::default() };
        control.set_admission(0, admission);
        let options = PoolOptions { chunk_size: 4096, prefault: usize::MAX };
        let pool = memory(options.memory_size());
        let writer = Writer::new(pool, control.memory().clone(), options, 0).unwrap();
        (control, writer)
    }

    fn reader_of(control: &Control, writer: &Writer) -> Reader {
        let source = Source::Mapped(writer.segment(0).unwrap().clone());
        Reader::new(control.clone(), source).unwrap()
    }

    /// P7: a writer that sees a new count of released chunks looks for them once. It finds them, since their words come before the
    /// count.
    #[test]
    fn the_release_count_is_stored_after_the_released_chunks() {
        let (control, writer) = pool();
        let mut reader = reader_of(&control, &writer);
        let request =
            Request { sessions: 1, payload_size: 1000, event_size: 1080, ..Request::default() };
        for _ in 0..8 {
            writer.write(&request, |record| record.put(&[1; 1000])).unwrap();
        }
        let options = DrainOptions { patience: PATIENCE, ..DrainOptions::default() };
        assert_eq!(reader.drain(&options, |_| ()).records, 8);
        reader.prepare(1);
        let word = |at: usize| control.memory.word(at).load(Ordering::Relaxed);
        let count = word(C_JOURNAL_COUNT) as usize;
        let entry = |index: usize| (word(C_JOURNAL + index * 16), word(C_JOURNAL + index * 16 + 8));
        let is_release = |(at, word): &(u64, u64)| {
            (C_CHUNKS..C_BITS).contains(&(*at as usize)) && (word >> 32) as u8 == RELEASED as u8
        };
        assert!((0..count).map(entry).any(|entry| is_release(&entry)));
        let (last, releases) = entry(count - 1);
        assert_eq!(last, C_RELEASES as u64);
        assert!(releases > 0 && word(C_RELEASES) == 0);
        reader.commit();
        assert_eq!(word(C_RELEASES), releases);
    }

    /// P8: a host may be killed between the word of a revoked chunk and the count of revocations. The next one counts before it releases the
    /// chunk, so that the chunk's thread looks at the word.
    #[test]
    fn the_next_host_counts_a_revocation_that_a_killed_one_did_not_count() {
        let (control, writer) = pool();
        let request = Request { sessions: 1, event_size: 80, ..Request::default() };
        let reader = || reader_of(&control, &writer);
        let drain = |reader: &mut Reader| {
            let options = DrainOptions { patience: PATIENCE, ..DrainOptions::default() };
            let records = reader.drain(&options, |_| ()).records;
            reader.advance();
            records
        };
        writer.write(&request, |_| ()).unwrap();
        assert_eq!(drain(&mut reader()), 1);
        let mut units = (C_CHUNKS..C_BITS).step_by(8).map(|at| control.memory.word(at));
        let chunk = units.rfind(|word| word.load(Ordering::Relaxed) != 0).unwrap();
        let phase = || (chunk.load(Ordering::Relaxed) >> 32) as u8;
        chunk.fetch_or(u64::from(CLOSING) << 32, Ordering::Relaxed);

        let count = || control.memory.word(C_REVOCATIONS).load(Ordering::Relaxed);
        let before = count();
        let mut next = reader();
        assert!(next.has_changed());
        assert_eq!((drain(&mut next), phase()), (0, CLOSING as u8));
        assert!(count() > before);
        assert_eq!((drain(&mut next), phase()), (0, RELEASED as u8));
        writer.write(&request, |_| ()).unwrap();
        assert_eq!(drain(&mut next), 1);
    }
}
