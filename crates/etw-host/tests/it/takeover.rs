//! An engine that takes over from one that was killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use etw_host::clock::Pair;
use etw_host::engine::{
    AttachedPool, Engine, EngineSetup, Growth, HostedSession, PoolProcess, SlotTable,
};
use etw_host::registrations::{Provider, Registrations};
use etw_host::setup;
use etw_host::storage::{BufferMemory, Destination, Storage};
use etw_host::thread_ids::ThreadIds;
use etw_ring::{
    Admission, Barrier, Control, LastBatch, Memory, PoolOptions, RawClock, Reader, Request, Source,
    Writer, prefix,
};
use etw_session::{Cause, EnableInfo, HostFacts, ProcessFacts, Session, SessionConfig};
use etw_types::{EventDescriptor, Guid};

pub const PROVIDER: Guid = Guid::from_u128(0x1234);
const POOL: u64 = 1;
const POOL_SIZE: usize = 1 << 20;
const SLOW: usize = 0;
const QUICK: usize = 1;

/// A pool and the memory that outlives its engines.
struct Rig {
    writer: Writer,
    control: Control,
    last: Arc<Memory>,
    written: u64,
    /// How long the slow storage stalls with its first buffer.
    stall: Duration,
}

impl Rig {
    fn new() -> Rig {
        let memory = |size| Memory::heap(size).unwrap();
        let control =
            Control::create(memory(Control::SIZE), RawClock::best(), Barrier::best(true)).unwrap();
        let options = PoolOptions { chunk_size: POOL_SIZE, prefault: usize::MAX };
        let segment = memory(options.memory_size());
        let writer = Writer::new(segment, control.memory().clone(), options, 0).unwrap();
        let last = Arc::new(memory(LastBatch::SIZE));
        Rig { writer, control, last, written: 0, stall: Duration::ZERO }
    }

    /// An engine with the pool and two sessions; `slots`: those of the engine before, if there was one.
    fn engine(&self, slots: Option<SlotTable>) -> Engine<()> {
        let mut engine = engine_without_sessions(self.control.clock(), self.last.clone());
        let mut stall = self.stall;
        let slow = move |_: &[u8]| {
            std::thread::sleep(Duration::from_micros(500) + std::mem::take(&mut stall));
        };
        insert(&mut engine, SLOW, 8, Box::new(slow));
        insert(&mut engine, QUICK, 64, Box::new(|_| ()));
        let segment = self.writer.segment(0).unwrap().clone();
        let reader = Reader::new(self.control.clone(), Source::Mapped(segment)).unwrap();
        let process = PoolProcess {
            id: std::process::id(),
            facts: ProcessFacts::default(),
            thread_ids: ThreadIds::same_namespace(),
        };
        let growth = Growth::new(POOL_SIZE as u64, POOL_SIZE as u64, 1);
        let mut pool = AttachedPool::new(POOL, process, growth, &reader).mapped();
        pool.registrations = Registrations::from_directory(|number| {
            (number == 1).then(|| Provider { id: PROVIDER, traits: Vec::new() })
        });
        match slots {
            Some(slots) => engine.attach(pool.with_slots(slots), reader),
            None => {
                engine.attach(pool, reader);
                assert_eq!(
                    [SLOW, QUICK].map(|slot| engine.take_slot(POOL, slot)),
                    [Some(0), Some(1)]
                );
            }
        }
        engine
    }

    /// The slots that a killed engine leaves to the next one.
    fn kill(&self, engine: Engine<()>) -> Option<SlotTable> {
        let batch = engine.batch();
        Some(SlotTable::restored(engine.pool(POOL).unwrap().slots().to_keep(batch), batch))
    }

    /// Writes events until one is refused.
    fn write(&mut self) {
        let request = Request {
            sessions: 0b11,
            kind: prefix::DESCRIPTOR,
            registration: 1,
            metadata_size: 16,
            payload_size: 24,
            event_size: 88,
            ..Request::default()
        };
        let descriptor = EventDescriptor::default().to_bytes();
        loop {
            let number = self.written.to_le_bytes();
            let written = self.writer.write(&request, |payload| {
                payload.put(&descriptor);
                payload.put(&number);
            });
            if written.is_err() {
                return;
            }
            self.written += 1;
        }
    }
}

pub fn engine_without_sessions(clock: RawClock, last: Arc<Memory>) -> Engine<()> {
    Engine::new(EngineSetup {
        clock,
        barrier: Barrier::best(true),
        first: Pair::now(clock),
        last: LastBatch::new(last).unwrap(),
        longest_pause: Duration::from_millis(1),
        pool_size: POOL_SIZE as u64,
        interrupt: Box::new(|| false),
    })
}

/// Inserts a session; the time at which its trace begins.
pub fn insert(
    engine: &mut Engine<()>,
    slot: usize,
    buffer_count: u32,
    consumer: etw_host::Consumer,
) -> i64 {
    let config = SessionConfig {
        name: format!("session{slot}"),
        real_time: true,
        buffer_size: 8192,
        buffer_count,
        ..SessionConfig::default()
    };
    let prepared = setup::prepare(&config, engine.clock(), slot as u16 + 1).unwrap();
    let clock = setup::event_clock(&prepared.facts);
    let host = HostFacts { clock, ..prepared.host };
    let buffers = (0..buffer_count).map(|_| BufferMemory::heap(8192).unwrap()).collect();
    let mut session = Session::new(&config, host, buffers).unwrap();
    session.enable(PROVIDER, EnableInfo::default());
    let storage = Storage::start(Destination::Consumer(consumer)).unwrap();
    let start = prepared.facts.start_raw;
    let hosted = HostedSession::new(prepared.facts, Some(storage), buffer_count, ());
    engine.insert_session(slot, hosted, session);
    start
}

/// P3: events that were written while no worker drained their pool wait for a slow storage, although the pool is full. No
/// session loses them.
#[test]
fn the_backlog_of_a_killed_worker_waits_for_a_slow_storage() {
    let mut rig = Rig::new();
    let slots = rig.kill(rig.engine(None));
    rig.write();
    let found = rig.written;
    assert!(found > 5000, "{found}");
    let mut engine = rig.engine(slots);
    let end = Instant::now() + Duration::from_secs(120);
    // The program continues to write, and finds less than half of its pool free.
    while engine.ledger(SLOW).stored < found {
        engine.round(Duration::ZERO);
        rig.write();
        assert!(Instant::now() < end, "{:?}", engine.ledger(SLOW));
    }
    for slot in [SLOW, QUICK] {
        let ledger = engine.ledger(slot);
        let dropped = ledger.lost(Cause::SessionFull) + ledger.lost(Cause::AllOrNone);
        assert_eq!(dropped, 0, "{ledger:?}");
    }
    engine.drain_all();
    for slot in [SLOW, QUICK] {
        assert_eq!(engine.ledger(slot).stored, rig.written, "{:?}", engine.ledger(slot));
    }
}

/// P3: a storage that gets no processor for a while does not cost any session the events that a killed worker left.
#[test]
fn the_backlog_of_a_killed_worker_waits_for_a_storage_that_stalls() {
    let mut rig = Rig::new();
    rig.stall = Duration::from_millis(400);
    let slots = rig.kill(rig.engine(None));
    rig.write();
    let mut engine = rig.engine(slots);
    engine.drain_all();
    for slot in [SLOW, QUICK] {
        let ledger = engine.ledger(slot);
        // The write that found no chunk is the program's loss.
        let dropped = ledger.lost(Cause::SessionFull) + ledger.lost(Cause::AllOrNone);
        assert_eq!((ledger.stored, dropped), (rig.written, 0), "{ledger:?}");
    }
}

/// P3: an engine that was killed while a session was full leaves writers the admission of a full session. The next engine
/// corrects it, although the session is not full any more and does not become so.
#[test]
fn a_session_that_was_full_admits_events_after_a_takeover() {
    let mut rig = Rig::new();
    let killed = rig.engine(None);
    let full = Admission { open: true, full: true, largest_size: 4096, ..Admission::default() };
    rig.control.set_admission(0, full);
    let slots = rig.kill(killed);
    rig.write();
    assert_eq!(rig.written, 0);
    let engine = rig.engine(slots);
    rig.write();
    assert!(rig.written > 5000, "{}", rig.written);
    drop(engine);
}
