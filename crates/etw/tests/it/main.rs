//! One binary for all integration tests.
#![allow(missing_docs)]

mod crash;
mod session;
mod support;
