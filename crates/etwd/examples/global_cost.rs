//! The cost of a global session for its programs, its host and its consumers. Prints one JSON object for each figure.
//!
//! `cargo run --release -p etwd --example global_cost -- ETW [PART]`: ETW is the `etw` command, for the latency of `etw tail`;
//! PART one of `write`, `cpu`, `latency`, `quiet`, instead of all of these.
//!
//! `… -- rate SECONDS OUT.etl`: the highest rate at which two paced programs lose nothing in so many seconds, with one session to the
//! disk, plain, compressed and with `--compress=auto`, and that of a program with two threads and a private session.
//!
//! `… -- hold RATE SECONDS OUT.etl [on|auto]`: offers one rate, and prints what was lost, and the host's processor time for an event.
//!
//! The host is another process, as it is in use; private sessions are measured in turn with it.

use etw_session::{Compression, Enablement, LogMode, SessionConfig};
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etw::{Keyword, Level, Session};
use etw_wire::host_client::Client;
use etw_wire::requests::{Request, Response, SessionStatus};
use etwd::{Host, HostOptions};

#[path = "../../etw/examples/measuring/event.rs"]
mod measuring;
use measuring::{BENCH, TEXT, event, figure};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Fits into the pool.
const BURST: i32 = 4000;
const PROGRAMS: usize = 500;

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
        Some("paced") => {
            let _registration = BENCH.register();
            while !BENCH.is_enabled(Level::INFO, etw::Keyword(2)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            println!("ready");
            std::io::stdin().read_line(&mut String::new())?;
            let (rate, seconds) = (arguments[1].parse()?, arguments[2].parse()?);
            let (written, is_late) = write_paced(Instant::now(), rate, seconds);
            println!("{written} {is_late}");
            Ok(())
        }
        Some("rate") => rates(arguments[1].parse()?, Path::new(&arguments[2])),
        Some("hold") => {
            let (rate, seconds) = (arguments[1].parse()?, arguments[2].parse()?);
            let word = arguments.get(4).map_or("off", String::as_str);
            let compression = Compression::ALL.into_iter().find(|of| of.name() == word);
            let compression = compression.ok_or("off, on or auto")?;
            hold(rate, seconds, Path::new(&arguments[3]), compression)
        }
        Some(etw) => measure(Path::new(etw), arguments.get(1).map(String::as_str)),
        None => Err("usage: global_cost ETW [PART] | global_cost rate SECONDS OUT.etl".into()),
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
        self.start_session(SessionConfig {
            name: name.to_owned(),
            mode: LogMode::Buffering,
            ..SessionConfig::default()
        })
    }

    /// To the disk, with the buffers of the rates' measurements.
    fn file_session(&self, name: &str, file: &Path, compression: Compression) -> Result<()> {
        self.start_session(SessionConfig {
            name: name.to_owned(),
            file: Some(file.to_owned()),
            buffer_size: 1 << 20,
            buffer_count: 64,
            compression,
            ..SessionConfig::default()
        })
    }

    fn start_session(&self, start: SessionConfig) -> Result<()> {
        let enable = vec![Enablement::new(BENCH.id(), etw_host::EnableInfo::default())];
        self.client()?.ask(&Request::start(SessionConfig { enable, ..start }))?;
        Ok(())
    }

    fn stored(&self, name: &str) -> Result<(u64, u64)> {
        let request = Request::Query { session: name.to_owned() };
        match self.client()?.ask(&request)? {
            Response::Session(status) => Ok((status.stored + status.overwritten, status.lost)),
            _ => Err("no session".into()),
        }
    }

    fn stop(&self, name: &str) -> Result<SessionStatus> {
        match self.client()?.ask(&Request::Stop { session: name.to_owned() })? {
            Response::Session(status) => Ok(*status),
            _ => Err("no session".into()),
        }
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
            let read = |name| std::fs::read_to_string(path.join(name));
            // A thread may end while it is looked at.
            let (Ok(stat), Ok(ran)) = (read("stat"), read("schedstat")) else { continue };
            let (head, tail) = stat.rsplit_once(')').ok_or("stat")?;
            let mut fields = tail.split_ascii_whitespace().skip(11);
            let mut ticks = || fields.next().and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
            let (user, system) = (ticks(), ticks());
            // Nanoseconds that it ran; ticks only tell how they divide.
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
    unsafe { std::env::set_var(etw_wire::runtime_directory::VARIABLE, &host.directory) };
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

/// The cost of an event for the program.
fn writes(host: &HostProcess) -> Result<()> {
    let (mut private, mut global) = (f64::MAX, f64::MAX);
    let mut lost = 0;
    for _ in 0..3 {
        let session = Session::builder("bench").memory().start()?;
        session.enable(&BENCH, Level::VERBOSE, Keyword(0))?;
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

/// The cost of an event for the host, at a million events a second: draining, routing and storing; and, of a session to the disk, what the
/// system's copy into the page cache takes beside it.
fn cpu(host: &HostProcess) -> Result<()> {
    for to_file in [false, true] {
        let file = host.directory.with_extension("etl");
        match to_file {
            true => host.file_session("cpu", &file, Compression::Off)?,
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

/// Events at this rate; how many, and whether it could not be held.
fn write_paced(start: Instant, rate: f64, seconds: f64) -> (u64, bool) {
    let mut written = 0u64;
    loop {
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed > seconds {
            // Behind by more than 50 ms: not this rate was offered.
            let due = (seconds * rate) as u64;
            return (written, due > written + (rate * 0.05) as u64);
        }
        let due = (elapsed * rate) as u64;
        let until = due.min(written + 10_000);
        (written..until).for_each(|n| event(black_box(n as i32), black_box(TEXT)));
        written = until.max(written);
        if written >= due {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// The highest rate that is held. Short holds find it; the long one is what counts. One that fails has a second try: on a machine with
/// other users some do at any rate.
fn highest(seconds: f64, mut once: impl FnMut(f64, f64) -> Result<bool>) -> Result<f64> {
    let mut holds = |rate, seconds| {
        Ok::<_, Box<dyn std::error::Error>>(once(rate, seconds)? || once(rate, seconds)?)
    };
    let (mut good, mut bad) = (0.0f64, 32e6);
    while bad / good.max(1e5) > 1.04 && bad > 2e5 {
        let rate = if good == 0.0 { bad / 8.0 } else { (good * bad).sqrt() };
        *if holds(rate, seconds.min(1.0))? { &mut good } else { &mut bad } = rate;
    }
    let mut rate = good;
    while rate > 1e5 && !holds(rate, seconds)? {
        rate *= 0.95;
    }
    Ok(rate)
}

/// The outcome of an offered rate.
struct Held {
    stored: u64,
    lost: u64,
    losses: String,
    is_late: bool,
    /// Bytes of the file.
    size: u64,
    /// The host's processor time.
    used: CpuParts,
}

/// Behind the start of a session and of programs. Their memory exists by then: a rate is one that lasts, not that of the first moments.
const SETTLED: Duration = Duration::from_millis(200);

/// Two programs write at this rate, together, into a session with a file.
fn offer(
    host: &HostProcess,
    rate: f64,
    seconds: f64,
    (file, compression): (&Path, Compression),
) -> Result<Held> {
    host.file_session("rate", file, compression)?;
    let before = host.cpu_parts()?;
    let mut programs = Vec::new();
    for _ in 0..2 {
        let program = Command::new(std::env::current_exe()?)
            .args(["paced", &(rate / 2.0).to_string(), &seconds.to_string()])
            .env(etw_wire::runtime_directory::VARIABLE, &host.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        programs.push(program);
    }
    let mut said = Vec::new();
    for program in &mut programs {
        let mut lines = BufReader::new(program.stdout.take().ok_or("no output")?).lines();
        lines.next().ok_or("a program has ended")??;
        said.push(lines);
    }
    std::thread::sleep(SETTLED);
    // Their inputs end: they begin.
    programs.iter_mut().for_each(|program| drop(program.stdin.take()));
    let (mut written, mut is_late) = (0, false);
    for (program, mut lines) in programs.iter_mut().zip(said) {
        let line = lines.next().ok_or("a program has ended")??;
        let (count, late) = line.split_once(' ').ok_or("no figures")?;
        written += count.parse::<u64>()?;
        is_late |= late == "true";
        program.wait()?;
    }
    // The session's threads end with it.
    let used = host.cpu_parts()?.since(before);
    let status = host.stop("rate")?;
    let size = std::fs::metadata(file)?.len();
    std::fs::remove_file(file)?;
    if status.stored + status.lost != written {
        let what = format!("{written} events written, {} stored", status.stored);
        return Err(format!("the ledger is not exact: {what}, {} lost", status.lost).into());
    }
    let losses = status.losses.iter().map(|loss| format!("{} {}", loss.cause, loss.count));
    let (free, of) = (status.free_buffers, status.buffers);
    let losses = losses.collect::<Vec<_>>().join(", ");
    let losses = format!("{losses}; {free} of {of} buffers free");
    Ok(Held { stored: status.stored, lost: status.lost, losses, is_late, size, used })
}

/// Offers one rate, and prints the host's processor time by thread.
fn hold(rate: f64, seconds: f64, file: &Path, compression: Compression) -> Result<()> {
    let host = HostProcess::start()?;
    let held = offer(&host, rate, seconds, (file, compression))?;
    let Held { stored, lost, losses, is_late, size, used } = held;
    let each = |of: f64| of / stored.max(1) as f64;
    println!("{stored} stored, {lost} lost, behind: {is_late}; {losses}");
    println!("{:.1} bytes an event; the host's processor time for it:", each(size as f64));
    let CpuParts { engine_user, engine_system, storage_user, storage_system } = used;
    println!("engine {:.1} ns, in the system {:.1}", each(engine_user), each(engine_system));
    println!("storage {:.1} ns, in the system {:.1}", each(storage_user), each(storage_system));
    Ok(())
}

fn rates(seconds: f64, file: &Path) -> Result<()> {
    let host = HostProcess::start()?;
    let is_told = std::env::var_os("RATE_VERBOSE").is_some();
    let tell = |what: &str, rate: f64, lost: u64, is_late: bool| {
        if is_told {
            eprintln!("{what}: {:.2} M/s offered, {lost} lost, behind: {is_late}", rate / 1e6);
        }
        lost == 0 && !is_late
    };
    let forms = Compression::ALL.map(|compression| {
        highest(seconds, |rate, seconds| {
            let held = offer(&host, rate, seconds, (file, compression))?;
            if is_told && held.lost > 0 {
                eprintln!("{}", held.losses);
            }
            let what = format!("global, compression {compression}");
            Ok(tell(&what, rate, held.lost, held.is_late))
        })
    });
    let [global, compressed, auto] = forms;
    let (global, compressed, auto) = (global?, compressed?, auto?);
    drop(host);
    let _registration = BENCH.register();
    let private = highest(seconds, |rate, seconds| {
        let builder = Session::builder("rate").file(file).buffer_size_kb(1024).buffers(64);
        let session = builder.pool_size(16 << 20, 16 << 20).start()?;
        session.enable(&BENCH, Level::VERBOSE, Keyword(0))?;
        std::thread::sleep(SETTLED);
        let start = Instant::now();
        let is_late = std::thread::scope(|scope| {
            let write = || write_paced(start, rate / 2.0, seconds).1;
            let writers = [scope.spawn(write), scope.spawn(write)];
            writers.into_iter().any(|writer| writer.join().unwrap_or(true))
        });
        let lost = session.stop()?.ledger.lost_total();
        std::fs::remove_file(file)?;
        Ok(tell("private", rate, lost, is_late))
    })?;
    figure("lossless: two paced programs", global / 1e6, "M/s");
    figure("lossless: two paced programs, compressed", compressed / 1e6, "M/s");
    figure("lossless: two paced programs, --compress=auto", auto / 1e6, "M/s");
    figure("lossless: two threads, private session", private / 1e6, "M/s");
    figure("lossless: paced programs / private session", global / private, "x");
    Ok(())
}

/// The cost of programs that write no events.
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
        .env(etw_wire::runtime_directory::VARIABLE, &host.directory)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(tail.stdout.take().ok_or("no output")?);
    while !BENCH.is_enabled(Level::INFO, etw::Keyword(2)) {
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
