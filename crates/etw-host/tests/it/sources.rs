//! Sources of events beside the pools.

use std::sync::Arc;
use std::sync::mpsc;

use etw_host::engine::{EventSource, SourceLoss};
use etw_ring::{LastBatch, Memory, RawClock};
use etw_session::Event;

use crate::takeover::{engine_without_sessions, insert};

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
