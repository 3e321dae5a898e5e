//! [`Registry`]: every channel of a user and of the machine.
//!
//! Channels come from the manifests that `etw manifest install` registered, which are packs; the user's changes are in a file
//! beside the logs:
//!
//! ```text
//! ~/.local/share/etw/packs/*.etwpack     /var/lib/openetw/packs/*.etwpack     manifests
//! ~/.local/share/etw/logs/channels.json  /var/lib/openetw/logs/channels.json  changes
//! ~/.local/share/etw/logs/NAME.evtx      /var/lib/openetw/logs/NAME.evtx      logs
//! ```
//!
//! Both folders follow the places of the packs (`XDG_DATA_HOME`, `ETW_MACHINE_PACKS`).

use crate::channel::{
    Change, Channel, Isolation, MAX_CHANNELS_OF_PROVIDER, MAX_NAME, Publisher, SettingError,
};
use etw_decode::pack::{Pack, ProviderContents, SourceKind};
use etw_decode::registered;
use etw_types::{Keyword, Level};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The file of changes.
const FILE: &str = "channels.json";
/// Its bytes, at most.
const MAX_FILE: u64 = 8 << 20;
/// Bytes of a pack with manifests.
const MAX_PACK: u64 = 256 << 20;
/// Channels of a registry.
const MAX_CHANNELS: usize = 4096;

/// The names of channels that every machine has.
pub const APPLICATION: &str = "Application";
/// See [`APPLICATION`].
pub const SYSTEM: &str = "System";

/// Manifests and logs of a user, or of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The folder of the packs.
    pub packs: PathBuf,
    /// The folder of the logs.
    pub logs: PathBuf,
    /// They are the machine's.
    pub is_machine: bool,
}

impl Scope {
    /// The manifests and logs of the present user; `None`: the user has no home.
    pub fn user() -> Option<Scope> {
        registered::store().map(|packs| Scope::beside(packs, false))
    }

    /// Those of the machine.
    pub fn machine() -> Scope {
        Scope::beside(registered::machine_store(), true)
    }

    fn beside(packs: PathBuf, is_machine: bool) -> Scope {
        let logs = packs.parent().unwrap_or(Path::new("/")).join("logs");
        Scope { packs, logs, is_machine }
    }

    /// The scopes of a user, the one first whose channels hide those of the others: for root, the machine's is.
    pub fn all(is_root: bool) -> Vec<Scope> {
        let (user, machine) = (Scope::user(), Scope::machine());
        match is_root {
            true => std::iter::once(machine).chain(user).collect(),
            false => user.into_iter().chain([machine]).collect(),
        }
    }

    /// The scopes whose logs a host keeps: that of its user and, if this is root, that of the machine.
    pub fn of_host(is_root: bool) -> Vec<Scope> {
        let mut scopes = Scope::all(is_root);
        scopes.retain(|scope| is_root || !scope.is_machine);
        scopes
    }
}

/// Why a registry was not changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegistryError {
    /// There is no such channel.
    NoChannel {
        /// Its name.
        name: String,
    },
    /// The channel has no log: its events are in a trace.
    Direct {
        /// The channel.
        name: String,
        /// The trace.
        file: PathBuf,
    },
    /// The Security log is the machine's own; nobody writes to it here.
    Security,
    /// The setting is not possible.
    Setting {
        /// The channel.
        name: String,
        /// The rule.
        error: SettingError,
    },
    /// Two channels would have one file.
    FileTaken {
        /// The file.
        file: PathBuf,
        /// The other channel.
        name: String,
    },
    /// The file of changes.
    Io {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::NoChannel { name } => {
                write!(f, "{name}: no such log; etw log list shows all of them")
            }
            RegistryError::Direct { name, file } => {
                let file = file.display();
                write!(
                    f,
                    "{name}: its events are in the trace {file}; etw dump and OpenTrace read it"
                )
            }
            RegistryError::Security => f.write_str(
                "Security: this log is read-only, and there is none here; name another log",
            ),
            RegistryError::Setting { name, error } => write!(f, "{name}: {error}"),
            RegistryError::FileTaken { file, name } => {
                write!(f, "{}: this is the file of {name}; name another one", file.display())
            }
            RegistryError::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for RegistryError {}

impl RegistryError {
    /// Windows' error: `ERROR_EVT_CHANNEL_NOT_FOUND` and others.
    pub fn code(&self) -> u32 {
        match self {
            RegistryError::NoChannel { .. } => 15_007,
            RegistryError::Direct { .. } => 50,
            RegistryError::Security => 5,
            RegistryError::Setting { .. } | RegistryError::FileTaken { .. } => 87,
            RegistryError::Io { error, .. } => match error.kind() {
                io::ErrorKind::PermissionDenied => 5,
                _ => 1,
            },
        }
    }
}

/// The changes of a channel, as they are in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_backup: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keywords: Option<u64>,
}

impl From<Change> for Stored {
    fn from(change: Change) -> Stored {
        Stored {
            enabled: change.is_enabled,
            isolation: change.isolation.map(|isolation| isolation.name().to_owned()),
            file: change.file,
            retention: change.retention,
            auto_backup: change.auto_backup,
            max_size: change.max_size,
            access: change.access,
            level: change.level.map(|level| level.0),
            keywords: change.keywords.map(|mask| mask.0),
        }
    }
}

impl From<Stored> for Change {
    fn from(stored: Stored) -> Change {
        Change {
            is_enabled: stored.enabled,
            isolation: stored.isolation.as_deref().and_then(Isolation::parse),
            file: stored.file,
            retention: stored.retention,
            auto_backup: stored.auto_backup,
            max_size: stored.max_size,
            access: stored.access,
            level: stored.level.map(Level),
            keywords: stored.keywords.map(Keyword),
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct StoredFile {
    #[serde(default)]
    channels: BTreeMap<String, Stored>,
}

/// Every channel.
#[derive(Clone, Debug)]
pub struct Registry {
    scopes: Vec<Scope>,
    channels: Vec<Channel>,
}

impl Registry {
    /// The registry of the present user: the user's channels and the machine's. Parts that cannot be read are left out, and
    /// `note` receives why.
    pub fn load(note: &mut dyn FnMut(String)) -> Registry {
        Registry::of(&Scope::all(is_root()), note)
    }

    /// The registry of scopes. A channel hides those of the same name in later scopes.
    pub fn of(scopes: &[Scope], note: &mut dyn FnMut(String)) -> Registry {
        let mut channels: Vec<Channel> = Vec::new();
        for scope in scopes {
            let own = channels_of(scope, note);
            let hidden: Vec<String> =
                channels.iter().map(|channel| channel.name.to_lowercase()).collect();
            channels.extend(
                own.into_iter().filter(|channel| !hidden.contains(&channel.name.to_lowercase())),
            );
        }
        channels.sort_by_cached_key(|channel| channel.name.to_lowercase());
        Registry { scopes: scopes.to_vec(), channels }
    }

    /// The channels, by name.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// The channel of a name, in any case.
    ///
    /// # Errors
    /// `NoChannel`, `Security`.
    pub fn channel(&self, name: &str) -> Result<&Channel, RegistryError> {
        let found = self.channels.iter().find(|channel| channel.is_named(name));
        found.ok_or_else(|| match name.eq_ignore_ascii_case("Security") {
            true => RegistryError::Security,
            false => RegistryError::NoChannel { name: name.to_owned() },
        })
    }

    /// The log of a channel, which may not exist yet.
    ///
    /// # Errors
    /// `NoChannel`, `Security`; `Direct` if the channel's events are in a trace.
    pub fn log_file(&self, name: &str) -> Result<&Path, RegistryError> {
        let channel = self.channel(name)?;
        let file = &channel.settings.file;
        match channel.kind.is_direct() {
            true => {
                let (name, file) = (channel.name.clone(), file.clone());
                Err(RegistryError::Direct { name, file })
            }
            false => Ok(file),
        }
    }

    /// Changes a channel's settings, here and in the file, which is replaced as a whole. A host that keeps the log must be
    /// notified.
    ///
    /// # Errors
    /// [`RegistryError`]; nothing is changed then.
    pub fn set(&mut self, name: &str, change: &Change) -> Result<(), RegistryError> {
        let mut channel = self.channel(name)?.clone();
        let set = channel.settings.change(change, channel.kind);
        set.map_err(|error| RegistryError::Setting { name: channel.name.clone(), error })?;
        self.store(channel)
    }

    /// Gives a channel the settings back that it had before the user changed any.
    ///
    /// # Errors
    /// [`RegistryError`]; nothing is changed then.
    pub fn reset(&mut self, name: &str) -> Result<(), RegistryError> {
        let mut channel = self.channel(name)?.clone();
        channel.settings = channel.defaults.clone();
        self.store(channel)
    }

    /// Applies the text of a file of changes, which may be anything. Settings that no log can have are left out, and `note` receives
    /// why.
    pub fn apply_changes(&mut self, text: &[u8], note: &mut dyn FnMut(String)) {
        match serde_json::from_slice(text) {
            Ok(stored) => apply(&mut self.channels, stored, Path::new(FILE), note),
            Err(error) => note(format!("{FILE}: {error}")),
        }
    }

    fn store(&mut self, channel: Channel) -> Result<(), RegistryError> {
        let file = &channel.settings.file;
        let other = |other: &&Channel| other.name != channel.name && other.settings.file == *file;
        if let Some(other) = self.channels.iter().find(other) {
            let (file, name) = (file.clone(), other.name.clone());
            return Err(RegistryError::FileTaken { file, name });
        }
        let Some(scope) = self.scopes.iter().find(|scope| scope.is_machine == channel.is_machine)
        else {
            return Err(RegistryError::NoChannel { name: channel.name });
        };
        let path = scope.logs.join(FILE);
        let failed = |error| RegistryError::Io { path: path.clone(), error };
        std::fs::create_dir_all(&scope.logs).map_err(failed)?;
        let mut stored = read_changes(&path).map_err(failed)?;
        stored.channels.retain(|name, _| !channel.is_named(name));
        let changes = Stored::from(channel.settings.difference(&channel.defaults));
        if changes != Stored::default() {
            stored.channels.insert(channel.name.clone(), changes);
        }
        write_changes(&path, &stored).map_err(failed)?;
        if let Some(known) = self.channels.iter_mut().find(|known| known.name == channel.name) {
            *known = channel;
        }
        Ok(())
    }
}

/// Whether this process is root's, as its files have it.
#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

fn channels_of(scope: &Scope, note: &mut dyn FnMut(String)) -> Vec<Channel> {
    let mut channels = vec![
        Channel::global(APPLICATION, Isolation::Application, &scope.logs),
        Channel::global(SYSTEM, Isolation::System, &scope.logs),
    ];
    let mut imports = Vec::new();
    for provider in providers(scope, note) {
        add_provider(&mut channels, &mut imports, provider, &scope.logs, note);
    }
    // An imported channel may be defined by a manifest that is read later.
    for (name, publisher) in imports {
        match channels.iter_mut().find(|channel| channel.is_named(&name)) {
            Some(channel) => channel.publishers.push(publisher),
            None => note(format!(
                "{}: it imports channel {name}, which no manifest defines",
                publisher.name
            )),
        }
    }
    let path = scope.logs.join(FILE);
    match read_changes(&path) {
        Ok(stored) => apply(&mut channels, stored, &path, note),
        Err(error) => note(format!("{}: {error}", path.display())),
    }
    channels.iter_mut().for_each(|channel| channel.is_machine = scope.is_machine);
    channels
}

fn add_provider(
    channels: &mut Vec<Channel>,
    imports: &mut Vec<(String, Publisher)>,
    provider: ProviderContents,
    folder: &Path,
    note: &mut dyn FnMut(String),
) {
    let name = provider.provider.unwrap_or_else(|| provider.guid.to_string());
    if provider.channels.len() > MAX_CHANNELS_OF_PROVIDER {
        note(format!(
            "{name}: a provider has at most {MAX_CHANNELS_OF_PROVIDER} channels; further ones are not kept"
        ));
    }
    for channel in provider.channels.iter().take(MAX_CHANNELS_OF_PROVIDER) {
        let publisher = Publisher { guid: provider.guid, name: name.clone(), value: channel.value };
        let length = channel.name.chars().count();
        if length == 0 || length > MAX_NAME || channel.name.chars().any(char::is_control) {
            note(format!("{name}: a channel's name has 1 to {MAX_NAME} characters"));
            continue;
        }
        let known = channels.iter().position(|known| known.is_named(&channel.name));
        match known {
            Some(known) => channels[known].publishers.push(publisher),
            None if channel.config.is_imported => imports.push((channel.name.clone(), publisher)),
            None if channels.len() >= MAX_CHANNELS => {
                note(format!("{name}: there are {MAX_CHANNELS} channels, which is the limit"));
                return;
            }
            None => {
                let mut made = Channel::of_manifest(channel, folder);
                made.publishers.push(publisher);
                channels.push(made);
            }
        }
    }
}

fn apply(channels: &mut [Channel], stored: StoredFile, path: &Path, note: &mut dyn FnMut(String)) {
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (index, channel) in channels.iter().enumerate() {
        by_name.insert(channel.name.to_lowercase(), index);
    }
    for (name, stored) in stored.channels {
        // A channel whose manifest was uninstalled keeps its settings for the next install.
        let Some(index) = by_name.get(&name.to_lowercase()) else { continue };
        let channel = &mut channels[*index];
        if let Err(error) = channel.settings.change(&stored.into(), channel.kind) {
            note(format!("{}: {name}: {error}", path.display()));
        }
    }
}

/// The providers of installed manifests.
pub fn providers(scope: &Scope, note: &mut dyn FnMut(String)) -> Vec<ProviderContents> {
    let is_manifest = |provider: &ProviderContents| {
        matches!(provider.kind, Some(SourceKind::Manifest | SourceKind::Compiled))
    };
    let packs = packs(scope, note);
    packs.iter().flat_map(Pack::contents).filter(is_manifest).collect()
}

/// The installed manifests, each a pack.
pub fn packs(scope: &Scope, note: &mut dyn FnMut(String)) -> Vec<Pack> {
    let Ok(entries) = std::fs::read_dir(&scope.packs) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("manifest-") && name.ends_with(".etwpack")
    });
    paths.sort();
    let mut packs = Vec::new();
    for path in paths {
        let read = read_limited(&path, MAX_PACK);
        match read.map(|bytes| Pack::open(bytes.into())) {
            Ok(Ok(pack)) => packs.push(pack),
            Ok(Err(error)) => note(format!("{}: {error}", path.display())),
            Err(error) => note(format!("{}: {error}", path.display())),
        }
    }
    packs
}

fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "larger than such a file may be")),
        false => Ok(bytes),
    }
}

fn read_changes(path: &Path) -> io::Result<StoredFile> {
    match read_limited(path, MAX_FILE) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(StoredFile::default()),
        Err(error) => Err(error),
    }
}

/// Replaces the file as a whole: a process that is killed leaves the old one or the new one.
fn write_changes(path: &Path, stored: &StoredFile) -> io::Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let new = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let written = (|| {
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec_pretty(stored)?)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_decode::pack::PackBuilder;

    struct Folder(Scope);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder =
                std::env::temp_dir().join(format!("etw-registry-{name}-{}", std::process::id()));
            let scope =
                Scope { packs: folder.join("packs"), logs: folder.join("logs"), is_machine: false };
            std::fs::create_dir_all(&scope.packs).unwrap();
            Folder(scope)
        }

        fn install(&self, name: &str, manifest: &str) {
            let mut builder = PackBuilder::default();
            builder.add(name, manifest.as_bytes()).unwrap();
            let path = self.0.packs.join(format!("manifest-{name}.etwpack"));
            std::fs::write(path, builder.finish()).unwrap();
        }

        fn registry(&self) -> (Registry, Vec<String>) {
            let mut notes = Vec::new();
            let registry =
                Registry::of(std::slice::from_ref(&self.0), &mut |note| notes.push(note));
            (registry, notes)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.packs.parent().unwrap());
        }
    }

    fn manifest(channels: &str) -> String {
        format!(
            "<instrumentationManifest xmlns='http://schemas.microsoft.com/win/2004/08/events'>\
             <instrumentation><events><provider name='Shop' symbol='SHOP' \
             guid='{{e0b2f6f1-2f0a-4d4c-9ab8-0f3d7bb7c001}}' resourceFileName='x' messageFileName='x'>\
             <channels>{channels}</channels></provider></events></instrumentation>\
             </instrumentationManifest>"
        )
    }

    /// OV-22: channels have the kinds, files and sizes of their manifests, and Windows' defaults.
    #[test]
    fn manifests_define_channels() {
        let folder = Folder::new("defaults");
        folder.install(
            "shop",
            &manifest(
                "<channel chid='a' name='Shop/Admin' type='Admin'/>\
                 <channel chid='o' name='Shop/Operational' type='Operational' isolation='System' enabled='false'>\
                 <logging><maxSize>2097152</maxSize><retention>true</retention><autoBackup>true</autoBackup></logging>\
                 <publishing><level>3</level><keywords>0x10</keywords></publishing></channel>\
                 <channel chid='d' name='Shop/Debug' type='Debug'/>\
                 <importChannel chid='p' name='Application'/>",
            ),
        );
        let (registry, notes) = folder.registry();
        assert!(notes.is_empty(), "{notes:?}");
        let names: Vec<&str> =
            registry.channels().iter().map(|channel| channel.name.as_str()).collect();
        assert_eq!(
            names,
            ["Application", "Shop/Admin", "Shop/Debug", "Shop/Operational", "System"]
        );
        let admin = registry.channel("shop/ADMIN").unwrap();
        assert!(admin.settings.is_enabled && admin.settings.max_size == 1_052_672);
        assert_eq!((admin.owner(), admin.publishers[0].value), (Some("Shop"), 16));
        assert_eq!(admin.settings.file, folder.0.logs.join("Shop%4Admin.evtx"));
        let operational = registry.channel("Shop/Operational").unwrap();
        let settings = &operational.settings;
        assert!(!settings.is_enabled && settings.retention && settings.auto_backup);
        assert_eq!(
            (settings.max_size, settings.level, settings.keywords),
            (2 << 20, Level(3), Keyword(0x10))
        );
        assert_eq!(operational.settings.isolation, Isolation::System);
        let debug = registry.channel("Shop/Debug").unwrap();
        assert!(!debug.settings.is_enabled && debug.kind.is_direct());
        let application = registry.channel("Application").unwrap();
        assert_eq!(application.settings.max_size, 20 << 20);
        assert_eq!(application.publishers[0].name, "Shop");
        assert_eq!(registry.channel("Security").unwrap_err().code(), 5);
        assert_eq!(registry.channel("Nobody").unwrap_err().code(), 15_007);
    }

    /// OV-22: changes are kept, also over an uninstall; a reset forgets them.
    #[test]
    fn changes_of_settings_are_kept() {
        let folder = Folder::new("changes");
        let text = manifest("<channel chid='a' name='Shop/Admin' type='Admin'/>");
        folder.install("shop", &text);
        let (mut registry, _) = folder.registry();
        let change =
            Change { is_enabled: Some(false), max_size: Some(4 << 20), ..Change::default() };
        registry.set("shop/admin", &change).unwrap();
        let (read, _) = folder.registry();
        assert_eq!(read.channels(), registry.channels());
        assert!(!read.channel("Shop/Admin").unwrap().settings.is_enabled);

        let taken = read.channel("Application").unwrap().settings.file.clone();
        let change = Change { file: Some(taken), ..Change::default() };
        let error = registry.set("Shop/Admin", &change).unwrap_err();
        assert!(matches!(error, RegistryError::FileTaken { .. }), "{error}");

        std::fs::remove_file(folder.0.packs.join("manifest-shop.etwpack")).unwrap();
        assert!(folder.registry().0.channel("Shop/Admin").is_err());
        folder.install("shop", &text);
        let (mut registry, _) = folder.registry();
        assert_eq!(registry.channel("Shop/Admin").unwrap().settings.max_size, 4 << 20);
        registry.reset("Shop/Admin").unwrap();
        assert!(folder.registry().0.channel("Shop/Admin").unwrap().settings.is_enabled);
    }

    #[test]
    fn a_ninth_channel_is_not_kept() {
        let folder = Folder::new("ninth");
        let channel = |n| format!("<channel chid='c{n}' name='Shop/C{n}' type='Admin'/>");
        folder.install("shop", &manifest(&(1..=9).map(channel).collect::<String>()));
        let (registry, notes) = folder.registry();
        assert!(notes.len() == 1 && notes[0].contains("at most 8"), "{notes:?}");
        assert!(registry.channel("Shop/C8").is_ok() && registry.channel("Shop/C9").is_err());
    }

    #[test]
    fn malicious_files_of_changes_leave_the_defaults() {
        let folder = Folder::new("hostile");
        std::fs::create_dir_all(&folder.0.logs).unwrap();
        for text in [
            "",
            "3",
            "{\"channels\": 1}",
            "{\"channels\": {\"Application\": {\"maxSize\": -1}}}",
            "{\"channels\": {\"Application\": {\"maxSize\": 18446744073709551615}}}",
            "{\"channels\": {\"Application\": {\"file\": \"../x.evtx\"}}}",
            "{\"channels\": {\"Application\": {\"access\": \"D:(\"}}}",
        ] {
            std::fs::write(folder.0.logs.join(FILE), text).unwrap();
            let (registry, notes) = folder.registry();
            assert_eq!(notes.len(), 1, "{text}: {notes:?}");
            let application = registry.channel("Application").unwrap();
            assert_eq!(application.settings, application.defaults, "{text}");
        }
        let large = vec![b' '; MAX_FILE as usize + 1];
        std::fs::write(folder.0.logs.join(FILE), large).unwrap();
        assert_eq!(folder.registry().1.len(), 1);
    }
}
