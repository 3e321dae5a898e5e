//! One binary for all integration tests.
#![allow(missing_docs)]

mod replay;
mod takeover;
mod windows;
