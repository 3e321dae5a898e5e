//! `cargo xtask bench`: every figure that the project claims, measured, with the command that reproduces it.
//!
//! Speed is the best of several runs: these machines are shared, and what a run can reach is what the code costs. Peers
//! and the floor run in the same process, one after the other with ours.

mod inputs;
mod measure;

use crate::{Result, corpus, etw_command, root};
use inputs::Inputs;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Arguments {
    /// Only figures whose name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Also the 10 GB trace: takes the disk space and some minutes
    #[arg(long)]
    full: bool,
    /// Size of the large traces
    #[arg(long, value_name = "MB", default_value_t = 1000)]
    size: u64,
    /// Runs of each figure
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
}

const MIB: u64 = 1 << 20;

pub fn run(arguments: &Arguments) -> Result<()> {
    let etw = etw_command()?;
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    if corpus().is_none() {
        println!(
            "skipped: ../shared/corpus is absent; traces are made of synthetic events instead"
        );
    }
    let bench = Bench {
        wanted: arguments.only.clone().unwrap_or_default(),
        runs: arguments.runs.max(1),
        inputs: Inputs::new(folder, arguments.size * 1_000_000),
        etw,
    };
    println!("{:<58} {:>14} {:>12}  command", "figure", "measured", "goal");
    bench.reader()?;
    bench.compressed()?;
    bench.many_streams()?;
    bench.circular()?;
    bench.dump()?;
    bench.same_bytes()?;
    if arguments.full {
        bench.memory()?;
    } else {
        println!("skipped: peak memory of a 10 GB trace, needs --full");
    }
    println!("skipped: babeltrace2 beside dump, needs an LTTng trace of its own");
    Ok(())
}

struct Bench {
    wanted: String,
    runs: usize,
    inputs: Inputs,
    etw: PathBuf,
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        name.contains(&self.wanted)
    }

    fn reader(&self) -> Result<()> {
        if !self.wants("reader") {
            return Ok(());
        }
        let path = self.inputs.plain()?;
        // One run of each in turn, so that both meet the machine in the same moods.
        let mut ours = measure::Rate::default();
        let mut floor = measure::Rate::default();
        for _ in 0..self.runs {
            ours.add(measure::read_all(&path, 0)?);
            floor.add(measure::walk_headers(&path)?);
        }
        row("reader: merged records, one thread", &ours.shown(), ">= 20 M/s", "reader");
        row("reader: floor, header walk without merge", &floor.shown(), "", "reader");
        row("reader: ours / floor", &format!("{:.2}", ours.best / floor.best), "", "reader");
        Ok(())
    }

    fn compressed(&self) -> Result<()> {
        if !self.wants("compressed") {
            return Ok(());
        }
        let path = self.inputs.compressed()?;
        for (threads, goal) in [(0, ">= 5 M/s"), (1, "scales")] {
            let mut rate = measure::Rate::default();
            for _ in 0..self.runs {
                rate.add(measure::read_all(&path, threads)?);
            }
            let name = format!("compressed: merged records, {} thread(s)", threads + 1);
            row(&name, &rate.shown(), goal, "compressed");
        }
        Ok(())
    }

    fn many_streams(&self) -> Result<()> {
        if !self.wants("streams") {
            return Ok(());
        }
        let path = self.inputs.streams()?;
        self.rate_and_memory("streams: 64 CPUs, 1 MiB buffers", &path, 64 * MIB + 32 * MIB)
    }

    fn circular(&self) -> Result<()> {
        if !self.wants("circular") {
            return Ok(());
        }
        let path = self.inputs.circular()?;
        self.rate_and_memory("circular: wrapped", &path, 64 * MIB)
    }

    fn rate_and_memory(&self, name: &str, path: &Path, bound: u64) -> Result<()> {
        let mut rate = measure::Rate::default();
        for _ in 0..self.runs {
            rate.add(measure::read_all(path, 0)?);
        }
        let only = name.split(':').next().unwrap_or_default();
        row(&format!("{name}, one thread"), &rate.shown(), ">= 10 M/s", only);
        self.memory_of(name, &["check"], path, bound, only)
    }

    fn memory_of(
        &self,
        name: &str,
        command: &[&str],
        path: &Path,
        bound: u64,
        only: &str,
    ) -> Result<()> {
        let goal = format!("<= {} MiB", bound / MIB);
        let shown = match measure::peak_memory(&self.etw, command, path)? {
            Some(bytes) => format!("{:.1} MiB", bytes as f64 / MIB as f64),
            None => "not measured".into(),
        };
        row(&format!("{name}, peak memory of {}", command[0]), &shown, &goal, only);
        Ok(())
    }

    fn dump(&self) -> Result<()> {
        if !self.wants("dump") {
            return Ok(());
        }
        let files = self.inputs.real_traces()?;
        let records = files.iter().map(|file| measure::count(file)).sum::<Result<u64>>()?;
        for (format, to_null, to_pipe) in [
            ("json", ">= 2 M/s", ">= 1.2 M/s"),
            ("text", ">= 2 M/s", ">= 1.2 M/s"),
            ("csv", "", ""),
            ("xml", "", ""),
        ] {
            for (sink, goal) in [("null", to_null), ("pipe", to_pipe)] {
                let mut rate = measure::Rate::default();
                for _ in 0..self.runs {
                    let seconds = measure::dump_all(&self.etw, format, &files, sink == "pipe")?;
                    rate.add((records, seconds));
                }
                let to = if sink == "pipe" { "through a pipe to cat" } else { "to /dev/null" };
                let name = format!("dump: {format} {to}, {} files in turn", files.len());
                row(&name, &rate.shown(), goal, "dump");
            }
        }
        Ok(())
    }

    fn same_bytes(&self) -> Result<()> {
        if !self.wants("threads") {
            return Ok(());
        }
        let files = self.inputs.real_traces()?;
        let mut equal = true;
        for format in ["json", "text", "csv", "xml"] {
            let one = measure::output(&self.etw, format, 1, &files)?;
            for threads in [2, 3, 8] {
                equal &= one == measure::output(&self.etw, format, threads, &files)?;
            }
        }
        let shown = if equal { "same bytes" } else { "DIFFER" };
        row("threads: dump with 1, 2, 3 and 8", shown, "same bytes", "threads");
        if equal { Ok(()) } else { Err("output depends on the number of threads".into()) }
    }

    fn memory(&self) -> Result<()> {
        if !self.wants("memory") {
            return Ok(());
        }
        let path = self.inputs.huge()?;
        for command in [&["stat"][..], &["dump", "--format", "json"]] {
            self.memory_of("memory: 10 GB trace", command, &path, 64 * MIB, "memory --full")?;
        }
        Ok(())
    }
}

fn row(figure: &str, measured: &str, goal: &str, only: &str) {
    println!("{figure:<58} {measured:>14} {goal:>12}  cargo xtask bench --only {only}");
}
