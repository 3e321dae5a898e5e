//! `etw stat`: keys, counts, losses.

use crate::fixture::{TempFile, every_header, greetings, json_lines, stdout};
use etw_etl::write::FileBuilder;
use etw_types::{EventRecord, HeaderType, LOST_EVENT, Opcode};
use serde_json::{Value, json};

#[test]
fn json_has_the_promised_keys() {
    let file = TempFile::new(&greetings(300));
    let lines = json_lines(&stdout(&["stat", "--format", "json"], &[file.path()], 0));
    let stat = &lines[0];
    assert_eq!(stat["file"], file.path().to_str().unwrap());
    assert_eq!(stat["session"], "openetw");
    assert_eq!(stat["os_build"], 19041);
    assert_eq!(stat["pointer_size"], 8);
    assert_eq!(stat["cpus"], 3);
    assert_eq!(stat["clock"], "qpc");
    assert_eq!(stat["start"], "2026-01-02T03:04:05.0000000Z");
    assert_eq!(stat["end"], "2026-01-02T03:04:05.0002990Z");
    assert_eq!(stat["buffer_size"], 0x1000);
    assert_eq!((&stat["compressed"], &stat["finalised"]), (&false.into(), &true.into()));
    assert_eq!(stat["records"], 301);
    assert_eq!((&stat["events_lost"], &stat["buffers_lost"]), (&0.into(), &0.into()));
    assert_eq!(stat["out_of_order"], 0);
    assert_eq!((&stat["losses"], &stat["damage"]), (&json!([]), &json!([])));
    assert_eq!(stat["by_header"], json!({"SYSTEM64": 1, "EVENT64": 300}));
    let row = &stat["by_event"][0];
    assert_eq!(row["provider"], "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee");
    assert_eq!(row["provider_name"], "Test.Provider");
    assert_eq!(row["event"], "Greeting");
    assert_eq!((&row["id"], &row["version"], &row["opcode"]), (&0.into(), &0.into(), &0.into()));
    assert_eq!(row["count"], 300);
    // Length and text, number, length and blob.
    let bytes: u64 = (0..300u64).map(|n| 2 + 6 + n.to_string().len() as u64 + 8 + 2 + 2).sum();
    assert_eq!(row["bytes"], bytes);
}

#[test]
fn rows_agree_with_a_dump() {
    let file = TempFile::new(&every_header());
    let stat = json_lines(&stdout(&["stat", "--format", "json"], &[file.path()], 0)).remove(0);
    let key = |value: &Value| {
        let parts = ["provider", "provider_name", "event", "id", "version", "opcode"];
        parts.map(|part| value[part].to_string()).join(" ")
    };
    let mut expected = std::collections::BTreeMap::new();
    for line in json_lines(&stdout(&["dump", "--format", "json"], &[file.path()], 0)) {
        *expected.entry(key(&line)).or_insert(0) += 1;
    }
    let rows = stat["by_event"].as_array().unwrap();
    let found = rows.iter().map(|row| (key(row), row["count"].as_u64().unwrap()));
    assert_eq!(found.collect::<std::collections::BTreeMap<_, _>>(), expected);
}

#[test]
fn losses_are_in_plain_sight() {
    let mut file = FileBuilder::new();
    file.header.logfile.events_lost = 41;
    let mut lost = EventRecord::new(HeaderType::Full64, &[]);
    lost.provider = Some(LOST_EVENT);
    lost.descriptor.opcode = Opcode(33);
    lost.order_time = file.header.start_raw + 1;
    file.push(0, &lost).unwrap();
    let file = TempFile::new(&file.finish());
    let stat = json_lines(&stdout(&["stat", "--format", "json"], &[file.path()], 0)).remove(0);
    assert_eq!(stat["events_lost"], 41);
    assert_eq!(
        stat["losses"],
        json!([{"cause": "rt_lost_buffer", "provider": null, "pid": null, "count": 1}])
    );
    let text = stdout(&["stat"], &[file.path()], 0);
    assert!(text.contains("LOST     41 events, 0 buffers"), "{text}");
    assert!(text.contains("LOST     reported by 1 RT_LostBuffer record\n"), "{text}");
}

#[test]
fn damage_has_its_file_offset() {
    let mut bytes = greetings(300);
    bytes[0x2000 + 0x48] = 3;
    bytes[0x2000 + 0x49] = 0;
    let file = TempFile::new(&bytes);
    let stat = json_lines(&stdout(&["stat", "--format", "json"], &[file.path()], 1)).remove(0);
    let damage = stat["damage"].as_array().unwrap();
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0]["offset"], 0x2048);
    assert!(damage[0]["what"].as_str().unwrap().starts_with("record size 3 at +0"));
}

/// `--where` selects what is counted, `--top` how many rows are shown; the events' times stand beside the header's.
#[test]
fn counts_can_be_selected_and_cut() {
    let file = TempFile::new(&greetings(300));
    let of = |arguments: &[&str]| {
        let arguments = [&["stat", "--json"], arguments].concat();
        json_lines(&stdout(&arguments, &[file.path()], 0)).remove(0)
    };
    let stat = of(&["--where", "event == 'Greeting' and text like '*7'"]);
    assert_eq!((&stat["records"], &stat["by_header"]), (&30.into(), &json!({"EVENT64": 30})));
    let stat = of(&["--top", "1"]);
    assert_eq!(stat["by_event"][0]["count"], 300);
    assert_eq!(stat["by_event"][1]["count"], 1);
    assert_eq!(stat["by_event"][1]["event"], Value::Null);
    assert_eq!(stat["first_event"], "2026-01-02T03:04:05.0000000Z");
    assert_eq!(stat["last_event"], "2026-01-02T03:04:05.0002990Z");
    let stat = of(&["--where", "time >= +100us"]);
    assert_eq!(stat["first_event"], "2026-01-02T03:04:05.0001000Z");
    let text = stdout(&["stat", "--where", "time >= +100us"], &[file.path()], 0);
    assert!(text.contains("events   2026-01-02T03:04:05.0001000Z to "), "{text}");
}

/// A trace alone is dumped.
#[test]
fn a_trace_alone_is_dumped() {
    let file = TempFile::new(&greetings(3));
    let text = stdout(&["dump"], &[file.path()], 0);
    assert_eq!(stdout(&[], &[file.path()], 0), text);
    let first = stdout(&["dump", "-n", "1"], &[file.path()], 0);
    assert_eq!(first.lines().count(), 1);
}
