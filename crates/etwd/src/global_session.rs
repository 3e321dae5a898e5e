//! The host's own part of a global session: owner, consumers, memory that outlives the worker. Buffers, files and enablements
//! are the engine's.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_host::StartError;
use etw_host::engine::{BufferedSession, HostedSession, Sink};
use etw_host::facts::SessionFacts;
use etw_host::setup::{self, Prepared};
use etw_host::storage::{Destination, Full, Storage};
use etw_ring::RawClock;
use etw_session::state::STATE_SIZE;
use etw_session::{ConfigError, HandOverPosition, HostFacts, Session, SessionConfig, Slice};
use etw_types::{BufferHeader, Guid, Status};
use etw_wire::frames;
use etw_wire::requests::{Response, StartRequest};

use crate::asker::{Asker, Connection, done};
use crate::consumer::Consumer;
use crate::event_log;
use crate::kept_state::{Ending, KeptFile, KeptRecording, RingSet};
use crate::name_request::NameRequest;
use crate::program::Registered;
use crate::refusals::Refusals;
use crate::rights::refused;
use crate::session_memory::allocate_buffers;
use crate::system_classes::SystemClasses;

/// A session in the host's engine.
pub(crate) type Hosted = HostedSession<GlobalSession>;

/// The smallest queue of a consumer, in bytes.
const MIN_CONSUMER_QUEUE: usize = 8 << 20;
/// The queue of a consumer, in buffers of the session.
const CONSUMER_QUEUE_BUFFERS: usize = 16;
/// The most bytes of older buffers that a consumer's queue may hold in addition.
const MAX_OWED: usize = 256 << 20;

/// The host's part of a session.
pub(crate) struct GlobalSession {
    pub config: SessionConfig,
    pub owner: u32,
    /// The session was asked to end with the connection that started it.
    pub is_leased: bool,
    /// The connection.
    pub lease: Option<Connection>,
    /// The connection of the lease ended with the worker before. Until then its owner may reconnect.
    pub orphan_until: Option<Instant>,
    /// The worker before was killed while it ended the session or the host.
    pub interrupted_end: Option<InterruptedEnd>,
    pub ending: Ending,
    pub consumers: Vec<Consumer>,
    pub is_real_time: bool,
    pub memories: Vec<BufferMemory>,
    /// The memory of its state.
    pub state: OwnedFd,
    /// The number of its file, as in the positions of buffers.
    pub file_number: u32,
    /// Files before, whose buffers are on their way, the oldest first.
    pub before: VecDeque<FileBefore>,
    pub flushes: VecDeque<WaitingFlush>,
    /// When each provider was last enabled, in nanoseconds of `CLOCK_MONOTONIC`: the newest session has a classic provider.
    pub since: HashMap<Guid, u64>,
    /// Enablements that programs refused.
    pub refusals: Refusals,
    /// Providers that are enabled by name.
    pub names: Vec<NameRequest>,
    /// Events in the circular files before.
    pub events_before: u64,
    /// The last file of a series that the keeper knows.
    pub kept_series_file: Option<u32>,
    /// The failure of its file that the log has.
    pub logged_failure: Option<String>,
    /// The rings of its system events.
    pub ring_set: RingSet,
    /// Recordings of other system events before, whose last events are not final yet, the oldest first.
    pub recordings_before: Vec<KeptRecording>,
    /// The rundowns of the system that follow lost buffers.
    pub rundowns: Rundowns,
    /// The rundowns of the system in the files of a series.
    pub series: SeriesRundowns,
    /// The system's classes by those that asked for them; [`SystemConfig`](etw_session::SystemConfig) has all of them.
    pub system_classes: SystemClasses,
}

/// Rundowns behind gaps in a session's file: what began in a gap has no other record.
#[derive(Default)]
pub(crate) struct Rundowns {
    /// The session's lost buffers before the last one.
    lost_before: u64,
    /// Those that were made. A disk that is full again and again gets them ever more seldom.
    count: u32,
    last: Option<Instant>,
}

impl Rundowns {
    const PAUSE: Duration = Duration::from_secs(5);
    const MAX_DOUBLINGS: u32 = 6;

    /// A rundown follows so many lost buffers.
    pub fn behind(buffers_lost: u64) -> Rundowns {
        Rundowns { lost_before: buffers_lost, ..Rundowns::default() }
    }

    /// Whether buffers were lost that none follows yet, and it is time for one.
    pub fn is_due(&self, buffers_lost: u64) -> bool {
        let pause = Rundowns::PAUSE * (1 << self.count.min(Rundowns::MAX_DOUBLINGS));
        buffers_lost > self.lost_before && self.last.is_none_or(|last| last.elapsed() >= pause)
    }

    /// One begins.
    pub fn begin(&mut self, buffers_lost: u64) {
        let count = self.count.saturating_add(1);
        *self = Rundowns { lost_before: buffers_lost, count, last: Some(Instant::now()) };
    }

    /// Whether any was made.
    pub fn any(&self) -> bool {
        self.count > 0
    }
}

/// Rundowns of the system in the files of a series, each of which is complete by itself.
pub(crate) struct SeriesRundowns {
    /// The last file that has one at its beginning.
    pub file: u32,
    /// When it began, and the session's bytes of records before it.
    began: Instant,
    bytes_before: u64,
    /// How long the last change to another file took.
    change: Duration,
    /// The files have no room for rundowns.
    pub is_too_small: bool,
}

impl SeriesRundowns {
    /// Another recording with its rundown costs about a twentieth of this time.
    const LEAST_TIME: Duration = Duration::from_secs(1);
    /// A change to another file takes about so long on a machine with other work, and much longer if there is a lot of it.
    const LEAST_CHANGE: Duration = Duration::from_millis(250);
    const MOST_CHANGE: Duration = Duration::from_secs(2);

    /// A file begins with a rundown, behind so many bytes of the session's records.
    pub fn in_file(file: u32, bytes_before: u64) -> SeriesRundowns {
        let (began, change) = (Instant::now(), SeriesRundowns::LEAST_CHANGE);
        SeriesRundowns { file, began, bytes_before, change, is_too_small: false }
    }

    /// Another file begins with a rundown.
    pub fn begin_file(&mut self, file: u32, bytes_before: u64) {
        let change = self.change;
        *self = SeriesRundowns { change, ..SeriesRundowns::in_file(file, bytes_before) };
    }

    /// A change to another file took so long; the next one gets as much time.
    pub fn changed_in(&mut self, time: Duration) {
        self.change = time.clamp(SeriesRundowns::LEAST_CHANGE, SeriesRundowns::MOST_CHANGE);
    }

    /// Whether there may be another rundown. Files that are filled sooner do not have one each.
    pub fn may_begin(&self) -> bool {
        self.began.elapsed() >= SeriesRundowns::LEAST_TIME
    }

    /// Bytes of the records that come while a rundown is made, if they come as fast as in this file so far. `bytes`: those of the session.
    pub fn bytes_meanwhile(&self, bytes: u64) -> u64 {
        let elapsed_ms = self.began.elapsed().as_millis().max(1) as u64;
        let change_ms = self.change.as_millis() as u64;
        bytes.saturating_sub(self.bytes_before).saturating_mul(change_ms) / elapsed_ms
    }
}

/// Memory of a session's buffers.
pub(crate) struct BufferMemory {
    pub buffers: u32,
    pub memory: OwnedFd,
}

/// The end of a session that the worker before began. It waits for the session's consumers, which receive the last events, or
/// the number of those that they have lost, from this worker.
pub(crate) struct InterruptedEnd {
    /// The number of consumers of the worker before.
    pub consumers: usize,
    /// When the session ends without them.
    pub until: Instant,
    /// A controller that asked for the end again.
    pub asker: Option<Asker>,
}

/// A file of a session that has continued in another one.
pub(crate) struct FileBefore {
    pub file: KeptFile,
    /// The controller that waits until the file is complete.
    pub asker: Asker,
}

/// A controller that waits until buffers of a session are stored.
pub(crate) struct WaitingFlush {
    /// Number of the last one.
    pub last_buffer: u64,
    pub asker: Asker,
}

/// The end of a [`FileBefore`].
pub(crate) struct CompletedFile {
    pub asker: Asker,
    pub result: io::Result<()>,
}

/// A session whose files are being completed.
pub(crate) struct EndingFiles {
    pub name: String,
    pub files: Vec<PathBuf>,
    /// The controller that receives the session's last status.
    pub asker: Option<Asker>,
}

/// The response to an invalid option.
pub(crate) fn config_error(error: &ConfigError) -> Response {
    refused(error.status(), error.to_string())
}

fn start_error(error: &StartError) -> Response {
    refused(error.status(), error.to_string())
}

impl GlobalSession {
    /// Creates a session with its buffers and its file; on failure, neither remains. `batch`: the last final one.
    pub fn create(
        start: StartRequest,
        slot: usize,
        asker: &Asker,
        raw: RawClock,
        batch: u64,
    ) -> Result<(Hosted, BufferedSession), Response> {
        let StartRequest { mut config, leased } = start;
        event_log::adapt(&mut config);
        config.validate_path().map_err(|error| config_error(&error))?;
        let Prepared { facts, host } =
            setup::prepare(&config, raw, slot as u16 + 1).map_err(|error| start_error(&error))?;
        let host = HostFacts { clock: setup::event_clock(&facts), ..host };
        let prepared = Prepared { facts, host };
        let system = |error: io::Error| start_error(&StartError::Io(error));
        let (buffers, memory) =
            allocate_buffers(config.buffer_size, config.buffer_count).map_err(system)?;
        let (states, state) = allocate_buffers(STATE_SIZE as u32, 1).map_err(system)?;
        let mut session = Session::new(&config, host, buffers)
            .map_err(|error| start_error(&StartError::Session(error)))?;
        states.into_iter().for_each(|state| session.keep_state(state, batch));
        let storage = match &config.file {
            Some(path) => {
                let files = prepared.files(path, config.preallocate);
                let files = files.map_err(|source| {
                    start_error(&StartError::File { path: path.clone(), source })
                })?;
                Some(Storage::start(Destination::Files(Box::new(files))).map_err(system)?)
            }
            None => None,
        };
        let buffer_count = config.buffer_count;
        let global = GlobalSession {
            owner: asker.user(),
            is_leased: leased,
            lease: leased.then(|| asker.connection()).flatten(),
            orphan_until: None,
            interrupted_end: None,
            ending: Ending::Nothing,
            consumers: Vec::new(),
            is_real_time: config.real_time,
            memories: vec![BufferMemory { buffers: buffer_count, memory }],
            state,
            file_number: 1,
            before: VecDeque::new(),
            flushes: VecDeque::new(),
            since: HashMap::new(),
            refusals: Refusals::default(),
            names: Vec::new(),
            events_before: 0,
            kept_series_file: None,
            logged_failure: None,
            ring_set: RingSet::default(),
            recordings_before: Vec::new(),
            rundowns: Rundowns::default(),
            series: SeriesRundowns::in_file(1, 0),
            system_classes: SystemClasses::default(),
            config,
        };
        Ok((HostedSession::new(prepared.facts, storage, buffer_count, global), session))
    }

    /// The session's name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether the session has this name; case does not matter.
    pub fn is_named(&self, name: &str) -> bool {
        self.config.name.to_lowercase() == name.to_lowercase()
    }

    /// When the session enabled a registration.
    pub fn since_of(&self, registered: &Registered) -> u64 {
        let since = |id| self.since.get(id).copied();
        since(&registered.provider.id).or_else(|| since(&registered.group)).unwrap_or(0)
    }

    /// The files that the session writes: its own, and those before that are being completed.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.config.file.iter().chain(self.before.iter().map(|before| &before.file.path))
    }

    /// Removes the oldest files before, which are complete. `results`: of completing each.
    pub fn completed(&mut self, results: Vec<io::Result<()>>) -> Vec<CompletedFile> {
        let end = |result| Some(CompletedFile { asker: self.before.pop_front()?.asker, result });
        results.into_iter().filter_map(end).collect()
    }

    /// Adds a consumer of `session`. Returns the descriptor that the consumer reads from.
    pub fn add_consumer(
        &mut self,
        facts: &SessionFacts,
        session: &BufferedSession,
        connection: Option<Connection>,
    ) -> io::Result<OwnedFd> {
        // The queue holds some buffers of any size, so that a consumer has time to read.
        let buffer_size = self.config.buffer_size as usize;
        let limit = (buffer_size * CONSUMER_QUEUE_BUFFERS).max(MIN_CONSUMER_QUEUE);
        let used = (self.config.buffer_count as usize).saturating_sub(session.free_buffers());
        let owed = used.saturating_mul(buffer_size).min(MAX_OWED);
        let (consumer, stream) = Consumer::start(limit + owed, connection)?;
        let header = facts.header_buffer(&facts.header)?;
        consumer.send(frames::START, header.into());
        consumer.send(frames::POSITION, position_frame(&session.position()).into());
        self.consumers.push(consumer);
        Ok(stream)
    }

    /// Consumers that read the session, or that its interrupted end waits for.
    pub fn consumer_count(&self) -> usize {
        let connected = self.consumers.iter().filter(|consumer| !consumer.is_disconnected());
        let awaited = self.interrupted_end.as_ref().map_or(0, |end| end.consumers);
        connected.count().max(awaited)
    }

    /// Whether the session must end now: its owner has not reconnected, or the consumers of an interrupted end have.
    pub fn is_to_end(&self, now: Instant) -> bool {
        let is_complete = |end: &InterruptedEnd| self.consumers.len() >= end.consumers;
        self.orphan_until.is_some_and(|end| now >= end)
            || self.interrupted_end.as_ref().is_some_and(|end| is_complete(end) || now >= end.until)
    }

    /// When the session ends although somebody has not reconnected.
    pub fn deadline(&self) -> Option<Instant> {
        let interrupted = self.interrupted_end.as_ref().map(|end| end.until);
        self.orphan_until.into_iter().chain(interrupted).min()
    }

    fn remove_disconnected(&mut self) {
        self.consumers.retain(|consumer| !consumer.is_disconnected());
    }
}

impl Sink for GlobalSession {
    fn is_open(&self) -> bool {
        self.consumers.iter().any(|consumer| !consumer.is_disconnected())
    }

    fn deliver(&mut self, full: &Full) -> u64 {
        self.remove_disconnected();
        let mut bytes = full.bytes()[..full.filled()].to_vec();
        bytes[..BufferHeader::SIZE].copy_from_slice(&full.header());
        let bytes: Arc<[u8]> = bytes.into();
        let lost = |consumer: &&Consumer| !consumer.offer(&bytes, full.events());
        self.consumers.iter().filter(lost).count() as u64
    }

    fn deliver_watermark(&mut self, time: i64) {
        self.remove_disconnected();
        for consumer in &self.consumers {
            consumer.send(frames::WATERMARK, time.to_le_bytes().into());
        }
    }

    fn begin_slices(&mut self) -> bool {
        // Every one of them is asked.
        self.consumers
            .iter_mut()
            .filter_map(|consumer| consumer.begin_slices().then_some(()))
            .count()
            > 0
    }

    fn deliver_slice(&mut self, slice: &Slice<'_>) {
        self.consumers.iter_mut().for_each(|consumer| consumer.offer_slice(slice));
    }

    fn deliver_slices_watermark(&mut self, time: i64) {
        self.consumers.iter().for_each(|consumer| consumer.send_slices_watermark(time));
    }

    fn awaits_storage(&self) -> bool {
        !self.flushes.is_empty()
    }
}

/// The bytes of a [`POSITION`](frames::POSITION) frame.
pub(crate) fn position_frame(position: &HandOverPosition) -> Vec<u8> {
    [position.next_sequence.to_le_bytes(), position.events_before.to_le_bytes()].concat()
}

/// Answers the controllers that waited for a file to be complete.
pub(crate) fn answer_completed(completed: Vec<CompletedFile>) {
    for CompletedFile { asker, result } in completed {
        asker.answer(&match result {
            Ok(()) => done(),
            Err(error) => {
                let what = format!("the session's previous file could not be completed: {error}");
                refused(Status::ERROR_WRITE_FAULT, what)
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next change to another file has room for the records of the time that the last one took, within bounds.
    #[test]
    fn a_slow_change_leaves_more_room_for_the_next_one() {
        let mut series = SeriesRundowns::in_file(1, 1000);
        series.began -= Duration::from_secs(10);
        // A megabyte a second.
        let bytes = 1000 + (10 << 20);
        let room =
            |series: &SeriesRundowns| series.bytes_meanwhile(bytes) as f64 / f64::from(1 << 20);
        let is_near = |is: f64, expected: f64| (is / expected - 1.0).abs() < 0.1;
        assert!(is_near(room(&series), 0.25), "{}", room(&series));
        for (took, expected) in [(10, 0.25), (800, 0.8), (60_000, 2.0), (300, 0.3)] {
            series.changed_in(Duration::from_millis(took));
            assert!(is_near(room(&series), expected), "{took}: {}", room(&series));
        }
        series.changed_in(Duration::from_millis(800));
        series.begin_file(2, bytes);
        assert_eq!((series.file, series.change), (2, Duration::from_millis(800)));
        assert_eq!(series.bytes_meanwhile(bytes), 0);
    }
}
