//! The layout of a pool and of its control page: version 3 of an ABI between processes. Little-endian, offsets in bytes.
//!
//! # Segment 0 of a pool (written by the provider only)
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0x000 | 8 | magic `ETWRING1` |
//! | 0x008 | 4 | version, 3 |
//! | 0x00c | 4 | offset of the chunk data, [`DATA_OFFSET`] |
//! | 0x010 | 8 | generation: differs from that of every recent pool of the machine |
//! | 0x018 | 4 | process id, as its own namespace sees it |
//! | 0x01c | 4 | number of segments |
//! | 0x020 | 4 | pressure: how often a writer found less than half of the pool free; the host grows a pool whose count rises |
//! | 0x024 | 4 | rung: the control's quiet count for which a writer has woken the host |
//! | 0x028 | 8 | value of the control's release count at the last reap |
//! | 0x030 | 4 | slots in use: highest slot index ever taken, plus one |
//! | 0x038 | 8 | dry: the control's release count, plus one, at which not even 4 KiB were free |
//! | 0x040 | 64 | units of each segment, 16 × u32 |
//! | 0x080 | 8 | site allocation: next id in the high half, next blob offset in the low half |
//! | 0x0c0 | 8 | sequence number of the next write to an overflow chunk |
//! | 0x0c8 | 4 | units taken: those of all chunks that are not free; in a line that the host does not read |
//! | 0x100 | 64 | attempted writes through overflow chunks, by session slot, 8 × u64 |
//! | 0x140 | 384 | lost writes there, by cause and session slot, 6 × 8 × u64 |
//! | 0x1000 | 4 KiB | overflow words, one cache line each, 64 (by processor modulo 64) |
//! | 0x2000 | 16 KiB | block words, one for each 128 KiB of data, 2048 |
//! | 0x6000 | 512 KiB | unit words, one for each 4 KiB of data, 65536 |
//! | 0x86000 | 256 KiB | thread lines, 64 bytes each, 4096: u64 head, u64 time of the write in flight, u64 owner, u32 next sequence number; at 32 attempts by the mask of their sessions, 4 × u64: mask (bits 56–63), count; those with further masks are in the thread's counters |
//! | 0xc6000 | 1 MiB | thread counters, 256 bytes each, 4096 |
//! | 0x1c6000 | 512 KiB | site index, u64 each, 65536 |
//! | 0x246000 | 4 MiB | site blob |
//! | 0x646000 | 64 KiB | losses by registration, 256 bytes each, 256: u32 registration (0: unused), at 8 by cause and session slot, 6 × 8 × u32 |
//! | 0x660000 | | chunk data; later segments are chunk data only |
//!
//! The tables are sparse: a page that no thread, chunk or site uses takes no memory.
//!
//! # Control page (written by the host only, mapped read-only by the provider)
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0x000 | 8 | magic `ETWCTRL1` |
//! | 0x008 | 4 | version, 3 |
//! | 0x00c | 4 | flags: 1 = TSC clock, 2 = writers fence, 4 = membarrier is the global one |
//! | 0x018 | 8 | release count |
//! | 0x020 | 8 | batch number of the last [`advance`](crate::Reader::advance) |
//! | 0x028 | 8 | journal: number of entries, 0 when nothing is to be redone |
//! | 0x030 | 8 | journal: their batch number |
//! | 0x038 | 8 | watermark: records before it have been drained |
//! | 0x040 | 64 | admission words, 8 × u64 |
//! | 0x080 | 64 | writes counted late, by session slot, 8 × u64 |
//! | 0x0c0 | 4 | asleep: 1 while the host waits on this futex word for something to do (unless it has a bell) |
//! | 0x0c4 | 4 | quiet count: how often the host has asked to be woken by the next write |
//! | 0x0d0 | 4 | capabilities of the host: bits that its protocol defines; 0 for hosts that are older than this word |
//! | 0x100 | 64 | records drained, by session slot, 8 × u64 |
//! | 0x200 | 8 | summary of all admission words: slots that refuse every event (bits 0–7; all while quiet), admission epoch (16–31), smallest size that another slot refuses (32–63) |
//! | 0x208 | 8 | revocations: rises behind each word by which a chunk is taken from its owner |
//! | 0x1000 | 512 KiB | chunk words: consumed position and revocation key, one a unit |
//! | 0x81000 | 1 MiB | bits of the consumed records of overflow chunks, 16 bytes a unit |
//! | 0x181000 | 1 MiB | journal entries: offset in the control, new value |
//!
//! Each write reads the line at 0x200, and the host stores to it only when sessions or owners of chunks change. A line that the host stores to
//! in each round would cost the next write of each thread a transfer between processors.
//!
//! # A record
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 4 | bytes of payload, exact; the record takes 40 + payload, rounded up to 8 |
//! | 4 | 1 | kind, the caller's |
//! | 5 | 1 | session mask |
//! | 6 | 2 | processor |
//! | 8 | 8 | raw time |
//! | 16 | 4 | site id, 0 = metadata inline |
//! | 20 | 4 | sequence number of the attempt in its stream (thread slot, or all overflow chunks) |
//! | 24 | 4 | registration |
//! | 28 | 4 | thread id |
//! | 32 | 2 | bytes of inline metadata at the payload's start |
//! | 34 | 2 | admission epoch |
//! | 36 | 4 | caller's word |
//!
//! An overflow chunk also holds a directory that grows down from its end, one u64 a record: offset (bits 0–31), size
//! taken (32–61), abandoned (62), committed (63). The entry of a record that is reserved and not committed is 0. Since each entry
//! names its own offset, a record that is never committed hides none behind it.

pub(crate) const POOL_MAGIC: u64 = u64::from_le_bytes(*b"ETWRING1");
pub(crate) const CONTROL_MAGIC: u64 = u64::from_le_bytes(*b"ETWCTRL1");
pub(crate) const VERSION: u32 = 3;

/// The smallest chunk, and the unit of the chunk tables.
pub const UNIT_SIZE: usize = 4096;
/// The size of a block, which one block word covers. Segments are whole blocks.
pub const BLOCK_SIZE: usize = 128 * 1024;
pub(crate) const BLOCK_UNITS: usize = BLOCK_SIZE / UNIT_SIZE;
/// The number of units that a segment can have: 16 MiB of chunks.
pub const MAX_SEGMENT_UNITS: usize = 4096;
/// The number of segments that a pool can have: 256 MiB.
pub const MAX_SEGMENTS: usize = 16;
pub(crate) const MAX_UNITS: usize = MAX_SEGMENT_UNITS * MAX_SEGMENTS;
pub(crate) const BLOCKS_PER_SEGMENT: usize = MAX_SEGMENT_UNITS / BLOCK_UNITS;
/// The number of threads that can own chunks at a time; further threads share overflow chunks.
pub const MAX_THREADS: usize = 4096;
/// Session slots.
pub const SESSIONS: usize = 8;
pub(crate) const CAUSES: usize = 6;
pub(crate) const OVERFLOW_WORDS: usize = 64;
/// Entries of the site table.
pub const MAX_SITES: usize = 65536;
/// Bytes of the site table.
pub const SITE_BLOB_SIZE: usize = 4 << 20;

pub(crate) const P_MAGIC: usize = 0;
pub(crate) const P_VERSION: usize = 8;
pub(crate) const P_GENERATION: usize = 0x10;
pub(crate) const P_PID: usize = 0x18;
pub(crate) const P_SEGMENTS: usize = 0x1c;
pub(crate) const P_PRESSURE: usize = 0x20;
pub(crate) const P_RUNG: usize = 0x24;
pub(crate) const P_REAPED: usize = 0x28;
pub(crate) const P_SLOTS: usize = 0x30;
pub(crate) const P_DRY: usize = 0x38;
pub(crate) const P_SEGMENT_UNITS: usize = 0x40;
pub(crate) const P_SITE_ALLOC: usize = 0x80;
pub(crate) const P_SHARED_SEQ: usize = 0xc0;
pub(crate) const P_TAKEN: usize = 0xc8;
pub(crate) const P_SHARED_ATTEMPTED: usize = 0x100;
pub(crate) const P_SHARED_LOST: usize = 0x140;
pub(crate) const P_OVERFLOW: usize = 0x1000;
pub(crate) const P_BLOCKS: usize = 0x2000;
pub(crate) const P_UNITS: usize = 0x6000;
pub(crate) const P_LINES: usize = 0x86000;
pub(crate) const LINE_SIZE: usize = 64;
/// Offset in a thread's line of the attempts by the mask of their sessions.
pub(crate) const LINE_TOGETHER: usize = 32;
pub(crate) const TOGETHER: usize = 4;
/// The bits of such a word that hold the count; the bits above hold the mask of sessions.
pub(crate) const TOGETHER_COUNT_BITS: u32 = 56;
pub(crate) const P_COUNTERS: usize = 0xc6000;
pub(crate) const COUNTERS_SIZE: usize = 256;
pub(crate) const P_SITES: usize = 0x1c6000;
pub(crate) const P_SITE_BLOB: usize = 0x246000;
pub(crate) const P_BLAME: usize = 0x646000;
pub(crate) const BLAME_SIZE: usize = 256;
pub(crate) const BLAME_ENTRIES: usize = 256;
/// Offset of the counts in an entry.
pub(crate) const BLAME_COUNTS: usize = 8;
/// Offset of the chunk data in segment 0.
pub const DATA_OFFSET: usize = 0x660000;

pub(crate) const C_FLAGS: usize = 0xc;
pub(crate) const C_RELEASES: usize = 0x18;
pub(crate) const C_BATCH: usize = 0x20;
pub(crate) const C_JOURNAL_COUNT: usize = 0x28;
pub(crate) const C_JOURNAL_BATCH: usize = 0x30;
pub(crate) const C_WATERMARK: usize = 0x38;
pub(crate) const C_ADMISSION: usize = 0x40;
pub(crate) const C_LATE: usize = 0x80;
pub(crate) const C_ASLEEP: usize = 0xc0;
pub(crate) const C_QUIET: usize = 0xc4;
pub(crate) const C_CAPABILITIES: usize = 0xd0;
pub(crate) const C_DRAINED: usize = 0x100;
/// The line that each write reads: [`Gate`](crate::control::Gate).
pub(crate) const C_GATE: usize = 0x200;
pub(crate) const C_REVOCATIONS: usize = C_GATE + 8;
pub(crate) const C_CHUNKS: usize = 0x1000;
pub(crate) const C_BITS: usize = 0x81000;
pub(crate) const C_JOURNAL: usize = 0x181000;
pub(crate) const C_JOURNAL_ROOM: usize = 65536;
/// Size of the control memory.
pub const CONTROL_SIZE: usize = C_JOURNAL + C_JOURNAL_ROOM * 16;

pub(crate) const F_TSC: u32 = 1;
pub(crate) const F_FENCE: u32 = 2;
pub(crate) const F_GLOBAL: u32 = 4;

/// Offset of the session mask in a record's header.
pub(crate) const RECORD_SESSIONS: usize = 5;
/// Offset of the registration in a record's header.
pub(crate) const REGISTRATION: usize = 24;
/// Bytes of a record's header.
pub const RECORD_HEADER_SIZE: usize = 40;
/// Largest payload of a record, inline metadata included.
pub const MAX_PAYLOAD_SIZE: usize = BLOCK_SIZE - RECORD_HEADER_SIZE - 8;

/// Units of each chunk class: 4, 16, 64, 128 KiB.
pub(crate) const CLASS_UNITS: [usize; 4] = [1, 4, 16, 32];

/// The size of a chunk of this class.
pub(crate) const fn class_size(class: u8) -> usize {
    CLASS_UNITS[class as usize & 3] * UNIT_SIZE
}

/// The smallest class of at least `size` bytes.
pub(crate) fn class_for(size: usize) -> Option<u8> {
    (0..4u8).find(|&c| class_size(c) >= size)
}

/// The bytes that a record with a payload of this size takes in a chunk.
pub(crate) const fn record_size(payload_size: usize) -> usize {
    (RECORD_HEADER_SIZE + payload_size + 7) & !7
}

/// The cause of a loss. The numbers index the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Cause {
    /// No chunk was free, not even a shared one (status 8).
    NoChunk = 0,
    /// The session had no free buffer (status 8).
    SessionFull = 1,
    /// Larger than an ETW event can be (status 534).
    TooLarge = 2,
    /// Larger than an event of this session can be (status 234).
    TooLargeForSession = 3,
    /// Another session refused the event, and an event goes to all sessions or to none.
    AllOrNone = 4,
    /// The caller abandoned its reservation (a panic or an error while filling).
    Abandoned = 5,
}

impl Cause {
    /// All causes, in the order of their counters.
    pub const ALL: [Cause; CAUSES] = [
        Cause::NoChunk,
        Cause::SessionFull,
        Cause::TooLarge,
        Cause::TooLargeForSession,
        Cause::AllOrNone,
        Cause::Abandoned,
    ];
}

const _: () = {
    assert!(P_UNITS + MAX_UNITS * 8 == P_LINES);
    assert!(P_LINES + MAX_THREADS * LINE_SIZE == P_COUNTERS);
    assert!(P_COUNTERS + MAX_THREADS * COUNTERS_SIZE == P_SITES);
    assert!(P_SITES + MAX_SITES * 8 == P_SITE_BLOB);
    assert!(P_SITE_BLOB + SITE_BLOB_SIZE <= P_BLAME);
    assert!(BLAME_COUNTS + CAUSES * SESSIONS * 4 <= BLAME_SIZE);
    assert!(P_BLAME + BLAME_ENTRIES * BLAME_SIZE <= DATA_OFFSET && DATA_OFFSET % BLOCK_SIZE == 0);
    assert!(C_CHUNKS + MAX_UNITS * 8 == C_BITS && C_BITS + MAX_UNITS * 16 == C_JOURNAL);
    assert!(SESSIONS * 8 + CAUSES * SESSIONS * 4 <= COUNTERS_SIZE);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_class_that_fits_is_found() {
        assert_eq!(class_for(1), Some(0));
        assert_eq!(class_for(4096), Some(0));
        assert_eq!(class_for(4097), Some(1));
        assert_eq!(class_for(BLOCK_SIZE), Some(3));
        assert_eq!(class_for(BLOCK_SIZE + 1), None);
        assert_eq!(record_size(0), 40);
        assert_eq!(record_size(1), 48);
        assert!(record_size(MAX_PAYLOAD_SIZE) + 8 <= BLOCK_SIZE);
    }
}
