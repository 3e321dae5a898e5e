//! Rust examples of `README.md` and the book, compiled and run as doc-tests.
#![cfg(doctest)]

#[doc = include_str!("../../README.md")]
mod readme {}

#[doc = include_str!("../../docs/guide/slowest-request.md")]
mod slowest_request {}

#[doc = include_str!("../../docs/guide/rust.md")]
mod rust {}

#[doc = include_str!("../../docs/guide/event-source.md")]
mod event_source {}

#[doc = include_str!("../../docs/guide/tracing.md")]
mod tracing {}

#[doc = include_str!("../../docs/guide/logging.md")]
mod logging {}

#[doc = include_str!("../../docs/guide/decoding.md")]
mod decoding {}
