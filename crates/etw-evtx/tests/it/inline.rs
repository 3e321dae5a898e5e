//! Events without a template: their elements and values stand in the record as text, as collectors of forwarded events write them.

use etw_evtx::chunk::{Chunk, Options};
use etw_evtx::query::{Query, Selector};
use etw_evtx::tree::{Attribute, Element, Fragment, Node};
use etw_evtx::write::ChunkWriter;
use etw_evtx::{Log, Record};
use etw_types::{FileTime, Guid};

use crate::corpus::logs;

/// 2017-07-12T17:16:28.2141616Z
const TIME: i64 = 131_443_533_882_141_616;
const GUID: &str = "{54849625-5478-4994-A5BA-3E3B0328C30D}";
const OTHER_GUID: &str = "{00000001-0002-0003-0004-000000000005}";

fn element(name: &str, attributes: &[(&str, &str)], text: &str) -> Node {
    let attributes = attributes.iter().map(|(name, value)| (*name, Node::text(value))).collect();
    let children = if text.is_empty() { vec![] } else { vec![Node::text(text)] };
    Node::element(name, attributes, children)
}

fn event() -> Fragment<'static> {
    // A name with a character that XML escapes has three pieces.
    let pieces = [Node::text("Tom "), Node::EntityReference("amp".into()), Node::text(" Co")];
    let name = Attribute { name: "Name".into(), value: pieces.to_vec() };
    let more = [("Guid", GUID), ("EventSourceName", "Tom")];
    let more = more.map(|(name, value)| Attribute::new(name, Node::text(value)));
    let attributes = std::iter::once(name).chain(more).collect();
    let time = [("SystemTime", "2017-07-12T17:16:28.214161600Z")];
    let ids = [("ActivityID", GUID), ("RelatedActivityID", OTHER_GUID)];
    let system = vec![
        Node::Element(Element::new("Provider", attributes, vec![])),
        element("EventID", &[("Qualifiers", "16384")], "7001"),
        element("Version", &[], "3"),
        element("Level", &[], "2"),
        element("Task", &[], "12"),
        element("Opcode", &[], "5"),
        element("Keywords", &[], "0x8080000000000000"),
        element("TimeCreated", &time, ""),
        element("EventRecordID", &[], "3229"),
        element("Correlation", &ids, ""),
        element("Execution", &[("ProcessID", "4242"), ("ThreadID", "17")], ""),
        element("Channel", &[], "Shop/Operational"),
        element("Computer", &[], "till.shop.example"),
        element("Security", &[("UserID", "S-1-5-18")], ""),
    ];
    let data =
        Node::element("EventData", vec![], vec![element("Data", &[("Name", "Item")], "tea")]);
    let system = Node::element("System", vec![], system);
    Fragment::Nodes(vec![Node::element("Event", vec![], vec![system, data])])
}

/// Gives the record of an event to `then`.
fn with_record(fragment: &Fragment<'_>, then: impl FnOnce(&Record<'_>)) {
    let mut writer = ChunkWriter::new();
    assert!(writer.push(1, FileTime(5), fragment).unwrap());
    let mut chunk = Chunk::new(writer.to_bytes(), 4096, Options::default());
    then(&chunk.next().unwrap());
    assert!(chunk.take_damage().is_empty());
}

#[test]
fn the_system_values_of_an_event_without_a_template_are_read() {
    with_record(&event(), |record| {
        assert!(matches!(record.fragment(), Fragment::Nodes(_)));
        let system = record.system();
        let guid = |text: &str| Some(text.parse::<Guid>().unwrap());
        assert_eq!(system.provider_name().as_deref(), Some("Tom & Co"));
        assert_eq!(system.event_source_name().as_deref(), Some("Tom"));
        assert_eq!(system.provider(), guid(GUID));
        assert_eq!((system.event_id(), system.qualifiers()), (Some(7001), Some(16384)));
        assert_eq!((system.version(), system.level()), (Some(3), Some(2)));
        assert_eq!((system.task(), system.opcode()), (Some(12), Some(5)));
        assert_eq!(system.keywords(), Some(0x8080_0000_0000_0000));
        assert_eq!(system.time(), Some(FileTime(TIME)));
        assert_eq!(system.record_id(), Some(3229));
        assert_eq!((system.activity(), system.related_activity()), (guid(GUID), guid(OTHER_GUID)));
        assert_eq!((system.process_id(), system.thread_id()), (Some(4242), Some(17)));
        assert_eq!(system.channel().as_deref(), Some("Shop/Operational"));
        assert_eq!(system.computer().as_deref(), Some("till.shop.example"));
        assert_eq!(system.user().as_deref(), Some("S-1-5-18"));
        let sid = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
        assert_eq!(system.user_sid().as_deref(), Some(&sid[..]));
    });
}

#[test]
fn values_that_an_event_without_a_template_lacks_are_absent() {
    let nodes = |children| Fragment::Nodes(vec![Node::element("Event", vec![], children)]);
    let wrong = vec![
        element("EventID", &[], "many"),
        element("Level", &[], "300"),
        element("TimeCreated", &[("SystemTime", "yesterday")], ""),
        element("Security", &[("UserID", "Tom")], ""),
        element("Computer", &[], ""),
    ];
    let wrong = nodes(vec![Node::element("System", vec![], wrong)]);
    for fragment in [nodes(vec![]), nodes(vec![element("System", &[], "")]), wrong] {
        with_record(&fragment, |record| {
            let system = record.system();
            assert_eq!((system.event_id(), system.level()), (None, None));
            assert_eq!((system.time(), system.user_sid()), (None, None));
            assert_eq!((system.computer(), system.provider_name()), (None, None));
        });
    }
}

#[test]
fn queries_find_events_without_a_template() {
    with_record(&event(), |record| {
        for (text, selects) in [
            ("*[System[Provider[@Name='Tom & Co'] and EventID=7001 and Level<=2]]", true),
            ("*[System[band(Keywords,0x80000000000000) and Security[@UserID='S-1-5-18']]]", true),
            ("*[System[TimeCreated[@SystemTime>='2017-07-12T17:16:28.2141616Z']]]", true),
            ("*[System[TimeCreated[@SystemTime>'2017-07-12T17:16:28.2141616Z']]]", false),
            ("*[System[EventID=7002]]", false),
        ] {
            let query: Query = text.parse().unwrap();
            let selector = Selector::query(query, FileTime(TIME));
            assert_eq!(selector.matches(record).unwrap(), selects, "{text}");
        }
    });
}

/// Two real logs that collectors of forwarded events wrote.
#[test]
fn real_events_without_a_template_have_system_values() {
    let Some(logs) = logs() else { return };
    for name in ["issue_201.evtx", "MSExchange_Management_wec.evtx"] {
        let Some(path) = logs.iter().find(|path| path.ends_with(name)) else {
            eprintln!("skipped: no {name}");
            continue;
        };
        let log = Log::open(path).unwrap();
        let mut records = log.records();
        let record = records.next().unwrap().unwrap();
        let system = record.system();
        assert_eq!(system.provider_name().as_deref(), Some("MSExchange CmdletLogs"), "{name}");
        assert_eq!((system.event_id(), system.qualifiers()), (Some(1), Some(16384)), "{name}");
        assert_eq!((system.level(), system.task()), (Some(4), Some(1)), "{name}");
        assert_eq!(system.keywords(), Some(0x80_0000_0000_0000), "{name}");
        assert_eq!(system.time().unwrap().to_string(), "2021-11-19T16:52:33.8337335Z", "{name}");
        assert_eq!(system.record_id(), Some(3229), "{name}");
        assert_eq!(system.channel().as_deref(), Some("MSExchange Management"), "{name}");
        assert_eq!(system.computer().as_deref(), Some("WEC.ave.local"), "{name}");
    }
}
