//! `StartTrace`: properties as what a host is asked for.

use etw_api::{Guid, Status};
use etw_session::log_file_mode as bits;
use etw_wire::control::{FileMode, Start};

use super::properties::{Properties, TRACED_GUID};

/// `SystemTraceControlGuid`
const SYSTEM_TRACE: Guid = Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939);
/// `KERNEL_LOGGER_NAME`
const KERNEL_LOGGER: &str = "NT Kernel Logger";

const SECURE: u32 = 0x0000_0080;
/// What has no meaning here and is no promise either: pages of memory, hybrid shutdown, crash dumps. Messages are numbered in every session.
const WITHOUT_EFFECT: u32 =
    0x0100_0000 | 0x0040_0000 | 0x0080_0000 | 0x8000_0000 | bits::USE_LOCAL_SEQUENCE;
/// What a host knows.
const KNOWN: u32 = bits::SEQUENTIAL
    | bits::CIRCULAR
    | bits::APPEND
    | bits::NEWFILE
    | bits::USE_MS_FLUSH_TIMER
    | bits::PREALLOCATE
    | SECURE
    | bits::REAL_TIME
    | bits::BUFFERING
    | PRIVATE
    | bits::USE_KBYTES_FOR_SIZE
    | bits::COMPRESSED
    | bits::INDEPENDENT_SESSION
    | bits::NO_PER_PROCESSOR_BUFFERING
    | WITHOUT_EFFECT;
/// What Windows knows besides: not stoppable, file opened late, header added, messages numbered over all sessions, relogged, system's events,
/// blocking.
const ELSEWHERE: u32 = 0x0000_0040
    | 0x0000_0200
    | 0x0000_1000
    | bits::USE_GLOBAL_SEQUENCE
    | bits::RELOG
    | 0x0200_0000
    | 0x2000_0000;
/// What only a host's sessions can be.
const GLOBAL_ONLY: u32 = SECURE | bits::INDEPENDENT_SESSION;
/// A session of this process.
pub const PRIVATE: u32 = bits::PRIVATE_LOGGER | bits::PRIVATE_IN_PROC;

/// KiB of a buffer where none are asked for.
const BUFFER_SIZE: u32 = 64;
const MAX_BUFFER_SIZE: u32 = 16 << 10;
/// Bytes of all buffers that a session may have.
const MAX_BUFFERS_SIZE: u64 = 2 << 30;
/// Seconds after which the last events of a real-time session are shown.
const REAL_TIME_TIMER_MS: u32 = 1000;

/// # Errors
/// 87, 24, 161: as `StartTrace` documents them. 50: what a session here cannot be.
pub fn start_of(name: &str, properties: &Properties) -> Result<Start, Status> {
    let raw = &properties.raw;
    if name.is_empty() || raw.flags & TRACED_GUID == 0 {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    if !properties.has_room_for(name) {
        return Err(Status::ERROR_BAD_LENGTH);
    }
    let guid = raw.guid.guid();
    let is_kernel = name.eq_ignore_ascii_case(KERNEL_LOGGER);
    if guid == SYSTEM_TRACE && !is_kernel {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let mode = raw.mode;
    let file = properties.file()?;
    if mode & !(KNOWN | ELSEWHERE | 0x0010_0000) != 0 {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    bits::check(mode, file.is_some(), raw.maximum_file_size).map_err(|error| error.status())?;
    if is_kernel || mode & ELSEWHERE != 0 {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    if mode & PRIVATE != 0 {
        if mode & bits::PRIVATE_LOGGER == 0 {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        if mode & GLOBAL_ONLY != 0 {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        if mode & bits::BUFFERING != 0 && file.is_some() {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
    }
    if raw.buffer_size > MAX_BUFFER_SIZE || raw.clock > 3 {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let has = |bit: u32| mode & bit != 0;
    let buffer_size = if raw.buffer_size == 0 { BUFFER_SIZE } else { raw.buffer_size } << 10;
    let unit = if has(bits::USE_KBYTES_FOR_SIZE) { 10 } else { 20 };
    let max_size = u64::from(raw.maximum_file_size) << unit;
    let timer = if has(bits::USE_MS_FLUSH_TIMER) { 1 } else { 1000 };
    let timer = match raw.flush_timer.saturating_mul(timer) {
        0 if has(bits::REAL_TIME) => Some(REAL_TIME_TIMER_MS),
        0 => None,
        timer => Some(timer),
    };
    Ok(Start {
        name: name.to_owned(),
        guid,
        mode: match () {
            () if has(bits::CIRCULAR) => FileMode::Circular,
            () if has(bits::NEWFILE) => FileMode::NewFile,
            () if has(bits::APPEND) => FileMode::Append,
            () => FileMode::Sequential,
        },
        // Of a session without a file it says nothing.
        max_size: (max_size > 0 && file.is_some()).then_some(max_size),
        file,
        preallocate: has(bits::PREALLOCATE),
        compressed: has(bits::COMPRESSED),
        real_time: has(bits::REAL_TIME),
        buffering: has(bits::BUFFERING),
        buffer_size,
        buffers: buffers(
            (raw.minimum_buffers, raw.maximum_buffers),
            buffer_size,
            has(bits::NO_PER_PROCESSOR_BUFFERING),
        ),
        flush_timer_ms: timer,
        clock: raw.clock.max(1),
        no_per_processor: has(bits::NO_PER_PROCESSOR_BUFFERING),
        independent: has(bits::INDEPENDENT_SESSION),
        secure: has(SECURE),
        ..Start::default()
    })
}

/// At least two for each processor, and by default twenty more. A session's buffers are all there from its start, so the maximum counts.
fn buffers((minimum, maximum): (u32, u32), size: u32, is_one_stream: bool) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let least = minimum.max(if is_one_stream { 2 } else { 2 * cpus });
    if maximum > 0 {
        return maximum.max(least);
    }
    // What was not asked for is no reason to refuse.
    let fit = (MAX_BUFFERS_SIZE / u64::from(size)) as u32;
    least.max(least.saturating_add(20).min(fit))
}
