//! The end of a session: its report becomes final, its last buffers are stored, its files completed.

use std::io;
use std::time::{Duration, Instant};

use etw_session::State;

use super::Engine;
use super::round::{BUFFER_PATIENCE, BUFFER_WAIT};
use super::session::{BufferedSession, HostedSession, Sink};
use crate::kill_point::kill_point;

/// One wait for the storage of a session that has left the engine.
const STORAGE_WAIT: Duration = Duration::from_millis(100);

/// A session that has left its engine and whose last buffers are to be stored. It needs no engine: a thread of its own may
/// [`finish`](Self::finish) it, so that a slow disk holds up nobody else.
#[derive(Debug)]
pub struct EndingSession<S> {
    /// The session.
    pub hosted: HostedSession<S>,
    session: BufferedSession,
    /// Above every batch that was final when it left.
    batch: u64,
    now: i64,
}

/// A session whose files are complete.
#[derive(Debug)]
pub struct EndedSession<S> {
    /// The session.
    pub hosted: HostedSession<S>,
    /// Its buffers and its ledger.
    pub session: BufferedSession,
    /// The first error of completing its files, or the last one of writing them.
    pub result: io::Result<()>,
}

impl<S: Sink> Engine<S> {
    /// Takes a session out, as soon as its report is final. Its admission is closed, its events are drained, its slots are
    /// settled.
    pub fn end_session(&mut self, slot: usize) -> Option<EndingSession<S>> {
        let now = self.session_time(slot);
        self.end_waiting_events(slot);
        let lost = self.ledger(slot).lost_total();
        let (hosted, session) = self.session_mut(slot)?;
        // The clock's line may lie a little below the clock itself, from which the session's start was read.
        let now = now.max(session.facts().last_time).max(hosted.facts.start_raw);
        // A report that a worker before has made final is not written again.
        if session.state() != State::Stopped {
            session.begin_end(now);
            let end = Instant::now() + BUFFER_PATIENCE;
            let closing = hosted.closing(session, lost, false);
            hosted.look(session, closing, end);
            let mut is_reported = hosted.report(session, now);
            while !is_reported && Instant::now() < end {
                hosted.take_stored(session, Some(BUFFER_WAIT));
                is_reported = hosted.report(session, now);
            }
            if is_reported {
                session.stop(now);
                kill_point("end reported");
                // The session is final, with or without its report.
                self.make_final();
            }
        }
        self.detach_source(slot);
        let hosted = self.sessions.remove(&slot)?;
        let session = self.router.remove(slot)?;
        Some(EndingSession { hosted, session, batch: self.batch + 1, now })
    }
}

impl<S: Sink> EndingSession<S> {
    /// Stores what is left and completes the files. It takes as long as the disk takes.
    pub fn finish(self) -> EndedSession<S> {
        let EndingSession { mut hosted, mut session, batch, now } = self;
        let lost = session.ledger().lost_total();
        if session.state() != State::Stopped {
            // The disk is slow. A worker that takes over may write the report again.
            while !hosted.report(&mut session, now) {
                session.seal(batch);
                hosted.store(&mut session, |_| lost);
                hosted.take_stored(&mut session, Some(STORAGE_WAIT));
            }
            session.stop(now);
            session.seal(batch);
        }
        hosted.store(&mut session, |_| lost);
        while hosted.is_storing(&session) {
            hosted.take_stored(&mut session, Some(STORAGE_WAIT));
            hosted.store(&mut session, |_| lost);
        }
        if hosted.storage.is_none() {
            session.lose_unread();
        }
        kill_point("end stored");
        // Buffers that could not be stored have been counted meanwhile.
        let closing = hosted.closing(&session, session.ledger().lost_total(), true);
        let mut result = match hosted.storage.take() {
            Some(storage) => storage.finish(closing),
            None => Ok(()),
        };
        kill_point("end written");
        if let (Ok(()), Some(error)) = (&result, &hosted.error) {
            result = Err(io::Error::other(error.clone()));
        }
        hosted.deliver_slices(&mut session, now);
        EndedSession { hosted, session, result }
    }
}
