//! [`KeptLog`]: the event log of a session, which its host appends to buffer by buffer.
//!
//! Before a buffer is stored, its sequence number and the id of its first record are marked in the log's header. If the host is
//! killed, the next one stores the same buffers again, and the mark says which of their records the log has.

use crate::record::{RecordBuilder, RecordFacts};
use etw_decode::{Catalog, Decoder};
use etw_etl::read::{BufferRecords, Item, buffer};
use etw_etl::record::RecordContext;
use etw_evtx::Error;
use etw_evtx::write::{LogWriter, Mark, Retention};
use etw_types::{BufferHeader, Clock, EventRecord, FileTime, HeaderType, is_session_report};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// A log that events are appended to.
pub struct KeptLog {
    log: Option<LogWriter>,
    path: PathBuf,
    when_full: WhenFull,
    decoder: Decoder,
    builder: RecordBuilder,
    clock: Clock,
    channel: String,
    computer: String,
    /// Identifies the session among those that wrote the log.
    session: u64,
    /// Buffers up to this sequence number are in the log.
    stored: Option<i64>,
    /// The buffer that was being stored when the host before was killed, and how many of its records the log has.
    halfway: Option<(i64, u64)>,
}

impl std::fmt::Debug for KeptLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptLog").field("log", &self.log).finish_non_exhaustive()
    }
}

/// A session that keeps its events in a log.
#[derive(Clone, Debug)]
pub struct KeptSession {
    /// A number that no other session that wrote the log had.
    pub session: u64,
    /// The clock of its events.
    pub clock: Clock,
    /// The channel of events that name none.
    pub channel: String,
    /// Schemas, for events that do not describe themselves.
    pub schemas: Arc<Catalog>,
}

impl KeptLog {
    /// Opens a log, or creates it.
    ///
    /// # Errors
    /// Those of opening it; a file that is not an event log is an error.
    pub fn open(path: &Path, limit: Limit, session: KeptSession) -> io::Result<KeptLog> {
        finish_archiving(path)?;
        let retention = match limit.when_full {
            WhenFull::Overwrite => Retention::Overwrite,
            WhenFull::Refuse | WhenFull::Archive => Retention::Keep,
        };
        let log = LogWriter::open(path, limit.max_size, retention).map_err(io_error)?;
        let mark = log.mark().filter(|mark| mark.owner == session.session);
        let mut decoder = Decoder::new();
        decoder.set_own_catalog(session.schemas);
        Ok(KeptLog {
            stored: mark.map(|mark| mark.sequence - 1),
            halfway: mark.map(|mark| (mark.sequence, log.next_id().saturating_sub(mark.first_id))),
            log: Some(log),
            path: path.to_owned(),
            when_full: limit.when_full,
            decoder,
            builder: RecordBuilder::new(),
            clock: session.clock,
            channel: session.channel,
            computer: computer_name(),
            session: session.session,
        })
    }

    /// The id that the next record gets; `None` after [`finish`](KeptLog::finish).
    pub fn next_id(&self) -> Option<u64> {
        self.log.as_ref().map(LogWriter::next_id)
    }

    /// Stores the events of a buffer, as it is in files; see the module for buffers that come again.
    ///
    /// # Errors
    /// Those of the system; a log that is full and refuses records is one. The events are then not in the log, those aside that
    /// filled a whole chunk before the system's error.
    pub fn store(&mut self, bytes: &[u8]) -> io::Result<()> {
        let limit = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // A session's own buffer is sound.
        let Ok((header, records)) = buffer::open(bytes, limit) else { return Ok(()) };
        let sequence = header.sequence_number;
        if self.stored.is_some_and(|stored| sequence <= stored) {
            return Ok(());
        }
        let Some(mut log) = self.log.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut stored = self.append_or_withdraw(&mut log, &header, &records);
        if matches!(stored, Err(Error::Full)) && self.when_full == WhenFull::Archive {
            stored = self
                .archive(&mut log)
                .and_then(|()| self.append_or_withdraw(&mut log, &header, &records));
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
        header: &BufferHeader,
        records: &[u8],
    ) -> Result<(), Error> {
        let before = log.save();
        let appended = self.append(log, header, records);
        match &appended {
            Ok(()) => {}
            Err(Error::Full) => log.withdraw(before)?,
            Err(_) => log.restore(before),
        }
        appended
    }

    /// Gives the file its archive's name, and begins a new one.
    fn archive(&mut self, log: &mut LogWriter) -> Result<(), Error> {
        let new = successor(&self.path);
        remove_if_there(&new)?;
        let fresh = LogWriter::create_after(&new, log)?;
        let archive = archive_name(&self.path);
        std::fs::rename(&self.path, &archive)?;
        if let Err(error) = std::fs::rename(&new, &self.path) {
            std::fs::rename(&archive, &self.path)?;
            return Err(error.into());
        }
        std::mem::replace(log, fresh).close()
    }

    fn append(
        &mut self,
        log: &mut LogWriter,
        header: &BufferHeader,
        records: &[u8],
    ) -> Result<(), Error> {
        let sequence = header.sequence_number;
        // Records of this buffer that the log has from before a crash.
        let mut known = match self.halfway {
            Some((halfway, count)) if halfway == sequence => count,
            _ => {
                let mark = Mark { owner: self.session, sequence, first_id: log.next_id() };
                log.set_mark(mark)?;
                0
            }
        };
        for item in BufferRecords::new(records, &RecordContext::default()) {
            let Item::Record { mut record, .. } = item else { continue };
            record.cpu = header.processor;
            if !is_kept(&record) {
                // Schemas are learnt from it all the same.
                self.decoder.decode(&record);
                continue;
            }
            let Some(time) = record.timestamp(&self.clock) else { continue };
            if known > 0 {
                known -= 1;
                continue;
            }
            self.push(log, &record, time)?;
        }
        log.sync()
    }

    fn push(
        &mut self,
        log: &mut LogWriter,
        record: &EventRecord<'_>,
        time: FileTime,
    ) -> Result<(), Error> {
        let decoded = self.decoder.decode(record);
        let facts = RecordFacts {
            id: log.next_id(),
            time,
            channel: &self.channel,
            computer: &self.computer,
        };
        let whole = self.builder.build(record, &decoded, facts, |one| log.append(time, one));
        match whole {
            Err(Error::DoesNotFit { .. }) => {
                self.builder.build_cut(record, &decoded, facts, |one| log.append(time, one))
            }
            other => other,
        }
        .map(drop)
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

/// The log that replaces one that is being archived, until it gets its name.
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
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut time = FileTime::UNIX_EPOCH.0 + since.map_or(0, |since| since.as_nanos() / 100) as i64;
    loop {
        // 2026-01-31T23:59:59.1234567Z, to the millisecond.
        let date = FileTime(time).to_string();
        let date = date.get(..23).unwrap_or(&date).replace(['T', ':', '.'], "-");
        let archive = path.with_file_name(format!("Archive-{name}-{date}.evtx"));
        if !archive.exists() {
            return archive;
        }
        time += 10_000;
    }
}

/// Events of programs; not what a session or the kernel says of itself.
fn is_kept(record: &EventRecord<'_>) -> bool {
    matches!(record.header, HeaderType::Event32 | HeaderType::Event64)
        && !is_session_report(record)
        && !etw_decode::Store::is_schema_record(record)
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// The machine's name.
fn computer_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    match name.is_empty() {
        true => std::env::var("COMPUTERNAME").unwrap_or_default(),
        false => name.to_owned(),
    }
}
