//! Classic providers: their one session, the requests to their callbacks, and their events in its file.
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::{TempPath, session_permits};
use etw::evntrace::*;
use etw::*;
use etw_etl::read::{Records, TraceFile};
use etw_types::{EventRecord, ExtType, HeaderType};

/// The requests that callbacks got.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<ControlRequest>>>);

/// The level and flags that a session asks for.
fn asked(logger: LoggerHandle) -> Option<(u8, u32)> {
    enable_info(logger).map(|asked| (asked.level.0, asked.flags))
}

impl Requests {
    fn callback(&self) -> Arc<ControlCallback> {
        let told = self.clone();
        Arc::new(move |request: &ControlRequest| {
            told.0.lock().unwrap().push(*request);
            Status(77)
        })
    }

    /// Since it was last asked: codes, levels and flags.
    fn take(&self) -> Vec<(RequestCode, u8, u32)> {
        let told = std::mem::take(&mut *self.0.lock().unwrap());
        told.into_iter().map(|request| (request.code, request.level.0, request.flags)).collect()
    }

    fn last(&self) -> LoggerHandle {
        self.0.lock().unwrap().last().unwrap().logger
    }
}

fn read<T>(path: &Path, mut of: impl FnMut(&EventRecord<'_>) -> T) -> Vec<T> {
    let mut records = Records::new(vec![TraceFile::open(path).unwrap()]);
    let mut all = Vec::new();
    while let Some(record) = records.next() {
        let is_report = record.header == HeaderType::Event64;
        if record.hook.is_none() && record.provider != Some(etw_types::EVENT_TRACE) && !is_report {
            all.push(of(&record));
        }
    }
    assert_eq!(records.damage().count(), 0, "{:?}", records.damage().kept());
    all
}

fn file(name: &str) -> (Session, TempPath) {
    let path = TempPath::new(name);
    (Session::builder(name).file(&path).start().unwrap(), path)
}

const CLASS: Guid = Guid::from_u128(0xc1a55);

fn number(logger: LoggerHandle, number: u32) -> Status {
    let class = EventClass { guid: CLASS, kind: 1, level: Level(9), version: 0x203 };
    trace_event(logger, class, None, &[&number.to_le_bytes()])
}

/// OV-12: only the session that enabled a classic provider last has it. The callback gets level and flags, which filter nothing.
#[test]
fn a_classic_provider_belongs_to_the_session_that_enabled_it_last() {
    let _permits = session_permits(2);
    use RequestCode::{DisableEvents as Disable, EnableEvents as Enable};
    let control = Guid::from_u128(0xc1a5501);
    let (first, first_path) = file("classic-first.etl");
    let (second, second_path) = file("classic-second.etl");
    let told = Requests::default();
    let ClassicRegistration { handle, answer } =
        register_trace_guids(&control, TraceClasses::default(), told.callback()).unwrap();
    assert_eq!((told.take(), answer), (vec![], Status::ERROR_SUCCESS));

    first.enable(&control, Level(3), Keyword(0xf_0000_0005)).unwrap();
    let of_first = told.last();
    assert_eq!(told.take(), [(Enable, 3, 5)]);
    assert_eq!(number(of_first, 1), Status::ERROR_SUCCESS);

    // The same session asks for another level: the callback gets it, with the same handle.
    assert_eq!(asked(of_first), Some((3, 5)));
    first.enable(&control, Level(0), Keyword(0)).unwrap();
    assert_eq!(told.last(), of_first);
    assert_eq!(told.take(), [(Enable, 0, 0)]);
    assert_eq!(asked(of_first), Some((0, 0)));
    for _ in 0..2 {
        assert_eq!(number(of_first, 2), Status::ERROR_SUCCESS);
    }

    second.enable(&control, Level(5), Keyword(1)).unwrap();
    let of_second = told.last();
    assert_eq!(told.take(), [(Enable, 5, 1)]);
    assert_eq!(number(of_first, 3), Status::ERROR_INVALID_HANDLE);
    assert_eq!((asked(of_first), asked(of_second)), (None, Some((5, 1))));
    assert_eq!(number(of_second, 4), Status::ERROR_SUCCESS);

    // It is not the first one's any more: nothing to take from it.
    first.disable(&control);
    assert_eq!(told.take(), []);
    assert_eq!(number(of_second, 5), Status::ERROR_SUCCESS);
    second.capture_state(&control, Level(2), Keyword(8));
    assert_eq!(told.take(), [(RequestCode::CaptureState, 2, 8)]);

    first.enable(&control, Level(1), Keyword(0)).unwrap();
    let of_first = told.last();
    assert_eq!(told.take(), [(Enable, 1, 0)]);
    assert_eq!(number(of_first, 6), Status::ERROR_SUCCESS);
    first.stop().unwrap();
    let disabled = told.last();
    assert_eq!(told.take(), [(Disable, 0, 0)]);
    assert_eq!(disabled, of_first);
    // The second one had it once.
    for handle in [of_first, of_second] {
        assert_eq!(number(handle, 7), Status::ERROR_INVALID_HANDLE);
    }
    second.enable(&control, Level(4), Keyword(2)).unwrap();
    assert_eq!(number(told.last(), 8), Status::ERROR_SUCCESS);
    let last = told.last();
    assert_eq!(unregister_trace_guids(handle), Status::ERROR_SUCCESS);
    assert_eq!(unregister_trace_guids(handle), Status::ERROR_INVALID_HANDLE);
    assert_eq!(number(last, 9), Status::ERROR_INVALID_HANDLE);
    let statistics = second.stop().unwrap();
    assert!(statistics.ledger.is_balanced());
    assert_eq!(statistics.ledger.stored, 3);

    let numbers = |path: &Path| {
        read(path, |record| {
            let d = &record.descriptor;
            assert_eq!((record.header, record.provider), (HeaderType::Full64, Some(CLASS)));
            assert_eq!((d.opcode.0, d.level.0, d.version), (1, 9, 3));
            assert_eq!(record.process_id, Some(std::process::id()));
            u32::from_le_bytes(record.payload.try_into().unwrap())
        })
    };
    assert_eq!(numbers(&first_path), [1, 2, 2, 6]);
    assert_eq!(numbers(&second_path), [4, 5, 8]);
}

/// OV-12: if several sessions enabled a provider before it registered, the last of them has it, and registering returns its callback's
/// answer.
#[test]
fn the_last_session_before_the_registration_has_the_provider() {
    let _permits = session_permits(2);
    let control = Guid::from_u128(0xc1a5502);
    let (first, _first_path) = file("classic-before-1.etl");
    let (second, _second_path) = file("classic-before-2.etl");
    first.enable(&control, Level(1), Keyword(0)).unwrap();
    second.enable(&control, Level(2), Keyword(0)).unwrap();
    let newest = |level: u8| {
        let told = Requests::default();
        let ClassicRegistration { handle, answer } =
            register_trace_guids(&control, TraceClasses::default(), told.callback()).unwrap();
        assert_eq!(answer, Status(77));
        assert_eq!(told.take().last(), Some(&(RequestCode::EnableEvents, level, 0)));
        assert_eq!(unregister_trace_guids(handle), Status::ERROR_SUCCESS);
    };
    newest(2);
    first.enable(&control, Level(3), Keyword(0)).unwrap();
    newest(3);
    // The newest registration of that time is not the newest now.
    first.disable(&control);
    newest(2);
    second.disable(&control);
    let told = Requests::default();
    let ClassicRegistration { answer, .. } =
        register_trace_guids(&control, TraceClasses::default(), told.callback()).unwrap();
    assert_eq!((told.take(), answer), (vec![], Status::ERROR_SUCCESS));
}

/// OV-12: instances and messages, with what stands before their data; a time of the writer's own.
#[test]
fn instances_and_messages_come_back() {
    let _permits = session_permits(1);
    let control = Guid::from_u128(0xc1a5503);
    let (session, path) = file("classic-kinds.etl");
    let told = Requests::default();
    let classes = TraceClasses::register(&[CLASS, Guid::from_u128(0xfa7e6)]).unwrap();
    let [child, parent] = *classes.handles() else { panic!() };
    let ClassicRegistration { handle, .. } =
        register_trace_guids(&control, classes, told.callback()).unwrap();
    session.enable(&control, Level(5), Keyword(0)).unwrap();
    let logger = told.last();
    let ok = Status::ERROR_SUCCESS;

    assert_eq!(create_trace_instance_id(parent), Ok(1));
    assert_eq!(create_trace_instance_id(parent), Ok(2));
    assert_eq!(create_trace_instance_id(child), Ok(1));
    let class = EventClass { kind: 4, ..EventClass::default() };
    let parts: [&[u8]; 3] = [b"ab", b"", b"cd"];
    assert_eq!(
        trace_event_instance(logger, class, (child, 1), Some((parent, 2)), None, &parts),
        ok
    );
    assert_eq!(trace_event_instance(logger, class, (parent, 2), None, None, &[]), ok);
    let all = MessageFlags(0xffff);
    let guid = MessageId::Guid(Guid::from_u128(0x3e55a6e));
    assert_eq!(trace_message(logger, all, guid, 10, &parts), ok);
    assert_eq!(trace_message(logger, MessageFlags(0), MessageId::None, 11, &[]), ok);
    let id = MessageId::Component(99);
    assert_eq!(trace_message(logger, MessageFlags::SEQUENCE, id, 12, &[b"x"]), ok);
    assert_eq!(trace_event(logger, EventClass::default(), Some(1234), &[]), ok);

    // Their handles are invalid and belong to no other registration.
    assert_eq!(unregister_trace_guids(handle), ok);
    let others = TraceClasses::register(&[CLASS, CLASS]).unwrap();
    assert!(others.handles().iter().all(|other| *other != child && *other != parent));
    for gone in [child, parent, ClassHandle(0), ClassHandle(u32::MAX)] {
        assert_eq!(create_trace_instance_id(gone), Err(Status::ERROR_INVALID_PARAMETER));
    }
    let told = Requests::default();
    let ClassicRegistration { handle, .. } =
        register_trace_guids(&control, TraceClasses::default(), told.callback()).unwrap();
    let logger = told.last();
    let bad = Status::ERROR_INVALID_PARAMETER;
    let good = (others.handles()[0], 1);
    assert_eq!(trace_event_instance(logger, class, (child, 1), None, None, &[]), bad);
    assert_eq!(trace_event_instance(logger, class, good, Some((parent, 1)), None, &[]), bad);
    assert_eq!(unregister_trace_guids(handle), ok);
    session.stop().unwrap();

    let found = read(&path, |record| {
        let instance = record.extended.find(ExtType::INSTANCE_INFO).map(|info| {
            let word = |at: usize| u32::from_le_bytes(info[at..at + 4].try_into().unwrap());
            (word(0), word(4), Guid(info[8..].try_into().unwrap()))
        });
        let ids = (record.descriptor.id, record.descriptor.opcode.0, record.provider);
        let message = (record.message_flags.0, record.sequence, record.component_id);
        let (by, time) = (record.process_id, record.has_time);
        if record.payload.is_empty() && ids.1 == 0 && time {
            assert_eq!(record.order_time, 1234);
        }
        (record.header, ids, instance, message, by, time, record.payload.to_vec())
    });
    let own = Some(std::process::id());
    let no = (0, None, None);
    let (child, parent) = (Some(CLASS), Guid::from_u128(0xfa7e6));
    let (instance, message) = (HeaderType::Instance64, HeaderType::Message);
    let guid = Some(Guid::from_u128(0x3e55a6e));
    let data = b"abcd".to_vec();
    let expected = [
        (HeaderType::Full64, (0, 0, Some(Guid::ZERO)), None, no, own, true, vec![]),
        (instance, (0, 4, child), Some((1, 2, parent)), no, own, true, data.clone()),
        (instance, (0, 4, Some(parent)), Some((2, 0, Guid::ZERO)), no, own, true, vec![]),
        (message, (10, 0, guid), None, (0x80 | 0x2b, Some(1), None), own, true, data),
        (message, (11, 0, None), None, (0x80, None, None), None, false, vec![]),
        (message, (12, 0, None), None, (0x85, Some(2), Some(99)), None, false, b"x".to_vec()),
    ];
    let mut found = found;
    found.sort_by_key(|record| record.0 != HeaderType::Full64);
    assert_eq!(found, expected);
}

/// OV-12, P2: what is too large is refused and counted; handles that were never given are none.
#[test]
fn statuses_of_classic_events() {
    let _permits = session_permits(1);
    let control = Guid::from_u128(0xc1a5504);
    let (session, _path) = file("classic-statuses.etl");
    let told = Requests::default();
    register_trace_guids(&control, TraceClasses::default(), told.callback()).unwrap();
    session.enable(&control, Level(5), Keyword(0)).unwrap();
    let logger = told.last();
    let write = |size: usize| {
        let half = vec![7; size / 2];
        trace_event(logger, EventClass::default(), None, &[&half, &half])
    };
    // 65535 is the largest record, 64 KiB less a buffer's header the largest in this session.
    assert_eq!(write(65536 - 0x48 - 0x30), Status::ERROR_SUCCESS);
    assert_eq!(write(65536 - 0x48 - 0x30 + 2), Status::ERROR_MORE_DATA);
    assert_eq!(write(1 << 16), Status::ERROR_MORE_DATA);
    assert_eq!(write(1 << 25), Status::ERROR_MORE_DATA);
    // Readers apply the values of these fields to the whole trace.
    for guid in [etw_types::EVENT_TRACE, etw_types::EVENT_METADATA, etw_types::LOST_EVENT] {
        let class = EventClass { guid, kind: 32, ..EventClass::default() };
        assert_eq!(trace_event(logger, class, None, &[]), Status::ERROR_ACCESS_DENIED);
        let classes = TraceClasses::register(&[guid]).unwrap();
        let instance = (classes.handles()[0], 1);
        let status = trace_event_instance(logger, class, instance, None, None, &[]);
        assert_eq!(status, Status::ERROR_ACCESS_DENIED);
    }
    for bit in (0..16).chain(24..32) {
        let other = LoggerHandle(logger.0 ^ 1 << bit);
        assert_eq!(number(other, 1), Status::ERROR_INVALID_HANDLE, "{bit}");
        let flags = MessageFlags(0);
        assert_eq!(
            trace_message(other, flags, MessageId::None, 1, &[]),
            Status::ERROR_INVALID_HANDLE
        );
    }
    for other in [0, u64::MAX, 1, 0x401] {
        assert_eq!(number(LoggerHandle(other), 1), Status::ERROR_INVALID_HANDLE);
        assert_eq!(enable_info(LoggerHandle(other)), None);
    }
    for other in [0, u64::MAX, 1 << 48, 0x7fff_0000_0000_0001] {
        assert_eq!(unregister_trace_guids(TraceHandle(other)), Status::ERROR_INVALID_HANDLE);
    }
    let statistics = session.stop().unwrap();
    assert!(statistics.ledger.is_balanced());
    let ledger = (statistics.ledger.attempted, statistics.ledger.stored);
    assert_eq!((ledger, statistics.ledger.lost_total()), ((4, 1), 3));
}

/// Registrations and classes up to the limits, whose entries are then used again.
#[test]
fn limits_of_classic_registrations() {
    let too_many = vec![CLASS; MAX_CLASSES + 1];
    let full = Some(Status::ERROR_NO_SYSTEM_RESOURCES);
    assert_eq!(TraceClasses::register(&too_many).err(), full);
    for _ in 0..2 {
        let mut handles = Vec::new();
        loop {
            let callback = Arc::new(|_: &ControlRequest| Status::ERROR_SUCCESS);
            let control = Guid::from_u128(0xc1a5505);
            match register_trace_guids(&control, TraceClasses::default(), callback) {
                Ok(registration) => handles.push(registration.handle),
                Err(status) => break assert_eq!(Some(status), full),
            }
        }
        // Other tests have some.
        assert!((MAX_REGISTRATIONS - 20..=MAX_REGISTRATIONS).contains(&handles.len()));
        for handle in handles {
            assert_eq!(unregister_trace_guids(handle), Status::ERROR_SUCCESS);
        }
    }
}
