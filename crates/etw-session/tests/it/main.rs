//! One binary for all integration tests.
#![allow(missing_docs)]

mod classic;
mod gaps;
mod modes;
mod payload;
mod route;
mod simulation;
mod support;
