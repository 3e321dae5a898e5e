//! Sessions of the system's events: flags, call stacks and sample intervals.

use std::sync::atomic::{AtomicU32, Ordering};

use etw_api::{Guid, Status};
use etw_session::SystemConfig;
use etw_system::SAMPLE_INTERVAL;
use etw_system::flags::{Masks, Parsed};
use etw_system::stack_names::STACK_NAMES;
use etw_types::{Hook, le};
use etw_wire::requests::{Request, SessionStatus};

use super::{host, sessions};

/// `CLASSIC_EVENT_ID`: class, type, reserved bytes.
const EVENT_ID_SIZE: usize = 24;
/// `TRACE_PROFILE_INTERVAL`: source, interval.
const INTERVAL_SIZE: usize = 8;
/// The sample interval of sessions that start from now on, in 100 ns.
static INTERVAL: AtomicU32 = AtomicU32::new(SAMPLE_INTERVAL);
/// The shortest and the longest sample interval.
const INTERVALS: std::ops::RangeInclusive<u32> = 500..=10_000_000;
/// `TRACE_PROFILE_INTERVAL.Source` of the timer.
const TIMER: u32 = 0;

/// The events that a session records for `EnableFlags`.
///
/// # Errors
/// 50: none of the flags has events on Linux.
pub fn config_of(enable_flags: u32) -> Result<SystemConfig, Status> {
    let parsed = Parsed::of_enable_flags(enable_flags);
    if parsed.is_all_dropped() {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    Ok(SystemConfig {
        masks: parsed.masks.0,
        sample_interval: INTERVAL.load(Ordering::Relaxed),
        ..SystemConfig::default()
    })
}

/// The session of a handle, and what it records of the system.
fn system_of(handle: u64) -> Result<(SessionStatus, SystemConfig), Status> {
    if handle == 0 {
        return Err(Status::ERROR_INVALID_PARAMETER);
    }
    let session =
        sessions::by_handle(&host::connect()?, handle).map_err(|status| match status {
            Status::ERROR_WMI_INSTANCE_NOT_FOUND => Status::ERROR_INVALID_PARAMETER,
            other => other,
        })?;
    let system = session.system.clone().ok_or(Status::ERROR_NOT_SUPPORTED)?;
    Ok((session, system))
}

fn change(session: SessionStatus, system: SystemConfig) -> Result<(), Status> {
    let request = Request::System { session: session.name, system };
    host::ask(&host::connect()?, &request).map(drop)
}

/// `TraceStackTracingInfo`: the events that have call stacks from now on.
pub fn set_stacks(handle: u64, data: &[u8]) -> Result<(), Status> {
    if !data.len().is_multiple_of(EVENT_ID_SIZE) {
        return Err(Status::ERROR_BAD_LENGTH);
    }
    let (session, mut system) = system_of(handle)?;
    let mut stacks = Vec::new();
    for id in data.chunks_exact(EVENT_ID_SIZE) {
        let class = Guid::read(id, 0).ok_or(Status::ERROR_INVALID_PARAMETER)?;
        let hook = Hook::of_class(class, id[16]).ok_or(Status::ERROR_INVALID_PARAMETER)?;
        let is_recorded = STACK_NAMES.iter().any(|row| row.hook == hook.0);
        if is_recorded && !stacks.contains(&hook.0) {
            stacks.push(hook.0);
        }
    }
    if stacks.is_empty() && !data.is_empty() {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    system.stacks = stacks;
    change(session, system)
}

/// `TraceSystemTraceEnableFlagsInfo`: the words of group masks.
pub fn set_masks(handle: u64, data: &[u8]) -> Result<(), Status> {
    let mut masks = Masks::default();
    if data.is_empty() || !data.len().is_multiple_of(4) || data.len() > 4 * masks.0.len() {
        return Err(Status::ERROR_BAD_LENGTH);
    }
    for (word, bytes) in masks.0.iter_mut().zip(data.chunks_exact(4)) {
        *word = le::u32(bytes, 0).unwrap_or(0);
    }
    let (session, mut system) = system_of(handle)?;
    let parsed = Parsed::of_masks(masks);
    if parsed.is_all_dropped() {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    system.masks = parsed.masks.0;
    change(session, system)
}

/// The words of group masks of a session.
pub fn masks(handle: u64) -> Result<[u32; 8], Status> {
    system_of(handle).map(|(_, system)| system.masks)
}

/// `TraceSampledProfileIntervalInfo`: the time between two samples, of a session or of those that start from now on.
pub fn set_interval(handle: u64, data: &[u8]) -> Result<(), Status> {
    let fields = (le::u32(data, 0), le::u32(data, 4));
    let (Some(source), Some(interval), INTERVAL_SIZE) = (fields.0, fields.1, data.len()) else {
        return Err(Status::ERROR_BAD_LENGTH);
    };
    if source != TIMER {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    let interval = interval.clamp(*INTERVALS.start(), *INTERVALS.end());
    if handle == 0 {
        INTERVAL.store(interval, Ordering::Relaxed);
        return Ok(());
    }
    let (session, mut system) = system_of(handle)?;
    system.sample_interval = interval;
    change(session, system)
}

/// The time between two samples of a source.
///
/// # Errors
/// 50: the source is not the timer.
pub fn interval(handle: u64, source: u32) -> Result<u32, Status> {
    if source != TIMER {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    match handle {
        0 => Ok(INTERVAL.load(Ordering::Relaxed)),
        _ => system_of(handle).map(|(_, system)| system.sample_interval),
    }
}
