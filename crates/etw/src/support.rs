//! For unit tests: a host in this process that keeps what its one session is sent.

use std::sync::{Arc, Mutex, PoisonError};

use etw_ring::prefix::Prefix;
use etw_ring::{
    Admission, Barrier, Control, DrainOptions, Ledger, Memory, PATIENCE, PoolOptions, RawClock,
    Reader, Source, Writer,
};
use etw_types::{EventDescriptor, Guid, LevelKeyword, Status};

use crate::registry::{self, Enable, Host};
use crate::{Provider, Registration};

/// An event as its host saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    pub provider: Guid,
    pub descriptor: EventDescriptor,
    pub activity_id: Option<Guid>,
    pub related_activity_id: Option<Guid>,
    pub metadata: Vec<u8>,
    pub payload: Vec<u8>,
}

pub struct Capture {
    pub events: Vec<Captured>,
    pub ledger: Ledger,
}

/// A host that is asked for nothing before it is told of an enablement.
#[derive(Default)]
struct Silent(Mutex<Vec<Guid>>);

impl Host for Silent {
    fn register(&self, provider: &Provider) -> (u32, Vec<Enable>) {
        let mut known = self.0.lock().unwrap();
        known.push(provider.id());
        (known.len() as u32, Vec::new())
    }

    fn unregister(&self, _: u32) {}
}

/// What `wanted` lets through of what `write` writes to a provider that stays registered meanwhile.
pub fn capture_of(
    registration: Registration,
    wanted: LevelKeyword,
    write: impl FnOnce(),
) -> Capture {
    // Hosts are few, and a test counts what it wrote.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);

    let memory = || Memory::heap(Control::SIZE).unwrap();
    let control = Control::create(memory(), RawClock::best(), Barrier::best(true)).unwrap();
    let admission = Admission { open: true, largest_size: 65535, ..Default::default() };
    control.set_admission(0, admission);
    let options = PoolOptions::default();
    let host = Arc::new(Silent::default());
    let (attachment, mut reader) = registry::attach(|attachment| {
        let pool = Memory::heap(options.memory_size()).unwrap();
        let writer = Writer::new(pool, control.memory().clone(), options, attachment).unwrap();
        let segment = Source::Mapped(writer.segment(0).unwrap().clone());
        let reader = Reader::new(control, segment).unwrap();
        Ok((host.clone() as Arc<dyn Host>, writer, reader))
    })
    .unwrap();
    let id = registration.provider().id();
    registry::enable(attachment, 0, id, Some(&wanted), Guid::ZERO, &[]).unwrap();
    write();
    registry::enable(attachment, 0, id, None, Guid::ZERO, &[]).unwrap();

    let mut sites = reader.site_table();
    let mut events = Vec::new();
    let known = host.0.lock().unwrap();
    reader.drain(&DrainOptions { patience: PATIENCE, ..Default::default() }, |record| {
        let (prefix, payload) = record.payload.split_at(record.metadata_size.into());
        let prefix = Prefix::parse(record.kind, prefix).unwrap();
        let site = sites.get(record.site).map(<[u8]>::to_vec).unwrap_or_default();
        let (descriptor, metadata) = match prefix.descriptor {
            Some(descriptor) => (descriptor, prefix.metadata.to_vec()),
            None => (EventDescriptor::read(&site, 0).unwrap(), site[16..].to_vec()),
        };
        events.push(Captured {
            provider: known[record.registration as usize - 1],
            descriptor,
            activity_id: prefix.activity_id,
            related_activity_id: prefix.related_activity_id,
            metadata,
            payload: payload.to_vec(),
        });
    });
    drop(known);
    reader.advance();
    let ledger = reader.ledger();
    registry::detach(attachment);
    Capture { events, ledger }
}

/// Every event that `write` writes.
pub fn capture(provider: &'static Provider, write: impl FnOnce()) -> Vec<Captured> {
    let everything = LevelKeyword { level: 0, any: 0, all: 0, ignore_keyword_0: false };
    capture_of(provider.register(), everything, write).events
}

/// The one event that `write` writes.
#[track_caller]
pub fn one(provider: &'static Provider, write: impl FnOnce() -> Status) -> Captured {
    let mut status = Status(u32::MAX);
    let mut events = capture(provider, || status = write());
    assert_eq!((status, events.len()), (Status::ERROR_SUCCESS, 1));
    events.remove(0)
}
