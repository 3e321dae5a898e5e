//! What a global session costs: its programs, its host, and whoever watches. One JSON object a figure.
//!
//! `cargo run --release -p etwd --example global_cost -- ETW`: ETW is the `etw` command, for the latency of `etw tail`.
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
        Some(etw) => measure(Path::new(etw)),
        None => Err("usage: global_cost ETW".into()),
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
        let all = etw_host::EnableInfo::default();
        let start = Start {
            name: name.to_owned(),
            buffering: true,
            enable: vec![(BENCH.id(), all)],
            ..Start::default()
        };
        self.client()?.ask(&Request::Start(Box::new(start)))?;
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

    fn memory(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: f64 = line.ok_or("VmRSS")?.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes / 1024.0)
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

fn measure(etw: &Path) -> Result<()> {
    let host = HostProcess::start()?;
    // SAFETY: before there are other threads.
    unsafe { std::env::set_var(etw_wire::dir::VARIABLE, &host.directory) };
    let _registration = BENCH.register();
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

    host.session("cpu")?;
    let before = host.cpu()?;
    let end = Instant::now() + Duration::from_secs(3);
    let mut n = 0;
    while Instant::now() < end {
        // A million a second.
        (0..1000).for_each(|_| event(black_box(n), black_box(TEXT)));
        n += 1;
        std::thread::sleep(Duration::from_micros(900));
    }
    let (stored, _) = host.stored("cpu")?;
    let used = host.cpu()? - before;
    figure("global: host's CPU, a stored event", used.as_nanos() as f64 / stored as f64, "ns");
    host.stop("cpu")?;

    latency(&host, etw)?;

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
