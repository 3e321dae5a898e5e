use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use etw::evntprov::{
    EventDataDescriptor, EventInfoClass, RegHandle, event_enabled, event_gate, event_register,
    event_set_information, event_unregister, event_write_site, event_write_transfer,
};
use etw::{Channel, EventDescriptor, Guid, Status};

use crate::context::Pair;
use crate::encode::Encoder;
use crate::level::LogLevel;
use crate::{LogRecord, LogSink};

/// The provider's GUID unless the program, its environment or its build gives another one.
pub const DEFAULT_PROVIDER_ID: Guid = Guid::from_u128(0xdad29f36_0a48_4def_9d50_8ef9036b92b4);
/// The provider's name unless another one is given.
pub const DEFAULT_PROVIDER_NAME: &str = "block_storage_2";

const NOT_REGISTERED: u32 = 1;
const REGISTERING: u32 = 2;
const REGISTERED: u32 = 3;

/// How long a thread waits for another one that registers.
const PATIENCE: Duration = Duration::from_secs(1);
const ERROR_LINE: &[u8] = b"Error emitting ETW event\r\n";

/// Logs to ETW: a TraceLogging event for each record, of a provider that is registered at the first log.
///
/// The provider is, in this order: what [`set_provider`](EtwSink::set_provider) was told before the first log; what the
/// environment says (`LOG_SINK_ETW_PROVIDER_GUID`, `LOG_SINK_ETW_PROVIDER_NAME`; not in a program that runs with more
/// rights than its user); what these variables said when this crate was built; `block_storage_2`,
/// `dad29f36-0a48-4def-9d50-8ef9036b92b4`.
///
/// The first event of a registration tells that it happened, and which executable it is (self test).
#[derive(Debug)]
pub struct EtwSink {
    /// `NOT_REGISTERED`, `REGISTERING` or `REGISTERED`: changed by compare-exchange.
    state: AtomicU32,
    handle: AtomicU64,
    /// The thread that registers, by the address of a local of its own.
    registering: AtomicU64,
    provider: Mutex<Option<(Guid, String)>>,
    waiting: Mutex<()>,
    changed: Condvar,
    /// Milliseconds, since the first error, of the last one that was told; plus one.
    told: AtomicU64,
}

/// What is emitted: a record with texts as bytes, as C has them.
#[derive(Clone, Copy, Debug)]
pub struct Emit<'a> {
    /// How severe it is.
    pub level: LogLevel,
    /// Source file.
    pub file: Option<&'a [u8]>,
    /// Function.
    pub func: Option<&'a [u8]>,
    /// Line in the file.
    pub line: i32,
    /// Properties, flat.
    pub pairs: &'a [Pair<'a>],
    /// The message is UTF-8: if it is too long it is not cut within a character. C's sink cuts at any byte.
    pub is_text: bool,
}

thread_local! {
    static ENCODER: RefCell<Encoder> = const { RefCell::new(Encoder::new()) };
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
    /// A sink that has registered nothing yet.
    pub const fn new() -> EtwSink {
        EtwSink {
            state: AtomicU32::new(NOT_REGISTERED),
            handle: AtomicU64::new(0),
            registering: AtomicU64::new(0),
            provider: Mutex::new(None),
            waiting: Mutex::new(()),
            changed: Condvar::new(),
            told: AtomicU64::new(0),
        }
    }

    /// The provider of this sink's events, from the next registration on.
    pub fn set_provider(&self, id: Guid, name: &str) {
        *lock(&self.provider) = Some((id, name.to_owned()));
    }

    /// The provider that it registers, or has registered.
    pub fn provider(&self) -> (Guid, String) {
        if let Some(provider) = &*lock(&self.provider) {
            return provider.clone();
        }
        let setting = |variable: &str, built: Option<&str>| {
            let environment = if is_privileged() { None } else { std::env::var(variable).ok() };
            environment.or(built.map(str::to_owned))
        };
        let id = setting("LOG_SINK_ETW_PROVIDER_GUID", option_env!("LOG_SINK_ETW_PROVIDER_GUID"));
        let id = id.and_then(|text| text.trim_matches(['{', '}']).parse().ok());
        let name = setting("LOG_SINK_ETW_PROVIDER_NAME", option_env!("LOG_SINK_ETW_PROVIDER_NAME"));
        let name = name.filter(|name| !name.is_empty() && !name.contains('\0'));
        (
            id.unwrap_or(DEFAULT_PROVIDER_ID),
            name.unwrap_or_else(|| DEFAULT_PROVIDER_NAME.to_owned()),
        )
    }

    /// Is it registered?
    pub fn is_registered(&self) -> bool {
        self.state.load(Ordering::Acquire) == REGISTERED
    }

    fn handle(&self) -> RegHandle {
        RegHandle(self.handle.load(Ordering::Acquire))
    }

    /// Registers unless it is registered; whether it is now. Never waits for longer than a second.
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
                // A log within the registration: of a callback, or a message of ours.
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
            // Whoever registered and failed has said so: one try of our own is enough.
        }
    }

    /// The state is `REGISTERING`, by this thread.
    fn register_now(&self) -> bool {
        self.registering.store(this_thread(), Ordering::Release);
        let (id, name) = self.provider();
        let registered = register(&id, &name);
        if let Ok(handle) = registered {
            self.handle.store(handle.0, Ordering::Release);
        }
        self.registering.store(0, Ordering::Release);
        let state = if registered.is_ok() { REGISTERED } else { NOT_REGISTERED };
        self.state.store(state, Ordering::Release);
        // Under the lock: who has seen the old state waits, or has not yet looked.
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

    /// Unregisters; the next log registers anew. `false` where it was not registered.
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
        let emit = Emit {
            level: LogLevel::INFO,
            file: Some(file!().as_bytes()),
            func: Some(b"self_test"),
            line: line!() as i32,
            pairs: &[],
            is_text: true,
        };
        self.emit(&emit, |message| {
            let _ = write!(
                Bytes(message),
                "ETW provider was registered succesfully (self test). \
                 Executable file full path name = {path}"
            );
        });
    }

    /// Larger than the ETW level of every record that a session may want, as long as the sink is registered.
    #[doc(hidden)]
    pub fn gate(&self) -> Option<&'static AtomicU32> {
        match self.is_registered() {
            true => event_gate(self.handle()),
            false => None,
        }
    }

    /// Does a session want records of this level? Registers at the first call.
    #[inline]
    pub fn wants(&self, level: LogLevel) -> bool {
        self.ensure_registered() && event_enabled(self.handle(), &descriptor(level))
    }

    /// Writes an event whose message `message` appends, if a session wants it. Texts end at their first NUL.
    pub fn emit(&self, emit: &Emit<'_>, message: impl FnOnce(&mut Vec<u8>)) {
        if !self.wants(emit.level) {
            return;
        }
        let write = |encoder: &mut Encoder| {
            encoder.begin(emit.level, emit.is_text);
            message(encoder.message());
            let descriptor = descriptor(emit.level);
            let (shape, payload) =
                encoder.finish(&descriptor, emit.file, emit.func, emit.line, emit.pairs);
            let metadata = match shape {
                Ok(site) => return event_write_site(self.handle(), site, payload),
                Err(metadata) => metadata,
            };
            let data = [
                EventDataDescriptor::of_kind(metadata, EventDataDescriptor::EVENT_METADATA),
                EventDataDescriptor::new(payload),
            ];
            event_write_transfer(self.handle(), Some(&descriptor), None, None, &data)
        };
        let mut write = Some(write);
        let mut run = |encoder: &mut Encoder| write.take().map(|write| write(encoder));
        // A message that logs while it is formatted, or a thread at its end, has an encoder of its own.
        let status = ENCODER
            .try_with(|encoder| encoder.try_borrow_mut().ok().and_then(|mut e| run(&mut e)))
            .ok()
            .flatten()
            .or_else(|| run(&mut Encoder::new()));
        if status.is_some_and(|status| !status.is_success()) {
            self.tell_failure();
        }
    }

    /// A write that failed, at most once a second.
    #[cold]
    fn tell_failure(&self) {
        static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let now = FIRST.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1;
        let told = self.told.load(Ordering::Relaxed);
        if told != 0 && now < told + 1000 {
            return;
        }
        let order = Ordering::Relaxed;
        if self.told.compare_exchange(told, now, order, order).is_ok() {
            print_error();
        }
    }
}

fn register(id: &Guid, name: &str) -> Result<RegHandle, Status> {
    let handle = event_register(id, None)?;
    let size = (name.len() + 3) as u16;
    let traits = [&size.to_le_bytes()[..], name.as_bytes(), &[0]].concat();
    for (class, data) in
        [(EventInfoClass::SetTraits, &traits[..]), (EventInfoClass::UseDescriptorType, &[1])]
    {
        let status = event_set_information(handle, class as u32, data);
        if !status.is_success() {
            event_unregister(handle);
            return Err(status);
        }
    }
    Ok(handle)
}

fn descriptor(level: LogLevel) -> EventDescriptor {
    EventDescriptor {
        channel: Channel::TRACE_LOGGING,
        level: level.etw_level(),
        ..EventDescriptor::default()
    }
}

/// Nobody is there to hear that standard output is closed.
fn print_error() {
    let _ = std::io::stdout().lock().write_all(ERROR_LINE);
}

/// More rights than the user: its environment is not to be trusted.
fn is_privileged() -> bool {
    // AT_SECURE, entry 23 of the auxiliary vector.
    let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap_or_default());
    const WORD: usize = size_of::<usize>();
    vector.chunks_exact(2 * WORD).any(|e| word(&e[..WORD]) == 23 && word(&e[WORD..]) != 0)
}

/// Formatted text appended to bytes.
struct Bytes<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl LogSink for EtwSink {
    fn is_enabled(&self, level: LogLevel) -> bool {
        self.wants(level)
    }

    fn log(&self, record: &LogRecord<'_>) {
        let emit = Emit {
            level: record.level,
            file: Some(record.file.as_bytes()),
            func: Some(record.func.as_bytes()),
            line: record.line,
            pairs: record.context.map_or(&[], |context| context.pairs()),
            is_text: true,
        };
        self.emit(&emit, |message| {
            // An error is that of a value that cannot be shown: what it wrote before stays.
            let _ = Bytes(message).write_fmt(record.message);
        });
    }
}
