//! The host that a command starts: its end, its messages, its limits.

use super::*;

/// P3, P4: a host that a command has started is independent of it: nobody reads its messages, and that does not end it when
/// a program lies or its worker is killed; it holds nothing that was the command's.
#[test]
fn a_host_outlives_the_command_that_started_it() {
    use etw_wire::message::{FromProgram, Role, VERSION};
    let place = Place::new("outlives");
    let start = format!("exec 9>held; exec \"$0\" session start s -o s.etl -p '{NAME}'");
    let mut shell = place.command("sh".as_ref());
    let output = shell.args(["-c", &start, env!("CARGO_BIN_EXE_etw")]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let keeper =
        etw_wire::runtime_directory::Directory::open(&place.runtime()).unwrap().connect().unwrap();
    let process = PathBuf::from(format!("/proc/{}", keeper.peer().unwrap().pid));
    let worker = || {
        let tasks = std::fs::read_dir(process.join("task")).ok()?;
        tasks.flatten().find_map(|task| {
            let children = std::fs::read_to_string(task.path().join("children")).ok()?;
            // One that was killed may be there still.
            children.split_ascii_whitespace().next_back()?.parse::<i32>().ok()
        })
    };
    let first = worker().unwrap();
    for process in [process.clone(), format!("/proc/{first}").into()] {
        assert_eq!(std::fs::read_link(process.join("cwd")).unwrap(), Path::new("/"));
        let open = std::fs::read_dir(process.join("fd")).unwrap().flatten();
        let open: Vec<_> = open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect();
        assert!(!open.contains(&place.file("held")), "{open:?}");
    }
    let mut program = place.program();
    program.writes(10);

    // Nobody reads the message about the invalid bytes.
    let hello = FromProgram::Hello { version: VERSION, role: Role::Program as u8 };
    keeper.send(&hello.to_bytes(), &[]).unwrap();
    assert!(!keeper.receive_within(Duration::from_secs(120)).unwrap().bytes.is_empty());
    keeper.send(b"\xffno message", &[]).unwrap();
    let end = keeper.receive_within(Duration::from_secs(120));
    assert!(end.is_ok_and(|received| received.bytes.is_empty()), "the connection goes on");
    assert!(place.does("session list").contains("running"));
    assert_eq!(worker(), Some(first), "the worker has ended");

    // SAFETY: numbers; the worker of a host that this test has started.
    assert_eq!(unsafe { libc::kill(first, libc::SIGKILL) }, 0);
    let end = Instant::now() + Duration::from_secs(120);
    while worker().is_none_or(|other| other == first) {
        assert!(process.exists() && Instant::now() < end, "no other worker goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    program.writes(10);
    assert!(place.does("session stop s").contains("none lost"));
    assert_eq!(place.counts("s.etl"), [20, 20, 0]);
    program.ends();
}

/// A service is ended by a signal: what programs wrote before is in their sessions' files, which are complete.
#[test]
fn a_host_that_receives_a_signal_finalises_its_sessions() {
    let place = Place::new("ended");
    for number in 0..5 {
        let runtime = place.runtime();
        let mut host = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        let mut host = host.args(["daemon", runtime.to_str().unwrap()]).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while Client::connect(&runtime).is_err() {
            assert!(Instant::now() < end, "no host");
            std::thread::sleep(Duration::from_millis(5));
        }
        place.does(&format!("session start s -o {number}.etl -p {NAME}"));
        let mut program = place.program();
        program.writes(10);
        // SAFETY: numbers; a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(host.id() as libc::pid_t, libc::SIGTERM) }, 0);
        assert!(host.wait().unwrap().success());
        program.ends();
        let stat = place.stat(&format!("{number}.etl"));
        assert_eq!(stat["finalised"], true, "{number}");
        assert_eq!(place.counts(&format!("{number}.etl")), [10, 10, 0], "{number}");
    }
}

/// A host that cannot begin says why once; a directory that is not to be had is no absence of sessions.
#[test]
fn a_host_that_cannot_start_says_why_once() {
    let place = Place::new("hindered");
    let runtime = place.runtime();
    let output = place.etw(&["daemon", "--sessions", "none.json", runtime.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(stderr(&output).matches("none.json").count(), 1, "{}", stderr(&output));
    std::fs::remove_dir_all(&runtime).unwrap();
    place.does("session list");
    std::os::unix::fs::symlink("elsewhere", &runtime).unwrap();
    for line in ["session list", "provider list"] {
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(3), "{line}");
        assert!(stderr(&output).contains("run: no directory, or a link"), "{}", stderr(&output));
    }
}

/// OV-12: a program has eight sessions for a provider, `etw record`'s own among them: whichever has nothing of it says so, with status 1.
#[test]
fn a_ninth_session_reports_that_the_program_refused_it() {
    let place = Place::new("ninth");
    let name = |number| format!("s{number}");
    for number in 0..8 {
        let s = name(number);
        place.does(&format!("session start {s} -o {s}.etl -p {NAME}"));
    }
    // Nothing is typed: it ends as soon as a session wants its events.
    let program = std::env::current_exe().unwrap();
    let mut record = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    record.args(["record", "-o", "r.etl", "-p", NAME, "--"]).arg(program);
    record.args(["controllers::program", "--exact", "--nocapture", "--test-threads=1"]);
    let output = record.env(ROLE, "program").output().unwrap();
    // The status of `record` is its command's.
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stderr(&output);
    let code = Some(i32::from(text.contains("NOT RECORDED")));
    let mut ends = vec![(code, text)];
    let query = |number| place.does(&format!("session query {}", name(number)));
    let queried: Vec<String> = (0..8).map(query).collect();
    for (number, queried) in queried.iter().enumerate() {
        let output = place.etw(&["session", "stop", &name(number)]);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let is_told = queried.contains("eight sessions already");
        assert_eq!(is_told, output.status.code() == Some(1), "{queried}");
        ends.push((output.status.code(), text));
    }
    let (told, whole): (Vec<_>, Vec<_>) = ends.iter().partition(|(code, _)| *code == Some(1));
    assert_eq!((told.len(), whole.len()), (1, 8), "{ends:?}");
    assert!(whole.iter().all(|(code, text)| *code == Some(0) && text.contains("none lost")));
    let text = &told[0].1;
    assert!(text.contains("1 NOT RECORDED:\n  process "), "{text}");
    assert!(text.contains("has eight sessions already") && !text.contains("none lost"), "{text}");
}
