//! Completes, in place, a file that its session did not finalise: the session was killed or the machine lost power.
//!
//! Such a file has no end time in its header, a stale count of buffers, and perhaps half a buffer or unused space behind
//! the last buffer. The repair first indexes every buffer and walks every record, then writes; it writes the header
//! last, so that an interrupted repair can be repeated.

use crate::header::LogfileHeader;
use crate::read::{Records, TraceFile};
use crate::record::{self, RecordContext};
use crate::write::BufferBuilder;
use crate::{DamageKind, DamageLog, Error};
use etw_types::{BufferFlags, BufferHeader, FileTime, Position};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Locks a file until it is closed; false: somebody else has locked it. A file system without locks cannot tell.
#[cfg(not(target_family = "wasm"))]
fn try_lock(file: &File) -> io::Result<bool> {
    match fs4::FileExt::try_lock(file) {
        Ok(()) => Ok(true),
        Err(fs4::TryLockError::WouldBlock) => Ok(false),
        Err(fs4::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
            Ok(true)
        }
        Err(fs4::TryLockError::Error(error)) => Err(error),
    }
}

/// Nobody else is there.
#[cfg(target_family = "wasm")]
fn try_lock(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// The result of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairOutcome {
    /// The file was finalised; it is unchanged.
    Sound,
    /// The file is finalised now.
    Finalised,
    /// The file has damage that a repair cannot fix; it is unchanged.
    Damaged,
}

/// Findings and changes of a repair.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairReport {
    /// The result.
    pub outcome: RepairOutcome,
    /// The damage found. If the repair finalised the file, only a truncated last buffer.
    pub damage: DamageLog,
    /// Records in the file.
    pub records: u64,
    /// Buffers in the file, the header's included.
    pub buffers: u64,
    /// Time of the last record; the header's, 0 if it has none, if the file was left as it is.
    pub end_time: FileTime,
    /// Bytes without a record that were cut from the end.
    pub cut_bytes: u64,
    /// Bytes of records that the last buffer's header counts and the file does not contain.
    pub lost_bytes: u64,
}

impl RepairReport {
    /// The report on a damaged trace that is left as it is.
    pub fn damaged(buffers: u64) -> RepairReport {
        RepairReport {
            outcome: RepairOutcome::Damaged,
            damage: DamageLog::default(),
            records: 0,
            buffers,
            end_time: FileTime(0),
            cut_bytes: 0,
            lost_bytes: 0,
        }
    }
}

/// Finalises a trace that its session did not: completes the header and the last buffer.
///
/// If the file ends inside a buffer, the buffer's whole records are kept. A finalised file is never changed.
///
/// # Errors
/// Those of [`TraceFile::open`]; `Io` if the file cannot be written; `InUse` if it is locked or changed during the
/// repair, as the file of a running session does.
pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport, Error> {
    repair_with(path, |_, _| {})
}

/// As [`repair`]. `observe` receives the trace and the position of each record that is read, for a display of the progress.
///
/// # Errors
/// Those of [`repair`].
pub fn repair_with(
    path: impl AsRef<Path>,
    mut observe: impl FnMut(&TraceFile, Position),
) -> Result<RepairReport, Error> {
    let path = path.as_ref();
    let trace = TraceFile::open(path).map_err(|error| in_use(error, path))?;
    let mut records = Records::new(vec![trace.clone()]);
    let mut last_raw = trace.clock().raw_start;
    let mut count = 0;
    while let Some(record) = records.next() {
        count += 1;
        observe(&trace, record.position);
        last_raw = last_raw.max(record.raw_timestamp().unwrap_or(last_raw));
    }
    let damage = records.damage().clone();
    if damage.kept().iter().any(|damage| damage.kind == DamageKind::Changed) {
        return Err(Error::InUse { path: path.to_owned() });
    }
    let mut report = RepairReport {
        outcome: RepairOutcome::Damaged,
        records: count,
        buffers: trace.totals().buffers,
        end_time: trace.header().map_or(FileTime(0), |header| header.end_time),
        cut_bytes: 0,
        lost_bytes: 0,
        damage,
    };
    if trace.is_finalised() {
        if report.damage.is_empty() {
            report.outcome = RepairOutcome::Sound;
        }
        return Ok(report);
    }
    let only_the_end = report
        .damage
        .kept()
        .iter()
        .all(|damage| matches!(damage.kind, DamageKind::Truncated { missing_buffers: 0, .. }));
    let Some(header) = trace.header().filter(|_| only_the_end) else { return Ok(report) };
    let io_error = |source| Error::Io { path: path.to_owned(), source };
    let tail = Tail::of(&trace, !report.damage.is_empty()).map_err(io_error)?;
    report.cut_bytes = tail.cut_bytes;
    report.lost_bytes = tail.lost_bytes;
    report.buffers -= u64::from(tail.drops_buffer);

    let open = || OpenOptions::new().read(true).write(true).open(path).map_err(io_error);
    let mut file = open()?;
    if !try_lock(&file).map_err(io_error)? {
        return Err(Error::InUse { path: path.to_owned() });
    }
    // On Windows a lock keeps out other handles of this process, too: there it only says that nobody else has one, and ends with
    // its handle.
    if cfg!(windows) {
        file = open()?;
    }
    if trace.has_changed() {
        return Err(Error::InUse { path: path.to_owned() });
    }
    report.end_time = end_time(&trace, last_raw, &file).map_err(io_error)?;
    tail.write(&mut file).map_err(io_error)?;
    let cpus = trace.cpu_count().max(header.number_of_processors as usize) as u32;
    let buffers = u32::try_from(report.buffers).unwrap_or(u32::MAX);
    let facts = Facts { end_time: report.end_time, buffers, cpus };
    facts.write(&mut file).map_err(io_error)?;
    report.outcome = RepairOutcome::Finalised;
    Ok(report)
}

/// On Windows a file that a session has locked cannot even be read: `ERROR_SHARING_VIOLATION`, `ERROR_LOCK_VIOLATION`.
fn in_use(error: Error, path: &Path) -> Error {
    match &error {
        Error::Io { source, .. }
            if cfg!(windows) && matches!(source.raw_os_error(), Some(32 | 33)) =>
        {
            Error::InUse { path: path.to_owned() }
        }
        _ => error,
    }
}

/// Time of the last record, else the file's modification time. Never zero: zero marks a running session.
fn end_time(trace: &TraceFile, last_raw: i64, file: &File) -> io::Result<FileTime> {
    let start = trace.clock().start;
    if let Some(last) = trace.clock().filetime(last_raw).filter(|last| last.0 != 0) {
        return Ok(last.max(start));
    }
    // Without a usable clock: when the session last wrote.
    let since_unix = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let ticks = i64::try_from(since_unix.as_nanos() / 100).unwrap_or(0);
    Ok(FileTime(FileTime::UNIX_EPOCH.0.saturating_add(ticks)))
}

/// The end of the repaired file.
struct Tail {
    /// File offset of `bytes`.
    offset: u64,
    bytes: Vec<u8>,
    cut_bytes: u64,
    lost_bytes: u64,
    /// The last buffer has no whole record and is removed.
    drops_buffer: bool,
}

impl Tail {
    fn of(trace: &TraceFile, cuts_records: bool) -> io::Result<Tail> {
        let size = trace.core.load.source.size();
        let Some(last) = trace.core.last_buffer()? else {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        };
        let end = last.offset + u64::from(last.size);
        let mut tail = Tail {
            offset: end,
            bytes: Vec::new(),
            cut_bytes: size.saturating_sub(end),
            lost_bytes: 0,
            drops_buffer: false,
        };
        if end <= size {
            // Less than a buffer header follows, or reserved space.
            tail.lost_bytes = if cuts_records { tail.cut_bytes } else { 0 };
            return Ok(tail);
        }
        if !cuts_records {
            // Only the filler is missing.
            tail.offset = size;
            tail.bytes = vec![0xff; (end - size) as usize];
            return Ok(tail);
        }
        let whole = last.records.len().next_multiple_of(8);
        tail.offset = last.offset;
        tail.lost_bytes = last.filled.saturating_sub(whole) as u64;
        if last.records.is_empty() {
            tail.drops_buffer = true;
            tail.cut_bytes = size - last.offset;
            return Ok(tail);
        }
        let mut buffer = BufferBuilder::new(0, 0);
        buffer.header = BufferHeader {
            flags: last.header.flags.without(BufferFlags::COMPRESSED),
            ..last.header
        };
        buffer.push_bytes(&last.records);
        if last.uniform {
            buffer.header.buffer_size = last.size;
            tail.bytes = buffer.finish();
        } else {
            tail.bytes = buffer.finish_compressed();
        }
        Ok(tail)
    }

    fn write(&self, file: &mut File) -> io::Result<()> {
        if !self.bytes.is_empty() {
            file.seek(SeekFrom::Start(self.offset))?;
            file.write_all(&self.bytes)?;
        }
        file.set_len(self.offset + self.bytes.len() as u64)?;
        file.sync_all()
    }
}

/// Header fields that a session writes when it stops.
struct Facts {
    end_time: FileTime,
    buffers: u32,
    cpus: u32,
}

impl Facts {
    /// Writes these three fields and leaves all others.
    fn write(&self, file: &mut File) -> io::Result<()> {
        let mut bytes = vec![0; BufferHeader::SIZE + 0xffff];
        file.seek(SeekFrom::Start(0))?;
        let mut got = 0;
        while got < bytes.len() {
            match file.read(&mut bytes[got..])? {
                0 => break,
                count => got += count,
            }
        }
        let room = &bytes[BufferHeader::SIZE.min(got)..got];
        let context = RecordContext::default();
        let size = record::frame(room, &context).map(|frame| frame.size as usize);
        let payload_size = record::parse(room, &context).map(|first| first.payload.len());
        let (Ok(size), Ok(payload_size)) = (size, payload_size) else {
            // It was read a moment ago.
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        };
        let start = BufferHeader::SIZE + size - payload_size;
        let fields: [(usize, &[u8]); 3] = [
            (LogfileHeader::NUMBER_OF_PROCESSORS.offset(), &self.cpus.to_le_bytes()),
            (LogfileHeader::BUFFERS_WRITTEN.offset(), &self.buffers.to_le_bytes()),
            // Last: with it the file is finalised.
            (LogfileHeader::END_TIME.offset(), &self.end_time.0.to_le_bytes()),
        ];
        for (offset, field) in fields {
            file.seek(SeekFrom::Start((start + offset) as u64))?;
            file.write_all(field)?;
        }
        file.sync_all()
    }
}
