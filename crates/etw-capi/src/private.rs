//! `etw_session.h`: a private session of this process, in few calls: what a C program needs that records itself.

use std::ffi::{CStr, OsStr, c_char};
use std::os::raw::c_void;
use std::sync::Mutex;

use etw_api::{EnableInfo, LevelKeyword, Session, Status};

use crate::abi::{RawGuid, guarded};

/// A running session; the address is what C holds.
pub struct EtwSession(Mutex<Option<Session>>);

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_session_start(
    name: *const c_char,
    file: *const c_char,
    session: *mut *mut c_void,
) -> u32 {
    guarded(|| {
        if name.is_null() || file.is_null() || session.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let (name, file) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(file)) };
        #[cfg(unix)]
        let path = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(file.to_bytes()).to_owned();
        #[cfg(not(unix))]
        let path = OsStr::new(&*file.to_string_lossy()).to_owned();
        match Session::builder(&name.to_string_lossy()).file(path).start() {
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
        if session.is_null() || provider.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        // SAFETY: the caller's promise.
        let (session, id) =
            unsafe { (&*session.cast::<EtwSession>(), provider.read_unaligned().guid()) };
        let session = session.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(session) = &*session else { return Status::ERROR_WMI_INSTANCE_NOT_FOUND };
        let wanted = LevelKeyword { level, any, all, ..LevelKeyword::ALL };
        match session.enable_with(&id, EnableInfo { wanted, ..EnableInfo::default() }) {
            Ok(()) => Status::ERROR_SUCCESS,
            Err(error) => error.status(),
        }
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
