//! Events on Windows: what reaches the system's functions, beside what Microsoft's own crate hands to them.
//!
//! A recorder takes the place of those functions in the import table of this program, so the tests need no session, and run under
//! Wine, whose own functions do nothing. They say nothing of what a real system does with the calls.
#![cfg(windows)]

mod cost;
mod goldens;
mod private_loggers;
mod providers;
mod recorder;
mod sessions;
mod streams;
mod unload;
