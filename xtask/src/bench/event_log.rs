//! The group `evtx`: event logs, beside the `evtx` crate.

use super::report::{Figure, Goal, Report, Unit};
use crate::{Result, root};
use std::collections::HashMap;
use std::process::Command;

/// Builds and runs the program in `bench/evtx`, which measures both readers in turn.
pub fn run(report: &mut Report, runs: usize) -> Result<()> {
    let folder = root().join("target/bench");
    std::fs::create_dir_all(&folder)?;
    let target = folder.join("evtx");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(root().join("bench/evtx/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        report.skip("event logs", "bench/evtx was not built: the evtx crate cannot be fetched");
        return Ok(());
    }
    let output = Command::new(target.join("release/etw-bench-evtx"))
        .arg(folder.join("bench.evtx"))
        .arg(runs.to_string())
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    let values: HashMap<&str, f64> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect();
    let value = |name: &str| values.get(name).copied().unwrap_or(f64::NAN);
    let mut add = |name: &str, best: f64, unit: Unit, goal: Goal| {
        report.add(&Figure { name, best, median: None, spread: None, unit, goal, only: "evtx" });
    };
    let millions = 1e-6;
    let ours = value("json");
    add("event log: JSON, one thread", ours * millions, Unit::MillionsPerSecond, Goal::None);
    let peer = value("peer_json");
    add("event log: JSON, evtx crate", peer * millions, Unit::MillionsPerSecond, Goal::None);
    let chunks = value("peer_chunks");
    add("event log: JSON, its own command", chunks * millions, Unit::MillionsPerSecond, Goal::None);
    add("event log: JSON, ours to the evtx crate", ours / peer, Unit::Ratio, Goal::AtLeast(2.0));
    let two = value("json_two_threads") / ours;
    add("event log: JSON, two threads to one", two, Unit::Ratio, Goal::AtLeast(1.5));
    for (name, figure) in [
        ("by_id", "event log: query by an id of every chunk to all"),
        ("by_rare_id", "event log: query by a rare id to all as JSON"),
        ("by_time", "event log: query by time to all as JSON"),
        ("by_record_id", "event log: query by record number to all"),
    ] {
        add(figure, value(name) / ours, Unit::Ratio, Goal::AtLeast(10.0));
    }
    let read = value("read") / ours;
    add("event log: chunks read, not looked at", read, Unit::Ratio, Goal::None);
    let all = value("plain_json");
    for (name, figure) in [
        ("plain_by_id", "event log without summaries: query by id to all"),
        ("plain_by_time", "event log without summaries: query by time to all"),
        ("plain_read", "event log without summaries: chunks read"),
    ] {
        add(figure, value(name) / all, Unit::Ratio, Goal::None);
    }
    let write = value("write_ns");
    add("event log: a record written", write, Unit::Nanoseconds, Goal::AtMost(5000.0));
    Ok(())
}
