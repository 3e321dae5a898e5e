//! Zero events explain themselves, and `etw doctor` finds broken set-ups.

use crate::controllers::{NAME, PROVIDER, Place, ROLE};
use crate::fixture::stderr;
use etw_wire::Channel;
use etw_wire::message::FromHost;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// `etw record` of a program that has no event for it.
#[test]
fn a_recording_without_events_says_why() {
    let place = Place::new("zero");
    let record = |provider: &str, more: &[&str]| {
        let program = std::env::current_exe().unwrap();
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        command.args(["record", "--force", "-o", "z.etl", "-p", provider]).args(more).arg("--");
        command.arg(program).args(["controllers::program", "--exact", "--test-threads=1"]);
        // It writes what its standard input says, which is nothing.
        let output = command.env(ROLE, "program-at-once").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output)
    };
    let text = record("*OpenEtw.Test.Controler", &[]);
    assert!(text.contains("registered OpenEtw.Test.Controllers; did you mean"), "{text}");
    assert!(text.contains("no events: no program registered"), "{text}");
    let text = record(NAME, &["--quiet"]);
    assert!(text.contains("registered OpenEtw.Test.Controllers, but wrote no event"), "{text}");
    let text = record("11111111-2222-3333-4444-555555555555", &[]);
    assert!(text.contains("registered were OpenEtw.Test."), "{text}");

    place.does(&format!("session start s --buffering -p {NAME}"));
    let output = place.etw(&["session", "stop", "s"]);
    assert!(stderr(&output).contains("nor any other provider"), "{}", stderr(&output));
}

#[test]
fn doctor_finds_what_is_wrong_and_says_how_to_fix_it() {
    let place = Place::new("doctor");
    let finds = |line: &str, expected: &[&str]| {
        let text = place.ends(1, line);
        for expected in expected {
            assert!(text.contains(expected), "{line}: {expected} is missing in\n{text}");
        }
    };
    // No host, then a directory that nobody trusts.
    finds("doctor", &["WRONG  host", "no host of sessions runs in", "fix: "]);
    let runtime = place.runtime();
    let set_mode = |mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o777);
    finds("doctor", &["WRONG  runtime directory", "others may write", "fix: chmod go-w"]);
    set_mode(0o700);

    place.does(&format!("session start s -o s.etl -p {NAME}:4 --pid 1"));
    finds(&format!("doctor {NAME}"), &["WRONG  registration", "no program has registered"]);
    let program = place.other_program();
    let pid = program.id();
    let text = place.ends(1, &format!("doctor {NAME}"));
    assert!(text.contains("ok     registration") && text.contains(&pid.to_string()), "{text}");
    assert!(text.contains("up to level 4 (Informational)"), "{text}");
    assert!(text.contains("WRONG  filters") && text.contains("processes [1] only"), "{text}");
    finds("doctor OpenEtw.Test.Controler", &["did you mean OpenEtw.Test.Controllers?"]);
    finds("doctor OpenEtw.Test.Second", &["WRONG  enablement", "no session has enabled"]);
    finds("doctor 11111111-2222-3333-4444-555555555555", &["no program has registered"]);
    place.does(&format!("session enable s -p {NAME}"));
    let text = place.does(&format!("doctor {}", PROVIDER.id()));
    assert!(text.contains("ok     host") && text.ends_with("nothing is wrong\n"), "{text}");
    // The program's second provider is enabled by nobody.
    finds(
        &format!("doctor {pid}"),
        &["ok     process", "no session has enabled OpenEtw.Test.Second"],
    );

    // A process with another runtime directory, and none.
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let text = place.ends(1, &format!("doctor {}", other.id()));
    assert!(text.contains("was started without ETW_RUNTIME_DIR"), "{text}");
    assert!(text.contains("has registered no provider"), "{text}");
    other.kill().unwrap();
    other.wait().unwrap();
    finds("doctor 4194303", &["there is no process 4194303"]);
    drop(program);
    finds(&format!("doctor {NAME}"), &["had registered", "has ended"]);

    // A provider whose GUID is not the hash of its name, enabled by that hash; a level that lets nothing through.
    let third = place.program_with_third_at_once();
    place.does("session enable s -p *OpenEtw.Test.Third");
    finds(
        "doctor *OpenEtw.Test.Third",
        &["WRONG  registration", "is not the GUID of that name", "fix: enable it as -p 0f1e2d3c-"],
    );
    place.does("session enable s -p OpenEtw.Test.Third:critical");
    finds(
        "doctor OpenEtw.Test.Third",
        &["WRONG  level, keywords", "may let none pass", "PROVIDER:255 enables all"],
    );
    drop(third);
    // Filters that reject everything, and a file that is full, with what it lost.
    place.does("session stop s");
    let mut program = place.other_program();
    place.does(&format!("session start f -o f.etl -p {NAME} --event-name Nothing"));
    let small = "--max-size 16K --buffer-size 4K --buffers 2";
    place.does(&format!("session start full -o full.etl -p OpenEtw.Test.Second {small}"));
    program.writes(3000);
    finds(&format!("doctor {NAME}"), &["WRONG  filters", "rejected all of its 6000 events"]);
    let text = place.ends(1, "doctor OpenEtw.Test.Second --json");
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = rows.as_array().unwrap();
    let is_wrong = |link: &str, what: &str| {
        rows.iter().any(|row| {
            row["link"] == link
                && row["verdict"] == "wrong"
                && row["what"].as_str().unwrap().contains(what)
                && !row["fix"].as_str().unwrap().is_empty()
        })
    };
    assert!(is_wrong("session", "full: its file has its maximum size"), "{text}");
    assert!(is_wrong("losses", "events lost: session full"), "{text}");
    drop(program);
    for name in ["f", "full"] {
        let _ = place.etw(&["session", "stop", name]);
    }
    place.does("session start t --buffering");
    finds("doctor", &["session t has no provider enabled", "fix: etw session enable t -p"]);
    // Whatever the machine allows, each link is named.
    let text = String::from_utf8(place.etw(&["doctor", "--system"]).stdout).unwrap();
    for link in ["clock", "kernel", "shared memory", "system profile", "system cswitch"] {
        assert!(text.contains(link), "{text}");
    }
    check_missing_rights(&text);
}

/// Regression: the rights that were shown were those of the command, not those of the host that records.
#[test]
fn doctor_tells_what_the_host_can_record() {
    const WITHOUT_RIGHTS: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let rows = |text: &str| -> Vec<(String, String)> {
        let rows: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
        let of = |row: &serde_json::Value| {
            let link = row["link"].as_str()?.strip_prefix("system ")?.to_owned();
            // Behind it are counts of processes, which change.
            let what = row["what"].as_str()?.split([';', ':']).next()?.to_owned();
            Some((link, what)).filter(|(link, _)| link != "events")
        };
        rows.iter().filter_map(of).collect()
    };
    let place = Place::new("doctor-host");
    let without_rights = |words: &[&str]| {
        let mut command = place.command(WITHOUT_RIGHTS[0].as_ref());
        command.args(&WITHOUT_RIGHTS[1..]).arg(env!("CARGO_BIN_EXE_etw")).args(words);
        command.output()
    };
    let doctor = ["doctor", "--system", "--json"];
    let text = |output: &std::process::Output| String::from_utf8(output.stdout.clone()).unwrap();
    let expected = match without_rights(&doctor) {
        Ok(output) if !output.stdout.is_empty() => rows(&text(&output)),
        other => return eprintln!("left out: no setpriv, or no right to use it: {other:?}"),
    };
    let own = rows(&text(&place.etw(&doctor)));
    let start = without_rights(&["session", "start", "s", "--buffering", "-p", "*X"]).unwrap();
    assert!(start.status.success(), "{}", stderr(&start));
    let shown = text(&place.etw(&doctor));
    assert_eq!(rows(&shown), expected, "{shown}");
    assert!(shown.contains("the rows are about the host (process "), "{shown}");
    let differs = shown.contains("this shell has other rights than the host");
    assert_eq!(differs, own != expected, "{shown}");
    // Seen from a shell with the same rights there is no difference.
    let same = text(&without_rights(&doctor).unwrap());
    assert!(!same.contains("other rights than the host"), "{same}");
    place.does("session stop s");
}

/// A right that this user has is not what is missing.
fn check_missing_rights(text: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let has_ptrace = u64::from_str_radix(rights.trim(), 16).unwrap() >> 19 & 1 != 0;
    assert!(!has_ptrace || !text.contains("need CAP_SYS_PTRACE"), "{text}");
}

/// Runs `etw doctor` on a runtime directory, as the user that owns `Place`, or as nobody if that is root.
fn finds_in(place: &Place, directory: &Path, expected: &[&str]) {
    let etw = place.copy_of_etw();
    let mut command = place.command(&etw);
    command.arg("doctor").env("ETW_RUNTIME_DIR", directory);
    let owner = std::fs::metadata(&place.folder).unwrap().uid();
    if owner == 0 {
        // Root may write everywhere.
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text} {}", stderr(&output));
    for expected in expected {
        assert!(
            text.contains(expected),
            "{}: {expected} is missing in\n{text}",
            directory.display()
        );
    }
}

pub const NOBODY: u32 = 65534;

pub fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn doctor_finds_a_runtime_directory_that_no_host_can_use() {
    let place = Place::new("doctor-directory");
    set_mode(&place.folder, 0o755);
    let is_root = std::fs::metadata(&place.folder).unwrap().uid() == 0;
    let missing = place.file("missing/folder");
    finds_in(
        &place,
        &missing,
        &["does not exist, and you cannot create it", "missing a directory"],
    );
    let read_only = place.file("read-only");
    std::fs::create_dir(&read_only).unwrap();
    if is_root {
        std::os::unix::fs::chown(&read_only, Some(NOBODY), None).unwrap();
    }
    set_mode(&read_only, 0o500);
    finds_in(&place, &read_only, &["your host cannot create its socket", "fix: chmod u+rwx"]);
    let file = place.file("file");
    std::fs::write(&file, "").unwrap();
    finds_in(&place, &file, &["is not a directory", "fix: remove"]);
    match is_root {
        true => {
            let foreign = place.file("foreign");
            std::fs::create_dir(&foreign).unwrap();
            std::os::unix::fs::chown(&foreign, Some(1234), None).unwrap();
            finds_in(&place, &foreign, &["belongs to user 1234", "a directory of your own"]);
        }
        false => eprintln!("skipped: only root can make a directory of another user"),
    }
}

#[test]
fn doctor_finds_a_host_that_does_not_answer_as_one() {
    let place = Place::new("doctor-version");
    let runtime = place.runtime();
    let finds = |expected: &[&str]| {
        let text = place.ends(1, "doctor");
        for expected in expected {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
    };
    let socket = runtime.join("socket");
    let other_version = FromHost::Refused { status: 50 }.to_bytes();
    for (answer, expected) in [
        (other_version, ["WRONG  version", "another version", "systemctl restart etwd"]),
        (b"{nonsense".to_vec(), ["WRONG  host", "something listens", "ss -xlp"]),
    ] {
        answer_as_host(&runtime, &answer, || finds(&expected));
        // The socket of a host that was killed.
        finds(&["WRONG  host", "of one that has ended"]);
        std::fs::remove_file(&socket).unwrap();
    }
}

/// Listens as a host that answers every greeting with `answer`, while `asks` asks.
pub fn answer_as_host<T>(directory: &Path, answer: &[u8], asks: impl FnOnce() -> T) -> T {
    let listener = Channel::listen(&directory.join("socket")).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut channels = Vec::new();
            while !is_done.load(Ordering::Acquire) {
                let Ok(channel) = Channel::accept(listener.as_fd()) else {
                    std::thread::yield_now();
                    continue;
                };
                // A doctor that only looks who listens has left already.
                let _ = channel.set_blocking(true);
                let _ = channel.send(answer, &[]);
                channels.push(channel);
            }
        });
        let answered = asks();
        is_done.store(true, Ordering::Release);
        answered
    })
}

/// P3, P11: while the system refuses the host's next worker, or its threads, the session waits, and controllers say why.
#[test]
fn sessions_wait_for_a_worker_that_the_system_refuses() {
    const USER: u32 = 1_234_567;
    if !crate::broken_setups::is_root() {
        return eprintln!("skipped: only root can be another user, and limit it");
    }
    let place = Place::new("refused-worker");
    set_mode(&place.folder, 0o755);
    let (etw, data) = (place.copy_of_etw(), place.file("data"));
    std::fs::create_dir(&data).unwrap();
    for folder in [&data, &place.runtime()] {
        std::os::unix::fs::chown(folder, Some(USER), Some(USER)).unwrap();
    }
    let run = |line: &str| {
        let mut command = place.command(&etw);
        std::os::unix::process::CommandExt::uid(&mut command, USER);
        let output = command.args(line.split(' ')).current_dir(&data).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output))
    };
    let started = run("session start s -o s.etl -p *X");
    assert!(started.contains("session s is running"), "{started}");
    let socket = Channel::connect(&place.runtime().join("socket")).unwrap();
    let keeper = socket.peer().unwrap().pid;
    drop(socket);
    let threads = std::fs::read_dir(format!("/proc/{keeper}/task")).unwrap().count() as u64;
    // The soft limit of the host, as its own user: root may lack the capability.
    let limit = |most: &str| {
        let mut command = place.command("prlimit".as_ref());
        std::os::unix::process::CommandExt::uid(&mut command, USER);
        command.args(["--pid", &keeper.to_string(), &format!("--nproc={most}:")]);
        assert!(command.status().unwrap().success());
    };
    let until = |line: &str, is_so: &dyn Fn(&str) -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
        loop {
            let text = run(line);
            if is_so(&text) {
                return;
            }
            assert!(std::time::Instant::now() < end, "{line}: {text}");
        }
    };
    // No worker, and one with some of its threads.
    for more in [0, 3] {
        limit(&(threads + more).to_string());
        place.kill_worker();
        until("session list", &|text| text.contains("no other one can start"));
        until("doctor", &|text| {
            text.contains("does not answer: the host's worker has ended")
                && text.contains("fix: raise the limit")
        });
        limit("10000");
        until("session list", &|text| text.contains("s.etl") && !text.contains("note"));
    }
    let stopped = run("session stop s");
    assert!(stopped.contains("0 events in ") && stopped.contains("none lost"), "{stopped}");
}
