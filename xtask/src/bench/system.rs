//! Recording a Linux system: the cost of a switch, the host's processor time, sampling beside `perf record`, loss and memory.

use super::Bench;
use super::report::{Goal, Unit};
use crate::{Result, cargo, root};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// Nanoseconds of a tick in `/proc/PID/stat`.
const TICK: f64 = 1e7;
/// Rates of samples, with the distance between two samples.
const RATES: [(u32, &str); 3] = [(1000, "1ms"), (4000, "250us"), (10_000, "100us")];

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

    fn cpu(&self) -> f64 {
        let of = |process: &u32| {
            let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
            let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
            let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
            Some((ticks(11)? + ticks(12)?) * TICK)
        };
        self.processes().iter().filter_map(of).sum()
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
        for (name, value, unit) in self.example("etw-system", "switch_cost", &[])? {
            let goal = match name.as_str() {
                "added by BPF programs / by perf record" => Goal::AtMost(0.3),
                "added by perf rings / by perf record" => Goal::AtMost(1.05),
                _ => Goal::None,
            };
            self.add(&format!("system: {name}"), value, unit, goal, "system");
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

    fn load_program(&self) -> Result<PathBuf> {
        let built = Command::new(cargo())
            .args(["build", "--release", "--locked", "--quiet", "--package", "etw-system"])
            .args(["--example", "system_load"])
            .current_dir(root())
            .status()?;
        if !built.success() {
            return Err("the example `system_load` was not built".into());
        }
        Ok(root().join("target/release/examples/system_load"))
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

    /// 300,000 switches a second on all processors.
    fn host_of_switches(&mut self, load: &PathBuf) -> Result<()> {
        let seconds = if self.full { "60" } else { "10" };
        let host = self.start_host(&["--system", "cswitch", "--stack", "none"], true)?;
        let recorded = Self::during(Some(host), load, &["switches", "300000", seconds])?;
        let (load, summary) = (&recorded.load, &recorded.summary);
        let events = number(summary, "events").max(1.0);
        let of = |name: &str| format!("system: 300,000 switches/s for {seconds} s, {name}");
        let cpu = recorded.cpu / number(load, "switches").max(1.0);
        self.add(&of("switches"), number(load, "switches"), Unit::Events, Goal::None, "system");
        self.add(&of("stored"), events, Unit::Events, Goal::None, "system");
        // Gaps that the kernel itself leaves are in the number: see the notes on the machine.
        self.add(&of("lost"), number(summary, "lost"), Unit::Events, Goal::None, "system");
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
        self.add("system: forks a second", rate, Unit::Events, Goal::None, "system");
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

    /// The processor time that a recording takes: what a turn of the load costs more, and the recorder's part of all processors. Beside it,
    /// the part that `perf record -g` takes.
    fn sampling(&mut self, load: &PathBuf) -> Result<()> {
        const SPIN: [&str; 2] = ["spin", "3"];
        const NANOSECONDS: f64 = 3e9;
        let cpus = std::thread::available_parallelism()?.get() as f64;
        let turn =
            |one: &Recorded| number(&one.load, "cpu_ns") / number(&one.load, "turns").max(1.0);
        let cost =
            |one: &Recorded, alone: f64| turn(one) / alone - 1.0 + one.cpu / (NANOSECONDS * cpus);
        let data = self.folder.join("system.perf");
        let has_perf = Command::new("perf").arg("--version").output().is_ok();
        for (rate, distance) in RATES {
            let [mut alone, mut whole, mut plain, mut peer] = [f64::MAX; 4];
            for _ in 0..self.runs.min(3) {
                alone = alone.min(turn(&Self::during(None, load, &SPIN)?));
                let flags = ["--system", "profile", "--sample-interval", distance];
                for (unwinds, best) in [(true, &mut whole), (false, &mut plain)] {
                    let host = self.start_host(&flags, unwinds)?;
                    *best = best.min(cost(&Self::during(Some(host), load, &SPIN)?, alone));
                }
                if has_perf {
                    let mut command = Command::new("perf");
                    command.args(["record", "-q", "-a", "-g", "-e", "cpu-clock", "-F"]);
                    command.arg(rate.to_string()).arg("-o").arg(&data);
                    command.stdout(Stdio::null()).stderr(Stdio::null());
                    let recorder =
                        Recorder { process: command.spawn()?, folder: None, _messages: None };
                    std::thread::sleep(Duration::from_secs(1));
                    peer = peer.min(cost(&Self::during(Some(recorder), load, &SPIN)?, alone));
                }
            }
            for (name, one) in [("", whole), (", by frame pointers", plain)] {
                let name = format!("system: sampling at {rate} Hz with stacks{name}, added");
                self.add(&name, one * 100.0, Unit::Percent, Goal::None, "system");
                if has_perf {
                    let name = format!("{name} / by perf record -g");
                    self.add(&name, one / peer, Unit::Ratio, Goal::AtMost(1.1), "system");
                }
            }
            if has_perf {
                let name = format!("system: perf record -g at {rate} Hz, added");
                self.add(&name, peer * 100.0, Unit::Percent, Goal::None, "system");
            }
        }
        std::io::stdout().flush()?;
        Ok(())
    }
}
