//! Recordings of the system that something refuses or limits: what `etw` says then.

use crate::broken_setups::{forbid, is_root, skipped};
use crate::controllers::Place;
use crate::fixture::stderr;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// `etw` with words in front of it.
fn behind(place: &Place, words: &[&str], rest: &[&str]) -> Output {
    let mut command = place.command(words[0].as_ref());
    command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_etw")).args(rest).output().unwrap()
}

const RECORD: [&str; 7] = ["record", "-o", "t.etl", "--force", "--system", "process", "--"];

fn record_true<'a>() -> Vec<&'a str> {
    [&RECORD[..], &["true"]].concat()
}

/// The words that begin a PID namespace of its own; `None`, said aloud: this user may not.
fn pid_namespace() -> Option<Vec<&'static str>> {
    let user = if is_root() { "--fork" } else { "-Urf" };
    let words = vec!["unshare", "--pid", user];
    let can = Command::new(words[0]).args(&words[1..]).arg("true").output();
    match can.is_ok_and(|done| done.status.success()) {
        true => Some(words),
        false => {
            skipped("this user may not make PID namespaces");
            None
        }
    }
}

/// Regression: the trace mixed the ids of two namespaces.
#[test]
fn a_proc_of_another_namespace_is_refused() {
    let Some(words) = pid_namespace() else { return };
    let place = Place::new("other-proc");
    let output = behind(&place, &words, &record_true());
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("another PID namespace") && text.contains("mount -t proc"), "{text}");
    assert!(!place.file("t.etl").exists(), "{text}");
    let output = behind(&place, &words, &["doctor", "--system"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.contains("system process")).unwrap();
    assert!(row.starts_with("WRONG") && row.contains("another PID namespace"), "{text}");
}

/// Regression: in a container, every exit status was 0, and nothing said so. Where the host may load programs, they have the statuses.
#[test]
fn a_container_has_exit_statuses_or_says_why_not() {
    const ENDS: &str = "(exit 7); sh -c 'kill -9 $$'; true";
    let Some(words) = pid_namespace() else { return };
    let place = Place::new("statuses");
    let words = [&words[..], &["--mount-proc"]].concat();
    for programs in ["0", "1"] {
        let mut command = place.command(words[0].as_ref());
        command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_etw")).args(RECORD);
        let output = command.args(["sh", "-c", ENDS]).env("ETW_SYSTEM_BPF", programs).output();
        let text = stderr(&output.unwrap());
        if text.contains("only this command and its children") {
            skipped("this user may not record the machine");
            return;
        }
        let says = text.contains("exit statuses are 0") && text.contains("not in a container");
        assert!(says || programs == "1", "{text}");
        assert!(!text.contains("CAP_NET_ADMIN"), "{text}");
        let filter = "event == 'Process/End'";
        let dump = place.etw(&["dump", "--format", "json", "t.etl", "--where", filter]);
        let ends = String::from_utf8(dump.stdout).unwrap();
        let statuses = ends.lines().map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            event["fields"]["ExitStatus"].as_i64().unwrap()
        });
        let mut statuses: Vec<i64> = statuses.filter(|status| *status != 0).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, if says { vec![] } else { vec![7, 137] }, "{text}{ends}");
    }
}

/// Regression: root was advised to become root, or to give rings more memory.
#[test]
fn a_filter_of_system_calls_is_named() {
    let place = Place::new("filtered");
    for (error, says) in [(libc::EPERM, "a seccomp filter"), (libc::ENOSYS, "no perf events")] {
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        forbid(&mut command, libc::SYS_perf_event_open, error);
        let output = command.args(record_true()).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(text.contains(says) && text.contains("permit"), "{text}");
        assert!(!text.contains("run as root") && !text.contains("mlock"), "{text}");
    }
}

/// Regression: the host panicked, and a command that was not executed ended with a message of the library.
#[test]
fn a_limit_of_processes_is_named() {
    /// Nobody else's processes count.
    const USER: &str = "64123";
    let place = Place::new("few-processes");
    if !is_root() {
        skipped("only root may run commands as another user");
        return;
    }
    crate::doctor::set_mode(&place.folder, 0o755);
    let etw = place.copy_of_etw();
    let folder = place.file("of-user");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(64123), None).unwrap();
    let mut refused = 0;
    for limit in 2..=10 {
        let limit = format!("--nproc={limit}");
        let mut command = place.command("setpriv".as_ref());
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "prlimit", &limit]);
        command.arg(&etw).args(record_true()).current_dir(&folder).env("TMPDIR", &folder);
        let output = command.output().unwrap();
        let text = stderr(&output);
        assert!(!text.contains("panicked") && !text.contains("fatal"), "{limit}: {text}");
        assert!(!text.contains("another worker may have taken over"), "{limit}: {text}");
        let is_refused = output.status.code() != Some(0);
        assert!(!is_refused || text.contains("limit"), "{limit}: {text}");
        refused += u32::from(is_refused);
    }
    assert!(refused > 3, "{refused}");
}

/// Regression: the command ran, and all of its events were lost.
#[test]
fn a_device_is_no_output_file() {
    let place = Place::new("device");
    let mut words = record_true();
    words[2] = "/dev/null";
    let output = place.etw(&words);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("/dev/null: not a regular file"), "{text}");
}

/// Regression: the message named a command that shows nothing.
#[test]
fn a_killed_host_of_a_command_leaves_a_trace() {
    let place = Place::new("killed-recording");
    let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    command.args(["record", "-o", "t.etl", "-p", "*Absent", "--", "sh", "-c"]);
    command.arg("touch begun; while ! test -e go-on; do sleep 0.01; done");
    let recording = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    while !place.file("begun").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    place.kill_keeper();
    std::fs::write(place.file("go-on"), "").unwrap();
    let output = recording.wait_with_output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("the host of this command was killed"), "{text}");
    assert!(text.contains("etw check t.etl") && !text.contains("session list"), "{text}");
    assert!(
        place.etw(&["check", "t.etl"]).status.success() && Path::new(&place.file("t.etl")).exists()
    );
}

/// P2. Regression: the recording ended, and its file said that nothing was lost.
#[test]
fn a_recording_goes_on_when_its_worker_is_killed() {
    let place = Place::new("killed-worker");
    let said = |file: &str| {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let text = std::fs::read_to_string(place.file(file)).unwrap();
            if text.contains("the session goes on") || Instant::now() > end {
                return text;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let provider = "*OpenEtw.Test.Controllers";
    let mut program =
        place.recorded_program(&format!("record -o command.etl -p {provider}"), "command");
    program.writes(5);
    place.kill_worker();
    assert!(said("command").contains("the session goes on"), "{}", said("command"));
    program.writes(6);
    // With the command's own status.
    program.ends();
    assert_eq!(place.counts("command.etl"), [11, 11, 0]);

    let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    command.args(["record", "-o", "all.etl", "-p", provider]);
    command.stderr(File::create(place.file("all")).unwrap());
    let mut recording = command.spawn().unwrap();
    let mut program = place.program();
    program.writes(7);
    place.kill_worker();
    assert!(said("all").contains("the session goes on"), "{}", said("all"));
    program.writes(8);
    drop(program);
    // SAFETY: a number; the child has not been waited for.
    unsafe { libc::kill(recording.id() as libc::pid_t, libc::SIGINT) };
    assert!(recording.wait().unwrap().success(), "{}", said("all"));
    assert_eq!(place.counts("all.etl"), [15, 15, 0]);
    assert!(place.etw(&["check", "command.etl", "all.etl"]).status.success());
}

/// Regression: `chmod +x` was the advice, which does not open a folder.
#[test]
fn a_program_that_cannot_be_run_says_why() {
    let place = Place::new("locked");
    let (locked, plain) = (place.file("locked"), place.file("plain"));
    std::fs::create_dir(&locked).unwrap();
    std::fs::write(&plain, "").unwrap();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&place.file(""), 0o755);
    open(&locked, 0);
    let stranger = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"];
    let words = if is_root() { &stranger[..] } else { &["env"] };
    let why = |program: &Path| {
        let program = program.to_str().unwrap();
        let output = behind(&place, words, &["record", "-o", "t.etl", "-p", "*App", "--", program]);
        assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(why(&locked.join("app")).contains("you may not enter a folder of its path"));
    assert!(why(&plain).contains("chmod +x makes a program executable"));
    assert!(why(&place.runtime()).contains("it is a folder"));
    open(&locked, 0o700);
}

/// Regression: the option had no effect, and no message said so.
#[test]
fn the_machines_host_records_no_command() {
    let place = Place::new("host-and-command");
    let output = place.etw(&["record", "--system-host", "-o", "t.etl", "-p", "*App", "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--system-host"), "{}", stderr(&output));
}

/// `etw` itself ignores the signal of the limit of files.
#[test]
fn a_recorded_command_ends_by_the_signal_of_large_files() {
    let place = Place::new("large-files");
    let words = ["record", "-o", "t.etl", "-p", "*App", "--", "sh", "-c", "kill -XFSZ $$; exit 7"];
    let output = place.etw(&words);
    assert_eq!(output.status.code(), Some(128 + libc::SIGXFSZ), "{}", stderr(&output));
}
