//! Classic providers, with the calls of `evntrace.h`: events of classes that are described elsewhere (MOF), and messages whose texts are
//! (WPP).
//!
//! ```
//! use std::sync::Arc;
//! use etw::evntrace::*;
//! use etw::{EventClass, Guid, Status};
//!
//! let class = Guid::from_u128(2);
//! let callback = Arc::new(move |request: &ControlRequest| {
//!     if request.code == RequestCode::EnableEvents {
//!         let class = EventClass { guid: class, kind: 1, ..EventClass::default() };
//!         trace_event(request.logger, class, None, &[b"payload"]);
//!     }
//!     Status::ERROR_SUCCESS
//! });
//! let (handle, _) = register_trace_guids(&Guid::from_u128(1), TraceClasses::default(), callback).unwrap();
//! assert_eq!(unregister_trace_guids(handle), Status::ERROR_SUCCESS);
//! ```
//!
//! A classic provider has one session: the one that was last to enable it. A session that another took the provider from gets it back only by
//! enabling it again. The provider is told by its callback, with a [`LoggerHandle`] that every event names; what the session's level and
//! flags mean is the provider's own affair, nothing is filtered by them.
//!
//! Statuses of events, in the order in which they are found: `ERROR_INVALID_HANDLE` for a handle whose session no longer has the provider;
//! `ERROR_INVALID_PARAMETER` for the handle of a class that is none; `ERROR_ACCESS_DENIED` for a class of the system's own events;
//! `ERROR_MORE_DATA` above 64 KiB or a session's buffer;
//! `ERROR_NOT_ENOUGH_MEMORY` where the session has no room. Writing neither locks nor allocates, and may be done in a signal handler.

mod class;
mod handle;
mod registration;
mod write;

pub use class::{ClassHandle, MAX_CLASSES, TraceClasses, create_trace_instance_id};
pub use etw_types::{MessageFlags, MessageId};
pub use handle::{LoggerHandle, MAX_REGISTRATIONS, TraceHandle};
pub use registration::{
    ControlCallback, ControlRequest, RequestCode, TraceEnable, enable_info, is_enabled,
    register_trace_guids, unregister_trace_guids,
};
pub use write::{trace_event, trace_event_instance, trace_message};
