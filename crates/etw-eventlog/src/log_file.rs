//! [`LogFile`]: one log that the buffers of a session are stored in, each record once over kills of the host.
//!
//! Before a buffer is stored, its sequence number and the id of its first record are marked in the log's header. If the host is
//! killed, the next one stores the same buffers again, and the mark says which of their records the log has.

use crate::access::Access;
use crate::archives::archive_file;
use crate::permissions::permit;
use etw_evtx::Error;
use etw_evtx::write::{LogWriter, Mark, Retention};
use etw_types::FileTime;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The limit of a kept log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of the file; `u64::MAX`: no limit.
    pub max_size: u64,
    /// The action when the file has this size.
    pub when_full: WhenFull,
}

/// The action when a kept log has its maximum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest records are overwritten, a chunk at a time.
    Overwrite,
    /// Buffers that do not fit are refused whole.
    Refuse,
    /// The file becomes `Archive-NAME-DATE.evtx` beside it, and a new one continues its ids.
    Archive,
}

/// The log's part of a buffer while it is being stored.
#[derive(Debug)]
pub struct Pending<'l> {
    /// The log.
    pub log: &'l mut LogWriter,
    /// Records of the buffer that the log has from before a crash.
    known: u64,
}

impl Pending<'_> {
    /// Records of the buffer that the log still has from before a crash.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Whether the log has the next record from before a crash.
    pub fn is_known(&mut self) -> bool {
        let is_known = self.known > 0;
        self.known = self.known.saturating_sub(1);
        is_known
    }
}

/// A log that is open for the buffers of a session.
#[derive(Debug)]
pub struct LogFile {
    log: Option<LogWriter>,
    path: PathBuf,
    when_full: WhenFull,
    /// Identifies the session among those that wrote the log.
    session: u64,
    /// The rights that the file and its successors get.
    access: Option<Access>,
    /// Buffers up to this sequence number are in the log.
    stored: Option<i64>,
    /// The buffer that was being stored when the host before was killed, and how many of its records the log has.
    halfway: Option<(i64, u64)>,
}

impl LogFile {
    /// Opens a log, or creates it. `session`: a number that no other session that wrote the log had.
    ///
    /// # Errors
    /// Those of opening it; a file that is not an event log is an error.
    pub fn open(path: &Path, limit: Limit, session: u64) -> io::Result<LogFile> {
        finish_archiving(path)?;
        let retention = match limit.when_full {
            WhenFull::Overwrite => Retention::Overwrite,
            WhenFull::Refuse | WhenFull::Archive => Retention::Keep,
        };
        let log = LogWriter::open(path, limit.max_size, retention).map_err(io_error)?;
        let mark = log.mark().filter(|mark| mark.owner == session);
        Ok(LogFile {
            stored: mark.map(|mark| mark.sequence - 1),
            halfway: mark.map(|mark| (mark.sequence, log.next_id().saturating_sub(mark.first_id))),
            log: Some(log),
            path: path.to_owned(),
            when_full: limit.when_full,
            session,
            access: None,
        })
    }

    /// Gives the file, and those that replace it, the permissions of a log's rights.
    ///
    /// # Errors
    /// As [`permit`]; the file that has them then may be read by fewer users.
    pub fn set_access(&mut self, access: &Access) -> io::Result<()> {
        self.access = Some(access.clone());
        permit(&self.path, access)
    }

    /// The id that the next record gets; `None` after [`finish`](LogFile::finish).
    pub fn next_id(&self) -> Option<u64> {
        self.log.as_ref().map(LogWriter::next_id)
    }

    /// Whether the records of a buffer are in the log.
    pub fn has(&self, sequence: i64) -> bool {
        self.stored.is_some_and(|stored| sequence <= stored)
    }

    /// Stores the records of a buffer, which `append` appends, maybe twice: to the full log, and to its successor.
    ///
    /// # Errors
    /// Those of the system; a log that is full and refuses records is one. The records are then not in the log, those aside that
    /// filled a whole chunk before the system's error.
    pub fn store(
        &mut self,
        sequence: i64,
        append: &mut dyn FnMut(&mut Pending<'_>) -> Result<(), Error>,
    ) -> io::Result<()> {
        if self.has(sequence) {
            return Ok(());
        }
        let Some(mut log) = self.log.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut stored = self.append_or_withdraw(&mut log, sequence, append);
        if matches!(stored, Err(Error::Full)) && self.when_full == WhenFull::Archive {
            let path = archive_name(&self.path);
            stored = self
                .replace(&mut log, Some(&path))
                .and_then(|()| self.append_or_withdraw(&mut log, sequence, append));
        }
        self.log = Some(log);
        stored.map_err(io_error)?;
        self.stored = Some(sequence);
        self.halfway = None;
        Ok(())
    }

    /// Appends the records of a buffer; none if the log refuses one of them.
    fn append_or_withdraw(
        &mut self,
        log: &mut LogWriter,
        sequence: i64,
        append: &mut dyn FnMut(&mut Pending<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = log.save();
        let appended = self.append(log, sequence, append);
        match &appended {
            Ok(()) => {}
            Err(Error::Full) => log.withdraw(before)?,
            Err(_) => log.restore(before),
        }
        appended
    }

    fn append(
        &mut self,
        log: &mut LogWriter,
        sequence: i64,
        append: &mut dyn FnMut(&mut Pending<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let known = match self.halfway {
            Some((halfway, count)) if halfway == sequence => count,
            _ => {
                let mark = Mark { owner: self.session, sequence, first_id: log.next_id() };
                log.set_mark(mark)?;
                0
            }
        };
        append(&mut Pending { log, known })?;
        log.sync()
    }

    /// Puts a new log in the place of the present one, whose ids it continues. `old`: the name of the present one from now on;
    /// `None`: it is deleted.
    fn replace(&mut self, log: &mut LogWriter, old: Option<&Path>) -> Result<(), Error> {
        let new = successor(&self.path);
        remove_if_there(&new)?;
        let fresh = LogWriter::create_after(&new, log)?;
        if let Some(access) = &self.access {
            // Nobody may read more than before, also if a file system has no access lists.
            let _ = permit(&new, access);
        }
        if let Some(old) = old {
            std::fs::rename(&self.path, old)?;
        }
        if let Err(error) = std::fs::rename(&new, &self.path) {
            if let Some(old) = old {
                std::fs::rename(old, &self.path)?;
            }
            return Err(error.into());
        }
        let before = std::mem::replace(log, fresh);
        match old {
            Some(_) => before.close(),
            None => Ok(()),
        }
    }

    /// Removes all records; the ids of later ones continue. `backup`: an event log that receives the records first, and that must
    /// not exist.
    ///
    /// # Errors
    /// Those of the system. The log is cleared only when the backup is complete.
    pub fn clear(&mut self, backup: Option<&Path>) -> io::Result<()> {
        let Some(mut log) = self.log.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let cleared = (|| {
            log.sync()?;
            if let Some(backup) = backup {
                copy_log(&self.path, backup, self.access.as_ref())?;
            }
            self.replace(&mut log, None)
        })();
        self.log = Some(log);
        cleared.map_err(io_error)
    }

    /// Closes the log.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.log.take() {
            Some(log) => log.close().map_err(io_error),
            None => Ok(()),
        }
    }
}

/// [`LogFile::clear`] of a log that no host keeps, with its rights. A log without a file has no records, nor has its backup.
///
/// # Errors
/// Those of the system.
pub fn clear_file(path: &Path, backup: Option<&Path>, access: &Access) -> io::Result<()> {
    if !path.exists() {
        return match backup {
            None => Ok(()),
            Some(backup) => empty_log(backup, access).map_err(io_error),
        };
    }
    let limit = Limit { max_size: u64::MAX, when_full: WhenFull::Refuse };
    let mut log = LogFile::open(path, limit, 0)?;
    log.access = Some(access.clone());
    log.clear(backup)?;
    log.finish()
}

/// Writes a log without records, with its rights, to a file that does not exist.
fn empty_log(path: &Path, access: &Access) -> Result<(), Error> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    // Without access lists, the mode bits are set nevertheless.
    let _ = permit(path, access);
    LogWriter::from_file(file, u64::MAX, Retention::Keep)?.close()
}

/// Copies a log to a file that does not exist, and closes the copy. Those who may not read the log may not read the copy.
fn copy_log(from: &Path, to: &Path, access: Option<&Access>) -> Result<(), Error> {
    let mut copy = File::options().read(true).write(true).create_new(true).open(to)?;
    let copied = (|| {
        match access {
            Some(access) => drop(permit(to, access)),
            None => copy.set_permissions(std::fs::metadata(from)?.permissions())?,
        }
        io::copy(&mut File::open(from)?, &mut copy)?;
        LogWriter::from_file(copy, u64::MAX, Retention::Keep)?.close()
    })();
    if copied.is_err() {
        let _ = std::fs::remove_file(to);
    }
    copied
}

/// The log that replaces one that is being archived or cleared, until it gets its name.
fn successor(path: &Path) -> PathBuf {
    path.with_extension("evtx.new")
}

/// Completes the archiving of a log during which its host was killed: the old file had its new name, or had not.
fn finish_archiving(path: &Path) -> io::Result<()> {
    let new = successor(path);
    match std::fs::symlink_metadata(&new) {
        Ok(found) if found.is_file() && !path.exists() => std::fs::rename(new, path),
        Ok(_) => remove_if_there(&new),
        Err(_) => Ok(()),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// `Archive-NAME-DATE.evtx` beside a log, for the present time; no such file exists.
fn archive_name(path: &Path) -> PathBuf {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut time = FileTime::UNIX_EPOCH.0 + since.map_or(0, |since| since.as_nanos() / 100) as i64;
    loop {
        let archive = archive_file(path, &FileTime(time).to_string());
        if !archive.exists() {
            return archive;
        }
        time += 10_000;
    }
}

pub(crate) fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}
