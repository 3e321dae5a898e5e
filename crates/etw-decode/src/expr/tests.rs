//! Expressions on a record; errors and where they point.

use super::*;
use crate::{Catalog, Decoder};
use etw_types::{Guid, HeaderType, Level};
use std::sync::Arc;

const MANIFEST: &str = r#"<m><provider name="Maker" guid="{11111111-2222-3333-4444-555555555555}">
 <maps><valueMap name="V"><map value="3" message="three"/></valueMap></maps>
 <templates><template tid="T"><data name="n" inType="win:Int32"/><data name="Text" inType="win:UnicodeString"/>
  <data name="list" inType="win:UInt8" count="3"/><data name="f" inType="win:Double"/><data name="m" inType="win:UInt8" map="V"/>
  <struct name="s"><data name="inner" inType="win:UInt16" outType="win:HexInt16"/></struct>
  <data name="odd name" inType="win:Boolean"/><data name="pid" inType="win:UInt32"/>
  <data name="result" inType="win:UInt32"/></template></templates>
 <tasks><task name="Job" value="1"/></tasks>
 <events><event value="7" template="T" task="Job" message="n is %1"/></events></provider></m>"#;

fn payload() -> Vec<u8> {
    [
        &(-5i32).to_le_bytes()[..],
        b"H\0e\0y\0\0\0",
        &[1, 2, 9],
        &1.5f64.to_le_bytes(),
        &[3],
        &0xab_u16.to_le_bytes(),
        &1u32.to_le_bytes(),
        &99u32.to_le_bytes(),
        &(-2i32).to_le_bytes(),
    ]
    .concat()
}

fn time(text: &str) -> Result<FileTime, String> {
    text.trim_start_matches('+').parse().map(FileTime).map_err(|_| "no time".to_owned())
}

fn parse(text: &str) -> Result<Expr, ExprError> {
    Expr::parse(text, time)
}

fn matches(text: &str) -> bool {
    let expr = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut catalog = Catalog::default();
    catalog.add_manifest(MANIFEST.as_bytes()).unwrap();
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let payload = payload();
    let mut record = EventRecord::new(HeaderType::Event64, &payload);
    record.provider = "11111111-2222-3333-4444-555555555555".parse().ok();
    record.process_id = Some(4);
    record.cpu = 2;
    record.descriptor.id = 7;
    record.descriptor.level = Level::WARNING;
    record.descriptor.keyword.0 = 0x8000_0000_0000_0010;
    record.activity_id = Guid::from_u128(5);
    let decoded = decoder.decode(&record);
    expr.matches(&record, &decoded, Some(FileTime(1000)), &Style::default())
}

#[test]
fn tests_that_hold() {
    for text in [
        "pid == 4",
        "PID in (1, 3..5) and cpu != 0",
        "pid in 4..4",
        "tid == 4 or not tid == 4",
        "level <= warning && level > error",
        "level == 3",
        "keyword & 0x10 and keyword & 0x8000000000000000",
        "provider == Maker",
        "provider == \"Maker\" and provider != 'Other'",
        "provider == 11111111-2222-3333-4444-555555555555",
        "provider == {11111111-2222-3333-4444-555555555555}",
        "provider == '11111111-2222-3333-4444-555555555555'",
        "provider != *Maker",
        "provider like 'ma*' and event like \"J?b\"",
        "event == \"Job\" and decoded == manifest and header == EVENT64",
        "message ~ '^n is -5$'",
        "time >= 1000 and time < +1001 and time in 5..2000",
        "activity_id == 00000000-0000-0000-0000-000000000005 and not related_activity_id",
        "n == -5 and n < 0 and n in (-9..-1)",
        "result == -2 and result == 4294967294 and result != -3 and result & 0x80000000",
        "result in (-4095..-1) and result in (-2) and result >= -4095 and result > 0",
        "not (result == -4294967298 or result in (-1) or result < -2)",
        "text == \"Hey\" and TEXT like 'h*' and Text ~ \"e.$\"",
        "list == 9 and list == 1 and not (list == 3)",
        "f > 1 and f == 1.5",
        "m == 3 and m == 'three' and m like 'THR*'",
        "s.inner == 0xab and inner & 1 and fields.s.inner == 171",
        "`odd name` and `odd name` == true",
        "fields.pid == 99",
        "size > 30 and version == 0 and id = 7",
        "!(nothing == 1) and not nothing and not nothing != 1",
    ] {
        assert!(matches(text), "{text}");
    }
}

#[test]
fn tests_that_do_not_hold() {
    for text in [
        "pid != 4",
        "pid == 4 and pid == 5",
        "level < warning",
        "keyword & 0x20",
        "provider == Other",
        "provider != Maker",
        "n > 0",
        "text == 'hey'",
        "other.inner == 0xab",
        "nothing",
        "time < 1000",
        "message like '*six*'",
        "id in (1, 2, 8..9)",
    ] {
        assert!(!matches(text), "{text}");
    }
}

#[test]
fn errors_point_at_the_character() {
    for (text, at, what) in [
        ("", 0, "a name was expected"),
        ("pid ==", 6, "a value was expected"),
        ("pid == 'x'", 7, "this is a number"),
        ("pid like 'x'", 4, "this is a number"),
        ("event == 5", 9, "this is a text"),
        ("level == loud", 9, "is not a level"),
        ("text == unquoted", 8, "quotes"),
        ("(pid == 4", 9, "`)` was expected"),
        ("pid == 4 pid", 9, "an operator or the end"),
        ("text ~ '('", 7, "regular expression"),
        ("text == 'a", 8, "without its end"),
        ("time > 'noon'", 7, "no time"),
        ("pid in (1, 2", 12, "`,` or `)`"),
        ("event & 1", 6, "bits of a number"),
        ("a..b", 1, "an operator"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.at == at && error.what.contains(what), "{text}: {error:?}");
    }
    let deep = format!("{}pid{}", "(".repeat(5000), ")".repeat(5000));
    assert!(parse(&deep).unwrap_err().what.contains("deeply"));
    assert!(parse(&"!".repeat(5000)).is_err());
}

/// Tests of the header need no schema; others do.
#[test]
fn tests_of_headers_need_no_schema() {
    let record = EventRecord::new(HeaderType::Event64, &[]);
    for (text, expected) in [
        ("pid == 4", Some(false)),
        ("cpu == 0", Some(true)),
        ("cpu == 1 and field == 1", Some(false)),
        ("cpu == 0 or field == 1", Some(true)),
        ("cpu == 0 and field == 1", None),
        ("not (cpu == 1 and field == 1)", Some(true)),
        ("provider == Maker", None),
    ] {
        assert_eq!(parse(text).unwrap().by_header(&record, None), expected, "{text}");
    }
}

/// Any bytes give an expression or an error.
#[test]
fn malicious_cut_and_changed_expressions_give_an_error() {
    let text = "provider like \"ma*\" and (n in (1, 2..3) or `a b` ~ 'x\\'y') && !time > +1.5s || keyword & 0x10";
    for from in 0..text.len() {
        for end in from..text.len() {
            let _ = parse(&text[from..end]);
        }
    }
}

/// Some commands look for the owner of a record, and find none: a filter selects the same records in all of them.
#[test]
fn an_id_that_stands_for_none_is_compared_with_and_without_owners() {
    let mut stored = EventRecord::new(HeaderType::Event64, &[]);
    (stored.process_id, stored.thread_id) = (Some(4), Some(u32::MAX));
    let mut record = stored;
    record.thread_id = None;
    let joined = Owned { record: &record, ..Owned::stored(&stored) };
    for (text, expected) in [
        ("tid == 4294967295", true),
        ("tid != 5", true),
        ("pid == 4 and not (tid == 5)", true),
        ("tid in (0..10)", false),
        ("process == 4", true),
    ] {
        let expr = parse(text).unwrap();
        let found = [joined, Owned::stored(&stored)].map(|owned| expr.by_owned_header(owned, None));
        assert_eq!(found, [Some(expected); 2], "{text}");
    }
}

#[test]
fn header_pid_is_the_stored_id_where_pid_is_the_owners() {
    let mut stored = EventRecord::new(HeaderType::PerfInfo64, &[]);
    (stored.process_id, stored.thread_id) = (Some(4), Some(8));
    let mut record = stored;
    (record.process_id, record.thread_id) = (Some(10), Some(20));
    let owned = |text: &str| {
        let stored = Owned::stored(&stored);
        let owned = Owned { record: &record, process_name: Some("shop"), ..stored };
        parse(text).unwrap().by_owned_header(owned, None)
    };
    assert_eq!(owned("pid == 10 and tid == 20"), Some(true));
    assert_eq!(owned("header.pid == 4 and Header.TID in (8..9)"), Some(true));
    assert_eq!(owned("header.pid == 10"), Some(false));
    assert_eq!(owned("process == 10 and process == \"shop\" and process like \"SH*\""), Some(true));
    assert_eq!(owned("process == 4 or process == \"other\""), Some(false));
    assert_eq!(parse("process == 4").unwrap().by_header(&stored, None), Some(true));
    assert_eq!(parse("process == \"shop\"").unwrap().by_header(&stored, None), Some(false));
    let plain = parse("header.pid == pid").map(|_| ());
    assert!(plain.is_err(), "a name is not a value");
    assert_eq!(parse("header.pid == 4").unwrap().by_header(&stored, None), Some(true));
    assert!(
        parse("header.pid == 4 or fields.header.pid == 1").unwrap().names().missing_fields.len()
            == 1
    );
}

#[test]
fn file_is_that_of_the_event_where_it_is_known_and_else_a_field() {
    let record = EventRecord::new(HeaderType::PerfInfo64, &[]);
    let mut decoder = Decoder::new();
    let decoded = decoder.decode(&record);
    let matches = |text: &str, file| {
        let expr = parse(text).unwrap();
        let owned = Owned { file, ..Owned::stored(&record) };
        let is_match = expr.matches_owned(owned, &decoded, None, &Style::default());
        (is_match, expr.tests_file(), expr.names().missing_fields.len())
    };
    let known = Some("/tmp/srv.log");
    assert_eq!(
        matches("file like '*.LOG' and FILE_NAME == '/tmp/srv.log'", known),
        (true, true, 0)
    );
    assert_eq!(matches("file == 'x'", known), (false, true, 0));
    assert_eq!(matches("file", None), (false, true, 1));
    assert_eq!(matches("fields.file like '*'", known), (false, false, 1));
}
