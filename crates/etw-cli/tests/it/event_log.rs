//! `etw log`, and `etw dump` of event logs.

use crate::fixture;
use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::{LogWriter, Retention};
use etw_types::{FileTime, Guid};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// An element with attributes of constant text.
fn element(name: &str, attributes: &[(&str, &str)], children: Vec<Node>) -> Node {
    let attributes = attributes.iter().map(|(name, text)| (*name, Node::text(text)));
    Node::element(name, attributes.collect(), children)
}

fn value(index: u16, value_type: ValueType) -> Vec<Node> {
    vec![Node::value(index, value_type)]
}

/// Records `numbers`, a second apart, with the level 4 or, where the number is divisible by 10, 2.
fn log(path: &Path, numbers: impl Iterator<Item = u64>) {
    let mut writer = LogWriter::open(path, 4096 + 8 * 65536, Retention::Overwrite).unwrap();
    append(&mut writer, numbers);
    writer.close().unwrap();
}

fn append(writer: &mut LogWriter, numbers: impl Iterator<Item = u64>) {
    let text = |text: &str| vec![Node::text(text)];
    let system = element(
        "System",
        &[],
        vec![
            element("Provider", &[("Name", "OpenEtw.Test")], vec![]),
            element("EventID", &[], text("7")),
            element("Level", &[], value(0, ValueType::UINT8)),
            element("Channel", &[], text("Test/Operational")),
            element("Computer", &[], text("host")),
        ],
    );
    let data = element(
        "EventData",
        &[],
        vec![
            element("Data", &[("Name", "Number")], value(1, ValueType::UINT64)),
            element("Data", &[("Name", "Text")], value(2, ValueType::STRING)),
        ],
    );
    let nodes = vec![element("Event", &[], vec![system, data])];
    let template = Arc::new(Template::new(Guid::from_name("event_log"), nodes));
    for number in numbers {
        let level = [if number % 10 == 0 { 2 } else { 4 }];
        let units: Vec<u8> =
            format!("\"{number}\" & more").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let bytes = number.to_le_bytes();
        let values = [
            (ValueType::UINT8, &level[..]),
            (ValueType::UINT64, &bytes),
            (ValueType::STRING, &units),
        ];
        let arguments =
            values.map(|(value_type, bytes)| Argument::Value(Value { value_type, bytes }));
        let fragment = Fragment::Instance(Instance {
            template: template.clone(),
            arguments: arguments.into(),
            has_header: true,
        });
        let time = FileTime(133_000_000_000_000_000 + number as i64 * 10_000_000);
        writer.push(time, &fragment).unwrap();
    }
}

/// The standard output of a run that succeeds.
fn etw(arguments: &[&str]) -> String {
    fixture::stdout(arguments, &[], 0)
}

/// The status and the message of a run that fails.
fn etw_fails(arguments: &[&str]) -> (i32, String) {
    let output = fixture::etw(arguments, &[]);
    (output.status.code().unwrap(), fixture::stderr(&output))
}

/// A folder for one test.
fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn numbers(json: &str) -> Vec<u64> {
    let number = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["fields"]["Number"].as_u64().unwrap()
    };
    json.lines().map(number).collect()
}

/// The path of a new file, also as text.
fn path(folder: &Path, name: &str) -> (PathBuf, String) {
    let path = folder.join(name);
    let _ = std::fs::remove_file(&path);
    let text = path.to_str().unwrap().to_owned();
    (path, text)
}

/// JSON, columns, filters and counts have one name for records of logs, and none has a CPU or a channel's number of them.
#[test]
fn records_of_event_logs_are_evtx_without_cpu_everywhere() {
    let folder = scratch("event_log_headers");
    let (path, name) = path(&folder, "a.evtx");
    log(&path, 1..=3);
    let columns = etw(&["dump", "--json", "--columns", "header,cpu,channel", &name]);
    for line in columns.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row, serde_json::json!({"header": "EVTX", "cpu": null, "channel": null}));
    }
    for (filter, count) in [
        ("header == 'EVTX'", 3),
        ("header == 'EVENT64'", 0),
        ("cpu == 0", 0),
        ("channel == 0", 0),
        ("not cpu == 0", 3),
    ] {
        let found = fixture::etw(&["dump", "--json", "--where", filter, &name], &[]);
        assert_eq!(String::from_utf8(found.stdout).unwrap().lines().count(), count, "{filter}");
    }
    let stat: serde_json::Value = serde_json::from_str(&etw(&["stat", "--json", &name])).unwrap();
    assert_eq!(stat["by_header"], serde_json::json!({"EVTX": 3}));
    let by = etw(&["stat", "--by", "header", &name]);
    assert!(by.contains("EVTX") && !by.contains("EVENT64"), "{by}");
}

#[test]
fn records_of_event_logs_are_printed_in_every_format() {
    let folder = scratch("event_log_formats");
    let (path, name) = path(&folder, "a.evtx");
    log(&path, 1..=3);
    let json = etw(&["dump", "--json", &name]);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["header"], "EVTX");
    assert_eq!(first["provider_name"], "OpenEtw.Test");
    assert_eq!(
        (&first["id"], &first["level"], &first["record_id"]),
        (&7.into(), &4.into(), &1.into())
    );
    assert_eq!(
        (&first["channel_name"], &first["computer"]),
        (&"Test/Operational".into(), &"host".into())
    );
    assert_eq!(first["fields"]["Text"], "\"1\" & more");
    assert_eq!(numbers(&json), [1, 2, 3]);
    assert_eq!(etw(&[&name, "--json"]), json);
    assert_eq!(etw(&["log", "show", "--json", &name]), json);
    let xml = etw(&["log", "show", "--format", "xml", &name]);
    assert_eq!(xml.lines().count(), 5);
    assert!(xml.contains("<Data Name='Text'>\"2\" &amp; more</Data>"), "{xml}");
    let xml = etw(&["dump", "--format", "xml", &name]);
    for element in [
        "<EventRecordID>2</EventRecordID>",
        "<Channel>Test/Operational</Channel><Computer>host</Computer>",
        "<Data Name=\"Text\">&quot;2&quot; &amp; more</Data>",
    ] {
        assert!(xml.contains(element), "{element}: {xml}");
    }
    let text = etw(&["dump", &name]);
    assert!(text.contains("[Test/Operational] "), "{text}");
    assert!(text.contains("OpenEtw.Test/7v0 Informational Number=1 Text="), "{text}");
    assert_eq!(etw(&["log", "show", &name]), text);
}

#[test]
fn commands_of_traces_work_on_event_logs() {
    let folder = scratch("event_log_commands");
    let (path, name) = path(&folder, "a.evtx");
    log(&path, 1..=100);
    let dump = |more: &[&str]| etw(&[&["dump", "--json", &name], more].concat());
    assert_eq!(numbers(&dump(&["--where", "Number > 98"])), [99, 100]);
    assert_eq!(numbers(&dump(&["--where", "level <= error and Number < 30"])), [10, 20]);
    assert_eq!(numbers(&dump(&["--where", "record_id in (5, 7)"])), [5, 7]);
    assert_eq!(dump(&["--where", "channel_name == 'System'"]), "");
    assert_eq!(numbers(&dump(&["--tail", "2"])), [99, 100]);
    assert_eq!(numbers(&dump(&["--from", "+97s"])), [98, 99, 100]);
    let columns = ["dump", "--columns", "record_id,channel_name,provider,Number", "-n1", &name];
    assert_eq!(
        etw(&columns).lines().last().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["1", "Test/Operational", "OpenEtw.Test", "1"]
    );
    let stat = etw(&["stat", &name]);
    assert!(stat.contains("log      Test/Operational"), "{stat}");
    assert!(stat.contains("content  100 records\n"), "{stat}");
    let check = etw(&["check", &name]);
    assert!(check.contains("sound, 100 records were read"), "{check}");
    let report = folder.join("a.html");
    etw(&["report", "--force", "-o", report.to_str().unwrap(), &name]);
    assert!(std::fs::read_to_string(report).unwrap().contains("OpenEtw.Test"));
}

#[test]
fn event_logs_and_traces_are_merged_by_time() {
    let folder = scratch("event_log_and_trace");
    let (first, first_name) = path(&folder, "a.evtx");
    let (second, second_name) = path(&folder, "b.evtx");
    log(&first, (1..=50).filter(|number| number % 2 == 0));
    log(&second, (1..=50).filter(|number| number % 2 == 1));
    // A trace with the same values: the second log, relogged.
    let trace = folder.join("b.etl");
    let trace = trace.to_str().unwrap();
    etw(&["relog", "--force", "-o", trace, &second_name]);
    let merged = etw(&["dump", "--json", "--where", "Number > 0", &first_name, trace]);
    assert_eq!(numbers(&merged), (1..=50).collect::<Vec<_>>());
}

#[test]
fn queries_select_records_and_bad_ones_name_their_column() {
    let folder = scratch("event_log_query");
    let (path, name) = path(&folder, "a.evtx");
    log(&path, 1..=2000);
    let query = |query: &str| numbers(&etw(&["log", "query", "--json", &name, query]));
    assert_eq!(query("*[System[Level=2]]").len(), 200);
    assert_eq!(query("*[EventData[Data[@Name='Number']>1998]]"), [1999, 2000]);
    let list = "<QueryList><Query Id='0' Path='Test/Operational'>\
                <Select>*[System[Level=2]]</Select>\
                <Suppress>*[EventData[Data[@Name='Number']>30]]</Suppress></Query></QueryList>";
    assert_eq!(query(list), [10, 20, 30]);
    let reverse = etw(&["log", "show", "--json", "--reverse", "-n", "3", &name]);
    assert_eq!(numbers(&reverse), [2000, 1999, 1998]);
    let (status, message) = etw_fails(&["log", "query", &name, "*[System[Level=]]"]);
    assert_eq!(status, 2);
    assert!(message.contains("column 16"), "{message}");
}

#[test]
fn several_logs_are_merged_by_time_and_damage_is_reported() {
    let folder = scratch("event_log_merge");
    let (first, first_name) = path(&folder, "a.evtx");
    let (second, second_name) = path(&folder, "b.evtx");
    log(&first, (1..=2000).filter(|number| number % 2 == 0));
    log(&second, (1..=2000).filter(|number| number % 2 == 1));
    let merged = numbers(&etw(&["log", "show", "--json", &first_name, &second_name]));
    assert_eq!(merged, (1..=2000).collect::<Vec<_>>());
    let info = etw(&["log", "info", &first_name]);
    assert!(info.contains("1000 records"), "{info}");
    // A damaged chunk costs its own records.
    let mut bytes = std::fs::read(&first).unwrap();
    bytes[4096..4104].fill(0x5a);
    bytes[4096 + 0x200..4096 + 0x8000].fill(0x5a);
    std::fs::write(&first, bytes).unwrap();
    let (status, message) = etw_fails(&["log", "show", "--json", &first_name]);
    assert_eq!(status, 1);
    assert!(message.contains("a.evtx: offset"), "{message}");
    for command in ["dump", "check", "stat"] {
        let output = fixture::etw(&[command, &first_name], &[]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        let all =
            format!("{}{}", fixture::stderr(&output), String::from_utf8_lossy(&output.stdout));
        assert!(all.contains("a chunk does not begin with ElfChnk"), "{command}: {all}");
    }
}

/// The objects of a dump without what differs between a trace and its log.
fn events(json: &str) -> Vec<serde_json::Value> {
    json.lines()
        .map(|line| {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            event["fields"].take()
        })
        .collect()
}

#[test]
fn a_trace_that_is_converted_to_an_event_log_keeps_its_values() {
    let folder = scratch("event_log_convert");
    let (path, name) = path(&folder, "a.evtx");
    log(&path, 1..=2500);
    let trace = folder.join("a.etl");
    let trace = trace.to_str().unwrap();
    etw(&["relog", "--force", "-o", trace, &name]);
    let back = folder.join("b.evtx");
    let back = back.to_str().unwrap();
    let text =
        etw(&["convert", "--to", "evtx", "--force", "-o", back, "--where", "Number > 0", trace]);
    assert!(text.contains("2500 records"), "{text}");
    let xml = |name: &str| etw(&["log", "show", "--format", "xml", name]);
    assert!(xml(back).contains("<Data Name='Text'>\"2\" &amp; more</Data>"));
    let json = |name: &str| etw(&["dump", "--json", "--where", "Number > 0", name]);
    assert_eq!(events(&json(back)), events(&json(&name)));
    assert!(etw(&["check", back]).contains("sound, 2500 records"));
    let report = folder.join("c.evtx");
    etw(&["tracerpt", "-y", trace, "-of", "EVTX", "-o", report.to_str().unwrap()]);
    assert_eq!(events(&json(report.to_str().unwrap())), events(&json(&name)));
}

/// OV-22: XPath selects among the events of a trace, and the trace is exported and described as a log.
#[test]
fn traces_are_queried_like_event_logs() {
    let folder = scratch("event_log_of_trace");
    let (path, name) = path(&folder, "a.evtx");
    log(&path, 1..=2500);
    let trace = folder.join("a.etl");
    let trace = trace.to_str().unwrap();
    etw(&["relog", "--force", "-o", trace, &name]);
    let query = "*[System[Level=2] and EventData[Data[@Name='Number']>2000]]";
    let of = |name: &str| numbers(&etw(&["log", "query", "--json", name, query]));
    let expected: Vec<u64> = (2010..=2500).step_by(10).collect();
    assert_eq!((of(trace), of(&name)), (expected.clone(), expected.clone()));
    let newest = etw(&["log", "show", "--json", "--reverse", "-n", "1", trace]);
    assert_eq!(numbers(&newest), [2500]);
    let xml = etw(&["wevtutil", "qe", trace, "/lf:true", "/c:3", &format!("/q:{query}")]);
    assert_eq!(xml.lines().count(), 3, "{xml}");
    let (_, output) = self::path(&folder, "b.evtx");
    etw(&["log", "export", "-o", &output, trace, query]);
    assert_eq!(numbers(&etw(&["dump", "--json", &output])), expected);
    assert!(etw(&["log", "info", trace]).contains(" records in "));
    // A file that is neither names itself.
    let other = folder.join("other");
    std::fs::write(&other, "text").unwrap();
    let (status, message) = etw_fails(&["log", "show", other.to_str().unwrap()]);
    assert!(status == 3 && message.contains("not an .etl file"), "{status} {message}");
}

/// A log of Windows XP with two records, by the documented layout.
fn windows_xp_log() -> Vec<u8> {
    let utf16 = |text: &str| -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    };
    let number = |value: usize| (value as u32).to_le_bytes();
    let mut bytes = Vec::new();
    for value in [48, 0x654c_664c, 1, 1, 48, 0, 3, 1, 4096, 1, 0, 48] {
        bytes.extend(number(value));
    }
    for id in 1..=2usize {
        let names = [utf16("Shop"), utf16("HOST")].concat();
        let text = utf16(&format!("item {id}"));
        let size = (56 + names.len() + text.len()).next_multiple_of(4) + 4;
        let start = bytes.len();
        for value in [size, 0x654c_664c, id, 1_000_000_000, 1_000_000_000, 100 + id, 4 | 1 << 16] {
            bytes.extend(number(value));
        }
        for value in [7, 0, 56 + names.len(), 0, 0, 0, 0] {
            bytes.extend(number(value));
        }
        bytes.extend([names, text].concat());
        bytes.resize(start + size - 4, 0);
        bytes.extend(number(size));
    }
    let end = bytes.len();
    let mark = [0x28, 0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4444, 48, end, 3, 1, 0x28];
    mark.into_iter().for_each(|value| bytes.extend(number(value)));
    bytes
}

/// OV-22: a log of Windows XP is shown, queried and exported like a later one.
#[test]
fn logs_of_windows_xp_are_queried() {
    let folder = scratch("event_log_xp");
    let (path, name) = path(&folder, "AppEvent.Evt");
    std::fs::write(&path, windows_xp_log()).unwrap();
    let all = etw(&["log", "show", "--format", "xml", &name]);
    assert_eq!(all.matches("<Channel>Application</Channel>").count(), 2, "{all}");
    let query = "*[System[EventRecordID=2]]";
    let found = etw(&["log", "query", "--format", "xml", &name, query]);
    assert_eq!(found.matches("<Data>item 2</Data>").count(), 1, "{found}");
    assert!(!found.contains("item 1"), "{found}");
    assert!(etw(&["wevtutil", "gli", &name, "/lf:true"]).contains("numberOfLogRecords: 2"));
    let (_, output) = self::path(&folder, "new.evtx");
    etw(&["log", "export", "-o", &output, &name]);
    assert_eq!(etw(&["log", "show", "--format", "xml", &output]), all);
}

/// OV-22: the forms of wevtutil that scripts use.
#[test]
fn wevtutil_queries_describes_and_exports_logs() {
    let folder = scratch("event_log_wevtutil");
    let (log_path, name) = path(&folder, "a.evtx");
    log(&log_path, 1..=50);
    let text = etw(&["wevtutil", "qe", &name, "/lf:true", "/c:2", "/rd:true", "/f:text"]);
    assert!(
        text.starts_with("Event[0]:\n  Log Name: Test/Operational\n  Source: OpenEtw.Test\n"),
        "{text}"
    );
    assert!(text.contains("\nEvent[1]:\n") && text.contains("  Level: Information\n"), "{text}");
    let query = "/q:*[System[Level=2]]";
    let long =
        ["wevtutil", "query-events", &name, "/LogFile:true", query, "/format:xml", "/e:Root"];
    let xml = etw(&long);
    assert_eq!(xml.lines().count(), 7, "{xml}");
    assert!(xml.starts_with("<Root>\n<Event>") && xml.ends_with("</Root>\n"), "{xml}");
    let rendered = etw(&["wevtutil", "qe", &name, "/lf:true", "/c:1", "/f:renderedxml"]);
    assert!(rendered.contains("<Level>Information</Level>"), "{rendered}");
    let info = etw(&["wevtutil", "gli", &name, "/lf:true"]);
    assert!(info.contains("numberOfLogRecords: 50\noldestRecordNumber: 1\n"), "{info}");
    // Exported records keep their numbers.
    let (_, output) = path(&folder, "b.evtx");
    etw(&["wevtutil", "epl", &name, &output, "/lf:true", query]);
    let (status, text) = etw_fails(&["wevtutil", "epl", &name, &output, "/lf:true"]);
    assert!(status == 3 && text.ends_with("b.evtx: exists; /ow:true replaces it\n"), "{text}");
    let exported = etw(&["dump", "--json", &output]);
    assert_eq!(numbers(&exported), [10, 20, 30, 40, 50]);
    assert!(etw(&["check", &output]).contains("sound, 5 records"));
    let (status, message) = etw_fails(&["wevtutil", "epl", &name, &output, "/lf:true"]);
    assert!(status == 3 && message.contains("exists"), "{message}");
    etw(&[
        "log",
        "export",
        "--force",
        "-o",
        &output,
        &name,
        "*[EventData[Data[@Name='Number']>48]]",
    ]);
    assert_eq!(numbers(&etw(&["dump", "--json", &output])), [49, 50]);
    for wrong in [
        &["wevtutil", "qe", &name, "/lf:true", "/q:*[System[Level=]]"][..],
        &["wevtutil", "qe", "Application", "/sq:maybe"],
        &["wevtutil", "al"],
        &["wevtutil", "qe", &name, "/lf:perhaps"],
        &["wevtutil", "qe", &name, "/r:other"],
    ] {
        assert_eq!(etw_fails(wrong).0, 2, "{wrong:?}");
    }
}

/// OV-22: a query continues where an earlier one stopped.
#[test]
fn queries_continue_behind_bookmarks() {
    let folder = scratch("event_log_bookmark");
    let (log_path, name) = path(&folder, "a.evtx");
    log(&log_path, 1..=50);
    let (_, bookmark) = path(&folder, "bookmark.xml");
    let query = |more: &[&str]| {
        let all = [&["log", "query", "--json", "--bookmark", &bookmark], more].concat();
        numbers(&etw(&[&all[..], &[&name, "*[System[Level=2]]"]].concat()))
    };
    assert_eq!(query(&["-n", "2"]), [10, 20]);
    let text = std::fs::read_to_string(&bookmark).unwrap();
    assert!(text.contains("Channel='Test/Operational' RecordId='20' IsCurrent='true'"), "{text}");
    assert_eq!(query(&[]), [30, 40, 50]);
    assert!(query(&[]).is_empty());
    assert_eq!(query(&["--reverse", "-n", "1"]), [40]);
    // wevtutil reads one bookmark and stores another one; Windows' files may be UTF-16.
    let windows =
        "<BookmarkList><Bookmark Channel='Test/Operational' RecordId='47'/></BookmarkList>";
    let units = "\u{feff}".encode_utf16().chain(windows.encode_utf16());
    std::fs::write(&bookmark, units.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let (_, saved) = path(&folder, "saved.xml");
    let options = [&*format!("/bm:{bookmark}"), &format!("/SaveBookmark:{saved}"), "/c:2"];
    let events = etw(&[&["wevtutil", "qe", &name, "/lf:true"], &options[..]].concat());
    assert!(events.contains(">48<") && events.contains(">49<"), "{events}");
    assert_eq!(events.lines().count(), 2, "{events}");
    assert!(std::fs::read_to_string(&saved).unwrap().contains("RecordId='49'"));
    std::fs::write(&bookmark, "<nothing/>").unwrap();
    let (status, message) = etw_fails(&["log", "query", "--bookmark", &bookmark, &name, "*"]);
    assert!(status == 3 && message.contains("expected BookmarkList"), "{status} {message}");
}

/// OV-22: a file with a query list names its logs.
#[test]
fn wevtutil_reads_a_file_with_a_query_list() {
    let folder = scratch("event_log_query_file");
    let (first, first_name) = path(&folder, "a.evtx");
    let (second, second_name) = path(&folder, "b.evtx");
    log(&first, 1..=30);
    log(&second, 31..=60);
    let (_, list) = path(&folder, "list.xml");
    let text = format!(
        "<QueryList><Query Path='file://{first_name}'><Select>*[System[Level=2]]</Select>\
         <Select Path='file://{second_name}'>*[EventData[Data[@Name='Number']&gt;=59]]</Select>\
         <Suppress>*[EventData[Data[@Name='Number']=20]]</Suppress></Query></QueryList>"
    );
    std::fs::write(&list, text).unwrap();
    let xml = etw(&["wevtutil", "qe", &list, "/sq:true"]);
    let found: Vec<&str> = xml
        .lines()
        .map(|line| line.split("'Number'>").nth(1).unwrap().split('<').next().unwrap())
        .collect();
    assert_eq!(found, ["10", "30", "59", "60"]);
}

/// Every command that reads a damaged log says so, and ends with status 1.
#[test]
fn damage_of_a_log_is_told_by_all_commands() {
    let folder = scratch("event_log_damage");
    let (log_path, name) = path(&folder, "a.evtx");
    log(&log_path, 1..=3000);
    let whole = std::fs::read(&log_path).unwrap();
    assert!(whole.len() > 4096 + 3 * 65536, "{}", whole.len());
    let (_, output) = path(&folder, "out.evtx");
    let commands = [
        vec!["check", &name],
        vec!["dump", &name],
        vec!["log", "show", &name],
        vec!["log", "info", &name],
        vec!["log", "query", &name, "*"],
        vec!["log", "export", "--force", "-o", &output, &name],
        vec!["wevtutil", "epl", &name, &output, "/lf:true", "/ow:true"],
    ];
    let mut zero_start = whole.clone();
    zero_start[4096 + 65536..4096 + 65536 + 512].fill(0);
    let mut wrong_record = whole.clone();
    wrong_record[4096 + 0x4000..4096 + 0x5000].fill(0x5a);
    for (bytes, text) in [
        (&zero_start[..], "offset 0x11000: a chunk does not begin with ElfChnk"),
        (&wrong_record, "the checksum of the chunk's records does not match"),
        (&whole[..4096 + 2 * 65536], "the file has 2: it was cut"),
        (&whole[..4096], "the file has 0: it was cut"),
        (&whole[..1000], "the file ends in its header, after 1000 of 4096 bytes"),
    ] {
        std::fs::write(&log_path, bytes).unwrap();
        for command in &commands {
            let output = fixture::etw(command, &[]);
            let all =
                format!("{}{}", fixture::stderr(&output), String::from_utf8_lossy(&output.stdout));
            assert!(all.contains(text), "{command:?}, {text}: {all}");
            assert_eq!(output.status.code(), Some(1), "{command:?}, {text}: {all}");
        }
    }
    // The records of the chunk are there, and the copy is sound.
    std::fs::write(&log_path, zero_start).unwrap();
    fixture::etw(&["log", "export", "--force", "-o", &output, &name], &[]);
    assert!(etw(&["check", &output]).contains("sound, 3000 records"));
    // A list of logs tells the damage of each.
    let (_, second) = path(&folder, "b.evtx");
    std::fs::write(&second, &whole[..4096 + 65536]).unwrap();
    let (_, list) = path(&folder, "list.xml");
    let text = format!(
        "<QueryList><Query Path='file://{name}'><Select>*</Select>\
         <Select Path='file://{second}'>*</Select></Query></QueryList>"
    );
    std::fs::write(&list, text).unwrap();
    let epl = ["wevtutil", "epl", &list, &output, "/sq:true", "/ow:true"];
    let (status, message) = etw_fails(&epl);
    assert_eq!(status, 1, "{message}");
    assert!(message.contains("a.evtx: offset 0x11000: a chunk does not begin"), "{message}");
    assert!(message.contains("b.evtx: offset 0x11000: the file header counts"), "{message}");
}

#[test]
fn damage_of_a_trace_that_is_exported_is_told() {
    let folder = scratch("event_log_damaged_trace");
    let (trace, name) = path(&folder, "a.etl");
    let mut bytes = fixture::greetings(300);
    bytes.truncate(bytes.len() - 100);
    std::fs::write(&trace, bytes).unwrap();
    let (_, output) = path(&folder, "out.evtx");
    let (status, shown) = etw_fails(&["log", "show", "-n", "0", &name]);
    assert_eq!(status, 1);
    for command in [
        &["log", "export", "--force", "-o", &output, &name][..],
        &["wevtutil", "epl", &name, &output, "/lf:true", "/ow:true"],
    ] {
        let (status, message) = etw_fails(command);
        assert_eq!((status, &*message), (1, &*shown), "{command:?}");
        assert!(message.contains("a.etl: offset "), "{message}");
    }
}

/// A query list selects from the files that it names, whatever log the command names.
#[test]
fn a_query_list_selects_from_the_files_that_it_names() {
    let folder = scratch("event_log_list_files");
    let (first, first_name) = path(&folder, "a.evtx");
    // On Linux, names that differ in case are of different files.
    let (second, second_name) = path(&folder, "A.evtx");
    let (other, other_name) = path(&folder, "other.evtx");
    log(&first, 1..=30);
    log(&second, 31..=60);
    log(&other, 61..=90);
    let list = |selects: &str| format!("<QueryList><Query Id='0'>{selects}</Query></QueryList>");
    let of_first = format!(
        "<Select Path='file://{first_name}'>*[EventData[Data[@Name='Number']&lt;3]]</Select>"
    );
    let of_second = format!(
        "<Select Path='FILE://{second_name}'>*[System[Level=2]]</Select>\
         <Suppress Path='file://{second_name}'>*[EventData[Data[@Name='Number']=50]]</Suppress>"
    );
    let of_channel =
        "<Select Path='test/operational'>*[EventData[Data[@Name='Number']=77]]</Select>";
    let (_, output) = path(&folder, "out.evtx");
    for (selects, expected) in [
        (of_first.clone(), vec![1, 2]),
        (format!("{of_first}{of_second}"), vec![1, 2, 40, 60]),
        (format!("{of_first}{of_channel}"), vec![1, 2, 77]),
        (of_channel.to_owned(), vec![77]),
    ] {
        let list = list(&selects);
        let found = etw(&["log", "query", "--json", &other_name, &list]);
        assert_eq!(numbers(&found), expected, "{list}");
        let text = etw(&["log", "export", "--force", "-o", &output, &other_name, &list]);
        assert!(text.contains(&format!(": {} record", expected.len())), "{text}");
        assert_eq!(numbers(&etw(&["dump", "--json", &output])), expected, "{list}");
        let query = format!("/q:{list}");
        let xml = etw(&["wevtutil", "qe", &other_name, "/lf:true", &query]);
        assert_eq!(xml.lines().count(), expected.len(), "{xml}");
    }
    // A file that is not there is an error.
    let list = list("<Select Path='file:///no/such.evtx'>*</Select>");
    let (status, message) = etw_fails(&["log", "query", &other_name, &list]);
    assert!(status == 3 && message.contains("/no/such.evtx: "), "{status} {message}");
}

/// A log with one event of a provider with a manifest, and one whose message was stored with it by a forwarder.
pub fn log_with_messages(path: &Path) {
    let record = |id: &str, more: Option<Node>| {
        let text = |text: &str| vec![Node::text(text)];
        let provider = Guid::from_name("OpenEtw.Shop").to_string();
        let names = [("Name", "OpenEtw.Shop"), ("Guid", &*provider)];
        let system = vec![
            element("Provider", &names, vec![]),
            element("EventID", &[], text(id)),
            element("Version", &[], text("0")),
            element("Level", &[], text("4")),
            element("Task", &[], text("3")),
            element("Opcode", &[], text("0")),
            element("Keywords", &[], text("0x10")),
            element("Channel", &[], text("Shop/Operational")),
        ];
        let data = element("Data", &[("Name", "Item")], text("tea"));
        let mut event = vec![element("System", &[], system), element("EventData", &[], vec![data])];
        event.extend(more);
        let template =
            Arc::new(Template::new(Guid::from_name(id), vec![element("Event", &[], event)]));
        Fragment::Instance(Instance { template, arguments: [].into(), has_header: true })
    };
    let stored = vec![Node::Text("Stored with the record.".into())];
    let rendering = element("RenderingInfo", &[], vec![element("Message", &[], stored)]);
    let mut writer = LogWriter::open(path, 1 << 20, Retention::Keep).unwrap();
    for (number, fragment) in [record("7", None), record("8", Some(rendering))].iter().enumerate() {
        writer.push(FileTime(133_000_000_000_000_000 + number as i64), fragment).unwrap();
    }
    writer.close().unwrap();
}

/// The manifest of the records of [`log_with_messages`].
pub fn manifest_with_messages() -> String {
    format!(
        "<m><provider name='OpenEtw.Shop' guid='{{{}}}'>\
         <keywords><keyword name='Sales' mask='0x10'/></keywords>\
         <tasks><task name='Selling' value='3'/></tasks>\
         <templates><template tid='T'><data name='Item' inType='win:UnicodeString'/></template></templates>\
         <events><event value='7' version='0' symbol='Sold' task='Selling' keywords='Sales' template='T' \
         message='$(string.sold)'/></events></provider>\
         <localization><resources culture='en-US'><stringTable><string id='sold' value='%1 was sold.'/>\
         </stringTable></resources></localization></m>",
        Guid::from_name("OpenEtw.Shop")
    )
}

/// OV-22: names and messages of a manifest, and messages that were stored with records.
#[test]
fn a_dump_of_an_event_log_has_the_names_and_messages_of_manifests_and_records() {
    let folder = scratch("event_log_messages");
    let (log_path, name) = path(&folder, "a.evtx");
    log_with_messages(&log_path);
    let manifest = folder.join("shop.man");
    let text = manifest_with_messages();
    std::fs::write(&manifest, text).unwrap();
    let manifest = manifest.to_str().unwrap();
    let dump = |arguments: &[&str]| -> Vec<serde_json::Value> {
        let all = [&["dump", "--json"], arguments, &[&name]].concat();
        etw(&all).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let messages = |events: &[serde_json::Value]| -> Vec<Option<String>> {
        events.iter().map(|event| event["message"].as_str().map(str::to_owned)).collect()
    };
    let stored = || Some("Stored with the record.".to_owned());
    assert_eq!(messages(&dump(&[])), [None, stored()]);
    let events = dump(&["--manifest", manifest]);
    assert_eq!(messages(&events), [Some("tea was sold.".to_owned()), stored()]);
    assert_eq!(events[0]["event"], "Selling");
    assert_eq!(events[0]["fields"]["Item"], "tea");
    let xml = etw(&["dump", "--format", "xml", "--manifest", manifest, &name]);
    for part in
        ["<Keyword>Sales</Keyword>", "<Task>Selling</Task>", "<Message>tea was sold.</Message>"]
    {
        assert!(xml.contains(part), "{part}: {xml}");
    }
}

/// OV-22: a filter that leaves out records before they are translated has the same output and notes as one that does not: a test of the
/// size needs every record.
#[test]
fn a_filter_by_header_has_the_output_and_the_notes_of_one_that_reads_every_record() {
    let folder = scratch("event_log_where");
    let (first, first_name) = path(&folder, "a.evtx");
    let (second, second_name) = path(&folder, "b.evtx");
    log(&first, 1..=1000);
    log(&second, 500..=1500);
    let mut bytes = std::fs::read(&second).unwrap();
    bytes[4096..4104].fill(0x5a);
    bytes[4096 + 0x200..4096 + 0x8000].fill(0x5a);
    std::fs::write(&second, bytes).unwrap();
    let notes = [
        ("level == 2", ""),
        ("level == 4 and Number > 900", ""),
        ("record_id in (1, 5, 7..9) or level == 2", ""),
        ("time >= \"2022-06-18T04:30:00Z\" and level <= 2", ""),
        ("level == 2 and Numer == 3", "no event has a field Numer; did you mean Number?"),
        ("level == 9 and Numer == 3", "no event has a field Numer; did you mean Number?"),
        ("provider == \"OpenEtw.Test\" and level == 2 and Number < 400", ""),
        ("not (provider_name like \"openetw.*\")", ""),
        ("provider == \"OpenEtw.Tset\"", "did you mean \"OpenEtw.Test\"?"),
        ("level == 9 and provider == \"OpenEtw.Tset\"", "did you mean \"OpenEtw.Test\"?"),
        ("level == 9", ""),
    ];
    for (filter, note) in notes {
        for more in [&[&*first_name][..], &[&second_name], &[&first_name, &second_name]] {
            for columns in [&["--json"][..], &["--columns", "level,Number,Txet"]] {
                let run = |filter: &str| {
                    let words = [&["dump", "--where", filter], columns, more].concat();
                    let output = fixture::etw(&words, &[]);
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    (output.status.code(), text, fixture::stderr(&output))
                };
                let selected = run(filter);
                assert_eq!(
                    selected,
                    run(&format!("({filter}) and size >= 0")),
                    "{filter} {more:?}"
                );
                assert!(selected.2.contains(note), "{filter}: {}", selected.2);
            }
        }
    }
}

/// OV-22: texts that Windows has itself for events of `ReportEvent`.
#[test]
fn wevtutil_prints_the_texts_of_classic_events() {
    let folder = scratch("event_log_classic");
    let (log_path, name) = path(&folder, "a.evtx");
    let mut writer = LogWriter::open(&log_path, 1 << 20, Retention::Keep).unwrap();
    // A classic event, one with a category, one of a provider with a manifest, and one without the keyword.
    let events = [
        ("0x80000000000000", "0", "", "None Info Classic"),
        ("0x80000000000000", "3", "", "N/A Info Classic"),
        ("0x80000000000000", "0", "{11111111-2222-3333-4444-555555555555}", "N/A N/A Classic"),
        ("0x0", "0", "", "N/A N/A N/A"),
    ];
    for (keywords, task, guid, _) in events {
        let text = |text: &str| vec![Node::text(text)];
        let mut names = vec![("Name", "OpenEtw.Shop")];
        names.extend((!guid.is_empty()).then_some(("Guid", guid)));
        let system = vec![
            element("Provider", &names, vec![]),
            element("EventID", &[], text("100")),
            element("Level", &[], text("4")),
            element("Task", &[], text(task)),
            element("Keywords", &[], text(keywords)),
        ];
        let system = element("System", &[], system);
        let id = Guid::from_name(&format!("{keywords}{task}{guid}"));
        let template = Arc::new(Template::new(id, vec![element("Event", &[], vec![system])]));
        let fragment =
            Fragment::Instance(Instance { template, arguments: [].into(), has_header: true });
        writer.push(FileTime(133_000_000_000_000_000), &fragment).unwrap();
    }
    writer.close().unwrap();
    let text = etw(&["wevtutil", "qe", &name, "/lf:true", "/f:text"]);
    let values = |key: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix(key));
        lines.map(str::to_owned).collect()
    };
    let (tasks, opcodes) = (values("Task: "), values("Opcode: "));
    for (number, keyword) in values("Keyword: ").iter().enumerate() {
        let shown = format!("{} {} {keyword}", tasks[number], opcodes[number]);
        assert_eq!(shown, events[number].3, "{text}");
    }
    assert_eq!(tasks.len(), events.len());
}

/// OV-22: `etw log tail` follows the archives of its log, and says which records it has missed.
#[test]
fn tail_follows_archives_and_names_records_that_are_missing() {
    let folder = scratch("event_log_tail");
    let (log_path, name) = path(&folder, "app.evtx");
    let _ = path(&folder, "Archive-app-2026-01-31-23-59-59-123.evtx");
    log(&log_path, 1..=10);
    let mut tail = Command::new(env!("CARGO_BIN_EXE_etw"));
    tail.args(["log", "tail", &name, "--from-start", "--json", "-n", "45"]);
    let mut tail = tail.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = |count: usize| -> Vec<u64> {
        let lines = lines.by_ref().take(count).map(|line| line.unwrap());
        let ids = lines.map(|line| {
            let record: serde_json::Value = serde_json::from_str(&line).unwrap();
            record["record_id"].as_u64().unwrap()
        });
        ids.collect()
    };
    assert_eq!(next(10), (1..=10).collect::<Vec<_>>());
    // The log becomes an archive with more records than were printed, and a new one begins behind it.
    let open = |path: &Path| LogWriter::open(path, 4096 + 65536, Retention::Keep).unwrap();
    let mut archive = open(&folder.join("Archive-app-2026-01-31-23-59-59-123.evtx"));
    append(&mut archive, 1..=25);
    for name in ["second", "skipped", "third"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let begin = |name: &str, before: &LogWriter| {
        LogWriter::create_after(folder.join(name), before).unwrap()
    };
    let mut second = begin("second", &archive);
    append(&mut second, 26..=30);
    archive.close().unwrap();
    second.sync().unwrap();
    std::fs::rename(folder.join("second"), &log_path).unwrap();
    assert_eq!(next(20), (11..=30).collect::<Vec<_>>());
    // Records 31 to 45 are nowhere.
    let mut skipped = begin("skipped", &second);
    append(&mut skipped, 31..=45);
    let mut third = begin("third", &skipped);
    append(&mut third, 46..=60);
    third.close().unwrap();
    std::fs::rename(folder.join("third"), &log_path).unwrap();
    assert_eq!(next(15), (46..=60).collect::<Vec<_>>());
    let output = tail.wait_with_output().unwrap();
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notes}");
    assert_eq!(notes.matches("missing").count(), 1, "{notes}");
    assert!(notes.contains("records 31 to 45 are missing"), "{notes}");
}
