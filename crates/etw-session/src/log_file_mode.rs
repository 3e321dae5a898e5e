//! The rules of `LogFileMode`: which bits exclude or need each other.

use std::fmt;

use etw_types::{LogFileMode, Status};

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
