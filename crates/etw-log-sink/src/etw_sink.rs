//! The ETW sink: registration, and events from records.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use etw::evntprov::{
    CurrentProvider, EventDataDescriptor, NewRegistration, RegHandle, event_gate,
    event_register_new, event_unregister, event_write_transfer,
};
use etw::rt::{only_route, routes, write_site_of_bytes};
use etw::{Channel, Guid, Keyword, Provider, Status};

use crate::buffer::Line;
use crate::context::LogContext;
use crate::encode::{self, Encoder, Found, Message, Parts, Properties, Text};
use crate::level::LogLevel;
use crate::{LogRecord, LogSink};

/// The provider's GUID unless the program, its environment or its build gives another one.
pub const DEFAULT_PROVIDER_ID: Guid = Guid::from_u128(0xdad29f36_0a48_4def_9d50_8ef9036b92b4);
/// The provider's name unless another one is given.
pub const DEFAULT_PROVIDER_NAME: &str = "block_storage_2";

/// The context of an event without one.
static NO_CONTEXT: LogContext<'static> = LogContext::from_pairs(&[]);

const NOT_REGISTERED: u32 = 1;
const REGISTERING: u32 = 2;
const REGISTERED: u32 = 3;

/// How long a thread waits while another one registers.
const PATIENCE: Duration = Duration::from_secs(1);
const ERROR_LINE: &[u8] = b"Error emitting ETW event\r\n";

/// Logs to ETW: a TraceLogging event for each record, of a provider that is registered at the first log.
///
/// The first of these names the provider: [`set_provider`](EtwSink::set_provider), if it is called before the first log; the
/// environment (`LOG_SINK_ETW_PROVIDER_GUID`, `LOG_SINK_ETW_PROVIDER_NAME`; ignored if the program has more rights than its user);
/// the same variables when this crate was built; `block_storage_2`, `dad29f36-0a48-4def-9d50-8ef9036b92b4`.
///
/// The first event of a registration is the self test, which names the executable.
///
/// A [channel](EtwSink::set_channel) of an installed manifest has the events kept in its event log, without a session.
#[derive(Debug)]
pub struct EtwSink {
    /// `NOT_REGISTERED`, `REGISTERING` or `REGISTERED`: changed by compare-exchange.
    state: AtomicU32,
    handle: AtomicU64,
    /// The registration's provider. Only the thread that has set the state to `REGISTERING` changes it.
    current: CurrentProvider,
    /// The thread that registers: the address of one of its thread-local values.
    registering: AtomicU64,
    provider: Mutex<Option<(Guid, String)>>,
    /// The channel of all events; 0: not set.
    channel: AtomicU8,
    built: Mutex<Built>,
    waiting: Mutex<()>,
    changed: Condvar,
    /// The time of the last printed failure, in milliseconds since the first failure, plus one.
    printed_at: AtomicU64,
}

/// The provider of the program's compilation, where that names one.
#[derive(Clone, Debug)]
struct Built {
    id: Option<Guid>,
    name: Option<String>,
}

/// The sessions that want records of a level.
#[derive(Clone, Copy)]
struct Route {
    provider: &'static Provider,
    /// As [`only_route`] says.
    only: Option<u64>,
}

/// Memory that a thread uses for one event after another.
struct Buffers {
    encoder: Encoder,
    message: Line,
}

impl Buffers {
    /// The thread's buffers, which [`give_back`](Self::give_back) returns; new ones for its first event, for an event inside of another one
    /// (a message may log while it is formatted), and for a thread that ends.
    #[inline(always)]
    fn take() -> Box<Buffers> {
        match BUFFERS.try_with(Cell::take) {
            Ok(Some(buffers)) => buffers,
            _ => Buffers::make(),
        }
    }

    #[cold]
    #[inline(never)]
    fn make() -> Box<Buffers> {
        Box::new(Buffers { encoder: Encoder::new(), message: Line::new() })
    }

    #[inline(always)]
    fn give_back(self: Box<Buffers>) {
        // At the end of a thread, they are freed.
        let _ = BUFFERS.try_with(|own| own.set(Some(self)));
    }
}

thread_local! {
    /// None before the thread's first event, and while an event uses them.
    static BUFFERS: Cell<Option<Box<Buffers>>> = const { Cell::new(None) };
    static TOKEN: Cell<u8> = const { Cell::new(0) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn this_thread() -> u64 {
    TOKEN.with(|token| std::ptr::from_ref(token).addr() as u64)
}

impl Default for EtwSink {
    fn default() -> EtwSink {
        EtwSink::new()
    }
}

impl EtwSink {
    /// A sink that is not registered.
    pub const fn new() -> EtwSink {
        EtwSink {
            state: AtomicU32::new(NOT_REGISTERED),
            handle: AtomicU64::new(0),
            current: CurrentProvider::new(),
            registering: AtomicU64::new(0),
            provider: Mutex::new(None),
            channel: AtomicU8::new(0),
            built: Mutex::new(Built { id: None, name: None }),
            waiting: Mutex::new(()),
            changed: Condvar::new(),
            printed_at: AtomicU64::new(0),
        }
    }

    /// Sets the provider for the next registration.
    pub fn set_provider(&self, id: Guid, name: &str) {
        *lock(&self.provider) = Some((id, name.to_owned()));
    }

    /// Sets the channel of all events, by its value in the provider's manifest: 16 and higher are a manifest's own. Call it before the
    /// first log.
    ///
    /// If the manifest is installed (`etw manifest install`) and the channel enabled, a host keeps the events in the channel's event
    /// log, without a session; the level of the log (`etw log set LOG --level 2`) leaves all but errors out. Without this call, the
    /// variable `LOG_SINK_ETW_CHANNEL` of the environment sets the channel, else it is that of TraceLogging, which no log has.
    pub fn set_channel(&self, channel: Channel) {
        self.channel.store(channel.0, Ordering::Relaxed);
    }

    /// The channel of all events.
    #[inline]
    fn channel(&self) -> Channel {
        match self.channel.load(Ordering::Relaxed) {
            0 => Channel::TRACE_LOGGING,
            set => Channel(set),
        }
    }

    /// The provider that the program's compilation names, for programs in other languages. The environment and
    /// [`set_provider`](EtwSink::set_provider) override it.
    #[doc(hidden)]
    pub fn set_built_provider(&self, id: Option<Guid>, name: Option<String>) {
        *lock(&self.built) = Built { id, name };
    }

    /// The provider that the sink registers or has registered.
    pub fn provider(&self) -> (Guid, String) {
        if let Some(provider) = &*lock(&self.provider) {
            return provider.clone();
        }
        let built = lock(&self.built).clone();
        let environment =
            |variable: &str| if is_privileged() { None } else { std::env::var(variable).ok() };
        let id_of = |text: String| text.trim_matches(['{', '}']).parse().ok();
        let is_name = |name: &String| !name.is_empty() && !name.contains('\0');
        let id = environment("LOG_SINK_ETW_PROVIDER_GUID").and_then(id_of);
        let id = id.or(built.id);
        let library_id = option_env!("LOG_SINK_ETW_PROVIDER_GUID").map(str::to_owned);
        let name = environment("LOG_SINK_ETW_PROVIDER_NAME").filter(is_name);
        let name = name.or(built.name.filter(is_name));
        let library_name = option_env!("LOG_SINK_ETW_PROVIDER_NAME").map(str::to_owned);
        (
            id.or_else(|| library_id.and_then(id_of)).unwrap_or(DEFAULT_PROVIDER_ID),
            name.or_else(|| library_name.filter(is_name))
                .unwrap_or_else(|| DEFAULT_PROVIDER_NAME.to_owned()),
        )
    }

    /// Whether the sink is registered.
    #[inline]
    pub fn is_registered(&self) -> bool {
        self.state.load(Ordering::Acquire) == REGISTERED
    }

    #[inline]
    fn handle(&self) -> RegHandle {
        RegHandle(self.handle.load(Ordering::Acquire))
    }

    /// Registers the sink if it is not registered. Returns whether it is registered. Waits for at most one second.
    #[inline]
    pub fn ensure_registered(&self) -> bool {
        self.is_registered() || self.register_slowly()
    }

    #[cold]
    fn register_slowly(&self) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            let taken = self.state.compare_exchange(
                NOT_REGISTERED,
                REGISTERING,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => return self.register_now(),
                Err(REGISTERED) => return true,
                // This thread is registering: the log comes from a callback or from the sink itself.
                Err(_) if self.registering.load(Ordering::Acquire) == this_thread() => {
                    return false;
                }
                Err(_) => {}
            }
            let waiting = lock(&self.waiting);
            if self.state.load(Ordering::Acquire) == REGISTERING {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    print_error();
                    return false;
                }
                let woken = self.changed.wait_timeout(waiting, left);
                drop(woken.unwrap_or_else(PoisonError::into_inner));
            }
            // If the other thread failed, it has printed that, and this thread tries once.
        }
    }

    /// Registers. The state is `REGISTERING`, set by this thread.
    fn register_now(&self) -> bool {
        self.registering.store(this_thread(), Ordering::Release);
        let (id, name) = self.provider();
        if self.channel.load(Ordering::Relaxed) == 0 && !is_privileged() {
            let channel = std::env::var("LOG_SINK_ETW_CHANNEL").ok();
            let channel = channel.and_then(|text| text.parse().ok());
            self.channel.store(channel.unwrap_or(Channel::TRACE_LOGGING.0), Ordering::Relaxed);
        }
        let registered = register(&id, &name);
        if let Ok(handle) = registered {
            self.handle.store(handle.0, Ordering::Release);
            self.current.set(Some(handle));
        }
        self.registering.store(0, Ordering::Release);
        let state = if registered.is_ok() { REGISTERED } else { NOT_REGISTERED };
        self.state.store(state, Ordering::Release);
        // A thread that saw the old state holds the lock until it waits, so this wakes it.
        let waiting = lock(&self.waiting);
        self.changed.notify_all();
        drop(waiting);
        if registered.is_err() {
            print_error();
            return false;
        }
        self.self_test();
        true
    }

    /// Unregisters the sink; the next log registers it again. Returns `false` if it was not registered.
    pub fn unregister(&self) -> bool {
        let taken = self.state.compare_exchange(
            REGISTERED,
            REGISTERING,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if taken.is_err() {
            return false;
        }
        // The next log passes and registers.
        self.current.set(None);
        event_unregister(self.handle());
        self.handle.store(0, Ordering::Release);
        self.state.store(NOT_REGISTERED, Ordering::Release);
        let waiting = lock(&self.waiting);
        self.changed.notify_all();
        drop(waiting);
        true
    }

    fn self_test(&self) {
        let path = std::env::current_exe().ok();
        let path = path.as_deref().map_or("UNKNOWN".into(), |path| path.to_string_lossy());
        if !self.wants(LogLevel::INFO) {
            return;
        }
        let parts = Parts {
            level: LogLevel::INFO,
            file: file!().as_bytes(),
            func: b"self_test",
            line: line!() as i32,
            properties: &NO_CONTEXT,
        };
        self.emit_formatted(
            &parts,
            format_args!(
                "ETW provider was registered succesfully (self test). \
                 Executable file full path name = {path}"
            ),
        );
    }

    /// A number above the ETW levels of all records that sessions enabled; `None` while the sink is not registered.
    #[doc(hidden)]
    pub fn gate(&self) -> Option<&'static AtomicU32> {
        match self.is_registered() {
            true => event_gate(self.handle()),
            false => None,
        }
    }

    /// Whether a session enabled records of this level. The first call registers the sink.
    #[inline(always)]
    pub fn wants(&self, level: LogLevel) -> bool {
        self.current.get().has_level(level.etw_level())
            && self.ensure_registered()
            && self.route(level).is_some()
    }

    /// The sessions that want records of this level; `None` if there are none, or if the sink is not registered.
    #[inline(always)]
    fn route(&self, level: LogLevel) -> Option<Route> {
        let provider = self.current.get();
        let only = only_route(provider, level.etw_level(), Keyword(0));
        let is_wanted = match only {
            Some(route) => route != 0,
            None => routes(provider, level.etw_level(), Keyword(0)).any(),
        };
        is_wanted.then_some(Route { provider, only })
    }

    /// Writes an event to the sessions that enabled its level, with a message that is formatted only if there are any. If the message is
    /// too long, it is truncated between characters.
    #[inline(always)]
    fn emit_formatted(
        &self,
        parts: &Parts<'_, &[u8], LogContext<'_>>,
        message: fmt::Arguments<'_>,
    ) {
        let Some(route) = self.route(parts.level) else { return };
        let mut buffers = Buffers::take();
        let Buffers { encoder, message: line } = &mut *buffers;
        line.clear();
        // If a value fails to format, the text in front of it stays.
        let _ = line.write_fmt(message);
        let status = self.write(route, parts, line.message(), encoder);
        buffers.give_back();
        self.report(status);
    }

    /// Writes an event to the sessions that enabled its level, with a message that is formatted already. Writes nothing if the sink is not
    /// registered.
    #[inline]
    pub fn emit<'a, T: Text + 'a, P: Properties + ?Sized>(
        &self,
        parts: &Parts<'a, T, P>,
        message: Message<'_>,
    ) {
        let Some(route) = self.route(parts.level) else { return };
        let mut buffers = Buffers::take();
        let status = self.write(route, parts, message, &mut buffers.encoder);
        buffers.give_back();
        self.report(status);
    }

    #[inline(always)]
    fn report(&self, status: Status) {
        // If another thread has just unregistered the sink, no session waits for the event.
        if !status.is_success() && self.is_registered() {
            self.print_failure();
        }
    }

    #[inline(always)]
    fn write<'a, T: Text + 'a, P: Properties + ?Sized>(
        &self,
        Route { provider, only }: Route,
        parts: &Parts<'a, T, P>,
        mut message: Message<'_>,
        encoder: &mut Encoder,
    ) -> Status {
        match encoder.find(&mut message, self.channel(), parts) {
            Some(Found { site, size }) => {
                write_site_of_bytes(provider, site, only, &message.memory[..size])
            }
            None => self.write_unknown(parts, message, encoder),
        }
    }

    /// [`write`](Self::write) of an event that has to be encoded first.
    #[cold]
    #[inline(never)]
    fn write_unknown<'a, T: Text + 'a, P: Properties + ?Sized>(
        &self,
        parts: &Parts<'a, T, P>,
        message: Message<'_>,
        encoder: &mut Encoder,
    ) -> Status {
        // Asked again, so that the usual path keeps it in registers alone.
        let Some(Route { provider, only }) = self.route(parts.level) else {
            return Status::ERROR_SUCCESS;
        };
        let channel = self.channel();
        encoder.encode_slowly(message, channel, parts, |shape, payload| match shape {
            Ok(site) => write_site_of_bytes(provider, site, only, payload),
            Err(metadata) => {
                let descriptor = encode::descriptor(parts.level, channel);
                let data = [
                    EventDataDescriptor::of_kind(metadata, EventDataDescriptor::EVENT_METADATA),
                    EventDataDescriptor::new(payload),
                ];
                event_write_transfer(self.handle(), Some(&descriptor), None, None, &data)
            }
        })
    }

    /// Prints that a write failed, at most once a second.
    #[cold]
    fn print_failure(&self) {
        static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let now = FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1;
        let last = self.printed_at.load(Ordering::Relaxed);
        if last != 0 && now < last + 1000 {
            return;
        }
        let order = Ordering::Relaxed;
        if self.printed_at.compare_exchange(last, now, order, order).is_ok() {
            print_error();
        }
    }
}

fn register(id: &Guid, name: &str) -> Result<RegHandle, Status> {
    let size = (name.len() + 3) as u16;
    let traits = [&size.to_le_bytes()[..], name.as_bytes(), &[0]].concat();
    let new = NewRegistration { traits: &traits, ..NewRegistration::default() };
    event_register_new(id, new, |_| ())
}

/// Prints that logging failed. If standard output is closed, the line is dropped.
fn print_error() {
    let _ = std::io::stdout().lock().write_all(ERROR_LINE);
}

/// Whether the program has more rights than its user, whose environment it then ignores.
fn is_privileged() -> bool {
    // Entry 23 of the auxiliary vector is AT_SECURE.
    let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap_or_default());
    const WORD: usize = size_of::<usize>();
    vector.chunks_exact(2 * WORD).any(|e| word(&e[..WORD]) == 23 && word(&e[WORD..]) != 0)
}

impl LogSink for EtwSink {
    #[inline(always)]
    fn is_enabled(&self, level: LogLevel) -> bool {
        self.wants(level)
    }

    fn log(&self, record: &LogRecord<'_>) {
        if !self.ensure_registered() {
            return;
        }
        let parts = Parts {
            level: record.level,
            file: record.file.as_bytes(),
            func: record.func.as_bytes(),
            line: record.line,
            properties: record.context.unwrap_or(&NO_CONTEXT),
        };
        self.emit_formatted(&parts, record.message);
    }
}
