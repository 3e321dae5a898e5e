//! The bits of `LogFileMode`: the option of a session that each states, and the bits that exclude or need each other.

use std::fmt;

use etw_types::{LogFileMode, Status};

use crate::compression::Compression;
use crate::config::SessionConfig;
use crate::config_error::ConfigError;
use crate::file_mode::FileMode;
use crate::log_mode::LogMode;

/// A bit of `LogFileMode` and the option of a session that it states.
struct ModeBit {
    bit: LogFileMode,
    states: Stated,
}

/// An option of a session that a bit of `LogFileMode` states.
enum Stated {
    /// How the file is written.
    File(FileMode),
    /// [`LogMode::Buffering`].
    Buffering,
    /// A property that is set or not.
    Property {
        /// Whether a session states the bit in its file's header and for controllers.
        is_stated: fn(&SessionConfig) -> bool,
        /// Gives a session the property; `None`: the bit alone does not describe it.
        set: Option<fn(&mut SessionConfig)>,
    },
}

const fn file(bit: LogFileMode, mode: FileMode) -> ModeBit {
    ModeBit { bit, states: Stated::File(mode) }
}

const fn property(
    bit: LogFileMode,
    is_stated: fn(&SessionConfig) -> bool,
    set: Option<fn(&mut SessionConfig)>,
) -> ModeBit {
    ModeBit { bit, states: Stated::Property { is_stated, set } }
}

/// The bits that state an option of a session. Among bits of files, the first one that is set counts.
const MODE_BITS: [ModeBit; 13] = [
    file(LogFileMode::CIRCULAR, FileMode::Circular),
    file(LogFileMode::NEWFILE, FileMode::NewFile),
    file(LogFileMode::APPEND, FileMode::Append),
    file(LogFileMode::SEQUENTIAL, FileMode::Sequential),
    ModeBit { bit: LogFileMode::BUFFERING, states: Stated::Buffering },
    property(LogFileMode::PREALLOCATE, |of| of.preallocate, Some(|of| of.preallocate = true)),
    property(
        LogFileMode::COMPRESSED,
        |of| of.compression.is_possible(),
        Some(|of| of.compression = Compression::On),
    ),
    property(LogFileMode::REAL_TIME, |of| of.real_time, Some(|of| of.real_time = true)),
    property(
        LogFileMode::NO_PER_PROCESSOR_BUFFERING,
        |of| !of.per_processor,
        Some(|of| of.per_processor = false),
    ),
    property(
        LogFileMode::INDEPENDENT_SESSION,
        |of| of.independent,
        Some(|of| of.independent = true),
    ),
    // Headers of files do not state who may write to the session.
    property(LogFileMode::SECURE, |_| false, Some(|of| of.secure = true)),
    // The events to record are not in the bits.
    property(LogFileMode::SYSTEM_LOGGER, |of| of.system.is_some(), None),
    // The unit of the maximum size, which a session has in bytes.
    property(LogFileMode::USE_KBYTES_FOR_SIZE, |of| of.mode.policy().max_size.is_some(), None),
];

/// The bits whose options [`SessionConfig::set_log_file_mode`] sets.
pub const SETTABLE_BITS: LogFileMode = {
    let (mut bits, mut row) = (LogFileMode::NONE, 0);
    while row < MODE_BITS.len() {
        if !matches!(MODE_BITS[row].states, Stated::Property { set: None, .. }) {
            bits = bits.union(MODE_BITS[row].bit);
        }
        row += 1;
    }
    bits
};

impl FileMode {
    /// The mode of `LogFileMode` bits; sequential when no other is set.
    pub fn of_bits(log_file_mode: LogFileMode) -> FileMode {
        let rows = MODE_BITS.iter().filter(|row| log_file_mode.contains(row.bit));
        let mut modes = rows.filter_map(|row| match row.states {
            Stated::File(mode) => Some(mode),
            _ => None,
        });
        modes.next().unwrap_or_default()
    }
}

impl LogMode {
    /// The mode that a file's header states; `max_size` in bytes, 0 for no limit.
    pub fn of_header(log_file_mode: LogFileMode, max_size: u64) -> LogMode {
        let limit = (max_size > 0).then_some(max_size);
        if log_file_mode.contains(LogFileMode::BUFFERING) {
            return LogMode::Buffering;
        }
        let mode = LogMode::new(FileMode::of_bits(log_file_mode), limit);
        mode.unwrap_or(LogMode::Sequential { max_size: limit })
    }
}

impl SessionConfig {
    /// The `LogFileMode` bits of the session, in its file's header and for controllers.
    pub fn log_file_mode(&self) -> LogFileMode {
        let is_stated = |row: &&ModeBit| match row.states {
            Stated::File(mode) => self.file.is_some() && self.mode.file_mode() == Some(mode),
            Stated::Buffering => self.mode == LogMode::Buffering,
            Stated::Property { is_stated, .. } => is_stated(self),
        };
        let rows = MODE_BITS.iter().filter(is_stated);
        rows.fold(LogFileMode::NONE, |bits, row| bits | row.bit)
    }

    /// Sets the options that `LogFileMode` bits state, and the maximum size in bytes. Without a file, options of files have no
    /// effect. Bits that are not in [`SETTABLE_BITS`] have no effect either.
    ///
    /// # Errors
    /// `MaxSizeMissing`, `MaxSizeUnused`.
    pub fn set_log_file_mode(
        &mut self,
        bits: LogFileMode,
        max_size: Option<u64>,
    ) -> Result<(), ConfigError> {
        for row in MODE_BITS.iter().filter(|row| bits.contains(row.bit)) {
            if let Stated::Property { set: Some(set), .. } = row.states {
                set(self);
            }
        }
        let is_buffering = bits.contains(LogFileMode::BUFFERING);
        self.set_log_mode(is_buffering, FileMode::of_bits(bits), max_size)
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
    /// The status that `StartTrace` returns.
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
