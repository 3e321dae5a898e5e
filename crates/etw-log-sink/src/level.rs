//! Levels of c-logging.

use etw::Level;

/// c-logging's levels; any other number is `Unknown`, which passes every level that a session enables.
#[doc(alias = "LOG_LEVEL")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogLevel(pub u32);

impl LogLevel {
    /// The program cannot go on.
    pub const CRITICAL: LogLevel = LogLevel(0);
    /// Something failed.
    pub const ERROR: LogLevel = LogLevel(1);
    /// Something may be wrong.
    pub const WARNING: LogLevel = LogLevel(2);
    /// Something happened.
    pub const INFO: LogLevel = LogLevel(3);
    /// Details.
    pub const VERBOSE: LogLevel = LogLevel(4);

    /// The ETW level: 1 to 5, or 0 for `Unknown`.
    pub const fn etw_level(self) -> Level {
        match self.0 {
            level @ 0..5 => Level(level as u8 + 1),
            _ => Level(0),
        }
    }

    /// The name of its events.
    pub const fn event_name(self) -> &'static str {
        match self {
            LogLevel::CRITICAL => "LogCritical",
            LogLevel::ERROR => "LogError",
            LogLevel::WARNING => "LogWarning",
            LogLevel::INFO => "LogInfo",
            LogLevel::VERBOSE => "LogVerbose",
            _ => "Unknown",
        }
    }

    /// As lines show it.
    pub const fn name(self) -> &'static str {
        match self {
            LogLevel::CRITICAL => "CRITICAL",
            LogLevel::ERROR => "ERROR",
            LogLevel::WARNING => "WARNING",
            LogLevel::INFO => "INFO",
            LogLevel::VERBOSE => "VERBOSE",
            _ => "UNKNOWN",
        }
    }
}
