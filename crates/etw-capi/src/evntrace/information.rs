//! `TraceQueryInformation` and `TraceSetInformation`.

use etw_api::Status;
use etw_types::LogFileMode;

use super::guids::CLASS_COUNT;
use super::{host, sessions};
use crate::abi::{guarded, store};

const MAX_LOGGERS: u32 = 19;
const STREAM_COUNT: u32 = 23;
/// The limit of global sessions.
const MOST_SESSIONS: u32 = 64;

/// # Safety
/// OUT `out`, `out_size`; OUT `needed`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceQueryInformation(
    handle: u64,
    class: u32,
    out: *mut u32,
    out_size: u32,
    needed: *mut u32,
) -> u32 {
    guarded(|| {
        if class >= CLASS_COUNT || out.is_null() {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let number = match class {
            MAX_LOGGERS => MOST_SESSIONS,
            STREAM_COUNT => match stream_count(handle) {
                Ok(count) => count,
                Err(status) => return status,
            },
            _ => return Status::ERROR_NOT_SUPPORTED,
        };
        if !needed.is_null() {
            // SAFETY: OUT.
            unsafe { store(needed, 4) };
        }
        if out_size < 4 {
            return Status::ERROR_BAD_LENGTH;
        }
        // SAFETY: OUT.
        unsafe { store(out, number) };
        Status::ERROR_SUCCESS
    })
}

/// Returns 50: all settings concern the Windows kernel (stacks, counters, sampling) or are unknown to the daemon.
///
/// # Safety
/// No clause: `data` is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceSetInformation(
    _handle: u64,
    class: u32,
    data: *const u8,
    size: u32,
) -> u32 {
    guarded(|| {
        if class >= CLASS_COUNT || (data.is_null() && size > 0) {
            return Status::ERROR_INVALID_PARAMETER;
        }
        Status::ERROR_NOT_SUPPORTED
    })
}

/// The number of buffer streams: one for each CPU, or one for the session.
fn stream_count(handle: u64) -> Result<u32, Status> {
    if handle == 0 {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let session = sessions::by_handle(&host::connect()?, handle)?;
    if session.mode.contains(LogFileMode::NO_PER_PROCESSOR_BUFFERING) {
        return Ok(1);
    }
    Ok(std::thread::available_parallelism().map_or(1, |count| count.get() as u32))
}
