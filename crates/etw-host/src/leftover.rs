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
use crate::part::{PartHeader, ReadAt, is_locked, part_path};
use places::{Places, Position};
use pool::PoolDrain;

pub(crate) use compressed::Walked;
pub use fold::{Folded, fold};
pub use overlay::Overlay;

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
/// Those of the system; `InvalidData` for an invalid file.
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
    let truncated = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} is truncated", part.display()))
        }
        _ => error,
    };
    let header = PartHeader::read(&file, length).map_err(truncated)?;
    let mut leftover = collect(&file, &header, &out).map_err(truncated)?;
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
    // The places of a compressed file say no offsets: its buffers are walked, and their numbers say what it contains.
    let walked = match leftover.facts.is_compressed() {
        true => Some(Walked::of(&file_name(&pattern, 1), header.buffer_size)?),
        false => None,
    };
    let mut last = match &walked {
        Some(walked) => {
            let place = Place { file: 1, slot: walked.slots.max(1) - 1 };
            Position { place, sequence: walked.sequence }
        }
        None => places.last_in_files(&pattern, header.buffer_size)?,
    };
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
            _ => leftover.damaged += 1,
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
