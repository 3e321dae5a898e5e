//! New files, which appear when they are complete, and `--force`.

use crate::output::{Failure, input_refused, is_read_with};
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether an existing file is replaced.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ReplaceOption {
    /// Replace the output file if it exists
    #[arg(long)]
    pub force: bool,
}

impl ReplaceOption {
    /// Rejects a path of an existing regular file without `--force`.
    pub fn check(self, path: &Path) -> Result<(), Failure> {
        match !self.force && path.is_file() {
            true => Err(Failure::new(format!("{}: exists; --force replaces it", path.display()))),
            false => Ok(()),
        }
    }
}

/// A file under a temporary name beside its own; [`keep`](NewFile::keep) gives it the name, anything else removes it.
///
/// A program that is killed leaves `.etw-*.tmp` behind and nothing under the file's name.
pub struct NewFile {
    file: Option<File>,
    temporary: PathBuf,
    path: PathBuf,
    force: bool,
}

impl NewFile {
    /// Opens a new file. `inputs` are never replaced, other existing files only with `force`.
    pub fn create(path: &Path, inputs: &[PathBuf], force: bool) -> Result<NewFile, Failure> {
        if path == Path::new("-") {
            let text = "-o -: a trace cannot be written to a pipe; give -o a file";
            return Err(Failure::Message(text.into()));
        }
        // The file behind a link is replaced, not the link.
        let real = path.canonicalize().ok();
        if inputs.iter().any(|input| is_read_with(input, path)) {
            return Err(input_refused(path));
        }
        let file = NewFile {
            file: None,
            temporary: PathBuf::new(),
            path: real.unwrap_or_else(|| path.to_owned()),
            force,
        };
        file.check_place()?;
        file.open()
    }

    /// Rejects a path that must not be replaced.
    fn check_place(&self) -> Result<(), Failure> {
        let shown = self.path.display();
        match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.failure(&error)),
            Ok(found) if !found.is_file() => {
                Err(Failure::new(format!("{shown}: exists and is not a regular file")))
            }
            Ok(_) if !self.force => {
                Err(Failure::new(format!("{shown}: exists; --force replaces it")))
            }
            Ok(_) => Ok(()),
        }
    }

    fn open(mut self) -> Result<NewFile, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = self.path.parent().unwrap_or(Path::new("")).to_owned();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = folder.join(format!(".etw-{}-{number}.tmp", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    (self.file, self.temporary) = (Some(file), temporary);
                    return Ok(self);
                }
                // Left by another process that had this number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.failure(&error)),
            }
        }
    }

    /// The open file.
    pub fn file(&self) -> &File {
        match &self.file {
            Some(file) => file,
            None => unreachable!("open until it is kept or dropped"),
        }
    }

    /// Waits until the file is on the disk, and gives it its name.
    pub fn keep(self) -> Result<(), Failure> {
        // Errors of delayed writes appear here, before the old file is replaced.
        self.file().sync_all().map_err(|error| self.failure(&error))?;
        self.keep_generated()
    }

    /// Gives the file its name. The disk may write it later: whatever is generated can be generated again.
    pub fn keep_generated(mut self) -> Result<(), Failure> {
        self.check_place()?;
        self.file = None;
        std::fs::rename(&self.temporary, &self.path).map_err(|error| self.failure(&error))?;
        self.temporary = PathBuf::new();
        Ok(())
    }

    /// The failure for an error of the system.
    pub fn failure(&self, error: &io::Error) -> Failure {
        let help = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; free some space or choose another place"
            }
            io::ErrorKind::NotFound => "; create the folder first",
            io::ErrorKind::FileTooLarge => "; ulimit -f unlimited lifts the limit of this shell",
            _ => "",
        };
        Failure::new(format!("{}: cannot be written: {error}{help}", self.path.display()))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        self.file = None;
        if self.temporary != PathBuf::new() {
            // If this fails, the name still says that the file is temporary.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Removes the temporary files of a folder whose writers were killed.
pub fn remove_abandoned(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_abandoned = name.to_str().and_then(writer_of).is_some_and(|pid| !is_alive(pid));
        if is_abandoned && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            // A file that stays does no harm: its name says that it is temporary.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The process that wrote a temporary file of this name.
fn writer_of(name: &str) -> Option<u32> {
    let (pid, number) = name.strip_prefix(".etw-")?.strip_suffix(".tmp")?.split_once('-')?;
    number.parse::<u32>().ok()?;
    pid.parse().ok()
}

/// Whether a process may be running; processes of other users count.
#[cfg(unix)]
fn is_alive(pid: u32) -> bool {
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) else { return false };
    // SAFETY: numbers; signal 0 only asks whether the process exists.
    let error = unsafe { libc::kill(pid, 0) };
    error == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(not(unix))]
fn is_alive(_: u32) -> bool {
    true
}
