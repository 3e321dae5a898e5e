//! The end of sessions: by request, with their owner, or with the host.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use etw_host::engine::EndingSession;
use etw_host::kill_point::kill_point;
use etw_types::Status;

use super::HostThread;
use crate::asker::{Asker, done};
use crate::ended_stream::EndedStream;
use crate::global_session::{EndingFiles, GlobalSession, answer_completed};
use crate::kept_state::Ending;
use crate::mailbox::{Finished, Mailbox, Message};
use crate::rights::refused;
use crate::session_status::status;
use crate::shared_rings::Closing;

/// Between two looks at the mailbox while the host waits for files.
const FILES_PAUSE: Duration = Duration::from_millis(1);

impl HostThread {
    /// Stops a session: earlier events are stored. A thread of its own completes the files and then answers `asker`, so that a slow
    /// disk holds up nobody else.
    pub(super) fn stop_session(&mut self, slot: usize, asker: Option<Asker>) {
        self.await_answers(slot);
        let Some(global) = self.global_mut(slot) else {
            // It has ended meanwhile, with its owner.
            if let Some(asker) = asker {
                let what = "the session has ended";
                asker.answer(&refused(Status::ERROR_WMI_INSTANCE_NOT_FOUND, what));
            }
            return;
        };
        global.ending = Ending::Session;
        // The next worker completes the end: the session would otherwise have a gap.
        self.keep_session(slot);
        kill_point("end kept");
        self.engine.close_admission(slot);
        self.engine.finish_source(slot);
        kill_point("recording ended");
        self.drain_all();
        kill_point("last drained");
        // Until here, the next worker would read the rings. Now their records are in the session's buffers.
        let closing = self.forget_rings(slot);
        self.withdraw(slot, None);
        self.count_removed_files(slot);
        kill_point("losses final");
        let Some(ending) = self.engine.end_session(slot) else { return };
        kill_point("end given");
        let global = &ending.hosted.host;
        let files: Vec<PathBuf> = global.files().cloned().collect();
        self.ending.insert(slot, EndingFiles { name: global.name().to_owned(), files, asker });
        complete_elsewhere(slot, (ending, closing), self.mailbox.clone());
    }

    /// Stops leased sessions whose owner has not reconnected to this worker, and completes the interrupted end of sessions
    /// whose consumers have.
    pub(super) fn stop_due(&mut self) {
        let now = Instant::now();
        let due = self.engine.sessions().filter(|(_, hosted, _)| hosted.host.is_to_end(now));
        for slot in due.map(|(slot, ..)| slot).collect::<Vec<_>>() {
            let interrupted =
                self.global_mut(slot).and_then(|global| global.interrupted_end.as_mut());
            let asker = interrupted.and_then(|end| end.asker.take());
            self.stop_session(slot, asker);
        }
    }

    /// A controller's request to stop a session.
    pub(super) fn stop_by_request(&mut self, slot: usize, asker: Asker) {
        let global = self.global_mut(slot);
        match global.and_then(|global| global.interrupted_end.as_mut()) {
            Some(end) if end.asker.is_none() => end.asker = Some(asker),
            _ => self.stop_session(slot, Some(asker)),
        }
    }

    /// Stops all sessions and waits for their files.
    pub(super) fn stop_all(&mut self) {
        for slot in self.engine.session_slots() {
            self.stop_session(slot, None);
        }
        while !self.ending.is_empty() {
            for message in self.mailbox.take() {
                if let Message::Finished { slot, finished } = message {
                    self.finished(slot, *finished);
                }
            }
            std::thread::sleep(FILES_PAUSE);
        }
    }
}

/// Completes a session's files in a thread of its own; without a thread, here, and everybody waits.
fn complete_elsewhere(
    slot: usize,
    (ending, closing): (EndingSession<GlobalSession>, Option<Closing>),
    mailbox: Arc<Mailbox>,
) {
    let shared = Arc::new(Mutex::new(Some(move || complete(slot, ending, closing, &mailbox))));
    let take =
        |shared: &Mutex<Option<_>>| shared.lock().unwrap_or_else(PoisonError::into_inner).take();
    let theirs = shared.clone();
    let spawned = etw_host::spawn("etw-finish", move || {
        if let Some(complete) = take(&theirs) {
            complete();
        }
    });
    if spawned.is_err()
        && let Some(complete) = take(&shared)
    {
        complete();
    }
}

fn complete(
    slot: usize,
    ending: EndingSession<GlobalSession>,
    closing: Option<Closing>,
    mailbox: &Mailbox,
) {
    let mut ended = ending.finish();
    let status = status(slot, &ended.hosted, &ended.session, ended.session.ledger(), true);
    // Files before were completed ahead of the last one.
    let results = ended.hosted.take_switched();
    answer_completed(ended.hosted.host.completed(results));
    for flush in ended.hosted.host.flushes.drain(..) {
        flush.asker.answer(&done());
    }
    let result = ended.result;
    let stream = EndedStream::of(&ended.hosted, &ended.session);
    // Consumers receive the end of the stream before the controller receives its answer.
    drop(ended.hosted);
    // The controller may start another session at once, which needs their memory.
    closing.into_iter().for_each(Closing::wait);
    mailbox
        .post(Message::Finished { slot, finished: Box::new(Finished { status, result, stream }) });
}
