//! The calls of `evntprov.h`, for programs that build their events by hand: with the same parameters and statuses.
//!
//! ```
//! use etw::evntprov::*;
//! use etw::{EventDescriptor, Guid, Level, Status};
//!
//! let handle = event_register(&Guid::from_u128(99), None).unwrap();
//! let descriptor = EventDescriptor { id: 7, level: Level::INFO, ..EventDescriptor::default() };
//! // No session wants the event: success at once.
//! let status = event_write(handle, Some(&descriptor), &[EventDataDescriptor::new(b"payload")]);
//! assert_eq!(status, Status::ERROR_SUCCESS);
//! assert_eq!(event_unregister(handle), Status::ERROR_SUCCESS);
//! assert_eq!(event_write(handle, Some(&descriptor), &[]), Status::ERROR_INVALID_HANDLE);
//! ```
//!
//! A write tests in this order, and returns the first status that applies:
//!
//! | status | if |
//! |---|---|
//! | `ERROR_INVALID_PARAMETER` | there is no descriptor |
//! | `ERROR_INVALID_HANDLE` | the handle names no registration |
//! | `ERROR_SUCCESS` | no session wants the event |
//! | `ERROR_INVALID_PARAMETER` | there are more than 128 data descriptors, or one has an unknown type |
//! | `ERROR_ARITHMETIC_OVERFLOW` | the event is larger than 64 KiB |
//! | `ERROR_MORE_DATA` | the event is larger than a session's buffer |
//! | `ERROR_NOT_ENOUGH_MEMORY` | a session has no free buffer |

mod current;
mod data;
mod handle;
mod write;

#[doc(hidden)]
pub use crate::provider::ProgramGate;
#[doc(hidden)]
pub use current::CurrentProvider;
pub use data::{EventDataDescriptor, MAX_DATA_DESCRIPTORS};
pub use handle::{
    EventInfoClass, MAX_REGISTRATIONS, NewRegistration, RegHandle, event_enabled, event_gate,
    event_provider_enabled, event_register, event_register_new, event_set_information,
    event_unregister, provider_of_handle,
};
pub use write::{
    SiteOptions, WriteOptions, etw_event_write_full, event_write, event_write_ex,
    event_write_site_ex, event_write_string, event_write_transfer, event_write_units,
};
