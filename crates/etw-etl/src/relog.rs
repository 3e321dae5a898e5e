//! Rewriting: one or several files into one, every record as it is.
//!
//! Records are copied as stored bytes to the stream of their CPU, in time order. Files of one clock, as the parts of a
//! session are, keep their raw times; where clocks differ, times move to the clock of one of the files, or to wall-clock time.
//! So do the times inside of payloads that name other records, or the start of what a record reports: those of stacks, DPCs, interrupts
//! and page faults.
//!
//! ```
//! use etw_etl::read::TraceFile;
//! use etw_etl::relog::{Relog, RelogOptions};
//! use etw_etl::write;
//! use std::io::Cursor;
//!
//! let file = TraceFile::from_bytes("sample.etl", write::sample::trace())?;
//! let mut relog = Relog::new(vec![file], RelogOptions::default())?;
//! let bytes = relog.run(Cursor::new(Vec::new()), |_| ())?.into_inner();
//! assert_eq!(relog.summary().records, 16);
//! assert!(TraceFile::from_bytes("copy.etl", bytes)?.is_finalised());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::Error;
use crate::header::{LayoutVersion, LogfileHeader};
use crate::lzxpress::Level;
use crate::read::{OrderTime, Records, RecordsOptions, TraceFile};
use crate::record;
use crate::write::{FileHeader, Starter, TraceWriter, WriteError, WriterOptions, logfile_builder};
use etw_types::{
    BufferHeader, Clock, ClockType, EVENT_METADATA, EventRecord, FileTime, HeaderType, Hook,
    LogFileMode, MessageFlags, Opcode, SchemaRecord, le,
};
use std::collections::BTreeMap;
use std::io::{Seek, Write};

/// Options of a rewrite.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RelogOptions {
    /// Compress the buffers.
    pub compressed: bool,
    /// The effort for small buffers.
    pub level: Level,
    /// Compress on a second thread, too. The new file is the same.
    pub has_helper: bool,
    /// Options of the readers.
    pub read: RecordsOptions,
}

/// Counts of a rewrite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelogSummary {
    /// Records in the new file, the logfile header's included.
    pub records: u64,
    /// Buffers in the new file.
    pub buffers: u64,
    /// Records whose time was moved to the clock of the first file.
    pub converted: u64,
    /// Records whose time cannot be converted to the clock of the first file; they keep their raw time.
    pub unconverted: u64,
    /// ERROR and WNODE records of a file with another pointer size; these records do not store their own.
    pub other_pointer_size: u64,
    /// Records dropped because they fit no buffer: obsolete WNODE records of 1 MiB and more.
    pub too_large: u64,
    /// Records that the filter rejected.
    pub not_wanted: u64,
    /// INSTANCE records dropped because the new file's layout differs: those of Windows XP have no GUIDs.
    pub other_layout: u64,
}

impl RelogSummary {
    /// Records that are not in the new file.
    pub fn left_out(&self) -> u64 {
        self.too_large + self.other_layout
    }
}

/// Buffers are not larger, so that 2048 CPU streams take no more than 2 GiB; Windows 7 has no larger ones either.
const LARGEST_BUFFER: u32 = 1 << 20;

/// A rewrite: its inputs and its counts.
pub struct Relog {
    records: Records,
    header: FileHeader,
    options: RelogOptions,
    inputs: Vec<Input>,
    /// Latest end of a finalised input.
    latest_end: FileTime,
    is_wall_clock: bool,
    summary: RelogSummary,
}

/// How records of one input are changed for the output.
struct Input {
    /// Time of its logfile header's record, if the file has one that was not read yet.
    logfile_raw: Option<i64>,
    /// The buffer that contained its logfile header, once that was read.
    first_buffer: Option<u64>,
    /// The new file's facts are its own.
    is_base: bool,
    /// The output's clock, if times move to it.
    onto: Option<OrderTime>,
    /// Its pointer size, if it is not the output's.
    pointer_size: Option<u8>,
    /// INSTANCE records have another layout in the output.
    other_layout: bool,
}

impl Relog {
    /// Prepares to rewrite all records of `files` into one file.
    ///
    /// The new header describes the file that starts first if all have one clock; else the first whose clock tells every 100 ns
    /// apart, so that converted times are those of the inputs; else the first one, with wall-clock time in place of its clock.
    ///
    /// # Errors
    /// `NoClock` if there are several files and one has no usable clock.
    pub fn new(files: Vec<TraceFile>, options: RelogOptions) -> Result<Relog, Error> {
        if files.len() > 1 {
            if let Some(file) = files.iter().find(|file| !has_clock(file)) {
                return Err(Error::NoClock { path: file.path().to_owned() });
            }
        }
        let have_clock_of = |base: usize| -> Vec<bool> {
            files
                .iter()
                .map(|file| files.len() == 1 || have_one_clock(&files[base], file))
                .collect()
        };
        let mut one_clock = have_clock_of(0);
        let all_one = one_clock.iter().all(|one| *one);
        let raw_starts = files.iter().enumerate().map(|(n, file)| (file.clock().raw_start, n));
        let fine = files.iter().position(|file| is_fine(file.clock()));
        let base = match all_one {
            true => raw_starts.min().map_or(0, |(_, n)| n),
            false => fine.unwrap_or(0),
        };
        let mut header = new_header(&files, base, options.compressed);
        let is_wall_clock = !all_one && fine.is_none();
        if is_wall_clock {
            one_clock.fill(false);
            count_wall_clock_time(&mut header);
        } else if !all_one {
            one_clock = have_clock_of(base);
        }
        let clock = header.logfile.clock(header.start_raw);
        let start = files.iter().map(|file| file.clock().start).min().unwrap_or(clock.start);
        if !all_one {
            if let Some((start, raw)) = earlier_start(&clock, start) {
                // Every record of the earlier file is later than this one, too.
                (header.logfile.start_time, header.start_raw) = (start, raw);
            }
        }
        let onto = OrderTime::RawOf(header.logfile.clock(header.start_raw));
        let times = one_clock.iter().map(|one| if *one { OrderTime::Raw } else { onto });
        let records = Records::with_times(files.clone(), times.collect(), options.read);
        let pointer_size = if header.logfile.pointer_size == 4 { 4 } else { 8 };
        let old_instance = header.logfile.layout() < LayoutVersion::NEW_INSTANCES;
        let inputs = files.iter().enumerate().map(|(number, file)| {
            let context = file.record_context();
            Input {
                logfile_raw: file.header().map(|_| file.clock().raw_start),
                first_buffer: None,
                is_base: number == base,
                onto: (!one_clock[number]).then_some(onto),
                pointer_size: Some(context.pointer_size).filter(|size| *size != pointer_size),
                other_layout: context.old_instance != old_instance,
            }
        });
        let ends = files.iter().filter_map(|file| Some(file.header()?.end_time));
        Ok(Relog {
            inputs: inputs.collect(),
            latest_end: ends.max().unwrap_or_default(),
            is_wall_clock,
            records,
            header,
            options,
            summary: RelogSummary::default(),
        })
    }

    /// Whether the new file counts wall-clock time, because the clocks differ and none tells every 100 ns apart.
    pub fn is_wall_clock(&self) -> bool {
        self.is_wall_clock
    }

    /// Numbers of the files whose times move to the clock of another one, the [`base`](Relog::base), or to wall-clock time.
    pub fn converted_files(&self) -> impl Iterator<Item = usize> {
        let inputs = self.inputs.iter().enumerate();
        inputs.filter(|(_, input)| input.onto.is_some()).map(|(number, _)| number)
    }

    /// The number of the file that gives the new file its header, and its clock unless that is [wall-clock time](Relog::is_wall_clock).
    pub fn base(&self) -> usize {
        self.inputs.iter().position(|input| input.is_base).unwrap_or(0)
    }

    /// The files and, after [`run`](Relog::run), the damage in them.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The counts so far.
    pub fn summary(&self) -> &RelogSummary {
        &self.summary
    }

    /// Writes the file to `out` and returns `out`. Now and then it calls `progress` with the number of records written.
    ///
    /// Call it once: a second call writes a file without records.
    ///
    /// # Errors
    /// Those of `out`; the output is then an unfinalised file.
    ///
    /// # Loss
    /// [`records`](Relog::records) has the damage of the inputs, [`summary`](Relog::summary) all other losses.
    pub fn run<W: Write + Seek>(
        &mut self,
        out: W,
        progress: impl FnMut(u64),
    ) -> Result<W, WriteError> {
        self.run_selected(out, progress, |_| true, &[])
    }

    /// As [`run`](Relog::run), with only the records that `keep` accepts. Records of the session itself in the header's buffer are
    /// always kept. `schemas` come before the first event, so that readers know them then; one that fits no buffer is left out.
    ///
    /// # Errors
    /// As [`run`](Relog::run).
    pub fn run_selected<W: Write + Seek>(
        &mut self,
        out: W,
        mut progress: impl FnMut(u64),
        mut keep: impl FnMut(&EventRecord<'_>) -> bool,
        schemas: &[SchemaRecord],
    ) -> Result<W, WriteError> {
        let mut options = WriterOptions::default();
        options.compressed = self.options.compressed;
        options.level = self.options.level;
        options.has_helper = self.options.has_helper;
        let mut writer = TraceWriter::new(out, self.header.clone(), options)?;
        let (records, summary) = (&mut self.records, &mut self.summary);
        let mut scratch = Vec::new();
        // Records of the session itself stay with the header if no event precedes them.
        let mut heading = true;
        summary.records = 1;
        while let Some(stored) = records.next_stored() {
            let (mut bytes, mut made) = (stored.bytes(), None);
            let record = &*stored.record(&mut made);
            let input = &mut self.inputs[record.position.file_index as usize];
            if input.is_logfile_header(record) {
                if input.is_base {
                    writer.header_mut().starter = Starter {
                        process_id: record.process_id.unwrap_or(0),
                        thread_id: record.thread_id.unwrap_or(0),
                    };
                }
                continue;
            }
            let place = RecordFacts::of(record);
            let says_of_itself =
                heading && place.cpu == 0 && input.first_buffer == Some(place.buffer);
            if !keep(record) && !says_of_itself {
                summary.not_wanted += 1;
                continue;
            }
            let mut time = place.time;
            if !input.is_plain() {
                scratch.clear();
                scratch.extend_from_slice(bytes);
                let Some(adapted) = input.adapt(&place, records, &mut scratch, summary) else {
                    continue;
                };
                (bytes, time) = (&scratch, adapted);
            }
            if heading {
                if says_of_itself && writer.push_header_record(bytes) {
                    summary.records += 1;
                    continue;
                }
                heading = false;
                let time = time.unwrap_or(self.header.start_raw);
                for schema in schemas {
                    match writer.push(place.cpu, &schema_record(schema, time)) {
                        Ok(()) => summary.records += 1,
                        Err(WriteError::Encode(_)) => summary.too_large += 1,
                        Err(error) => return Err(error),
                    }
                }
            }
            match writer.push_stored(place.cpu, time, bytes) {
                Ok(()) => summary.records += 1,
                Err(WriteError::Encode(_)) => summary.too_large += 1,
                Err(error) => return Err(error),
            }
            if summary.records % 65_536 == 0 {
                progress(summary.records);
            }
        }
        let all_ended = records.files().iter().all(TraceFile::is_finalised);
        let clock = self.header.logfile.clock(self.header.start_raw);
        let last = clock.filetime(writer.last_raw()).filter(|_| !all_ended);
        writer.header_mut().logfile.end_time = self.latest_end.max(last.unwrap_or_default());
        summary.buffers = writer.flush().map(|()| writer.buffers())?;
        writer.finish()
    }
}

/// A schema record as Windows' merge writes it: a classic event of EventMetadata.
fn schema_record(schema: &SchemaRecord, time: i64) -> EventRecord<'_> {
    let mut record = EventRecord::new(HeaderType::Full64, &schema.payload);
    record.provider = Some(EVENT_METADATA);
    record.descriptor.opcode = Opcode(schema.kind);
    record.order_time = time;
    record
}

/// A record's header fields and position.
struct RecordFacts {
    file: u32,
    buffer: u64,
    cpu: u16,
    time: Option<i64>,
    /// The raw time at the start of its payload, and how many bytes of the record begin there.
    payload_time: Option<PayloadTime>,
    header: HeaderType,
    message_flags: MessageFlags,
}

/// A raw time at the start of a payload.
#[derive(Clone, Copy)]
struct PayloadTime {
    raw: i64,
    /// Bytes of the payload, which ends with its record.
    payload_size: usize,
}

impl PayloadTime {
    /// Records of the kernel that begin with a time: StackWalk (Stack, StackKeyKernel, StackKeyUser), HardFault, DPCs and interrupts.
    fn of(record: &EventRecord<'_>) -> Option<PayloadTime> {
        let is_timed = matches!(
            record.hook?.0,
            0x1820 | 0x1825 | 0x1826 | 0x0220 | 0x0f32 | 0x0f42..=0x0f45 | 0x0f5f
        );
        let raw = le::i64(record.payload, 0).filter(|_| is_timed)?;
        Some(PayloadTime { raw, payload_size: record.payload.len() })
    }
}

impl RecordFacts {
    #[inline]
    fn of(record: &EventRecord<'_>) -> RecordFacts {
        RecordFacts {
            file: record.position.file_index,
            buffer: record.position.buffer_index,
            cpu: record.cpu,
            time: record.raw_timestamp(),
            payload_time: PayloadTime::of(record),
            header: record.header,
            message_flags: record.message_flags,
        }
    }
}

impl Input {
    /// Whether the record is the logfile header, which the new header replaces.
    #[inline]
    fn is_logfile_header(&mut self, record: &EventRecord<'_>) -> bool {
        if self.logfile_raw.is_none() {
            return false;
        }
        let is_system = matches!(record.header, HeaderType::System32 | HeaderType::System64);
        let found = is_system
            && record.hook == Some(Hook(0))
            && record.raw_timestamp() == self.logfile_raw
            && record.position.offset == 0;
        if found {
            self.logfile_raw = None;
            self.first_buffer = Some(record.position.buffer_index);
        }
        found
    }

    /// Whether records are copied unchanged.
    #[inline]
    fn is_plain(&self) -> bool {
        self.onto.is_none() && self.pointer_size.is_none() && !self.other_layout
    }

    /// Rewrites the fields whose meaning depends on the file. Returns the record's time in the output, or `None` if the
    /// output cannot contain the record.
    fn adapt(
        &self,
        place: &RecordFacts,
        records: &Records,
        bytes: &mut [u8],
        summary: &mut RelogSummary,
    ) -> Option<Option<i64>> {
        use HeaderType::*;
        if self.other_layout && matches!(place.header, Instance32 | Instance64) {
            summary.other_layout += 1;
            return None;
        }
        match (self.pointer_size, place.header) {
            (Some(_), Error | Wnode) => summary.other_pointer_size += 1,
            (Some(size), Message) => set_pointer_size(bytes, place.message_flags, size),
            _ => {}
        }
        let (Some(onto), Some(raw)) = (&self.onto, place.time) else { return Some(place.time) };
        let Some(time) = onto.of(records.clock(place.file), raw) else {
            summary.unconverted += 1;
            return Some(place.time);
        };
        record::set_time(bytes, place.header, time);
        if let Some(PayloadTime { raw, payload_size }) = place.payload_time {
            let moved = onto.of(records.clock(place.file), raw);
            let at = bytes.len().saturating_sub(payload_size);
            // Where the payload ends before its record, the time is elsewhere, and stays.
            let is_there = le::i64(bytes, at) == Some(raw);
            if let (Some(moved), Some(field), true) = (moved, bytes.get_mut(at..at + 8), is_there) {
                field.copy_from_slice(&moved.to_le_bytes());
            }
        }
        summary.converted += 1;
        Some(Some(time))
    }
}

/// Stores the input's pointer size in a message that did not store its own.
fn set_pointer_size(message: &mut [u8], flags: MessageFlags, pointer_size: u8) {
    let says = MessageFlags::POINTER32.0 | MessageFlags::POINTER64.0;
    if flags.0 & says == 0 {
        if let Some(word) = message.get_mut(6..8) {
            let bit =
                if pointer_size == 4 { MessageFlags::POINTER32 } else { MessageFlags::POINTER64 };
            word.copy_from_slice(&(flags.0 | bit.0).to_le_bytes());
        }
    }
}

fn has_clock(file: &TraceFile) -> bool {
    file.header().is_some() && file.clock().filetime(file.clock().raw_start).is_some()
}

/// Whether each 100 ns has a raw time of its own.
fn is_fine(clock: &Clock) -> bool {
    matches!(clock.kind, ClockType::SYSTEM | ClockType::SYSTEM_OLD) || clock.frequency >= 10_000_000
}

/// Makes the clock of a file count FILETIMEs.
fn count_wall_clock_time(header: &mut FileHeader) {
    header.logfile.clock_type = ClockType::SYSTEM;
    header.logfile.perf_freq = 10_000_000;
    header.start_raw = header.logfile.start_time.0;
}

/// A start of `clock` that is not later than `time`, and its raw time, if `time` is before its own start. Both are a whole number of
/// 100 ns and of ticks before it: a clock with this start converts every raw time as `clock` does.
fn earlier_start(clock: &Clock, time: FileTime) -> Option<(FileTime, i64)> {
    const UNITS: u64 = 10_000_000;
    let distance = clock.start.0.checked_sub(time.0).filter(|distance| *distance > 0)?;
    if matches!(clock.kind, ClockType::SYSTEM | ClockType::SYSTEM_OLD) {
        return Some((time, time.0));
    }
    let (mut divisor, mut rest) = (clock.frequency, UNITS);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    let units = i64::try_from(UNITS.checked_div(divisor)?).ok()?;
    let ticks = i64::try_from(clock.frequency / divisor).ok()?;
    let steps = distance.checked_add(units - 1)? / units;
    let start = clock.start.0.checked_sub(steps.checked_mul(units)?)?;
    Some((FileTime(start), clock.raw_start.checked_sub(steps.checked_mul(ticks)?)?))
}

/// Whether raw times of both count the same ticks from the same moment, as those of one boot do.
///
/// The starts of two sessions of one boot, on both clocks, agree but for what the wall clock was corrected by in
/// between; a second and 200 millionths of the distance are allowed for that. Another boot of the machine has another
/// boot time.
fn have_one_clock(a: &TraceFile, b: &TraceFile) -> bool {
    let (clock_a, clock_b) = (a.clock(), b.clock());
    let is_system =
        |clock: &Clock| clock.kind == ClockType::SYSTEM || clock.kind == ClockType::SYSTEM_OLD;
    if is_system(clock_a) && is_system(clock_b) {
        return true;
    }
    let boot = |file: &TraceFile| file.header().map(|header| header.boot_time);
    if clock_a.kind != clock_b.kind || clock_a.frequency != clock_b.frequency || boot(a) != boot(b)
    {
        return false;
    }
    let Some(expected) = clock_a.filetime(clock_b.raw_start) else { return false };
    let difference = expected.0.abs_diff(clock_b.start.0);
    difference <= 10_000_000 + clock_a.start.0.abs_diff(clock_b.start.0) / 5_000
}

/// The header of a file that holds all records of `files`, with the facts of the one numbered `base`.
fn new_header(files: &[TraceFile], base: usize, compressed: bool) -> FileHeader {
    let base = files.get(base);
    let headers = || files.iter().filter_map(TraceFile::header);
    let mut logfile = match base.and_then(TraceFile::header) {
        Some(header) => header.clone(),
        None => LogfileHeader::unknown(),
    };
    // No limit holds for the new file, so the unit of the old one's is not needed either.
    logfile.log_file_mode = LogFileMode::SEQUENTIAL | LogFileMode::RELOG;
    logfile.maximum_file_size = 0;
    logfile.start_buffers = 1;
    logfile.end_time = FileTime(0);
    if files.len() > 1 {
        // As Windows' relogger writes it, except that a single input's session name is kept.
        if headers().any(|header| header.logger_name != logfile.logger_name) {
            logfile.logger_name = "Relogger".into();
        }
        logfile.log_file_name = "[multiple files]".into();
    }
    logfile.events_lost = lost_in_all(headers(), |header| header.events_lost);
    logfile.buffers_lost = lost_in_all(headers(), |header| header.buffers_lost);
    // The widest pointer size. Records that do not store their own are changed one by one.
    let narrow = files.iter().all(|file| file.record_context().pointer_size == 4);
    logfile.pointer_size = if narrow && !files.is_empty() { 4 } else { 8 };
    let layouts = headers().map(|header| header.layout()).filter(|layout| layout.major < 2);
    let LayoutVersion { major, minor } = layouts.max().unwrap_or(LayoutVersion::CURRENT);
    logfile.version[2..].copy_from_slice(&[major, minor]);
    let processors = headers().map(|header| header.number_of_processors).max();
    logfile.number_of_processors = processors.unwrap_or(1);
    let cpus = files.iter().map(TraceFile::cpu_count).max().unwrap_or(0);
    let start_raw = base.map_or(0, |file| file.clock().raw_start);
    let mut header = FileHeader { logfile, start_raw, starter: Starter::default() };
    header.logfile.buffer_size = buffer_size(&header, files);
    header.set_layout(cpus, compressed);
    header
}

/// The losses of sessions, by the headers of their files. Each file of a series counts what its session has lost so far.
fn lost_in_all<'h>(
    headers: impl Iterator<Item = &'h LogfileHeader>,
    of: fn(&LogfileHeader) -> u32,
) -> u32 {
    let mut sessions = BTreeMap::new();
    for (number, header) in headers.enumerate() {
        let series = header.series();
        let alone = series.is_none().then_some(number);
        let lost = sessions.entry((series, alone)).or_insert(0);
        *lost = of(header).max(*lost);
    }
    sessions.into_values().fold(0, u32::saturating_add)
}

/// Room for every record of the inputs but the largest of an obsolete kind, and for the header.
fn buffer_size(header: &FileHeader, files: &[TraceFile]) -> u32 {
    let largest = files.iter().map(|file| {
        let promised = file.header().map_or(0, |header| header.buffer_size);
        file.totals().largest_buffer.max(promised)
    });
    let first = logfile_builder(&header.logfile, header.start_raw, header.starter, LARGEST_BUFFER);
    let first = first.map_or(0, |buffer| (BufferHeader::SIZE + buffer.len()) as u32);
    let size = largest.max().unwrap_or(0x10000).max(first).min(LARGEST_BUFFER);
    size.next_multiple_of(0x400)
}
