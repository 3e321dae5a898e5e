//! Routing: the sessions that receive an event.
use crate::support::*;
use etw_session::*;
use etw_types::{
    Channel, EventDescriptor, ExtendedItemsBuf, Guid, Keyword, Level, LevelKeyword, Opcode,
};

fn router(independent: [bool; 3], buffers: [usize; 3]) -> Router<Vec<u8>> {
    let mut router = Router::default();
    for slot in 0..3 {
        let config = SessionConfig { buffer_size: 1024, independent: independent[slot], ..live() };
        router.insert(slot, with(&config, buffers[slot]));
    }
    router
}

fn balanced(router: &mut Router<Vec<u8>>) -> bool {
    router.iter_mut().all(|(_, session)| session.ledger().is_balanced())
}

/// OV-18: while one session has no room, none of its kind gets the event; an independent one does, and one that is full keeps nothing from
/// anybody. P7
#[test]
fn all_or_none_and_independent() {
    // Session 0 has two buffers and is never emptied.
    for (independent, first_full) in [([false, false, true], false), ([true, false, false], true)] {
        let mut router = router(independent, [2, 40, 40]);
        let mut outcomes = Vec::new();
        for number in 0..30u64 {
            let routed = router.route(0b111, &event(&number.to_le_bytes(), number as i64, 0));
            assert_eq!(routed.stored ^ routed.lost, 0b111);
            outcomes.push(routed.stored);
            assert!(balanced(&mut router));
        }
        assert!(outcomes[..20].iter().all(|stored| *stored == 0b111));
        let rest = if first_full { 0b110 } else { 0b100 };
        assert!(outcomes[20..].iter().all(|stored| *stored == rest), "{outcomes:?}");
        let lost = |slot: usize, cause| router.session(slot).unwrap().ledger().lost(cause);
        assert_eq!(lost(0, Cause::SessionFull), 10);
        assert_eq!(lost(1, Cause::AllOrNone), if first_full { 0 } else { 10 });
        assert_eq!(lost(2, Cause::AllOrNone), 0);
        let losses: Vec<_> = router.session(0).unwrap().ledger().losses().collect();
        assert_eq!(
            losses,
            [Loss {
                cause: Cause::SessionFull,
                provider: Some(PROVIDER),
                process_id: Some(7),
                count: 10
            }]
        );
    }
}

/// An event that a session does not want holds nobody up, and is counted as filtered.
#[test]
fn filtered_events_hold_nobody_up() {
    let mut router = router([false; 3], [2, 40, 40]);
    let quiet = LevelKeyword { level: Level(2), ..LevelKeyword::ALL };
    for number in 0..20u64 {
        router.route(1, &event(&number.to_le_bytes(), number as i64, 0));
    }
    let session = router.session_mut(0).unwrap();
    session.enable(PROVIDER, EnableInfo { wanted: quiet, ..EnableInfo::default() });
    let number = 20u64.to_le_bytes();
    let routed = router.route(0b111, &event(&number, 20, 0));
    assert_eq!(routed, Routed { stored: 0b110, filtered: 1, lost: 0 });
    let mut severe = event(&number, 21, 0);
    severe.descriptor.level = Level::ERROR;
    assert_eq!(router.route(0b111, &severe).lost, 0b111);
    router.session_mut(2).unwrap().disable(&PROVIDER);
    assert_eq!(router.route(0b110, &event(&number, 22, 0)).filtered, 0b100);
    assert!(balanced(&mut router));
}

/// OV-17: each filter alone: ids (not for TraceLogging), names (for it alone), processes, executables.
#[test]
fn each_filter_rejects_by_its_own_condition() {
    let number = 1u64.to_le_bytes();
    let facts = ProcessFacts::new(&[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0], 3, 4, "shop");
    let metadata = |name: &str| {
        let size = (3 + name.len() + 1) as u16;
        let blob = [&size.to_le_bytes()[..], &[0], name.as_bytes(), &[0]].concat();
        ExtendedItemsBuf::from_items(&[(etw_types::ExtType::EVENT_SCHEMA_TL, &blob[..])])
            .unwrap()
            .into_bytes()
    };
    let (sold, bought) = (metadata("Sold"), metadata("Bought"));
    let mut manifest = event(&number, 1, 0);
    manifest.descriptor.id = 5;
    manifest.descriptor.channel = etw_types::Channel(16);
    manifest.process = Some(&facts);
    let mut traced = Event { chain: &sold, ..manifest };
    traced.descriptor.id = 0;
    traced.descriptor.channel = etw_types::Channel::TRACE_LOGGING;
    let other = Event { chain: &bought, ..traced };
    let ids = |include, ids: &[u16]| Filters {
        event_ids: Some(IdFilter { include, ids: ids.to_vec() }),
        ..Filters::default()
    };
    let names = |include| Filters {
        event_names: Some(NameFilter {
            of: LevelKeyword::ALL,
            include,
            names: vec!["Sold".into()],
        }),
        ..Filters::default()
    };
    for (filters, expected) in [
        (Filters::default(), [true, true, true]),
        (ids(true, &[5]), [true, true, true]),
        (ids(true, &[6]), [false, true, true]),
        (ids(false, &[5]), [false, true, true]),
        (names(true), [true, true, false]),
        (names(false), [true, false, true]),
        (Filters { process_ids: vec![6, 7], ..Filters::default() }, [true; 3]),
        (Filters { process_ids: vec![6], ..Filters::default() }, [false; 3]),
        (Filters { channels: vec![16, 17], ..Filters::default() }, [true, false, false]),
        (Filters { channels: vec![17], ..Filters::default() }, [false; 3]),
        (Filters { executables: vec!["SHOP".into()], ..Filters::default() }, [true; 3]),
        (Filters { executables: vec!["shop2".into()], ..Filters::default() }, [false; 3]),
    ] {
        filters.check().unwrap();
        let mut session = with(&live(), 4);
        let shown = format!("{filters:?}");
        session.enable(
            PROVIDER,
            EnableInfo { filters: Some(Box::new(filters)), ..EnableInfo::default() },
        );
        assert_eq!(
            [manifest, traced, other].map(|event| session.wants(&event)),
            expected,
            "{shown}"
        );
    }
    let too_many = [
        ids(true, &[0; 65]),
        Filters { process_ids: vec![0; 9], ..Filters::default() },
        Filters { executables: vec!["x".repeat(512)], ..Filters::default() },
        Filters {
            event_names: Some(NameFilter {
                of: LevelKeyword::ALL,
                include: true,
                names: vec!["x".repeat(4096)],
            }),
            ..Filters::default()
        },
    ];
    assert!(too_many.iter().all(|filters| filters.check().is_err()));
}

/// OV-7: what a session asks for is added to each event: SID, terminal session, start key.
#[test]
fn properties_become_extended_items() {
    let facts = ProcessFacts::new(&[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0], 3, 4, "shop");
    let number = 1u64.to_le_bytes();
    let chain = ExtendedItemsBuf::from_items(&[(etw_types::ExtType::RELATED_ACTIVITYID, &[9; 16])])
        .unwrap();
    let event = Event { process: Some(&facts), chain: chain.as_bytes(), ..event(&number, 1, 0) };
    let mut session = with(&live(), 4);
    let all = EnableProperties(1 | 2 | 0x80);
    session.enable(PROVIDER, EnableInfo { properties: all, ..EnableInfo::default() });
    session.push(&event).unwrap();
    session.stop(5);
    let (_, bytes) = store(&mut session, 1).remove(0);
    let (_, records) = etw_etl::read::buffer::open(&bytes, 1 << 20).unwrap();
    let context = etw_etl::record::RecordContext::default();
    let record = etw_etl::record::parse(&records, &context).unwrap();
    let items: Vec<_> =
        record.extended.into_iter().map(|item| (item.ext_type.0, item.data.len())).collect();
    assert_eq!(items, [(1, 16), (2, 12), (3, 4), (13, 8)]);
    assert_eq!(
        (record.payload, record.process_id, record.thread_id),
        (&number[..], Some(7), Some(8))
    );
}

/// An event given by its shape has the same bytes on disk as one given in full, on each clock. Filters and refusals treat
/// both alike, also after a session's enablement has changed.
#[test]
fn events_by_shape() {
    let number = 0x0102_0304u32.to_le_bytes();
    let mut chain = vec![16, 0, 11, 0, 0, 0, 8, 0];
    chain.extend([7; 8]);
    let descriptor = EventDescriptor {
        id: 0x1122,
        version: 3,
        channel: Channel(11),
        level: Level::INFO,
        opcode: Opcode(5),
        task: 0x6677,
        keyword: Keyword(0x8800_0000_0000_0006),
    };
    let facts = ProcessFacts::new(&[1; 12], 2, 3, "program");
    let enablement = |wanted| EnableInfo { wanted, ..EnableInfo::default() };
    let with_properties = |properties| EnableInfo { properties, ..EnableInfo::default() };
    let enablements = [
        Some(EnableInfo::default()),
        Some(enablement(LevelKeyword { level: Level(2), ..LevelKeyword::ALL })),
        Some(enablement(LevelKeyword { any: Keyword(4), ..LevelKeyword::ALL })),
        Some(with_properties(EnableProperties::EXCLUDE_INPRIVATE)),
        Some(with_properties(EnableProperties::SID)),
        None,
        Some(EnableInfo::default()),
    ];
    for clock in [EventClock::Main, EventClock::Shifted(1000), EventClock::Raw] {
        // With one session, and with two whose enablements differ.
        for (chain, mask) in [(&chain[..], 1u64), (&[], 1), (&chain, 0b101)] {
            let slots = [0, 2].into_iter().filter(|slot| mask & 1 << slot != 0);
            let shape = Shape::new(PROVIDER, Guid::ZERO, descriptor, chain);
            let (mut by_shape, mut in_full) = (Router::default(), Router::default());
            for router in [&mut by_shape, &mut in_full] {
                for slot in slots.clone() {
                    let host = HostFacts { clock, ..HostFacts::default() };
                    router.insert(slot, with_host(&live(), host, 3));
                }
            }
            let mut bytes = 0;
            for (number_of_info, batch) in (0..enablements.len()).zip(1..) {
                for router in [&mut by_shape, &mut in_full] {
                    for slot in slots.clone() {
                        let session = router.session_mut(slot).unwrap();
                        match &enablements[(number_of_info + slot / 2) % enablements.len()] {
                            Some(info) => session.enable(PROVIDER, info.clone()),
                            None => drop(session.disable(&PROVIDER)),
                        }
                    }
                }
                for n in 0..40u8 {
                    let event = Shaped {
                        shape: &shape,
                        time: i64::from(n) + 100 * batch as i64,
                        raw: (n % 5 != 0).then_some(i64::from(n) + 5000 * batch as i64),
                        cpu: u16::from(n % 2),
                        process_id: 0x1111_2222,
                        thread_id: 0x3333_4444,
                        flags: 0x8241,
                        property: 0x5566,
                        in_private: n % 3 == 0,
                        payload: &number[..usize::from(n % 5).min(4)],
                        process: Some(&facts),
                    };
                    let routed = by_shape.route_shaped_or_wait(mask, n.into(), &event);
                    assert_eq!(routed, in_full.route_or_wait(mask, n.into(), &event.event()));
                }
                for slot in slots.clone() {
                    let stored = store(by_shape.session_mut(slot).unwrap(), batch);
                    bytes += stored.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                    assert_eq!(stored, store(in_full.session_mut(slot).unwrap(), batch));
                }
            }
            for slot in slots {
                let by_shape = by_shape.session(slot).unwrap();
                let in_full = in_full.session(slot).unwrap();
                assert_eq!(by_shape.ledger(), in_full.ledger());
                assert_eq!(by_shape.facts(), in_full.facts());
                // Two sessions wait for each other's buffers, and nothing is counted meanwhile.
                let filtered = if mask == 1 { 80 } else { 40 };
                assert!(by_shape.ledger().filtered >= filtered && bytes >= 4096);
                assert!(by_shape.ledger().lost_total() > 0);
            }
        }
    }
}

/// Events of a run have the same bytes on disk and the same counts as single ones, for every length of payload and on each clock. An
/// event that is not in order, or for which the buffer has no room, is left to the way of single events. P7
#[test]
fn events_in_runs() {
    let payload: Vec<u8> = (0..140).collect();
    let descriptor = EventDescriptor { level: Level::INFO, ..EventDescriptor::default() };
    let shape = Shape::new(PROVIDER, Guid::ZERO, descriptor, &[]);
    let mut stage = RunStage::new(<[u8]>::copy_from_slice);
    for clock in [EventClock::Main, EventClock::Shifted(1000), EventClock::Raw] {
        let (mut by_run, mut singly) = (Router::default(), Router::default());
        for router in [&mut by_run, &mut singly] {
            let host = HostFacts { clock, ..HostFacts::default() };
            router.insert(0, with_host(&live(), host, 3));
        }
        let (mut in_runs, mut bytes, mut batch) = (0, 0, 0);
        for turn in 0..3 {
            for router in [&mut by_run, &mut singly] {
                router.session_mut(0).unwrap().enable(PROVIDER, EnableInfo::default());
            }
            for size in 0..=140usize {
                let time = (1000 * turn + size as i64) - 500 * i64::from(size % 8 == 6);
                let event = Shaped {
                    shape: &shape,
                    time,
                    raw: Some(time + 7),
                    cpu: (size / 8 % 2) as u16,
                    process_id: 1,
                    thread_id: 2,
                    flags: 0x40,
                    property: 3,
                    in_private: false,
                    payload: &payload[..size],
                    process: None,
                };
                let session = by_run.session_mut(0).unwrap();
                let is_put = session.begin_run(event.cpu, &mut stage).is_some_and(|mut run| {
                    let is_put = run.put(&event);
                    run.finish();
                    is_put
                });
                in_runs += u32::from(is_put);
                let routed = singly.route_or_wait(1, 0, &event.event());
                match is_put {
                    true => assert_eq!(routed.map(|routed| routed.stored), Some(1)),
                    false => assert_eq!(by_run.route_shaped_or_wait(1, 0, &event), routed),
                }
                batch += 1;
                let stored = store(by_run.session_mut(0).unwrap(), batch);
                bytes += stored.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
                assert_eq!(stored, store(singly.session_mut(0).unwrap(), batch));
            }
        }
        let (by_run, singly) = (by_run.session(0).unwrap(), singly.session(0).unwrap());
        assert_eq!(by_run.ledger(), singly.ledger());
        assert_eq!(by_run.facts(), singly.facts());
        assert!(by_run.facts().out_of_order > 0 && in_runs > 150 && bytes > 32 << 10, "{in_runs}");
    }
}

/// Runs that are longer than the stage, with events that are, fill buffers to the last byte that single events fill. P7
#[test]
fn runs_that_are_longer_than_their_stage() {
    let payload: Vec<u8> = (0..20_000u32).map(|n| (n % 251) as u8).collect();
    let descriptor = EventDescriptor { level: Level::INFO, ..EventDescriptor::default() };
    let shape = Shape::new(PROVIDER, Guid::ZERO, descriptor, &[]);
    let config = SessionConfig { buffer_size: 64 << 10, ..live() };
    let (mut by_run, mut singly) = (with(&config, 4), with(&config, 4));
    for session in [&mut by_run, &mut singly] {
        session.enable(PROVIDER, EnableInfo::default());
    }
    // A stage has 16 KiB.
    let sizes = [24usize, 300, 4000, 16_303, 16_304, 16_305, 20_000, 0, 9000];
    let events = (0..4000usize).map(|n| Shaped {
        shape: &shape,
        time: n as i64,
        raw: None,
        cpu: 0,
        process_id: 1,
        thread_id: 2,
        flags: 0x40,
        property: 3,
        in_private: false,
        payload: &payload[..if n < 2000 { sizes[n * n / 5 % sizes.len()] } else { n % 100 }],
        process: None,
    });
    let events: Vec<_> = events.collect();
    let mut stage = RunStage::new(<[u8]>::copy_from_slice);
    let (mut next, mut longest, mut batch) = (0, 0, 0);
    while let Some(first) = events.get(next) {
        // A run ends where the buffer does.
        let mut router = Router::default();
        router.insert(0, by_run);
        assert!(router.route_shaped_or_wait(1, 0, first).is_some());
        by_run = router.remove(0).unwrap();
        let mut run = by_run.begin_run(0, &mut stage).unwrap();
        let put = events[next + 1..].iter().take_while(|event| run.put(event)).count();
        run.finish();
        longest = longest.max(put);
        for event in &events[next..next + 1 + put] {
            assert!(singly.push(&event.event()).is_ok());
        }
        assert_eq!((by_run.ledger(), by_run.facts()), (singly.ledger(), singly.facts()));
        next += 1 + put;
        batch += 1;
        assert_eq!(store(&mut by_run, batch), store(&mut singly, batch));
    }
    by_run.flush(0);
    singly.flush(0);
    assert_eq!(store(&mut by_run, batch + 1), store(&mut singly, batch + 1));
    assert_eq!(by_run.facts().bytes, singly.facts().bytes);
    assert!(longest > 200 && singly.ledger().stored == 4000, "{longest}");
}
