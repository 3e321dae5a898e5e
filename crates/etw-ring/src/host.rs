//! The host's side: copies committed records out of a pool it does not trust, merges them by time, and says what it has
//! consumed.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::layout::*;
use crate::proto::{self, CLOSING, Head, Phase, RELEASED, Shared, Unit};
use crate::site::SITE_COMMITTED;
use crate::sys::{Barrier, Memory, RawClock};

/// How long the host waits for one write in flight; what commits later is late.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// Bytes of window buffers of a drain, whatever the number of threads (one largest record more for each that needs it).
const WINDOWS: usize = 2 << 20;
/// Bytes of records in one drain from which on a window is kept for the next one: of hundreds of programs few write so much.
const KEEP_WINDOW: u64 = 64 << 10;

/// Where a host reads a segment from.
#[derive(Debug)]
pub enum Source {
    /// Memory mapped here: a private session's own pool, or a file that was a pool.
    Mapped(Arc<Memory>),
    /// A descriptor, read with `pread`: punched holes then cost nothing, and nothing raises SIGBUS.
    #[cfg(unix)]
    File(std::fs::File),
}

impl Source {
    /// A segment received from another process.
    ///
    /// # Errors
    /// See [`check_pool_fd`](crate::check_pool_fd).
    #[cfg(target_os = "linux")]
    pub fn received(fd: std::os::fd::OwnedFd) -> io::Result<Source> {
        use std::os::fd::AsFd;
        crate::sys::check_pool_fd(fd.as_fd())?;
        Ok(Source::File(fd.into()))
    }

    fn len(&self) -> u64 {
        match self {
            Source::Mapped(memory) => memory.len() as u64,
            #[cfg(unix)]
            Source::File(file) => file.metadata().map_or(0, |m| m.len()),
        }
    }

    /// What cannot be read is zeros.
    fn read(&self, offset: usize, out: &mut [u8]) {
        match self {
            Source::Mapped(memory) => {
                if offset.checked_add(out.len()).is_some_and(|end| end <= memory.len()) {
                    memory.read(offset, out);
                } else {
                    out.fill(0);
                }
            }
            #[cfg(unix)]
            Source::File(file) => {
                use std::os::unix::fs::FileExt;
                if file.read_exact_at(out, offset as u64).is_err() {
                    out.fill(0);
                }
            }
        }
    }
}

/// The static metadata that a pool's records name by id.
#[derive(Debug)]
pub struct SiteTable {
    source: Arc<Source>,
    sites: HashMap<u32, Option<Box<[u8]>>>,
    size: usize,
}

impl SiteTable {
    /// The metadata of a site: copied and checked the first time, and the copy kept; later changes in the pool are not
    /// seen. `None`: no such entry, or more than the table may hold.
    pub fn get(&mut self, id: u32) -> Option<&[u8]> {
        if id == 0 || id as usize >= MAX_SITES {
            return None;
        }
        if !self.sites.contains_key(&id) {
            let mut word = [0; 8];
            self.source.read(P_SITES + id as usize * 8, &mut word);
            let word = u64::from_le_bytes(word);
            let (offset, size) = (word as u32 as usize, (word >> 32) as usize & 0x7fff_ffff);
            if word & SITE_COMMITTED == 0 {
                // Not remembered: an entry that is not there yet may come, though no honest record names it now.
                return None;
            }
            let copied = size <= crate::MAX_SITE_SIZE
                && offset + size <= SITE_BLOB_SIZE
                && self.size + size <= SITE_BLOB_SIZE;
            let copy = copied.then(|| {
                let mut copy = vec![0; size].into_boxed_slice();
                self.source.read(P_SITE_BLOB + offset, &mut copy);
                copy
            });
            self.size += copy.as_ref().map_or(0, |c| c.len());
            self.sites.insert(id, copy);
        }
        self.sites.get(&id)?.as_deref()
    }
}

#[derive(Debug)]
struct Segment {
    source: Arc<Source>,
    base: usize,
    units: usize,
}

/// One record, copied out of the pool and checked for its bounds. Everything in it is the provider's claim.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Raw time.
    pub time: u64,
    /// The writer's kind of record.
    pub kind: u8,
    /// Sessions that admitted it, as the writer says.
    pub sessions: u8,
    /// Processor.
    pub cpu: u16,
    /// Thread id, in the writer's namespace.
    pub tid: u32,
    /// Registration it was written through.
    pub registration: u32,
    /// Site id, 0 for inline metadata; see [`SiteTable`].
    pub site: u32,
    /// Sequence number in its stream.
    pub seq: u32,
    /// The caller's word.
    pub user: u32,
    /// The admission epoch it was admitted under.
    pub epoch: u16,
    /// Bytes of inline metadata at the payload's start; at most its length.
    pub metadata_size: u16,
    /// Did it come through an overflow chunk?
    pub overflow: bool,
    /// Inline metadata and payload.
    pub payload: &'a [u8],
}

/// How to drain.
#[derive(Default)]
pub struct DrainOptions<'a> {
    /// How long this call may wait for writes in flight. Zero: it takes what lies before the oldest of them, and a writer
    /// that stands still for [`PATIENCE`] is passed over by later calls.
    pub patience: Duration,
    /// The provider's process is gone: nothing is in flight, whatever its memory says.
    pub ended: bool,
    /// Instead of the time now: for a pool found in a file, whose clock may be another boot's.
    pub until: Option<u64>,
    /// Take chunks back from threads that have not written for so long.
    pub reclaim_idle: Option<Duration>,
    /// Does this thread of the provider (id as in its namespace) still run?
    pub alive: Option<&'a dyn Fn(u32) -> bool>,
}

/// What one drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Records given to the sink.
    pub records: u64,
    /// Every record with a time below this one has been given to the sink or counted as late.
    pub watermark: u64,
    /// Records that came after their time had been passed, dropped.
    pub late: u64,
    /// Places where the memory cannot be what our writer makes: bytes after them, up to the committed offset, were
    /// skipped.
    pub hostile: u64,
    /// Writes in flight that were not waited for any longer.
    pub given_up: u64,
    /// Chunks whose owner is gone with a write begun and not committed.
    pub torn: u64,
    /// The kernel refused the barrier: the watermark is a guess.
    pub no_barrier: bool,
    /// The sink had no room: there is more.
    pub stopped: bool,
    /// There are records that were not given out: behind the watermark, or because the sink had no room.
    pub is_rest: bool,
    /// Bytes of pool that the records took.
    pub size: u64,
}

/// The writers' own count: their claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Attempted writes by session slot.
    pub attempted: [u64; SESSIONS],
    /// Losses by cause and session slot. Each thread's counters have 32 bits.
    pub lost: [[u64; SESSIONS]; CAUSES],
}

impl Ledger {
    /// Losses of one cause in one session slot.
    pub fn lost(&self, cause: Cause, slot: usize) -> u64 {
        self.lost[cause as usize][slot]
    }

    /// Losses of a session slot.
    pub fn lost_total(&self, slot: usize) -> u64 {
        self.lost.iter().map(|by_slot| by_slot[slot]).sum()
    }
}

/// The losses of one registration, as its writers claim them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationLosses {
    /// As records name it.
    pub registration: u32,
    /// By cause and session slot; counters of 32 bits, which wrap.
    pub lost: [[u32; SESSIONS]; CAUSES],
}

#[derive(Clone, Copy, Debug)]
struct Blocked {
    head: Head,
    /// The write in flight has a time of at least this.
    bound: u64,
    first_seen: Instant,
}

#[derive(Debug)]
struct ChunkState {
    generation: u32,
    consumed: u32,
    phase: u32,
    /// The batch whose advance published CLOSING.
    closing_batch: u64,
    end: u32,
    changed: Instant,
    /// Its owner was found gone.
    is_orphan: bool,
    /// Overflow chunk: consumed entries, entries in flight.
    bits: Vec<u64>,
    pending: BTreeMap<u32, (u64, Instant)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LineView {
    head: Head,
    since: u64,
    tid: u32,
}

/// Reads one pool. See the [crate documentation](crate) for the order of calls.
#[derive(Debug)]
pub struct Reader {
    control: Control,
    segments: Vec<Segment>,
    blocked: HashMap<u16, Blocked>,
    chunks: HashMap<u16, ChunkState>,
    /// At most one, of a busy pool.
    windows: Vec<Vec<u8>>,
    /// For a segment's unit words.
    table: Vec<u8>,
    /// By thread slot; beyond 32 bits: not known.
    next_seq: Vec<u64>,
    fresh: bool,
    scan_time: u64,
    watermark: u64,
    late: [u64; SESSIONS],
    batch: u64,
    releases: u64,
    stores: BTreeMap<u32, u64>,
    drained: [u64; SESSIONS],
    /// At the last advance.
    drained_before: [u64; SESSIONS],
    gaps: u64,
    shared_seen: u64,
    shared_span: Option<(u32, u32)>,
    /// What writers ring with, once they have been asked to.
    quiet: Option<u32>,
    is_quiet: bool,
}

/// A drain in progress: what is merged, and how far it has come.
#[derive(Debug)]
pub(crate) struct Pass {
    lines: Vec<LineView>,
    chunks: Vec<(u16, Unit)>,
    streams: Vec<Stream>,
    /// The next record's time and sequence number in each stream that has one.
    heap: BinaryHeap<Reverse<(u64, u32, usize)>>,
    window: usize,
    spare: Vec<Vec<u8>>,
    pub(crate) watermark: u64,
    /// The time of the last record given out.
    pub(crate) last: u64,
    drained: Tally,
    pub(crate) out: Drained,
}

/// Records by the sessions that admitted them: of one mask follow many.
#[derive(Debug, Default)]
struct Tally {
    mask: u8,
    /// Of this mask, and not yet below.
    count: u64,
    records: u64,
    by_slot: [u64; SESSIONS],
}

impl Tally {
    #[inline(always)]
    fn count(&mut self, mask: u8) {
        if mask != self.mask {
            self.turn(mask);
        }
        self.count += 1;
    }

    #[inline(never)]
    fn turn(&mut self, mask: u8) {
        add(&mut self.by_slot, self.mask, self.count);
        self.records += self.count;
        (self.mask, self.count) = (mask, 0);
    }

    fn records(&self) -> u64 {
        self.records + self.count
    }

    fn by_slot(&self) -> [u64; SESSIONS] {
        let mut by_slot = self.by_slot;
        add(&mut by_slot, self.mask, self.count);
        by_slot
    }
}

/// Adds `count` to the slots of a mask.
fn add(by_slot: &mut [u64; SESSIONS], mask: u8, count: u64) {
    let slots = by_slot.iter_mut().enumerate();
    slots.filter(|(slot, _)| mask >> slot & 1 != 0).for_each(|(_, sum)| *sum += count);
}

impl Pass {
    /// The time of the next record, if it lies below the watermark.
    pub(crate) fn next_time(&self) -> Option<u64> {
        let Reverse((time, ..)) = self.heap.peek()?;
        (*time < self.watermark).then_some(*time)
    }
}

/// The time of a drain, and a barrier behind it: a write that is announced from now on has a later time.
pub(crate) fn time_of_drain(clock: RawClock, barrier: Barrier, no_barrier: &mut bool) -> u64 {
    let now = clock.now();
    *no_barrier = !barrier.issue();
    // So that a write announced from here on has a time above `now`, at any resolution of the clock.
    while clock.now() <= now {
        std::hint::spin_loop();
    }
    now
}

/// Asks `bound` until nothing is in flight, or the patience is at its end.
pub(crate) fn wait_for_writers(
    patience: Duration,
    now: u64,
    mut bound: impl FnMut(bool) -> u64,
) -> u64 {
    let start = Instant::now();
    // A wait of the full patience ends with every writer heard or given up, a little after it began.
    let limit = match patience {
        p if p >= PATIENCE => p + Duration::from_millis(10),
        p => p,
    };
    let mut pause = Duration::from_micros(20);
    let mut again = false;
    loop {
        let bound = bound(again);
        if bound > now || start.elapsed() >= limit {
            return bound;
        }
        again = true;
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

#[derive(Debug)]
struct Stream {
    segment: usize,
    unit: u16,
    slot: Option<u16>,
    /// Position and end in the chunk; the chunk's offset in its segment.
    at: u32,
    end: u32,
    base: usize,
    /// A copy of the chunk from `window_at` on, `filled` bytes of it.
    window: Vec<u8>,
    filled: usize,
    window_at: u32,
    refs: Vec<Ref>,
    next_ref: usize,
    /// Of the chunks of the next references.
    copies: Vec<Copied>,
    /// The thread's next sequence number, from the first record on until nothing more comes.
    expected: Option<u32>,
}

/// What follows the first.
pub(crate) fn second<T: Ord>(heap: &BinaryHeap<T>) -> Option<&T> {
    // The children of the root.
    let all = heap.as_slice();
    all.get(1).max(all.get(2))
}

/// In place of the first, wherever it then belongs.
pub(crate) fn put_first<T: Ord>(heap: &mut BinaryHeap<T>, value: T) {
    if let Some(mut first) = heap.peek_mut() {
        *first = value;
    }
}

/// Why a stream is not read on.
enum End {
    /// Nothing of it lies below the watermark.
    Empty,
    /// Another stream's record comes first; the time and sequence number of this one's.
    NotYet(u64, u32),
    /// The sink would not have the record of this time.
    NoRoom(u64),
}

impl Stream {
    /// The next record, if all of it is in the window.
    #[inline(always)]
    fn whole(&self) -> Option<(Header, &[u8])> {
        let at = self.at.wrapping_sub(self.window_at) as usize;
        // What is filled ends at the chunk's end at most, far below 4 GiB.
        let rest = self.window.get(at..self.filled)?;
        let (head, payload) = rest.split_first_chunk()?;
        let header = Header::read(head);
        header.room(rest.len() as u32)?;
        Some((header, payload.get(..header.size() as usize)?))
    }

    fn give_back(&mut self) -> Vec<u8> {
        self.filled = 0;
        std::mem::take(&mut self.window)
    }
}

/// Bytes of an overflow chunk that are copied at a time: a record by itself would be a system call.
const COPY: u32 = 16 << 10;
/// Overflow chunks of which a part is held; writers on that many processors may use one each.
const COPIES: usize = 16;

/// A part of an overflow chunk, copied.
#[derive(Debug, Default)]
struct Copied {
    unit: u16,
    at: u32,
    bytes: Vec<u8>,
}

impl Copied {
    /// So many bytes at `offset` of the chunk at `base`; what is copied ends at `end` at most.
    fn get(&mut self, source: &Source, base: usize, (offset, len): (u32, u32), end: u32) -> &[u8] {
        let have = self.at + self.bytes.len() as u32;
        if offset < self.at || offset + len > have {
            let size = len.max(COPY.min(end.saturating_sub(offset)));
            self.bytes.resize(size as usize, 0);
            self.at = offset;
            source.read(base + offset as usize, &mut self.bytes);
        }
        let at = (offset - self.at) as usize;
        &self.bytes[at..at + len as usize]
    }
}

#[derive(Clone, Copy, Debug)]
struct Ref {
    time: u64,
    seq: u32,
    unit: u16,
    index: u32,
    offset: u32,
    room: u32,
    /// Of the chunk.
    end: u32,
}

/// A record's header as words: they go through registers, where bytes would be copied before each look.
#[derive(Clone, Copy)]
struct Header([u64; RECORD_HEADER_SIZE / 8]);

impl Header {
    #[inline]
    fn read(bytes: &[u8; RECORD_HEADER_SIZE]) -> Header {
        let word = |at| le64(bytes, at);
        Header([word(0), word(8), word(16), word(24), word(32)])
    }
    #[inline]
    fn size(&self) -> u32 {
        self.0[0] as u32
    }
    #[inline]
    fn time(&self) -> u64 {
        self.0[1]
    }
    #[inline]
    fn seq(&self) -> u32 {
        (self.0[2] >> 32) as u32
    }
    #[inline]
    fn metadata_size(&self) -> u16 {
        self.0[4] as u16
    }
    /// The room it takes, if that is possible in `left` bytes.
    fn room(&self, left: u32) -> Option<u32> {
        let size = self.size() as usize;
        if size > MAX_PAYLOAD_SIZE || u32::from(self.metadata_size()) > self.size() {
            return None;
        }
        let room = record_room(size) as u32;
        (room <= left).then_some(room)
    }
    #[inline]
    fn record<'a>(&self, payload: &'a [u8], overflow: bool) -> Record<'a> {
        let [first, time, third, fourth, fifth] = self.0;
        Record {
            time,
            kind: (first >> 32) as u8,
            sessions: (first >> 40) as u8,
            cpu: (first >> 48) as u16,
            tid: (fourth >> 32) as u32,
            registration: fourth as u32,
            site: third as u32,
            seq: self.seq(),
            user: (fifth >> 32) as u32,
            epoch: (fifth >> 16) as u16,
            metadata_size: self.metadata_size(),
            overflow,
            payload,
        }
    }
}

impl Reader {
    /// Reads the pool whose segment 0 is `first`. With a control that another host has used before, it goes on where that
    /// one's last [`advance`](Self::advance) left off.
    ///
    /// # Errors
    /// A segment that holds no pool of this version.
    pub fn new(control: Control, first: Source) -> io::Result<Reader> {
        let mut head = [0; 16];
        first.read(0, &mut head);
        let bad = |what: &'static str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        if head[..8] != POOL_MAGIC.to_le_bytes() || head[8..12] != VERSION.to_le_bytes() {
            return bad("not a pool of version 1");
        }
        let len = first.len() as usize;
        if len < DATA_OFFSET + BLOCK_SIZE {
            return bad("pool memory too small");
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
            next_seq: Vec::new(),
            fresh: word(C_BATCH) == 0,
            scan_time: 0,
            watermark: word(C_WATERMARK),
            late: std::array::from_fn(|i| word(C_LATE + i * 8)),
            batch: word(C_BATCH),
            releases: word(C_RELEASES),
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

    /// Adds the segment that the provider's [`grow`](crate::Writer::grow) added; in the same order.
    ///
    /// # Errors
    /// Too small, or one too many.
    pub fn add_segment(&mut self, source: Source) -> io::Result<()> {
        let units = (source.len() as usize / BLOCK_SIZE * BLOCK_UNITS).min(MAX_SEGMENT_UNITS);
        if units == 0 || self.segments.len() >= MAX_SEGMENTS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.segments.push(Segment { source: Arc::new(source), base: 0, units });
        Ok(())
    }

    /// The number that the next [`advance`](Self::advance) gives its batch.
    pub fn next_batch(&self) -> u64 {
        self.batch + 1
    }

    /// The host's side of the pool.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Records drained since the pool was made, by session slot of their masks; of a host before, those of final batches.
    pub fn drained(&self) -> [u64; SESSIONS] {
        self.drained
    }

    /// Records counted late since the pool was made, by session slot.
    pub fn late(&self) -> [u64; SESSIONS] {
        self.late
    }

    /// Attempts that are proven, by missing sequence numbers between records that were drained, not to be in the pool.
    pub fn gaps(&self) -> u64 {
        let shared = match self.shared_span {
            Some((first, last)) => {
                (u64::from(last.wrapping_sub(first)) + 1).saturating_sub(self.shared_seen)
            }
            None => 0,
        };
        self.gaps + shared
    }

    /// The writers' counters, as they claim them.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::default();
        let source = &self.segments[0].source;
        let mut shared = [0; SESSIONS * 8 * (1 + CAUSES)];
        source.read(P_SHARED_ATTEMPTED, &mut shared);
        let mut words =
            shared.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()));
        for slot in 0..SESSIONS {
            ledger.attempted[slot] = words.next().unwrap_or(0);
        }
        for cause in 0..CAUSES {
            for slot in 0..SESSIONS {
                ledger.lost[cause][slot] = words.next().unwrap_or(0);
            }
        }
        let mut counters = vec![0; self.slots() * COUNTERS_SIZE];
        source.read(P_COUNTERS, &mut counters);
        for counters in counters.chunks_exact(COUNTERS_SIZE) {
            for slot in 0..SESSIONS {
                let claimed = le64(counters, slot * 8);
                ledger.attempted[slot] = ledger.attempted[slot].wrapping_add(claimed);
                for cause in 0..CAUSES {
                    let at = SESSIONS * 8 + (cause * SESSIONS + slot) * 4;
                    let claimed = u64::from(le32(counters, at));
                    ledger.lost[cause][slot] = ledger.lost[cause][slot].wrapping_add(claimed);
                }
            }
        }
        let mut lines = vec![0; self.slots() * LINE_SIZE];
        source.read(P_LINES, &mut lines);
        for word in lines
            .chunks_exact(LINE_SIZE)
            .flat_map(|line| (0..TOGETHER).map(|n| le64(line, LINE_TOGETHER + n * 8)))
        {
            let (sessions, count) =
                (word >> TOGETHER_COUNT_BITS, word & ((1 << TOGETHER_COUNT_BITS) - 1));
            for slot in (0..SESSIONS).filter(|slot| sessions & 1 << slot != 0) {
                ledger.attempted[slot] = ledger.attempted[slot].wrapping_add(count);
            }
        }
        ledger
    }

    /// Whose the losses of [`ledger`](Self::ledger) were, where that is known: at most 256 registrations, and of a killed writer one loss
    /// less than there.
    pub fn losses_by_registration(&self) -> Vec<RegistrationLosses> {
        let mut table = vec![0; BLAME_ENTRIES * BLAME_SIZE];
        self.segments[0].source.read(P_BLAME, &mut table);
        let entries = table.chunks_exact(BLAME_SIZE).filter(|entry| le32(entry, 0) != 0);
        let read = |entry: &[u8]| {
            let count = |cause: usize, slot: usize| {
                le32(entry, BLAME_COUNTS + (cause * SESSIONS + slot) * 4)
            };
            RegistrationLosses {
                registration: le32(entry, 0),
                lost: std::array::from_fn(|cause| std::array::from_fn(|slot| count(cause, slot))),
            }
        };
        entries.map(read).collect()
    }

    /// The pool's site table, to be read beside a drain. It keeps what it has copied.
    pub fn site_table(&self) -> SiteTable {
        SiteTable { source: self.segments[0].source.clone(), sites: HashMap::new(), size: 0 }
    }

    /// Gives every record below the watermark to `sink`, in order of time, and returns what was found.
    ///
    /// The watermark is the smaller of the time now and the start of the oldest write in flight. Nothing is consumed
    /// until [`advance`](Self::advance).
    ///
    /// # Loss
    /// A record that commits after the watermark passed its time is dropped and counted as late; a place that no writer of
    /// ours can have made ends its chunk, counted as hostile.
    pub fn drain(
        &mut self,
        options: &DrainOptions<'_>,
        mut sink: impl FnMut(&Record<'_>),
    ) -> Drained {
        self.drain_while(options, |record| {
            sink(record);
            ControlFlow::Continue(())
        })
    }

    /// [`drain`](Self::drain) to a sink that may have no room: where it answers `Break`, that record and those behind it
    /// stay where they are, for the next drain.
    pub fn drain_while(
        &mut self,
        options: &DrainOptions<'_>,
        mut sink: impl FnMut(&Record<'_>) -> ControlFlow<()>,
    ) -> Drained {
        let mut out = Drained::default();
        let now = match options.until {
            Some(until) => until,
            None => time_of_drain(self.control.clock, self.control.barrier, &mut out.no_barrier),
        };
        let ended = options.ended;
        let bound = wait_for_writers(options.patience, now, |again| {
            self.bound(now, ended, again, &mut out.given_up)
        });
        let watermark = self.watermark_of(now, bound);
        let mut pass = self.begin(watermark, options, out);
        self.run(&mut pass, u64::MAX, &mut sink);
        self.end(pass, options)
    }

    /// The watermark of a drain at `now` whose oldest write in flight has a time of at least `bound`.
    pub(crate) fn watermark_of(&mut self, now: u64, bound: u64) -> u64 {
        self.scan_time = now;
        bound.min(now.saturating_add(1)).max(self.watermark)
    }

    /// A second look, after the watermark is known: what was in flight at the first and decided nothing is committed.
    pub(crate) fn begin(
        &mut self,
        watermark: u64,
        options: &DrainOptions<'_>,
        out: Drained,
    ) -> Pass {
        let mut pass = Pass {
            lines: self.lines(),
            chunks: Vec::new(),
            streams: Vec::new(),
            heap: BinaryHeap::new(),
            window: 0,
            spare: std::mem::take(&mut self.windows),
            watermark,
            last: 0,
            drained: Tally::default(),
            out,
        };
        let (chunks, hostile) = self.all_chunks();
        pass.chunks = chunks;
        let mut refs = Vec::new();
        let Pass { lines, chunks, streams, out, window, heap, .. } = &mut pass;
        out.hostile += hostile;
        self.collect((lines, chunks), watermark, options, streams, &mut refs, out);
        if !refs.is_empty() {
            refs.sort_unstable_by_key(|r| (r.time, r.seq));
            streams.push(Stream {
                segment: 0,
                unit: 0,
                slot: None,
                at: 0,
                end: 0,
                base: 0,
                window: Vec::new(),
                filled: 0,
                window_at: 0,
                refs,
                next_ref: 0,
                copies: Vec::new(),
                expected: None,
            });
        }
        *window = (WINDOWS / streams.len().max(1)).clamp(1024, 64 * 1024);
        let mut first = Vec::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            // The first look is for the header only; a window is filled when the stream's turn comes.
            stream.window = first;
            if let Some(header) = self.peek(stream, RECORD_HEADER_SIZE, out) {
                heap.push(Reverse((header.time(), header.seq(), index)));
            }
            first = stream.give_back();
        }
        pass
    }

    /// What the records that were given out come to.
    pub(crate) fn end(&mut self, mut pass: Pass, options: &DrainOptions<'_>) -> Drained {
        let out = &mut pass.out;
        out.is_rest = out.stopped || !pass.heap.is_empty();
        out.records = pass.drained.records();
        for (sum, drained) in self.drained.iter_mut().zip(pass.drained.by_slot()) {
            *sum += drained;
        }
        if out.size >= KEEP_WINDOW {
            let left = pass.streams.iter_mut().map(Stream::give_back);
            self.windows.extend(pass.spare.drain(..).chain(left).find(|window| !window.is_empty()));
        }
        for stream in &mut pass.streams {
            self.expect(stream);
            if let Some(state) = self.chunks.get_mut(&stream.unit)
                && stream.slot.is_some()
            {
                state.consumed = stream.at;
            }
        }
        self.settle((&pass.lines, &pass.chunks), options, out);
        self.watermark = pass.watermark;
        self.store(C_WATERMARK, pass.watermark);
        out.watermark = pass.watermark;
        pass.out
    }

    /// Makes final what the drains since the last advance consumed, as one step, and gives emptied chunks back to the
    /// writers; the number of this batch. A host killed before it drains the same records again, one killed in it or after
    /// it does not: whoever keeps session buffers in recoverable memory writes the batch number beside them and compares
    /// it with [`Control::batch`] after a restart.
    pub fn advance(&mut self) -> u64 {
        let batch = self.batch + 1;
        self.prepare(batch);
        self.commit();
        batch
    }

    /// The first half of an [`advance`](Self::advance): written down, not made.
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
        // Behind the chunks' words: a writer that sees it looks at them, and not again until it rises.
        stores.push((C_RELEASES as u32, self.releases));
        self.control.prepare(&stores, batch);
    }

    /// The second half.
    pub(crate) fn commit(&mut self) {
        self.control.apply(self.batch);
    }

    /// From a quiet pool nothing is drained; its next write wakes the host instead. To be asked again until it says so: a
    /// write that had begun before it was asked may still be on its way.
    ///
    /// Returns whether the pool is quiet: nothing was drained by the last drain, nothing is in flight.
    pub fn be_quiet(&mut self, last: &Drained, in_flight: bool) -> bool {
        match self.quiet {
            None => {
                self.quiet = Some(self.control.ask_to_ring());
                self.is_quiet = false;
            }
            // A drain has come after it was asked, and found nothing.
            Some(_) if last.records == 0 && !last.is_rest && !in_flight && !self.is_rung() => {
                self.is_quiet = true;
                // There may be hundreds.
                self.table = Vec::new();
            }
            Some(_) => self.wake(),
        }
        self.is_quiet
    }

    /// Is it not to be drained?
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Has a writer rung since the pool is quiet?
    pub fn is_rung(&self) -> bool {
        let mut rung = [0; 4];
        self.segments[0].source.read(P_RUNG, &mut rung);
        std::sync::atomic::fence(Ordering::Acquire);
        self.quiet == Some(u32::from_le_bytes(rung))
    }

    /// For a control that a host before left: whether its pool was quiet then is not asked.
    pub fn wake_after_restart(&mut self) {
        self.control.stop_asking();
    }

    /// It is drained again.
    pub fn wake(&mut self) {
        if self.quiet.take().is_some() {
            self.control.stop_asking();
        }
        self.is_quiet = false;
    }

    /// For a quiet pool that nobody has rung for, after the barrier of a drain at `now`: no record of a time up to `now` will
    /// come from it.
    pub(crate) fn nothing_until(&mut self, now: u64) {
        self.scan_time = now;
        self.watermark = self.watermark.max(now);
    }

    /// Records before `floor` were drained from other pools.
    pub(crate) fn not_before(&mut self, floor: u64) {
        self.watermark = self.watermark.max(floor);
    }

    /// How often writers have found less than half of the pool free, as they claim.
    pub fn pressure(&self) -> u32 {
        let mut pressure = [0; 4];
        self.segments[0].source.read(P_PRESSURE, &mut pressure);
        u32::from_le_bytes(pressure)
    }

    fn store(&mut self, offset: usize, value: u64) {
        self.stores.insert(offset as u32, value);
    }

    fn slots(&self) -> usize {
        let mut high = [0; 4];
        self.segments[0].source.read(P_SLOTS, &mut high);
        (u32::from_le_bytes(high) as usize).min(MAX_THREADS)
    }

    fn lines(&self) -> Vec<LineView> {
        let mut bytes = vec![0; self.slots() * LINE_SIZE];
        self.segments[0].source.read(P_LINES, &mut bytes);
        // Acquire for what is read next: the bytes below the committed offsets, and final offsets of chunks that are no
        // longer named.
        std::sync::atomic::fence(Ordering::Acquire);
        bytes
            .chunks_exact(LINE_SIZE)
            .map(|line| LineView {
                head: Head(le64(line, 0)),
                since: le64(line, 8),
                tid: le32(line, 16),
            })
            .collect()
    }

    fn shared_words(&self) -> Vec<Option<Shared>> {
        let mut bytes = vec![0; OVERFLOW_WORDS * 64];
        self.segments[0].source.read(P_OVERFLOW, &mut bytes);
        std::sync::atomic::fence(Ordering::Acquire);
        bytes.chunks_exact(64).map(|line| Shared::unpack(le64(line, 0))).collect()
    }

    /// The chunks: unit, word; and how many words are hostile. No two overlap, whatever the words say.
    fn all_chunks(&mut self) -> (Vec<(u16, Unit)>, u64) {
        let (mut found, mut hostile) = (Vec::new(), 0);
        for (number, segment) in self.segments.iter().enumerate() {
            // Zeros are written once into what it grows by, not before each look.
            self.table.resize((segment.units * 8).max(self.table.len()), 0);
            let table = &mut self.table[..segment.units * 8];
            let at = P_UNITS + number * MAX_SEGMENT_UNITS * 8;
            self.segments[0].source.read(at, table);
            std::sync::atomic::fence(Ordering::Acquire);
            let (words, _) = table.as_chunks::<8>();
            let mut local = 0;
            // Nearly all are free.
            while let Some(free) = words[local..].iter().position(|word| !Unit::is_free(word)) {
                local += free;
                let unit = Unit::unpack(u64::from_le_bytes(words[local]));
                let chunk = unit.map(|unit| (unit, CLASS_UNITS[unit.class as usize]));
                local += match chunk {
                    Some((unit, size))
                        if local.is_multiple_of(size) && local + size <= words.len() =>
                    {
                        found.push(((number * MAX_SEGMENT_UNITS + local) as u16, unit));
                        size
                    }
                    _ => {
                        hostile += 1;
                        1
                    }
                };
            }
        }
        (found, hostile)
    }

    /// The first time at which a record may still be missing; above `now` when none can.
    pub(crate) fn bound(&mut self, now: u64, ended: bool, again: bool, given_up: &mut u64) -> u64 {
        if ended {
            return u64::MAX;
        }
        *given_up = 0;
        // A write first seen in flight now began after the scan before this one; in a repeated look, after `now`.
        let since_scan = if again { now } else { self.scan_time }.saturating_add(1);
        let mut bound = u64::MAX;
        let mut judge = |at_least: u64, first_seen: Instant| {
            if at_least <= now {
                if first_seen.elapsed() >= PATIENCE {
                    *given_up += 1;
                } else {
                    bound = bound.min(at_least);
                }
            }
        };
        for (slot, line) in self.lines().into_iter().enumerate() {
            if !line.head.is_writing() {
                self.blocked.remove(&(slot as u16));
                continue;
            }
            let blocked = self.blocked.entry(slot as u16).or_insert_with(|| Blocked {
                head: line.head,
                bound: since_scan,
                first_seen: Instant::now(),
            });
            if blocked.head != line.head {
                *blocked =
                    Blocked { head: line.head, bound: since_scan, first_seen: Instant::now() };
            }
            // `since` may be an earlier write's: then it is smaller, and harmless.
            judge(blocked.bound.max(line.since.min(now)), blocked.first_seen);
        }
        let words = OnceCell::new();
        for (number, unit) in self.all_chunks().0 {
            if !matches!(unit.phase, Phase::Shared | Phase::SharedClosed)
                || self.is_released(number, unit.generation)
            {
                continue;
            }
            let entries = self.directory(number, unit, &words);
            // Records that were committed long ago may stand where nobody knows how many there are.
            let unknown = self.watermark;
            let state = self.chunk(number, unit.generation);
            let mut pending = BTreeMap::new();
            let mut wait_for = |index: usize, new: u64| {
                let known = state.pending.get(&(index as u32)).copied();
                let (at_least, seen) = known.unwrap_or((new, Instant::now()));
                pending.insert(index as u32, (at_least, seen));
                judge(at_least, seen);
            };
            match &entries {
                Some(entries) => {
                    let zeros = entries.iter().enumerate().filter(|(_, e)| **e == 0);
                    zeros.for_each(|(index, _)| wait_for(index, since_scan));
                }
                None => wait_for(u32::MAX as usize, unknown),
            }
            state.pending = pending;
        }
        bound
    }

    /// The reserved directory entries of an overflow chunk; `None` while nobody can say how many there are: its word was
    /// replaced, and the thread that did it has not closed the chunk yet, or the other way round at its beginning.
    ///
    /// `words`: read when they are first needed.
    fn directory(
        &self,
        number: u16,
        unit: Unit,
        words: &OnceCell<Vec<Option<Shared>>>,
    ) -> Option<Vec<u64>> {
        let names = |w: &&Shared| {
            w.unit == number && w.generation8 == unit.generation as u8 && w.class == unit.class
        };
        let count_in = |words: &[Option<Shared>]| {
            words.iter().flatten().find(names).map(|word| usize::from(word.count))
        };
        let count_of = |unit: &Unit| match unit.phase {
            // Closed, or made for one record.
            Phase::SharedClosed => Some(usize::from(unit.owner)),
            Phase::Shared if unit.owner != u16::MAX => Some(usize::from(unit.owner)),
            _ => None,
        };
        // The words may have been read for another chunk: this one may have begun since, or ended since its own was read.
        let count = count_of(&unit)
            .or_else(|| count_in(words.get_or_init(|| self.shared_words())))
            .or_else(|| count_in(&self.shared_words()))
            .or_else(|| {
                let mut word = [0; 8];
                self.segments[0].source.read(P_UNITS + usize::from(number) * 8, &mut word);
                let now = Unit::unpack(u64::from_le_bytes(word))?;
                (now.generation == unit.generation).then(|| count_of(&now)).flatten()
            })?;
        Some(self.entries(number, unit, count))
    }

    fn entries(&self, number: u16, unit: Unit, count: usize) -> Vec<u64> {
        let size = class_size(unit.class);
        let count = count.min(size / (RECORD_HEADER_SIZE + 8));
        let mut bytes = vec![0; count * 8];
        let (segment, base) = self.place(number);
        self.segments[segment].source.read(base + size - count * 8, &mut bytes);
        std::sync::atomic::fence(Ordering::Acquire);
        bytes.chunks_exact(8).rev().map(|b| le64(b, 0)).collect()
    }

    /// The entries of a chunk that a killed process left without a count: as far as they can be entries. Behind them lies
    /// record data, which may look like anything.
    fn entries_left(&self, number: u16, unit: Unit) -> Vec<u64> {
        let size = class_size(unit.class) as u64;
        let mut entries = self.entries(number, unit, usize::MAX);
        let (mut used, mut expect) = (0, 0);
        for (index, entry) in entries.iter().copied().enumerate() {
            let (offset, room) = (u64::from(entry as u32), (entry >> 32) & 0x3fff_ffff);
            let directory = (index as u64 + 1) * 8;
            if expect + directory > size {
                break;
            }
            if entry == 0 {
                continue;
            }
            let fits = entry & proto::ENTRY_COMMITTED != 0
                && offset >= expect
                && offset + room + directory <= size
                && self.is_record(number, offset as u32, room as u32);
            if !fits {
                break;
            }
            (used, expect) = (index + 1, offset + room);
        }
        entries.truncate(used);
        entries
    }

    fn is_record(&self, number: u16, offset: u32, room: u32) -> bool {
        let (segment, base) = self.place(number);
        self.header(segment, base + offset as usize).room(room) == Some(room)
    }

    fn header(&self, segment: usize, at: usize) -> Header {
        let mut bytes = [0; RECORD_HEADER_SIZE];
        self.segments[segment].source.read(at, &mut bytes);
        Header::read(&bytes)
    }

    fn place(&self, number: u16) -> (usize, usize) {
        let segment = usize::from(number) / MAX_SEGMENT_UNITS;
        let local = usize::from(number) % MAX_SEGMENT_UNITS;
        (segment, self.segments[segment].base + local * UNIT_SIZE)
    }

    fn is_released(&self, number: u16, generation: u32) -> bool {
        let at = C_CHUNKS + usize::from(number) * 8;
        let word = match self.stores.get(&(at as u32)) {
            Some(word) => *word,
            None => self.control.memory.word(at).load(Ordering::Relaxed),
        };
        ((word >> 32) as u32) == proto::key(generation, RELEASED)
    }

    /// What we know of a chunk; from the control when we meet it, or its generation, for the first time.
    fn chunk(&mut self, number: u16, generation: u32) -> &mut ChunkState {
        if self.chunks.get(&number).is_none_or(|c| c.generation != generation) {
            let memory = &self.control.memory;
            let at = C_CHUNKS + usize::from(number) * 8;
            let word = match self.stores.get(&(at as u32)) {
                Some(word) => *word,
                None => memory.word(at).load(Ordering::Relaxed),
            };
            let known = (word >> 40) as u32 == generation;
            // The bits are cleared when a chunk is released, so they are of this generation.
            let bits = (0..2)
                .map(|i| {
                    let at = C_BITS + usize::from(number) * 16 + i * 8;
                    self.stores
                        .get(&(at as u32))
                        .copied()
                        .unwrap_or_else(|| memory.word(at).load(Ordering::Relaxed))
                })
                .collect();
            self.chunks.insert(
                number,
                ChunkState {
                    generation,
                    consumed: if known { word as u32 } else { 0 },
                    phase: if known { (word >> 32) as u32 & 0xff } else { 0 },
                    closing_batch: self.batch,
                    end: 0,
                    changed: Instant::now(),
                    is_orphan: false,
                    bits,
                    pending: BTreeMap::new(),
                },
            );
        }
        match self.chunks.get_mut(&number) {
            Some(state) => state,
            None => unreachable!("inserted above"),
        }
    }

    fn collect(
        &mut self,
        (lines, chunks): (&[LineView], &[(u16, Unit)]),
        watermark: u64,
        options: &DrainOptions<'_>,
        streams: &mut Vec<Stream>,
        refs: &mut Vec<Ref>,
        out: &mut Drained,
    ) {
        let words = OnceCell::new();
        for (number, unit) in chunks.iter().copied() {
            if self.is_released(number, unit.generation) {
                continue;
            }
            let size = class_size(unit.class) as u32;
            let (segment, base) = self.place(number);
            match unit.phase {
                Phase::Free => {}
                Phase::Open | Phase::Closed => {
                    let head = named(lines, number, unit);
                    let state = self.chunk(number, unit.generation);
                    let end = match (unit.phase, head) {
                        (Phase::Closed, _) => unit.end,
                        (_, Some(line)) => line.head.committed(),
                        (_, None) => state.consumed,
                    };
                    if end != state.end {
                        state.end = end;
                        state.changed = Instant::now();
                    }
                    if end > size || end < state.consumed {
                        out.hostile += 1;
                        continue;
                    }
                    if end > state.consumed {
                        streams.push(Stream {
                            segment,
                            unit: number,
                            slot: Some(unit.owner),
                            at: state.consumed,
                            end,
                            base,
                            window: Vec::new(),
                            filled: 0,
                            window_at: 0,
                            refs: Vec::new(),
                            next_ref: 0,
                            copies: Vec::new(),
                            expected: None,
                        });
                    }
                }
                Phase::Shared | Phase::SharedClosed => {
                    self.collect_shared(number, unit, &words, watermark, options, refs, out);
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn collect_shared(
        &mut self,
        number: u16,
        unit: Unit,
        words: &OnceCell<Vec<Option<Shared>>>,
        watermark: u64,
        options: &DrainOptions<'_>,
        refs: &mut Vec<Ref>,
        out: &mut Drained,
    ) {
        let size = class_size(unit.class) as u32;
        let units = CLASS_UNITS[unit.class as usize];
        let known = self.directory(number, unit, words);
        let is_known = known.is_some();
        let entries = match known {
            Some(entries) => entries,
            None if options.ended => self.entries_left(number, unit),
            None => Vec::new(),
        };
        let (segment, base) = self.place(number);
        let memory = self.control.memory.clone();
        let state = self.chunk(number, unit.generation);
        while state.bits.len() < units * 2 {
            let at = C_BITS + usize::from(number) * 16 + state.bits.len() * 8;
            state.bits.push(memory.word(at).load(Ordering::Relaxed));
        }
        let mut consumed = state.bits.clone();
        let mut done = (unit.phase == Phase::SharedClosed && is_known) || options.ended;
        let mut expect = 0;
        let mut copy = Copied::default();
        for (index, entry) in entries.iter().copied().enumerate() {
            if entry == 0 {
                if !options.ended {
                    done = false;
                } else if consumed[index / 64] & 1 << (index % 64) == 0 {
                    out.torn += 1;
                    consumed[index / 64] |= 1 << (index % 64);
                }
                continue;
            }
            let (offset, room) = (entry as u32, (entry >> 32) as u32 & 0x3fff_ffff);
            let directory = (index as u32 + 1) * 8;
            let fits = entry & proto::ENTRY_COMMITTED != 0
                && offset >= expect
                && offset.is_multiple_of(8)
                && room as usize >= RECORD_HEADER_SIZE
                && u64::from(offset) + u64::from(room) + u64::from(directory) <= u64::from(size);
            if !fits {
                // Not consumed again and again: its bit is set below.
                if consumed[index / 64] & 1 << (index % 64) == 0 {
                    out.hostile += 1;
                    consumed[index / 64] |= 1 << (index % 64);
                }
                continue;
            }
            expect = offset + room;
            if consumed[index / 64] & 1 << (index % 64) != 0 {
                continue;
            }
            if entry & proto::ENTRY_ABANDONED != 0 {
                consumed[index / 64] |= 1 << (index % 64);
                continue;
            }
            let source = &self.segments[segment].source;
            let at = (offset, RECORD_HEADER_SIZE as u32);
            let Some(head) = copy.get(source, base, at, size).first_chunk() else { continue };
            let header = Header::read(head);
            if header.room(room).is_none() {
                out.hostile += 1;
                consumed[index / 64] |= 1 << (index % 64);
                continue;
            }
            if header.time() >= watermark {
                continue;
            }
            refs.push(Ref {
                time: header.time(),
                seq: header.seq(),
                unit: number,
                index: index as u32,
                offset,
                room,
                end: size,
            });
        }
        let count = entries.len();
        let state = self.chunk(number, unit.generation);
        state.bits = consumed;
        // `end` is the number of records the chunk will ever have, once that is known.
        state.end = if done { count as u32 } else { u32::MAX };
        self.store_bits(number);
    }

    fn store_bits(&mut self, number: u16) {
        if let Some(state) = self.chunks.get(&number) {
            for (i, bits) in state.bits.iter().enumerate() {
                let at = (C_BITS + usize::from(number) * 16 + i * 8) as u32;
                if self.control.memory.word(at as usize).load(Ordering::Relaxed) != *bits
                    || self.stores.contains_key(&at)
                {
                    self.stores.insert(at, *bits);
                }
            }
        }
    }

    /// The k-way merge: the streams' records by (time, sequence number), up to the watermark and not beyond `until`. Where the
    /// sink would not take a record, the watermark is its time from then on.
    pub(crate) fn run(
        &mut self,
        pass: &mut Pass,
        until: u64,
        sink: &mut impl FnMut(&Record<'_>) -> ControlFlow<()>,
    ) {
        let Pass { streams, heap, window, spare, watermark, last, drained, out, .. } = pass;
        while let Some(&Reverse((time, seq, index))) = heap.peek() {
            if time >= *watermark || time > until {
                break;
            }
            let stream = &mut streams[index];
            if stream.window.is_empty() {
                stream.window = spare.pop().unwrap_or_default();
                stream.filled = 0;
            }
            let limit = second(heap).map(|Reverse((time, seq, _))| (*time, *seq));
            // Before this time none of the ends below is near.
            let near = limit.map_or(u64::MAX, |(time, _)| time);
            let near = near.min(until.saturating_add(1)).min(*watermark);
            // What comes before it can only be a late commit, or a provider that makes its times up.
            let mut floor = self.watermark.max(*last);
            let overflow = !stream.refs.is_empty();
            let mut expected = match stream.expected {
                Some(expected) => expected,
                None => self.expected(stream.slot, seq),
            };
            let end = loop {
                let (header, payload) = match stream.whole() {
                    Some(whole) => whole,
                    None if !overflow => {
                        if self.peek(stream, *window, out).is_none() {
                            break End::Empty;
                        }
                        // Now it is whole in the window.
                        continue;
                    }
                    None => match self.peek_overflow(stream, out) {
                        Some(whole) => whole,
                        None => break End::Empty,
                    },
                };
                let (time, seq) = (header.time(), header.seq());
                if time >= near {
                    if time >= *watermark {
                        break End::Empty;
                    }
                    if time > until || limit.is_some_and(|limit| (time, seq) > limit) {
                        break End::NotYet(time, seq);
                    }
                }
                let room = record_room(payload.len());
                let record = header.record(payload, overflow);
                if time < floor {
                    std::hint::cold_path();
                    out.late += 1;
                    add(&mut self.late, record.sessions, 1);
                } else {
                    let sessions = record.sessions;
                    if sink(&record).is_break() {
                        break End::NoRoom(time);
                    }
                    (*last, floor) = (time, time);
                    drained.count(sessions);
                    out.size += room as u64;
                }
                if overflow {
                    self.step_overflow(stream, seq);
                } else {
                    if seq != expected {
                        // Backwards only in a provider that makes its numbers up.
                        let gap = seq.wrapping_sub(expected);
                        self.gaps += if gap < 1 << 31 { u64::from(gap) } else { 0 };
                    }
                    expected = seq.wrapping_add(1);
                    stream.at += room as u32;
                }
            };
            stream.expected = Some(expected);
            match end {
                End::Empty => {
                    self.expect(stream);
                    spare.push(stream.give_back());
                    heap.pop();
                }
                End::NotYet(time, seq) => put_first(heap, Reverse((time, seq, index))),
                End::NoRoom(time) => {
                    *watermark = time;
                    out.stopped = true;
                    return;
                }
            }
        }
    }

    /// The next sequence number of a thread, `first` where none is known.
    fn expected(&mut self, slot: Option<u16>, first: u32) -> u32 {
        let known = slot.and_then(|slot| self.next_seq.get(usize::from(slot)));
        match known {
            Some(known) if *known <= u64::from(u32::MAX) => *known as u32,
            None if self.fresh => 0,
            _ => first,
        }
    }

    /// What a stream has come to is its thread's again.
    fn expect(&mut self, stream: &mut Stream) {
        let (Some(slot), Some(next)) = (stream.slot, stream.expected.take()) else { return };
        let slot = usize::from(slot);
        if slot >= MAX_THREADS {
            return;
        }
        if self.next_seq.len() <= slot {
            let first = if self.fresh { 0 } else { u64::MAX };
            self.next_seq.resize(slot + 1, first);
        }
        self.next_seq[slot] = u64::from(next);
    }

    /// The next record's header, with the whole record in the window (for a chunk stream, when `want` allows more than a
    /// header). `None`: the stream is at its end, or broken, and then its rest is consumed.
    #[inline(never)]
    fn peek(&mut self, stream: &mut Stream, want: usize, out: &mut Drained) -> Option<Header> {
        if !stream.refs.is_empty() {
            return self.peek_overflow(stream, out).map(|(header, _)| header);
        }
        let left = stream.end - stream.at;
        if left == 0 {
            return None;
        }
        let source = &self.segments[stream.segment].source;
        let mut need = RECORD_HEADER_SIZE as u32;
        loop {
            if need > left {
                break;
            }
            let have = stream.window_at + stream.filled as u32;
            if stream.at < stream.window_at || stream.at + need > have {
                let bytes = need.max(want as u32).min(left) as usize;
                // Zeros are written once into each window, not before each look.
                if stream.window.len() < bytes {
                    stream.window.resize(bytes, 0);
                }
                stream.filled = bytes;
                stream.window_at = stream.at;
                source.read(stream.base + stream.at as usize, &mut stream.window[..bytes]);
            }
            let at = (stream.at - stream.window_at) as usize;
            let Some(bytes) = stream.window[at..stream.filled].first_chunk() else { break };
            let header = Header::read(bytes);
            match header.room(left) {
                // `want` of a header: only its time is asked for.
                Some(_) if want == RECORD_HEADER_SIZE => return Some(header),
                Some(room) if stream.at + room <= stream.window_at + stream.filled as u32 => {
                    return Some(header);
                }
                // Read again, whole; the header is then taken from the new copy, so that nothing is trusted twice. A
                // hostile writer that keeps changing it makes `need` grow, to `left` at most.
                Some(room) if room > need => need = room,
                Some(_) => need = left,
                None => break,
            }
        }
        out.hostile += 1;
        stream.at = stream.end;
        None
    }

    /// The next record of overflow chunks. `None`: there is none left.
    #[inline(never)]
    fn peek_overflow<'s>(
        &mut self,
        stream: &'s mut Stream,
        out: &mut Drained,
    ) -> Option<(Header, &'s [u8])> {
        let Stream { refs, next_ref, copies, .. } = stream;
        while let Some(r) = refs.get(*next_ref).copied() {
            let (segment, base) = self.place(r.unit);
            let source = &self.segments[segment].source;
            let at = match copies.iter().position(|copy| copy.unit == r.unit) {
                Some(at) => at,
                None => {
                    copies.truncate(COPIES - 1);
                    copies.push(Copied { unit: r.unit, ..Copied::default() });
                    copies.len() - 1
                }
            };
            let whole = copies[at].get(source, base, (r.offset, r.room), r.end);
            if let Some(head) = whole.first_chunk() {
                let header = Header::read(head);
                if header.room(r.room).is_some() && header.time() == r.time {
                    // What has been copied now stays until another is asked for.
                    let start = (r.offset - copies[at].at) as usize + RECORD_HEADER_SIZE;
                    let payload = copies[at].bytes.get(start..start + header.size() as usize)?;
                    return Some((header, payload));
                }
            }
            // It was checked when it was collected, and has been changed since.
            out.hostile += 1;
            *next_ref += 1;
            self.mark(r.unit, r.index as usize);
        }
        None
    }

    #[inline(never)]
    fn step_overflow(&mut self, stream: &mut Stream, seq: u32) {
        let Some(r) = stream.refs.get(stream.next_ref) else { return };
        self.mark(r.unit, r.index as usize);
        stream.next_ref += 1;
        self.shared_seen += 1;
        self.shared_span = Some(match self.shared_span {
            None => (if self.fresh { 0 } else { seq }, seq),
            Some((first, last)) => {
                (first, if seq.wrapping_sub(last) as i32 > 0 { seq } else { last })
            }
        });
    }

    /// Consumes one record of an overflow chunk.
    fn mark(&mut self, unit: u16, index: usize) {
        if let Some(state) = self.chunks.get_mut(&unit)
            && let Some(bits) = state.bits.get_mut(index / 64)
        {
            *bits |= 1 << (index % 64);
            let bits = *bits;
            self.store(C_BITS + usize::from(unit) * 16 + index / 64 * 8, bits);
        }
    }

    /// After the merge: consumed positions, chunks that can be released, chunks to take back.
    /// `lines` and `chunks` are those that it began with: what happened since is seen by the next.
    fn settle(
        &mut self,
        (lines, chunks): (&[LineView], &[(u16, Unit)]),
        options: &DrainOptions<'_>,
        out: &mut Drained,
    ) {
        let applied = self.control.batch();
        for (number, unit) in chunks.iter().copied() {
            if self.is_released(number, unit.generation) {
                continue;
            }
            let next_batch = self.batch + 1;
            let Some(state) = self.chunks.get_mut(&number) else { continue };
            if state.generation != unit.generation {
                continue;
            }
            let mut release = false;
            match unit.phase {
                Phase::Free => continue,
                Phase::Closed => release = state.consumed == unit.end,
                Phase::Shared | Phase::SharedClosed => {
                    let seen: u32 = state.bits.iter().map(|b| b.count_ones()).sum();
                    release = state.end != u32::MAX && seen >= state.end;
                }
                Phase::Open => {
                    let head = named(lines, number, unit);
                    let line = lines.get(usize::from(unit.owner)).copied().unwrap_or_default();
                    let at_rest = state.consumed == state.end || head.is_none();
                    let idle = state.changed.elapsed();
                    if options.ended {
                        let writing = head.is_some_and(|l| l.head.is_writing());
                        out.torn += u64::from(writing);
                        release = at_rest;
                    } else if at_rest && state.is_orphan {
                        // The heads of this drain were read after its owner was found gone: nothing comes any more.
                        out.torn += u64::from(head.is_some_and(|l| l.head.is_writing()));
                        release = true;
                    } else if at_rest
                        && idle >= Duration::from_millis(20)
                        && line.tid != 0
                        && options.alive.is_some_and(|alive| !alive(line.tid))
                    {
                        // It may have written since the heads were read.
                        state.is_orphan = true;
                    } else if state.phase == CLOSING {
                        // Only if this drain's barrier came after the store.
                        release = applied >= state.closing_batch
                            && options.until.is_none()
                            && !out.no_barrier
                            && head.is_some_and(|l| {
                                proto::may_release(l.head, number, unit.generation, state.consumed)
                            });
                    } else if at_rest
                        && head.is_some_and(|l| !l.head.is_writing())
                        && options.reclaim_idle.is_some_and(|limit| idle >= limit)
                    {
                        state.phase = CLOSING;
                        state.closing_batch = next_batch;
                    }
                }
            }
            let phase = if release { RELEASED } else { state.phase };
            let consumed = state.consumed;
            let word = proto::chunk_word(proto::key(unit.generation, phase), consumed);
            let at = C_CHUNKS + usize::from(number) * 8;
            if self.control.memory.word(at).load(Ordering::Relaxed) != word {
                self.store(at, word);
            }
            if release {
                self.releases += 1;
                if let Some(state) = self.chunks.remove(&number) {
                    for (i, bits) in state.bits.iter().enumerate() {
                        let at = C_BITS + usize::from(number) * 16 + i * 8;
                        let old = self.control.memory.word(at).load(Ordering::Relaxed);
                        if *bits != 0 || old != 0 {
                            self.store(at, 0);
                        }
                    }
                }
            }
        }
    }
}

/// The owner's line, if its head names this chunk in this generation.
fn named(lines: &[LineView], number: u16, unit: Unit) -> Option<LineView> {
    let line = lines.get(usize::from(unit.owner))?;
    (line.head.is_valid()
        && line.head.unit() == number
        && line.head.generation() == unit.generation)
        .then_some(*line)
}

#[inline]
fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}

#[inline]
fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admission, PoolOptions, Request, Writer};

    /// P7: a writer that sees a new count of released chunks looks for them once. It finds them, since their words stand before the count.
    #[test]
    fn the_count_of_releases_comes_last() {
        let memory = |size| Memory::heap(size).unwrap();
        let clock = RawClock::Monotonic;
        let control = Control::create(memory(CONTROL_SIZE), clock, Barrier::WriterFences).unwrap();
        let admission = Admission { open: true, largest_size: 65535, ..Admission::default() };
        control.set_admission(0, admission);
        let options = PoolOptions { chunk_size: 4096, prefault: usize::MAX };
        let pool = memory(options.memory_size());
        let writer = Writer::new(pool, control.memory().clone(), options, 0).unwrap();
        let source = Source::Mapped(writer.segment(0).unwrap().clone());
        let mut reader = Reader::new(control.clone(), source).unwrap();
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
}
