//! Chunks as the host sees them: their words, what of them is consumed, and when they are released or taken back.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::record::{le32, le64};
use super::stream::{Ref, Stream};
use super::{DrainOptions, Drained, Reader};
use crate::layout::*;
use crate::proto::{self, CLOSING, Head, Phase, RELEASED, Unit};

#[derive(Debug)]
pub(super) struct ChunkState {
    pub(super) generation: u32,
    pub(super) consumed: u32,
    pub(super) phase: u32,
    /// The batch whose advance published CLOSING.
    pub(super) closing_batch: u64,
    pub(super) end: u32,
    pub(super) changed: Instant,
    /// Its owner was found gone.
    pub(super) is_orphan: bool,
    /// Overflow chunk: consumed entries, entries in flight.
    pub(super) bits: Vec<u64>,
    pub(super) pending: BTreeMap<u32, (u64, Instant)>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineView {
    pub(super) head: Head,
    pub(super) since: u64,
    pub(super) tid: u32,
}

/// The owner's line, if its head names this chunk in this generation.
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

    /// The chunks: unit, word; and how many words are hostile. No two overlap, whatever the words say.
    pub(super) fn all_chunks(&mut self) -> (Vec<(u16, Unit)>, u64) {
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

    pub(super) fn is_released(&self, number: u16, generation: u32) -> bool {
        let at = C_CHUNKS + usize::from(number) * 8;
        let word = match self.stores.get(&(at as u32)) {
            Some(word) => *word,
            None => self.control.memory.word(at).load(Ordering::Relaxed),
        };
        ((word >> 32) as u32) == proto::key(generation, RELEASED)
    }

    /// What we know of a chunk; from the control when we meet it, or its generation, for the first time.
    pub(super) fn chunk(&mut self, number: u16, generation: u32) -> &mut ChunkState {
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

    pub(super) fn collect(
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

    /// After the merge: consumed positions, chunks that can be released, chunks to take back.
    /// `lines` and `chunks` are those that it began with: what happened since is seen by the next.
    pub(super) fn settle(
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
