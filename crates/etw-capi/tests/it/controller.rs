//! C programs that control sessions and consume them while they run.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etw_etl::read::{Records, TraceFile};
use etw_types::{ExtType, Guid};
use etwd::{Host, HostOptions};

use crate::support::*;

/// The provider of `controller.c`.
const PROVIDER: Guid = Guid::from_u128(0x5b4b4b4b_1111_2222_0102_030405060708);

/// A host in a fresh directory of the test's own; it ends with this.
fn host(folder: &Folder) -> (Host, PathBuf) {
    let directory = folder.0.join("run");
    (Host::start(HostOptions::new(&directory)).unwrap(), directory)
}

fn command(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("ETW_RUNTIME_DIR", directory).env_remove("ETW_DAEMON").env_remove("ETW_RECORD_DIR");
    command
}

/// The output of the program, which must succeed and print no errors.
fn succeeds(command: &mut Command, what: &str) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{what}: {:?} {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers of the events of `controller.c`, with the id and whether the event has a SID and a start key.
fn events(file: &Path) -> Vec<(i32, u16, bool, bool)> {
    let trace = TraceFile::open(file).unwrap();
    assert!(trace.is_finalised());
    let header = trace.header().unwrap();
    assert_eq!((&*header.logger_name, header.events_lost), ("Sample Session", 0));
    let mut records = Records::new(vec![trace]);
    let mut found = Vec::new();
    while let Some(record) = records.next() {
        if record.provider != Some(PROVIDER) {
            continue;
        }
        assert_eq!(&record.payload[4..], b"text\0");
        let number = i32::from_le_bytes(*record.payload.first_chunk().unwrap());
        let has = |kind| record.extended.find(kind).is_some();
        let id = record.descriptor.id;
        found.push((number, id, has(ExtType::SID), has(ExtType::PROCESS_START_KEY)));
    }
    found
}

/// A controller's sample, with every compiler: what it asks is what it has set, and its file has exactly the events that it enabled.
#[test]
fn sessions_to_files_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("controller-{number}"));
        let Some(program) = compile(&folder, "controller.c", compiler) else { continue };
        let (_host, directory) = host(&folder);
        let file = folder.0.join("sample.etl");
        let mut command = command(&program, &directory);
        let text = succeeds(command.env("TRACE_OUT", &file), &format!("{compiler:?}"));
        assert_eq!(text, EXPECTED, "{compiler:?}");
        let wanted: Vec<_> = (0..500)
            .filter(|number| match number {
                0..100 | 400..500 => true,
                100..200 => number % 2 == 1,
                _ => false,
            })
            .map(|number| {
                let is_filtered = (100..200).contains(&number);
                (number, if number % 2 == 1 { 7 } else { 8 }, is_filtered, is_filtered)
            })
            .collect();
        assert_eq!(events(&file), wanted, "{compiler:?}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

const EXPECTED: &str = "\
started name=Sample Session buffer=16 buffers=200..200 max=5 mode=1 timer=1 clock=1 number=200 lost=0 written=0 lostbuffers=0,0 traced=1
queried name=Sample Session buffer=16 buffers=200..200 max=5 mode=1 timer=1 clock=1 number=200 lost=0 written=1 lostbuffers=0,0 traced=1
updated name=Sample Session buffer=16 buffers=210..210 max=5 mode=11 timer=2500 clock=1 number=210 lost=0 written=1 lostbuffers=0,0 traced=1
all name=Sample Session buffer=16 buffers=210..210 max=5 mode=11 timer=2500 clock=1 number=210 lost=0 written=1 lostbuffers=0,0 traced=1
stopped name= buffer=16 buffers=210..210 max=5 mode=11 timer=2500 clock=1 number=210 lost=0 written=1 lostbuffers=0,0 traced=1
";

/// A provider of another process: what it is asked and filtered by, how long its callback is waited for.
#[test]
fn providers_of_other_processes_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("other-process-{number}"));
        let Some(program) = compile(&folder, "other_process.c", compiler) else { continue };
        let (_host, directory) = host(&folder);
        let file = folder.0.join("sample.etl");
        let mut command = command(&program, &directory);
        succeeds(command.env("TRACE_OUT", &file), &format!("{compiler:?}"));
        let found: Vec<i32> = events(&file).into_iter().map(|event| event.0).collect();
        let wanted: Vec<i32> = (0..10).chain(20..30).chain(40..50).collect();
        assert_eq!(found, wanted, "{compiler:?}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// OV-17: what payload filters let through, by one or by all of several, by structs and texts; what the provider's callback is given.
#[test]
fn filters_of_payload_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("payload-{number}"));
        let Some(program) = compile(&folder, "payload_filters.c", compiler) else { continue };
        let (_host, directory) = host(&folder);
        let file = folder.0.join("sample.etl");
        succeeds(command(&program, &directory).env("TRACE_OUT", &file), &format!("{compiler:?}"));
        let mut records = Records::new(vec![TraceFile::open(&file).unwrap()]);
        let mut found = Vec::new();
        while let Some(record) = records.next() {
            if record.provider == Some(PROVIDER) {
                found.push(u32::from_le_bytes(*record.payload.first_chunk().unwrap()));
            }
        }
        let first = [0, 3, 6, 9].into_iter().chain(10..20).chain([21, 100, 101]);
        let wanted: Vec<u32> = first.chain([12, 15, 18]).chain([20, 21, 25, 30, 200]).collect();
        assert_eq!(found, wanted, "{compiler:?}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// Every status, with sanitizers among the compilers.
#[test]
fn statuses_of_controllers_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("controller-calls-{number}"));
        let Some(program) = compile(&folder, "controller_calls.c", compiler) else { continue };
        let what = format!("{compiler:?}");
        let nobody = folder.0.join("nobody");
        for private in ["file", "circular", "memory"] {
            let mut command = command(&program, &nobody);
            command.env("NO_HOST", private).env("PATH", &folder.0).env("FOLDER", &folder.0);
            succeeds(&mut command, &what);
        }
        let (_host, directory) = host(&folder);
        succeeds(command(&program, &directory).env("FOLDER", &folder.0), &what);
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// Several consumers receive the events of several threads in order while the session runs; a slow one receives the number of its losses.
#[test]
fn real_time_sessions_from_c() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("real-time-{number}"));
        let Some(program) = compile(&folder, "real_time.c", compiler) else { continue };
        let (_host, directory) = host(&folder);
        let text = succeeds(&mut command(&program, &directory), &format!("{compiler:?}"));
        assert!(text.starts_with("seen "), "{text}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// Plays the host that [`start_trace_starts_a_host`] has started; else there is nothing to test.
#[test]
fn plays_the_host() {
    if let Some(directory) = std::env::var_os("ETW_TEST_HOST") {
        Host::start(HostOptions::new(directory)).unwrap().wait();
    }
}

/// Where no host runs the first `StartTrace` starts one, found by the environment or in PATH, with what it has to be told. The host is
/// this test's program: to build `etw`, from crates with other features than a test's, takes minutes where nothing is built yet.
#[test]
fn start_trace_starts_a_host() {
    let folder = Folder::new("controller-start");
    let Some(program) = compile(&folder, "controller.c", COMPILERS[0]) else { return };
    let path = folder.0.join("bin");
    std::fs::create_dir(&path).unwrap();
    let etw = path.join("etw");
    let script = format!(
        "#!/bin/sh\n[ $# = 4 ] && [ \"$1 $2 $3\" = \"daemon --idle-exit 10\" ] || exit 2\n\
         ETW_TEST_HOST=\"$4\" exec \"{}\" --exact controller::plays_the_host\n",
        std::env::current_exe().unwrap().display()
    );
    std::fs::write(&etw, script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&etw, executable).unwrap();
    for by_path in [false, true] {
        let directory = folder.0.join(format!("run-{by_path}"));
        let file = folder.0.join(format!("sample-{by_path}.etl"));
        let mut command = command(&program, &directory);
        if by_path {
            command.env("PATH", &path);
        } else {
            command.env("ETW_DAEMON", &etw).env("PATH", "");
        }
        assert_eq!(succeeds(command.env("TRACE_OUT", &file), "started"), EXPECTED);
        assert_eq!(events(&file).len(), 250);
        let client = etw_wire::host_client::Client::connect(&directory).unwrap();
        client.ask(&etw_wire::requests::Request::Shutdown).unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while directory.join("socket").exists() {
            assert!(Instant::now() < end, "the host has not ended");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A daemon, which ends with this, and its worker with it.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = Command::new("kill").arg(self.0.id().to_string()).status();
            let _ = self.0.wait();
        }
    }
}

/// P3: `ProcessTrace` goes on when the host's worker is killed: no event comes twice, and what went with the worker is in `EventsLost`.
#[test]
fn a_real_time_consumer_from_c_goes_on_after_kill_9_of_the_worker() {
    let folder = Folder::new("real-time-replaced");
    let Some(program) = compile(&folder, "real_time_replaced.c", COMPILERS[0]) else { return };
    let directory = folder.0.join("run");
    let daemon = Command::new(command_line()).arg("daemon").arg(&directory).spawn().unwrap();
    let mut daemon = Daemon(daemon);
    let end = Instant::now() + Duration::from_secs(120);
    while etw_wire::host_client::Client::connect(&directory).is_err() {
        assert!(Instant::now() < end, "the daemon does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut command = command(&program, &directory);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut consumer = command.spawn().unwrap();
    let mut ask = consumer.stdin.take().unwrap();
    let mut lines = BufReader::new(consumer.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    let worker = || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.0.id())).unwrap();
        threads.flatten().find_map(|thread| {
            let children = std::fs::read_to_string(thread.path().join("children")).ok()?;
            // One that was killed may be there still.
            children.split_ascii_whitespace().next_back().map(str::to_owned)
        })
    };
    // The keeper starts a worker in place of the one that was killed.
    let mut killed = None;
    let mut next_worker = || {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let found = worker().filter(|found| Some(found) != killed.as_ref());
            if let Some(found) = found {
                killed = Some(found.clone());
                return found;
            }
            assert!(Instant::now() < end, "no worker follows {killed:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    // The consumer receives an event that was written after this call.
    let mut receives_new = || {
        let end = Instant::now() + Duration::from_secs(120);
        let mut written_before = None;
        loop {
            ask.write_all(b"?").unwrap();
            let line = lines.next().expect("the program runs");
            let (written, received) = line.split_once(' ').unwrap();
            let (written, received): (u64, u64) =
                (written.parse().unwrap(), received.parse().unwrap());
            if received > *written_before.get_or_insert(written) {
                return;
            }
            assert!(Instant::now() < end, "nothing new is received: {line}, {written_before:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    for _ in 0..5 {
        let worker = next_worker();
        receives_new();
        assert!(Command::new("kill").args(["-9", &worker]).status().unwrap().success());
    }
    next_worker();
    receives_new();
    drop(ask);
    let said: String = lines.collect();
    let client = etw_wire::host_client::Client::connect(&directory).unwrap();
    client.ask(&etw_wire::requests::Request::Shutdown).unwrap();
    assert!(daemon.0.wait().unwrap().success());
    assert!(consumer.wait().unwrap().success(), "{said}");
}

/// OV-23, OV-24: the kernel's session through C: flags, stacks, masks, intervals and system providers of a running session.
#[test]
fn the_kernels_session_is_controlled_from_c() {
    let folder = Folder::new("system-session");
    let mut ran = 0;
    for compiler in COMPILERS {
        let Some(program) = compile(&folder, "system_session.c", compiler) else { continue };
        if ran > 0 {
            // It does the same with every compiler.
            continue;
        }
        let (_host, directory) = host(&folder);
        let mut command = command(&program, &directory);
        let text = succeeds(command.env("FOLDER", &folder.0), &format!("{compiler:?}"));
        if text.contains("refused") {
            return eprintln!("left out: this machine does not let a host record the system");
        }
        let mut records = Records::new(vec![TraceFile::open(folder.0.join("system.etl")).unwrap()]);
        assert_eq!(records.files()[0].header().unwrap().logger_name, "NT Kernel Logger");
        let (mut switches, mut images) = (0, 0);
        while let Some(record) = records.next() {
            let hook = record.hook.map(|hook| hook.0);
            switches += usize::from(hook == Some(0x0524));
            images += usize::from(hook == Some(0x1403));
        }
        assert!(switches > 0 && images > 0, "{switches} {images}");
        let configured = |flags: &str| {
            let file = folder.0.join(format!("{flags}.etl"));
            let mut records = Records::new(vec![TraceFile::open(file).unwrap()]);
            let mut hooks = std::collections::BTreeSet::new();
            while let Some(record) = records.next() {
                hooks.extend(record.hook.map(|hook| hook.0).filter(|hook| hook >> 8 == 0x0b));
            }
            hooks
        };
        const CPU: u16 = 0x0b0a;
        const INTERRUPT: u16 = 0x0b15;
        const PLATFORM: u16 = 0x0b19;
        let system = [CPU, INTERRUPT, PLATFORM];
        // Machines differ in disks and networks.
        assert!(configured("00000001").is_superset(&[CPU, PLATFORM].into()));
        assert_eq!(configured("10000001"), [].into());
        let of_system = configured("10000002");
        assert!(of_system.contains(&CPU) && of_system.is_subset(&system.into()), "{of_system:?}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// The part of a trace of the system that `TraceSetInformation` sets.
#[derive(Debug, Default)]
struct Told {
    /// Words of the masks of each part that has any.
    masks: Vec<[u32; 2]>,
    /// Sample intervals at the beginnings and ends of parts, in 100 ns.
    intervals: Vec<u32>,
    /// Times of samples, in 100 ns, by CPU.
    samples: std::collections::BTreeMap<u16, Vec<i64>>,
    /// The hooks of all events.
    hooks: std::collections::BTreeSet<u16>,
    /// The hooks of those with call stacks.
    with_stack: std::collections::BTreeSet<u16>,
}

/// In place of a hook, of events of providers.
const NO_HOOK: u16 = 0;

impl Told {
    fn read(file: &Path) -> Told {
        let mut told = Told::default();
        let mut records = Records::new(vec![TraceFile::open(file).unwrap()]);
        // The event before, by CPU.
        let mut before = std::collections::BTreeMap::new();
        while let Some(record) = records.next() {
            let Some(hook) = record.hook.map(|hook| hook.0) else {
                before.insert(record.cpu, NO_HOOK);
                continue;
            };
            let number = |at: usize| etw_types::le::u32(record.payload, at).unwrap();
            match hook {
                0x0005 if number(0) != 0 => told.masks.push([number(0), number(4)]),
                0x0f49 | 0x0f4a => told.intervals.push(number(4)),
                0x0f2e => told.samples.entry(record.cpu).or_default().push(record.order_time),
                0x1820 => drop(told.with_stack.insert(before[&record.cpu])),
                _ => {}
            }
            told.hooks.insert(hook);
            before.insert(record.cpu, hook);
        }
        told
    }

    /// No CPU was sampled more often than the interval says. Late timers come closer to the next one: a quarter more, and 4.
    fn check_samples(&self, interval: i64) {
        assert!(!self.samples.is_empty());
        for times in self.samples.values() {
            let length = times[times.len() - 1] - times[0];
            let most = length * 5 / (interval * 4) + 4;
            assert!(times.len() as i64 <= most, "{} samples in {length}", times.len());
        }
    }
}

/// OV-23, OV-24: the trace has the events, call stacks and intervals that a C program sets while the kernel's session or a system logger
/// runs, and no others.
#[test]
fn the_trace_has_what_is_set_from_c() {
    let folder = Folder::new("system-information");
    let Some(program) = compile(&folder, "system_information.c", COMPILERS[0]) else { return };
    let (_host, directory) = host(&folder);
    let text = succeeds(command(&program, &directory).env("FOLDER", &folder.0), "information");
    if text.contains("refused") {
        return eprintln!("left out: this machine does not let a host record the system");
    }
    let kernel = Told::read(&folder.0.join("kernel.etl"));
    assert_eq!(kernel.masks.last(), Some(&[3, 2]));
    assert_eq!(kernel.intervals, [50_000, 50_000]);
    assert_eq!(Vec::from_iter(&kernel.with_stack), [&0x0f2e]);
    assert!(!kernel.hooks.contains(&0x0524) && !kernel.hooks.contains(&0x1403));
    kernel.check_samples(50_000);
    let logger = Told::read(&folder.0.join("logger.etl"));
    assert_eq!(logger.masks.last(), Some(&[7, 6]));
    assert_eq!(logger.intervals, [80_000, 80_000]);
    // Threads that are off their CPUs at the end have the stacks of their last switches.
    assert_eq!(Vec::from_iter(&logger.with_stack), [&NO_HOOK, &0x0524]);
    assert!(logger.hooks.contains(&0x0524) && logger.hooks.contains(&0x1403));
    logger.check_samples(80_000);
}
