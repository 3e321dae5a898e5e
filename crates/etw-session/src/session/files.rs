//! The events in a session's files, and what the files lose.

use std::collections::BTreeMap;

use super::Session;
use crate::buffer::FullBuffer;
use crate::file_contents::{Cut, FileSlot};

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// Continues a circular file that was found with these contents, by slot, after the host was killed. `before`: events in the
    /// session's files before it. Events that are in no file and no buffer are overwritten.
    pub fn restore_slots(&mut self, slots: Vec<FileSlot>, before: u64) {
        let in_file: u64 = slots.iter().map(|slot| slot.events).sum();
        self.overwrite_all_but(before + in_file);
        let file = self.next_place().file;
        self.contents_mut().restore(file, slots);
    }

    /// Counts stored events as overwritten that are neither among the `in_files` events of the session's files nor in a buffer.
    fn overwrite_all_but(&mut self, in_files: u64) {
        let kept = in_files + self.events_in_memory();
        let stored = self.ledger().stored;
        self.ledger_mut().overwrite(stored.saturating_sub(kept));
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

    /// Another process has cut the session's file: the events behind are lost. If it has removed the last file of a series, the
    /// events count as overwritten, as those of the files before, and the series continues with the next file.
    pub fn cut_file(&mut self, cut: &Cut) {
        let missing = self.contents_mut().cut(cut);
        self.facts.buffers_lost += cut.buffers;
        if !cut.is_removed || !self.policy().is_series() {
            return self.lose_stored(missing);
        }
        self.ledger_mut().overwrite(missing);
        if self.next_place().file == cut.file {
            self.begin_file();
        }
    }

    /// Buffers for which the current file of the session's series still has room, without those that are on their way to it or filled in part; and
    /// the buffers of a whole file. `None`: there is no series.
    pub fn room_in_series(&self) -> Option<(u64, u64)> {
        let slots = self.settings.slots.filter(|_| self.settings.policy.is_series())?;
        let filled = self.open.iter().flatten().filter(|buffer| buffer.events > 0).count();
        let taken = self.next_place().slot + (filled + self.full.len()) as u64;
        Some((slots.saturating_sub(taken), slots.saturating_sub(1)))
    }

    /// Files of the session's series, with the events that they received. The oldest files of a long series are one entry,
    /// [`OLDEST_FILES`](crate::OLDEST_FILES).
    pub fn series_files(&self) -> impl Iterator<Item = (u32, u64)> {
        self.contents().series.iter().map(|(file, events)| (*file, *events))
    }

    /// Number of the last file of the series that received events.
    pub fn last_series_file(&self) -> Option<u32> {
        self.contents().series.keys().next_back().copied()
    }

    /// Continues a series whose files hold these events, after the host was killed. Events that are in no file and no buffer
    /// are overwritten: somebody removed their file.
    pub fn restore_series(&mut self, files: BTreeMap<u32, u64>) {
        self.overwrite_all_but(files.values().sum());
        self.contents_mut().series = files;
    }

    /// A file of the series was removed: its events are counted as overwritten. If it is the last one, the next file follows.
    pub fn remove_series_file(&mut self, file: u32) {
        let Some(events) = self.contents_mut().remove_file(file) else { return };
        self.ledger_mut().overwrite(events);
        if self.next_place().file == file {
            self.begin_file();
        }
    }
}
