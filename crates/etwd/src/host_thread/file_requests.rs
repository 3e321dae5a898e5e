//! Requests about files: another file for a session, and snapshots.

use std::path::Path;

use etw_host::StartError;
use etw_host::files::Files;
use etw_host::kill_point::kill_point;
use etw_types::Status;
use etw_wire::requests::Response;

use super::HostThread;
use super::requests::has_ended;
use crate::asker::Asker;
use crate::global_session::FileBefore;
use crate::kept_state::KeptFile;
use crate::rights::{may_write, refused};

/// Win32 `ERROR_BUSY`.
const ERROR_BUSY: Status = Status(170);
/// Files of one session that may wait for their disk.
const MAX_FILES_BEFORE: usize = 16;

impl HostThread {
    /// Checks that no session writes this file, or is completing it.
    pub(super) fn check_unused(&self, file: &Path) -> Result<(), Response> {
        let of_sessions = self
            .engine
            .sessions()
            .map(|(_, hosted, _)| (hosted.host.name(), hosted.host.files().collect::<Vec<_>>()));
        let of_ending =
            self.ending.values().map(|ending| (&ending.name[..], ending.files.iter().collect()));
        for (name, files) in of_sessions.chain(of_ending) {
            if files.iter().any(|other| is_same_file(other, file)) {
                let what = format!(
                    "{}: session {name} records to this file; name another one",
                    file.display()
                );
                return Err(refused(Status::ERROR_BAD_PATHNAME, what));
            }
        }
        Ok(())
    }

    /// Continues a session in another file. The controller is answered when the file before is complete, which depends on its
    /// disk.
    pub(super) fn change_file(
        &mut self,
        slot: usize,
        file: &Path,
        from: &Asker,
    ) -> Result<(), Response> {
        may_write(from.user(), file)?;
        self.check_unused(file)?;
        self.drain_all();
        let Some((hosted, session)) = self.session(slot) else { return Err(has_ended()) };
        if !hosted.has_storage() || !session.policy().has_own_file {
            let what = "only a session with a sequential or circular file can be given another one";
            return Err(refused(Status::ERROR_NOT_SUPPORTED, what));
        }
        if hosted.host.before.len() >= MAX_FILES_BEFORE {
            let what = "the disk is too slow: 16 files of this session wait to be completed";
            return Err(refused(ERROR_BUSY, what));
        }
        let number = session.next_place().file + 1;
        let mut facts = hosted.facts.clone();
        facts.header.log_file_name = file.to_string_lossy().into_owned();
        let files = Files::create(file, facts.clone(), 0).map_err(|error| {
            let error = StartError::File { path: file.to_owned(), source: error };
            refused(Status::ERROR_BAD_PATHNAME, error.to_string())
        })?;
        kill_point("file made");
        self.end_file_with_system(slot);
        let now = self.engine.session_time(slot);
        let Some((_, session)) = self.engine.session_mut(slot) else { return Err(has_ended()) };
        session.flush(now);
        // The flushed buffers become final, and go to the file before. Nothing is drained meanwhile: of the events that came since, some
        // would fill a buffer and go there, too, and earlier ones of another CPU to the next file.
        self.engine.make_final();
        let lost = self.engine.ledger(slot).lost_total();
        let Some((hosted, session)) = self.engine.session_mut(slot) else {
            return Err(has_ended());
        };
        let closing = hosted.closing(session, lost, true);
        let events = session.events_in_file();
        let global = &mut hosted.host;
        let kept = KeptFile {
            number: global.file_number,
            path: global.config.file.replace(file.to_owned()).unwrap_or_default(),
            facts: std::mem::replace(&mut hosted.facts, facts).to_bytes(),
            events,
        };
        global.events_before += events;
        global.before.push_back(FileBefore { file: kept, asker: from.clone() });
        global.file_number = number;
        // The next worker reads the file's number from the next buffer's position, so the file is kept first.
        self.keep_session(slot);
        kill_point("file kept");
        if let Some((hosted, session)) = self.engine.session_mut(slot) {
            session.begin_file();
            kill_point("file begun");
            hosted.switch_files(closing, files.numbered(number));
        }
        self.begin_file_with_system(slot);
        Ok(())
    }

    /// Writes the buffers of a session in memory to a file.
    pub(super) fn snapshot(
        &mut self,
        slot: usize,
        file: &Path,
        from: &Asker,
    ) -> Result<Response, Response> {
        may_write(from.user(), file)?;
        self.check_unused(file)?;
        self.await_answers(slot);
        let Some((_, session)) = self.session(slot) else { return Err(has_ended()) };
        if !session.policy().is_in_memory() {
            let what = "this session has a file of its own: a flush without a file stores its events there";
            return Err(refused(Status::ERROR_NOT_SUPPORTED, what));
        }
        // While the next recording is held back, time stands still for this session.
        self.drain_all();
        let incomplete = self.begin_snapshot(slot);
        let written = self.engine.snapshot(slot, file);
        self.end_snapshot(slot);
        written.map_err(|error| {
            let error = StartError::File { path: file.to_owned(), source: error };
            refused(Status::ERROR_WRITE_FAULT, error.to_string())
        })?;
        Ok(Response::Done { warnings: incomplete.into_iter().collect() })
    }
}

/// Whether two names lead to one file, by links of any kind.
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let inode = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    a == b || real(a) == real(b) || inode(a).is_some_and(|one| inode(b) == Some(one))
}
