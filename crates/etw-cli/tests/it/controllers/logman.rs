//! `logman`.

use super::*;

/// OV-24
#[test]
fn logman_controls_a_session() {
    let place = Place::new("logman");
    let done = "The command completed successfully.\n";
    assert!(place.does("logman query -ets").ends_with(done));
    let line = format!(
        "logman create trace My -p {NAME} 0x1 win:Informational -bs 16 -nb 4 8 -ct system -ft 1:00 -o out -ets"
    );
    assert_eq!(place.does(&line), done);
    let mut program = place.program();
    program.writes(10);

    let text = place.does("logman query -ets");
    let row: Vec<&str> = text.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!(row, ["My", "Trace", "Running"]);
    assert_eq!(place.does("logman -ets"), text);
    let guid = format!("{{{}}}", PROVIDER.id().to_string().to_uppercase());
    let text = place.does("logman query MY -ets");
    for (name, value) in [
        ("Name", "My"),
        ("Status", "Running"),
        ("Type", "Trace"),
        ("Output Location", place.file("out.etl").to_str().unwrap()),
        ("Circular", "Off"),
        ("Buffer Size", "16"),
        ("Buffer Flush Timer", "60"),
        ("Clock Type", "System"),
        ("File Mode", "File"),
        ("Provider Guid", &guid),
        ("Level", "4 (win:Informational)"),
        ("KeywordsAny", "0x1"),
    ] {
        assert_eq!(field(&text, name), value, "{text}");
    }
    // By the name that the program has registered.
    assert!(text.contains("Provider:\nName:                 OpenEtw.Test.Controllers\n"), "{text}");

    let text = place.does("logman query providers");
    assert!(text.contains(&format!("OpenEtw.Test.Controllers                 {guid}\n")), "{text}");
    assert!(text.contains("OpenEtw.Test.Second "));
    let pid = program.child.id();
    assert_eq!(place.does(&format!("logman query providers -pid {pid}")), text);
    let one = place.does("logman query providers OpenEtw.Test.Controllers");
    assert!(field(&one, &format!("{pid:#010x}")).contains("/it-"), "{one}");
    place.ends(2, "logman query providers Nobody.Knows");

    assert_eq!(place.does("logman update My -p OpenEtw.Test.Controllers 0x3 5 -fd -ets"), done);
    program.writes(10);
    place.does(&format!(
        "logman update trace My --p {NAME} 0x3 -p {SECOND_NAME} 2 -o next.etl -nb 4 16 -rt -ets"
    ));
    assert_eq!(field(&place.does("logman query My -ets"), "File Mode"), "File, Real-time");
    program.writes(10);
    assert_eq!(place.does("logman stop My -ets"), done);
    assert_eq!(place.counts("out.etl"), [20, 10, 0]);
    assert_eq!(place.counts("next.etl"), [0, 10, 0]);
    assert_eq!(place.stat("out.etl")["clock"], "system");
    place.ends(3, "logman stop My -ets");
    place.ends(3, "logman query My -ets");
    place.ends(3, "logman update My -ets");
    program.ends();
}

/// OV-24: how files are written, with the words in which Microsoft's support asks for traces.
#[test]
fn logman_starts_sessions_of_every_kind() {
    let place = Place::new("logman-kinds");
    std::fs::write(
        place.file("list"),
        format!("{{{}}} 0x1 0x4 Name\n{SECOND_NAME}\n", PROVIDER.id()),
    )
    .unwrap();
    let line = format!(
        "logman create trace s -ow -o {} -pf list -nb 16 16 -bs 1024 -mode Circular -f bincirc -max 8 -ets",
        place.file("c.etl").display()
    );
    place.does(&line);
    let text = place.does("logman query s -ets");
    assert_eq!((field(&text, "Circular"), field(&text, "Segment Max Size")), ("On", "8 MB"));
    let mut program = place.program();
    program.writes(5);
    place.does("logman stop s -ets");
    assert_eq!(place.counts("c.etl"), [10, 5, 0]);

    // Its own name, when none is given; then more of the same.
    place.does(&format!("logman start s -ct system -p {NAME} -ets"));
    program.writes(5);
    place.does("logman stop s -ets");
    place.does(&format!("logman start s -a -p {NAME} -o s.etl -ets"));
    program.writes(5);
    place.does("logman stop s -ets");
    assert_eq!(place.counts("s.etl"), [10, 10, 0]);
    place.ends(3, "logman start s -o s.etl --ow -ets");
    place.does(&format!("logman start s -mode NewFile -max 1 -bs 4 -p {NAME} -o n%d.etl -rt -ets"));
    place.does("logman stop s -ets");
    assert!(place.file("n1.etl").exists());
    place.does("logman start s -rt -mode pagedmemory -ets");
    assert_eq!(field(&place.does("logman s -ets"), "File Mode"), "Real-time");
    place.does("logman stop s -ets");
    program.ends();
}

/// OV-24: a second stop prints Windows' text.
#[test]
fn a_second_stop_prints_what_windows_prints() {
    let place = Place::new("second-stop");
    const NOT_RECOGNIZED: &str =
        "The instance name passed was not recognized as valid by a WMI data provider.";
    for line in ["logman stop s -ets", "logman query s -ets"] {
        assert!(place.ends(3, line).contains("Data Collector Set was not found."), "{line}");
    }
    place.does(&format!("logman start s -p {NAME} -rt -ets"));
    place.does("logman stop s -ets");
    assert!(place.ends(3, "logman stop s -ets").contains("\nData Collector Set was not found.\n"));
    let text = place.ends(3, "tracelog -stop s");
    assert!(text.contains("4201L") && text.contains(NOT_RECOGNIZED), "{text}");
    let output = place.etw(&["xperf", "-stop", "s"]);
    assert!(stderr(&output).contains(NOT_RECOGNIZED) && stderr(&output).contains("0x1069"));
}

/// OV-24: levels and keywords of a manifest's provider.
#[test]
fn logman_shows_levels_and_keywords_of_a_provider() {
    let place = Place::new("logman-keywords");
    std::fs::create_dir(place.file("packs")).unwrap();
    std::fs::write(
        place.file("shop.man"),
        r#"<instrumentationManifest><instrumentation><events>
        <provider name="Shop-Orders" guid="{11111111-2222-3333-4444-555555555555}" symbol="S" resourceFileName="x" messageFileName="x">
        <keywords><keyword name="Sales" mask="0x1"/><keyword name="Net" mask="0x20"/></keywords>
        <events><event value="1" level="win:Warning" keywords="Sales"/></events>
        </provider></events></instrumentation></instrumentationManifest>"#,
    )
    .unwrap();
    place.does("pack create -o packs/shop.etwpack shop.man");
    let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    command.env("ETW_PACKS", place.file("packs"));
    let output = command.args(["logman", "query", "providers", "Shop-Orders"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "Shop-Orders                              {11111111-2222-3333-4444-555555555555}",
        "0x0000000000000001  Sales",
        "0x0000000000000020  Net",
        "0x03                win:Warning          Warning",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
