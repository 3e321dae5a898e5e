//! Logging as ETW events: c-logging's `log_sink_etw` for Rust programs.
//!
//! ```text
//! logger_log!, logger_log_ex!, the `log` crate
//!        │ LogRecord: level, context, file, function, line, message
//!        ▼
//!    LogSink ── EtwSink        a TraceLogging event: LogCritical … LogVerbose
//!            ├─ ConsoleSink    a line on standard output
//!            └─ CallbackSink   a line for a function of the program
//! ```
//!
//! ```
//! use etw_log_sink::{EtwSink, LogContext, LogLevel, logger_log, logger_log_ex};
//!
//! static SINK: EtwSink = EtwSink::new();
//!
//! let request = LogContext::new("request").with("id", 7u64).with("path", "/orders");
//! logger_log!(SINK, LogLevel::INFO, Some(&request), "took {} ms", 12);
//! logger_log_ex!(SINK, LogLevel::ERROR, { "status" = 500i32, "retry" = false }, "failed");
//! ```
//!
//! If no session enabled the level, a call costs less than a nanosecond and formats nothing. The events have no keyword, so keyword
//! masks do not apply to them.
//!
//! # Loss
//! If an event cannot be written, the sink prints `Error emitting ETW event` on standard output, at most once a second, and the
//! sessions count the loss. If a context does not fit (more than 64 properties, or 4096 bytes of metadata and message), the event has
//! no properties. If the message alone does not fit, it is truncated.
//!
//! | feature | adds |
//! |---|---|
//! | `console` (default) | `ConsoleSink`: lines with local time on standard output |
//! | `log` | any sink as a backend of the `log` crate |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod buffer;
mod callback;
#[cfg(feature = "console")]
mod console;
mod context;
pub mod encode;
mod etw_sink;
mod flat;
mod level;
mod line;
#[cfg(feature = "log")]
mod log_crate;
mod macros;
mod sites;
mod value;
#[doc(hidden)]
pub use macros::__function_of;

pub use callback::CallbackSink;
#[cfg(feature = "console")]
pub use console::ConsoleSink;
pub use context::LogContext;
pub use etw_sink::{DEFAULT_PROVIDER_ID, DEFAULT_PROVIDER_NAME, EtwSink};
pub use level::LogLevel;
#[cfg(feature = "log")]
pub use log_crate::LogAdapter;
pub use value::{Pair, Value};

/// A record to log.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// The severity.
    pub level: LogLevel,
    /// The context, if there is one.
    pub context: Option<&'a LogContext<'a>>,
    /// The source file.
    pub file: &'a str,
    /// The function.
    pub func: &'a str,
    /// The line in the file.
    pub line: i32,
    /// The message. Only a sink that is enabled formats it.
    pub message: std::fmt::Arguments<'a>,
}

/// A destination of records.
pub trait LogSink: Sync {
    /// Whether the sink accepts records of this level.
    fn is_enabled(&self, level: LogLevel) -> bool;

    /// Logs a record.
    fn log(&self, record: &LogRecord<'_>);
}

impl<S: LogSink + ?Sized> LogSink for &S {
    fn is_enabled(&self, level: LogLevel) -> bool {
        (**self).is_enabled(level)
    }

    fn log(&self, record: &LogRecord<'_>) {
        (**self).log(record);
    }
}

/// Several sinks, in order.
impl LogSink for [&dyn LogSink] {
    fn is_enabled(&self, level: LogLevel) -> bool {
        self.iter().any(|sink| sink.is_enabled(level))
    }

    fn log(&self, record: &LogRecord<'_>) {
        self.iter().for_each(|sink| sink.log(record));
    }
}

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
