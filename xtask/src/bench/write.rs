//! The cost of events and the rates without loss: the examples `cost` and `rate` of `openetw`, which measure ours and the
//! floor in turn, then LTTng-UST's program.

use super::Bench;
use super::lttng::{Lttng, Writers};
use super::report::{Figure, Goal, Unit};
use super::spread::Middle;
use crate::{Result, cargo, root};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// Goals by the example's name of the figure.
const GOALS: [(&str, Goal); 9] = [
    ("disabled / empty loop turn", Goal::AtMost(1.1)),
    ("filtered by keyword", Goal::AtMost(2.0)),
    ("enabled / floor", Goal::AtMost(1.25)),
    ("latency p99.9", Goal::AtMost(100.0)),
    ("latency p99.9 / the floor's", Goal::AtMost(1.25)),
    ("two threads' rate / one thread's", Goal::AtLeast(1.9)),
    ("lost while measuring", Goal::AtMost(0.0)),
    ("offered / what file and core take, one thread", Goal::AtLeast(0.7)),
    ("offered / what file and core take, two threads", Goal::AtLeast(0.7)),
];

/// Ours and theirs are measured in turn this often.
const TURNS: usize = 3;

impl Bench {
    pub fn write(&mut self) -> Result<()> {
        let only = "write";
        let lttng = self.lttng("write: LTTng-UST");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..if lttng.is_some() { TURNS } else { 1 } {
            ours.push(self.example("openetw", "cost", &[])?);
            if let Some(lttng) = &lttng {
                theirs.push(lttng.cost()?);
            }
        }
        for (name, _, unit) in &ours[0] {
            let all = ours.iter().flatten().filter(|(other, _, _)| other == name);
            self.example_figure(name, median(all.map(|(_, value, _)| *value)), *unit, only);
        }
        for (name, goal) in [
            ("enabled, one thread", Goal::AtLeast(6.0)),
            ("enabled, one thread, host on any processor", Goal::None),
            ("enabled, two threads, each", Goal::None),
            ("latency p50", Goal::None),
            ("latency p99", Goal::None),
            ("latency p99.9", Goal::AtLeast(1.0)),
        ] {
            if theirs.is_empty() {
                break;
            }
            let all = ours.iter().flatten().filter(|(other, _, _)| other == name);
            let ours = median(all.map(|(_, value, _)| *value));
            let their_name = name.split(", host").next().unwrap_or(name);
            let their = median(theirs.iter().filter_map(|figures| figures[their_name].as_f64()));
            let title = format!("write: LTTng-UST, {name}");
            self.add(&title, their, Unit::Nanoseconds, Goal::None, only);
            // Differences below a nanosecond are below the clock's resolution.
            self.add(&format!("{title} / ours"), their / ours.max(1.0), Unit::Ratio, goal, only);
        }
        Ok(())
    }

    /// The log sink.
    pub fn log(&mut self) -> Result<()> {
        for (name, value, unit) in self.example("etw-log-sink", "log_cost", &[])? {
            let goal = match name.as_str() {
                "log sink: not enabled" => Goal::AtMost(1.5),
                "log sink: enabled, beyond formatting" => Goal::AtMost(60.0),
                "custom fields: custom / binary" => Goal::AtMost(1.05),
                _ => Goal::None,
            };
            self.add(&name, value, unit, goal, "log");
        }
        Ok(())
    }

    /// Global sessions: programs, host and readers.
    pub fn global(&mut self) -> Result<()> {
        let etw = self.etw.to_str().ok_or("a folder whose name is not Unicode")?.to_owned();
        for (name, value, unit) in self.example("etwd", "global_cost", &[&etw])? {
            let goal = match name.as_str() {
                "global: global / private" => Goal::AtMost(1.1),
                "global: eight sessions / one" => Goal::AtMost(1.5),
                "global: lost while measuring" => Goal::AtMost(0.0),
                "global: host's CPU, a stored event, memory" => Goal::AtMost(60.0),
                "global: host's CPU, a stored event, file" => Goal::AtMost(60.0),
                "global: write to etw tail's line, p50" => Goal::AtMost(5.0),
                "global: write to etw tail's line, p99" => Goal::AtMost(20.0),
                "global: events of 500 programs, of 500" => Goal::AtLeast(500.0),
                "global: host's CPU with 500 quiet programs" => Goal::AtMost(1.0),
                "global: host's memory with 500 programs" => Goal::AtMost(16.0),
                _ => Goal::None,
            };
            self.add(&name, value, unit, goal, "global");
        }
        Ok(())
    }

    /// The highest rate at which two programs lose nothing, with one session to the disk; beside it LTTng-UST's, and that of a program
    /// with a private session.
    pub fn lossless(&mut self) -> Result<()> {
        let only = "lossless";
        let seconds = if self.full { 10 } else { 3 };
        let file = self.folder.join("global-rate.etl").display().to_string();
        // A run that was killed leaves its unfinished trace, which a session does not replace.
        for left in [file.clone(), format!("{file}.part")] {
            match std::fs::remove_file(left) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        let (mut plain, mut compressed, mut auto) = (f64::NAN, f64::NAN, f64::NAN);
        for (name, value, unit) in
            self.example("etwd", "global_cost", &["rate", &seconds.to_string(), &file])?
        {
            let goal = match name.as_str() {
                "lossless: paced programs / private session" => Goal::AtLeast(0.9),
                _ => Goal::None,
            };
            match name.as_str() {
                "lossless: two paced programs" => plain = value,
                "lossless: two paced programs, compressed" => compressed = value,
                "lossless: two paced programs, --compress=auto" => auto = value,
                _ => {}
            }
            self.add(&name, value, unit, goal, only);
        }
        let Some(lttng) = self.lttng("lossless: LTTng-UST") else { return Ok(()) };
        let (theirs, _) = highest_of(&lttng, Writers::Programs(2), seconds)?;
        let name = "lossless: LTTng-UST, two paced programs";
        self.add(name, theirs / 1e6, Unit::MillionsPerSecond, Goal::None, only);
        for (ours, form) in [(plain, ""), (compressed, ", compressed"), (auto, ", --compress=auto")]
        {
            let name = format!("lossless: ours / LTTng-UST's, events/s, two programs{form}");
            self.add(&name, ours * 1e6 / theirs, Unit::Ratio, Goal::AtLeast(1.0), only);
        }
        Ok(())
    }

    /// The layer for `tracing`.
    pub fn tracing(&mut self) -> Result<()> {
        for (name, value, unit) in self.example("etw-tracing", "tracing_cost", &[])? {
            let goal = match name.as_str() {
                "tracing: the same / without a subscriber" => Goal::AtMost(1.1),
                "tracing: an event of two fields" => Goal::AtMost(120.0),
                "tracing: ours / fmt" => Goal::AtMost(0.25),
                _ => Goal::None,
            };
            self.add(&name, value, unit, goal, "tracing");
        }
        Ok(())
    }

    /// From C, through the library.
    pub fn c(&mut self) -> Result<()> {
        let folder = self.folder.clone();
        let Some(output) = c_program("bench/c/cost.c", &folder)? else {
            self.report.skip("c", "no C compiler");
            return Ok(());
        };
        for (name, value, unit) in figures(&output)? {
            let goal = match name.as_str() {
                "C: TraceLoggingWrite, disabled / empty loop turn" => Goal::AtMost(1.1),
                "C: log sink, not enabled" => Goal::AtMost(2.5),
                "C: log sink, enabled, beyond formatting" => Goal::AtMost(60.0),
                "C: EventWriteTransfer / floor" => Goal::AtMost(1.4),
                "C: TraceMessage / EventWriteTransfer" => Goal::AtMost(1.5),
                // Rust's ratio to the same floor, plus a tenth.
                "C: TraceLoggingWrite / floor" => Goal::AtMost(1.375),
                "C: lost while measuring" => Goal::AtMost(0.0),
                _ => Goal::None,
            };
            self.add(&name, value, unit, goal, "c");
        }
        Ok(())
    }

    /// Offers each rate for `seconds`.
    pub fn offered_rates(&mut self, seconds: u32) -> Result<()> {
        let only = "rate --full";
        let path = self.folder.join("rate.etl").display().to_string();
        let figures = self.example("openetw", "rate", &[&seconds.to_string(), &path])?;
        let mut ours = HashMap::new();
        for (name, value, unit) in figures {
            self.example_figure(&name, value, unit, only);
            ours.insert(name, value);
        }
        let Some(lttng) = self.lttng("rate: LTTng-UST") else { return Ok(()) };
        for (threads, s) in [(1, "one thread"), (2, "two threads")] {
            let (good, bytes) = highest_of(&lttng, Writers::Threads(threads), seconds)?;
            let title = |what: &str| format!("rate: LTTng-UST, {what}, {s}");
            let add = [
                ("offered without loss", good / 1e6, Unit::MillionsPerSecond),
                ("bytes an event", bytes, Unit::Bytes),
                ("to its files", good * bytes / 1e9, Unit::GigabytesPerSecond),
            ];
            for (what, value, unit) in add {
                self.add(&title(what), value, unit, Goal::None, only);
            }
            for form in ["", ", compressed"] {
                if let Some(our) = ours.get(&format!("offered without loss, {s}{form}")) {
                    let name = format!("rate: ours / LTTng-UST's, events/s, {s}{form}");
                    self.add(&name, our * 1e6 / good, Unit::Ratio, Goal::None, only);
                }
            }
        }
        Ok(())
    }

    fn lttng(&mut self, name: &str) -> Option<Lttng> {
        match Lttng::start(&self.folder) {
            Ok(lttng) => Some(lttng),
            Err(why) => {
                self.report.skip(name, &why.to_string());
                None
            }
        }
    }

    pub fn add(&mut self, name: &str, value: f64, unit: Unit, goal: Goal, only: &str) {
        self.report.add(&Figure {
            name,
            best: value,
            median: None,
            spread: None,
            unit,
            goal,
            only,
        });
    }

    /// A figure that is the median of rounds.
    pub fn add_middle(&mut self, name: &str, middle: Middle, unit: Unit, goal: Goal, only: &str) {
        let Middle { median: best, spread } = middle;
        let spread = Some(spread);
        self.report.add(&Figure { name, best, median: None, spread, unit, goal, only });
    }

    fn example_figure(&mut self, name: &str, value: f64, unit: Unit, only: &str) {
        let goal = GOALS.iter().find(|(goal, _)| *goal == name).map_or(Goal::None, |(_, g)| *g);
        let group = only.split(' ').next().unwrap_or(only);
        self.add(&format!("{group}: {name}"), value, unit, goal, only);
    }

    /// Runs an example and returns the figures that it prints.
    pub fn example(
        &self,
        package: &str,
        name: &str,
        arguments: &[&str],
    ) -> Result<Vec<(String, f64, Unit)>> {
        figures(&self.example_output(package, name, arguments)?)
    }

    /// Runs an example and returns what it prints.
    pub fn example_output(&self, package: &str, name: &str, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut command = Command::new(cargo());
        command.current_dir(root()).stderr(Stdio::inherit());
        command.args(["run", "--release", "--locked", "--quiet", "--package", package]);
        if package == "openetw" {
            command.args(["--features", "session"]);
        }
        command.args(["--example", name, "--"]).args(arguments);
        let output = command.output()?;
        if !output.status.success() {
            return Err(format!("the example `{name}` failed").into());
        }
        Ok(output.stdout)
    }
}

/// Compiles a measuring program of C against the library, with the headers in `folder`, and returns what it prints. `None`: there is no
/// C compiler.
pub fn c_program(source: &str, folder: &Path) -> Result<Option<Vec<u8>>> {
    let built = Command::new(cargo())
        .args(["build", "--release", "--locked", "--quiet", "--package", "etw-capi"])
        .args(["--message-format=json"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&built.stdout).into_owned();
    let library = text
        .split('"')
        .find(|part| part.ends_with("/libetw.a"))
        .ok_or("the library was not built")?;
    let program = folder.join("c_cost");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root().join("crates/etw-capi/include"))
        .arg("-I")
        .arg(folder)
        .arg(root().join(source))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .status();
    match compiled {
        Ok(status) if status.success() => {}
        Ok(_) => return Err(format!("{source} does not compile").into()),
        Err(_) => return Ok(None),
    }
    let output = Command::new(&program).output()?;
    match output.status.success() {
        true => Ok(Some(output.stdout)),
        false => Err(format!("{source} failed").into()),
    }
}

/// The highest rate at which LTTng's program discards nothing, and bytes an event.
fn highest_of(lttng: &Lttng, writers: Writers, seconds: u32) -> Result<(f64, f64)> {
    let (mut good, mut bad, mut bytes) = (0.0f64, 64e6, 0.0);
    while bad / good.max(1e5) > 1.04 && bad > 2e5 {
        let rate = if good == 0.0 { bad / 4.0 } else { (good * bad).sqrt() };
        let mut offered = lttng.offer(writers, rate, seconds)?;
        if offered.lost > 0 {
            // Other users of the machine make some attempts fail, as they do with ours.
            offered = lttng.offer(writers, rate, seconds)?;
        }
        if offered.lost == 0 {
            good = offered.events as f64 / offered.seconds;
            bytes = offered.size as f64 / offered.events.max(1) as f64;
        } else {
            bad = rate;
        }
    }
    Ok((good, bytes))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Reads a program's output: a JSON object a line.
pub fn figures(text: &[u8]) -> Result<Vec<(String, f64, Unit)>> {
    let mut figures = Vec::new();
    for line in String::from_utf8_lossy(text).lines() {
        let figure: serde_json::Value = serde_json::from_str(line)?;
        let name = figure["name"].as_str().ok_or("a figure without a name")?;
        let value = figure["value"].as_f64().ok_or("a figure without a value")?;
        let unit = match figure["unit"].as_str() {
            Some("ns") => Unit::Nanoseconds,
            Some("x") => Unit::Ratio,
            Some("M/s") => Unit::MillionsPerSecond,
            Some("GB/s") => Unit::GigabytesPerSecond,
            Some("B") => Unit::Bytes,
            Some("events") => Unit::Events,
            Some("ms") => Unit::Milliseconds,
            Some("MiB") => Unit::Mebibytes,
            Some("percent") => Unit::Percent,
            other => return Err(format!("a figure in {other:?}").into()),
        };
        figures.push((name.to_owned(), value, unit));
    }
    Ok(figures)
}

/// The middles of figures, where a program prints the `rounds` of each: one for each of [`figures`].
pub fn middles(text: &[u8]) -> Result<Vec<Option<Middle>>> {
    let text = String::from_utf8_lossy(text);
    let middle = |line: &str| {
        let figure: serde_json::Value = serde_json::from_str(line)?;
        let rounds = figure["rounds"].as_array();
        Ok(rounds.map(|rounds| Middle::of(rounds.iter().filter_map(serde_json::Value::as_f64))))
    };
    text.lines().map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_rounds_have_a_middle() {
        let text = b"{\"name\":\"a\",\"value\":3,\"unit\":\"ns\",\"rounds\":[1.0,3,4,5,2]}
{\"name\":\"b\",\"value\":7,\"unit\":\"x\"}\n";
        let names: Vec<String> = figures(text).unwrap().into_iter().map(|one| one.0).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(middles(text).unwrap(), [Some(Middle { median: 3.0, spread: 1.0 }), None]);
        assert!(middles(b"lost").is_err());
    }
}
