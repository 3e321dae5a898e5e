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
//! The memory is not trusted: a buffer whose header cannot be is counted and left out; its records are checked by whoever
//! reads them.

use etw_types::le;

use crate::buffer::{FREE, FULL, HEADER_SIZE, IN_USE, MARKS, PLACE, Place, STATE, put};

/// A buffer that was not in its file yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Where it was on its way to; `None`: behind everything that has a place.
    pub place: Option<Place>,
    /// In the order in which buffers were closed, which is that of their places; 0: it was still open.
    pub sequence: i64,
    /// Its CPU.
    pub cpu: u16,
    /// The buffer as it belongs on disk.
    pub bytes: Vec<u8>,
}

/// What a host left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Those with a sequence number, in its order; then those that were open, of which each CPU has one.
    pub buffers: Vec<Recovered>,
    /// Buffers whose header cannot be.
    pub damaged: u64,
}

/// Looks through the memory of a session's buffers. `batch`: the last that was committed.
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
    let state = le::u32(memory, STATE).ok_or(())?;
    let word = |at| le::u64(memory, at).unwrap_or(0);
    let (place, filled) = match state {
        FREE => return Ok(None),
        IN_USE => {
            let marks =
                MARKS.map(word).into_iter().filter(|mark| *mark != 0 && mark >> 24 <= batch);
            let Some(mark) = marks.max() else { return Ok(None) };
            (None, (mark & 0xff_ffff) as usize * 8)
        }
        FULL => {
            let place = Place::unpack(word(PLACE)).ok_or(())?;
            (Some(place), le::u32(memory, 0x30).ok_or(())? as usize)
        }
        _ => return Err(()),
    };
    let size = le::u32(memory, 0).ok_or(())? as usize;
    if size != memory.len() || !(HEADER_SIZE..=size).contains(&filled) || !filled.is_multiple_of(8)
    {
        return Err(());
    }
    if filled == HEADER_SIZE {
        return Ok(None);
    }
    let sequence = le::i64(memory, 0x18).ok_or(())?;
    let cpu = le::u16(memory, 0x28).ok_or(())?;
    let mut bytes = memory.to_vec();
    let length = (filled as u32).to_le_bytes();
    for at in [0x04, 0x08, 0x30] {
        put(&mut bytes, at, &length);
    }
    for at in [PLACE, MARKS[0], MARKS[1]] {
        put(&mut bytes, at, &[0; 8]);
    }
    put(&mut bytes, STATE, &FULL.to_le_bytes());
    if le::i64(memory, 0x10) == Some(0) {
        let last = last_time(&bytes[HEADER_SIZE..filled]);
        put(&mut bytes, 0x10, &last.to_le_bytes());
    }
    bytes[filled..].fill(0xff);
    Ok(Some(Recovered { place, sequence, cpu, bytes }))
}

/// The largest time of the records of ours, by their sizes; a record that cannot be ends the walk.
fn last_time(mut records: &[u8]) -> i64 {
    let mut last = 0;
    while let (Some(size), Some(time)) = (le::u16(records, 0), le::i64(records, 0x10)) {
        let step = usize::from(size).next_multiple_of(8);
        if step < 0x18 || step > records.len() {
            break;
        }
        last = last.max(time);
        records = &records[step..];
    }
    last
}
