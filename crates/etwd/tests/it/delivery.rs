//! Delivery of events: their order, all or none, losses, live consumers.

use etw_session::{Cause, LogMode, SessionConfig};
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etw_etl::read::buffer;
use etw_etl::read::{BufferRecords, Item, Records, TraceFile};
use etw_wire::frames;
use etw_wire::host_client::Client;
use etw_wire::requests::Request;

use crate::changes::Told;
use crate::rig::*;

/// All programs' events are in one order of time; none is lost or doubled. P7
#[test]
fn many_programs_are_recorded_in_one_order() {
    let rig = Rig::new();
    let file = rig.start("order");
    let programs: Vec<_> = (0..6).map(|_| rig.program("threads", &[4, 3000])).collect();
    for program in programs {
        program.end();
    }
    let status = rig.stop("order");
    // A thread that gets no processor for 50 ms in the middle of a write is late, and counted.
    let late = status.losses.iter().filter(|loss| loss.cause == Cause::Late).map(|loss| loss.count);
    let late = late.sum::<u64>();
    assert_eq!(status.stored + late, 6 * 4 * 3000, "{status:?}");
    // `events` checks the order. Writers repeated refused writes, which are counted.
    let events = events(&file);
    assert_eq!(events.len() as u64, status.stored);
    let mut last = BTreeMap::new();
    for event in &events {
        let before = last.insert((event.process, event.thread), event.number);
        assert!(before.is_none_or(|before| before < event.number), "{event:?} after {before:?}");
    }
    assert_eq!(last.len(), 24);
    assert_eq!(status.attempted, status.stored + status.lost);
}

/// OV-18: if a session cannot keep up, the others lose the event, too (all or none), unless one of the two is independent.
#[test]
fn a_session_that_cannot_keep_up_blocks_all_but_independent_ones() {
    for independent in [false, true] {
        let rig = Rig::new();
        // A real-time session without a consumer: its two buffers fill and stay full.
        let stuck = SessionConfig {
            real_time: true,
            independent,
            buffer_size: 4096,
            buffer_count: 2,
            ..SessionConfig::default()
        };
        rig.start_with("stuck", stuck);
        let file = rig.start("other");
        // At once: after a while, a session without a consumer blocks nobody.
        rig.program("count", &[2000, 0]).end();
        let (stuck, other) = (rig.stop("stuck"), rig.stop("other"));
        assert_eq!((stuck.attempted, other.attempted), (2000, 2000));
        assert!(stuck.lost > 1500, "{stuck:?}");
        let events = events(&file).len() as u64;
        assert_eq!(events, other.stored);
        match independent {
            true => assert_eq!((events, other.lost), (2000, 0)),
            false => {
                // Nobody had read what was in its buffers.
                let unread = |loss: &&etw_session::Loss| loss.process_id.is_none();
                let unread: u64 = stuck.losses.iter().filter(unread).map(|loss| loss.count).sum();
                assert_eq!(other.lost, stuck.lost - unread, "{other:?}");
                assert!(other.losses.iter().any(|loss| loss.cause == Cause::AllOrNone));
            }
        }
    }
}

/// The ledger by cause and process is exact when programs write as fast as they can.
#[test]
fn the_ledger_is_exact_at_full_speed() {
    let rig = Rig::new();
    let file = rig.start_with(
        "flat",
        SessionConfig {
            buffer_size: 8192,
            buffer_count: 4,
            // On a busy machine the programs may be too slow to lose anything until the file is full.
            mode: LogMode::Sequential { max_size: Some(8 << 20) },
            ..SessionConfig::default()
        },
    );
    rig.start_with("beside", SessionConfig { independent: true, ..SessionConfig::default() });
    let programs: Vec<_> = (0..3).map(|_| rig.program("count", &[100_000, 0])).collect();
    for program in programs {
        program.end();
    }
    let status = rig.stop("flat");
    assert_eq!(status.attempted, 300_000, "{status:?}");
    assert_eq!(status.stored + status.lost, 300_000, "{status:?}");
    assert_eq!(status.losses.iter().map(|loss| loss.count).sum::<u64>(), status.lost);
    // Losses in the pool or at the host, by cause, provider and process, except those of unknown providers.
    assert!(status.lost > 0, "{status:?}");
    let is_known =
        |loss: &&etw_session::Loss| loss.provider == Some(provider()) && loss.process_id.is_some();
    let known: u64 = status.losses.iter().filter(is_known).map(|loss| loss.count).sum();
    let late = status.losses.iter().filter(|loss| loss.cause == Cause::Late).map(|loss| loss.count);
    assert_eq!(known + late.sum::<u64>(), status.lost, "{status:?}");
    assert_eq!(events(&file).len() as u64, status.stored);
    assert_eq!(rig.stop("beside").attempted, 300_000);
}

/// A request waits for the events before it only, however many programs write meanwhile.
#[test]
fn requests_are_answered_while_programs_write_at_full_speed() {
    let rig = Rig::new();
    // A record needs work enough that the programs are faster than the drain.
    for number in 0..8 {
        let memory =
            SessionConfig { mode: LogMode::Buffering, buffer_count: 8, ..SessionConfig::default() };
        rig.start_with(&format!("flood{number}"), memory);
    }
    let mut programs: Vec<_> = (0..6).map(|_| rig.program("endless", &[0])).collect();
    programs.iter_mut().for_each(|program| program.expect("ready"));
    // Their pools grow until they hold more than a round drains.
    std::thread::sleep(Duration::from_secs(4));
    let (answer, answered) = std::sync::mpsc::channel();
    let runtime = rig.runtime();
    std::thread::spawn(move || {
        let client = Client::connect(&runtime).unwrap();
        for _ in 0..3 {
            let query = Request::Query { session: "flood0".to_owned() };
            // If it has taken too long, the receiver has ended.
            let _ = answer.send(client.ask(&query).unwrap());
        }
    });
    for _ in 0..3 {
        answered.recv_timeout(LIMIT).expect("an answer");
    }
    for program in programs {
        program.kill();
    }
}

struct Consumer {
    stream: UnixStream,
    /// Counted events, in the order of their arrival.
    seen: Vec<u64>,
    lost: u64,
    watermark: i64,
    /// Counted events that have arrived, for other threads.
    arrived: Arc<AtomicU64>,
}

impl Consumer {
    fn new(rig: &Rig, session: &str) -> Consumer {
        let client = Client::connect(&rig.runtime()).unwrap();
        let request = Request::Consume { session: session.to_owned(), start_time: None };
        let mut descriptors = client.ask_for(&request).unwrap().descriptors;
        let stream = UnixStream::from(descriptors.pop().unwrap());
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let arrived = Arc::default();
        Consumer { stream, seen: Vec::new(), lost: 0, watermark: i64::MIN, arrived }
    }

    /// Reads up to the session's end.
    fn read(&mut self) {
        let mut trace: Option<TraceFile> = None;
        let mut waiting: Vec<(i64, u64)> = Vec::new();
        loop {
            let mut head = [0; 8];
            self.stream.read_exact(&mut head).unwrap();
            let kind = u32::from_le_bytes(head[..4].try_into().unwrap());
            let size = u32::from_le_bytes(head[4..].try_into().unwrap()) as usize;
            let mut bytes = vec![0; size];
            self.stream.read_exact(&mut bytes).unwrap();
            match kind {
                frames::START => trace = Some(TraceFile::from_bytes("live", bytes).unwrap()),
                frames::BUFFER => {
                    let trace = trace.as_ref().unwrap();
                    let (_, records) = buffer::open(&bytes, 1 << 20).unwrap();
                    for item in BufferRecords::new(&records, trace.record_context()) {
                        let Item::Record { record, .. } = item else { panic!("{item:?}") };
                        let time = record.raw_timestamp().unwrap();
                        assert!(time >= self.watermark, "nothing comes after its watermark");
                        if record.provider == Some(provider()) {
                            let number = record.payload[8..16].try_into().unwrap();
                            waiting.push((time, u64::from_le_bytes(number)));
                            self.arrived.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                frames::WATERMARK => {
                    let time = i64::from_le_bytes(bytes.try_into().unwrap());
                    assert!(time >= self.watermark);
                    self.watermark = time;
                    waiting.sort();
                    let ready = waiting.partition_point(|(time, _)| *time < self.watermark);
                    self.seen.extend(waiting.drain(..ready).map(|(_, number)| number));
                }
                frames::LOST => {
                    self.lost += u64::from_le_bytes(bytes[8..].try_into().unwrap());
                }
                frames::POSITION | frames::SLICE | frames::SLICES_WATERMARK => {}
                frames::END => break,
                other => panic!("{other}"),
            }
        }
        waiting.sort();
        self.seen.extend(waiting.iter().map(|(_, number)| number));
    }
}

/// OV-6, P7: if one of several consumers does not read, the others receive everything, and it is notified of the events that it
/// has lost.
#[test]
fn a_consumer_that_does_not_read_affects_no_other() {
    let rig = Rig::new();
    let start = SessionConfig {
        real_time: true,
        flush_timer: Some(Duration::from_millis(5)),
        buffer_size: 256 << 10,
        buffer_count: 64,
        ..SessionConfig::default()
    };
    rig.start_with("live", start);
    let mut asleep = Consumer::new(&rig, "live");
    let mut dead = Consumer::new(&rig, "live");
    let mut awake: Vec<_> = (0..2).map(|_| Consumer::new(&rig, "live")).collect();
    dead.stream.shutdown(std::net::Shutdown::Both).unwrap();
    dead.seen.clear();
    let arrived: Vec<_> = awake.iter().map(|consumer| consumer.arrived.clone()).collect();
    std::thread::scope(|scope| {
        for consumer in &mut awake {
            scope.spawn(|| consumer.read());
        }
        let mut program = Told::new(&rig, "told");
        for written in (10_000..=100_000).step_by(10_000) {
            program.write(10_000);
            // On a busy machine, a reader may have no processor while the program fills the queue of those that read.
            let is_read = |count: &Arc<AtomicU64>| count.load(Ordering::Relaxed) >= written;
            rig.wait_until(|_| arrived.iter().all(is_read));
        }
        let status = rig.stop("live");
        assert_eq!((status.stored, status.lost), (100_000, 0), "{status:?}");
    });
    for consumer in &awake {
        assert_eq!(consumer.lost, 0);
        assert!(consumer.seen.iter().copied().eq(0..100_000), "{}", consumer.seen.len());
    }
    asleep.read();
    assert!(asleep.lost > 0);
    assert_eq!(asleep.seen.len() as u64 + asleep.lost, 100_000);
}

/// An event's time is between the clock readings of its program before and after the write, whether the host slept or polled.
#[test]
fn times_of_events_agree_with_the_clock() {
    /// The error of pairing a raw clock with the kernel's on a busy machine, and the 100 ns of a unit.
    const ERROR: i64 = 5_000;
    let rig = Rig::new();
    let file = rig.start("stamps");
    let mut programs: Vec<_> = (0..2).map(|_| rig.program("stamps", &[70])).collect();
    let ids: Vec<u32> = programs.iter().map(Program::id).collect();
    while programs.iter_mut().any(|program| program.child.try_wait().unwrap().is_none()) {
        // Most rounds find nothing.
        rig.query("stamps");
        std::thread::sleep(Duration::from_micros(500));
    }
    rig.stop("stamps");
    for id in ids {
        let mut records = Records::new(vec![TraceFile::open(&file).unwrap()]);
        let mut stamps = Vec::new();
        while let Some(record) = records.next() {
            if record.provider == Some(provider()) && record.process_id == Some(id) {
                let read = i64::from_le_bytes(record.payload[8..16].try_into().unwrap());
                stamps.push((read, record.raw_timestamp().unwrap() * 100));
            }
        }
        assert_eq!(stamps.len(), 70);
        for (number, (read, time)) in stamps.iter().enumerate() {
            assert!(*time >= read - ERROR, "{number}: {time} before {read}");
            if let Some((next, _)) = stamps.get(number + 1) {
                assert!(*time <= next + ERROR, "{number}: {time} after {next}");
            }
        }
    }
}
