//! [`Channel`]: a channel with its settings, as manifests and the user define it.

use crate::access::{Access, AccessError};
use etw_decode::manifest::ManifestChannel;
use etw_types::{Guid, Keyword, Level};
use std::fmt;
use std::path::{Path, PathBuf};

/// Bytes of a log that nobody sizes, and the smallest one.
pub const DEFAULT_MAX_SIZE: u64 = 1_052_672;
/// Bytes of System and Application.
const GLOBAL_MAX_SIZE: u64 = 20 << 20;
/// Bytes of the smallest log.
pub const MIN_MAX_SIZE: u64 = 1 << 20;
/// Bytes of the largest log that can be set.
pub const MAX_MAX_SIZE: u64 = 1 << 40;
/// Channels of one provider.
pub const MAX_CHANNELS_OF_PROVIDER: usize = 8;
/// Characters of a channel's name.
pub const MAX_NAME: usize = 255;

/// `channelAccess` of channels with isolation Application: users write and read.
const APPLICATION_ACCESS: &str = "O:BAG:SYD:(A;;0xf0007;;;SY)(A;;0x7;;;BA)(A;;0x3;;;IU)(A;;0x3;;;SU)(A;;0x3;;;S-1-5-3)(A;;0x1;;;S-1-5-32-573)";
/// `channelAccess` of channels with isolation System: users read.
const SYSTEM_ACCESS: &str = "O:BAG:SYD:(A;;0xf0007;;;SY)(A;;0x7;;;BA)(A;;0x1;;;IU)(A;;0x3;;;SU)(A;;0x1;;;S-1-5-3)(A;;0x1;;;S-1-5-32-573)";

/// The kind of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChannelKind {
    /// For administrators; kept in a log.
    Admin,
    /// For operators; kept in a log.
    #[default]
    Operational,
    /// Many events; recorded in a trace on request.
    Analytic,
    /// For developers; recorded in a trace on request.
    Debug,
}

impl ChannelKind {
    /// All kinds, by Windows' number.
    pub const ALL: [ChannelKind; 4] =
        [ChannelKind::Admin, ChannelKind::Operational, ChannelKind::Analytic, ChannelKind::Debug];

    /// Windows' name.
    pub const fn name(self) -> &'static str {
        match self {
            ChannelKind::Admin => "Admin",
            ChannelKind::Operational => "Operational",
            ChannelKind::Analytic => "Analytic",
            ChannelKind::Debug => "Debug",
        }
    }

    /// Windows' number (`EVT_CHANNEL_TYPE`).
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The kind of a name, in any case.
    pub fn parse(name: &str) -> Option<ChannelKind> {
        ChannelKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Whether its events are recorded in a trace (`.etl`) of their own, in place of a log.
    pub const fn is_direct(self) -> bool {
        matches!(self, ChannelKind::Analytic | ChannelKind::Debug)
    }
}

/// The session that a channel shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// With other channels of applications.
    #[default]
    Application,
    /// With other channels of the system.
    System,
    /// With no other channel.
    Custom,
}

impl Isolation {
    /// All of them, by Windows' number.
    pub const ALL: [Isolation; 3] = [Isolation::Application, Isolation::System, Isolation::Custom];

    /// Windows' name.
    pub const fn name(self) -> &'static str {
        match self {
            Isolation::Application => "Application",
            Isolation::System => "System",
            Isolation::Custom => "Custom",
        }
    }

    /// Windows' number (`EVT_CHANNEL_ISOLATION_TYPE`).
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// `channelAccess` of channels with this isolation that have no other.
    pub const fn default_access(self) -> &'static str {
        match self {
            Isolation::System => SYSTEM_ACCESS,
            Isolation::Application | Isolation::Custom => APPLICATION_ACCESS,
        }
    }

    /// The isolation of a name, in any case.
    pub fn parse(name: &str) -> Option<Isolation> {
        Isolation::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(name))
    }
}

/// A provider that writes to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// The provider.
    pub guid: Guid,
    /// Its name.
    pub name: String,
    /// The channel byte of its events.
    pub value: u8,
}

/// The settings of a channel that a user can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its events are kept.
    pub is_enabled: bool,
    /// The session that it shares.
    pub isolation: Isolation,
    /// The log: `.evtx`, or `.etl` for [direct](ChannelKind::is_direct) channels.
    pub file: PathBuf,
    /// A full log refuses new records. Otherwise they overwrite the oldest.
    pub retention: bool,
    /// A full log is archived, and a new one begun; needs `retention`.
    pub auto_backup: bool,
    /// Bytes of the log.
    pub max_size: u64,
    /// Rights, as SDDL.
    pub access: String,
    /// Events up to this level are kept; 0: all.
    pub level: Level,
    /// Events with one of these keywords, or with none at all, are kept; 0: all.
    pub keywords: Keyword,
}

/// Changes of a channel's settings; `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// As in [`Settings`].
    pub is_enabled: Option<bool>,
    /// As in [`Settings`].
    pub isolation: Option<Isolation>,
    /// As in [`Settings`].
    pub file: Option<PathBuf>,
    /// As in [`Settings`].
    pub retention: Option<bool>,
    /// As in [`Settings`].
    pub auto_backup: Option<bool>,
    /// As in [`Settings`].
    pub max_size: Option<u64>,
    /// As in [`Settings`].
    pub access: Option<String>,
    /// As in [`Settings`].
    pub level: Option<Level>,
    /// As in [`Settings`].
    pub keywords: Option<Keyword>,
}

/// A setting that a channel cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingError {
    /// A log of this size is not possible.
    MaxSize {
        /// In bytes.
        max_size: u64,
    },
    /// Archiving needs retention.
    AutoBackup,
    /// The file's path is not absolute.
    RelativeFile {
        /// The path.
        file: PathBuf,
    },
    /// The file's extension does not fit the channel.
    Extension {
        /// The path.
        file: PathBuf,
        /// The one that does.
        extension: &'static str,
    },
    /// The SDDL text cannot be read.
    Access(AccessError),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::MaxSize { max_size } => {
                write!(f, "a log has from 1 MiB to 1 TiB, not {max_size} bytes")
            }
            SettingError::AutoBackup => {
                f.write_str("autoBackup needs retention: set retention to true, too")
            }
            SettingError::RelativeFile { file } => {
                write!(f, "{}: the log's file needs an absolute path", file.display())
            }
            SettingError::Extension { file, extension } => {
                write!(f, "{}: the file of this channel ends in .{extension}", file.display())
            }
            SettingError::Access(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SettingError {}

/// Calls a macro with the name of each setting that a [`Change`] may have.
macro_rules! for_each_setting {
    ($then:ident) => {
        $then!(
            is_enabled,
            isolation,
            file,
            retention,
            auto_backup,
            max_size,
            access,
            level,
            keywords
        )
    };
}

impl Settings {
    /// Applies changes.
    ///
    /// # Errors
    /// The first rule that the settings would break; they are then as they were.
    pub fn change(&mut self, change: &Change, kind: ChannelKind) -> Result<(), SettingError> {
        let mut new = self.clone();
        macro_rules! set {
            ($($field:ident),*) => {
                $(if let Some(value) = &change.$field { new.$field = value.clone(); })*
            };
        }
        for_each_setting!(set);
        if change.retention == Some(false) && change.auto_backup.is_none() {
            new.auto_backup = false;
        }
        if change.max_size.is_some() {
            // Windows rounds up to whole chunks.
            new.max_size = new.max_size.checked_next_multiple_of(64 << 10).unwrap_or(u64::MAX);
        }
        new.validate(kind).map_err(|error| match (error, change.max_size) {
            // The message names the size that was asked for.
            (SettingError::MaxSize { .. }, Some(max_size)) => SettingError::MaxSize { max_size },
            (error, _) => error,
        })?;
        *self = new;
        Ok(())
    }

    fn validate(&self, kind: ChannelKind) -> Result<(), SettingError> {
        if !(MIN_MAX_SIZE..=MAX_MAX_SIZE).contains(&self.max_size) {
            return Err(SettingError::MaxSize { max_size: self.max_size });
        }
        if self.auto_backup && !self.retention {
            return Err(SettingError::AutoBackup);
        }
        if !self.file.is_absolute() {
            return Err(SettingError::RelativeFile { file: self.file.clone() });
        }
        let extension = extension(kind);
        if !self.file.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension)) {
            return Err(SettingError::Extension { file: self.file.clone(), extension });
        }
        Access::parse(&self.access).map_err(SettingError::Access)?;
        Ok(())
    }

    /// The changes that make these settings of others.
    pub fn difference(&self, from: &Settings) -> Change {
        macro_rules! change {
            ($($field:ident),*) => {
                Change { $($field: (self.$field != from.$field).then(|| self.$field.clone())),* }
            };
        }
        for_each_setting!(change)
    }
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its name, compared without case.
    pub name: String,
    /// Its kind.
    pub kind: ChannelKind,
    /// Programs write to it with `ReportEvent` (System, Application).
    pub is_classic: bool,
    /// It is of the whole machine; otherwise of the user.
    pub is_machine: bool,
    /// Providers that write to it; the first one owns it.
    pub publishers: Vec<Publisher>,
    /// The settings that hold.
    pub settings: Settings,
    /// The settings that it had before the user changed any.
    pub defaults: Settings,
}

impl Channel {
    /// System or Application.
    pub(crate) fn global(name: &str, isolation: Isolation, folder: &Path) -> Channel {
        let mut channel = Channel::new(name, ChannelKind::Admin, isolation, folder);
        channel.is_classic = true;
        channel.settings.max_size = GLOBAL_MAX_SIZE;
        channel.defaults = channel.settings.clone();
        channel
    }

    /// A channel of a manifest.
    pub(crate) fn of_manifest(channel: &ManifestChannel, folder: &Path) -> Channel {
        let config = &channel.config;
        let kind = config.kind.as_deref().and_then(ChannelKind::parse);
        // Compiled manifests have no kind; channels are named after theirs.
        let kind = kind.or_else(|| ChannelKind::parse(channel.name.rsplit(['/', '-']).next()?));
        let isolation = config.isolation.as_deref().and_then(Isolation::parse);
        let kind = kind.unwrap_or_default();
        let mut made = Channel::new(&channel.name, kind, isolation.unwrap_or_default(), folder);
        let change = Change {
            is_enabled: config.enabled,
            isolation: None,
            file: None,
            retention: config.retention,
            auto_backup: config.auto_backup,
            max_size: config.max_size,
            access: config.access.clone(),
            level: config.level,
            keywords: config.keywords,
        };
        // A manifest with a setting that cannot be has the default ones.
        let _ = made.settings.change(&change, kind);
        made.defaults = made.settings.clone();
        made
    }

    fn new(name: &str, kind: ChannelKind, isolation: Isolation, folder: &Path) -> Channel {
        let settings = Settings {
            is_enabled: !kind.is_direct(),
            isolation,
            file: folder.join(format!("{}.{}", file_stem(name), extension(kind))),
            retention: false,
            auto_backup: false,
            max_size: DEFAULT_MAX_SIZE,
            access: isolation.default_access().to_owned(),
            level: Level(0),
            keywords: Keyword(0),
        };
        Channel {
            name: name.to_owned(),
            kind,
            is_classic: false,
            is_machine: false,
            publishers: Vec::new(),
            defaults: settings.clone(),
            settings,
        }
    }

    /// Whether the channel has this name; case does not matter.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.to_lowercase() == name.to_lowercase()
    }

    /// Name of the provider that owns it.
    pub fn owner(&self) -> Option<&str> {
        self.publishers.first().map(|publisher| publisher.name.as_str())
    }

    /// Its rights.
    pub fn access(&self) -> Access {
        // Settings are checked when they are set or read.
        Access::parse(&self.settings.access).unwrap_or_default()
    }
}

fn extension(kind: ChannelKind) -> &'static str {
    if kind.is_direct() { "etl" } else { "evtx" }
}

/// The name of a channel's file: `/` is `%4`, as in Windows. Other characters that file systems reject are `_`.
fn file_stem(name: &str) -> String {
    let mut stem = String::new();
    for character in name.chars().take(MAX_NAME) {
        match character {
            '/' => stem.push_str("%4"),
            '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' | '\0'..='\x1f' => stem.push('_'),
            other => stem.push(other),
        }
        if stem.len() > 200 {
            break;
        }
    }
    // No name is a folder.
    if stem.chars().all(|character| character == '.') { format!("_{stem}") } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_in_windows() {
        let channel = |name| {
            let channel =
                ManifestChannel { name: String::from(name), ..ManifestChannel::default() };
            Channel::of_manifest(&channel, Path::new("/logs"))
        };
        let of = |name| channel(name).settings.file;
        assert_eq!(of("Shop/Operational"), Path::new("/logs/Shop%4Operational.evtx"));
        assert_eq!(of("Shop/Debug"), Path::new("/logs/Shop%4Debug.etl"));
        assert_eq!(of("../../x"), Path::new("/logs/..%4..%4x.evtx"));
        assert_eq!(of(".."), Path::new("/logs/_...evtx"));
        assert_eq!(channel("Shop-Analytic").kind, ChannelKind::Analytic);
    }

    /// OV-22: a setting that a log cannot have changes nothing.
    #[test]
    fn settings_that_no_log_can_have_are_rejected() {
        let mut channel = Channel::global("Application", Isolation::Application, Path::new("/l"));
        let before = channel.settings.clone();
        for (change, text) in [
            (
                Change { max_size: Some(1000), ..Change::default() },
                "1 MiB to 1 TiB, not 1000 bytes",
            ),
            (Change { auto_backup: Some(true), ..Change::default() }, "retention"),
            (Change { file: Some("a.evtx".into()), ..Change::default() }, "absolute"),
            (Change { file: Some("/a.etl".into()), ..Change::default() }, ".evtx"),
            (Change { access: Some("x".into()), ..Change::default() }, "column 1"),
        ] {
            let error = channel.settings.change(&change, channel.kind).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(channel.settings, before);
        }
        let change = Change {
            retention: Some(true),
            auto_backup: Some(true),
            max_size: Some(2_000_000),
            ..Change::default()
        };
        channel.settings.change(&change, channel.kind).unwrap();
        assert_eq!(channel.settings.max_size, 31 << 16);
        assert_eq!(channel.settings.difference(&before).max_size, Some(31 << 16));
    }
}
