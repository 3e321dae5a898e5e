//! The memory for rings that a user may lock.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use etw_session::{LogMode, SessionConfig};
use etw_wire::requests::{Request, Response};

use crate::daemon::Daemon;
use crate::system_events::system;

/// The kernel counts the memory of rings by user: nobody else's are counted with these.
const USER: u32 = 65_411;
const NO_SYSTEM_RESOURCES: u32 = 1450;
const ALREADY_EXISTS: u32 = 183;

/// Runs a test of this file as another user, who may lock little memory: a controller rejects the daemon of anyone else, and root may lock
/// all memory. `None`: that process has run the test, or, said aloud, this machine does not permit it.
fn users_daemon(user: u32, test: &str) -> Option<Daemon> {
    const USER_VARIABLE: &str = "ETW_TEST_USER";
    if std::env::var_os(USER_VARIABLE).is_some() {
        return Some(Daemon::new());
    }
    let program = std::env::current_exe().unwrap();
    let is_open = |place: &std::path::Path| {
        place.metadata().is_ok_and(|facts| facts.permissions().mode() & 0o5 == 0o5)
    };
    // SAFETY: takes nothing and returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root || !program.ancestors().all(is_open) {
        eprintln!("skipped: only root runs a test as another user, who can read this program");
        return None;
    }
    let mut command = Command::new(program);
    command.arg(format!("locked_memory::{test}")).args(["--exact", "--nocapture"]);
    command.env(USER_VARIABLE, "").uid(user).gid(user);
    // SAFETY: a system call, in a child that then becomes another program.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 8 << 20, rlim_max: 8 << 20 };
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit);
            Ok(())
        });
    }
    assert!(command.status().unwrap().success());
    None
}

fn start(daemon: &Daemon, name: &str, words: &str) -> Response {
    daemon.ask(&Request::start(SessionConfig {
        name: name.to_owned(),
        mode: LogMode::Buffering,
        system: Some(system(words)),
        ..SessionConfig::default()
    }))
}

/// Whether this machine refuses to record itself, said aloud.
fn is_refused(answer: &Response) -> bool {
    let Response::Error { message, .. } = answer else { return false };
    let is_refused = message.contains("CAP_PERFMON");
    if is_refused {
        eprintln!("skipped: {message}");
    }
    is_refused
}

/// Memory that a process has locked for rings, as the kernel says it.
fn locked(process: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:"));
    line.unwrap().trim().to_owned()
}

/// OV-23: the kernel gives the memory of rings back to the process that unmaps them last: the one that it was charged to.
#[test]
fn a_stop_gives_the_memory_of_rings_back() {
    let Some(daemon) = users_daemon(USER, "a_stop_gives_the_memory_of_rings_back") else { return };
    for round in 0..4 {
        let name = format!("profile {round}");
        let answer = start(&daemon, &name, "profile");
        if round == 0 && is_refused(&answer) {
            return;
        }
        let Response::Session(_) = answer else { panic!("{round}: {answer:?}") };
        let worker = daemon.worker().unwrap();
        assert_ne!(locked(worker), "0 kB");
        if round == 2 {
            // The next worker was not charged.
            daemon.kill_worker();
            daemon.ask(&Request::Query { session: name.clone() });
        }
        let stopped = daemon.ask(&Request::Stop { session: name });
        let Response::Session(_) = stopped else { panic!("{round}: {stopped:?}") };
        assert_eq!(locked(daemon.worker().unwrap()), "0 kB", "{round}");
        if round < 2 {
            assert_eq!(locked(daemon.keeper.id()), "0 kB", "{round}");
        }
    }
    daemon.end();
}

/// OV-23: rings that a change replaces are given back, too.
#[test]
fn a_change_gives_the_memory_of_rings_back() {
    let Some(daemon) = users_daemon(USER + 1, "a_change_gives_the_memory_of_rings_back") else {
        return;
    };
    let answer = start(&daemon, "changing", "process");
    if is_refused(&answer) {
        return;
    }
    let Response::Session(_) = answer else { panic!("{answer:?}") };
    // Each one needs the memory of those before the last.
    let words = ["process+img", "process+thread", "process"];
    for words in words.into_iter().cycle().take(30) {
        let session = "changing".to_owned();
        let answer = daemon.ask(&Request::System { session, system: system(words) });
        let Response::Done { .. } = answer else { panic!("{words}: {answer:?}") };
    }
    daemon.stop("changing");
    assert_eq!(locked(daemon.worker().unwrap()), "0 kB");
    assert_eq!(locked(daemon.keeper.id()), "0 kB");
    daemon.end();
}

/// OV-22: a user whose memory for rings is used up reads so, not that the right to record is missing; and a name that exists is named first.
#[test]
fn rings_without_memory_are_no_lack_of_rights() {
    let Some(daemon) = users_daemon(USER + 2, "rings_without_memory_are_no_lack_of_rights") else {
        return;
    };
    for number in 0..8 {
        let answer = start(&daemon, &format!("process {number}"), "profile");
        if number == 0 && is_refused(&answer) {
            return;
        }
        let Response::Error { status, message } = answer else { continue };
        assert_eq!(status, NO_SYSTEM_RESOURCES, "{message}");
        for advice in ["memory for perf rings", "perf_event_mlock_kb", "CAP_IPC_LOCK"] {
            assert!(message.contains(advice), "{message}");
        }
        let answer = start(&daemon, "PROCESS 0", "process");
        let Response::Error { status, message } = answer else { panic!("{answer:?}") };
        assert_eq!(status, ALREADY_EXISTS, "{message}");
        daemon.end();
        return;
    }
    eprintln!("skipped: this machine gives any user memory for rings");
}
