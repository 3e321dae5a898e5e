//! The events that a session's files contain: by slot of the current file, and by file of a series. Files lose them when they
//! are overwritten, cut or removed.

use std::collections::{BTreeMap, VecDeque};

use crate::buffer::Place;

/// Files of a series whose events are counted apart. Older ones count as one.
const MAX_FILES: usize = 4096;
/// Slots of a growing file whose events are counted apart. Older ones count as one.
const MAX_SLOTS: usize = 1 << 18;
/// The number under which the oldest files of a long series count. Files have numbers from 1.
pub const OLDEST_FILES: u32 = 0;

/// The contents of a slot of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSlot {
    /// Sequence number of the buffer.
    pub sequence: i64,
    /// Events in the buffer, without the session's own reports.
    pub events: u64,
}

/// The end of a file that another process cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the file.
    pub file: u32,
    /// The first slot that is not whole any more.
    pub first_slot: u64,
    /// Events that are still in that slot, without the session's own reports.
    pub kept: u64,
    /// Buffers that were cut off.
    pub buffers: u64,
    /// Sequence number of the last buffer that was written before. Later buffers are behind the cut.
    pub last_sequence: i64,
    /// The file has no name any more: nobody can read it.
    pub is_removed: bool,
}

/// Events by slot of the current file, and by file of a series.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    /// Contents of the slots from `first_slot` on.
    pub slots: VecDeque<FileSlot>,
    first_slot: u64,
    /// Events in the slots before.
    older: u64,
    /// Number of the file that has the slots.
    file: u32,
    pub series: BTreeMap<u32, u64>,
}

impl FileContents {
    /// Continues the slots of an existing file.
    pub fn restore(&mut self, file: u32, slots: Vec<FileSlot>) {
        (self.file, self.first_slot, self.older, self.slots) = (file, 0, 0, slots.into());
    }

    /// The next buffers are those of another file.
    pub fn clear_slots(&mut self) {
        self.slots.clear();
        self.older = 0;
    }

    /// Counts the oldest slots of a long file as one. Circular files have fewer.
    pub fn forget_old_slots(&mut self) {
        while self.slots.len() > MAX_SLOTS {
            self.older += self.slots.pop_front().map_or(0, |slot| slot.events);
            self.first_slot += 1;
        }
    }

    /// Puts a buffer's contents into a slot. Returns the slot's earlier contents.
    pub fn occupy(&mut self, place: Place, contents: FileSlot) -> FileSlot {
        if self.file != place.file {
            self.clear_slots();
        }
        if self.slots.is_empty() {
            (self.file, self.first_slot) = (place.file, place.slot);
        }
        while place.slot < self.first_slot {
            self.slots.push_front(FileSlot::default());
            self.first_slot -= 1;
        }
        let index = usize::try_from(place.slot - self.first_slot).unwrap_or(usize::MAX);
        if self.slots.len() <= index {
            self.slots.resize(index + 1, FileSlot::default());
        }
        std::mem::replace(&mut self.slots[index], contents)
    }

    /// The contents of a slot of the current file.
    pub fn slot_mut(&mut self, slot: u64) -> Option<&mut FileSlot> {
        let index = slot.checked_sub(self.first_slot)?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// Events in a slot of the current file.
    pub fn events_in(&self, slot: u64) -> u64 {
        let index = slot.checked_sub(self.first_slot).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.slots.get(index)).map_or(0, |slot| slot.events)
    }

    /// Removes the events that a cut removed from the current file, and returns their number.
    pub fn cut(&mut self, cut: &Cut) -> u64 {
        if self.file != cut.file {
            return 0;
        }
        // Older slots have one count together, so a cut among them takes all of it.
        let mut lost = if cut.first_slot <= 1 { std::mem::take(&mut self.older) } else { 0 };
        for (slot, contents) in (self.first_slot..).zip(&mut self.slots) {
            if slot < cut.first_slot || contents.sequence > cut.last_sequence {
                continue;
            }
            let kept = if slot == cut.first_slot { cut.kept.min(contents.events) } else { 0 };
            lost += contents.events - kept;
            contents.events = kept;
        }
        if let Some(events) = self.series.get_mut(&cut.file) {
            *events = events.saturating_sub(lost);
        }
        lost
    }

    /// Removes a file of the series. Returns the events that it received.
    pub fn remove_file(&mut self, file: u32) -> Option<u64> {
        if self.file == file {
            // A later cut finds nothing that has not been counted.
            self.clear_slots();
        }
        self.series.remove(&file)
    }

    /// Events in the circular file.
    pub fn in_slots(&self) -> u64 {
        self.slots.iter().map(|slot| slot.events).sum()
    }

    pub fn add_to_file(&mut self, file: u32, events: u64) {
        *self.series.entry(file).or_default() += events;
        if self.series.len() > MAX_FILES {
            if let Some(oldest) = self.series.keys().copied().find(|file| *file != OLDEST_FILES) {
                if let Some(events) = self.series.remove(&oldest) {
                    *self.series.entry(OLDEST_FILES).or_default() += events;
                }
            }
        }
    }
}
