//! What the macros' expansions name. Not for direct use: it changes with the macros.

pub use crate::write::{Sink, Site, descriptor_bytes, write};
