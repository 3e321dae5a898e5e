//! Enable callbacks, and the changes that they get.

use std::sync::Arc;

use etw_types::{Guid, Keyword, Level};

/// A callback that a provider gets changes of its enable state with.
#[doc(alias = "PENABLECALLBACK")]
pub type EnableCallback = dyn Fn(&EnableChange<'_>) + Send + Sync;

#[derive(Clone)]
pub(super) struct Callback(pub(super) Arc<EnableCallback>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("callback")
    }
}

/// A change of a provider's enable state, as a callback gets it.
#[doc(alias = "PENABLECALLBACK")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnableChange<'a> {
    /// The kind of change.
    pub control: ControlCode,
    /// For `Enable`: the most verbose level of all sessions (255: all). For `CaptureState`: as requested.
    pub level: Level,
    /// For `Enable`: the keywords that any session wants; all bits for "every keyword".
    pub any: Keyword,
    /// For `Enable`: the bits that every session requires.
    pub all: Keyword,
    /// The session that caused the change; zero if a session had enabled the provider before it registered.
    pub source: Guid,
    /// The session's schematised filter; empty without one.
    pub filter_data: &'a [u8],
}

/// Why an enable callback is called.
#[doc(alias = "EVENT_CONTROL_CODE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ControlCode {
    /// The last session disabled the provider.
    Disable = 0,
    /// A session enabled the provider or changed its enablement, or one of several disabled it.
    Enable = 1,
    /// A session asks for the provider's state, on which its later events build: answer with rundown events.
    CaptureState = 2,
}
