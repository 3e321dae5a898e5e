//! Overflow chunks: several threads of one processor reserve records in one of them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Writer;
use crate::layout::*;
use crate::proto::{self, Phase, Shared, SharedRoom, Unit};

#[derive(Debug)]
pub(super) struct SharedPlace {
    pub(super) entry: *const AtomicU64,
    pub(super) offset: u32,
    pub(super) room: u32,
    /// Unit and generation of a chunk that holds this record alone.
    pub(super) own: Option<(u16, u32)>,
}

impl Writer {
    /// Room in this processor's overflow chunk, or in a chunk of its own for a large event.
    pub(super) fn overflow(&self, need: usize) -> Option<(*mut u8, SharedPlace)> {
        let smallest = class_for(need + 8)?;
        if smallest > 0 && need > class_size(1) / 2 {
            let (unit, class, generation) =
                // Its count is known from the beginning: one.
                self.allocate(smallest, smallest, Phase::Shared, 1)?;
            let entry: *const AtomicU64 = self.entry(unit, class, 0);
            let place =
                SharedPlace { entry, offset: 0, room: need as u32, own: Some((unit, generation)) };
            return Some((self.address(unit), place));
        }
        let processor = usize::from(self.cpu.current()) % OVERFLOW_WORDS;
        let word = self.first().word(P_OVERFLOW + processor * 64);
        for _ in 0..8 {
            let seen = match proto::reserve_shared(word, need as u32) {
                SharedRoom::At(at) => {
                    let entry: *const AtomicU64 =
                        self.entry(at.unit, at.class, usize::from(at.count));
                    // SAFETY: `next + need` is inside the chunk, by the reservation.
                    let record = unsafe { self.address(at.unit).add(at.next as usize) };
                    let place =
                        SharedPlace { entry, offset: at.next, room: need as u32, own: None };
                    return Some((record, place));
                }
                SharedRoom::Busy => return None,
                SharedRoom::Full(seen) => seen,
            };
            let (unit, class, generation) = self.allocate(smallest, 1, Phase::Shared, u16::MAX)?;
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
                // Somebody else was faster. Nobody has seen our chunk's word in use: give it back.
                let mut unit_word = Unit::unpack(self.unit(unit).load(Ordering::Relaxed))?;
                unit_word.phase = Phase::Free;
                self.unit(unit).store(unit_word.pack(), Ordering::Release);
                let block = usize::from(unit) / BLOCK_UNITS;
                let local = u32::from(unit) % BLOCK_UNITS as u32;
                proto::unclaim(self.first().word(P_BLOCKS + block * 8), class, local);
                self.not_dry();
            }
        }
        None
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
