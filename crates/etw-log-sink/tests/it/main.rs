//! One binary for all integration tests.
#![allow(missing_docs)]

mod events;
mod registration;
mod sinks;
mod support;
