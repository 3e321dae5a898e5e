//! The facts that a host adds to a session's configuration: its number, its clock, and the end of the file that it appends to.

use std::fmt;
use std::time::Duration;

use crate::config_error::ConfigError;

/// Facts of the host about one of its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// The session's number, in the headers of its buffers.
    pub logger_id: u16,
    /// The time of an event that the session records.
    pub clock: EventClock,
    /// Ticks of the session's clock in a second.
    pub frequency: u64,
    /// The end of the file that the session appends to.
    pub append_to: Option<FileEnd>,
}

impl Default for HostFacts {
    fn default() -> HostFacts {
        HostFacts { logger_id: 1, clock: EventClock::Main, frequency: 10_000_000, append_to: None }
    }
}

impl HostFacts {
    /// A time in ticks of the session's clock.
    pub(crate) fn ticks(&self, time: Duration) -> i64 {
        let ticks = time.as_nanos() * u128::from(self.frequency) / 1_000_000_000;
        ticks.min(i64::MAX as u128) as i64
    }
}

/// The end of a file that a session appends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEnd {
    /// Slots of the file, the header's among them.
    pub slots: u64,
    /// The last sequence number in the file.
    pub last_sequence: i64,
}

/// How a session's time comes from its host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventClock {
    /// [`Event::time`](crate::Event::time).
    #[default]
    Main,
    /// [`Event::time`](crate::Event::time) and so many ticks.
    Shifted(i64),
    /// [`Event::raw`](crate::Event::raw).
    Raw,
}

impl EventClock {
    /// The time that the session records for an event with these times.
    #[inline]
    pub(crate) fn of(self, time: i64, raw: Option<i64>) -> i64 {
        if self == EventClock::Main {
            return time;
        }
        etw_types::cold_path();
        match (self, raw) {
            (EventClock::Main, _) | (_, None) => time,
            (EventClock::Shifted(by), Some(_)) => time + by,
            (EventClock::Raw, Some(raw)) => raw,
        }
    }
}

/// A session that cannot be created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// An option breaks a rule.
    Config(ConfigError),
    /// The memory for buffers is not at least two buffers of the session's size.
    Buffers {
        /// Number of buffers.
        count: usize,
        /// Bytes that each must have.
        size: u32,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Config(error) => error.fmt(f),
            SessionError::Buffers { count, size } => {
                write!(f, "{count} buffers: a session needs at least two, each of {size} bytes")
            }
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SessionError::Config(error) => Some(error),
            SessionError::Buffers { .. } => None,
        }
    }
}

impl From<ConfigError> for SessionError {
    fn from(error: ConfigError) -> SessionError {
        SessionError::Config(error)
    }
}
