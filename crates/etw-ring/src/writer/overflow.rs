//! Overflow chunks, in which several threads of one CPU reserve records.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Writer;
use crate::layout::*;
use crate::proto::{self, Phase, Shared, SharedReservation, Unit};

/// The class of a processor's overflow chunk, if the pool has one of this class.
pub(super) const OVERFLOW_CLASS: u8 = 1;

/// A record in an overflow chunk.
#[derive(Debug)]
pub(super) struct SharedRecord {
    pub(super) entry: *const AtomicU64,
    pub(super) offset: u32,
    pub(super) size: u32,
    /// The chunk, if it holds this record alone.
    pub(super) own_chunk: Option<OwnChunk>,
}

impl SharedRecord {
    /// The entry of the committed record.
    pub(super) fn committed(&self) -> u64 {
        proto::directory_entry(self.offset, self.size)
    }

    /// The entry of a record that nobody reads.
    pub(super) fn abandoned(&self) -> u64 {
        self.committed() | proto::ENTRY_ABANDONED
    }
}

/// A chunk that holds one record alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnChunk {
    pub(super) unit: u16,
    pub(super) generation: u32,
}

impl Writer {
    /// Reserves a record in this CPU's overflow chunk, or in a chunk of its own for a large event.
    pub(super) fn overflow(&self, need: usize) -> Option<(*mut u8, SharedRecord)> {
        let smallest = class_for(need + 8)?;
        if smallest > 0 && need > class_size(1) / 2 {
            let (unit, class, generation) =
                // The number of its records is known: one.
                self.allocate(smallest, smallest, Phase::Shared, 1)?;
            let entry: *const AtomicU64 = self.entry(unit, class, 0);
            let record = SharedRecord {
                entry,
                offset: 0,
                size: need as u32,
                own_chunk: Some(OwnChunk { unit, generation }),
            };
            return Some((self.address(unit), record));
        }
        let processor = usize::from(self.cpu.current()) % OVERFLOW_WORDS;
        let word = self.first().word(P_OVERFLOW + processor * 64);
        for _ in 0..8 {
            let seen = match proto::reserve_shared(word, need as u32) {
                SharedReservation::At(at) => {
                    let entry: *const AtomicU64 =
                        self.entry(at.unit, at.class, usize::from(at.count));
                    // SAFETY: `next + need` is inside the chunk, by the reservation.
                    let address = unsafe { self.address(at.unit).add(at.next as usize) };
                    let record =
                        SharedRecord { entry, offset: at.next, size: need as u32, own_chunk: None };
                    return Some((address, record));
                }
                SharedReservation::Busy => return None,
                SharedReservation::Full(seen) => seen,
            };
            let (unit, class, generation) =
                self.allocate(smallest, OVERFLOW_CLASS, Phase::Shared, u16::MAX)?;
            let fresh =
                Shared { unit, generation8: generation as u8, count: 0, class, next: 0 }.pack();
            if word.compare_exchange(seen, fresh, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                if let Some(old) = Shared::unpack(seen) {
                    let word = self.unit(old.unit);
                    if let Some(unit) = Unit::unpack(word.load(Ordering::Relaxed)) {
                        proto::close_shared(word, unit.generation, old.count, old.next);
                    }
                }
            } else {
                // Another thread was faster. No thread has seen this chunk in the overflow word: free it.
                let mut unit_word = Unit::unpack(self.unit(unit).load(Ordering::Relaxed))?;
                unit_word.phase = Phase::Free;
                self.unit(unit).store(unit_word.pack(), Ordering::Release);
                self.unclaim(unit, class);
                self.not_dry();
            }
        }
        None
    }

    /// Stores the directory entry of a reserved record, whose chunk is then full if the record has one of its own.
    pub(super) fn end_shared(&self, record: &SharedRecord, entry: u64) {
        // SAFETY: the entry lies in a chunk that the host cannot release before this store.
        proto::commit_shared(unsafe { &*record.entry }, entry);
        if let Some(OwnChunk { unit, generation }) = record.own_chunk {
            proto::close_shared(self.unit(unit), generation, 1, record.size);
        }
    }

    pub(super) fn clear_directory(&self, unit: u16, class: u8) {
        let size = class_size(class);
        let entries = size / (RECORD_HEADER_SIZE + 8) + 1;
        for index in 0..entries {
            self.entry(unit, class, index).store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn entry(&self, unit: u16, class: u8, index: usize) -> &AtomicU64 {
        let size = class_size(class);
        let at = size - 8 * (index + 1);
        // SAFETY: inside the chunk: `index` is below its number of entries; aligned; atomics for shared words.
        unsafe { &*self.address(unit).add(at).cast::<AtomicU64>() }
    }
}
