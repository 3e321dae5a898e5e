//! Queries on records with known values.

use std::sync::Arc;

use etw_evtx::chunk::{Chunk, Options};
use etw_evtx::query::{Query, QueryList};
use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::ChunkWriter;
use etw_types::{FileTime, Guid};

/// 2017-07-12T17:16:28.2141616Z
const TIME: i64 = 131_443_533_882_141_616;

/// A chunk with one event: a `System` with typed values, three named and three unnamed data.
fn chunk() -> Chunk {
    let guid = Guid::from_u128(0x54849625_5478_4994_a5ba_3e3b0328c30d);
    let text = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let values: Vec<(ValueType, Vec<u8>)> = vec![
        (ValueType::UINT16, 4625u16.to_le_bytes().to_vec()),
        (ValueType::UINT8, vec![2]),
        (ValueType::HEX64, 0x8010_0000_0000_0000u64.to_le_bytes().to_vec()),
        (ValueType::FILETIME, TIME.to_le_bytes().to_vec()),
        (ValueType::GUID, guid.0.to_vec()),
        (ValueType::STRING, text("y.exe")),
        (ValueType::BOOL, 1u32.to_le_bytes().to_vec()),
        (ValueType::INT32, (-5i32).to_le_bytes().to_vec()),
        (ValueType(0x81), text("one\0two\0\0three\0")),
        (ValueType::UINT64, 77u64.to_le_bytes().to_vec()),
    ];
    let named = |name: &str, index| {
        let value_type = values[usize::from(index)].0;
        Node::element(
            "Data",
            vec![("Name", Node::text(name))],
            vec![Node::value(index, value_type)],
        )
    };
    let system = vec![
        Node::element(
            "Provider",
            vec![("Name", Node::text("Shop")), ("Guid", Node::value(4, ValueType::GUID))],
            Vec::new(),
        ),
        Node::element("EventID", Vec::new(), vec![Node::value(0, ValueType::UINT16)]),
        Node::element("Level", Vec::new(), vec![Node::value(1, ValueType::UINT8)]),
        Node::element("Keywords", Vec::new(), vec![Node::value(2, ValueType::HEX64)]),
        Node::element(
            "TimeCreated",
            vec![("SystemTime", Node::value(3, ValueType::FILETIME))],
            Vec::new(),
        ),
        Node::element("EventRecordID", Vec::new(), vec![Node::value(9, ValueType::UINT64)]),
    ];
    let data = vec![
        named("AppName", 5),
        named("Signed", 6),
        named("Delta", 7),
        Node::element("Data", Vec::new(), vec![Node::value(8, ValueType(0x81))]),
    ];
    let event = Node::element(
        "Event",
        Vec::new(),
        vec![
            Node::element("System", Vec::new(), system),
            Node::element("EventData", Vec::new(), data),
        ],
    );
    let template = Arc::new(Template::new(Guid::from_name("query"), vec![event]));
    let arguments = values
        .iter()
        .map(|(value_type, bytes)| Argument::Value(Value { value_type: *value_type, bytes }));
    let instance = Instance { template, arguments: arguments.collect(), has_header: true };
    let mut writer = ChunkWriter::new();
    assert!(writer.push(77, FileTime(TIME), &Fragment::Instance(instance)).unwrap());
    Chunk::new(writer.to_bytes(), 0, Options::default())
}

#[test]
fn queries_compare_values_by_their_types() {
    let mut chunk = chunk();
    let record = chunk.next().unwrap();
    // A day after the event.
    let now = FileTime(TIME + 864_000_000_000);
    let cases = [
        ("", true),
        ("*", true),
        ("Event", true),
        ("*[System]", true),
        ("*[UserData]", false),
        ("Event/System[EventID=4625]", true),
        ("*[System[(EventID=4624)]]", false),
        ("*[System[EventID='4625']]", true),
        ("*[System[(EventID=4624 or EventID=4625) and Level<=2]]", true),
        ("*[System[EventID!=4625]]", false),
        ("*[System[Level=1 or Level=2]]", true),
        ("*[System/Level > 2]", false),
        ("*[System[Keywords='0x8010000000000000']]", true),
        ("*[System[band(Keywords, 4503599627370496)]]", true),
        ("*[System[band(Keywords,0x1)]]", false),
        ("*[System[Band(Keywords,0x8000000000000000)!=0]]", true),
        ("*[System[Provider[@Name='Shop']]]", true),
        ("*[System[Provider[@Name='shop']]]", false),
        ("*[System[Provider[@Guid='{54849625-5478-4994-A5BA-3E3B0328C30D}']]]", true),
        ("*[System[Provider[@Guid='54849625-5478-4994-a5ba-3e3b0328c30d']]]", true),
        ("*[System[Provider[@Guid='not a guid']]]", false),
        ("*[System[Provider/@Name='Shop' and TimeCreated/@SystemTime]]", true),
        ("*[System[TimeCreated[@SystemTime>='2017-07-12T17:16:28.214Z']]]", true),
        ("*[System[TimeCreated[@SystemTime>'2017-07-12T17:16:28.214161600Z']]]", false),
        ("*[System[TimeCreated[@SystemTime='2017-07-12T17:16:28.2141616Z']]]", true),
        ("*[System[TimeCreated[timediff(@SystemTime) <= 86400000]]]", true),
        ("*[System[TimeCreated[timediff(@SystemTime) < 86400000]]]", false),
        (
            "*[System[TimeCreated[timediff(@SystemTime, '2017-07-12T17:16:29.2141616Z') = 1000]]]",
            true,
        ),
        ("*[EventData[Data[@Name='AppName']='y.exe']]", true),
        ("*[EventData[Data[@Name='AppName'] = 'x.exe']]", false),
        ("*[EventData[Data='y.exe']]", true),
        ("*[EventData[Data='two']]", true),
        ("*[EventData[Data[5]='two']]", true),
        ("*[EventData[Data[position()=1]='y.exe']]", true),
        ("*[EventData[Data[position()=2]='y.exe']]", false),
        ("*[EventData[Data[@Name='Signed']='true']]", true),
        ("*[EventData[Data[@Name='Delta'] < 0]]", true),
        ("*[EventData[Data[@Name='Delta'] = -5]]", true),
        ("*[EventData[Data[@Name='Delta']/text() < 1.5]]", true),
        ("*[EventData/*[@Name='AppName']]", true),
        ("*[EventData/Data[@*='Delta']]", true),
        ("*[EventData[Data and not_there]]", false),
        ("*[System[Provider[@Name='Shop'] and (EventID=4625)]] ", true),
        ("*[System[Level=2]][EventData[Data='one']]", true),
        ("*[.='']", false),
    ];
    for (text, expected) in cases {
        let query: Query = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(query.matches(&record, now).unwrap(), expected, "{text}");
        assert_eq!(query.to_string(), text);
    }
}

#[test]
fn wrong_queries_are_refused_with_their_column() {
    let cases = [
        ("System[EventID=1]", 1),
        ("*[System[EventID=1]", 20),
        ("*[System[EventID==1]]", 18),
        ("*[System[EventID=1] | Level]", 21),
        ("*[System[contains(EventID,'1')]]", 10),
        ("*[System[EventID='1]]", 18),
        ("*[System[band(Keywords)]]", 23),
        ("*]", 2),
        ("*[System[Level=99999999999999999999]]", 16),
        ("*[]", 3),
        ("*[ä ~]", 5),
    ];
    for (text, column) in cases {
        let error = text.parse::<Query>().expect_err(text);
        assert_eq!(error.column(), column, "{text}: {error}");
    }
    let deep = format!("*{}1{}", "[(".repeat(5000), ")]".repeat(5000));
    assert!(deep.parse::<Query>().is_err());
}

#[test]
fn queries_know_which_record_ids_can_match() {
    let cases = [
        ("*[System[EventRecordID>100 and EventRecordID<=200]]", 101..=200),
        ("*[System[EventRecordID=7] and System[Level=1]]", 7..=7),
        ("*[System[EventRecordID>100 or Level=1]]", 0..=u64::MAX),
        ("*[EventData[EventRecordID>100]]", 0..=u64::MAX),
        ("*", 0..=u64::MAX),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<Query>().unwrap().record_ids(), expected, "{text}");
    }
}

#[test]
fn a_query_list_suppresses_within_its_query() {
    let list = QueryList::parse(
        "<QueryList><Query Id='0' Path='System'><Select Path='System'>*[System[Level=2]]</Select>\
         <Suppress>*[System[EventID &gt;= 4625]]</Suppress></Query>\
         <Query Id='1'><Select Path='Other'>*</Select></Query></QueryList>",
    )
    .unwrap();
    assert_eq!(list.paths(), ["System", "Other"]);
    let mut chunk = chunk();
    let record = chunk.next().unwrap();
    assert!(!list.matches("System", &record, FileTime(TIME)).unwrap());
    assert!(list.matches("other", &record, FileTime(TIME)).unwrap());
    for wrong in [
        "",
        "<Query/>",
        "<QueryList><Select Path='x'>*</Select></QueryList>",
        "<QueryList><Query><Select>*</Select></Query></QueryList>",
        "<QueryList><Query><Select Path='x'>[</Select></Query></QueryList>",
        "<QueryList><Query",
        "<QueryList><Query>",
        "<QueryList><Query Path='x'><Select>*</Select></Query>",
    ] {
        assert!(QueryList::parse(wrong).is_err(), "{wrong}");
    }
}
