//! Counts of a trace by process, by activity and over time.

use crate::attribution::{Interrupt, Owner};
use crate::join::{Moment, Names};
use etw_decode::Decoder;
use etw_types::{EventRecord, FileTime, Guid};
use std::collections::HashMap;
use std::sync::Arc;

/// Processes and activities past this many are put together: only a hostile trace has more.
const LIMIT: usize = 1 << 16;
/// Columns of the rate over time.
pub const BINS: usize = 64;

/// Counts that grow with a trace.
#[derive(Default)]
pub struct Views {
    /// Records and payload bytes by owner; none without names.
    processes: HashMap<Key, (u64, u64), foldhash::fast::RandomState>,
    /// Those of the whole trace.
    names: Option<Arc<Names>>,
    activities: HashMap<Guid, Activity, foldhash::fast::RandomState>,
    rate: Rate,
}

/// A process in one of its lives, or interrupts of any process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Key {
    process: Option<u32>,
    life: Option<usize>,
    interrupt: Option<Interrupt>,
}

impl Key {
    /// The owner of a record, as `dump --join` shows it.
    fn of(record: &EventRecord<'_>, names: &Names) -> Key {
        let Owner { process, interrupt, .. } = names.owner(record);
        if interrupt.is_some() {
            return Key { interrupt, ..Key::default() };
        }
        let life = process.and_then(|process| names.life_at(process, Moment::of(record)));
        Key { process, life, interrupt }
    }
}

struct Activity {
    first: FileTime,
    last: FileTime,
    count: u64,
    name: String,
}

/// Records by time; the columns grow wider as the trace grows longer.
#[derive(Default)]
struct Rate {
    start: Option<i64>,
    /// 100 ns units of a column.
    width: i64,
    counts: Vec<u64>,
}

/// A process and what it wrote.
pub struct ProcessRow {
    pub process: Option<u32>,
    pub name: Option<String>,
    pub count: u64,
    pub bytes: u64,
}

/// An activity.
pub struct ActivityRow {
    pub id: Guid,
    pub name: String,
    pub count: u64,
    pub seconds: f64,
}

impl Views {
    /// With `names`, records are counted by process, too.
    pub fn new(names: Option<Arc<Names>>) -> Views {
        Views { names, ..Views::default() }
    }

    /// Counts a record.
    pub fn add(&mut self, record: &EventRecord<'_>, decoder: &mut Decoder, time: Option<FileTime>) {
        if let Some(names) = &self.names {
            let key = Key::of(record, names);
            let known = self.processes.len() < LIMIT || self.processes.contains_key(&key);
            let row = self.processes.entry(if known { key } else { Key::default() }).or_default();
            row.0 += 1;
            row.1 += record.payload.len() as u64;
        }
        let Some(time) = time else { return };
        self.rate.add(time.0);
        let id = record.activity_id;
        if !id.is_zero() && (self.activities.len() < LIMIT || self.activities.contains_key(&id)) {
            let activity = self.activities.entry(id).or_insert_with(|| Activity {
                first: time,
                last: time,
                count: 0,
                name: decoder.decode(record).event_name().unwrap_or_default().to_owned(),
            });
            activity.first = activity.first.min(time);
            activity.last = activity.last.max(time);
            activity.count += 1;
        }
    }

    /// The most records first. Lives of one process with the same name are one row.
    pub fn processes(&self) -> Vec<ProcessRow> {
        let mut counts: HashMap<_, (u64, u64)> = HashMap::new();
        for (key, (count, bytes)) in &self.processes {
            let names = self.names.as_ref();
            let name = || names?.name_in_life(key.process?, key.life);
            let name = key.interrupt.map(Interrupt::name).or_else(name);
            let row = counts.entry((key.process, name)).or_default();
            row.0 += count;
            row.1 += bytes;
        }
        let row = |((process, name), (count, bytes)): ((_, Option<&str>), _)| ProcessRow {
            process,
            name: name.map(str::to_owned),
            count,
            bytes,
        };
        let mut rows: Vec<ProcessRow> = counts.into_iter().map(row).collect();
        rows.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (a.process, &a.name).cmp(&(b.process, &b.name)))
        });
        rows
    }

    /// The longest first.
    pub fn activities(&self) -> Vec<ActivityRow> {
        let row = |(id, activity): (&Guid, &Activity)| ActivityRow {
            id: *id,
            name: activity.name.clone(),
            count: activity.count,
            seconds: activity.last.0.saturating_sub(activity.first.0) as f64 / 1e7,
        };
        let mut rows: Vec<ActivityRow> = self.activities.iter().map(row).collect();
        rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.id.0.cmp(&b.id.0)));
        rows
    }

    /// Records over time.
    pub fn rate(&self) -> Option<RateColumns<'_>> {
        let start = FileTime(self.rate.start?);
        let seconds = self.rate.width as f64 / 1e7;
        Some(RateColumns { start, seconds, counts: &self.rate.counts })
    }
}

/// Records over time, in columns of one width.
pub struct RateColumns<'r> {
    pub start: FileTime,
    /// The width of a column.
    pub seconds: f64,
    /// Records in each column.
    pub counts: &'r [u64],
}

impl Rate {
    fn add(&mut self, time: i64) {
        let start = *self.start.get_or_insert(time);
        self.width = self.width.max(1);
        // Records older than the first one count in its column.
        let elapsed = time.saturating_sub(start).max(0);
        while elapsed / self.width >= BINS as i64 {
            self.width = self.width.saturating_mul(2);
            let pairs = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.counts = pairs;
        }
        let column = (elapsed / self.width) as usize;
        if self.counts.len() <= column {
            self.counts.resize(column + 1, 0);
        }
        self.counts[column] += 1;
    }
}

/// A bar of blocks, in eighths.
pub fn bar(value: u64, largest: u64, width: usize) -> String {
    const PARTS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    if largest == 0 || value == 0 {
        return String::new();
    }
    let eighths = (u128::from(value) * (width as u128 * 8)).div_ceil(u128::from(largest)) as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_grow_wider_and_lose_nothing() {
        let mut rate = Rate::default();
        for time in 0..100_000 {
            rate.add(1000 + time * 7);
        }
        rate.add(5);
        assert_eq!(rate.counts.iter().sum::<u64>(), 100_001);
        assert!(rate.counts.len() <= BINS && rate.counts.len() > BINS / 2 - 1);
        rate.add(i64::MAX);
        assert_eq!(rate.counts.iter().sum::<u64>(), 100_002);
    }

    #[test]
    fn bars_are_drawn_in_eighths_of_a_cell() {
        assert_eq!(bar(8, 8, 2), "██");
        assert_eq!(bar(1, 16, 1), "▏");
        assert_eq!(bar(12, 16, 2), "█▌");
        assert_eq!(bar(0, 16, 2), "");
    }
}
