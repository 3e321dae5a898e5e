//! Providers and keywords by name: before a program registers them, and after a worker was replaced.

use crate::controllers::Place;
use crate::fixture::stderr;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

const MANIFEST: &str = r#"<?xml version="1.0"?>
<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"><instrumentation><events>
<provider name="OpenEtw.Test.Shop" guid="{11111111-2222-3333-4444-555555555555}" symbol="SHOP"
  resourceFileName="x" messageFileName="x">
<keywords><keyword name="Sales" mask="0x10"/><keyword name="Net" mask="0x20"/><keyword name="Add" mask="0x40"/></keywords>
<templates><template tid="T"><data name="Number" inType="win:UInt32"/><data name="Name" inType="win:UnicodeString"/></template></templates>
<events><event value="1" symbol="A" keywords="Sales"/><event value="2" symbol="B" keywords="Sales" template="T"/></events>
</provider></events></instrumentation></instrumentationManifest>"#;

fn query(place: &Place) -> Value {
    serde_json::from_str(&place.does("session query s --format json")).unwrap()
}

#[test]
fn a_provider_is_enabled_by_name_before_a_program_registers_it() {
    let place = Place::new("names");
    let output = place.etw(&["session", "start", "s", "-o", "s.etl", "-p", "openetw.test.THIRD"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("no program has registered openetw.test.THIRD yet"));
    let mut first = place.program_with_third();
    first.writes(3);
    let query_text = place.does("session query s");
    assert!(query_text.contains("openetw.test.THIRD: "), "{query_text}");
    assert!(query_text.contains("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"), "{query_text}");

    // The host keeps the name for programs that come after its worker was replaced.
    drop(first);
    place.does("session disable s -p OpenEtw.Test.Third");
    assert_eq!(query(&place)["enabled"].as_object().unwrap().len(), 0);
    place.does("session enable s OpenEtw.Test.Third OpenEtw.Test.Second");
    place.kill_worker();
    let mut second = place.program_with_third();
    second.writes(4);
    drop(second);
    assert_eq!(query(&place)["names"].as_object().unwrap().len(), 2);
    place.does("session stop s");
    // The third provider wrote 3 and 4 events, the second one 4.
    assert_eq!(place.counts("s.etl"), [11, 11, 0]);
}

/// No program registers a provider of the system, so nobody but the reader of a note sees that its name is misspelt.
#[test]
fn a_misspelt_provider_of_the_system_is_noted_with_the_name_that_is_meant() {
    let place = Place::new("names-system");
    place.does("session start s -o s.etl -p *OpenEtw.Test.None");
    for (misspelt, meant) in [
        ("SystemSchedularProviderGuid", "SystemSchedulerProviderGuid"),
        ("systemmemryproviderguid", "SystemMemoryProviderGuid"),
        ("Windows Kernel Trac", "Windows Kernel Trace"),
    ] {
        let output = place.etw(&["session", "enable", "s", "-p", misspelt]);
        let note = format!("{meant} is a provider of the system: did you mean that?");
        assert!(stderr(&output).contains(&note), "{}", stderr(&output));
        let doctor = place.ends(1, &format!("doctor {}", misspelt.replace(' ', "_")));
        assert!(doctor.contains(&format!("did you mean {meant}?")), "{doctor}");
    }
    let output = place.etw(&["session", "enable", "s", "-p", "SomethingElse"]);
    assert!(stderr(&output).contains("events are recorded once one does"), "{}", stderr(&output));
    place.does("session stop s");
}

/// The program registers a GUID; the name is in a manifest that is installed behind the session's request.
#[test]
fn a_manifest_that_is_installed_later_gives_a_request_its_provider() {
    let ids = |place: &Place| {
        let names = query(place)["names"]["OpenEtw.Test.Shop"].as_array().unwrap().clone();
        names.iter().map(|id| id.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    const SHOP: &str = "11111111-2222-3333-4444-555555555555";
    let place = Place::new("names-manifest");
    std::fs::write(place.file("shop.man"), MANIFEST).unwrap();
    place.does("session start s -o s.etl -p OpenEtw.Test.Shop");
    // Registered before the manifest, which the host hears of when it is installed.
    let mut first = place.program_without_names_at_once();
    assert!(!ids(&place).contains(&SHOP.to_owned()), "{:?}", ids(&place));
    place.does("manifest install shop.man");
    assert!(ids(&place).contains(&SHOP.to_owned()), "{:?}", ids(&place));
    first.writes(0);
    // Registered behind it, and after the worker was replaced.
    place.kill_worker();
    let mut second = place.program_without_names_at_once();
    second.writes(0);
    drop((first, second));
    place.does("session stop s");
    let stat: Value = serde_json::from_str(&place.does("stat --json s.etl")).unwrap();
    let of_shop = |row: &&Value| row["provider"] == SHOP;
    let rows = stat["by_event"].as_array().unwrap();
    assert_eq!(rows.iter().find(of_shop).unwrap()["count"], 2, "{stat}");
}

#[test]
fn a_command_is_recorded_by_a_plain_name() {
    use crate::controllers::ROLE;
    let place = Place::new("names-record");
    let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    command.args(["record", "-o", "r.etl", "-p", "OpenEtw.Test.Third", "--"]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["controllers::program", "--exact", "--test-threads=1"]);
    let mut child = command
        .env(ROLE, "program-with-third")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"5\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(place.counts("r.etl"), [5, 5, 0]);
}

#[test]
fn the_summary_of_a_recorded_command_is_json_on_the_last_line_of_standard_error() {
    let place = Place::new("record-json");
    let record =
        ["record", "--json", "-o", "r.etl", "-p", "*X", "--", "sh", "-c", "echo out; exit 3"];
    let output = place.etw(&record);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(3), &b"out\n"[..]));
    let text = stderr(&output);
    let summary: Value = serde_json::from_str(text.lines().last().unwrap()).expect(&text);
    let size = std::fs::metadata(place.file("r.etl")).unwrap().len();
    assert_eq!((&summary["bytes"], &summary["exit_status"]), (&size.into(), &3.into()), "{text}");
    assert_eq!((&summary["events"], &summary["lost"]), (&0.into(), &0.into()), "{text}");
    assert!(summary["file"].as_str().unwrap().ends_with("r.etl"), "{text}");
}

/// Files of 1000 blocks are smaller than a pool.
#[test]
fn a_program_names_a_limit_of_file_sizes_that_its_pool_exceeds() {
    use crate::controllers::ROLE;
    let place = Place::new("diagnose-limit");
    place.does("session start s --buffering -p *OpenEtw.Test.Controllers");
    let mut command = place.command("sh".as_ref());
    command.args(["-c", "ulimit -f 1000; exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["controllers::program", "--exact", "--test-threads=1", "--nocapture"]);
    command.env(ROLE, "program-at-once").env("ETW_DIAGNOSE", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let lines = BufReader::new(program.stderr.take().unwrap()).lines();
    let (sender, reports) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut seen = Vec::new();
    while !seen.last().is_some_and(|line: &String| line.contains("ulimit -f unlimited")) {
        let line = reports.recv_timeout(Duration::from_secs(60));
        seen.push(line.unwrap_or_else(|_| panic!("{seen:#?}")));
    }
    drop(program.stdin.take());
    program.wait().unwrap();
}

#[test]
fn completions_know_providers_and_sessions() {
    let place = Place::new("complete");
    place.does("session start web --buffering -p OpenEtw.Test.Third");
    let _program = place.program_with_third();
    assert_eq!(place.does("complete 3 -- etw session stop w"), "web\n");
    let text = place.does("complete 5 -- etw record -o x -p OpenEtw");
    assert!(
        text.contains("OpenEtw.Test.Third\n") && text.contains("OpenEtw.Test.Second\n"),
        "{text}"
    );
    // Words that the script completes by itself.
    assert_eq!(place.ends(1, "complete 2 -- etw dump "), "");

    // As a shell calls it.
    let script = place.file("etw.bash");
    std::fs::write(&script, place.does("completions bash")).unwrap();
    let line = format!(
        "source {}; etw={}; COMP_WORDS=($etw session stop w); COMP_CWORD=3; _etw_candidates; \
         echo ${{COMPREPLY[@]}}; COMP_WORDS=($etw sess); COMP_CWORD=1; _etw_candidates $etw sess $etw; \
         echo ${{COMPREPLY[@]}}",
        script.display(),
        env!("CARGO_BIN_EXE_etw"),
    );
    let output = place.command("bash".as_ref()).args(["-c", &line]).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), ["web", "session"], "{}", stderr(&output));
}

/// The lines whose words the shells complete: what is typed, and what has to be among the candidates.
const COMPLETED: [(&str, &str); 5] = [
    ("etw sess", "session"),
    ("etw record --mode cir", "circular"),
    ("etw session stop w", "web"),
    ("etw record -p OpenEtw.Test.Th", "OpenEtw.Test.Third"),
    ("etw session start x --provider OpenEtw.Test.Th", "OpenEtw.Test.Third"),
];

/// Whether a shell can be started; otherwise says that its test is skipped.
fn has_shell(place: &Place, shell: &str) -> bool {
    let is_there = place.command(shell.as_ref()).args(["-c", "exit"]).output().is_ok();
    if !is_there {
        eprintln!("skipped: {shell} is not installed");
    }
    is_there
}

/// `PATH` with this build's `etw` first.
fn path_with_etw() -> std::ffi::OsString {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_etw")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path))).unwrap()
}

#[test]
fn fish_completes_options_and_names() {
    let place = Place::new("fish");
    if !has_shell(&place, "fish") {
        return;
    }
    place.does("session start web --buffering -p OpenEtw.Test.Third");
    let _program = place.program_with_third();
    std::fs::write(place.file("etw.fish"), place.does("completions fish")).unwrap();
    for (line, expected) in COMPLETED {
        let code = format!("source {}; complete -C '{line}'", place.file("etw.fish").display());
        let mut command = place.command("fish".as_ref());
        command.args(["--no-config", "-c", &code]).env("PATH", path_with_etw());
        let output = command.env("HOME", &place.folder).output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let is_found = text.lines().any(|line| line.split('\t').next() == Some(expected));
        assert!(is_found, "{line}: {text} {}", stderr(&output));
    }
}

/// Types a line and a tab into an interactive zsh, and prints what it shows until that has the expected text or the shell ends.
const TYPE_INTO_ZSH: &str = r#"
zmodload zsh/zpty || exit 9
zpty shell 'zsh -f -i'
zpty -w shell "PROMPT=; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; bindkey '^I' complete-word; print READ''Y"
zpty -r -m shell shown '*READY*' || exit 8
zpty -w -n shell "$2"$'\t'
zpty -r -m shell shown "*$3*" || exit 7
print -r -- $shown
zpty -d shell
"#;

#[test]
fn zsh_completes_options_and_names() {
    let place = Place::new("zsh");
    if !has_shell(&place, "zsh") {
        return;
    }
    place.does("session start web --buffering -p OpenEtw.Test.Third");
    let _program = place.program_with_third();
    std::fs::write(place.file("_etw"), place.does("completions zsh")).unwrap();
    std::fs::write(place.file("type.zsh"), TYPE_INTO_ZSH).unwrap();
    for (line, expected) in COMPLETED {
        let mut command = place.command("timeout".as_ref());
        command.args(["120", "zsh", "-f"]).arg(place.file("type.zsh"));
        command.arg(&place.folder).args([line, expected]).env("PATH", path_with_etw());
        let output = command.env("TERM", "dumb").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.code() == Some(9) {
            eprintln!("skipped: zsh has no module zpty");
            return;
        }
        assert!(output.status.success(), "{line}: {:?} {text} {}", output.status, stderr(&output));
    }
}

#[test]
fn keywords_have_names_where_the_schema_is_known() {
    let place = Place::new("keywords");
    std::fs::write(place.file("shop.man"), MANIFEST).unwrap();
    let start = "session start s --buffering --manifest shop.man -p";
    place.does(&format!("{start} OpenEtw.Test.Shop:verbose:Sales,net:add"));
    let info = &query(&place)["enabled"]["11111111-2222-3333-4444-555555555555"]["wanted"];
    assert_eq!((info["any"].as_u64(), info["all"].as_u64()), (Some(0x30), Some(0x40)), "{info}");
    place.does("session stop s");

    let words: Vec<&str> = start.split(' ').collect();
    let refused = |provider: &str| {
        let output = place.etw(&[&words[..], &[provider]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    let text = refused("OpenEtw.Test.Shop:4:Sals");
    assert!(text.contains("did you mean Sales?"), "{text}");
    let text = refused("*Unknown:4:Sales");
    assert!(text.contains("no schema of this provider is known"), "{text}");
}

/// OV-17: the host evaluates conditions on the fields of an event that only a manifest describes.
#[test]
fn a_payload_filter_reads_the_fields_of_a_manifest() {
    const SHOP: &str = "11111111-2222-3333-4444-555555555555";
    let place = Place::new("names-payload");
    std::fs::write(place.file("shop.man"), MANIFEST).unwrap();
    let refused = |option: &str, words: &[&str]| {
        let start = ["session", "start", "x", "-o", "x.etl", "-p", SHOP, "--payload", option];
        let output = place.etw(&[&start[..], words].concat());
        assert_eq!(output.status.code(), Some(2), "{option}: {}", stderr(&output));
        stderr(&output)
    };
    let known = ["--manifest", "shop.man"];
    assert!(refused("2:Number>=3", &[]).contains("no manifest of provider"));
    assert!(refused("9:Number>=3", &known).contains("has no event 9"));
    let misspelt = refused("2:Numbr>=3", &known);
    assert!(misspelt.contains("did you mean Number?"), "{misspelt}");
    assert!(misspelt.contains("are Name, Number"), "{misspelt}");

    let mut program = place.program_without_names_at_once();
    place.does(&format!(
        "session start s -o s.etl -p {SHOP} --manifest shop.man --payload 2:Number>=3,Name!~n4"
    ));
    program.writes(6);
    drop(program);
    place.does("session stop s");
    let dump = place.does("dump --json --manifest shop.man s.etl");
    let events = dump.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_shop = events.filter(|event| {
        event["provider_guid"] == SHOP
            || event["provider"] == SHOP
            || event["provider"] == "OpenEtw.Test.Shop"
    });
    let fields: Vec<Value> = of_shop.map(|event| event["fields"].clone()).collect();
    let number =
        |number: u32| serde_json::json!({ "Number": number, "Name": format!("n{number}") });
    assert_eq!(fields, [serde_json::json!({}), number(3), number(5)], "{dump}");
}
