//! All records of one or several files in time order.
//!
//! A heap holds the head of every CPU stream, the stream being read stands outside of it. The key is (time, file,
//! raw time, buffer); time is the raw clock for one file and FILETIME for several, or what
//! [`Records::with_times`] set. At most one buffer a
//! stream is open, and a bounded number is read ahead by other threads.

use super::buffer_loader::{Checked, Loaded, Loader, Spare};
use super::file::TraceFile;
use super::index::Cursor;
use super::read_ahead::ReadAhead;
use crate::header::LogfileHeader;
use crate::record::{self, Extent, RecordContext};
use crate::{Damage, DamageKind, DamageLog};
use etw_types::{Clock, EventRecord, Position};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Options of a reader.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RecordsOptions {
    /// Threads that read and decompress buffers before they are needed; 0 reads on the caller's thread.
    pub read_ahead_threads: usize,
    /// Bytes that all open buffers may take; a buffer beyond the limit is skipped and reported.
    pub open_buffer_limit: u64,
}

impl Default for RecordsOptions {
    fn default() -> RecordsOptions {
        RecordsOptions { read_ahead_threads: 0, open_buffer_limit: 2 << 30 }
    }
}

/// The time by which the records of a file are ordered among those of other files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderTime {
    /// The raw time: all files have one clock.
    Raw,
    /// The wall-clock time; raw if the file's clock is not usable.
    FileTime,
    /// The raw time of another clock, converted through wall-clock time; the file's own raw time if one of the two
    /// clocks cannot convert it.
    RawOf(Clock),
}

impl OrderTime {
    /// The order time of `raw` in a file of `clock`; `None` if a clock cannot convert it.
    #[inline]
    pub fn of(&self, clock: &Clock, raw: i64) -> Option<i64> {
        match self {
            OrderTime::Raw => Some(raw),
            OrderTime::FileTime => clock.filetime(raw).map(|time| time.0),
            OrderTime::RawOf(other) => other.raw(clock.filetime(raw)?),
        }
    }
}

/// Not inlined: most traces are read alone, and their loop is better without it.
#[inline(never)]
fn converted(time: &OrderTime, clock: &Clock, raw: i64) -> i64 {
    time.of(clock, raw).unwrap_or(raw)
}

/// The records of one or several files in time order.
///
/// Not an `Iterator`: a record borrows from the buffer that the next call may replace.
pub struct Records {
    files: Vec<TraceFile>,
    times: Vec<OrderTime>,
    /// All of them are `Raw`, as for a single file.
    all_raw: bool,
    streams: Vec<Stream>,
    /// Heads of all streams but the current one.
    heads: BinaryHeap<Reverse<Key>>,
    /// The time of the first of them, or `until` if that is before it; the greatest time if there is neither.
    first_other: i64,
    /// See [`next_stored_until`](Records::next_stored_until).
    until: Option<i64>,
    /// The open buffer of the current stream, whose head comes next; closed behind the last record.
    open: Box<Open>,
    /// The number of that head when its stream was chosen. If the head is a later one now, the record before it was returned last.
    found_at: usize,
    damage: DamageLog,
    out_of_order: Vec<u64>,
    options: RecordsOptions,
    open_bytes: u64,
    loader: Loader,
    spares: Vec<Spare>,
    ahead: Option<ReadAhead>,
    finished: bool,
}

/// Two streams of one file never share a buffer, so that the first four decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    time: i64,
    /// The rank of the file: records of one time are read in that order.
    rank: u32,
    raw: i64,
    buffer_index: u64,
    stream: u32,
}

struct Stream {
    file_index: u32,
    cpu: u16,
    cursor: Cursor,
    /// `None` for the current stream: [`Records`] has its buffer.
    open: Option<Box<Open>>,
    /// The time of records without one before the first that has one.
    start: i64,
    /// Time of the last record with one in the open buffer and those before.
    last_time: Option<i64>,
    /// The same for the buffers whose records were returned.
    last_given: Option<i64>,
}

/// The open buffer of a stream, and its head: the record that the stream gives next.
#[derive(Default)]
struct Open {
    /// Without records if it is closed.
    buffer: Loaded,
    /// The number of the head among the buffer's records.
    number: usize,
    stream: u32,
    file_index: u32,
    /// The rank of the file.
    rank: u32,
    cpu: u16,
}

impl Open {
    /// The raw time of the head.
    #[inline(always)]
    fn time(&self) -> Option<i64> {
        self.buffer.record(self.number).map(|record| record.time)
    }

    fn is_closed(&self) -> bool {
        self.buffer.records().is_empty()
    }

    /// See [`Records::places`]. A stream's `last_given` is not needed: it is set anew before the next buffer is opened.
    fn place(&self, last_time: Option<i64>) -> Place {
        let first = self.buffer.records().first()?;
        Some(PlaceInBuffer {
            buffer_index: self.buffer.entry.index,
            number: self.number,
            first_time: first.time,
            last_time,
        })
    }
}

/// Buffers of a stream in which the start of a part is looked for.
const BUFFERS_TO_OPEN: usize = 8;

/// A time, and for each stream the position of the buffer in which its first record of that time or later is expected.
pub(super) struct Boundary {
    pub(super) time: i64,
    pub(super) cursors: Vec<Cursor>,
}

/// Where a stream stands; `None` behind its last record.
pub(super) type Place = Option<PlaceInBuffer>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlaceInBuffer {
    buffer_index: u64,
    number: usize,
    /// The time of the buffer's first record, which may be that of a record in the buffer before.
    first_time: i64,
    last_time: Option<i64>,
}

/// A record that comes next, as it is stored: its bytes are checked, but not yet parsed.
#[derive(Clone, Copy)]
pub struct StoredRecord<'r> {
    files: &'r [TraceFile],
    open: &'r Open,
    checked: &'r Checked,
}

impl<'r> StoredRecord<'r> {
    #[inline(always)]
    fn context(&self) -> &'r RecordContext {
        &self.files[self.open.file_index as usize].core.load.record
    }

    /// The stored bytes, header included.
    #[inline(always)]
    pub fn bytes(&self) -> &'r [u8] {
        match self.open.buffer.bytes_of(self.checked) {
            Some(bytes) => bytes,
            None => self.open.buffer.bytes_of_any(self.checked, self.context()),
        }
    }

    /// The extent, which [`record::parse_checked`] takes beside the bytes.
    #[inline(always)]
    pub fn extent(&self) -> Extent {
        self.checked.extent
    }

    /// The record. It is made in `place`, which saves copies of it.
    // Always inlined: a call costs a copy of the record, a fifth of the reader's time.
    #[inline(always)]
    pub fn record<'p>(&self, place: &'p mut Option<EventRecord<'r>>) -> &'p mut EventRecord<'r> {
        let StoredRecord { files, open, checked } = *self;
        let unusual = |place| parse_unusual(place, files, open, checked);
        let record = match open.buffer.bytes_of(checked) {
            Some(bytes) => record::parse_usual(place, bytes, checked.extent, unusual),
            None => unusual(place),
        };
        record.cpu = open.cpu;
        record.position = Position {
            file_index: open.file_index,
            buffer_index: open.buffer.entry.index,
            offset: checked.offset,
        };
        record
    }
}

/// As [`record::parse`], for a record whose extent does not tell its size.
#[inline(never)]
fn parse_unusual<'r, 'p>(
    place: &'p mut Option<EventRecord<'r>>,
    files: &'r [TraceFile],
    open: &'r Open,
    checked: &'r Checked,
) -> &'p mut EventRecord<'r> {
    let stored = StoredRecord { files, open, checked };
    let record = record::parse_unusual(place, stored.bytes(), stored.context());
    record.order_time = checked.time;
    record
}

/// The rank of each file: the order of the list, and that in which a session wrote the files of a series. Records of one time may belong
/// together.
fn ranks_of(files: &[TraceFile]) -> Vec<u32> {
    let mut firsts = HashMap::new();
    let mut places = Vec::with_capacity(files.len());
    for (number, file) in files.iter().enumerate() {
        places.push(match file.header().and_then(LogfileHeader::series) {
            Some(series) => {
                let first = *firsts.entry(series).or_insert(number);
                (first, file.core.index.first_sequence(), number)
            }
            None => (number, None, number),
        });
    }
    places.sort_unstable();
    let mut ranks = vec![0; files.len()];
    places.into_iter().zip(0..).for_each(|((_, _, number), rank)| ranks[number] = rank);
    ranks
}

impl Records {
    /// Reads `files`, which get the numbers 0, 1, 2, … in [`Position::file_index`].
    pub fn new(files: Vec<TraceFile>) -> Records {
        Records::with_options(files, RecordsOptions::default())
    }

    /// As [`new`](Records::new), with threads and limits.
    pub fn with_options(files: Vec<TraceFile>, options: RecordsOptions) -> Records {
        let time = if files.len() == 1 { OrderTime::Raw } else { OrderTime::FileTime };
        let times = vec![time; files.len()];
        Records::with_times(files, times, options)
    }

    /// As [`with_options`](Records::with_options), in the order of `times`, one a file; FILETIME if one is missing.
    pub fn with_times(
        files: Vec<TraceFile>,
        mut times: Vec<OrderTime>,
        options: RecordsOptions,
    ) -> Records {
        times.resize(files.len(), OrderTime::FileTime);
        let mut records = Records::unopened(files, times, options);
        for (file_index, file) in records.files.iter().enumerate() {
            file.report(file_index as u32, &mut records.damage);
        }
        for stream in 0..records.streams.len() as u32 {
            if let Some(raw) = records.first_of(stream) {
                records.add_head(stream, raw);
            }
        }
        records.choose();
        records
    }

    /// Before any buffer is opened.
    fn unopened(files: Vec<TraceFile>, times: Vec<OrderTime>, options: RecordsOptions) -> Records {
        let mut streams = Vec::new();
        let ranks = ranks_of(&files);
        for (file_index, file) in files.iter().enumerate() {
            let start = file.clock().raw_start;
            for number in 0..file.core.index.stream_count() {
                let (file_index, cpu) = (file_index as u32, file.core.index.cpu(number));
                let stream = streams.len() as u32;
                let rank = ranks[file_index as usize];
                let open = Open { stream, file_index, rank, cpu, ..Open::default() };
                streams.push(Stream {
                    file_index,
                    cpu,
                    cursor: file.core.index.cursor(number),
                    open: Some(Box::new(open)),
                    start,
                    last_time: None,
                    last_given: None,
                });
            }
        }
        let threads = options.read_ahead_threads;
        let ahead = (threads > 0).then(|| ReadAhead::new(threads, streams.len()));
        Records {
            out_of_order: vec![0; files.len()],
            heads: BinaryHeap::with_capacity(streams.len()),
            first_other: i64::MAX,
            until: None,
            files,
            all_raw: times.iter().all(|time| *time == OrderTime::Raw),
            times,
            streams,
            open: Box::new(Open { stream: u32::MAX, ..Open::default() }),
            found_at: 0,
            damage: DamageLog::default(),
            options,
            open_bytes: 0,
            loader: Loader::default(),
            spares: Vec::new(),
            ahead,
            finished: false,
        }
    }

    fn add_head(&mut self, stream: u32, raw: i64) {
        let key = self.key(self.open_of(stream), raw);
        self.heads.push(Reverse(key));
    }

    /// Makes the stream with the first of the heads the current one; `false` if there is none.
    fn choose(&mut self) -> bool {
        let first = self.heads.pop();
        if let Some(Reverse(key)) = &first {
            self.make_current(key.stream);
        }
        self.note_first();
        self.found_at = self.open.number;
        first.is_some()
    }

    #[inline]
    fn make_current(&mut self, stream: u32) {
        // It has none if it is the current one already.
        let Some(open) = self.streams[stream as usize].open.take() else { return };
        let before = std::mem::replace(&mut self.open, open);
        // Before the first one, there is none.
        if let Some(stream) = self.streams.get_mut(before.stream as usize) {
            stream.open = Some(before);
        }
    }

    fn open_of(&self, stream: u32) -> &Open {
        self.streams[stream as usize].open.as_ref().unwrap_or(&self.open)
    }

    fn open_of_mut(&mut self, stream: u32) -> &mut Open {
        self.streams[stream as usize].open.as_mut().unwrap_or(&mut self.open)
    }

    /// Makes the record with this number in the open buffer the head of a stream; returns its raw time.
    fn head_at(&mut self, stream: u32, number: usize) -> Option<i64> {
        let open = self.open_of_mut(stream);
        open.number = number;
        open.time()
    }

    /// The raw time of the first record of a stream. The header's record of a translated file is none of its records.
    fn first_of(&mut self, number: u32) -> Option<i64> {
        let first = self.open_next(number)?;
        let open = self.open_of(number);
        let is_header = open.buffer.entry.index == 0 && open.buffer.records()[0].offset == 0;
        match is_header && self.files[open.file_index as usize].core.is_translated {
            true => self.head_at(number, 1).or_else(|| self.open_next(number)),
            false => Some(first),
        }
    }

    /// The time that orders a record of `stream`.
    #[inline]
    fn time(&self, stream: u32, raw: i64) -> i64 {
        if self.all_raw {
            return raw;
        }
        let file_index = self.streams[stream as usize].file_index as usize;
        converted(&self.times[file_index], self.files[file_index].clock(), raw)
    }

    /// The key of the head of a stream.
    #[inline]
    fn key(&self, open: &Open, raw: i64) -> Key {
        Key {
            time: self.time(open.stream, raw),
            rank: open.rank,
            raw,
            buffer_index: open.buffer.entry.index,
            stream: open.stream,
        }
    }

    /// The next record, or `None` at the end of all files.
    ///
    /// # Loss
    /// Damaged bytes are skipped and reported in [`damage`](Records::damage).
    #[inline(always)]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<EventRecord<'_>> {
        // One value on all ways out is made where the caller wants it.
        let mut place = None;
        if let Some(stored) = self.next_stored() {
            stored.record(&mut place);
        }
        place
    }

    /// As [`next`](Records::next), before it is parsed. The record that is then made stands where the caller wants it, which saves a copy.
    #[inline(always)]
    pub fn next_stored(&mut self) -> Option<StoredRecord<'_>> {
        if !self.is_head_next() && !self.find_head() {
            self.finish();
            return None;
        }
        self.take()
    }

    /// Whether the head of the current stream is known to come before all others. In a run of records of one stream, no more is looked at.
    #[inline(always)]
    fn is_head_next(&self) -> bool {
        let Some(raw) = self.open.time() else { return false };
        self.time(self.open.stream, raw) < self.first_other
    }

    /// Returns the record of the current head, and moves on.
    #[inline(always)]
    fn take(&mut self) -> Option<StoredRecord<'_>> {
        let number = self.open.number;
        self.open.number = number + 1;
        let open = &*self.open;
        Some(StoredRecord { files: &self.files, open, checked: open.buffer.record(number)? })
    }

    /// The record that [`next`](Records::next) returned last.
    fn last(&self) -> Option<&Checked> {
        let is_taken = self.open.number > self.found_at;
        self.open
            .buffer
            .records()
            .get(self.open.number - usize::from(is_taken))
            .filter(|_| is_taken)
    }

    /// The order time of the record that [`next`](Records::next) returned last.
    #[inline]
    pub fn order_time(&self) -> Option<i64> {
        self.last().map(|last| self.time(self.open.stream, last.time))
    }

    /// The stored bytes of the record that [`next`](Records::next) returned last, header included.
    #[inline]
    pub fn stored_bytes(&self) -> &[u8] {
        let stored = |last| {
            let context = &self.files[self.open.file_index as usize].core.load.record;
            self.open.buffer.bytes_of_any(last, context)
        };
        self.last().map(stored).unwrap_or_default()
    }

    /// Finds the record that comes next, and makes it the head of the current stream; `false` at the end of all files.
    #[inline(never)]
    fn find_head(&mut self) -> bool {
        let is_found = self.find_stream();
        self.found_at = self.open.number;
        is_found
    }

    fn find_stream(&mut self) -> bool {
        let stream = self.open.stream;
        if self.open.is_closed() {
            return false;
        }
        let raw = self.open.time().or_else(|| {
            let given = &mut self.streams[stream as usize];
            given.last_given = given.last_time;
            self.open_next(stream)
        });
        let Some(raw) = raw else { return self.choose() };
        let mut key = self.key(&self.open, raw);
        if let Some(mut first) = self.heads.peek_mut() {
            if first.0 < key {
                std::mem::swap(&mut first.0, &mut key);
            }
        }
        self.make_current(key.stream);
        self.note_first();
        true
    }

    fn note_first(&mut self) {
        let first = self.heads.peek().map_or(i64::MAX, |Reverse(key)| key.time);
        self.first_other = first.min(self.until.unwrap_or(i64::MAX));
    }

    /// Opens buffers of a stream until one has a record; returns its raw time.
    fn open_next(&mut self, number: u32) -> Option<i64> {
        self.close(number);
        loop {
            let loaded = self.load_next(number)?;
            let file_index = self.streams[number as usize].file_index;
            for (offset, kind) in &loaded.damage {
                self.damage.push(Damage { file_index, offset: *offset, kind: kind.clone() });
            }
            let over = self.open_bytes + loaded.capacity() as u64 > self.options.open_buffer_limit;
            if over && self.open_bytes > 0 {
                let kind = DamageKind::OpenBuffers { limit: self.options.open_buffer_limit };
                self.damage.push(Damage { file_index, offset: loaded.entry.offset, kind });
                continue;
            }
            if loaded.records().is_empty() {
                self.recycle(loaded);
                continue;
            }
            self.open_bytes += loaded.capacity() as u64;
            self.open(number, loaded);
            self.request_ahead(number);
            return self.head_at(number, 0);
        }
    }

    /// Makes `buffer` the open one of a stream.
    fn open(&mut self, number: u32, mut buffer: Loaded) {
        let stream = &mut self.streams[number as usize];
        let before = stream.last_time.unwrap_or(stream.start);
        if let Some((first, last)) = buffer.set_time_before(before) {
            // Each buffer is sorted, so that only its first record can be older than the one before it.
            let is_older = stream.last_given.is_some_and(|given| first < given);
            self.out_of_order[stream.file_index as usize] += u64::from(is_older);
            stream.last_time = Some(last);
        }
        self.open_of_mut(number).buffer = buffer;
    }

    fn close(&mut self, number: u32) {
        let open = self.open_of_mut(number);
        if !open.is_closed() {
            let buffer = std::mem::take(&mut open.buffer);
            self.open_bytes -= buffer.capacity() as u64;
            self.recycle(buffer);
        }
    }

    fn recycle(&mut self, buffer: Loaded) {
        // Reading ahead needs one for each buffer that it asks for. Without it, more than one would only hold memory.
        let kept = self.ahead.as_ref().map_or(1, ReadAhead::waiting);
        if self.spares.len() < kept.max(1) {
            self.spares.push(buffer.into_spare());
        }
    }

    fn load_next(&mut self, number: u32) -> Option<Loaded> {
        let number = number as usize;
        if let Some(loaded) =
            self.ahead.as_mut().and_then(|ahead| ahead.take(number, &mut self.loader))
        {
            loaded.fetch();
            return Some(loaded);
        }
        let stream = &mut self.streams[number];
        let core = &self.files[stream.file_index as usize].core;
        match core.index.next(&mut stream.cursor) {
            Ok(Some(entry)) => {
                let spare = self.spares.pop().unwrap_or_default();
                Some(self.loader.load(&core.load, stream.cpu, entry, spare))
            }
            Ok(None) => None,
            Err(error) => {
                let kind = DamageKind::Io(error.kind());
                self.damage.push(Damage { file_index: stream.file_index, offset: 0, kind });
                None
            }
        }
    }

    /// Asks for the buffers after the one just opened, as far as the bounds of reading ahead allow.
    fn request_ahead(&mut self, number: u32) {
        let number = number as usize;
        let Some(ahead) = &mut self.ahead else { return };
        let stream = &mut self.streams[number];
        let file = &self.files[stream.file_index as usize];
        while ahead.has_room(number, file.totals().largest_buffer) {
            match file.core.index.next(&mut stream.cursor) {
                Ok(Some(entry)) => {
                    let spare = self.spares.pop().unwrap_or_default();
                    ahead.request(number, file, stream.cpu, entry, spare);
                }
                Ok(None) => return,
                Err(error) => {
                    let kind = DamageKind::Io(error.kind());
                    self.damage.push(Damage { file_index: stream.file_index, offset: 0, kind });
                    return;
                }
            }
        }
    }

    /// The records of `files` from a boundary on. `cursors` lead to the buffers in which they are expected, one a stream. This
    /// reports no damage of the buffers that it opens: the part before opens them, too, and reports it.
    pub(super) fn from_boundary(
        files: Vec<TraceFile>,
        times: Vec<OrderTime>,
        options: RecordsOptions,
        boundary: &Boundary,
    ) -> Records {
        let mut records = Records::unopened(files, times, options);
        for (number, cursor) in boundary.cursors.iter().enumerate() {
            records.streams[number].cursor = cursor.clone();
            if let Some(raw) = records.first_from(number as u32, boundary.time) {
                records.add_head(number as u32, raw);
            }
        }
        records.damage = DamageLog::default();
        records.out_of_order.fill(0);
        records.choose();
        records
    }

    /// Makes the first record of a stream that is not before `time` its head; returns its raw time.
    fn first_from(&mut self, number: u32, time: i64) -> Option<i64> {
        let mut first = self.open_next(number)?;
        for _ in 0..BUFFERS_TO_OPEN {
            let is_reached = |record: &Checked| self.time(number, record.time) >= time;
            let found = self.open_of(number).buffer.records().iter().position(is_reached);
            if let Some(found) = found {
                return self.head_at(number, found);
            }
            first = self.open_next(number)?;
        }
        Some(first)
    }

    /// Where each stream stands, and all of its past on which its future depends.
    pub(super) fn places(&self) -> Vec<Place> {
        let streams = (0u32..).zip(&self.streams);
        streams.map(|(number, stream)| self.open_of(number).place(stream.last_time)).collect()
    }

    /// Takes over what was reported before these records.
    pub(super) fn take_reports(&mut self, before: Records) {
        let mut damage = before.damage;
        damage.add_all(&self.damage);
        self.damage = damage;
        for (count, before) in self.out_of_order.iter_mut().zip(before.out_of_order) {
            *count += before;
        }
    }

    /// Ends [`next_stored_until`](Records::next_stored_until) in front of the first record that is not before `until`.
    pub(super) fn set_until(&mut self, until: Option<i64>) {
        self.until = until;
        self.note_first();
    }

    /// As [`next_stored`](Records::next_stored), for records of one part only.
    #[inline(always)]
    pub(super) fn next_stored_until(&mut self) -> Option<StoredRecord<'_>> {
        match self.is_head_next() || self.find_head() && self.is_head_in_part() {
            true => self.take(),
            false => None,
        }
    }

    #[inline(never)]
    fn is_head_in_part(&self) -> bool {
        let time = self.open.time().map(|raw| self.time(self.open.stream, raw));
        time.zip(self.until).is_none_or(|(time, until)| time < until)
    }

    pub(super) fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        for (file_index, file) in self.files.iter().enumerate() {
            let file_index = file_index as u32;
            let told = |damage: &Damage| {
                damage.file_index == file_index && damage.kind == DamageKind::Changed
            };
            // A session may still write a file that is not finalised. Bytes that it appends after the opening are not read. A buffer that it
            // replaces has another number, and is damage.
            let may_change = !file.is_finalised() && file.header().is_some();
            if !may_change && file.has_changed() && !self.damage.kept().iter().any(told) {
                self.damage.push(Damage { file_index, offset: 0, kind: DamageKind::Changed });
            }
        }
    }

    /// The files, in the order of their numbers.
    pub fn files(&self) -> &[TraceFile] {
        &self.files
    }

    /// The clock of a file's raw timestamps.
    #[inline]
    pub fn clock(&self, file_index: u32) -> &Clock {
        self.files[file_index as usize].clock()
    }

    /// Damage found so far, that of the files' structure included; complete after `next` has returned `None`.
    pub fn damage(&self) -> &DamageLog {
        &self.damage
    }

    /// Records of a file that were older than the one before them in their CPU stream.
    pub fn out_of_order(&self, file_index: u32) -> u64 {
        self.out_of_order[file_index as usize]
    }
}
