//! Event logs by name: `etw log list` and `etw log set`, and what `wevtutil` shares with them.

use crate::format::{TextOrJson, safe};
use crate::frontends::answer::print;
use crate::output::{Failure, Outcome, counted};
use clap::Args;
use etw_eventlog::channel::{Change, Channel};
use etw_eventlog::log_file::clear_file;
use etw_eventlog::registry::{Registry, RegistryError, Scope};
use etw_types::{Keyword, Level};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct ListArguments {
    #[command(flatten)]
    format: TextOrJson,
}

#[derive(Args)]
pub struct SetArguments {
    /// Name of the log
    name: String,
    /// Keep its events, or not
    #[arg(long, value_name = "true|false")]
    enabled: Option<bool>,
    /// Bytes of the log, at least 1 MiB
    #[arg(long, value_name = "BYTES")]
    max_size: Option<u64>,
    /// A full log refuses new records; otherwise they overwrite the oldest
    #[arg(long, value_name = "true|false")]
    retention: Option<bool>,
    /// A full log becomes Archive-NAME-DATE.evtx, and a new one begins; needs retention
    #[arg(long, value_name = "true|false")]
    auto_backup: Option<bool>,
    /// Absolute path of the log
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Rights to read (1), write (2) and clear (4) the log, as SDDL: D:(A;;0x7;;;BA)(A;;0x1;;;S-1-22-1-UID)
    #[arg(long, value_name = "SDDL")]
    access: Option<String>,
    /// Keep events up to this level; 0: all
    #[arg(long, value_name = "LEVEL")]
    level: Option<u8>,
    /// Keep events with one of these keywords, a hexadecimal mask; 0: all
    #[arg(long, value_name = "MASK", value_parser = mask)]
    keywords: Option<u64>,
    /// Undo all earlier changes first
    #[arg(long)]
    reset: bool,
    /// The log of the machine, not of this user
    #[arg(long)]
    machine: bool,
}

/// A mask in hexadecimal digits, with or without `0x`.
pub fn mask(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "not a hexadecimal mask, as in 0x8000".to_owned())
}

/// The registry. `machine`: only the machine's logs.
pub fn registry(machine: bool) -> Registry {
    let mut note = |note: String| eprintln!("etw: note: {note}");
    match machine {
        true => Registry::of(&[Scope::machine()], &mut note),
        false => Registry::load(&mut note),
    }
}

/// The file of a log: the word itself if it is a file or has the extension of one, else the file of the log with this name.
/// It may not exist yet.
pub fn log_file(log: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(log);
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if path.is_file()
        || ["evtx", "evt", "etl"].iter().any(|known| extension.eq_ignore_ascii_case(known))
    {
        return Ok(path.to_owned());
    }
    let registry = registry(false);
    let channel = registry.channel(log).map_err(|error| failure(&error))?;
    Ok(channel.settings.file.clone())
}

/// [`log_file`] of a log that has records; `None`: nothing was written to it yet.
pub fn existing_log_file(log: &str) -> Result<Option<PathBuf>, Failure> {
    let file = log_file(log)?;
    let is_missing = file != Path::new(log) && !file.exists();
    Ok(if is_missing { None } else { Some(file) })
}

/// The failure of a command that a registry refused.
pub fn failure(error: &RegistryError) -> Failure {
    match error {
        RegistryError::Setting { .. } | RegistryError::FileTaken { .. } => {
            Failure::Usage(error.to_string())
        }
        _ => Failure::new(error.to_string()),
    }
}

/// Changes a log's settings, and notifies the hosts that keep it.
pub fn change(registry: &mut Registry, name: &str, change: &Change) -> Result<(), Failure> {
    registry.set(name, change).map_err(|error| failure(&error))?;
    notify();
    Ok(())
}

/// Lets running hosts read the registry again.
pub fn notify() {
    #[cfg(target_os = "linux")]
    for warning in etw_wire::kept_logs::refresh() {
        eprintln!("etw: warning: {warning}");
    }
}

/// A log as a running host has it.
struct Kept {
    name: String,
    lost: u64,
    failure: Option<String>,
}

/// The logs that running hosts keep.
fn kept() -> Vec<Kept> {
    #[cfg(target_os = "linux")]
    let kept = etw_wire::kept_logs::states().into_iter().map(|log| Kept {
        name: log.name,
        lost: log.lost,
        failure: log.failure,
    });
    #[cfg(not(target_os = "linux"))]
    let kept = std::iter::empty();
    kept.collect()
}

/// The state of a log as its host has it.
struct LogState {
    word: &'static str,
    lost: u64,
    failure: Option<String>,
}

fn state(channel: &Channel, kept: &[Kept]) -> LogState {
    let found = kept.iter().find(|log| channel.is_named(&log.name));
    match found {
        Some(Kept { lost, failure: Some(failure), .. }) => {
            LogState { word: "failing", lost: *lost, failure: Some(failure.clone()) }
        }
        Some(Kept { lost, .. }) => LogState { word: "kept", lost: *lost, failure: None },
        None if channel.settings.is_enabled => LogState { word: "on", lost: 0, failure: None },
        None => LogState { word: "off", lost: 0, failure: None },
    }
}

#[derive(Args)]
pub struct ClearArguments {
    /// Name of the log
    name: String,
    /// Write its records to this event log first; it must not exist
    #[arg(long, value_name = "FILE.evtx")]
    backup: Option<PathBuf>,
}

/// `etw log clear`
pub fn clear(arguments: &ClearArguments) -> Result<Outcome, Failure> {
    clear_log(&arguments.name, arguments.backup.as_deref())
}

/// Removes the records of a log, by its host if one keeps it.
pub fn clear_log(name: &str, backup: Option<&Path>) -> Result<Outcome, Failure> {
    let registry = registry(false);
    let file = registry.log_file(name).map_err(|error| match error {
        RegistryError::Direct { .. } => {
            Failure::new(format!("{error}; disabling and enabling the channel starts a new file"))
        }
        _ => failure(&error),
    })?;
    let channel = registry.channel(name).map_err(|error| failure(&error))?;
    let backup = backup.map(std::path::absolute).transpose().map_err(Failure::new)?;
    #[cfg(target_os = "linux")]
    {
        let cleared = etw_wire::kept_logs::clear(&channel.name, backup.clone());
        if cleared.map_err(crate::live::host::failure)? {
            return Ok(Outcome::Done);
        }
    }
    clear_file(file, backup.as_deref(), &channel.access())
        .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    Ok(Outcome::Done)
}

pub fn list(arguments: &ListArguments) -> Result<Outcome, Failure> {
    let registry = registry(false);
    let mut text = String::new();
    if !arguments.format.is_json() {
        text = format!(
            "{:<8} {:<12} {:<8} {:>12}  {:<10} {}\n",
            "state", "type", "scope", "size limit", "when full", "log"
        );
    }
    let kept = kept();
    for channel in registry.channels() {
        let state = state(channel, &kept);
        let line = match arguments.format.is_json() {
            true => json(channel, state).to_string(),
            false => line(channel, state),
        };
        text += &line;
        text.push('\n');
    }
    print(&text)
}

fn when_full(channel: &Channel) -> &'static str {
    match (channel.settings.retention, channel.settings.auto_backup) {
        (false, _) => "overwrite",
        (true, false) => "refuse",
        (true, true) => "archive",
    }
}

fn scope(channel: &Channel) -> &'static str {
    if channel.is_machine { "machine" } else { "user" }
}

fn line(channel: &Channel, state: LogState) -> String {
    let LogState { word: state, lost, failure } = state;
    let settings = &channel.settings;
    let mut line = format!(
        "{state:<8} {:<12} {:<8} {:>12}  {:<10} {}",
        channel.kind.name(),
        scope(channel),
        settings.max_size,
        when_full(channel),
        safe(&channel.name)
    );
    if lost > 0 {
        let _ = write!(line, "  ({} lost)", counted(lost, "record"));
    }
    if let Some(failure) = failure {
        let _ = write!(line, "  {}", safe(&failure));
    }
    line
}

fn json(channel: &Channel, state: LogState) -> serde_json::Value {
    let LogState { word: state, lost, failure } = state;
    let settings = &channel.settings;
    let publishers: Vec<serde_json::Value> = channel
        .publishers
        .iter()
        .map(|one| {
            serde_json::json!({
                "provider": one.name, "guid": one.guid.to_string(), "value": one.value
            })
        })
        .collect();
    serde_json::json!({
        "log": channel.name,
        "type": channel.kind.name(),
        "isolation": channel.settings.isolation.name(),
        "scope": scope(channel),
        "enabled": settings.is_enabled,
        "state": state,
        "lost": lost,
        "failure": failure,
        "file": settings.file.to_string_lossy(),
        "max_size": settings.max_size,
        "retention": settings.retention,
        "auto_backup": settings.auto_backup,
        "access": settings.access,
        "level": settings.level.0,
        "keywords": format!("{:#x}", settings.keywords),
        "providers": publishers,
    })
}

pub fn set(arguments: &SetArguments) -> Result<Outcome, Failure> {
    let mut registry = registry(arguments.machine);
    if arguments.reset {
        registry.reset(&arguments.name).map_err(|error| failure(&error))?;
    }
    let wanted = Change {
        is_enabled: arguments.enabled,
        isolation: None,
        file: arguments.file.clone(),
        retention: arguments.retention,
        auto_backup: arguments.auto_backup,
        max_size: arguments.max_size,
        access: arguments.access.clone(),
        level: arguments.level.map(Level),
        keywords: arguments.keywords.map(Keyword),
    };
    if wanted == Change::default() && !arguments.reset {
        let what = "etw log set: name a setting to change; etw log set --help lists them";
        return Err(Failure::Usage(what.to_owned()));
    }
    change(&mut registry, &arguments.name, &wanted)?;
    Ok(Outcome::Done)
}

/// A log's settings as `wevtutil gl` prints them.
pub fn windows_text(channel: &Channel) -> String {
    let mut text = String::new();
    let settings = &channel.settings;
    for (key, value) in [
        ("name", channel.name.clone()),
        ("enabled", settings.is_enabled.to_string()),
        ("type", channel.kind.name().to_owned()),
        ("owningPublisher", channel.owner().unwrap_or_default().to_owned()),
        ("isolation", channel.settings.isolation.name().to_owned()),
        ("channelAccess", settings.access.clone()),
        ("logging", String::new()),
        ("  logFileName", settings.file.to_string_lossy().into_owned()),
        ("  retention", settings.retention.to_string()),
        ("  autoBackup", settings.auto_backup.to_string()),
        ("  maxSize", settings.max_size.to_string()),
        ("publishing", String::new()),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key}:{}{}", if value.is_empty() { "" } else { " " }, safe(&value));
    }
    if settings.level != Level(0) {
        let _ = writeln!(text, "  level: {}", settings.level);
    }
    if settings.keywords != Keyword(0) {
        let _ = writeln!(text, "  keywords: {:#x}", settings.keywords);
    }
    // Windows' default; every log has one file at a time here.
    text + "  fileMax: 1\n"
}

/// A log's settings as `wevtutil gl /f:xml` prints them, and `sl /c:` reads them.
pub fn windows_xml(channel: &Channel) -> String {
    let settings = &channel.settings;
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<channel name=\"{}\" isolation=\"{}\" type=\"{}\" enabled=\"{}\" \
         owningPublisher=\"{}\" access=\"{}\" \
         xmlns=\"http://schemas.microsoft.com/win/2004/08/events\">\n  <logging>\n",
        escaped(&channel.name),
        channel.settings.isolation.name(),
        channel.kind.name(),
        settings.is_enabled,
        escaped(channel.owner().unwrap_or_default()),
        escaped(&settings.access),
    );
    for (name, value) in [
        ("logFileName", escaped(&settings.file.to_string_lossy())),
        ("retention", settings.retention.to_string()),
        ("autoBackup", settings.auto_backup.to_string()),
        ("maxSize", settings.max_size.to_string()),
    ] {
        let _ = writeln!(xml, "    <{name}>{value}</{name}>");
    }
    xml += "  </logging>\n  <publishing>\n";
    if settings.level != Level(0) {
        let _ = writeln!(xml, "    <level>{}</level>", settings.level);
    }
    if settings.keywords != Keyword(0) {
        let _ = writeln!(xml, "    <keywords>{:#x}</keywords>", settings.keywords);
    }
    xml + "    <fileMax>1</fileMax>\n  </publishing>\n</channel>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
