//! Rates and memory.

use crate::Result;
use etw_etl::header::BufferHeader;
use etw_etl::read::{Records, RecordsOptions, TraceFile};
use etw_etl::record::{self, RecordContext};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Records a second over several runs.
#[derive(Default)]
pub struct Rate {
    pub best: f64,
    all: Vec<f64>,
}

impl Rate {
    /// Records and seconds of one run.
    pub fn add(&mut self, (records, seconds): (u64, f64)) {
        let rate = records as f64 / seconds;
        self.best = self.best.max(rate);
        self.all.push(rate);
        self.all.sort_by(f64::total_cmp);
    }

    /// Best and median.
    pub fn shown(&self) -> String {
        let median = self.all.get(self.all.len() / 2).copied().unwrap_or(0.0);
        format!("{:.1} ({:.1}) M/s", self.best / 1e6, median / 1e6)
    }
}

pub fn count(path: &Path) -> Result<u64> {
    Ok(read_all(path, 0)?.0)
}

/// Reads every record through the public merging reader; records and seconds.
pub fn read_all(path: &Path, threads: usize) -> Result<(u64, f64)> {
    let start = Instant::now();
    let mut options = RecordsOptions::default();
    options.read_ahead_threads = threads;
    let mut records = Records::with_options(vec![TraceFile::open(path)?], options);
    let mut count = 0;
    while let Some(record) = records.next() {
        std::hint::black_box(&record);
        count += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    if !records.damage().is_empty() || records.out_of_order(0) > 0 {
        let text = format!("{}: the trace made for the bench is damaged", path.display());
        return Err(text.into());
    }
    Ok((count, seconds))
}

/// The floor: buffer by buffer through the file, record headers only, no order.
pub fn walk_headers(path: &Path) -> Result<(u64, f64)> {
    let start = Instant::now();
    let mut file = File::open(path)?;
    let mut buffer = Vec::new();
    let mut count = 0;
    let mut latest = 0;
    let context = RecordContext::default();
    let mut head = [0; BufferHeader::SIZE];
    while file.read_exact(&mut head).is_ok() {
        let header = BufferHeader::read(&head);
        buffer.resize(header.buffer_size as usize - head.len(), 0);
        file.read_exact(&mut buffer)?;
        let filled = header.filled(header.buffer_size).unwrap_or(0);
        let records = &buffer[..filled];
        let mut at = 0;
        while at < records.len() {
            let Ok(frame) = record::frame(&records[at..], &context) else { break };
            latest = latest.max(frame.time.unwrap_or(0));
            at = (at + frame.size as usize).next_multiple_of(8);
            count += 1;
        }
    }
    std::hint::black_box(latest);
    Ok((count, start.elapsed().as_secs_f64()))
}

/// Seconds to dump all files, one process each.
pub fn dump_all(etw: &Path, format: &str, files: &[PathBuf], to_pipe: bool) -> Result<f64> {
    let start = Instant::now();
    for file in files {
        let mut command = Command::new(etw);
        command.args(["dump", "--format", format, "--threads", "2"]).arg(file);
        command.stderr(Stdio::null());
        let status = if to_pipe {
            let mut child = command.stdout(Stdio::piped()).spawn()?;
            let stdout = child.stdout.take().ok_or("no pipe")?;
            let mut cat =
                Command::new("cat").stdin(stdout).stdout(File::create("/dev/null")?).spawn()?;
            let status = child.wait()?;
            cat.wait()?;
            status
        } else {
            command.stdout(File::create("/dev/null")?).status()?
        };
        if !status.success() {
            return Err(format!("etw dump {}: {status}", file.display()).into());
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

pub fn output(etw: &Path, format: &str, threads: u32, files: &[PathBuf]) -> Result<Vec<u8>> {
    let mut command = Command::new(etw);
    command.args(["dump", "--raw", "--format", format, "--threads", &threads.to_string()]);
    Ok(command.args(files).stderr(Stdio::null()).output()?.stdout)
}

/// Highest anonymous memory of a run, sampled; `None` where the system does not tell.
pub fn peak_memory(etw: &Path, command: &[&str], file: &Path) -> Result<Option<u64>> {
    let mut child = Command::new(etw)
        .args(command)
        .arg(file)
        .stdout(File::create("/dev/null")?)
        .stderr(Stdio::null())
        .spawn()?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = None;
    loop {
        if let Some(kilobytes) = anonymous_kilobytes(&status_file) {
            peak = peak.max(Some(kilobytes * 1024));
        }
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(peak) } else { Err(format!("etw: {status}").into()) };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn anonymous_kilobytes(status_file: &str) -> Option<u64> {
    let text = std::fs::read_to_string(status_file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
