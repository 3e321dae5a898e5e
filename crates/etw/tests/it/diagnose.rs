//! `ETW_DIAGNOSE=1`: a program explains why its events do not arrive.
use std::process::Command;

use crate::support::TempPath;
use etw::*;

define_provider!(PROVIDER, "OpenEtw.Diagnose");
define_provider!(FOREIGN, "OpenEtw.Diagnose", id("68fdd900-4a3e-11d1-84f4-0000f80464e3"));

/// The standard error of [`role`] in a process of its own.
fn report(diagnose: &str, directory: &std::path::Path) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "diagnose::role", "--ignored", "--nocapture", "--test-threads=1"])
        .env("ETW_DIAGNOSE", diagnose)
        .env("ETW_RUNTIME_DIR", directory)
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
#[ignore = "runs in a process of its own"]
fn role() {
    let _registrations = (PROVIDER.register(), FOREIGN.register());
    let session = Session::builder("diagnose").start().unwrap();
    session.enable(&PROVIDER, Level::WARNING, Keyword(0x10)).unwrap();
    session.stop().unwrap();
}

#[test]
fn each_step_of_the_chain_is_reported() {
    let directory = TempPath::new("diagnose");
    std::fs::create_dir(&*directory).unwrap();
    let report = report("1", &directory);
    std::fs::remove_dir_all(&*directory).unwrap();
    if cfg!(target_os = "linux") {
        assert!(report.contains(&format!("{}: no host", directory.display())), "{report}");
    }
    for step in [
        "registered OpenEtw.Diagnose 68fdd900-4a3e-11d1-84f4-0000f80464e3: no session has it enabled; \
         its GUID is not derived from its name, so sessions enable it by GUID or plain name, not as *Name",
        "a session enabled OpenEtw.Diagnose: level 3, any keyword 0x10, all keywords 0x0",
    ] {
        assert!(report.contains(step), "{step}\n{report}");
    }
}

#[test]
fn nothing_is_reported_unless_asked_for() {
    let directory = TempPath::new("diagnose-off");
    std::fs::create_dir(&*directory).unwrap();
    let report = report("0", &directory);
    std::fs::remove_dir_all(&*directory).unwrap();
    assert!(!report.contains("etw["), "{report}");
}
