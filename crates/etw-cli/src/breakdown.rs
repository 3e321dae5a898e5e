//! Counts of a trace by process, by activity and over time.

use crate::attribution::{Interrupt, Interrupts, Owner, SAMPLE};
use crate::join::Names;
use crate::running_threads::is_of_running_thread;
use crate::switches::{Step, Switches};
use etw_decode::Decoder;
use etw_types::{EventRecord, FileTime, Guid};
use std::collections::HashMap;

/// Processes and activities past this many are put together: only a hostile trace has more.
const LIMIT: usize = 1 << 16;
/// Columns of the rate over time.
pub const BINS: usize = 64;

/// Counts that grow with a trace.
#[derive(Default)]
pub struct Views {
    /// Records and payload bytes by owner; the thread is set if its process is not known yet.
    processes: HashMap<Owner, (u64, u64), foldhash::fast::RandomState>,
    /// Samples of each CPU whose DPC or interrupt may end behind them.
    samples: HashMap<u16, Vec<Sample>>,
    on_cpus: HashMap<u16, OnCpu>,
    switches: Switches,
    activities: HashMap<Guid, Activity, foldhash::fast::RandomState>,
    pub names: Names,
    rate: Rate,
}

/// A counted CPU sample.
struct Sample {
    time: i64,
    key: Owner,
    bytes: u64,
}

/// The thread that a CPU's last switch brought, and the records and payload bytes that it caused since.
struct OnCpu {
    thread: u32,
    key: Owner,
    row: (u64, u64),
}

/// Samples of a CPU that are kept; a DPC takes less time.
const SAMPLES: usize = 64;

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

/// The key of an owner's counts. A thread whose process is not known yet may be named by the rundown at the end.
fn key_of(owner: Owner) -> Owner {
    match owner.process {
        Some(process) => Owner { process: Some(process), ..Owner::default() },
        None => owner,
    }
}

impl Views {
    /// Learns from a record that [`add`](Views::add) does not count.
    pub fn learn(&mut self, record: &EventRecord<'_>, decoder: &mut Decoder) {
        if Names::may_tell(record) {
            self.names.learn(record, &decoder.decode(record));
        }
        self.names.learn_operation(record);
        match self.switches.take(record, record.order_time, 0) {
            Step::Switch { new, old } => {
                let key = key_of(self.names.owner(record));
                let came = OnCpu { thread: new, key, row: (0, 0) };
                if let Some(left) = self.on_cpus.insert(record.cpu, came) {
                    // A switch is missing if another thread leaves than came.
                    let key = if left.thread == old { left.key } else { Owner::default() };
                    self.put(key, left.row);
                }
            }
            Step::Loss { .. } | Step::Stop => {
                for (_, left) in std::mem::take(&mut self.on_cpus) {
                    self.put(left.key, left.row);
                }
            }
            Step::None | Step::End => {}
        }
    }

    /// Counts records and payload bytes. Returns the key under which they are.
    fn put(&mut self, key: Owner, (count, bytes): (u64, u64)) -> Owner {
        let known = self.processes.len() < LIMIT || self.processes.contains_key(&key);
        let key = if known { key } else { Owner::default() };
        let row = self.processes.entry(key).or_default();
        row.0 += count;
        row.1 += bytes;
        key
    }

    /// Counts a record, and learns from it.
    pub fn add(&mut self, record: &EventRecord<'_>, decoder: &mut Decoder, time: Option<FileTime>) {
        self.learn(record, decoder);
        let owner = self.names.owner(record);
        let bytes = record.payload.len() as u64;
        let mut key = key_of(owner);
        match self.on_cpus.get_mut(&record.cpu) {
            Some(on_cpu) if key == Owner::default() && is_of_running_thread(record) => {
                on_cpu.row.0 += 1;
                on_cpu.row.1 += bytes;
            }
            _ => key = self.put(key, (1, bytes)),
        }
        if record.hook == Some(SAMPLE) {
            let samples = self.samples.entry(record.cpu).or_default();
            if samples.len() >= SAMPLES {
                samples.remove(0);
            }
            samples.push(Sample { time: record.order_time, key, bytes });
        } else if let Some(interrupt) = owner.interrupt {
            self.move_samples(record, interrupt);
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

    /// Counts the samples in a DPC or an interrupt, which ended just now, as its own.
    fn move_samples(&mut self, record: &EventRecord<'_>, interrupt: Interrupt) {
        let Some(start) = Interrupts::start(record) else { return };
        let Some(samples) = self.samples.get_mut(&record.cpu) else { return };
        let first = samples.partition_point(|sample| sample.time < start);
        for sample in samples.drain(first..) {
            let owner = Owner { interrupt: Some(interrupt), ..Owner::default() };
            for (key, sign) in [(sample.key, -1), (owner, 1)] {
                let row = self.processes.entry(key).or_default();
                row.0 = row.0.saturating_add_signed(sign);
                row.1 = row.1.saturating_add_signed(sign * sample.bytes as i64);
            }
        }
    }

    /// The most records first.
    pub fn processes(&self) -> Vec<ProcessRow> {
        let mut counts: HashMap<(Option<u32>, Option<Interrupt>), (u64, u64)> = HashMap::new();
        let on_cpus = self.on_cpus.values().map(|on_cpu| (&on_cpu.key, &on_cpu.row));
        let rows = self.processes.iter().chain(on_cpus).filter(|(_, row)| row.0 > 0);
        for (owner, (count, bytes)) in rows {
            let thread = || self.names.process_of(owner.thread?);
            let key = (owner.process.or_else(thread), owner.interrupt);
            let row = counts.entry(key).or_default();
            row.0 += count;
            row.1 += bytes;
        }
        let row =
            |((process, interrupt), (count, bytes)): ((Option<u32>, Option<Interrupt>), _)| {
                let name = process.and_then(|process| self.names.process_name(process));
                let name = interrupt.map(Interrupt::name).or(name).map(str::to_owned);
                ProcessRow { process, name, count, bytes }
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
