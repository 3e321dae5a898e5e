//! Event Tracing for Windows for any program.
//!
//! (full text comes with the macros)
#![deny(unsafe_op_in_unsafe_fn)]

mod activity;
mod builder;
mod custom;
mod macros;
mod provider;
mod registry;
#[doc(hidden)]
pub mod rt;
#[cfg(feature = "session")]
mod session;
mod write;

pub use activity::{
    Activity, ActivityControl, ActivityFuture, Scope, create_id, event_activity_id_control,
};
pub use builder::EventBuilder;
pub use custom::Protocol;
#[cfg(feature = "session")]
pub use etw_host::{
    Cause, EnableInfo, EnableProperties, Filters, IdFilter, Ledger, NameFilter, SessionClock,
    SessionStatistics, StartError,
};
pub use etw_tracelogging::{EncodeError, InType, OutType};
pub use etw_types::LevelKeyword;
pub use etw_types::{
    Channel, EventDescriptor, FileTime, Guid, Keyword, Level, Opcode, Status, SystemTime,
};
pub use provider::{
    ControlCode, EnableCallback, EnableChange, MAX_SESSIONS, Provider, Registration,
};
#[cfg(feature = "session")]
pub use session::{EnableTarget, MAX_PRIVATE_SESSIONS, Session, SessionBuilder, SessionError};
