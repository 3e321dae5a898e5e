//! Requests of the user to end: signals on Linux, events of the console on Windows.

#[cfg(windows)]
pub use console::Signals;
#[cfg(target_os = "linux")]
pub use unix::Signals;

#[cfg(windows)]
mod console;
#[cfg(target_os = "linux")]
mod unix;
