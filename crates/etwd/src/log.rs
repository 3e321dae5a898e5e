//! The daemon's log: lines on standard error, for whoever administers the host.

/// Writes one line to the log. Standard error may be a pipe that nobody reads any more, which must not end the host.
macro_rules! log {
    ($($words:tt)*) => {{
        // One write: other processes write to the same file.
        let line = format!("etwd: {}\n", format_args!($($words)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}
pub(crate) use log;
