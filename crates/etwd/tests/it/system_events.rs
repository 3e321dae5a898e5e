//! Events of the system in a daemon whose worker is killed.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use etw_etl::read::{Records, TraceFile};
use etw_session::{SessionClock, SessionConfig, SystemConfig};
use etw_system::flags::Masks;
use etw_system::switch_chains::{Chains, Gap, SwitchChains};
use etw_types::{ClockType, HeaderType};
use etw_wire::requests::{Request, Response, SessionStatus};

use crate::daemon::Daemon;
use crate::rig::*;

const CSWITCH: u16 = 0x0524;
/// Between two rounds of the threads that switch.
const PAUSE: Duration = Duration::from_micros(50);

/// The chains of switches in a trace. Places whose switches are missing without a word.
pub fn chains(file: &Path) -> (Chains, Vec<Gap>) {
    chains_of(&[file.to_owned()])
}

/// The same for several files of one session.
pub fn chains_of(files: &[PathBuf]) -> (Chains, Vec<Gap>) {
    let files = files.iter().map(|file| TraceFile::open(file).unwrap());
    let mut records = Records::new(files.collect());
    let mut chains = SwitchChains::default();
    let mut gaps = Vec::new();
    while let Some(record) = records.next() {
        gaps.extend(chains.add(&record).filter(|gap| !gap.is_marked));
    }
    gaps.truncate(10);
    (chains.found(), gaps)
}

/// Two threads that wake each other until they are dropped.
pub struct Switching {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Switching {
    pub fn new() -> Switching {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
        let ends = is_over.clone();
        let first = std::thread::spawn(move || {
            let mut byte = [0];
            while !ends.load(Ordering::Relaxed) {
                here.write_all(&byte).unwrap();
                here.read_exact(&mut byte).unwrap();
                // A worker without optimisation has to keep up.
                std::thread::sleep(PAUSE);
            }
        });
        let second = std::thread::spawn(move || {
            let mut byte = [0];
            while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
        });
        Switching { is_over, threads: vec![first, second] }
    }
}

impl Drop for Switching {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

pub fn system(words: &str) -> SystemConfig {
    let masks = Masks::parse(words).unwrap().masks.0;
    SystemConfig { masks, sample_interval: 10_000, ..SystemConfig::default() }
}

/// Whether this machine refuses to record itself.
fn is_without_rights(message: &str) -> bool {
    message.contains("CAP_PERFMON") || message.contains("tracefs")
}

/// Context switches of the machine since its start, as the kernel counts them.
fn counted_switches() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let count = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    count.unwrap().parse().unwrap()
}

pub fn query(daemon: &Daemon) -> SessionStatus {
    match daemon.ask(&Request::Query { session: "system".to_owned() }) {
        Response::Session(status) => *status,
        other => panic!("{other:?}"),
    }
}

/// A session of system events that asks for the cycle counter, as Tracy's does, gets the performance counter; its status and its file say so.
#[test]
fn a_system_session_on_cycles_gets_the_performance_counter() {
    let rig = Rig::new();
    let file = rig.file("cycles.etl");
    let start = SessionConfig {
        name: "cycles".to_owned(),
        file: Some(file.clone()),
        clock: SessionClock::Cycles,
        system: Some(system("process")),
        ..SessionConfig::default()
    };
    match rig.ask(Request::start(start)) {
        Response::Session(status) => assert_eq!(status.clock, SessionClock::Qpc),
        Response::Error { message, .. } if is_without_rights(&message) => {
            eprintln!("left out: {message}");
            return;
        }
        other => panic!("{other:?}"),
    }
    rig.stop("cycles");
    let trace = TraceFile::open(&file).unwrap();
    assert_eq!(trace.header().unwrap().clock_type, ClockType::QPC);
}

/// A daemon whose recordings have rings of perf: one for each CPU.
fn with_rings_of_perf() -> Daemon {
    let rig = Rig::without_host();
    let mut command = rig.command("keeper", &[]);
    let keeper = Program::start(command.env("ETW_SYSTEM_BPF", "0"));
    Daemon { rig, keeper }
}

/// Records switches in the session `system`, to the file that it returns. `None`: this user may not.
pub fn record_switches(daemon: &Daemon) -> Option<std::path::PathBuf> {
    record_switches_with(daemon, &[])
}

/// The same with call stacks of some events.
fn record_switches_with(daemon: &Daemon, stacks: &[u16]) -> Option<std::path::PathBuf> {
    let file = daemon.rig.file("system.etl");
    let start = SessionConfig {
        name: "system".to_owned(),
        file: Some(file.clone()),
        buffer_size: 256 << 10,
        buffer_count: 64,
        system: Some(SystemConfig { stacks: stacks.to_vec(), ..system("process,thread,cswitch") }),
        ..SessionConfig::default()
    };
    match daemon.ask(&Request::start(start)) {
        Response::Session(_) => Some(file),
        Response::Error { message, .. } if is_without_rights(&message) => {
            eprintln!("left out: {message}");
            None
        }
        other => panic!("{other:?}"),
    }
}

const ENGINE: &str = "etwd-engine";

/// The scheduling policies and nicenesses of some threads of a process.
fn policies(process: u32, is_wanted: impl Fn(&str) -> bool) -> Vec<(u32, i32)> {
    let threads =
        std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let stats = threads.filter_map(|one| std::fs::read_to_string(one.path().join("stat")).ok());
    let policy = |stat: String| {
        let (head, tail) = stat.rsplit_once(')')?;
        // Behind the name: the 19th and the 41st field of the line.
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let policy = (fields.get(38)?.parse().ok()?, fields.get(16)?.parse().ok()?);
        is_wanted(head.split_once('(')?.1).then_some(policy)
    };
    stats.filter_map(policy).collect()
}

/// The policy of the thread that reads the kernel's rings, as soon as there is one.
fn policy_of_engine(daemon: &Daemon) -> (u32, i32) {
    let mut found = None;
    daemon.rig.wait_until(|_| {
        let worker = daemon.worker();
        found = worker.and_then(|one| policies(one, |name| name == ENGINE).first().copied());
        found.is_some()
    });
    found.unwrap()
}

/// The policy of the keeper, which has one thread beside those that close rings.
fn policy_of_keeper(daemon: &Daemon) -> (u32, i32) {
    policies(daemon.keeper.id(), |name| name != "etwd-close").into_iter().max().unwrap()
}

/// P12: while the host records the system, its thread runs before most others, if it may; only then.
#[test]
fn the_thread_that_reads_the_rings_runs_before_others() {
    const ROUND_ROBIN: u32 = 2;
    let daemon = Daemon::new();
    // The thread takes its priority a moment after it has begun.
    let mut ordinary = policy_of_engine(&daemon);
    for _ in 0..200 {
        if ordinary.1 != 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
        ordinary = policy_of_engine(&daemon);
    }
    if record_switches(&daemon).is_none() {
        daemon.end();
        return;
    }
    // SAFETY: it takes nothing and returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let recording = policy_of_engine(&daemon);
    if !is_root || recording.1 != -10 {
        eprintln!("left out: this user may not raise a thread's priority: {recording:?}");
    } else if recording.0 != ROUND_ROBIN {
        eprintln!("left out: root may not have real-time threads here");
    }
    if recording.0 == ROUND_ROBIN {
        assert_ne!(ordinary.0, ROUND_ROBIN);
    }
    if recording.1 == -10 {
        assert_eq!(ordinary.1, -10, "also without a recording, before programs that compute");
    }
    // The keeper, which has rings then, starts the next worker as soon.
    daemon.rig.wait_until(|_| policy_of_keeper(&daemon) == recording);
    daemon.kill_worker();
    // The next worker, too.
    daemon.rig.wait_until(|_| policy_of_engine(&daemon) == recording);
    // The harness of tests, which started this worker, has threads of its own.
    let is_other = |name: &str| name.starts_with("etw") && name != ENGINE;
    let others = |daemon: &Daemon| policies(daemon.worker().unwrap(), is_other);
    let are_ordinary =
        |all: &[(u32, i32)]| !all.is_empty() && all.iter().all(|one| one.0 != ROUND_ROBIN);
    daemon.rig.wait_until(|_| are_ordinary(&others(&daemon)));
    daemon.stop("system");
    assert_eq!(policy_of_engine(&daemon), ordinary);
    daemon.rig.wait_until(|_| policy_of_keeper(&daemon) == (ordinary.0, 0));
    daemon.end();
}

/// The kernel's rings outlive a killed worker: the chain of switches of each CPU stays whole. The kernel leaves
/// switches out now and then, without kills too; the trace says where. Runs only with `ETW_KILLS`, also as a user without rights if
/// `kernel.perf_event_paranoid` is 0: the rings are small then, and all that they lose is in the ledger.
#[test]
fn a_killed_worker_leaves_no_gap_among_the_switches() {
    let Ok(kills) = std::env::var("ETW_KILLS") else {
        eprintln!("left out: ETW_KILLS is not set");
        return;
    };
    // With call stacks, perf and a program record switches: that one those from idle.
    for stacks in [&[][..], &[0x0524]] {
        kill_while_switching(kills.parse().unwrap(), stacks);
    }
}

fn kill_while_switching(kills: u64, stacks: &[u16]) {
    let daemon = Daemon::new();
    let Some(file) = record_switches_with(&daemon, stacks) else {
        daemon.end();
        return;
    };
    let first = counted_switches();
    let switching = Switching::new();
    for _ in 0..kills {
        let before = query(&daemon).attempted;
        daemon.rig.wait_until(|_| query(&daemon).attempted > before + 1000);
        daemon.kill_worker();
    }
    let before = query(&daemon).attempted;
    daemon.rig.wait_until(|_| query(&daemon).attempted > before + 1000);
    drop(switching);
    let status = daemon.stop("system");
    let counted = counted_switches() - first;
    let (chains, gaps) = chains(&file);
    eprintln!(
        "{kills} kills: {} switches, {} places with losses, {} lost, {counted} counted by the kernel",
        chains.switches, chains.losses, status.lost
    );
    // No loss is counted twice. The kernel's own count is of switches only.
    assert!(chains.switches + status.lost <= counted + counted / 50, "{status:?}");
    assert!(chains.switches + status.lost >= counted - counted / 50, "{status:?}");
    assert!(chains.switches > 1000 * kills, "{chains:?}");
    assert!(gaps.is_empty(), "{gaps:?}");
    daemon.end();
}

/// Hands a byte between two threads of one CPU, so often that its ring of switches is full long before.
fn fill_a_ring() {
    const EXCHANGES: u32 = 200_000;
    let stay = || {
        // SAFETY: a set of this call's own, of its own size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    };
    let (mut here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
    let other = std::thread::spawn(move || {
        stay();
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let this = std::thread::spawn(move || {
        stay();
        for _ in 0..EXCHANGES {
            here.write_all(&[0]).unwrap();
            here.read_exact(&mut [0]).unwrap();
        }
    });
    this.join().unwrap();
    other.join().unwrap();
}

/// P12: a worker that does not read leaves the kernel no room, and is killed: the next one counts what was lost meanwhile, and the trace
/// says where it is missing.
#[test]
fn what_the_kernel_lost_before_a_takeover_is_told() {
    let daemon = with_rings_of_perf();
    let Some(file) = record_switches(&daemon) else {
        daemon.end();
        return;
    };
    let first = counted_switches();
    let worker = daemon.worker().unwrap() as libc::pid_t;
    // SAFETY: the arguments are numbers; the process belongs to this test.
    assert_eq!(unsafe { libc::kill(worker, libc::SIGSTOP) }, 0);
    fill_a_ring();
    daemon.kill_worker();
    let before = query(&daemon).attempted;
    daemon.rig.wait_until(|_| query(&daemon).attempted > before);
    // Those that the kernel counts while the session ends may be in it or not; on a busy machine they are many.
    let least = counted_switches() - first;
    let status = daemon.stop("system");
    let counted = counted_switches() - first;
    let (chains, gaps) = chains(&file);
    eprintln!(
        "{} switches, {} places with losses, {} lost, {least} to {counted} counted by the kernel",
        chains.switches, chains.losses, status.lost
    );
    assert!(status.lost > 10_000, "the ring was not full: {status:?}");
    assert!(chains.switches + status.lost <= counted + counted / 50, "{status:?}");
    assert!(chains.switches + status.lost >= least - least / 50, "{status:?}");
    assert!(chains.losses > 0 && gaps.is_empty(), "{chains:?} {gaps:?}");
    daemon.end();
}

/// OV-23: the rings of a CPU that came back outlive a killed worker, too, and the next worker still records that CPU. `ETW_HOTPLUG` names
/// one, such as 1.
#[test]
fn a_cpu_that_came_back_before_a_takeover_is_recorded_after_it() {
    record_a_cpu_that_comes_back(|daemon, switch| {
        for word in ["0", "1"] {
            switch(word);
            // The host looks 20 times a second.
            for _ in 0..20 {
                let before = query(daemon).attempted;
                daemon.rig.wait_until(|_| query(daemon).attempted > before);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        daemon.kill_worker();
        // The second takeover has what the first one kept.
        daemon.kill_worker();
    });
}

/// OV-23: a CPU that goes offline and comes back while no worker lives is recorded by the next one, and by the one behind it.
#[test]
fn a_cpu_that_comes_back_while_no_worker_lives_is_recorded_by_the_next_one() {
    record_a_cpu_that_comes_back(|daemon, switch| {
        let signal = |process: u32, number| {
            // SAFETY: the arguments are numbers; the process belongs to this test.
            assert_eq!(unsafe { libc::kill(process as libc::pid_t, number) }, 0);
        };
        let (keeper, worker) = (daemon.keeper.id(), daemon.worker().unwrap());
        let all_are = |process: u32, state: &str| {
            let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
            let stats = threads.map(|one| std::fs::read_to_string(one.path().join("stat")));
            stats.flatten().all(|stat| stat.rsplit(')').next().unwrap().starts_with(state))
        };
        signal(keeper, libc::SIGSTOP);
        daemon.rig.wait_until(|_| all_are(keeper, " T"));
        signal(worker, libc::SIGKILL);
        daemon.rig.wait_until(|_| all_are(worker, " Z"));
        switch("0");
        switch("1");
        signal(keeper, libc::SIGCONT);
        daemon.rig.wait_until(|_| daemon.worker().is_some_and(|other| other != worker));
        let before = query(daemon).attempted;
        daemon.rig.wait_until(|_| query(daemon).attempted > before);
        daemon.kill_worker();
    });
}

/// Records switches. A function takes a CPU offline and online, and kills workers; after that, the CPU's switches are in the trace.
fn record_a_cpu_that_comes_back(act: impl FnOnce(&Daemon, &dyn Fn(&str))) {
    let Ok(cpu) = std::env::var("ETW_HOTPLUG") else {
        return eprintln!("left out: ETW_HOTPLUG=1 lets it take CPU 1 offline, for a moment");
    };
    let number: u8 = cpu.parse().unwrap();
    // There is one such CPU.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let daemon = with_rings_of_perf();
    let Some(file) = record_switches(&daemon) else {
        daemon.end();
        return;
    };
    let switch = |word: &str| {
        std::fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), word).unwrap();
    };
    let work = || {
        let work = "i=0; while [ $i -lt 300 ]; do sleep 0.001; i=$((i+1)); done";
        let mut command = std::process::Command::new("taskset");
        assert!(command.args(["-c", &cpu, "sh", "-c", work]).status().unwrap().success());
    };
    act(&daemon, &switch);
    let before = query(&daemon).attempted;
    daemon.rig.wait_until(|_| query(&daemon).attempted > before);
    let mut since = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a value that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut since) };
    let since = since.tv_sec * 10_000_000 + since.tv_nsec / 100;
    work();
    let status = daemon.stop("system");
    let mut records = Records::new(vec![TraceFile::open(&file).unwrap()]);
    let mut times = Vec::new();
    while let Some(record) = records.next() {
        let is_switch = record.hook.map(|hook| hook.0) == Some(CSWITCH);
        if is_switch && record.header == HeaderType::PerfInfo64 && record.payload[15] == number {
            times.push(record.order_time);
        }
    }
    let last = times.iter().filter(|time| **time > since).count();
    // The shell waits 300 times for a program that sleeps.
    assert!(last > 500, "{last} of {} switches of CPU {cpu} at the end: {status:?}", times.len());
    let (chains, gaps) = chains(&file);
    assert!(chains.losses > 0, "the time without the CPU is not marked");
    assert!(gaps.is_empty(), "{gaps:?}");
    daemon.end();
}

/// OV-24: a host has at most eight sessions with events of the system. The ninth one is refused, until one of them ends.
#[test]
fn a_ninth_session_with_system_events_is_refused() {
    const NO_SYSTEM_RESOURCES: u32 = 1450;
    let daemon = Daemon::new();
    let start = |number: u32| {
        daemon.ask(&Request::start(SessionConfig {
            name: format!("system{number}"),
            file: Some(daemon.rig.file(&format!("system{number}.etl"))),
            system: Some(system("process")),
            ..SessionConfig::default()
        }))
    };
    for number in 1..=8 {
        match start(number) {
            Response::Session(_) => {}
            Response::Error { message, .. } if is_without_rights(&message) => {
                eprintln!("left out: {message}");
                daemon.end();
                return;
            }
            other => panic!("session {number}: {other:?}"),
        }
    }
    match start(9) {
        Response::Error { status: NO_SYSTEM_RESOURCES, message } => {
            assert!(message.contains("stop one first"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!daemon.rig.file("system9.etl").exists(), "a refused session leaves no file");
    daemon.stop("system3");
    let answer = start(9);
    assert!(matches!(answer, Response::Session(_)), "{answer:?}");
    daemon.end();
}
