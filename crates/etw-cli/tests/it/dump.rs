//! `etw dump`: records, selections, threads.

use crate::fixture::{
    PROVIDER, TempFile, etw, every_header, greetings, json_lines, push_event, push_tracelogging,
    stderr, stdout,
};
use etw_etl::write::FileBuilder;
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType};
use etw_types::{EVENT_METADATA, EventRecord, Guid, HeaderType, Opcode};
use serde_json::{Value, json};
use std::process::Command;
#[cfg(unix)]
use std::process::Stdio;

const KEYS: [&str; 19] = [
    "header",
    "timestamp",
    "raw_timestamp",
    "cpu",
    "pid",
    "tid",
    "provider",
    "provider_name",
    "event",
    "id",
    "version",
    "level",
    "opcode",
    "channel",
    "task",
    "keyword",
    "activity_id",
    "decoded",
    "fields",
];

#[test]
fn every_header_type_has_all_keys_and_its_own_values() {
    let file = TempFile::new(&every_header());
    let lines = json_lines(&stdout(&["dump", "--format", "json"], &[file.path()], 0));
    assert_eq!(lines.len(), 16);
    for line in &lines {
        for key in KEYS {
            assert!(line.get(key).is_some(), "{key} in {line}");
        }
        // A payload that ends early keeps the fields before its end, and the reason.
        let is_cut = line["fields"].as_object().is_some_and(|fields| !fields.is_empty());
        assert!(line["decoded"].is_null() == line.get("reason").is_some() || is_cut, "{line}");
        assert_eq!(line["decoded"].is_null(), line.get("payload").is_some());
    }
    let one = |header: &str| lines.iter().find(|line| line["header"] == header).unwrap();
    let event = one("EVENT64");
    assert_eq!(event["keyword"], "0x8000000000000001");
    assert_eq!(event["id"], 7);
    assert_eq!(event["task"], 8);
    assert_eq!(event["channel"], 16);
    assert_eq!(event["activity_id"], "00000000-0000-0000-0000-000000000099");
    assert_eq!(event["related_activity_id"], "00000000-0000-0000-0000-000000000077");
    assert_eq!(event["stack"], serde_json::json!(["0x00007ff600001000", "0x00007ff600002000"]));
    assert_eq!(event["sid"], "S-1-5-18");
    assert_eq!(event["timestamp"], "2026-01-02T03:04:05.0000120Z");
    let perf = one("PERFINFO32");
    assert_eq!(
        (&perf["pid"], &perf["tid"], &perf["level"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(perf["opcode"], 0x24);
    assert_eq!(perf["provider"], "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c");
    assert_eq!(perf["pmc_counters"].as_array().unwrap().len(), 2);
    let message = one("MESSAGE");
    assert_eq!(message["id"], 11);
    assert_eq!((&message["version"], &message["opcode"]), (&Value::Null, &Value::Null));
    assert_eq!(message["sequence"], 12);
    let full = one("FULL32");
    assert_eq!(
        (&full["level"], &full["opcode"], &full["id"]),
        (&3.into(), &36.into(), &Value::Null)
    );
    assert_eq!(full["payload"], "0102030405060708090a0b0c0d0e0f101112131415");
    let instance = one("INSTANCE64");
    assert_eq!(instance["instance_id"], 0x4342_4140);
}

/// P6
#[test]
fn any_number_of_threads_writes_the_same_bytes() {
    let file = TempFile::new(&greetings(5_000));
    let other = TempFile::new(&every_header());
    for format in ["json", "text", "csv", "xml"] {
        let run = |threads| {
            let arguments = ["dump", "--raw", "--format", format, "--threads", threads];
            stdout(&arguments, &[file.path(), other.path()], 0)
        };
        let one = run("1");
        assert!(one.len() > 500_000);
        for threads in ["2", "3", "8"] {
            assert!(one == run(threads), "{format} with {threads} threads differs");
        }
    }
}

#[test]
fn dump_shows_only_selected_records() {
    let file = TempFile::new(&greetings(100));
    let count = |arguments: &[&str]| {
        let all = [&["dump", "--format", "json"], arguments].concat();
        json_lines(&stdout(&all, &[file.path()], 0)).len()
    };
    assert_eq!(count(&[]), 101);
    assert_eq!(count(&["--limit", "7"]), 7);
    assert_eq!(count(&["--limit", "0"]), 0);
    // A microsecond apart, the header record at the start: 10 µs to 19 µs are ten events.
    assert_eq!(count(&["--from", "+10us", "--to", "+19us"]), 10);
    assert_eq!(count(&["--from", "2026-01-02T03:04:05.00009Z"]), 10);
    assert_eq!(count(&["--to", "2026-01-02T04:04:05.000009+01:00"]), 11);
    assert_eq!(count(&["--from", "+1h"]), 0);
}

/// Records that are wanted, by header and by field, as many as are wanted and the same for any number of threads.
#[test]
fn expressions_select_the_same_records_for_any_number_of_threads() {
    let file = TempFile::new(&greetings(2000));
    let shown = |arguments: &[&str]| {
        stdout(&[&["dump", "--format", "json"], arguments].concat(), &[file.path()], 0)
    };
    let count = |expression: &str| shown(&["--where", expression]).lines().count();
    assert_eq!(count("cpu == 1"), 667);
    assert_eq!(count("pid == 10"), 2000);
    assert_eq!(count("event == \"Greeting\" and text like '*9'"), 200);
    assert_eq!(count("text ~ 'hello (7|8)$' or header == SYSTEM64"), 3);
    assert_eq!(count("time >= +10us and time <= +19us"), 10);
    assert_eq!(count("text == 'hello 7' and number == 18446744073709551615"), 1);
    let five = ["--where", "text like '*77*'", "--limit", "5"];
    let alone = shown(&[&five[..], &["--threads", "1"]].concat());
    assert_eq!(alone.lines().count(), 5);
    assert_eq!(alone, shown(&[&five[..], &["--threads", "4"]].concat()));
    let wrong = etw(&["dump", "--where", "pid == \"four\""], &[file.path()]);
    assert_eq!(wrong.status.code(), Some(2));
    let told = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(told.contains("this is a number") && told.ends_with("         ^\n"), "{told}");
    assert!(stdout(&["help", "where"], &[], 0).contains("Operators"));
}

/// OV-20: schemas that the user names, of each kind, and what is wrong with them.
#[test]
fn schemas_named_by_the_user_decode_events() {
    let file = TempFile::new(&every_header());
    let undecoded = |arguments: &[&str]| {
        let lines = json_lines(&stdout(
            &[&["dump", "--format", "json"], arguments].concat(),
            &[file.path()],
            0,
        ));
        lines.iter().filter(|line| line["decoded"].is_null()).count()
    };
    let event = json_lines(&stdout(
        &["dump", "--format", "json", "--where", "header == EVENT64"],
        &[file.path()],
        0,
    ));
    let message = json_lines(&stdout(
        &["dump", "--format", "json", "--where", "header == MESSAGE"],
        &[file.path()],
        0,
    ));
    let (event, message) = (&event[0], &message[0]);
    let manifest = TempFile::new(format!(
        "<m><provider name='Maker' guid='{{{}}}'><events><event value='{}' version='{}' symbol='Made'/></events></provider></m>",
        event["provider"].as_str().unwrap(), event["id"], event["version"]
    ).as_bytes());
    let tmf = TempFile::new(
        format!(
            "{} Driver // SRC=a.c\n#typev a_c1 {} \"%0said\" // LEVEL=L FLAGS=F FUNC=f\n{{\n}}\n",
            message["provider"].as_str().unwrap(),
            message["id"]
        )
        .as_bytes(),
    );
    let (manifest, tmf) = (manifest.path().to_str().unwrap(), tmf.path().to_str().unwrap());
    let before = undecoded(&[]);
    let with = ["--manifest", manifest, "--tmf", tmf];
    assert!(undecoded(&with) <= before - 2, "{before}");
    let line = |kind: &str| {
        let expression = format!("decoded == {kind}");
        json_lines(&stdout(
            &[&["dump", "--format", "json", "--where", &expression], &with[..]].concat(),
            &[file.path()],
            0,
        ))
    };
    assert_eq!(
        (&line("manifest")[0]["event"], &line("manifest")[0]["provider_name"]),
        (&json!("Made"), &json!("Maker"))
    );
    assert_eq!(line("wpp")[0]["message"], "said");
    assert_eq!(line("wpp")[0]["fields"]["LevelName"], "L");
    for wrong in [["--manifest", tmf], ["--tmf", "/no/such/file"]] {
        let output = etw(&[&["dump"], &wrong[..]].concat(), &[file.path()]);
        assert_eq!(output.status.code(), Some(3), "{wrong:?}");
    }
}

/// Schemas gathered into a pack, learnt from a trace, and found without being named.
#[test]
fn packs_are_found_without_being_named() {
    let folder = std::env::temp_dir().join(format!("etw-packs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = folder.join("maker.man");
    let file = TempFile::new(&every_header());
    let dump = |arguments: &[&str], packs: Option<&std::path::Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
        command.args(["dump", "--format", "json", "--where", "header == EVENT64"]);
        command
            .args(arguments)
            .arg(file.path())
            .env("XDG_DATA_HOME", &folder)
            .env_remove("ETW_PACKS");
        command.envs(packs.map(|packs| ("ETW_PACKS", packs)));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        json_lines(&String::from_utf8(output.stdout).unwrap()).remove(0)
    };
    let event = dump(&[], None);
    assert_eq!(event["decoded"], Value::Null);
    let text = format!(
        "<m><provider name='Maker' guid='{{{}}}'><events><event value='{}' version='{}' symbol='Made'/></events></provider></m>",
        event["provider"].as_str().unwrap(),
        event["id"],
        event["version"]
    );
    std::fs::write(&manifest, text).unwrap();
    let pack = folder.join("maker.etwpack");
    let told = stdout(&["pack", "create", "-o", pack.to_str().unwrap()], &[&folder], 0);
    assert!(told.ends_with(": 1 source\n"), "{told}");
    let shown = stdout(&["pack", "show"], &[&pack], 0);
    assert!(shown.starts_with("manifest") && shown.ends_with("1 GUIDs  maker.man\n"), "{shown}");
    for decoded in [
        dump(&["--pack", pack.to_str().unwrap()], None),
        dump(&[], Some(&pack)),
        dump(&[], Some(&folder)),
    ] {
        assert_eq!((&decoded["decoded"], &decoded["event"]), (&json!("manifest"), &json!("Made")));
    }
    // Learnt into the user's store: the described trace of the other test of descriptions.
    let described = TempFile::new(&described_trace());
    let learn = Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(["pack", "learn"])
        .arg(described.path())
        .env("XDG_DATA_HOME", &folder)
        .output()
        .unwrap();
    assert!(learn.status.success(), "{}", String::from_utf8_lossy(&learn.stderr));
    assert_eq!(std::fs::read_dir(folder.join("etw/packs")).unwrap().count(), 1);
    std::fs::write(folder.join("bad.etwpack"), b"ETWPACK1").unwrap();
    assert_eq!(etw(&["pack", "show"], &[&folder.join("bad.etwpack")]).status.code(), Some(3));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A compiled manifest that the decoder's tests make: a resource and its message table, and a library with both.
#[test]
fn compiled_manifests_are_packed_with_their_messages_and_listed_as_json() {
    let seed = include_bytes!("../../../../fuzz/corpus/wevt/whole");
    let library = include_bytes!("../../../../fuzz/corpus/pe/library");
    let part = |at: usize| {
        let size = usize::from(u16::from_le_bytes([seed[at], seed[at + 1]]));
        &seed[at + 2..at + 2 + size]
    };
    let (resource, table) = (part(0), part(2 + part(0).len()));
    let folder = std::env::temp_dir().join(format!("etw-compiled-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("de-DE")).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("maker.wevt.v5.bin", resource);
    write("maker.msg.bin", table);
    write("alone.dll", library);
    let pack = folder.join("out.pack");
    let mut shown = Vec::new();
    for source in ["maker.wevt.v5.bin", "alone.dll"] {
        let arguments = ["pack", "create", "--force", "-o", pack.to_str().unwrap()];
        stdout(&arguments, &[&folder.join(source)], 0);
        let mut lines = json_lines(&stdout(&["pack", "show", "--format", "json"], &[&pack], 0));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["source"], source);
        lines[0]["source"] = Value::Null;
        shown.push(lines.remove(0));
    }
    assert_eq!(shown[0], shown[1]);
    let provider = &shown[0];
    assert_eq!(provider["provider"], "Maker");
    assert_eq!(provider["channels"], json!([{"value": 16, "name": "Maker/Operational"}]));
    assert_eq!(provider["keywords"], json!([{"mask": "0x0000000000000010", "name": "Disk"}]));
    assert_eq!(
        provider["maps"][1],
        json!({"name": "V", "kind": "valueMap", "values": [{"value": 3, "text": "three"}]})
    );
    let event = &provider["events"][0];
    for (key, value) in [
        ("id", json!(7)),
        ("version", json!(2)),
        ("level", json!(4)),
        ("opcode", json!(11)),
        ("task", json!(1)),
        ("channel", json!(16)),
        ("keyword", json!("0x8000000000000010")),
        ("name", json!("Made")),
        ("message", json!("%1 said %2")),
    ] {
        assert_eq!(event[key], value, "{key}");
    }
    let field = |name: &str, in_type: &str, out_type: Value, length: Value, count: Value| json!({"name": name, "in_type": in_type, "out_type": out_type, "length": length, "count": count, "map": null});
    let fields = event["fields"].as_array().unwrap();
    assert_eq!(
        fields[1],
        field("text", "win:UnicodeString", json!("xs:string"), json!("n"), Value::Null)
    );
    assert_eq!(fields[3], field("raw", "win:Binary", json!("xs:hexBinary"), json!(2), json!(3)));
    assert_eq!((&fields[2]["in_type"], &fields[2]["count"]), (&Value::Null, &json!(2)));
    assert_eq!(fields[2]["fields"][0]["map"], "V");
    // Several sources, of which one is none: it is named and left out.
    write("bad.xml", b"<nothing/>");
    let output = etw(
        &["pack", "create", "--force", "-o", pack.to_str().unwrap()],
        &[&folder.join("bad.xml"), &folder.join("alone.dll")],
    );
    assert_eq!(output.status.code(), Some(0));
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("bad.xml") && notes.contains("1 of 2 files left out"), "{notes}");
    // A folder with what is below it, as public collections are: a WEPExplorer file, one that is cut, and the library.
    let wep = include_bytes!("../../../../fuzz/corpus/wep/whole");
    let wep = &wep[2..2 + usize::from(u16::from_le_bytes([wep[0], wep[1]]))];
    std::fs::create_dir_all(folder.join("Windows 10/Wep")).unwrap();
    write("Windows 10/Wep/Maker.xml", wep);
    write("Windows 10/Wep/Cut.xml", b"<Providers><Provider><Name>Cut");
    let output = etw(&["pack", "create", "--force", "-o", pack.to_str().unwrap()], &[&folder]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notes.contains("Cut.xml") && notes.contains("2 of 5 files left out"), "{notes}");
    let lines = json_lines(&stdout(&["pack", "show", "--format", "json"], &[&pack], 0));
    let from = |source: &str| lines.iter().find(|line| line["source"] == source).unwrap();
    assert_eq!(from("Maker.xml")["events"][0]["fields"][1]["length"], "n");
    assert_eq!(from("Maker.xml")["events"][0]["keyword_names"], json!(["A b", "c"]));
    assert_eq!(from("alone.dll")["provider"], "Maker");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A Windows whose registry lists six providers; the library of one of them is there.
#[test]
fn a_windows_folder_becomes_one_pack_of_its_build() {
    let folder = std::env::temp_dir().join(format!("etw-cli-windows-{}", std::process::id()));
    let system = folder.join("image/Windows/System32");
    std::fs::create_dir_all(system.join("CONFIG")).unwrap();
    let software = include_bytes!("../../../../fuzz/corpus/hive/software");
    std::fs::write(system.join("CONFIG/software"), software).unwrap();
    let library = include_bytes!("../../../../fuzz/corpus/pe/library");
    std::fs::write(system.join("MAKER.dll"), library).unwrap();
    let pack = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_etw"))
            .args(["pack", "create", "--windows"])
            .arg(folder.join("image"))
            .args(arguments)
            .env("XDG_DATA_HOME", &folder)
            .output()
            .unwrap()
    };
    let output = pack(&[]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{notes}");
    for note in [
        "Windows 10 Pro 10.0.19045.3803: 1 of 6 registered providers described; 1 programs read",
        r"left out: Gone: C:\Windows\System32\gone.dll: not there",
        "left out: No-File: the registry names no file with its manifest",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
    let stored = folder.join("etw/packs/windows-10.0.19045.3803.etwpack");
    let shown = stdout(&["pack", "show"], &[&stored], 0);
    assert!(
        shown.contains("MAKER.dll\n") && shown.contains("GUIDs  Windows 10 Pro 10.0.19045.3803"),
        "{shown}"
    );
    let lines = json_lines(&stdout(&["pack", "show", "--format", "json"], &[&stored], 0));
    let events = lines[0]["events"].as_array().unwrap();
    assert_eq!((&lines[0]["provider"], events.len()), (&json!("Maker"), 2));
    assert_eq!(lines[0]["kind"], "compiled manifest");
    // A language is part of the name; a folder without a Windows, and a name that is none, are errors.
    assert_eq!(pack(&["--language", "de-DE"]).status.code(), Some(0));
    assert!(folder.join("etw/packs/windows-10.0.19045.3803-de-DE.etwpack").is_file());
    assert_eq!(pack(&["--language", "../x"]).status.code(), Some(2));
    let none = etw(&["pack", "create", "--windows"], &[&folder.join("etw")]);
    assert_eq!(none.status.code(), Some(3));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// OV-26: installed for the user, a manifest decodes without being named; for all users it is in the machine's folder.
#[test]
fn an_installed_manifest_decodes_without_being_named() {
    let folder = std::env::temp_dir().join(format!("etw-manifests-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = TempFile::new(&every_header());
    let run = |arguments: &[&str], files: &[&std::path::Path]| {
        Command::new(env!("CARGO_BIN_EXE_etw"))
            .args(arguments)
            .args(files)
            .env("XDG_DATA_HOME", folder.join("user"))
            .env("ETW_MACHINE_PACKS", folder.join("machine"))
            .env_remove("ETW_PACKS")
            .output()
            .unwrap()
    };
    let text = |arguments: &[&str], files: &[&std::path::Path]| {
        let output = run(arguments, files);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let dump = || {
        let select = ["dump", "--format", "json", "--where", "header == EVENT64"];
        json_lines(&text(&select, &[file.path()])).remove(0)
    };
    let event = dump();
    let guid = event["provider"].as_str().unwrap();
    let manifest = folder.join("maker.man");
    let of = |name: &str| {
        let events = format!(
            "<event value='{}' version='{}' symbol='{name}'/>",
            event["id"], event["version"]
        );
        format!(
            "<m><provider name='Maker' guid='{{{guid}}}'><keywords><keyword name='Disk' mask='0x10'/></keywords>\
             <events>{events}</events></provider></m>"
        )
    };
    std::fs::write(&manifest, of("Made")).unwrap();
    let installed = text(&["manifest", "install"], &[&manifest]);
    assert_eq!(installed, format!("{guid}  {:<40}      1 event\n", "Maker"));
    assert_eq!((&dump()["decoded"], &dump()["event"]), (&json!("manifest"), &json!("Made")));
    let list = text(&["manifest", "list"], &[]);
    assert!(list.starts_with(guid) && list.ends_with("user     maker.man\n"), "{list}");
    let shown = text(&["manifest", "show", "maker"], &[]);
    assert!(
        shown.contains("keyword 0x0000000000000010 Disk") && shown.contains("Made()"),
        "{shown}"
    );
    if cfg!(target_os = "linux") {
        let listed = text(&["provider", "list"], &[]);
        let line = listed.lines().find(|line| line.starts_with(guid));
        assert!(line.is_some_and(|line| line.contains("Maker")), "{listed}");
        let listed = text(&["tracelog", "-enumguid"], &[]);
        let row = format!("{guid}     FALSE  0    0    0\n");
        assert!(listed.contains(&row), "{listed}");
        let row = format!("{:<41}{{{}}}\n", "Maker", guid.to_uppercase());
        for words in
            [&["logman", "query", "providers"][..], &["logman", "query", "providers", "Maker"]]
        {
            let listed = text(words, &[]);
            assert!(listed.contains(&row), "{listed}");
            assert_eq!(listed.contains("0x0000000000000010  Disk\n"), words.len() == 4, "{listed}");
        }
    }
    // The same provider again needs --force.
    std::fs::write(&manifest, of("Changed")).unwrap();
    let again = run(&["manifest", "install"], &[&manifest]);
    assert_eq!(again.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&again.stderr).contains("Maker is installed already"));
    text(&["manifest", "install", "--force"], &[&manifest]);
    assert_eq!(dump()["event"], "Changed");
    // For all users.
    text(&["manifest", "uninstall", "Maker"], &[]);
    assert_eq!(dump()["decoded"], Value::Null);
    text(&["manifest", "install", "--machine"], &[&manifest]);
    assert_eq!(dump()["event"], "Changed");
    let line = json_lines(&text(&["manifest", "list", "--json"], &[])).remove(0);
    assert_eq!((&line["scope"], &line["events"]), (&json!("machine"), &json!(1)));
    let wrong = run(&["manifest", "uninstall", guid], &[]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("use --machine"));
    text(&["manifest", "uninstall", "--machine", guid], &[]);
    assert_eq!(text(&["manifest", "list"], &[]), "");
    assert_eq!(run(&["manifest", "show", "Maker"], &[]).status.code(), Some(3));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// OV-26: an installation that was killed leaves a temporary file; the next one removes it, and those of running processes stay.
#[test]
#[cfg(unix)]
fn an_installation_removes_the_temporary_files_of_dead_processes() {
    let folder = std::env::temp_dir().join(format!("etw-abandoned-{}", std::process::id()));
    let packs = folder.join("machine");
    std::fs::create_dir_all(&packs).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let abandoned = packs.join(format!(".etw-{dead}-0.tmp"));
    let others = [
        format!(".etw-{}-7.tmp", std::process::id()),
        ".etw-notes.tmp".to_owned(),
        format!(".etw-{dead}-x.tmp"),
    ];
    std::fs::write(&abandoned, "half a pack").unwrap();
    others.iter().for_each(|name| std::fs::write(packs.join(name), "kept").unwrap());
    let manifest = folder.join("maker.man");
    std::fs::write(
        &manifest,
        "<m><provider name='Maker' guid='{0a0b0c0d-0102-0304-0506-0708090a0b0c}'>\
         <events><event value='1' symbol='Made'/></events></provider></m>",
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(["manifest", "install", "--machine"])
        .arg(&manifest)
        .env("ETW_MACHINE_PACKS", &packs)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!abandoned.exists());
    others.iter().for_each(|name| assert!(packs.join(name).exists(), "{name}"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A manifest whose templates are too short and too long for the payload, and one that fits: nothing is dropped, the one that
/// fits wins, and `stat` counts.
#[test]
fn no_byte_is_dropped_and_a_schema_that_fits_wins() {
    let file = TempFile::new(&every_header());
    let select = ["dump", "--where", "header == EVENT64"];
    let json = [&select[..], &["--format", "json"]].concat();
    let event = json_lines(&stdout(&json, &[file.path()], 0)).remove(0);
    let payload = event["payload"].as_str().unwrap();
    let size = payload.len() / 2;
    assert!(size > 2, "{payload}");
    let folder = std::env::temp_dir().join(format!("etw-rests-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = |name: &str, bytes: usize| {
        let data = format!(
            "<data name='a' inType='win:UInt8'/><data name='b' inType='win:Binary' length='{bytes}'/>"
        );
        let text = format!(
            "<m><provider name='Maker' guid='{{{}}}'><templates><template tid='T'>{data}</template></templates>\
             <events><event value='{}' version='{}' template='T'/></events></provider></m>",
            event["provider"].as_str().unwrap(),
            event["id"],
            event["version"]
        );
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (short, long, fits) =
        (manifest("short", 1), manifest("long", size), manifest("fits", size - 1));
    let with = |arguments: &[&str], manifests: &[&String]| {
        let named: Vec<&str> = manifests.iter().flat_map(|path| ["--manifest", path]).collect();
        stdout(&[arguments, &named[..]].concat(), &[file.path()], 0)
    };
    let line = |manifests: &[&String]| json_lines(&with(&json, manifests)).remove(0);
    let rest = &payload[4..];
    assert_eq!(line(&[&short])["rest"], rest);
    let cut = line(&[&long]);
    assert_eq!((&cut["decoded"], &cut["rest"]), (&json!("manifest"), &json!(&payload[2..])));
    assert_eq!(cut["fields"].as_object().unwrap().len(), 1);
    assert!(cut["reason"].as_str().unwrap().contains("\"b\""), "{cut}");
    let whole = line(&[&short, &long, &fits]);
    assert_eq!((whole.get("rest"), whole.get("reason")), (None, None));
    assert_eq!(whole["fields"]["b"], &payload[2..]);
    for (format, shown) in [
        ("text", format!(" rest={rest}")),
        ("csv", format!(",rest={rest}")),
        ("xml", format!("<Rest>{}</Rest>", rest)),
    ] {
        let text = with(&[&select[..], &["--format", format]].concat(), &[&short]);
        assert!(text.to_lowercase().contains(&shown.to_lowercase()), "{format}: {text}");
    }
    for (manifests, key) in
        [(&[&short][..], "rests"), (&[&long], "cut"), (&[&short, &fits], "other_schema")]
    {
        let stat: Value =
            serde_json::from_str(&with(&["stat", "--format", "json"], manifests)).unwrap();
        let rows = stat["by_event"].as_array().unwrap();
        let row = rows.iter().find(|row| row["provider_name"] == "Maker").unwrap();
        assert_eq!(row[key], 2, "{key}");
        // The file of the schema that won.
        let used = manifests[manifests.len() - 1].rsplit(['/', '\\']).next().unwrap();
        assert_eq!(row["schemas"], json!([used]), "{key}");
    }
    assert!(with(&["stat"], &[&short]).contains("[2 with a rest]"));
    let text = with(&["stat"], &[&short, &fits]);
    assert!(text.contains("[2 by another schema than the first; used: "), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn raw_shows_the_offset_of_each_record() {
    let file = TempFile::new(&greetings(100));
    let mut places: Vec<(u64, u64)> =
        json_lines(&stdout(&["dump", "--raw", "--format", "json"], &[file.path()], 0))
            .iter()
            .map(|line| (line["buffer"].as_u64().unwrap(), line["offset"].as_u64().unwrap()))
            .collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 101);
    assert_eq!(places[0], (0, 0));
}

/// Byte-level comparisons need the provider traits and the event metadata as they are stored.
#[test]
fn raw_shows_traits_and_metadata_of_tracelogging_in_hex() {
    let file = TempFile::new(&greetings(1));
    let lines = json_lines(&stdout(&["dump", "--raw", "--format", "json"], &[file.path()], 0));
    let traits = "23005465737 42e50726f766964657200130001".replace(' ', "");
    let event = lines.last().unwrap();
    assert!(event["traits"].as_str().unwrap().starts_with(&traits), "{event}");
    let metadata = event["metadata"].as_str().unwrap();
    assert!(metadata.contains("004772656574696e670074657874009723"), "{event}");
    assert_eq!(metadata.len(), 2 * usize::from_str_radix(&metadata[..2], 16).unwrap());
    assert_eq!((&lines[0]["traits"], &lines[0]["metadata"]), (&Value::Null, &Value::Null));
    let plain = stdout(&["dump", "--format", "json"], &[file.path()], 0);
    assert!(!plain.contains("\"metadata\"") && !plain.contains("\"traits\""));
}

#[test]
fn json_integers_can_be_quoted() {
    let file = TempFile::new(&greetings(1));
    let plain = stdout(&["dump", "--format", "json"], &[file.path()], 0);
    assert!(plain.contains("\"number\":18446744073709551615,"));
    let quoted = stdout(&["dump", "--format", "json", "--json-strings64"], &[file.path()], 0);
    assert!(quoted.contains("\"number\":\"18446744073709551615\","));
}

/// An EventMetadata record behind the event it describes: only two passes know it in time.
/// An event, its description, and the event again.
pub fn described_trace() -> Vec<u8> {
    let mut info = vec![0; 0x70];
    info[..16].copy_from_slice(&PROVIDER.0);
    info[0x20..0x22].copy_from_slice(&9u16.to_le_bytes());
    info[0x44..0x48].copy_from_slice(&0x70u32.to_le_bytes());
    info.extend("Late ".encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let mut event = EventRecord::new(HeaderType::Event64, &[]);
    event.provider = Some(PROVIDER);
    event.descriptor.id = 9;
    let mut schema = EventRecord::new(HeaderType::Full64, &info);
    schema.provider = Some(EVENT_METADATA);
    schema.descriptor.opcode = Opcode(32);
    for (record, after) in [(&mut event, 1), (&mut schema, 2)] {
        record.order_time = start + after;
        file.push(0, record).unwrap();
    }
    event.order_time = start + 3;
    file.push(0, &event).unwrap();
    file.finish()
}

#[test]
fn two_passes_gather_schemas_first() {
    let file = TempFile::new(&described_trace());
    let events = |arguments: &[&str]| -> Vec<Value> {
        let all = [&["dump", "--format", "json"], arguments].concat();
        json_lines(&stdout(&all, &[file.path()], 0)).iter().map(|l| l["event"].clone()).collect()
    };
    let header = Value::from("EventTrace/Header");
    let late = Value::from("Late");
    assert_eq!(events(&[]), [header.clone(), Value::Null, late.clone(), late.clone()]);
    assert_eq!(events(&["--two-pass"]), [header, late.clone(), late.clone(), late.clone()]);
    // Records that the options leave out still provide schemas.
    assert_eq!(events(&["--from", "+0.3us"]), [late]);
}

#[test]
fn damage_is_reported_and_exits_with_1() {
    let mut bytes = greetings(200);
    bytes[0x1000 + 0x48..0x1000 + 0x60].fill(0);
    let file = TempFile::new(&bytes);
    let output = etw(&["dump"], &[file.path()]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("offset 0x1048"), "{text}");
    assert!(text.contains(&file.path().display().to_string()));
}

#[test]
fn a_file_that_is_not_a_trace_exits_with_3_and_one_line() {
    let text = TempFile::new(b"hello, this is a text file and not a trace");
    let empty = TempFile::new(b"");
    let missing = std::path::PathBuf::from("/no/such/file.etl");
    for path in [text.path(), empty.path(), &missing, &std::env::temp_dir()] {
        for command in ["dump", "stat", "check"] {
            let output = etw(&[command], &[path]);
            assert_eq!(output.status.code(), Some(3), "{command} {}", path.display());
            let message = stderr(&output);
            assert_eq!(message.lines().count(), 1, "{message}");
            assert!(message.contains(&path.display().to_string()), "{message}");
            assert!(output.stdout.is_empty());
        }
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused_at_once() {
    let output = Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(["dump", "/dev/stdin"])
        .stdin(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("not a regular file"));
}

#[test]
fn wrong_usage_exits_with_2() {
    let file = TempFile::new(&greetings(1));
    for arguments in [
        &["dump"][..],
        &["dump", "--format", "yaml", "x.etl"],
        &["dump", "--from", "yesterday", "x.etl"],
        &["dump", "--threads", "0", "x.etl"],
        &["dump", "--codepage", "klingon", "x.etl"],
        &["frobnicate"],
        &[],
    ] {
        let output = etw(arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(etw(&["--help"], &[]).status.code(), Some(0));
    assert_eq!(etw(&["dump", "--help"], &[file.path()]).status.code(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_quietly() {
    use std::io::Read;
    let file = TempFile::new(&greetings(20_000));
    for threads in ["1", "2"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_etw"))
            .args(["dump", "--threads", threads])
            .arg(file.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn output_goes_to_a_file_but_never_over_an_input() {
    let file = TempFile::new(&greetings(10));
    let out = TempFile::new(b"old");
    let path = out.path().to_str().unwrap();
    assert_eq!(etw(&["dump", "-o", path], &[file.path()]).status.code(), Some(3));
    assert_eq!(std::fs::read_to_string(out.path()).unwrap(), "old");
    assert_eq!(stdout(&["dump", "--force", "-o", path], &[file.path()], 0), "");
    let direct = stdout(&["dump"], &[file.path()], 0);
    assert_eq!(std::fs::read_to_string(out.path()).unwrap(), direct);
    let before = std::fs::read(file.path()).unwrap();
    let same = file.path().to_str().unwrap();
    assert_eq!(etw(&["dump", "-o", same], &[file.path()]).status.code(), Some(3));
    assert_eq!(std::fs::read(file.path()).unwrap(), before);
}

#[test]
fn several_files_merge_by_time() {
    let make = |offset: i64| {
        let mut file = FileBuilder::new();
        for number in 0..50 {
            push_tracelogging(&mut file, 0, offset + number * 20, "x");
        }
        TempFile::new(&file.finish())
    };
    let (even, odd) = (make(0), make(10));
    let lines = json_lines(&stdout(&["dump", "--format", "json"], &[even.path(), odd.path()], 0));
    let times: Vec<&str> = lines.iter().map(|line| line["timestamp"].as_str().unwrap()).collect();
    assert_eq!(times.len(), 102);
    assert!(times.is_sorted());
}

/// Names in `--where` that no record has give notes; the answer stays.
#[test]
fn unknown_names_in_an_expression_give_notes() {
    let file = TempFile::new(&greetings(3));
    let out = std::env::temp_dir().join(format!("etw-notes-{}.etl", std::process::id()));
    let out_name = out.to_str().unwrap();
    let relog = ["relog", "--force", "-o", out_name];
    for (expression, note) in [
        ("provder == \"x\"", "no event has a field provder; did you mean provider?"),
        ("not (Numbr == 1)", "no event has a field Numbr; did you mean number?"),
        ("Nothing.Alike == 1", "no event has a field Nothing.Alike; etw dump --limit 5"),
        ("provider == \"Test.Providr\"", "did you mean \"Test.Provider\"?"),
        ("provider == \"Nobody\"", "etw stat --by provider lists"),
        ("provider in (\"test.provider\", *X)", "did you mean \"Test.Provider\"?"),
    ] {
        for command in [&["dump"][..], &["dump", "--threads", "1"], &relog] {
            let output = etw(&[command, &["--where", expression]].concat(), &[file.path()]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            assert!(
                stderr(&output).contains(note),
                "{command:?} {expression}: {}",
                stderr(&output)
            );
        }
    }
    for expression in
        ["Number == 7", "Number == 1", "pid == 0xffffff", "provider == \"Test.Provider\""]
    {
        let output = etw(&["dump", "--where", expression], &[file.path()]);
        assert_eq!(stderr(&output), "", "{expression}");
    }
    std::fs::remove_file(out).unwrap();
}

/// A provider without a name, and fields that a name of the header hides.
#[test]
fn guids_and_hidden_fields_give_notes() {
    let mut file = FileBuilder::new();
    let id = Guid::from_name("Only.By.Guid");
    let mut event = EventRecord::new(HeaderType::Event64, &[]);
    event.provider = Some(id);
    event.order_time = file.header.start_raw + 1;
    file.push(0, &event).unwrap();
    let file = TempFile::new(&file.finish());
    let output = etw(&["dump", "--where", "provider == 'Only.By.Guid'"], &[file.path()]);
    assert!(
        stderr(&output).contains(&format!("have its GUID: provider == {id}")),
        "{}",
        stderr(&output)
    );

    let mut file = FileBuilder::new();
    let metadata = MetadataBuilder::new("Order", 0)
        .field("id", InType::UINT32, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    push_event(&mut file, 0, 1, &metadata, &17u32.to_le_bytes());
    let file = TempFile::new(&file.finish());
    for expression in ["id == 17", "id == 0"] {
        let output = etw(&["dump", "--where", expression], &[file.path()]);
        assert!(stderr(&output).contains("fields.id"), "{expression}: {}", stderr(&output));
    }
    let output = etw(&["dump", "--where", "fields.id == 17"], &[file.path()]);
    assert_eq!((stderr(&output).as_str(), output.stdout.is_empty()), ("", false));
}

/// The C library and the unwinder are the only shared libraries. To load libm took 5 % of the time to print a small trace.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn the_command_loads_two_libraries() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
    let output = command.env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let needed = text.lines().filter(|line| line.contains(" => "));
    let names: Vec<&str> = needed.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"libc.so.6"), "{text}");
    assert!(
        names.iter().all(|name| name.starts_with("libc.") || name.starts_with("libgcc_s.")),
        "{text}"
    );
}
