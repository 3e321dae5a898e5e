//! `tracelog`.

use super::*;

/// OV-24: a session from its start to its stop, its providers changed meanwhile.
#[test]
fn tracelog_controls_a_session() {
    let place = Place::new("tracelog");
    assert_eq!(place.does("tracelog -l"), "");
    assert_eq!(place.does("tracelog -enumguid").lines().count(), 2);
    let id = PROVIDER.id();
    let text = place.does(&format!("tracelog -start My -f my.etl -guid {NAME} -level 4 -flag 0x1"));
    assert!(
        text.starts_with(
            "Logger Started...\nEnabling trace to logger 1\nOperation Status:       0L "
        ),
        "{text}"
    );
    assert_eq!(field(&text, "Logger Name"), "My");
    assert_eq!(field(&text, "Log Filename"), place.file("my.etl").to_str().unwrap());
    let mut program = place.program();
    program.writes(10);

    let text = place.does("tracelog -enumguid");
    let rows: Vec<Vec<&str>> =
        text.lines().skip(2).map(|row| row.split_whitespace().collect()).collect();
    let (id, second) = (id.to_string(), SECOND.id().to_string());
    assert!(rows.contains(&vec![&id, "TRUE", "1", "4", "0x1"]), "{text}");
    assert!(rows.contains(&vec![&second, "FALSE", "0", "0", "0"]), "{text}");

    let text = place.does("tracelog /Q my /LP");
    assert_eq!(field(&text, "Logger Id"), "0x1");
    assert_eq!(field(&text, "Log Mode"), "Sequential");
    assert_eq!(field(&text, "Enabled Providers"), "1");
    assert!(field(&text, &id).starts_with("Level 4  MatchAnyKeyword 0x1 "), "{text}");
    assert!(!place.does("tracelog -q MY").contains("Enabled Providers"));
    assert!(place.does("tracelog -l").starts_with("Logger Name:            My\n"));

    place.does("tracelog -flush My");
    assert_eq!(place.counts("my.etl"), [10, 0, 0]);
    place.does(&format!("tracelog -enable My -guid #{{{id}}} -level 5 -timeout 20000"));
    program.writes(10);
    place.does(&format!("tracelog -disable My -guid #{id}"));
    program.writes(10);
    let text = place.does("tracelog -capturestate My");
    assert!(text.starts_with("Operation Status:       0L"));
    place.does(&format!("tracelog -enable My -guid {NAME} -timeout 20000"));
    place.does("tracelog -capturestate My");
    let text = place.does("tracelog -stop My");
    assert_eq!(field(&text, "Events Lost"), "0");
    assert_eq!(place.counts("my.etl"), [20, 10, 1]);
    assert_eq!(place.does("tracelog -l"), "");
    place.ends(3, "tracelog -stop My");
    program.ends();
}

/// OV-24: how files are written, and what else a start says.
#[test]
fn tracelog_starts_sessions_of_every_kind() {
    let place = Place::new("tracelog-kinds");
    let id = PROVIDER.id();
    std::fs::write(place.file("two.guid"), format!("; both\n{id};0x1;4\n{};2\n", SECOND.id()))
        .unwrap();
    let start = |options: &str| place.does(&format!("tracelog -start s {options}"));

    // The file's default name, circular, a clock, a timer, small buffers, a maximum in KB.
    let text = start(&format!(
        "-cir 64 -kb -b 4 -min 4 -max 8 -ft 3 -UseSystemTime -lowcapacity -independent -guid {NAME}"
    ));
    for (name, value) in [
        ("Buffer Size", "4 Kb"),
        ("Maximum Buffers", "8"),
        ("ClockType", "SystemTime"),
        ("Log Mode", "Independent  LowCapacity  Circular"),
        ("Maximum File Size", "64 Kb"),
        ("Buffer Flush Timer", "3 secs"),
        ("Log Filename", place.file("LogFile.etl").to_str().unwrap()),
    ] {
        assert_eq!(field(&text, name), value, "{text}");
    }
    place.ends(3, "tracelog -start S -f other.etl");
    let mut program = place.program();
    program.writes(5);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("LogFile.etl"), [5, 5, 0]);
    assert_eq!(place.stat("LogFile.etl")["clock"], "system");

    // A file of GUIDs; appended to.
    start("-f a.etl -guid two.guid -UseSystemTime");
    program.writes(3);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("a.etl"), [3, 3, 0]);
    start(&format!("-f a.etl -append -guid {NAME}"));
    program.writes(4);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("a.etl"), [7, 7, 0]);

    // A series of files.
    start(&format!("-f n%d.etl -newfile 16 -kb -b 4 -guid {NAME}"));
    program.writes(1000);
    place.does("tracelog -stop s");
    assert!(place.file("n2.etl").exists());

    // At its maximum size a sequential file takes no more, which is a loss of this run.
    start(&format!("-f full.etl -seq 16 -kb -prealloc -b 4 -guid {NAME}"));
    program.writes(1000);
    let text = place.ends(1, "tracelog -stop s");
    assert_ne!(field(&text, "Events Lost"), "0");

    // Memory, written when it is asked for.
    let text = start(&format!("-buffering -guid {NAME} -guid {SECOND_NAME}"));
    assert_eq!(field(&text, "Mode"), "Buffering");
    program.writes(6);
    place.does("tracelog -flush s -f snap.etl");
    place.does("tracelog -stop s");
    assert_eq!(place.counts("snap.etl"), [12, 12, 0]);

    // Real time, and a file beside it.
    let text = start("-rt -f rt.etl");
    assert_eq!(field(&text, "Log Mode"), "RealTime  Sequential");
    assert!(!text.contains("Enabling trace"));
    place.does("tracelog -stop s");

    // Filters, ids beside events, and no event without a keyword.
    let pid = program.child.id();
    start(&format!("-f f.etl -guid {NAME} -PidFilter 2 {pid} 1 -enableproperty 0x81"));
    program.writes(2);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("f.etl"), [2, 2, 0]);
    start(&format!(
        "-f f.etl -guid {NAME} -PidFilter 1 1 -EventIdFilter -in 1 7 -ExeFilter other;another"
    ));
    program.writes(2);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("f.etl"), [0, 0, 0]);
    program.ends();
}

/// OV-24: a running session changed.
#[test]
fn tracelog_updates_a_running_session() {
    let place = Place::new("tracelog-update");
    place.does(&format!("tracelog -start s -f one.etl -max 8 -guid {NAME}"));
    let mut program = place.program();
    program.writes(2);
    let text = place.does("tracelog -update s -f two.etl -ft 2 -max 12 -rt");
    for (name, value) in [
        ("Number of Buffers", "12"),
        ("Log Mode", "RealTime  Sequential"),
        ("Buffer Flush Timer", "2 secs"),
        ("Log Filename", place.file("two.etl").to_str().unwrap()),
    ] {
        assert_eq!(field(&text, name), value, "{text}");
    }
    place.ends(2, "tracelog -update s -max 8");
    program.writes(3);
    place.does("tracelog -stop s");
    assert_eq!((place.counts("one.etl"), place.counts("two.etl")), ([2, 2, 0], [3, 3, 0]));
    program.ends();
}
