//! Event Tracing for Windows for any program.
//!
//! (full text comes with the macros)
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(test)]
extern crate self as etw;

mod activity;
mod builder;
mod custom;
mod macros;
mod provider;
mod registry;
#[doc(hidden)]
pub mod rt;
mod write;

pub use activity::{
    Activity, ActivityControl, ActivityFuture, Scope, create_id, event_activity_id_control,
};
pub use builder::EventBuilder;
pub use custom::Protocol;
pub use etw_tracelogging::{EncodeError, InType, OutType};
pub use etw_types::{
    Channel, EventDescriptor, FileTime, Guid, Keyword, Level, Opcode, Status, SystemTime,
};
pub use provider::{
    ControlCode, EnableCallback, EnableChange, MAX_SESSIONS, Provider, Registration,
};

#[cfg(test)]
mod support;
#[cfg(test)]
mod tests;
