//! The transitions of every atomic word of the pool and of the control page: who may make each, and the purpose of each ordering.
//! This file has no memory layout and no system calls, so that loom runs the same functions.
//!
//! # A chunk's life
//!
//! ```text
//!            claim (block word)      open (unit word)
//!   FREE ─────────────────────▶ claimed ────────────▶ OPEN(g) ─────close─────▶ CLOSED(g)
//!    ▲        any thread                  its owner     │         its owner        │
//!    │                                                  │ host: CLOSING(g)         │ host: all consumed
//!    │                                                  ▼                          ▼
//!    └──── reap (unit word, then block word) ◀──── host: RELEASED(g)  (chunk word, in the control)
//!              any thread of the provider
//! ```
//!
//! * The **block word** (pool) holds the class of the chunks in a block of 128 KiB, and which of them are taken. Any thread changes
//!   it by compare-exchange; each change is one whole transition, so a thread that is killed between two steps blocks no other
//!   thread. Such a thread can only leak the one chunk that it had claimed and not opened, or reaped and not unclaimed.
//! * The **unit word** (pool) of a chunk's first unit carries the generation `g`. `FREE → OPEN(g+1)` is made by the
//!   thread that claimed the block bit; `OPEN(g) → CLOSED(g)` by the owner; `→ FREE(g)` by the thread that wins
//!   the compare-exchange after the host released `g`. If the host revoked the chunk meanwhile, the owner's close fails, because
//!   the generation has changed.
//! * The **chunk word** (control page) is written by the host alone: the consumed position, and a key of generation and phase (0
//!   nothing, 1 CLOSING, 2 RELEASED). Writers compare it with their own key: at or above `(g, CLOSING)` they must not write to the
//!   chunk. Its consumed position changes in each round, so a writer looks at it only if the count of **revocations** has changed.
//! * The **head** of a thread's line (pool) is written by the owner alone: chunk, generation, committed offset, and `WRITING`.
//! * The **overflow word** (pool), one for each CPU modulo 64, is changed by any thread by compare-exchange: one change reserves
//!   both a record's bytes and its directory entry. The thread that replaces a full chunk closes it (`SHARED(g) → SHARED_CLOSED(g)`).
//! * A **directory entry** (in an overflow chunk) is stored once, by the thread that reserved it: committed or abandoned.
//! * **busy** (thread-local) is set and cleared by its thread alone, around each write; a signal handler inside the write reads it.
//!
//! # Orderings
//!
//! | store | pairs with | guarantee |
//! |---|---|---|
//! | [`commit`], [`announce`]: release of the head | acquire in [`snapshot`] | the record's bytes are there when its offset is |
//! | [`close`]: release of the unit word, before the head names another chunk | [`snapshot`] before [`snapshot`] of the unit word | a head that no longer names a chunk implies that its final offset is visible |
//! | [`announce`] + light barrier, then the revocations, the chunk word and the clock are read | host: chunk word and revocations stored (journal of `control.rs`), T read and **membarrier** (`time_of_drain` in `reader/watermark.rs`), then heads read (`lines` in `reader/chunks.rs`) | either the host sees `WRITING`, or the writer sees the revocation and reads a time after T |
//! | [`announce`] + light barrier, or [`reserve_shared`], then the admission word is read and the attempt counted | host: admission word stored (`set_admission` in `control.rs`), T read and membarrier, then heads and overflow words read | a host that closes a session either waits for the write, or the write finds the session closed and counts nothing |
//! | `revoke`/`release`, made by `Control::redo` in `control.rs`: release of the chunk word | acquire in [`revoked`], [`reap`] | a thread reuses a chunk only after the host's last read of it |
//! | `C_REVOCATIONS` in `control.rs`: release of the count, behind the chunk words | acquire in `try_begin_busy` of `writer/owned.rs` | a writer that sees the old count has not missed a revocation that it must see |
//! | `C_RELEASES` in `control.rs`: release of the count, behind the chunk words | acquire in `allocate` of `writer/chunks.rs` | a writer that sees a new count sees the released chunks |
//! | admission word, then epoch (`bump_epoch` in `control.rs`): release | acquire in `Gate::summary` of `control.rs` | a record carries an epoch that is not newer than its admission |
//! | `P_RUNG` swap, SeqCst fence (`ring` in `writer/wake.rs`) | SeqCst store of the futex word, then `is_rung` (`sleep_on` in `control.rs`) | either the host sees the call, or the writer wakes it |
//! | site entry (`append_site` in `site.rs`): release | acquire of the commit of a record with its id | the entry is readable when a record names it |
//! | [`unclaim`]: release of the block word | acquire in [`claim`] | the claimant sees the unit word FREE |
//! | [`reserve_shared`] (SeqCst read-modify-write), then the clock | T, barrier, overflow word read | a reservation that the host does not see reads a time after T |
//! | [`commit_shared`]: release of the directory entry | acquire in [`snapshot`] | as for commit |
//!
//! Why membarrier orders the clock: the command returns after every running thread of the writer's process has taken an interrupt
//! and a full fence (a thread that is not running has passed one in the scheduler). Instructions retire in order, and an interrupt
//! discards those that have not retired. So either the announcing store had retired, and the fence made it visible, or the clock
//! read, which follows it in program order, is executed after the interrupt.

use crate::sync::{AtomicU64, Light, Ordering, light_barrier};

/// `WRITING` in a head: a record is being filled.
pub(crate) const WRITING: u64 = 1 << 15;
const HEAD_VALID: u64 = 1 << 56;
pub(crate) const GEN_MASK: u32 = 0x00ff_ffff;

/// A thread line's head. Committed offset in 8-byte words (bits 0–14), WRITING (15), generation (16–39), unit (40–55),
/// valid (56).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Head(pub u64);

impl Head {
    pub fn new(unit: u16, generation: u32, committed: u32) -> Head {
        Head(
            HEAD_VALID
                | u64::from(unit) << 40
                | u64::from(generation & GEN_MASK) << 16
                | u64::from(committed / 8),
        )
    }
    pub fn is_valid(self) -> bool {
        self.0 & HEAD_VALID != 0
    }
    pub fn is_writing(self) -> bool {
        self.0 & WRITING != 0
    }
    pub fn unit(self) -> u16 {
        (self.0 >> 40) as u16
    }
    pub fn generation(self) -> u32 {
        (self.0 >> 16) as u32 & GEN_MASK
    }
    pub fn committed(self) -> u32 {
        (self.0 as u32 & 0x7fff) * 8
    }
    /// The head of the same chunk with `bytes` more committed. A plain addition: the offset cannot carry, since a chunk has at most
    /// 2^14 words.
    #[inline(always)]
    pub fn advanced(self, bytes: u32) -> Head {
        Head(self.0 + u64::from(bytes / 8))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Free,
    Open,
    Closed,
    /// Overflow chunk taking reservations.
    Shared,
    SharedClosed,
}

/// A unit word. Final offset in 8-byte words (bits 0–14), owner slot or record count (16–31), generation (32–55), phase
/// (56–58), class (60–61).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    pub phase: Phase,
    pub class: u8,
    pub generation: u32,
    pub owner: u16,
    pub end: u32,
}

impl Unit {
    pub fn pack(self) -> u64 {
        u64::from(self.end / 8)
            | u64::from(self.owner) << 16
            | u64::from(self.generation & GEN_MASK) << 32
            | (self.phase as u64) << 56
            | u64::from(self.class & 3) << 60
    }
    /// Whether the word, by its bytes in memory, belongs to no chunk.
    #[inline]
    pub fn is_free(word: &[u8]) -> bool {
        word[7] & 7 == 0
    }

    /// `None` if no writer of this crate can have written the word.
    pub fn unpack(word: u64) -> Option<Unit> {
        let phase = match (word >> 56) & 7 {
            0 => Phase::Free,
            1 => Phase::Open,
            2 => Phase::Closed,
            3 => Phase::Shared,
            4 => Phase::SharedClosed,
            _ => return None,
        };
        Some(Unit {
            phase,
            class: (word >> 60) as u8 & 3,
            generation: (word >> 32) as u32 & GEN_MASK,
            owner: (word >> 16) as u16,
            end: (word as u32 & 0x7fff) * 8,
        })
    }
}

pub(crate) const CLOSING: u32 = 1;
pub(crate) const RELEASED: u32 = 2;

/// Generation and phase in one number that is compared by wrapping difference.
pub(crate) fn key(generation: u32, phase: u32) -> u32 {
    generation << 8 | phase
}

/// A chunk word: consumed bytes (low half; for an overflow chunk unused) and key.
pub(crate) fn chunk_word(key: u32, consumed: u32) -> u64 {
    u64::from(key) << 32 | u64::from(consumed)
}

#[inline(always)]
fn key_reached(word: u64, key: u32) -> bool {
    ((word >> 32) as u32).wrapping_sub(key) as i32 >= 0
}

// ---- block words -----------------------------------------------------------------------------------------------------

/// Chunks of each class in a block, as a mask of its 32 units' first bits.
fn class_step(class: u8) -> u32 {
    crate::layout::CLASS_UNITS[class as usize & 3] as u32
}

/// Free units of a block: all when it is not cut yet.
pub(crate) fn free_units(word: u64) -> u32 {
    match (word >> 32) & 7 {
        0 => 32,
        // A program that overwrites its own pool may have set any bits.
        c => 32u32.saturating_sub((word as u32).count_ones() * class_step(c as u8 - 1)),
    }
}

/// Takes a chunk of `class` in this block; the first unit's number in the block.
///
/// Made by any thread of the provider. Acquire pairs with the release in [`unclaim`].
pub(crate) fn claim(block: &AtomicU64, class: u8, fresh: bool) -> Option<u32> {
    let step = class_step(class);
    let mut word = block.load(Ordering::Acquire);
    loop {
        let cut = (word >> 32) & 7;
        let (next, unit) = if cut == 0 {
            if !fresh {
                return None;
            }
            (u64::from(class + 1) << 32 | 1, 0)
        } else if cut == u64::from(class) + 1 {
            let taken = word as u32;
            let count = 32 / step;
            let index = (!taken).trailing_zeros();
            if index >= count {
                return None;
            }
            (word | 1 << index, index * step)
        } else {
            return None;
        };
        match block.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(unit),
            Err(seen) => word = seen,
        }
    }
}

/// Gives a chunk back; an empty block becomes uncut. Made by the thread that reaped the unit word.
pub(crate) fn unclaim(block: &AtomicU64, class: u8, unit: u32) {
    let bit = 1u64 << (unit / class_step(class));
    let mut word = block.load(Ordering::Relaxed);
    loop {
        let left = word & !bit;
        let next = if left as u32 == 0 { 0 } else { left };
        match block.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(seen) => word = seen,
        }
    }
}

// ---- unit words ------------------------------------------------------------------------------------------------------

/// `FREE(g) → OPEN(g+1)` or `SHARED(g+1)`, by the thread that claimed the chunk; the new generation.
pub(crate) fn open(unit: &AtomicU64, phase: Phase, class: u8, owner: u16) -> Option<u32> {
    let old = Unit::unpack(unit.load(Ordering::Acquire))?;
    if old.phase != Phase::Free {
        return None;
    }
    let generation = (old.generation + 1) & GEN_MASK;
    unit.store(Unit { phase, class, generation, owner, end: 0 }.pack(), Ordering::Release);
    Some(generation)
}

/// `OPEN(g) → CLOSED(g)` with the final offset, by the owner (or by the thread that takes over a dead owner's slot).
/// Nothing happens when the chunk has been revoked and reaped meanwhile.
pub(crate) fn close(unit: &AtomicU64, generation: u32, end: u32) {
    let word = unit.load(Ordering::Relaxed);
    let Some(old) = Unit::unpack(word) else { return };
    if old.phase == Phase::Open && old.generation == generation {
        let new = Unit { phase: Phase::Closed, end, ..old };
        // A failure can only be a reaper's FREE: then there is nothing left to close.
        let _ = unit.compare_exchange(word, new.pack(), Ordering::Release, Ordering::Relaxed);
    }
}

/// `SHARED(g) → SHARED_CLOSED(g)`, by the thread that replaced the overflow word.
pub(crate) fn close_shared(unit: &AtomicU64, generation: u32, count: u16, end: u32) {
    let word = unit.load(Ordering::Relaxed);
    let Some(old) = Unit::unpack(word) else { return };
    if old.phase == Phase::Shared && old.generation == generation {
        let new = Unit { phase: Phase::SharedClosed, owner: count, end, ..old };
        let _ = unit.compare_exchange(word, new.pack(), Ordering::Release, Ordering::Relaxed);
    }
}

/// `→ FREE(g)` if the host has released `g`; the class, for [`unclaim`]. Any thread of the provider; one wins.
pub(crate) fn reap(unit: &AtomicU64, chunk: &AtomicU64) -> Option<u8> {
    let word = unit.load(Ordering::Acquire);
    let old = Unit::unpack(word)?;
    if old.phase == Phase::Free {
        return None;
    }
    // Acquire: the host's last read of the chunk comes before its release.
    if !key_reached(chunk.load(Ordering::Acquire), key(old.generation, RELEASED)) {
        return None;
    }
    let new = Unit { phase: Phase::Free, owner: 0, end: 0, ..old };
    unit.compare_exchange(word, new.pack(), Ordering::AcqRel, Ordering::Relaxed).ok()?;
    Some(old.class)
}

// ---- the owner's fast path -------------------------------------------------------------------------------------------

/// Announces a write before it reads the chunk word and the clock and fills the record; the light barrier orders it before them.
///
/// Release, like every store of a head, because it repeats the committed offset: a host that reads this value instead of the commit's
/// must see the committed records too. (loom found that; on x86-64 it is the same instruction.)
#[inline(always)]
pub(crate) fn announce(line: &AtomicU64, head: Head, mode: Light) {
    line.store(head.0 | WRITING, Ordering::Release);
    light_barrier(mode);
}

/// Whether the host has revoked the chunk, or released it already. Only after [`announce`].
#[inline(always)]
pub(crate) fn revoked(chunk: &AtomicU64, closing_key: u32) -> bool {
    key_reached(chunk.load(Ordering::Acquire), closing_key)
}

/// The store that publishes the record and clears `WRITING`.
#[inline(always)]
pub(crate) fn commit(line: &AtomicU64, head: Head) {
    line.store(head.0, Ordering::Release);
}

// ---- the host --------------------------------------------------------------------------------------------------------

/// A word as the host sees it.
#[cfg(any(loom, test))]
pub(crate) fn snapshot(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

/// `CLOSING(g)`, by the host. After its next barrier, [`may_release`] shows whether the owner is outside of a write. The host makes this
/// store and [`release`] through its journal.
#[cfg(any(loom, test))]
pub(crate) fn revoke(chunk: &AtomicU64, generation: u32, consumed: u32) {
    chunk.store(chunk_word(key(generation, CLOSING), consumed), Ordering::Release);
}

/// Whether, after a barrier that followed [`revoke`], the owner cannot write to the chunk any more and all its records are consumed.
pub(crate) fn may_release(head: Head, unit: u16, generation: u32, consumed: u32) -> bool {
    head.is_valid()
        && head.unit() == unit
        && head.generation() == generation
        && !head.is_writing()
        && head.committed() == consumed
}

/// `RELEASED(g)`, by the host.
#[cfg(any(loom, test))]
pub(crate) fn release(chunk: &AtomicU64, generation: u32, consumed: u32) {
    chunk.store(chunk_word(key(generation, RELEASED), consumed), Ordering::Release);
}

// ---- overflow chunks -------------------------------------------------------------------------------------------------

/// An overflow word: next offset in 8-byte words (bits 0–14), class (16–17), valid (18), records (26–39), generation
/// (40–47), unit (48–63). One compare-exchange reserves both the bytes and the directory entry, in the chunk that the word names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shared {
    pub unit: u16,
    pub generation8: u8,
    pub count: u16,
    pub class: u8,
    pub next: u32,
}

const SHARED_VALID: u64 = 1 << 18;

impl Shared {
    pub fn pack(self) -> u64 {
        u64::from(self.next / 8) & 0x7fff
            | SHARED_VALID
            | u64::from(self.class & 3) << 16
            | (u64::from(self.count) & 0x3fff) << 26
            | u64::from(self.generation8) << 40
            | u64::from(self.unit) << 48
    }
    pub fn unpack(word: u64) -> Option<Shared> {
        (word & SHARED_VALID != 0).then_some(Shared {
            unit: (word >> 48) as u16,
            generation8: (word >> 40) as u8,
            count: (word >> 26) as u16 & 0x3fff,
            class: (word >> 16) as u8 & 3,
            next: (word as u32 & 0x7fff) * 8,
        })
    }
}

/// The number of compare-exchanges that one write may lose before it counts as lost, which bounds the writer's time.
pub(crate) const SHARED_TRIES: u32 = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SharedReservation {
    /// Offset and directory index, in the chunk of this word.
    At(Shared),
    /// The chunk of this word (0: none) is full.
    Full(u64),
    /// Too many threads reserve at once.
    Busy,
}

/// Reserves `size` bytes and a directory entry. SeqCst: the clock is read after it (see the table above).
pub(crate) fn reserve_shared(word: &AtomicU64, size: u32) -> SharedReservation {
    let mut seen = word.load(Ordering::Acquire);
    for _ in 0..SHARED_TRIES {
        let Some(now) = Shared::unpack(seen) else { return SharedReservation::Full(seen) };
        let directory = (u32::from(now.count) + 1) * 8;
        if now.next + size + directory > crate::layout::class_size(now.class) as u32 {
            return SharedReservation::Full(seen);
        }
        let new = Shared { count: now.count + 1, next: now.next + size, ..now };
        match word.compare_exchange_weak(seen, new.pack(), Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => return SharedReservation::At(now),
            Err(other) => seen = other,
        }
    }
    SharedReservation::Busy
}

pub(crate) const ENTRY_COMMITTED: u64 = 1 << 63;
pub(crate) const ENTRY_ABANDONED: u64 = 1 << 62;

pub(crate) fn directory_entry(offset: u32, size: u32) -> u64 {
    ENTRY_COMMITTED | u64::from(size) << 32 | u64::from(offset)
}

/// Publishes a record of an overflow chunk, by the thread that reserved the entry.
pub(crate) fn commit_shared(entry: &AtomicU64, value: u64) {
    entry.store(value, Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn packed_words_unpack_to_the_same_values() {
        let head = Head::new(0xffff, GEN_MASK, 128 * 1024);
        assert!(head.is_valid() && !head.is_writing());
        assert_eq!((head.unit(), head.generation(), head.committed()), (0xffff, GEN_MASK, 131072));
        assert_eq!(Head::new(3, 7, 64).advanced(128), Head::new(3, 7, 192));
        let unit =
            Unit { phase: Phase::SharedClosed, class: 3, generation: 5, owner: 4095, end: 131072 };
        assert_eq!(Unit::unpack(unit.pack()), Some(unit));
        assert_eq!(Unit::unpack(7 << 56), None);
        let shared = Shared { unit: 65535, generation8: 255, count: 2730, class: 3, next: 131072 };
        assert_eq!(Shared::unpack(shared.pack()), Some(shared));
        assert_eq!(Shared::unpack(0), None);
    }

    #[test]
    fn keys_compare_across_the_wrap_of_the_generation() {
        let old = key(GEN_MASK, RELEASED);
        assert!(key_reached(chunk_word(old, 0), key(GEN_MASK, CLOSING)));
        assert!(!key_reached(chunk_word(old, 0), key(0, CLOSING)));
        assert!(key_reached(chunk_word(key(0, CLOSING), 0), key(GEN_MASK, CLOSING)));
        assert!(!key_reached(0, key(1, CLOSING)));
    }

    #[test]
    fn a_block_is_cut_used_up_and_made_whole_again() {
        let block = AtomicU64::new(0);
        let mut units: Vec<u32> = (0..8).map(|_| claim(&block, 1, true).unwrap()).collect();
        assert_eq!(claim(&block, 1, true), None);
        assert_eq!(claim(&block, 0, true), None);
        assert_eq!(free_units(block.load(Ordering::Relaxed)), 0);
        units.sort();
        assert_eq!(units, [0, 4, 8, 12, 16, 20, 24, 28]);
        for unit in units {
            unclaim(&block, 1, unit);
        }
        assert_eq!(block.load(Ordering::Relaxed), 0);
        assert_eq!(claim(&block, 3, false), None);
        assert_eq!(claim(&block, 3, true), Some(0));
        let small = AtomicU64::new(0);
        assert!((0..32).all(|i| claim(&small, 0, true) == Some(i)));
        assert_eq!(claim(&small, 0, true), None);
    }

    #[test]
    fn a_stale_owner_cannot_close_its_successor() {
        let unit = AtomicU64::new(0);
        let chunk = AtomicU64::new(0);
        let first = open(&unit, Phase::Open, 0, 1).unwrap();
        revoke(&chunk, first, 0);
        release(&chunk, first, 0);
        assert_eq!(reap(&unit, &chunk), Some(0));
        assert_eq!(reap(&unit, &chunk), None);
        let second = open(&unit, Phase::Open, 2, 9).unwrap();
        close(&unit, first, 800);
        let now = Unit::unpack(snapshot(&unit)).unwrap();
        assert_eq!((now.phase, now.generation, now.owner), (Phase::Open, second, 9));
        assert_eq!(reap(&unit, &chunk), None);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::fence;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Chunk {
        head: AtomicU64,
        unit: AtomicU64,
        word: AtomicU64,
        revocations: AtomicU64,
        block: AtomicU64,
        data: [UnsafeCell<u64>; 2],
    }

    // SAFETY: the protocol under test makes the cells exclusive; loom checks every access.
    unsafe impl Sync for Chunk {}
    // SAFETY: the protocol under test makes the cells exclusive; loom checks every access.
    unsafe impl Send for Chunk {}

    fn chunk() -> Arc<Chunk> {
        Arc::new(Chunk {
            head: AtomicU64::new(0),
            unit: AtomicU64::new(0),
            word: AtomicU64::new(0),
            revocations: AtomicU64::new(0),
            block: AtomicU64::new(0),
            data: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    /// Reserve, commit, drain: the host reads exactly the committed cells while the writer continues.
    #[test]
    fn a_drain_reads_exactly_the_committed_records() {
        loom::model(|| {
            let c = chunk();
            let w = c.clone();
            let writer = thread::spawn(move || {
                let g = open(&w.unit, Phase::Open, 0, 0).unwrap();
                let mut head = Head::new(0, g, 0);
                for i in 0..2u32 {
                    announce(&w.head, head, Light::Full);
                    w.data[i as usize].with_mut(|p| {
                        // SAFETY: beyond the committed offset only the owner touches the cell; loom checks it.
                        unsafe { *p = u64::from(i) + 1 }
                    });
                    head = head.advanced(8);
                    commit(&w.head, head);
                }
                close(&w.unit, g, 16);
                w.head.store(0, Ordering::Release);
            });
            let head = Head(snapshot(&c.head));
            let end = if head.is_valid() {
                head.committed()
            } else {
                // Not named by a head: closed, or not begun.
                match Unit::unpack(snapshot(&c.unit)) {
                    Some(u) if u.phase == Phase::Closed => u.end,
                    _ => 0,
                }
            };
            for i in 0..end / 8 {
                c.data[i as usize].with(|p| {
                    // SAFETY: committed; loom checks that no writer is on it.
                    assert_eq!(unsafe { *p }, u64::from(i) + 1)
                });
            }
            writer.join().unwrap();
        });
    }

    /// The end of a session: either the host sees the write in flight, or all attempts that were counted are committed.
    #[test]
    fn a_session_ends_without_an_attempt_that_is_not_committed() {
        loom::model(|| {
            let c = chunk();
            let words = Arc::new([AtomicU64::new(1), AtomicU64::new(0)]);
            let (w, writers_words) = (c.clone(), words.clone());
            let writer = thread::spawn(move || {
                let [admission, attempted] = &*writers_words;
                let head = Head::new(0, 1, 0);
                announce(&w.head, head, Light::Full);
                if admission.load(Ordering::Relaxed) == 0 {
                    return commit(&w.head, head);
                }
                attempted.store(1, Ordering::Relaxed);
                commit(&w.head, head.advanced(8));
            });
            let [admission, attempted] = &*words;
            admission.store(0, Ordering::Release);
            fence(Ordering::SeqCst);
            let head = Head(snapshot(&c.head));
            if !head.is_writing() {
                assert_eq!(attempted.load(Ordering::Relaxed) * 8, u64::from(head.committed()));
            }
            writer.join().unwrap();
        });
    }

    /// A closed chunk that its head no longer names shows its final offset (hand-over).
    #[test]
    fn hand_over_never_hides_a_record() {
        loom::model(|| {
            let c = chunk();
            let g = open(&c.unit, Phase::Open, 0, 0).unwrap();
            commit(&c.head, Head::new(0, g, 8));
            let w = c.clone();
            let writer = thread::spawn(move || {
                close(&w.unit, g, 8);
                commit(&w.head, Head::new(1, 1, 0));
            });
            let head = Head(snapshot(&c.head));
            let unit = Unit::unpack(snapshot(&c.unit)).unwrap();
            if head.unit() != 0 {
                assert_eq!((unit.phase, unit.end), (Phase::Closed, 8));
            } else {
                assert_eq!(head.committed(), 8);
            }
            writer.join().unwrap();
        });
    }

    /// Revocation: the owner and the thread that reuses the chunk never write to it at the same time. Three threads, so
    /// the search is bounded to 3 forced preemptions.
    #[test]
    fn revoked_chunks_have_one_writer() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let c = chunk();
            assert_eq!(claim(&c.block, 3, true), Some(0));
            let g = open(&c.unit, Phase::Open, 3, 0).unwrap();
            commit(&c.head, Head::new(0, g, 0));
            let w = c.clone();
            let owner = thread::spawn(move || {
                let head = Head::new(0, g, 0);
                announce(&w.head, head, Light::Full);
                // The count of revocations says whether the word is to be looked at.
                let count = w.revocations.load(Ordering::Acquire);
                if count != 0 && revoked(&w.word, key(g, CLOSING)) {
                    close(&w.unit, g, 0);
                    w.head.store(0, Ordering::Release);
                    return;
                }
                // SAFETY: the chunk is ours until the head says so no more; loom checks it.
                w.data[0].with_mut(|p| unsafe { *p = 1 });
                commit(&w.head, head.advanced(8));
            });
            let h = c.clone();
            let host = thread::spawn(move || {
                revoke(&h.word, g, 0);
                h.revocations.store(1, Ordering::Release);
                fence(Ordering::SeqCst); // the model's membarrier
                let head = Head(snapshot(&h.head));
                if may_release(head, 0, g, 0) {
                    release(&h.word, g, 0);
                } else {
                    let unit = Unit::unpack(snapshot(&h.unit));
                    if unit.is_some_and(|unit| unit.phase == Phase::Closed && unit.end == 0) {
                        release(&h.word, g, 0);
                    }
                }
            });
            if let Some(class) = reap(&c.unit, &c.word) {
                unclaim(&c.block, class, 0);
            }
            if claim(&c.block, 3, true).is_some() {
                open(&c.unit, Phase::Open, 3, 1).unwrap();
                // SAFETY: claimed; loom checks it.
                c.data[0].with_mut(|p| unsafe { *p = 2 });
            }
            owner.join().unwrap();
            host.join().unwrap();
        });
    }

    /// The watermark: a record that the host's snapshot misses has a time after T.
    #[test]
    fn a_missed_record_is_younger_than_t() {
        loom::model(|| {
            let line = Arc::new(AtomicU64::new(Head::new(0, 1, 0).0));
            let clock = Arc::new(AtomicU64::new(1));
            let (l, k) = (line.clone(), clock.clone());
            let writer = thread::spawn(move || {
                announce(&l, Head::new(0, 1, 0), Light::Full);
                let time = k.load(Ordering::Relaxed);
                commit(&l, Head::new(0, 1, 8));
                time
            });
            // T is 1; the clock then ticks, and the barrier comes after.
            clock.store(2, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let head = Head(snapshot(&line));
            let time = writer.join().unwrap();
            if !head.is_writing() && head.committed() == 0 {
                assert!(time > 1);
            }
        });
    }

    /// Two threads claim the last chunk: one gets it, and it can be freed and claimed again.
    #[test]
    fn the_free_list_gives_a_chunk_to_one() {
        loom::model(|| {
            let block = Arc::new(AtomicU64::new(0));
            let b = block.clone();
            let t = thread::spawn(move || {
                let got = claim(&b, 3, true);
                if let Some(unit) = got {
                    unclaim(&b, 3, unit);
                }
                got.is_some()
            });
            let mine = claim(&block, 3, true).is_some();
            let other = t.join().unwrap();
            assert!(mine || other);
            assert_eq!(claim(&block, 3, true).is_some(), !mine);
        });
    }

    /// Two threads reap one released chunk: one wins, the block bit is cleared once.
    #[test]
    fn a_chunk_is_reaped_once() {
        loom::model(|| {
            let c = chunk();
            claim(&c.block, 3, true).unwrap();
            let g = open(&c.unit, Phase::Open, 3, 0).unwrap();
            release(&c.word, g, 0);
            let o = c.clone();
            let take = |c: &Chunk| {
                if let Some(class) = reap(&c.unit, &c.word) {
                    unclaim(&c.block, class, 0);
                }
                if claim(&c.block, 3, true).is_some() {
                    assert_ne!(open(&c.unit, Phase::Open, 3, 0), None);
                    // SAFETY: claimed; loom checks that only one thread is here.
                    c.data[0].with_mut(|p| unsafe { *p += 1 });
                    return 1;
                }
                0
            };
            let t = thread::spawn(move || take(&o));
            let mine = take(&c);
            assert_eq!(mine + t.join().unwrap(), 1);
        });
    }

    /// Overflow chunk: two reservations are disjoint, and a committed entry shows a whole record.
    #[test]
    fn shared_reservations_are_disjoint() {
        loom::model(|| {
            let word = Arc::new(AtomicU64::new(
                Shared { unit: 0, generation8: 1, count: 0, class: 0, next: 0 }.pack(),
            ));
            let c = chunk();
            let entries = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let write = |word: &AtomicU64, c: &Chunk, entries: &[AtomicU64; 2], value: u64| {
                let SharedReservation::At(at) = reserve_shared(word, 8) else { panic!("no room") };
                // SAFETY: reserved; loom checks that nobody else is on the cell.
                c.data[at.next as usize / 8].with_mut(|p| unsafe { *p = value });
                commit_shared(&entries[usize::from(at.count)], directory_entry(at.next, 8));
            };
            let (w, d, e) = (word.clone(), c.clone(), entries.clone());
            let t = thread::spawn(move || write(&w, &d, &e, 1));
            write(&word, &c, &entries, 2);
            let mut sum = 0;
            for entry in entries.iter() {
                let seen = snapshot(entry);
                if seen & ENTRY_COMMITTED != 0 {
                    // SAFETY: committed.
                    c.data[(seen as u32) as usize / 8].with(|p| sum += unsafe { *p });
                }
            }
            assert!(sum == 2 || sum == 3 || sum == 1);
            t.join().unwrap();
        });
    }
}
