//! Rates and memory.

use crate::Result;
use etw_etl::read::{
    Part, PartsOptions, Records, RecordsOptions, TraceFile, read_in_parts as read_parts,
};
use etw_etl::relog::{Relog, RelogOptions};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One run.
#[derive(Clone, Copy)]
pub struct Run {
    pub records: u64,
    pub seconds: f64,
}

/// Records a second over several runs.
#[derive(Default)]
pub struct Rate {
    pub best: f64,
    all: Vec<f64>,
}

impl Rate {
    pub fn add(&mut self, Run { records, seconds }: Run) {
        let rate = records as f64 / seconds;
        self.best = self.best.max(rate);
        self.all.push(rate);
        self.all.sort_by(f64::total_cmp);
    }

    pub fn median(&self) -> f64 {
        self.all.get(self.all.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Reads every record through the public merging reader.
pub fn read_all(path: &Path, threads: usize) -> Result<Run> {
    let start = Instant::now();
    let mut options = RecordsOptions::default();
    options.read_ahead_threads = threads;
    let mut records = Records::with_options(vec![TraceFile::open(path)?], options);
    let mut count = 0;
    // In place, as `etw dump` reads.
    while let Some(stored) = records.next_stored() {
        std::hint::black_box(stored.record(&mut None));
        count += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    check(&records, path)?;
    Ok(Run { records: count, seconds })
}

fn check(records: &Records, path: &Path) -> Result<()> {
    if !records.damage().is_empty() || records.out_of_order(0) > 0 {
        let text = format!("{}: the trace made for the bench is damaged", path.display());
        return Err(text.into());
    }
    Ok(())
}

/// Reads every record in parts, each on a thread of its own.
pub fn read_in_parts(path: &Path, threads: usize) -> Result<Run> {
    let start = Instant::now();
    let mut options = PartsOptions::default();
    options.threads = threads;
    let count_part = |part: &mut Part<'_>| {
        let mut count = 0;
        while let Some(stored) = part.next_stored() {
            std::hint::black_box(stored.record(&mut None));
            count += 1;
        }
        count
    };
    let mut records = 0;
    let read = read_parts(vec![TraceFile::open(path)?], options, count_part, |part| {
        records += part;
    });
    let seconds = start.elapsed().as_secs_f64();
    check(&read.records, path)?;
    if read.repeated > 0 {
        let (repeated, parts) = (read.repeated, read.parts);
        return Err(format!("{repeated} of {parts} parts were read again").into());
    }
    Ok(Run { records, seconds })
}

/// Rewrites a trace to nowhere, on one thread or with a helper that compresses.
pub fn relog(path: &Path, compressed: bool, has_helper: bool) -> Result<Run> {
    let start = Instant::now();
    let mut options = RelogOptions::default();
    (options.compressed, options.has_helper) = (compressed, has_helper);
    let mut relog = Relog::new(vec![TraceFile::open(path)?], options)?;
    relog.run(std::io::empty(), |_| ())?;
    let seconds = start.elapsed().as_secs_f64();
    if !relog.records().damage().is_empty() || relog.summary().left_out() > 0 {
        let text = format!("{}: not all records were rewritten", path.display());
        return Err(text.into());
    }
    Ok(Run { records: relog.summary().records, seconds })
}

/// The floor: walks record headers in file order with hand-written code that uses nothing of the project. It sorts nothing
/// and checks only that every step stays in its buffer.
pub fn walk_headers(path: &Path, threads: u64) -> Result<Run> {
    let start = Instant::now();
    let mut head = [0; HEAD];
    let mut file = File::open(path)?;
    file.read_exact(&mut head)?;
    // All buffers have one size.
    let size = u64::from(word(&head, 0x00)).max(1);
    let buffers = (file.metadata()?.len() / size).div_ceil(threads);
    let part = |number| walk_part(path, number * buffers * size, buffers * size);
    let counts: Vec<std::result::Result<u64, String>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|number| scope.spawn(move || part(number))).collect();
        let first = part(0);
        let others = others.into_iter().map(|thread| thread.join().map_err(|_| "a panic".into()));
        std::iter::once(first).chain(others.map(|count| count.and_then(|count| count))).collect()
    });
    let records = counts.into_iter().sum::<std::result::Result<u64, String>>()?;
    Ok(Run { records, seconds: start.elapsed().as_secs_f64() })
}

const HEAD: usize = 0x48;

/// Walks `length` bytes of a file; how many records they have.
fn walk_part(path: &Path, from: u64, length: u64) -> std::result::Result<u64, String> {
    let told = |error: std::io::Error| error.to_string();
    let mut file = File::open(path).map_err(told)?;
    file.seek(SeekFrom::Start(from)).map_err(told)?;
    let mut file = file.take(length);
    let mut buffer = Vec::new();
    let mut count = 0;
    let mut latest = 0;
    let mut head = [0; HEAD];
    while file.read_exact(&mut head).is_ok() {
        let size = word(&head, 0x00) as usize;
        let filled = word(&head, 0x30) as usize;
        if size < HEAD || filled < HEAD || filled > size {
            return Err("the floor walks only sound traces".into());
        }
        buffer.resize(size - HEAD, 0);
        file.read_exact(&mut buffer).map_err(told)?;
        let records = &buffer[..filled - HEAD];
        let mut at = 0;
        while at + 0x18 <= records.len() {
            let marker = word(records, at);
            // SYSTEM, COMPACT and PERFINFO store their size behind the marker, others in it. PERFINFO stores its time earlier.
            let (size, time_at) = match marker >> 16 & 0xff {
                0x10 | 0x11 => (word(records, at + 4) & 0xffff, at + 0x08),
                0x01..=0x04 => (word(records, at + 4) & 0xffff, at + 0x10),
                _ => (marker & 0xffff, at + 0x10),
            };
            if size == 0 {
                return Err("the floor walks only sound traces".into());
            }
            let time =
                u64::from(word(records, time_at)) | u64::from(word(records, time_at + 4)) << 32;
            latest = latest.max(time);
            at += size.next_multiple_of(8) as usize;
            count += 1;
        }
    }
    std::hint::black_box(latest);
    Ok(count)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|word| word.first_chunk())
        .map_or(0, |word| u32::from_le_bytes(*word))
}

/// Seconds to dump all files, one process each.
pub fn dump_all(
    etw: &Path,
    format: &str,
    threads: u32,
    files: &[PathBuf],
    to_pipe: bool,
) -> Result<f64> {
    let start = Instant::now();
    for file in files {
        let mut command = Command::new(etw);
        command.args(["dump", "--format", format, "--threads", &threads.to_string()]).arg(file);
        command.stderr(Stdio::null());
        let status = if to_pipe {
            let mut child = command.stdout(Stdio::piped()).spawn()?;
            let stdout = child.stdout.take().ok_or("no pipe")?;
            let mut cat = Command::new("cat").stdin(stdout).stdout(Stdio::null()).spawn()?;
            let status = child.wait()?;
            cat.wait()?;
            status
        } else {
            command.stdout(Stdio::null()).status()?
        };
        if !status.success() {
            return Err(format!("etw dump {}: {status}", file.display()).into());
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

/// The output of `etw dump` with a number of threads.
pub fn output(etw: &Path, format: &str, threads: u32, files: &[PathBuf]) -> Result<Vec<u8>> {
    let mut command = Command::new(etw);
    command.args(["dump", "--raw", "--format", format, "--threads", &threads.to_string()]);
    let output = command.args(files).stderr(Stdio::null()).output()?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(format!("etw dump --format {format}: {}", output.status).into());
    }
    Ok(output.stdout)
}

/// Highest anonymous memory of a run, sampled; `None` if the system does not report it.
pub fn peak_memory(mut command: Command) -> Result<Option<u64>> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
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
