//! Rust programs that control hosts.

use etw::{Consumer, Controller, EnableInfo, Keyword, Level, Status};
use etw_etl::read::{Records, TraceFile};

use crate::program_roles::PROVIDER;
use crate::rig::*;

/// OV-1, OV-2: a session from start to stop, controlled by the crate that programs use.
#[test]
fn a_program_controls_a_session() {
    let rig = Rig::new();
    let host = Controller::connect_to(rig.runtime()).unwrap();
    let (first, second) = (rig.file("first.etl"), rig.file("second.etl"));
    let session = host
        .session("program")
        .file(&first)
        .buffers(8)
        .enable(&PROVIDER, EnableInfo::default())
        .start()
        .unwrap();
    rig.program("count", &[10, 0]).end();
    assert_eq!(session.query().unwrap().stored, 10);
    session.change_file(&second).unwrap();
    assert_eq!(events(&first).len(), 10);
    // An event of level 4.
    assert_eq!(
        session.enable(&PROVIDER, Level::WARNING, Keyword(0)).unwrap(),
        Vec::<String>::new()
    );
    rig.program("count", &[10, 0]).end();
    assert_eq!(
        session.enable(&PROVIDER, Level::INFO, Keyword(0x10)).unwrap(),
        Vec::<String>::new()
    );
    rig.program("count", &[7, 0]).end();
    session.disable(&PROVIDER).unwrap();
    rig.program("count", &[10, 0]).end();
    session.set_buffers(12).unwrap();
    session.flush().unwrap();
    assert_eq!(host.open("PROGRAM").unwrap().query().unwrap().buffers, 12);
    let status = session.stop().unwrap();
    assert_eq!((status.stored, status.lost, events(&second).len()), (17, 0, 7));

    let memory = host.session("memory").memory().enable(&PROVIDER, EnableInfo::default());
    let memory = memory.start().unwrap();
    rig.program("count", &[5, 0]).end();
    let snapshot = rig.file("snapshot.etl");
    memory.snapshot(&snapshot).unwrap();
    assert_eq!(events(&snapshot).len(), 5);
    let trace = TraceFile::open(&snapshot).unwrap();
    let (clock, end) = (*trace.clock(), trace.header().unwrap().end_time);
    let mut records = Records::new(vec![trace]);
    let mut last = None;
    while let Some(record) = records.next() {
        last = last.max(record.timestamp(&clock));
    }
    assert!(last.is_some() && last <= Some(end), "{last:?} lies behind the end, {end:?}");
    memory.stop().unwrap();
}

/// OV-1: live events arrive in order, up to the session's end; another thread may end the stream.
#[test]
fn live_events_arrive_in_order() {
    let rig = Rig::new();
    let host = Controller::connect_to(rig.runtime()).unwrap();
    let timer = std::time::Duration::from_millis(2);
    let live = host.session("live").real_time().flush_timer(timer);
    let session = live.enable(&PROVIDER, EnableInfo::default()).start().unwrap();
    let mut consumer = Consumer::open(&host, "live").unwrap();
    rig.program("threads", &[2, 500]).end();
    let (mut seen, mut last) = (0, i64::MIN);
    let mut take = |event: &etw::Event<'_>| {
        let time = event.record().raw_timestamp().unwrap();
        assert!(time >= last, "in order of time");
        last = time;
        seen += u32::from(event.record().provider == Some(provider()));
    };
    while consumer.ledger().lost_events() == 0 && consumer.wait().unwrap() {
        while let Some(event) = consumer.next_ready() {
            take(&event);
        }
        // The end comes after all events.
        if session.query().unwrap().stored == 1000 {
            break;
        }
    }
    session.stop().unwrap();
    while let Some(event) = consumer.next().unwrap() {
        take(&event);
    }
    let ledger = consumer.ledger();
    assert_eq!((seen, ledger.lost_events(), ledger.lost_buffers), (1000, 0, 0));
    assert_eq!(ledger.workers_replaced, 0);
    assert!(ledger.received >= 1000);

    let session = host.session("closed").real_time().start().unwrap();
    let mut consumer = Consumer::open(&host, session.name()).unwrap();
    let closer = consumer.closer();
    let closes = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        closer.close();
    });
    while consumer.next().unwrap().is_some() {}
    closes.join().unwrap();
    assert_eq!(session.query().unwrap().state, "running");
    let none = Consumer::open(&host, "none").map(|_| ()).unwrap_err();
    assert_eq!(none.status(), Status::ERROR_WMI_INSTANCE_NOT_FOUND);
}

/// OV-2, OV-3: invalid requests are refused with ETW's status; a leased session ends with its owner.
#[test]
fn invalid_requests_are_refused_and_leases_end() {
    let rig = Rig::new();
    let host = Controller::connect_to(rig.runtime()).unwrap();
    let status = |error: etw::ControlError| {
        assert!(!error.to_string().is_empty());
        error.status()
    };
    let session = host.session("leased").real_time().leased().start().unwrap();
    for (wrong, expected) in [
        (host.session("leased").memory(), Status::ERROR_ALREADY_EXISTS),
        (host.session("none"), Status::ERROR_BAD_PATHNAME),
        (host.session("size").memory().buffer_size_kb(1 << 20), Status::ERROR_INVALID_PARAMETER),
        (host.session("there").file("/nowhere/at/all.etl"), Status::ERROR_BAD_PATHNAME),
    ] {
        assert_eq!(wrong.clone().start().map(|_| ()).map_err(status), Err(expected), "{wrong:?}");
    }
    let absent = host.open("absent").map(|_| ()).map_err(status);
    assert_eq!(absent, Err(Status::ERROR_WMI_INSTANCE_NOT_FOUND));
    let nobody = Controller::connect_to(rig.file("nobody")).map(|_| ()).map_err(status);
    assert_eq!(nobody, Err(Status::ERROR_WMI_INSTANCE_NOT_FOUND));
    // The error carries its data.
    let refused = host.session("none").start().map(|_| ());
    let Err(etw::ControlError::Request(etw::ClientError::Refused { status, .. })) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(status, Status::ERROR_BAD_PATHNAME.0);
    let nobody = Controller::connect_to(rig.file("nobody")).map(|_| ());
    let Err(etw::ControlError::Request(etw::ClientError::NoHost(path))) = nobody else {
        panic!("{nobody:?}");
    };
    assert_eq!(path, rig.file("nobody"));
    let names = |host: &Controller| -> Vec<String> {
        host.sessions().unwrap().into_iter().map(|session| session.name).collect()
    };
    let other = Controller::connect_to(rig.runtime()).unwrap();
    assert_eq!(names(&other), ["leased"]);
    drop(host);
    assert_eq!(session.query().unwrap().state, "running", "what was made of it is its owner too");
    drop(session);
    rig.wait_until(|_| names(&other).is_empty());
}
