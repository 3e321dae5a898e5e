//! Streams of sessions that have ended: a consumer that has not read its stream to the end when the worker is killed receives the
//! number of the missing events from the next worker.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use etw_host::engine::BufferedSession;
use etw_host::facts::SessionFacts;
use etw_session::HandOverPosition;
use etw_wire::frames;

use crate::asker::Connection;
use crate::consumer::{Consumer, Unread};
use crate::global_session::{Hosted, position_frame};
use crate::kept_state::KeptStream;

/// The stream of a session that has ended.
pub(crate) struct EndedStream {
    pub kept: KeptStream,
    facts: SessionFacts,
    /// The unread parts of this worker's consumers.
    unread: Vec<Unread>,
    /// Consumers of earlier workers that have not reconnected.
    missing: usize,
    /// Until then, a host that was asked to end waits for them.
    pub until: Instant,
}

impl EndedStream {
    /// The stream of a session that has just ended. `None`: it has no consumers.
    pub fn of(hosted: &Hosted, session: &BufferedSession) -> Option<EndedStream> {
        let global = &hosted.host;
        let unread: Vec<Unread> = global.consumers.iter().map(Consumer::unread).collect();
        let (mut missing, mut until) = (0, Instant::now());
        if let Some(end) = &global.interrupted_end {
            (missing, until) = (end.consumers.saturating_sub(unread.len()), end.until);
        }
        let HandOverPosition { next_sequence, events_before } = session.position();
        let kept = KeptStream {
            session: global.name().to_owned(),
            facts: hosted.facts.to_bytes(),
            next_sequence,
            events: events_before,
            consumers: unread.len() + missing,
        };
        let facts = hosted.facts.clone();
        (kept.consumers > 0).then_some(EndedStream { kept, facts, unread, missing, until })
    }

    /// The stream that the worker before kept. Its consumers may reconnect.
    pub fn restore(kept: KeptStream, until: Instant) -> io::Result<EndedStream> {
        let facts = SessionFacts::read(&kept.facts)?;
        Ok(EndedStream { facts, unread: Vec::new(), missing: kept.consumers, until, kept })
    }

    /// Whether this is the stream of the session with this name that started at this time.
    pub fn is_of(&self, session: &str, start_time: i64) -> bool {
        self.kept.session.to_lowercase() == session.to_lowercase()
            && self.facts.header.start_time.0 == start_time
    }

    /// Sends a consumer the position at the end of the stream, from which it computes the missing events, and the end.
    pub fn send_end(&mut self, connection: Option<Connection>) -> io::Result<OwnedFd> {
        let header = self.facts.header_buffer(&self.facts.header)?;
        let (consumer, stream) = Consumer::start(header.len(), connection)?;
        consumer.send(frames::START, header.into());
        let KeptStream { next_sequence, events, .. } = self.kept;
        let position = HandOverPosition { next_sequence, events_before: events };
        consumer.send(frames::POSITION, position_frame(&position).into());
        self.unread.push(consumer.unread());
        self.missing = self.missing.saturating_sub(1);
        Ok(stream)
    }

    /// Whether all consumers have the end of the stream.
    pub fn is_read(&self) -> bool {
        self.missing == 0 && self.unread.iter().all(Unread::is_written)
    }

    /// Whether a host that was asked to end waits for consumers to reconnect.
    pub fn awaits_consumers(&self, now: Instant) -> bool {
        self.missing > 0 && now < self.until
    }
}
