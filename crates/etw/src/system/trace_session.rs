//! A session of the system, as the calls of `evntrace.h` have it: `StartTraceW`, `ControlTraceW`, `EnableTraceEx2`.
//!
//! [`control`](super::control) makes of them the sessions of controllers, [`private_logger`](super::private_logger) those of this
//! process alone.

pub mod api;
pub mod enable;
pub mod properties;

use etw_types::Status;

use api::{Control, ControlTraceW, StartTraceW};
use properties::Properties;

/// Milliseconds that enablements wait for callbacks.
pub const CALLBACK_TIMEOUT: u32 = 1000;

/// A request that the system refused, or that it cannot fulfil.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: Status,
    /// The request, the reason, and what to do next.
    pub message: String,
}

impl Refusal {
    pub fn not_supported(message: impl Into<String>) -> Refusal {
        Refusal { status: Status::ERROR_NOT_SUPPORTED, message: message.into() }
    }

    /// The refusal of a call for a session.
    pub fn of_call(session: &str, doing: &str, status: Status) -> Refusal {
        let advice = match status {
            Status::ERROR_ACCESS_DENIED => {
                "run as administrator, or as a member of the group Performance Log Users"
            }
            Status::ERROR_ALREADY_EXISTS => "a session of this name runs already; stop it first",
            Status::ERROR_WMI_INSTANCE_NOT_FOUND => "no session has this name",
            Status::ERROR_NO_SYSTEM_RESOURCES => "as many sessions run as Windows allows; stop one",
            Status::ERROR_INVALID_PARAMETER => {
                "this version of Windows does not take these options"
            }
            _ => {
                let message = format!("{doing} session {session}: Windows returned {status}");
                return Refusal { status, message };
            }
        };
        Refusal { status, message: format!("{doing} session {session}: {advice}") }
    }
}

#[cfg(feature = "control")]
impl From<Refusal> for etw_wire::ClientError {
    fn from(Refusal { status, message }: Refusal) -> etw_wire::ClientError {
        etw_wire::ClientError::Refused { status: status.0, message }
    }
}

/// UTF-16 with a NUL at its end.
pub fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// How a call names its session.
pub struct Named<'a> {
    pub name: &'a str,
    /// The handle of `StartTraceW`; without one the system finds the session by its name.
    pub handle: Option<u64>,
}

impl Named<'_> {
    #[cfg(feature = "control")]
    pub fn by_name(name: &str) -> Named<'_> {
        Named { name, handle: None }
    }
}

/// `StartTraceW`: the session's handle, which the properties get, too.
///
/// # Errors
/// The system's status with advice.
pub fn start(name: &str, properties: &mut Properties) -> Result<u64, Refusal> {
    let wide_name = wide(name);
    let mut handle = 0;
    // SAFETY: a name that ends with NUL, and properties with space for both names.
    let status =
        Status(unsafe { StartTraceW(&mut handle, wide_name.as_ptr(), properties.as_mut_ptr()) });
    if !status.is_success() {
        return Err(Refusal::of_call(name, "start", status));
    }
    properties.raw.handle = handle;
    Ok(handle)
}

/// `ControlTraceW`.
///
/// # Errors
/// The system's status with advice.
pub fn control(
    session: &Named<'_>,
    code: Control,
    properties: &mut Properties,
) -> Result<(), Refusal> {
    let wide_name = wide(session.name);
    let (handle, name) = match session.handle {
        Some(handle) => (handle, std::ptr::null()),
        None => (0, wide_name.as_ptr()),
    };
    // SAFETY: no name, or one that ends with NUL, and properties with space for both names.
    let status = Status(unsafe { ControlTraceW(handle, name, properties.as_mut_ptr(), code) });
    let doing = match code {
        Control::Query => "query",
        Control::Stop => "stop",
        #[cfg(feature = "control")]
        Control::Update => "change",
        Control::Flush => "flush",
    };
    // A stopped session whose name did not fit has stopped.
    match status {
        Status::ERROR_SUCCESS | Status::ERROR_MORE_DATA => Ok(()),
        status => Err(Refusal::of_call(session.name, doing, status)),
    }
}
