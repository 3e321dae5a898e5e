//! The worker is killed while a session changes which events of the system it records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use etw_etl::read::{Records, TraceFile};
use etw_session::{EnableInfo, EnableProperties, Enablement, LogMode, ProviderKey, SessionConfig};
use etw_system::flags::{Flag, Masks};
use etw_types::{Guid, Keyword, Level, LevelKeyword, Status};
use etw_wire::requests::{Request, Response, Update};

use crate::daemon::Daemon;
use crate::interrupted_requests::Mined;
use crate::rig::Rig;
use crate::system_events::{Switching, chains, query, record_switches, system};

const PROCESS_START: u16 = 0x0301;
const PROCESS_END: u16 = 0x0302;
/// A process that a rundown found: a worker that takes over may find one whose beginning is in no record of its own.
const PROCESS_FOUND: u16 = 0x0303;
/// A process that lives at the end.
const PROCESS_LIVES: u16 = 0x0304;

/// Threads that have said their end are known to have ended after so long, also if a ring had no room for their last switch.
const LONGEST_END: Duration = Duration::from_secs(1);
/// Perf's rings have room for the switches of so long while the worker is held.
const HELD: Duration = Duration::from_millis(300);

/// Runs programs one after the other, and waits; their process ids.
fn run_programs(pause: Duration) -> Vec<u32> {
    let run = |_| {
        let mut program = Command::new("true").spawn().unwrap();
        program.wait().unwrap();
        program.id()
    };
    let programs = (0..30).map(run).collect();
    std::thread::sleep(pause);
    programs
}

/// Number of starts, ends and findings of each process in a trace.
fn lives(file: &Path) -> BTreeMap<u32, (u32, u32, u32)> {
    let mut records = Records::new(vec![TraceFile::open(file).unwrap()]);
    let mut lives: BTreeMap<u32, (u32, u32, u32)> = BTreeMap::new();
    while let Some(record) = records.next() {
        let Some(hook) = record.hook.filter(|_| record.payload.len() >= 12) else { continue };
        let process = u32::from_le_bytes(record.payload[8..12].try_into().unwrap());
        match hook.0 {
            PROCESS_START => lives.entry(process).or_default().0 += 1,
            PROCESS_END => lives.entry(process).or_default().1 += 1,
            PROCESS_FOUND => lives.entry(process).or_default().2 += 1,
            _ => {}
        }
    }
    lives
}

/// Whether a process has one beginning and no more than one end.
fn is_whole(life: &(u32, u32, u32)) -> bool {
    match life {
        (0, ends, found) => *found > 0 && *ends <= 1,
        (starts, ends, _) => *starts == 1 && *ends <= 1,
    }
}

/// Rings that the keeper holds.
fn held_rings(daemon: &Daemon) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", daemon.keeper.id())).unwrap();
    maps.lines().filter(|line| line.contains("[perf_event]")).count()
}

/// P2, P12: what a session records is changed, and the worker is killed at each moment of the change. Programs that run at that moment are in
/// the trace once, and each gap among the switches is marked and in the ledger.
#[test]
fn a_kill_while_system_events_are_changed_loses_nothing_untold() {
    for bpf in ["0", "1"] {
        for point in [
            "other rings kept",
            "other recording begun",
            "other recording kept",
            "recording before ended",
            "recording before given",
            "recording before forgotten",
        ] {
            if !kill_at(point, bpf) {
                return;
            }
        }
    }
}

/// P2. Regression: what was in the rings was missing without a word, and so was the rundown.
#[test]
fn a_kill_while_a_session_of_system_events_stops_loses_nothing_untold() {
    for bpf in ["0", "1"] {
        for point in ["end kept", "recording ended", "last drained", "losses final"] {
            if !kill_while(&Request::Stop { session: "system".to_owned() }, point, bpf) {
                return;
            }
        }
    }
}

/// P2. Regression: the next worker took none of the rings, and what was in them was missing without a word.
#[test]
fn a_kill_while_a_provider_of_a_session_of_system_events_is_disabled_loses_nothing_untold() {
    let request = Request::Disable {
        session: "system".to_owned(),
        provider: etw_types::Guid::from_name("OpenEtw.Test.Disabled").into(),
    };
    for bpf in ["0", "1"] {
        if !kill_while(&request, "enablement kept", bpf) {
            return;
        }
    }
}

/// Kills the worker at a moment of a request to the session. Returns whether this user may record the system.
fn kill_while(request: &Request, point: &str, bpf: &str) -> bool {
    let mined = Mined::with(point, |_, command| {
        command.env("ETW_SYSTEM_BPF", bpf);
    });
    let Some(file) = record_switches(&mined.daemon) else {
        mined.end();
        return false;
    };
    let mut programs = run_programs(Duration::ZERO);
    mined.begin(request);
    if !matches!(request, Request::Stop { .. }) {
        programs.extend(run_programs(Duration::ZERO));
        mined.daemon.stop("system");
    }
    mined.daemon.rig.wait_until(|_| TraceFile::open(&file).unwrap().is_finalised());
    let lost = TraceFile::open(&file).unwrap().header().unwrap().events_lost;
    let (chains, unmarked) = chains(&file);
    assert!(unmarked.is_empty(), "{point}, bpf {bpf}: {unmarked:?}");
    let lives = lives(&file);
    let missing = programs.iter().filter(|one| !lives.get(one).is_some_and(is_whole)).count();
    eprintln!("{point}, bpf {bpf}: {missing} missing, {lost} lost, {chains:?}");
    assert!(missing <= lost as usize, "{point}, bpf {bpf}: {missing} missing, {lost} lost");
    // This process lives in the rundown at the end.
    assert!(has_record_of(&file, PROCESS_LIVES, std::process::id()), "{point}, bpf {bpf}");
    mined.end();
    true
}

/// Whether a trace has such a record of a process.
fn has_record_of(file: &Path, hook: u16, process: u32) -> bool {
    let mut records = Records::new(vec![TraceFile::open(file).unwrap()]);
    while let Some(record) = records.next() {
        let id = record.payload.get(8..12).and_then(|id| id.try_into().ok());
        if record.hook.is_some_and(|one| one.0 == hook)
            && id.map(u32::from_le_bytes) == Some(process)
        {
            return true;
        }
    }
    false
}

/// Returns whether this user may record the system.
fn kill_at(point: &str, bpf: &str) -> bool {
    let mined = Mined::with(point, |_, command| {
        command.env("ETW_SYSTEM_BPF", bpf);
    });
    let daemon = &mined.daemon;
    let Some(file) = record_switches(daemon) else {
        mined.end();
        return false;
    };
    let switching = Switching::new();
    let mut programs = run_programs(LONGEST_END);
    let rings = held_rings(daemon);
    let other = system("process,thread,cswitch,loader");
    let change = Request::System { session: "system".to_owned(), system: other };
    std::thread::scope(|scope| {
        let held = mined.hold();
        let asked = scope.spawn(|| daemon.ask(&change));
        held.wait(&daemon.rig);
        programs.extend(run_programs(HELD));
        daemon.kill_worker();
        drop(held);
        assert!(matches!(asked.join().unwrap(), Response::Done { .. }), "{point}");
    });
    programs.extend(run_programs(LONGEST_END));
    // The rings of the recording before are not kept for ever.
    daemon.rig.wait_until(|_| held_rings(daemon) == rings);
    daemon.kill_worker();
    programs.extend(run_programs(LONGEST_END));
    let before = query(daemon).attempted;
    daemon.rig.wait_until(|_| query(daemon).attempted > before);
    drop(switching);
    let status = daemon.stop("system");
    let (chains, unmarked) = chains(&file);
    eprintln!("{point}, bpf {bpf}: {} lost, {chains:?}", status.lost);
    assert!(unmarked.is_empty(), "{point}, bpf {bpf}: {unmarked:?}");
    let gaps = chains.gaps_behind_unseen + chains.gaps_behind_others;
    assert!(gaps <= status.lost, "{point}, bpf {bpf}: {chains:?} {status:?}");
    let lives = lives(&file);
    let life = |process: &u32| lives.get(process).copied().unwrap_or_default();
    let others: Vec<_> = programs.iter().map(life).filter(|one| !is_whole(one)).collect();
    // On a busy machine, a ring may have had no room for their records.
    let others_lost = status.lost - gaps;
    assert!(others.len() as u64 <= others_lost, "{point}, bpf {bpf}: {others:?} {status:?}");
    // The two kills: a program that a CPU was ending then may have no end.
    let cpus = std::thread::available_parallelism().unwrap().get();
    let endless = programs.iter().map(life).filter(|(_, ends, _)| *ends == 0).count();
    assert!(endless <= 2 * cpus, "{point}, bpf {bpf}: {endless} {status:?}");
    mined.end();
    true
}

/// OV-23: a file of a session in memory has a rundown at its end: beginnings may have left the buffers. The session goes on.
#[test]
fn a_snapshot_of_system_events_has_a_rundown() {
    let rig = Rig::new();
    let start = Request::start(SessionConfig {
        name: "memory".to_owned(),
        mode: LogMode::Buffering,
        system: Some(system("process,thread,img")),
        ..SessionConfig::default()
    });
    let Response::Session { .. } = rig.ask(start) else {
        return eprintln!("left out: this machine's events cannot be recorded");
    };
    let mut program = Command::new("sleep").arg("20").spawn().unwrap();
    for number in 0..2 {
        let file = rig.file(&format!("snapshot{number}.etl"));
        let request = Request::Snapshot { session: "memory".to_owned(), file: file.clone() };
        rig.done(request);
        let mut records = Records::new(vec![TraceFile::open(&file).unwrap()]);
        let mut after = 0;
        while let Some(record) = records.next() {
            let is_after = record.hook.is_some_and(|hook| hook.0 == 0x0304);
            let id = record.payload.get(8..12).map(|id| u32::from_le_bytes(id.try_into().unwrap()));
            after += u32::from(is_after && id == Some(program.id()));
        }
        assert_eq!(after, number + 1, "one DCEnd for each snapshot so far");
    }
    program.kill().unwrap();
    program.wait().unwrap();
}

/// P12: what began while the disk was full is in a rundown, as soon as there is room again, and the gap has its mark.
#[test]
fn a_rundown_follows_a_full_disk() {
    record_on_a_full_disk(false);
}

/// P3, P12: the same if the worker is killed meanwhile: the next one knows of the mark.
#[test]
fn the_mark_of_a_full_disk_outlives_the_worker() {
    record_on_a_full_disk(true);
}

fn record_on_a_full_disk(is_killed: bool) {
    let (daemon, place, has_small_disk) = Daemon::with_small_disk();
    if !has_small_disk {
        return;
    }
    let start = Request::start(SessionConfig {
        name: "system".to_owned(),
        file: Some(place.join("full.etl")),
        buffer_size: 8192,
        system: Some(system("process")),
        ..SessionConfig::default()
    });
    let Response::Session { .. } = daemon.ask(&start) else {
        return eprintln!("left out: this machine's events cannot be recorded");
    };
    // Only the daemon's mount namespace has the disk.
    let seen = |name: &str| {
        let worker = daemon.worker().unwrap();
        PathBuf::from(format!("/proc/{worker}/root{}", place.join(name).display()))
    };
    let status = || {
        run_programs(Duration::ZERO);
        daemon.ask(&Request::Flush { session: "system".to_owned() });
        query(&daemon)
    };
    let mut filler = File::create(seen("filler")).unwrap();
    daemon.rig.wait_until(|_| {
        while filler.write_all(&[1; 4096]).is_ok() {}
        status().state == "failing: disk full"
    });
    let mut program = Command::new("sleep").arg("300").spawn().unwrap();
    let lost = status().buffers_lost;
    daemon.rig.wait_until(|_| status().buffers_lost > lost + 1);
    if is_killed {
        daemon.kill_worker();
        // The next worker's own rundown is lost, too.
        let lost = status().buffers_lost;
        daemon.rig.wait_until(|_| status().buffers_lost > lost + 1);
    }
    drop(filler);
    std::fs::remove_file(seen("filler")).unwrap();
    daemon.rig.wait_until(|_| {
        status().notes.iter().any(|note| note.contains("rundowns behind those of the disk"))
    });
    program.kill().unwrap();
    program.wait().unwrap();
    daemon.stop("system");
    let file = seen("full.etl");
    let (starts, _, found) = lives(&file)[&program.id()];
    assert_eq!((starts, found), (0, 1));
    let mut records = Records::new(vec![TraceFile::open(&file).unwrap()]);
    let mut marks = 0;
    while let Some(record) = records.next() {
        let is_mark = record.provider == Some(etw_types::LOST_EVENT);
        marks += u32::from(is_mark && record.descriptor.opcode.0 == 33);
    }
    assert!(marks > 0, "the gap has no mark");
    daemon.end();
}

/// A system provider's GUID.
fn provider(id: u128) -> ProviderKey {
    ProviderKey::Id(Guid::from_u128(id))
}

const SCHEDULER: u128 = 0x599a2a76_4d91_4910_9ac7_7d33f2e97a6c;
const PROFILE: u128 = 0xbfeb0324_1cee_496f_a409_2ac2b48a6322;
const IO: u128 = 0x3d5c43e3_0f1c_4202_b817_174c0070dc79;
const PROCESS: u128 = 0x151f55dc_467d_471f_83b5_5f889d46ff66;
const REGISTRY: u128 = 0x16156bd9_fab4_4cfa_a232_89d1099058e3;

fn session() -> String {
    "system".to_owned()
}

fn enable(of: u128, keywords: u64, properties: EnableProperties) -> Request {
    let wanted = LevelKeyword::new(Level(5), Keyword(keywords));
    let info = EnableInfo { wanted, properties, ..EnableInfo::default() };
    Request::Enable { session: session(), provider: provider(of), info, timeout_ms: 0 }
}

fn disable(of: u128) -> Request {
    Request::Disable { session: session(), provider: provider(of) }
}

/// The warnings of a request that succeeds.
fn warnings(daemon: &Daemon, request: &Request) -> Vec<String> {
    match daemon.ask(request) {
        Response::Done { warnings } => warnings,
        other => panic!("{request:?}: {other:?}"),
    }
}

/// The status of a request that is refused, and its message.
fn refusal(daemon: &Daemon, request: &Request) -> (Status, String) {
    match daemon.ask(request) {
        Response::Error { status, message } => (Status(status), message),
        other => panic!("{request:?}: {other:?}"),
    }
}

/// The names of the classes that the session records, behind those with which it was started, and its events with call stacks.
fn recorded(daemon: &Daemon) -> (Vec<&'static str>, Vec<u16>) {
    let system = query(daemon).system.unwrap();
    let own = ["process", "thread", "cswitch"];
    let names = Masks(system.masks).names().into_iter();
    (names.filter(|name| !own.contains(name)).collect(), system.stacks)
}

/// Regression: an enablement of a system provider added its classes to those before, and its call stacks stayed for ever.
#[test]
fn an_enablement_of_a_system_provider_is_replaced_and_withdrawn() {
    let daemon = Daemon::new();
    if record_switches(&daemon).is_none() {
        return;
    }
    let (none, stacks) = (EnableProperties::default(), EnableProperties::STACK_TRACE);
    assert_eq!(warnings(&daemon, &enable(SCHEDULER, 0x202, none)), [""; 0]);
    assert_eq!(recorded(&daemon), (vec!["dispatcher"], vec![]));
    assert_eq!(warnings(&daemon, &enable(SCHEDULER, 0x80, none)), [""; 0]);
    assert_eq!(recorded(&daemon), (vec!["PRIORITY"], vec![]));
    warnings(&daemon, &enable(PROFILE, 1, stacks));
    assert_eq!(recorded(&daemon), (vec!["profile", "PRIORITY"], vec![0x0f2e]));
    // The next worker knows who asked for what.
    daemon.kill_worker();
    warnings(&daemon, &enable(PROFILE, 1, none));
    assert_eq!(recorded(&daemon), (vec!["profile", "PRIORITY"], vec![]));
    warnings(&daemon, &disable(PROFILE));
    warnings(&daemon, &disable(SCHEDULER));
    assert_eq!(recorded(&daemon), (vec![], vec![]));
    // The session was started with switches.
    let unknown = warnings(&daemon, &disable(SCHEDULER));
    assert!(unknown[0].contains("is not enabled in the session"), "{unknown:?}");
    assert!(Masks(query(&daemon).system.unwrap().masks).has(Flag::SWITCH));
    daemon.stop("system");
}

/// Regression: keywords without events on Linux were left out without a word where others remained.
#[test]
fn keywords_of_system_providers_without_events_on_linux_are_named() {
    let daemon = Daemon::new();
    if record_switches(&daemon).is_none() {
        return;
    }
    let none = EnableProperties::default();
    let notes = warnings(&daemon, &enable(IO, 0x29, none));
    assert!(notes[0].contains(": SPLIT_IO, 0x20: left out, because openetw"), "{notes:?}");
    assert_eq!(recorded(&daemon).0, ["disk"]);
    let (status, message) = refusal(&daemon, &enable(IO, 0x28, none));
    assert_eq!(status, Status::ERROR_NOT_SUPPORTED, "{message}");
    assert_eq!(recorded(&daemon).0, ["disk"]);
    daemon.stop("system");
    // A session that starts with such a provider says so, too.
    let info = EnableInfo {
        wanted: LevelKeyword::new(Level(5), Keyword(0x1002)),
        ..EnableInfo::default()
    };
    let start = SessionConfig {
        name: session(),
        file: Some(daemon.rig.file("second.etl")),
        enable: vec![Enablement::new(provider(SCHEDULER), info)],
        ..SessionConfig::default()
    };
    let Response::Session(status) = daemon.ask(&Request::start(start)) else { panic!() };
    let warning = status.error.unwrap();
    assert!(warning.contains(": 0x1000: left out, because openetw"), "{warning}");
    daemon.stop("system");
}

/// Regression: `EnableFlags` of an update had no effect.
#[test]
fn enable_flags_of_an_update_replace_those_of_the_start() {
    let daemon = Daemon::new();
    if record_switches(&daemon).is_none() {
        return;
    }
    warnings(&daemon, &enable(SCHEDULER, 0x80, EnableProperties::default()));
    let names = || Masks(query(&daemon).system.unwrap().masks).names();
    let update = |flags| Request::Update {
        session: session(),
        update: Update { enable_flags: Some(flags), ..Update::default() },
    };
    assert_eq!(warnings(&daemon, &update(0x3)), [""; 0]);
    assert_eq!(names(), ["process", "thread", "PRIORITY"]);
    let notes = warnings(&daemon, &update(0x2_0011));
    assert!(notes[0].starts_with("REGISTRY: left out"), "{notes:?}");
    assert_eq!(names(), ["process", "cswitch", "PRIORITY"]);
    assert_eq!(refusal(&daemon, &update(0x2_0000)).0, Status::ERROR_NOT_SUPPORTED);
    // Set beside EnableFlags, it stays with them, and ends with the last of them.
    let all = Request::System { session: session(), system: system("cswitch,priority") };
    warnings(&daemon, &all);
    warnings(&daemon, &disable(SCHEDULER));
    assert_eq!(names(), ["cswitch"]);
    warnings(&daemon, &all);
    warnings(&daemon, &update(0x1));
    assert_eq!(names(), ["process", "PRIORITY"]);
    warnings(&daemon, &update(0));
    assert_eq!(names(), [""; 0]);
    daemon.stop("system");
}

/// Regression: a request for the system's state returned success and had no effect.
#[test]
fn the_state_of_a_system_provider_is_a_rundown() {
    let daemon = Daemon::new();
    let Some(file) = record_switches(&daemon) else { return };
    let capture = |of| Request::CaptureState {
        session: session(),
        provider: Guid::from_u128(of),
        level: Level(0),
        any: Keyword(0),
        all: Keyword(0),
    };
    let mut program = Command::new("sleep").arg("20").spawn().unwrap();
    for of in [PROCESS, SCHEDULER] {
        assert_eq!(warnings(&daemon, &capture(of)), [""; 0]);
    }
    let (status, message) = refusal(&daemon, &capture(REGISTRY));
    assert_eq!(status, Status::ERROR_NOT_SUPPORTED);
    assert!(message.contains("none of its events on Linux"), "{message}");
    let (status, message) = refusal(&daemon, &capture(PROFILE));
    assert_eq!(status, Status::ERROR_NOT_SUPPORTED);
    assert!(message.contains("enable it first"), "{message}");
    daemon.stop("system");
    let mut records = Records::new(vec![TraceFile::open(&file).unwrap()]);
    let mut found = 0;
    while let Some(record) = records.next() {
        let is_found = record.hook.is_some_and(|hook| hook.0 == PROCESS_FOUND);
        let id = record.payload.get(8..12).map(|id| u32::from_le_bytes(id.try_into().unwrap()));
        found += u32::from(is_found && id == Some(program.id()));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    assert_eq!(found, 2, "one DCStart for each request, as the program started later");
}

/// Regression: it took providers of programs from some commands and not from others.
#[test]
fn the_kernels_session_takes_no_providers_of_programs() {
    let daemon = Daemon::new();
    let user = Enablement::new(provider(1), EnableInfo::default());
    let start = |enable| {
        Request::start(SessionConfig {
            name: "NT Kernel Logger".to_owned(),
            file: Some(daemon.rig.file("kernel.etl")),
            system: Some(system("process")),
            enable,
            ..SessionConfig::default()
        })
    };
    let is_refused = |request: &Request| {
        let (status, message) = refusal(&daemon, request);
        assert_eq!(status, Status::ERROR_INVALID_PARAMETER, "{message}");
        assert!(message.contains("records the kernel only"), "{message}");
    };
    is_refused(&start(vec![user.clone()]));
    assert!(!daemon.rig.file("kernel.etl").exists());
    let Response::Session(_) = daemon.ask(&start(Vec::new())) else {
        return eprintln!("left out: this machine's events cannot be recorded");
    };
    is_refused(&Request::Enable {
        session: "nt kernel logger".to_owned(),
        provider: user.provider,
        info: user.info,
        timeout_ms: 0,
    });
    daemon.stop("NT Kernel Logger");
}
