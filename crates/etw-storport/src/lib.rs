//! Storage events: the ETW functions that Windows gives to StorPort's miniport drivers, for programs that drive or watch storage.
//!
//! ```
//! use etw_storport::*;
//!
//! let adapter = Device::new(0, "nvme0");
//! let unit = Address { path: 0, target: 0, lun: 1 };
//! let log_page = [0x81, 0x00, 0x20];
//! let event = MiniportEvent {
//!     channel: EventChannel::OPERATIONAL,
//!     keywords: keyword::IO,
//!     level: EventLevel::WARNING,
//!     ..MiniportEvent::new(7, "health log")
//! };
//! let status = log_byte_stream(Some(&adapter), Some(&unit), event, &log_page);
//! assert_eq!(status, StorStatus::SUCCESS);
//! ```
//!
//! # Events
//! They are of provider Microsoft-Windows-StorPort, `c4636a1e-7986-4646-bf10-7bc3b4a76e8e`, with the ids of Windows 11: by
//! function, target and level ([`event_id`]). What the caller calls its event id is a field. Fields have the names and the order of
//! Windows' events; but the events describe themselves (TraceLogging), since the provider's manifest is part of Windows. The
//! descriptor has the caller's level and opcode, and the caller's keywords beside the miniport bit `0x2000_0000_0000`: how Windows
//! carries them is published nowhere, so this is a guess.
//!
//! # Limits
//! Descriptions have at most 32 characters, names of parameters 16, byte streams 4096 bytes. The last limit,
//! `STORPORT_ETW_MAX_BYTE_STREAM_LENGTH`, is published nowhere: it is chosen here as that of StorPort's telemetry buffers. Beyond a
//! limit the event is refused, never cut.
#![forbid(unsafe_code)]

mod event;
mod types;

pub use event::{event_id, log_byte_stream, log_error, log_event, set_channel};
pub use types::{
    Address, Device, EventChannel, EventLevel, EventOpcode, MiniportEvent, Parameter, StorStatus,
    keyword,
};

/// The provider.
pub const PROVIDER_ID: etw::Guid = etw::Guid::from_u128(0xc4636a1e_7986_4646_bf10_7bc3b4a76e8e);
/// Characters of a description.
#[doc(alias = "STORPORT_ETW_MAX_DESCRIPTION_LENGTH")]
pub const MAX_DESCRIPTION_LENGTH: usize = 32;
/// Characters of a parameter's name.
#[doc(alias = "STORPORT_ETW_MAX_PARAM_NAME_LENGTH")]
pub const MAX_PARAM_NAME_LENGTH: usize = 16;
/// Bytes of a byte stream: chosen here, see the [limits](crate#limits).
#[doc(alias = "STORPORT_ETW_MAX_BYTE_STREAM_LENGTH")]
pub const MAX_BYTE_STREAM_LENGTH: usize = 4096;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
