//! [`Search`]: the folders and servers where files with symbols are searched.

use crate::debuginfod::{self, hex};
use crate::module::Module;
use crate::symbol_file::{SymbolFile, build_id};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest file that is read.
const MAX_FILE: u64 = 4 << 30;

/// The folders and servers where files with symbols are searched.
#[derive(Clone, Debug)]
pub struct Search {
    /// Folders of the user: files by name, or by build id in `.build-id/ab/cdef.debug` and `ab/cdef.debug`.
    pub folders: Vec<PathBuf>,
    /// The system's folders of debug files, with `.build-id` in them.
    pub debug_folders: Vec<PathBuf>,
    /// Ask the servers of `DEBUGINFOD_URLS`.
    pub with_debuginfod: bool,
}

impl Default for Search {
    fn default() -> Search {
        let urls = std::env::var_os("DEBUGINFOD_URLS");
        Search {
            folders: Vec::new(),
            debug_folders: vec![PathBuf::from("/usr/lib/debug")],
            with_debuginfod: urls.is_some_and(|urls| !urls.is_empty()),
        }
    }
}

/// Reads a regular file; `None`: it does not exist, or is too large.
fn read(path: &Path) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    let data = file.metadata().ok()?;
    if !data.is_file() || data.len() > MAX_FILE {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl Search {
    /// The symbols of a module, with those of its separate debug file.
    pub(crate) fn find(&self, module: &Module) -> Option<SymbolFile> {
        let mut file = self.candidates(module).iter().find_map(|path| matching(path, module));
        if file.as_ref().is_some_and(|file| file.has_symbols() && file.has_debug_information()) {
            return file;
        }
        let whole_id = file.as_ref().map_or(&module.build_id, |file| &file.build_id).clone();
        let link = file.as_ref().and_then(|file| file.debug_link.clone());
        let wanted = Module { path: module.path.clone(), build_id: whole_id };
        let debug = self.debug_file(&wanted, link.as_deref());
        match (&mut file, debug) {
            (Some(file), Some(debug)) => file.add_debug_file(debug),
            (None, debug) => return debug,
            _ => {}
        }
        file
    }

    /// Paths of a module's own file.
    fn candidates(&self, module: &Module) -> Vec<PathBuf> {
        let mut all = vec![module.path.clone()];
        if let Some(name) = module.path.file_name() {
            all.extend(self.folders.iter().map(|folder| folder.join(name)));
        }
        all
    }

    fn debug_file(&self, module: &Module, link: Option<&[u8]>) -> Option<SymbolFile> {
        let by_id = || {
            let folders = self.folders.iter().map(|folder| folder.join(".build-id"));
            let folders = folders.chain(self.folders.iter().cloned());
            let system = self.debug_folders.iter().map(|folder| folder.join(".build-id"));
            let mut folders = folders.chain(system);
            folders.find_map(|folder| matching(&by_build_id(&folder, &module.build_id)?, module))
        };
        let by_link = || {
            let name = std::str::from_utf8(link?).ok()?;
            let folder = module.path.parent()?;
            let inside = folder.strip_prefix("/").unwrap_or(folder);
            let own = [folder.join(".debug").join(name), folder.join(name)];
            let system = self.debug_folders.iter().map(|debug| debug.join(inside).join(name));
            let named = self.folders.iter().map(|folder| folder.join(name));
            own.into_iter().chain(system).chain(named).find_map(|path| matching(&path, module))
        };
        let by_server = || {
            let path = debuginfod::find(&module.build_id)?;
            matching(&path, module)
        };
        by_id().or_else(by_link).or_else(|| self.with_debuginfod.then(by_server).flatten())
    }
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

/// Reads a file if its build id is the module's. A module without a build id accepts every file of its path.
fn matching(path: &Path, module: &Module) -> Option<SymbolFile> {
    let bytes = read(path)?;
    if !build_id(&bytes)?.starts_with(&module.build_id) {
        return None;
    }
    SymbolFile::of(bytes.into())
}
