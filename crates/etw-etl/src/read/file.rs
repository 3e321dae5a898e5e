//! A file: its logfile header, an index of its buffers, and what is damaged about them.

use super::index::{Entry, Index};
use super::load::{self, LoadContext};
use super::resync::{find_buffer, header_at, is_buffer, is_zero};
use super::source::{FileSource, Source, read_full};
use crate::header::{BufferHeader, LogfileHeader};
use crate::record::{self, RecordContext};
use crate::{Damage, DamageKind, DamageLog, Error};
use etw_types::{Clock, HeaderType, Hook};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How far into a file without a readable header a first buffer is looked for.
const SALVAGE_RANGE: u64 = 64 << 20;

/// A trace file, opened: one pass over the headers of its buffers has been made.
///
/// Cheap to clone; clones share the index.
#[derive(Clone)]
pub struct TraceFile {
    pub(crate) core: Arc<Core>,
}

pub(crate) struct Core {
    path: PathBuf,
    header: Option<LogfileHeader>,
    clock: Clock,
    pub(crate) index: Index,
    pub(crate) load: LoadContext,
    damage: Vec<DamageKindAt>,
    totals: Totals,
}

type DamageKindAt = (u64, DamageKind);

/// What the first pass counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Buffers found, the header's included.
    pub buffers: u64,
    /// How many of them are compressed.
    pub compressed_buffers: u64,
    /// Buffers marked as having lost events.
    pub lossy_buffers: u64,
    /// Largest buffer, decompressed.
    pub largest_buffer: u32,
    /// CPU streams.
    pub streams: usize,
    /// A circular file that has overwritten its oldest buffers.
    pub wrapped: bool,
    /// Zero bytes behind the last buffer of a file that was not finalised, or that reserves its space.
    pub reserved_bytes: u64,
}

impl TraceFile {
    /// Opens a regular file and indexes its buffers.
    ///
    /// # Errors
    /// `Io`, `NotAFile` for pipes and devices, `NotAnEtl` where no buffer is found. Damage is no error.
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
    pub fn from_source(name: &Path, source: Box<dyn Source>) -> Result<TraceFile, Error> {
        let io_error = |source| Error::Io { path: name.to_owned(), source };
        let start = read_start(&*source).map_err(io_error)?;
        let start = start.map_err(|found| Error::NotAnEtl { path: name.to_owned(), found })?;
        let walk = Walk::new(source, start).run().map_err(io_error)?;
        let mut core = walk.into_core(name.to_owned());
        if core.header.is_none() && !core.has_records() {
            let found = "no readable logfile header and no buffer with events".into();
            return Err(Error::NotAnEtl { path: core.path, found });
        }
        core.index.wrapped = core.totals.wrapped;
        Ok(TraceFile { core: Arc::new(core) })
    }

    /// As it was given.
    pub fn path(&self) -> &Path {
        &self.core.path
    }

    /// The logfile header, if it can be read.
    pub fn header(&self) -> Option<&LogfileHeader> {
        self.core.header.as_ref()
    }

    /// What the raw timestamps mean.
    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// What records need to know of the file.
    pub fn record_context(&self) -> &RecordContext {
        &self.core.load.record
    }

    /// What the first pass counted.
    pub fn totals(&self) -> &Totals {
        &self.core.totals
    }

    /// Whether the session that wrote it completed its header. A file that it did not is sound all the same.
    pub fn is_finalised(&self) -> bool {
        self.core.header.as_ref().is_some_and(|header| header.end_time.0 != 0)
    }

    /// Damage to the file's structure; reading the records may find more.
    pub(crate) fn structural_damage(&self) -> &[(u64, DamageKind)] {
        &self.core.damage
    }

    /// Whether the file was written to since it was opened.
    pub fn has_changed(&self) -> bool {
        self.core.load.source.has_changed()
    }

    /// Appends the structural damage to a log.
    pub fn report(&self, file_index: u32, log: &mut DamageLog) {
        for (offset, kind) in &self.core.damage {
            log.push(Damage { file_index, offset: *offset, kind: kind.clone() });
        }
    }
}

impl Core {
    fn has_records(&self) -> bool {
        (0..self.index.stream_count()).any(|stream| {
            let mut cursor = self.index.cursor(stream);
            while let Ok(Some(entry)) = self.index.next(&mut cursor) {
                let cpu = self.index.cpu(stream);
                if load::load(&self.load, cpu, entry, Vec::new()).first().is_some() {
                    return true;
                }
            }
            false
        })
    }
}

/// What the first buffer tells.
struct Start {
    header: Option<LogfileHeader>,
    raw_start: i64,
    record: RecordContext,
    /// Buffer size on disk of the first buffer that can be trusted.
    first_size: u32,
    /// Where the first buffer is; behind 0 only if what stands there is damaged.
    first_offset: u64,
}

/// `Err` holds what was found in place of an `.etl`.
fn read_start(source: &dyn Source) -> io::Result<Result<Start, String>> {
    let mut bytes = vec![0; 0x1000];
    let got = read_full(source, &mut bytes, 0)?;
    bytes.truncate(got);
    let Some((head, records)) = bytes.split_first_chunk::<{ BufferHeader::SIZE }>() else {
        return Ok(Err(format!("{got} bytes, less than one buffer header")));
    };
    let buffer = BufferHeader::read(head);
    let context = RecordContext::default();
    let logfile = record::frame(records, &context)
        .ok()
        .and_then(|frame| record::parse(&records[..frame.size as usize], &context).ok())
        .filter(|first| first.hook == Some(Hook(0)) && first.raw_timestamp().is_some())
        .filter(|first| matches!(first.header, HeaderType::System32 | HeaderType::System64))
        .and_then(|first| {
            let width = u32::from(first.pointer_size);
            Some((LogfileHeader::read(first.payload, width)?, first.order_time, width))
        });
    if let Some((header, raw_start, width)) = logfile {
        let pointer_size = match header.pointer_size {
            4 => 4,
            8 => 8,
            _ => width as u8,
        };
        let record = RecordContext { pointer_size, old_instance: header.layout() < (1, 1) };
        let first_size =
            if buffer.is_plausible() { buffer.buffer_size } else { header.buffer_size };
        return Ok(Ok(Start {
            header: Some(header),
            raw_start,
            record,
            first_size,
            first_offset: 0,
        }));
    }
    let lost = |first_size, first_offset| Start {
        header: None,
        raw_start: 0,
        record: context,
        first_size,
        first_offset,
    };
    if buffer.is_plausible() {
        return Ok(Ok(lost(buffer.buffer_size, 0)));
    }
    let range = source.size().min(SALVAGE_RANGE);
    let limit = BufferHeader::MAX_BUFFER_SIZE;
    let Some(offset) = find_buffer(source, 1, range, limit)? else {
        return Ok(Err(describe(&bytes)));
    };
    let size = header_at(source, offset)?.map_or(0, |header| header.buffer_size);
    Ok(Ok(lost(size, offset)))
}

/// What a file that is no trace starts with, for the message.
fn describe(bytes: &[u8]) -> String {
    if bytes.iter().all(|&byte| byte == 0) {
        return "it starts with zeros".into();
    }
    if let Some(text) = bytes.get(..bytes.len().min(16)).and_then(|b| std::str::from_utf8(b).ok()) {
        if !text.is_empty() && text.chars().all(|c| !c.is_control() || c.is_whitespace()) {
            return format!("it starts with the text {text:?}");
        }
    }
    let start: String = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("it starts with the bytes {start} where a buffer header and a logfile header belong")
}

/// The pass over the buffer headers.
struct Walk {
    source: Box<dyn Source>,
    start: Start,
    index: Index,
    damage: Vec<DamageKindAt>,
    totals: Totals,
    /// Size on disk of every buffer, if they are all equal.
    uniform: Option<u32>,
    limit: u32,
    number: u64,
    data_buffers: u64,
    highest_sequence: i64,
    /// Start of the bytes that hold no buffer, and whether the headers expected there were all zero.
    gap: Option<(u64, bool)>,
    circular: bool,
}

impl Walk {
    fn new(source: Box<dyn Source>, start: Start) -> Walk {
        let header = start.header.as_ref();
        let mode = header.map_or(0, |header| header.log_file_mode);
        let size_range = BufferHeader::SIZE as u32 * 2..=BufferHeader::MAX_BUFFER_SIZE;
        let size = header.map(|header| header.buffer_size).filter(|size| size_range.contains(size));
        let compressed = mode & LogfileHeader::MODE_COMPRESSED != 0;
        let uniform = match size {
            Some(size) => (!compressed && size == start.first_size).then_some(size),
            // Without a header: equal buffers lie at multiples of their size.
            None => Some(start.first_size)
                .filter(|&size| size_range.contains(&size))
                .filter(|&size| start.first_offset % u64::from(size) == 0),
        };
        let circular = mode & LogfileHeader::MODE_CIRCULAR != 0;
        Walk {
            source,
            index: Index::new(circular),
            damage: Vec::new(),
            totals: Totals::default(),
            limit: size.or(uniform).unwrap_or(BufferHeader::MAX_BUFFER_SIZE),
            uniform,
            number: 0,
            data_buffers: 0,
            highest_sequence: 0,
            gap: None,
            circular,
            start,
        }
    }

    fn run(mut self) -> io::Result<Walk> {
        if self.start.header.is_none() {
            self.damage.push((0, DamageKind::LogfileHeader));
        }
        let size = self.source.size();
        let mut offset = 0;
        while offset < size {
            offset = match header_at(&*self.source, offset)? {
                Some(header) if self.uniform.is_some() => self.on_grid(offset, header)?,
                Some(header) => self.off_grid(offset, header)?,
                None => {
                    self.end_of_file(offset, size)?;
                    size
                }
            };
        }
        self.close_gap(size, true)?;
        self.finish();
        Ok(self)
    }

    /// All buffers have one size: whatever is wrong at one place, the next buffer's place is known.
    fn on_grid(&mut self, offset: u64, header: BufferHeader) -> io::Result<u64> {
        let grid = self.uniform.unwrap_or(self.limit);
        let next = offset + u64::from(grid);
        if header.buffer_size == grid && header.is_plausible() {
            self.accept(offset, &header, grid)?;
            return Ok(next);
        }
        let own_next = offset + u64::from(header.buffer_size);
        let continues = |walk: &Walk, at: u64| -> io::Result<bool> {
            Ok(at == walk.source.size() || is_buffer(&*walk.source, at, walk.limit)?)
        };
        if header.is_plausible() && continues(self, own_next)? && !continues(self, next)? {
            // A file that was rewritten with buffers of their own sizes.
            self.uniform = None;
            self.accept(offset, &header, header.buffer_size)?;
            return Ok(own_next);
        }
        let body = header.has_plausible_body() && header.filled(grid).is_some();
        if body && is_buffer(&*self.source, offset, self.limit)? || body && header.state == 3 {
            let kind = DamageKind::BufferSize { found: header.buffer_size, expected: grid };
            self.damage.push((offset, kind));
            self.accept(offset, &header, grid)?;
            return Ok(next);
        }
        self.open_gap(offset, &header);
        self.number += 1;
        Ok(next)
    }

    /// Buffers have sizes of their own: behind a bad one the next has to be searched.
    fn off_grid(&mut self, offset: u64, header: BufferHeader) -> io::Result<u64> {
        let size = self.source.size();
        if !header.is_plausible() {
            self.open_gap(offset, &header);
            let found = find_buffer(&*self.source, offset + 1, size, self.limit)?;
            return Ok(found.unwrap_or(size));
        }
        let own_next = offset + u64::from(header.buffer_size);
        let next_is_good = own_next >= size
            || header_at(&*self.source, own_next)?.is_none_or(|next| next.is_plausible());
        if next_is_good && own_next <= size {
            self.accept(offset, &header, header.buffer_size)?;
            return Ok(own_next);
        }
        // Either this size lies or the next header is bad: a buffer inside this one decides.
        let from = offset + BufferHeader::SIZE as u64;
        let found = find_buffer(&*self.source, from, size, self.limit)?;
        let real_next = found.filter(|&at| at < own_next);
        if let Some(next) = real_next {
            let expected = (next - offset) as u32;
            let kind = DamageKind::BufferSize { found: header.buffer_size, expected };
            self.damage.push((offset, kind));
            self.accept(offset, &header, expected)?;
            return Ok(next);
        }
        self.accept(offset, &header, header.buffer_size)?;
        Ok(own_next)
    }

    fn accept(&mut self, offset: u64, header: &BufferHeader, size: u32) -> io::Result<()> {
        self.close_gap(offset, false)?;
        let entry = Entry { index: self.number, offset, sequence: header.sequence_number };
        self.index.push(header.cpu(), entry)?;
        self.number += 1;
        let totals = &mut self.totals;
        totals.buffers += 1;
        totals.compressed_buffers += u64::from(header.is_compressed());
        let lossy = BufferHeader::EVENTS_LOST | BufferHeader::BUFFER_LOST;
        totals.lossy_buffers += u64::from(header.flags & lossy != 0);
        totals.largest_buffer = totals.largest_buffer.max(size).max(header.offset.min(self.limit));
        if header.buffer_type != BufferHeader::HEADER {
            self.data_buffers += 1;
            self.highest_sequence = self.highest_sequence.max(header.sequence_number);
        }
        let end = offset + u64::from(size);
        if end > self.source.size() {
            self.cut_buffer(offset, header, end - self.source.size());
        }
        Ok(())
    }

    /// The file ends inside a buffer.
    fn cut_buffer(&mut self, offset: u64, header: &BufferHeader, missing_bytes: u64) {
        let kept = self.source.size() - offset;
        let filled = header.filled(self.limit).map(|length| (length + BufferHeader::SIZE) as u64);
        // A session that was killed may not have written the filler: nothing is lost.
        let only_filler = !header.is_compressed() && filled.is_some_and(|filled| filled <= kept);
        if !(only_filler && !self.is_finalised()) {
            let kind = DamageKind::Truncated { missing_bytes, missing_buffers: 0 };
            self.damage.push((self.source.size(), kind));
        }
    }

    /// Less than a header is left.
    fn end_of_file(&mut self, offset: u64, size: u64) -> io::Result<()> {
        let zeros = is_zero(&*self.source, offset, size)?;
        if self.gap.is_some() || zeros && self.may_reserve() {
            self.gap.get_or_insert((offset, zeros));
            return Ok(());
        }
        self.close_gap(offset, false)?;
        let kind = match self.uniform {
            Some(grid) => DamageKind::Truncated {
                missing_bytes: u64::from(grid) - (size - offset),
                missing_buffers: 0,
            },
            None => DamageKind::NoBuffer { length: size - offset, zeros },
        };
        self.damage.push((size, kind));
        Ok(())
    }

    fn open_gap(&mut self, offset: u64, header: &BufferHeader) {
        let zeros = header.to_bytes() == [0; BufferHeader::SIZE];
        match &mut self.gap {
            Some((_, all_zeros)) => *all_zeros &= zeros,
            None => self.gap = Some((offset, zeros)),
        }
    }

    fn close_gap(&mut self, offset: u64, at_end: bool) -> io::Result<()> {
        let Some((start, zeros)) = self.gap.take() else { return Ok(()) };
        let end = offset.min(self.source.size());
        if at_end && zeros && self.may_reserve() && is_zero(&*self.source, start, end)? {
            self.totals.reserved_bytes = end - start;
            return Ok(());
        }
        self.damage.push((start, DamageKind::NoBuffer { length: end - start, zeros }));
        Ok(())
    }

    fn is_finalised(&self) -> bool {
        self.start.header.as_ref().is_some_and(|header| header.end_time.0 != 0)
    }

    /// Whether zeros behind the last buffer are space that the session reserved and did not get to use.
    fn may_reserve(&self) -> bool {
        let mode = self.start.header.as_ref().map_or(0, |header| header.log_file_mode);
        !self.is_finalised() || mode & LogfileHeader::MODE_PREALLOCATE != 0
    }

    fn finish(&mut self) {
        self.totals.streams = self.index.stream_count();
        let in_file = i64::try_from(self.data_buffers).unwrap_or(i64::MAX);
        self.totals.wrapped = self.circular && self.highest_sequence > in_file;
        let Some(header) = self.start.header.as_ref() else { return };
        // A circular session counts what it has overwritten, too: its count proves nothing.
        let promised = u64::from(header.buffers_written);
        if self.circular || !self.is_finalised() || self.number >= promised {
            return;
        }
        let missing = promised - self.number;
        let size = self.source.size();
        match self.damage.last_mut() {
            Some((_, DamageKind::Truncated { missing_buffers, .. })) => *missing_buffers = missing,
            // Buffers of their own sizes are counted wrong behind a gap.
            Some((_, DamageKind::NoBuffer { .. })) if self.uniform.is_none() => {}
            _ => {
                let kind = DamageKind::Truncated { missing_bytes: 0, missing_buffers: missing };
                self.damage.push((size, kind));
            }
        }
    }

    fn into_core(self, path: PathBuf) -> Core {
        let header = self.start.header;
        let clock = header.as_ref().map_or(Clock::UNUSABLE, |h| h.clock(self.start.raw_start));
        let load = LoadContext {
            source: self.source,
            record: self.start.record,
            limit: self.limit,
            uniform_size: self.uniform,
        };
        Core {
            path,
            header,
            clock,
            index: self.index,
            load,
            damage: self.damage,
            totals: self.totals,
        }
    }
}
