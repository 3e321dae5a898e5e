//! An event log opened as a trace.

use crate::translate::Translator;
use etw_etl::Error;
use etw_etl::read::{TraceFile, Translation};
use etw_etl::record::RecordContext;
use etw_etl::write::WriteError;
use etw_evtx::evt::{EvtLog, is_evt};
use etw_evtx::{Log, Record};
use etw_types::{Clock, ClockType, EventRecord, ExtType, FileTime};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::path::Path;

/// Whether a file is an event log, of Windows XP (`.evt`) or later, by its first bytes.
pub fn is_event_log(path: &Path) -> bool {
    // A pipe must not be opened: that waits for a writer.
    if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut start = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && (&start == b"ElfFile\0" || is_evt(&start))
}

/// Opens an event log as a trace: its records are events, oldest first, and its damage is the trace's.
///
/// The log is read once, in bounded memory; a long one is kept in an unnamed temporary file.
///
/// # Errors
/// `Io`; `OtherFormat` if the file is not an event log.
pub fn open(path: &Path) -> Result<TraceFile, Error> {
    Ok(translate(path, None)?.trace)
}

/// An event log that [`open_selected`] opened.
#[non_exhaustive]
pub struct SelectedTrace {
    /// The records that are wanted.
    pub trace: TraceFile,
    /// Records that became events.
    pub translated: u64,
    /// Records that are not in the trace.
    pub left_out: u64,
}

/// The records that a trace of a log has.
#[derive(Clone, Copy)]
pub struct Wanted<'w> {
    /// Whether a record is wanted, by its header: an event with the record's header, number and related activity, without its fields.
    pub by_header: &'w dyn Fn(&EventRecord<'_>, Option<FileTime>) -> bool,
    /// Whether that event has the name of its provider, which costs more than all the rest of it.
    pub with_provider_name: bool,
    /// The order that the wanted records have.
    pub order: Order,
}

/// The order of the records of a trace of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As in the trace of all records.
    Alone,
    /// As that, also where the trace is merged with others.
    Merged,
    /// Any.
    Any,
}

/// Records of one kind that [`open_samples`] keeps. Records of one kind have the same fields, but for events that name none of
/// them.
const SAMPLES: u8 = 4;
/// Kinds past which no more are kept: only a hostile log has so many.
const KIND_LIMIT: usize = 1 << 16;

/// Opens an event log as a trace of a few records of each kind, which have the names of its providers and fields. Costs a fraction of
/// [`open`].
///
/// # Errors
/// As [`open`].
pub fn open_samples(path: &Path) -> Result<TraceFile, Error> {
    let kinds: RefCell<HashMap<u64, u8>> = RefCell::default();
    let hasher = RandomState::new();
    let by_header = |record: &EventRecord<'_>, _: Option<FileTime>| {
        let name = record.extended.find(ExtType::PROV_TRAITS);
        let descriptor = &record.descriptor;
        let kind = hasher.hash_one((record.provider, name, descriptor.id, descriptor.version));
        let mut kinds = kinds.borrow_mut();
        if kinds.len() >= KIND_LIMIT && !kinds.contains_key(&kind) {
            return false;
        }
        let samples = kinds.entry(kind).or_default();
        *samples = samples.saturating_add(1);
        *samples <= SAMPLES
    };
    let wanted = Wanted { by_header: &by_header, with_provider_name: true, order: Order::Any };
    Ok(translate(path, Some(wanted))?.trace)
}

/// As [`open`], but leaves out records that are not wanted before they are translated. The wanted ones have the order that they have in
/// the trace of all records, and the trace spans the same time.
///
/// Where times in the log go backwards, that order depends on all records; then none is left out. Records that are left out are not
/// checked for fields that expand beyond all bounds.
///
/// # Errors
/// As [`open`].
pub fn open_selected(path: &Path, wanted: Wanted<'_>) -> Result<SelectedTrace, Error> {
    let selected = translate(path, Some(wanted))?;
    match selected.is_in_order {
        true => Ok(selected.into()),
        false => Ok(translate(path, None)?.into()),
    }
}

/// Times of logs are FILETIMEs.
const FILE_TIMES: Clock =
    Clock { kind: ClockType::SYSTEM, start: FileTime(0), raw_start: 0, frequency: 10_000_000 };

/// A log that was translated.
struct Translated {
    trace: TraceFile,
    translated: u64,
    left_out: u64,
    /// Whether the order of the records in the trace does not depend on those that are left out.
    is_in_order: bool,
}

impl From<Translated> for SelectedTrace {
    fn from(translated: Translated) -> SelectedTrace {
        let Translated { trace, translated, left_out, .. } = translated;
        SelectedTrace { trace, translated, left_out }
    }
}

fn translate(path: &Path, wanted: Option<Wanted<'_>>) -> Result<Translated, Error> {
    let other = |error: etw_evtx::Error| match error {
        etw_evtx::Error::Io(source) => Error::Io { path: path.to_owned(), source },
        error => Error::OtherFormat { path: path.to_owned(), source: Box::new(error) },
    };
    let mut writer = TraceWriter::new(path, wanted);
    let log = match Log::open(path) {
        Err(etw_evtx::Error::NotEvtx) => {
            let log = EvtLog::open(path).map_err(other)?;
            writer.damage.extend(log.damage().iter().map(|one| (one.offset, one.kind.to_string())));
            log.for_each(|record| writer.push(record))?;
            return writer.finish();
        }
        opened => opened.map_err(other)?,
    };
    let mut records = log.records();
    while let Some(record) = records.next().map_err(other)? {
        writer.push(&record)?;
        if !writer.is_in_order {
            break;
        }
    }
    writer.damage.extend(records.damage().iter().map(|one| (one.offset, one.kind.to_string())));
    writer.finish()
}

/// Puts the records of a log into a trace.
struct TraceWriter<'w> {
    path: &'w Path,
    wanted: Option<Wanted<'w>>,
    translation: Translation,
    translator: Translator,
    /// Offsets in the log, and texts.
    damage: Vec<(u64, String)>,
    /// The channel of the first record that has one.
    channel: Option<String>,
    translated: u64,
    left_out: u64,
    /// Time of the last record that decides about the order.
    last_time: i64,
    is_in_order: bool,
}

impl<'w> TraceWriter<'w> {
    fn new(path: &'w Path, wanted: Option<Wanted<'w>>) -> TraceWriter<'w> {
        TraceWriter {
            path,
            wanted,
            translation: Translation::new(),
            translator: Translator::new(),
            damage: Vec::new(),
            channel: None,
            translated: 0,
            left_out: 0,
            last_time: i64::MIN,
            is_in_order: true,
        }
    }

    fn push(&mut self, record: &Record<'_>) -> Result<(), Error> {
        if self.channel.is_none() {
            self.channel = record.system().channel();
        }
        if self.leaves_out(record) {
            self.left_out += 1;
            return Ok(());
        }
        self.translated += 1;
        let problem = match self.translator.stored(record) {
            Ok((bytes, time)) => match self.translation.push_stored(bytes, time) {
                Ok(()) => return Ok(()),
                Err(WriteError::Io(source)) => {
                    return Err(Error::Io { path: self.path.to_owned(), source });
                }
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        self.damage.push((record.offset(), problem));
        Ok(())
    }

    /// Whether a record is not wanted. Its time counts nevertheless.
    fn leaves_out(&mut self, record: &Record<'_>) -> bool {
        let Some(wanted) = self.wanted else { return false };
        let header = self.translator.header(record, wanted.with_provider_name);
        let Some((bytes, time)) = header else { return false };
        let is_wanted = match etw_etl::record::parse(bytes, &RecordContext::default()) {
            Ok(event) => (wanted.by_header)(&event, event.timestamp(&FILE_TIMES)),
            Err(_) => true,
        };
        // Readers sort the records of each buffer, and merge traces by their next records.
        let decides = match wanted.order {
            Order::Alone => is_wanted,
            Order::Merged => true,
            Order::Any => false,
        };
        if decides {
            self.is_in_order &= time >= self.last_time;
            self.last_time = time;
        }
        if !is_wanted {
            self.translation.note_time(time);
        }
        !is_wanted
    }

    fn finish(self) -> Result<Translated, Error> {
        let channel = self.channel.as_deref().unwrap_or_default();
        let trace = self.translation.finish(self.path, channel, self.damage)?;
        let TraceWriter { translated, left_out, is_in_order, .. } = self;
        Ok(Translated { trace, translated, left_out, is_in_order })
    }
}
