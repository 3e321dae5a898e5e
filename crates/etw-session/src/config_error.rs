//! The rules that a session's options can break, and the option to change.

use std::fmt;
use std::path::PathBuf;

use etw_types::{Guid, Status};

use crate::file_mode::FileMode;
use crate::filter_error::FilterError;

/// Bytes of a provider's name in an enablement.
pub(crate) const MAX_PROVIDER_NAME: usize = 1024;

/// An option of a session, as errors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ConfigOption {
    Name,
    File,
    LogMode,
    MaxSize,
    Preallocate,
    Compressed,
    RealTime,
    Buffering,
    BufferSize,
    BufferCount,
    Clock,
    OneStream,
    Enable,
    System,
}

impl fmt::Display for ConfigOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConfigOption::Name => "name",
            ConfigOption::File => "file",
            ConfigOption::LogMode => "log mode",
            ConfigOption::MaxSize => "maximum size",
            ConfigOption::Preallocate => "preallocation",
            ConfigOption::Compressed => "compression",
            ConfigOption::RealTime => "real-time delivery",
            ConfigOption::Buffering => "buffering in memory",
            ConfigOption::BufferSize => "buffer size",
            ConfigOption::BufferCount => "number of buffers",
            ConfigOption::Clock => "clock",
            ConfigOption::OneStream => "one stream of buffers for all processors",
            ConfigOption::Enable => "provider",
            ConfigOption::System => "system events",
        })
    }
}

/// An option that a session cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A name has 1 to 1023 UTF-16 units.
    NameLength {
        /// Units of the name.
        units: usize,
    },
    /// A buffer has a multiple of 1 KiB, from 1 KiB to 16 MiB.
    BufferSize {
        /// Bytes.
        size: u64,
    },
    /// A session has at least two buffers.
    BufferCount {
        /// Number of buffers.
        count: u32,
    },
    /// All buffers of a session have at most 2 GiB.
    BufferMemory {
        /// Number of buffers.
        count: u32,
        /// Bytes of each.
        size: u32,
    },
    /// The option needs a maximum size.
    MaxSizeMissing {
        /// Log mode or preallocation.
        option: ConfigOption,
        /// The log mode.
        mode: FileMode,
    },
    /// The log mode has no maximum size.
    MaxSizeUnused {
        /// The log mode.
        mode: FileMode,
    },
    /// A file holds at least three buffers.
    MaxSizeTooSmall {
        /// Bytes of the file.
        max_size: u64,
        /// Bytes of a buffer.
        buffer_size: u32,
    },
    /// A file's header states its maximum size in 32 bits, in KiB.
    MaxSizeTooLarge {
        /// Bytes of the file.
        max_size: u64,
    },
    /// The session has neither a file nor real-time delivery nor buffering in memory.
    NoOutput,
    /// The file's path is relative, and the host has another working directory.
    RelativePath {
        /// The path.
        path: PathBuf,
    },
    /// The name of a series of files has one `%d`.
    SeriesName {
        /// The name.
        path: PathBuf,
        /// How often it contains `%d`.
        count: usize,
    },
    /// Two options exclude each other.
    Exclusive {
        /// The one to change.
        option: ConfigOption,
        /// The other one.
        other: ConfigOption,
    },
    /// The log mode excludes an option.
    ExcludedByMode {
        /// The log mode.
        mode: FileMode,
        /// The option that is set.
        option: ConfigOption,
    },
    /// An option needs another one.
    Needs {
        /// The option that is set.
        option: ConfigOption,
        /// The option that is missing.
        needs: ConfigOption,
    },
    /// Only a sequential file without a maximum size can be compressed.
    NotCompressible {
        /// The log mode.
        mode: FileMode,
    },
    /// A session whose file is an event log cannot have an option.
    EventLog {
        /// The option that is set.
        option: ConfigOption,
    },
    /// An event log has at least 1 MiB, and holds at least sixteen buffers.
    EventLogTooSmall {
        /// Bytes of the event log.
        max_size: u64,
        /// Bytes that it needs.
        min_size: u64,
    },
    /// A file that is appended to is in system time.
    AppendClock {
        /// The name of the session's clock.
        clock: &'static str,
    },
    /// Events of the system are not in system time.
    SystemClock {
        /// The file is appended to, and system time is its only clock.
        appends: bool,
    },
    /// A number that is not a clock's.
    Clock {
        /// The number.
        number: u32,
    },
    /// A provider's GUID is zero, or its name is empty.
    NoProvider,
    /// A provider's name has at most 1024 bytes.
    ProviderNameLength {
        /// Bytes of the name.
        bytes: usize,
    },
    /// A provider's filters break a limit of ETW.
    Filters {
        /// The provider.
        provider: Guid,
        /// The limit.
        source: FilterError,
    },
}

impl ConfigError {
    /// The option to change.
    pub fn option(&self) -> ConfigOption {
        match self {
            ConfigError::NameLength { .. } => ConfigOption::Name,
            ConfigError::BufferSize { .. } => ConfigOption::BufferSize,
            ConfigError::BufferCount { .. } | ConfigError::BufferMemory { .. } => {
                ConfigOption::BufferCount
            }
            ConfigError::MaxSizeUnused { .. }
            | ConfigError::MaxSizeTooSmall { .. }
            | ConfigError::EventLogTooSmall { .. }
            | ConfigError::MaxSizeTooLarge { .. } => ConfigOption::MaxSize,
            ConfigError::NoOutput
            | ConfigError::RelativePath { .. }
            | ConfigError::SeriesName { .. } => ConfigOption::File,
            ConfigError::MaxSizeMissing { option, .. }
            | ConfigError::Exclusive { option, .. }
            | ConfigError::ExcludedByMode { option, .. }
            | ConfigError::Needs { option, .. }
            | ConfigError::EventLog { option } => *option,
            ConfigError::SystemClock { appends: true } => ConfigOption::LogMode,
            ConfigError::SystemClock { appends: false } => ConfigOption::Clock,
            ConfigError::NotCompressible { .. } => ConfigOption::Compressed,
            ConfigError::AppendClock { .. } | ConfigError::Clock { .. } => ConfigOption::Clock,
            ConfigError::NoProvider
            | ConfigError::ProviderNameLength { .. }
            | ConfigError::Filters { .. } => ConfigOption::Enable,
        }
    }

    /// The status that `StartTrace` returns.
    pub fn status(&self) -> Status {
        match self {
            ConfigError::NoOutput => Status::ERROR_BAD_PATHNAME,
            _ => Status::ERROR_INVALID_PARAMETER,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::NameLength { units } => {
                write!(f, "name of {units} characters: a session's name has 1 to 1023")
            }
            ConfigError::BufferSize { size } => {
                write!(f, "buffer size {size}: must be a multiple of 1024 from 1024 to 16777216")
            }
            ConfigError::BufferCount { count } => {
                write!(f, "{count} buffers: a session has at least 2")
            }
            ConfigError::BufferMemory { count, size } => {
                write!(f, "{count} buffers of {size} bytes: a session has at most 2 GiB of buffers")
            }
            ConfigError::MaxSizeMissing { option: ConfigOption::LogMode, mode } => {
                write!(f, "log mode {mode} needs a maximum size")
            }
            ConfigError::MaxSizeMissing { option, .. } => {
                write!(f, "{option} needs a maximum size")
            }
            ConfigError::MaxSizeUnused { mode } => {
                write!(f, "log mode {mode} has no maximum size")
            }
            ConfigError::MaxSizeTooSmall { max_size, buffer_size } => write!(
                f,
                "maximum size {max_size}: must hold at least three buffers of {buffer_size} bytes"
            ),
            ConfigError::MaxSizeTooLarge { max_size } => {
                write!(f, "maximum size {max_size}: must be below 4 TiB")
            }
            ConfigError::NoOutput => {
                f.write_str("a session needs a file, real-time delivery or buffering in memory")
            }
            ConfigError::RelativePath { path } => {
                write!(f, "file {}: the path must be absolute", path.display())
            }
            ConfigError::SeriesName { path, count } => write!(
                f,
                "file {}: the name of a series of files contains %d once, as in trace%d.etl; this one contains it {count} times",
                path.display()
            ),
            ConfigError::Exclusive { option, other } => {
                write!(f, "{option} and {other} exclude each other")
            }
            ConfigError::ExcludedByMode { mode, option } => {
                write!(f, "log mode {mode} excludes {option}")
            }
            ConfigError::Needs { option, needs } => write!(f, "{option} needs a {needs}"),
            ConfigError::EventLog { option } => {
                write!(f, "an event log (.evtx) excludes {option}; an .etl file can have it")
            }
            ConfigError::EventLogTooSmall { max_size, min_size } => write!(
                f,
                "maximum size {max_size}: an event log (.evtx) with these buffers needs at least {min_size} bytes"
            ),
            ConfigError::NotCompressible { mode } => write!(
                f,
                "log mode {mode} cannot be compressed: compression needs a sequential file without a maximum size"
            ),
            ConfigError::AppendClock { clock } => {
                write!(f, "clock {clock}: a file that is appended to is in system time")
            }
            ConfigError::SystemClock { appends: true } => f.write_str(
                "a file that is appended to is in system time, and events of the system are in that of the performance counter; \
                 use another log mode",
            ),
            ConfigError::SystemClock { appends: false } => f.write_str(
                "clock system: events of the system are in the time of the performance counter (qpc)",
            ),
            ConfigError::Clock { number } => {
                write!(f, "clock {number}: must be 1 (QPC), 2 (system time) or 3 (cycles)")
            }
            ConfigError::NoProvider => {
                f.write_str("the provider's GUID is zero, or its name is empty")
            }
            ConfigError::ProviderNameLength { bytes } => {
                write!(f, "a provider's name of {bytes} bytes; at most {MAX_PROVIDER_NAME}")
            }
            ConfigError::Filters { provider, source } => write!(f, "provider {provider}: {source}"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Filters { source, .. } => Some(source),
            _ => None,
        }
    }
}
