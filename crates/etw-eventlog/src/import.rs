//! Entries of other logs as records: [`journal`] of systemd, [`syslog`] lines.

pub mod journal;
pub mod syslog;

use crate::computer::computer_name;
use crate::log_file::{Limit, LogFile, WhenFull};
use crate::record::{RecordBuilder, RecordFacts};
use crate::report::Report;
use etw_evtx::Error;
use etw_types::{EventRecord, FileTime, HeaderType};
use std::io;
use std::path::Path;

/// Bytes of an entry's text in a record.
const MAX_TEXT: usize = 24 << 10;

/// An entry of another log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// When it was written.
    pub time: FileTime,
    /// Its severity: 0 emergency to 7 debug.
    pub severity: u8,
    /// The program.
    pub source: String,
    /// Name of the machine, if the entry has it.
    pub computer: Option<String>,
    /// Number of the process.
    pub process: Option<u32>,
    /// Number of the user.
    pub user: Option<u32>,
    /// The text.
    pub message: String,
    /// Further fields, as `NAME=value`.
    pub fields: Vec<String>,
}

/// Writes entries to an event log.
#[derive(Debug)]
pub struct Importer {
    file: LogFile,
    builder: RecordBuilder,
    computer: String,
    channel: String,
    next: i64,
}

impl Importer {
    /// Opens a log, or creates it. `channel`: the channel that its records name.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn open(path: &Path, channel: &str) -> io::Result<Importer> {
        let limit = Limit { max_size: u64::MAX, when_full: WhenFull::Refuse };
        // Imports are not resumed by the mark: no other import has this number.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let session = now.map_or(1, |now| now.as_nanos() as u64) | 1;
        Ok(Importer {
            file: LogFile::open(path, limit, session)?,
            builder: RecordBuilder::new(),
            computer: computer_name(),
            channel: channel.to_owned(),
            next: 1,
        })
    }

    /// Adds entries. When this returns, readers of the log find them.
    ///
    /// # Errors
    /// Those of the system; the entries are then not in the log.
    pub fn add(&mut self, entries: &[Entry]) -> io::Result<()> {
        let Importer { file, builder, computer, channel, next } = self;
        file.store(*next, &mut |pending| {
            for entry in entries {
                let mut event = EventRecord::new(HeaderType::Event64, &[]);
                event.process_id = entry.process;
                let mut report = entry.report();
                let facts = RecordFacts {
                    id: pending.log.next_id(),
                    time: entry.time,
                    channel,
                    computer: entry.computer.as_deref().unwrap_or(computer),
                };
                let log = &mut *pending.log;
                let whole =
                    builder.build_report(&event, &report, facts, |one| log.append(entry.time, one));
                match whole {
                    Err(Error::DoesNotFit { .. }) => {
                        report.strings.truncate(1);
                        builder.build_report(&event, &report, facts, |one| {
                            log.append(entry.time, one)
                        })?
                    }
                    other => other?,
                };
            }
            Ok(())
        })?;
        *next += 1;
        Ok(())
    }

    /// Closes the log.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.finish()
    }
}

impl Entry {
    fn report(&self) -> Report {
        let mut sid = Vec::new();
        if let Some(user) = self.user {
            // S-1-22-1-UID, Samba's form.
            sid.extend_from_slice(&[1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0]);
            sid.extend_from_slice(&user.to_le_bytes());
        }
        let message = cut(&self.message);
        Report {
            log: String::new(),
            source: cut(&self.source).chars().take(255).collect(),
            id: 0,
            kind: match self.severity {
                0..=3 => 1,
                4 => 2,
                _ => 4,
            },
            category: 0,
            user: sid,
            strings: std::iter::once(message.to_owned())
                .chain(self.fields.iter().cloned())
                .collect(),
            data: Vec::new(),
        }
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A FILETIME of microseconds since 1970.
pub(crate) fn time_of_micros(micros: i64) -> Option<FileTime> {
    Some(FileTime(micros.checked_mul(10)?.checked_add(FileTime::UNIX_EPOCH.0)?))
}
