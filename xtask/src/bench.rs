//! `cargo xtask bench`: every figure that the project claims, measured, with the command that reproduces it.
//!
//! Each figure is the best of several runs, beside the median: other users of a machine make single runs slower. Peers and
//! the floor run in turn with ours under the same load, so their ratio is stable. A figure that is the median of rounds has their spread
//! beside it (±), and says `within noise` if its goal is nearer.

mod curves;
mod decode;
mod event_log;
mod inputs;
mod lttng;
mod machine;
mod measure;
mod peer;
mod providers;
mod report;
mod round;
mod spread;
mod system;
mod write;

use crate::{Result, corpus, etw_command, root};
use etw_etl::read::TraceFile;
use inputs::Inputs;
use machine::{State, Ticks};
use measure::{Rate, Run};
use report::{Figure, Goal, Report, Unit};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Only the group with this name: reader, compressed, streams, circular, relog, dump, threads, decode, write,
    /// log, c, tracing, global, lossless, system, providers, evtx, curves, rate, memory
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Also measure the groups `curves`, `rate` and `memory`, which take 10 GB of disk and some minutes, and `lossless` and `system` for longer
    #[arg(long)]
    full: bool,
    /// Measure the group `curves` alone and draw each curve into target/curves
    #[arg(long)]
    plot: bool,
    /// One JSON object a figure
    #[arg(long)]
    json: bool,
    /// Size of the large traces
    #[arg(long, value_name = "MB", default_value_t = 1000)]
    size: u64,
    /// Seconds of 300,000 context switches a second in the group `system`; by default 10, with --full 60
    #[arg(long, value_name = "S")]
    switch_seconds: Option<u32>,
    /// Runs of each figure
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
}

const MIB: u64 = 1 << 20;
/// Memory that a merge may take beside its open buffers.
const MERGE_ALLOWANCE: u64 = 32 * MIB;
const GROUPS: [&str; 20] = [
    "reader",
    "compressed",
    "streams",
    "circular",
    "relog",
    "dump",
    "threads",
    "decode",
    "write",
    "log",
    "c",
    "tracing",
    "global",
    "lossless",
    "system",
    "providers",
    "evtx",
    "curves",
    "rate",
    "memory",
];

pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(only) = arguments.only.as_deref().filter(|only| !GROUPS.contains(only)) {
        return Err(format!("no group {only}: there are {}", GROUPS.join(", ")).into());
    }
    if arguments.only.as_deref() == Some("evtx") {
        // Needs nothing but its own program.
        let mut report = Report::new(arguments.json);
        event_log::run(&mut report, arguments.runs.max(1))?;
        report.finish();
        return Ok(());
    }
    if arguments.plot || arguments.only.as_deref() == Some("curves") {
        return curves::run(&Report::new(arguments.json), arguments.plot);
    }
    let etw = etw_command("release")?;
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    let mut bench = Bench {
        runs: arguments.runs.max(1),
        full: arguments.full,
        switch_seconds: arguments.switch_seconds.unwrap_or(if arguments.full { 60 } else { 10 }),
        inputs: Inputs::new(folder.clone(), arguments.size * 1_000_000),
        folder,
        etw,
        report: Report::new(arguments.json),
    };
    if corpus().is_none() {
        let why = "../shared/corpus is absent; traces are made of events of our own instead";
        bench.report.skip("real traces", why);
    }
    for group in GROUPS {
        if arguments.only.as_deref().is_some_and(|only| only != group) {
            continue;
        }
        let start = Ticks::now();
        match group {
            "reader" => bench.reader()?,
            "compressed" => bench.compressed()?,
            "streams" => bench.streams()?,
            "circular" => bench.circular()?,
            "relog" => bench.relog()?,
            "dump" => bench.dump()?,
            "threads" => bench.threads()?,
            "decode" => bench.decode()?,
            "write" => bench.write()?,
            "log" => bench.log()?,
            "c" => bench.c()?,
            "tracing" => bench.tracing()?,
            "global" => bench.global()?,
            "lossless" => bench.lossless()?,
            "system" => bench.system()?,
            "providers" => bench.providers()?,
            "evtx" => event_log::run(&mut bench.report, bench.runs)?,
            "curves" if arguments.full => curves::run(&bench.report, false)?,
            "rate" if arguments.full => bench.offered_rates(10)?,
            "memory" if arguments.full => bench.memory()?,
            _ => {
                bench
                    .report
                    .skip(group, "some minutes, and gigabytes of disk for some, with --full");
                continue;
            }
        }
        bench.report.machine(group, &State::since(start));
    }
    bench.report.finish();
    Ok(())
}

struct Bench {
    runs: usize,
    /// Long measurements, too.
    full: bool,
    /// Seconds of the load of context switches.
    switch_seconds: u32,
    inputs: Inputs,
    folder: PathBuf,
    etw: PathBuf,
    report: Report,
}

impl Bench {
    fn reader(&mut self) -> Result<()> {
        let path = self.inputs.plain()?;
        let [mut ours, mut floor, mut parts, mut two_floors] = [(); 4].map(|()| Rate::default());
        for _ in 0..self.runs {
            let merged = measure::read_all(&path, 0)?;
            let walked = measure::walk_headers(&path, 1)?;
            let in_parts = measure::read_in_parts(&path, 2)?;
            let walked_in_two = measure::walk_headers(&path, 2)?;
            for other in [&walked, &in_parts, &walked_in_two] {
                if merged.records != other.records {
                    let (read, other) = (merged.records, other.records);
                    return Err(
                        format!("{read} records read in one way, {other} in another").into()
                    );
                }
            }
            ours.add(merged);
            floor.add(walked);
            parts.add(in_parts);
            two_floors.add(walked_in_two);
        }
        self.rate("reader: merged records, one thread", &ours, Goal::AtLeast(25.0), "reader");
        self.rate("reader: merged records, two threads", &parts, Goal::AtLeast(40.0), "reader");
        self.rate("reader: floor, header walk by hand", &floor, Goal::None, "reader");
        self.rate("reader: floor on two threads", &two_floors, Goal::None, "reader");
        self.ratio("reader: ours to floor", &ours, &floor, Goal::None, "reader");
        Ok(())
    }

    fn compressed(&mut self) -> Result<()> {
        let path = self.inputs.compressed()?;
        let [mut one, mut two, mut parts] = [(); 3].map(|()| Rate::default());
        for _ in 0..self.runs {
            one.add(measure::read_all(&path, 0)?);
            two.add(measure::read_all(&path, 1)?);
            parts.add(measure::read_in_parts(&path, 2)?);
        }
        let only = "compressed";
        self.rate("compressed: merged records, one thread", &one, Goal::AtLeast(12.0), only);
        self.rate("compressed: with one thread to read ahead", &two, Goal::AtLeast(12.0), only);
        self.rate("compressed: in parts on two threads", &parts, Goal::None, only);
        self.ratio("compressed: two threads to one", &two, &one, Goal::AtLeast(1.0), only);
        Ok(())
    }

    fn streams(&mut self) -> Result<()> {
        let path = self.inputs.streams()?;
        self.rate_and_memory("streams: 64 CPUs, 1 MiB buffers", &path, "streams")
    }

    fn circular(&mut self) -> Result<()> {
        let path = self.inputs.circular()?;
        self.rate_and_memory("circular: wrapped", &path, "circular")?;
        let path = self.inputs.circular_streams()?;
        self.rate_and_memory("circular: wrapped, 64 CPUs, 1 MiB buffers", &path, "circular")
    }

    /// Without the disk: output is discarded.
    fn relog(&mut self) -> Result<()> {
        let path = self.inputs.plain()?;
        let [mut plain, mut compressed, mut helped] = [(); 3].map(|()| Rate::default());
        for _ in 0..self.runs {
            plain.add(measure::relog(&path, false, false)?);
            compressed.add(measure::relog(&path, true, false)?);
            helped.add(measure::relog(&path, true, true)?);
        }
        self.rate("relog: one thread, no output", &plain, Goal::AtLeast(5.0), "relog");
        self.rate("relog: compressed, one thread, no output", &compressed, Goal::None, "relog");
        let goal = Goal::AtLeast(8.0);
        self.rate("relog: compressed, two threads, no output", &helped, goal, "relog");
        let output = self.folder.join("relog.etl");
        let output = output.to_str().ok_or("a folder whose name is not Unicode")?;
        let command = ["relog", "--force", "--compress", "-o", output];
        self.memory_of("relog: compressed, to a file", &command, &path, MERGE_ALLOWANCE, "relog")?;
        std::fs::remove_file(output)?;
        Ok(())
    }

    fn rate_and_memory(&mut self, name: &str, path: &Path, only: &str) -> Result<()> {
        let mut rate = Rate::default();
        for _ in 0..self.runs {
            rate.add(measure::read_all(path, 0)?);
        }
        self.rate(name, &rate, Goal::AtLeast(10.0), only);
        let file = TraceFile::open(path)?;
        let totals = file.totals();
        let open = totals.streams as u64 * u64::from(totals.largest_buffer);
        self.memory_of(&format!("{name}, check"), &["check"], path, open + MERGE_ALLOWANCE, only)
    }

    fn dump(&mut self) -> Result<()> {
        let files = self.inputs.real_traces()?;
        let mut records = 0;
        for file in &files {
            records += measure::read_all(file, 0)?.records;
        }
        for (format, to_null, to_pipe) in [
            ("json", Goal::AtLeast(3.0), Goal::AtLeast(2.0)),
            ("text", Goal::AtLeast(3.0), Goal::AtLeast(2.0)),
            ("csv", Goal::AtLeast(2.0), Goal::None),
            ("xml", Goal::AtLeast(2.0), Goal::None),
        ] {
            let (mut null, mut pipe) = (Rate::default(), Rate::default());
            for _ in 0..self.runs {
                let seconds = measure::dump_all(&self.etw, format, 2, &files, false)?;
                null.add(Run { records, seconds });
                let seconds = measure::dump_all(&self.etw, format, 2, &files, true)?;
                pipe.add(Run { records, seconds });
            }
            let name = format!("dump: {format}, {} files, two threads, no output", files.len());
            self.rate(&name, &null, to_null, "dump");
            let name = format!("dump: {format}, {} files, through a pipe to cat", files.len());
            self.rate(&name, &pipe, to_pipe, "dump");
        }
        self.peer()
    }

    /// babeltrace2 beside our text output of the same events.
    fn peer(&mut self) -> Result<()> {
        if !peer::is_installed() {
            self.report.skip("dump: babeltrace2", "it is not installed");
            return Ok(());
        }
        let folder = self.folder.join("ctf");
        let records = peer::make(&folder, 1_000_000)?;
        let counted = peer::count(&folder)?;
        if counted != records {
            return Err(format!("babeltrace2 finds {counted} of {records} events").into());
        }
        let files = [self.folder.join("orders.etl")];
        peer::make_ours(&files[0], records)?;
        let [mut one, mut two, mut theirs] = [(); 3].map(|()| Rate::default());
        for _ in 0..self.runs {
            let seconds = measure::dump_all(&self.etw, "text", 1, &files, false)?;
            one.add(Run { records, seconds });
            let seconds = measure::dump_all(&self.etw, "text", 2, &files, false)?;
            two.add(Run { records, seconds });
            theirs.add(Run { records, seconds: peer::text(&folder)? });
        }
        let goal = Goal::AtLeast(4.0);
        self.rate("dump: text of 1,000,000 events, one thread", &one, Goal::None, "dump");
        self.rate("dump: babeltrace2, text of the same events", &theirs, Goal::None, "dump");
        self.ratio("dump: ours to babeltrace2, one thread", &one, &theirs, goal, "dump");
        self.ratio("dump: ours to babeltrace2, two threads", &two, &theirs, Goal::None, "dump");
        Ok(())
    }

    fn threads(&mut self) -> Result<()> {
        let files = self.inputs.real_traces()?;
        let mut differences = 0;
        for format in ["json", "text", "csv", "xml"] {
            let one = measure::output(&self.etw, format, 1, &files)?;
            for threads in [2, 3, 8] {
                let output = measure::output(&self.etw, format, threads, &files)?;
                differences += u32::from(one != output);
            }
        }
        self.report.add(&Figure {
            name: "threads: dump with 2, 3, 8 against 1, all formats",
            best: f64::from(differences),
            median: None,
            spread: None,
            unit: Unit::Differences,
            goal: Goal::AtMost(0.0),
            only: "threads",
        });
        if differences == 0 { Ok(()) } else { Err("output depends on the threads".into()) }
    }

    fn memory(&mut self) -> Result<()> {
        let path = self.inputs.huge()?;
        for (name, command) in [
            ("memory: 10 GB trace, stat", &["stat"][..]),
            ("memory: 10 GB trace, dump to JSON", &["dump", "--format", "json"]),
            ("memory: 10 GB trace, dump to text", &["dump", "--format", "text"]),
        ] {
            self.memory_of(name, command, &path, 64 * MIB, "memory --full")?;
        }
        self.memory_of_event_logs()
    }

    fn memory_of_event_logs(&mut self) -> Result<()> {
        const ID: &str = "*[System[EventID=4711]]";
        let path = self.inputs.event_log()?;
        let copy = self.folder.join("export.evtx");
        for (name, before, after) in [
            ("memory: 1 GB event log, stat", &["stat"][..], &[][..]),
            ("memory: 1 GB event log, dump to JSON", &["dump", "--format", "json"], &[]),
            ("memory: 1 GB event log, dump with --where", &["dump", "--where", "id == 4711"], &[]),
            ("memory: 1 GB event log, query", &["log", "query"], &[ID]),
            ("memory: 1 GB event log, query of all", &["log", "query"], &["*"]),
            ("memory: 1 GB event log, newest first", &["log", "query", "--reverse"], &["*"]),
            ("memory: 1 GB event log, export", &["log", "export", "--force"], &["*", "-o"]),
        ] {
            let mut command = Command::new(&self.etw);
            command.args(before).arg(&path).args(after);
            if before.contains(&"export") {
                command.arg(&copy);
            }
            self.add_memory(name, command, 64 * MIB, "memory --full")?;
        }
        std::fs::remove_file(copy)?;
        Ok(())
    }

    fn rate(&mut self, name: &str, rate: &Rate, goal: Goal, only: &str) {
        let (best, median) = (rate.best / 1e6, Some(rate.median() / 1e6));
        let unit = Unit::MillionsPerSecond;
        self.report.add(&Figure { name, best, median, spread: None, unit, goal, only });
    }

    fn ratio(&mut self, name: &str, ours: &Rate, other: &Rate, goal: Goal, only: &str) {
        let best = ours.best / other.best;
        let median = Some(ours.median() / other.median());
        self.report.add(&Figure {
            name,
            best,
            median,
            spread: None,
            unit: Unit::Ratio,
            goal,
            only,
        });
    }

    /// Highest anonymous memory of a command; `bound` in bytes.
    fn memory_of(
        &mut self,
        name: &str,
        command: &[&str],
        path: &Path,
        bound: u64,
        only: &str,
    ) -> Result<()> {
        let mut run = Command::new(&self.etw);
        run.args(command).arg(path);
        self.add_memory(name, run, bound, only)
    }

    fn add_memory(&mut self, name: &str, command: Command, bound: u64, only: &str) -> Result<()> {
        let mebibytes = |bytes: u64| bytes as f64 / MIB as f64;
        let Some(peak) = measure::peak_memory(command)? else {
            self.report.skip(name, "this system does not tell the anonymous memory of a process");
            return Ok(());
        };
        self.report.add(&Figure {
            name,
            best: mebibytes(peak),
            median: None,
            spread: None,
            unit: Unit::Mebibytes,
            goal: Goal::AtMost(mebibytes(bound.next_multiple_of(MIB / 8))),
            only,
        });
        Ok(())
    }
}
