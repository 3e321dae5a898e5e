//! The events that a session's files contain, where files lose them: slots of circular files, and files of a series.

use std::collections::BTreeMap;

use crate::buffer::FullBuffer;
use crate::session::Session;

/// Files of a series whose events are counted apart. Older ones count as one.
const MAX_FILES: usize = 4096;

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

    fn add_to_file(&mut self, file: u32, events: u64) {
        *self.series.entry(file).or_default() += events;
        // Nobody asks for the oldest ones of so many.
        if self.series.len() > MAX_FILES {
            self.series.pop_first();
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// Continues a circular file that was found with these contents, by slot, after the host was killed. `before`: events in the
    /// session's files before it. Events that are in no file and no buffer are overwritten.
    pub fn restore_slots(&mut self, slots: Vec<FileSlot>, before: u64) {
        let in_file: u64 = slots.iter().map(|slot| slot.events).sum();
        let kept = before + in_file + self.events_in_memory();
        let stored = self.ledger().stored;
        self.ledger_mut().overwrite(stored.saturating_sub(kept));
        self.contents_mut().slots = slots;
    }

    /// Events in the session's circular file.
    pub fn events_in_file(&self) -> u64 {
        self.contents().in_slots()
    }

    /// A buffer of a series is in its file.
    pub(crate) fn count_in_series(&mut self, full: &FullBuffer<B>) {
        if self.policy().is_series() {
            self.contents_mut().add_to_file(full.place().file, full.events());
        }
    }

    /// Files of the session's series, with the events that they received.
    pub fn series_files(&self) -> impl Iterator<Item = (u32, u64)> {
        self.contents().series.iter().map(|(file, events)| (*file, *events))
    }

    /// Number of the last file of the series that received events.
    pub fn last_series_file(&self) -> Option<u32> {
        self.contents().series.keys().next_back().copied()
    }

    /// Continues a series whose files received these events.
    pub fn restore_series(&mut self, files: impl IntoIterator<Item = (u32, u64)>) {
        self.contents_mut().series = files.into_iter().collect();
    }

    /// A file of the series was removed: its events are counted as overwritten.
    pub fn remove_series_file(&mut self, file: u32) {
        if let Some(events) = self.contents_mut().series.remove(&file) {
            self.ledger_mut().overwrite(events);
        }
    }
}
