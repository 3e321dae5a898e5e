//! [`Search`]: the folders and servers where files with symbols are searched.

use crate::bytes::Bytes;
use crate::debuginfod::{Servers, hex};
use crate::module::Module;
use crate::module_file::{Mismatch, matching};
use crate::regular_file::{MAX_FILE, open};
use crate::split::SplitPlaces;
use crate::symbol_file::{DebugLink, Identity, SymbolFile};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folders and servers where files with symbols are searched.
#[derive(Clone, Debug)]
pub struct Search {
    /// Folders of the user: files by name, or by build id in `.build-id/ab/cdef.debug` and `ab/cdef.debug`.
    pub folders: Vec<PathBuf>,
    /// The system's folders of debug files, with `.build-id` in them.
    pub debug_folders: Vec<PathBuf>,
    /// Ask the servers of `DEBUGINFOD_URLS`.
    pub with_debuginfod: bool,
    /// Gets a sentence about each server that is given up.
    pub report: fn(&str),
    /// Opens a regular file by its path in the root directory of a process that lives.
    pub open_in_process: fn(u32, &Path) -> io::Result<File>,
}

impl Default for Search {
    fn default() -> Search {
        let urls = std::env::var_os("DEBUGINFOD_URLS");
        Search {
            folders: Vec::new(),
            debug_folders: vec![PathBuf::from("/usr/lib/debug")],
            with_debuginfod: urls.is_some_and(|urls| !urls.is_empty()),
            report: |_| (),
            open_in_process: |_, _| Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// When a file was written, and when anything of it was changed, such as its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub written: SystemTime,
    pub changed: SystemTime,
}

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub file: Option<SymbolFile>,
    pub facts: Facts,
}

/// Facts about the files that a search met.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// Why a file that has the module's name is not used.
    pub mismatch: Option<Mismatch>,
    /// Neither the trace nor the file has a build id.
    pub has_no_id: bool,
    /// Times of the module's own file, if it has no build id.
    pub times: Option<Times>,
}

fn times(file: &File) -> Option<Times> {
    let data = file.metadata().ok()?;
    let written = data.modified().ok()?;
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt;
        use std::time::Duration;
        let seconds = u64::try_from(data.ctime()).ok()?;
        let nanoseconds = u32::try_from(data.ctime_nsec()).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))?
    };
    #[cfg(not(unix))]
    let changed = written;
    Some(Times { written, changed })
}

impl Search {
    /// The symbols of a module, with those of its separate debug file.
    pub(crate) fn find(&self, module: &Module, servers: &Servers) -> Found {
        let mut found = Found::default();
        for path in self.candidates(module) {
            let is_own = path == module.path;
            // Nothing shows that two files without build ids are of one program.
            if is_own && found.file.is_some() && module.build_id.is_empty() {
                break;
            }
            let Some(file) = open(&path) else { continue };
            let times = times(&file).filter(|_| is_own);
            match matching(file, module) {
                Some(Ok(mut file)) => {
                    file.set_path(&path);
                    found.facts.has_no_id = file.build_id.is_empty();
                    found.facts.times = times.filter(|_| found.facts.has_no_id);
                    match &mut found.file {
                        // The folders of the user may have the names of a stripped program, which has its stubs itself.
                        Some(first) => first.add_debug_file(file),
                        None => found.file = Some(file),
                    }
                }
                Some(Err(mismatch)) => found.facts.mismatch = Some(mismatch),
                None => {}
            }
        }
        if found.file.is_some() {
            found.facts.mismatch = None;
        }
        self.complete(&mut found, module, servers);
        found
    }

    /// The symbols of a module whose file is not here, from the root directory of its process: the build id shows that it is the file.
    pub(crate) fn find_in_process(&self, module: &Module, servers: &Servers) -> Option<Found> {
        let process = module.process.filter(|_| !module.build_id.is_empty())?;
        let file = (self.open_in_process)(process, &module.path).ok()?;
        let is_small = file.metadata().is_ok_and(|data| data.len() <= MAX_FILE);
        let file = is_small.then(|| matching(file, module))??.ok();
        let mut file = file?;
        file.set_path(&module.path);
        let mut found = Found { file: Some(file), ..Found::default() };
        self.complete(&mut found, module, servers);
        Some(found)
    }

    /// Adds the separate debug file, if symbols or debug information are missing, and what further files have.
    fn complete(&self, found: &mut Found, module: &Module, servers: &Servers) {
        let is_whole = |file: &SymbolFile| file.has_symbols() && file.has_debug_information();
        if !found.file.as_ref().is_some_and(is_whole) {
            self.add_debug_file(found, module, servers);
        }
        if let Some(file) = &mut found.file {
            self.add_common_part(file, servers);
            let places = file.path().map(|path| self.split_places(path, module.unmarked_path()));
            file.set_split_places(places.unwrap_or_default());
        }
    }

    fn add_debug_file(&self, found: &mut Found, module: &Module, servers: &Servers) {
        let file = &found.file;
        let whole_id = file.as_ref().map_or(&module.build_id, |file| &file.build_id).clone();
        let link = file.as_ref().and_then(|file| file.debug_link.clone());
        let wanted = Module { build_id: whole_id, ..module.clone() };
        let debug = self.debug_file(&wanted, link.as_ref(), servers, &mut found.facts.mismatch);
        if debug.is_some() {
            found.facts.mismatch = None;
        }
        match (&mut found.file, debug) {
            (Some(file), Some(debug)) => file.add_debug_file(debug),
            (None, debug) => found.file = debug,
            _ => {}
        }
        let is_bare = |file: &SymbolFile| !file.has_symbols() && !file.has_debug_information();
        found.facts.mismatch = found.facts.mismatch.or(match &found.file {
            None => Some(Mismatch::Absent),
            Some(file) => is_bare(file).then_some(Mismatch::NoSymbols),
        });
    }

    /// Adds what the debug information has in common with that of other programs.
    fn add_common_part(&self, file: &mut SymbolFile, servers: &Servers) {
        let Some(link) = file.missing_part().filter(|link| !link.build_id.is_empty()).cloned()
        else {
            return;
        };
        let wanted = Module { build_id: link.build_id, ..Module::default() };
        // The path counts from the folder of the file itself, to which a link may have led.
        let own = file.path().and_then(|path| path.canonicalize().ok());
        let named = own.as_deref().and_then(Path::parent).map(|folder| folder.join(&link.path));
        let name = link.path.file_name().unwrap_or_default();
        let mut paths =
            named.into_iter().chain(self.folders.iter().map(|folder| folder.join(name)));
        let by_path = paths.find_map(|path| of_module(&path, &wanted));
        let by_server = || servers.find(&wanted.build_id);
        let part = by_path
            .or_else(|| self.by_id(&wanted))
            .or_else(|| self.with_debuginfod.then(by_server).flatten());
        if let Some(part) = part {
            file.add_part(&part);
        }
    }

    /// Where the split files of a program are. `path`: the file with its debug information.
    fn split_places(&self, path: &Path, program: &Path) -> SplitPlaces {
        let package = |path: &OsStr| {
            let mut path = path.to_owned();
            path.push(".dwp");
            PathBuf::from(path)
        };
        let beside = [path, program].map(|path| package(path.as_os_str()));
        let mut packages: Vec<PathBuf> = beside.into_iter().collect();
        for name in [path, program].into_iter().filter_map(Path::file_name) {
            packages.extend(self.folders.iter().map(|folder| folder.join(package(name))));
        }
        packages.sort();
        packages.dedup();
        let own_folder = path.parent().map(Path::to_owned);
        SplitPlaces { packages, own_folder, folders: self.folders.clone() }
    }

    /// The debug file of a build id.
    fn by_id(&self, module: &Module) -> Option<SymbolFile> {
        let folders = self.folders.iter().map(|folder| folder.join(".build-id"));
        let folders = folders.chain(self.folders.iter().cloned());
        let system = self.debug_folders.iter().map(|folder| folder.join(".build-id"));
        let mut folders = folders.chain(system);
        folders.find_map(|folder| of_module(&by_build_id(&folder, &module.build_id)?, module))
    }

    /// Paths of files with a module's name: those of the user, which may be its debug files, then its own.
    fn candidates(&self, module: &Module) -> Vec<PathBuf> {
        let (marked, path) = (&module.path, module.unmarked_path());
        let mut all = Vec::new();
        for name in [path, marked].into_iter().filter_map(Path::file_name) {
            let mut debug = name.to_owned();
            debug.push(".debug");
            for folder in &self.folders {
                all.extend([folder.join(name), folder.join(&debug)]);
            }
        }
        // A folder of the user may be the program's own.
        all.retain(|one| one != path && one != marked);
        all.extend([path.to_owned(), marked.clone()]);
        all.dedup();
        all
    }

    fn debug_file(
        &self,
        module: &Module,
        link: Option<&DebugLink>,
        servers: &Servers,
        mismatch: &mut Option<Mismatch>,
    ) -> Option<SymbolFile> {
        let mut by_link = || {
            let link = link?;
            let name = std::str::from_utf8(&link.name).ok()?;
            let folder = module.path.parent()?;
            let inside = folder.strip_prefix("/").unwrap_or(folder);
            let own = [folder.join(".debug").join(name), folder.join(name)];
            let system = self.debug_folders.iter().map(|debug| debug.join(inside).join(name));
            let named = self.folders.iter().map(|folder| folder.join(name));
            own.into_iter().chain(system).chain(named).find_map(|path| {
                match linked(open(&path)?, module, link)? {
                    Ok(mut file) => {
                        file.set_path(&path);
                        Some(file)
                    }
                    Err(other) => {
                        *mismatch = Some(other);
                        None
                    }
                }
            })
        };
        let by_server = || servers.find(&module.build_id);
        self.by_id(module)
            .or_else(&mut by_link)
            .or_else(|| self.with_debuginfod.then(by_server).flatten())
    }
}

/// Reads the file at a path if it is the module's.
fn of_module(path: &Path, module: &Module) -> Option<SymbolFile> {
    let mut file = matching(open(path)?, module)?.ok()?;
    file.set_path(path);
    Some(file)
}

/// The debug file of a build id, of which perhaps only the first bytes are known: `ab/cdef.debug`.
fn by_build_id(folder: &Path, id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let (folder, rest) = (folder.join(hex(&[*first])), hex(rest));
    let exact = folder.join(format!("{rest}.debug"));
    if exact.is_file() {
        return Some(exact);
    }
    let entries = std::fs::read_dir(folder).ok()?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths.find(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&rest) && name.ends_with(".debug")
    })
}

/// Reads the file of a debug link, which has the module's build id, or the link's checksum.
fn linked(file: File, module: &Module, link: &DebugLink) -> Option<Result<SymbolFile, Mismatch>> {
    let bytes = Bytes::of_file(file)?;
    let id = Identity::of(&bytes)?.build_id;
    let has_id = !id.is_empty() && id == module.build_id;
    if !has_id && bytes.source.checksum()? != link.checksum {
        return Some(Err(Mismatch::Checksum));
    }
    SymbolFile::of(&bytes).map(Ok)
}
