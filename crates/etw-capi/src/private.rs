//! `etw_session.h`: private sessions in few calls, for C programs that record themselves.

#[cfg(unix)]
use std::ffi::OsStr;
use std::ffi::{OsString, c_char};
use std::os::raw::c_void;
use std::sync::{Mutex, PoisonError};

use etw_api::{EnableInfo, Keyword, Level, LevelKeyword, Session, SessionError, Status};

use crate::abi::{RawGuid, guarded, guid_of, read, store, text_of};

/// A running session and its name. C holds its address.
pub struct EtwSession {
    session: Session,
    /// Free when the session has stopped.
    name: SessionName,
}

/// The names of this process's private sessions, in lower case, by processes: those of the parent mean nothing in the child of a fork.
static NAMES: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

/// A name that no other private session of the process has while this lives.
pub(crate) struct SessionName(u32, String);

impl SessionName {
    /// # Errors
    /// 183: a private session of the process has the name.
    pub(crate) fn claim(name: &str) -> Result<SessionName, Status> {
        let (process, name) = (std::process::id(), name.to_lowercase());
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(of, _)| *of == process);
        if names.iter().any(|(_, other)| *other == name) {
            return Err(Status::ERROR_ALREADY_EXISTS);
        }
        names.push((process, name.clone()));
        Ok(SessionName(process, name))
    }
}

impl Drop for SessionName {
    fn drop(&mut self) {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(process, name)| (process, name) != (&self.0, &self.1));
    }
}

/// `ETW_SESSION_OPTIONS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawOptions {
    size: u32,
    buffer_size_kb: u32,
    buffers: u32,
    pool_start_kb: u32,
    pool_limit_kb: u32,
}

/// # Safety
/// TEXT `name`; TEXT `file`; OUT `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_start(
    name: *const c_char,
    file: *const c_char,
    session: *mut *mut c_void,
) -> u32 {
    if file.is_null() {
        return Status::ERROR_INVALID_PARAMETER.0;
    }
    // SAFETY: TEXT, OUT; NULL is allowed for the options.
    unsafe { etw_session_start_ex(name, file, std::ptr::null(), session) }
}

/// # Safety
/// TEXT `name`; TEXT `file`; ONE `options`; OUT `session`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_start_ex(
    name: *const c_char,
    file: *const c_char,
    options: *const RawOptions,
    session: *mut *mut c_void,
) -> u32 {
    guarded(|| {
        // SAFETY: TEXT, ONE.
        let (name, options) = unsafe { (text_of(name), read(options)) };
        let Some(name) = name.filter(|_| !session.is_null()) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let options = options.unwrap_or(RawOptions { size: SIZE, ..Default::default() });
        if options.size < SIZE {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let name = String::from_utf8_lossy(name);
        let claimed = match SessionName::claim(&name) {
            Ok(claimed) => claimed,
            Err(status) => return status,
        };
        let mut builder = Session::builder(&name);
        // SAFETY: TEXT.
        builder = match unsafe { path_of(file) } {
            Some(path) => builder.file(path),
            None => builder.memory(),
        };
        if options.buffer_size_kb > 0 {
            builder = builder.buffer_size_kb(options.buffer_size_kb);
        }
        if options.buffers > 0 {
            builder = builder.buffers(options.buffers);
        }
        let bytes = |kb: u32, usual: usize| if kb > 0 { kb as usize * 1024 } else { usual };
        let start = bytes(options.pool_start_kb, 1 << 20);
        builder = builder.pool_size(start, bytes(options.pool_limit_kb, 16 << 20));
        match builder.start() {
            Ok(started) => {
                let started = Box::new(EtwSession { session: started, name: claimed });
                // SAFETY: OUT.
                unsafe { store(session, Box::into_raw(started).cast()) };
                Status::ERROR_SUCCESS
            }
            Err(error) => error.status(),
        }
    })
}

const SIZE: u32 = size_of::<RawOptions>() as u32;

/// A path; `None` for NULL.
///
/// # Safety
/// TEXT `path`.
unsafe fn path_of(path: *const c_char) -> Option<OsString> {
    // SAFETY: TEXT.
    let path = unsafe { text_of(path) }?;
    #[cfg(unix)]
    let path = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path).to_owned();
    #[cfg(not(unix))]
    let path = OsString::from(&*String::from_utf8_lossy(path));
    Some(path)
}

/// Calls `act` with a session of a C program.
///
/// # Safety
/// HANDLE `session`.
unsafe fn with(
    session: *mut c_void,
    act: impl FnOnce(&Session) -> Result<(), SessionError>,
) -> Status {
    if session.is_null() {
        return Status::ERROR_INVALID_PARAMETER;
    }
    // SAFETY: HANDLE: from `etw_session_start`, and not stopped.
    let session = unsafe { &*session.cast::<EtwSession>() };
    // Without a lock: an enable callback that the call runs may use the session, too.
    act(&session.session).map_or_else(|error| error.status(), |()| Status::ERROR_SUCCESS)
}

/// # Safety
/// HANDLE `session`; ONE `provider`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_enable(
    session: *mut c_void,
    provider: *const RawGuid,
    level: u8,
    any: u64,
    all: u64,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let Some(id) = (unsafe { guid_of(provider) }) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let wanted = LevelKeyword {
            level: Level(level),
            any: Keyword(any),
            all: Keyword(all),
            ..LevelKeyword::ALL
        };
        let info = EnableInfo { wanted, ..EnableInfo::default() };
        // SAFETY: HANDLE.
        unsafe { with(session, |session| session.enable_with(&id, info)) }
    })
}

/// # Safety
/// HANDLE `session`; TEXT `file`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_snapshot(session: *mut c_void, file: *const c_char) -> u32 {
    guarded(|| {
        // SAFETY: TEXT, HANDLE.
        unsafe {
            let Some(path) = path_of(file) else { return Status::ERROR_INVALID_PARAMETER };
            with(session, |session| session.snapshot(path).map(|_| ()))
        }
    })
}

/// # Safety
/// HANDLE `session`; OUT `stored`; OUT `lost`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_query(
    session: *mut c_void,
    stored: *mut u64,
    lost: *mut u64,
) -> u32 {
    guarded(|| {
        let query = |session: &Session| {
            let ledger = session.statistics()?.ledger;
            for (to, count) in [(stored, ledger.stored), (lost, ledger.lost_total())] {
                if !to.is_null() {
                    // SAFETY: OUT.
                    unsafe { store(to, count) };
                }
            }
            Ok(())
        };
        // SAFETY: HANDLE.
        unsafe { with(session, query) }
    })
}

/// # Safety
/// HANDLE `session`; OUT `lost`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_stop(session: *mut c_void, lost: *mut u64) -> u32 {
    guarded(|| {
        if session.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: HANDLE: from `etw_session_start`. This call ends the handle.
        let session = unsafe { Box::from_raw(session.cast::<EtwSession>()) };
        let EtwSession { session, name: _name } = *session;
        let etw_api::Stopped { statistics, result } = session.stop_with_statistics();
        if !lost.is_null() {
            // SAFETY: OUT.
            unsafe { store(lost, statistics.ledger.lost_total()) };
        }
        result.map_or_else(|error| error.status(), |()| Status::ERROR_SUCCESS)
    })
}
