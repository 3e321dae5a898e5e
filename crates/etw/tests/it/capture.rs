//! Captures a test's events in a private session.

use std::sync::{Mutex, PoisonError};

use etw::{EventDescriptor, Guid, Ledger, LevelKeyword, Provider, Registration, Session, Status};
use etw_etl::read::{Records, TraceFile};
use etw_types::ExtType;

use crate::support::{TempPath, session_permits};

/// An event as its session recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    pub provider: Guid,
    pub descriptor: EventDescriptor,
    pub activity_id: Option<Guid>,
    pub related_activity_id: Option<Guid>,
    pub metadata: Vec<u8>,
    pub traits: Vec<u8>,
    pub payload: Vec<u8>,
}

pub struct Capture {
    pub events: Vec<Captured>,
    pub ledger: Ledger,
}

/// The events of `write` that pass `wanted`. The provider stays registered meanwhile.
pub fn capture_of(
    registration: Registration,
    wanted: LevelKeyword,
    write: impl FnOnce(),
) -> Capture {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _permits = session_permits(1);
    let path = TempPath::new("capture.etl");
    let session = Session::builder("capture").file(&path).start().unwrap();
    let provider = registration.provider().id();
    session.enable(&provider, wanted.level, wanted.any).unwrap();
    write();
    session.disable(&provider);
    let statistics = session.stop().unwrap();
    assert!(statistics.ledger.is_balanced(), "{:?}", statistics.ledger);

    let mut records = Records::new(vec![TraceFile::open(&path).unwrap()]);
    let mut events = Vec::new();
    while let Some(record) = records.next() {
        if record.hook.is_some() || record.provider != Some(provider) {
            continue;
        }
        let item = |kind| record.extended.find(kind).unwrap_or_default().to_vec();
        events.push(Captured {
            provider,
            descriptor: record.descriptor,
            activity_id: Some(record.activity_id).filter(|id| !id.is_zero()),
            related_activity_id: record.related_activity_id(),
            metadata: item(ExtType::EVENT_SCHEMA_TL),
            traits: item(ExtType::PROV_TRAITS),
            payload: record.payload.to_vec(),
        });
    }
    assert_eq!(records.damage().count(), 0);
    Capture { events, ledger: statistics.ledger }
}

/// Every event that `write` writes.
pub fn capture(provider: &'static Provider, write: impl FnOnce()) -> Vec<Captured> {
    capture_of(provider.register(), LevelKeyword::ALL, write).events
}

/// The one event that `write` writes.
#[track_caller]
pub fn one(provider: &'static Provider, write: impl FnOnce() -> Status) -> Captured {
    let mut status = Status(u32::MAX);
    let mut events = capture(provider, || status = write());
    assert_eq!((status, events.len()), (Status::ERROR_SUCCESS, 1));
    let event = events.remove(0);
    assert_eq!(event.traits, provider.traits());
    event
}
