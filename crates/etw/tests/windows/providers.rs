//! Registration, callbacks, activities, and calls of `evntprov.h` and `evntrace.h`.

use std::sync::{Arc, Mutex};

use etw::evntprov::{
    EventDataDescriptor, WriteOptions, etw_event_write_full, event_register, event_unregister,
    event_write, event_write_ex, event_write_string, event_write_transfer,
};
use etw::evntrace::{
    ClassicRegistration, TraceClasses, register_trace_guids, trace_event, trace_message,
    unregister_trace_guids,
};
use etw::{
    Activity, ControlCode, EventClass, EventDescriptor, Guid, Keyword, Level, Provider, Status,
    define_provider, write_event,
};
use etw_types::{MessageFlags, MessageId};

use crate::recorder::Recorder;

define_provider!(SHOP, "Windows.Shop");
define_provider!(GROUPED, "Windows.Grouped", group_id("5ed8bb3e-7b4c-4d5a-8c2f-0d3f9a6c1b11"));

#[test]
fn the_callback_of_the_system_decides_what_is_evaluated_and_written() {
    let recorder = Recorder::start();
    let _registration = SHOP.register();
    let evaluated = Mutex::new(0);
    let sell = |count: u32| {
        write_event!(
            SHOP,
            "Sold",
            level(Informational),
            keyword(2),
            u32("Count", &{
                *evaluated.lock().unwrap() += 1;
                count
            })
        )
    };
    assert_eq!(sell(1), Status::ERROR_SUCCESS);
    assert_eq!((*evaluated.lock().unwrap(), recorder.take_written().len()), (0, 0));
    recorder.enable(SHOP.id(), 4, 2, 0);
    assert_eq!(sell(2), Status::ERROR_SUCCESS);
    let written = recorder.take_written();
    assert_eq!((*evaluated.lock().unwrap(), written.len()), (1, 1));
    assert_eq!(
        (written[0].provider, &written[0].payload),
        (SHOP.id(), &2u32.to_le_bytes().to_vec())
    );
    assert_eq!(written[0].traits, SHOP.traits());
    for (level, any, all, expected) in [
        (3, 2, 0, 0),
        (4, 4, 0, 0),
        (4, 6, 4, 0),
        (4, 3, 2, 1),
        (0, 0, 0, 1),
        (255, u64::MAX, 0, 1),
    ] {
        recorder.enable(SHOP.id(), level, any, all);
        sell(3);
        assert_eq!(recorder.take_written().len(), expected, "level {level} any {any} all {all}");
    }
    recorder.disable(SHOP.id());
    sell(4);
    assert_eq!(recorder.take_written(), []);
    drop(_registration);
    assert_eq!(recorder.take_unregistered(), [SHOP.id()]);
}

#[test]
fn a_provider_enabled_within_its_registration_gets_one_callback() {
    let recorder = Recorder::start();
    recorder.enable_at_once(5, 0x10, 0);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    static EARLY: Mutex<Option<Arc<Provider>>> = Mutex::new(None);
    let provider = Provider::dynamic("Windows.Early", Guid::from_u128(0xea71), None).unwrap();
    *EARLY.lock().unwrap() = Some(provider.clone());
    let registration = provider.register_shared(Some(Arc::new(move |change| {
        seen.lock().unwrap().push((
            change.control,
            change.level,
            change.any,
            change.filter_data.to_vec(),
        ));
    })));
    assert_eq!(*calls.lock().unwrap(), [(ControlCode::Enable, Level(5), Keyword(0x10), vec![])]);
    assert!(provider.is_enabled(Level(5), Keyword(0x10)));
    recorder.notify(provider.id(), 1, (4, 1, 0), b"filter");
    recorder.notify(provider.id(), 2, (3, 7, 0), &[]);
    recorder.notify(provider.id(), 0, (0, 0, 0), &[]);
    assert_eq!(
        calls.lock().unwrap()[1..],
        [
            (ControlCode::Enable, Level(4), Keyword(1), b"filter".to_vec()),
            (ControlCode::CaptureState, Level(3), Keyword(7), vec![]),
            (ControlCode::Disable, Level(0), Keyword(0), vec![]),
        ]
    );
    drop(registration);
    assert_eq!(recorder.take_unregistered(), [provider.id()]);
}

#[test]
fn two_registrations_of_a_provider_are_one_of_the_system() {
    let recorder = Recorder::start();
    let (first, second) = (SHOP.register(), SHOP.register());
    drop(first);
    assert_eq!(recorder.take_unregistered(), []);
    drop(second);
    assert_eq!(recorder.take_unregistered(), [SHOP.id()]);
}

#[test]
fn the_system_gets_traits_with_the_group() {
    let recorder = Recorder::start();
    let _registration = GROUPED.register();
    assert_eq!(recorder.traits_of(GROUPED.id()).as_deref(), Some(GROUPED.traits()));
    assert!(GROUPED.group().is_some());
}

#[test]
fn the_system_owns_the_activity_of_a_thread() {
    let recorder = Recorder::start();
    let _registration = SHOP.register();
    recorder.enable(SHOP.id(), 5, 0, 0);
    let sale = Activity::new();
    {
        let _scope = sale.enter();
        assert_eq!(recorder.activity(), sale.id());
        write_event!(SHOP, "Inside");
        let step = Activity::new();
        assert_eq!(step.related_id(), Some(sale.id()));
        write_event!(SHOP, "Step", activity_id(step.id()), related_id(step.related_id()));
    }
    assert_eq!(recorder.activity(), Guid::ZERO);
    write_event!(SHOP, "Outside");
    let written = recorder.take_written();
    assert_eq!(written[0].activity, Some(sale.id()));
    assert_eq!(written[1].related, Some(sale.id()));
    assert_eq!((written[2].activity, written[2].related), (None, None));
}

#[test]
fn calls_of_evntprov_reach_their_counterparts() {
    let recorder = Recorder::start();
    let id = Guid::from_u128(0xe4e4);
    let handle = event_register(&id, None).unwrap();
    recorder.enable(id, 5, 0, 0);
    let descriptor =
        EventDescriptor { id: 7, version: 1, level: Level::INFO, ..EventDescriptor::default() };
    let (a, b) = (Guid::from_u128(1), Guid::from_u128(2));
    let data = [EventDataDescriptor::new(b"one"), EventDataDescriptor::new(b"two")];
    assert_eq!(event_write(handle, Some(&descriptor), &data), Status::ERROR_SUCCESS);
    event_write_transfer(handle, Some(&descriptor), Some(&a), Some(&b), &data);
    event_write_ex(
        handle,
        Some(&descriptor),
        WriteOptions { filter: 0, flags: 2 },
        Some(&a),
        None,
        &data,
    );
    event_write_ex(
        handle,
        Some(&descriptor),
        WriteOptions { filter: 1 << 33, flags: 0 },
        None,
        None,
        &data,
    );
    etw_event_write_full(handle, Some(&descriptor), 4, None, None, &data);
    event_write_string(handle, Level::INFO, Keyword(8), "a text");
    let written = recorder.take_written();
    let calls: Vec<_> = written.iter().map(|it| (it.function, it.options)).collect();
    let expected = [
        ("transfer", (0, 0)),
        ("transfer", (0, 0)),
        ("ex", (0, 2)),
        ("ex", (1 << 33, 0)),
        ("full", (0, 4)),
    ];
    assert_eq!(calls, expected);
    assert!(written.iter().all(|it| it.payload == b"onetwo" && it.provider == id));
    assert_eq!((written[1].activity, written[1].related), (Some(a), Some(b)));
    assert_eq!(written[0].descriptor[..4], [7, 0, 1, 0]);
    assert_eq!(recorder.take_texts(), [(4, 8, "a text".to_owned())]);
    assert_eq!(event_unregister(handle), Status::ERROR_SUCCESS);
    assert_eq!(event_write(handle, Some(&descriptor), &data), Status::ERROR_INVALID_HANDLE);
}

#[test]
fn large_events_reach_the_system_and_larger_ones_are_refused() {
    let recorder = Recorder::start();
    let id = Guid::from_u128(0x1a46e);
    let handle = event_register(&id, None).unwrap();
    recorder.enable(id, 5, 0, 0);
    let descriptor = EventDescriptor { id: 1, ..EventDescriptor::default() };
    let bytes = vec![0x5a; 70_000];
    for size in [0, 1, 511, 512, 513, 60_000, 65_536] {
        let status =
            event_write(handle, Some(&descriptor), &[EventDataDescriptor::new(&bytes[..size])]);
        assert_eq!(status, Status::ERROR_SUCCESS, "{size}");
        assert_eq!(recorder.take_written()[0].payload, bytes[..size]);
    }
    let status = event_write(handle, Some(&descriptor), &[EventDataDescriptor::new(&bytes)]);
    assert_eq!(status, Status::ERROR_ARITHMETIC_OVERFLOW);
}

#[test]
fn classic_events_and_messages_go_to_the_session_that_enabled_their_provider() {
    let recorder = Recorder::start();
    recorder.enable_at_once(3, 0xf0, 0);
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let control = Guid::from_u128(0xc1a5);
    let ClassicRegistration { handle, .. } = register_trace_guids(
        &control,
        TraceClasses::register(&[]).unwrap(),
        Arc::new(move |request| {
            seen.lock().unwrap().push(*request);
            Status::ERROR_SUCCESS
        }),
    )
    .unwrap();
    let request = match &requests.lock().unwrap()[..] {
        [request] => *request,
        other => panic!("{other:?}"),
    };
    assert_eq!((request.level, request.flags, request.control), (Level(3), 0xf0, control));
    let class = EventClass { guid: Guid::from_u128(0xe), kind: 1, level: Level(2), version: 3 };
    assert_eq!(trace_event(request.logger, class, None, &[b"pay", b"load"]), Status::ERROR_SUCCESS);
    let events = recorder.take_classic();
    assert_eq!(events[0].len(), 0x30 + 7);
    assert_eq!(events[0][4..8], [1, 2, 3, 0]);
    assert_eq!(events[0][0x18..0x28], class.guid.0);
    assert_eq!(events[0][0x2c..0x30], 0x2_0000u32.to_le_bytes());
    assert_eq!(events[0][0x30..], *b"payload");
    let id = MessageId::Guid(Guid::from_u128(0x3e5));
    let flags = MessageFlags(MessageFlags::SEQUENCE.0 | MessageFlags::SYSTEM_INFO.0);
    trace_message(request.logger, flags, id, 12, &[b"arg", b"s"]);
    let flags = 1 | 2 | 32;
    let expected = [(flags, Guid::from_u128(0x3e5), 12, b"args".to_vec())];
    assert_eq!(recorder.take_messages(), expected);
    assert_eq!(unregister_trace_guids(handle), Status::ERROR_SUCCESS);
    assert_eq!(recorder.take_unregistered(), [control]);
}
