//! `wpr`: the forms of Microsoft's documentation.

use super::*;
use etw_wire::Channel;
use etw_wire::requests::{Response, SessionStatus};
use etw_wire::runtime_directory::CONTROLLERS_LOCK;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of profiles with a provider of programs, so that it needs no rights.
fn profiles() -> String {
    let profile = |mode: &str| {
        format!(
            r#"<Profile Id="P.Verbose.{mode}" Name="P" DetailLevel="Verbose" LoggingMode="{mode}"><Collectors>
            <EventCollectorId Value="EC"><EventProviders><EventProviderId Value="EP"/></EventProviders></EventCollectorId>
            </Collectors></Profile>"#
        )
    };
    format!(
        r#"<WindowsPerformanceRecorder Version="1.0"><Profiles>
        <EventCollector Id="EC" Name="Events"><BufferSize Value="64"/><Buffers Value="8"/></EventCollector>
        <EventProvider Id="EP" Name="{NAME}" Level="4"><Keywords><Keyword Value="0x1"/></Keywords></EventProvider>
        {}{}</Profiles></WindowsPerformanceRecorder>"#,
        profile("Memory"),
        profile("File")
    )
}

/// OV-24: a recording in files and one in memory, each stopped into one trace.
#[test]
fn wpr_records_profiles() {
    let place = Place::new("wpr");
    std::fs::write(place.file("p.wprp"), profiles()).unwrap();
    assert!(place.does("wpr -profiles").starts_with("GeneralProfile.Verbose"));
    assert!(place.does("wpr -profiles p.wprp").starts_with("P.Verbose"));
    assert_eq!(place.does("wpr -status"), "WPR is not recording\n");
    place.ends(3, "wpr -stop none.etl");
    place.ends(3, "wpr -cancel");
    for (line, why) in [
        ("wpr -start Colour", "GeneralProfile.Light"),
        ("wpr -start p.wprp!Q", "P.Verbose"),
        ("wpr -start", "PROFILE"),
        ("wpr -marker x", "provider"),
        ("wpr", "-start"),
    ] {
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
    }
    // It begins with the first session.
    let mut program = None;
    for (start, mode, output) in [
        ("wpr -start p.wprp!P -filemode -recordtempto .", "File", "file.etl"),
        ("wpr -start p.wprp", "Memory", "memory.etl"),
    ] {
        assert_eq!(place.does(start), "");
        place.ends(3, start);
        let status = place.does("wpr -status");
        assert!(status.contains(&format!("Logging mode   : {mode} ")), "{status}");
        assert!(!status.contains("P.Verbose") && !status.contains("Buffers  "), "{status}");
        let profiles = place.does("wpr -status profiles");
        assert!(profiles.contains("\nProfiles\n  P.Verbose\n\nEvents\n"), "{profiles}");
        let details = place.does("wpr -status profiles collectors details");
        assert!(details.starts_with(&profiles), "{details}");
        for row in ["\n  Buffers        : 8 of 64 KB, ", "level 4, keywords 0x1\n"] {
            assert!(details.contains(row), "{details}");
        }
        program.get_or_insert_with(|| place.program()).writes(10);
        // A place where no trace can be written does not end the recording.
        place.ends(3, "wpr -stop .");
        place.ends(3, "wpr -stop missing/x.etl");
        assert_eq!(place.does("wpr -status"), status);
        place.does(&format!("wpr -stop {output} Some"));
        assert_eq!(place.counts(output)[0], 10, "{output}");
        assert_eq!(place.does("wpr -status"), "WPR is not recording\n");
    }
    place.does("wpr -start p.wprp -filemode -recordtempto .");
    place.does("wpr -cancel");
    program.into_iter().for_each(|program| program.ends());
    let left = std::fs::read_dir(place.file("p.wprp").parent().unwrap()).unwrap();
    let left = left.map(|one| one.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> =
        left.filter(|one| one.contains("wpr-") || one.contains(".etl.")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Regression: of several starts at once one succeeded, and another, which could not start its sessions, ended the recording of the first.
#[test]
fn one_of_several_starts_at_once_records() {
    let place = Place::new("wpr-race");
    std::fs::write(place.file("p.wprp"), profiles()).unwrap();
    // Regression: of profiles whose collectors have other names, all started.
    let other = |number| profiles().replace("Events", &format!("Events {number}"));
    (0..2).for_each(|one| std::fs::write(place.file(&format!("{one}.wprp")), other(one)).unwrap());
    for round in 0..10 {
        let start = |file: &str| {
            let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
            command.args(["wpr", "-start", file, "-filemode", "-recordtempto", "."]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let all: Vec<Child> = ["p.wprp", "0.wprp", "p.wprp", "1.wprp"].map(start).into();
        let all: Vec<Output> = all.into_iter().map(|one| one.wait_with_output().unwrap()).collect();
        let (first, others): (Vec<&Output>, Vec<&Output>) =
            all.iter().partition(|one| one.status.success());
        assert_eq!(first.len(), 1, "round {round}: {all:?}");
        for other in others {
            assert_eq!(other.status.code(), Some(3), "round {round}: {other:?}");
            assert!(stderr(other).contains("already running"), "round {round}: {other:?}");
        }
        let status = place.does("wpr -status profiles");
        assert!(status.contains("\n  P.Verbose\n\nEvents"), "round {round}: {status}");
        assert_eq!(status.matches("Logging mode").count(), 1, "round {round}: {status}");
        place.does("wpr -stop all.etl");
    }
}

/// Regression: `wpr` made a file in the host's folder to lock it, so those who control the machine's host and may not write its folder were refused.
#[test]
fn wpr_needs_no_right_to_write_the_hosts_folder() {
    const USER: u32 = 64124;
    let place = Place::new("wpr-folder");
    std::fs::write(place.file("p.wprp"), profiles()).unwrap();
    crate::doctor::set_mode(&place.folder, 0o755);
    let (etw, id) = (place.copy_of_etw(), USER.to_string());
    let folder = place.file("of-user");
    std::fs::create_dir(&folder).unwrap();
    let runtime = folder.join("run");
    // SAFETY: it takes nothing and returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root {
        std::os::unix::fs::chown(&folder, Some(USER), Some(USER)).unwrap();
    }
    let run = |line: &str| {
        // Root may write everywhere.
        let mut command = match is_root {
            true => place.command("setpriv".as_ref()),
            false => place.command(&etw),
        };
        if is_root {
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(&etw);
        }
        command.env("ETW_RUNTIME_DIR", &runtime).current_dir(&folder).env("TMPDIR", &folder);
        let output = command.args(line.split(' ')).output().unwrap();
        assert!(output.status.success(), "{line}: {}", stderr(&output));
    };
    run("session start s --buffering -p OpenEtw.Test.Controllers");
    crate::doctor::set_mode(&runtime, 0o500);
    // Regression: any user who could read the host's folder could lock it, and kept wpr from starting.
    let open = std::fs::File::open(&runtime).unwrap();
    open.lock().unwrap();
    run("wpr -start ../p.wprp");
    run("wpr -cancel");
    run("session stop s");
    crate::doctor::set_mode(&runtime, 0o700);
}

/// Regression: a note said that the clock of a file differs from that of the same file.
#[test]
fn wpr_notes_different_clocks_of_its_sessions() {
    let place = Place::new("wpr-clocks");
    let system = r#"<SystemCollector Id="SC" Name="NT Kernel Logger"><BufferSize Value="64"/><Buffers Value="8"/></SystemCollector>
        <SystemProvider Id="SP"><Keywords><Keyword Value="ProcessThread"/></Keywords></SystemProvider><EventCollector"#;
    let reference = r#"<Collectors><SystemCollectorId Value="SC"><SystemProviderId Value="SP"/></SystemCollectorId>"#;
    let file = profiles().replacen("<EventCollector", system, 1);
    std::fs::write(place.file("p.wprp"), file.replace("<Collectors>", reference)).unwrap();
    let output = place.etw(&["wpr", "-start", "p.wprp", "-filemode", "-recordtempto", "."]);
    if !output.status.success() {
        let text = stderr(&output);
        assert!(text.contains("the kernel refuses"), "{text}");
        return eprintln!("left out: {text}");
    }
    let output = place.etw(&["wpr", "-stop", "w.etl"]);
    let text = stderr(&output);
    assert!(output.status.code().is_some_and(|code| code < 2), "{text}");
    // Their clocks differ where the machine's wall clock was set between their starts.
    let has_note = text.contains("times were converted") || text.contains("clock");
    assert!(
        !has_note || text.contains("w.etl: the recordings in it had different clocks"),
        "{text}"
    );
    assert!(!text.contains("differs from that of w.etl"), "{text}");
}

/// OV-24: a note names a file that is there when the command has ended.
#[test]
fn wpr_names_no_file_that_it_removes() {
    let place = Place::new("wpr-notes");
    std::fs::write(place.file("p.wprp"), profiles()).unwrap();
    for start in ["wpr -start p.wprp", "wpr -start p.wprp -filemode -recordtempto ."] {
        place.does(start);
        let mut program = place.program();
        // Meanwhile nobody takes events from the program's memory.
        place.signal_worker("-STOP");
        program.writes(500_000);
        place.signal_worker("-CONT");
        program.ends();
        let removed = place.does("wpr -status");
        let removed = removed.lines().find_map(|line| line.strip_prefix("  File           : "));
        let output = place.etw(&["wpr", "-stop", "all.etl"]);
        let text = stderr(&output);
        assert!(text.contains("etw: note: all.etl: the session lost "), "{start}: {text}");
        assert!(!text.contains("all.etl.0"), "{start}: {text}");
        assert!(removed.is_none_or(|file| !text.contains(file)), "{start}: {text}");
    }
}

/// OV-24: a recording whose disk is full is not shown as if it went on, and one that others began has no profiles.
#[test]
fn wpr_status_tells_of_failures() {
    let place = Place::new("wpr-failing");
    std::fs::write(place.file("p.wprp"), profiles()).unwrap();
    // SAFETY: it has no arguments.
    let namespaces = if unsafe { libc::geteuid() } == 0 { "-m" } else { "-Urm" };
    let script = "mkdir disk && mount -t tmpfs -o size=128k none disk || exit 9; \
                  exec \"$0\" wpr -start p.wprp -filemode -recordtempto disk";
    let mut command = place.command("unshare".as_ref());
    command.args([namespaces, "sh", "-c", script, env!("CARGO_BIN_EXE_etw")]);
    let output = command.output().unwrap();
    if !output.status.success() {
        let text = stderr(&output);
        assert!(text.contains("mount") || text.contains("unshare"), "{text}");
        return eprintln!("left out: {text}");
    }
    let mut program = place.program();
    let end = Instant::now() + Duration::from_secs(60);
    let mut status = String::new();
    while !status.contains("\n  State          : failing: ") {
        assert!(Instant::now() < end, "{status}");
        program.writes(2_000);
        status = place.does("wpr -status");
    }
    program.ends();
    place.does("wpr -cancel");
    // It is of an earlier recording.
    let left = "11111111-2222-3333-4444-555555555555\nCPU.Verbose";
    std::fs::write(place.runtime().join("wpr-profiles"), left).unwrap();
    let name = "WPR_initiated_WprApp_WPR Event Collector";
    let output = place.etw(&["session", "start", name, "-o", "o.etl"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let status = place.does("wpr -status profiles");
    assert!(status.contains("not known: something else than wpr -start"), "{status}");
}

/// OV-24: each event collector is a session with its own buffers, filters and providers; the parts that have no effect are named.
#[test]
fn wpr_has_a_session_for_each_collector() {
    let place = Place::new("wpr-collectors");
    let second = SECOND.id();
    let file = format!(
        r#"<WindowsPerformanceRecorder Version="1.0"><Profiles>
        <EventCollector Id="U" Name="Big_Collector"><BufferSize Value="128"/><Buffers Value="16"/></EventCollector>
        <EventCollector Id="V" Name="Small Collector"><BufferSize Value="64"/><Buffers Value="4"/></EventCollector>
        <EventProvider Id="A" Name="{NAME}" Level="4"><CaptureStateOnSave><Keyword Value="0x1"/></CaptureStateOnSave></EventProvider>
        <EventProvider Id="B" Name="{second}" Stack="true">
          <EventFilters FilterIn="true"><EventId Value="5"/></EventFilters>
          <StackFilters FilterIn="false"><EventId Value="7"/></StackFilters>
        </EventProvider>
        <Profile Id="One.Verbose.Memory" Name="One" DetailLevel="Verbose" LoggingMode="Memory"><Collectors>
          <EventCollectorId Value="U"><EventProviders><EventProviderId Value="A"/></EventProviders></EventCollectorId>
          <EventCollectorId Value="V"><EventProviders><EventProviderId Value="B"/></EventProviders></EventCollectorId>
          <HeapEventCollectorId Value="H"/>
        </Collectors></Profile>
        <Profile Id="Two.Light.File" Name="Two" DetailLevel="Light" LoggingMode="File" Default="true"><Collectors>
          <EventCollectorId Value="U"><EventProviders><EventProviderId Value="B"/></EventProviders></EventCollectorId>
        </Collectors></Profile>
        </Profiles></WindowsPerformanceRecorder>"#
    );
    std::fs::write(place.file("p.wprp"), file).unwrap();
    let output = place.etw(&["wpr", "-start", "p.wprp!One"]);
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    let note = "profile One.Verbose: HeapEventCollectorId, CaptureStateOnSave: left out";
    assert!(text.contains(note), "{text}");
    let status = place.does("wpr -status collectors details");
    for part in [
        "\nBig_Collector\n  Logging mode   : Memory",
        "\n  Buffers        : 16 of 128 KB, ",
        "\nSmall Collector\n  Logging mode   : Memory",
        "\n  Buffers        : 4 of 64 KB, ",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let small = place.etw(&["session", "query", "WPR_initiated_WprApp_Small Collector"]);
    let small = String::from_utf8(small.stdout).unwrap();
    for part in [r#""event_ids":{"ids":[5],"include":true}"#, r#"{"ids":[7],"include":false}"#] {
        assert!(small.contains(part), "{part}: {small}");
    }
    let mut program = place.program();
    program.writes(10);
    place.does("wpr -stop one.etl");
    program.ends();
    // The filter is about ids, which events of TraceLogging do not have.
    assert_eq!(place.counts("one.etl")[0], 20);
    // The default profile of the file, and modes that a profile does not have.
    for (line, why) in [
        ("wpr -start p.wprp", "Two.Light is for files (LoggingMode File) only; add -filemode"),
        ("wpr -start p.wprp!One -filemode", "One.Verbose is for memory (LoggingMode Memory) only"),
    ] {
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
    }
    place.does("wpr -start p.wprp -filemode -recordtempto .");
    let status = place.does("wpr -status profiles");
    assert!(status.contains("\n  Two.Light\n\nBig_Collector\n  Logging mode   : File"), "{status}");
    place.does("wpr -cancel");
}

/// Answers one controller after the other as a host of one recording in memory, which a snapshot finds to have lost five events, and its end
/// to have lost `lost`.
fn answer_as_recording<T>(directory: &Path, lost: u64, asks: impl FnOnce() -> T) -> T {
    const TOLD: u32 = 5;
    let listener = Channel::listen(&directory.join("socket")).unwrap();
    let is_done = AtomicBool::new(false);
    let session = |lost| {
        let name = "WPR_initiated_WprApp_Events".to_owned();
        SessionStatus { name, lost, ..SessionStatus::default() }
    };
    let answer = |request: &Request| match request {
        Request::List => Response::Sessions { sessions: vec![session(0)] },
        Request::Stop { .. } => Response::Session(Box::new(session(lost))),
        Request::Snapshot { file, .. } => {
            let mut trace = etw_etl::write::FileBuilder::new();
            trace.header.logfile.events_lost = TOLD;
            std::fs::write(file, trace.finish()).unwrap();
            Response::Done { warnings: Vec::new() }
        }
        other => panic!("{other:?}"),
    };
    let send = |channel: &Channel, response: &Response| {
        channel.send(&serde_json::to_vec(response).unwrap(), &[])
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                let Ok(channel) = Channel::accept(listener.as_fd()) else {
                    std::thread::yield_now();
                    continue;
                };
                channel.set_blocking(true).unwrap();
                // The greeting is no request.
                let mut is_greeted = false;
                while let Ok(received) = channel.receive()
                    && !received.bytes.is_empty()
                {
                    let response = match is_greeted {
                        true => answer(&serde_json::from_slice(&received.bytes).unwrap()),
                        false => Response::Done { warnings: Vec::new() },
                    };
                    is_greeted = true;
                    if send(&channel, &response).is_err() {
                        break;
                    }
                }
            }
        });
        let asked = asks();
        is_done.store(true, Ordering::Release);
        asked
    })
}

/// Regression: losses that a session in memory had not had before its snapshot, such as those of the rundown at its end, stand in the trace, and `wpr -stop`
/// reported them as losses that the trace does not tell.
#[test]
fn wpr_reports_losses_that_the_trace_does_not_tell() {
    for (lost, reported) in [(5, None), (7, Some("2 events LOST in addition to those"))] {
        let place = Place::new(&format!("wpr-lost-{lost}"));
        std::fs::write(place.runtime().join(CONTROLLERS_LOCK), "").unwrap();
        let stop = || place.etw(&["wpr", "-stop", "memory.etl"]);
        let stopped = answer_as_recording(&place.runtime(), lost, stop);
        let text = stderr(&stopped);
        assert!(place.file("memory.etl").exists(), "{text}");
        match reported {
            Some(reported) => assert!(text.contains(reported), "{text}"),
            None => assert!(!text.contains("LOST in addition"), "{text}"),
        }
    }
}
