//! What events cost: the example `cost` of crate `etw`, which measures ours and the floor in turn.

use super::Bench;
use super::report::{Figure, Goal, Unit};
use crate::{Result, cargo, root};
use std::process::{Command, Stdio};

/// The goals, by the name that the example gives the figure.
const GOALS: [(&str, Goal); 7] = [
    ("disabled / empty loop turn", Goal::AtMost(1.1)),
    ("filtered by keyword", Goal::AtMost(2.0)),
    ("enabled / floor", Goal::AtMost(1.25)),
    ("two threads' rate / one thread's", Goal::AtLeast(1.9)),
    ("lost while measuring", Goal::AtMost(0.0)),
    ("offered / what the file takes, one thread", Goal::AtLeast(0.7)),
    ("offered / what the file takes, two threads", Goal::AtLeast(0.7)),
];

impl Bench {
    /// `seconds`: how long each offered rate is held; `None` leaves the search out.
    pub fn write(&mut self, seconds: Option<u32>, only: &str) -> Result<()> {
        let mut command = Command::new(cargo());
        command.current_dir(root()).stderr(Stdio::inherit());
        command.args(["run", "--release", "--locked", "--quiet", "--package", "etw"]);
        command.args(["--features", "session", "--example", "cost", "--"]);
        if let Some(seconds) = seconds {
            command.arg(seconds.to_string()).arg(self.folder.join("rate.etl"));
        }
        let output = command.output()?;
        if !output.status.success() {
            return Err("the example `cost` failed".into());
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
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
                other => return Err(format!("a figure in {other:?}").into()),
            };
            let goal =
                GOALS.iter().find(|(goal, _)| *goal == name).map_or(Goal::None, |(_, goal)| *goal);
            let name = format!("write: {name}");
            self.report.add(&Figure { name: &name, best: value, median: None, unit, goal, only });
        }
        Ok(())
    }
}
