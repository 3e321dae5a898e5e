//! The write calls of `evntprov.h`, for programs that build their events by hand: same parameters, same statuses.
//!
//! ```
//! use etw::evntprov::*;
//! use etw::{EventDescriptor, Guid, Level, Status};
//!
//! let handle = event_register(&Guid::from_u128(99), None).unwrap();
//! let descriptor = EventDescriptor { id: 7, level: Level::INFO, ..EventDescriptor::default() };
//! // Nobody listens: success at once.
//! let status = event_write(handle, Some(&descriptor), &[EventDataDescriptor::new(b"payload")]);
//! assert_eq!(status, Status::ERROR_SUCCESS);
//! assert_eq!(event_unregister(handle), Status::ERROR_SUCCESS);
//! assert_eq!(event_write(handle, Some(&descriptor), &[]), Status::ERROR_INVALID_HANDLE);
//! ```
//!
//! Statuses, in the order in which they are found: `ERROR_INVALID_PARAMETER` without a descriptor; `ERROR_INVALID_HANDLE`;
//! success when no session wants the event; `ERROR_INVALID_PARAMETER` for more than 128 data descriptors, or a type that is
//! none; `ERROR_ARITHMETIC_OVERFLOW` above 64 KiB, `ERROR_MORE_DATA` above a session's buffer, `ERROR_NOT_ENOUGH_MEMORY`
//! where a session has no room.

mod data;
mod handle;
mod write;

pub use data::{EventDataDescriptor, MAX_DATA_DESCRIPTORS};
pub use handle::{
    EventInfoClass, MAX_REGISTRATIONS, RegHandle, event_enabled, event_gate,
    event_provider_enabled, event_register, event_set_information, event_unregister,
    provider_of_handle,
};
pub use write::{
    SiteOptions, etw_event_write_full, event_write, event_write_ex, event_write_site,
    event_write_site_ex, event_write_string, event_write_transfer, event_write_units,
};
