//! Files in which programs write the names of their compiled code.

use crate::join::file_time;
use etw_types::FileTime;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of a perf map or jitdump file that are read.
const LIMIT: u64 = 256 << 20;

/// Which of such files are believed: in a folder like `/tmp` any user may write one.
#[derive(Clone, Debug)]
pub struct Trust {
    /// An older file is that of another process with the number.
    pub since: FileTime,
    /// The end of the process.
    pub until: Option<FileTime>,
    /// Users of the process. Root's files are believed, too.
    pub users: BTreeSet<u32>,
}

impl Trust {
    /// So many ticks of 100 ns may the clocks of the trace and of files differ.
    const SLACK: i64 = 10_000_000;

    fn check(&self, file: &File) -> io::Result<()> {
        let data = file.metadata()?;
        let written = file_time(data.modified()?);
        if written.is_none_or(|written| written < self.since) {
            return Err(io::Error::other("it is older than the trace"));
        }
        let refused = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, Refused(why)));
        let is_others = |owner: u32| owner != 0 && !self.users.contains(&owner);
        if owner(&data).is_some_and(is_others) {
            return refused("another user than that of the process owns it");
        }
        let is_late = |end: FileTime| {
            written.is_some_and(|written| written.0 > end.0.saturating_add(Trust::SLACK))
        };
        if self.until.is_some_and(is_late) {
            return refused("it was written after the process ended");
        }
        Ok(())
    }
}

#[cfg(unix)]
fn owner(data: &Metadata) -> Option<u32> {
    Some(std::os::unix::fs::MetadataExt::uid(data))
}

#[cfg(not(unix))]
fn owner(_: &Metadata) -> Option<u32> {
    None
}

/// Why a file is not believed.
#[derive(Debug)]
pub struct Refused(&'static str);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Refused {}

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
        let mut options = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        let file = options.read(true).open(path)?;
        let is_regular = file.metadata()?.is_file();
        is_regular.then_some(file).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// The first bytes of the file, up to a limit. `trust`: a file that is not believed is an error; the user's own choice needs none.
    pub fn read(&self, trust: Option<&Trust>) -> io::Result<Vec<u8>> {
        let file = self.open()?;
        if let Some(trust) = trust {
            trust.check(&file)?;
        }
        let mut bytes = Vec::new();
        file.take(LIMIT).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub fn is(&self, path: &Path) -> bool {
        matches!(self, Place::Here(own) if own == path)
    }
}
