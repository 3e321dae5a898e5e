//! One binary for all integration tests.
#![allow(missing_docs)]

mod private_pool;
mod replay;
mod sources;
mod takeover;
mod windows;
