//! Event Tracing for Windows, in any program on any system.
//!
//! * [`define_provider!`], [`write_event!`], [`provider_enabled!`]: events whose fields the source names. An event that no
//!   session wants costs three instructions.
//! * [`EventBuilder`]: events whose fields are known only at run time.
//! * [`EventSource`]: a provider that writes its own manifest, as those of .NET do; [`LoggingChannel`]: named channels.
//! * [`Provider`]: registration, callbacks, enable state.
//! * [`Activity`]: ids that connect events of one operation.
//! * [`evntprov`], [`evntrace`]: the calls of the Windows headers of these names.
//! * `Session` (feature `session`): records the events of this program.
//! * `Controller`, `GlobalSession` (feature `control`, Linux and Windows): record every program of the user or of the machine.
//! * `open` (feature `consumer`): reads the events of `.etl` files, decoded; `Consumer` (Linux and Windows) those of a running session.
//!
//! ```
//! use etw::{Activity, define_provider, write_event};
//!
//! define_provider!(SHOP, "MyCompany.Shop");
//!
//! // Once, at the start of the program. Dropping the registration unregisters the provider.
//! let _registration = SHOP.register();
//!
//! let sale = Activity::new();
//! let _scope = sale.enter();
//! write_event!(SHOP, "Sale", opcode(Start), related_id(sale.related_id()));
//! write_event!(SHOP, "Sold", level(Informational), keyword(0x2), str8("What", "tea"), u32("Count", &2));
//! write_event!(SHOP, "Sale", opcode(Stop));
//! ```
//!
//! The events are TraceLogging events: each carries its own schema, so any ETW decoder shows its fields. Names, GUIDs, bytes
//! and status codes are those of Windows.
//!
//! To port a program from Microsoft's crate `tracelogging`, change the crate's name, remove the `unsafe` of `register`, and
//! keep the [`Registration`] that it returns.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `stacks` (default) | call stacks in events, for sessions that ask for them |
//! | `session` | `Session`: private sessions, hosted by a thread of this program, or by Windows |
//! | `control` | `Controller`: sessions of the host of this user or of the machine (Linux), or of the system (Windows) |
//! | `consumer` | `open`: decoded events of trace files; `Consumer`: those of a running session (Linux, Windows); includes `control` |
//!
//! # Platforms
//!
//! | | Linux | Windows | macOS, BSDs |
//! |---|---|---|---|
//! | providers write to | hosts of this project, private sessions | the system's own ETW, private sessions | private sessions |
//! | `Session` with a file | this crate; survives `kill -9` | a private logger of the system; `portable()`: this crate | this crate |
//! | `Session` in memory or with a consumer | this crate | this crate | this crate |
//! | `Controller`, `GlobalSession` | a host of this project | the system's sessions (`StartTraceW`, `EnableTraceEx2`) | – |
//! | `Consumer`, `LiveStream` | a host of this project | the system's sessions (`ProcessTrace`) | – |
//! | `open` | yes | yes | yes |
//! | losses by cause | yes | sessions of this crate; of the system's the number alone | yes |
//! | filters on fields | TraceLogging and manifests | sessions of this crate: as on Linux; the system's: events of registered manifests, by id | as on Linux |
//! | call stacks | captured by the program | captured by the system | none |
//!
//! If a platform cannot do something, the call returns `ERROR_NOT_SUPPORTED` with a sentence that names it. On Windows, calls and structures are
//! tested with a recorder in place of the system's functions; delivery by a real Windows is not.
//!
//! # Limits
//!
//! An event is wanted by at most eight sessions of one provider, has at most 64 KiB with its header, and at most 128 fields. A
//! process has at most four private sessions.
//!
//! # Loss
//!
//! A write never waits. If a session has no free buffers, or the process's pool has no free chunk, the write returns a status
//! other than success, and the session's `Ledger` counts the event as lost, with its cause.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod activity;
#[cfg(target_os = "linux")]
mod attach;
mod builder;
#[cfg(all(any(target_os = "linux", windows), feature = "consumer"))]
mod consumer;
#[cfg(all(any(target_os = "linux", windows), feature = "control"))]
mod controller;
mod custom;
mod diagnose;
mod event_log_source;
mod event_source;
pub mod evntprov;
pub mod evntrace;
#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
mod fork;
#[cfg(all(any(target_os = "linux", windows), feature = "consumer"))]
mod live_item;
#[cfg(all(any(target_os = "linux", windows), feature = "consumer"))]
mod live_stream;
mod lock;
mod logging_channel;
mod macros;
mod pools;
mod provider;
mod registration;
mod registry;
#[doc(hidden)]
pub mod rt;
#[cfg(any(target_os = "linux", feature = "session"))]
mod schemas;
#[cfg(feature = "session")]
mod session;
#[cfg(any(feature = "session", all(any(target_os = "linux", windows), feature = "control")))]
mod session_options;
mod stacks;
#[cfg(windows)]
mod system;
#[cfg(any(feature = "session", feature = "control"))]
mod target;
#[cfg(feature = "consumer")]
mod trace;
mod write;

pub use activity::{
    Activity, ActivityControl, ActivityFuture, Scope, create_id, event_activity_id_control,
};
pub use builder::EventBuilder;
#[cfg(all(any(target_os = "linux", windows), feature = "consumer"))]
#[cfg_attr(docsrs, doc(cfg(all(any(target_os = "linux", windows), feature = "consumer"))))]
pub use consumer::Consumer;
#[cfg(all(any(target_os = "linux", windows), feature = "control"))]
#[cfg_attr(docsrs, doc(cfg(all(any(target_os = "linux", windows), feature = "control"))))]
pub use controller::{
    ClientError, ControlError, Controller, GlobalSession, GlobalSessionBuilder, ProviderStatus,
    SessionStatus,
};
pub use custom::Protocol;
#[cfg(feature = "consumer")]
#[cfg_attr(docsrs, doc(cfg(feature = "consumer")))]
pub use etw_decode::{Decoder, Event, FieldError, FieldValue, FromField};
#[cfg(feature = "consumer")]
#[cfg_attr(docsrs, doc(cfg(feature = "consumer")))]
pub use etw_etl::{Damage, DamageKind, DamageLog};
#[cfg(feature = "session")]
#[cfg_attr(docsrs, doc(cfg(feature = "session")))]
pub use etw_host::{PoolSize, SessionStatistics, StartError, Stopped};
#[cfg(any(feature = "session", feature = "control"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "session", feature = "control"))))]
pub use etw_session::{
    Cause, Compression, Condition, ConfigError, ConfigOption, EnableInfo, EnableProperties,
    Enablement, EventKey, FilterError, Filters, IdFilter, Ledger, LevelKeywordFilter, LogMode,
    Loss, NameFilter, PayloadFilter, PayloadOp, SessionClock, SessionConfig, StackFilter,
};
pub use etw_tracelogging::{EncodeError, InType, OutType};
pub use etw_types::LevelKeyword;
pub use etw_types::{
    Channel, EventClass, EventDescriptor, FileTime, Guid, Keyword, Level, Opcode, Status,
    SystemTime,
};
pub use event_log_source::{EventLogSource, Report, ReportType};
pub use event_source::{EventSource, EventSourceBuilder, SourceEvent, SourceType, SourceValue};
#[cfg(all(any(target_os = "linux", windows), feature = "consumer"))]
#[cfg_attr(docsrs, doc(cfg(all(any(target_os = "linux", windows), feature = "consumer"))))]
pub use live_stream::{Closer, LiveItem, LiveStream, StreamEnd, StreamError, StreamLedger};
pub use logging_channel::{LoggingActivity, LoggingChannel};
pub use provider::{ControlCode, EnableCallback, EnableChange, MAX_SESSIONS, Provider};
pub use registration::Registration;
#[cfg(feature = "session")]
#[cfg_attr(docsrs, doc(cfg(feature = "session")))]
pub use session::{MAX_PRIVATE_SESSIONS, Session, SessionBuilder, SessionError, SessionLimit};
#[cfg(any(feature = "session", feature = "control"))]
#[cfg_attr(docsrs, doc(cfg(any(feature = "session", feature = "control"))))]
pub use target::EnableTarget;
#[cfg(feature = "consumer")]
#[cfg_attr(docsrs, doc(cfg(feature = "consumer")))]
pub use trace::{PartFile, ReadError, Trace, open, open_all};
#[cfg(feature = "consumer")]
#[cfg_attr(docsrs, doc(cfg(feature = "consumer")))]
pub use {etw_etl::read::TraceFile, etw_types::EventRecord};

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
