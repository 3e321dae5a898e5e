//! Enable callbacks, and the changes that they report.

use std::sync::Arc;

use etw_types::{Guid, Keyword, Level};

/// What an enable callback is.
#[doc(alias = "PENABLECALLBACK")]
pub type EnableCallback = dyn Fn(&EnableChange<'_>) + Send + Sync;

#[derive(Clone)]
pub(super) struct Callback(pub(super) Arc<EnableCallback>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("callback")
    }
}

/// What changed, as an enable callback is told.
#[doc(alias = "PENABLECALLBACK")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnableChange<'a> {
    /// What happened.
    pub control: ControlCode,
    /// For `Enable`: the most verbose level of all sessions (255: all). For `CaptureState`: as requested.
    pub level: Level,
    /// For `Enable`: the masks of all sessions together, all ones for "every keyword".
    pub any: Keyword,
    /// For `Enable`: the bits that every session wants.
    pub all: Keyword,
    /// The session that caused it, or zero where the provider was enabled before it registered.
    pub source: Guid,
    /// The session's schematised filter, empty without one.
    pub filter_data: &'a [u8],
}

/// Why an enable callback is called.
#[doc(alias = "EVENT_CONTROL_CODE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ControlCode {
    /// The last session is gone.
    Disable = 0,
    /// A session was added or changed, or one of several has gone.
    Enable = 1,
    /// A session asks for the state that its later events build on: answer with rundown events.
    CaptureState = 2,
}
