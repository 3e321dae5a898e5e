//! TraceLogging metadata: the self-description that travels with an event, written and read with one table of types.
//!
//! Layers, from the bottom:
//!
//! * [`InType`], [`OutType`], [`ValueSize`], [`flags`]: what a field's two type bytes say, and how its value lies in the
//!   payload;
//! * [`EventMetadata`], [`ProviderTraits`]: the two blobs that come with each event, borrowed and read in place;
//! * [`MetadataBuilder`], [`provider_traits`], [`PayloadBuilder`]: the same bytes, written.
//!
//! ```
//! use etw_tracelogging::{Count, EventMetadata, InType, MetadataBuilder, OutType, PayloadBuilder};
//!
//! let blob = MetadataBuilder::new("Opened", 0)
//!     .field("path", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
//!     .field("error", InType::UINT32, OutType::WIN32ERROR, Count::Scalar, 0)
//!     .finish()
//!     .unwrap();
//! let payload = PayloadBuilder::new().counted_ansi(b"/etc").u32(2).finish().unwrap();
//!
//! let metadata = EventMetadata::parse(&blob).unwrap();
//! assert_eq!(metadata.name(), b"Opened");
//! let mut rest = &payload[..];
//! for field in metadata.fields() {
//!     let field = field.unwrap();
//!     let (value, after) = field.in_type.split(rest).unwrap();
//!     println!("{} = {value:02x?}", String::from_utf8_lossy(field.name));
//!     rest = after;
//! }
//! assert!(rest.is_empty());
//! ```
//!
//! Limits: names are bytes here, since nothing makes a writer keep to UTF-8; [`EventMetadata::fields`] is the flat list
//! as written, so a decoder groups the members of a struct itself; values are split, not formatted.
//!
//! Sources: the Windows SDK's `TraceLoggingProvider.h`, Microsoft's
//! MIT-licensed crates `tracelogging` and `tracelogging_dynamic`, with whose bytes the tests compare ours, and .NET's
//! EventSource (MIT).
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod cursor;
mod encode;
mod error;
mod meta;
mod payload;
mod traits;
mod types;

pub use encode::{EncodeError, MetadataBuilder, provider_traits};
pub use error::{MetadataError, MetadataErrorKind};
pub use meta::{Count, Custom, EventMetadata, Field, Fields, event_name};
pub use payload::PayloadBuilder;
pub use traits::{ProviderTraits, TraitType, Traits};
#[doc(hidden)]
pub use types::vocabulary;
pub use types::{
    FieldType, InType, OutType, Show, StatusKind, ValueSize, Wire, flags, sid_size, tdh, tdh_types,
};

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
