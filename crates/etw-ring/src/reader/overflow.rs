//! Overflow chunks: their directories, and their records in the merge.

use std::cell::OnceCell;
use std::sync::atomic::Ordering;

use super::record::{Header, RecordBytes, le64};
use super::stream::{COPIES, Collected, Copied, Ref, Stream};
use super::{Drained, Reader};
use crate::layout::*;
use crate::proto::{self, Phase, Shared, Unit};

impl Reader {
    pub(super) fn shared_words(&self) -> Vec<Option<Shared>> {
        let mut bytes = vec![0; OVERFLOW_WORDS * 64];
        self.segments[0].source.read(P_OVERFLOW, &mut bytes);
        std::sync::atomic::fence(Ordering::Acquire);
        bytes.chunks_exact(64).map(|line| Shared::unpack(le64(line, 0))).collect()
    }

    /// The reserved directory entries of an overflow chunk. `None` while their number is unknown: a thread has replaced the overflow
    /// word and has not closed the chunk yet, or has opened the chunk and not yet stored the word.
    ///
    /// `words`: read when first needed.
    pub(super) fn directory(
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
            // Closed, or allocated for one record.
            Phase::SharedClosed => Some(usize::from(unit.owner)),
            Phase::Shared if unit.owner != u16::MAX => Some(usize::from(unit.owner)),
            _ => None,
        };
        // The words may have been read before this chunk was opened, or this chunk may have been closed since its own word was read.
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

    pub(super) fn entries(&self, number: u16, unit: Unit, count: usize) -> Vec<u64> {
        let size = class_size(unit.class);
        let count = count.min(size / (RECORD_HEADER_SIZE + 8));
        let mut bytes = vec![0; count * 8];
        let (segment, base) = self.position(number);
        self.segments[segment].source.read(base + size - count * 8, &mut bytes);
        std::sync::atomic::fence(Ordering::Acquire);
        bytes.chunks_exact(8).rev().map(|b| le64(b, 0)).collect()
    }

    /// The entries of a chunk that a killed process left without a count, as far as they are plausible. Behind them lies record data,
    /// which may look like entries.
    pub(super) fn entries_left(&self, number: u16, unit: Unit) -> Vec<u64> {
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

    pub(super) fn is_record(&self, number: u16, offset: u32, room: u32) -> bool {
        let (segment, base) = self.position(number);
        self.header(segment, base + offset as usize).record_size(room) == Some(room)
    }

    pub(super) fn header(&self, segment: usize, at: usize) -> Header {
        let mut bytes = [0; RECORD_HEADER_SIZE];
        self.segments[segment].source.read(at, &mut bytes);
        Header::read(&bytes)
    }

    /// Collects the records of an overflow chunk that lie below the watermark.
    pub(super) fn collect_shared(
        &mut self,
        number: u16,
        unit: Unit,
        words: &OnceCell<Vec<Option<Shared>>>,
        to: &mut Collected<'_>,
    ) {
        let Collected { watermark, ended, refs, out, .. } = to;
        let (watermark, ended) = (*watermark, *ended);
        let size = class_size(unit.class) as u32;
        let units = CLASS_UNITS[unit.class as usize];
        let known = self.directory(number, unit, words);
        let is_known = known.is_some();
        let entries = match known {
            Some(entries) => entries,
            None if ended => self.entries_left(number, unit),
            None => Vec::new(),
        };
        let (segment, base) = self.position(number);
        let memory = self.control.memory.clone();
        let state = self.chunk(number, unit.generation);
        while state.bits.len() < units * 2 {
            let at = C_BITS + usize::from(number) * 16 + state.bits.len() * 8;
            state.bits.push(memory.word(at).load(Ordering::Relaxed));
        }
        let mut consumed = state.bits.clone();
        let mut done = (unit.phase == Phase::SharedClosed && is_known) || ended;
        let mut expect = 0;
        let mut copy = Copied::default();
        for (index, entry) in entries.iter().copied().enumerate() {
            if entry == 0 {
                if !ended {
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
                && offset % 8 == 0
                && room as usize >= RECORD_HEADER_SIZE
                && u64::from(offset) + u64::from(room) + u64::from(directory) <= u64::from(size);
            if !fits {
                // The bit is set, so that the entry counts once.
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
            if header.record_size(room).is_none() {
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
        // `end` is the final number of records, once that is known.
        state.end = if done { count as u32 } else { u32::MAX };
        self.store_bits(number);
    }

    pub(super) fn store_bits(&mut self, number: u16) {
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

    /// The next record of overflow chunks. `None`: there are no more.
    #[inline(never)]
    pub(super) fn peek_overflow<'s>(
        &mut self,
        stream: &'s mut Stream,
        out: &mut Drained,
    ) -> Option<RecordBytes<'s>> {
        let Stream { refs, next_ref, copies, .. } = stream;
        while let Some(r) = refs.get(*next_ref).copied() {
            let (segment, base) = self.position(r.unit);
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
            if RecordBytes::read(whole, true).is_some_and(|record| record.time() == r.time) {
                // The copy stays valid until the next `get`.
                let start = (r.offset - copies[at].at) as usize;
                return RecordBytes::read(copies[at].bytes.get(start..)?, true);
            }
            // The record was valid when it was collected, and the provider has changed it since.
            out.hostile += 1;
            *next_ref += 1;
            self.mark(r.unit, r.index as usize);
        }
        None
    }

    #[inline(never)]
    pub(super) fn step_overflow(&mut self, stream: &mut Stream, seq: u32) {
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

    /// Marks a record of an overflow chunk as consumed.
    pub(super) fn mark(&mut self, unit: u16, index: usize) {
        if let Some(state) = self.chunks.get_mut(&unit) {
            if let Some(bits) = state.bits.get_mut(index / 64) {
                *bits |= 1 << (index % 64);
                let bits = *bits;
                self.store(C_BITS + usize::from(unit) * 16 + index / 64 * 8, bits);
            }
        }
    }
}
