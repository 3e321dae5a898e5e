//! [`Installation`]: a Windows that lies in a folder, and what its registry says of providers.

use crate::hive::{Hive, HiveError, HiveState, Key};
use crate::tree::Tree;
use etw_decode::pack::WindowsVersion;
use etw_types::Guid;
use std::fmt;
use std::path::{Path, PathBuf};

/// Providers that are read; a Windows has some thirteen hundred.
const PUBLISHER_LIMIT: usize = 1 << 16;

/// Why a folder is not a Windows that can be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum InstallationError {
    /// The folder has no `Windows/System32/config/SOFTWARE`, and is not a Windows folder either.
    NotWindows(PathBuf),
    /// The hive cannot be read.
    Hive {
        /// The hive's file.
        path: PathBuf,
        /// The reason.
        error: HiveError,
    },
}

impl fmt::Display for InstallationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstallationError::NotWindows(folder) => write!(
                f,
                "{}: no Windows: it has no Windows/System32/config/SOFTWARE; name the root of a volume, or its Windows folder",
                folder.display()
            ),
            InstallationError::Hive { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for InstallationError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InstallationError::Hive { error, .. } => Some(error),
            InstallationError::NotWindows(_) => None,
        }
    }
}

/// A provider that is registered with the event log, as the registry has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Publisher {
    pub guid: Guid,
    pub name: String,
    /// The program with its compiled manifest, as the registry spells its path.
    pub resource_file: Option<String>,
    /// Programs with its texts.
    pub message_files: Vec<String>,
}

/// A Windows in a folder.
pub(crate) struct Installation {
    pub version: WindowsVersion,
    pub publishers: Vec<Publisher>,
    /// Notes for the user: files that could not be read, and limits of the result.
    pub notes: Vec<String>,
    pub tree: Tree,
    /// The folder of Windows itself.
    pub windows: PathBuf,
    /// The root of its volume, if that is known.
    volume: Option<PathBuf>,
    /// Where Windows was installed, such as `C:\Windows`.
    system_root: String,
    /// Names and values of variables in paths.
    variables: Vec<(&'static str, String)>,
}

impl Installation {
    /// Opens the root of a volume, or a Windows folder.
    pub fn open(folder: &Path) -> Result<Installation, InstallationError> {
        let tree = Tree::default();
        const HIVE: [&str; 3] = ["System32", "config", "SOFTWARE"];
        const LOGS: [&str; 3] = ["SOFTWARE.LOG1", "SOFTWARE.LOG2", "SOFTWARE.LOG"];
        let candidates = ["Windows", "WINNT", "."].into_iter().filter_map(|name| match name {
            "." => Some((folder.to_owned(), None)),
            name => Some((tree.find(folder, [name])?, Some(folder.to_owned()))),
        });
        let found = candidates
            .filter_map(|(windows, volume)| Some((tree.find(&windows, HIVE)?, windows, volume)))
            .find(|(hive, ..)| hive.is_file());
        let Some((path, windows, volume)) = found else {
            return Err(InstallationError::NotWindows(folder.to_owned()));
        };
        let failed = |error| InstallationError::Hive { path: path.clone(), error };
        let log = |name: &str| tree.find(&windows, ["System32", "config", name]);
        let logs: Vec<PathBuf> = LOGS.into_iter().filter_map(log).collect();
        let hive = Hive::open_with_logs(&path, &logs).map_err(failed)?;
        let notes = state_note(&path, hive.state(), &logs).into_iter().collect();
        let mut installation = Installation {
            version: WindowsVersion::default(),
            publishers: Vec::new(),
            notes,
            tree,
            windows,
            volume,
            system_root: r"C:\Windows".to_owned(),
            variables: Vec::new(),
        };
        installation.read_version(&hive).map_err(failed)?;
        installation.read_variables(&hive);
        installation.read_publishers(&hive).map_err(failed)?;
        Ok(installation)
    }

    fn read_version(&mut self, hive: &Hive) -> Result<(), HiveError> {
        let Some(key) = hive.key(r"Microsoft\Windows NT\CurrentVersion")? else {
            self.notes.push("the registry does not say which Windows this is".to_owned());
            return Ok(());
        };
        let number = |name: &str| key.value(name).and_then(|value| value.number());
        let text = |name: &str| key.text(name).filter(|text| !text.is_empty());
        let build = text("CurrentBuildNumber").or_else(|| text("CurrentBuild"));
        let old = text("CurrentVersion");
        let old = old.as_deref().and_then(|old| old.split_once('.'));
        let old = old.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        // Windows 10 and later keep 6.3 in the text.
        let major = number("CurrentMajorVersionNumber").zip(number("CurrentMinorVersionNumber"));
        let (major, minor) = major.or(old).unwrap_or((0, 0));
        self.version = WindowsVersion {
            major,
            minor,
            build: build.and_then(|build| build.trim().parse().ok()).unwrap_or(0),
            revision: number("UBR").unwrap_or(0),
            product: text("ProductName").unwrap_or_default(),
            lab: text("BuildLabEx").or_else(|| text("BuildLab")).unwrap_or_default(),
        };
        if let Some(root) = text("SystemRoot").or_else(|| text("PathName")) {
            self.system_root = root.trim_end_matches('\\').to_owned();
        }
        Ok(())
    }

    fn read_variables(&mut self, hive: &Hive) {
        let drive = self.system_root.get(..2).unwrap_or("C:").to_owned();
        let key = hive.key(r"Microsoft\Windows\CurrentVersion").ok().flatten();
        let folder = |name: &str, default: &str| {
            let text = key.as_ref().and_then(|key| key.text(name));
            // One that has variables itself could go round in a circle.
            text.filter(|text| !text.contains('%')).unwrap_or_else(|| format!("{drive}{default}"))
        };
        let programs = folder("ProgramFilesDir", r"\Program Files");
        let common = folder("CommonFilesDir", r"\Program Files\Common Files");
        let programs32 = folder("ProgramFilesDir (x86)", r"\Program Files (x86)");
        let common32 = folder("CommonFilesDir (x86)", r"\Program Files (x86)\Common Files");
        self.variables = vec![
            ("systemroot", self.system_root.clone()),
            ("windir", self.system_root.clone()),
            ("programfiles", programs.clone()),
            ("programw6432", programs),
            ("programfiles(x86)", programs32),
            ("commonprogramfiles", common.clone()),
            ("commonprogramw6432", common),
            ("commonprogramfiles(x86)", common32),
            ("programdata", format!(r"{drive}\ProgramData")),
            ("allusersprofile", format!(r"{drive}\ProgramData")),
            ("systemdrive", drive),
        ];
    }

    fn read_publishers(&mut self, hive: &Hive) -> Result<(), HiveError> {
        let Some(list) = hive.key(r"Microsoft\Windows\CurrentVersion\WINEVT\Publishers")? else {
            self.notes.push("the registry lists no providers".to_owned());
            return Ok(());
        };
        let mut damaged = 0;
        for key in list.subkeys()?.take(PUBLISHER_LIMIT) {
            match key {
                Ok(key) => self.publishers.extend(publisher(&key)),
                Err(error) => {
                    damaged += 1;
                    // One example is enough.
                    if damaged == 1 {
                        self.notes.push(error.to_string());
                    }
                }
            }
        }
        if damaged > 0 {
            self.notes.push(format!("{damaged} providers are damaged in the registry"));
        }
        Ok(())
    }

    /// The file that a path in the registry names.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        let text = self.expand(path.trim().trim_matches('"'));
        let text = text.replace('/', "\\");
        let text =
            [r"\??\", r"\\?\"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(&text);
        let missing = || format!("{path}: not there");
        let lower = text.to_lowercase();
        let below = |folder: &Path, rest: &str| {
            let mut names: Vec<&str> = Vec::new();
            for name in rest.split('\\') {
                match name {
                    "" | "." => {}
                    ".." => drop(names.pop()),
                    // Where 64-bit programs find what 32-bit ones see as System32.
                    name if name.eq_ignore_ascii_case("sysnative") => names.push("System32"),
                    name => names.push(name),
                }
            }
            let found = self.tree.find(folder, names).ok_or_else(missing)?;
            if found.is_file() { Ok(found) } else { Err(missing()) }
        };
        let root = self.system_root.to_lowercase();
        for prefix in [root.as_str(), r"\systemroot"] {
            // Lower case may have another length only outside of ASCII, which no such path has.
            if let Some(rest) = lower.strip_prefix(prefix)
                && rest.starts_with('\\')
            {
                return below(&self.windows, &text[text.len() - rest.len()..]);
            }
        }
        match text.split_once(':') {
            // A name alone is searched for where Windows does.
            None if !text.contains('\\') => {
                let system = self.tree.find(&self.windows, ["System32"]).ok_or_else(missing)?;
                below(&system, text)
            }
            Some((drive, rest)) if rest.starts_with('\\') => {
                let system_drive = root.split(':').next().unwrap_or_default();
                match &self.volume {
                    Some(volume) if drive.eq_ignore_ascii_case(system_drive) => below(volume, rest),
                    _ => Err(format!("{path}: outside of this folder")),
                }
            }
            _ => Err(format!("{path}: not a path on this volume")),
        }
    }

    /// Replaces `%NAME%`; an unknown variable stays.
    fn expand(&self, path: &str) -> String {
        let mut out = String::new();
        let mut rest = path;
        while let Some((before, behind)) = rest.split_once('%') {
            out.push_str(before);
            let known = behind.split_once('%').and_then(|(name, behind)| {
                let name = name.to_lowercase();
                let known = self.variables.iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| (value, behind))
            });
            match known {
                Some((value, behind)) => {
                    out.push_str(value);
                    rest = behind;
                }
                None => {
                    out.push('%');
                    rest = behind;
                }
            }
        }
        out + rest
    }
}

/// A note for the user about a hive that Windows did not close.
fn state_note(path: &Path, state: HiveState, logs: &[PathBuf]) -> Option<String> {
    let shown = path.display();
    match state {
        HiveState::Clean => None,
        HiveState::Recovered(changes) => {
            let s = if changes == 1 { "" } else { "s" };
            Some(format!("{shown}: not closed by Windows: {changes} change{s} of its logs applied"))
        }
        HiveState::Outdated if logs.is_empty() => Some(format!(
            "{shown}: not closed by Windows: what was registered last may be missing; copy SOFTWARE.LOG1 and SOFTWARE.LOG2, too"
        )),
        HiveState::Outdated => Some(format!(
            "{shown}: not closed by Windows, and its logs have no change that follows it: what was registered last may be missing"
        )),
    }
}

/// `None` for a key that is not named by a GUID.
fn publisher(key: &Key<'_>) -> Option<Publisher> {
    let guid = key.name().parse().ok()?;
    let text = |name: &str| key.text(name).filter(|text| !text.trim().is_empty());
    let files = |text: String| {
        text.split(';').map(str::to_owned).filter(|name| !name.trim().is_empty()).collect()
    };
    Some(Publisher {
        guid,
        name: text("").unwrap_or_else(|| guid.to_string()),
        resource_file: text("ResourceFileName"),
        message_files: text("MessageFileName").map_or_else(Vec::new, files),
    })
}
