//! `ReportEvent` from C.

use etw_eventlog::registry::Scope;
use etwd::{Host, HostOptions};

use crate::support::*;

const ARGUMENTS: &[&str] =
    &["-std=gnu11", "-fshort-wchar", "-DUNICODE", WINDOWS, "-include", "wmain.h"];

const SANITIZED: &[&str] = &[
    "-std=gnu11",
    "-fshort-wchar",
    "-DUNICODE",
    WINDOWS,
    "-include",
    "wmain.h",
    "-g",
    "-fsanitize=address,undefined",
];

/// OV-22: a program for Windows reports to the Application log as it is; without a host, it learns that nobody keeps the report.
#[test]
fn reports_from_c_are_records_of_the_application_log() {
    for compiler in [Compiler("gcc", ARGUMENTS), Compiler("clang", ARGUMENTS)] {
        let folder = Folder::new(&format!("reports-{}", compiler.0));
        let source = home().join("tests/c/windows/reporter.c");
        let Some(program) = compile_file(&folder, &source, compiler) else { continue };
        let directory = folder.0.join("run");
        let scope =
            Scope { packs: folder.0.join("packs"), logs: folder.0.join("logs"), is_machine: false };
        let report = || {
            let mut command = run(&program, compiler);
            let output = command.env("ETW_RUNTIME_DIR", &directory).output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(report(), "10011\n");
        let options = HostOptions { logs: vec![scope.clone()], ..HostOptions::new(&directory) };
        let host = Host::start(options).unwrap();
        assert_eq!(report(), "11111\n");
        // Its end closes the logs.
        drop(host);
        let log = etw_evtx::Log::open(scope.logs.join("Application.evtx")).unwrap();
        let mut records = log.records();
        let first = records.next().unwrap().unwrap().to_xml().unwrap();
        for part in [
            "<Provider Name='Reporter'/>",
            "<EventID Qualifiers='49152'>7</EventID>",
            "<Task>3</Task>",
            "<Data>first</Data><Data>gr\u{fc}\u{df}e</Data>",
            "<Binary>010203</Binary>",
        ] {
            assert!(first.contains(part), "{part} is not in {first}");
        }
        let second = records.next().unwrap().unwrap().to_xml().unwrap();
        assert!(
            second.contains("<Level>3</Level>") && second.contains("<Data>plain</Data>"),
            "{second}"
        );
        assert!(records.next().unwrap().is_none());
    }
}

/// OV-22: a program for Windows reads, seeks, watches, backs up and clears the Application log as it is, and reads backups, logs of Windows
/// XP and traces, with records of the documented layout.
#[test]
fn the_classic_calls_read_logs_of_every_format() {
    let root = home().join("../..");
    let mut ran = 0;
    for (number, arguments) in [ARGUMENTS, SANITIZED].into_iter().enumerate() {
        let folder = Folder::new(&format!("classic-log-{number}"));
        let source = home().join("tests/c/windows/reader.c");
        let compiler = Compiler("gcc", arguments);
        let Some(program) = compile_file(&folder, &source, compiler) else { continue };
        let path = |name: &str| folder.0.join(name);
        // The logs of root are the machine's, those of others the user's: here they are the same.
        std::fs::create_dir_all(path("data/etw/packs")).unwrap();
        std::os::unix::fs::symlink(path("data/etw"), path("machine")).unwrap();
        let scope =
            Scope { packs: path("data/etw/packs"), logs: path("data/etw/logs"), is_machine: false };
        let directory = path("run");
        let options = HostOptions { logs: vec![scope], ..HostOptions::new(&directory) };
        let host = Host::start(options).unwrap();
        let output = run(&program, compiler)
            .args([
                path("backup.evtx"),
                root.join("fuzz/corpus/evt_log/closed"),
                root.join("testdata/sample.etl"),
                path("empty.evtx"),
                path("both.evtx"),
            ])
            // The arguments of wmain live until the process ends.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("XDG_DATA_HOME", path("data"))
            .env("ETW_MACHINE_PACKS", path("machine/packs"))
            .env("ETW_RUNTIME_DIR", &directory)
            .output()
            .unwrap();
        drop(host);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        let counts = String::from_utf8(output.stdout).unwrap();
        let (old, trace) = counts.trim().split_once(' ').unwrap();
        assert!(old.parse::<u64>().unwrap() > 1 && trace.parse::<u64>().unwrap() > 5, "{counts}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}
