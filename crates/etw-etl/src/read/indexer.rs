//! The pass over the buffer headers of a file: finds each buffer, and the bytes that belong to no buffer.
//!
//! Uncompressed files have buffers of one size, so the offset of the next one is known behind any damage (*on the grid*). In
//! other files each header has its buffer's size; behind a wrong size the next buffer must be searched (*off the grid*).

use super::buffer_loader::{LoadContext, decompress_into};
use super::byte_source::{ByteSource, next_data, read_full};
use super::file_core::{Core, Totals};
use super::first_buffer::{Start, first_bytes, read_logfile};
use super::index::{Entry, Index};
use super::resync::{find_buffer, has_record, header_at, is_buffer, is_zero};
use crate::{Damage, DamageKind, DamageLog};
use etw_types::{BufferFlags, BufferHeader, Clock, LogFileMode};
use std::io;
use std::path::PathBuf;

/// Buffers whose wrong size is corrected; only a hostile file has more.
const REAL_SIZES: usize = 1 << 18;
/// Buffers that are decompressed on trial to find their end; only a hostile file needs more.
const TRIALS: u32 = 1000;

/// The finding at one offset of the grid.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Good,
    /// A buffer whose header has a wrong size.
    WrongSize,
    /// A buffer whose own size is right: the buffers of the file have different sizes.
    OwnSize,
    Bad,
}

/// The pass over the buffer headers.
pub(super) struct Walk {
    source: Box<dyn ByteSource>,
    start: Start,
    index: Index,
    damage: DamageLog,
    totals: Totals,
    /// Size on disk of every buffer, if they are all equal.
    uniform: Option<u32>,
    /// See [`LoadContext`].
    real_sizes: Vec<(u64, u32)>,
    trials: u32,
    /// The last buffer: offset, and size by which the next was looked for.
    last: Option<(u64, u32)>,
    /// The end of the file cuts a buffer by this much.
    missing_bytes: u64,
    limit: u32,
    number: u64,
    data_buffers: u64,
    highest_sequence: i64,
    /// Start of the bytes that hold no buffer, and whether the headers expected there were all zero.
    gap: Option<(u64, bool)>,
    circular: bool,
}

impl Walk {
    pub(super) fn new(source: Box<dyn ByteSource>, start: Start) -> io::Result<Walk> {
        let header = start.header.as_ref();
        let mode = header.map_or(LogFileMode::NONE, |header| header.log_file_mode);
        let size_range = BufferHeader::SIZE as u32 * 2..=BufferHeader::MAX_BUFFER_SIZE;
        let size = header.map(|header| header.buffer_size).filter(|size| size_range.contains(size));
        let first_size = Some(start.first_size).filter(|size| size_range.contains(size));
        let uniform = match size {
            Some(_) if mode.contains(LogFileMode::COMPRESSED) => None,
            Some(size) if size == start.first_size => Some(size),
            // One of the two is wrong, or the sizes differ: the second buffer decides.
            Some(size) => {
                let second = start.first_offset + u64::from(size);
                let continues = second == source.size() || is_buffer(&*source, second)?;
                continues.then_some(size)
            }
            // Without a header: equal buffers lie at multiples of their size.
            None => {
                first_size.filter(|&size| size != 0 && start.first_offset % u64::from(size) == 0)
            }
        };
        let circular = mode.contains(LogFileMode::CIRCULAR);
        Ok(Walk {
            source,
            index: Index::new(circular),
            damage: DamageLog::default(),
            totals: Totals::default(),
            limit: size.or(uniform).unwrap_or(BufferHeader::MAX_BUFFER_SIZE),
            uniform,
            real_sizes: Vec::new(),
            trials: TRIALS,
            last: None,
            missing_bytes: 0,
            number: 0,
            data_buffers: 0,
            highest_sequence: 0,
            gap: None,
            circular,
            start,
        })
    }

    pub(super) fn run(mut self) -> io::Result<Walk> {
        if self.start.header.is_none() {
            self.report(0, DamageKind::LogfileHeader);
        }
        let size = self.source.size();
        let mut offset = self.start.first_offset;
        if offset > 0 {
            self.gap = Some((0, is_zero(&*self.source, 0, offset)?));
            self.number = self.uniform.map_or(0, |grid| offset.div_ceil(u64::from(grid)));
        }
        while offset < size {
            offset = match header_at(&*self.source, offset)? {
                Some(header) => match self.uniform {
                    Some(grid) => self.on_grid(offset, header, grid)?,
                    None => self.off_grid(offset, header)?,
                },
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

    fn report(&mut self, offset: u64, kind: DamageKind) {
        self.damage.push(Damage { file_index: 0, offset, kind });
    }

    /// All buffers have one size: behind damage the next buffer's offset is known.
    fn on_grid(&mut self, offset: u64, header: BufferHeader, grid: u32) -> io::Result<u64> {
        let next = offset + u64::from(grid);
        match self.cell(offset, &header, grid)? {
            Cell::Good => self.accept(offset, &header, grid)?,
            Cell::WrongSize => {
                let kind = DamageKind::BufferSize { found: header.buffer_size, expected: grid };
                self.report(offset, kind);
                self.accept(offset, &header, grid)?;
            }
            Cell::OwnSize => {
                self.uniform = None;
                self.accept(offset, &header, header.buffer_size)?;
                return Ok(offset + u64::from(header.buffer_size));
            }
            Cell::Bad => return self.bad_cells(offset, header, grid),
        }
        Ok(next)
    }

    /// The finding at one offset of the grid.
    fn cell(&self, offset: u64, header: &BufferHeader, grid: u32) -> io::Result<Cell> {
        let source = &*self.source;
        if header.buffer_size == grid {
            // With a record behind it, a header may be wrong about the filled length.
            let good = header.is_plausible()
                || header.has_plausible_state() && has_record(source, offset, header)?;
            return Ok(if good { Cell::Good } else { Cell::Bad });
        }
        let next = offset + u64::from(grid);
        let own_next = offset + u64::from(header.buffer_size);
        // A file that was rewritten with buffers of their own sizes, or another file behind this one.
        if header.is_plausible() {
            let own_size = if own_next < next {
                is_buffer(source, own_next)?
            } else {
                // A multiple of the size may only seem right, unless more than one is filled.
                header.buffer_size % grid != 0 || header.filled(grid).is_none()
            };
            let ends_well = |at| Ok::<_, io::Error>(at == source.size() || is_buffer(source, at)?);
            if own_size && ends_well(own_next)? && (own_next < next || !ends_well(next)?) {
                return Ok(Cell::OwnSize);
            }
        }
        let body = header.has_plausible_body() && header.filled(grid).is_some();
        let good = body && (header.state == 3 || has_record(source, offset, header)?);
        Ok(if good { Cell::WrongSize } else { Cell::Bad })
    }

    /// Skips to the next buffer: on the grid, or off it if bytes were inserted or removed.
    fn bad_cells(&mut self, offset: u64, header: BufferHeader, grid: u32) -> io::Result<u64> {
        let size = self.source.size();
        let mut header = header;
        let mut next = offset;
        loop {
            self.open_gap(next, &header);
            next += u64::from(grid);
            if header.buffer_size == 0 {
                // No buffer starts in a hole, except in its last bytes.
                let hole = next_data(&*self.source, next)? - next;
                next += hole - hole % u64::from(grid);
            }
            match header_at(&*self.source, next)? {
                Some(other) if self.cell(next, &other, grid)? == Cell::Bad => header = other,
                _ => break,
            }
        }
        // If bytes were removed, it starts inside the buffer before this offset.
        let last = self.last.map(|(last, _)| last);
        let before = last.filter(|&last| last + u64::from(grid) == offset);
        let mut from = before.map_or(offset, |last| last + BufferHeader::SIZE as u64) + 1;
        let until = next.min(size);
        while let Some(found) = find_buffer(&*self.source, from, until)? {
            let Some(header) = header_at(&*self.source, found)? else { break };
            let own_next = found + u64::from(header.buffer_size);
            // Payload can look like a buffer, but hardly like one of just this file's size as a session writes it,
            // with another behind it. An offset that would not be accepted as a buffer must not be returned: it may
            // be before this one.
            let is_own =
                header.buffer_size == grid && header.state == 3 && header.reference_count == 0;
            if is_own
                && (own_next >= size || is_buffer(&*self.source, own_next)?)
                && self.cell(found, &header, grid)? != Cell::Bad
            {
                next = found;
                break;
            }
            from = found + 1;
        }
        if let Some(last) = before.filter(|_| next <= offset) {
            self.gap = None;
            let expected = (next - last) as u32;
            self.report(last, DamageKind::BufferSize { found: grid, expected });
            self.set_real_size(last, expected);
        }
        self.number += next.saturating_sub(offset).div_ceil(u64::from(grid));
        Ok(next)
    }

    /// Buffers have different sizes: behind a bad one the next must be searched.
    fn off_grid(&mut self, offset: u64, header: BufferHeader) -> io::Result<u64> {
        let size = self.source.size();
        // With a record behind it, a header may be wrong about the filled length.
        let sizes = BufferHeader::SIZE as u32..=BufferHeader::MAX_BUFFER_SIZE;
        let plausible = header.is_plausible()
            || sizes.contains(&header.buffer_size)
                && !header.has_plausible_body()
                && header.has_plausible_state()
                && has_record(&*self.source, offset, &header)?;
        let own_next = offset + u64::from(header.buffer_size);
        if plausible && own_next <= size {
            let next = header_at(&*self.source, own_next)?;
            if own_next == size || next.is_some_and(|next| next.is_plausible()) {
                self.accept(offset, &header, header.buffer_size)?;
                return Ok(own_next);
            }
        }
        let body =
            plausible || header.has_plausible_body() && has_record(&*self.source, offset, &header)?;
        // No stream is longer: one flag bit for each byte.
        let longest = BufferHeader::SIZE as u64 + u64::from(self.limit) / 8 * 9 + 8;
        let until = size.min(offset + longest.max(u64::from(header.buffer_size)));
        if body {
            // Either this size is wrong or the bytes behind it are damaged.
            let from = offset + BufferHeader::SIZE as u64;
            let found = find_buffer(&*self.source, from, until)?;
            if let Some(next) = self.real_end(offset, &header, found, until)? {
                let expected = (next - offset) as u32;
                self.report(offset, DamageKind::BufferSize { found: header.buffer_size, expected });
                self.accept(offset, &header, expected)?;
                return Ok(next);
            }
        }
        if plausible {
            self.accept(offset, &header, header.buffer_size)?;
            return Ok(own_next);
        }
        self.open_gap(offset, &header);
        Ok(find_buffer(&*self.source, offset + 1, size)?.unwrap_or(size))
    }

    /// The end of a buffer whose header has a wrong size; `found` is the next buffer within the longest possible one.
    fn real_end(
        &mut self,
        offset: u64,
        header: &BufferHeader,
        found: Option<u64>,
        until: u64,
    ) -> io::Result<Option<u64>> {
        let size = self.source.size();
        let end = found.or((until == size).then_some(size));
        let own_next = offset + u64::from(header.buffer_size);
        let Some(end) = end.filter(|&end| end != own_next) else { return Ok(None) };
        if header.has_plausible_body() && !header.is_plausible() || end < own_next.min(size) {
            return Ok(Some(end));
        }
        // A whole stream that ends elsewhere proves it; a buffer that is cut has none.
        let proven = header.is_compressed()
            && !self.is_whole(offset, header, own_next)?
            && self.is_whole(offset, header, end)?;
        Ok(proven.then_some(end))
    }

    /// Whether a compressed buffer that ends at `end` decompresses to all that it holds.
    fn is_whole(&mut self, offset: u64, header: &BufferHeader, end: u64) -> io::Result<bool> {
        let (Some(filled), true) = (header.filled(self.limit), self.trials > 0) else {
            return Ok(false);
        };
        if end > self.source.size() {
            return Ok(false);
        }
        self.trials -= 1;
        let start = offset + BufferHeader::SIZE as u64;
        let mut stream = vec![0; end.saturating_sub(start) as usize];
        let got = read_full(&*self.source, &mut stream, start)?;
        Ok(decompress_into(&stream[..got], &mut vec![0; filled]).1.is_none())
    }

    fn set_real_size(&mut self, offset: u64, size: u32) {
        // One buffer twice only where its size was wrong in two ways.
        if self.real_sizes.last().is_some_and(|last| last.0 == offset) {
            self.real_sizes.pop();
        }
        if self.real_sizes.len() < REAL_SIZES {
            self.real_sizes.push((offset, size));
        }
    }

    fn accept(&mut self, offset: u64, header: &BufferHeader, size: u32) -> io::Result<()> {
        self.close_gap(offset, false)?;
        if size != header.buffer_size {
            self.set_real_size(offset, size);
        }
        self.last = Some((offset, size));
        if header.is_header() && offset > self.start.first_offset {
            // Another file behind this one: its buffers may be larger.
            let other = read_logfile(&first_bytes(&*self.source, offset)?);
            let size = other.map_or(0, |(other, ..)| other.buffer_size);
            self.limit = self.limit.max(size.min(BufferHeader::MAX_BUFFER_SIZE));
            self.report(offset, DamageKind::SecondHeader);
        }
        if let Some(first) = self.repeated(offset, header, size)? {
            self.report(offset, DamageKind::RepeatedBuffer { first });
            self.number += 1;
            self.totals.buffers += 1;
            return Ok(());
        }
        let entry = Entry { index: self.number, offset, sequence: header.sequence_number };
        self.index.push(header.cpu(), entry)?;
        self.number += 1;
        let totals = &mut self.totals;
        totals.buffers += 1;
        totals.compressed_buffers += u64::from(header.is_compressed());
        let lossy = BufferFlags::EVENTS_LOST | BufferFlags::BUFFER_LOST;
        totals.lossy_buffers += u64::from(header.flags.intersects(lossy));
        totals.largest_buffer = totals.largest_buffer.max(size).max(header.offset.min(self.limit));
        if !header.is_header() {
            self.data_buffers += 1;
            self.highest_sequence = self.highest_sequence.max(header.sequence_number);
        }
        let end = offset + u64::from(size);
        if end > self.source.size() {
            self.cut_buffer(offset, header, end - self.source.size());
        }
        Ok(())
    }

    /// The buffer before this one in its stream, if this one repeats its bytes.
    fn repeated(&self, offset: u64, header: &BufferHeader, size: u32) -> io::Result<Option<u64>> {
        let before = self.index.last(header.cpu());
        let before = before.filter(|before| before.sequence == header.sequence_number);
        let Some(Entry { offset: first, .. }) = before else { return Ok(None) };
        // Sessions that do not number their buffers write other times.
        if header_at(&*self.source, first)?.as_ref() != Some(header) {
            return Ok(None);
        }
        let read = |offset| {
            let mut bytes = vec![0; size as usize];
            let count = read_full(&*self.source, &mut bytes, offset)?;
            bytes.truncate(count);
            io::Result::Ok(bytes)
        };
        Ok((read(first)? == read(offset)?).then_some(first))
    }

    /// The file ends inside a buffer.
    fn cut_buffer(&mut self, offset: u64, header: &BufferHeader, missing_bytes: u64) {
        let kept = self.source.size() - offset;
        let filled = header.filled(self.limit).map(|length| (length + BufferHeader::SIZE) as u64);
        // A session that was killed may not have written the filler: nothing is lost.
        let only_filler = !header.is_compressed() && filled.is_some_and(|filled| filled <= kept);
        if !only_filler || self.is_finalised() {
            self.missing_bytes = missing_bytes;
        }
    }

    /// Less than a header is left. There may be more bytes up to `size`: those that the file has lost since it was opened.
    fn end_of_file(&mut self, offset: u64, size: u64) -> io::Result<()> {
        let zeros = is_zero(&*self.source, offset, size)?;
        if self.gap.is_some() || zeros && self.may_reserve() {
            self.gap.get_or_insert((offset, zeros));
            return Ok(());
        }
        let length = size - offset;
        if self.is_finalised() && self.number >= self.promised() {
            self.report(offset, DamageKind::NoBuffer { length, zeros });
        } else {
            // If the sizes differ, at least the rest of a header is missing.
            let whole = self.uniform.unwrap_or(BufferHeader::SIZE as u32);
            let whole = u64::from(whole);
            let left = read_full(&*self.source, &mut [0; BufferHeader::SIZE], offset)? as u64;
            self.missing_bytes = length.max(whole).saturating_sub(left);
            self.number += if self.uniform.is_some() { length.div_ceil(whole) } else { 1 };
        }
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
        if at_end && zeros && self.may_reserve() {
            // Buffers that a session has written there since the headers were looked for are no damage.
            let is_written = |source: &dyn ByteSource| !self.is_finalised() && source.has_changed();
            if is_zero(&*self.source, start, end)? || is_written(&*self.source) {
                self.totals.reserved_bytes = end - start;
                return Ok(());
            }
        }
        self.report(start, DamageKind::NoBuffer { length: end - start, zeros });
        Ok(())
    }

    fn is_finalised(&self) -> bool {
        self.start.header.as_ref().is_some_and(|header| header.end_time.0 != 0)
    }

    /// Whether zeros behind the last buffer are space that the session reserved and did not use.
    fn may_reserve(&self) -> bool {
        let mode =
            self.start.header.as_ref().map_or(LogFileMode::NONE, |header| header.log_file_mode);
        !self.is_finalised() || mode.contains(LogFileMode::PREALLOCATE)
    }

    fn finish(&mut self) {
        self.totals.streams = self.index.stream_count();
        self.index.wrapped = self.has_newer_numbers();
        self.totals.wrapped = self.has_newer_numbers() && self.has_been_full();
        let missing_buffers = self.missing_buffers();
        if self.missing_bytes > 0 || missing_buffers > 0 {
            let missing_bytes = self.missing_bytes;
            let kind = DamageKind::Truncated { missing_bytes, missing_buffers };
            self.report(self.source.size(), kind);
        }
    }

    /// Whether a circular file has sequence numbers above the number of its buffers: others were overwritten, lost or removed.
    fn has_newer_numbers(&self) -> bool {
        let in_file = i64::try_from(self.data_buffers).unwrap_or(i64::MAX);
        self.circular && self.highest_sequence > in_file
    }

    /// Whether a circular file has ever had its maximum size. Before, its session overwrites nothing.
    fn has_been_full(&self) -> bool {
        let written = if self.is_finalised() { self.buffers_written() } else { 0 };
        self.circle().is_none_or(|circle| written.max(self.number) >= circle)
    }

    /// Buffers that a circular file of its maximum size has at least; `None` if the header does not state it.
    fn circle(&self) -> Option<u64> {
        let header = self.start.header.as_ref()?;
        let buffers = header.maximum_size()?.checked_div(u64::from(header.buffer_size))?;
        // Sessions of this project state KiB, and fill it. Whether Windows begins anew one buffer earlier is not known.
        let is_exact = header.log_file_mode.contains(LogFileMode::USE_KBYTES_FOR_SIZE);
        Some(if is_exact { buffers } else { buffers.saturating_sub(1) })
    }

    fn buffers_written(&self) -> u64 {
        self.start.header.as_ref().map_or(0, |header| u64::from(header.buffers_written))
    }

    /// Buffers in the file by its header; 0 if unknown.
    fn promised(&self) -> u64 {
        let written = self.buffers_written();
        match self.circle() {
            // Windows counts the buffers that a circular session has overwritten, too (guess); sessions of this project do not.
            // Either way the file grows up to its maximum size, is never shortened, and has so many buffers. A gap in the
            // sequence numbers proves less: real traces have gaps where no buffer was removed.
            Some(circle) if self.circular => written.min(circle),
            _ => written,
        }
    }

    fn missing_buffers(&self) -> u64 {
        if !self.is_finalised() {
            return 0;
        }
        // The count may include overwritten buffers, and nothing says how many.
        let is_unknown = match self.circle() {
            // Buffers of their own sizes do not fill the maximum size with a known number.
            Some(circle) => self.uniform.is_none() && self.buffers_written() > circle,
            None => true,
        };
        if self.circular && is_unknown {
            return 0;
        }
        // Buffers of their own sizes cannot be counted in a gap.
        let gap = self.uniform.is_none()
            && self.damage.kept().iter().any(|d| matches!(d.kind, DamageKind::NoBuffer { .. }));
        if gap { 0 } else { self.promised().saturating_sub(self.number) }
    }

    pub(super) fn into_core(self, path: PathBuf) -> Core {
        let header = self.start.header;
        let clock = header.as_ref().map_or(Clock::UNUSABLE, |h| h.clock(self.start.raw_start));
        let load = LoadContext {
            source: self.source,
            record: self.start.record,
            limit: self.limit,
            uniform_size: self.uniform,
            real_sizes: self.real_sizes,
        };
        Core {
            path,
            header,
            clock,
            index: self.index,
            load,
            last: self.last,
            damage: self.damage,
            totals: self.totals,
            is_translated: false,
        }
    }
}
