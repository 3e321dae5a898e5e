//! Classic providers, with the calls of `evntrace.h`: events of classes whose schemas lie elsewhere (MOF), and messages whose texts
//! do (WPP).
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
//! let registration = register_trace_guids(&Guid::from_u128(1), TraceClasses::default(), callback).unwrap();
//! assert_eq!(unregister_trace_guids(registration.handle), Status::ERROR_SUCCESS);
//! ```
//!
//! A classic provider has one session: the one that enabled it last. If another session takes the provider, the first one gets it
//! back only by enabling it again. The provider's callback gets a [`LoggerHandle`], which every event names. The provider itself
//! decides what level and flags mean; nothing is filtered by them.
//!
//! A write tests in this order, and returns the first status that applies:
//!
//! | status | if |
//! |---|---|
//! | `ERROR_INVALID_HANDLE` | the handle's session no longer has the provider |
//! | `ERROR_INVALID_PARAMETER` | a class handle names no class |
//! | `ERROR_ACCESS_DENIED` | the class is one of the system's own events |
//! | `ERROR_MORE_DATA` | the event is larger than 64 KiB or than a session's buffer |
//! | `ERROR_NOT_ENOUGH_MEMORY` | the session has no free buffer |
//!
//! A write takes no lock and allocates nothing, so signal handlers may write.

mod class;
mod handle;
mod registration;
mod write;

pub use class::{ClassHandle, MAX_CLASSES, TraceClasses, create_trace_instance_id};
pub use etw_types::{MessageFlags, MessageId};
pub use handle::{LoggerHandle, MAX_REGISTRATIONS, TraceHandle};
pub use registration::{
    ClassicRegistration, ControlCallback, ControlRequest, RequestCode, TraceEnable, enable_info,
    is_enabled, register_trace_guids, unregister_trace_guids,
};
pub use write::{
    trace_event, trace_event_instance, trace_message, trace_message_filled,
    try_trace_message_inline,
};
