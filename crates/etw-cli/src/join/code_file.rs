//! Files in which programs write the names of their compiled code.

use crate::join::file_time;
use etw_types::FileTime;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of a perf map or jitdump file that are read.
const LIMIT: u64 = 256 << 20;

/// Where such a file may be. Other users can write these files, and swap them and the links on the way to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Here(PathBuf),
    /// A path as a process sees it, which may be in a container.
    InRootOf(u32, PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Here(path) => path.display().fmt(f),
            Place::InRootOf(process, path) => write!(f, "/proc/{process}/root{}", path.display()),
        }
    }
}

impl Place {
    /// Opens the file: a link would lead to a file of ours, a pipe would block.
    #[cfg(target_os = "linux")]
    fn open(&self) -> io::Result<File> {
        use etw_system::process_root::{LastLink, open_here, open_in_root};
        match self {
            Place::Here(path) => open_here(path, LastLink::Refused),
            Place::InRootOf(process, path) => open_in_root(*process, path, LastLink::Refused),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open(&self) -> io::Result<File> {
        let Place::Here(path) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let file = File::open(path)?;
        let is_regular = file.metadata()?.is_file();
        is_regular.then_some(file).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// The first bytes of the file, up to a limit. `since`: an older file is an error.
    pub fn read(&self, since: Option<FileTime>) -> io::Result<Vec<u8>> {
        let file = self.open()?;
        if let Some(since) = since {
            let written = file_time(file.metadata()?.modified()?);
            if written.is_none_or(|written| written < since) {
                return Err(io::Error::other("it is older than the trace"));
            }
        }
        let mut bytes = Vec::new();
        file.take(LIMIT).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub fn is(&self, path: &Path) -> bool {
        matches!(self, Place::Here(own) if own == path)
    }
}
