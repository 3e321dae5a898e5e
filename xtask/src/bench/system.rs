//! Recording a Linux system: the cost of a switch, the host's processor time, sampling beside `perf record`, loss and memory.

use super::Bench;
use super::report::{Goal, Unit};
use super::spread::Middle;
use super::write::{figures, middles};
use crate::{Result, cargo, root};
use etw_etl::read::{Records, TraceFile};
use etw_system::switch_chains::{Chains, SwitchChains};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// Rates of samples, with the distance between two samples.
const RATES: [(u32, &str); 3] = [(1000, "1ms"), (4000, "250us"), (10_000, "100us")];

/// Seconds of a load beside one sampler.
const BURST: &str = "1.5";

/// The cost and the result of a recording of a load.
struct Recorded {
    /// The line that the load printed.
    load: Value,
    /// Nanoseconds of the recorder's processes during the load.
    cpu: f64,
    /// The line that the recorder printed.
    summary: Value,
}

/// A recorder that runs.
struct Recorder {
    process: Child,
    /// The folder of its daemon, which the daemon's arguments name.
    folder: Option<PathBuf>,
    /// Nobody reads the rest of its messages; the pipe has room for them.
    _messages: Option<BufReader<ChildStderr>>,
}

impl Recorder {
    /// The process, and those of its daemon.
    fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.process.id()];
        let Some(folder) = self.folder.as_ref().and_then(|folder| folder.to_str()) else {
            return all;
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        all.extend(entries.filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse::<u32>().ok()?;
            let arguments = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
            arguments.split('\0').any(|one| one == folder).then_some(process)
        }));
        all
    }

    /// Nanoseconds that all threads of its processes have run.
    fn cpu(&self) -> f64 {
        let threads = |process: &u32| {
            std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten()
        };
        let of = |thread: std::fs::DirEntry| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_ascii_whitespace().next()?.parse::<f64>().ok()
        };
        self.processes().iter().flat_map(threads).filter_map(of).sum()
    }

    /// Resident bytes of all its processes.
    fn resident(&self) -> u64 {
        let of = |process: &u32| {
            let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
            line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
        };
        self.processes().iter().filter_map(of).sum::<u64>() * 1024
    }

    /// Ends it. Returns the line that it printed.
    fn end(mut self) -> Result<Value> {
        Command::new("kill").args(["-INT", &self.process.id().to_string()]).status()?;
        let mut text = String::new();
        if let Some(mut output) = self.process.stdout.take() {
            output.read_to_string(&mut text)?;
        }
        self.process.wait()?;
        Ok(serde_json::from_str(text.lines().last().unwrap_or("null")).unwrap_or_default())
    }
}

/// Kinds of sampling beside which a load runs.
const SAMPLERS: [Sampler; 5] = [
    Sampler::None,
    Sampler::Unwinding,
    Sampler::ByFramePointers,
    Sampler::Perf,
    Sampler::PerfDwarf,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sampler {
    None,
    Unwinding,
    ByFramePointers,
    /// `perf record -g`, which follows frame pointers.
    Perf,
    /// `perf record --call-graph dwarf`, which copies stacks to unwind them later.
    PerfDwarf,
}

impl Sampler {
    /// The option that makes `perf record` store stacks; `None`: it is another recorder.
    fn perf_option(self) -> Option<&'static str> {
        match self {
            Sampler::Perf => Some("--call-graph=fp"),
            Sampler::PerfDwarf => Some("--call-graph=dwarf"),
            _ => None,
        }
    }
}

/// The part of a processor's time that a recording takes: in interrupts of the load, and the recorder's own part of all processors.
fn taken(one: &Recorded, seconds: f64, cpus: f64) -> f64 {
    let (own, added) = (number(&one.load, "own_ns"), number(&one.load, "added_ns"));
    added / (own + added) + one.cpu / (seconds * 1e9 * cpus)
}

fn chains(path: &Path) -> Result<Chains> {
    let mut records = Records::new(vec![TraceFile::open(path)?]);
    let mut chains = SwitchChains::default();
    while let Some(record) = records.next() {
        chains.add(&record);
    }
    Ok(chains.found())
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(0.0)
}

impl Bench {
    /// Events of a Linux system, beside `perf record`.
    pub fn system(&mut self) -> Result<()> {
        if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
            self.report.skip("system", "this system has no kernel to record");
            return Ok(());
        }
        let output = self.example_output("etw-system", "switch_cost", &[])?;
        for ((name, value, unit), middle) in figures(&output)?.into_iter().zip(middles(&output)?) {
            let goal = match name.as_str() {
                "added by BPF programs / by perf record" => Goal::AtMost(0.3),
                "added by perf rings / by perf record" => Goal::AtMost(1.05),
                _ => Goal::None,
            };
            let name = format!("system: {name}");
            match middle {
                Some(middle) => self.add_middle(&name, middle, unit, goal, "system"),
                None => self.add(&name, value, unit, goal, "system"),
            }
        }
        let load = self.load_program()?;
        self.host_of_switches(&load)?;
        self.host_of_forks(&load)?;
        self.sampling(&load)?;
        for (name, value, unit) in self.example("etw-system", "system_load", &["rundown", "500"])? {
            self.add(&format!("system: {name}"), value, unit, Goal::AtMost(150.0), "system");
        }
        Ok(())
    }

    /// The load, with frame pointers: without them, `perf record -g` stores one frame of each stack.
    fn load_program(&self) -> Result<PathBuf> {
        let built = Command::new(cargo())
            .args(["rustc", "--release", "--locked", "--quiet", "--package", "etw-system"])
            .args(["--example", "system_load", "--", "-C", "force-frame-pointers=yes"])
            .current_dir(root())
            .status()?;
        if !built.success() {
            return Err("the example `system_load` was not built".into());
        }
        let load = self.folder.join("system_load");
        // The example is built again without them where others run it.
        std::fs::copy(root().join("target/release/examples/system_load"), &load)?;
        Ok(load)
    }

    /// Starts `etw record` and waits until it records. `unwinds`: stacks are unwound without frame pointers.
    fn start_host(&self, arguments: &[&str], unwinds: bool) -> Result<Recorder> {
        let mut command = Command::new(&self.etw);
        command.args(["record", "--force", "--json", "-o"]).arg(self.folder.join("system.etl"));
        // A daemon keeps the environment in which it was started.
        let folder = self.folder.join(if unwinds { "system" } else { "system-by-pointers" });
        std::fs::create_dir_all(&folder)?;
        command.args(arguments).env("ETW_RUNTIME_DIR", &folder);
        command.env("ETW_SYSTEM_UNWIND", if unwinds { "1" } else { "0" });
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut messages = BufReader::new(child.stderr.take().ok_or("no messages")?);
        let mut line = String::new();
        while messages.read_line(&mut line)? > 0 && !line.contains("recording") {}
        std::thread::sleep(Duration::from_millis(500));
        Ok(Recorder { process: child, folder: Some(folder), _messages: Some(messages) })
    }

    fn during(recorder: Option<Recorder>, load: &PathBuf, words: &[&str]) -> Result<Recorded> {
        let before = recorder.as_ref().map_or(0.0, Recorder::cpu);
        let output = Command::new(load).args(words).stderr(Stdio::inherit()).output()?;
        // The last records come within the host's delay.
        std::thread::sleep(Duration::from_millis(100));
        let cpu = recorder.as_ref().map_or(0.0, Recorder::cpu) - before;
        let summary = recorder.map_or(Ok(Value::Null), Recorder::end)?;
        Ok(Recorded { load: serde_json::from_slice(&output.stdout)?, cpu, summary })
    }

    /// 300,000 switches a second on all processors. Gaps are of two kinds: some kernels never show how certain threads leave their
    /// CPU, and no recorder can have these switches. The rest is our loss.
    fn host_of_switches(&mut self, load: &PathBuf) -> Result<()> {
        let seconds = self.switch_seconds.to_string();
        let host = self.start_host(&["--system", "cswitch", "--stack", "none"], true)?;
        let recorded = Self::during(Some(host), load, &["switches", "300000", &seconds])?;
        let (load, summary) = (&recorded.load, &recorded.summary);
        let events = number(summary, "events").max(1.0);
        let lost = number(summary, "lost");
        let Chains { switches, gaps_behind_unseen, gaps_behind_others, unmarked_gaps, .. } =
            chains(&self.folder.join("system.etl"))?;
        let (unseen, others) = (gaps_behind_unseen as f64, gaps_behind_others as f64);
        let none = Goal::AtMost(0.0);
        for (name, value, goal) in [
            ("switches of the load", number(load, "switches"), Goal::None),
            ("switches stored", switches as f64, Goal::None),
            ("lost, as the session counts", lost, Goal::None),
            ("gaps behind threads that the kernel never shows leave", unseen, Goal::None),
            ("other gaps", others, none),
            ("gaps that no record of the trace marks", unmarked_gaps as f64, none),
            // The session counts each gap once.
            ("lost beside the first kind of gaps", (lost - unseen).max(0.0), none),
        ] {
            let name = format!("system: 300,000 switches/s for {seconds} s, {name}");
            self.add(&name, value, Unit::Events, goal, "system");
        }
        let of = |name: &str| format!("system: 300,000 switches/s for {seconds} s, {name}");
        let cpu = recorded.cpu / number(load, "switches").max(1.0);
        self.add(&of("host's CPU a switch"), cpu, Unit::Nanoseconds, Goal::AtMost(150.0), "system");
        let bytes = number(summary, "bytes") / events;
        self.add(&of("file a switch"), bytes, Unit::Bytes, Goal::AtMost(48.0), "system");
        Ok(())
    }

    /// 10,000 forks a second, as far as the machine makes them; then the host's memory while they go on.
    fn host_of_forks(&mut self, load: &PathBuf) -> Result<()> {
        let host = self.start_host(&["--system", "process,thread,img", "--stack", "none"], true)?;
        let Recorded { load: done, .. } = Self::during(None, load, &["forks", "10000", "5"])?;
        let rate = number(&done, "forks") / number(&done, "seconds").max(1.0);
        // The load stops at the rate that it is asked for, and its last batch may be short of its due.
        self.add("system: forks a second", rate, Unit::Events, Goal::AtLeast(9900.0), "system");
        let first = host.resident();
        let seconds = if self.full { "600" } else { "20" };
        Self::during(None, load, &["forks", "10000", seconds])?;
        let grown = host.resident().saturating_sub(first) as f64 / f64::from(1 << 20);
        let summary = host.end()?;
        let name = "system: forks at that rate, lost";
        self.add(name, number(&summary, "lost"), Unit::Events, Goal::AtMost(0.0), "system");
        let name = format!("system: memory that the host gained in {seconds} s of forks");
        self.add(&name, grown, Unit::Mebibytes, Goal::AtMost(4.0), "system");
        Ok(())
    }

    /// The processor time that sampling takes, ours and that of `perf record -g` in turn.
    fn sampling(&mut self, load: &PathBuf) -> Result<()> {
        /// Rounds beside those that were asked for.
        const MORE: usize = 2;
        let cpus = std::thread::available_parallelism()?.get() as f64;
        let has_perf = Command::new("perf").arg("--version").output().is_ok();
        for rate in RATES {
            let mut rounds = SAMPLERS.map(|_| Vec::new());
            for round in 0..self.runs + MORE {
                for turn in 0..SAMPLERS.len() {
                    // Each one comes first in some round.
                    let at = (turn + round) % SAMPLERS.len();
                    if SAMPLERS[at].perf_option().is_some() && !has_perf {
                        continue;
                    }
                    let recorder = self.start_sampler(SAMPLERS[at], rate)?;
                    let one = Self::during(recorder, load, &["interrupted", BURST])?;
                    rounds[at].push(taken(&one, BURST.parse()?, cpus) * 100.0);
                }
            }
            let [alone, whole, plain, peer, copying_peer] = rounds;
            let alone = Middle::of(alone).median;
            let added = |one: &[f64]| Middle::of(one.iter().map(|one| one - alone));
            let rate = rate.0;
            for (name, one) in [("", &whole), (", by frame pointers", &plain)] {
                let name = format!("system: sampling at {rate} Hz with stacks{name}, added");
                self.add_middle(&name, added(one), Unit::Percent, Goal::None, "system");
                if has_perf {
                    let name = format!("{name} / by perf record -g");
                    let ratio = Middle::of_ratios(one, &peer, alone);
                    self.add_middle(&name, ratio, Unit::Ratio, Goal::AtMost(1.1), "system");
                }
            }
            if has_perf {
                let name = format!("system: perf record -g at {rate} Hz, added");
                self.add_middle(&name, added(&peer), Unit::Percent, Goal::None, "system");
                let name = format!("system: perf record --call-graph dwarf at {rate} Hz, added");
                self.add_middle(&name, added(&copying_peer), Unit::Percent, Goal::None, "system");
                let name = format!(
                    "system: sampling at {rate} Hz with stacks, added / by perf record --call-graph dwarf"
                );
                let ratio = Middle::of_ratios(&whole, &copying_peer, alone);
                self.add_middle(&name, ratio, Unit::Ratio, Goal::None, "system");
            }
        }
        std::io::stdout().flush()?;
        Ok(())
    }

    fn start_sampler(&self, sampler: Sampler, rate: (u32, &str)) -> Result<Option<Recorder>> {
        let (rate, distance) = rate;
        let flags = ["--system", "profile", "--sample-interval", distance];
        Ok(match sampler {
            Sampler::None => None,
            Sampler::Unwinding => Some(self.start_host(&flags, true)?),
            Sampler::ByFramePointers => Some(self.start_host(&flags, false)?),
            Sampler::Perf | Sampler::PerfDwarf => {
                let mut command = Command::new("perf");
                command.args(["record", "-q", "-a", "-e", "cpu-clock", "-F", &rate.to_string()]);
                command.args(sampler.perf_option()).arg("-o").arg(self.folder.join("system.perf"));
                command.stdout(Stdio::null()).stderr(Stdio::null());
                let mut process = command.spawn()?;
                std::thread::sleep(Duration::from_secs(1));
                if let Some(status) = process.try_wait()? {
                    return Err(format!("{command:?} ended with {status}").into());
                }
                Some(Recorder { process, folder: None, _messages: None })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_recording_takes_the_time_of_interrupts_and_of_its_processes() {
        let load = json!({ "own_ns": 3.6e9, "added_ns": 0.4e9 });
        let one = Recorded { load, cpu: 0.2e9, summary: Value::Null };
        // A tenth of the load's time, and 0.2 of two processors in two seconds.
        assert!((taken(&one, 2.0, 2.0) - 0.15).abs() < 1e-9);
    }
}
