//! `EventSource` and `LoggingChannel`: their events decode by name from the trace alone.

use crate::support::TempPath;
use etw::*;

/// An event as readers show it.
#[derive(Debug, PartialEq)]
struct Shown {
    name: String,
    message: Option<String>,
    id: u16,
    opcode: u8,
    activity: Guid,
}

/// The events of a provider that `write` writes to a session; `check` sees each of them.
fn events_of(
    provider: Guid,
    buffer_kb: u32,
    write: impl FnOnce(&Session),
    mut check: impl FnMut(&Event<'_>),
) -> Vec<Shown> {
    let path = TempPath::new("event-source.etl");
    let builder = Session::builder("event-source").file(&path);
    let session = builder.buffer_size_kb(buffer_kb).start().unwrap();
    session.enable(&provider, Level::VERBOSE, Keyword(0)).unwrap();
    write(&session);
    session.disable(&provider);
    assert!(session.stop().unwrap().ledger.is_balanced());
    let mut shown = Vec::new();
    let mut trace = etw::open(&path).unwrap();
    while let Some(event) = trace.next().unwrap() {
        if event.record().provider != Some(provider) {
            continue;
        }
        check(&event);
        let descriptor = event.record().descriptor;
        shown.push(Shown {
            name: event.name().unwrap_or("-").to_owned(),
            message: event.message(),
            id: descriptor.id,
            opcode: descriptor.opcode.0,
            activity: event.record().activity_id,
        });
    }
    shown
}

fn all_types() -> SourceEvent {
    SourceEvent::new(7, "AllTypes")
        .level(Level::WARNING)
        .keyword(Keyword(6))
        .opcode(Opcode(40))
        .version(3)
        .message("{0}: {15} <&\"100%\">")
        .field("text", SourceType::String)
        .field("i8", SourceType::Int8)
        .field("u8", SourceType::UInt8)
        .field("i16", SourceType::Int16)
        .field("u16", SourceType::UInt16)
        .field("i32", SourceType::Int32)
        .field("u32", SourceType::UInt32)
        .field("i64", SourceType::Int64)
        .field("u64", SourceType::UInt64)
        .field("f32", SourceType::Float)
        .field("f64", SourceType::Double)
        .field("bool", SourceType::Boolean)
        .field("guid", SourceType::Guid)
        .field("time", SourceType::FileTime)
        .field("bytes", SourceType::Bytes)
        .field("last", SourceType::String)
        .field("pointer", SourceType::IntPtr)
}

const BYTES: &[u8] = &[1, 2, 255];

fn values() -> Vec<SourceValue<'static>> {
    vec![
        "tea ☕".into(),
        (-1i8).into(),
        2u8.into(),
        (-3i16).into(),
        4u16.into(),
        (-5i32).into(),
        6u32.into(),
        (-7i64).into(),
        8u64.into(),
        1.5f32.into(),
        2.5f64.into(),
        true.into(),
        Guid::from_u128(9).into(),
        FileTime(10).into(),
        BYTES.into(),
        "end".into(),
        9isize.into(),
    ]
}

fn check_values(event: &Event<'_>) {
    assert_eq!(event.get::<String>("text").unwrap(), "tea ☕");
    assert_eq!(event.get::<i32>("i32").unwrap(), -5);
    assert_eq!(event.get::<u64>("u64").unwrap(), 8);
    assert_eq!(event.get::<f64>("f64").unwrap(), 2.5);
    assert!(event.get::<bool>("bool").unwrap());
    assert_eq!(event.get::<Guid>("guid").unwrap(), Guid::from_u128(9));
    assert_eq!(event.get::<Vec<u8>>("bytes").unwrap(), BYTES);
    assert_eq!(event.get::<String>("last").unwrap(), "end");
    assert_eq!(event.get::<u64>("pointer").unwrap(), 9);
}

fn builder(name: &str) -> EventSourceBuilder {
    EventSource::builder(name)
        .keyword("Orders", Keyword(2))
        .event(all_types())
        .event(SourceEvent::new(1, "Empty").level(Level(9)))
}

/// OV-21
#[test]
fn a_source_carries_its_manifest_into_the_trace() {
    // Small buffers take the manifest in smaller chunks.
    for buffer_kb in [64, 4] {
        // More than one event of 64 KB holds.
        let filler = |id| SourceEvent::new(id, &format!("Filler{id}")).message("{0}");
        let filler = |id| filler(id).field("a", SourceType::String).field("b", SourceType::Int32);
        let all = (100..400).fold(builder("Test-EventSource"), |all, id| all.event(filler(id)));
        assert!(all.manifest().unwrap().len() > 64 << 10);
        let source = all.register().unwrap();
        let id = source.provider().id();
        assert_eq!(id, Guid::from_name("Test-EventSource"));
        let write = |_: &Session| {
            assert_eq!(source.write(7, &values()), Status::ERROR_SUCCESS);
            assert_eq!(source.write_manifest(), Status::ERROR_SUCCESS);
        };
        let shown = events_of(id, buffer_kb, write, |event| {
            if event.record().descriptor.id == 7 {
                check_values(event);
            }
        });
        let manifests = shown.iter().filter(|event| event.id == 0xfffe).count();
        assert!(manifests >= 4 && shown[0].id == 0xfffe && shown[0].opcode == 0xfe, "{shown:?}");
        assert!(buffer_kb == 64 || manifests > 20, "{manifests} chunks");
        let event = shown.iter().find(|event| event.id == 7).unwrap();
        assert!(event.name.starts_with("AllTypes"), "{event:?}");
        assert_eq!(event.message.as_deref(), Some("tea ☕: end <&\"100%\">"));
    }
}

#[test]
fn sessions_that_stay_get_the_manifest_and_the_last_one_asks_for_it() {
    let source = builder("Test-Disable").register().unwrap();
    let id = source.provider().id();
    let mut at_disable = [0; 2];
    for (number, asks) in [false, true].into_iter().enumerate() {
        let write = |_: &Session| {
            // The callback of a second session's start and end writes to the first.
            let second = Session::builder("second").memory().start().unwrap();
            second.enable(&id, Level::VERBOSE, Keyword(0)).unwrap();
            assert_eq!(source.write(7, &values()), Status::ERROR_SUCCESS);
            second.disable(&id);
            assert_eq!(source.write(7, &values()), Status::ERROR_SUCCESS);
            if asks {
                assert_eq!(source.write_manifest(), Status::ERROR_SUCCESS);
            }
        };
        let ids: Vec<u16> = events_of(id, 64, write, |_| {}).iter().map(|event| event.id).collect();
        let events = ids.iter().enumerate().filter(|(_, id)| **id == 7).map(|(at, _)| at);
        let events: Vec<usize> = events.collect();
        assert!(ids[0] == 0xfffe && ids[events[0] + 1] == 0xfffe, "{ids:?}");
        at_disable[number] = ids.len() - 1 - events[1];
    }
    assert_eq!(at_disable, [0, 1]);
}

/// OV-21: manifests of .NET's sources have such symbols.
#[test]
fn a_manifest_has_a_symbol_and_keywords_without_spaces() {
    let source = |name: &str| {
        let event = SourceEvent::new(1, "A").keyword(Keyword(3));
        let source = EventSource::builder(name).keyword("Large orders", Keyword(2));
        source.keyword("Tea", Keyword(1)).event(event).manifest().unwrap()
    };
    for (name, symbol) in [
        ("MSOpenTech-Tx-BinaryEventSource", "MSOpenTechTxBinaryEventSource"),
        ("System.Threading & co", "System_Threading___co"),
        ("7-Up", "_7Up"),
    ] {
        let xml = source(name);
        assert!(xml.contains(&format!(" symbol=\"{symbol}\">")), "{xml}");
    }
    let xml = source("A");
    assert!(
        xml.contains("<keyword name=\"Large_orders\" message=\"$(string.keyword_Large_orders)\""),
        "{xml}"
    );
    let keywords = xml.split("keywords=\"").nth(1).unwrap().split('"').next().unwrap();
    let mut keywords: Vec<&str> = keywords.split(' ').collect();
    keywords.sort_unstable();
    assert_eq!(keywords, ["Large_orders", "Tea"]);
}

#[test]
fn a_source_can_describe_each_event_instead() {
    let source = builder("Test-SelfDescribing").self_describing().register().unwrap();
    let id = source.provider().id();
    let write = |_: &Session| assert_eq!(source.write(7, &values()), Status::ERROR_SUCCESS);
    let shown = events_of(id, 64, write, check_values);
    assert_eq!((shown.len(), shown[0].name.as_str(), shown[0].id), (1, "AllTypes", 7));
    assert_eq!(source.write_manifest(), Status(1));
}

/// OV-21
#[test]
fn values_bits_tasks_and_opcodes_have_names() {
    let paid = SourceEvent::new(3, "Paid").task(5).opcode(Opcode(20)).message("{0} by {1}, {2}");
    let paid = paid
        .mapped_field("state", SourceType::UInt32, "State")
        .mapped_field("means", SourceType::UInt8, "Means")
        .field("cents", SourceType::Int32);
    let source = |event: SourceEvent| {
        EventSource::builder("Test-Maps")
            .task("Selling", 5)
            .opcode("Pay", Opcode(20))
            .value_map("State", &[(0, "open"), (7, "<closed>")])
            .bit_map("Means", &[(1, "cash"), (2, "card")])
            .event(event)
    };
    let xml = source(paid.clone()).manifest().unwrap();
    for part in [
        "<task name=\"Selling\" message=\"$(string.task_Selling)\" value=\"5\"/>",
        "<valueMap name=\"State\">\n<map value=\"0x0\" message=\"$(string.map_State.open)\"/>",
        "<bitMap name=\"Means\">",
        "task=\"Selling\" opcode=\"Pay\"",
        "<data name=\"state\" inType=\"win:UInt32\" map=\"State\"/>",
    ] {
        assert!(xml.contains(part), "{part}: {xml}");
    }
    // Texts of one id differ in their numbers.
    let twice =
        EventSource::builder("Test-Ids").value_map("A", &[(0, "x")]).value_map("A.x", &[(0, "y")]);
    let twice = twice.value_map("B", &[(1, "x"), (2, "x")]).manifest().unwrap();
    assert_eq!(twice.matches("<string id=\"map_B.x\" value=\"x\"/>").count(), 1, "{twice}");
    let registered = source(paid).register().unwrap();
    let write = |_: &Session| {
        let values = [7u32.into(), SourceValue::UInt8(3), 350i32.into()];
        assert_eq!(registered.write(3, &values), Status::ERROR_SUCCESS);
    };
    let shown = events_of(registered.provider().id(), 64, write, |_| {});
    let event = shown.iter().find(|event| event.id == 3).unwrap();
    assert_eq!((event.name.as_str(), event.opcode), ("Selling/Pay", 20), "{event:?}");
    let message = event.message.as_deref().unwrap();
    assert!(message.starts_with("<closed> by ") && message.contains("cash"), "{message}");
    let wrong = |event: SourceEvent| source(event).manifest().is_err();
    assert!(wrong(SourceEvent::new(3, "A").mapped_field("a", SourceType::UInt32, "None")));
    assert!(wrong(SourceEvent::new(3, "A").mapped_field("a", SourceType::String, "State")));
    assert!(EventSource::builder("A").bit_map("B", &[(3, "two")]).manifest().is_err());
    assert!(EventSource::builder("A").opcode("B", Opcode(3)).manifest().is_err());
}

#[test]
fn wrong_sources_and_values_are_rejected() {
    let event = || SourceEvent::new(1, "One").field("n", SourceType::Int32);
    let refused = [
        EventSource::builder(""),
        EventSource::builder("a").event(event()).event(event()),
        EventSource::builder("a").event(event()).event(SourceEvent::new(2, "One")),
        EventSource::builder("a").event(SourceEvent::new(0, "Zero")),
        EventSource::builder("a").event(SourceEvent::new(0xfffe, "Manifest")),
        EventSource::builder("a").keyword("Two", Keyword(3)),
        EventSource::builder("a").event(SourceEvent::new(1, "a\nb")),
    ];
    for builder in refused {
        assert_eq!(builder.register().unwrap_err(), Status::ERROR_INVALID_PARAMETER);
    }
    let source = EventSource::builder("Test-Wrong").event(event()).register().unwrap();
    assert_eq!(source.write(2, &[]), Status::ERROR_INVALID_PARAMETER);
    assert_eq!(source.write(1, &[]), Status::ERROR_INVALID_PARAMETER);
    assert_eq!(source.write(1, &["text".into()]), Status::ERROR_INVALID_PARAMETER);
    assert_eq!(source.write(1, &[5i32.into()]), Status::ERROR_SUCCESS);
}

#[test]
fn a_channel_is_a_provider_of_its_own() {
    let channel = LoggingChannel::new("Test-Channel", None).unwrap();
    assert_eq!(channel.id(), Guid::from_name("Test-Channel"));
    let write = |_: &Session| {
        channel.log_message("hello", Level::INFO);
        channel.log_value_pair("n", 3, Level::INFO);
        let activity = channel.start_activity("Order", Level::INFO, |_| {});
        activity.log_event("Paid", Level::INFO, |event| {
            event.add_u32("n", 5, OutType::NULL, 0);
        });
        drop(activity);
        let activity = channel.start_activity("Other", Level::INFO, |_| {});
        activity.stop("Done", |_| {});
    };
    let shown = events_of(channel.id(), 64, write, |event| {
        assert!(event.get::<String>("LoggingChannelName").is_err());
        match event.name() {
            Some("MessageEvent") => {
                assert_eq!(event.get::<String>("StringMessage").unwrap(), "hello");
            }
            Some("ValuePairEvent") => assert_eq!(event.get::<i32>("IntMessage").unwrap(), 3),
            _ => {}
        }
    });
    let names: Vec<(&str, u8)> =
        shown.iter().map(|event| (event.name.as_str(), event.opcode)).collect();
    let wanted = [
        ("MessageEvent", 0),
        ("ValuePairEvent", 0),
        ("Order", 1),
        ("Paid", 0),
        ("Order", 2),
        ("Other", 1),
        ("Done", 2),
    ];
    assert_eq!(names, wanted);
    assert!(!shown[2].activity.is_zero());
    assert!(shown[2..5].iter().all(|event| event.activity == shown[2].activity));
    assert_ne!(shown[5].activity, shown[2].activity);
}

#[test]
fn a_compatible_channel_names_itself_in_each_event() {
    let channel = LoggingChannel::compatible("Test-Compatible").unwrap();
    assert_eq!(channel.id(), Guid::from_u128(0x4bd2826e_54a1_4ba9_bf63_92b73ea1ac4a));
    let write = |_: &Session| {
        channel.log_message("hello", Level::INFO);
    };
    let shown = events_of(channel.id(), 64, write, |event| {
        assert_eq!(event.get::<String>("LoggingChannelName").unwrap(), "Test-Compatible");
    });
    assert_eq!(shown.len(), 1);
}
