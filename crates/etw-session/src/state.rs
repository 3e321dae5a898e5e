//! What a session of a host that was killed needs to go on: numbers that are in no buffer, written beside the buffers at every
//! [`seal`](crate::Session::seal).
//!
//! ```text
//! 000 u64 place of the next buffer that is handed out (written after each hand-out)
//! 008 u64 events, u64 buffers that could not be stored (written before the buffer is free again)
//! 100 of even batches, 200 of odd ones:
//!     u64 batch, 0 while it is written   i64 next sequence number   u64 buffers begun
//!     u64 attempted, stored, overwritten, filtered   u64 lost, by cause   facts: u64 buffers, buffers lost, i64 last time,
//!     u64 bytes, out of order, without stack   u64 1: it has been stopped
//! ```
//!
//! A host's round writes the numbers of its batch beside those of the one before; which of them holds is decided by the last
//! batch that was made final, as for the buffers ([`recover`](crate::recover)).

use std::sync::atomic::{Ordering, compiler_fence};

use etw_types::{Guid, le};

use crate::buffer::{Buffer, FREE, HEADER_SIZE, IN_USE, MARKS, PLACE, Place, STATE, mark, put};
use crate::ledger::{Cause, Ledger};
use crate::mode::{LogMode, SessionError, SessionOptions};
use crate::recover::{Found, Recovered};
use crate::session::{Facts, Session};

/// The header type of an event with `EVENT_HEADER`, of a program of 64 bits.
const EVENT_HEADER_TYPE: u8 = 0x13;
/// Bytes of memory for a session's numbers.
pub const STATE_SIZE: usize = 4096;
const SLOTS: [usize; 2] = [0x100, 0x200];

/// Buffers that were on their way, with their places.
pub type Placed = Vec<(Place, Vec<u8>)>;

/// The numbers of a session at its last final batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    next_sequence: i64,
    next_place: Place,
    begun: u64,
    ledger: Ledger,
    facts: Facts,
    is_stopped: bool,
}

impl Saved {
    /// Reads them; `last`: the last batch that was made final. `None`: there are none.
    pub fn read(memory: &[u8], last: u64) -> Option<Saved> {
        let at = SLOTS
            .into_iter()
            .filter_map(|at| Some((le::u64(memory, at)?, at)))
            .filter(|(batch, _)| *batch != 0 && *batch <= last)
            .max()?
            .1;
        let mut words = (at + 8..).step_by(8).map(|at| le::u64(memory, at));
        let mut next = || words.next().flatten();
        let next_sequence = next()? as i64;
        let begun = next()?;
        let mut ledger = Ledger::default();
        for count in [
            &mut ledger.attempted,
            &mut ledger.stored,
            &mut ledger.overwritten,
            &mut ledger.filtered,
        ] {
            *count = next()?;
        }
        for cause in Cause::ALL {
            // Whose they were is gone.
            ledger.count_lost(cause, None, None, next()?);
        }
        let facts = Facts {
            buffers: next()?,
            buffers_lost: next()?,
            last_time: next()? as i64,
            bytes: next()?,
            out_of_order: next()?,
            without_stack: next()?,
        };
        let is_stopped = next()? != 0;
        let next_place = Place::unpack(le::u64(memory, 0)?)?;
        let mut facts = facts;
        // What could not be stored since then.
        let more = le::u64(memory, 8)?.saturating_sub(ledger.lost(Cause::Disk));
        ledger.stored = ledger.stored.saturating_sub(more);
        ledger.count_lost(Cause::Disk, None, None, more);
        facts.buffers_lost = facts.buffers_lost.max(le::u64(memory, 16)?);
        Some(Saved { next_sequence, next_place, begun, ledger, facts, is_stopped })
    }
}

impl Saved {
    /// Where the next buffer goes, as far as was told.
    pub fn next_place(&self) -> Place {
        self.next_place
    }
}

pub(crate) fn save_place(memory: &mut [u8], place: Place) {
    put(memory, 0, &place.pack().to_le_bytes());
}

pub(crate) fn save_lost(memory: &mut [u8], events: u64, buffers: u64) {
    put(memory, 8, &events.to_le_bytes());
    put(memory, 16, &buffers.to_le_bytes());
}

pub(crate) fn save(
    memory: &mut [u8],
    batch: u64,
    (sequence, begun, is_stopped): (i64, u64, bool),
    ledger: &Ledger,
    facts: &Facts,
) {
    let at = SLOTS[(batch % 2) as usize];
    put(memory, at, &[0; 8]);
    // A kill between two instructions finds the writes in the order of the program: the fences keep the compiler to it.
    compiler_fence(Ordering::SeqCst);
    let head = [sequence as u64, begun];
    let counts = [ledger.attempted, ledger.stored, ledger.overwritten, ledger.filtered];
    let lost = Cause::ALL.map(|cause| ledger.lost(cause));
    let rest = [
        facts.buffers,
        facts.buffers_lost,
        facts.last_time as u64,
        facts.bytes,
        facts.out_of_order,
        facts.without_stack,
    ];
    let words = head.into_iter().chain(counts).chain(lost).chain(rest);
    let words = words.chain([u64::from(is_stopped)]);
    for (word, at) in words.zip((at + 8..).step_by(8)) {
        put(memory, at, &word.to_le_bytes());
    }
    compiler_fence(Ordering::SeqCst);
    put(memory, at, &batch.to_le_bytes());
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// A session that goes on where a killed host's was: `found` in the memory of its buffers, `saved` beside it, `batch` the last
    /// that was final. What was on its way to a place comes back, to be stored there (again); what had none yet waits to be
    /// handed out, and so does, of a session without files, what was on its way to consumers. Events of the provider `reports` are the
    /// session's own, which are in no count.
    ///
    /// # Errors
    /// As [`Session::new`].
    ///
    /// # Loss
    /// What finds no buffer among `buffers` is counted as lost to the disk: there are as many as there were.
    pub fn resume(
        options: SessionOptions,
        buffers: Vec<B>,
        saved: Saved,
        found: Found,
        batch: u64,
        reports: &Guid,
    ) -> Result<(Session<B>, Placed), SessionError> {
        let is_live = options.mode == LogMode::RealTime;
        let mut session = Session::new(options, buffers)?;
        let mut placed = Vec::new();
        let mut next_place = saved.next_place;
        let mut sequence = saved.next_sequence;
        let mut waiting = Vec::new();
        let mut newest = None;
        for buffer in found.buffers {
            sequence = sequence.max(buffer.sequence + 1);
            newest = newest.max(buffer.place.map(|place| (buffer.sequence, place)));
            match buffer.place {
                // Consumers that have it already tell by its sequence number.
                Some(_) if is_live => waiting.push(buffer),
                Some(place) => placed.push((place, buffer.bytes)),
                None => waiting.push(buffer),
            }
        }
        // Handed out, and not yet told. In a circle others may be on their way to the same place, from the time before.
        if newest.is_some_and(|(_, place)| place == next_place) {
            next_place = session.place_after(next_place);
        }
        let begun = match options.mode {
            // Of this file; what was saved may be of the one before it.
            LogMode::Sequential { .. } => next_place.slot - 1 + waiting.len() as u64,
            _ => saved.begun,
        };
        session.restore(sequence, next_place, begun, saved.ledger, saved.facts);
        session.restore_state(saved.is_stopped);
        for mut buffer in waiting {
            if buffer.sequence == 0 {
                buffer.sequence = session.take_sequence();
                put(&mut buffer.bytes, 0x18, &buffer.sequence.to_le_bytes());
            }
            session.restore_full(&buffer, batch, reports);
        }
        Ok((session, placed))
    }
}

/// A buffer of these bytes in `memory`, closed and sealed.
pub(crate) fn restored<B: AsRef<[u8]> + AsMut<[u8]>>(
    mut memory: B,
    found: &Recovered,
    batch: u64,
    of_reports: &Guid,
) -> Buffer<B> {
    let from = &found.bytes[..];
    let filled = le::u32(from, 0x30).map_or(HEADER_SIZE, |filled| filled as usize);
    let bytes = memory.as_mut();
    put(bytes, STATE, &FREE.to_le_bytes());
    compiler_fence(Ordering::SeqCst);
    put(bytes, 0, &from[..STATE]);
    put(bytes, STATE + 4, &from[STATE + 4..]);
    put(bytes, PLACE, &[0; 8]);
    put(bytes, MARKS[0], &mark(batch, filled).to_le_bytes());
    put(bytes, MARKS[1], &[0; 8]);
    compiler_fence(Ordering::SeqCst);
    put(bytes, STATE, &IN_USE.to_le_bytes());
    let (mut events, mut reports, mut first_time) = (0, 0, 0);
    let mut records = &from[HEADER_SIZE..filled.max(HEADER_SIZE)];
    while let (Some(size), Some(time)) = (le::u16(records, 0), le::i64(records, 0x10)) {
        let step = usize::from(size).next_multiple_of(8);
        if step < 0x18 || step > records.len() {
            break;
        }
        if events == 0 {
            first_time = time;
        }
        events += 1;
        let is_event = records.get(2) == Some(&EVENT_HEADER_TYPE);
        reports += u64::from(is_event && records.get(0x18..0x28) == Some(&of_reports.0));
        records = &records[step..];
    }
    let last_time = le::i64(from, 0x10).unwrap_or(0);
    let flags = le::u16(from, 0x34).unwrap_or(0);
    Buffer {
        memory,
        cpu: found.cpu,
        sequence: found.sequence,
        filled,
        sealed: filled,
        last_mark: 0,
        events,
        reports,
        first_time,
        last_time,
        flags,
    }
}
