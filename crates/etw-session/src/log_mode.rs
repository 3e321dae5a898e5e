//! Log modes: how a session uses its output, each with its policy.

use crate::buffer::Place;
use crate::config_error::{ConfigError, ConfigOption};
use crate::file_mode::FileMode;

/// How a session uses its output.
///
/// A new mode is a variant here, an arm in [`LogMode::policy`] and a row in the table of `LogFileMode` bits; nothing else matches on the
/// variants.
#[doc(alias = "LogFileMode")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogMode {
    /// Buffers follow each other in the file, up to `max_size` bytes.
    Sequential {
        /// Bytes of the file, header included; `None`: no limit.
        max_size: Option<u64>,
    },
    /// The file's oldest buffers are overwritten.
    Circular {
        /// Bytes of the file, header included.
        max_size: u64,
    },
    /// The session continues in a new file each time one has `max_size` bytes.
    NewFile {
        /// Bytes of each file, header included.
        max_size: u64,
    },
    /// Buffers follow those that the file holds already.
    Append,
    /// The session has no file: the oldest buffers in memory are overwritten, and a snapshot writes them on demand.
    Buffering,
}

impl Default for LogMode {
    fn default() -> LogMode {
        LogMode::Sequential { max_size: None }
    }
}

/// The action when a file has its maximum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtMaxSize {
    /// The session stores nothing more; further events are lost and counted.
    Stop,
    /// The next buffer overwrites the file's oldest one.
    Overwrite,
    /// The next buffer begins another file.
    NextFile,
}

/// The action when a CPU needs a buffer and none is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNoBufferIsFree {
    /// The event is lost, unless the host can wait for the storage.
    WaitForStorage,
    /// The session's oldest buffer is overwritten.
    OverwriteOldest,
}

/// The policy of a log mode, for session, files, hosts and controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPolicy {
    /// Bytes of one file, header included.
    pub max_size: Option<u64>,
    /// The action when a file has its maximum size.
    pub at_max_size: AtMaxSize,
    /// The action when no buffer is free.
    pub when_no_buffer_is_free: WhenNoBufferIsFree,
    /// The session begins one file, and is the only one to write it: controllers can move the session to another file, and a finalised
    /// file means that the session has ended.
    pub has_own_file: bool,
    /// The session's first buffers are in the same file as its last ones, so records in them can describe the whole file.
    pub keeps_first_buffers: bool,
    /// Buffers follow each other without a limit, so that each can have a size of its own.
    pub can_be_compressed: bool,
}

impl LogMode {
    /// The mode of a name.
    ///
    /// # Errors
    /// `MaxSizeMissing` for modes that need a maximum size; `MaxSizeUnused` for the one that has none.
    pub fn new(mode: FileMode, max_size: Option<u64>) -> Result<LogMode, ConfigError> {
        match (mode, max_size) {
            (FileMode::Sequential, max_size) => Ok(LogMode::Sequential { max_size }),
            (FileMode::Circular, Some(max_size)) => Ok(LogMode::Circular { max_size }),
            (FileMode::NewFile, Some(max_size)) => Ok(LogMode::NewFile { max_size }),
            (FileMode::Append, None) => Ok(LogMode::Append),
            (FileMode::Append, Some(_)) => Err(ConfigError::MaxSizeUnused { mode }),
            (mode, None) => {
                Err(ConfigError::MaxSizeMissing { option: ConfigOption::LogMode, mode })
            }
        }
    }

    /// The mode of options of which none is ignored.
    ///
    /// # Errors
    /// As [`new`](LogMode::new); `Exclusive` for a session in memory with a mode or size of a file.
    pub fn of_options(
        is_buffering: bool,
        mode: Option<FileMode>,
        max_size: Option<u64>,
    ) -> Result<LogMode, ConfigError> {
        let other = ConfigOption::Buffering;
        match (is_buffering, mode, max_size) {
            (true, None, None) => Ok(LogMode::Buffering),
            (true, Some(_), _) => {
                Err(ConfigError::Exclusive { option: ConfigOption::LogMode, other })
            }
            (true, None, Some(_)) => {
                Err(ConfigError::Exclusive { option: ConfigOption::MaxSize, other })
            }
            (false, mode, max_size) => LogMode::new(mode.unwrap_or_default(), max_size),
        }
    }

    /// The mode's name; `None` for a session without a file.
    pub const fn file_mode(self) -> Option<FileMode> {
        match self {
            LogMode::Sequential { .. } => Some(FileMode::Sequential),
            LogMode::Circular { .. } => Some(FileMode::Circular),
            LogMode::NewFile { .. } => Some(FileMode::NewFile),
            LogMode::Append => Some(FileMode::Append),
            LogMode::Buffering => None,
        }
    }

    /// The mode's policy.
    pub const fn policy(self) -> LogPolicy {
        let sequential = LogPolicy {
            max_size: None,
            at_max_size: AtMaxSize::Stop,
            when_no_buffer_is_free: WhenNoBufferIsFree::WaitForStorage,
            has_own_file: true,
            keeps_first_buffers: true,
            can_be_compressed: false,
        };
        match self {
            LogMode::Sequential { max_size } => {
                LogPolicy { max_size, can_be_compressed: max_size.is_none(), ..sequential }
            }
            LogMode::Circular { max_size } => LogPolicy {
                max_size: Some(max_size),
                at_max_size: AtMaxSize::Overwrite,
                keeps_first_buffers: false,
                ..sequential
            },
            LogMode::NewFile { max_size } => LogPolicy {
                max_size: Some(max_size),
                at_max_size: AtMaxSize::NextFile,
                has_own_file: false,
                keeps_first_buffers: false,
                ..sequential
            },
            LogMode::Append => {
                LogPolicy { has_own_file: false, keeps_first_buffers: false, ..sequential }
            }
            LogMode::Buffering => LogPolicy {
                when_no_buffer_is_free: WhenNoBufferIsFree::OverwriteOldest,
                has_own_file: false,
                keeps_first_buffers: false,
                ..sequential
            },
        }
    }
}

impl LogPolicy {
    /// Slots of a file, the header's among them; `None`: no limit.
    pub fn slots(&self, buffer_size: u32) -> Option<u64> {
        self.max_size.map(|max_size| max_size / u64::from(buffer_size.max(1)))
    }

    /// The position of the buffer after the one at `place`, in files of so many slots. `None`: there is no space left.
    pub fn place_after(&self, place: Place, slots: Option<u64>) -> Option<Place> {
        let next = Place { slot: place.slot + 1, ..place };
        match (slots, self.at_max_size) {
            (Some(slots), AtMaxSize::Stop) if next.slot >= slots => None,
            (Some(slots), AtMaxSize::Overwrite) if next.slot >= slots => {
                Some(Place { slot: 1, ..place })
            }
            (Some(slots), AtMaxSize::NextFile) if next.slot >= slots => {
                Some(Place { file: place.file + 1, slot: 1 })
            }
            _ => Some(next),
        }
    }

    /// Whether the session continues in further files by itself.
    pub fn is_series(&self) -> bool {
        self.at_max_size == AtMaxSize::NextFile
    }

    /// Whether later buffers replace earlier ones of the same file.
    pub fn overwrites_file(&self) -> bool {
        self.at_max_size == AtMaxSize::Overwrite
    }

    /// Whether buffers stay in memory until a snapshot is taken.
    pub fn is_in_memory(&self) -> bool {
        self.when_no_buffer_is_free == WhenNoBufferIsFree::OverwriteOldest
    }

    /// Whether the file is full when `begun` buffers have been begun for it.
    pub fn is_full(&self, begun: u64, slots: Option<u64>) -> bool {
        // Every buffer gets a slot, and the header has one.
        self.at_max_size == AtMaxSize::Stop && slots.is_some_and(|slots| begun + 1 >= slots)
    }
}
