//! The streams of ended sessions, which the keeper holds until their consumers have read them.

use std::os::fd::OwnedFd;
use std::time::Instant;

use etw_types::Status;
use etw_wire::requests::Response;

use super::HostThread;
use crate::asker::Connection;
use crate::ended_stream::EndedStream;
use crate::keeper_protocol::ENDED;
use crate::rights::refused;

/// Streams that are kept. Some consumers have ended without reading theirs, which no later worker can know: the oldest go first.
const MAX_STREAMS: usize = 64;

impl HostThread {
    /// Keeps the stream of a session that has ended.
    pub(super) fn keep_stream(&mut self, stream: EndedStream) {
        self.forget_read_streams();
        while self.ended_streams.len() >= MAX_STREAMS {
            let Some((number, _)) = self.ended_streams.pop_first() else { break };
            self.keeper.remove(&format!("{ENDED}/{number}"));
        }
        let number = self.ended_streams.last_key_value().map_or(0, |(last, _)| last + 1);
        self.keeper.put(&format!("{ENDED}/{number}"), &stream.kept, &[]);
        self.ended_streams.insert(number, stream);
    }

    /// Removes the streams that all of their consumers have read.
    pub(super) fn forget_read_streams(&mut self) {
        let keeper = &self.keeper;
        self.ended_streams.retain(|number, stream| {
            let is_read = stream.is_read();
            if is_read {
                keeper.remove(&format!("{ENDED}/{number}"));
            }
            !is_read
        });
    }

    /// Sends the end of its stream to a consumer that reconnects after its session has ended. `None`: there is no such stream.
    pub(super) fn end_stream(
        &mut self,
        session: &str,
        start_time: i64,
        connection: Option<Connection>,
    ) -> Option<Result<OwnedFd, Response>> {
        let mut streams = self.ended_streams.values_mut();
        let stream = streams.find(|stream| stream.is_of(session, start_time))?;
        let sent = stream.send_end(connection);
        Some(sent.map_err(|error| refused(Status::ERROR_NOT_ENOUGH_MEMORY, error.to_string())))
    }

    /// Whether consumers that were connected to an earlier worker have yet to reconnect before the host may end.
    pub(super) fn awaits_consumers(&self) -> bool {
        let now = Instant::now();
        self.engine.sessions().any(|(_, hosted, _)| hosted.host.interrupted_end.is_some())
            || self.ended_streams.values().any(|stream| stream.awaits_consumers(now))
    }

    /// When the host no longer waits for consumers to reconnect.
    pub(super) fn streams_deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        let awaiting = self.ended_streams.values().filter(|stream| stream.awaits_consumers(now));
        awaiting.map(|stream| stream.until).min()
    }
}
