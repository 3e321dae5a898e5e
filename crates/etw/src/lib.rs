//! Event Tracing for Windows for any program.
//!
//! * [`define_provider!`], [`write_event!`], [`provider_enabled!`]: events whose shape is known, which cost three
//!   instructions while nobody wants them;
//! * [`EventBuilder`]: events whose shape is known only at run time;
//! * [`Provider`]: registration, callbacks, what is enabled;
//! * [`Activity`]: ids that tie events together;
//! * `Session`, with feature `session`: records what this program writes;
//! * `Controller` and `GlobalSession`, with feature `control` (Linux): record every program of the user or the machine;
//! * `Consumer`, with feature `consumer` (Linux): events of a real-time session as they come; crate `etw-decode` decodes them.
//!
//! ```
//! use etw::{Activity, define_provider, write_event};
//!
//! define_provider!(SHOP, "MyCompany.Shop");
//!
//! // Once, at the start of the program; dropping it unregisters.
//! let _registration = SHOP.register();
//!
//! let sale = Activity::new();
//! let _scope = sale.enter();
//! write_event!(SHOP, "Sale", opcode(Start), related_id(sale.related_id()));
//! write_event!(SHOP, "Sold", level(Informational), keyword(0x2), str8("What", "tea"), u32("Count", &2));
//! write_event!(SHOP, "Sale", opcode(Stop));
//! ```
//!
//! The events are TraceLogging: each carries its own description, so that any ETW decoder shows it. Names, GUIDs, bytes
//! and status codes are those of Windows.
//!
//! Programs that come from Microsoft's crate `tracelogging` change its name, drop the `unsafe` of `register`, and keep the
//! [`Registration`] that it returns.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_op_in_unsafe_fn)]

mod activity;
#[cfg(target_os = "linux")]
mod attach;
mod builder;
#[cfg(all(target_os = "linux", feature = "consumer"))]
mod consumer;
#[cfg(all(target_os = "linux", feature = "control"))]
mod control;
mod custom;
pub mod evntprov;
pub mod evntrace;
#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
mod fork;
mod lock;
mod macros;
mod pools;
mod provider;
mod registration;
mod registry;
#[doc(hidden)]
pub mod rt;
#[cfg(feature = "session")]
mod session;
mod stacks;
#[cfg(any(feature = "session", feature = "control"))]
mod target;
mod write;

pub use activity::{
    Activity, ActivityControl, ActivityFuture, Scope, create_id, event_activity_id_control,
};
pub use builder::EventBuilder;
#[cfg(all(target_os = "linux", feature = "consumer"))]
pub use consumer::{Closer, Consumer, Lost, Missed};
#[cfg(all(target_os = "linux", feature = "control"))]
pub use control::{
    ControlError, Controller, GlobalSession, GlobalSessionBuilder, LossStatus, ProviderStatus,
    SessionStatus,
};
pub use custom::Protocol;
#[cfg(feature = "session")]
pub use etw_host::{SessionClock, SessionStatistics, StartError};
#[cfg(any(feature = "session", feature = "control"))]
pub use etw_session::{
    Cause, Condition, EnableInfo, EnableProperties, EventKey, FilterError, Filters, IdFilter,
    Ledger, LevelKeywordFilter, NameFilter, PayloadFilter, PayloadOp, StackFilter,
};
pub use etw_tracelogging::{EncodeError, InType, OutType};
pub use etw_types::LevelKeyword;
pub use etw_types::{
    Channel, EventClass, EventDescriptor, FileTime, Guid, Keyword, Level, Opcode, Status,
    SystemTime,
};
pub use provider::{ControlCode, EnableCallback, EnableChange, MAX_SESSIONS, Provider};
pub use registration::Registration;
#[cfg(feature = "session")]
pub use session::{MAX_PRIVATE_SESSIONS, Session, SessionBuilder, SessionError};
#[cfg(any(feature = "session", feature = "control"))]
pub use target::EnableTarget;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
