//! The WPP preprocessor: it finds the trace calls in sources of C and C++, and writes the header that each source includes
//! (`.tmh`) and the formats from which readers decode the messages (`.tmf`, `.tmc`).
//!
//! [`Options`] are the words of Windows' command, [`run`] makes the outputs in memory, and the caller writes them.
//!
//! ```
//! use etw_tracewpp::{Options, run};
//!
//! let mut options = Options::default();
//! options.apply("-func:Trace(FLAGS, MSG, ...)").unwrap();
//! options.apply("main.c").unwrap();
//! let source = "void f(void) {\n  Trace(Start, \"%d files\", 3);\n}\n";
//! let read = |path: &std::path::Path| match path.to_str() {
//!     Some("main.c") => Ok(source.into()),
//!     _ => Err(std::io::ErrorKind::NotFound.into()),
//! };
//! let outputs = run(&options, &read).unwrap();
//! assert!(outputs.files[0].text.contains("WPP_CALL_main_c2"));
//! ```
//!
//! # Limits
//!
//! A source has at most 64 MB, a call 64 KB and 128 values, an output 64 MB. Conditions of the C preprocessor around calls are not
//! evaluated: a call in `#if 0` is a message, too, as it is on Windows. Inside of a call they are, by the macros of `-D` and of the source itself.

mod condition;
mod config;
mod diagnostic;
mod lexer;
mod message;
mod model;
mod options;
mod run;
mod scan;
mod template;
mod tmf;
mod types;

pub use diagnostic::Diagnostic;
pub use etw_types::Severity;
pub use options::{Options, Output};
pub use run::{File, Outputs, run};

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
