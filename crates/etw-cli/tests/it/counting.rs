//! `etw stat --by COLUMNS --sum FIELD --percentiles` and `--by activity`.

use crate::fixture::{PROVIDER, TempFile, etw, greetings, json_lines, push_event, stderr, stdout};
use etw_etl::write::FileBuilder;
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, Guid, HeaderType, Opcode};
use serde_json::json;

/// `Transfer` events: file a has 1 to 10 bytes, file b 100 each.
fn transfers() -> TempFile {
    let mut file = FileBuilder::new();
    let metadata = MetadataBuilder::new("Transfer", 0)
        .field("Name", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
        .field("Bytes", InType::UINT64, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    for number in 1..=10 {
        for (name, bytes) in [("a", number), ("b", 100)] {
            let payload = PayloadBuilder::new().counted_ansi(name.as_bytes()).u64(bytes).finish();
            push_event(
                &mut file,
                (number % 2) as u16,
                number as i64 * 10,
                &metadata,
                &payload.unwrap(),
            );
        }
    }
    TempFile::new(&file.finish())
}

#[test]
fn records_are_grouped_summed_and_ranked_by_columns() {
    let file = transfers();
    let words = ["stat", "--where", "event == Transfer", "--by", "process,Name", "--sum", "Bytes"];
    let words: Vec<&str> = words
        .iter()
        .map(|w| if *w == "event == Transfer" { "event == \"Transfer\"" } else { w })
        .collect();
    let stat = |more: &[&str]| stdout(&[&words[..], more].concat(), &[file.path()], 0);
    let text = stat(&["--percentiles"]);
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1].join(" "), "20 records in 2 groups");
    assert_eq!(lines[3].join(" "), "records sum of Bytes p50 p90 p99 max process Name");
    assert_eq!(lines[4], ["10", "1000", "100", "100", "100", "100", "10", "b"]);
    assert_eq!(lines[5], ["10", "55", "5", "9", "10", "10", "10", "a"]);
    let row = json_lines(&stat(&["--percentiles", "--top", "1", "--json"])).remove(0);
    assert_eq!(
        row["groups"],
        json!([{"by": {"process": 10, "Name": "b"}, "count": 10, "values": 10, "sum": 1000,
                "min": 100.0, "p50": 100.0, "p90": 100.0, "p99": 100.0, "max": 100.0}])
    );
    assert_eq!((&row["records"], &row["others"]), (&json!(20), &json!(10)));
}

#[test]
fn a_column_that_no_record_has_gets_a_note() {
    let file = transfers();
    let notes = |words: &[&str]| stderr(&etw(words, &[file.path()]));
    let text = notes(&["stat", "--by", "nmae"]);
    assert!(
        text.contains("--by: none of the records has a field nmae; did you mean Name?"),
        "{text}"
    );
    let text = notes(&["stat", "--by", "event", "--sum", "Byte"]);
    assert!(
        text.contains("--sum: none of the records has a field Byte; did you mean Bytes?"),
        "{text}"
    );
    let text = notes(&["stat", "--by", "event", "--sum", "Name"]);
    assert!(text.contains("--sum: Name has texts and no numbers"), "{text}");
    let text = notes(&["dump", "--fields", "Bytse"]);
    assert!(
        text.contains("--fields: none of the records has a field Bytse; did you mean Bytes?"),
        "{text}"
    );
    let text = notes(&["dump", "--columns", "tiem,Name", "--threads", "2"]);
    assert!(
        text.contains("--columns: none of the records has a field tiem; did you mean time?"),
        "{text}"
    );
    for words in
        [&["dump", "--columns", "time,name"][..], &["stat", "--by", "Name", "--sum", "bytes"]]
    {
        assert_eq!(notes(words), "", "{words:?}");
    }
}

#[test]
fn processors_are_a_column() {
    let file = transfers();
    let words = ["stat", "--by", "cpu", "--where", "event == \"Transfer\"", "--json"];
    let row = json_lines(&stdout(&words, &[file.path()], 0)).remove(0);
    let counts: Vec<_> = row["groups"].as_array().unwrap().iter().map(|g| &g["count"]).collect();
    assert_eq!(counts, [&json!(10), &json!(10)]);
    let output = etw(&["stat", "--by", "cpu", "--percentiles"], &[file.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--percentiles needs values"), "{}", stderr(&output));
}

/// An activity's start or stop; `related`: its parent.
fn push_activity(
    file: &mut FileBuilder,
    after: i64,
    opcode: Opcode,
    id: u128,
    related: u128,
    name: &str,
) {
    let metadata = MetadataBuilder::new(name, 0)
        .field("Url", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
        .finish()
        .unwrap();
    let payload = PayloadBuilder::new().counted_ansi(format!("/{id}").as_bytes()).finish().unwrap();
    let traits = etw_tracelogging::provider_traits("Test.Provider", None).unwrap();
    let parent = Guid::from_u128(related);
    let mut items =
        vec![(ExtType::PROV_TRAITS, &traits[..]), (ExtType::EVENT_SCHEMA_TL, &metadata)];
    if related != 0 {
        items.push((ExtType::RELATED_ACTIVITYID, &parent.0[..]));
    }
    let items = ExtendedItemsBuf::from_items(&items).unwrap();
    let mut record = EventRecord::new(HeaderType::Event64, &payload);
    record.provider = Some(PROVIDER);
    record.descriptor.channel.0 = 11;
    record.descriptor.opcode = opcode;
    record.activity_id = Guid::from_u128(id);
    record.extended = items.as_items();
    record.order_time = file.header.start_raw + after;
    file.push(0, &record).unwrap();
}

#[test]
fn activities_have_names_durations_and_a_tree() {
    let mut file = FileBuilder::new();
    let second = 10_000_000;
    for (after, opcode, id, related, name) in [
        (0, Opcode::START, 1, 0, "Request"),
        (second / 10, Opcode::START, 2, 1, "Query"),
        (second / 5, Opcode::STOP, 2, 0, "Query"),
        (second / 2, Opcode::START, 3, 1, "Query"),
        (second * 9 / 10, Opcode::STOP, 3, 0, "Query"),
        (second, Opcode::STOP, 1, 0, "Request"),
        // Two that name each other as parents have no root, and no end.
        (second * 2, Opcode::START, 8, 9, "Circle"),
        (second * 2, Opcode::START, 9, 8, "Circle"),
    ] {
        push_activity(&mut file, after, opcode, id, related, name);
    }
    let file = TempFile::new(&file.finish());
    let text = stdout(&["stat", "--by", "activity"], &[file.path()], 0);
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1].join(" "), "5 activities");
    assert_eq!(lines[4], ["1", "1.000000", "1.000000", "1.000000", "1.000000", "Request"]);
    assert_eq!(lines[5], ["2", "0.100000", "0.400000", "0.400000", "0.500000", "Query"]);
    let tree = |line: &str| text.lines().find(|text| text.contains(line)).unwrap().to_owned();
    let (root, child) = (tree("Url=/1"), tree("Url=/3"));
    assert!(root.contains("  1.000000        2  Request 00000000-"), "{root}");
    assert!(child.contains("  0.400000        2    Query 00000000-"), "{child}");
    let row =
        json_lines(&stdout(&["stat", "--by", "activity", "--json"], &[file.path()], 0)).remove(0);
    assert!(tree("Url=/8").contains("  Circle 0000") && tree("Url=/9").contains("    Circle 0000"));
    let top = ["stat", "--by", "activity", "--json", "--top", "1"];
    let top = json_lines(&stdout(&top, &[file.path()], 0)).remove(0);
    assert_eq!(top["names"].as_array().unwrap().len(), 1, "{top}");
    let names: Vec<_> = top["activities"].as_array().unwrap().iter().map(|a| &a["name"]).collect();
    assert_eq!(names, ["Request", "Query", "Query"]);
    assert_eq!((&top["further_trees"], &row["further_trees"]), (&json!(1), &json!(0)));
    let text = stdout(&["stat", "--by", "activity", "--top", "1"], &[file.path()], 0);
    assert!(text.ends_with("  1 further tree; --top N shows more\n"), "{text}");
    assert_eq!(row["names"][1]["p99"], 0.4);
    let query = &row["activities"][1];
    assert_eq!(query["parent"], Guid::from_u128(1).to_string());
    assert_eq!((&query["name"], &query["fields"]), (&json!("Query"), &json!({"Url": "/2"})));
    let cut = etw(&["stat", "--by", "activity", "--where", "opcode == 1"], &[file.path()]);
    assert!(stderr(&cut).contains("from its first to its last selected record"), "{cut:?}");
}

/// `thread`, `module` and `function` are rows of a profile, and no columns.
#[test]
fn rows_of_a_profile_are_not_combined() {
    let file = TempFile::new(&greetings(3));
    for words in [
        &["--by", "process,function"][..],
        &["--by", "thread,module"],
        &["--by", "Function", "--sum", "count"],
        &["--by", "module", "--sum", "count", "--percentiles"],
    ] {
        let output = etw(&[&["stat"], words].concat(), &[file.path()]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("shows CPU time and waits, alone and without --sum"), "{text}");
    }
    let text = stdout(&["stat", "--by", "event,fields.thread"], &[file.path()], 0);
    assert!(text.contains("Greeting"), "{text}");
}
