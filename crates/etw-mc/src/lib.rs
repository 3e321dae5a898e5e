//! The message compiler: it turns instrumentation manifests and message text files into code, resources and schemas.
//!
//! | output | module | used by |
//! |---|---|---|
//! | C and C++ header | [`header`] | programs that write the events, by the names that Microsoft's `mc` gives |
//! | Rust file | [`rust`] | programs in Rust; [`Build`] makes it in a build script |
//! | WEVT_TEMPLATE resource | [`wevt`] | decoders; byte for byte that of `mc` of SDK 15063 and earlier, or 18362 and later |
//! | message table | [`messages`] | decoders and the Event Log |
//! | ELF object | [`elf`] | programs in C and C++, which then carry the schemas of their events |
//! | schema blob | [`schema`] | sessions, which write it into traces |
//! | comparison, warnings | [`review`] | authors of manifests |
//! | header, table and script of a message text file | [`message_text`] | programs that log by message ids |
//! | resource script | [`resource_script`] | resource compilers |
//!
//! ```
//! let text = br#"<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"
//!     xmlns:win="http://manifests.microsoft.com/win/2004/08/windows/events">
//!   <instrumentation><events>
//!     <provider name="My-Shop" guid="{00000001-0002-0003-0004-000000000005}" symbol="SHOP"
//!               resourceFileName="shop.dll" messageFileName="shop.dll">
//!       <templates><template tid="T"><data name="Count" inType="win:UInt32"/></template></templates>
//!       <events><event value="1" symbol="Sold" level="win:Informational" template="T"/></events>
//!     </provider>
//!   </events></instrumentation>
//! </instrumentationManifest>"#;
//! let manifest = etw_mc::Manifest::parse(text).unwrap();
//! let header = etw_mc::header::write(&manifest, &etw_mc::header::Options::default());
//! assert!(header.contains("#define EventWriteSold(Count)"));
//! let resource = etw_mc::wevt::write(&manifest, etw_mc::wevt::Version::V5);
//! assert_eq!(&resource[..4], b"CRIM");
//! ```
//!
//! # Sources
//!
//! The layouts and names were worked out from outputs of three versions of `mc` and from Microsoft's documentation of
//! the manifest's schema. The text of the generated code is this project's own.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod build;
mod diagnostic;
pub mod elf;
pub mod header;
pub mod manifest;
pub mod message_text;
pub mod messages;
pub mod resource_script;
pub mod review;
pub mod rust;
pub mod schema;
mod template;
pub mod wevt;

pub use build::{Build, BuildError};
pub use diagnostic::Diagnostic;
pub use etw_types::Severity;
pub use manifest::Manifest;

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
