//! [`Losses`]: lost events that records of the trace report.

use crate::output::counted;
use etw_host::Loss;
use etw_types::{EventRecord, Guid, Hook, LOST_EVENT, SYSTEM_TRACE};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Types of RT_LostEvent records, and the names of their causes for programs and for people.
const LOSS_CAUSES: [(u8, &str, &str); 3] = [
    (32, "rt_lost_event", "RT_LostEvent"),
    (33, "rt_lost_buffer", "RT_LostBuffer"),
    (34, "rt_lost_file", "RT_LostFile"),
];

/// The class of context switches.
const THREAD: Guid = Guid::from_u128(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c);

/// Cause, provider and process of lost events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    pub cause: String,
    pub provider: Option<Guid>,
    pub process: Option<u32>,
    /// It is the sum for so many providers and processes.
    pub origins: u32,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)?;
        if self.origins > 1 {
            return write!(
                f,
                ", {} further providers and processes, each with fewer",
                self.origins
            );
        }
        if let Some(process) = self.process {
            write!(f, ", process {process}")?;
        }
        match self.provider.map(|provider| (provider, Hook::name_of_class(provider))) {
            Some((_, Some(class))) => write!(f, ", class {class}"),
            Some((SYSTEM_TRACE, None)) => f.write_str(", events of the system"),
            Some((provider, None)) => write!(f, ", provider {provider}"),
            None => Ok(()),
        }
    }
}

impl From<&Loss> for Origin {
    fn from(loss: &Loss) -> Origin {
        let cause = loss.cause.name().to_owned();
        Origin { cause, provider: loss.provider, process: loss.process_id, origins: 1 }
    }
}

/// Further origins are counted together: the project's sessions report no more.
const ORIGIN_LIMIT: usize = 1 << 13;
/// Further notes are left out: a session has one.
const NOTE_LIMIT: usize = 16;

/// Losses that a trace reports.
#[derive(Default)]
pub struct Losses {
    /// Records of the RT_LostEvent class, by type.
    records: BTreeMap<u8, u64>,
    /// Losses in reports of our sessions.
    reported: BTreeMap<Origin, u64>,
    overwritten: u64,
    /// Lost events in the totals of our sessions.
    lost: u64,
    /// Sentences of our sessions about the trace.
    notes: BTreeSet<String>,
}

/// Whether a record marks a loss that may be one of context switches.
pub fn may_lack_switches(record: &EventRecord<'_>) -> bool {
    if record.provider == Some(etw_host::LEDGER_PROVIDER) {
        let loss = etw_host::report::read_loss(record);
        // Thread, the class of switches, or a provider that is not known.
        return loss.is_some_and(|loss| loss.provider.is_none_or(|provider| provider == THREAD));
    }
    record.header.is_classic() && record.provider == Some(LOST_EVENT)
}

impl Losses {
    /// Counts the losses that a record reports.
    #[inline]
    pub fn add(&mut self, record: &EventRecord<'_>) {
        if record.header.is_classic() && record.provider == Some(LOST_EVENT) {
            *self.records.entry(record.descriptor.opcode.0).or_insert(0) += 1;
        }
        if record.provider == Some(etw_host::LEDGER_PROVIDER) {
            if let Some(loss) = etw_host::report::read_loss(record) {
                let origins = etw_host::report::read_loss_origins(record).unwrap_or(1);
                self.add_reported(&loss, origins);
            } else if let Some(totals) = etw_host::report::read_totals(record) {
                self.overwritten = self.overwritten.saturating_add(totals.overwritten);
                self.lost = self.lost.saturating_add(totals.lost);
                if totals.files_before > 0 && (totals.lost > 0 || totals.overwritten > 0) {
                    let before = counted(totals.files_before, "file");
                    self.notes.insert(format!(
                        "losses are those of the whole session, which wrote {before} before this one"
                    ));
                }
            } else if let Some(note) = etw_host::report::read_note(record)
                && self.notes.len() < NOTE_LIMIT
            {
                self.notes.insert(note);
            }
        }
    }

    fn add_reported(&mut self, loss: &Loss, origins: u32) {
        let mut origin = Origin { origins, ..Origin::from(loss) };
        if self.reported.len() >= ORIGIN_LIMIT && !self.reported.contains_key(&origin) {
            origin =
                Origin { cause: "others".to_owned(), provider: None, process: None, origins: 1 };
        }
        let count = self.reported.entry(origin).or_default();
        *count = count.saturating_add(loss.count);
    }

    /// Causes and counts of RT_LostEvent records.
    pub fn by_cause(&self) -> Vec<(&'static str, u64)> {
        let count = |kind: u8| self.records.get(&kind).copied().filter(|&count| count > 0);
        LOSS_CAUSES.iter().filter_map(|&(kind, cause, _)| Some((cause, count(kind)?))).collect()
    }

    /// All losses, a text each for people.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        let records = LOSS_CAUSES.iter().filter_map(|(kind, _, name)| {
            let count = self.records.get(kind).copied().filter(|&count| count > 0)?;
            Some(format!("reported by {}", counted(count, &format!("{name} record"))))
        });
        let reported = self.reported().map(|(origin, count)| format!("{count}: {origin}"));
        let unlisted = Some(self.unlisted()).filter(|count| *count > 0);
        let unlisted =
            unlisted.map(|count| format!("{count}: the trace has no room for their causes"));
        records.chain(reported).chain(unlisted)
    }

    /// Sentences of our sessions that say what the trace lacks, and why.
    pub fn notes(&self) -> impl Iterator<Item = &String> {
        self.notes.iter()
    }

    /// Lost events that our sessions counted and whose causes they could not report.
    pub fn unlisted(&self) -> u64 {
        self.lost.saturating_sub(self.reported.values().sum())
    }

    /// Events that newer ones replaced in a circular file or in memory, as our sessions reported them.
    pub fn overwritten(&self) -> u64 {
        self.overwritten
    }

    /// Losses that our sessions reported.
    pub fn reported(&self) -> impl Iterator<Item = (&Origin, u64)> {
        self.reported.iter().map(|(origin, count)| (origin, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_system_events_says_so() {
        let origin = |provider| Origin {
            cause: "kernel".to_owned(),
            provider: Some(provider),
            process: None,
            origins: 1,
        };
        assert_eq!(origin(SYSTEM_TRACE).to_string(), "kernel, events of the system");
        assert_eq!(origin(THREAD).to_string(), "kernel, class Thread");
    }
}
