//! One binary for all integration tests.
#![allow(missing_docs)]

mod classic;
mod modes;
mod payload;
mod route;
mod simulation;
mod support;
