//! Command lines and users of many programs that begin between two looks at the rings.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::ground_truth::{END, helper, last_command_line, last_user, settle};
use crate::invariants::check_live;
use crate::live::{Live, Recording, is_first_namespace, record_and_count};
use crate::schemas::decode_exec;
use etw_system::record::{ProviderEvent, RecordKind};

/// The user of each second program of a storm: nobody, on most systems. It has no rights, and needs no account.
const OTHER_USER: u32 = 65_534;

/// The user of a program of a storm: without rights always this one.
fn user(number: usize) -> u32 {
    // SAFETY: it takes nothing and returns a number.
    let own = unsafe { libc::getuid() };
    if own == 0 && number % 2 == 1 { OTHER_USER } else { own }
}

/// Runs programs one after another while nobody looks at the rings, each second one as another user. Returns their ids.
fn storm(programs: usize) -> Vec<u32> {
    let run = |number| {
        let mut command = Command::new("true");
        command.arg(format!("number {number}")).stdin(Stdio::null()).uid(user(number));
        let mut child = command.spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    (0..programs).map(run).collect()
}

/// The losses of processes, and the number of programs of a storm whose ends lack their command lines.
fn lost_and_wrong(recording: &Recording, ids: &[u32]) -> (u64, usize) {
    let processes = etw_types::Hook(END).class_guid().unwrap();
    let lost = recording.losses.of(processes);
    let is_wrong = |(number, id): &(usize, &u32)| {
        let line = format!("true \"number {number}\"");
        last_command_line(&recording.records, **id) != Some(line)
    };
    (lost, ids.iter().enumerate().filter(is_wrong).count())
}

/// Records a storm, and whether a program in the kernel records its arguments.
fn record_storm(programs: usize) -> Option<(Recording, Vec<u32>, bool)> {
    let (mut ids, mut has_arguments) = (Vec::new(), false);
    let recording = record_and_count("process,thread", None, |live: &mut Live| {
        has_arguments = live.has_arguments();
        ids = storm(programs);
        settle(live);
    })?;
    Some((recording, ids, has_arguments))
}

/// OV-23: the records of hundreds of programs that begin between two looks fit into the rings, as their arguments are recorded once.
#[test]
fn a_storm_of_programs_between_two_looks_loses_none() {
    /// Rings of all CPUs would hold so many programs with a copy of the stack each.
    const FULL: usize = 256;
    let cpus = std::thread::available_parallelism().unwrap().get();
    let Some((recording, ids, has_arguments)) = record_storm((FULL * cpus).clamp(700, 3000)) else {
        return;
    };
    if !has_arguments || !is_first_namespace() {
        return eprintln!("left out: no right to programs in the kernel, or a namespace");
    }
    check_live(&recording.records);
    assert_eq!(lost_and_wrong(&recording, &ids), (0, 0), "{:?}", recording.losses);
    let is_own =
        |(number, id): &(usize, &u32)| last_user(&recording.records, **id) == Some(user(*number));
    let of_their_users = ids.iter().enumerate().filter(is_own).count();
    assert_eq!(of_their_users, ids.len(), "programs with their own users");
}

/// OV-23: each program of a chain has an `Exec` with its own path and arguments, however soon the next one follows.
#[test]
fn each_exec_of_a_chain_has_its_own_arguments() {
    const CHAINS: usize = 300;
    let (mut ids, mut has_arguments) = (Vec::new(), false);
    let recording = record_and_count("process,thread", None, |live: &mut Live| {
        has_arguments = live.has_arguments();
        for number in 0..CHAINS {
            let mut command = Command::new("env");
            command.args(["nice", "true", &number.to_string()]).stdin(Stdio::null());
            let mut child = command.spawn().unwrap();
            child.wait().unwrap();
            ids.push(child.id());
            live.poll();
        }
        settle(live);
    });
    let Some(recording) = recording else { return };
    if !has_arguments || !is_first_namespace() || recording.losses.total() > 0 {
        return eprintln!("left out: no right to programs in the kernel, a namespace, or losses");
    }
    let mut chains: HashMap<u32, Vec<String>> = HashMap::new();
    for one in &recording.records {
        if one.kind == RecordKind::Provider(ProviderEvent::Exec) {
            let (_, fields) = decode_exec(&one.payload);
            let name = fields[1].1.rsplit('/').next().unwrap_or_default();
            chains.entry(one.u32(0)).or_default().push(format!("{name}: {}", fields[2].1));
        }
    }
    for (number, id) in ids.iter().enumerate() {
        let expected = [
            format!("env: env,nice,true,{number}"),
            format!("nice: nice,true,{number}"),
            format!("true: true,{number}"),
        ];
        assert_eq!(chains.get(id).map(Vec::as_slice), Some(&expected[..]), "process {id}");
    }
}

/// Records some programs by perf alone: as many as a ring has room for. The kernel cannot copy each stack; `/proc` has nothing of such a
/// program any more.
pub fn records_a_storm_by_perf() {
    const PROGRAMS: usize = 100;
    let Some((recording, ids, has_arguments)) = record_storm(PROGRAMS) else { return };
    assert!(!has_arguments);
    check_live(&recording.records);
    let (lost, wrong) = lost_and_wrong(&recording, &ids);
    assert!(lost > 0 || wrong <= PROGRAMS / 2, "{lost} lost, {wrong} without their command lines");
    let missing = |note: &String| {
        note.strip_prefix("missing command lines: ")?.split_once(',')?.0.parse().ok()
    };
    let told: usize = recording.notes.iter().find_map(missing).unwrap_or(0);
    assert!(told >= wrong, "{wrong} without their command lines, and {told} told");
}

/// OV-23: without programs in the kernel, perf copies the arguments.
#[test]
fn perf_alone_records_command_lines() {
    let mut command = helper("records a storm by perf");
    let status = command.env("ETW_SYSTEM_BPF", "0").stderr(Stdio::inherit()).status().unwrap();
    assert!(status.success());
}

/// OV-23: a process that changes its user without another program has that user when it ends, or when the recording does.
#[test]
fn a_process_that_changes_its_user_ends_with_that_one() {
    let process = |microseconds| {
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: they take numbers.
            unsafe {
                libc::setuid(OTHER_USER);
                libc::usleep(microseconds);
                libc::_exit(0);
            }
        }
        child
    };
    let wait = |child| {
        // SAFETY: a number, and no memory.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    };
    let mut children = [0; 2];
    let recording = record_and_count("process", None, |_| {
        children = [100, 20_000_000].map(process);
        wait(children[0]);
        std::thread::sleep(std::time::Duration::from_millis(50));
    });
    let Some(recording) = recording else { return };
    // SAFETY: it takes numbers.
    unsafe { libc::kill(children[1], libc::SIGKILL) };
    wait(children[1]);
    let has_connector = !recording.notes.iter().any(|note| note.starts_with("exit statuses"));
    // SAFETY: it takes nothing and returns a number.
    if unsafe { libc::getuid() } != 0 || !has_connector || !is_first_namespace() {
        return eprintln!("left out: without rights");
    }
    let users = children.map(|child| last_user(&recording.records, child as u32));
    assert_eq!(users, [Some(OTHER_USER); 2]);
}
