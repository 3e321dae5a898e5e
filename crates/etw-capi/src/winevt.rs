//! The Event Log's calls, of `winevt.h` and of `winbase.h`. This file has the handles, the statuses and what all of them share.

mod channels;
mod classic;
mod eventlog_record;
mod logs;
mod message;
mod publisher;
mod query;
mod render;
mod subscribe;
mod variant;

pub use classic::with_source;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use etw_api::Status;
use etw_decode::Decoder;
use etw_etl::read::TraceFile;
use etw_eventlog::stored_record::StoredRecord;
use etw_eventlog::trace::is_event_log;
use etw_eventlog::trace_copy;
use etw_evtx::Log;
use etw_evtx::bookmark::BookmarkList;
use etw_evtx::query::{QueryList, Selector};
use etw_types::FileTime;

use crate::abi::{store, utf16_of};
use crate::last_error::SetLastError;
use crate::loaded;
use crate::status::{ERROR_FILE_CORRUPT, ERROR_INSUFFICIENT_BUFFER};

const ERROR_NO_MORE_ITEMS: Status = Status(259);
const ERROR_EVT_INVALID_QUERY: Status = Status(15_001);
const ERROR_EVT_PUBLISHER_METADATA_NOT_FOUND: Status = Status(15_002);
const ERROR_EVT_QUERY_RESULT_STALE: Status = Status(15_011);
const ERROR_EVT_MESSAGE_NOT_FOUND: Status = Status(15_027);
const ERROR_EVT_MESSAGE_ID_NOT_FOUND: Status = Status(15_028);

/// A failed call: the last error, and its explanation for `EvtGetExtendedStatus`.
#[derive(Debug)]
struct Failure {
    status: Status,
    text: String,
}

impl Failure {
    fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    fn invalid(text: &str) -> Failure {
        Failure::new(Status::ERROR_INVALID_PARAMETER, text)
    }

    /// The failure to open or read a log.
    fn of_log(path: &Path, error: &etw_evtx::Error) -> Failure {
        let status = match error {
            etw_evtx::Error::Io(error) => status_of(error),
            _ => ERROR_FILE_CORRUPT,
        };
        Failure::new(status, format!("{}: {error}", path.display()))
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::new(status, "")
    }
}

fn status_of(error: &std::io::Error) -> Status {
    match error.kind() {
        std::io::ErrorKind::NotFound => Status::ERROR_FILE_NOT_FOUND,
        std::io::ErrorKind::PermissionDenied => Status::ERROR_ACCESS_DENIED,
        // ERROR_FILE_EXISTS
        std::io::ErrorKind::AlreadyExists => Status(80),
        std::io::ErrorKind::StorageFull => Status::ERROR_DISK_FULL,
        _ => Status::ERROR_BAD_PATHNAME,
    }
}

/// An object behind a handle.
enum Object {
    Query(query::Query),
    Subscription(Arc<subscribe::Shared>),
    Event(StoredRecord),
    Context(render::Context),
    Bookmark(Mutex<BookmarkList>),
    Log(PathBuf),
    ClassicLog(classic::ClassicLog),
    EventSource(classic::RegisteredSource),
    Names(NameKind, NameList),
    ChannelConfig(Mutex<channels::Config>),
    Publisher(publisher::Publisher),
    Events(Mutex<std::vec::IntoIter<publisher::EventMetadata>>),
    EventMetadata(publisher::EventMetadata),
    Array(Vec<publisher::Element>),
}

/// Objects by their handles. Handles are numbers that are never used again, so that a closed handle is rejected.
#[derive(Default)]
struct Table {
    last: usize,
    objects: HashMap<usize, Arc<Object>>,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn insert(object: Object) -> *mut c_void {
    let mut table = lock(&TABLE);
    // Never a pseudo-handle, and never aligned like an object of the Windows headers.
    table.last += 8;
    let handle = 0x10_0001 + table.last;
    table.objects.insert(handle, Arc::new(object));
    std::ptr::without_provenance_mut(handle)
}

fn object(handle: *mut c_void) -> Result<Arc<Object>, Failure> {
    let found = lock(&TABLE).objects.get(&handle.addr()).map(Arc::clone);
    found.ok_or_else(|| {
        Failure::new(Status::ERROR_INVALID_HANDLE, "the handle is closed, or never was one")
    })
}

fn remove(handle: *mut c_void) -> Result<Arc<Object>, Failure> {
    let removed = lock(&TABLE).objects.remove(&handle.addr());
    removed.ok_or_else(|| Failure::from(Status::ERROR_INVALID_HANDLE))
}

fn wrong_kind<T>() -> Result<T, Failure> {
    Err(Failure::new(Status::ERROR_INVALID_HANDLE, "the handle is of another kind of object"))
}

/// Rejects sessions with other computers.
fn local(session: *mut c_void) -> Result<(), Failure> {
    match session.is_null() {
        true => Ok(()),
        false => Err(Failure::from(Status::ERROR_NOT_SUPPORTED)),
    }
}

thread_local! {
    /// The explanation of the thread's last failure.
    static EXPLANATION: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs a call that returns BOOL, and sets the last error if it fails. Panics do not unwind through C.
fn boolean(call: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    let failure = match result {
        Ok(Ok(())) => {
            SetLastError(0);
            return 1;
        }
        Ok(Err(failure)) => failure,
        Err(_) => Failure::from(Status::ERROR_NOT_ENOUGH_MEMORY),
    };
    EXPLANATION.set(failure.text);
    SetLastError(failure.status.0);
    0
}

/// Runs a call that returns a handle, or NULL and the last error.
fn handle(call: impl FnOnce() -> Result<Object, Failure>) -> *mut c_void {
    let mut made = std::ptr::null_mut();
    boolean(|| {
        made = insert(call()?);
        Ok(())
    });
    made
}

/// Copies `units`, which end with a NUL, to a buffer whose size is in characters.
///
/// # Safety
/// OUT `buffer`, `size` units; OUT `used`.
unsafe fn put_text(text: &str, buffer: *mut u16, size: u32, used: *mut u32) -> Result<(), Failure> {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    if used.is_null() {
        return Err(Failure::invalid("the pointer for the required size is NULL"));
    }
    // SAFETY: OUT.
    unsafe { store(used, units.len() as u32) };
    if buffer.is_null() || (size as usize) < units.len() {
        return Err(Failure::from(ERROR_INSUFFICIENT_BUFFER));
    }
    for (index, unit) in units.into_iter().enumerate() {
        // SAFETY: OUT: the buffer has at least as many units.
        unsafe { store(buffer.add(index), unit) };
    }
    Ok(())
}

/// Names that a program enumerates.
/// The names that an enumeration gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Publisher,
    Channel,
}

type NameList = Mutex<std::vec::IntoIter<String>>;

/// Copies the next name of an enumeration of this kind. A name that did not fit is the next one again.
///
/// # Safety
/// HANDLE `enumeration`; OUT `buffer`, `size` units; OUT `used`.
unsafe fn put_next(
    enumeration: *mut c_void,
    kind: NameKind,
    buffer: *mut u16,
    size: u32,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        let found = object(enumeration)?;
        let names = match &*found {
            Object::Names(its, names) if *its == kind => names,
            _ => return wrong_kind(),
        };
        let mut names = lock(names);
        let next = names.as_slice().first().ok_or(Failure::from(ERROR_NO_MORE_ITEMS))?;
        // SAFETY: OUT.
        unsafe { put_text(next, buffer, size, used) }?;
        names.next();
        Ok(())
    })
}

/// The file of a channel, or of `file://` and a path.
fn file_of(path: &str) -> Result<PathBuf, Failure> {
    match path.strip_prefix("file://") {
        Some(path) => Ok(PathBuf::from(path)),
        None => channels::log_file(path),
    }
}

/// Opens the log in a file for a query: `.evtx`, `.evt` of Windows XP, or `.etl`. The records of the latter two are copied to an unnamed
/// temporary file, those of a trace with the names and fields that the loaded and the registered schemas give them.
fn open_log(file: &Path) -> Result<Log, Failure> {
    let is_log = is_event_log(file) || !file.is_file();
    let trace = if is_log { None } else { TraceFile::open(file).ok() };
    let Some(trace) = trace else {
        let opened = etw_eventlog::open::open(file);
        return opened.map(|opened| opened.log).map_err(|error| Failure::of_log(file, &error));
    };
    let log = trace_copy::log_of(trace, |store| {
        let mut decoder = Decoder::with_store(store);
        decoder.set_catalog(loaded::catalog().1);
        decoder.set_own_catalog(loaded::registered());
        decoder
    });
    log.map_err(|error| Failure::of_log(file, &error))
}

fn now() -> FileTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    FileTime(FileTime::UNIX_EPOCH.0 + since.map_or(0, |since| (since.as_nanos() / 100) as i64))
}

/// A log that a query names, and the records of it that are selected.
struct Selected {
    name: String,
    file: PathBuf,
    /// The log is that of a channel; its file may not exist yet.
    is_channel: bool,
    selector: Selector,
}

/// A query that names logs whose files are not known, and why.
struct Unknown {
    name: String,
    failure: Failure,
}

/// The logs of a query: of a query list those that it names, else the one of `path`.
fn selected(
    path: Option<&str>,
    is_file: bool,
    query: Option<&str>,
) -> Result<(Vec<Selected>, Vec<Unknown>), Failure> {
    let refused = |error: &dyn std::fmt::Display| {
        Failure::new(ERROR_EVT_INVALID_QUERY, format!("query: {error}"))
    };
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    let query = query.unwrap_or_default();
    if query.trim_start().starts_with('<') {
        let list = QueryList::parse(query).map_err(|error| refused(&error))?;
        for name in list.paths() {
            let selector = Selector::list(list.clone(), Some(name), now());
            let name = name.to_owned();
            let is_channel = !name.starts_with("file://");
            match file_of(&name) {
                Ok(file) => known.push(Selected { name, file, is_channel, selector }),
                Err(failure) => unknown.push(Unknown { name, failure }),
            }
        }
        return Ok((known, unknown));
    }
    let name = path.ok_or_else(|| Failure::invalid("without a query list, a path is needed"))?;
    let selector = Selector::query(query.parse().map_err(|error| refused(&error))?, now());
    let name = name.to_owned();
    let is_channel = !is_file && !name.starts_with("file://");
    let file = if is_file { Ok(PathBuf::from(&name)) } else { file_of(&name) };
    match file {
        Ok(file) => known.push(Selected { name, file, is_channel, selector }),
        Err(failure) => unknown.push(Unknown { name, failure }),
    }
    Ok((known, unknown))
}

/// Sessions with other computers are not supported.
#[unsafe(no_mangle)]
pub extern "C" fn EvtOpenSession(_: i32, _: *mut c_void, _: u32, _: u32) -> *mut c_void {
    handle(|| Err(Failure::new(Status::ERROR_NOT_SUPPORTED, "other computers are not reached")))
}

/// # Safety
/// HANDLE `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtClose(handle: *mut c_void) -> i32 {
    boolean(|| {
        match &*remove(handle)? {
            Object::Subscription(shared) => shared.stop(),
            Object::ClassicLog(log) => log.stop(),
            Object::EventSource(source) => source.stop(),
            _ => {}
        }
        Ok(())
    })
}

/// # Safety
/// HANDLE `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtCancel(handle: *mut c_void) -> i32 {
    boolean(|| {
        if let Object::Subscription(shared) = &*object(handle)? {
            shared.wake();
        }
        Ok(())
    })
}

/// # Safety
/// OUT `buffer`, `size` units; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetExtendedStatus(size: u32, buffer: *mut u16, used: *mut u32) -> u32 {
    let text = EXPLANATION.with_borrow(String::clone);
    // SAFETY: OUT.
    match unsafe { put_text(&text, buffer, size, used) } {
        Ok(()) => 0,
        Err(failure) => failure.status.0,
    }
}

/// # Safety
/// TEXT `text`.
unsafe fn optional(text: *const u16) -> Option<String> {
    // SAFETY: TEXT.
    unsafe { utf16_of(text) }
}
