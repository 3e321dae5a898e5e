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

/// The size of a host.
#[derive(Clone, Copy)]
pub struct Size {
    pub sessions: usize,
    pub programs: u64,
    pub pool: usize,
    /// Buffers of each session.
    pub buffers: u32,
    /// The pools are read as those of other programs.
    pub is_remote: bool,
}

/// The pools of programs, and an engine with sessions that record all of them.
pub struct Host {
    pub writers: Vec<Writer>,
    pub engine: Engine<()>,
    /// All sessions, a bit each.
    sessions: u8,
}

impl Host {
    pub fn new(size: Size) -> Result<Host, Box<dyn Error>> {
        let clock = RawClock::best();
        let barrier = Barrier::best(true);
        let mut engine = Engine::new(EngineSetup {
            clock,
            barrier,
            first: Pair::now(clock),
            last: LastBatch::new(Arc::new(Memory::heap(LastBatch::SIZE)?))?,
            longest_pause: Duration::from_millis(1),
            pool_size: size.pool as u64,
            interrupt: Box::new(|| false),
        });
        for slot in 0..size.sessions {
            let config = SessionConfig {
                name: format!("budgets{slot}"),
                buffer_size: BUFFER_SIZE,
                buffer_count: size.buffers,
                mode: LogMode::Buffering,
                ..SessionConfig::default()
            };
            let prepared = setup::prepare(&config, clock, 1)?;
            let host = HostFacts { clock: setup::event_clock(&prepared.facts), ..prepared.host };
            let buffers = (0..size.buffers).map(|_| BufferMemory::heap(BUFFER_SIZE as usize));
            let mut session = Session::new(&config, host, buffers.collect::<Result<_, _>>()?)?;
            session.enable(PROVIDER, EnableInfo::default());
            let hosted = HostedSession::new(prepared.facts, None, size.buffers, ());
            engine.insert_session(slot, hosted, session);
        }
        let mut writers = Vec::new();
        for pool_number in 1..=size.programs {
            let control = Control::create(Memory::heap(Control::SIZE)?, clock, barrier)?;
            let prefault = if size.programs == 1 { usize::MAX } else { 0 };
            let options = PoolOptions { chunk_size: size.pool, prefault };
            let segment = match size.is_remote {
                true => Memory::shared(options.memory_size())?,
                false => Memory::heap(options.memory_size())?,
            };
            let writer = Writer::new(segment, control.memory().clone(), options, 0)?;
            let segment = writer.segment(0).ok_or("a pool without memory")?.clone();
            let source = match segment.fd().filter(|_| size.is_remote) {
                Some(fd) => Source::received(fd.try_clone_to_owned()?)?,
                None => Source::Mapped(segment),
            };
            let reader = Reader::new(control, source)?;
            let process = PoolProcess {
                id: std::process::id(),
                facts: ProcessFacts::default(),
                thread_ids: ThreadIds::same_namespace(),
            };
            let growth = Growth::new(size.pool as u64, size.pool as u64, 1);
            let pool = AttachedPool::new(pool_number, process, growth, &reader);
            let mut pool = if size.is_remote { pool } else { pool.mapped() };
            pool.registrations = Registrations::from_directory(|number| {
                (number == 1).then(|| Provider { id: PROVIDER, traits: b"\x06\0Abc\0".to_vec() })
            });
            engine.attach(pool, reader);
            for slot in 0..size.sessions {
                engine.take_slot(pool_number, slot);
            }
            writers.push(writer);
        }
        let sessions = (0..size.sessions).fold(0, |mask, slot| mask | 1 << slot);
        Ok(Host { writers, engine, sessions })
    }

    /// Writes events through two sites in turn.
    pub fn write(&self, count: u32, payload: &[u8]) -> Result<(), Box<dyn Error>> {
        static SITES: [SiteCache; 2] = [SiteCache::new(), SiteCache::new()];
        for writer in &self.writers {
            self.write_to(writer, &SITES, count, payload)?;
        }
        Ok(())
    }

    fn write_to(
        &self,
        writer: &Writer,
        sites: &[SiteCache; 2],
        count: u32,
        payload: &[u8],
    ) -> Result<(), Box<dyn Error>> {
        let descriptor = EventDescriptor::default().to_bytes();
        for n in 0..count as usize {
            let metadata =
                [&descriptor[..], &[8, 0, 0, b'A' + (n % 2) as u8, 0, b'n', 0, 8]].concat();
            let request = Request {
                sessions: self.sessions,
                registration: 1,
                site: writer.intern(&sites[n % 2], &metadata),
                payload_size: payload.len() as u32,
                event_size: 100 + payload.len() as u32,
                ..Request::default()
            };
            writer
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
    let size =
        Size { sessions: 1, programs: 1, pool: POOL_SIZE, buffers: BUFFERS, is_remote: false };
    let mut host = Host::new(size)?;
    host.count("drained record of 36 bytes / record", 20_000, 36)?;
    host.count("drained record of 2 KiB / record", 2_000, 2048)
}
