//! Zero events explain themselves, and `etw doctor` finds broken set-ups.

use crate::controllers::{NAME, PROVIDER, Place, ROLE};
use crate::fixture::stderr;

/// `etw record` of a program that has no event for it.
#[test]
fn a_recording_without_events_says_why() {
    let place = Place::new("zero");
    let record = |provider: &str, more: &[&str]| {
        let program = std::env::current_exe().unwrap();
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        command.args(["record", "--force", "-o", "z.etl", "-p", provider]).args(more).arg("--");
        command.arg(program).args(["controllers::program", "--exact", "--test-threads=1"]);
        // It writes what its standard input says, which is nothing.
        let output = command.env(ROLE, "program-at-once").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output)
    };
    let text = record("*OpenEtw.Test.Controler", &[]);
    assert!(text.contains("registered OpenEtw.Test.Controllers; did you mean"), "{text}");
    assert!(text.contains("no events: no program registered"), "{text}");
    let text = record(NAME, &["--quiet"]);
    assert!(text.contains("registered OpenEtw.Test.Controllers, but wrote no event"), "{text}");
    let text = record("11111111-2222-3333-4444-555555555555", &[]);
    assert!(text.contains("registered were OpenEtw.Test."), "{text}");

    place.does(&format!("session start s --buffering -p {NAME}"));
    let output = place.etw(&["session", "stop", "s"]);
    assert!(stderr(&output).contains("nor any other provider"), "{}", stderr(&output));
}

#[test]
fn doctor_finds_what_is_wrong_and_says_how_to_fix_it() {
    let place = Place::new("doctor");
    let finds = |line: &str, expected: &[&str]| {
        let text = place.ends(1, line);
        for expected in expected {
            assert!(text.contains(expected), "{line}: {expected} is missing in\n{text}");
        }
    };
    // No host, then a directory that nobody trusts.
    finds("doctor", &["WRONG  host", "no host of sessions runs in", "fix: "]);
    let runtime = place.runtime();
    let set_mode = |mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o777);
    finds("doctor", &["WRONG  runtime directory", "others may write", "fix: chmod go-w"]);
    set_mode(0o700);

    place.does(&format!("session start s -o s.etl -p {NAME}:4 --pid 1"));
    finds(&format!("doctor {NAME}"), &["WRONG  registration", "no program has registered"]);
    let program = place.other_program();
    let pid = program.id();
    let text = place.ends(1, &format!("doctor {NAME}"));
    assert!(text.contains("ok     registration") && text.contains(&pid.to_string()), "{text}");
    assert!(text.contains("up to level 4 (Informational)"), "{text}");
    assert!(text.contains("WRONG  filters") && text.contains("processes [1] only"), "{text}");
    finds("doctor OpenEtw.Test.Controler", &["did you mean OpenEtw.Test.Controllers?"]);
    finds("doctor OpenEtw.Test.Second", &["WRONG  enablement", "no session has enabled"]);
    finds("doctor 11111111-2222-3333-4444-555555555555", &["no program has registered"]);
    place.does(&format!("session enable s -p {NAME}"));
    let text = place.does(&format!("doctor {}", PROVIDER.id()));
    assert!(text.contains("ok     host") && text.ends_with("nothing is wrong\n"), "{text}");
    // The program's second provider is enabled by nobody.
    finds(
        &format!("doctor {pid}"),
        &["ok     process", "no session has enabled OpenEtw.Test.Second"],
    );

    // A process with another runtime directory, and none.
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let text = place.ends(1, &format!("doctor {}", other.id()));
    assert!(text.contains("was started without ETW_RUNTIME_DIR"), "{text}");
    assert!(text.contains("has registered no provider"), "{text}");
    other.kill().unwrap();
    other.wait().unwrap();
    finds("doctor 4194303", &["there is no process 4194303"]);
    drop(program);
    finds(&format!("doctor {NAME}"), &["had registered", "has ended"]);

    // A provider whose GUID is not the hash of its name, enabled by that hash; a level that lets nothing through.
    let third = place.program_with_third_at_once();
    place.does("session enable s -p *OpenEtw.Test.Third");
    finds(
        "doctor *OpenEtw.Test.Third",
        &["WRONG  registration", "is not the GUID of that name", "fix: enable it as -p 0f1e2d3c-"],
    );
    place.does("session enable s -p OpenEtw.Test.Third:critical");
    finds(
        "doctor OpenEtw.Test.Third",
        &["WRONG  level, keywords", "may let none pass", "PROVIDER:255 enables all"],
    );
    drop(third);
    // Filters that reject everything, and a file that is full, with what it lost.
    place.does("session stop s");
    let mut program = place.other_program();
    place.does(&format!("session start f -o f.etl -p {NAME} --event-name Nothing"));
    let small = "--max-size 16K --buffer-size 4K --buffers 2";
    place.does(&format!("session start full -o full.etl -p OpenEtw.Test.Second {small}"));
    program.writes(3000);
    finds(&format!("doctor {NAME}"), &["WRONG  filters", "rejected all of its 6000 events"]);
    let text = place.ends(1, "doctor OpenEtw.Test.Second --json");
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = rows.as_array().unwrap();
    let is_wrong = |link: &str, what: &str| {
        rows.iter().any(|row| {
            row["link"] == link
                && row["verdict"] == "wrong"
                && row["what"].as_str().unwrap().contains(what)
                && !row["fix"].as_str().unwrap().is_empty()
        })
    };
    assert!(is_wrong("session", "full: its file has its maximum size"), "{text}");
    assert!(is_wrong("losses", "events lost: session full"), "{text}");
    drop(program);
    for name in ["f", "full"] {
        let _ = place.etw(&["session", "stop", name]);
    }
    place.does("session start t --buffering");
    finds("doctor", &["session t has no provider enabled", "fix: etw session enable t -p"]);
    // Whatever the machine allows, each link is named.
    let text = String::from_utf8(place.etw(&["doctor", "--system"]).stdout).unwrap();
    for link in ["clock", "kernel", "shared memory", "system profile", "system cswitch"] {
        assert!(text.contains(link), "{text}");
    }
}
