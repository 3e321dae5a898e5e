//! Logs by the calls of `winbase.h`: `OpenEventLog`, `OpenBackupEventLog`, `ReadEventLog`, `GetNumberOfEventLogRecords`,
//! `GetOldestEventLogRecord`, `GetEventLogInformation`, `BackupEventLog`, `ClearEventLog`, `NotifyChangeEventLog`, `CloseEventLog`.

use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use etw_api::{EventLogSource, Status};
use etw_eventlog::result_set::{ResultSet, Source};
use etw_eventlog::stored_record::StoredRecord;
use etw_eventlog::subscription::{Start, Subscription, Watch};
use etw_evtx::query::Selector;

use super::eventlog_record::{Text, eventlog_record};
use super::{
    Failure, Object, boolean, channels, handle, lock, logs, now, object, open_log, remove,
    status_of, wrong_kind,
};
use crate::abi::{CallbackContext, store, text_of, utf16_of, utf32_of};
use crate::status::{ERROR_FILE_CORRUPT, ERROR_HANDLE_EOF, ERROR_INSUFFICIENT_BUFFER};

const SEQUENTIAL: u32 = 1;
const SEEK: u32 = 2;
const FORWARDS: u32 = 4;
const BACKWARDS: u32 = 8;
/// `EVENTLOG_FULL_INFO`
const FULL_INFO: u32 = 0;
/// The log of sources that have none of their own.
const APPLICATION: &str = "Application";
/// The source of the log service itself, whose log is System.
const EVENT_LOG: &str = "EventLog";
const ERROR_ALREADY_EXISTS: Status = Status(183);
const ERROR_INVALID_LEVEL: Status = Status(124);
const ERROR_EVENTLOG_FILE_CORRUPT: Status = Status(1500);
const RPC_S_SERVER_UNAVAILABLE: Status = Status(1722);
const RPC_X_NULL_REF_POINTER: Status = Status(1780);
/// How often a log is looked at for new records.
const INTERVAL: Duration = Duration::from_millis(100);

/// A log that a program reads with `ReadEventLog`.
pub struct ClassicLog {
    file: PathBuf,
    /// `None`: the log is a file, which nobody writes or clears.
    channel: Option<String>,
    /// The source of what `ReportEvent` writes by this handle; a backup has none.
    source: Option<EventLogSource>,
    reader: Mutex<Reader>,
    watchers: Mutex<Vec<JoinHandle<()>>>,
    is_closed: Arc<AtomicBool>,
}

/// The position of `ReadEventLog`.
#[derive(Default)]
struct Reader {
    order: Order,
    /// The records behind the last one that the program received, as far as the log had some when they were searched.
    results: Option<ResultSet>,
    /// A record that the program's memory was too small for.
    waiting: Option<StoredRecord>,
    /// The reader is in front of the record with this number. Reading record 2 forwards leaves it in front of 3, and reading it backwards
    /// in front of 2. `None`: nothing was read.
    position: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Forwards,
    Backwards,
}

impl Reader {
    /// Searches the records that a query selects; nothing in a log to which nobody has written yet.
    fn search(&mut self, log: &ClassicLog, query: &str) -> Result<(), Failure> {
        let query = query.parse().map_err(|_| Failure::invalid("the record number is invalid"))?;
        let mut sources = Vec::new();
        if log.channel.is_none() || log.file.exists() {
            let name = log.file.display().to_string();
            let selector = Selector::query(query, now());
            sources.push(Source { name, log: open_log(&log.file)?, selector });
        }
        self.waiting = None;
        self.results = Some(ResultSet::new(sources, self.order == Order::Backwards));
        Ok(())
    }

    fn take(&mut self, log: &ClassicLog) -> Result<Option<StoredRecord>, Failure> {
        if let Some(record) = self.waiting.take() {
            return Ok(Some(record));
        }
        let Some(results) = &mut self.results else { return Ok(None) };
        results.next().map_err(|error| Failure::of_log(&log.file, &error))
    }

    /// The next record in the order of the reader.
    fn next(&mut self, log: &ClassicLog) -> Result<Option<StoredRecord>, Failure> {
        if let Some(record) = self.take(log)? {
            return Ok(Some(record));
        }
        // The program reads for the first time or in another order, or the log has grown.
        let query = match (self.order, self.position) {
            (_, None) => "*".to_owned(),
            (Order::Forwards, Some(number)) => format!("*[System[EventRecordID>={number}]]"),
            (Order::Backwards, Some(number)) => format!("*[System[EventRecordID<{number}]]"),
        };
        self.search(log, &query)?;
        self.take(log)
    }

    /// Moves in front of a record, in an order.
    fn seek(&mut self, log: &ClassicLog, number: u32) -> Result<(), Failure> {
        let comparison = if self.order == Order::Forwards { ">=" } else { "<=" };
        self.search(log, &format!("*[System[EventRecordID{comparison}{number}]]"))?;
        let found = self.take(log)?;
        let found = found.filter(|record| record.record_id() as u32 == number);
        self.waiting = Some(found.ok_or_else(|| {
            Failure::invalid("the log has no record of this number; see GetOldestEventLogRecord")
        })?);
        Ok(())
    }
}

impl ClassicLog {
    /// The log of a channel, by its name; System for the source `EventLog`; for any other name, the Application log, as on Windows.
    fn named(name: &str) -> Result<ClassicLog, Failure> {
        let of_name = if name.eq_ignore_ascii_case(EVENT_LOG) { "System" } else { name };
        let (file, channel, source) = match channels::log_file(of_name) {
            Ok(file) => (file, of_name, EventLogSource::register_in(name, of_name)),
            Err(_) => {
                (channels::log_file(APPLICATION)?, APPLICATION, EventLogSource::register(name))
            }
        };
        Ok(ClassicLog::new(file, Some(channel.to_owned()), Some(source)))
    }

    fn new(file: PathBuf, channel: Option<String>, source: Option<EventLogSource>) -> ClassicLog {
        ClassicLog {
            file,
            channel,
            source,
            reader: Mutex::default(),
            watchers: Mutex::default(),
            is_closed: Arc::default(),
        }
    }

    /// Whether nobody has written to the log yet.
    fn is_new(&self) -> bool {
        self.channel.is_some() && !self.file.exists()
    }

    /// Ends the threads that look for new records.
    pub fn stop(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        for watcher in lock(&self.watchers).drain(..) {
            watcher.thread().unpark();
            let _ = watcher.join();
        }
    }
}

/// A source of `RegisterEventSource`. The calls on logs accept its handle too, as on Windows.
pub struct RegisteredSource {
    source: EventLogSource,
    /// The log that has the source's name, else the Application log; opened by the first call that needs it.
    log: OnceLock<ClassicLog>,
}

impl RegisteredSource {
    fn log(&self) -> Result<&ClassicLog, Failure> {
        if let Some(log) = self.log.get() {
            return Ok(log);
        }
        let log = ClassicLog::named(self.source.name())?;
        Ok(self.log.get_or_init(|| log))
    }

    /// Ends the threads that look for new records.
    pub fn stop(&self) {
        if let Some(log) = self.log.get() {
            log.stop();
        }
    }
}

/// Runs `call` with the log of a handle.
fn with_log(
    log: *mut c_void,
    call: impl FnOnce(&ClassicLog) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match &*object(log)? {
        Object::ClassicLog(log) => call(log),
        Object::EventSource(source) => call(source.log()?),
        _ => wrong_kind(),
    }
}

/// Registers a source: a handle, or NULL and the last error.
pub fn register_source(server: Option<String>, name: Option<String>) -> *mut c_void {
    handle(|| {
        let name = given(name)?;
        reachable(server)?;
        let source = EventLogSource::register(&name);
        Ok(Object::EventSource(RegisteredSource { source, log: OnceLock::new() }))
    })
}

/// Runs `call` with the source of a handle, of `RegisterEventSource` or `OpenEventLog`.
pub fn with_source(handle: *mut c_void, call: impl FnOnce(&EventLogSource) -> Status) -> Status {
    match object(handle).as_deref() {
        Ok(Object::EventSource(registered)) => call(&registered.source),
        Ok(Object::ClassicLog(ClassicLog { source: Some(source), .. })) => call(source),
        _ => Status::ERROR_INVALID_HANDLE,
    }
}

/// Closes the handle of a log or of a source.
pub fn close(handle: *mut c_void) -> i32 {
    boolean(|| {
        if !matches!(&*object(handle)?, Object::ClassicLog(_) | Object::EventSource(_)) {
            return wrong_kind();
        }
        match &*remove(handle)? {
            Object::ClassicLog(log) => log.stop(),
            Object::EventSource(source) => source.stop(),
            _ => {}
        }
        Ok(())
    })
}

/// Rejects the names of other computers.
fn reachable(server: Option<String>) -> Result<(), Failure> {
    let server = server.unwrap_or_default();
    if etw_eventlog::is_this_computer(&server) {
        return Ok(());
    }
    let text =
        format!("{server}: logs of other computers are not reached; give NULL as the server");
    Err(Failure::new(RPC_S_SERVER_UNAVAILABLE, text))
}

/// Rejects the name of a file that exists.
fn unused(file: &Path) -> Result<(), Failure> {
    match file.symlink_metadata() {
        Ok(_) => {
            let text = format!("{}: the file exists; name another one", file.display());
            Err(Failure::new(ERROR_ALREADY_EXISTS, text))
        }
        Err(_) => Ok(()),
    }
}

fn given(name: Option<String>) -> Result<String, Failure> {
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| Failure::invalid("the name is NULL or empty"))
}

/// Opens a log of this computer.
fn open(server: Option<String>, name: Option<String>) -> *mut c_void {
    handle(|| {
        let name = given(name)?;
        reachable(server)?;
        ClassicLog::named(&name).map(Object::ClassicLog)
    })
}

/// Opens a file of this computer.
fn open_backup(server: Option<String>, name: Option<String>) -> *mut c_void {
    handle(|| {
        let file = PathBuf::from(given(name)?);
        reachable(server)?;
        open_log(&file).map_err(|failure| match failure.status {
            ERROR_FILE_CORRUPT => Failure::new(ERROR_EVENTLOG_FILE_CORRUPT, failure.text),
            _ => failure,
        })?;
        Ok(Object::ClassicLog(ClassicLog::new(file, None, None)))
    })
}

fn backup(log: *mut c_void, name: Option<String>) -> i32 {
    boolean(|| {
        let name = given(name)?;
        with_log(log, |log| {
            unused(Path::new(&name))?;
            let mut sources = Vec::new();
            if !log.is_new() {
                let (name, selector) = (log.file.display().to_string(), Selector::all());
                sources.push(Source { name, log: open_log(&log.file)?, selector });
            }
            logs::write(sources, Path::new(&name), false)
        })
    })
}

fn clear(log: *mut c_void, name: Option<String>) -> i32 {
    boolean(|| {
        with_log(log, |log| {
            let Some(channel) = &log.channel else {
                let text = "the handle is that of a backup, which cannot be cleared";
                return Err(Failure::new(Status::ERROR_INVALID_HANDLE, text));
            };
            let name = name.filter(|name| !name.is_empty()).map(PathBuf::from);
            name.as_deref().map_or(Ok(()), unused)?;
            channels::clear(channel, name)
        })
    })
}

/// A text of 8-bit units.
///
/// # Safety
/// TEXT `text`.
unsafe fn utf8_of(text: *const c_char) -> Option<String> {
    // SAFETY: TEXT.
    unsafe { text_of(text) }.map(|text| String::from_utf8_lossy(text).into_owned())
}

/// Calls with the names of a server and of a log or file.
macro_rules! with_server {
    ($($name:ident($unit:ty, $read:path) = $call:ident;)*) => {$(
        /// # Safety
        /// TEXT `server`, `name`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(server: *const $unit, name: *const $unit) -> *mut c_void {
            // SAFETY: TEXT.
            unsafe { $call($read(server), $read(name)) }
        }
    )*};
}

with_server! {
    OpenEventLogA(c_char, utf8_of) = open;
    OpenEventLogW(u16, utf16_of) = open;
    etw_open_event_log_wide(u32, utf32_of) = open;
    OpenBackupEventLogA(c_char, utf8_of) = open_backup;
    OpenBackupEventLogW(u16, utf16_of) = open_backup;
    etw_open_backup_event_log_wide(u32, utf32_of) = open_backup;
    RegisterEventSourceA(c_char, utf8_of) = register_source;
    RegisterEventSourceW(u16, utf16_of) = register_source;
    etw_register_event_source_wide(u32, utf32_of) = register_source;
}

/// Calls with a log and the name of a backup.
macro_rules! with_backup {
    ($($name:ident($unit:ty, $read:path) = $call:ident;)*) => {$(
        /// # Safety
        /// HANDLE `log`; TEXT `name`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(log: *mut c_void, name: *const $unit) -> i32 {
            // SAFETY: TEXT.
            $call(log, unsafe { $read(name) })
        }
    )*};
}

with_backup! {
    BackupEventLogA(c_char, utf8_of) = backup;
    BackupEventLogW(u16, utf16_of) = backup;
    etw_backup_event_log_wide(u32, utf32_of) = backup;
    ClearEventLogA(c_char, utf8_of) = clear;
    ClearEventLogW(u16, utf16_of) = clear;
    etw_clear_event_log_wide(u32, utf32_of) = clear;
}

/// # Safety
/// HANDLE `log`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn CloseEventLog(log: *mut c_void) -> i32 {
    close(log)
}

/// Unregisters a source.
///
/// # Safety
/// HANDLE `source`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn DeregisterEventSource(source: *mut c_void) -> i32 {
    close(source)
}

/// The program's memory for records.
struct Memory {
    buffer: *mut u8,
    size: usize,
    read: *mut u32,
    needed: *mut u32,
}

/// Copies as many whole records as fit.
///
/// # Safety
/// HANDLE `log`; OUT `memory.buffer`, `memory.size` bytes; OUT `memory.read`, `memory.needed`.
unsafe fn read(log: *mut c_void, flags: u32, number: u32, memory: &Memory, text: Text) -> i32 {
    boolean(|| {
        let Memory { buffer, size, read, needed } = *memory;
        if buffer.is_null() || read.is_null() || needed.is_null() {
            return Err(Failure::invalid("the buffer or a size is NULL"));
        }
        // SAFETY: OUT.
        unsafe {
            store(read, 0);
            store(needed, 0);
        }
        let order = match flags & (FORWARDS | BACKWARDS) {
            FORWARDS => Order::Forwards,
            BACKWARDS => Order::Backwards,
            _ => return Err(Failure::invalid("the order is either forwards or backwards")),
        };
        let is_seek = match flags & (SEQUENTIAL | SEEK) {
            SEQUENTIAL => false,
            SEEK => true,
            _ => return Err(Failure::invalid("a read is either sequential or a seek")),
        };
        with_log(log, |log| {
            let mut reader = lock(&log.reader);
            if reader.order != order {
                reader.order = order;
                (reader.results, reader.waiting) = (None, None);
            }
            if is_seek {
                reader.seek(log, number)?;
            }
            let mut done = 0;
            while let Some(record) = reader.next(log)? {
                // A record that cannot be read any more is skipped.
                let Some(bytes) = record.with(|record| eventlog_record(record, text)) else {
                    continue;
                };
                if bytes.len() > size - done {
                    reader.waiting = Some(record);
                    if done > 0 {
                        break;
                    }
                    // SAFETY: OUT.
                    unsafe { store(needed, bytes.len() as u32) };
                    return Err(Failure::from(ERROR_INSUFFICIENT_BUFFER));
                }
                // SAFETY: OUT: so many bytes are left.
                unsafe { buffer.add(done).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                done += bytes.len();
                let is_behind = u64::from(order == Order::Forwards);
                reader.position = Some(record.record_id().saturating_add(is_behind));
            }
            if done == 0 {
                return Err(Failure::from(ERROR_HANDLE_EOF));
            }
            // SAFETY: OUT.
            unsafe { store(read, done as u32) };
            Ok(())
        })
    })
}

macro_rules! read_event_log {
    ($($name:ident $text:expr;)*) => {$(
        /// # Safety
        /// HANDLE `log`; OUT `buffer`, `size` bytes; OUT `read`, `needed`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            log: *mut c_void,
            flags: u32,
            number: u32,
            buffer: *mut c_void,
            size: u32,
            read: *mut u32,
            needed: *mut u32,
        ) -> i32 {
            let memory = Memory { buffer: buffer.cast(), size: size as usize, read, needed };
            // SAFETY: HANDLE, OUT.
            unsafe { self::read(log, flags, number, &memory, $text) }
        }
    )*};
}

read_event_log! {
    ReadEventLogA Text::Utf8;
    ReadEventLogW Text::Utf16;
}

/// Stores a number of a log.
///
/// # Safety
/// HANDLE `log`; OUT `number`.
unsafe fn put_number(
    log: *mut c_void,
    number: *mut u32,
    value: impl FnOnce(&ClassicLog) -> Result<u64, Failure>,
) -> i32 {
    boolean(|| {
        if number.is_null() {
            return Err(Failure::invalid("the number has no variable"));
        }
        with_log(log, |log| {
            let value = if log.is_new() { 0 } else { value(log)? };
            // SAFETY: OUT.
            unsafe { store(number, value as u32) };
            Ok(())
        })
    })
}

/// # Safety
/// HANDLE `log`; OUT `number`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetNumberOfEventLogRecords(log: *mut c_void, number: *mut u32) -> i32 {
    // SAFETY: HANDLE, OUT.
    unsafe { put_number(log, number, |log| Ok(logs::count(&log.file)?.0)) }
}

/// The number that `ReadEventLog` gives the oldest record; 0 in an empty log.
///
/// # Safety
/// HANDLE `log`; OUT `number`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetOldestEventLogRecord(log: *mut c_void, number: *mut u32) -> i32 {
    let oldest = |log: &ClassicLog| {
        let record = Reader::default().next(log)?;
        Ok(record.map_or(0, |record| record.record_id()))
    };
    // SAFETY: HANDLE, OUT.
    unsafe { put_number(log, number, oldest) }
}

/// Stores an `EVENTLOG_FULL_INFORMATION`: whether the log is full.
///
/// # Safety
/// HANDLE `log`; OUT `buffer`, `size` bytes; OUT `needed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GetEventLogInformation(
    log: *mut c_void,
    level: u32,
    buffer: *mut c_void,
    size: u32,
    needed: *mut u32,
) -> i32 {
    boolean(|| {
        if level != FULL_INFO {
            return Err(Failure::new(ERROR_INVALID_LEVEL, "the information is EVENTLOG_FULL_INFO"));
        }
        with_log(log, |log| {
            if buffer.is_null() || needed.is_null() {
                let text = "the buffer or the pointer for the required size is NULL";
                return Err(Failure::new(RPC_X_NULL_REF_POINTER, text));
            }
            // SAFETY: OUT.
            unsafe { store(needed, size_of::<u32>() as u32) };
            if (size as usize) < size_of::<u32>() {
                return Err(Failure::from(ERROR_INSUFFICIENT_BUFFER));
            }
            let is_full = !log.is_new() && open_log(&log.file)?.is_full();
            // SAFETY: OUT.
            unsafe { store(buffer.cast::<u32>(), u32::from(is_full)) };
            Ok(())
        })
    })
}

type Set = unsafe extern "C" fn(*mut c_void) -> i32;

/// Calls `set` with `event` when records are written, until the log is closed.
///
/// # Safety
/// HANDLE `log`; CALLBACK `set`, `event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_notify_change_event_log(
    log: *mut c_void,
    event: *mut c_void,
    set: Option<Set>,
) -> i32 {
    boolean(|| {
        let set = set.ok_or_else(|| Failure::from(Status::ERROR_NOT_SUPPORTED))?;
        if event.is_null() {
            return Err(Failure::invalid("the event object is NULL"));
        }
        with_log(log, |log| {
            let Some(channel) = &log.channel else {
                let text = "the handle is that of a backup, which does not change";
                return Err(Failure::new(Status::ERROR_INVALID_HANDLE, text));
            };
            let (name, path) = (channel.clone(), log.file.clone());
            let watch = Watch { name, path, selector: Selector::all() };
            let subscription = Subscription::new(vec![watch], &Start::Future);
            let mut subscription = subscription
                .map_err(|error| Failure::new(Status::ERROR_BAD_PATHNAME, error.to_string()))?;
            let (is_closed, event) = (Arc::clone(&log.is_closed), CallbackContext(event));
            let run = move || {
                while !is_closed.load(Ordering::Relaxed) {
                    // A log that cannot be read now may be readable later.
                    if !subscription.poll().unwrap_or_default().is_empty() {
                        // SAFETY: CALLBACK.
                        unsafe { set(event.get()) };
                    }
                    std::thread::park_timeout(INTERVAL);
                }
            };
            let thread = std::thread::Builder::new().name("etw-log".to_owned()).spawn(run);
            let thread =
                thread.map_err(|error| Failure::new(status_of(&error), error.to_string()))?;
            lock(&log.watchers).push(thread);
            Ok(())
        })
    })
}
