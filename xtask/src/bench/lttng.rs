//! LTTng-UST beside us: its own program with the same event, its own daemon and sessions.

use crate::{Result, root};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SESSION: &str = "openetw-bench";

/// The peer's program, built, and its running session daemon.
pub struct Lttng {
    program: PathBuf,
    home: PathBuf,
    /// The daemon that we started and have to end; `None` if one was running.
    daemon: Option<Child>,
}

/// The writers of a measurement.
#[derive(Clone, Copy)]
pub enum Writers {
    /// Threads of one program.
    Threads(u32),
    /// Programs with one thread each.
    Programs(u32),
}

/// The outcome of one offered rate.
pub struct Offered {
    pub events: u64,
    pub seconds: f64,
    /// Events that were discarded, or not offered in time.
    pub lost: u64,
    /// Bytes of the trace.
    pub size: u64,
}

impl Lttng {
    /// # Errors
    /// Names the part that is not installed.
    pub fn start(folder: &Path) -> Result<Lttng> {
        let home = folder.join("lttng");
        std::fs::create_dir_all(&home)?;
        let built = Command::new("make")
            .arg("-s")
            .arg(format!("OUT={}", home.display()))
            .current_dir(root().join("bench/lttng"))
            .stderr(Stdio::null())
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return Err("make, a C compiler or liblttng-ust-dev is not installed".into());
        }
        let mut peer = Lttng { program: home.join("peer"), home, daemon: None };
        if peer.list().is_none() {
            let daemon = Command::new("lttng-sessiond")
                .args(["--no-kernel", "--quiet"])
                .env("LTTNG_HOME", &peer.home)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|_| "lttng-tools is not installed")?;
            peer.daemon = Some(daemon);
            let end = Instant::now() + Duration::from_secs(10);
            while peer.list().is_none() {
                if Instant::now() > end {
                    return Err("lttng-sessiond does not answer".into());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(peer)
    }

    fn command(&self, arguments: &[&str]) -> std::io::Result<String> {
        let mut command = Command::new("lttng");
        command.args(arguments).env("LTTNG_HOME", &self.home).stdin(Stdio::null());
        let output = command.output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(std::io::Error::other(format!(
                "lttng {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
        }
    }

    /// Lists the daemon's sessions; `None` if it does not answer.
    fn list(&self) -> Option<String> {
        self.command(&["list"]).ok()
    }

    /// Runs `programs` copies of the program under a session of their own. Returns their figures, the number of discarded events,
    /// and the size of the trace.
    fn record(&self, programs: u32, arguments: &[&str]) -> Result<(Vec<Figures>, u64, u64)> {
        let trace = self.home.join("trace");
        let _ = self.command(&["destroy", SESSION]);
        let _ = std::fs::remove_dir_all(&trace);
        self.command(&["create", SESSION, &format!("--output={}", trace.display())])?;
        let result = self.record_here(programs, arguments);
        // Session and trace are removed after a failure, too.
        let _ = self.command(&["destroy", SESSION]);
        let size = size_of(&trace);
        let _ = std::fs::remove_dir_all(&trace);
        let (figures, discarded) = result?;
        Ok((figures, discarded, size))
    }

    fn record_here(&self, programs: u32, arguments: &[&str]) -> Result<(Vec<Figures>, u64)> {
        let channel = ["enable-channel", "-u", "-s", SESSION, "--subbuf-size=4M", "--num-subbuf=8"];
        self.command(&[&channel[..], &["--discard", "events"]].concat())?;
        self.command(&[
            "enable-event",
            "-u",
            "-s",
            SESSION,
            "-c",
            "events",
            "openetw_bench:event",
        ])?;
        self.command(&["start", SESSION])?;
        let mut started = Vec::new();
        for _ in 0..programs {
            let program = Command::new(&self.program)
                .args(arguments)
                .env("LTTNG_HOME", &self.home)
                // The program registers before its first event.
                .env("LTTNG_UST_REGISTER_TIMEOUT", "-1")
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn()?;
            started.push(program);
        }
        let mut figures = Vec::new();
        for program in started {
            // A failed program must not leave others running.
            figures.push(program.wait_with_output().map_err(Into::into).and_then(figures_of));
        }
        let figures = figures.into_iter().collect::<Result<Vec<_>>>()?;
        self.command(&["stop", SESSION])?;
        let listed = self.command(&["list", SESSION])?;
        let discarded = listed
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Discarded events: "))
            .filter_map(|count| count.parse::<u64>().ok())
            .sum();
        Ok((figures, discarded))
    }

    /// Measures the cost of an event: figures by name, in nanoseconds.
    pub fn cost(&self) -> Result<Figures> {
        let (mut figures, discarded, size) = self.record(1, &["cost"])?;
        if size == 0 || discarded > 0 {
            return Err(format!("LTTng discarded {discarded} events of {size} bytes").into());
        }
        figures.pop().ok_or_else(|| "LTTng's program said nothing".into())
    }

    /// Offers a rate by paced writers.
    pub fn offer(&self, writers: Writers, rate: f64, seconds: u32) -> Result<Offered> {
        let (programs, threads) = match writers {
            Writers::Threads(threads) => (1, threads),
            Writers::Programs(programs) => (programs, 1),
        };
        let (threads, share) = (threads.to_string(), (rate / f64::from(programs)).to_string());
        let (figures, discarded, size) =
            self.record(programs, &["rate", &threads, &share, &seconds.to_string()])?;
        let values = |name: &str| {
            let values = figures.iter().map(|figures| figures[name].as_f64());
            values.collect::<Option<Vec<_>>>().ok_or("LTTng's figures are not whole")
        };
        Ok(Offered {
            events: values("written")?.iter().sum::<f64>() as u64,
            seconds: values("seconds")?.into_iter().fold(0.0, f64::max),
            lost: discarded + values("behind")?.iter().sum::<f64>() as u64,
            size,
        })
    }
}

/// A program's figures by name.
pub type Figures = serde_json::Value;

fn figures_of(output: std::process::Output) -> Result<Figures> {
    if !output.status.success() {
        return Err("LTTng's program failed".into());
    }
    let mut figures = serde_json::Map::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let figure: serde_json::Value = serde_json::from_str(line)?;
        let name = figure["name"].as_str().ok_or("a figure without a name")?;
        figures.insert(name.to_owned(), figure["value"].clone());
    }
    Ok(figures.into())
}

impl Drop for Lttng {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // SIGTERM also ends the daemon's consumers; SIGKILL would not.
            let _ = Command::new("kill").arg(daemon.id().to_string()).status();
            let _ = daemon.wait();
        }
    }
}

fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => size_of(&entry.path()),
            _ => entry.metadata().map_or(0, |metadata| metadata.len()),
        })
        .sum()
}
