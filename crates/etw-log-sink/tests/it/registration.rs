//! When the provider is registered, and what goes wrong.
use crate::support::*;
use etw::{Guid, Keyword, Level, Session};
use etw_log_sink::*;
use std::process::{Command, Stdio};

fn log(sink: &EtwSink, message: &str) {
    logger_log!(sink, LogLevel::INFO, None, "{message}");
}

/// SRS_LOG_SINK_ETW_01_002, SRS_LOG_SINK_ETW_01_003, SRS_LOG_SINK_ETW_01_004, SRS_LOG_SINK_ETW_01_006, SRS_LOG_SINK_ETW_01_008: the
/// first log registers, and tells so in an event of its own; the second does not.
#[test]
fn the_first_log_registers() {
    let sink = EtwSink::new();
    let id = Guid::from_u128(0x106_0100);
    sink.set_provider(id, "Test.Log");
    assert!(!sink.is_registered());
    let path = TempPath::new("first");
    let session = Session::builder("first").file(&path.0).portable().start().unwrap();
    session.enable(&id, Level::VERBOSE, Keyword(0)).unwrap();
    log(&sink, "one");
    assert!(sink.is_registered());
    log(&sink, "two");
    session.stop().unwrap();
    let contents: Vec<String> =
        read(&path, id).into_iter().map(|e| e.fields[0].1.clone()).collect();
    let executable = std::env::current_exe().unwrap();
    let told = format!(
        "ETW provider was registered succesfully (self test). Executable file full path name = {}",
        executable.display()
    );
    assert_eq!(contents, [told.as_str(), "one", "two"]);
    assert_eq!(read(&path, id)[0].event, "LogInfo");
}

/// SRS_LOG_SINK_ETW_01_005, SRS_LOG_SINK_ETW_01_007, SRS_LOG_SINK_ETW_01_009, SRS_LOG_SINK_ETW_01_011, SRS_LOG_SINK_ETW_01_087: eight
/// threads race the first log: one self test, and nothing of theirs is lost.
#[test]
fn eight_threads_race_the_first_log() {
    for round in 0..20u128 {
        let sink = EtwSink::new();
        let id = Guid::from_u128(0x106_0200 + round);
        sink.set_provider(id, "Test.Log");
        let path = TempPath::new("race");
        let session = Session::builder("race").file(&path.0).portable().start().unwrap();
        session.enable(&id, Level::VERBOSE, Keyword(0)).unwrap();
        let gate = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (gate, sink) = (&gate, &sink);
                scope.spawn(move || {
                    gate.wait();
                    for n in 0..50 {
                        log(sink, &format!("{thread} {n}"));
                    }
                });
            }
        });
        session.stop().unwrap();
        let seen = read(&path, id);
        let contents: Vec<&str> = seen.iter().map(|e| e.fields[0].1.as_str()).collect();
        let tests = contents.iter().filter(|text| text.contains("self test")).count();
        assert_eq!((tests, contents.len()), (1, 401), "round {round}");
    }
}

/// A sink can register again after it has unregistered; every registration writes the self test.
#[test]
fn a_sink_can_register_again() {
    let sink = EtwSink::new();
    let id = Guid::from_u128(0x106_0300);
    sink.set_provider(id, "Test.Log");
    let path = TempPath::new("again");
    let session = Session::builder("again").file(&path.0).portable().start().unwrap();
    session.enable(&id, Level::VERBOSE, Keyword(0)).unwrap();
    assert!(!sink.unregister());
    log(&sink, "one");
    assert!(sink.unregister() && !sink.is_registered());
    log(&sink, "two");
    session.stop().unwrap();
    let tests = read(&path, id).iter().filter(|e| e.fields[0].1.contains("self test")).count();
    assert_eq!((tests, read(&path, id).len()), (2, 4));
}

/// SRS_LOG_SINK_ETW_01_084: the provider's GUID and name, and what the environment says instead.
#[test]
fn the_default_provider() {
    assert_eq!(DEFAULT_PROVIDER_ID.to_string(), "dad29f36-0a48-4def-9d50-8ef9036b92b4");
    let expected = (DEFAULT_PROVIDER_ID, "block_storage_2".to_owned());
    assert_eq!(EtwSink::new().provider(), expected);
    let said = child("provider", &[("LOG_SINK_ETW_PROVIDER_NAME", "Mine")]);
    assert_eq!(said, "dad29f36-0a48-4def-9d50-8ef9036b92b4 Mine\n");
    let id = "{00000000-0000-0000-0000-00000000002a}";
    let said = child("provider", &[("LOG_SINK_ETW_PROVIDER_GUID", id)]);
    assert_eq!(said, "00000000-0000-0000-0000-00000000002a block_storage_2\n");
}

/// SRS_LOG_SINK_ETW_01_086: a registration that fails prints an error, the log returns, and a later one tries again; a write that fails is
/// told once a second at most.
#[test]
fn failures_are_told() {
    let line = "Error emitting ETW event\r\n";
    let said = child("full", &[]);
    assert_eq!(said, format!("{line}{line}registered\n"));
    let said = child("large", &[]);
    assert_eq!(said, format!("{line}{line}"));
}

/// SRS_LOG_SINK_ETW_01_083: without a path of the executable it is UNKNOWN.
#[test]
fn an_unknown_executable() {
    // Without /proc nobody can say; a name space of its own hides it where that is allowed.
    let out = TempPath::new("unknown");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg("mount -t tmpfs none /proc && exec \"$0\" --exact registration::child_process --nocapture")
        .arg(std::env::current_exe().unwrap())
        .envs([("LOG_SINK_ROLE", "unknown"), ("LOG_SINK_OUT", out.0.to_str().unwrap())])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !output.is_ok_and(|status| status.success()) {
        eprintln!("skipped: /proc cannot be hidden here");
        return;
    }
    let seen = read(&out, DEFAULT_PROVIDER_ID);
    assert!(seen[0].fields[0].1.ends_with("full path name = UNKNOWN"), "{:?}", seen[0].fields);
}

/// The output of another process in a role.
fn child(role: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "registration::child_process", "--nocapture"])
        .env("LOG_SINK_ROLE", role)
        .envs(variables.iter().copied())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    let (_, said) = said.split_once("BEGIN\n").unwrap();
    said.split_once("END\n").unwrap().0.to_owned()
}

/// Not a test by itself: what the child processes of the others do.
#[test]
fn child_process() {
    let Ok(role) = std::env::var("LOG_SINK_ROLE") else { return };
    let sink = EtwSink::new();
    println!("BEGIN");
    match role.as_str() {
        "provider" => {
            let (id, name) = sink.provider();
            println!("{id} {name}");
        }
        "full" => {
            let mut handles = Vec::new();
            while let Ok(handle) = etw::evntprov::event_register(&Guid::from_u128(1), None) {
                handles.push(handle);
            }
            assert_eq!(handles.len(), etw::evntprov::MAX_REGISTRATIONS);
            log(&sink, "one");
            log(&sink, "two");
            assert!(!sink.is_registered());
            assert!(etw::evntprov::event_unregister(handles[0]).is_success());
            log(&sink, "three");
            println!("{}", if sink.is_registered() { "registered" } else { "not registered" });
        }
        "large" => {
            let session = Session::builder("large").memory().start().unwrap();
            session.enable(&DEFAULT_PROVIDER_ID, Level::VERBOSE, Keyword(0)).unwrap();
            let text = "v".repeat(70_000);
            let context = LogContext::new("s").with("t", &text);
            for n in 0..10 {
                logger_log!(sink, LogLevel::INFO, Some(&context), "{n}");
            }
            std::thread::sleep(std::time::Duration::from_millis(1100));
            logger_log!(sink, LogLevel::INFO, Some(&context), "again");
            assert_eq!(session.stop().unwrap().ledger.lost_total(), 11);
        }
        "unknown" => {
            let out = std::env::var_os("LOG_SINK_OUT").unwrap();
            let session = Session::builder("unknown").file(&out).portable().start().unwrap();
            session.enable(&DEFAULT_PROVIDER_ID, Level::VERBOSE, Keyword(0)).unwrap();
            log(&sink, "one");
            session.stop().unwrap();
        }
        other => panic!("{other}"),
    }
    println!("END");
}
