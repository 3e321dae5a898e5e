//! One binary for all integration tests.
#![allow(missing_docs)]

mod modes;
mod route;
mod simulation;
mod support;
