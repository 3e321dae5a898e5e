//! [`ResultSet`]: the records that a query selects of one or several logs, in order of time, with a position that moves.

use crate::stored_record::{StoredRecord, number};
use etw_evtx::bookmark::BookmarkList;
use etw_evtx::query::Selector;
use etw_evtx::{Damage, Error, Log};
use etw_types::FileTime;
use std::sync::Arc;

/// One log of a query.
#[derive(Debug)]
pub struct Source {
    /// The channel or file, as the query names it.
    pub name: String,
    /// The log.
    pub log: Log,
    /// The records that are selected.
    pub selector: Selector,
}

/// A position in a result, to which [`ResultSet::seek`] adds an offset.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Origin {
    /// The first record of the result.
    First,
    /// The last one.
    Last,
    /// The record that the next call would return.
    Current,
    /// The record of a bookmark. Without `is_strict`, the next record after it stands for one that is not in the result.
    Bookmark {
        /// The bookmark.
        list: BookmarkList,
        /// Whether a record that is not in the result is an error.
        is_strict: bool,
    },
}

/// A position that is not in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeekError {
    /// It is before the first or behind the last record.
    OutOfRange,
    /// The record of the bookmark is not in the result.
    NoBookmark,
    /// A log could not be read.
    Read,
}

impl std::fmt::Display for SeekError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SeekError::OutOfRange => "the position is outside of the result",
            SeekError::NoBookmark => "the bookmark's record is not in the result",
            SeekError::Read => "the log cannot be read",
        })
    }
}

impl std::error::Error for SeekError {}

/// The selected records of several logs. Chunks are read when their records are asked for; of each record that was found, its
/// position is remembered.
#[derive(Debug)]
pub struct ResultSet {
    sources: Vec<Part>,
    is_reverse: bool,
    found: Vec<Found>,
    next: usize,
    /// The chunk of the last record that was returned.
    chunk: Option<(usize, usize, Arc<[u8]>)>,
}

#[derive(Debug)]
struct Part {
    name: Arc<str>,
    log: Log,
    selector: Selector,
    /// Chunks that are left, the next one last.
    chunks: Vec<usize>,
    /// Selected records of the current chunk, the next one last.
    ready: Vec<(FileTime, Found)>,
    problems: Problems,
}

/// Parts of a log that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problems {
    /// Damage of the chunks that were read.
    pub damage: Vec<Damage>,
    /// Records that expand beyond all bounds. They are not selected.
    pub too_large: u64,
}

impl Problems {
    /// The damage of the file itself, before a chunk was read.
    pub(crate) fn of(log: &Log) -> Problems {
        Problems { damage: log.records().damage().to_vec(), too_large: 0 }
    }
}

/// The position of a record.
#[derive(Clone, Copy, Debug)]
struct Found {
    source: usize,
    chunk: usize,
    at: usize,
    number: u64,
}

impl ResultSet {
    /// The result of a query on some logs: oldest record first, or newest.
    pub fn new(sources: Vec<Source>, is_reverse: bool) -> ResultSet {
        let part = |Source { name, log, selector }| {
            let mut chunks = log.candidate_chunks(&selector);
            if !is_reverse {
                chunks.reverse();
            }
            let problems = Problems::of(&log);
            Part { name: name.into(), log, selector, chunks, ready: Vec::new(), problems }
        };
        let sources = sources.into_iter().map(part).collect();
        ResultSet { sources, is_reverse, found: Vec::new(), next: 0, chunk: None }
    }

    /// The names of the logs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|part| &*part.name)
    }

    /// The parts that could not be read so far, of each log, in the order of the sources.
    pub fn into_problems(self) -> Vec<Problems> {
        self.sources.into_iter().map(|part| part.problems).collect()
    }

    /// Returns the next record.
    ///
    /// # Errors
    /// Those of reading a log.
    #[allow(
        clippy::should_implement_trait,
        reason = "it returns errors, like other readers of logs"
    )]
    pub fn next(&mut self) -> Result<Option<StoredRecord>, Error> {
        if !self.find(self.next)? {
            return Ok(None);
        }
        let Found { source, chunk, at, .. } = self.found[self.next];
        self.next += 1;
        let part = &self.sources[source];
        let location = part.log.chunks()[chunk];
        let bytes = match &self.chunk {
            Some((of, index, bytes)) if (*of, *index) == (source, chunk) => Arc::clone(bytes),
            _ => {
                let bytes: Arc<[u8]> = part.log.chunk(&location)?.bytes().into();
                self.chunk = Some((source, chunk, Arc::clone(&bytes)));
                bytes
            }
        };
        let source = Arc::clone(&part.name);
        Ok(Some(StoredRecord { chunk: bytes, chunk_offset: location.offset, at, source }))
    }

    /// Moves to the record that is `offset` records behind an origin, in the order of the result.
    ///
    /// # Errors
    /// [`SeekError`]; the position stays as it was.
    pub fn seek(&mut self, origin: &Origin, offset: i64) -> Result<(), SeekError> {
        let read = |_| SeekError::Read;
        let start = match origin {
            Origin::First => 0,
            Origin::Current => self.next,
            Origin::Last => {
                self.find(usize::MAX).map_err(read)?;
                self.found.len().checked_sub(1).ok_or(SeekError::OutOfRange)?
            }
            Origin::Bookmark { list, is_strict } => self.bookmarked(list, *is_strict)?,
        };
        let target = i64::try_from(start).ok().and_then(|start| start.checked_add(offset));
        let target = target.and_then(|target| usize::try_from(target).ok());
        let target = target.ok_or(SeekError::OutOfRange)?;
        // The position behind the last record is one, too.
        if target > 0 && !self.find(target - 1).map_err(read)? {
            return Err(SeekError::OutOfRange);
        }
        self.next = target;
        Ok(())
    }

    /// The index of a bookmark's record, or of the first one behind it.
    fn bookmarked(&mut self, list: &BookmarkList, is_strict: bool) -> Result<usize, SeekError> {
        let is_only = self.sources.len() == 1;
        let numbers: Vec<Option<u64>> =
            self.names().map(|name| list.record_id(name, is_only)).collect();
        let mut index = 0;
        while self.find(index).map_err(|_| SeekError::Read)? {
            let found = self.found[index];
            if let Some(number) = numbers[found.source] {
                let is_behind = match self.is_reverse {
                    false => found.number > number,
                    true => found.number < number,
                };
                if found.number == number || is_behind && !is_strict {
                    return Ok(index);
                }
            }
            index += 1;
        }
        match is_strict {
            true => Err(SeekError::NoBookmark),
            false => Ok(index),
        }
    }

    /// Whether the result has a record of an index; reads as far as that needs.
    fn find(&mut self, index: usize) -> Result<bool, Error> {
        while self.found.len() <= index {
            for (number, part) in self.sources.iter_mut().enumerate() {
                part.fill(number, self.is_reverse)?;
            }
            let times = self.sources.iter().enumerate();
            let times = times.filter_map(|(index, part)| Some((part.ready.last()?.0, index)));
            let next = match self.is_reverse {
                false => times.min_by_key(|(time, index)| (time.0, *index)),
                true => times.max_by_key(|(time, index)| (time.0, std::cmp::Reverse(*index))),
            };
            let ready = next.and_then(|(_, index)| self.sources[index].ready.pop());
            let Some((_, found)) = ready else { return Ok(false) };
            self.found.push(found);
        }
        Ok(true)
    }
}

impl Part {
    /// Reads chunks until a selected record is ready.
    fn fill(&mut self, source: usize, is_reverse: bool) -> Result<(), Error> {
        while self.ready.is_empty() {
            let Some(index) = self.chunks.pop() else { return Ok(()) };
            let location = self.log.chunks()[index];
            let mut chunk = self.log.chunk(&location)?;
            while let Some(record) = chunk.next_candidate(&self.selector) {
                let is_selected = self.selector.matches(&record).unwrap_or_else(|_| {
                    self.problems.too_large += 1;
                    false
                });
                if is_selected {
                    let time = record.system().time().unwrap_or(record.time());
                    let at = (record.offset() - location.offset) as usize;
                    self.ready
                        .push((time, Found { source, chunk: index, at, number: number(&record) }));
                }
            }
            self.problems.damage.append(&mut chunk.take_damage());
            if !is_reverse {
                self.ready.reverse();
            }
        }
        Ok(())
    }
}
