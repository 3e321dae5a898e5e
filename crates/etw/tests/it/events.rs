//! An event's options, the evaluation of its values, and its sizes.

use std::cell::RefCell;

use etw::{
    Activity, Channel, EventDescriptor, Guid, Keyword, Level, Opcode, Status, define_provider,
    provider_enabled, write_event,
};
use etw_types::LevelKeyword;

use crate::capture::{capture, capture_of, one};

define_provider!(PROVIDER, "Test.Events");

#[test]
fn an_event_without_options_has_the_default_descriptor() {
    let event = one(&PROVIDER, || write_event!(PROVIDER, "E"));
    let descriptor = EventDescriptor {
        level: Level::VERBOSE,
        keyword: Keyword(1),
        channel: Channel::TRACE_LOGGING,
        ..EventDescriptor::default()
    };
    assert_eq!(event.descriptor, descriptor);
    assert_eq!((&event.metadata[..], &event.payload[..]), (&b"\x05\0\0E\0"[..], &b""[..]));
    assert_eq!((event.provider, event.provider), (PROVIDER.id(), Guid::from_name("Test.Events")));
    assert_eq!((event.activity_id, event.related_activity_id), (None, None));
}

/// OV-7, OV-10
#[test]
fn options_set_the_descriptor() {
    const LEVEL: Level = Level::ERROR;
    const BITS: u64 = 1 << 40;
    let known = one(&PROVIDER, || {
        write_event!(
            PROVIDER,
            "E",
            level(Warning),
            keyword(0x2),
            opcode(Start),
            task(0x1234),
            channel(16),
            tag(0x200000),
            id_version(0x5678, 9),
            keyword(0x10),
            description("something happened"),
        )
    });
    let descriptor = EventDescriptor {
        id: 0x5678,
        version: 9,
        channel: Channel(16),
        level: Level::WARNING,
        opcode: Opcode::START,
        task: 0x1234,
        keyword: Keyword(0x12),
    };
    assert_eq!((known.descriptor, &known.metadata[..]), (descriptor, &b"\x05\0\x01E\0"[..]));
    let constant = one(&PROVIDER, || {
        write_event!(
            PROVIDER,
            "E",
            level(LEVEL),
            keyword(BITS | 1),
            keyword(2),
            keyword(Keyword(4)),
            opcode(Opcode::RECEIVE),
            task(3 + 4),
            channel(Channel::NONE),
            tag(u32::MAX >> 4),
            id_version(u16::MAX, u8::MAX),
        )
    });
    let descriptor = EventDescriptor {
        id: 65535,
        version: 255,
        channel: Channel::NONE,
        level: Level::ERROR,
        opcode: Opcode::RECEIVE,
        task: 7,
        keyword: Keyword(BITS | 7),
    };
    let metadata = &b"\x08\0\xff\xff\xff\x7fE\0"[..];
    assert_eq!((constant.descriptor, &constant.metadata[..]), (descriptor, metadata));
}

/// OV-11
#[test]
fn activity_ids_come_from_the_options() {
    let (id, other) = (Guid([1; 16]), Guid([2; 16]));
    let ids = |write: &dyn Fn() -> Status| {
        let event = one(&PROVIDER, write);
        (event.activity_id, event.related_activity_id)
    };
    assert_eq!(ids(&|| write_event!(PROVIDER, "E", activity_id(&id))), (Some(id), None));
    assert_eq!(ids(&|| write_event!(PROVIDER, "E", related_id(&other.0))), (None, Some(other)));
    let both = || write_event!(PROVIDER, "E", related_id(Some(other)), activity_id(id));
    assert_eq!(ids(&both), (Some(id), Some(other)));

    let activity = Activity::new();
    let current = Some(activity.id());
    let scope = activity.enter();
    assert_eq!(ids(&|| write_event!(PROVIDER, "E")), (current, None));
    assert_eq!(ids(&|| write_event!(PROVIDER, "E", activity_id(None::<Guid>))), (current, None));
    let child = Activity::new();
    let start = || write_event!(PROVIDER, "E", activity_id(&child), related_id(child.related_id()));
    assert_eq!(ids(&start), (Some(child.id()), current));
    drop(scope);
}

fn wanted(level: u8, any: u64) -> LevelKeyword {
    LevelKeyword::new(Level(level), Keyword(any))
}

/// OV-14, OV-16: values are evaluated once, in order, and only if level and keyword are wanted.
#[test]
fn values_are_evaluated_once_in_order_if_wanted() {
    for (wanted, events) in [(wanted(3, 2), 1), (wanted(2, 2), 0), (wanted(3, 4), 0)] {
        let order = RefCell::new(Vec::new());
        let tell = |n: u8| {
            order.borrow_mut().push(n);
            n
        };
        let captured = capture_of(PROVIDER.register(), wanted, || {
            assert_eq!(provider_enabled!(PROVIDER, Warning, 2), events == 1);
            let status = write_event!(
                PROVIDER,
                "E",
                u8("a", &tell(1)),
                level(Warning),
                related_id(&Guid([tell(2); 16])),
                str8("b", &[tell(3)].repeat(3)),
                struct("s", { u8("c", &tell(4)) }),
                activity_id(&Guid([tell(5); 16])),
                keyword(2),
                opt_u8("d", &Some(tell(6))),
                struct_slice("t", [tell(7)], |item| { u8("e", &item) }),
                raw_data(&[tell(8)]),
            );
            assert!(status.is_success());
        });
        assert_eq!(captured.events.len(), events);
        let expected: Vec<u8> = if events == 1 { (1..=8).collect() } else { Vec::new() };
        assert_eq!(order.into_inner(), expected);
    }
}

/// OV-16
#[test]
fn provider_enabled_is_the_rule() {
    const LEVEL: u8 = 3;
    let _ = capture_of(PROVIDER.register(), wanted(3, 6), || {
        assert!(provider_enabled!(PROVIDER, Level::WARNING, 4));
        assert!(provider_enabled!(PROVIDER, LEVEL, Keyword(2)));
        assert!(provider_enabled!(PROVIDER, LogAlways, 0));
        assert!(!provider_enabled!(PROVIDER, Informational, 4));
        assert!(!provider_enabled!(PROVIDER, Warning, 8 | 1));
    });
    assert!(!provider_enabled!(PROVIDER, LogAlways, 0));
}

/// Nothing is cut: what is too large is refused and counted.
#[test]
fn over_long_values_are_refused() {
    let long = "x".repeat(70_000);
    let wide = vec![65u16; 40_000];
    let captured = capture_of(PROVIDER.register(), wanted(0, 0), || {
        let refused = Status::ERROR_ARITHMETIC_OVERFLOW;
        assert_eq!(write_event!(PROVIDER, "E", str8("a", &long)), refused);
        assert_eq!(write_event!(PROVIDER, "E", cstr8("a", &long)), refused);
        assert_eq!(write_event!(PROVIDER, "E", str16("a", &wide)), refused);
        assert_eq!(write_event!(PROVIDER, "E", binary("a", &long[..65_536])), refused);
        assert_eq!(write_event!(PROVIDER, "E", u8_slice("a", long.as_bytes())), refused);
        assert_eq!(write_event!(PROVIDER, "E", str8_slice("a", &[""; 40_000])), refused);
        assert_eq!(write_event!(PROVIDER, "E", raw_data(&long)), refused);
        let empty = [""; 0];
        let many = write_event!(
            PROVIDER,
            "E",
            struct_slice("a", 0..65_536, |_| { str8_array("b", &empty, count(0)) }),
        );
        assert_eq!(many, refused);
        assert_eq!(write_event!(PROVIDER, "E", win_sid("a", &[1, 5, 0])), refused);
        assert_eq!(write_event!(PROVIDER, "E", win_sid("a", &[1, 16, 0, 0, 0])), refused);
        assert!(write_event!(PROVIDER, "E", str8("a", &long[..60_000])).is_success());
    });
    assert_eq!(captured.events.len(), 1);
    assert_eq!(captured.events[0].payload.len(), 60_002);
    assert_eq!((captured.ledger.attempted, captured.ledger.lost_total()), (11, 10));
}

/// A closure whose items change between its runs spoils its event, and nothing else.
#[test]
fn items_that_change_spoil_the_event() {
    let text = RefCell::new(String::new());
    let grow = || {
        text.borrow_mut().push_str("more");
        text.borrow().clone()
    };
    let events = capture(&PROVIDER, || {
        let status =
            write_event!(PROVIDER, "E", struct_slice("a", 0..1, |_| { str8("b", &grow()) }),);
        assert_eq!(status, Status::ERROR_ARITHMETIC_OVERFLOW);
        assert!(write_event!(PROVIDER, "E", u8("a", &7)).is_success());
    });
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].payload, [7]);
}

mod elsewhere {
    etw::define_provider!(
        /// Used by its path.
        pub(super) OTHER,
        "Test.Elsewhere",
        id("68FDD900-4a3e-11d1-84f4-0000f80464e3"),
        group_id("f73b8292-f610-4fa7-ba62-708353d162c4")
    );
    pub(super) use OTHER as RENAMED;
}

use elsewhere::OTHER as ALIAS;

/// A provider is a static like any other: its path, an alias, a re-export, a reference.
#[test]
fn providers_are_reached_by_any_path() {
    fn by_reference(provider: &etw::Provider) -> Status {
        write_event!(provider, "E")
    }
    let events = capture(&elsewhere::OTHER, || {
        let _ = write_event!(elsewhere::OTHER, "E");
        let _ = write_event!(self::elsewhere::RENAMED, "E");
        let _ = write_event!(ALIAS, "E");
        let _ = write_event!(&&ALIAS, "E");
        let _ = by_reference(&ALIAS);
        let _ = write_event!([&ALIAS][0], "E");
    });
    assert_eq!(events.len(), 6);
    let id = "68fdd900-4a3e-11d1-84f4-0000f80464e3".parse().unwrap();
    let group = "f73b8292-f610-4fa7-ba62-708353d162c4".parse().unwrap();
    assert_eq!((ALIAS.id(), ALIAS.group(), ALIAS.name()), (id, Some(group), "Test.Elsewhere"));
    let traits = etw_tracelogging::provider_traits("Test.Elsewhere", Some(group)).unwrap();
    assert_eq!(ALIAS.traits(), traits);
    let plain = etw_tracelogging::provider_traits("Test.Events", None).unwrap();
    assert_eq!((PROVIDER.traits(), PROVIDER.group()), (&plain[..], None));
}

/// WF-5: an event is written to each session that wants it; its values are evaluated once.
#[test]
fn two_sessions_get_the_same() {
    let evaluated = RefCell::new(0);
    let value = || {
        *evaluated.borrow_mut() += 1;
        "x".repeat(*evaluated.borrow())
    };
    let path = crate::support::TempPath::new("second.etl");
    let _permits = crate::support::session_permits(1);
    let second = etw::Session::builder("second").file(&path).start().unwrap();
    let events = capture(&PROVIDER, || {
        second.enable(&PROVIDER, Level::WARNING, Keyword(0)).unwrap();
        let status = write_event!(
            PROVIDER,
            "E",
            level(Warning),
            str8("a", &value()),
            struct_slice("s", ["p", "q"], |item| { str8("i", item) }),
        );
        assert!(status.is_success());
        assert!(write_event!(PROVIDER, "Verbose", str8("a", &value())).is_success());
        second.disable(&PROVIDER);
    });
    second.stop().unwrap();
    assert_eq!((events.len(), evaluated.into_inner()), (2, 2));
    assert_eq!(events[0].payload, b"\x01\0x\x02\0\x01\0p\x01\0q");
    let (seen, _) = crate::support::read(&path);
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0].payload, seen[0].event.as_str()), (&events[0].payload, "E"));
}
