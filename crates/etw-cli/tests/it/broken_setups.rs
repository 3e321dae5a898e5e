//! Every row of the table in `docs/guide/troubleshooting.md`: a broken set-up, which `etw doctor` finds and says how to fix.

use crate::controllers::{NAME, Place, Program, ROLE};
use crate::doctor::{NOBODY, answer_as_host, set_mode};
use crate::fixture::stderr;
use etw_wire::message::FromHost;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../../../../docs/guide/troubleshooting.md");

/// Breaks something and asks `etw doctor`. `None`, said aloud: this user or machine cannot break it.
type Asked = fn(&Place) -> Option<Output>;

const SETUPS: [(&str, Asked); 33] = [
    ("no host runs", |place| doctor(place, &[])),
    ("the host was killed", killed_host),
    ("the host is stopped", stopped_host),
    ("the host is of another version", |place| {
        host_that_answers(place, &FromHost::Refused { status: 50 }.to_bytes())
    }),
    ("another program listens", |place| host_that_answers(place, b"{nonsense")),
    ("the runtime directory cannot be created", |place| {
        set_mode(&place.folder, 0o755);
        doctor_of(place, NOBODY, &place.file("missing/folder"))
    }),
    ("others may write to the runtime directory", |place| {
        set_mode(&place.runtime(), 0o777);
        doctor(place, &[])
    }),
    ("another user owns the runtime directory", |place| {
        needs_root()?;
        std::os::unix::fs::chown(place.runtime(), Some(12345), None).unwrap();
        doctor(place, &[])
    }),
    ("you may not control the host", host_of_another_user),
    ("a user namespace hides the directory's owner", hidden_owner),
    ("the program does not run", |place| {
        place.does("session start s --buffering -p Absent");
        doctor(place, &["Absent"])
    }),
    ("the provider's name is misspelt", |place| {
        let _program = started(place, &format!("-p {NAME}"));
        doctor(place, &["OpenEtw.Test.Controler"])
    }),
    ("the GUID is not that of the name", |place| {
        place.does("session start s --buffering -p *OpenEtw.Test.Third");
        let _program = known(place, place.program_with_third_at_once());
        doctor(place, &["*OpenEtw.Test.Third"])
    }),
    ("the program has ended", |place| {
        let program = started(place, &format!("-p {NAME}"));
        let process = program.id();
        drop(program);
        wait_for_host(place, process, false);
        doctor(place, &[NAME])
    }),
    ("no session enables the provider", |place| {
        let _program = started(place, &format!("-p {NAME}"));
        doctor(place, &["OpenEtw.Test.Second"])
    }),
    ("a session enables nothing", |place| {
        place.does("session start s --buffering");
        doctor(place, &[])
    }),
    ("nine sessions record one program", |place| {
        for number in 1..=8 {
            place.does(&format!("session start s{number} --buffering --buffers 4 -p {NAME}"));
        }
        place.does("session start s9 --buffering --buffers 4 -p *OpenEtw.Test.Second");
        let _program = known(place, place.other_program());
        doctor(place, &[NAME])
    }),
    ("the level lets no event pass", |place| {
        started(place, &format!("-p {NAME}:critical")).writes(10);
        doctor_of_program(place)
    }),
    ("the keywords let no event pass", |place| {
        started(place, &format!("-p {NAME}:verbose:0x4000")).writes(10);
        doctor_of_program(place)
    }),
    ("the filter names other processes", |place| {
        let _program = started(place, &format!("-p {NAME} --pid 1"));
        doctor(place, &[NAME])
    }),
    ("the filters reject every event", |place| {
        let mut program = started(place, &format!("-p {NAME} --event-name Absent"));
        program.writes(10);
        doctor(place, &[NAME])
    }),
    ("the file is full", |place| {
        let file = "-o full.etl --max-size 16K --buffer-size 4K --buffers 2";
        place.does(&format!("session start s {file} -p {NAME}"));
        known(place, place.other_program()).writes(3000);
        doctor(place, &[])
    }),
    ("the file was removed", |place| {
        place.does(&format!("session start s -o s.etl --buffer-size 4K -p {NAME}"));
        std::fs::remove_file(place.file("s.etl")).unwrap();
        known(place, place.other_program()).writes(1000);
        place.etw(&["session", "flush", "s"]);
        doctor(place, &[])
    }),
    ("the session has lost events", |place| {
        let small = "--real-time --buffers 2 --buffer-size 4K";
        place.does(&format!("session start s {small} -p {NAME}"));
        known(place, place.other_program()).writes(1000);
        doctor(place, &[])
    }),
    ("the disk is almost full", |place| {
        in_mounts(
            place,
            "mount -t tmpfs -o size=1m none . && \"$ETW\" session start s -o s.etl --buffer-size 4K -p '*X'",
        )
    }),
    ("the program has another runtime directory", |place| {
        place.does("session start s --buffering -p *X");
        let mut other = Command::new("sleep");
        let other = Running(other.arg("60").env_remove("ETW_RUNTIME_DIR").spawn().unwrap());
        doctor(place, &[&other.0.id().to_string()])
    }),
    ("the program does not wait for a host", |place| {
        let program = place.command("sleep".as_ref()).arg("60").env("ETW_LISTENER", "off").spawn();
        let program = Running(program.unwrap());
        place.does("session start s --buffering -p *X");
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("the program is stopped", |place| {
        let program = started(place, &format!("-p {NAME}"));
        signal("-STOP", program.id());
        let output = doctor(place, &[&program.id().to_string()]);
        signal("-CONT", program.id());
        output
    }),
    ("the program has no free descriptor", |place| {
        place.does("session start s --buffering -p *X");
        let mut program = place.command("sh".as_ref());
        program.args(["-c", "ulimit -n 8; exec sleep 60"]);
        let program = Running(program.spawn().unwrap());
        // Until the shell has become the program.
        let limits = format!("/proc/{}/limits", program.0.id());
        let is_limited = || {
            let limits = std::fs::read_to_string(&limits).unwrap();
            let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
            line.split_whitespace().nth(3) == Some("8")
        };
        while !is_limited() {
            std::thread::yield_now();
        }
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("the shell permits few descriptors", |place| {
        let mut command = place.command("sh".as_ref());
        command.args(["-c", "ulimit -n 64; exec \"$0\" doctor", env!("CARGO_BIN_EXE_etw")]);
        Some(command.output().unwrap())
    }),
    ("the program runs in a container", |place| {
        place.does("session start s --buffering -p *X");
        let mut program = place.command("unshare".as_ref());
        program.args(["-Ur", "sh", "-c", "echo ready; exec sleep 60"]).stdout(Stdio::piped());
        let mut program = Running(program.stderr(Stdio::null()).spawn().ok()?);
        let mut word = [0; 6];
        let mut output = program.0.stdout.take()?;
        if std::io::Read::read_exact(&mut output, &mut word).is_err() {
            return skipped("this user may not make a user namespace");
        }
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("/dev/shm is full", |place| in_mounts(place, "mount -t tmpfs -o size=1m none /dev/shm")),
    ("a killed program left memory in /dev/shm", |place| {
        // Shared memory of its own: every host and repair of this machine would remove what is left.
        let killed = "mount -t tmpfs none /dev/shm && mkdir gone && \
                      ETW_CLI_TEST_PART=\"9 9 $PWD/gone/left.etl\" \"$TEST\" part::child_process --exact >/dev/null 2>&1; \
                      rm -r gone";
        in_mounts(place, killed)
    }),
];

/// A process that is killed in the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn skipped(why: &str) -> Option<Output> {
    eprintln!("skipped: {why}");
    None
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn needs_root() -> Option<()> {
    if !is_root() {
        eprintln!("skipped: only root can do this");
    }
    is_root().then_some(())
}

fn doctor(place: &Place, words: &[&str]) -> Option<Output> {
    Some(place.etw(&[&["doctor"], words].concat()))
}

fn doctor_of_program(place: &Place) -> Option<Output> {
    let _program = known(place, place.other_program());
    doctor(place, &[NAME])
}

/// Asks as another user, if this one is root, who may do everything.
fn doctor_of(place: &Place, user: u32, directory: &std::path::Path) -> Option<Output> {
    let etw = place.file("etw");
    std::fs::copy(env!("CARGO_BIN_EXE_etw"), &etw).unwrap();
    let mut command = place.command(&etw);
    command.arg("doctor").env("ETW_RUNTIME_DIR", directory);
    if is_root() {
        std::os::unix::process::CommandExt::uid(&mut command, user);
    }
    Some(command.output().unwrap())
}

/// A program behind a session in memory.
fn started(place: &Place, options: &str) -> Program {
    place.does(&format!("session start s --buffering {options}"));
    known(place, place.other_program())
}

/// The program, once the host knows its providers: registration does not wait for a host that is too busy.
fn known(place: &Place, program: Program) -> Program {
    wait_for_host(place, program.id(), true);
    program
}

/// Waits until the host knows, or has forgotten, the providers of a process.
fn wait_for_host(place: &Place, process: u32, is_known: bool) {
    let end = Instant::now() + Duration::from_secs(120);
    let has_process = || {
        let list = place.does("provider list");
        list.split([' ', ',', '\n']).any(|word| word == process.to_string())
    };
    while has_process() != is_known {
        assert!(Instant::now() < end, "the host does not notice process {process}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(signal: &str, process: u32) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

/// A socket without a listener, as a killed host leaves it.
fn killed_host(place: &Place) -> Option<Output> {
    drop(etw_wire::Channel::listen(&place.runtime().join("socket")).unwrap());
    doctor(place, &[])
}

/// A host that accepts nothing: the kernel completes the connection for it.
fn stopped_host(place: &Place) -> Option<Output> {
    let listener = etw_wire::Channel::listen(&place.runtime().join("socket")).unwrap();
    let output = doctor(place, &[]);
    drop(listener);
    std::fs::remove_file(place.runtime().join("socket")).unwrap();
    output
}

fn host_that_answers(place: &Place, answer: &[u8]) -> Option<Output> {
    let output = answer_as_host(&place.runtime(), answer, || doctor(place, &[]));
    std::fs::remove_file(place.runtime().join("socket")).unwrap();
    output
}

fn host_of_another_user(place: &Place) -> Option<Output> {
    needs_root()?;
    set_mode(&place.folder, 0o755);
    set_mode(&place.runtime(), 0o755);
    place.does("session start s --buffering -p *X");
    set_mode(&place.runtime().join("socket"), 0o666);
    doctor_of(place, 12345, &place.runtime())
}

/// A directory whose parent is writable for everybody, seen from a user namespace without its owner.
fn hidden_owner(place: &Place) -> Option<Output> {
    needs_root()?;
    set_mode(&place.folder, 0o755);
    let etw = place.file("etw");
    std::fs::copy(env!("CARGO_BIN_EXE_etw"), &etw).unwrap();
    let mut command = place.command("setpriv".as_ref());
    command.args(["--reuid", "12345", "--regid", "12345", "--clear-groups", "unshare", "-Ur"]);
    command.arg(&etw).arg("doctor").env("ETW_RUNTIME_DIR", &place.folder);
    let output = command.output().ok()?;
    match stderr(&output).contains("unshare") {
        true => skipped("this machine does not permit user namespaces"),
        false => Some(output),
    }
}

/// Runs a script with file systems of its own, then `etw doctor` there.
fn in_mounts(place: &Place, script: &str) -> Option<Output> {
    let namespaces = if is_root() { "-m" } else { "-Urm" };
    let run = |script: &str| {
        let mut command = place.command("unshare".as_ref());
        command.args([namespaces, "sh", "-c", script]).env("ETW", env!("CARGO_BIN_EXE_etw"));
        command.env("TEST", std::env::current_exe().unwrap());
        // The folder inside, not the one that it hides.
        command.env_remove(ROLE).output()
    };
    let is_permitted = run("mount -t tmpfs none /dev/shm").is_ok_and(|made| made.status.success());
    if !is_permitted {
        return skipped("this user may not mount file systems");
    }
    let folder = "mkdir -p disk && cd disk";
    Some(run(&format!("{folder} && {{ {script}; }} >&2; cd \"$PWD\" && \"$ETW\" doctor")).unwrap())
}

/// The rows of the page's table: the set-up, what `etw doctor` says, and how to fix it.
fn rows() -> Vec<[&'static str; 3]> {
    let (_, table) = PAGE.split_once("| what is wrong |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells =
            row.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`'));
        [(); 3].map(|()| cells.next().unwrap())
    })
    .collect()
}

#[test]
fn doctor_finds_each_broken_setup_of_the_guide() {
    let rows = rows();
    let names: Vec<&str> = rows.iter().map(|[name, ..]| *name).collect();
    assert_eq!(names, SETUPS.map(|(name, _)| name), "rows of the guide");
    let (mut found, mut failures) = (0, Vec::new());
    for ([name, says, fix], (number, (_, asked))) in rows.iter().zip(SETUPS.iter().enumerate()) {
        let place = Place::new(&format!("broken-{number}"));
        let Some(output) = asked(&place) else { continue };
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let mut fixes = text.lines().filter(|line| line.trim_start().starts_with("fix: "));
        let is_found = text.contains("WRONG") && text.contains(says);
        let is_fixed = fixes.any(|line| line.contains(fix));
        if !is_found || !is_fixed || output.status.code() != Some(1) {
            let error = stderr(&output);
            failures.push(format!("{name}: expected {says:?} and {fix:?} in\n{text}{error}"));
        }
        found += 1;
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(found >= 24, "only {found} of {} set-ups could be made", rows.len());
}
