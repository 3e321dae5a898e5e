//! The system's own events: what a kernel session records beyond the first word of flags.

use etw_session::SystemConfig;
use etw_types::{Hook, Status};
use etw_wire::ClientError;

use super::api::{ClassicEventId, ProfileInterval, SessionInformation, set_information};
use super::refused;

/// Checks what the system cannot do at all.
///
/// # Errors
/// A process is selected.
pub fn check(system: &SystemConfig) -> Result<(), ClientError> {
    match system.process {
        None => Ok(()),
        Some(_) => Err(refused(
            Status::ERROR_NOT_SUPPORTED,
            "Windows records the system's events of all processes; select those of one with --where pid == N when you read",
        )),
    }
}

/// Sets the group masks, the events with call stacks, and the time between samples of a running session.
///
/// # Errors
/// The system's status; a call stack of an event whose class is unknown.
pub fn apply(handle: u64, system: &SystemConfig) -> Result<(), ClientError> {
    let result = |status: Status, what: &str| match status.is_success() {
        true => Ok(()),
        false => Err(refused(status, format!("Windows did not take the {what} ({status})"))),
    };
    if system.masks[1..].iter().any(|mask| *mask != 0) {
        let status = set_information(handle, SessionInformation::SystemFlags, &system.masks);
        result(status, "classes of system events")?;
    }
    let events: Option<Vec<ClassicEventId>> = system
        .stacks
        .iter()
        .map(|hook| {
            let hook = Hook(*hook);
            let (class, kind) = (hook.class_guid()?, hook.kind());
            Some(ClassicEventId { class, kind, reserved: [0; 7] })
        })
        .collect();
    let unknown =
        || refused(Status::ERROR_INVALID_PARAMETER, "call stacks of an event of unknown class");
    let events = events.ok_or_else(unknown)?;
    if !events.is_empty() {
        let status = set_information(handle, SessionInformation::StackTracing, &events);
        result(status, "events with call stacks")?;
    }
    if system.sample_interval != 0 {
        let interval = [ProfileInterval { source: 0, interval: system.sample_interval }];
        let status = set_information(0, SessionInformation::SampleInterval, &interval);
        result(status, "time between samples")?;
    }
    Ok(())
}
