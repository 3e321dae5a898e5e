//! A sink that prints coloured lines.

use std::io::Write;

use crate::line::{MAX_LINE, cut, time, write_line};
use crate::{LogLevel, LogRecord, LogSink};

/// Logs to standard output: a coloured line for each record.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsoleSink;

const RESET: &str = "\x1b[0m";

impl ConsoleSink {
    fn color(level: LogLevel) -> &'static str {
        match level {
            LogLevel::CRITICAL => "\x1b[31;40;1m",
            LogLevel::ERROR => "\x1b[31;40m",
            LogLevel::WARNING => "\x1b[33;40m",
            LogLevel::INFO => "\x1b[37;40m",
            _ => "\x1b[90;40m",
        }
    }

    /// The line of a record.
    pub fn line(record: &LogRecord<'_>) -> String {
        let mut line = format!("{}{} ", ConsoleSink::color(record.level), record.level.name());
        write_line(&mut line, record, &time());
        cut(&mut line, MAX_LINE - RESET.len() - 2);
        line.push_str(RESET);
        line.push_str("\r\n");
        line
    }
}

impl LogSink for ConsoleSink {
    fn is_enabled(&self, _level: LogLevel) -> bool {
        true
    }

    fn log(&self, record: &LogRecord<'_>) {
        // If standard output is closed, the line is dropped.
        let _ = std::io::stdout().lock().write_all(ConsoleSink::line(record).as_bytes());
    }
}
