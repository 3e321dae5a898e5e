//! [`Subscription`]: new records of logs, as their writers append them.
//!
//! A log is a file that its host appends to. A subscription looks at the file when it is polled, and reads the chunks that may
//! have records behind the last one that it returned, also those of archives that were made meanwhile. A log that does not exist yet
//! counts as empty.

use crate::archives::logs_behind;
use crate::stored_record::{StoredRecord, number};
use etw_evtx::bookmark::BookmarkList;
use etw_evtx::query::Selector;
use etw_evtx::{Error, Log};
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A file whose times did not change for so long has no write that its times hide.
const SETTLED: Duration = Duration::from_secs(2);

/// The record with which a subscription begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Start {
    /// The next one that is written.
    Future,
    /// The oldest one of each log.
    Oldest,
    /// The one behind a bookmark. With `is_strict`, the record of the bookmark must still be in its log.
    After {
        /// The bookmark.
        list: BookmarkList,
        /// Whether records that are missing are an error.
        is_strict: bool,
    },
}

/// A log to watch.
#[derive(Debug)]
pub struct Watch {
    /// The channel or file, as the subscriber names it.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The records that are wanted.
    pub selector: Selector,
}

/// Why a subscription could not be started.
#[derive(Debug)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The record of the bookmark is not in the log any more; there may be a gap.
    Stale {
        /// The channel or file.
        name: String,
        /// The record of the bookmark.
        record_id: u64,
    },
    /// A log could not be read.
    Log {
        /// The channel or file.
        name: String,
        /// The reason.
        error: Error,
    },
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubscribeError::Stale { name, record_id } => {
                write!(f, "{name}: record {record_id} of the bookmark is not in the log any more")
            }
            SubscribeError::Log { name, error } => write!(f, "{name}: {error}"),
        }
    }
}

impl std::error::Error for SubscribeError {}

/// Records that a log lost before its subscription had read them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The channel or file, as the subscriber names it.
    pub name: Arc<str>,
    /// From the first to the last one that is missing.
    pub records: RangeInclusive<u64>,
}

/// New records of one or several logs.
#[derive(Debug)]
pub struct Subscription {
    watched: Vec<Watched>,
    /// Records that were read when another log could not be read.
    ready: Vec<StoredRecord>,
}

#[derive(Debug)]
struct Watched {
    name: Arc<str>,
    path: PathBuf,
    selector: Selector,
    /// Records up to this id were seen.
    seen: u64,
    /// Whether the record `seen` was there: later records that are not in the log are in its archives, or missing.
    follows: bool,
    /// Records that are missing.
    missing: Option<RangeInclusive<u64>>,
    /// The file's size and time when it was last read, and when that was.
    last: Option<(u64, SystemTime, Instant)>,
}

impl Subscription {
    /// Subscribes to logs.
    ///
    /// # Errors
    /// [`SubscribeError`].
    pub fn new(logs: Vec<Watch>, start: &Start) -> Result<Subscription, SubscribeError> {
        let mut watched = Vec::new();
        let is_only = logs.len() == 1;
        for Watch { name, path, selector } in logs {
            let mut one = Watched {
                name: name.into(),
                path,
                selector,
                seen: 0,
                follows: false,
                missing: None,
                last: None,
            };
            one.begin(start, is_only)?;
            watched.push(one);
        }
        Ok(Subscription { watched, ready: Vec::new() })
    }

    /// Returns the records that were written since the last call, of each log oldest first.
    ///
    /// # Errors
    /// Those of reading a log. What was read before is returned by the next call.
    pub fn poll(&mut self) -> Result<Vec<StoredRecord>, Error> {
        for watched in &mut self.watched {
            watched.poll(&mut self.ready)?;
        }
        Ok(std::mem::take(&mut self.ready))
    }

    /// Takes the gaps in front of the records of the last [`poll`](Self::poll): the log was overwritten, cleared or damaged before they
    /// were read. One for each log, from the first record that is missing to the last.
    pub fn take_gaps(&mut self) -> Vec<Gap> {
        let gaps = self.watched.iter_mut().filter_map(|watched| {
            let records = watched.missing.take()?;
            Some(Gap { name: Arc::clone(&watched.name), records })
        });
        gaps.collect()
    }
}

impl Watched {
    fn begin(&mut self, start: &Start, is_only: bool) -> Result<(), SubscribeError> {
        let name = self.name.to_string();
        let log = |error| SubscribeError::Log { name: name.clone(), error };
        match start {
            Start::Oldest => {}
            Start::Future => {
                self.seen = self.newest().map_err(log)?;
                self.follows = self.seen > 0;
            }
            Start::After { list, is_strict } => {
                let Some(record_id) = list.record_id(&self.name, is_only) else { return Ok(()) };
                self.seen = record_id;
                if *is_strict && !self.has(record_id).map_err(log)? {
                    return Err(SubscribeError::Stale { name, record_id });
                }
                self.follows = *is_strict;
            }
        }
        Ok(())
    }

    /// The log; `None`: there is none yet.
    fn open(&self) -> Result<Option<Log>, Error> {
        match Log::open(&self.path) {
            Ok(log) => Ok(Some(log)),
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Id of the newest record; 0 without one.
    fn newest(&self) -> Result<u64, Error> {
        let Some(log) = self.open()? else { return Ok(0) };
        let Some(last) = log.chunks().last() else { return Ok(0) };
        let mut newest = last.last_id;
        let mut chunk = log.chunk(last)?;
        while let Some(record) = chunk.next() {
            newest = newest.max(record.id());
        }
        Ok(newest)
    }

    fn has(&self, id: u64) -> Result<bool, Error> {
        let Some(log) = self.open()? else { return Ok(false) };
        let mut records = log.records_in(id..=id);
        while let Some(record) = records.next()? {
            if number(&record) == id {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn poll(&mut self, records: &mut Vec<StoredRecord>) -> Result<(), Error> {
        let Ok(metadata) = std::fs::metadata(&self.path) else { return Ok(()) };
        let now = Instant::now();
        let stamp = (metadata.len(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
        match self.last {
            Some((size, time, since)) if (size, time) == stamp => {
                if now.duration_since(since) > SETTLED {
                    return Ok(());
                }
            }
            _ => self.last = Some((stamp.0, stamp.1, now)),
        }
        let Some(log) = self.open()? else { return Ok(()) };
        let logs = match self.follows {
            true => logs_behind(&self.path, log, self.seen)?,
            false => vec![log],
        };
        for log in &logs {
            self.read(log, records)?;
        }
        Ok(())
    }

    /// Reads the selected records behind the last one.
    fn read(&mut self, log: &Log, records: &mut Vec<StoredRecord>) -> Result<(), Error> {
        let ids = self.seen.saturating_add(1)..=u64::MAX;
        for location in log.chunks().iter().filter(|location| log.may_hold(location, &ids)) {
            let mut chunk = log.chunk(location)?;
            let bytes: Arc<[u8]> = chunk.bytes().into();
            while let Some(record) = chunk.next() {
                if record.id() <= self.seen {
                    continue;
                }
                if self.follows && record.id() > self.seen + 1 {
                    let first = self.missing.as_ref().map_or(self.seen + 1, |gap| *gap.start());
                    self.missing = Some(first..=record.id() - 1);
                }
                self.seen = record.id();
                self.follows = true;
                if self.selector.matches(&record).unwrap_or(false) {
                    records.push(StoredRecord {
                        chunk: Arc::clone(&bytes),
                        chunk_offset: location.offset,
                        at: (record.offset() - location.offset) as usize,
                        source: Arc::clone(&self.name),
                    });
                }
            }
        }
        Ok(())
    }
}
