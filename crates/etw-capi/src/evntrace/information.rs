//! `TraceQueryInformation` and `TraceSetInformation`.

use etw_api::Status;
use etw_types::LogFileMode;

use super::guids::CLASS_COUNT;
use super::{host, sessions, system};
use crate::abi::{bytes, guarded, store};

/// `TraceStackTracingInfo`
const STACKS: u32 = 3;
/// `TraceSystemTraceEnableFlagsInfo`
const MASKS: u32 = 4;
/// `TraceSampledProfileIntervalInfo`
const SAMPLE_INTERVAL: u32 = 5;
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
        let numbers = match class {
            MAX_LOGGERS => Ok(vec![MOST_SESSIONS]),
            STREAM_COUNT => stream_count(handle).map(|count| vec![count]),
            MASKS => system::masks(handle).map(Vec::from),
            SAMPLE_INTERVAL => {
                // SAFETY: OUT: the program has set the source, with which the structure begins.
                let source = if out_size < 4 { 0 } else { unsafe { out.read_unaligned() } };
                system::interval(handle, source).map(|interval| vec![source, interval])
            }
            _ => Err(Status::ERROR_NOT_SUPPORTED),
        };
        let numbers = match numbers {
            Ok(numbers) => numbers,
            Err(status) => return status,
        };
        let size = 4 * numbers.len() as u32;
        if !needed.is_null() {
            // SAFETY: OUT.
            unsafe { store(needed, size) };
        }
        if out_size < size {
            return Status::ERROR_BAD_LENGTH;
        }
        for (at, number) in numbers.into_iter().enumerate() {
            // SAFETY: OUT: `out_size` bytes are writable.
            unsafe { store(out.add(at), number) };
        }
        Status::ERROR_SUCCESS
    })
}

/// Sets the call stacks (3), masks (4) and sample interval (5) of a session of the system's events. Other settings concern the
/// kernel of Windows: 50.
///
/// # Safety
/// BYTES `data`, `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TraceSetInformation(
    handle: u64,
    class: u32,
    data: *const u8,
    size: u32,
) -> u32 {
    guarded(|| {
        if class >= CLASS_COUNT || (data.is_null() && size > 0) {
            return Status::ERROR_INVALID_PARAMETER;
        }
        let set = match class {
            STACKS => system::set_stacks,
            MASKS => system::set_masks,
            SAMPLE_INTERVAL => system::set_interval,
            _ => return Status::ERROR_NOT_SUPPORTED,
        };
        // SAFETY: BYTES.
        let data = unsafe { bytes(data, size as usize) }.unwrap_or_default();
        set(handle, data).err().unwrap_or(Status::ERROR_SUCCESS)
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
