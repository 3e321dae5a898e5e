//! A session of one process: how it is set up, and what the process asks of it.

mod engine_thread;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use etw_ring::{
    Barrier, Control, LastBatch, Memory, PoolOptions, RawClock, Reader, Source, Writer,
};
use etw_session::{
    ConfigError, EnableInfo, Facts, HostFacts, Ledger, LogMode, Session, SessionConfig,
    SessionError,
};
use etw_types::{Guid, LoadedModule, LogFileMode, Status};

use crate::clock::Pair;
use crate::engine::{AttachedPool, Engine, EngineSetup, Growth, HostedSession, PoolProcess};
use crate::facts::{SessionFacts, file_name};
use crate::part::Part;
use crate::registrations::{Provider, Registrations};
use crate::setup::{self, AppendError, Prepared};
use crate::storage::{BufferMemory, Sink, Storage};
use crate::thread_ids::ThreadIds;
use engine_thread::{EngineThread, LONGEST_PAUSE, POOL, SESSION};

/// A private session to start.
pub struct PrivateOptions {
    /// The session.
    pub config: SessionConfig,
    /// Receives the events of a session with real-time delivery.
    pub consumer: Option<Consumer>,
    /// The memory that threads write to.
    pub pool: PoolSize,
    /// Lists what is loaded in this process; called while some provider is enabled with call stacks.
    pub modules: LoadedModules,
}

/// Bytes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// At the start.
    pub initial: usize,
    /// The pool grows up to this size.
    pub limit: usize,
}

impl Default for PoolSize {
    fn default() -> PoolSize {
        PoolSize { initial: 1 << 20, limit: 16 << 20 }
    }
}

/// What is loaded now, where that is another set than the number tells of, which becomes this one's.
pub type LoadedModules = fn(&mut u64) -> Option<Vec<LoadedModule>>;

/// What is given whole buffers, as they lie in files.
pub type Consumer = Box<dyn FnMut(&[u8]) + Send>;

impl Default for PrivateOptions {
    fn default() -> PrivateOptions {
        PrivateOptions {
            config: SessionConfig { mode: LogMode::Buffering, ..SessionConfig::default() },
            consumer: None,
            pool: PoolSize::default(),
            modules: |_| None,
        }
    }
}

/// Why a session could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An option breaks a rule.
    Config(ConfigError),
    /// The session cannot append to its file.
    Append(AppendError),
    /// The buffers cannot be created.
    Session(SessionError),
    /// A `.part` file is there: a program was killed, and `etw repair` can fold in what it left.
    Unrepaired(PathBuf),
    /// Another session records to this file.
    InUse(PathBuf),
    /// The file, or memory, or a thread could not be had.
    Io(io::Error),
}

impl StartError {
    /// As `StartTrace` would say it.
    pub fn status(&self) -> Status {
        match self {
            StartError::Config(error) => error.status(),
            StartError::Append(_) | StartError::Session(_) => Status::ERROR_INVALID_PARAMETER,
            StartError::Unrepaired(_) => Status::ERROR_ALREADY_EXISTS,
            StartError::InUse(_) => Status::ERROR_BAD_PATHNAME,
            StartError::Io(error) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Status::ERROR_DISK_FULL
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Status::ERROR_ACCESS_DENIED
                }
                io::ErrorKind::OutOfMemory => Status::ERROR_NOT_ENOUGH_MEMORY,
                io::ErrorKind::Unsupported => Status::ERROR_NOT_SUPPORTED,
                _ => Status::ERROR_BAD_PATHNAME,
            },
        }
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Config(error) => error.fmt(f),
            StartError::Append(error) => error.fmt(f),
            StartError::Session(error) => error.fmt(f),
            StartError::Unrepaired(path) => write!(
                f,
                "{} is there: a killed program left it; `etw repair` folds it in",
                path.display()
            ),
            StartError::InUse(path) => {
                write!(f, "{}: another session records to this file", path.display())
            }
            StartError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Config(error) => Some(error),
            StartError::Append(error) => Some(error),
            StartError::Session(error) => Some(error),
            StartError::Io(error) => Some(error),
            StartError::Unrepaired(_) | StartError::InUse(_) => None,
        }
    }
}

impl From<AppendError> for StartError {
    fn from(error: AppendError) -> StartError {
        StartError::Append(error)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Io(error)
    }
}

/// What a session has done.
#[derive(Clone, Debug, Default)]
pub struct SessionStatistics {
    /// Where every event went; exact once the session has stopped.
    pub ledger: Ledger,
    /// Buffers and bytes.
    pub facts: Facts,
    /// Bytes of the pool.
    pub pool_size: usize,
    /// The last error of the file, if there was one.
    pub error: Option<String>,
}

pub(crate) type Reply<T> = Sender<T>;
pub(crate) type Stopped = (SessionStatistics, io::Result<()>);

pub(crate) enum Command {
    Enable(Guid, EnableInfo, Reply<()>),
    Disable(Guid, Reply<()>),
    Flush(Reply<io::Result<()>>),
    Query(Reply<SessionStatistics>),
    Snapshot(PathBuf, Reply<io::Result<u64>>),
    Stop(Reply<Stopped>),
}

pub(crate) struct Shared {
    pub commands: Mutex<VecDeque<Command>>,
    /// Set with a command: what the worker looks at before it sleeps.
    pub has_commands: AtomicBool,
    pub registrations: Mutex<Registered>,
    pub control: Control,
    pub generation: u64,
}

#[derive(Default)]
pub(crate) struct Registered {
    /// By number; 0 is nobody.
    pub providers: Vec<Provider>,
    pub part: Option<Part>,
    pub enabled: HashMap<Guid, (EnableInfo, u64)>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running session of this process. Dropping it stops it.
pub struct PrivateSession {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    writer: &'static Writer,
    facts: SessionFacts,
}

impl std::fmt::Debug for PrivateSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrivateSession").field("name", &self.facts.header.logger_name).finish()
    }
}

impl PrivateSession {
    /// Starts the session. `attachment`: the number of this host in the process.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left behind then.
    pub fn start(options: PrivateOptions, attachment: usize) -> Result<PrivateSession, StartError> {
        let raw = RawClock::best();
        let first = Pair::now(raw);
        let config = &options.config;
        let prepared = setup::prepare(config, raw, attachment as u16 + 1)?;
        let mut facts = prepared.facts.clone();
        let mode = facts.header.log_file_mode | LogFileMode::PRIVATE_LOGGER;
        facts.header.log_file_mode = match options.consumer {
            // ETW excludes `REAL_TIME` from private sessions.
            Some(_) => mode.without(LogFileMode::REAL_TIME) | LogFileMode::BUFFERING,
            None => mode,
        } | LogFileMode::PRIVATE_IN_PROC;
        facts.ids = (std::process::id(), thread_id());
        let host = HostFacts { clock: setup::event_clock(&facts), ..prepared.host };
        let prepared = Prepared { facts: facts.clone(), host };
        let pool = PoolOptions { chunk_size: options.pool.initial, prefault: usize::MAX };
        let made = Memories::make(config, &facts, raw, &pool)?;
        let Memories { part, control, segment, buffers } = made;
        let undo = Undo(part);
        let barrier = Barrier::best(true);
        let control = Control::create(control, raw, barrier)?;
        let session = Session::new(config, host, buffers).map_err(StartError::Session)?;
        let writer = Writer::new(segment, control.memory().clone(), pool, attachment)?;
        let first_segment =
            writer.segment(0).ok_or(io::Error::from(io::ErrorKind::NotFound))?.clone();
        let reader = Reader::new(control.clone(), Source::Mapped(first_segment))?;
        let sink = match (&config.file, options.consumer) {
            (Some(path), _) => {
                Some(Sink::Files(Box::new(prepared.files(path, config.preallocate)?)))
            }
            (None, Some(consumer)) => Some(Sink::Consumer(consumer)),
            (None, None) => None,
        };
        let storage = sink.map(Storage::start).transpose()?;
        let part = undo.keep();
        if let Some(part) = &part {
            part.set_clock(first, Pair::now(raw))?;
        }
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            has_commands: AtomicBool::new(false),
            registrations: Mutex::new(Registered { part, ..Registered::default() }),
            control,
            generation: etw_ring::process_generation(),
        });
        let mut engine = make_engine(&shared, (first, barrier), options.pool)?;
        let hosted = HostedSession::new(facts.clone(), storage, config.buffer_count, ());
        engine.insert_session(SESSION, hosted, session);
        engine.attach(make_pool(&shared, options.pool, &reader), reader);
        engine.take_slot(POOL, SESSION);
        let writer: &'static Writer = Box::leak(Box::new(writer));
        let thread = EngineThread {
            shared: shared.clone(),
            writer,
            engine,
            first,
            loaded: options.modules,
            modules_seen: 0,
        };
        let thread = crate::spawn("etw-session", move || thread.run())?;
        Ok(PrivateSession { shared, thread: Mutex::new(Some(thread)), writer, facts })
    }

    /// Not a session of the process that this one was forked from?
    pub fn is_of_this_process(&self) -> bool {
        self.shared.generation == etw_ring::process_generation()
    }

    /// The pool that this session's events are written to.
    pub fn writer(&self) -> &'static Writer {
        self.writer
    }

    /// What its files say of it.
    pub fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    /// A provider of this process; the number for its records, and what the session wants of it already, with the time since when.
    pub fn register(
        &self,
        provider: Provider,
        group: Option<Guid>,
    ) -> (u32, Option<(EnableInfo, u64)>) {
        let mut registered = lock(&self.shared.registrations);
        if registered.providers.is_empty() {
            registered.providers.push(Provider { id: Guid::ZERO, traits: Vec::new() });
        }
        let number = registered.providers.len() as u32;
        let wanted = registered
            .enabled
            .get(&provider.id)
            .or_else(|| registered.enabled.get(&group?))
            .cloned();
        if let Some(part) = &mut registered.part
            && part.register(number, &provider).is_err()
        {
            // Its events could not be told after a crash: it is not recorded at all rather than lost then. (The table
            // has room for some ten thousand providers.)
            return (0, None);
        }
        registered.providers.push(provider);
        (number, wanted)
    }

    /// The session wants events of a provider or provider group; the time now, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn enable(&self, provider: Guid, info: EnableInfo) -> u64 {
        let since = RawClock::Monotonic.now();
        lock(&self.shared.registrations).enabled.insert(provider, (info.clone(), since));
        let (reply, done) = channel();
        self.send(Command::Enable(provider, info, reply));
        // An error means that the worker is gone, and nothing is recorded any more.
        let _ = done.recv();
        since
    }

    /// It wants none any more.
    pub fn disable(&self, provider: Guid) {
        lock(&self.shared.registrations).enabled.remove(&provider);
        let (reply, done) = channel();
        self.send(Command::Disable(provider, reply));
        let _ = done.recv();
    }

    /// What was written before this call is in the file when it returns, but for writes that took longer than 50 ms.
    ///
    /// # Errors
    /// The file's.
    pub fn flush(&self) -> io::Result<()> {
        let (reply, done) = channel();
        self.send(Command::Flush(reply));
        wait(&done)?
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// It has stopped.
    pub fn query(&self) -> io::Result<SessionStatistics> {
        let (reply, done) = channel();
        self.send(Command::Query(reply));
        wait(&done)
    }

    /// Writes what a memory session holds to a file, without stopping; the number of buffers.
    ///
    /// # Errors
    /// The file's, or `Unsupported` for a session that has a file of its own.
    pub fn snapshot(&self, path: &Path) -> io::Result<u64> {
        let (reply, done) = channel();
        self.send(Command::Snapshot(path.to_owned(), reply));
        wait(&done)?
    }

    /// Stops it: what was written before is stored, the file completed, the pool given back.
    ///
    /// # Errors
    /// What the file said; the statistics tell what it cost. `NotConnected` when it had stopped already.
    pub fn stop(&self) -> (SessionStatistics, io::Result<()>) {
        let stopped = io::Error::new(io::ErrorKind::NotConnected, "the session has stopped");
        match self.ask_to_stop() {
            None => (SessionStatistics::default(), Err(stopped)),
            Some((thread, done)) => {
                let result =
                    done.recv().unwrap_or_else(|_| (SessionStatistics::default(), Err(stopped)));
                // It has answered, so it is at its end; a panic has been printed.
                let _ = thread.join();
                result
            }
        }
    }

    /// As [`stop`](Self::stop), for the end of the program: what is not done by then stays as a killed program leaves it.
    pub fn stop_within(&self, patience: Duration) {
        if let Some((_, done)) = self.ask_to_stop() {
            let _ = done.recv_timeout(patience);
        }
    }

    fn ask_to_stop(&self) -> Option<(JoinHandle<()>, Receiver<Stopped>)> {
        if !self.is_of_this_process() {
            // Its threads do not run here, and its locks may be held for ever.
            return None;
        }
        let thread = lock(&self.thread).take()?;
        let (reply, done) = channel();
        self.send(Command::Stop(reply));
        Some((thread, done))
    }

    /// In a child the command is dropped, and who waits for its answer hears that the session is not there.
    fn send(&self, command: Command) {
        if !self.is_of_this_process() {
            return;
        }
        lock(&self.shared.commands).push_back(command);
        self.shared.has_commands.store(true, Ordering::SeqCst);
        self.shared.control.wake();
    }
}

impl Drop for PrivateSession {
    fn drop(&mut self) {
        // Who wants to know calls `stop`.
        let _ = self.stop();
    }
}

fn wait<T>(done: &Receiver<T>) -> io::Result<T> {
    done.recv().map_err(|_| io::Error::new(io::ErrorKind::NotConnected, "the session has stopped"))
}

/// The engine of a private session. `clocks`: a reading from the session's start, and the barrier of its pool.
fn make_engine(
    shared: &Arc<Shared>,
    (first, barrier): (Pair, Barrier),
    pool: PoolSize,
) -> io::Result<Engine<()>> {
    let commands = shared.clone();
    Ok(Engine::new(EngineSetup {
        clock: shared.control.clock(),
        barrier,
        first,
        last: LastBatch::new(Arc::new(Memory::heap(LastBatch::SIZE)?))?,
        longest_pause: LONGEST_PAUSE,
        pool_size: pool.initial as u64,
        interrupt: Box::new(move || commands.has_commands.load(Ordering::SeqCst)),
    }))
}

/// The pool of this process, whose registrations are looked up when a record first names them.
fn make_pool(shared: &Arc<Shared>, size: PoolSize, reader: &Reader) -> AttachedPool {
    let process = PoolProcess {
        id: std::process::id(),
        facts: crate::process::facts(),
        thread_ids: ThreadIds::same_namespace(),
    };
    let growth = Growth::new(size.initial as u64, size.limit as u64, 1);
    let mut pool = AttachedPool::new(POOL, process, growth, reader).mapped();
    let known = shared.clone();
    pool.registrations = Registrations::from_directory(move |number| match number {
        0 => None,
        number => lock(&known.registrations).providers.get(number as usize).cloned(),
    });
    pool
}

/// Removes the `.part` of a session that could not be started.
struct Undo(Option<Part>);

impl Undo {
    fn keep(mut self) -> Option<Part> {
        self.0.take()
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(part) = self.0.take() {
            part.remove();
        }
    }
}

struct Memories {
    pub part: Option<Part>,
    control: Memory,
    segment: Memory,
    buffers: Vec<BufferMemory>,
}

impl Memories {
    fn make(
        config: &SessionConfig,
        facts: &SessionFacts,
        raw: RawClock,
        pool: &PoolOptions,
    ) -> Result<Memories, StartError> {
        let (size, count) = (config.buffer_size as usize, config.buffer_count);
        if cfg!(target_os = "linux")
            && let Some(path) = &config.file
        {
            let out = file_name(path, 1);
            let facts = facts.to_bytes();
            let (part, control, segment, buffers) =
                Part::create(&out, &facts, raw, pool, config.buffer_size, count).map_err(
                    |error| match error.kind() {
                        io::ErrorKind::AlreadyExists => {
                            let part = crate::part::part_path(&out);
                            match crate::part::is_in_use(&part) {
                                true => StartError::InUse(out.clone()),
                                false => StartError::Unrepaired(part),
                            }
                        }
                        _ => StartError::Io(error),
                    },
                )?;
            let buffers =
                buffers.into_regions(size).into_iter().map(BufferMemory::Mapped).collect();
            return Ok(Memories { part: Some(part), control, segment, buffers });
        }
        let memory = |len| {
            #[cfg(target_os = "linux")]
            return Memory::private(len);
            #[cfg(not(target_os = "linux"))]
            return Memory::heap(len);
        };
        let heap = |_| BufferMemory::Heap(vec![0; size].into_boxed_slice());
        Ok(Memories {
            part: None,
            control: memory(Control::SIZE)?,
            segment: memory(pool.memory_size())?,
            buffers: (0..count).map(heap).collect(),
        })
    }
}

fn thread_id() -> u32 {
    #[cfg(target_os = "linux")]
    // SAFETY: takes nothing, gives a number.
    return unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    #[cfg(not(target_os = "linux"))]
    return 0;
}

/// The provider of a registration, from its GUID and traits.
pub fn provider_of(id: Guid, traits: &[u8]) -> Provider {
    Provider { id, traits: traits.to_vec() }
}
