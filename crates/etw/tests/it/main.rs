//! One binary for all integration tests.
#![allow(missing_docs)]

mod crash;
mod macros;
mod modes;
mod session;
mod support;
mod write_calls;
