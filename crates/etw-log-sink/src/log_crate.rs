//! A backend of the `log` crate.

use crate::{LogContext, LogLevel, LogRecord, LogSink, Pair};

/// A sink as the backend of the `log` crate: target and module are a context, the message is the record's.
///
/// ```
/// use etw_log_sink::{EtwSink, LogAdapter};
///
/// static SINK: LogAdapter<EtwSink> = LogAdapter::new(EtwSink::new());
///
/// fn main() -> Result<(), log::SetLoggerError> {
///     log::set_logger(&SINK)?;
///     log::set_max_level(log::LevelFilter::Trace);
///     log::info!("hello");
///     Ok(())
/// }
/// ```
#[derive(Debug, Default)]
pub struct LogAdapter<S> {
    /// The sink of the records.
    pub sink: S,
}

impl<S: LogSink> LogAdapter<S> {
    /// An adapter of a sink.
    pub const fn new(sink: S) -> LogAdapter<S> {
        LogAdapter { sink }
    }
}

/// The level of the `log` crate, which has no critical one; `Debug` and `Trace` are both verbose.
fn level(level: log::Level) -> LogLevel {
    match level {
        log::Level::Error => LogLevel::ERROR,
        log::Level::Warn => LogLevel::WARNING,
        log::Level::Info => LogLevel::INFO,
        log::Level::Debug | log::Level::Trace => LogLevel::VERBOSE,
    }
}

impl<S: LogSink + Send> log::Log for LogAdapter<S> {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        self.sink.is_enabled(level(metadata.level()))
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = level(record.level());
        if !self.sink.is_enabled(level) {
            return;
        }
        let pairs = [
            Pair::structure("log", 2),
            Pair::new("target", record.target()),
            Pair::new("trace", record.level() == log::Level::Trace),
        ];
        self.sink.log(&LogRecord {
            level,
            context: Some(&LogContext::from_pairs(&pairs)),
            file: record.file().unwrap_or_default(),
            func: record.module_path().unwrap_or_default(),
            line: record.line().and_then(|line| i32::try_from(line).ok()).unwrap_or(0),
            message: *record.args(),
        });
    }

    fn flush(&self) {}
}
