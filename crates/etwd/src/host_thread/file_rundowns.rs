//! Rundowns of the system in each file of a session, also in snapshots, so that each is complete by itself.

use std::time::{Duration, Instant};

use etw_session::State;
use etw_wire::requests::Response;

use super::HostThread;
use crate::global_session::GlobalSession;

/// How long the end of a recording waits for buffers of its file.
const PATIENCE: Duration = Duration::from_secs(2);
/// A file of a series has room for two rundowns and as many events, or none has a rundown.
const LEAST_RUNDOWNS: u64 = 4;

/// A change of a session's file.
#[derive(Clone, Copy)]
struct DueChange {
    /// The number of the file that ends. `None`: the series has gone on to another one, which has no rundown yet.
    file: Option<u32>,
}

impl HostThread {
    /// Ends a session's recording of the system, so that the current file has its rundown, and begins another one, whose rundown and events
    /// wait for the next file: [`begin_file_with_system`](Self::begin_file_with_system). A recording that cannot be replaced goes on, with a
    /// note.
    pub(super) fn end_file_with_system(&mut self, slot: usize) {
        if let Err(message) = self.begin_held_recording(slot) {
            let what = format!(
                "a file of the session has no rundown of the system at its end, and the next one none at its beginning: {message}"
            );
            self.note(slot, what);
        }
    }

    /// Ends the recording of the system in a session in memory, so that its buffers end with a rundown: the beginnings of what still lives may
    /// have left them. Another recording begins, whose events wait: [`end_snapshot`](Self::end_snapshot). Returns why the buffers do not
    /// have all of the rundown.
    pub(super) fn begin_snapshot(&mut self, slot: usize) -> Option<String> {
        self.system_of(slot)?;
        let start = self.engine.session_time(slot);
        if let Err(message) = self.begin_held_recording(slot) {
            return Some(format!("the file lacks the system's rundown: {message}"));
        }
        let is_given = self.global(slot)?.recordings_before.is_empty();
        let (_, session) = self.session(slot)?;
        let what = "the file lacks a part of the system's rundown, with names of processes and images: the session's buffers do not hold it; \
                    start the session with more (--buffers)";
        (!is_given || session.has_overwritten_since(start)).then(|| what.to_owned())
    }

    /// A session in memory goes on behind a snapshot.
    pub(super) fn end_snapshot(&mut self, slot: usize) {
        self.engine.release_source(slot);
    }

    /// Ends a session's recording of the system with its rundown, and begins another one, whose events are held back. Fails with the reason
    /// why the recording cannot be replaced.
    fn begin_held_recording(&mut self, slot: usize) -> Result<(), String> {
        let Some((system, classes)) = self.system_of(slot) else { return Ok(()) };
        if let Response::Error { message, .. } = self.replace_system(slot, system, classes) {
            return Err(message);
        }
        let Some((hosted, session)) = self.session(slot) else { return Ok(()) };
        if session.state() != State::Running {
            // A full file takes no rundown: the next one has both.
            return Ok(());
        }
        let since = hosted.host.ring_set.since;
        self.engine.hold_source(slot, since);
        let is_given = |global: &GlobalSession| global.recordings_before.is_empty();
        // Records that find no buffer in that time, as the disk is slow, are in the next file.
        self.rounds_until(PATIENCE, |host| host.global(slot).is_none_or(is_given));
        Ok(())
    }

    /// The session goes on in another file, which gets the rundown of the recording that was begun for it.
    pub(super) fn begin_file_with_system(&mut self, slot: usize) {
        self.engine.release_source(slot);
        if let Some((hosted, session)) = self.engine.session_mut(slot) {
            let (file, bytes) = (session.next_place().file, session.facts().bytes);
            hosted.host.series.begin_file(file, bytes);
            hosted.repeat_modules();
        }
    }

    /// Continues series of files of the system's events: each file has a rundown at its beginning, and one at its end, for which it still has
    /// room now.
    pub(super) fn continue_series(&mut self) {
        for slot in self.engine.session_slots() {
            let Some(DueChange { file }) = self.due_change(slot) else { continue };
            let began = Instant::now();
            self.end_file_with_system(slot);
            let now = self.engine.session_time(slot);
            let is_still = |host: &HostThread| {
                host.session(slot).is_some_and(|(_, one)| Some(one.next_place().file) == file)
            };
            if is_still(self)
                && let Some((_, session)) = self.engine.session_mut(slot)
            {
                session.flush(now);
                self.engine.make_final();
            }
            // Events that came meanwhile may have filled the file.
            if is_still(self)
                && let Some((_, session)) = self.engine.session_mut(slot)
            {
                session.begin_file();
            }
            self.begin_file_with_system(slot);
            if let Some((hosted, _)) = self.engine.session_mut(slot) {
                hosted.host.series.changed_in(began.elapsed());
            }
        }
    }

    /// The change of a session's file in a series that is due.
    fn due_change(&mut self, slot: usize) -> Option<DueChange> {
        let size = self.engine.rundown_size(slot);
        let (hosted, session) = self.engine.session_mut(slot)?;
        let (left, all) = session.room_in_series()?;
        let global = &mut hosted.host;
        global.config.system.as_ref()?;
        let is_possible = global.recordings_before.is_empty()
            && hosted.failing().is_none()
            && session.state() == State::Running;
        let size = size + hosted.modules_size();
        let series = &mut hosted.host.series;
        if !is_possible || series.is_too_small {
            return None;
        }
        let buffer_size = u64::from(session.buffer_size());
        let least = (size * LEAST_RUNDOWNS).div_ceil(buffer_size);
        if least > all {
            series.is_too_small = true;
            let note = too_small((least + 1) * buffer_size);
            hosted.size_note = Some(note.clone());
            self.note(slot, note);
            return None;
        }
        if !series.may_begin() {
            return None;
        }
        let file = session.next_place().file;
        if file != series.file {
            return Some(DueChange { file: None });
        }
        // The end has more than the beginning: the machine's configuration, names of files and of the kernel's functions.
        let size = size + size / 2 + series.bytes_meanwhile(session.facts().bytes);
        let needed = size.div_ceil(buffer_size) + 1;
        (left <= needed.min(all / 2)).then_some(DueChange { file: Some(file) })
    }

    /// Notes something about a session once.
    pub(super) fn note(&mut self, slot: usize, what: String) {
        if let Some((hosted, _)) = self.engine.session_mut(slot)
            && !hosted.notes.contains(&what)
        {
            hosted.notes.push(what);
        }
    }
}

/// The note on a series whose files are too small for rundowns.
fn too_small(needed: u64) -> String {
    format!(
        "the files of the series are too small for rundowns of the system, so those in between lack names of processes, threads and images: \
         a maximum size of {} KiB has room for them (--max-size)",
        needed.div_ceil(1024)
    )
}
