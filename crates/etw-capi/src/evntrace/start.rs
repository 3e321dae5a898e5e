//! `StartTrace`: properties as a request to a host.

use std::time::Duration;

use etw_api::{Guid, Status};
use etw_session::{
    MAX_BUFFER_MEMORY, SETTABLE_BITS, SessionClock, SessionConfig, check_log_file_mode,
};
use etw_types::LogFileMode;

use super::properties::{Properties, TRACED_GUID};
use super::system;

/// `SystemTraceControlGuid`
const SYSTEM_TRACE: Guid = Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939);
/// `KERNEL_LOGGER_NAME`
const KERNEL_LOGGER: &str = "NT Kernel Logger";

/// Flags that have no effect here and change no promise: paged memory, hybrid shutdown, crash dumps. Every session numbers its messages.
const WITHOUT_EFFECT: LogFileMode = LogFileMode::USE_PAGED_MEMORY
    .union(LogFileMode::STOP_ON_HYBRID_SHUTDOWN)
    .union(LogFileMode::PERSIST_ON_HYBRID_SHUTDOWN)
    .union(LogFileMode::ADDTO_TRIAGE_DUMP)
    .union(LogFileMode::USE_LOCAL_SEQUENCE);
/// Flags that a host supports.
const SUPPORTED: LogFileMode = SETTABLE_BITS
    .union(LogFileMode::USE_MS_FLUSH_TIMER)
    .union(LogFileMode::USE_KBYTES_FOR_SIZE)
    .union(PRIVATE)
    .union(LogFileMode::SYSTEM_LOGGER)
    .union(WITHOUT_EFFECT);
/// Flags that Windows supports and a host does not.
const WINDOWS_ONLY: LogFileMode = LogFileMode::NONSTOPPABLE
    .union(LogFileMode::DELAY_OPEN_FILE)
    .union(LogFileMode::ADD_HEADER)
    .union(LogFileMode::USE_GLOBAL_SEQUENCE)
    .union(LogFileMode::RELOG)
    .union(LogFileMode::BLOCKING);
/// Flags that only a global session can have.
const GLOBAL_ONLY: LogFileMode = LogFileMode::SECURE.union(LogFileMode::INDEPENDENT_SESSION);
/// Either flag asks for a private session.
pub const PRIVATE: LogFileMode = LogFileMode::PRIVATE_LOGGER.union(LogFileMode::PRIVATE_IN_PROC);

/// KiB of a buffer by default.
const BUFFER_SIZE: u32 = 64;
const MAX_BUFFER_SIZE: u32 = 16 << 10;
/// The flush timer that a real-time session reports when it sets none.
const REAL_TIME_TIMER: Duration = Duration::from_secs(1);

/// # Errors
/// 87, 24, 161: as `StartTrace` documents them. 50: what a session here cannot be.
pub fn config_of(name: &str, properties: &Properties) -> Result<SessionConfig, Status> {
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
    if !mode.without(SUPPORTED | WINDOWS_ONLY | LogFileMode::RESERVED).is_empty() {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    check_log_file_mode(mode, file.is_some(), raw.maximum_file_size)
        .map_err(|error| error.status())?;
    if mode.intersects(WINDOWS_ONLY) {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    let is_system = is_kernel || mode.contains(LogFileMode::SYSTEM_LOGGER);
    if is_system && mode.intersects(PRIVATE) {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    if mode.intersects(PRIVATE) {
        if !mode.contains(LogFileMode::PRIVATE_LOGGER) {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        if mode.intersects(GLOBAL_ONLY) {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        if mode.contains(LogFileMode::BUFFERING) && file.is_some() {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
    }
    let clock = SessionClock::of_number(raw.clock).map_err(|error| error.status())?;
    let has = |flag: LogFileMode| mode.contains(flag);
    let buffer_size = match raw.buffer_size {
        0 => BUFFER_SIZE,
        // As on Windows, a larger size is reduced to the limit; the properties then have the limit.
        size => size.min(MAX_BUFFER_SIZE),
    } << 10;
    let unit = if has(LogFileMode::USE_KBYTES_FOR_SIZE) { 10 } else { 20 };
    let max_size = u64::from(raw.maximum_file_size) << unit;
    let unit = if has(LogFileMode::USE_MS_FLUSH_TIMER) { 1 } else { 1000 };
    let flush_timer = match raw.flush_timer.saturating_mul(unit) {
        0 => has(LogFileMode::REAL_TIME).then_some(REAL_TIME_TIMER),
        ms => Some(Duration::from_millis(ms.into())),
    };
    let mut config = SessionConfig {
        name: name.to_owned(),
        guid,
        file,
        buffer_size,
        buffer_count: buffers(
            (raw.minimum_buffers, raw.maximum_buffers),
            buffer_size,
            has(LogFileMode::NO_PER_PROCESSOR_BUFFERING),
        ),
        flush_timer,
        clock,
        ..SessionConfig::default()
    };
    let max_size = (max_size > 0).then_some(max_size);
    config.set_log_file_mode(mode, max_size).map_err(|error| error.status())?;
    if raw.clock == 0 {
        config.clock = SessionClock::default_of(config.mode);
    }
    if is_system {
        config.system = Some(system::config_of(raw.enable_flags)?);
    }
    Ok(config)
}

/// At least two for each processor, and by default twenty more. A session's buffers are all there from its start, so the maximum counts.
fn buffers((minimum, maximum): (u32, u32), size: u32, is_one_stream: bool) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let least = minimum.max(if is_one_stream { 2 } else { 2 * cpus });
    if maximum > 0 {
        return maximum.max(least);
    }
    // Settings that the caller left out are not an error.
    let fit = (MAX_BUFFER_MEMORY / u64::from(size)) as u32;
    least.max(least.saturating_add(20).min(fit))
}
