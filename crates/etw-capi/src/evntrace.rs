//! `evntrace.h` for controllers: starting, querying, updating and stopping sessions.
//!
//! Global sessions belong to the user's daemon (`etw daemon`), which `StartTrace` starts if it does not run. Every call has a connection of its
//! own: no state stays between two calls, and a handle means the same session in every process. Private sessions belong to this process.

mod enable;
mod filters;
mod guids;
mod host;
mod information;
mod nt;
mod private;
mod properties;
mod sessions;
mod start;
mod system;

use std::ffi::c_void;

use etw_api::Status;
use etw_types::LogFileMode;
use etw_wire::host_client::Client;
use etw_wire::requests::{Request, Response, Update};

use crate::abi::{guarded, store};
use properties::{Properties, RawProperties, Text};

const QUERY: u32 = 0;
const STOP: u32 = 1;
const UPDATE: u32 = 2;
const FLUSH: u32 = 3;
const INCREMENT_FILE: u32 = 4;
const CONVERT_TO_REAL_TIME: u32 = 5;

/// The limit of sessions that one `QueryAllTraces` returns.
const MOST_SESSIONS: u32 = 64;

fn outcome(result: Result<(), Status>) -> Status {
    result.err().unwrap_or(Status::ERROR_SUCCESS)
}

macro_rules! calls {
    ($($start:ident $query_all:ident $control:ident [$($name:ident $code:ident)*] $text:ident;)*) => {
        $(
            /// # Safety
            /// OUT `handle`; TEXT `name`; ONE and OUT `properties`, of `Wnode.BufferSize` bytes.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $start(
                handle: *mut u64,
                name: *const c_void,
                properties: *mut RawProperties,
            ) -> u32 {
                // SAFETY: TEXT, OUT.
                guarded(|| outcome(unsafe { start(handle, name, properties, Text::$text) }))
            }

            /// # Safety
            /// ARRAY `array`, `count`, and ONE and OUT for each, of `Wnode.BufferSize` bytes; OUT `found`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $query_all(
                array: *const *mut RawProperties,
                count: u32,
                found: *mut u32,
            ) -> u32 {
                // SAFETY: ARRAY, OUT.
                guarded(|| outcome(unsafe { query_all(array, count, found, Text::$text) }))
            }

            /// # Safety
            /// TEXT `name`; ONE and OUT `properties`, of `Wnode.BufferSize` bytes.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $control(
                handle: u64,
                name: *const c_void,
                properties: *mut RawProperties,
                code: u32,
            ) -> u32 {
                // SAFETY: TEXT, OUT.
                guarded(|| outcome(unsafe { control(handle, name, properties, code, Text::$text) }))
            }

            $(
                /// # Safety
                /// TEXT `name`; ONE and OUT `properties`, of `Wnode.BufferSize` bytes.
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $name(
                    handle: u64,
                    name: *const c_void,
                    properties: *mut RawProperties,
                ) -> u32 {
                    // SAFETY: TEXT, OUT.
                    unsafe { $control(handle, name, properties, $code) }
                }
            )*
        )*
    };
}

calls! {
    StartTraceW QueryAllTracesW ControlTraceW
        [QueryTraceW QUERY StopTraceW STOP UpdateTraceW UPDATE FlushTraceW FLUSH] Wide;
    StartTraceA QueryAllTracesA ControlTraceA
        [QueryTraceA QUERY StopTraceA STOP UpdateTraceA UPDATE FlushTraceA FLUSH] Narrow;
}

/// # Safety
/// OUT `handle`; TEXT `name`; ONE and OUT `properties`, of `Wnode.BufferSize` bytes.
unsafe fn start(
    handle: *mut u64,
    name: *const c_void,
    properties: *mut RawProperties,
    text: Text,
) -> Result<(), Status> {
    if handle.is_null() {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    // SAFETY: TEXT.
    let (name, properties) = unsafe { (text.name(name), Properties::read(properties, text)?) };
    let name = name?.ok_or(Status::ERROR_INVALID_PARAMETER)?;
    let config = start::config_of(&name, &properties)?;
    let mode = properties.raw.mode;
    let started = if mode.intersects(start::PRIVATE) {
        private::start(config, mode)?
    } else {
        let client = host::connect_or_start()?;
        sessions::session(host::ask(&client, &Request::start(config))?)?
    };
    // SAFETY: OUT.
    unsafe { store(handle, sessions::handle_of(&started)) };
    // The name of the file stays as the program wrote it. `Properties::read` has checked that the name of the session fits.
    properties.tell(&started, false)
}

/// # Safety
/// TEXT `name`; ONE and OUT `properties`, of `Wnode.BufferSize` bytes.
unsafe fn control(
    handle: u64,
    name: *const c_void,
    properties: *mut RawProperties,
    code: u32,
    text: Text,
) -> Result<(), Status> {
    if code > CONVERT_TO_REAL_TIME {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    // SAFETY: TEXT.
    let (name, properties) = unsafe { (text.name(name), Properties::read(properties, text)?) };
    let name = name?.filter(|name| !name.is_empty());
    if handle == 0 && name.is_none() {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    if let Some(private) = private::find(handle, name.as_deref()) {
        let told = match code {
            STOP => private::stop(private)?,
            QUERY => private.query()?,
            FLUSH => {
                private.flush(properties.file()?)?;
                private.query()?
            }
            _ => return Err(Status::ERROR_NOT_SUPPORTED),
        };
        return properties.tell(&told, true);
    }
    let client = host::connect()?;
    let session = sessions::name_of(&client, handle, name.as_deref())?;
    let told = match code {
        STOP => sessions::session(host::ask(&client, &Request::Stop { session })?)?,
        QUERY => sessions::query(&client, &session)?,
        UPDATE => {
            update(&client, &session, &properties)?;
            sessions::query(&client, &session)?
        }
        FLUSH => {
            flush(&client, session.clone(), &properties)?;
            sessions::query(&client, &session)?
        }
        // The daemon cannot do these: it changes files of a series when they are full, and writes a file and a live stream at once.
        INCREMENT_FILE | CONVERT_TO_REAL_TIME => {
            sessions::query(&client, &session)?;
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        _ => return Err(Status::ERROR_INVALID_PARAMETER),
    };
    properties.tell(&told, true)
}

/// Updates a session. A value of 0 leaves a setting unchanged, except for `EnableFlags`, which are always replaced; of the log mode, only the
/// real-time bit can change.
fn update(client: &Client, name: &str, properties: &Properties) -> Result<(), Status> {
    let raw = &properties.raw;
    let now = sessions::query(client, name)?;
    // As documented, a session cannot change to the file that it has: the daemon rejects it.
    let file = properties.file()?;
    let is_real_time = raw.mode.contains(LogFileMode::REAL_TIME);
    if !is_real_time && now.file.is_none() && now.mode.contains(LogFileMode::REAL_TIME) {
        // The session would have neither a file nor a live stream.
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    if is_real_time && now.mode.contains(LogFileMode::BUFFERING) {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let unit = if raw.mode.contains(LogFileMode::USE_MS_FLUSH_TIMER) { 1 } else { 1000 };
    let timer = raw.flush_timer.saturating_mul(unit);
    let update = Update {
        buffers: (raw.maximum_buffers > 0).then_some(raw.maximum_buffers),
        flush_timer_ms: (timer > 0).then_some(timer),
        file,
        real_time: (is_real_time != (now.mode.contains(LogFileMode::REAL_TIME)))
            .then_some(is_real_time),
        // 0 switches all off. Other sessions have none.
        enable_flags: now.system.as_ref().map(|_| raw.enable_flags),
    };
    host::ask(client, &Request::Update { session: name.to_owned(), update }).map(|_| ())
}

/// Flushes a session. A session in memory writes its contents to the file that the properties name.
fn flush(client: &Client, session: String, properties: &Properties) -> Result<(), Status> {
    let in_memory = sessions::query(client, &session)?.mode.contains(LogFileMode::BUFFERING);
    let request = match properties.file()? {
        Some(file) if in_memory => Request::Snapshot { session, file },
        None if in_memory => return Err(Status::ERROR_BAD_PATHNAME),
        _ => Request::Flush { session },
    };
    match host::ask(client, &request)? {
        Response::Done { .. } => Ok(()),
        _ => Err(Status::ERROR_NO_SYSTEM_RESOURCES),
    }
}

/// # Safety
/// ARRAY `array`, `count`, and ONE and OUT for each, of `Wnode.BufferSize` bytes; OUT `found`.
unsafe fn query_all(
    array: *const *mut RawProperties,
    count: u32,
    found: *mut u32,
    text: Text,
) -> Result<(), Status> {
    if array.is_null() || found.is_null() || count == 0 || count > MOST_SESSIONS {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let all = match host::connect() {
        Ok(client) => sessions::list(&client)?,
        // Without a daemon there are no sessions.
        Err(Status::ERROR_WMI_INSTANCE_NOT_FOUND) => Vec::new(),
        Err(status) => return Err(status),
    };
    // SAFETY: OUT.
    unsafe { store(found, all.len() as u32) };
    let mut result = Ok(());
    for (number, session) in all.iter().take(count as usize).enumerate() {
        // SAFETY: ARRAY, OUT.
        let properties = unsafe { Properties::read(array.add(number).read_unaligned(), text)? };
        result = properties.tell(session, true).and(result);
    }
    if all.len() > count as usize { Err(Status::ERROR_MORE_DATA) } else { result }
}
