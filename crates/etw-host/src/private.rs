//! A session of one process: the program's side of it.

mod commands;
mod engine_thread;
mod memory;
mod options;

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use etw_ring::{
    Barrier, Control, LastBatch, Memory, PoolOptions, RawClock, Reader, Source, Writer,
};
use etw_session::{EnableInfo, HostFacts, Session};
use etw_types::{Guid, LogFileMode, SchemaRecord};

use crate::clock::Pair;
use crate::engine::{
    AttachedPool, Engine, EngineSetup, Growth, HostedSession, LARGEST_SEGMENT, PoolProcess,
};
use crate::facts::SessionFacts;
use crate::kill_point::kill_point;
use crate::registrations::{Provider, Registrations};
use crate::setup::{self, Prepared};
use crate::storage::{Destination, Storage};
use crate::thread_ids::ThreadIds;
pub use commands::TimedEnablement;
use commands::{Command, Shared, lock};
use engine_thread::{EngineThread, LONGEST_PAUSE, POOL, SESSION};
use memory::SessionMemory;

pub use crate::start_error::StartError;
pub use options::{LoadedModules, PoolSize, PrivateOptions, SessionStatistics, Stopped};

/// The longest wait for schemas to be in the trace.
const SCHEMAS_PATIENCE: Duration = Duration::from_secs(1);

/// A running session of this process. Dropping it stops the session.
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

/// A registration of a provider with a private session.
#[derive(Debug)]
pub struct NewRegistration {
    /// The number for its records.
    pub number: u32,
    /// Its enablement, if the session has enabled the provider already.
    pub enablement: Option<TimedEnablement>,
}

impl PrivateSession {
    /// Starts the session. `attachment`: the number of this host in the process.
    ///
    /// # Errors
    /// [`StartError`]. Nothing is left behind.
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
        (facts.process_id, facts.thread_id) = (std::process::id(), thread_id());
        let host = HostFacts { clock: setup::event_clock(&facts), ..prepared.host };
        let prepared = Prepared { facts: facts.clone(), host };
        let pool = PoolOptions { chunk_size: options.pool.initial, prefault: usize::MAX };
        let memory = SessionMemory::allocate(config, &facts, raw, &pool)?;
        let SessionMemory { part, control, segment, buffers } = memory;
        let barrier = Barrier::best(true);
        let control = Control::create(control, raw, barrier)?;
        let session = Session::new(config, host, buffers).map_err(StartError::Session)?;
        let writer = Writer::new(segment, control.memory().clone(), pool, attachment)?;
        let first_segment =
            writer.segment(0).ok_or(io::Error::from(io::ErrorKind::NotFound))?.clone();
        let reader = Reader::new(control.clone(), Source::Mapped(first_segment))?;
        let destination = match (&config.file, options.consumer) {
            (Some(path), _) => {
                let files = prepared.files(path, config.preallocate);
                let files =
                    files.map_err(|source| StartError::File { path: path.clone(), source })?;
                Some(Destination::Files(Box::new(files)))
            }
            (None, Some(consumer)) => Some(Destination::Consumer(consumer)),
            (None, None) => None,
        };
        let storage = destination.map(Storage::start).transpose()?;
        let part = part.keep();
        if let Some(part) = &part {
            part.set_clock(first, Pair::now(raw))?;
        }
        let shared = Arc::new(Shared::new(control, part));
        let mut engine = make_engine(&shared, (first, barrier), options.pool)?;
        let hosted = HostedSession::new(facts.clone(), storage, config.buffer_count, ());
        engine.insert_session(SESSION, hosted, session);
        engine.attach(make_pool(&shared, options.pool, &reader), reader);
        engine.take_slot(POOL, SESSION);
        let writer: &'static Writer = Box::leak(Box::new(writer));
        let mut thread = EngineThread {
            shared: shared.clone(),
            writer,
            engine,
            first,
            loaded: options.modules,
            modules_seen: 0,
        };
        if let Err(error) = thread.grow_to(options.pool.initial as u64) {
            if let Some(part) = lock(&shared.registrations).part.take() {
                part.remove();
            }
            return Err(error.into());
        }
        let thread = crate::spawn("etw-session", move || thread.run())?;
        Ok(PrivateSession { shared, thread: Mutex::new(Some(thread)), writer, facts })
    }

    /// Whether this process started the session, and not the one that it was forked from.
    pub fn is_of_this_process(&self) -> bool {
        self.shared.generation == etw_ring::process_generation()
    }

    /// The pool that this session's events are written to.
    pub fn writer(&self) -> &'static Writer {
        self.writer
    }

    /// The contents of its files' headers.
    pub fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    /// Registers a provider of this process.
    pub fn register(&self, provider: Provider, group: Option<Guid>) -> NewRegistration {
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
        if let Some(part) = &mut registered.part {
            if part.register(number, &provider).is_err() {
                // After a crash its events could not be attributed, so it is not recorded at all. The table holds some ten thousand
                // providers.
                return NewRegistration { number: 0, enablement: None };
            }
        }
        registered.providers.push(provider);
        NewRegistration { number, enablement: wanted }
    }

    /// Enables a provider or provider group; the time now, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn enable(&self, provider: Guid, info: EnableInfo) -> u64 {
        let since = RawClock::Monotonic.now();
        kill_point("enablement asked");
        let (reply, done) = channel();
        self.send(Command::Enable(provider, TimedEnablement { info, since }, reply));
        // An error means that the session has stopped.
        let _ = done.recv();
        since
    }

    /// Adds schemas of this program's events to the trace, in front of the events that are written after this returns.
    pub fn add_schemas(&self, schemas: Vec<SchemaRecord>) {
        if schemas.is_empty() {
            return;
        }
        let (reply, done) = channel();
        self.send(Command::Schemas(schemas, reply));
        // An error means that the session has stopped. If its thread is busy for so long, the schemas stand behind events.
        let _ = done.recv_timeout(SCHEMAS_PATIENCE);
    }

    /// Disables a provider or provider group.
    pub fn disable(&self, provider: Guid) {
        lock(&self.shared.registrations).enabled.remove(&provider);
        let (reply, done) = channel();
        self.send(Command::Disable(provider, reply));
        let _ = done.recv();
    }

    /// Flushes: when it returns, earlier events are in the file, except writes that took longer than 50 ms.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&self) -> io::Result<()> {
        let (reply, done) = channel();
        self.send(Command::Flush(reply));
        wait(&done)?
    }

    /// The session's counts so far.
    ///
    /// # Errors
    /// `NotConnected`: the session has stopped.
    pub fn query(&self) -> io::Result<SessionStatistics> {
        let (reply, done) = channel();
        self.send(Command::Query(reply));
        wait(&done)
    }

    /// Writes what a memory session holds to a file, without stopping; the number of buffers.
    ///
    /// # Errors
    /// Those of the file; `Unsupported` for a session that has a file of its own.
    pub fn snapshot(&self, path: &Path) -> io::Result<u64> {
        let (reply, done) = channel();
        self.send(Command::Snapshot(path.to_owned(), reply));
        wait(&done)?
    }

    /// Stops the session: earlier events are stored, the file is completed, the pool is released.
    ///
    /// # Errors
    /// Those of the file; the statistics contain the losses. `NotConnected`: the session had stopped already.
    pub fn stop(&self) -> Stopped {
        let stopped = || Stopped {
            statistics: SessionStatistics::default(),
            result: Err(io::Error::new(io::ErrorKind::NotConnected, "the session has stopped")),
        };
        match self.ask_to_stop() {
            None => stopped(),
            Some((thread, done)) => {
                let result = done.recv().unwrap_or_else(|_| stopped());
                // The thread has answered and ends. A panic was printed by its hook.
                let _ = thread.join();
                result
            }
        }
    }

    /// Stops the session at the end of the program. If that takes longer, the file stays as a killed program leaves it.
    pub fn stop_within(&self, patience: Duration) {
        if let Some((_, done)) = self.ask_to_stop() {
            let _ = done.recv_timeout(patience);
        }
    }

    fn ask_to_stop(&self) -> Option<(JoinHandle<()>, Receiver<Stopped>)> {
        if !self.is_of_this_process() {
            // The session's threads do not run in this process, and its locks may be held for ever.
            return None;
        }
        let thread = lock(&self.thread).take()?;
        let (reply, done) = channel();
        self.send(Command::Stop(reply));
        Some((thread, done))
    }

    /// Sends a command. In a forked child the command is dropped, and its reply is an error.
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
        // `stop` returns errors.
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
    // The first segment; the others of the pool's first size are added before the session starts.
    let first = (size.initial as u64).min(LARGEST_SEGMENT);
    let growth = Growth::new(first, size.limit as u64, 1);
    let mut pool = AttachedPool::new(POOL, process, growth, reader).mapped();
    let known = shared.clone();
    pool.registrations = Registrations::from_directory(move |number| match number {
        0 => None,
        number => lock(&known.registrations).providers.get(number as usize).cloned(),
    });
    pool
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
