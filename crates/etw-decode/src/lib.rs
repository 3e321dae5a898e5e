//! Turns event records into named, typed fields.
//!
//! Layers, from the bottom:
//!
//! * [`Value`], [`Style`]: one value of a field, and how it is written as text or JSON;
//! * [`Schema`]: names and types of an event's fields, whatever they were learnt from;
//! * [`walk`]: runs a schema over a payload and calls a [`Visitor`]; it does not allocate per event;
//! * [`tracelogging`], [`event_info`], [`event_trace`]: where schemas come from;
//! * [`Decoder`]: finds the schema of a record and learns from records that describe others;
//! * [`Event`]: a record with its schema, and typed access to its fields: `event.get::<u32>("Count")?`.
//!
//! ```
//! use etw_decode::{Decoder, Source, Style};
//! use etw_types::{EventRecord, HeaderType, Hook};
//!
//! let build = b"26100.1.amd64fre.ge_release\0";
//! let mut record = EventRecord::new(HeaderType::PerfInfo64, build);
//! record.hook = Some(Hook(0x0042));
//! let mut decoder = Decoder::new();
//! let decoded = decoder.decode(&record);
//! assert_eq!(decoded.source(), Some(Source::Header));
//! assert_eq!(decoded.event_name(), Some("EventTrace/BuildInfo"));
//! let fields = decoded.fields_text(&record, &Style::default()).unwrap();
//! assert_eq!(fields, [("BuildString".to_string(), "26100.1.amd64fre.ge_release".to_string())]);
//! ```
//!
//! The crate reads neither files nor sessions. Hostile schemas and payloads give a reason, never a panic, and the cost of one event
//! is bounded.
//!
//! | feature | adds |
//! |---|---|
//! | `cbor` | `Cbor`, a decoder of custom-serialised fields |
//! | `pdb` | formats of WPP messages in PDB files |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod activity;
mod block_text;
mod cache_bound;
mod catalog;
#[cfg(feature = "cbor")]
mod cbor;
mod clr;
mod custom;
mod decoded;
mod decoder;
mod event;
pub mod event_info;
pub mod event_trace;
mod eventsource;
pub mod expr;
mod extent;
mod field;
mod field_path;
mod field_texts;
mod fields;
mod from_field;
mod hex;
mod inserts;
mod integers;
mod kernel;
mod known_providers;
mod layout;
pub mod lznt1;
pub mod manifest;
mod map;
mod measure;
mod message;
pub mod mof;
pub mod pack;
mod parsed;
mod payload_layout;
mod pointer_width;
mod provider;
mod read;
mod reason;
pub mod registered;
mod schema;
mod schema_cache;
mod schemas;
mod status;
mod store;
mod string_event;
mod text;
pub mod tracelogging;
mod universal;
mod value;
mod visitor;
mod walk;
pub mod wevt;
pub mod wpp;

pub use activity::activity_path;
pub use catalog::Catalog;
#[cfg(feature = "cbor")]
pub use cbor::Cbor;
pub use custom::{CustomDecoder, CustomDecoders, Rendered};
pub use decoded::{Decoded, Fit, Visited};
pub use decoder::Decoder;
pub use etw_tracelogging::tdh::{InType, OutType};
pub use etw_tracelogging::{Show, StatusKind, Wire};
pub use event::Event;
pub use field::{Count, Field, Kind, Length};
pub use field_path::FieldError;
pub use fields::{FieldValue, Fields};
pub use from_field::FromField;
pub use inserts::Inserts;
pub use integers::Integers;
pub use known_providers::{known_provider_name, known_providers_named};
pub use map::{Map, MapKind};
pub use message::Message;
pub use parsed::Parsed;
pub use payload_layout::PayloadLayout;
pub use pointer_width::kernel_pointer_size;
pub use reason::{Reason, Source};
pub use schema::{Names, Schema};
pub use schemas::DescribedEvent;
pub use status::{status_name, status_text};
pub use store::Store;
pub use string_event::is_string_event;
pub use text::{CodePage, Escape, Text, write_json_string};
pub use value::{Style, Value, write_int, write_uint};
pub use visitor::Visitor;
pub use walk::{PayloadError, Walked, walk, walk_part};

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
