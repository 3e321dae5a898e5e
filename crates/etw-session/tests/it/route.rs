//! Who gets an event.
use crate::support::*;
use etw_session::*;
use etw_types::{Level, LevelKeyword};

fn router(independent: [bool; 3], buffers: [usize; 3]) -> Router<Vec<u8>> {
    let mut router = Router::default();
    for slot in 0..3 {
        let options = SessionOptions {
            buffer_size: 1024,
            independent: independent[slot],
            mode: LogMode::RealTime,
            ..SessionOptions::default()
        };
        router.insert(slot, with(options, buffers[slot]));
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
        assert_eq!(losses, [(Cause::SessionFull, Some(PROVIDER), Some(7), 10)]);
    }
}

/// An event that a session does not want holds nobody up, and is counted as filtered.
#[test]
fn filtered_events_hold_nobody_up() {
    let mut router = router([false; 3], [2, 40, 40]);
    let quiet = LevelKeyword { level: 2, ..LevelKeyword::ALL };
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
fn filters() {
    let number = 1u64.to_le_bytes();
    let facts = ProcessFacts::new(&[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0], 3, 4, "shop");
    let metadata = |name: &str| {
        let size = (3 + name.len() + 1) as u16;
        let blob = [&size.to_le_bytes()[..], &[0], name.as_bytes(), &[0]].concat();
        etw_etl::write::extended_chain(&[(etw_types::ExtType::EVENT_SCHEMA_TL, &blob[..])]).unwrap()
    };
    let (sold, bought) = (metadata("Sold"), metadata("Bought"));
    let mut manifest = event(&number, 1, 0);
    manifest.descriptor.id = 5;
    manifest.process = Some(&facts);
    let mut traced = Event { chain: &sold, ..manifest };
    traced.descriptor.id = 0;
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
        (Filters { executables: vec!["SHOP".into()], ..Filters::default() }, [true; 3]),
        (Filters { executables: vec!["shop2".into()], ..Filters::default() }, [false; 3]),
    ] {
        filters.check().unwrap();
        let mut session = session(LogMode::RealTime, 4);
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
    let chain =
        etw_etl::write::extended_chain(&[(etw_types::ExtType::RELATED_ACTIVITYID, &[9; 16])])
            .unwrap();
    let event = Event { process: Some(&facts), chain: &chain, ..event(&number, 1, 0) };
    let mut session = session(LogMode::RealTime, 4);
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
