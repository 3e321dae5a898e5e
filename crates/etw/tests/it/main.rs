//! One binary for all integration tests.
#![allow(missing_docs)]

mod builder;
mod capture;
mod classic;
mod crash;
mod diagnose;
mod errors;
#[cfg(all(feature = "session", feature = "consumer"))]
mod event_source;
mod events;
mod fields;
mod macros;
mod microsoft_crate;
mod modes;
mod session;
mod shapes;
mod stacks;
mod support;
mod trace_files;
mod write_calls;
