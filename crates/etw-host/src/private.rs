//! A session of one process: its pool, the thread that drains it, and what the process asks of it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use etw_ring::{
    Admission, Barrier, Cause as RingCause, Control, DrainOptions, Drained, Memory, PATIENCE,
    PoolOptions, RawClock, Reader, SiteTable, Source, Writer,
};
use etw_session::{
    Cause, EnableInfo, Facts, Ledger, LogMode, Router, Session, SessionOptions, State,
};
use etw_types::{Guid, Status};

use crate::clock::{ClockMap, Pair};
use crate::convert::{Provider, Registrations};
use crate::facts::{SessionClock, SessionFacts, file_name};
use crate::file::{Closing, Files};
use crate::part::Part;
use crate::report;
use crate::storage::{BufferMemory, Sink, Storage};

/// The host looks at an idle pool this often, at least: what threads have begun and left is seen then.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Below this a pause costs more than it gives.
const SHORTEST_PAUSE: Duration = Duration::from_micros(60);
/// A thread that has not written for so long gives its chunk back.
const RECLAIM: Duration = Duration::from_millis(500);
/// How often the file's header and the clock in the `.part` are brought up to date.
const UPKEEP: Duration = Duration::from_millis(500);

/// How a private session is set up.
pub struct PrivateOptions {
    /// Its name, in the logfile header.
    pub name: String,
    /// Where the events go.
    pub output: Output,
    /// Bytes of a buffer: a multiple of 1 KiB, from 4 KiB to 16 MiB.
    pub buffer_size: u32,
    /// Number of buffers; at least 2.
    pub buffers: u32,
    /// Partly filled buffers are stored after this time.
    pub flush_timer: Option<Duration>,
    /// Clock of the timestamps.
    pub clock: SessionClock,
    /// Bytes of the pool that threads write to, and up to where it may grow.
    pub pool_size: (usize, usize),
    /// One stream for all CPUs when false.
    pub per_processor: bool,
}

/// What is given whole buffers, as they lie in files.
pub type Consumer = Box<dyn FnMut(&[u8]) + Send>;

/// Where a session's events go.
pub enum Output {
    /// To a file, or a series of files.
    File {
        /// Its name; with `%d` for a series.
        path: PathBuf,
        /// `Sequential`, `Append` (its places are found here), `Circular`, `NewFile`.
        mode: LogMode,
        /// Reserve the maximum size.
        preallocate: bool,
    },
    /// To memory, the oldest overwritten; [`PrivateSession::snapshot`] writes a file.
    Memory,
    /// To a consumer in this process: whole buffers, as they lie in files, in the order in which they filled.
    Consumer(Consumer),
}

impl Default for PrivateOptions {
    fn default() -> PrivateOptions {
        PrivateOptions {
            name: String::new(),
            output: Output::Memory,
            buffer_size: 64 << 10,
            buffers: 64,
            flush_timer: None,
            clock: SessionClock::default(),
            pool_size: (1 << 20, 16 << 20),
            per_processor: true,
        }
    }
}

/// Why a session could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// Options that cannot be.
    Options(String),
    /// A `.part` file is there: a program was killed, and `etw repair` can fold in what it left.
    Unrepaired(PathBuf),
    /// The file, or memory, or a thread could not be had.
    Io(io::Error),
}

impl StartError {
    /// As `StartTrace` would say it.
    pub fn status(&self) -> Status {
        match self {
            StartError::Options(_) => Status::ERROR_INVALID_PARAMETER,
            StartError::Unrepaired(_) => Status::ERROR_ALREADY_EXISTS,
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
            StartError::Options(what) => f.write_str(what),
            StartError::Unrepaired(path) => write!(
                f,
                "{} is there: a killed program left it; `etw repair` folds it in",
                path.display()
            ),
            StartError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

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

type Reply<T> = Sender<T>;
type Stopped = (SessionStatistics, io::Result<()>);

enum Command {
    Enable(Guid, EnableInfo, Reply<()>),
    Disable(Guid, Reply<()>),
    Flush(Reply<io::Result<()>>),
    Query(Reply<SessionStatistics>),
    Snapshot(PathBuf, Reply<io::Result<u64>>),
    Stop(Reply<Stopped>),
}

struct Shared {
    commands: Mutex<VecDeque<Command>>,
    /// Set with a command: what the worker looks at before it sleeps.
    has_commands: AtomicBool,
    registrations: Mutex<Registered>,
    control: Control,
    generation: u64,
}

#[derive(Default)]
struct Registered {
    /// By number; 0 is nobody.
    providers: Vec<Provider>,
    part: Option<Part>,
    enabled: HashMap<Guid, EnableInfo>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running session of this process. Dropping it stops it.
pub struct PrivateSession {
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
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
        let (mode, maximum) = mode_bits(&options)?;
        let path = match &options.output {
            Output::File { path, .. } => Some(path.clone()),
            _ => None,
        };
        let cycles = (raw == RawClock::Tsc && options.clock == SessionClock::Cycles)
            .then(|| (raw, cycles_mhz(raw)));
        let mut facts = SessionFacts::new(&options.name, path.as_deref(), options.clock, cycles);
        facts.header.buffer_size = options.buffer_size;
        facts.header.log_file_mode = mode;
        facts.header.maximum_file_size = maximum;
        facts.ids = (std::process::id(), thread_id());
        let mut session_options = SessionOptions {
            buffer_size: options.buffer_size,
            mode: LogMode::Memory,
            flush_timer: None,
            per_processor: options.per_processor,
            independent: false,
            logger_id: attachment as u16 + 1,
        };
        let mut append = false;
        match &options.output {
            Output::File { path, mode, .. } => {
                session_options.mode = *mode;
                if let LogMode::Append { .. } = mode {
                    append = find_end(path, &mut facts, &mut session_options)?;
                }
            }
            Output::Memory => {}
            Output::Consumer(_) => session_options.mode = LogMode::RealTime,
        }
        session_options.flush_timer = options.flush_timer.map(|timer| ticks(&facts, timer));

        let pool = PoolOptions { chunk_size: options.pool_size.0, prefault: true };
        let made = Memories::make(path.as_deref(), &facts, raw, &pool, &options)?;
        let Memories { part, control, segment, buffers } = made;
        let undo = Undo(part);
        let control = Control::create(control, raw, Barrier::best(true))?;
        let session = Session::new(session_options, buffers)
            .map_err(|error| StartError::Options(error.to_string()))?;
        let admission = Admission {
            open: true,
            largest_size: session.largest_event() as u32,
            ..Admission::default()
        };
        let writer = Writer::new(segment, control.memory().clone(), pool, attachment)?;
        let first_segment =
            writer.segment(0).ok_or(io::Error::from(io::ErrorKind::NotFound))?.clone();
        let reader = Reader::new(control.clone(), Source::Mapped(first_segment))?;
        let storage = match options.output {
            Output::File { path, preallocate, .. } => {
                let files = if append {
                    Files::reopen(&path, facts.clone(), 1)?
                } else {
                    let max = u64::from(maximum) << 10;
                    Files::create(&path, facts.clone(), if preallocate { max } else { 0 })?
                };
                Some(Storage::start(Sink::Files(Box::new(files)))?)
            }
            Output::Memory => None,
            Output::Consumer(consumer) => Some(Storage::start(Sink::Consumer(consumer))?),
        };
        let mut clock = ClockMap::new(first, raw);
        clock.observe(Pair::now(raw));
        let part = undo.keep();
        if let Some(part) = &part {
            part.set_clock(first, clock.last())?;
        }
        let shared = Arc::new(Shared {
            commands: Mutex::default(),
            has_commands: AtomicBool::new(false),
            registrations: Mutex::new(Registered { part, ..Registered::default() }),
            control: control.clone(),
            generation: etw_ring::process_generation(),
        });
        let writer: &'static Writer = Box::leak(Box::new(writer));
        let sites = reader.site_table();
        let mut router = Router::default();
        router.insert(0, session);
        let worker = Worker {
            shared: shared.clone(),
            writer,
            reader,
            sites,
            router,
            storage,
            registrations: Registrations::default(),
            known: 0,
            clock,
            first,
            facts: facts.clone(),
            pool: options.pool_size,
            pressure: 0,
            hostile: 0,
            error: None,
            upkeep: Instant::now(),
            pause: LONGEST_PAUSE,
            is_full: false,
        };
        let thread = crate::spawn("etw-session", move || worker.run())?;
        control.set_admission(0, admission);
        Ok(PrivateSession { shared, worker: Mutex::new(Some(thread)), writer, facts })
    }

    /// The pool that this session's events are written to.
    pub fn writer(&self) -> &'static Writer {
        self.writer
    }

    /// What its files say of it.
    pub fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    /// A provider of this process; the number for its records, and what the session wants of it already.
    pub fn register(&self, provider: Provider, group: Option<Guid>) -> (u32, Option<EnableInfo>) {
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

    /// The session wants events of a provider or provider group.
    pub fn enable(&self, provider: Guid, info: EnableInfo) {
        lock(&self.shared.registrations).enabled.insert(provider, info.clone());
        let (reply, done) = channel();
        self.send(Command::Enable(provider, info, reply));
        // An error means that the worker is gone, and nothing is recorded any more.
        let _ = done.recv();
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
            Some((worker, done)) => {
                let result =
                    done.recv().unwrap_or_else(|_| (SessionStatistics::default(), Err(stopped)));
                // It has answered, so it is at its end; a panic has been printed.
                let _ = worker.join();
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
        let worker = lock(&self.worker).take()?;
        if self.shared.generation != etw_ring::process_generation() {
            // A child of the process that the session belongs to: its thread does not run here.
            std::mem::forget(worker);
            return None;
        }
        let (reply, done) = channel();
        self.send(Command::Stop(reply));
        Some((worker, done))
    }

    fn send(&self, command: Command) {
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
    part: Option<Part>,
    control: Memory,
    segment: Memory,
    buffers: Vec<BufferMemory>,
}

impl Memories {
    fn make(
        path: Option<&Path>,
        facts: &SessionFacts,
        raw: RawClock,
        pool: &PoolOptions,
        options: &PrivateOptions,
    ) -> Result<Memories, StartError> {
        let (size, count) = (options.buffer_size as usize, options.buffers);
        if cfg!(target_os = "linux")
            && let Some(path) = path
        {
            let out = file_name(path, 1);
            let facts = facts.to_bytes();
            let (part, control, segment, buffers) =
                Part::create(&out, &facts, raw, pool, options.buffer_size, count).map_err(
                    |error| match error.kind() {
                        io::ErrorKind::AlreadyExists => {
                            StartError::Unrepaired(crate::part::part_path(&out))
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

/// The `LogFileMode` and `MaximumFileSize` (KiB) of the header.
fn mode_bits(options: &PrivateOptions) -> Result<(u32, u32), StartError> {
    use etw_session::log_file_mode as bits;
    let Output::File { path, mode, preallocate } = &options.output else {
        return Ok((bits::PRIVATE_LOGGER | bits::PRIVATE_IN_PROC | bits::BUFFERING, 0));
    };
    let (mode, max) = match *mode {
        LogMode::Sequential { max_size } => (bits::SEQUENTIAL, max_size.unwrap_or(0)),
        LogMode::Append { .. } => (bits::APPEND, 0),
        LogMode::Circular { max_size } => (bits::CIRCULAR, max_size),
        LogMode::NewFile { max_size } => (bits::NEWFILE, max_size),
        _ => return Err(StartError::Options("this log mode has no file".to_owned())),
    };
    let has_number = path.to_string_lossy().matches("%d").count() == 1;
    if mode == bits::NEWFILE && !has_number {
        return Err(StartError::Options("the name of a series of files needs one %d".to_owned()));
    }
    let preallocate = if *preallocate { bits::PREALLOCATE } else { 0 };
    if preallocate != 0 && max == 0 {
        return Err(StartError::Options("preallocation needs a maximum size".to_owned()));
    }
    let processors = if options.per_processor { 0 } else { bits::NO_PER_PROCESSOR_BUFFERING };
    let sizes = if max > 0 { bits::USE_KBYTES_FOR_SIZE } else { 0 };
    let all =
        mode | preallocate | processors | sizes | bits::PRIVATE_LOGGER | bits::PRIVATE_IN_PROC;
    let kilobytes = u32::try_from(max >> 10)
        .map_err(|_| StartError::Options("the maximum size must be below 4 TiB".to_owned()))?;
    Ok((all, kilobytes))
}

/// The end of the file that a session appends to; `false` where there is none, and one is begun.
fn find_end(
    path: &Path,
    facts: &mut SessionFacts,
    options: &mut SessionOptions,
) -> Result<bool, StartError> {
    let file = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.mode = LogMode::Sequential { max_size: None };
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
        Ok(_) => etw_etl::read::TraceFile::open(path)
            .map_err(|error| StartError::Options(format!("cannot append: {error}")))?,
    };
    let Some(header) = file.header() else {
        return Err(StartError::Options("cannot append: the file has no header".to_owned()));
    };
    let size = std::fs::metadata(path)?.len();
    let fits = header.buffer_size == options.buffer_size
        && header.clock_type == facts.header.clock_type
        && header.clock_type == etw_types::ClockType::SYSTEM
        && header.pointer_size == 8
        && header.number_of_processors == facts.header.number_of_processors
        && size.is_multiple_of(u64::from(header.buffer_size));
    if !fits {
        return Err(StartError::Options(
            "cannot append: buffer size, processors and system time must be those of the file"
                .to_owned(),
        ));
    }
    facts.start_raw = file.clock().raw_start;
    facts.header = header.clone();
    let slots = size / u64::from(header.buffer_size);
    options.mode = LogMode::Append { first_slot: slots, last_sequence: slots as i64 - 1 };
    Ok(true)
}

fn ticks(facts: &SessionFacts, time: Duration) -> i64 {
    let frequency = match facts.header.clock_type {
        etw_types::ClockType::TSC => u64::from(facts.header.cpu_speed_mhz) * 1_000_000,
        _ => 10_000_000,
    };
    (time.as_nanos() * u128::from(frequency) / 1_000_000_000).min(i64::MAX as u128) as i64
}

fn cycles_mhz(raw: RawClock) -> u32 {
    let from = Pair::now(raw);
    std::thread::sleep(Duration::from_millis(20));
    let to = Pair::now(raw);
    let mhz = (to.raw - from.raw) as f64 * 1000.0 / (to.ns - from.ns).max(1) as f64;
    mhz.round() as u32
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

struct Worker {
    shared: Arc<Shared>,
    writer: &'static Writer,
    reader: Reader,
    sites: SiteTable,
    router: Router<BufferMemory>,
    storage: Option<Storage>,
    registrations: Registrations,
    /// Registrations that we have copied.
    known: usize,
    clock: ClockMap,
    first: Pair,
    facts: SessionFacts,
    pool: (usize, usize),
    pressure: u32,
    hostile: u64,
    error: Option<String>,
    upkeep: Instant,
    pause: Duration,
    is_full: bool,
}

impl Worker {
    fn run(mut self) {
        loop {
            let started = Instant::now();
            let drained = self.round(&DrainOptions {
                reclaim_idle: Some(RECLAIM),
                alive: Some(&is_alive),
                ..DrainOptions::default()
            });
            if let Some(reply) = self.commands() {
                self.stop(reply);
                return;
            }
            self.grow();
            self.maintain();
            self.publish();
            self.set_pause(&drained, started);
            if self.pause >= SHORTEST_PAUSE && !drained.stopped {
                let has_commands = &self.shared.has_commands;
                self.shared.control.sleep(self.pause, || has_commands.load(Ordering::SeqCst));
            }
        }
    }

    /// A pause in which less than an eighth of the pool fills at the rate of this round; a burst wakes us earlier.
    fn set_pause(&mut self, drained: &Drained, started: Instant) {
        let elapsed = started.elapsed() + self.pause;
        let eighth = self.pool.0 as u64 / 8;
        let longest =
            self.session().options().flush_timer.map_or(LONGEST_PAUSE, |_| LONGEST_PAUSE / 4);
        self.pause = if drained.size == 0 {
            (self.pause * 2).clamp(SHORTEST_PAUSE, longest)
        } else {
            let wait = elapsed.as_nanos() * u128::from(eighth) / u128::from(drained.size);
            Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)).min(longest)
        };
    }

    fn session(&mut self) -> &mut Session<BufferMemory> {
        match self.router.session_mut(0) {
            Some(session) => session,
            None => unreachable!("a worker has its session from the beginning to the end"),
        }
    }

    /// One batch: drained, routed, sealed, made final, handed to the storage.
    fn round(&mut self, options: &DrainOptions<'_>) -> Drained {
        self.take_done(false);
        let Worker {
            reader,
            sites,
            router,
            registrations,
            clock,
            facts,
            shared,
            known,
            hostile,
            ..
        } = self;
        let process_id = facts.ids.0;
        let mut is_first = true;
        let raw_clock = shared.control.clock();
        let to_session = SessionTime::of(facts);
        let mut lookup = |id: u32| sites.get(id).map(<[u8]>::to_vec);
        let drained = reader.drain_while(options, |record| {
            if std::mem::take(&mut is_first) {
                // After the watermark was taken: every record lies before this pair.
                clock.observe(Pair::now(raw_clock));
            }
            if record.sessions & 1 == 0 {
                *hostile += 1;
                return ControlFlow::Continue(());
            }
            if record.registration as usize >= *known {
                *known = learn(shared, registrations, *known);
            }
            let time = to_session.time(clock, record.time);
            let Some(event) = registrations.event(record, time, process_id, &mut lookup) else {
                *hostile += 1;
                return ControlFlow::Continue(());
            };
            if !router.can_take(1, &event) {
                return ControlFlow::Break(());
            }
            router.route(1, &event);
            ControlFlow::Continue(())
        });
        self.clock.pass(drained.watermark);
        let hostile = std::mem::take(&mut self.hostile) + drained.hostile;
        let batch = self.reader.next_batch();
        let now = self.session_now();
        let session = self.session();
        if hostile > 0 {
            session.ledger_mut().attempted += hostile;
            session.ledger_mut().count_lost(Cause::Hostile, None, Some(process_id), hostile);
        }
        session.tick(now);
        session.seal(batch);
        self.reader.advance();
        self.store();
        if drained.stopped {
            // Buffers are on their way: without one, draining makes no sense.
            self.take_done(true);
        }
        drained
    }

    /// Hands full buffers to the storage.
    fn store(&mut self) {
        let closing = self.closing(false);
        let Some(Some(storage)) = self.router.session_mut(0).map(|_| self.storage.as_ref()) else {
            return;
        };
        while let Some(full) = self.router.session_mut(0).and_then(Session::take_full) {
            storage.store(full, closing);
        }
    }

    /// Takes back what was stored, waiting for one if asked.
    fn take_done(&mut self, wait: bool) {
        let Some(storage) = &self.storage else { return };
        let done =
            if wait { storage.wait_done(Duration::from_millis(100)) } else { storage.take_done() };
        for (full, result) in done {
            match result {
                Ok(()) => self.session().stored(full),
                Err(error) => {
                    self.error = Some(error.to_string());
                    self.session().not_stored(full);
                }
            }
        }
    }

    /// Everything that was handed out has come back.
    fn settle(&mut self) {
        self.store();
        while self.storage.is_some() && self.session().is_storing() {
            self.take_done(true);
            self.store();
        }
    }

    fn session_now(&mut self) -> i64 {
        let pair = Pair::now(self.shared.control.clock());
        SessionTime::of(&self.facts).time(&self.clock, pair.raw)
    }

    fn commands(&mut self) -> Option<Reply<Stopped>> {
        if !self.shared.has_commands.swap(false, Ordering::SeqCst) {
            return None;
        }
        loop {
            let command = lock(&self.shared.commands).pop_front()?;
            // Who asked may have gone: an answer that nobody takes is no error.
            match command {
                Command::Enable(provider, info, reply) => {
                    if self.session().enabled(&provider).is_some() {
                        // What was written before it was changed is judged by what was wanted then.
                        self.drain_all();
                    }
                    self.session().enable(provider, info);
                    let _ = reply.send(());
                }
                Command::Disable(provider, reply) => {
                    // What was written before it was disabled is wanted.
                    self.drain_all();
                    self.session().disable(&provider);
                    let _ = reply.send(());
                }
                Command::Flush(reply) => {
                    let _ = reply.send(self.flush());
                }
                Command::Query(reply) => {
                    self.drain_all();
                    let _ = reply.send(self.statistics(false));
                }
                Command::Snapshot(path, reply) => {
                    self.drain_all();
                    let _ = reply.send(self.snapshot(&path));
                }
                Command::Stop(reply) => return Some(reply),
            }
        }
    }

    /// Everything committed before now is in the session, but for writes that take too long.
    fn drain_all(&mut self) {
        let end = Instant::now() + 2 * PATIENCE;
        loop {
            let drained =
                self.round(&DrainOptions { patience: PATIENCE, ..DrainOptions::default() });
            if !drained.stopped || Instant::now() > end + Duration::from_secs(2) {
                return;
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain_all();
        let now = self.session_now();
        let batch = self.reader.next_batch();
        self.session().flush(now);
        self.session().seal(batch);
        self.reader.advance();
        self.settle();
        let closing = self.closing(false);
        if let Some(storage) = &self.storage {
            storage.update_header(closing);
        }
        match self.error.take() {
            Some(error) => Err(io::Error::other(error)),
            None => Ok(()),
        }
    }

    fn snapshot(&mut self, path: &Path) -> io::Result<u64> {
        if self.storage.is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let now = self.session_now();
        let closing = self.closing(true);
        let copies = self.session().snapshot(now);
        let mut facts = self.facts.clone();
        facts.header.log_file_name = path.to_string_lossy().into_owned();
        let mut files = Files::create(path, facts, 0)?;
        for (number, bytes) in copies.iter().enumerate() {
            files.store(1, number as u64 + 1, &bytes[..72], bytes, closing)?;
        }
        files.finish(closing)?;
        Ok(copies.len() as u64)
    }

    /// What the header of a file that ends now says.
    fn closing(&mut self, is_end: bool) -> Closing {
        let lost = self.ledger(false).lost_total();
        let facts = &self.facts;
        let last = self.router.session(0).map_or(0, |session| session.facts().last_time);
        let lost_buffers = self.router.session(0).map_or(0, |session| session.facts().buffers_lost);
        let end = facts.clock().filetime(last.max(facts.start_raw)).map_or(0, |time| time.0);
        Closing {
            end_time: if is_end { end } else { 0 },
            events_lost: u32::try_from(lost).unwrap_or(u32::MAX),
            buffers_lost: u32::try_from(lost_buffers).unwrap_or(u32::MAX),
        }
    }

    /// The session's ledger and the ring's together. `is_end`: no write is in flight any more; one that was given up is late.
    fn ledger(&mut self, is_end: bool) -> Ledger {
        let mut ledger = self.router.session(0).map(|s| s.ledger().clone()).unwrap_or_default();
        let ring = self.reader.ledger();
        let process = Some(self.facts.ids.0);
        let mut elsewhere = 0;
        for (from, to) in [
            (RingCause::NoChunk, Cause::NoChunk),
            (RingCause::SessionFull, Cause::SessionFull),
            (RingCause::TooLarge, Cause::TooLarge),
            (RingCause::TooLargeForSession, Cause::TooLargeForSession),
            (RingCause::AllOrNone, Cause::AllOrNone),
            (RingCause::Abandoned, Cause::Abandoned),
        ] {
            let count = ring.lost(from, 0);
            ledger.count_lost(to, None, process, count);
            elsewhere += count;
        }
        let mut late = self.reader.late()[0];
        if is_end {
            let arrived = self.reader.drained()[0] + late + elsewhere;
            late += ring.attempted[0].saturating_sub(arrived);
        }
        ledger.count_lost(Cause::Late, None, process, late);
        ledger.attempted += elsewhere + late;
        ledger
    }

    fn statistics(&mut self, is_end: bool) -> SessionStatistics {
        let ledger = self.ledger(is_end);
        SessionStatistics {
            ledger,
            facts: *self.session().facts(),
            pool_size: self.pool.0,
            error: self.error.clone(),
        }
    }

    /// Writers learn that the file is full.
    fn publish(&mut self) {
        if self.session().state() == State::FileFull && !self.is_full {
            self.is_full = true;
            let largest_size = self.session().largest_event() as u32;
            let admission =
                Admission { open: true, full: true, largest_size, ..Admission::default() };
            self.shared.control.set_admission(0, admission);
        }
    }

    /// More pool where writers found little room.
    fn grow(&mut self) {
        let pressure = self.writer.pressure();
        if std::mem::replace(&mut self.pressure, pressure) == pressure {
            return;
        }
        let largest = etw_ring::layout::MAX_SEGMENT_UNITS * etw_ring::layout::UNIT_SIZE;
        let size = self.pool.0.min(self.pool.1.saturating_sub(self.pool.0)).min(largest);
        let size = size / etw_ring::layout::BLOCK_SIZE * etw_ring::layout::BLOCK_SIZE;
        let number = self.writer.segment_count();
        if size == 0 || number >= etw_ring::layout::MAX_SEGMENTS {
            return;
        }
        let memory = match &mut lock(&self.shared.registrations).part {
            Some(part) => part.add_segment(number, size),
            #[cfg(target_os = "linux")]
            None => Memory::private(size),
            #[cfg(not(target_os = "linux"))]
            None => Memory::heap(size),
        };
        let grown = memory.and_then(|memory| self.writer.grow(memory)).and_then(|index| {
            let segment = self.writer.segment(index).ok_or(io::ErrorKind::NotFound)?;
            self.reader.add_segment(Source::Mapped(segment.clone()))
        });
        match grown {
            Ok(()) => self.pool.0 += size,
            Err(error) => {
                // No more of it: the pool stays as it is.
                self.error = Some(format!("the pool cannot grow: {error}"));
                self.pool.1 = self.pool.0;
            }
        }
    }

    /// The header and the `.part` tell how far we are.
    fn maintain(&mut self) {
        if self.upkeep.elapsed() < UPKEEP {
            return;
        }
        self.upkeep = Instant::now();
        if let Some(part) = &lock(&self.shared.registrations).part {
            // Only a recovery needs it; it then takes the pair before.
            let _ = part.set_clock(self.first, self.clock.last());
        }
        let closing = self.closing(false);
        if let Some(storage) = &self.storage {
            storage.update_header(closing);
        }
    }

    fn stop(mut self, reply: Reply<Stopped>) {
        self.shared.control.set_admission(0, Admission::default());
        self.drain_all();
        self.writer.close();
        self.drain_all();
        let ledger = self.ledger(true);
        let now = self.session_now().max(self.session().facts().last_time);
        let (process_id, thread_id) = self.facts.ids;
        // The report is no event of the program's: it is in the file and not in the ledger.
        let reports = report::reports(&ledger);
        let cpus: u16 = 0;
        for report in &reports {
            let mut event = report.event(now, process_id, thread_id);
            event.cpu = cpus;
            if self.session().state() == State::Running {
                self.session().push_report(&event);
            }
        }
        self.session().stop(now);
        let batch = self.reader.next_batch();
        self.session().seal(batch);
        self.reader.advance();
        self.settle();
        let closing = self.closing(true);
        let statistics = self.statistics(true);
        let mut result = match self.storage.take() {
            Some(storage) => storage.finish(closing),
            None => Ok(()),
        };
        if let (Ok(()), Some(error)) = (&result, self.error.take()) {
            result = Err(io::Error::other(error));
        }
        let part = lock(&self.shared.registrations).part.take();
        let Worker { writer, reader, sites, router, .. } = self;
        drop((reader, sites, router));
        if let Some(part) = part {
            // Everything that could be stored is. What could not is in the ledger.
            part.remove();
        }
        // What the system cannot take back stays taken.
        let _ = writer.retire();
        let _ = reply.send((statistics, result));
    }
}

/// From the raw clock to the session's.
#[derive(Clone, Copy)]
pub(crate) enum SessionTime {
    Qpc,
    System(i64),
    Raw,
}

impl SessionTime {
    pub fn of(facts: &SessionFacts) -> SessionTime {
        match facts.header.clock_type {
            etw_types::ClockType::SYSTEM => SessionTime::System(facts.filetime_at_qpc_zero),
            etw_types::ClockType::TSC => SessionTime::Raw,
            _ => SessionTime::Qpc,
        }
    }

    #[inline(always)]
    pub fn time(self, clock: &ClockMap, raw: u64) -> i64 {
        match self {
            SessionTime::Qpc => clock.qpc(raw),
            SessionTime::System(zero) => zero + clock.qpc(raw),
            SessionTime::Raw => raw as i64,
        }
    }
}

/// Copies registrations that are new; how many there are.
fn learn(shared: &Shared, registrations: &mut Registrations, known: usize) -> usize {
    let registered = lock(&shared.registrations);
    for (number, provider) in registered.providers.iter().enumerate().skip(known.max(1)) {
        registrations.set(number as u32, provider.clone());
    }
    registered.providers.len()
}

fn is_alive(thread: u32) -> bool {
    #[cfg(target_os = "linux")]
    return etw_ring::process_thread_alive(std::process::id(), thread);
    #[cfg(not(target_os = "linux"))]
    return {
        let _ = thread;
        true
    };
}
