//! A file: its logfile header, an index of its buffers, and what is damaged about them.

use super::buffer_loader::{Loader, Spare};
use super::byte_source::{ByteSource, FileSource};
use super::file_core::Core;
pub use super::file_core::Totals;
use super::first_buffer::read_start;
use super::indexer::Walk;
use super::resync::header_at;
use crate::header::LogfileHeader;
use crate::record::{self, RecordContext};
use crate::{Damage, DamageKind, DamageLog, Error, FoundInstead};
use etw_types::{Clock, EventRecord, Hook};
use std::path::Path;
use std::sync::Arc;

/// A trace file, opened: one pass over the headers of its buffers has been made.
///
/// Cheap to clone; clones share the index.
#[derive(Clone)]
pub struct TraceFile {
    pub(crate) core: Arc<Core>,
}

impl TraceFile {
    /// Opens a regular file and indexes its buffers.
    ///
    /// # Errors
    /// `Io`; `NotAFile` for pipes and devices; `NotAnEtl` if no buffer is found. Damage is not an error.
    pub fn open(path: impl AsRef<Path>) -> Result<TraceFile, Error> {
        let path = path.as_ref();
        let io_error = |source| Error::Io { path: path.to_owned(), source };
        match FileSource::open(path).map_err(io_error)? {
            Some(source) => TraceFile::from_source(path, Box::new(source)),
            None => Err(Error::NotAFile { path: path.to_owned() }),
        }
    }

    /// A file in memory; `name` is for messages.
    ///
    /// # Errors
    /// `NotAnEtl`.
    pub fn from_bytes(name: impl AsRef<Path>, bytes: Vec<u8>) -> Result<TraceFile, Error> {
        TraceFile::from_source(name.as_ref(), Box::new(bytes))
    }

    /// Any other bytes that can be read at any offset.
    ///
    /// # Errors
    /// `Io` and `NotAnEtl`.
    pub fn from_source(name: &Path, source: Box<dyn ByteSource>) -> Result<TraceFile, Error> {
        let io_error = |source| Error::Io { path: name.to_owned(), source };
        let start = read_start(&*source).map_err(io_error)?;
        let start = start.map_err(|found| Error::NotAnEtl { path: name.to_owned(), found })?;
        let walk = Walk::new(source, start).and_then(Walk::run).map_err(io_error)?;
        let core = walk.into_core(name.to_owned());
        if core.header.is_none() && !core.has_records() {
            return Err(Error::NotAnEtl { path: core.path, found: FoundInstead::NoEvents });
        }
        Ok(TraceFile { core: Arc::new(core) })
    }

    /// A file of another format whose records were translated to those of a trace. `damage` is that of the file itself, with
    /// its offsets there. The record of the logfile header is not read: the file has none.
    ///
    /// # Errors
    /// As [`from_source`](TraceFile::from_source).
    pub fn translated(
        name: &Path,
        source: Box<dyn ByteSource>,
        damage: impl IntoIterator<Item = (u64, String)>,
    ) -> Result<TraceFile, Error> {
        let mut file = TraceFile::from_source(name, source)?;
        if let Some(core) = Arc::get_mut(&mut file.core) {
            core.is_translated = true;
        }
        Ok(file.with_damage(damage))
    }

    /// The same file with further damage, each with its offset, of what belongs to it in another format.
    #[must_use]
    pub fn with_damage(mut self, damage: impl IntoIterator<Item = (u64, String)>) -> TraceFile {
        if let Some(core) = Arc::get_mut(&mut self.core) {
            for (offset, text) in damage {
                let kind = DamageKind::OtherFormat(text.into());
                core.damage.push(Damage { file_index: 0, offset, kind });
            }
        }
        self
    }

    /// Whether the file has another format; see [`translated`](TraceFile::translated).
    pub fn is_translated(&self) -> bool {
        self.core.is_translated
    }

    /// The path, as it was given.
    pub fn path(&self) -> &Path {
        &self.core.path
    }

    /// The logfile header, if it can be read.
    pub fn header(&self) -> Option<&LogfileHeader> {
        self.core.header.as_ref()
    }

    /// The clock of the raw timestamps.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// The facts about the file that parsing records needs.
    pub fn record_context(&self) -> &RecordContext {
        &self.core.load.record
    }

    /// Counts of the first pass.
    pub fn totals(&self) -> &Totals {
        &self.core.totals
    }

    /// One more than the highest CPU that has a stream.
    pub fn cpu_count(&self) -> usize {
        let index = &self.core.index;
        let cpus = (0..index.stream_count()).map(|stream| usize::from(index.cpu(stream)) + 1);
        cpus.max().unwrap_or(0)
    }

    /// Whether the session finalised the file's header. An unfinalised file can be sound.
    pub fn is_finalised(&self) -> bool {
        self.core.header.as_ref().is_some_and(|header| header.end_time.0 != 0)
    }

    /// The record of the logfile header, for consumers that show it first whatever the times of other records; `None` if it
    /// cannot be read.
    pub fn header_record(&self) -> Option<HeaderRecord> {
        let core = &*self.core;
        core.header.as_ref()?;
        for stream in 0..core.index.stream_count() {
            let mut cursor = core.index.cursor(stream);
            while let Ok(Some(entry)) = core.index.next(&mut cursor) {
                if entry.index != 0 {
                    continue;
                }
                let cpu = core.index.cpu(stream);
                let header = header_at(&*core.load.source, entry.offset).ok()??;
                let loaded = Loader::default().load(&core.load, cpu, entry, Spare::default());
                let size = record::frame(loaded.bytes(), &core.load.record).ok()?.size;
                let bytes = loaded.bytes().get(..size as usize)?.to_vec();
                let context = core.load.record;
                let found = HeaderRecord { bytes, context, cpu, logger_id: header.logger_id };
                let is_header = found.record()?.hook == Some(Hook(0));
                return is_header.then_some(found);
            }
        }
        None
    }

    /// Whether the file was written to since it was opened.
    pub fn has_changed(&self) -> bool {
        self.core.load.source.has_changed()
    }

    /// Appends the structural damage to a log.
    pub fn report(&self, file_index: u32, log: &mut DamageLog) {
        log.append(file_index, &self.core.damage);
    }
}

/// The first record of a file: the logfile header.
#[derive(Clone, Debug)]
pub struct HeaderRecord {
    bytes: Vec<u8>,
    context: RecordContext,
    cpu: u16,
    logger_id: u16,
}

impl HeaderRecord {
    /// The record; its position is the start of buffer 0.
    pub fn record(&self) -> Option<EventRecord<'_>> {
        let mut record = record::parse(&self.bytes, &self.context).ok()?;
        record.cpu = self.cpu;
        Some(record)
    }

    /// The session's number.
    pub fn logger_id(&self) -> u16 {
        self.logger_id
    }
}
