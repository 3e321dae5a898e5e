//! The description of a session, and every rule of ETW that it must keep.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etw_types::Guid;

use crate::compression::Compression;
use crate::config_error::{ConfigError, ConfigOption, MAX_PROVIDER_NAME};
use crate::enable::EnableInfo;
use crate::file_mode::FileMode;
use crate::log_mode::{AtMaxSize, LogMode, LogPolicy};
use crate::provider_key::ProviderKey;

/// UTF-16 units of a session's name, its NUL included.
const NAME_UNITS: usize = 1024;
/// Bytes of all buffers of a session.
pub const MAX_BUFFER_MEMORY: u64 = 2 << 30;
/// Bytes of one buffer.
const BUFFER_SIZES: std::ops::RangeInclusive<u32> = 1024..=16 << 20;
/// Buffers that the smallest file holds, its header among them.
const MIN_FILE_BUFFERS: u64 = 3;
/// Bytes of the smallest event log.
const MIN_EVENT_LOG: u64 = 1 << 20;
/// Buffers that the smallest event log holds: records are some times larger than events.
const MIN_EVENT_LOG_BUFFERS: u64 = 16;
/// The flush timer of a real-time session that sets none.
const REAL_TIME_FLUSH_TIMER: Duration = Duration::from_secs(1);

/// The configuration of a session. [`validate`](SessionConfig::validate) checks it against every rule of ETW.
#[doc(alias = "EVENT_TRACE_PROPERTIES")]
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// The session's name, compared without case.
    pub name: String,
    /// The session's GUID; the host makes one when it is zero.
    pub guid: Guid,
    /// The file; with `%d` for a series of files.
    pub file: Option<PathBuf>,
    /// How the session uses its output.
    pub mode: LogMode,
    /// Reserve the maximum size of the file when it begins.
    pub preallocate: bool,
    /// Whether the file's buffers are compressed.
    pub compression: Compression,
    /// Deliver events to consumers.
    pub real_time: bool,
    /// Bytes of a buffer: a multiple of 1 KiB, from 1 KiB to 16 MiB.
    pub buffer_size: u32,
    /// Number of buffers; at least 2.
    pub buffer_count: u32,
    /// Partly filled buffers are stored after this time. See [`effective_flush_timer`](SessionConfig::effective_flush_timer).
    pub flush_timer: Option<Duration>,
    /// Clock of the timestamps.
    pub clock: SessionClock,
    /// One stream of buffers for each CPU; when false, one for all (`NO_PER_PROCESSOR_BUFFERING`).
    pub per_processor: bool,
    /// The session neither blocks other sessions nor is blocked by them (`INDEPENDENT_SESSION`).
    pub independent: bool,
    /// The session records only events of root's and of its owner's programs (`SECURE`).
    pub secure: bool,
    /// The providers that are enabled from the session's start.
    pub enable: Vec<Enablement>,
    /// The events of the system that the session records.
    pub system: Option<SystemConfig>,
}

impl Default for SessionConfig {
    fn default() -> SessionConfig {
        SessionConfig {
            name: String::new(),
            guid: Guid::ZERO,
            file: None,
            mode: LogMode::default(),
            preallocate: false,
            compression: Compression::Off,
            real_time: false,
            buffer_size: 64 << 10,
            buffer_count: 64,
            flush_timer: None,
            clock: SessionClock::Qpc,
            per_processor: true,
            independent: false,
            secure: false,
            enable: Vec::new(),
            system: None,
        }
    }
}

/// Whether a session's file is an event log, by its name.
pub fn is_event_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("evtx"))
}

/// The events of the system that a session records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct SystemConfig {
    /// The eight words of group masks; the first one is `EnableFlags`.
    pub masks: [u32; 8],
    /// The kernel events whose call stacks are recorded.
    pub stacks: Vec<u16>,
    /// Time between two samples of a CPU, in 100 ns.
    pub sample_interval: u32,
    /// Record this process and its children, when the host may not record the whole machine.
    pub process: Option<u32>,
    /// Nobody asked for processes, threads and images; the masks have them because other events cannot be read without. If the host may
    /// record none of those, the session does not start.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "std::ops::Not::not"))]
    pub adds_lives: bool,
}

/// A provider or provider group, and its enablement by a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Enablement {
    /// The provider or group.
    pub provider: ProviderKey,
    /// Level, keywords, properties and filters.
    pub info: EnableInfo,
}

impl Enablement {
    /// An enablement of a provider.
    pub fn new(provider: impl Into<ProviderKey>, info: EnableInfo) -> Enablement {
        Enablement { provider: provider.into(), info }
    }
}

/// Clock of a session's timestamps.
#[doc(alias = "Wnode.ClientContext")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum SessionClock {
    /// 1: the performance counter, 10 MHz.
    #[default]
    Qpc,
    /// 2: system time, FILETIME.
    System,
    /// 3: the processor's cycle counter; the performance counter on machines without a usable one.
    Cycles,
}

impl SessionClock {
    /// All clocks.
    pub const ALL: [SessionClock; 3] =
        [SessionClock::Qpc, SessionClock::System, SessionClock::Cycles];

    /// The clock's word on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            SessionClock::Qpc => "qpc",
            SessionClock::System => "system",
            SessionClock::Cycles => "cycles",
        }
    }

    /// The clock's line in help texts.
    pub const fn description(self) -> &'static str {
        match self {
            SessionClock::Qpc => "The performance counter, 10 MHz",
            SessionClock::System => "System time",
            SessionClock::Cycles => "The processor's cycle counter",
        }
    }

    /// The number of ETW's `ClientContext`.
    pub const fn number(self) -> u32 {
        match self {
            SessionClock::Qpc => 1,
            SessionClock::System => 2,
            SessionClock::Cycles => 3,
        }
    }

    /// The default clock of a mode: a file that is appended to is in system time.
    pub const fn default_of(mode: LogMode) -> SessionClock {
        match mode {
            LogMode::Append => SessionClock::System,
            _ => SessionClock::Qpc,
        }
    }

    /// The clock of a `ClientContext`; 0 is the performance counter. For a session that starts, 0 is
    /// [`default_of`](Self::default_of) its mode.
    ///
    /// # Errors
    /// `Clock` for other numbers.
    pub const fn of_number(number: u32) -> Result<SessionClock, ConfigError> {
        match number {
            0 | 1 => Ok(SessionClock::Qpc),
            2 => Ok(SessionClock::System),
            3 => Ok(SessionClock::Cycles),
            number => Err(ConfigError::Clock { number }),
        }
    }
}

impl SessionConfig {
    /// Checks that a session can have these options together.
    ///
    /// # Errors
    /// The first rule of ETW that they break.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let units = self.name.encode_utf16().count();
        if !(1..NAME_UNITS).contains(&units) {
            return Err(ConfigError::NameLength { units });
        }
        self.validate_buffers()?;
        self.validate_output()?;
        self.validate_file()?;
        if self.system.is_some() && self.clock == SessionClock::System {
            return Err(ConfigError::SystemClock { appends: self.mode == LogMode::Append });
        }
        if self.system.is_some() && !self.per_processor {
            // The buffer of a record says on which processor its event was.
            let (option, other) = (ConfigOption::OneStream, ConfigOption::System);
            return Err(ConfigError::Exclusive { option, other });
        }
        self.enable.iter().try_for_each(Enablement::validate)
    }

    /// The rules about the size and number of buffers.
    fn validate_buffers(&self) -> Result<(), ConfigError> {
        self.validate_sizes()?;
        let (count, size) = (self.buffer_count, self.buffer_size);
        if count < 2 {
            return Err(ConfigError::BufferCount { count });
        }
        if u64::from(count) * u64::from(size) > MAX_BUFFER_MEMORY {
            return Err(ConfigError::BufferMemory { count, size });
        }
        Ok(())
    }

    /// The rules that the state machine itself depends on.
    pub(crate) fn validate_sizes(&self) -> Result<(), ConfigError> {
        let size = self.buffer_size;
        if size % 1024 != 0 || !BUFFER_SIZES.contains(&size) {
            return Err(ConfigError::BufferSize { size: size.into() });
        }
        match self.mode.policy().max_size {
            Some(max_size) if max_size < MIN_FILE_BUFFERS * u64::from(size) => {
                Err(ConfigError::MaxSizeTooSmall { max_size, buffer_size: size })
            }
            Some(max_size) if u32::try_from(max_size >> 10).is_err() => {
                Err(ConfigError::MaxSizeTooLarge { max_size })
            }
            _ => Ok(()),
        }
    }

    /// The rules about where events go.
    fn validate_output(&self) -> Result<(), ConfigError> {
        let exclusive = |option, other| Err(ConfigError::Exclusive { option, other });
        let policy = self.mode.policy();
        if policy.is_in_memory() {
            return match () {
                () if self.file.is_some() => exclusive(ConfigOption::File, ConfigOption::Buffering),
                () if self.real_time => exclusive(ConfigOption::RealTime, ConfigOption::Buffering),
                () => Ok(()),
            };
        }
        match (&self.file, self.real_time) {
            (None, false) => Err(ConfigError::NoOutput),
            (None, true) if self.mode != LogMode::default() => {
                let option = match self.mode {
                    LogMode::Sequential { .. } => ConfigOption::MaxSize,
                    _ => ConfigOption::LogMode,
                };
                Err(ConfigError::Needs { option, needs: ConfigOption::File })
            }
            (Some(_), true) if self.mode == LogMode::Append => {
                let (mode, option) = (FileMode::Append, ConfigOption::RealTime);
                Err(ConfigError::ExcludedByMode { mode, option })
            }
            _ => Ok(()),
        }
    }

    /// The rules about the file.
    fn validate_file(&self) -> Result<(), ConfigError> {
        let (policy, mode) = (self.mode.policy(), self.mode.file_mode().unwrap_or_default());
        let exclusive = |option, other| Err(ConfigError::Exclusive { option, other });
        if let Some(path) = &self.file {
            if policy.at_max_size == AtMaxSize::NextFile && !self.is_event_log() {
                let count = path.to_string_lossy().matches("%d").count();
                if count != 1 {
                    return Err(ConfigError::SeriesName { path: path.clone(), count });
                }
            }
        }
        if self.preallocate {
            let option = ConfigOption::Preallocate;
            match policy.max_size {
                None => return Err(ConfigError::MaxSizeMissing { option, mode }),
                Some(_) if policy.is_series() => {
                    return Err(ConfigError::ExcludedByMode { mode, option });
                }
                Some(_) if self.real_time => return exclusive(option, ConfigOption::RealTime),
                Some(_) => {}
            }
        }
        // Times of the other clocks count from the start of the machine or of the session.
        if self.mode == LogMode::Append && self.clock != SessionClock::System {
            return Err(ConfigError::AppendClock { clock: self.clock.name() });
        }
        if self.compression.is_possible() {
            let option = ConfigOption::Compressed;
            if self.file.is_none() {
                return Err(ConfigError::Needs { option, needs: ConfigOption::File });
            }
            if !policy.can_be_compressed {
                return Err(ConfigError::NotCompressible { mode });
            }
        }
        self.validate_event_log()
    }

    /// The rules about an event log in place of a file: it has chunks of its own, and always appends.
    fn validate_event_log(&self) -> Result<(), ConfigError> {
        if !self.is_event_log() {
            return Ok(());
        }
        let unfit = |option| Err(ConfigError::EventLog { option });
        match self.mode {
            _ if self.preallocate => unfit(ConfigOption::Preallocate),
            _ if self.compression.is_possible() => unfit(ConfigOption::Compressed),
            _ if self.system.is_some() => unfit(ConfigOption::System),
            LogMode::Append | LogMode::Buffering => unfit(ConfigOption::LogMode),
            mode => {
                let min_size =
                    MIN_EVENT_LOG.max(MIN_EVENT_LOG_BUFFERS * u64::from(self.buffer_size));
                match mode.policy().max_size {
                    Some(max_size) if max_size < min_size => {
                        Err(ConfigError::EventLogTooSmall { max_size, min_size })
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// The policy of the session's buffers. An event log applies its mode and maximum size to its own chunks, and takes any number
    /// of buffers.
    pub fn buffer_policy(&self) -> LogPolicy {
        match self.is_event_log() {
            true => LogMode::default().policy(),
            false => self.mode.policy(),
        }
    }

    /// Whether the session's file is an event log.
    pub fn is_event_log(&self) -> bool {
        self.file.as_deref().is_some_and(is_event_log)
    }

    /// The further rule of a host in another process: its working directory is not the controller's.
    ///
    /// # Errors
    /// `RelativePath`.
    pub fn validate_path(&self) -> Result<(), ConfigError> {
        match &self.file {
            Some(path) if !path.is_absolute() => {
                Err(ConfigError::RelativePath { path: path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Sets the log mode and ignores options without an effect: a session in memory has no file mode, and a session without a file
    /// reserves and compresses nothing.
    ///
    /// # Errors
    /// As [`LogMode::new`], for a session with a file.
    pub fn set_log_mode(
        &mut self,
        is_buffering: bool,
        mode: FileMode,
        max_size: Option<u64>,
    ) -> Result<(), ConfigError> {
        self.mode = match (is_buffering, &self.file) {
            (true, _) => LogMode::Buffering,
            (false, Some(_)) => LogMode::new(mode, max_size)?,
            (false, None) => LogMode::default(),
        };
        if self.file.is_none() {
            (self.preallocate, self.compression) = (false, Compression::Off);
        }
        Ok(())
    }

    /// The flush timer: the session's own, or the default of a real-time session, whose last events would otherwise wait for a full buffer.
    pub fn effective_flush_timer(&self) -> Option<Duration> {
        let default = self.real_time.then_some(REAL_TIME_FLUSH_TIMER);
        self.flush_timer.filter(|timer| !timer.is_zero()).or(default)
    }

    /// `MaximumFileSize` of the file's header, in KiB; 0: no limit.
    pub fn max_size_kb(&self) -> u32 {
        let kilobytes = self.mode.policy().max_size.unwrap_or(0) >> 10;
        u32::try_from(kilobytes).unwrap_or(u32::MAX)
    }
}

impl Enablement {
    /// Checks that a provider can be enabled in this way.
    ///
    /// # Errors
    /// `NoProvider`, `ProviderNameLength`, `Filters`.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let name = self.provider.name();
        if name == Some("") || self.provider.id().is_zero() {
            return Err(ConfigError::NoProvider);
        }
        if let Some(bytes) = name.map(str::len).filter(|bytes| *bytes > MAX_PROVIDER_NAME) {
            return Err(ConfigError::ProviderNameLength { bytes });
        }
        if let Some(filters) = &self.info.filters {
            if let Err(source) = filters.check() {
                return Err(ConfigError::Filters { provider: self.provider.id(), source });
            }
        }
        Ok(())
    }
}
