//! Recording: an engine drains a pool into a session in memory, without threads.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use etw_host::clock::Pair;
use etw_host::engine::{AttachedPool, Engine, EngineSetup, Growth, HostedSession, PoolProcess};
use etw_host::registrations::{Provider, Registrations};
use etw_host::setup;
use etw_host::storage::BufferMemory;
use etw_host::thread_ids::ThreadIds;
use etw_ring::{
    Barrier, Control, LastBatch, Memory, PoolOptions, RawClock, Reader, Request, SiteCache, Source,
    Writer,
};
use etw_session::{EnableInfo, HostFacts, LogMode, ProcessFacts, Session, SessionConfig};
use etw_types::{EventDescriptor, Guid};

use crate::callgrind::measure;

const PROVIDER: Guid = Guid::from_u128(0x1234);
const POOL_SIZE: usize = 16 << 20;
const BUFFER_SIZE: u32 = 64 << 10;
const BUFFERS: u32 = 512;
const POOL: u64 = 1;

/// A program's pool, and an engine with one session.
struct Host {
    writer: Writer,
    engine: Engine<()>,
}

impl Host {
    fn new() -> Result<Host, Box<dyn Error>> {
        let clock = RawClock::best();
        let barrier = Barrier::best(true);
        let control = Control::create(Memory::heap(Control::SIZE)?, clock, barrier)?;
        let options = PoolOptions { chunk_size: POOL_SIZE, prefault: usize::MAX };
        let segment = Memory::heap(options.memory_size())?;
        let writer = Writer::new(segment, control.memory().clone(), options, 0)?;
        let mut engine = Engine::new(EngineSetup {
            clock,
            barrier,
            first: Pair::now(clock),
            last: LastBatch::new(Arc::new(Memory::heap(LastBatch::SIZE)?))?,
            longest_pause: Duration::from_millis(1),
            pool_size: POOL_SIZE as u64,
            interrupt: Box::new(|| false),
        });
        let config = SessionConfig {
            name: "budgets".into(),
            buffer_size: BUFFER_SIZE,
            buffer_count: BUFFERS,
            mode: LogMode::Buffering,
            ..SessionConfig::default()
        };
        let prepared = setup::prepare(&config, clock, 1)?;
        let host = HostFacts { clock: setup::event_clock(&prepared.facts), ..prepared.host };
        let buffers = (0..BUFFERS).map(|_| BufferMemory::heap(BUFFER_SIZE as usize));
        let mut session = Session::new(&config, host, buffers.collect::<Result<_, _>>()?)?;
        session.enable(PROVIDER, EnableInfo::default());
        let hosted = HostedSession::new(prepared.facts, None, BUFFERS, ());
        engine.insert_session(0, hosted, session);
        let segment = writer.segment(0).ok_or("a pool without memory")?.clone();
        let reader = Reader::new(control, Source::Mapped(segment))?;
        let process = PoolProcess {
            id: std::process::id(),
            facts: ProcessFacts::default(),
            thread_ids: ThreadIds::same_namespace(),
        };
        let growth = Growth::new(POOL_SIZE as u64, POOL_SIZE as u64, 1);
        let mut pool = AttachedPool::new(POOL, process, growth, &reader).mapped();
        pool.registrations = Registrations::from_directory(|number| {
            (number == 1).then(|| Provider { id: PROVIDER, traits: b"\x06\0Abc\0".to_vec() })
        });
        engine.attach(pool, reader);
        engine.take_slot(POOL, 0);
        Ok(Host { writer, engine })
    }

    /// Writes events through two sites in turn.
    fn write(&self, count: u32, payload: &[u8]) -> Result<(), Box<dyn Error>> {
        static SITES: [SiteCache; 2] = [SiteCache::new(), SiteCache::new()];
        let descriptor = EventDescriptor::default().to_bytes();
        for n in 0..count as usize {
            let metadata =
                [&descriptor[..], &[8, 0, 0, b'A' + (n % 2) as u8, 0, b'n', 0, 8]].concat();
            let request = Request {
                sessions: 1,
                registration: 1,
                site: self.writer.intern(&SITES[n % 2], &metadata),
                payload_size: payload.len() as u32,
                event_size: 100 + payload.len() as u32,
                ..Request::default()
            };
            self.writer
                .write(&request, |event| event.put(payload))
                .map_err(|refused| format!("an event was refused: {refused:?}"))?;
        }
        Ok(())
    }

    fn count(&mut self, name: &str, events: u32, size: usize) -> Result<(), Box<dyn Error>> {
        let payload = vec![7; size];
        self.write(100, &payload)?;
        self.engine.drain_all();
        self.write(events, &payload)?;
        let before = self.engine.ledger(0).stored;
        measure(name, events, |_| {
            self.engine.round(Duration::ZERO);
        });
        let stored = self.engine.ledger(0).stored - before;
        let is_all = stored == u64::from(events);
        if is_all { Ok(()) } else { Err(format!("{stored} of {events} events were stored").into()) }
    }
}

pub fn run() -> Result<(), Box<dyn Error>> {
    let mut host = Host::new()?;
    host.count("drained record of 36 bytes / record", 20_000, 36)?;
    host.count("drained record of 2 KiB / record", 2_000, 2048)
}
