//! `xperf`.

use super::*;

/// OV-24
#[test]
fn xperf_controls_sessions() {
    let place = Place::new("xperf");
    assert_eq!(place.does("xperf -loggers"), "");
    let second = SECOND.id();
    assert_eq!(
        place.does(&format!(
            "xperf -start a -on {NAME}:0x1:4 -f a.etl -BufferSize 32 -MinBuffers 4 -MaxBuffers 8 -MaxFile 4 \
             -FileMode Circular -FlushTimer 1 -ClockType SystemTime -start b -on {NAME}+{second} -f b.etl"
        )),
        ""
    );
    let text = place.does("xperf -Loggers");
    assert_eq!(text.matches("Logger Name           : ").count(), 2);
    for (name, value) in [
        ("Buffer Size", "32"),
        ("Maximum Buffers", "8"),
        ("Flush Timer", "1"),
        ("Log File Mode", "Circular"),
        ("Maximum File Size", "4"),
        ("Log Filename", place.file("a.etl").to_str().unwrap()),
        ("Trace Flags", &format!("{}:0x1:0x4", PROVIDER.id())),
    ] {
        assert_eq!(field(&text, name), value, "{text}");
    }
    let mut program = place.program();
    program.writes(10);
    place.does("xperf -flush a");
    assert_eq!(place.counts("a.etl"), [10, 0, 0]);
    place.does(&format!("xperf -update a -on {SECOND_NAME} -MaxBuffers 9"));
    program.writes(1);
    place.does(&format!("xperf -capturestate b {NAME}:1:4+{second}"));
    // The option is not -o.
    let output = place.etw(&["xperf", "-stop", "a", "-d", "a.etl"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("is an input file") && !text.contains("-o"), "{text}");
    let text = place.does("xperf -stop a b -d merged.etl");
    assert!(text.ends_with("Merged Etl: merged.etl\n"), "{text}");
    assert_eq!(place.counts("a.etl"), [12, 1, 1]);
    assert_eq!(place.counts("b.etl"), [22, 22, 1]);
    assert_eq!(place.counts("merged.etl"), [34, 23, 2]);
    place.does("xperf -merge a.etl b.etl again.etl");
    assert_eq!(place.counts("again.etl"), [34, 23, 2]);

    // Memory; a merge needs files, and nothing is stopped before that is known.
    place.does(&format!("xperf -start c -on {NAME} -Buffering"));
    program.writes(3);
    place.ends(2, "xperf -stop c -d merged.etl");
    place.does("xperf -flush c -f c.etl");
    place.does("xperf -stop c");
    assert_eq!(place.counts("c.etl"), [3, 3, 0]);

    // All sessions of a command or none.
    place.ends(3, &format!("xperf -start d -on {NAME} -start D -on {NAME} -f d.etl"));
    assert_eq!(place.does("xperf -loggers"), "");
    assert!(place.file("user.etl").exists());
    place.ends(3, "xperf -stop d");
    program.ends();
}

/// OV-24: the analyses of `xperf -i`.
#[test]
fn xperf_prints_analyses_of_a_trace() {
    let place = Place::new("xperf-analysis");
    place.does(&format!("record -q -o a.etl -p {NAME} -- true"));
    assert!(place.does("xperf -i a.etl -a tracestats").contains("session  \"etw-record-"));
    assert!(place.does("xperf -i a.etl -a process").contains("process"));
    assert!(place.does("xperf -i a.etl").starts_with("Event Name,"));
    let text = place.does("xperf -i a.etl -o out.csv -a dumper");
    assert_eq!(text, "");
    let csv = std::fs::read_to_string(place.file("out.csv")).unwrap();
    assert!(csv.starts_with("Event Name,Type,") && csv.lines().count() > 1, "{csv}");
    assert!(!place.does("xperf -i a.etl -a stack -range 0 10000000").is_empty());
}

/// OV-24: a message tries nothing that cannot work, and the help lists the events with call stacks.
#[test]
fn xperf_names_what_is_missing() {
    let place = Place::new("xperf-missing");
    place.does(&format!("record -q -o a.etl -p {NAME} -- true"));
    let output = place.etw(&["xperf", "-merge", "missing.etl", "a.etl", "c.etl"]);
    let text = stderr(&output);
    assert!(output.status.code() == Some(3) && text.contains("missing.etl"), "{text}");
    assert!(!text.contains("etw merge"), "{text}");
    let text = place.does("xperf -help stackwalk");
    assert!(text.contains("ReadyThread") && text.contains(": DISPATCHER\n"), "{text}");
    place.ends(3, "xperf -d m.etl");
    assert!(place.does("xperf -h").contains("kernel.etl"));
}
