//! Output formats with hostile values.

use crate::fixture::{TempFile, every_header, json_lines, push_event, push_tracelogging, stdout};
use etw_etl::write::FileBuilder;
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder};
use etw_types::{EventRecord, HeaderType};
use quick_xml::events::Event;
use serde_json::json;

const HOSTILE: &str = "a\"b,c\n<d>&\u{1b}[31m\u{9b}31m\u{7f}é";

fn hostile() -> TempFile {
    let mut file = FileBuilder::new();
    push_tracelogging(&mut file, 0, 1, HOSTILE);
    TempFile::new(&file.finish())
}

/// TC-3: JSON shows a custom field as one value with protocol, schema and data.
#[test]
fn json_has_each_value_in_its_type() {
    let file = hostile();
    let lines = json_lines(&stdout(&["dump", "--format", "json"], &[file.path()], 0));
    assert_eq!(lines[1]["decoded"], "tracelogging");
    assert_eq!(lines[1]["provider_name"], "Test.Provider");
    assert_eq!(lines[1]["provider_group"], "00000000-0000-0000-0000-000000000007");
    assert_eq!(
        lines[1]["fields"],
        json!({
            "text": HOSTILE,
            "number": u64::MAX,
            "blob": {"protocol": 5, "schema": "000102", "data": "aabb"},
        })
    );
}

#[test]
fn text_keeps_to_its_line_and_leaves_the_terminal_alone() {
    let file = hostile();
    let text = stdout(&["dump"], &[file.path()], 0);
    assert_eq!(text.lines().count(), 2);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    let line = text.lines().nth(1).unwrap();
    assert!(line.starts_with("2026-01-02T03:04:05.0000001Z [0] 10.20 Test.Provider/Greeting"));
    assert!(line.contains(r#"text="a\"b,c\n<d>&\u001b[31m"#), "{line}");
    assert!(line.contains("number=18446744073709551615"), "{line}");
    assert!(line.ends_with("blob=protocol 5 schema 000102 data aabb"), "{line}");
}

#[test]
fn csv_parses_and_has_tracerpts_columns() {
    let file = hostile();
    let text = stdout(&["dump", "--format", "csv"], &[file.path()], 0);
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0].len(), 20);
    assert_eq!(
        (&rows[0][0], &rows[0][16], &rows[0][19]),
        ("Event Name", "Clock-Time", "User Data")
    );
    assert_eq!((&rows[1][0], &rows[1][1]), ("EventTrace", "Header"));
    let event: Vec<&str> = rows[2].iter().collect();
    assert_eq!(event[..2], ["Test.Provider", "Greeting"]);
    assert_eq!(event[9..12], ["10", "20", "0"]);
    assert_eq!(event[19], HOSTILE);
    assert_eq!(event[20..], ["18446744073709551615", "protocol 5 schema 000102 data aabb"]);
}

/// TC-3: XML shows the length of a custom field and its bytes.
#[test]
fn xml_parses_and_has_tracerpts_elements() {
    let file = hostile();
    let other = TempFile::new(&every_header());
    let text = stdout(&["dump", "--format", "xml"], &[file.path(), other.path()], 0);
    let mut reader = quick_xml::Reader::from_str(&text);
    reader.config_mut().check_end_names = true;
    let mut data = Vec::new();
    let mut name = None;
    let mut events = 0;
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => break,
            Event::Start(element) if element.name().as_ref() == b"Event" => events += 1,
            Event::Start(element) if element.name().as_ref() == b"Data" => {
                let attribute = element.try_get_attribute("Name").unwrap().unwrap();
                name = Some(String::from_utf8(attribute.value.into_owned()).unwrap());
                data.push((name.clone().unwrap(), String::new()));
            }
            Event::Text(text) if name.is_some() => {
                data.last_mut().unwrap().1.push_str(&text.decode().unwrap());
            }
            Event::GeneralRef(reference) if name.is_some() => {
                let resolved = match reference.resolve_char_ref().unwrap() {
                    Some(c) => c.to_string(),
                    None => {
                        let entity = reference.decode().unwrap();
                        quick_xml::escape::resolve_predefined_entity(&entity).unwrap().to_string()
                    }
                };
                data.last_mut().unwrap().1.push_str(&resolved);
            }
            Event::End(element) if element.name().as_ref() == b"Data" => name = None,
            _ => {}
        }
    }
    assert_eq!(events, 2 + 16);
    let value = |name: &str| &data.iter().find(|(key, _)| key == name).unwrap().1;
    // XML cannot hold ESC; the rest comes back as it was.
    assert_eq!(*value("text"), HOSTILE.replace('\u{1b}', "\u{fffd}"));
    assert_eq!(value("blob.Length"), "2");
    assert_eq!(value("blob"), "aabb");
    for part in
        ["<TimeCreated SystemTime=", "<Execution ProcessID=", "<BinaryEventData>", "<DebugData>"]
    {
        assert!(text.contains(part), "{part}");
    }
}

/// Brackets and nothing at all as values, arrays without elements, an array that is not to be printed.
#[test]
fn separators_do_not_depend_on_values() {
    let strings = |name| (name, InType::ANSISTRING, OutType::NULL);
    let mut metadata = MetadataBuilder::new("Lists", 0);
    for (name, in_type, out_type) in [
        strings("brackets"),
        ("letters", InType::UINT8, OutType::STRING),
        strings("blanks"),
        ("hidden", InType::UINT8, OutType::NOPRINT),
    ] {
        metadata = metadata.field(name, in_type, out_type, Count::Variable, 0);
    }
    let metadata = metadata
        .structure("pairs", 1, Count::Variable, 0)
        .field("x", InType::UINT8, OutType::NULL, Count::Scalar, 0)
        .finish()
        .unwrap();
    let payload = PayloadBuilder::new()
        .count(2)
        .ansi_z(b"[")
        .ansi_z(b"{")
        .count(2)
        .u8(b'{')
        .u8(b'[')
        .count(2)
        .ansi_z(b"")
        .ansi_z(b"")
        .count(1)
        .u8(1)
        .count(0)
        .finish()
        .unwrap();
    let mut file = FileBuilder::new();
    push_event(&mut file, 0, 1, &metadata, &payload);
    let file = TempFile::new(&file.finish());
    let last_line = |format: &str| {
        let text = stdout(&["dump", "--format", format], &[file.path()], 0);
        text.trim_end_matches("</Events>\n").lines().last().unwrap().to_owned()
    };

    let text = last_line("text");
    let expected = r#" brackets=["[" "{"] letters=["{" "["] blanks=["" ""] pairs=[]"#;
    assert!(text.ends_with(expected), "{text}");
    let csv = last_line("csv");
    assert!(csv.ends_with(r#","[[, {]","[{, []","[, ]","[1]","[]""#), "{csv}");
    let xml = last_line("xml");
    let expected = concat!(
        r#"<Data Name="blanks">, </Data><Data Name="hidden">1</Data>"#,
        r#"<ComplexData Name="pairs"/></EventData>"#
    );
    assert!(xml.contains(expected), "{xml}");
}

/// Names of providers, events and fields are as hostile as values, and may be no Unicode.
#[test]
fn hostile_names_break_no_format() {
    let name = "n\"a,m\t\n\r<e>&'\u{1b}[2J\u{9b}\u{202e}\u{2028}\u{fffe}=[{ é";
    let mut file = FileBuilder::new();
    let metadata = MetadataBuilder::new(name, 0)
        .field(name, InType::UNICODESTRING, OutType::NULL, Count::Scalar, 0)
        .field(name, InType::UINT64, OutType::NULL, Count::Scalar, 0)
        .structure(name, 1, Count::Scalar, 0)
        .field("BADNAME", InType::INT64, OutType::NULL, Count::Variable, 0)
        .finish()
        .unwrap();
    let payload = PayloadBuilder::new()
        .utf16_z([0xd800, 0x41, 0xdc00, 0xdfff])
        .u64(u64::MAX)
        .count(2)
        .i64(i64::MIN)
        .i64(i64::MAX);
    let payload = payload.finish().unwrap();
    let at = metadata.windows(7).position(|bytes| bytes == b"BADNAME").unwrap();
    let mut broken = metadata.clone();
    broken[at..at + 7].copy_from_slice(b"\xff\xc3\x28\xed\xa0\x80\xfe");
    push_event(&mut file, 0, 1, &metadata, &payload);
    push_event(&mut file, 0, 2, &broken, &payload);
    let file = TempFile::new(&file.finish());
    let dump = |format: &str| stdout(&["dump", "--format", format], &[file.path()], 0);

    let lines = json_lines(&dump("json"));
    assert_eq!((lines.len(), &lines[1]["event"]), (3, &json!(name)));
    let fields = &lines[1]["fields"];
    assert_eq!(fields[name], "\u{fffd}A\u{fffd}\u{fffd}");
    assert_eq!(fields[&format!("{name}#2")], u64::MAX);
    assert_eq!(fields[&format!("{name}#3")]["BADNAME"], json!([i64::MIN, i64::MAX]));
    assert_eq!(lines[2]["fields"].as_object().unwrap().len(), 3);

    let is_unsafe = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{2028}".contains(c);
    for words in [&["dump"][..], &["dump", "--raw"], &["dump", "--columns", "event,provider"]] {
        let text = stdout(words, &[file.path()], 0);
        let is_table = words.len() > 2;
        assert_eq!(text.lines().count(), 3 + usize::from(is_table), "{text}");
        assert_eq!(text.matches('\t').count(), if is_table { 4 } else { 0 }, "{text}");
        assert!(!text.replace('\t', "").contains(is_unsafe), "{text:?}");
    }
    for by in ["event", "provider", "process", "event,provider", "activity"] {
        let text = stdout(&["stat", "--by", by], &[file.path()], 0);
        assert!(!text.contains(is_unsafe), "{text:?}");
        json_lines(&stdout(&["stat", "--by", by, "--json"], &[file.path()], 0));
    }
    for words in [&["--format", "csv"][..], &["--format", "csv", "--columns", "event,pid"]] {
        let csv = stdout(&[&["dump"], words].concat(), &[file.path()], 0);
        let mut reader = csv::ReaderBuilder::new();
        let mut reader = reader.has_headers(false).flexible(true).from_reader(csv.as_bytes());
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 4, "{csv}");
        assert!(rows[2].iter().any(|cell| cell == name), "{csv}");
    }
    let xml = dump("xml");
    let mut reader = quick_xml::Reader::from_str(&xml);
    reader.config_mut().check_end_names = true;
    while reader.read_event().unwrap() != Event::Eof {}
    let is_held = |c: char| !matches!(c, '\0'..='\x08' | '\x0b'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    assert!(xml.chars().all(is_held), "XML 1.0 cannot hold this: {xml:?}");
}

/// The message is made of the fields, and is as hostile as they are.
#[test]
fn messages_in_text_keep_to_their_line_and_leave_the_terminal_alone() {
    let manifest = r#"<m><provider name="P" guid="{00000000-0000-0000-0000-000000000001}">
 <templates><template tid="T"><data name="text" inType="win:UnicodeString"/></template></templates>
 <events><event value="1" template="T" message="says %1"/><event value="2" message="a&#x9b;b&#x202e;"/></events>
 </provider></m>"#;
    let folder = std::env::temp_dir().join(format!("etw-cli-messages-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("p.man");
    std::fs::write(&path, manifest).unwrap();
    let mut file = FileBuilder::new();
    let payload: Vec<u8> =
        format!("{HOSTILE}\u{202e}\0").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (id, payload) in [(1, &payload[..]), (2, &[])] {
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        record.provider = "00000000-0000-0000-0000-000000000001".parse().ok();
        record.descriptor.id = id;
        record.order_time = file.header.start_raw + i64::from(id);
        file.push(0, &record).unwrap();
    }
    let file = TempFile::new(&file.finish());
    let text = stdout(&["dump", "--manifest", path.to_str().unwrap()], &[file.path()], 0);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    let is_unsafe = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(!text.contains(is_unsafe), "{text:?}");
    let escaped = r#"a\"b,c\n<d>&\u001b[31m\u009b31m\u007fé\u202e""#;
    assert!(text.contains(&format!("text=\"{escaped} message=\"says {escaped}")), "{text}");
    assert!(text.contains(r#"message="a\u009bb\u202e""#), "{text}");
}
