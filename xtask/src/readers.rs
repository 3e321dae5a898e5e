//! `cargo xtask readers`: kills a writer of event logs at random moments, and reads the logs with four readers that are not ours.

use crate::{Result, root};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

#[derive(clap::Args)]
pub struct Arguments {
    /// Logs, in each of which a writer is killed up to four times
    #[arg(long, default_value_t = 100)]
    kills: u32,
    /// The seed of the moments
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Readers, their packages, and the module that each package has.
const READERS: &[(&str, &str)] = &[
    ("evtx", "evtx"),
    ("libevtx", "libevtx-python"),
    ("python-evtx", "python-evtx"),
    ("dissect", "dissect.eventlog"),
];

/// A log, and the last id that its writer reported as written.
struct Written {
    path: PathBuf,
    committed: u64,
    kills: u32,
    is_circular: bool,
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let python = root().join("target/readers/bin/python");
    let installed = install(&python)?;
    if installed.is_empty() {
        println!(
            "skipped: no reader could be installed (Python with venv, and a package index, are needed)"
        );
        return Ok(());
    }
    for arguments in [&["-p", "etw-evtx", "--example", "write_log"][..], &["-p", "etw-cli"]] {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--locked", "--quiet"]).args(arguments).current_dir(root());
        if !build.status()?.success() {
            return Err(format!("{} was not built", arguments[arguments.len() - 1]).into());
        }
    }
    let writer = root().join("target/debug/examples/write_log");
    let folder = root().join(format!("target/readers/logs-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut random = Random(arguments.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut logs = Vec::new();
    let mut kills = 0;
    while kills < arguments.kills {
        let written = write(&writer, &folder, logs.len(), &mut random, arguments.kills - kills)?;
        kills += written.kills;
        let backup = if logs.len().is_multiple_of(4) { Some(back_up(&written)?) } else { None };
        logs.push(written);
        logs.extend(backup);
    }
    let checked = check(&python, &installed, &mut logs);
    std::fs::remove_dir_all(&folder)?;
    checked?;
    println!(
        "{kills} kills, {} logs and backups, seed {}: each has its records in {} readers",
        logs.len(),
        arguments.seed,
        installed.len()
    );
    Ok(())
}

/// Makes the virtual environment. Returns the readers that it has.
fn install(python: &Path) -> Result<Vec<&'static str>> {
    let folder = root().join("target/readers");
    if !python.exists() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status();
        if !made.is_ok_and(|status| status.success()) {
            return Ok(Vec::new());
        }
    }
    let install = |package: &str| {
        Command::new(python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package])
            .status()
            .is_ok_and(|status| status.success())
    };
    if !install("lxml") {
        return Ok(Vec::new());
    }
    let mut installed = Vec::new();
    for (reader, package) in READERS {
        match install(package) {
            true => installed.push(*reader),
            false => println!("skipped: {package} cannot be installed"),
        }
    }
    Ok(installed)
}

/// Writes a log; the writer is killed some times, and continues after each kill but the last.
fn write(
    writer: &Path,
    folder: &Path,
    number: usize,
    random: &mut Random,
    kills: u32,
) -> Result<Written> {
    let path = folder.join(format!("{number}.evtx"));
    let is_circular = number.is_multiple_of(8);
    // Logs are small, because the slowest reader takes milliseconds for a record: two chunks wrap within a few hundred records.
    let (size, retention) =
        if is_circular { ("135168", "overwrite") } else { ("67108864", "keep") };
    let mut committed = 0;
    let kills = kills.min(1 + random.below(4) as u32);
    for _ in 0..kills {
        let mut child = Command::new(writer)
            .arg(&path)
            .args([size, retention])
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().ok_or("the writer has no output")?;
        let (begun, has_begun) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut last = 0;
            let mut lines = BufReader::new(out).lines();
            while let Some(Ok(line)) = lines.next() {
                last = line.parse::<u64>().unwrap_or(last);
                // Nobody listens after the first line.
                let _ = begun.send(());
            }
            last
        });
        // Each kill meets a writer at work.
        has_begun.recv()?;
        std::thread::sleep(Duration::from_micros(random.below(if is_circular {
            40_000
        } else {
            1_500
        })));
        child.kill()?;
        child.wait()?;
        let last = reader.join().map_err(|_| "the reader of the writer's output failed")?;
        committed = committed.max(last);
    }
    Ok(Written { path, committed, kills, is_circular })
}

/// A copy of a log by `etw log export`.
fn back_up(log: &Written) -> Result<Written> {
    let path = log.path.with_extension("backup.evtx");
    let exported = Command::new(root().join("target/debug/etw"))
        .args(["log", "export", "-o"])
        .args([&path, &log.path])
        .output()?;
    if !exported.status.success() {
        return Err(String::from_utf8_lossy(&exported.stderr).into_owned().into());
    }
    Ok(Written { path, kills: 0, ..*log })
}

fn check(python: &Path, readers: &[&str], logs: &mut [Written]) -> Result<()> {
    for log in logs.iter() {
        println!(
            "{}: {} kills, {} records written{}",
            log.path.file_name().unwrap_or_default().to_string_lossy(),
            log.kills,
            log.committed,
            if log.is_circular { ", circular" } else { "" }
        );
    }
    for reader in readers {
        let script = root().join("xtask/src/readers/check.py");
        let output = Command::new(python)
            .arg(script)
            .arg(reader)
            .args(logs.iter().map(|log| &log.path))
            .output()?;
        if !output.status.success() {
            return Err(format!("{reader}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let (mut records, mut uncounted) = (0, 0);
        for (line, log) in text.lines().zip(logs.iter()) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [_, count, first, last, whole, behind] = fields[..] else {
                return Err(line.into());
            };
            let (first, last) = (first.parse::<u64>()?, last.parse::<u64>()?);
            if whole != "whole" || last < log.committed || !log.is_circular && first > 1 {
                return Err(format!("{reader}: {line}; written {}", log.committed).into());
            }
            records += count.parse::<u64>()?;
            uncounted += behind.parse::<u64>()?;
        }
        if text.lines().count() != logs.len() {
            return Err(format!("{reader}: {} of {} logs", text.lines().count(), logs.len()).into());
        }
        println!(
            "{reader}: {records} records, values and order as written; {uncounted} of them were written behind the end that their \
             chunk's header names when a kill came"
        );
    }
    Ok(())
}
