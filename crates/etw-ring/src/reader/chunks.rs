//! Chunks as the host sees them: their words, their consumed positions, and when they are released or revoked.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::record::{le32, le64};
use super::stream::{Collected, Stream};
use super::{DrainOptions, Drained, Reader};
use crate::layout::*;
use crate::proto::{self, CLOSING, Head, Phase, RELEASED, Unit};

#[derive(Debug)]
pub(super) struct ChunkState {
    pub(super) generation: u32,
    pub(super) consumed: u32,
    pub(super) phase: u32,
    /// The batch that published CLOSING.
    pub(super) closing_batch: u64,
    pub(super) end: u32,
    pub(super) changed: Instant,
    /// When it was last asked whether the owner has ended.
    pub(super) asked: Instant,
    /// Whether the owner was found to have ended.
    pub(super) is_orphan: bool,
    /// The consumed entries of an overflow chunk, and its entries in flight.
    pub(super) bits: Vec<u64>,
    pub(super) pending: BTreeMap<u32, (u64, Instant)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineView {
    pub(super) head: Head,
    pub(super) since: u64,
    pub(super) tid: u32,
}

/// The owner of a chunk that did not change for so long may have ended. Asking is a system call, so as much time is between two.
const ASK_AFTER: Duration = Duration::from_millis(20);

impl ChunkState {
    /// Whether it is time to ask for the owner.
    fn is_to_ask(&mut self) -> bool {
        let is_due = self.asked.elapsed() >= ASK_AFTER;
        if is_due {
            self.asked = Instant::now();
        }
        is_due
    }
}

/// Lines and chunks of a pool without a write in flight. Every record up to the time of the drain is in them.
#[derive(Debug)]
pub(super) struct Still {
    pub(super) lines: Vec<LineView>,
    pub(super) chunks: Vec<(u16, Unit)>,
    pub(super) hostile: u64,
}

/// The owner's line, if its head names this chunk and generation.
pub(super) fn named(lines: &[LineView], number: u16, unit: Unit) -> Option<LineView> {
    let line = lines.get(usize::from(unit.owner))?;
    (line.head.is_valid()
        && line.head.unit() == number
        && line.head.generation() == unit.generation)
        .then_some(*line)
}

impl Reader {
    pub(super) fn lines(&self) -> Vec<LineView> {
        let mut bytes = vec![0; self.slots() * LINE_SIZE];
        self.segments[0].source.read(P_LINES, &mut bytes);
        // Acquire for the next reads: the bytes below the committed offsets, and the final offsets of chunks that no head names any
        // more.
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

    /// All chunks, as unit and word, and the number of hostile words. No two chunks overlap, whatever the words claim.
    pub(super) fn all_chunks(&mut self) -> (Vec<(u16, Unit)>, u64) {
        let (mut found, mut hostile) = (Vec::new(), 0);
        for (number, segment) in self.segments.iter().enumerate() {
            // The buffer is zeroed once where it grows, not for each read.
            self.table.resize((segment.units * 8).max(self.table.len()), 0);
            let table = &mut self.table[..segment.units * 8];
            let at = P_UNITS + number * MAX_SEGMENT_UNITS * 8;
            self.segments[0].source.read(at, table);
            std::sync::atomic::fence(Ordering::Acquire);
            let mut local = 0;
            // Nearly all units are free.
            while let Some(free) =
                table[local * 8..].chunks_exact(8).position(|word| !Unit::is_free(word))
            {
                local += free;
                let unit = Unit::unpack(le64(table, local * 8));
                let chunk = unit.map(|unit| (unit, CLASS_UNITS[unit.class as usize]));
                local += match chunk {
                    Some((unit, size)) if local % size == 0 && local + size <= segment.units => {
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

    pub(super) fn is_released(&self, number: u16, generation: u32) -> bool {
        let at = C_CHUNKS + usize::from(number) * 8;
        let word = match self.stores.get(&(at as u32)) {
            Some(word) => *word,
            None => self.control.memory.word(at).load(Ordering::Relaxed),
        };
        ((word >> 32) as u32) == proto::key(generation, RELEASED)
    }

    /// The state of a chunk; read from the control page when the chunk, or its generation, is new to this reader.
    pub(super) fn chunk(&mut self, number: u16, generation: u32) -> &mut ChunkState {
        if self.chunks.get(&number).is_none_or(|c| c.generation != generation) {
            let memory = &self.control.memory;
            let at = C_CHUNKS + usize::from(number) * 8;
            let word = match self.stores.get(&(at as u32)) {
                Some(word) => *word,
                None => memory.word(at).load(Ordering::Relaxed),
            };
            let known = (word >> 40) as u32 == generation;
            // The bits are cleared when a chunk is released, so they belong to this generation.
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
                    // An earlier host revoked it: the next batch has the count for that.
                    closing_batch: self.batch + 1,
                    end: 0,
                    changed: Instant::now(),
                    asked: Instant::now(),
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

    pub(super) fn collect(
        &mut self,
        lines: &[LineView],
        chunks: &[(u16, Unit)],
        to: &mut Collected<'_>,
    ) {
        let words = OnceCell::new();
        for (number, unit) in chunks.iter().copied() {
            if self.is_released(number, unit.generation) {
                continue;
            }
            let size = class_size(unit.class) as u32;
            let (segment, base) = self.position(number);
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
                        to.out.hostile += 1;
                        continue;
                    }
                    if end > state.consumed {
                        to.streams.push(Stream {
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
                    self.collect_shared(number, unit, &words, to);
                }
            }
        }
    }

    /// After the merge: stores consumed positions, releases chunks, and revokes idle ones. `lines` and `chunks` are those that the drain
    /// started with; the next drain sees later changes.
    pub(super) fn settle(
        &mut self,
        lines: &[LineView],
        chunks: &[(u16, Unit)],
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
                        // This drain read the heads after the owner had ended: nothing more will come.
                        out.torn += u64::from(head.is_some_and(|l| l.head.is_writing()));
                        release = true;
                    } else if at_rest
                        && idle >= ASK_AFTER
                        && line.tid != 0
                        && state.is_to_ask()
                        && options.alive.is_some_and(|alive| !alive(line.tid))
                    {
                        // The owner may have written since this drain read the heads.
                        state.is_orphan = true;
                    } else if state.phase == CLOSING {
                        // Only if this drain's barrier came after the store of CLOSING.
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
            let old = self.control.memory.word(at).load(Ordering::Relaxed);
            if old != word {
                self.store(at, word);
            }
            // The writer reads the chunk's word only if the count has changed.
            if unit.phase == Phase::Open && phase != 0 && old >> 32 != word >> 32 {
                self.revocations += 1;
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
