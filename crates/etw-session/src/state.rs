//! The state by which a session continues after its host was killed: numbers that no buffer contains, written beside the buffers at
//! every [`seal`](crate::Session::seal).
//!
//! ```text
//! 000 u64 place of the next buffer that is handed out (written after each hand-out)
//! 008 u64 events, u64 buffers that could not be stored (written before the buffer is free again)
//! 018 u64 buffers that a live reader lost (written when it loses them)
//! 100 of even batches, 200 of odd ones:
//!     u64 batch, 0 while it is written   i64 next sequence number   u64 buffers begun
//!     u64 attempted, stored, overwritten, filtered   u64 lost, by cause   facts: u64 buffers, buffers lost, i64 last time,
//!     u64 bytes, out of order, without stack   u64 1: it has been stopped
//! 300 of even batches, 700 of odd ones: gaps that have no mark yet
//! b00 gaps of buffers that could not be stored and that no stored one has followed (written when either happens)
//!     gaps: u64 number of CPUs, then for each CPU: 0, or time << 1 | (1: of buffers); CPUs from 126 on share the last word
//! ```
//!
//! A host's round writes the numbers of its batch beside those of the one before; which of them holds is decided by the last
//! batch that was made final, as for the buffers ([`recover`](crate::recover)).

use std::sync::atomic::{Ordering, compiler_fence};

use etw_types::{BufferFlags, BufferHeader, Field, Guid, le};

use crate::buffer::{Buffer, HEADER_SIZE, MARKS, PLACE, Place, mark};
use crate::config::SessionConfig;
use crate::host_facts::{HostFacts, SessionError};
use crate::ledger::{Cause, Ledger, Loss};
use crate::log_mode::AtMaxSize;
use crate::loss_mark::LossMark;
use crate::recover::{Found, Recovered, is_report, own_records};
use crate::session::{Facts, Gap, HandOverPosition, Session};

/// Bytes of memory for a session's numbers.
pub const STATE_SIZE: usize = 4096;
const SLOTS: [usize; 2] = [0x100, 0x200];
const GAPS: [usize; 2] = [0x300, 0x700];
const LOST_BUFFERS: usize = 0xb00;
/// Words of gaps for CPUs.
const GAP_WORDS: usize = 127;

/// Buffers that were handed out, with their positions.
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
    unread_buffers: u64,
    gaps: Vec<Option<Gap>>,
    lost_buffers: Vec<Option<Gap>>,
}

impl Saved {
    /// Reads the numbers at batch `last`, the last final one. `None`: there are none.
    pub fn read(memory: &[u8], last: u64) -> Option<Saved> {
        let slots = SLOTS.into_iter().zip(GAPS);
        let (_, at, gaps) = slots
            .filter_map(|(at, gaps)| Some((le::u64(memory, at)?, at, gaps)))
            .filter(|(batch, ..)| *batch != 0 && *batch <= last)
            .max()?;
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
            // The state has counts by cause; providers and processes are not kept.
            ledger.count_lost(Loss { cause, count: next()?, ..Loss::default() });
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
        // Events that could not be stored since then.
        let more = le::u64(memory, 8)?.saturating_sub(ledger.lost(Cause::Disk));
        ledger.stored = ledger.stored.saturating_sub(more);
        ledger.count_lost(Loss { cause: Cause::Disk, count: more, ..Loss::default() });
        facts.buffers_lost = facts.buffers_lost.max(le::u64(memory, 16)?);
        let unread_buffers = le::u64(memory, 24)?;
        let (gaps, lost_buffers) = (read_gaps(memory, gaps), read_gaps(memory, LOST_BUFFERS));
        Some(Saved {
            next_sequence,
            next_place,
            begun,
            ledger,
            facts,
            is_stopped,
            unread_buffers,
            gaps,
            lost_buffers,
        })
    }
}

impl Saved {
    /// The position of the next buffer, according to the last save.
    pub fn next_place(&self) -> Place {
        self.next_place
    }

    /// The position at the end of a session that has handed out everything.
    pub fn end_position(&self) -> HandOverPosition {
        HandOverPosition {
            next_sequence: self.next_sequence,
            events_before: self.ledger.handed_out(),
        }
    }
}

pub(crate) fn save_place(memory: &mut [u8], place: Place) {
    Field::at(0).put(memory, place.pack());
}

pub(crate) fn save_lost(memory: &mut [u8], events: u64, buffers: u64) {
    Field::at(8).put(memory, events);
    Field::at(16).put(memory, buffers);
}

pub(crate) fn save_unread(memory: &mut [u8], buffers: u64) {
    Field::at(24).put(memory, buffers);
}

pub(crate) fn save_lost_buffers(memory: &mut [u8], gaps: &[Option<Gap>]) {
    save_gaps(memory, LOST_BUFFERS, gaps);
}

fn save_gaps(memory: &mut [u8], at: usize, gaps: &[Option<Gap>]) {
    // Gaps that share a word have the time of the latest: no stream has a later event before its own.
    let (own, shared) = gaps.split_at(gaps.len().min(GAP_WORDS - 1));
    let latest = shared.iter().flatten().max_by_key(|gap| gap.time);
    let words = own.iter().map(Option::as_ref).chain([latest]);
    for (gap, at) in words.zip((at + 8..).step_by(8)).take(gaps.len()) {
        let word = gap
            .map_or(0, |gap| (gap.time.max(1) as u64) << 1 | u64::from(gap.mark.is_of_buffers()));
        Field::at(at).put(memory, word);
    }
    compiler_fence(Ordering::SeqCst);
    Field::at(at).put(memory, gaps.len() as u64);
}

fn read_gaps(memory: &[u8], at: usize) -> Vec<Option<Gap>> {
    let count = le::u64(memory, at).unwrap_or(0).min(1 << 16) as usize;
    let gap = |cpu: usize| {
        let word = le::u64(memory, at + 8 * (1 + cpu.min(GAP_WORDS - 1)))?;
        let mark = if word & 1 != 0 { LossMark::Buffers } else { LossMark::Events };
        (word != 0).then_some(Gap { time: (word >> 1) as i64, mark })
    };
    (0..count).map(gap).collect()
}

/// The numbers that a session's buffers do not contain.
pub(crate) struct Numbers {
    /// The next sequence number.
    pub sequence: i64,
    /// Buffers begun.
    pub begun: u64,
    pub is_stopped: bool,
}

pub(crate) fn save(
    memory: &mut [u8],
    batch: u64,
    Numbers { sequence, begun, is_stopped }: Numbers,
    (ledger, facts): (&Ledger, &Facts),
    gaps: &[Option<Gap>],
) {
    let at = SLOTS[(batch % 2) as usize];
    Field::at(at).put(memory, 0u64);
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
        Field::at(at).put(memory, word);
    }
    save_gaps(memory, GAPS[(batch % 2) as usize], gaps);
    compiler_fence(Ordering::SeqCst);
    Field::at(at).put(memory, batch);
}

/// The state of a session whose host was killed.
#[derive(Debug)]
pub struct Killed {
    /// The state beside the buffers.
    pub saved: Saved,
    /// The buffers in memory.
    pub found: Found,
    /// The last final batch.
    pub batch: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// Continues the session of a killed host. Buffers that had a position in a file are stored there (again). Buffers without a position, and in a
    /// session without files those that were in flight to consumers, wait to be handed out. Events of the provider `reports` are the
    /// session's own and are not counted.
    ///
    /// # Errors
    /// Those of [`Session::new`].
    ///
    /// # Loss
    /// A recovered buffer without a free one in `buffers` is counted as lost to the disk. There are as many buffers as before.
    pub fn resume(
        config: &SessionConfig,
        host: HostFacts,
        buffers: Vec<B>,
        killed: Killed,
        reports: &Guid,
    ) -> Result<(Session<B>, Placed), SessionError> {
        let Killed { saved, found, batch } = killed;
        let mut session = Session::new(config, host, buffers)?;
        let is_live = !session.has_file() && !session.policy().is_in_memory();
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
        // The newest buffer was handed out, and its storing was not reported. A circular file can have an older buffer on its way to
        // the same slot.
        if newest.is_some_and(|(_, place)| place == next_place) {
            next_place = session.place_after(next_place);
        }
        let begun = match session.policy().at_max_size {
            // The saved count may be that of the file before this one.
            AtMaxSize::Stop => next_place.slot - 1 + waiting.len() as u64,
            _ => saved.begun,
        };
        session.restore(sequence, next_place, begun, saved.ledger, saved.facts);
        session.restore_state(saved.is_stopped, saved.unread_buffers);
        session.set_reports(reports);
        for mut buffer in waiting {
            if buffer.sequence == 0 {
                buffer.sequence = session.take_sequence();
                BufferHeader::SEQUENCE_NUMBER.put(&mut buffer.bytes, buffer.sequence);
            }
            session.restore_full(&buffer, batch, reports);
        }
        for gaps in [saved.gaps, saved.lost_buffers] {
            for (cpu, gap) in gaps.into_iter().enumerate() {
                let Some(Gap { time, mark }) = gap else { continue };
                let is_of_cpu = |bytes: &[u8]| {
                    BufferHeader::PROCESSOR.get(bytes).is_some_and(|of| usize::from(of) == cpu)
                };
                let before = placed.iter().filter(|(_, bytes)| is_of_cpu(bytes));
                let times = before.filter_map(|(_, bytes)| BufferHeader::TIME_STAMP.get(bytes));
                let time = times.fold(time, i64::max);
                session.restore_gap(cpu, Gap { time, mark });
            }
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
    let filled = BufferHeader::OFFSET.get(from).map_or(HEADER_SIZE, |filled| filled as usize);
    let bytes = memory.as_mut();
    let state = BufferHeader::STATE;
    state.put(bytes, BufferHeader::STATE_FREE);
    compiler_fence(Ordering::SeqCst);
    let (before, behind) = (..state.offset(), state.offset() + 4..from.len());
    bytes[before].copy_from_slice(&from[before]);
    bytes[behind.clone()].copy_from_slice(&from[behind]);
    PLACE.put(bytes, 0);
    MARKS[0].put(bytes, mark(batch, filled));
    MARKS[1].put(bytes, 0);
    compiler_fence(Ordering::SeqCst);
    state.put(bytes, BufferHeader::STATE_IN_USE);
    let (mut events, mut reports, mut first_time) = (0, 0, 0);
    for (record, time) in own_records(&from[HEADER_SIZE..filled.max(HEADER_SIZE)]) {
        if events == 0 {
            first_time = time;
        }
        events += 1;
        reports += u64::from(is_report(record, of_reports));
    }
    let last_time = BufferHeader::TIME_STAMP.get(from).unwrap_or(0);
    let flags = BufferFlags(BufferHeader::FLAGS.get(from).unwrap_or(0));
    Buffer {
        memory,
        cpu: found.cpu,
        sequence: found.sequence,
        filled,
        sealed: filled,
        sliced: HEADER_SIZE,
        trimmed: 0,
        sliced_events: 0,
        last_mark: 0,
        events,
        reports,
        first_time,
        last_time,
        mark_end: 0,
        flags,
    }
}
