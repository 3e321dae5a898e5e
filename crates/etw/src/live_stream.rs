//! `LiveStream`: the records of a running session in order of time, with their losses.

mod host;

pub use host::*;
