//! The calls of evntprov.h.
use crate::support::*;
use etw::evntprov::*;
use etw::*;
use std::sync::{Arc, Mutex};

fn descriptor() -> EventDescriptor {
    EventDescriptor {
        id: 77,
        version: 2,
        channel: Channel(16),
        level: Level::WARNING,
        opcode: Opcode::START,
        task: 5,
        keyword: Keyword(0x10),
    }
}

fn session(path: &TempPath, id: Guid) -> Session {
    let session = Session::builder("calls").file(path).buffer_size_kb(8).start().unwrap();
    session.enable(&id, Level::VERBOSE, Keyword(0)).unwrap();
    session
}

fn raw(path: &TempPath) -> Vec<Raw> {
    let mut records =
        etw_etl::read::Records::new(vec![etw_etl::read::TraceFile::open(path).unwrap()]);
    let mut all = Vec::new();
    while let Some(record) = records.next() {
        if record.hook.is_none() && !etw_types::is_session_report(&record) {
            all.push(Raw {
                provider: record.provider.unwrap(),
                descriptor: record.descriptor,
                property: record.property.0,
                flags: record.flags.0,
                time: record.order_time,
                activity: record.activity_id,
                related: record.related_activity_id(),
                payload: record.payload.to_vec(),
                items: record
                    .extended
                    .into_iter()
                    .map(|i| (i.ext_type.0, i.data.to_vec()))
                    .collect(),
            });
        }
    }
    all
}

#[derive(Debug)]
struct Raw {
    provider: Guid,
    descriptor: EventDescriptor,
    property: u16,
    flags: u16,
    time: i64,
    activity: Guid,
    related: Option<Guid>,
    payload: Vec<u8>,
    items: Vec<(u16, Vec<u8>)>,
}

/// WF-1, WF-3, WF-4: all calls go one way; properties, ids and descriptors arrive; the thread's activity stands in where none is given.
#[test]
fn what_is_written_arrives() {
    let _permits = session_permits(1);
    let id = Guid::from_u128(0x100);
    let path = TempPath::new("calls.etl");
    let handle = event_register(&id, None).unwrap();
    let session = session(&path, id);
    let d = descriptor();
    let (ours, theirs, current) = (Guid::from_u128(1), Guid::from_u128(2), Guid::from_u128(3));
    let data = [EventDataDescriptor::new(b"one"), EventDataDescriptor::new(b"two")];
    assert_eq!(event_write(handle, Some(&d), &data), Status::ERROR_SUCCESS);
    let mut set = current;
    assert_eq!(event_activity_id_control(2, &mut set), Status::ERROR_SUCCESS);
    assert!(event_write_transfer(handle, Some(&d), None, Some(&theirs), &data).is_success());
    assert!(event_write_transfer(handle, Some(&d), Some(&ours), None, &[]).is_success());
    let options = WriteOptions { filter: 0, flags: 1 };
    let (own, related) = (Some(&ours), Some(&theirs));
    assert!(event_write_ex(handle, Some(&d), options, own, related, &data).is_success());
    for property in [1, 2, 4, 8] {
        let status = etw_event_write_full(handle, Some(&d), property, None, None, &data);
        assert_eq!(status, Status::ERROR_SUCCESS);
    }
    let mut none = Guid::ZERO;
    assert!(event_activity_id_control(2, &mut none).is_success());
    session.stop().unwrap();
    let seen = raw(&path);
    let ids: Vec<_> = seen.iter().map(|e| (e.activity, e.related, e.property)).collect();
    let mut expected = vec![
        (Guid::ZERO, None, 0),
        (current, Some(theirs), 0),
        (ours, None, 0),
        (ours, Some(theirs), 0),
    ];
    expected.extend([1, 2, 4, 8].map(|property| (current, None, property)));
    assert_eq!(ids, expected);
    assert!(seen.iter().all(|e| e.provider == id && e.descriptor == d));
    assert!(
        seen.iter()
            .enumerate()
            .all(|(n, e)| e.payload == if n == 2 { &b""[..] } else { b"onetwo" })
    );
    assert_eq!(event_unregister(handle), Status::ERROR_SUCCESS);
}

/// WF-2: the first status of the documented order that applies is returned.
#[test]
fn statuses_follow_the_documented_order() {
    let _permits = session_permits(1);
    let id = Guid::from_u128(0x101);
    let path = TempPath::new("statuses.etl");
    let handle = event_register(&id, None).unwrap();
    let d = descriptor();
    let invalid = Status::ERROR_INVALID_HANDLE;
    assert_eq!(event_write(handle, None, &[]), Status::ERROR_INVALID_PARAMETER);
    assert_eq!(
        etw_event_write_full(RegHandle(0), None, 0, None, None, &[]),
        Status::ERROR_INVALID_PARAMETER
    );
    for wrong in [0, 1 << 48, u64::MAX, handle.0 + (1 << 48), handle.0 ^ 0xffff] {
        assert_eq!(event_write(RegHandle(wrong), Some(&d), &[]), invalid, "{wrong:x}");
        assert_eq!(etw_event_write_full(RegHandle(wrong), Some(&d), 0, None, None, &[]), invalid);
        assert_eq!(event_unregister(RegHandle(wrong)), invalid);
    }
    let many = [EventDataDescriptor::new(b"x"); 129];
    assert_eq!(event_write(handle, Some(&d), &many), Status::ERROR_SUCCESS, "disabled: no work");
    let session = session(&path, id);
    assert_eq!(event_write(handle, Some(&d), &many), Status::ERROR_INVALID_PARAMETER);
    assert_eq!(event_write(handle, Some(&d), &many[..128]), Status::ERROR_SUCCESS);
    // 8 KiB buffers; 64 KiB events.
    let piece = vec![0; 70_000];
    let data = |size: usize| [EventDataDescriptor::new(&piece[..size])];
    assert_eq!(event_write(handle, Some(&d), &data(8192 - 72 - 80)), Status::ERROR_SUCCESS);
    assert_eq!(event_write(handle, Some(&d), &data(8192 - 72 - 79)), Status::ERROR_MORE_DATA);
    assert_eq!(event_write(handle, Some(&d), &data(65_535 - 80)), Status::ERROR_MORE_DATA);
    assert_eq!(
        event_write(handle, Some(&d), &data(65_536 - 80)),
        Status::ERROR_ARITHMETIC_OVERFLOW
    );
    assert_eq!(event_write(handle, Some(&d), &data(70_000)), Status::ERROR_ARITHMETIC_OVERFLOW);
    let ledger = session.stop().unwrap().ledger;
    assert_eq!(ledger.lost(Cause::TooLargeForSession), 2);
    assert_eq!(ledger.lost(Cause::TooLarge), 2);
    assert_eq!((ledger.attempted, ledger.stored), (6, 2));
    assert_eq!(event_unregister(handle), Status::ERROR_SUCCESS);
    assert_eq!(event_unregister(handle), invalid);
    // The place is used again, the handle is not.
    let again = event_register(&id, None).unwrap();
    assert_ne!(again, handle);
    assert_eq!(event_write(handle, Some(&d), &[]), invalid);
    assert_eq!(event_unregister(again), Status::ERROR_SUCCESS);
}

/// WF-5: written to each private session; a full one makes the call fail, and the other has the event all the same. Status 8 is not there
/// before the session is full, and goes when it has room again.
#[test]
fn a_full_session_fails_the_write_and_no_other_session() {
    let _permits = session_permits(2);
    let id = Guid::from_u128(0x102);
    let path = TempPath::new("full.etl");
    let handle = event_register(&id, None).unwrap();
    let (blocked, gate) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(0u64)));
    let hold = blocked.lock().unwrap();
    let (wait, count) = (blocked.clone(), gate.clone());
    let full = Session::builder("full")
        .consumer(move |buffer| {
            drop(wait.lock().unwrap());
            *count.lock().unwrap() += buffer.len() as u64;
        })
        .buffer_size_kb(4)
        .buffers(4)
        .pool_size(128 << 10, 128 << 10)
        .start()
        .unwrap();
    full.enable(&id, Level::VERBOSE, Keyword(0)).unwrap();
    let other = session(&path, id);
    let d = descriptor();
    let payload = [7; 1000];
    let mut statuses = Vec::new();
    for _ in 0..400 {
        statuses.push(event_write(handle, Some(&d), &[EventDataDescriptor::new(&payload)]));
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    assert_eq!(statuses[0], Status::ERROR_SUCCESS);
    let refused = statuses.iter().filter(|s| **s == Status::ERROR_NOT_ENOUGH_MEMORY).count();
    let taken = statuses.iter().filter(|s| s.is_success()).count();
    assert!(refused > 100 && refused + taken == 400, "{refused} {taken}");
    drop(hold);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !event_write(handle, Some(&d), &[]).is_success() {
        assert!(std::time::Instant::now() < end, "no room again");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let (ledger, others) = (full.stop().unwrap().ledger, other.stop().unwrap().ledger);
    assert!(ledger.is_balanced() && ledger.lost_total() >= refused as u64, "{ledger:?}");
    assert_eq!((others.lost_total(), raw(&path).len() as u64), (0, others.attempted));
    assert_eq!(others.attempted, ledger.attempted);
    assert!(event_unregister(handle).is_success());
}

/// WF-6: a text has no id and the property of the legacy event log, and is shown as a text.
#[test]
fn a_text_has_no_id_and_the_property_of_the_event_log() {
    let _permits = session_permits(1);
    let id = Guid::from_u128(0x103);
    let path = TempPath::new("text.etl");
    let handle = event_register(&id, None).unwrap();
    let session = session(&path, id);
    assert!(event_write_string(handle, etw::Level(2), etw::Keyword(1 << 40), "grüße").is_success());
    session.stop().unwrap();
    let seen = raw(&path);
    assert_eq!((seen[0].property, seen[0].flags & 4, seen[0].descriptor.id), (4, 4, 0));
    assert_eq!(read(&path).0[0].fields, "Message=grüße");
    assert!(event_unregister(handle).is_success());
}

/// EventWriteEx: in-private events, and sessions that exclude them.
#[test]
fn in_private_events() {
    let _permits = session_permits(2);
    let id = Guid::from_u128(0x10c);
    let handle = event_register(&id, None).unwrap();
    let (all, few) = (TempPath::new("all.etl"), TempPath::new("few.etl"));
    let (open, careful) = (session(&all, id), session(&few, id));
    let properties = EnableProperties::EXCLUDE_INPRIVATE;
    careful.enable_with(&id, EnableInfo { properties, ..EnableInfo::default() }).unwrap();
    let d = descriptor();
    for flags in [0, 1, 2, 3] {
        let number = [flags as u8];
        let data = [EventDataDescriptor::new(&number)];
        let options = WriteOptions { filter: 0, flags };
        assert!(event_write_ex(handle, Some(&d), options, None, None, &data).is_success());
    }
    let options = WriteOptions { filter: 0, flags: 4 };
    let status = event_write_ex(handle, Some(&d), options, None, None, &[]);
    assert_eq!(status, Status::ERROR_INVALID_PARAMETER);
    let ledger = careful.stop().unwrap().ledger;
    open.stop().unwrap();
    assert_eq!((ledger.stored, ledger.filtered), (2, 2));
    let of =
        |path: &TempPath| raw(path).iter().map(|e| (e.payload[0], e.flags)).collect::<Vec<_>>();
    let flags = raw(&all)[0].flags;
    assert_eq!(of(&all), [0, 1, 2, 3].map(|n| (n, flags)));
    assert_eq!(of(&few), [0, 1].map(|n| (n, flags)));
    assert!(event_unregister(handle).is_success());
}

/// Descriptor types: metadata, traits and timestamp, after the registration asked for them or set its traits.
#[test]
fn descriptor_types_carry_metadata_traits_and_time() {
    let _permits = session_permits(1);
    let id = Guid::from_u128(0x104);
    let path = TempPath::new("types.etl");
    let handle = event_register(&id, None).unwrap();
    let session = session(&path, id);
    let d = EventDescriptor { channel: Channel::TRACE_LOGGING, ..descriptor() };
    let metadata = *b"\x0c\0\0Hello\0n\0\x04";
    let (other_traits, time) = (b"\x08\0Other\0", 0x1234_5678_i64.to_le_bytes());
    let of = EventDataDescriptor::of_kind;
    let typed = [of(&metadata, 1), EventDataDescriptor::new(b"\x2a")];
    // Without the property, all bytes are payload.
    assert!(event_write(handle, Some(&d), &typed).is_success());
    assert_eq!(event_set_information(handle, 3, &[1]), Status::ERROR_SUCCESS);
    assert!(
        event_write(handle, Some(&d), &[typed[0], of(other_traits, 2), typed[1], of(&time, 3)])
            .is_success()
    );
    assert_eq!(event_write(handle, Some(&d), &[of(b"x", 4)]), Status::ERROR_INVALID_PARAMETER);
    assert_eq!(
        event_write(handle, Some(&d), &[of(b"\xff\0x\0", 1)]),
        Status::ERROR_INVALID_PARAMETER
    );
    assert_eq!(event_set_information(handle, 2, b"\x08\0Named\0"), Status::ERROR_SUCCESS);
    assert_eq!(event_set_information(handle, 2, b"\x08\0Named\0"), Status::ERROR_INVALID_PARAMETER);
    assert_eq!(event_set_information(handle, 9, &[]), Status::ERROR_NOT_SUPPORTED);
    assert!(event_write(handle, Some(&d), &typed).is_success());
    session.stop().unwrap();
    let seen = raw(&path);
    // The one with a time of its own is shown first.
    assert_eq!(seen.iter().map(|e| e.items.len()).collect::<Vec<_>>(), [2, 0, 2]);
    let overridden = seen.iter().find(|e| e.time == 0x1234_5678).unwrap();
    assert_eq!(overridden.items, [(12, other_traits.to_vec()), (11, metadata.to_vec())]);
    let named =
        seen.iter().find(|e| e.items.first().is_some_and(|i| i.1 == b"\x08\0Named\0")).unwrap();
    assert_eq!((named.payload.as_slice(), &named.items[1].1), (&b"\x2a"[..], &metadata.to_vec()));
    assert!(event_unregister(handle).is_success());
}

/// A registration that is gone calls nobody back, and its callback may write.
#[test]
fn a_registration_that_ended_gets_no_callback() {
    let _permits = session_permits(1);
    let id = Guid::from_u128(0x105);
    let path = TempPath::new("callbacks.etl");
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    let handle = event_register(
        &id,
        Some(Arc::new(move |change| seen.lock().unwrap().push((change.control, change.level.0)))),
    )
    .unwrap();
    let session = session(&path, id);
    assert!(event_enabled(handle, &descriptor()));
    session.disable(&id);
    assert!(!event_enabled(handle, &descriptor()));
    assert_eq!(*calls.lock().unwrap(), [(ControlCode::Enable, 5), (ControlCode::Disable, 0)]);
    assert!(event_unregister(handle).is_success());
    session.enable(&id, Level::ERROR, Keyword(0)).unwrap();
    assert_eq!(calls.lock().unwrap().len(), 2);
}

/// Threads that register, set traits and unregister at once never meet in one place.
#[test]
fn registering_from_many_threads() {
    std::thread::scope(|scope| {
        for thread in 0..8u128 {
            scope.spawn(move || {
                for round in 0..300 {
                    let id = Guid::from_u128(0x10d_0000 + thread * 1000 + round % 3);
                    let handle = event_register(&id, None).unwrap();
                    assert!(event_set_information(handle, 2, b"\x04\0T\0").is_success());
                    assert!(event_set_information(handle, 3, &[1]).is_success());
                    assert!(event_write(handle, Some(&descriptor()), &[]).is_success());
                    assert!(event_unregister(handle).is_success());
                    assert_eq!(event_unregister(handle), Status::ERROR_INVALID_HANDLE);
                }
            });
        }
    });
}

/// P2: an event whose values panic, or do not have the size that was announced, counts as abandoned; those around it are stored.
#[test]
fn an_event_that_is_not_filled_is_abandoned() {
    define_provider!(PROVIDER, "Calls.Abandoned");
    static SITE: rt::Site = rt::Site::new(&[0, 0, 0, 11, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let path = TempPath::new("abandoned.etl");
    let _registration = PROVIDER.register();
    let session = session(&path, PROVIDER.id());
    let whole = || {
        let routes = rt::routes(&PROVIDER, Level::INFO, Keyword(1));
        rt::write_site(&PROVIDER, &SITE, routes, 2, |room| room.put(b"ab"))
    };
    let with = |fill: fn(rt::Room<'_>) -> rt::Room<'_>| {
        let routes = rt::routes(&PROVIDER, Level::INFO, Keyword(1));
        rt::write_site(&PROVIDER, &SITE, routes, 2, fill)
    };
    // The first event takes another path, since the pool does not know the site yet.
    for _ in 0..3 {
        assert_eq!(whole(), Status::ERROR_SUCCESS);
        assert_eq!(with(|room| room.put(b"a")), Status::ERROR_ARITHMETIC_OVERFLOW);
        assert_eq!(with(|room| room.put(b"abc")), Status::ERROR_ARITHMETIC_OVERFLOW);
        std::panic::catch_unwind(|| with(|_| panic!("on purpose"))).unwrap_err();
    }
    assert_eq!(whole(), Status::ERROR_SUCCESS);
    let ledger = session.stop().unwrap().ledger;
    assert_eq!((ledger.attempted, ledger.stored), (13, 4));
    assert_eq!((ledger.lost(Cause::Abandoned), ledger.lost_total()), (9, 9));
    assert!(ledger.losses().all(|loss| loss.provider == Some(PROVIDER.id())));
    assert!(raw(&path).iter().all(|event| event.payload == b"ab"));
}
