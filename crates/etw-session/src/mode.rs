use std::fmt;

use etw_types::{LogFileMode, Status};

/// What becomes of full buffers.
#[doc(alias = "LogFileMode")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogMode {
    /// One after the other, up to `max_size` bytes of file.
    Sequential {
        /// `None`: no limit.
        max_size: Option<u64>,
    },
    /// Behind the last one that is in the file already.
    Append {
        /// Slots that the file has, the header's among them.
        first_slot: u64,
        /// The last sequence number in it.
        last_sequence: i64,
    },
    /// The oldest buffers of the file are overwritten.
    Circular {
        /// Bytes of file, header included.
        max_size: u64,
    },
    /// A new file each time `max_size` is reached.
    NewFile {
        /// Bytes of each file, header included.
        max_size: u64,
    },
    /// No file: the oldest buffers in memory are overwritten, and a snapshot is taken on demand (`BUFFERING`).
    Memory,
    /// No file: buffers go to consumers.
    RealTime,
}

/// How a session is set up.
#[doc(alias = "EVENT_TRACE_PROPERTIES")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Bytes: a multiple of 1 KiB, from 1 KiB to 16 MiB.
    pub buffer_size: u32,
    /// What becomes of full buffers.
    pub mode: LogMode,
    /// A partly filled buffer is handed out when its first event is older than this, in ticks of the session clock.
    pub flush_timer: Option<i64>,
    /// One stream for all CPUs (`NO_PER_PROCESSOR_BUFFERING`) when false.
    pub per_processor: bool,
    /// Its refusals concern nobody else (`INDEPENDENT_SESSION`).
    pub independent: bool,
    /// The number in the buffers' headers.
    pub logger_id: u16,
    /// Which of an event's times it records.
    pub clock: EventClock,
}

/// How a session's time comes from its host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventClock {
    /// It is [`Event::time`](crate::Event::time).
    #[default]
    Main,
    /// So much later.
    Shifted(i64),
    /// [`Event::raw`](crate::Event::raw).
    Raw,
}

impl EventClock {
    /// The time that is recorded of an event with these times.
    #[inline]
    pub(crate) fn of(self, time: i64, raw: Option<i64>) -> i64 {
        if self == EventClock::Main {
            return time;
        }
        std::hint::cold_path();
        match (self, raw) {
            (EventClock::Main, _) | (_, None) => time,
            (EventClock::Shifted(by), Some(_)) => time + by,
            (EventClock::Raw, Some(raw)) => raw,
        }
    }
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            buffer_size: 64 << 10,
            mode: LogMode::Sequential { max_size: None },
            flush_timer: None,
            per_processor: true,
            independent: false,
            logger_id: 1,
            clock: EventClock::Main,
        }
    }
}

/// A session that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionError {
    /// Not a multiple of 1 KiB between 1 KiB and 16 MiB.
    BufferSize(u32),
    /// At least two buffers are needed, and each of the session's size.
    Buffers,
    /// A file that holds less than its header and two buffers.
    MaxSize(u64),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::BufferSize(size) => {
                write!(f, "buffer size {size}: must be a multiple of 1024 from 1024 to 16777216")
            }
            SessionError::Buffers => {
                f.write_str("at least two buffers of the session's size are needed")
            }
            SessionError::MaxSize(size) => {
                write!(f, "maximum file size {size}: must hold at least three buffers")
            }
        }
    }
}

impl std::error::Error for SessionError {}

impl SessionOptions {
    pub(crate) fn check(&self) -> Result<(), SessionError> {
        let size = self.buffer_size;
        if !size.is_multiple_of(1024) || !(1024..=16 << 20).contains(&size) {
            return Err(SessionError::BufferSize(size));
        }
        match self.mode {
            LogMode::Sequential { max_size: Some(max) }
            | LogMode::Circular { max_size: max }
            | LogMode::NewFile { max_size: max }
                if max < 3 * u64::from(size) =>
            {
                Err(SessionError::MaxSize(max))
            }
            _ => Ok(()),
        }
    }

    /// Slots of a file, the header's among them.
    pub(crate) fn slots(&self) -> Option<u64> {
        match self.mode {
            LogMode::Sequential { max_size: Some(max) }
            | LogMode::Circular { max_size: max }
            | LogMode::NewFile { max_size: max } => Some(max / u64::from(self.buffer_size)),
            _ => None,
        }
    }
}

/// Flags that exclude each other (documentation of the logging mode constants).
const EXCLUSIVE: [(LogFileMode, LogFileMode); 9] = {
    use LogFileMode as Mode;
    [
        (
            Mode::CIRCULAR,
            Mode::APPEND.union(Mode::NEWFILE).union(Mode::SEQUENTIAL).union(Mode::RELOG),
        ),
        (
            Mode::APPEND,
            Mode::REAL_TIME.union(Mode::NEWFILE).union(Mode::PRIVATE_LOGGER).union(Mode::RELOG),
        ),
        (Mode::NEWFILE, Mode::PREALLOCATE.union(Mode::RELOG)),
        (Mode::REAL_TIME, Mode::PRIVATE_LOGGER),
        (
            Mode::BUFFERING,
            Mode::SEQUENTIAL
                .union(Mode::CIRCULAR)
                .union(Mode::APPEND)
                .union(Mode::NEWFILE)
                .union(Mode::REAL_TIME)
                .union(Mode::PREALLOCATE),
        ),
        (Mode::USE_GLOBAL_SEQUENCE, Mode::USE_LOCAL_SEQUENCE),
        (Mode::PRIVATE_IN_PROC, Mode::REAL_TIME),
        (Mode::RELOG, Mode::REAL_TIME),
        (Mode::PREALLOCATE, Mode::REAL_TIME),
    ]
};

/// Checks that a session can have this mode, with or without a file name and a maximum size.
///
/// # Errors
/// [`ModeError`], with the status that `StartTrace` returns.
pub fn check_log_file_mode(
    mode: LogFileMode,
    has_file: bool,
    max_size: u32,
) -> Result<(), ModeError> {
    let clash =
        EXCLUSIVE.iter().find(|(one, others)| mode.contains(*one) && mode.intersects(*others));
    if let Some((one, others)) = clash {
        return Err(ModeError::Exclusive(*one, mode & *others));
    }
    if mode.contains(LogFileMode::RELOG) && !mode.contains(LogFileMode::PRIVATE_LOGGER) {
        return Err(ModeError::Exclusive(LogFileMode::RELOG, LogFileMode::NONE));
    }
    let sized = LogFileMode::CIRCULAR | LogFileMode::NEWFILE | LogFileMode::PREALLOCATE;
    if mode.intersects(sized) && max_size == 0 {
        return Err(ModeError::NoMaxSize);
    }
    if !has_file && !mode.intersects(LogFileMode::REAL_TIME | LogFileMode::BUFFERING) {
        return Err(ModeError::NoFile);
    }
    Ok(())
}

/// Log mode bits that no session can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModeError {
    /// The first bit does not go with the others (or, without others, needs one that is missing).
    Exclusive(LogFileMode, LogFileMode),
    /// The mode needs a maximum size.
    NoMaxSize,
    /// Neither a file nor real time nor memory.
    NoFile,
}

impl ModeError {
    /// What `StartTrace` returns.
    pub const fn status(self) -> Status {
        match self {
            ModeError::Exclusive(..) | ModeError::NoMaxSize => Status::ERROR_INVALID_PARAMETER,
            ModeError::NoFile => Status::ERROR_BAD_PATHNAME,
        }
    }
}

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModeError::Exclusive(one, others) => match others.is_empty() {
                true => write!(f, "log mode {one} requires EVENT_TRACE_PRIVATE_LOGGER_MODE"),
                false => write!(f, "log mode {one} cannot be combined with {others}"),
            },
            ModeError::NoMaxSize => f.write_str("this log mode needs a maximum file size"),
            ModeError::NoFile => f.write_str("a session needs a file, real time or memory"),
        }
    }
}

impl std::error::Error for ModeError {}
