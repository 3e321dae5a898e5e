//! `etw_session.h`: a private session of this process, in few calls: what a C program needs that records itself.

#[cfg(unix)]
use std::ffi::OsStr;
use std::ffi::{CStr, OsString, c_char};
use std::os::raw::c_void;
use std::sync::Mutex;

use etw_api::{EnableInfo, LevelKeyword, Session, SessionError, Status};

use crate::abi::{RawGuid, guarded};

/// A running session; the address is what C holds.
pub struct EtwSession(Mutex<Option<Session>>);

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
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_start(
    name: *const c_char,
    file: *const c_char,
    session: *mut *mut c_void,
) -> u32 {
    if file.is_null() {
        return Status::ERROR_INVALID_PARAMETER.0;
    }
    // SAFETY: the caller's promise.
    unsafe { etw_session_start_ex(name, file, std::ptr::null(), session) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_start_ex(
    name: *const c_char,
    file: *const c_char,
    options: *const RawOptions,
    session: *mut *mut c_void,
) -> u32 {
    guarded(|| {
        if name.is_null() || session.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let (name, options) = unsafe { (CStr::from_ptr(name), options.as_ref()) };
        let options = options.copied().unwrap_or(RawOptions { size: SIZE, ..Default::default() });
        if options.size < SIZE {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let mut builder = Session::builder(&name.to_string_lossy());
        // SAFETY: the caller's promise.
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
                let started = Box::new(EtwSession(Mutex::new(Some(started))));
                // SAFETY: the caller's promise.
                unsafe { session.write(Box::into_raw(started).cast()) };
                Status::ERROR_SUCCESS
            }
            Err(error) => error.status(),
        }
    })
}

const SIZE: u32 = size_of::<RawOptions>() as u32;

/// `None` of NULL.
///
/// # Safety
/// NULL, or a text up to its NUL.
unsafe fn path_of(path: *const c_char) -> Option<OsString> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    #[cfg(unix)]
    let path = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path.to_bytes()).to_owned();
    #[cfg(not(unix))]
    let path = OsString::from(&*path.to_string_lossy());
    Some(path)
}

/// With the session that C holds.
///
/// # Safety
/// NULL, or from `etw_session_start` and not stopped yet.
unsafe fn with(
    session: *mut c_void,
    act: impl FnOnce(&Session) -> Result<(), SessionError>,
) -> Status {
    if session.is_null() {
        return Status::ERROR_INVALID_PARAMETER;
    }
    // SAFETY: the caller's promise.
    let session = unsafe { &*session.cast::<EtwSession>() };
    let session = session.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(session) = &*session else { return Status::ERROR_WMI_INSTANCE_NOT_FOUND };
    act(session).map_or_else(|error| error.status(), |()| Status::ERROR_SUCCESS)
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_enable(
    session: *mut c_void,
    provider: *const RawGuid,
    level: u8,
    any: u64,
    all: u64,
) -> u32 {
    guarded(|| {
        if provider.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let id = unsafe { provider.read_unaligned().guid() };
        let wanted = LevelKeyword { level, any, all, ..LevelKeyword::ALL };
        let info = EnableInfo { wanted, ..EnableInfo::default() };
        // SAFETY: the caller's promise.
        unsafe { with(session, |session| session.enable_with(&id, info)) }
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_snapshot(session: *mut c_void, file: *const c_char) -> u32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        unsafe {
            let Some(path) = path_of(file) else { return Status::ERROR_INVALID_PARAMETER };
            with(session, |session| session.snapshot(path).map(|_| ()))
        }
    })
}

/// # Safety
/// As the header says.
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
                    // SAFETY: the caller's promise.
                    unsafe { to.write(count) };
                }
            }
            Ok(())
        };
        // SAFETY: the caller's promise.
        unsafe { with(session, query) }
    })
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_stop(session: *mut c_void, lost: *mut u64) -> u32 {
    guarded(|| {
        if session.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise: from `etw_session_start`, and not used any more.
        let session = unsafe { Box::from_raw(session.cast::<EtwSession>()) };
        let session = session.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(session) = session else { return Status::ERROR_WMI_INSTANCE_NOT_FOUND };
        let (statistics, result) = session.stop_with_statistics();
        if !lost.is_null() {
            // SAFETY: the caller's promise.
            unsafe { lost.write(statistics.ledger.lost_total()) };
        }
        result.map_or_else(|error| error.status(), |()| Status::ERROR_SUCCESS)
    })
}
