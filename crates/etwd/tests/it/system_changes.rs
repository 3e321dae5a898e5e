//! The worker is killed while a session changes which events of the system it records.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use etw_etl::read::{Records, TraceFile};
use etw_wire::requests::{Request, Response};

use crate::daemon::Daemon;
use crate::interrupted_requests::Mined;
use crate::rig::Rig;
use crate::system_events::{Switching, chains, query, record_switches, system};

const PROCESS_START: u16 = 0x0301;
const PROCESS_END: u16 = 0x0302;
/// A process that a rundown found: a worker that takes over may find one whose beginning is in no record of its own.
const PROCESS_FOUND: u16 = 0x0303;

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
    let is_whole = |life: &(u32, u32, u32)| match life {
        (0, ends, found) => *found > 0 && *ends <= 1,
        (starts, ends, _) => *starts == 1 && *ends <= 1,
    };
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
    use etw_session::{LogMode, SessionConfig};

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
