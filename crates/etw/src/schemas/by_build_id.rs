//! Schemas of programs and libraries that do not carry them: files that a module's build id names, as debug files are found.
//!
//! ```text
//! FOLDER/ab/cdef….debug      FOLDER: those of ETW_SCHEMAS, then /usr/lib/debug/.build-id; abcdef…: the build id in hex
//! ```
//!
//! Such a file is the object of `etw mc -elf`, or a debug file that was split from a program linked with it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use etw_types::{SCHEMA_NOTE_OWNER, SCHEMA_NOTE_TYPE};

/// Folders beside the system's own, separated as in `PATH`.
const VARIABLE: &str = "ETW_SCHEMAS";
const SYSTEM: &str = "/usr/lib/debug/.build-id";
/// Bytes of the longest build id that names a file.
const MAX_ID: usize = 64;
/// Modules of one process that are looked up.
const MAX_MODULES: usize = 1024;

type Blobs = Arc<[Vec<u8>]>;

/// The blobs of each build id, read once in a process: most modules have none.
static KNOWN: Mutex<BTreeMap<Vec<u8>, Blobs>> = Mutex::new(BTreeMap::new());

/// Calls `f` with each blob that a loaded module's build id names.
pub fn each(f: &mut dyn FnMut(&[u8])) {
    // Files are read behind the loader's lock.
    let mut ids = Vec::new();
    etw_stack::notes("GNU", 3, &mut |id| {
        if (2..=MAX_ID).contains(&id.len()) && ids.len() < MAX_MODULES {
            ids.push(id.to_vec());
        }
    });
    for id in ids {
        blobs(&id).iter().for_each(|blob| f(blob));
    }
}

fn blobs(id: &[u8]) -> Blobs {
    // A child of `fork` may find the lock held by nobody any more: it reads the files again.
    if let Some(known) = KNOWN.try_lock().ok().and_then(|known| known.get(id).cloned()) {
        return known;
    }
    let blobs: Blobs = folders().iter().flat_map(|folder| read(&folder.join(file(id)))).collect();
    if let Ok(mut known) = KNOWN.try_lock() {
        known.insert(id.to_vec(), blobs.clone());
    }
    blobs
}

fn folders() -> Vec<PathBuf> {
    let named = etw_wire::runtime_directory::variable(VARIABLE);
    let mut folders: Vec<PathBuf> =
        named.iter().flat_map(std::env::split_paths).filter(|one| one.is_absolute()).collect();
    folders.push(PathBuf::from(SYSTEM));
    folders
}

/// `ab/cdef….debug`
fn file(id: &[u8]) -> PathBuf {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (first, rest) = id.split_at(1);
    PathBuf::from(hex(first)).join(format!("{}.debug", hex(rest)))
}

/// The blobs in a file; none if it is no regular file. A pipe does not block.
fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut blobs = Vec::new();
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let Ok(file) = opened else { return blobs };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return blobs;
    }
    etw_stack::notes_of_file(
        &mut |offset, out| file.read_exact_at(out, offset).is_ok(),
        SCHEMA_NOTE_OWNER,
        SCHEMA_NOTE_TYPE,
        &mut |note| blobs.push(note.to_vec()),
    );
    blobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_names_a_file_as_debug_files_are_named() {
        assert_eq!(file(&[0xab, 0xcd, 0x01]), Path::new("ab/cd01.debug"));
    }

    #[test]
    fn pipes_folders_and_other_files_have_no_schemas() {
        let folder = std::env::temp_dir().join(format!("etw-build-id-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pipe = folder.join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name ends with NUL.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let text = folder.join("text");
        std::fs::write(&text, b"\x7fELF\x02, but no more").unwrap();
        for path in [&pipe, &text, &folder, &folder.join("missing")] {
            assert!(read(path).is_empty(), "{}", path.display());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
