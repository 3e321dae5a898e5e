//! One binary for all integration tests.
#![allow(missing_docs)]

mod private_pool;
mod replay;
mod takeover;
mod windows;
