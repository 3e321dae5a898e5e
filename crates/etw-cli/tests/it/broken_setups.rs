//! Every row of the table in `docs/guide/troubleshooting.md`: a broken set-up, which `etw doctor` finds and says how to fix.

use crate::controllers::{NAME, Place, Program, ROLE};
use crate::doctor::{NOBODY, answer_as_host, set_mode};
use crate::fixture::stderr;
use etw_wire::host_client::Client;
use etw_wire::message::FromHost;
use etw_wire::requests::Request;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../../../../docs/guide/troubleshooting.md");

/// Breaks something and asks `etw doctor`. `None`, said aloud: this user or machine cannot break it.
type Asked = fn(&Place) -> Option<Output>;

const SETUPS: [(&str, Asked); 67] = [
    ("no host runs", |place| doctor(place, &[])),
    ("the host was killed", killed_host),
    ("the host is stopped", stopped_host),
    ("the host is of another version", |place| {
        host_that_answers(place, &FromHost::Refused { status: 50 }.to_bytes())
    }),
    ("another program listens", |place| host_that_answers(place, b"{nonsense")),
    ("the runtime directory cannot be created", |place| {
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
    ("a consumer is too slow", slow_consumer),
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
    ("the shell permits few descriptors", |place| limited(place, "ulimit -n 64")),
    ("the program runs in a container", |place| {
        let hides = "mount -t tmpfs none \"$ETW_RUNTIME_DIR\"";
        // Outside of /tmp, where a service may have a folder of its own.
        let directory = outside_of_tmp(place)?;
        let output = doctor_of_container(place, &directory, hides);
        std::fs::remove_dir_all(directory).unwrap();
        output
    }),
    ("the program has a /tmp of its own", |place| {
        let hides = "mount -t tmpfs none /tmp";
        match place.folder.starts_with("/tmp") {
            true => doctor_of_container(place, &place.runtime(), hides),
            false => skipped("the folder of tests is not in /tmp"),
        }
    }),
    ("the program runs in a chroot", |place| {
        needs_root()?;
        place.does("session start s --buffering -p *X");
        std::fs::create_dir(place.file("jail")).unwrap();
        let program = known(place, place.program_in_chroot());
        doctor(place, &[&program.id().to_string()])
    }),
    ("the program has more rights than its user", setuid_program),
    ("the program belongs to another user", |place| {
        needs_root()?;
        set_mode(&place.folder, 0o755);
        place.does("session start s --buffering -p *X");
        let mut program = place.command("sleep".as_ref());
        std::os::unix::process::CommandExt::uid(&mut program, 12345);
        let program = Running(program.arg("60").spawn().unwrap());
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("the program looks into another directory", |place| {
        place.does("session start s --buffering -p *X");
        let mut program = place.command("sleep".as_ref());
        let program = Running(program.arg("60").env("ETW_RUNTIME_DIR", "/x").spawn().unwrap());
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("the program has ended, and its parent has not noticed", |place| {
        place.does("session start s --buffering -p *X");
        let mut program = Running(place.command("true".as_ref()).spawn().unwrap());
        let process = program.0.id().to_string();
        let is_over =
            || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap().contains(") Z ");
        while !is_over() {
            std::thread::yield_now();
        }
        let output = doctor(place, &[&process]);
        program.0.wait().unwrap();
        output
    }),
    ("no process has the id", |place| {
        place.does("session start s --buffering -p *X");
        doctor(place, &["4194303"])
    }),
    ("/dev/shm is full", |place| in_mounts(place, "mount -t tmpfs -o size=1m none /dev/shm")),
    ("/dev/shm is read-only", |place| in_mounts(place, "mount -t tmpfs -o ro none /dev/shm")),
    ("memfd_create is forbidden", |place| {
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        command.arg("doctor");
        forbid_memory_files(&mut command);
        Some(command.output().unwrap())
    }),
    ("the shell limits the size of files", |place| limited(place, "ulimit -f 1000")),
    ("the shell limits memory", |place| limited(place, "ulimit -v 800000")),
    ("a file of sessions has a mistake", |place| {
        // A daemon of root reads it: the script runs as root of its namespaces.
        let file = "/etc/openetw/sessions.json";
        let text = r#"{"sessions": [{"name": "web", "max_sise": 1}]}"#;
        let script =
            format!("mount -t tmpfs none /etc && mkdir /etc/openetw && echo '{text}' >{file}");
        in_mounts(place, &script)
    }),
    ("the runtime directory is a link", |place| {
        let link = place.file("link");
        std::os::unix::fs::symlink(place.runtime(), &link).unwrap();
        doctor_of(place, NOBODY, &link)
    }),
    ("the name of the runtime directory is too long", |place| {
        doctor_of(place, NOBODY, &place.file(&"x".repeat(300)))
    }),
    ("you may not write to the runtime directory", |place| {
        set_mode(&place.runtime(), 0o500);
        if is_root() {
            std::os::unix::fs::chown(place.runtime(), Some(NOBODY), None).unwrap();
        }
        doctor_of(place, NOBODY, &place.runtime())
    }),
    ("the socket does not admit you", |place| {
        needs_root()?;
        set_mode(&place.folder, 0o755);
        set_mode(&place.runtime(), 0o755);
        place.does("session start s --buffering -p *X");
        set_mode(&place.runtime().join("socket"), 0o600);
        doctor_of(place, 12345, &place.runtime())
    }),
    ("the session ignores events without a keyword", |place| {
        let _program = started(place, &format!("-p {NAME} --ignore-keyword-0"));
        doctor(place, &[NAME])
    }),
    ("a killed program left memory in /dev/shm", |place| {
        // Shared memory of its own: every host and repair of this machine would remove what is left.
        let killed = "mount -t tmpfs none /dev/shm && mkdir gone && \
                      ETW_CLI_TEST_PART=\"9 9 $PWD/gone/left.etl\" \"$TEST\" part::child_process --exact >/dev/null 2>&1; \
                      rm -r gone";
        in_mounts(place, killed)
    }),
    ("the host's socket was removed", |place| {
        place.does("session start s --buffering -p *X");
        let (socket, other) = (place.runtime().join("socket"), place.runtime().join("other"));
        std::fs::rename(&socket, &other).unwrap();
        let output = doctor(place, &[]);
        std::fs::rename(other, socket).unwrap();
        output
    }),
    ("the socket's name is taken", |place| {
        std::fs::create_dir(place.runtime().join("socket")).unwrap();
        doctor(place, &[])
    }),
    ("the word of the runtime directory was removed", |place| {
        place.does("session start s --buffering -p *X");
        std::fs::remove_file(place.runtime().join("word")).unwrap();
        doctor(place, &[])
    }),
    ("the runtime directory is read-only", |place| {
        let mount = "mount -t tmpfs -o mode=0700 none \"$ETW_RUNTIME_DIR\"";
        in_mounts(place, &format!("{mount} && mount -o remount,ro \"$ETW_RUNTIME_DIR\""))
    }),
    ("the runtime directory is on a full file system", |place| {
        in_mounts(place, "mount -t tmpfs -o mode=0700,nr_inodes=1 none \"$ETW_RUNTIME_DIR\"")
    }),
    ("the runtime directory is named by a relative path", |place| {
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        Some(command.arg("doctor").env("ETW_RUNTIME_DIR", "run").output().unwrap())
    }),
    ("the disk takes no other file", |place| {
        in_mounts(
            place,
            "mount -t tmpfs -o size=200m,nr_inodes=2 none . && cd \"$PWD\" && \
             \"$ETW\" session start s -o \"$PWD/s.etl\" --buffer-size 4K -p '*X'",
        )
    }),
    ("the host may not write large files", |place| {
        let mut host = place.command("sh".as_ref());
        let script = "ulimit -f 100000; exec \"$0\" session start s --buffering -p '*X'";
        host.args(["-c", script, env!("CARGO_BIN_EXE_etw")]);
        assert!(host.output().unwrap().status.success());
        doctor(place, &[])
    }),
    ("the program may not have large files", |place| {
        place.does("session start s --buffering -p *X");
        let mut program = place.command("sh".as_ref());
        program.args(["-c", "ulimit -f 1000; exec sleep 60"]);
        let program = Running(program.spawn().unwrap());
        wait_until_exec(&program, "sleep");
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("the program has no provider in it", |place| {
        place.does("session start s --buffering -p *X");
        let program = Running(place.command("sleep".as_ref()).arg("60").spawn().unwrap());
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("a seccomp filter keeps the program from hosts", |place| {
        place.does("session start s --buffering -p *X");
        let mut command = place.command(&program_with_library(place));
        command.arg("60");
        forbid_memory_files(&mut command);
        let program = Running(command.spawn().unwrap());
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("the program has a clock of its own", |place| {
        needs_root()?;
        place.does("session start s --buffering -p *X");
        let mut program = place.command("unshare".as_ref());
        program.args(["--time", "--monotonic", "100000", "sleep", "60"]).stderr(Stdio::null());
        let program = Running(program.spawn().ok()?);
        if !wait_until_exec(&program, "sleep") {
            return skipped("this machine has no time namespaces");
        }
        doctor(place, &[&program.0.id().to_string()])
    }),
    ("/proc is not mounted", |place| in_mounts(place, "mount -t tmpfs none /proc")),
    ("/proc is of another PID namespace", |place| {
        let words: &[&str] = if is_root() { &["--pid"] } else { &["-Ur", "--pid"] };
        let mut command = place.command("unshare".as_ref());
        let output = command.args(words).args(["--fork", env!("CARGO_BIN_EXE_etw"), "doctor"]);
        let output = output.output().ok()?;
        match stderr(&output).contains("unshare") {
            true => skipped("this machine does not permit PID namespaces"),
            false => Some(output),
        }
    }),
    ("an installed manifest is damaged", |place| {
        let packs = place.file(".local/share/etw/packs");
        std::fs::create_dir_all(&packs).unwrap();
        std::fs::write(packs.join("shop.etwpack"), "nonsense").unwrap();
        doctor(place, &[])
    }),
    ("the shell limits data", |place| limited(place, "ulimit -d 200000")),
];

/// Waits until a shell or a wrapper has become a program; whether it has.
fn wait_until_exec(program: &Running, name: &str) -> bool {
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/{}/{file}", program.0.id())).unwrap_or_default()
    };
    while read("comm").trim() != name {
        if read("stat").contains(") Z ") {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// A program that sleeps and contains the library's name of its variable.
fn program_with_library(place: &Place) -> PathBuf {
    let file = place.file("sleeper");
    let sleep = Command::new("sh").args(["-c", "readlink -f \"$(command -v sleep)\""]).output();
    let sleep = String::from_utf8(sleep.unwrap().stdout).unwrap();
    let mut bytes = std::fs::read(sleep.trim()).unwrap();
    bytes.extend_from_slice(b"ETW_RUNTIME_DIR");
    std::fs::write(&file, bytes).unwrap();
    set_mode(&file, 0o755);
    file
}

/// A process that is killed in the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn skipped(why: &str) -> Option<Output> {
    eprintln!("skipped: {why}");
    None
}

pub fn is_root() -> bool {
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
fn doctor_of(place: &Place, user: u32, directory: &Path) -> Option<Output> {
    set_mode(&place.folder, 0o755);
    let etw = place.copy_of_etw();
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
    place.does("session start s --buffering -p *X");
    place.signal_worker("-STOP");
    let output = doctor(place, &[]);
    place.signal_worker("-CONT");
    // The keeper answers nobody.
    let text = String::from_utf8_lossy(&output.as_ref()?.stdout).into_owned();
    assert!(!text.contains("its keeper, process"), "{text}");
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
    let etw = place.copy_of_etw();
    let mut command = place.command("setpriv".as_ref());
    command.args(["--reuid", "12345", "--regid", "12345", "--clear-groups", "unshare", "-Ur"]);
    command.arg(&etw).arg("doctor").env("ETW_RUNTIME_DIR", &place.folder);
    let output = command.output().ok()?;
    match stderr(&output).contains("unshare") {
        true => skipped("this machine does not permit user namespaces"),
        false => Some(output),
    }
}

/// Asks about a program with file systems of its own, in which a script hides the runtime directory.
fn doctor_of_container(place: &Place, directory: &Path, hides: &str) -> Option<Output> {
    let etw = |words: &[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        command.env("ETW_RUNTIME_DIR", directory).args(words).output().unwrap()
    };
    assert!(etw(&["session", "start", "s", "--buffering", "-p", "*X"]).status.success());
    let namespaces = if is_root() { "-m" } else { "-Urm" };
    let mut program = place.command("unshare".as_ref());
    let script = format!("{hides} && echo ready && exec sleep 60");
    program.args([namespaces, "sh", "-c", &script]).env("ETW_RUNTIME_DIR", directory);
    program.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = Running(program.spawn().ok()?);
    let mut word = [0; 6];
    let mut text = program.0.stdout.take()?;
    let output = match std::io::Read::read_exact(&mut text, &mut word) {
        Ok(()) => Some(etw(&["doctor", &program.0.id().to_string()])),
        Err(_) => skipped("this user may not mount file systems"),
    };
    if let Ok(host) = Client::connect(directory) {
        let _ = host.ask(&Request::Shutdown);
    }
    output
}

/// A reader that is stopped while a program writes more than its queue holds.
fn slow_consumer(place: &Place) -> Option<Output> {
    place.does(&format!("session start s --real-time -p {NAME}"));
    let mut program = known(place, place.other_program());
    let mut reader = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    reader.args(["tail", "s"]).stdout(Stdio::null()).stderr(Stdio::null());
    let reader = Running(reader.spawn().unwrap());
    let end = Instant::now() + Duration::from_secs(120);
    while !place.does("session query s").contains("\nconsumers       1,") {
        assert!(Instant::now() < end, "the reader does not attach");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal("-STOP", reader.0.id());
    program.writes(100_000);
    let output = doctor(place, &[NAME]);
    drop(reader);
    let stopped = place.etw(&["session", "stop", "s"]);
    let text = String::from_utf8(stopped.stdout).unwrap();
    assert!(
        !text.contains("none lost") && text.contains("did not reach a slow consumer"),
        "{text}"
    );
    assert_eq!(stopped.status.code(), Some(1));
    output
}

/// A new directory that is not in `/tmp`.
fn outside_of_tmp(place: &Place) -> Option<PathBuf> {
    let name = place.folder.file_name().unwrap().to_str().unwrap();
    let directory = Path::new("/var/tmp").join(name);
    let made = std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&directory);
    match made {
        Ok(()) => Some(directory),
        Err(_) => {
            eprintln!("skipped: /var/tmp is not writable");
            None
        }
    }
}

/// A program of root's that another user starts.
fn setuid_program(place: &Place) -> Option<Output> {
    needs_root()?;
    set_mode(&place.folder, 0o755);
    let sleep = place.file("sleep");
    assert!(Command::new("cp").args(["-L", "/bin/sleep"]).arg(&sleep).status().unwrap().success());
    set_mode(&sleep, 0o4755);
    place.does("session start s --buffering -p *X");
    let mut program = place.command(&sleep);
    std::os::unix::process::CommandExt::uid(&mut program, 12345);
    let program = Running(program.arg("60").spawn().unwrap());
    let id = program.0.id().to_string();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let users = status.lines().find(|line| line.starts_with("Uid:")).unwrap();
    if users.split_whitespace().nth(2) != Some("0") {
        return skipped("this file system ignores setuid");
    }
    doctor(place, &[&id])
}

/// A shell with a limit.
fn limited(place: &Place, limit: &str) -> Option<Output> {
    let mut command = place.command("sh".as_ref());
    let script = format!("{limit}; exec \"$0\" doctor");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_etw")]);
    Some(command.output().unwrap())
}

/// A command whose `memfd_create` fails, as under a strict seccomp profile.
fn forbid_memory_files(command: &mut Command) {
    forbid(command, libc::SYS_memfd_create, libc::EPERM);
}

/// A command of which a filter refuses a system call with this error.
pub fn forbid(command: &mut Command, call: libc::c_long, error: i32) {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let is_it = libc::sock_filter {
        jf: 1,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32)
    };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        is_it,
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let forbid = move || {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: system calls with numbers, and a program that lives until the call returns.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    != 0
        };
        if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, forbid) };
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
    assert!(found >= 34, "only {found} of {} set-ups could be made", rows.len());
}
