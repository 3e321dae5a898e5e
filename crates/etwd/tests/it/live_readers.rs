//! Live readers receive every event or its loss; real-time sessions without readers.

use std::time::Duration;

use etw::{Controller, LiveItem, LiveStream, StreamEnd};
use etw_session::{Cause, LogMode, SessionConfig};
use etw_wire::host_client::Client;
use etw_wire::requests::{Request, Response};

use crate::daemon::Daemon;
use crate::interrupted_requests::Mined;
use crate::rig::*;

/// Longer than any test: an event that waits for the flush timer never comes.
const NEVER: Duration = Duration::from_secs(600);

fn open(rig: &Rig, session: &str) -> LiveStream {
    LiveStream::open(&Controller::connect_to(rig.runtime()).unwrap(), session).unwrap()
}

/// Reads so many events of the tests' provider; fewer if the stream ends.
fn read(stream: &mut LiveStream, count: usize) -> usize {
    let (mut seen, mut last) = (0, i64::MIN);
    while seen < count {
        match stream.next().unwrap() {
            Some(LiveItem::Record(record)) => {
                assert!(record.order_time >= last, "in order of time");
                last = record.order_time;
                seen += usize::from(record.provider == Some(provider()));
            }
            Some(_) => {}
            None => break,
        }
    }
    seen
}

/// A live reader receives what was written before it attached, what is written while it reads, and what was written before it
/// detaches, all without waiting for the flush timer.
#[test]
fn a_live_reader_receives_events_at_once() {
    for has_file in [false, true] {
        let rig = Rig::new();
        let file = has_file.then(|| rig.file("live.etl"));
        let start = SessionConfig {
            name: "live".to_owned(),
            real_time: true,
            flush_timer: Some(NEVER),
            file: file.clone(),
            enable: vec![etw_session::Enablement::new(provider(), all())],
            ..SessionConfig::default()
        };
        rig.session(Request::start(start));
        rig.program("count", &[10, 0]).end();
        let mut stream = open(&rig, "live");
        assert_eq!(read(&mut stream, 10), 10, "at attach");
        rig.program("count", &[20, 1000]).end();
        assert_eq!(read(&mut stream, 20), 20, "while it reads");
        rig.program("count", &[30, 0]).end();
        stream.closer().detach();
        assert_eq!(read(&mut stream, usize::MAX), 30, "at detach");
        assert_eq!(stream.end(), Some(StreamEnd::Disconnected));
        assert_eq!(stream.ledger().lost_events(), 0);
        // A later reader receives the rest once, with the buffers.
        let mut later = open(&rig, "live");
        let mut second = open(&rig, "live");
        rig.program("count", &[1000, 10]).end();
        assert_eq!(read(&mut later, 1000), 1000);
        let status = rig.stop("live");
        assert_eq!((status.stored, status.lost), (1060, 0), "{status:?}");
        assert_eq!(read(&mut later, usize::MAX), 0);
        assert_eq!(later.end(), Some(StreamEnd::SessionEnded));
        assert_eq!(read(&mut second, usize::MAX), 1000);
        if let Some(file) = file {
            assert_eq!(events(&file).len(), 1060);
        }
    }
}

/// P3: a reader that received slices of a buffer receives no event twice when the worker is replaced, and misses none.
#[test]
fn slices_continue_with_the_next_worker() {
    let daemon = Daemon::new();
    let start = SessionConfig { real_time: true, flush_timer: Some(NEVER), ..Default::default() };
    let file = daemon.start("live", start);
    let mut stream = open(&daemon.rig, "live");
    for round in 0..5 {
        daemon.rig.program("count", &[100, 0]).end();
        assert_eq!(read(&mut stream, 100), 100, "{round}");
        daemon.kill_worker();
    }
    daemon.rig.program("count", &[100, 0]).end();
    assert_eq!(read(&mut stream, 100), 100);
    let status = daemon.stop("live");
    assert_eq!((status.stored, status.lost), (600, 0), "{status:?}");
    assert_eq!(read(&mut stream, usize::MAX), 0);
    let ledger = stream.ledger();
    assert_eq!((ledger.lost_events(), ledger.workers_replaced), (0, 5), "{ledger:?}");
    assert_eq!(events(&file).len(), 600);
    daemon.end();
}

/// Reads to the end of the stream: the numbers of the tests' events, and how many events were reported as lost.
fn read_to_end(stream: &mut LiveStream) -> (Vec<u64>, u64) {
    let (mut numbers, mut lost) = (Vec::new(), 0);
    while let Some(item) = stream.next().unwrap() {
        match item {
            LiveItem::Record(record) if record.provider == Some(provider()) => {
                let number = record.payload[8..16].try_into().unwrap();
                numbers.push(u64::from_le_bytes(number));
            }
            LiveItem::Lost { events, .. } => lost += events,
            _ => {}
        }
    }
    (numbers, lost)
}

/// P3: wherever the worker is killed, also while it ends the session, a live reader receives each event or its loss, once.
#[test]
fn a_live_reader_accounts_for_every_event_wherever_the_worker_is_killed() {
    const EVENTS: u64 = 2_000;
    let running = ["batch sealed", "batch final", "buffer delivered"];
    let ending = ["end kept", "last drained", "losses final", "end reported", "end given"];
    let stored = ["end stored", "end written"];
    for (number, point) in running.into_iter().chain(ending).chain(stored).enumerate() {
        let mined = Mined::new(point);
        let start = SessionConfig {
            real_time: true,
            buffer_size: 4096,
            buffer_count: 512,
            flush_timer: Some(Duration::from_millis(2)),
            ..Default::default()
        };
        let start = SessionConfig {
            name: "live".to_owned(),
            enable: vec![etw_session::Enablement::new(provider(), all())],
            ..start
        };
        assert!(matches!(mined.daemon.ask(&Request::start(start)), Response::Session(_)));
        let mut stream = open(&mined.daemon.rig, "live");
        let reading = std::thread::spawn(move || {
            let read = read_to_end(&mut stream);
            (read, stream)
        });
        let program = mined.daemon.rig.program("count", &[EVENTS, 20]);
        if number < running.len() {
            // A program that registers while no worker answers may write its first events before a session wants them.
            mined.daemon.rig.wait_until(|_| {
                match mined.daemon.ask(&Request::Query { session: "live".to_owned() }) {
                    Response::Session(status) => status.attempted > 0,
                    other => panic!("{other:?}"),
                }
            });
            mined.arm();
            mined.daemon.rig.wait_until(|_| !mined.armed.exists());
            program.end();
        } else {
            program.end();
            mined.arm();
        }
        let stop = Request::Stop { session: "live".to_owned() };
        let answer = mined.daemon.ask(&stop);
        assert!(!mined.armed.exists(), "{point} was not reached");
        let ((numbers, lost), stream) = reading.join().unwrap();
        assert_eq!(stream.end(), Some(StreamEnd::SessionEnded), "{point}");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{point}: an event came twice");
        let accounted = numbers.len() as u64 + lost;
        if let Response::Session(status) = answer {
            assert_eq!(
                (status.attempted, status.stored),
                (EVENTS, accounted),
                "{point}: {status:?}"
            );
        } else {
            // The second request came after the end. A write that was interrupted for long is late.
            assert!(
                (EVENTS - 2..=EVENTS).contains(&accounted),
                "{point}: {accounted}, {lost} lost"
            );
        }
        let ledger = stream.ledger();
        assert_eq!((ledger.lost_events(), ledger.workers_replaced), (lost, 1), "{point}");
        mined.end();
    }
}

/// P3: a reader that has read nothing when the worker is killed behind the end of its session, or of its host, receives each event or
/// its loss. A later session of the same name, and a reader that comes later, receive nothing of it.
#[test]
fn an_unread_stream_of_an_ended_session_is_counted_when_the_worker_is_killed() {
    const EVENTS: u64 = 20_000;
    // Kill point, file, end of the host.
    let cases = [
        ("end written", true, false),
        ("stream kept", false, false),
        ("session forgotten", true, false),
        ("session forgotten", false, false),
        ("host stopped", false, true),
        ("shutdown kept", true, true),
    ];
    for (point, has_file, ends_host) in cases {
        let mined = Mined::new(point);
        let file = has_file.then(|| mined.daemon.rig.file("live.etl"));
        let start = SessionConfig {
            name: "live".to_owned(),
            real_time: true,
            buffer_size: 64 << 10,
            buffer_count: 64,
            file,
            enable: vec![etw_session::Enablement::new(provider(), all())],
            ..Default::default()
        };
        let start = Request::start(start);
        assert!(matches!(mined.daemon.ask(&start), Response::Session(_)));
        let mut stream = open(&mined.daemon.rig, "live");
        mined.daemon.rig.program("paced", &[EVENTS]).end();
        let stored = match mined.daemon.ask(&Request::Query { session: "live".to_owned() }) {
            Response::Session(status) => status.stored,
            other => panic!("{other:?}"),
        };
        mined.arm();
        if ends_host {
            // The worker may be killed before it answers.
            let client = Client::connect(&mined.daemon.rig.runtime()).unwrap();
            let _ = client.ask(&Request::Shutdown);
            mined.daemon.rig.wait_until(|_| !mined.armed.exists());
        } else {
            mined.daemon.ask(&Request::Stop { session: "live".to_owned() });
            // A session of the same name is another one.
            assert!(matches!(mined.daemon.ask(&start), Response::Session(_)), "{point}");
        }
        assert!(!mined.armed.exists(), "{point} was not reached");
        let (numbers, lost) = read_to_end(&mut stream);
        let context = format!("{point}: {} read, {lost} lost of {stored}", numbers.len());
        assert_eq!(stream.end(), Some(StreamEnd::SessionEnded), "{context}");
        assert!(numbers.is_sorted_by(|a, b| a < b), "{context}: an event came twice");
        assert_eq!(numbers.len() as u64 + lost, stored, "{context}");
        assert_eq!(stream.ledger().lost_events(), lost, "{context}");
        if ends_host {
            let Mined { daemon, .. } = mined;
            daemon.keeper.end();
        } else {
            assert!(lost > 0, "{context}");
            mined.end();
        }
    }
}

/// The number of buffers that readers lost survives the worker.
#[test]
fn the_next_worker_knows_the_buffers_that_readers_lost() {
    let daemon = Daemon::new();
    let start = SessionConfig {
        real_time: true,
        buffer_size: 256 << 10,
        buffer_count: 64,
        flush_timer: Some(Duration::from_millis(5)),
        ..Default::default()
    };
    daemon.start("live", start);
    let asleep = open(&daemon.rig, "live");
    daemon.rig.program("paced", &[100_000]).end();
    let lost = || match daemon.ask(&Request::Query { session: "live".to_owned() }) {
        Response::Session(status) => status.real_time_buffers_lost,
        other => panic!("{other:?}"),
    };
    let before = lost();
    assert!(before > 0);
    daemon.kill_worker();
    // The open buffer may have been lost in the meantime.
    assert!(lost() >= before, "{before}");
    drop(asleep);
    daemon.stop("live");
    daemon.end();
}

/// A host that ends gives its readers the time to read everything that their sessions have handed out.
#[test]
fn readers_receive_the_rest_of_a_session_when_its_host_ends() {
    let daemon = Daemon::new();
    let start = SessionConfig {
        real_time: true,
        buffer_size: 64 << 10,
        buffer_count: 64,
        ..Default::default()
    };
    daemon.start("live", start);
    let mut stream = open(&daemon.rig, "live");
    daemon.rig.program("paced", &[20_000]).end();
    let stored = match daemon.ask(&Request::Query { session: "live".to_owned() }) {
        Response::Session(status) => status.stored,
        other => panic!("{other:?}"),
    };
    let shutdown = daemon.ask(&Request::Shutdown);
    assert!(matches!(shutdown, Response::Done { .. }));
    // Nothing was read before: most of the events are still in the queue of the host.
    let (numbers, lost) = read_to_end(&mut stream);
    assert!(stored > 19_000, "{stored}");
    assert_eq!((numbers.len() as u64, lost), (stored, 0));
    assert_eq!(stream.end(), Some(StreamEnd::SessionEnded));
    daemon.keeper.end();
}

/// The flush timer of a session that nobody reads does not use up its buffers.
#[test]
fn a_session_without_a_reader_keeps_its_buffers() {
    let rig = Rig::new();
    let file = rig.start("file");
    let start = SessionConfig {
        real_time: true,
        flush_timer: Some(Duration::from_millis(2)),
        buffer_size: 4096,
        buffer_count: 8,
        per_processor: false,
        ..SessionConfig::default()
    };
    rig.start_with("unread", start);
    rig.program("count", &[40, 5000]).end();
    rig.done(Request::Flush { session: "unread".to_owned() });
    // Nor do more flushes of a controller than it has buffers.
    for _ in 0..12 {
        rig.program("count", &[1, 0]).end();
        rig.done(Request::Flush { session: "unread".to_owned() });
    }
    let unread = rig.query("unread");
    assert_eq!((unread.stored, unread.lost, &*unread.state), (52, 0, "running"), "{unread:?}");
    assert_eq!(rig.stop("file").stored, 52);
    assert_eq!(events(&file).len(), 52);
    // They wait for the first reader.
    assert_eq!(read(&mut open(&rig, "unread"), 52), 52);
}

/// OV-18: events that no reader has received when their session stops are lost.
#[test]
fn events_that_nobody_read_are_lost_when_the_session_stops() {
    let rig = Rig::new();
    for name in ["unread", "read"] {
        let flush_timer = Some(NEVER);
        let start = SessionConfig { real_time: true, flush_timer, ..Default::default() };
        rig.start_with(name, start);
    }
    let mut stream = open(&rig, "read");
    rig.program("count", &[100, 0]).end();
    assert_eq!(read(&mut stream, 100), 100);
    stream.closer().detach();
    assert_eq!(read(&mut stream, usize::MAX), 0);
    let unread = rig.stop("unread");
    assert_eq!((unread.attempted, unread.stored, unread.lost), (100, 0, 100), "{unread:?}");
    assert_eq!(unread.losses[0].cause, Cause::SessionFull);
    let status = rig.stop("read");
    assert_eq!((status.stored, status.lost), (100, 0), "{status:?}");
}

fn small_real_time() -> SessionConfig {
    SessionConfig { real_time: true, buffer_size: 4096, buffer_count: 2, ..Default::default() }
}

/// OV-18: a real-time session that nobody reads loses events alone. The session that a program left when it was aborted delays
/// nobody.
#[test]
fn a_session_that_nobody_reads_loses_events_alone() {
    let rig = Rig::new();
    rig.start_with("left", small_real_time());
    rig.program("count", &[2000, 0]).end();
    rig.wait_until(|rig| rig.query("left").state == "full: no reader");
    let left = rig.query("left");
    assert!(left.lost > 1000, "{left:?}");
    assert!(left.losses.iter().all(|loss| loss.cause == Cause::SessionFull), "{left:?}");
    // The next run, with a session of its own.
    let file = rig.start("file");
    rig.start_with("next", SessionConfig { buffer_count: 64, ..small_real_time() });
    let mut stream = open(&rig, "next");
    rig.program("paced", &[1000]).end();
    assert_eq!(read(&mut stream, 1000), 1000);
    let status = rig.stop("file");
    assert_eq!((status.stored, status.lost), (1000, 0), "{status:?}");
    assert_eq!(events(&file).len(), 1000);
    rig.done(Request::Flush { session: "left".to_owned() });
    assert_eq!(rig.stop("left").attempted, 3000);
}

/// A session whose reader has left holds others up for a moment, which its state shows; then it loses events alone.
#[test]
fn a_session_whose_reader_has_left_holds_others_up_for_a_moment() {
    let rig = Rig::new();
    rig.start_with("left", small_real_time());
    rig.start_with("memory", SessionConfig { mode: LogMode::Buffering, ..Default::default() });
    let stream = open(&rig, "left");
    rig.program("count", &[1, 0]).end();
    drop(stream);
    let mut program = rig.program("endless", &[500]);
    program.expect("ready");
    let mut states = Vec::new();
    rig.wait_until(|rig| {
        let state = rig.query("left").state;
        if states.last() != Some(&state) {
            states.push(state.clone());
        }
        state == "full: no reader"
    });
    let holding = "full: other sessions lose events, too".to_owned();
    assert!(states.contains(&holding), "{states:?}");
    let before = rig.query("memory");
    std::thread::sleep(Duration::from_millis(100));
    let after = rig.query("memory");
    assert!(before.losses.iter().any(|loss| loss.cause == Cause::AllOrNone), "{before:?}");
    assert!(after.stored > before.stored && after.lost == before.lost, "{before:?} {after:?}");
    program.kill();
}
