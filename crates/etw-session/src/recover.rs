//! The buffers of a host that was killed at any instruction, from memory that outlived it.
//!
//! A host's round is: events into buffers; [`seal`](crate::Session::seal)`(b)`; the drain of batch `b` is made final elsewhere (the *commit*); buffers
//! taken, stored, given back. Each buffer has two marks, (batch, filled bytes) in one word each; sealing overwrites the older
//! one with a single store. So:
//!
//! | killed | marks | taken from the buffer | the events' other copy |
//! |---|---|---|---|
//! | while events go in | of batches up to b-1 | up to b-1 | still in the pool, drained again |
//! | while sealing b, or before the commit | some buffers have one of b | up to b-1, by the other mark | still in the pool |
//! | after the commit of b | all changed buffers have one of b | up to b | consumed |
//! | while a buffer is handed out | as before, then a place | the same; from the state `FULL` on all of it, at its place | – |
//! | while it is stored | – | all of it, at its place: storing it again changes nothing | in the file, maybe |
//! | after it was stored | free | nothing | in the file |
//!
//! A buffer is handed out only when all of it is sealed, and hosts take buffers after the commit, so what is `FULL` is
//! committed. A buffer that is begun is `FREE` until both marks are 0.
//!
//! The memory is not trusted. A buffer with an invalid header is counted and left out; readers check its records.

use etw_types::{BufferHeader, EventHeader, Guid, HeaderType, le};

use crate::buffer::{HEADER_SIZE, MARKS, PLACE, Place, TRIMMED, remove_trimmed};
use crate::loss_mark::is_mark_record;

/// A buffer that was not in its file yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Its position in a file; `None` means behind all buffers that have one.
    pub place: Option<Place>,
    /// The number of the buffer in the order of closing, which is the order of positions; 0 if the buffer was still open.
    pub sequence: i64,
    /// Its CPU.
    pub cpu: u16,
    /// The buffer as it belongs on disk.
    pub bytes: Vec<u8>,
}

/// The buffers that a killed host left in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Buffers with a sequence number, sorted by it; then the open buffers, at most one for each CPU.
    pub buffers: Vec<Recovered>,
    /// The number of buffers with an invalid header.
    pub damaged: u64,
}

/// Searches the memory of a session's buffers. `batch` is the last committed one.
pub fn recover<'a>(memories: impl IntoIterator<Item = &'a [u8]>, batch: u64) -> Found {
    let mut found = Found::default();
    for memory in memories {
        match one(memory, batch) {
            Ok(Some(recovered)) => found.buffers.push(recovered),
            Ok(None) => {}
            Err(()) => found.damaged += 1,
        }
    }
    found.buffers.sort_by_key(|b| (b.sequence == 0, b.sequence, b.cpu));
    found
}

fn one(memory: &[u8], batch: u64) -> Result<Option<Recovered>, ()> {
    let state = BufferHeader::STATE.get(memory).ok_or(())?;
    let word = |field: etw_types::Field<u64>| field.get(memory).unwrap_or(0);
    let mut trimmed = 0;
    let (place, filled) = match state {
        BufferHeader::STATE_FREE => return Ok(None),
        BufferHeader::STATE_IN_USE => {
            let marks =
                MARKS.map(word).into_iter().filter(|mark| *mark != 0 && mark >> 24 <= batch);
            let Some(mark) = marks.max() else { return Ok(None) };
            let filled = (mark & 0xff_ffff) as usize * 8;
            // A larger number is a position: the buffer was being handed out.
            let is_trimmed = |size: &u64| HEADER_SIZE as u64 + *size <= filled as u64;
            trimmed = Some(word(TRIMMED)).filter(is_trimmed).unwrap_or(0) as usize & !7;
            (None, filled)
        }
        BufferHeader::STATE_FULL => {
            let place = Place::unpack(word(PLACE)).ok_or(())?;
            (Some(place), BufferHeader::OFFSET.get(memory).ok_or(())? as usize)
        }
        _ => return Err(()),
    };
    let size = BufferHeader::BUFFER_SIZE.get(memory).ok_or(())? as usize;
    if size != memory.len() || !(HEADER_SIZE..=size).contains(&filled) || filled % 8 != 0 {
        return Err(());
    }
    if filled - trimmed == HEADER_SIZE {
        return Ok(None);
    }
    let sequence = BufferHeader::SEQUENCE_NUMBER.get(memory).ok_or(())?;
    let cpu = BufferHeader::PROCESSOR.get(memory).ok_or(())?;
    let mut bytes = memory.to_vec();
    let filled = remove_trimmed(&mut bytes, filled, trimmed);
    BufferHeader::put_filled(&mut bytes, filled as u32);
    BufferHeader::clear_runtime_words(&mut bytes);
    BufferHeader::STATE.put(&mut bytes, BufferHeader::STATE_FULL);
    if BufferHeader::TIME_STAMP.get(memory) == Some(0) {
        let last = last_time(&bytes[HEADER_SIZE..filled]);
        BufferHeader::TIME_STAMP.put(&mut bytes, last);
    }
    bytes[filled..].fill(0xff);
    Ok(Some(Recovered { place, sequence, cpu, bytes }))
}

/// The largest time of the records.
fn last_time(records: &[u8]) -> i64 {
    own_records(records).map(|(_, time)| time).max().unwrap_or(0).max(0)
}

/// Whether a record is a session's report on itself, of the provider `reports` or a mark of a loss.
pub(crate) fn is_report(record: &[u8], reports: &Guid) -> bool {
    if is_mark_record(record) {
        return true;
    }
    let header = record.first_chunk().and_then(EventHeader::read);
    header.is_some_and(|header| {
        header.header_type == HeaderType::Event64 && header.provider == *reports
    })
}

/// Records that a session of ours has stored, each with its time. An invalid size ends the walk.
pub(crate) fn own_records(records: &[u8]) -> impl Iterator<Item = (&[u8], i64)> {
    /// Bytes of the shortest record: a kernel event without ids and payload.
    const SHORTEST: usize = 0x10;
    let mut rest = records;
    std::iter::from_fn(move || {
        let number = rest.get(2).copied().filter(|_| rest.get(3) == Some(&HeaderType::MARKER));
        let (size, time) = match number.and_then(HeaderType::from_number) {
            Some(HeaderType::System64) => (le::u16(rest, 4)?, le::i64(rest, 0x10)?),
            Some(HeaderType::PerfInfo64) => (le::u16(rest, 4)?, le::i64(rest, 8)?),
            _ => (EventHeader::RECORD_SIZE.get(rest)?, EventHeader::TIME_STAMP.get(rest)?),
        };
        let step = usize::from(size).next_multiple_of(8);
        if step < SHORTEST || step > rest.len() {
            return None;
        }
        let record;
        (record, rest) = rest.split_at(step);
        Some((record, time))
    })
}
