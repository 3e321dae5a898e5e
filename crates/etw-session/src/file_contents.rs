//! The events that a session's files contain, where files lose them: slots of circular files, and files of a series.

use std::collections::BTreeMap;

/// Files of a series whose events are counted apart. Older ones count as one.
const MAX_FILES: usize = 4096;
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

/// Events by slot of a circular file, or by file of a series. In other modes, files lose nothing.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    pub slots: Vec<FileSlot>,
    pub series: BTreeMap<u32, u64>,
}

impl FileContents {
    /// Puts a buffer's contents into a slot; what the slot held before.
    pub fn occupy(&mut self, slot: u64, contents: FileSlot) -> FileSlot {
        let index = usize::try_from(slot).unwrap_or(usize::MAX);
        if self.slots.len() <= index {
            self.slots.resize(index + 1, FileSlot::default());
        }
        std::mem::replace(&mut self.slots[index], contents)
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
