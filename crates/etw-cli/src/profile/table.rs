//! `etw stat --by process|thread|module|function`: CPU time and time off the CPU.

use super::{NO_STACK, Named, Profiler, Span, SpanKind, owner_names};
use crate::grouping::{Passed, Scan, put_table};
use crate::join::Names;
use crate::output::Outcome;
use clap::ValueEnum;
use etw_types::FileTime;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// Rows past this many are counted together.
const LIMIT: usize = 1 << 18;
/// Nanoseconds of a millisecond.
const MILLISECOND: f64 = 1e6;

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileBy {
    /// Processes
    Process,
    /// Threads
    Thread,
    /// Programs, libraries and the kernel
    Module,
    /// Functions
    Function,
}

impl ProfileBy {
    const fn name(self) -> &'static str {
        match self {
            ProfileBy::Process => "process",
            ProfileBy::Thread => "thread",
            ProfileBy::Module => "module",
            ProfileBy::Function => "function",
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    samples: u64,
    /// Nanoseconds.
    cpu: i64,
    /// Nanoseconds with the row anywhere in the stack.
    total_cpu: i64,
    off_cpu: i64,
    waits: u64,
}

impl Figures {
    /// `is_first`: the span is not a later part of a wait; `is_own`: the row is not further out in the stack.
    fn add(&mut self, span: &Span, is_first: bool, is_own: bool) {
        match span.kind {
            SpanKind::Sample => {
                self.total_cpu += span.duration;
                if is_own {
                    self.samples += 1;
                    self.cpu += span.duration;
                }
            }
            SpanKind::OffCpu { .. } if is_own => {
                self.off_cpu += span.duration;
                self.waits += u64::from(is_first);
            }
            SpanKind::OffCpu { .. } => {}
        }
    }
}

/// CPU time and time off the CPU by rows, the largest first.
pub struct ProfileTable {
    by: ProfileBy,
    file: String,
    rows: Vec<(String, Figures)>,
    hidden: usize,
    /// A filter selected the records.
    is_selection: bool,
    pub outcome: Outcome,
}

/// The rows of a span: its own one, and with modules and functions all of its stack.
fn rows(by: ProfileBy, span: &Span, names: &Names) -> (String, BTreeSet<String>) {
    let alone = |row: String| (row.clone(), BTreeSet::from([row]));
    let [process, thread] = owner_names(span, names);
    match by {
        ProfileBy::Process => alone(process),
        ProfileBy::Thread => alone(format!("{process} {thread}")),
        ProfileBy::Module | ProfileBy::Function => {
            let name = |frame: &crate::join::StackFrame| match by {
                ProfileBy::Module if frame.module.is_empty() => "[no module]".to_owned(),
                ProfileBy::Module => frame.module.to_string(),
                _ => frame.text(),
            };
            let all: Vec<String> = span.frames.iter().map(name).collect();
            let own = all.first().cloned().unwrap_or_else(|| NO_STACK.to_owned());
            let mut all: BTreeSet<String> = all.into_iter().collect();
            all.insert(own.clone());
            (own, all)
        }
    }
}

/// Keeps the first rows, and as many with the most time off the CPU: these have little time on it. Returns how many others there were.
fn keep_top(rows: &mut Vec<(String, Figures)>, top: usize) -> usize {
    let count = rows.len();
    let mut by_off_cpu: Vec<usize> = (0..count).filter(|row| rows[*row].1.off_cpu > 0).collect();
    by_off_cpu.sort_by_key(|row| std::cmp::Reverse(rows[*row].1.off_cpu));
    by_off_cpu.truncate(top);
    let mut number = 0..count;
    rows.retain(|_| number.next().is_some_and(|row| row < top || by_off_cpu.contains(&row)));
    count - rows.len()
}

impl ProfileTable {
    /// Counts a trace.
    pub fn count(
        scan: &Scan,
        by: ProfileBy,
        top: Option<usize>,
        prepare: impl FnOnce(&mut Names) -> Result<(), crate::output::Failure>,
    ) -> Result<ProfileTable, crate::output::Failure> {
        let mut profiler = Profiler::default();
        let mut figures: HashMap<String, Figures> = HashMap::new();
        let scanned = scan.run_through(prepare, |passed| {
            let Passed { stored, time, names, ref selected } = *passed;
            let (Some(time), Some(names)) = (time, names) else { return };
            let nanoseconds = time.0.saturating_sub(FileTime::UNIX_EPOCH.0).saturating_mul(100);
            let has_stacks = matches!(by, ProfileBy::Module | ProfileBy::Function);
            let named = Named { names, has_stacks };
            let is_selected = selected.is_some();
            let step = profiler.step(stored, nanoseconds);
            let spans = profiler.take_selected(stored, (nanoseconds, step), &named, is_selected);
            for (number, span) in spans.iter().enumerate() {
                let (own, all) = rows(by, span, names);
                for row in all {
                    if figures.len() < LIMIT || figures.contains_key(&row) {
                        let is_own = row == own;
                        figures.entry(row).or_default().add(span, number == 0, is_own);
                    }
                }
            }
        })?;
        profiler.report();
        let mut rows: Vec<(String, Figures)> = figures.into_iter().collect();
        rows.sort_by(|(a_row, a), (b_row, b)| {
            let key = |one: &Figures| (one.cpu, one.total_cpu, one.off_cpu);
            key(b).cmp(&key(a)).then_with(|| a_row.cmp(b_row))
        });
        let hidden = top.map_or(0, |top| keep_top(&mut rows, top));
        let file = scan.trace.path().display().to_string();
        let is_selection = scan.filter.is_some();
        Ok(ProfileTable { by, file, rows, hidden, is_selection, outcome: scanned.outcome })
    }

    /// Whether the trace has neither samples nor context switches.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(|(row, one)| self.json_row(row, one)).collect();
        json!({ "file": self.file, "profile": rows })
    }

    fn json_row(&self, row: &str, one: &Figures) -> Value {
        json!({
            self.by.name(): row,
            "samples": one.samples,
            "cpu_ns": one.cpu,
            "total_cpu_ns": one.total_cpu,
            "off_cpu_ns": one.off_cpu,
            "waits": one.waits,
        })
    }

    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n  CPU time of samples, and time off the CPU\n\n", self.file);
        if self.rows.is_empty() {
            // With a filter, the trace may have them.
            let whole = if self.is_selection { "selection" } else { "trace" };
            text.push_str(&format!("  the {whole} has no CPU samples and no context switches\n"));
            return text;
        }
        let heading =
            ["samples", "cpu ms", "with callees ms", "off-cpu ms", "waits", self.by.name()];
        let mut table = vec![heading.map(str::to_owned).to_vec()];
        table.extend(self.rows.iter().map(|(row, one)| {
            let time = |nanoseconds: i64| format!("{:.1}", nanoseconds as f64 / MILLISECOND);
            let row = crate::format::safe(row).into_owned();
            let [cpu, total, off] = [one.cpu, one.total_cpu, one.off_cpu].map(time);
            vec![one.samples.to_string(), cpu, total, off, one.waits.to_string(), row]
        }));
        put_table(&mut text, table, heading.len() - 1);
        if self.hidden > 0 {
            text.push_str(&format!("  {} further rows\n", self.hidden));
        }
        text
    }
}
