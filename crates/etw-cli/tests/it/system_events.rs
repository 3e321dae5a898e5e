//! Events of the system in a recording and in a session. A machine that refuses them is named, and the test passes.

use crate::controllers::Place;
use crate::fixture::stderr;

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// OV-23: the command's processes and samples, and its exit status.
#[test]
fn a_command_is_recorded_with_events_of_the_system() {
    let place = Place::new("system-record");
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3";
    let record = ["record", "--force", "-o", "s.etl", "--system", "profile,cswitch", "--"];
    let output = place.etw(&[&record[..], &["sh", "-c", work]].concat());
    if output.status.code() == Some(125) {
        return eprintln!("left out: {}", stderr(&output));
    }
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let text = stdout(&place.etw(&["dump", "--join", "s.etl"]));
    for event in ["Process/End", "Thread/CSwitch", "PerfInfo/SampleProf", "Image/Load"] {
        assert!(text.contains(event), "{event} is missing");
    }
    let is_command = |line: &&str| line.contains("Process/End") && line.contains("-lt 100000");
    assert!(text.lines().any(|line| is_command(&line)), "the command line is missing");
    let output = place.etw(&["check", "s.etl"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

/// OV-23: a session of a host.
#[test]
fn a_session_records_events_of_the_system() {
    let place = Place::new("system-session");
    let start = ["session", "start", "s", "-o", "s.etl", "--system", "cswitch"];
    let output = place.etw(&start);
    if !output.status.success() {
        let text = stderr(&output);
        assert!(text.contains("CAP_PERFMON") || text.contains("tracefs"), "{text}");
        return eprintln!("left out: {text}");
    }
    place.does("session stop s");
    let text = stdout(&place.etw(&["stat", "s.etl"]));
    for event in ["Process/DCStart", "Process/DCEnd", "EventTrace/Extension", "SystemConfig/CPU"] {
        assert!(text.contains(event), "{event} is missing in\n{text}");
    }
}

#[test]
fn words_that_name_no_events_are_errors() {
    let place = Place::new("system-words");
    for (system, expected) in
        [("colour", "colour: no class of system events"), ("registry", "does not record these")]
    {
        let output = place.etw(&["record", "-o", "x.etl", "--system", system, "--", "true"]);
        let text = stderr(&output);
        assert!(!output.status.success() && text.contains(expected), "{text}");
    }
}
