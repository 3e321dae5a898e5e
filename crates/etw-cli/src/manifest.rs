//! `etw manifest`: manifests that every command finds without being told, for one user or for all.
//!
//! An installed manifest is a pack of its own, `manifest-NAME.etwpack`, in the folder of the user's packs or in that of the machine's.

use crate::format::{TextOrJson, safe};
use crate::output::{Failure, Outcome, Output, counted};
use crate::output_file::{self, NewFile};
use crate::{pack_show, schemas};
use clap::{Args, Subcommand};
#[cfg(target_os = "linux")]
use etw_decode::manifest::NamedValue;
use etw_decode::pack::{Pack, PackBuilder, ProviderContents};
use etw_decode::registered;
use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    format: TextOrJson,
}

#[derive(Subcommand)]
enum Command {
    /// Install manifests: XML, programs and libraries with a compiled one, or a bare WEVT_TEMPLATE (.bin)
    Install {
        /// Manifests
        #[arg(required = true, value_name = "FILE")]
        manifests: Vec<PathBuf>,
        #[command(flatten)]
        scope: Scope,
        /// Replace installed manifests of the same providers
        #[arg(long)]
        force: bool,
    },
    /// Uninstall the manifests of providers
    Uninstall {
        /// Names or GUIDs of providers, or manifests that were installed
        #[arg(required = true, value_name = "PROVIDER|FILE")]
        names: Vec<String>,
        #[command(flatten)]
        scope: Scope,
    },
    /// List the providers of installed manifests, of the user and of the machine
    List,
    /// Show a provider of an installed manifest: its keywords, channels and events
    Show {
        /// Name or GUID
        #[arg(value_name = "PROVIDER")]
        name: String,
    },
}

#[derive(Args)]
struct Scope {
    /// For all users of this machine, in /var/lib/openetw/packs; needs the rights to write there
    #[arg(long)]
    machine: bool,
}

impl Scope {
    /// The folder of the packs.
    fn folder(&self) -> Result<PathBuf, Failure> {
        match self.machine {
            true => Ok(registered::machine_store()),
            false => registered::store()
                .ok_or_else(|| Failure::new("no home for a store: set HOME or XDG_DATA_HOME")),
        }
    }
}

/// The beginning of an installed manifest's file name.
const PREFIX: &str = "manifest-";

/// An installed manifest.
struct Installed {
    path: PathBuf,
    is_machine: bool,
    providers: Vec<ProviderContents>,
}

impl Installed {
    fn has(&self, name: &str) -> bool {
        self.providers.iter().any(|provider| is_named(provider, name))
    }
}

/// Whether a text is a provider's name or GUID, or the name of the file that described it.
fn is_named(provider: &ProviderContents, text: &str) -> bool {
    let name = provider.provider.as_deref().unwrap_or_default();
    let file = Path::new(text).file_name().unwrap_or_default();
    name.eq_ignore_ascii_case(text)
        || text.parse() == Ok(provider.guid)
        || file.to_string_lossy() == provider.source
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.command {
        Command::Install { manifests, scope, force } => {
            manifests.iter().try_for_each(|manifest| install(manifest, scope, *force))?;
            #[cfg(target_os = "linux")]
            crate::live::announce_manifests();
            crate::channels::notify();
        }
        Command::Uninstall { names, scope } => {
            uninstall(names, scope)?;
            crate::channels::notify();
        }
        Command::List => print(&list(arguments.format)?)?,
        Command::Show { name } => print(&show(name, arguments.format)?)?,
    }
    Ok(Outcome::Done)
}

fn print(text: &str) -> Result<(), Failure> {
    let mut output = Output::open(None, &[])?;
    output.write(text.as_bytes())?;
    output.finish()
}

/// The installed manifests in a folder, by file name.
fn installed_in(folder: &Path, is_machine: bool) -> Result<Vec<Installed>, Failure> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for path in schemas::folder(folder, "etwpack") {
        let path = path?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(PREFIX) {
            continue;
        }
        match schemas::open_pack(&path) {
            Ok(pack) => {
                let providers = pack.contents().collect();
                found.push(Installed { path, is_machine, providers });
            }
            Err(failure) => eprintln!("etw: note: {}", failure.message().unwrap_or_default()),
        }
    }
    Ok(found)
}

/// Those of the user, then those of the machine.
fn all_installed() -> Result<Vec<Installed>, Failure> {
    let mut all = match registered::store() {
        Some(store) => installed_in(&store, false)?,
        None => Vec::new(),
    };
    all.extend(installed_in(&registered::machine_store(), true)?);
    Ok(all)
}

/// `wevtutil im`: installs a manifest for this user, in the place of those of the same providers.
pub fn install_again(manifest: &Path) -> Result<(), Failure> {
    install(manifest, &Scope { machine: false }, true)?;
    crate::channels::notify();
    Ok(())
}

/// `wevtutil um`: uninstalls the providers that a manifest describes.
pub fn uninstall_described(manifest: &Path) -> Result<(), Failure> {
    let bytes = schemas::read(manifest)?;
    let mut builder = PackBuilder::default();
    let name = manifest.file_name().unwrap_or_default().to_string_lossy();
    builder.add(&name, &bytes).map_err(|error| schemas::refused(manifest, error))?;
    let pack = Pack::open(builder.finish().into());
    let pack = pack.map_err(|error| schemas::refused(manifest, error))?;
    let mut names: Vec<String> = pack.contents().map(|one| one.guid.to_string()).collect();
    names.sort();
    names.dedup();
    uninstall(&names, &Scope { machine: false })?;
    crate::channels::notify();
    Ok(())
}

/// GUIDs and names of the providers of all installed manifests; those that cannot be read are left out.
#[cfg(any(target_os = "linux", windows))]
pub fn installed_providers() -> Vec<(etw_types::Guid, String)> {
    let providers = all_installed().unwrap_or_default().into_iter().flat_map(|one| one.providers);
    providers.filter_map(|provider| Some((provider.guid, provider.provider?))).collect()
}

/// Levels, opcodes, tasks and keywords of an installed provider; none if no manifest of it is installed.
#[cfg(target_os = "linux")]
pub fn named_values_of(id: &etw_types::Guid) -> Vec<NamedValue> {
    let installed = all_installed().unwrap_or_default();
    let mut providers = installed.into_iter().flat_map(|one| one.providers);
    let found = providers.find(|one| one.guid == *id || one.control_guid == Some(*id));
    found.map_or_else(Vec::new, |one| one.named_values)
}

fn install(manifest: &Path, scope: &Scope, force: bool) -> Result<(), Failure> {
    let bytes = schemas::read(manifest)?;
    let name = manifest.file_name().unwrap_or_default().to_string_lossy();
    let mut builder = PackBuilder::default();
    let texts = schemas::texts_beside(manifest, &bytes);
    let added = match texts.is_empty() {
        true => builder.add(&name, &bytes),
        false => builder.add_compiled(&name, &bytes, &texts),
    };
    let warnings = added.map_err(|error| schemas::refused(manifest, error))?;
    schemas::tell(manifest, &warnings);
    if etw_decode::manifest::parse(&bytes).is_ok_and(|parsed| parsed.is_cut) {
        return Err(schemas::refused(
            manifest,
            "the manifest is not complete; nothing was installed",
        ));
    }
    let pack = builder.finish();
    let opened =
        Pack::open(pack.clone().into()).map_err(|error| schemas::refused(manifest, error))?;
    let providers: Vec<ProviderContents> =
        opened.contents().filter(|one| one.provider.is_some()).collect();
    if providers.is_empty() {
        return Err(schemas::refused(manifest, "no provider in it"));
    }
    let folder = scope.folder()?;
    std::fs::create_dir_all(&folder).map_err(|error| schemas::refused(&folder, error))?;
    let lock = lock(&folder);
    if lock.is_some() {
        output_file::remove_abandoned(&folder);
    }
    let path = folder.join(format!("{PREFIX}{}.etwpack", file_name(&name)));
    let replaced = replaced_by(&providers, manifest, &path, scope, force)?;
    let new = NewFile::create(&path, &[manifest.to_owned()], true)?;
    new.file().write_all(&pack).map_err(|error| new.failure(&error))?;
    new.keep()?;
    for old in replaced.iter().filter(|old| **old != path) {
        std::fs::remove_file(old).map_err(|error| schemas::refused(old, error))?;
    }
    drop(lock);
    let mut text = String::new();
    for provider in &providers {
        let _ = writeln!(text, "{}", line(provider));
    }
    print(&text)
}

/// Keeps other installations of the folder waiting until the file is dropped; `None` where folders cannot be locked.
fn lock(folder: &Path) -> Option<std::fs::File> {
    let file = std::fs::File::open(folder).ok()?;
    file.lock().ok()?;
    Some(file)
}

/// The packs that a manifest with these providers replaces, if `force` allows it.
fn replaced_by(
    providers: &[ProviderContents],
    manifest: &Path,
    path: &Path,
    scope: &Scope,
    force: bool,
) -> Result<Vec<PathBuf>, Failure> {
    let name_of =
        |one: &ProviderContents| safe(one.provider.as_deref().unwrap_or_default()).into_owned();
    let mut replaced = Vec::new();
    for other in installed_in(&scope.folder()?, scope.machine)? {
        let is_new = |one: &&ProviderContents| providers.iter().any(|new| new.guid == one.guid);
        let Some(same) = other.providers.iter().find(is_new) else {
            if other.path == *path && !force {
                let what = format!("{}: exists; --force replaces it", path.display());
                return Err(Failure::new(what));
            }
            continue;
        };
        if !force {
            let what = format!(
                "{} is installed already, from {}; uninstall it first, or use --force",
                name_of(same),
                other.path.display()
            );
            return Err(schemas::refused(manifest, what));
        }
        let lost = other.providers.iter().find(|one| !is_new(one));
        if let Some(lost) = lost.filter(|_| other.path != *path) {
            let what = format!(
                "{} is installed from {}, which describes {}, too; uninstall both first",
                name_of(same),
                other.path.display(),
                name_of(lost)
            );
            return Err(schemas::refused(manifest, what));
        }
        replaced.push(other.path);
    }
    Ok(replaced)
}

/// A file's name with `_` for every character that has a meaning in shells or file systems.
fn file_name(name: &str) -> String {
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => character,
        _ => '_',
    };
    name.chars().map(plain).take(120).collect()
}

fn uninstall(names: &[String], scope: &Scope) -> Result<(), Failure> {
    let installed = installed_in(&scope.folder()?, scope.machine)?;
    for name in names {
        let mut found = installed.iter().filter(|one| one.has(name)).peekable();
        if found.peek().is_none() {
            let elsewhere = all_installed()?.iter().any(|one| one.has(name));
            let hint = match elsewhere {
                true if scope.machine => "; it is installed for you alone: leave out --machine",
                true => "; it is installed for the machine: use --machine",
                false => "; etw manifest list shows what is installed",
            };
            return Err(Failure::new(format!("{name}: not installed{hint}")));
        }
        for one in found {
            // The user named it twice, and it is removed already.
            match std::fs::remove_file(&one.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(schemas::refused(&one.path, error));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// GUID, name and count of events.
fn line(provider: &ProviderContents) -> String {
    let name = provider.provider.as_deref().unwrap_or("-");
    let count = counted(provider.events.len(), "event");
    format!("{}  {:<40} {count:>12}", provider.guid, safe(name))
}

fn list(format: TextOrJson) -> Result<String, Failure> {
    let mut text = String::new();
    for one in all_installed()? {
        let scope = if one.is_machine { "machine" } else { "user" };
        for provider in &one.providers {
            // Writing to a String cannot fail.
            let _ = match format.is_json() {
                true => writeln!(
                    text,
                    "{}",
                    serde_json::json!({
                        "provider": provider.provider,
                        "guid": provider.guid.to_string(),
                        "events": provider.events.len(),
                        "source": provider.source,
                        "scope": scope,
                        "pack": one.path.display().to_string(),
                    })
                ),
                false => {
                    writeln!(text, "{}  {scope:<8} {}", line(provider), safe(&provider.source))
                }
            };
        }
    }
    Ok(text)
}

fn show(name: &str, format: TextOrJson) -> Result<String, Failure> {
    let installed = all_installed()?;
    let mut providers = installed.iter().flat_map(|one| &one.providers);
    let Some(provider) = providers.find(|provider| is_named(provider, name)) else {
        let what = format!("{name}: not installed; etw manifest list shows what is installed");
        return Err(Failure::new(what));
    };
    if format.is_json() {
        return Ok(format!("{}\n", pack_show::provider(provider)));
    }
    let mut text = format!("{}\n", line(provider));
    for keyword in &provider.keywords {
        let _ = writeln!(text, "  keyword {:#018x} {}", keyword.mask, safe(&keyword.name));
    }
    for channel in &provider.channels {
        let _ = writeln!(text, "  channel {:<3} {}", channel.value, safe(&channel.name));
    }
    for event in &provider.events {
        let schema = &event.schema;
        let fields = schema.fields[..schema.top_level].iter();
        let fields: Vec<&str> = fields.map(|field| field.name.as_str()).collect();
        let _ = writeln!(
            text,
            "  {:>5} v{} {} {}({})",
            event.id.unwrap_or(0),
            event.version.unwrap_or(0),
            safe(schema.names.level.as_deref().unwrap_or("-")),
            safe(schema.names.event.as_deref().unwrap_or("-")),
            safe(&fields.join(", "))
        );
    }
    Ok(text)
}
