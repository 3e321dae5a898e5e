//! One binary for all integration tests.
#![forbid(unsafe_code)]

mod errors;
mod macros;
