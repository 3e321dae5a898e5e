//! `LiveStream`: the records of a running session in order of time, with their losses.

pub use crate::live_item::{LiveItem, StreamEnd, StreamLedger};
#[cfg(windows)]
pub use crate::system::live_stream::{Closer, LiveStream, StreamError};
#[cfg(target_os = "linux")]
pub use host::{Closer, LiveStream, StreamError};

#[cfg(target_os = "linux")]
mod host;
