//! Classic events on disk.
use crate::support::*;
use etw_etl::record::{RecordContext, frame, parse};
use etw_etl::write::encode;
use etw_session::*;
use etw_types::{
    Classic, ClassicHeader, EventClass, EventRecord, ExtType, Guid, HeaderType, Hook, KernelClass,
    Keyword, Level, LevelKeyword, MessageFlags, MessageId,
};

const CLASS: EventClass =
    EventClass { guid: Guid::from_u128(0xc1a55), kind: 7, level: Level(8), version: 9 };

fn classic(header: ClassicHeader) -> Classic {
    Classic { header, is_32_bit: false }
}

fn instance() -> Classic {
    let (instance, parent_instance, parent) = (5, 6, Guid::from_u128(0xfa7e6));
    classic(ClassicHeader::Instance { class: CLASS, instance, parent_instance, parent })
}

fn message(flags: u16, id: MessageId) -> Classic {
    classic(ClassicHeader::Message { flags: MessageFlags(flags), id, number: 0x1234 })
}

fn of<'a>(classic: &'a Classic, number: &'a [u8; 8], time: i64) -> Event<'a> {
    Event { classic: Some(classic), ..event(number, time, 0) }
}

/// The records of a session's only buffer.
fn records(session: &mut Session<Vec<u8>>, check: &mut dyn FnMut(&EventRecord<'_>, &[u8])) {
    session.stop(i64::MAX);
    let [(_, bytes)] = &store(session, 1)[..] else { panic!() };
    let (_, records) = etw_etl::read::buffer::open(bytes, 1 << 24).unwrap();
    let context = RecordContext::default();
    let mut at = 0;
    while at < records.len() {
        let size = frame(&records[at..], &context).unwrap().size as usize;
        let record = &records[at..at + size];
        check(&parse(record, &context).unwrap(), record);
        at += size.next_multiple_of(8);
    }
}

/// OV-12: each form is what the container's own writer makes of it, byte for byte, and its parts are where its reader finds them.
#[test]
fn classic_events_are_records_of_their_own_kinds() {
    let mut all = vec![classic(ClassicHeader::Trace(CLASS)), instance()];
    let ids = [MessageId::None, MessageId::Guid(Guid::from_u128(3)), MessageId::Component(4)];
    for parts in 0..8u16 {
        let flags = (parts & 1) | (parts & 2) << 2 | (parts & 4) << 3;
        all.extend(ids.map(|id| message(flags, id)));
    }
    let narrow = |classic: &Classic| Classic { is_32_bit: true, ..*classic };
    all.extend(all.clone().iter().map(narrow));
    let kernel = KernelClass { hook: Hook(0x0524), version: 4 };
    all.extend([ClassicHeader::System(kernel), ClassicHeader::PerfInfo(kernel)].map(classic));
    let mut session = with(&SessionConfig { buffer_size: 8192, ..config(LogMode::default()) }, 2);
    for (time, classic) in (100..).zip(&all) {
        session.push(&of(classic, b"eight bb", time)).unwrap();
    }
    let (mut number, mut sequence) = (0, 0);
    records(&mut session, &mut |record, bytes| {
        let classic = &all[number];
        let time = 100 + number as i64;
        number += 1;
        let mut again = Vec::new();
        encode(record, &mut again).unwrap();
        assert_eq!(again, bytes, "{classic:?}");
        assert_eq!(bytes.len(), classic.size() + 8);
        assert_eq!(
            (record.payload, record.pointer_size),
            (&b"eight bb"[..], if classic.is_32_bit { 4 } else { 8 })
        );
        let (process, thread) = (record.process_id, record.thread_id);
        let narrow = classic.is_32_bit;
        match classic.header {
            ClassicHeader::Message { flags, id, number } => {
                assert_eq!((record.header, record.descriptor.id), (HeaderType::Message, number));
                let has = |flag| flags.contains(flag);
                let ids = has(MessageFlags::SYSTEM_INFO).then_some((7, 8));
                assert_eq!(process.zip(thread), ids);
                let timed = has(MessageFlags::TIMESTAMP);
                assert_eq!(
                    (record.has_time, record.order_time),
                    (timed, if timed { time } else { 0 })
                );
                sequence += u32::from(has(MessageFlags::SEQUENCE));
                assert_eq!(record.sequence, has(MessageFlags::SEQUENCE).then_some(sequence));
                let (guid, component) = match id {
                    MessageId::None => (None, None),
                    MessageId::Guid(guid) => (Some(guid), None),
                    MessageId::Component(component) => (None, Some(component)),
                };
                assert_eq!((record.provider, record.component_id), (guid, component));
                return;
            }
            ClassicHeader::System(class) | ClassicHeader::PerfInfo(class) => {
                let has_ids = matches!(classic.header, ClassicHeader::System(_));
                let header = if has_ids { HeaderType::System64 } else { HeaderType::PerfInfo64 };
                assert_eq!((record.header, record.hook), (header, Some(class.hook)));
                assert_eq!(record.descriptor.version, class.version);
                assert_eq!(process.zip(thread), has_ids.then_some((7, 8)));
                assert_eq!(record.order_time, time);
                return;
            }
            ClassicHeader::Trace(_) => {
                let header = if narrow { HeaderType::Full32 } else { HeaderType::Full64 };
                assert_eq!(record.header, header);
            }
            ClassicHeader::Instance { .. } => {
                let header = if narrow { HeaderType::Instance32 } else { HeaderType::Instance64 };
                assert_eq!(record.header, header);
                let info = record.extended.find(ExtType::INSTANCE_INFO).unwrap();
                assert_eq!(info[..8], [5, 0, 0, 0, 6, 0, 0, 0]);
                assert_eq!(info[8..], Guid::from_u128(0xfa7e6).0);
            }
        }
        let d = record.descriptor;
        assert_eq!(
            (record.provider, d.opcode.0, d.level.0, d.version),
            (Some(CLASS.guid), 7, 8, 9)
        );
        assert_eq!((process, thread, record.order_time), (Some(7), Some(8), time));
    });
    assert_eq!((number, sequence), (all.len(), 24));
}

/// OV-12, OV-17: level, keywords, ids and names say nothing of a classic event; the process and its program do, and what the provider's session
/// has not enabled it does not get. Items that it asks for have no place in such a record.
#[test]
fn who_gets_classic_events() {
    let facts = ProcessFacts::new(&[1; 12], 2, 3, "shop");
    let narrow =
        LevelKeyword { level: Level(1), any: Keyword(2), all: Keyword(2), ignore_keyword_0: true };
    let none = IdFilter { include: true, ids: vec![] };
    let filters = |process| Filters {
        event_ids: Some(none.clone()),
        process_ids: vec![process],
        executables: vec!["SHOP".to_owned()],
        ..Filters::default()
    };
    let header = classic(ClassicHeader::Trace(CLASS));
    for (process, provider, is_wanted) in
        [(7, PROVIDER, true), (6, PROVIDER, false), (7, CLASS.guid, false)]
    {
        let mut router = Router::default();
        let mut session = with(&live(), 2);
        session.enable(
            PROVIDER,
            EnableInfo {
                wanted: narrow,
                properties: EnableProperties(
                    EnableProperties::SID.0 | EnableProperties::PROCESS_START_KEY.0,
                ),
                filters: Some(Box::new(filters(process))),
            },
        );
        router.insert(0, session);
        let number = 1u64.to_le_bytes();
        let event = Event { provider, process: Some(&facts), ..of(&header, &number, 1) };
        let routed = router.route(1, &event);
        assert_eq!((routed.stored, routed.filtered), (u64::from(is_wanted), u64::from(!is_wanted)));
        if is_wanted {
            let session = router.session_mut(0).unwrap();
            records(session, &mut |record, bytes| {
                assert_eq!((bytes.len(), record.extended.is_empty()), (0x30 + 8, true));
            });
        }
    }
}

/// P3, OV-12: sequence numbers of a session that goes on after its host was killed are above those before.
#[test]
fn sequence_numbers_go_on_after_a_kill() {
    let (config, host) = (config(LogMode::default()), HostFacts::default());
    let numbered = message(1, MessageId::None);
    let mut numbers = vec![0; state::STATE_SIZE];
    let mut buffers = [[0; 1024]; 3];
    {
        let buffers = buffers.iter_mut().map(|buffer| &mut buffer[..]).collect();
        let mut killed = Session::new(&config, host, buffers).unwrap();
        killed.enable(PROVIDER, EnableInfo::default());
        killed.keep_state(&mut numbers[..], 0);
        for time in 0..3 {
            killed.push(&of(&numbered, &[0; 8], time)).unwrap();
        }
        killed.seal(1);
    }
    let saved = state::Saved::read(&numbers, 1).unwrap();
    let found = recover::recover(buffers.iter().map(|buffer| &buffer[..]), 1);
    let killed = state::Killed { saved, found, batch: 1 };
    let memories = vec![vec![0; 1024]; 3];
    let (mut session, _) = Session::resume(&config, host, memories, killed, &Guid::ZERO).unwrap();
    session.enable(PROVIDER, EnableInfo::default());
    session.push(&of(&numbered, &[0; 8], 9)).unwrap();
    session.stop(i64::MAX);
    let mut sequences = Vec::new();
    for (_, bytes) in store(&mut session, 2) {
        let (_, records) = etw_etl::read::buffer::open(&bytes, 1 << 24).unwrap();
        for record in records.chunks_exact(24) {
            let parsed = parse(&record[..20], &RecordContext::default()).unwrap();
            sequences.extend(parsed.sequence);
        }
    }
    assert_eq!(sequences, [1, 2, 3, 4]);
}

/// OV-23: a run of kernel events of several CPUs leaves the same buffers and the same counts as the events alone. What it cannot store goes
/// the other way.
#[test]
fn a_run_stores_kernel_events_as_they_are_stored_alone() {
    let kernel = KernelClass { hook: Hook(0x0524), version: 4 };
    let classes = [ClassicHeader::System(kernel), ClassicHeader::PerfInfo(kernel)].map(classic);
    let other = classic(ClassicHeader::Trace(CLASS));
    let bytes: Vec<u8> = (1..=90).collect();
    let config = config(LogMode::default());
    let [mut alone, mut in_runs] = [with(&config, 12), with(&config, 12)];
    let mut refused = 0;
    for number in 0..120usize {
        let class = if number % 17 == 0 { &other } else { &classes[number % 2] };
        let payload = &bytes[..number % 90];
        // Now and then the host's order is broken.
        let time = 100 + number as i64 - i64::from(number % 30 == 29) * 5;
        let event = Event { payload, cpu: (number % 3) as u16, ..of(class, &[0; 8], time) };
        alone.push(&event).unwrap();
        let mut run = in_runs.begin_kernel_run(&PROVIDER).unwrap();
        let Event { cpu, process_id, thread_id, .. } = event;
        let is_put = run.put(&KernelEvent { time, cpu, process_id, thread_id, class, payload });
        run.finish();
        if !is_put {
            refused += 1;
            in_runs.push(&event).unwrap();
        }
    }
    assert!((8..40).contains(&refused), "{refused}");
    assert_eq!(alone.ledger(), in_runs.ledger());
    assert_eq!((alone.ledger().stored, alone.facts().out_of_order), (120, 4));
    assert_eq!(alone.facts(), in_runs.facts());
    let buffers = [&mut alone, &mut in_runs].map(|session| {
        session.stop(i64::MAX);
        store(session, 1)
    });
    assert!(buffers[0].len() > 3 && buffers[0] == buffers[1]);
    let with_key =
        EnableInfo { properties: EnableProperties::PROCESS_START_KEY, ..EnableInfo::default() };
    let mut asking = with(&config, 2);
    asking.enable(PROVIDER, with_key);
    assert!(asking.begin_kernel_run(&PROVIDER).is_none(), "it wants more than the event");
    assert!(asking.begin_kernel_run(&Guid::ZERO).is_none(), "it is not enabled");
}
