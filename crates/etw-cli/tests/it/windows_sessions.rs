//! Commands of sessions on Windows: the calls of the system's functions that they make.
//!
//! The command runs as a copy whose import table names a library of these tests in place of `advapi32.dll`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library, with as many letters as the system's.
const LIBRARY: &[u8; 12] = b"etwcalls.dll";
const ID: &str = "01020304-0506-0708-090a-0b0c0d0e0f10";

/// The copy of the command.
fn command() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let original = Path::new(env!("CARGO_BIN_EXE_etw"));
        let library = original.with_file_name("examples").join("recorded_system.dll");
        assert!(
            library.exists(),
            "{} is missing: cargo build -p openetw --example recorded_system makes it",
            library.display()
        );
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("calls");
        std::fs::create_dir_all(&folder).unwrap();
        let name = String::from_utf8_lossy(LIBRARY).into_owned();
        std::fs::copy(library, folder.join(name)).unwrap();
        let mut bytes = std::fs::read(original).unwrap();
        let mut count = 0;
        for start in 0..bytes.len() - LIBRARY.len() {
            let part = &mut bytes[start..start + LIBRARY.len()];
            if matches!(part[0], b'a' | b'A') && part.eq_ignore_ascii_case(b"advapi32.dll") {
                part.copy_from_slice(LIBRARY);
                count += 1;
            } else if part.starts_with(b"tdh.dll\0") {
                // Wine's library has a function that ends the program; the command does without the library.
                part[2] = b'x';
            }
        }
        assert!(count > 0, "the command imports nothing of advapi32.dll");
        let copy = folder.join("etw.exe");
        std::fs::write(&copy, bytes).unwrap();
        copy
    })
}

/// The output of the command, and its calls.
struct Run {
    output: Output,
    calls: Vec<String>,
}

impl Run {
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

fn run(name: &str, arguments: &[&str]) -> Run {
    let calls = command().with_file_name(format!("{name}.txt"));
    let _ = std::fs::remove_file(&calls);
    let output =
        Command::new(command()).args(arguments).env("ETW_RECORDED_CALLS", &calls).output().unwrap();
    let calls = std::fs::read_to_string(calls).unwrap_or_default();
    Run { output, calls: calls.lines().map(str::to_owned).collect() }
}

/// A session with a file, its providers and filters.
#[test]
fn session_start_makes_the_calls_of_its_options() {
    let provider = format!("{ID}:4:0x6:0x2");
    let start = [
        "session",
        "start",
        "shop",
        "-o",
        r"C:\traces\shop.etl",
        "--mode",
        "circular",
        "--max-size",
        "10M",
        "-p",
        &provider,
        "--exe",
        "a.exe",
        "--event-id",
        "1,2",
    ];
    let run = run("start", &start);
    assert!(run.output.status.success(), "{}", run.stderr());
    let [start, enable] = &run.calls[..] else { panic!("{:?}", run.calls) };
    // Circular, with a size in KiB.
    assert!(
        start.starts_with(
            r"StartTraceW shop file=C:\traces\shop.etl mode=0x2002 flags=0x0 size=10240 "
        ),
        "{start}"
    );
    let name: String =
        "a.exe\0".encode_utf16().map(|unit| format!("{:04x}", unit.swap_bytes())).collect();
    let expected = format!(
        "EnableTraceEx2 0x77 {ID} code=1 level=4 any=0x6 all=0x2 property=0x0 0x80000008={name} 0x80000200=0100020001000200"
    );
    assert_eq!(*enable, expected);
}

#[test]
fn sessions_are_listed_flushed_and_stopped() {
    let list = run("list", &["session", "list"]);
    assert!(list.stdout().contains("listed"), "{}{}", list.stdout(), list.stderr());
    assert_eq!(list.calls, ["QueryAllTracesW"]);
    let flush = run("flush", &["session", "flush", "shop"]);
    assert_eq!(flush.calls, ["ControlTraceW shop handle=0x0 code=3 file="], "{}", flush.stderr());
    let stop = run("stop", &["session", "stop", "listed"]);
    let last = stop.calls.last().map(String::as_str);
    assert_eq!(last, Some("ControlTraceW listed handle=0x0 code=1 file="), "{}", stop.stderr());
}

#[test]
fn record_runs_a_command_within_a_session() {
    let trace = command().with_file_name("record.etl");
    let trace = trace.to_str().unwrap();
    let run =
        run("record", &["record", "--force", "-o", trace, "-p", ID, "--", "cmd", "/c", "exit 3"]);
    assert_eq!(run.output.status.code(), Some(3), "{}", run.stderr());
    let names: Vec<&str> = run.calls.iter().filter_map(|call| call.split(' ').next()).collect();
    assert_eq!(names, ["StartTraceW", "EnableTraceEx2", "ControlTraceW"], "{:?}", run.calls);
    assert!(run.calls[0].contains(r"\record.etl "), "{:?}", run.calls);
    assert!(run.calls[2].contains(" code=1 "), "{:?}", run.calls);
    assert!(run.stderr().contains("all programs"), "{}", run.stderr());
}

#[test]
fn tail_prints_the_events_that_the_system_delivers() {
    let run = run("tail", &["tail", "--json", "shop"]);
    assert!(run.output.status.success(), "{}", run.stderr());
    let event: serde_json::Value = serde_json::from_str(run.stdout().trim()).unwrap();
    assert_eq!(
        (&event["event"], &event["fields"]["Number"]),
        (&"Numbered".into(), &7.into()),
        "{event}"
    );
    let open = run.calls.iter().find(|call| call.starts_with("OpenTraceW")).unwrap();
    // Real time, event records.
    assert_eq!(open, "OpenTraceW shop mode=0x10000100");
    assert!(run.calls.iter().any(|call| call == "ProcessTrace"), "{:?}", run.calls);
}

#[test]
fn tail_of_a_provider_has_a_session_of_its_own_that_ends_with_it() {
    let run = run("own", &["tail", "--json", "-p", ID, "-n", "1"]);
    // The session's losses, which the library makes up.
    assert_eq!(run.output.status.code(), Some(1), "{}", run.stderr());
    assert!(run.stderr().contains("2 events LOST"), "{}", run.stderr());
    assert!(run.stdout().contains("Numbered"), "{}", run.stdout());
    let [start, enable] = &run.calls[..2] else { panic!("{:?}", run.calls) };
    // Real time, independent, one stream of buffers.
    assert!(start.starts_with("StartTraceW ") && start.contains(" mode=0x18000100 "), "{start}");
    assert!(enable.starts_with("EnableTraceEx2 "), "{enable}");
    assert!(
        run.calls.iter().any(|call| call.contains(" code=1 ")),
        "it is stopped: {:?}",
        run.calls
    );
}

#[test]
fn provider_list_names_processes_and_sessions() {
    let run = run("providers", &["provider", "list", "--json"]);
    assert!(run.output.status.success(), "{}", run.stderr());
    let text = run.stdout();
    let first =
        text.lines().find(|line| line.contains("a1a1a1a1")).unwrap_or_else(|| panic!("{text}"));
    assert!(first.contains("100") && first.contains("listed"), "{first}");
    assert!(text.contains("b2b2b2b2"), "{text}");
}

#[test]
fn system_events_are_those_of_the_kernel_logger() {
    let run = run(
        "kernel",
        &[
            "session",
            "start",
            "NT Kernel Logger",
            "-o",
            r"C:\k.etl",
            "--system",
            "proc_thread+loader",
        ],
    );
    assert!(run.output.status.success(), "{}", run.stderr());
    let start = &run.calls[0];
    assert!(start.contains("guid=9e814aad-3204-11d2-9a82-006008a86939"), "{start}");
    // Processes, threads, images.
    assert!(start.contains(" flags=0x7 "), "{start}");
}

#[test]
fn requests_without_a_counterpart_are_refused_with_a_sentence() {
    for (arguments, part) in [
        (&["session", "start", "s", "-o", r"C:\a.evtx", "-p", ID][..], ".evtx"),
        (
            &["session", "start", "s", "-o", r"C:\a.etl", "-p", ID, "--payload", "Sold:Count=1"],
            "TraceLogging",
        ),
    ] {
        let run = run("refused", arguments);
        assert_eq!(run.output.status.code(), Some(3), "{arguments:?}: {}", run.stderr());
        assert!(run.stderr().contains(part) && run.stderr().contains("50"), "{}", run.stderr());
        // A session that began has been stopped.
        let started = run.calls.iter().filter(|call| call.starts_with("StartTraceW")).count();
        let stopped = run.calls.iter().filter(|call| call.contains(" code=1 ")).count();
        assert_eq!(started, stopped, "{:?}", run.calls);
    }
}
