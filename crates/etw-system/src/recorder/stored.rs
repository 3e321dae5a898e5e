//! The records of a recording that goes on: which of them the process before has stored.

use std::cmp::Ordering;

use super::TICK;
use crate::neutral::Detail;
use crate::shaper::Shaper;

/// The events that a recording which goes on has stored already.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The time of the last stored record, in 100 ns.
    pub until: i64,
    /// The same of single CPUs, where it is known. Records of several CPUs may have one time, of which only the first ones are stored.
    pub on: Vec<(u16, i64)>,
}

/// [`Stored`], and the time from which records are this recorder's.
pub(super) struct Known<'a> {
    pub(super) since: i64,
    pub(super) until: i64,
    pub(super) on: &'a [(u16, i64)],
}

/// Where a record belongs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    New,
    Stored,
    /// Stored or not: it has the time of the last stored record.
    StoredOrLost,
    OfOthers,
}

impl Known<'_> {
    pub(super) fn place_of(&self, time: u64, cpu: u16) -> Place {
        let time = (time / TICK) as i64;
        match time.cmp(&self.until) {
            Ordering::Greater => Place::New,
            _ if time < self.since => Place::OfOthers,
            Ordering::Less => Place::Stored,
            Ordering::Equal => match self.on.iter().find(|(of, _)| *of == cpu) {
                Some((_, last)) if *last < time => Place::New,
                Some(_) => Place::Stored,
                None => Place::StoredOrLost,
            },
        }
    }
}

/// Passes over an event that the trace has already: after a switch, it is known what the CPU runs. If the trace may lack the switch, that
/// stays unknown, so the trace has a loss there.
pub(super) fn pass_over(shaper: &mut Shaper, place: Place, cpu: u16, detail: &Detail<'_>) {
    match (detail, place) {
        (Detail::Switch { new, .. }, Place::Stored) => shaper.runs(cpu, new.thread),
        (Detail::Switch { .. }, Place::StoredOrLost) => shaper.forgets(cpu),
        _ => {}
    }
}
