//! One binary for all integration tests.
#![allow(missing_docs)]

mod encoder;
mod events;
mod registration;
mod sinks;
mod support;
