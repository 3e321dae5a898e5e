//! Recovery of a killed program's `OUT.etl.part`: its events are read beside the output, or folded into it.
//!
//! Everything in the file is untrusted: a program that crashed wrote it, and other users may write to its folder.
//!
//! * `pool`: drains what is committed in the pool into further buffers; `places`, `compressed`: where buffers belong;
//! * `fold`: writes them into the files; `overlay`: reads the files as if they were folded.

mod compressed;
mod fold;
mod overlay;
mod places;
mod pool;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use etw_etl::header::LogfileHeader;
use etw_ring::{Control, Memory};
use etw_session::Place;
use etw_session::recover::recover;
use etw_types::{BufferHeader, HeaderType};

use crate::event_count::count_events;
use crate::facts::{SessionFacts, file_name};
use crate::part::{FoldStart, PartHeader, ReadAt, is_locked, part_path};
use places::Places;
use pool::PoolDrain;

pub(crate) use compressed::Walked;
pub use fold::{Folded, fold};
pub use overlay::Overlay;
pub(crate) use places::Position;

/// The buffers that belong into a session's files and are not, or may not be, there.
#[derive(Clone, Debug)]
pub struct Leftover {
    /// The contents of the headers of the session's files.
    pub facts: SessionFacts,
    /// Buffers by file and slot; each as long as the session's buffers.
    pub buffers: BTreeMap<Place, Vec<u8>>,
    /// The number of events in them.
    pub events: u64,
    /// Events that the program's writers counted as lost.
    pub lost: u64,
    /// Buffers, and places in the pool, with damage that no program of ours can have written.
    pub damaged: u64,
    /// The program still runs: it may write more.
    pub is_running: bool,
    /// The end of the last whole buffer of a compressed file, whose buffers have their own lengths. The first of `buffers` belongs
    /// there, and the others behind it.
    pub tail: Option<u64>,
    /// The end of the files without them.
    start: FoldStart,
}

impl Leftover {
    /// The offset of a place in its file.
    fn offset(&self, place: Place) -> u64 {
        let size = u64::from(self.facts.header.buffer_size);
        match (self.tail, self.buffers.first_key_value()) {
            (Some(tail), Some((first, _))) => tail + (place.slot - first.slot) * size,
            _ => place.slot * size,
        }
    }
}

/// The largest `.part` that is read: pool and buffers of one process, and no more than fits in memory.
const LARGEST: u64 = 3 << 29;

/// Reads `OUT.etl.part`, given its path or that of `OUT.etl`; `None` if it does not exist.
///
/// # Errors
/// Those of the system; `InvalidData` for an invalid file; `InvalidInput` for one of another session than the trace.
pub fn read(path: &Path) -> io::Result<Option<Leftover>> {
    let (out, part) = paths(path);
    // The type is checked before opening: opening a pipe waits for a writer.
    match std::fs::metadata(&part) {
        Ok(found) if found.is_file() => {}
        Ok(_) => {
            let what = format!("{} is not a regular file", part.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    read_opened(&File::open(&part)?, &out, &part).map(Some)
}

fn read_opened(file: &File, out: &Path, part: &Path) -> io::Result<Leftover> {
    let length = file.metadata()?.len();
    if length > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the .part file is too large"));
    }
    let is_running = is_locked(file)?;
    let truncated = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} is truncated", part.display()))
        }
        _ => error,
    };
    let header = PartHeader::read(file, length).map_err(truncated)?;
    let mut leftover = collect(file, &header, out).map_err(truncated)?;
    leftover.is_running = is_running;
    Ok(leftover)
}

/// `OUT.etl`, also for `OUT.etl.part`.
pub fn trace_of(path: &Path) -> PathBuf {
    match path.extension().is_some_and(|extension| extension == "part") {
        true => path.with_extension(""),
        false => path.to_owned(),
    }
}

/// `OUT.etl` and `OUT.etl.part`, from either.
fn paths(path: &Path) -> (PathBuf, PathBuf) {
    let out = trace_of(path);
    let part = part_path(&out);
    (out, part)
}

/// Whether the trace beside the `.part` is of another session: a program was killed, and a file of the same name was written since.
fn check_session(facts: &SessionFacts, out: &Path) -> io::Result<()> {
    const RECORD: usize = BufferHeader::SIZE + HeaderType::System64.header_size();
    let file = match File::open(out) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; RECORD + 0x1000];
    if file.metadata()?.len() < bytes.len() as u64 {
        bytes.truncate(file.metadata()?.len() as usize);
    }
    file.read_exact_at(&mut bytes, 0)?;
    let (Some(head), Some(payload)) = (bytes.first_chunk(), bytes.get(RECORD..)) else {
        return Ok(());
    };
    // Without a header that can be read, nothing says that it is another one.
    if !BufferHeader::read(head).is_plausible() {
        return Ok(());
    }
    let of_file = [8, 4].into_iter().find_map(|pointer| LogfileHeader::read(payload, pointer));
    let is_other = of_file.is_some_and(|found| {
        found.start_time != facts.header.start_time || found.boot_time != facts.header.boot_time
    });
    match is_other {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} is of another session than the trace; remove it, or move it away and repair it there",
                part_path(out).display()
            ),
        )),
        false => Ok(()),
    }
}

/// The pattern of the session's files, in the folder of the first one.
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
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the buffer sizes differ"));
    }
    check_session(&facts, out)?;
    let control = Control::open(copy(file, header.control, Control::SIZE)?)?;
    let batch = control.batch();
    let size = header.buffer_size as usize;
    let mut memory = vec![0; size * header.buffer_count as usize];
    file.read_exact_at(&mut memory, header.buffers)?;
    let found = recover(memory.chunks_exact(size), batch);
    let places = Places::of(&facts);
    let is_compressed = facts.is_compressed();
    let known = header.fold_start.filter(|start| start.walked.is_some() == is_compressed);
    let start = match known {
        Some(start) => start,
        None => fold_start(&places, &pattern(&facts, out), header.buffer_size, is_compressed)?,
    };
    let mut leftover = Leftover {
        facts,
        buffers: BTreeMap::new(),
        events: 0,
        lost: 0,
        damaged: found.damaged,
        is_running: false,
        tail: None,
        start,
    };
    let FoldStart { mut last, walked } = start;
    for mut buffer in found.buffers {
        if buffer.sequence == 0 {
            // It was open: it comes behind all that were closed.
            last.sequence += 1;
            BufferHeader::SEQUENCE_NUMBER.put(&mut buffer.bytes, last.sequence);
        }
        // Sequence numbers and places rise together.
        let place = buffer.place.or_else(|| places.next(last.place));
        if buffer.sequence == 0 || buffer.sequence >= last.sequence {
            last.sequence = last.sequence.max(buffer.sequence);
            last.place = place.unwrap_or(last.place);
        }
        match place {
            Some(place) if places.holds(place) => {
                leftover.buffers.insert(place, buffer.bytes);
            }
            // The file is full: the session would have lost the buffer.
            None => leftover.lost += count_events(&buffer.bytes),
            Some(_) => leftover.damaged += 1,
        }
    }
    if let Some(drain) = PoolDrain::open(file, header, control, &leftover.facts, last)? {
        drain.run(&places, &mut leftover)?;
    }
    if let Some(walked) = walked {
        place_behind(&walked, header.buffer_size, &mut leftover);
    }
    leftover.events = leftover.buffers.values().map(|bytes| count_events(bytes)).sum();
    Ok(leftover)
}

/// The end of a session's files as they are.
fn fold_start(
    places: &Places,
    pattern: &Path,
    buffer_size: u32,
    is_compressed: bool,
) -> io::Result<FoldStart> {
    if !is_compressed {
        return Ok(FoldStart { last: places.last_in_files(pattern, buffer_size)?, walked: None });
    }
    // The places of a compressed file say no offsets: its buffers are walked, and their numbers say what it contains.
    let walked = Walked::of(&file_name(pattern, 1), buffer_size)?;
    let place = Place { file: 1, slot: walked.slots.max(1) - 1 };
    let last = Position { place, sequence: walked.sequence };
    Ok(FoldStart { last, walked: Some(walked) })
}

/// Places the buffers that a compressed file does not contain behind its last whole buffer.
fn place_behind(walked: &Walked, buffer_size: u32, leftover: &mut Leftover) {
    let sequence = |bytes: &Vec<u8>| BufferHeader::SEQUENCE_NUMBER.get(bytes);
    let is_new = |bytes: &Vec<u8>| sequence(bytes).is_some_and(|n| n > walked.sequence);
    let buffers = std::mem::take(&mut leftover.buffers).into_values();
    let mut buffers: Vec<_> = buffers.filter(is_new).collect();
    buffers.sort_by_key(sequence);
    let places = (walked.slots.max(1)..).map(|slot| Place { file: 1, slot });
    leftover.buffers = places.zip(buffers).collect();
    // A file without a header gets one first.
    leftover.tail = Some(if walked.slots == 0 { u64::from(buffer_size) } else { walked.end });
}

/// Offset of `EventsLost` in a file: the first buffer's header, the header of its first record, the logfile header.
const EVENTS_LOST: u64 = (BufferHeader::SIZE
    + HeaderType::System64.header_size()
    + LogfileHeader::EVENTS_LOST.offset()) as u64;

/// `EventsLost` of a file. The program may have been killed before it could update the header: the larger number is the newer
/// one.
fn events_lost(file: Option<&File>, lost: u64) -> io::Result<[u8; 4]> {
    let mut stated = [0; 4];
    if let Some(file) = file {
        if file.metadata()?.len() >= EVENTS_LOST + 4 {
            file.read_exact_at(&mut stated, EVENTS_LOST)?;
        }
    }
    Ok(u32::from_le_bytes(stated).max(u32::try_from(lost).unwrap_or(u32::MAX)).to_le_bytes())
}
