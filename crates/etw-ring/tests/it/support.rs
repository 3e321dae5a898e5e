//! A pool with its host in one process.
use etw_ring::*;
use std::sync::Arc;

pub struct Rig {
    pub writer: Arc<Writer>,
    pub reader: Reader,
    pub control: Control,
}

pub fn open() -> Admission {
    Admission { open: true, largest_size: 65535, ..Default::default() }
}

/// Attachment numbers choose thread-local state: tests run on threads of their own, so any number will do.
pub fn rig_of(chunk_size: usize, barrier: Barrier, clock: RawClock, shared: bool) -> Rig {
    let memory = |len| {
        #[cfg(target_os = "linux")]
        if shared {
            return Memory::shared(len).unwrap();
        }
        let _ = shared;
        Memory::heap(len).unwrap()
    };
    let control = Control::create(memory(Control::SIZE), clock, barrier).unwrap();
    control.set_admission(0, open());
    let options = PoolOptions { chunk_size, prefault: usize::MAX };
    let pool = memory(options.memory_size());
    let writer = Writer::new(pool, control.memory().clone(), options, 0).unwrap();
    let source = Source::Mapped(writer.segment(0).unwrap().clone());
    let reader = Reader::new(control.clone(), source).unwrap();
    Rig { writer: Arc::new(writer), reader, control }
}

pub fn rig(chunk_size: usize) -> Rig {
    rig_of(chunk_size, Barrier::best(true), RawClock::best(), true)
}

pub fn request(size: usize) -> Request {
    Request {
        sessions: 1,
        kind: 7,
        registration: 3,
        payload_size: size as u32,
        event_size: size as u32 + 80,
        ..Default::default()
    }
}

pub fn put(writer: &Writer, bytes: &[u8]) -> Result<(), Refused> {
    writer.write(&request(bytes.len()), |r| r.put(bytes))
}

/// Writes on the usual machine alone, to the pool to which this thread wrote last.
pub fn put_usual(cache: Option<&SiteCache>, bytes: &[u8]) -> Option<Result<(), Refused>> {
    // SAFETY: a rig's writer stays at its place until the rig is dropped.
    unsafe { try_write_usual(try_this_thread()?, 0, cache, request(bytes.len()), bytes) }
}

pub fn patient() -> DrainOptions<'static> {
    DrainOptions { patience: PATIENCE, ..Default::default() }
}

pub fn all(reader: &mut Reader) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    reader.drain(&patient(), |r| seen.push(r.payload.to_vec()));
    reader.advance();
    seen
}

/// attempted = drained + late + lost, for slot 0.
#[track_caller]
pub fn balance(reader: &Reader) {
    let ledger = reader.ledger();
    let (drained, late) = (reader.drained()[0], reader.late()[0]);
    assert_eq!(
        ledger.attempted[0],
        drained + late + ledger.lost_total(0),
        "{ledger:?}, drained {drained}, late {late}"
    );
}
