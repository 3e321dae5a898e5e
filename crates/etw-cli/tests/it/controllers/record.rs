//! `etw record`: what it leaves, signals, exit status, existing files.

use super::*;

/// P3: a killed `etw record` loses nothing that its command committed, and its host completes the trace.
#[test]
fn a_killed_record_has_what_its_command_wrote() {
    let place = Place::new("killed");
    let mut record = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    record.args(["record", "-o", "k.etl", "-p", NAME, "--"]).arg(std::env::current_exe().unwrap());
    let mut program =
        Program::start(record.args(PROGRAM).env(ROLE, "program").stderr(Stdio::null()));
    program.writes(300);
    program.child.kill().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    // The file may change while it is read.
    let report = || place.etw(&["stat", "--format", "json", "k.etl"]).stdout;
    while !String::from_utf8_lossy(&report()).contains("\"finalised\":true") {
        assert!(Instant::now() < end, "nobody completes the trace");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(place.counts("k.etl"), [300, 300, 0]);
}

/// P8: what a killed `etw record` leaves, the next one removes; nothing that somebody has or that is none of its own.
#[test]
fn a_killed_record_leaves_nothing_for_long() {
    let place = Place::new("left");
    let command = |file: &str, words: &[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        command.env("TMPDIR", &place.folder).stderr(Stdio::piped()).stdout(Stdio::piped());
        command.args(["record", "-o", file, "-p", NAME, "--"]).args(words);
        command
    };
    let begin = |file: &str| {
        let words = ["sh", "-c", "echo $$; exec sleep 60"];
        let mut record = command(file, &words).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(record.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (record, line.trim().parse::<libc::pid_t>().unwrap())
    };
    let end = |process: libc::pid_t| {
        // SAFETY: numbers; a process that this test has had started.
        assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    };
    let (mut killed, orphan) = begin("a.etl");
    let (going_on, child) = begin("b.etl");
    killed.kill().unwrap();
    killed.wait().unwrap();
    std::fs::create_dir(place.file("etw-record-4194305-x")).unwrap();
    let left = || {
        let names = std::fs::read_dir(&place.folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("etw-record-")).collect();
        names.sort();
        names
    };
    assert_eq!(left().len(), 3, "{:?}", left());
    let mut expected =
        [format!("etw-record-{}-0", going_on.id()), "etw-record-4194305-x".to_owned()];
    expected.sort();
    // The host of the killed one has its directory until it ends.
    let limit = Instant::now() + Duration::from_secs(60);
    while left() != expected {
        assert!(Instant::now() < limit, "{:?}", left());
        let output = command("c.etl", &["true"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        std::fs::remove_file(place.file("c.etl")).unwrap();
    }
    end(orphan);
    end(child);
    going_on.wait_with_output().unwrap();
    assert_eq!(left(), ["etw-record-4194305-x"]);
}

/// A recorded command receives the signals that end it, those of its children, and those sent to `etw record`.
#[test]
fn recorded_commands_have_their_signals() {
    let place = Place::new("signals");
    // Shells unblock them for their own commands.
    let line = ["record", "-o", "s.etl", "-p", NAME, "--", "grep", "^SigBlk:", "/proc/self/status"];
    let output = place.etw(&line);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "SigBlk:\t0000000000000000\n");

    let mut record = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    record.args(["record", "-o", "t.etl", "-p", NAME, "--", "sh", "-c", "echo on; exec sleep 60"]);
    let mut record = record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(record.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // SAFETY: numbers; a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(record.id() as libc::pid_t, libc::SIGTERM) }, 0);
    let output = record.wait_with_output().unwrap();
    assert!(stderr(&output).contains("sh ended with signal 15"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_eq!(place.stat("t.etl")["finalised"], true);
}

/// `etw record -- COMMAND` ends as the command does; its own failures have statuses of their own.
#[test]
fn a_recorded_command_gives_its_exit_status() {
    let place = Place::new("status");
    std::fs::write(place.file("data"), "text").unwrap();
    std::fs::write(place.file("script"), "#! /no/such/interpreter -x\n").unwrap();
    crate::doctor::set_mode(&place.file("script"), 0o755);
    for (words, expected) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 1"], 1),
        (&["sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["no-such-command-anywhere"], 127),
        (&["./data"], 126),
        (&["./script"], 127),
    ] {
        let line = [&["record", "--force", "-q", "-o", "s.etl", "-p", NAME, "--"], words].concat();
        let output = place.etw(&line);
        assert_eq!(output.status.code(), Some(expected), "{words:?}: {}", stderr(&output));
        // A program that cannot be run replaces no trace.
        assert!(place.file("s.etl").exists(), "{words:?}");
        let is_script = words == &["./script"][..];
        assert_eq!(stderr(&output).contains("interpreter /no/such/interpreter"), is_script);
    }
    for line in ["record -o none/s.etl -p *A -- true", "record -o s.etl -p *A -p *A -- true"] {
        place.ends(125, line);
    }
}

/// A file that a full disk has left incomplete is a recording that failed, whatever the command's status.
#[test]
fn a_full_disk_fails_the_recording() {
    let place = Place::new("record-full");
    // SAFETY: it has no arguments.
    let namespaces = if unsafe { libc::geteuid() } == 0 { "-m" } else { "-Urm" };
    let script = "mkdir disk && mount -t tmpfs -o size=256k none disk && exec \"$0\" \"$@\"";
    let run = |program: &Path| {
        let mut command = place.command("unshare".as_ref());
        command.args([namespaces, "sh", "-c", script]).arg(program).stderr(Stdio::piped());
        command
    };
    let permitted = run("true".as_ref()).output().unwrap();
    if !permitted.status.success() {
        return eprintln!("left out: {}", stderr(&permitted));
    }
    std::fs::remove_dir(place.file("disk")).unwrap();
    let mut command = run(env!("CARGO_BIN_EXE_etw").as_ref());
    command.args(["record", "-o", "disk/f.etl", "-p", NAME, "--"]);
    command.arg(std::env::current_exe().unwrap()).args(PROGRAM).env(ROLE, "program");
    let mut program = Program::start(&mut command);
    program.writes(20_000);
    drop(program.input.take());
    let mut text = String::new();
    program.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(program.child.wait().unwrap().code(), Some(125), "{text}");
    assert!(text.contains("the file is not complete") && text.contains("LOST"), "{text}");
}

/// An existing trace is replaced with `--force` alone, by every command.
#[test]
fn an_existing_trace_is_replaced_with_force_alone() {
    let place = Place::new("force");
    place.does(&format!("record -q -o a.etl -p {NAME} -- true"));
    let before = std::fs::read(place.file("a.etl")).unwrap();
    place.does(&format!("session start m --buffering -p {NAME}"));
    for line in [
        format!("session start s -o a.etl -p {NAME}"),
        format!("record -o a.etl -p {NAME} -q"),
        "session flush m -o a.etl".to_owned(),
        "dump -o a.etl a.etl".to_owned(),
        "stat -o a.etl a.etl".to_owned(),
    ] {
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(3), "{line}");
        assert!(stderr(&output).contains("a.etl: exists; --force"), "{line}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read(place.file("a.etl")).unwrap(), before);
    place.does("session flush m -o a.etl --force");
    place.does(&format!("session start s -o a.etl --force -p {NAME}"));
    place.does("session stop s");
    // Appending replaces nothing.
    place.does(&format!("session start s -o b.etl --clock system -p {NAME}"));
    place.does("session stop s");
    place.does(&format!("session start s -o b.etl --mode append --clock system -p {NAME}"));
}
