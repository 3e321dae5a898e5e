//! Sources of events beside the pools.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;

use etw_host::engine::{Engine, EventSource, SourceLoss, SystemRun};
use etw_ring::{LastBatch, Memory, RawClock};
use etw_session::{Event, KernelEvent};
use etw_types::{Classic, ClassicHeader, Hook, KernelClass, SYSTEM_TRACE};

use crate::takeover::{PROVIDER, engine_without_sessions, insert};

/// A source whose kernel buffers were last empty before the session began.
struct Behind;

impl EventSource for Behind {
    fn poll(&mut self) -> u64 {
        1
    }

    fn peek(&self) -> Option<Event<'_>> {
        None
    }

    fn pop(&mut self) {}

    fn take_losses(&mut self) -> Vec<SourceLoss> {
        Vec::new()
    }

    fn finish(&mut self) {}

    fn mechanism(&self) -> Option<String> {
        Some("none".to_owned())
    }
}

/// The order of time within a trace: nothing is earlier than its header.
#[test]
fn the_mechanism_of_a_source_is_not_earlier_than_its_trace() {
    let last = Arc::new(Memory::heap(LastBatch::SIZE).unwrap());
    let mut engine = engine_without_sessions(RawClock::best(), last);
    let (sender, receiver) = mpsc::channel();
    let consumer = Box::new(move |buffer: &[u8]| sender.send(buffer.to_vec()).unwrap());
    let start = insert(&mut engine, 0, 4, consumer);
    engine.attach_source(0, Box::new(Behind));
    engine.round(std::time::Duration::ZERO);
    engine.flush(0);
    engine.drain_all();
    drop(engine);
    let buffer = receiver.recv().unwrap();
    // The first record behind the header of 72 bytes; its time is at 16.
    let time = i64::from_le_bytes(buffer[72 + 16..72 + 24].try_into().unwrap());
    assert!(time >= start, "{time} is before {start}");
}

/// A source of kernel events. It gives runs only a part of them.
struct Switches {
    times: std::ops::Range<i64>,
    class: Classic,
    taken: Arc<AtomicI64>,
}

impl Switches {
    /// One event at each of these times.
    fn at(times: std::ops::Range<i64>) -> Switches {
        let header = ClassicHeader::PerfInfo(KernelClass { hook: Hook(0x0524), version: 4 });
        Switches { times, class: Classic { header, is_32_bit: false }, taken: Arc::default() }
    }
}

impl EventSource for Switches {
    fn poll(&mut self) -> u64 {
        u64::MAX
    }

    fn peek(&self) -> Option<Event<'_>> {
        let classic = (!self.times.is_empty()).then_some(&self.class);
        classic?;
        let (time, payload) = (self.times.start, &[7; 24]);
        Some(Event { time, provider: SYSTEM_TRACE, classic, payload, ..Event::default() })
    }

    fn pop(&mut self) {
        self.times.start += 1;
    }

    fn give(&mut self, until: i64, run: &mut SystemRun<'_>) {
        while !self.times.is_empty() && self.times.start <= until && self.times.start % 50 != 0 {
            let (class, payload) = (&self.class, &[7; 24][..]);
            let (time, cpu, process_id, thread_id) = (self.times.start, 0, 0, 0);
            if !run.put(&KernelEvent { time, cpu, process_id, thread_id, class, payload }) {
                return;
            }
            self.times.start += 1;
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn take_losses(&mut self) -> Vec<SourceLoss> {
        Vec::new()
    }

    fn finish(&mut self) {}
}

/// The times of the kernel events in a buffer.
fn times_in(buffer: &[u8]) -> Vec<i64> {
    let size = |at: usize| u16::from_le_bytes(buffer[at..at + 2].try_into().unwrap());
    let filled = u32::from_le_bytes(buffer[48..52].try_into().unwrap()) as usize;
    let (mut at, mut times) = (72, Vec::new());
    while at < filled {
        let is_kernel = buffer[at + 2] == 0x11;
        if is_kernel {
            times.push(i64::from_le_bytes(buffer[at + 8..at + 16].try_into().unwrap()));
        }
        at += usize::from(size(if is_kernel { at + 4 } else { at })).next_multiple_of(8);
    }
    times
}

/// The events of a source are stored in their order, up to the watermark, whether a run takes them or not.
#[test]
fn a_source_gives_runs_of_events_up_to_the_watermark() {
    const EVENTS: i64 = 10_000;
    let last = Arc::new(Memory::heap(LastBatch::SIZE).unwrap());
    let mut engine = engine_without_sessions(RawClock::best(), last);
    let (sender, receiver) = mpsc::channel();
    let consumer = Box::new(move |buffer: &[u8]| sender.send(buffer.to_vec()).unwrap());
    insert(&mut engine, 0, 64, consumer);
    // The last ones are not due yet.
    let first = engine.session_time(0) + EVENTS;
    let source = Switches::at(first..first + EVENTS);
    let taken = source.taken.clone();
    engine.attach_source(0, Box::new(source));
    let mut is_early = true;
    while engine.ledger(0).stored < EVENTS as u64 {
        engine.drain_all();
        let due = engine.session_time(0) + 1 - first;
        is_early &= engine.ledger(0).stored as i64 <= due.max(0);
    }
    assert!(is_early, "events were stored before their time");
    let ledger = engine.ledger(0);
    assert_eq!((ledger.stored, ledger.attempted), (EVENTS as u64, EVENTS as u64));
    let taken = taken.load(Ordering::Relaxed);
    assert!((EVENTS / 2..EVENTS).contains(&taken), "{taken}");
    engine.flush(0);
    engine.drain_all();
    drop(engine);
    let times: Vec<i64> = receiver.iter().flat_map(|buffer| times_in(&buffer)).collect();
    assert_eq!(times, (first..first + EVENTS).collect::<Vec<_>>());
}

/// A session whose source is held back from `moment` on, and the source before that has passed.
struct HeldBack {
    engine: Engine<()>,
    buffers: mpsc::Receiver<Vec<u8>>,
    /// The time of the first event; one has each time of the session's clock.
    first: i64,
    moment: i64,
}

impl HeldBack {
    /// Events of the source before, and of the one that is held back.
    const EVENTS: i64 = 100;

    /// `prepare`: adds what else the engine has.
    fn new(prepare: impl FnOnce(&mut Engine<()>)) -> HeldBack {
        let last = Arc::new(Memory::heap(LastBatch::SIZE).unwrap());
        let mut engine = engine_without_sessions(RawClock::best(), last);
        let (sender, buffers) = mpsc::channel();
        let consumer = Box::new(move |buffer: &[u8]| sender.send(buffer.to_vec()).unwrap());
        insert(&mut engine, 0, 4, consumer);
        prepare(&mut engine);
        let first = engine.session_time(0);
        let moment = first + HeldBack::EVENTS;
        let end = moment + HeldBack::EVENTS;
        while engine.session_time(0) < end + HeldBack::EVENTS {}
        engine.attach_source(0, Box::new(Switches::at(first..moment)));
        engine.replace_source(0, moment, Box::new(Switches::at(moment..end)));
        engine.hold_source(0, moment);
        HeldBack { engine, buffers, first, moment }
    }

    fn watermark(&mut self) -> u64 {
        self.engine.round(std::time::Duration::ZERO).watermark
    }

    /// Completes the file before, and gives the session the events that were held back.
    fn release(&mut self) {
        assert!(!self.engine.remove_given_sources(0), "the one before has given all");
        let now = self.engine.session_time(0);
        self.engine.session_mut(0).unwrap().1.flush(now);
        self.engine.make_final();
        self.engine.release_source(0);
    }

    /// The buffer before the moment has the events of the source before, and the next one the others.
    fn check_buffers(mut self) {
        self.engine.flush(0);
        self.engine.drain_all();
        drop(self.engine);
        let buffers: Vec<Vec<i64>> = self.buffers.iter().map(|buffer| times_in(&buffer)).collect();
        let expected = [self.first..self.moment, self.moment..self.moment + HeldBack::EVENTS];
        assert_eq!(buffers, expected.map(|times| times.collect::<Vec<_>>()));
    }
}

/// The events of a source that is held back wait for the next file, those of the source before it do not, and time stands still: programs write
/// to its session, too.
#[test]
fn a_source_that_is_held_back_begins_with_another_file() {
    let clock = RawClock::best();
    let mut held = HeldBack::new(|_| ());
    let (start, stopped) = (clock.now(), held.watermark());
    std::thread::sleep(std::time::Duration::from_millis(20));
    let watermark = (0..10).map(|_| held.watermark()).last().unwrap();
    // Raw times are converted on a line that becomes more exact.
    let moved = watermark - stopped;
    assert!(moved < (clock.now() - start) / 4, "programs' events behind the moment wait, too");
    assert_eq!(held.engine.ledger(0).stored, HeldBack::EVENTS as u64);
    held.release();
    held.engine.flush(0);
    assert!(held.watermark() > watermark);
    held.check_buffers();
}

/// Regression: while a rundown was written at the end of a session's file, all sessions waited for it.
#[test]
fn other_sessions_do_not_wait_for_a_source_that_is_held_back() {
    const EVENTS: u64 = HeldBack::EVENTS as u64;
    let clock = RawClock::best();
    let mut held = HeldBack::new(|engine| {
        insert(engine, 1, 64, Box::new(|_| ()));
        // No program writes to it.
        engine.session_mut(0).unwrap().1.disable(&PROVIDER).unwrap();
    });
    held.engine
        .attach_source(1, Box::new(Switches::at(held.first..held.moment + HeldBack::EVENTS)));
    held.watermark();
    let start = clock.now();
    assert!(held.watermark() >= start, "time goes on");
    let stored = |held: &HeldBack| [0, 1].map(|session| held.engine.ledger(session).stored);
    assert_eq!(stored(&held), [EVENTS, 2 * EVENTS]);
    held.release();
    held.engine.drain_all();
    assert_eq!(stored(&held), [2 * EVENTS; 2]);
    held.check_buffers();
}

/// A session whose buffers are stored by `consumer`, and a source of past events that is at its end.
fn with_ended_source(events: i64, consumer: etw_host::Consumer) -> Engine<()> {
    let last = Arc::new(Memory::heap(LastBatch::SIZE).unwrap());
    let mut engine = engine_without_sessions(RawClock::best(), last);
    insert(&mut engine, 0, 4, consumer);
    let first = engine.session_time(0);
    engine.attach_source(0, Box::new(Switches::at(first..first + events)));
    while engine.session_time(0) < first + events {}
    engine.finish_source(0);
    engine.drain_all();
    engine
}

/// OV-23: the last events of a source wait for buffers of a slow storage: none is missing at the session's end.
#[test]
fn the_last_events_of_a_source_wait_for_buffers() {
    const EVENTS: i64 = 20_000;
    let (sender, receiver) = mpsc::channel();
    let mut engine = with_ended_source(
        EVENTS,
        Box::new(move |buffer: &[u8]| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            sender.send(buffer.to_vec()).unwrap();
        }),
    );
    let ended = engine.end_session(0).unwrap().finish();
    let ledger = ended.session.ledger();
    assert_eq!((ledger.attempted, ledger.stored), (EVENTS as u64, EVENTS as u64));
    drop((ended, engine));
    let times: Vec<i64> = receiver.iter().flat_map(|buffer| times_in(&buffer)).collect();
    assert_eq!(times.len(), EVENTS as usize);
}

/// OV-23: the last events of a source are counted as lost if the storage does not return buffers in time.
#[test]
fn the_last_events_of_a_source_are_counted_if_they_are_lost() {
    const EVENTS: i64 = 20_000;
    let (go, waits) = mpsc::channel::<()>();
    let mut engine = with_ended_source(
        EVENTS,
        // Until the sender is dropped.
        Box::new(move |_: &[u8]| _ = waits.recv()),
    );
    let ending = engine.end_session(0).unwrap();
    drop(go);
    let ended = ending.finish();
    let ledger = ended.session.ledger();
    assert_eq!(ledger.attempted, EVENTS as u64);
    assert!(ledger.lost_total() > 0);
    assert_eq!(ledger.stored + ledger.lost_total(), EVENTS as u64);
}
