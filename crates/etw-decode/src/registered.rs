//! Schemas that the user registered: every tool and program of that user finds them, as Windows' tools find what `wevtutil im`
//! installed.
//!
//! ```text
//! each folder or file of ETW_PACKS          *.etwpack
//! $XDG_DATA_HOME/etw/packs                  *.etwpack    without that: ~/.local/share, and on Windows LOCALAPPDATA
//! /var/lib/openetw/packs                    *.etwpack    for all users; ETW_MACHINE_PACKS names another folder
//! each folder of TRACE_FORMAT_SEARCH_PATH   *.tmf        where Windows' tools look, too
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Catalog;
use crate::pack::Pack;

/// Reads everything that the user registered. A file that cannot be read is left out, and `note` receives its path and the error.
pub fn catalog(note: &mut dyn FnMut(String)) -> Catalog {
    let mut catalog = Catalog::default();
    let stores = store().into_iter().chain([machine_store()]).filter(|store| store.is_dir());
    for folder in paths("ETW_PACKS").into_iter().chain(stores) {
        for file in files(&folder, "etwpack", note) {
            match read(&file, note).map(|bytes| Pack::open(bytes.into())) {
                Some(Ok(pack)) => catalog.add_pack(Arc::new(pack)),
                Some(Err(error)) => note(format!("{}: {error}", file.display())),
                None => {}
            }
        }
    }
    for folder in paths("TRACE_FORMAT_SEARCH_PATH").iter().filter(|path| path.is_dir()) {
        for file in files(folder, "tmf", note) {
            if let Some(text) = read(&file, note) {
                catalog.add_tmf(&text);
            }
        }
    }
    catalog
}

/// A pack's file: path, size and time of the last change.
pub type PackStamp = (PathBuf, u64, Option<std::time::SystemTime>);

/// The packs that [`catalog`] reads: if these are the same, the catalog is.
pub fn pack_stamps() -> Vec<PackStamp> {
    let stores = store().into_iter().chain([machine_store()]).filter(|store| store.is_dir());
    let folders = paths("ETW_PACKS").into_iter().chain(stores);
    let files = folders.flat_map(|folder| files(&folder, "etwpack", &mut |_| ()));
    files
        .map(|file| match std::fs::metadata(&file) {
            Ok(data) => (file, data.len(), data.modified().ok()),
            Err(_) => (file, 0, None),
        })
        .collect()
}

/// The folder of the user's packs.
pub fn store() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME")
        .or_else(|| Some(set("HOME")?.join(".local/share")))
        .or_else(|| set("LOCALAPPDATA"));
    data.map(|data| data.join("etw").join("packs"))
}

/// The folder of the packs that all users of the machine share.
pub fn machine_store() -> PathBuf {
    let named = std::env::var_os("ETW_MACHINE_PACKS").filter(|value| !value.is_empty());
    named.map_or_else(|| PathBuf::from("/var/lib/openetw/packs"), PathBuf::from)
}

fn paths(variable: &str) -> Vec<PathBuf> {
    let named = std::env::var_os(variable).unwrap_or_default();
    std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect()
}

fn read(path: &Path, note: &mut dyn FnMut(String)) -> Option<Vec<u8>> {
    std::fs::read(path).map_err(|error| note(format!("{}: {error}", path.display()))).ok()
}

/// The path itself, or the files of a folder with an extension, by name.
fn files(path: &Path, extension: &str, note: &mut dyn FnMut(String)) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            note(format!("{}: {error}", path.display()));
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension)))
        // Reading a pipe would wait, perhaps for ever.
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}
