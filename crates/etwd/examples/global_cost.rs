//! What a global session costs: its programs, its host, and whoever watches. One JSON object a figure.
//!
//! `cargo run --release -p etwd --example global_cost -- ETW [PART]`: ETW is the `etw` command, for the latency of `etw tail`;
//! PART one of `write`, `cpu`, `latency`, `quiet`, instead of all.
//!
//! The host is another process, as it is in use; private sessions are measured in turn with it.

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etw::{Level, Session, define_provider, write_event};
use etw_wire::client::Client;
use etw_wire::control::{Request, Response, Start};
use etwd::{Host, HostOptions};

define_provider!(BENCH, "OpenEtw.Bench");

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const TEXT: &str = "a text of thirty-two characters.";
/// Fits into the pool.
const BURST: i32 = 4000;
const PROGRAMS: usize = 500;

fn figure(name: &str, value: f64, unit: &str) {
    println!("{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\"}}");
}

#[inline(never)]
fn event(n: i32, text: &str) {
    write_event!(
        BENCH,
        "Event",
        level(Informational),
        keyword(2),
        i32("n", &n),
        str8("text", text)
    );
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("host") => {
            Host::start(HostOptions::new(&arguments[1]))?.wait();
            Ok(())
        }
        Some("quiet") => {
            let _registration = BENCH.register();
            event(0, TEXT);
            std::thread::sleep(Duration::from_secs(120));
            Ok(())
        }
        Some(etw) => measure(Path::new(etw), arguments.get(1).map(String::as_str)),
        None => Err("usage: global_cost ETW [PART]".into()),
    }
}

struct HostProcess {
    child: Child,
    directory: PathBuf,
}

impl HostProcess {
    fn start() -> Result<HostProcess> {
        let directory = std::env::temp_dir().join(format!("etw-bench-{}", std::process::id()));
        let child = Command::new(std::env::current_exe()?).arg("host").arg(&directory).spawn()?;
        let host = HostProcess { child, directory };
        while host.client().is_err() {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(host)
    }

    fn client(&self) -> Result<Client> {
        Ok(Client::connect(&self.directory)?)
    }

    fn session(&self, name: &str) -> Result<()> {
        self.start_session(Start { name: name.to_owned(), buffering: true, ..Start::default() })
    }

    /// To the disk, with the buffers of the rates' measurements.
    fn file_session(&self, name: &str, file: &Path) -> Result<()> {
        self.start_session(Start {
            name: name.to_owned(),
            file: Some(file.to_owned()),
            buffer_size: 1 << 20,
            buffers: 64,
            ..Start::default()
        })
    }

    fn start_session(&self, start: Start) -> Result<()> {
        let enable = vec![(BENCH.id(), etw_host::EnableInfo::default())];
        self.client()?.ask(&Request::Start(Box::new(Start { enable, ..start })))?;
        Ok(())
    }

    fn stored(&self, name: &str) -> Result<(u64, u64)> {
        let request = Request::Query { session: name.to_owned() };
        match self.client()?.ask(&request)? {
            Response::Session(status) => Ok((status.stored + status.overwritten, status.lost)),
            _ => Err("no session".into()),
        }
    }

    fn stop(&self, name: &str) -> Result<()> {
        self.client()?.ask(&Request::Stop { session: name.to_owned() })?;
        Ok(())
    }

    /// User and system time so far.
    fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let mut fields = stat.rsplit_once(')').ok_or("stat")?.1.split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        // SAFETY: takes and gives numbers.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
        Ok(Duration::from_nanos((ticks() + ticks()) * 1_000_000_000 / per_second))
    }

    /// The same by who spent it.
    fn cpu_parts(&self) -> Result<CpuParts> {
        let mut parts = CpuParts::default();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let path = task?.path();
            let stat = std::fs::read_to_string(path.join("stat"))?;
            let (head, tail) = stat.rsplit_once(')').ok_or("stat")?;
            let mut fields = tail.split_ascii_whitespace().skip(11);
            let mut ticks = || fields.next().and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
            let (user, system) = (ticks(), ticks());
            // Nanoseconds that it ran; ticks only tell how they divide.
            let ran = std::fs::read_to_string(path.join("schedstat"))?;
            let ran: f64 = ran.split_ascii_whitespace().next().ok_or("schedstat")?.parse()?;
            let in_kernel = ran * system / (user + system).max(1.0);
            match head.ends_with("(etw-storage") {
                true => {
                    parts.storage_system += in_kernel;
                    parts.storage_user += ran - in_kernel;
                }
                false => {
                    parts.engine_system += in_kernel;
                    parts.engine_user += ran - in_kernel;
                }
            }
        }
        Ok(parts)
    }

    fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: f64 = line.ok_or("VmRSS")?.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes / 1024.0)
    }
}

/// Nanoseconds.
#[derive(Clone, Copy, Default)]
struct CpuParts {
    engine_user: f64,
    engine_system: f64,
    storage_user: f64,
    storage_system: f64,
}

impl CpuParts {
    fn since(self, before: CpuParts) -> CpuParts {
        CpuParts {
            engine_user: self.engine_user - before.engine_user,
            engine_system: self.engine_system - before.engine_system,
            storage_user: self.storage_user - before.storage_user,
            storage_system: self.storage_system - before.storage_system,
        }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The best of many bursts: ns an event. `drained` waits until a burst has been taken out.
fn bursts(mut drained: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..60 {
        let start = Instant::now();
        (0..BURST).for_each(|n| event(black_box(n), black_box(TEXT)));
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(BURST));
        drained()?;
    }
    Ok(best)
}

fn measure(etw: &Path, part: Option<&str>) -> Result<()> {
    let host = HostProcess::start()?;
    // SAFETY: before there are other threads.
    unsafe { std::env::set_var(etw_wire::dir::VARIABLE, &host.directory) };
    let _registration = BENCH.register();
    let is_wanted = |name: &str| part.is_none_or(|part| part == name);
    if is_wanted("write") {
        writes(&host)?;
    }
    if is_wanted("cpu") {
        cpu(&host)?;
    }
    if is_wanted("latency") {
        latency(&host, etw)?;
    }
    if is_wanted("quiet") {
        quiet(&host)?;
    }
    Ok(())
}

/// What an event costs the program.
fn writes(host: &HostProcess) -> Result<()> {
    let (mut private, mut global) = (f64::MAX, f64::MAX);
    let mut lost = 0;
    for _ in 0..3 {
        let session = Session::builder("bench").memory().start()?;
        session.enable(&BENCH, Level::VERBOSE, 0)?;
        private = private.min(bursts(|| Ok(session.statistics().map(drop)?))?);
        session.stop()?;
        host.session("bench")?;
        global = global.min(bursts(|| host.stored("bench").map(drop))?);
        lost += host.stored("bench")?.1;
        host.stop("bench")?;
    }
    figure("global: enabled event, private session", private, "ns");
    figure("global: enabled event, global session", global, "ns");
    figure("global: global / private", global / private, "x");
    for number in 0..8 {
        host.session(&format!("bench{number}"))?;
    }
    let eight = bursts(|| host.stored("bench0").map(drop))?;
    figure("global: eight sessions / one", eight / global, "x");
    for number in 0..8 {
        lost += host.stored(&format!("bench{number}"))?.1;
        host.stop(&format!("bench{number}"))?;
    }
    figure("global: lost while measuring", lost as f64, "events");
    Ok(())
}

/// What an event costs the host, at a million a second: draining, routing and storing; and, of a session to the disk, what the
/// system's copy into the page cache takes beside it.
fn cpu(host: &HostProcess) -> Result<()> {
    for to_file in [false, true] {
        let file = host.directory.with_extension("etl");
        match to_file {
            true => host.file_session("cpu", &file)?,
            false => host.session("cpu")?,
        }
        let before = host.cpu_parts()?;
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            // A million a second.
            (0..1000).for_each(|n| event(black_box(n), black_box(TEXT)));
            std::thread::sleep(Duration::from_micros(900));
        }
        let (stored, lost) = host.stored("cpu")?;
        let used = host.cpu_parts()?.since(before);
        host.stop("cpu")?;
        let figure = |what: &str, nanos: f64| {
            let whither = if to_file { "file" } else { "memory" };
            figure(&format!("global: host's CPU, a stored event, {whither}{what}"), nanos, "ns");
        };
        let each = |nanos: f64| nanos / stored.max(1) as f64;
        let ours = used.engine_user + used.engine_system + used.storage_user;
        figure("", each(ours));
        figure(", of it in the kernel", each(used.engine_system));
        if to_file {
            figure(", of it the storage thread", each(used.storage_user));
            figure(", beside it the kernel's writes", each(used.storage_system));
            std::fs::remove_file(&file)?;
        }
        if lost > 0 {
            return Err(format!("{lost} events lost at a million a second").into());
        }
    }
    Ok(())
}

/// What programs cost that are only there.
fn quiet(host: &HostProcess) -> Result<()> {
    host.session("quiet")?;
    let before = host.memory()?;
    let mut programs = Vec::new();
    for _ in 0..PROGRAMS {
        let program = Command::new(std::env::current_exe()?).arg("quiet").spawn()?;
        programs.push(program);
        if programs.len() % 20 == 0 {
            std::thread::sleep(Duration::from_millis(30));
        }
    }
    let end = Instant::now() + Duration::from_secs(60);
    while host.stored("quiet")?.0 < PROGRAMS as u64 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    figure("global: events of 500 programs, of 500", host.stored("quiet")?.0 as f64, "events");
    std::thread::sleep(Duration::from_secs(1));
    let cpu = host.cpu()?;
    std::thread::sleep(Duration::from_secs(5));
    let used = (host.cpu()? - cpu).as_secs_f64() / 5.0;
    figure("global: host's CPU with 500 quiet programs", used * 100.0, "percent");
    figure("global: host's memory with 500 programs", host.memory()? - before, "MiB");
    for mut program in programs {
        program.kill()?;
        program.wait()?;
    }
    Ok(())
}

/// From the write to the line that `etw tail` prints.
fn latency(host: &HostProcess, etw: &Path) -> Result<()> {
    let mut tail = Command::new(etw)
        .args(["tail", "-p", "*OpenEtw.Bench", "--format", "json"])
        .env(etw_wire::dir::VARIABLE, &host.directory)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(tail.stdout.take().ok_or("no output")?);
    while !BENCH.is_enabled(Level::INFO, 2) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut times = Vec::new();
    let mut line = String::new();
    // The first is the session's header.
    for n in 0..400 {
        let written = Instant::now();
        event(n, TEXT);
        line.clear();
        while !line.contains("OpenEtw.Bench") {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Err("etw tail has ended".into());
            }
        }
        times.push(written.elapsed().as_secs_f64() * 1000.0);
        // At all phases of the host's rounds, and after it has fallen asleep.
        std::thread::sleep(Duration::from_micros(1000 + u64::from(n as u32 % 100) * 700));
    }
    tail.kill()?;
    tail.wait()?;
    times.sort_by(f64::total_cmp);
    figure("global: write to etw tail's line, p50", times[times.len() / 2], "ms");
    figure("global: write to etw tail's line, p99", times[times.len() * 99 / 100], "ms");
    Ok(())
}
