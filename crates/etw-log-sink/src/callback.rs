//! A sink that passes lines to a function.

use std::fmt;

use crate::line::{MAX_LINE, cut, time, write_line};
use crate::{LogLevel, LogRecord, LogSink};

/// Gives each record, as a line, to a function.
pub struct CallbackSink<F> {
    callback: F,
    max_level: LogLevel,
}

impl<F: Fn(LogLevel, &str) + Sync> CallbackSink<F> {
    /// A sink for all levels.
    pub const fn new(callback: F) -> CallbackSink<F> {
        CallbackSink { callback, max_level: LogLevel(u32::MAX) }
    }

    /// Drops what is less severe.
    #[must_use]
    pub fn with_max_level(self, max_level: LogLevel) -> CallbackSink<F> {
        CallbackSink { max_level, ..self }
    }
}

impl<F> fmt::Debug for CallbackSink<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallbackSink").field("max_level", &self.max_level).finish_non_exhaustive()
    }
}

impl<F: Fn(LogLevel, &str) + Sync> LogSink for CallbackSink<F> {
    fn is_enabled(&self, level: LogLevel) -> bool {
        level <= self.max_level
    }

    fn log(&self, record: &LogRecord<'_>) {
        if !self.is_enabled(record.level) {
            return;
        }
        let mut line = String::new();
        write_line(&mut line, record, &time());
        cut(&mut line, MAX_LINE);
        (self.callback)(record.level, &line);
    }
}
