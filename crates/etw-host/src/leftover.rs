//! What a killed program left in `OUT.etl.part`: read beside its output, or folded into it.
//!
//! Everything in it is untrusted: it was written by a program that crashed, and lies where others may write.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_etl::header::LogfileHeader;
use etw_etl::read::Source as EtlSource;
use etw_ring::{Cause as RingCause, Control, DrainOptions, Memory, Reader, Source};
use etw_session::recover::recover;
use etw_session::{
    EnableInfo, EnableProperties, FileEnd, HostFacts, LogMode, LogPolicy, Place, Session,
    SessionConfig,
};
use etw_types::{BufferHeader, EventHeader, HeaderType, LogFileMode, le};

use crate::clock::ClockMap;
use crate::facts::SessionTime;
use crate::facts::{SessionFacts, file_name};
use crate::part::{PartHeader, ReadAt, is_locked, part_path};
use crate::registrations::{Origin, Registrations};

/// The buffers that belong into a session's files and are not, or may not be, there.
#[derive(Clone, Debug)]
pub struct Leftover {
    /// What the session's files say of it.
    pub facts: SessionFacts,
    /// By file and slot; each as long as the session's buffers.
    pub buffers: BTreeMap<Place, Vec<u8>>,
    /// Events in them.
    pub events: u64,
    /// Events that the program's writers counted as lost.
    pub lost: u64,
    /// Buffers and places in the pool that no program of ours can have left.
    pub damaged: u64,
    /// The program still runs: more may come.
    pub is_running: bool,
    /// Of a compressed file, whose buffers have places of their own lengths: the end of its last whole buffer, where the first of
    /// `buffers` belongs and the others behind it.
    pub tail: Option<u64>,
}

impl Leftover {
    /// Where in its file the buffer of a place belongs.
    fn offset(&self, place: Place) -> u64 {
        let size = u64::from(self.facts.header.buffer_size);
        match (self.tail, self.buffers.first_key_value()) {
            (Some(tail), Some((first, _))) => tail + (place.slot - first.slot) * size,
            _ => place.slot * size,
        }
    }
}

/// Largest `.part` that is looked at: what one process can have in pool and buffers, and no more than fits memory.
const LARGEST: u64 = 3 << 29;

/// Reads `OUT.etl.part`, given that path or `OUT.etl`'s; `None` where there is none.
///
/// # Errors
/// What the system says; `InvalidData` for a file that is none of ours.
pub fn read(path: &Path) -> io::Result<Option<Leftover>> {
    let (out, part) = paths(path);
    let file = match File::open(&part) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the .part file is too large"));
    }
    let is_running = is_locked(&file)?;
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} is cut short", part.display()))
        }
        _ => error,
    };
    let header = PartHeader::read(&file, length).map_err(cut)?;
    let mut leftover = collect(&file, &header, &out).map_err(cut)?;
    leftover.is_running = is_running;
    Ok(Some(leftover))
}

/// `OUT.etl` and `OUT.etl.part`, from either.
fn paths(path: &Path) -> (PathBuf, PathBuf) {
    match path.to_string_lossy().strip_suffix(".part") {
        Some(out) => (PathBuf::from(out), path.to_owned()),
        None => (path.to_owned(), part_path(path)),
    }
}

/// The pattern of the session's files, in the folder where the first of them is found.
fn pattern(facts: &SessionFacts, out: &Path) -> PathBuf {
    let name = Path::new(&facts.header.log_file_name).file_name();
    match name.filter(|name| name.to_string_lossy().contains("%d")) {
        Some(name) => out.with_file_name(name),
        None => out.to_owned(),
    }
}

fn copy(file: &File, offset: u64, size: usize) -> io::Result<Memory> {
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, offset)?;
    Memory::copy_of(&bytes)
}

fn collect(file: &File, header: &PartHeader, out: &Path) -> io::Result<Leftover> {
    let facts = SessionFacts::read(&header.facts)?;
    if facts.header.buffer_size != header.buffer_size {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "two buffer sizes"));
    }
    let control = Control::open(copy(file, header.control, Control::SIZE)?)?;
    let batch = control.batch();
    let size = header.buffer_size as usize;
    let mut memory = vec![0; size * header.buffer_count as usize];
    file.read_exact_at(&mut memory, header.buffers)?;
    let found = recover(memory.chunks_exact(size), batch);
    let mut leftover = Leftover {
        facts,
        buffers: BTreeMap::new(),
        events: 0,
        lost: 0,
        damaged: found.damaged,
        is_running: false,
        tail: None,
    };

    let places = Places::of(&leftover.facts);
    let pattern = pattern(&leftover.facts, out);
    // In a compressed file places do not tell lengths: it is walked, and its numbers tell what it holds.
    let walked = match leftover.facts.is_compressed() {
        true => Some(Walked::of(&file_name(&pattern, 1), header.buffer_size)?),
        false => None,
    };
    let (mut last, mut sequence) = match &walked {
        Some(walked) => (Place { file: 1, slot: walked.slots.max(1) - 1 }, walked.sequence),
        None => places.last_in_files(&pattern, header.buffer_size)?,
    };
    for mut buffer in found.buffers {
        if buffer.sequence == 0 {
            // It was open: behind all that were closed.
            sequence += 1;
            BufferHeader::SEQUENCE_NUMBER.put(&mut buffer.bytes, sequence);
        }
        // Sequence numbers and places rise together.
        let place = buffer.place.or_else(|| places.next(last));
        if buffer.sequence == 0 || buffer.sequence >= sequence {
            sequence = sequence.max(buffer.sequence);
            last = place.unwrap_or(last);
        }
        match place {
            Some(place) if places.holds(place) => {
                leftover.buffers.insert(place, buffer.bytes);
            }
            // A file that is full: the session would have lost it.
            _ => leftover.damaged += 1,
        }
    }
    drain(file, header, control, &places, &mut leftover, last, sequence)?;
    if let Some(walked) = walked {
        let new = |bytes: &Vec<u8>| le::i64(bytes, 0x18).is_some_and(|n| n > walked.sequence);
        let mut buffers: Vec<_> =
            std::mem::take(&mut leftover.buffers).into_values().filter(new).collect();
        buffers.sort_by_key(|bytes| le::i64(bytes, 0x18));
        let places = (walked.slots.max(1)..).map(|slot| Place { file: 1, slot });
        leftover.buffers = places.zip(buffers).collect();
        // Without a header that is written first.
        let end = if walked.slots == 0 { u64::from(header.buffer_size) } else { walked.end };
        leftover.tail = Some(end);
    }
    leftover.events = leftover.buffers.values().map(|bytes| count_events(bytes)).sum();
    Ok(leftover)
}

/// What is committed in the pool goes into further buffers.
fn drain(
    file: &File,
    header: &PartHeader,
    control: Control,
    places: &Places,
    leftover: &mut Leftover,
    mut last: Place,
    sequence: i64,
) -> io::Result<()> {
    let mut registrations = Registrations::default();
    for (number, provider) in &header.registrations {
        registrations.set(*number, provider.clone());
    }
    let mut segments = header.segments.iter();
    let mut segment = || {
        segments.next().map(|&(offset, size)| {
            Ok::<_, io::Error>(Source::Mapped(Arc::new(copy(file, offset, size as usize)?)))
        })
    };
    let Some(first) = segment() else { return Ok(()) };
    let mut reader = Reader::new(control, first?)?;
    while let Some(source) = segment() {
        reader.add_segment(source?)?;
    }
    let mut sites = reader.site_table();
    let clock = ClockMap::between(header.pairs.0, header.pairs.1, header.raw_clock);
    let facts = &leftover.facts;
    let to_session = SessionTime::of(facts);
    let config = SessionConfig {
        buffer_size: header.buffer_size,
        mode: LogMode::Append,
        per_processor: !facts
            .header
            .log_file_mode
            .contains(LogFileMode::NO_PER_PROCESSOR_BUFFERING),
        ..SessionConfig::default()
    };
    let append_to = Some(FileEnd { slots: 1, last_sequence: sequence });
    let host = HostFacts { append_to, ..HostFacts::default() };
    // Enough for any pool: it takes buffers as it fills them.
    let size = header.buffer_size as usize;
    let cpus = leftover.facts.header.number_of_processors.clamp(1, 4096) as usize;
    let spare = (0..cpus + 2).map(|_| vec![0; size]).collect();
    let mut session = Session::new(&config, host, spare)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    // Above all that were given: the last one is not known.
    session.number_messages_after(reader.ledger().attempted[0] as u32);
    let mut damaged = 0;
    let mut batch = 0;
    let ended = DrainOptions { ended: true, until: Some(u64::MAX - 1), ..DrainOptions::default() };
    let mut take = |session: &mut Session<Vec<u8>>, leftover: &mut Leftover| {
        batch += 1;
        session.seal(batch);
        while let Some(full) = session.take_full() {
            let mut bytes = full.bytes().to_vec();
            bytes[..BufferHeader::SIZE].copy_from_slice(&full.header());
            match places.next(last) {
                Some(place) => {
                    last = place;
                    leftover.buffers.insert(place, bytes);
                }
                None => leftover.lost += full.events(),
            }
            session.stored(full);
        }
    };
    let process_id = leftover.facts.ids.0;
    loop {
        let mut lookup = |id: u32| sites.get(id).map(<[u8]>::to_vec);
        let drained = reader.drain_while(&ended, |record| {
            let time = to_session.time(&clock, record.time);
            let origin = Origin { time, process_id, thread_id: record.tid, ..Origin::default() };
            let Some(event) = registrations.event(record, &origin, &mut lookup) else {
                damaged += 1;
                return ControlFlow::Continue(());
            };
            let size = event.size(&[event.stack]);
            if session.has_room(event.cpu, size) == Err(etw_session::Cause::SessionFull) {
                return ControlFlow::Break(());
            }
            if session.enabled(&event.provider).is_none() {
                // Stacks were captured because they were wanted.
                let properties = EnableProperties::STACK_TRACE;
                session.enable(event.provider, EnableInfo { properties, ..EnableInfo::default() });
            }
            // Refused only where it is larger than any event: then it is none of ours.
            damaged += u64::from(session.push(&event).is_err());
            ControlFlow::Continue(())
        });
        reader.advance();
        damaged += drained.hostile;
        if drained.stopped {
            // Room for those that wait: full buffers, and where there is none, all.
            take(&mut session, leftover);
            if drained.records == 0 {
                session.flush(0);
                take(&mut session, leftover);
            }
        } else {
            session.stop(0);
            take(&mut session, leftover);
            break;
        }
    }
    let ledger = reader.ledger();
    leftover.lost += RingCause::ALL.into_iter().map(|cause| ledger.lost(cause, 0)).sum::<u64>();
    leftover.damaged += damaged;
    Ok(())
}

/// The whole buffers of a compressed file.
#[derive(Clone, Copy)]
pub(crate) struct Walked {
    pub slots: u64,
    /// Of the last one.
    pub sequence: i64,
    pub end: u64,
}

impl Walked {
    pub fn of(path: &Path, buffer_size: u32) -> io::Result<Walked> {
        // What does not get smaller is stored as it is.
        let largest = u64::from(buffer_size);
        let mut walked = Walked { slots: 0, sequence: 0, end: 0 };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(walked),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let mut before = walked;
        while length - walked.end >= BufferHeader::SIZE as u64 {
            let mut bytes = [0; BufferHeader::SIZE];
            file.read_exact_at(&mut bytes, walked.end)?;
            let header = BufferHeader::read(&bytes);
            let size = u64::from(header.buffer_size);
            // A header is written after what follows it: where there is none, the writer did not come to it.
            if size < BufferHeader::SIZE as u64 || size > (length - walked.end).min(largest) {
                break;
            }
            before = walked;
            walked.slots += 1;
            walked.end += size;
            walked.sequence = walked.sequence.max(header.sequence_number);
        }
        // Even the size may end at a page that was written and one that was not; then what it covers is no buffer.
        let mut last = vec![0; (walked.end - before.end) as usize];
        file.read_exact_at(&mut last, before.end)?;
        match etw_etl::read::buffer::open(&last, buffer_size) {
            Ok((header, _)) if header.saved_offset == header.offset => {}
            _ => return Ok(before),
        }
        Ok(walked)
    }
}

/// Events in a buffer that a session of ours wrote, by their sizes.
fn count_events(bytes: &[u8]) -> u64 {
    let filled = BufferHeader::OFFSET.get(bytes).unwrap_or(0) as usize;
    let (mut at, mut count) = (BufferHeader::SIZE, 0);
    while let Some(size) = bytes.get(at..).and_then(|rest| EventHeader::RECORD_SIZE.get(rest)) {
        let size = usize::from(size);
        if at >= filled || size < EventHeader::SIZE {
            break;
        }
        (at, count) = (at + size.next_multiple_of(8), count + 1);
    }
    count
}

/// The places of buffers in the files of a session that was killed.
struct Places {
    policy: LogPolicy,
    slots: Option<u64>,
}

impl Places {
    fn of(facts: &SessionFacts) -> Places {
        let policy = facts.log_policy();
        // A damaged header states less than a session can have.
        let slots = policy.slots(facts.header.buffer_size).filter(|slots| *slots >= 3);
        Places { policy, slots }
    }

    fn next(&self, last: Place) -> Option<Place> {
        self.policy.place_after(last, self.slots)
    }

    /// Whether the session can have assigned this place.
    fn holds(&self, place: Place) -> bool {
        place.slot < self.slots.unwrap_or(u64::MAX).min(1 << 32)
            && (self.policy.is_series() || place.file == 1)
            && place.file < 1 << 20
    }

    /// Place and number of the last buffer that the files hold.
    fn last_in_files(&self, pattern: &Path, buffer_size: u32) -> io::Result<(Place, i64)> {
        let mut last = (Place { file: 1, slot: 0 }, 0);
        let mut number = 1;
        loop {
            let file = match File::open(file_name(pattern, number)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            let slots = file.metadata()?.len() / u64::from(buffer_size);
            for slot in 1..slots {
                let mut bytes = [0; BufferHeader::SIZE];
                file.read_exact_at(&mut bytes, slot * u64::from(buffer_size))?;
                let header = BufferHeader::read(&bytes);
                if header.buffer_size == buffer_size && header.sequence_number > last.1 {
                    last = (Place { file: number, slot }, header.sequence_number);
                }
            }
            if !self.policy.is_series() {
                break;
            }
            number += 1;
        }
        Ok(last)
    }
}

/// Offset of `EventsLost` in a file: the first buffer's header, the header of its first record, the logfile header.
const EVENTS_LOST: u64 = (BufferHeader::SIZE
    + HeaderType::System64.header_size()
    + LogfileHeader::EVENTS_LOST.offset()) as u64;

/// EventsLost of a file, which a killed program did not come to update: what is larger is newer.
fn events_lost(file: Option<&File>, lost: u64) -> io::Result<[u8; 4]> {
    let mut told = [0; 4];
    if let Some(file) = file
        && file.metadata()?.len() >= EVENTS_LOST + 4
    {
        file.read_exact_at(&mut told, EVENTS_LOST)?;
    }
    Ok(u32::from_le_bytes(told).max(u32::try_from(lost).unwrap_or(u32::MAX)).to_le_bytes())
}

/// What [`fold`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Events that were not in the file, or maybe not.
    pub events: u64,
    /// Buffers written.
    pub buffers: u64,
    /// Events that the program had counted as lost.
    pub lost: u64,
    /// Places that no program of ours can have left.
    pub damaged: u64,
}

/// Brings what `OUT.etl.part` holds into the session's files, and removes it. `None` where there is none.
///
/// Doing it twice, or again after it was interrupted, changes nothing.
///
/// # Errors
/// `ResourceBusy` while the program runs; what the system says.
pub fn fold(path: &Path) -> io::Result<Option<Folded>> {
    let (out, part) = paths(path);
    let Some(leftover) = read(path)? else { return Ok(None) };
    if leftover.is_running {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the program that records it still runs",
        ));
    }
    let pattern = pattern(&leftover.facts, &out);
    let mut number = None;
    let mut file = None;
    for (place, bytes) in &leftover.buffers {
        if number != Some(place.file) {
            number = Some(place.file);
            let path = file_name(&pattern, place.file);
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            if opened.metadata()?.len() < u64::from(leftover.facts.header.buffer_size) {
                let mut header = leftover.facts.header.clone();
                header.log_file_name = path.to_string_lossy().into_owned();
                crate::output_file::write_at(&opened, &leftover.facts.header_buffer(&header)?, 0)?;
            }
            if let Some(tail) = leftover.tail {
                // A buffer that was being written: it is written whole behind the others.
                opened.set_len(tail)?;
            }
            file = Some(opened);
        }
        if let Some(file) = &file {
            crate::output_file::write_at(file, bytes, leftover.offset(*place))?;
        }
    }
    if file.is_none() {
        match OpenOptions::new().read(true).write(true).open(&out) {
            Ok(opened) => file = Some(opened),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(file) = file.filter(|_| leftover.lost > 0)
        && file.metadata()?.len() >= u64::from(leftover.facts.header.buffer_size)
    {
        let told = events_lost(Some(&file), leftover.lost)?;
        crate::output_file::write_at(&file, &told, EVENTS_LOST)?;
    }
    let target = std::fs::canonicalize(&part);
    std::fs::remove_file(&part)?;
    if let Ok(target) = target
        && target != part
        && target.parent() == Some(Path::new("/dev/shm"))
    {
        // The link led here; nothing else does.
        let _ = std::fs::remove_file(target);
    }
    Ok(Some(Folded {
        events: leftover.events,
        buffers: leftover.buffers.len() as u64,
        lost: leftover.lost,
        damaged: leftover.damaged,
    }))
}

/// A file with the buffers that belong into it, without changing it.
pub struct Overlay {
    base: Option<File>,
    base_size: u64,
    size: u64,
    buffer_size: u64,
    header: Vec<u8>,
    /// By their offset.
    buffers: BTreeMap<u64, Vec<u8>>,
    /// Where a compressed file's own bytes end.
    tail: Option<u64>,
    events_lost: [u8; 4],
}

impl Overlay {
    /// `OUT.etl` as it would be after [`fold`]: of a series, the file `out` itself. `None` where nothing was left.
    ///
    /// # Errors
    /// What the system says; `InvalidData` for a `.part` that is none of ours.
    pub fn open(path: &Path) -> io::Result<Option<(Overlay, Leftover)>> {
        let (out, _) = paths(path);
        let Some(mut leftover) = read(path)? else { return Ok(None) };
        let pattern = pattern(&leftover.facts, &out);
        let base = match File::open(&out) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let base_size = base.as_ref().map_or(Ok(0), |file| file.metadata().map(|m| m.len()))?;
        let buffer_size = u64::from(leftover.facts.header.buffer_size);
        let offsets: Vec<(Place, u64)> =
            leftover.buffers.keys().map(|place| (*place, leftover.offset(*place))).collect();
        let buffers: BTreeMap<u64, Vec<u8>> = std::mem::take(&mut leftover.buffers)
            .into_values()
            .zip(offsets)
            .filter(|(_, (place, _))| file_name(&pattern, place.file) == out)
            .map(|(bytes, (_, offset))| (offset, bytes))
            .collect();
        let end = buffers.last_key_value().map_or(0, |(offset, _)| offset + buffer_size);
        let tail = leftover.tail;
        let base_size = tail.map_or(base_size, |tail| base_size.min(tail));
        let header = leftover.facts.header_buffer(&leftover.facts.header)?;
        let size = base_size.max(end).max(header.len() as u64);
        let events_lost = events_lost(base.as_ref(), leftover.lost)?;
        let overlay =
            Overlay { base, base_size, size, buffer_size, header, buffers, tail, events_lost };
        Ok(Some((overlay, leftover)))
    }
}

impl EtlSource for Overlay {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.read_buffers(buffer, offset)?;
        for (at, byte) in (EVENTS_LOST..).zip(self.events_lost) {
            let inside = at.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
            if let Some(place) = inside.and_then(|at| buffer[..count].get_mut(at)) {
                *place = byte;
            }
        }
        Ok(count)
    }
}

impl Overlay {
    fn read_buffers(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        // Buffers of one length from here on, or from the file's beginning.
        let from = self.tail.filter(|tail| offset >= *tail).unwrap_or(0);
        let inside = (offset - from) % self.buffer_size;
        let start = offset - inside;
        let end = match self.tail {
            Some(tail) if offset < tail && self.base_size > 0 => tail,
            _ => start + self.buffer_size,
        };
        let room = (end - offset).min(self.size - offset).min(buffer.len() as u64);
        let buffer = &mut buffer[..room as usize];
        let bytes = match self.buffers.get(&start) {
            Some(bytes) => Some(bytes),
            None if start == 0 && self.base_size == 0 => Some(&self.header),
            None => None,
        };
        if let Some(bytes) = bytes {
            buffer.copy_from_slice(&bytes[inside as usize..inside as usize + buffer.len()]);
            return Ok(buffer.len());
        }
        let count = match &self.base {
            Some(file) if offset < self.base_size => {
                let left = usize::try_from(self.base_size - offset).unwrap_or(usize::MAX);
                let count = buffer.len().min(left);
                file.read_exact_at(&mut buffer[..count], offset)?;
                count
            }
            _ => 0,
        };
        // Between the file's end and a later buffer: the session had not come to it.
        buffer[count..].fill(0);
        Ok(buffer.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_etl::write::compress_buffer;

    fn buffer(sequence: i64, records: usize) -> Vec<u8> {
        let length = (BufferHeader::SIZE + records) as u32;
        let header = BufferHeader {
            saved_offset: length,
            current_offset: length,
            offset: length,
            sequence_number: sequence,
            ..BufferHeader::read(&[0; BufferHeader::SIZE])
        };
        let mut out = Vec::new();
        let records: Vec<u8> = (0..records).map(|n| (n * n / 2048) as u8).collect();
        compress_buffer(&header, &records, &mut out);
        out
    }

    /// A header that lies in two pages, of which only the second came to be written, does not make its buffer one that the file holds.
    #[test]
    fn a_torn_header_ends_the_walk() {
        let path = std::env::temp_dir().join(format!("etw-walk-{}", std::process::id()));
        let (first, second) = (buffer(1, 2000), buffer(2, 3000));
        assert!(
            second.len() > 256 + BufferHeader::SIZE && second.len() % 256 != 0,
            "{}",
            second.len()
        );
        for torn in 0..BufferHeader::SIZE {
            let mut bytes = [&first[..], &second].concat();
            bytes[first.len()..first.len() + torn].fill(0);
            std::fs::write(&path, bytes).unwrap();
            let walked = Walked::of(&path, 4096).unwrap();
            let whole = torn == 0;
            let end = first.len() + if whole { second.len() } else { 0 };
            assert_eq!(
                (walked.slots, walked.sequence, walked.end),
                (1 + u64::from(whole), 1 + i64::from(whole), end as u64),
                "{torn}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
}
