//! The accounts of a live stream: a consumer receives each event once, or its loss, wherever the host's worker is killed.

use std::os::fd::{AsFd, OwnedFd};

use etw_host::facts::SessionFacts;
use etw_host::setup::{self, Prepared};
use etw_ring::{Memory, RawClock, Region};
use etw_session::recover::recover;
use etw_session::state::{Killed, STATE_SIZE, Saved};
use etw_session::{Event, FullBuffer, HostFacts, Session, SessionConfig};
use etw_types::Guid;
use std::collections::VecDeque;

use super::*;

const PROVIDER: Guid = Guid::from_u128(0x1234);
const BUFFER_SIZE: u32 = 1024;
const BUFFERS: usize = 12;
/// Bytes that may wait for the consumer: less than three buffers.
const QUEUE: usize = 2600;
const ROUNDS: u64 = 24;

/// The worker was killed.
#[derive(Debug)]
struct WasKilled;

/// The daemon's host of one session, without processes: its consumer's queue ends with its worker, its memory does not.
struct Host {
    config: SessionConfig,
    facts: SessionFacts,
    host: HostFacts,
    session: Session<Region>,
    buffers: OwnedFd,
    state: OwnedFd,
    /// The last final batch.
    batch: u64,
    /// Numbers of the events that no final batch contains. The next worker finds them in their pool.
    pool: Vec<u64>,
    written: u64,
    /// Steps until the worker is killed.
    fuse: Option<u32>,
    queue: VecDeque<Frame>,
    /// Buffers and events that did not fit the queue since the last report.
    lost: [u64; 2],
    has_slices: bool,
}

fn memory(size: usize, count: usize) -> (Vec<Region>, OwnedFd) {
    let mut memory = Memory::shared(size * count).unwrap();
    let descriptor = memory.take_fd().unwrap();
    (memory.into_regions(size), descriptor)
}

fn mapped(descriptor: &OwnedFd, size: usize, count: usize) -> Vec<Region> {
    let descriptor = descriptor.as_fd().try_clone_to_owned().unwrap();
    Memory::map(descriptor, 0, size * count, true).unwrap().into_regions(size)
}

impl Host {
    fn new() -> Host {
        let config = SessionConfig {
            name: "live".to_owned(),
            real_time: true,
            buffer_size: BUFFER_SIZE,
            ..SessionConfig::default()
        };
        let Prepared { facts, .. } = setup::prepare(&config, RawClock::Monotonic, 1).unwrap();
        let host = HostFacts { clock: setup::event_clock(&facts), ..setup::host_facts(&facts, 1) };
        let (regions, buffers) = memory(BUFFER_SIZE as usize, BUFFERS);
        let (mut states, state) = memory(STATE_SIZE, 1);
        let mut session = Session::new(&config, host, regions).unwrap();
        session.keep_state(states.remove(0), 0);
        let (batch, written, fuse) = (0, 0, None);
        let (pool, queue, lost) = (Vec::new(), VecDeque::new(), [0; 2]);
        let has_slices = false;
        let mut host = Host {
            config,
            facts,
            host,
            session,
            buffers,
            state,
            batch,
            pool,
            written,
            fuse,
            queue,
            lost,
            has_slices,
        };
        // The first batch makes the state readable.
        host.round().unwrap();
        host.queue.clear();
        host.has_slices = false;
        host.connect();
        host
    }

    /// A step after which the worker may be killed.
    fn step(&mut self) -> Result<(), WasKilled> {
        match &mut self.fuse {
            Some(0) => {
                self.fuse = None;
                Err(WasKilled)
            }
            Some(steps) => {
                *steps -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The time behind all events so far.
    fn now(&self) -> i64 {
        self.written as i64 * 10
    }

    fn send(&mut self, kind: u32, bytes: Vec<u8>) {
        self.queue.push_back(Frame { kind, bytes });
    }

    fn fits(&self, more: usize) -> bool {
        let size: usize = self.queue.iter().map(|frame| frame.bytes.len()).sum();
        size + more <= QUEUE
    }

    fn report_lost(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        if lost != [0; 2] {
            self.send(frames::LOST, lost.map(u64::to_le_bytes).concat());
        }
    }

    fn connect(&mut self) {
        let header = self.facts.header_buffer(&self.facts.header).unwrap();
        self.send(frames::START, header);
        let position = self.session.position();
        let words =
            [position.next_sequence.to_le_bytes(), position.events_before.to_le_bytes()].concat();
        self.send(frames::POSITION, words);
    }

    fn write(&mut self, count: u64) {
        self.pool.extend(self.written..self.written + count);
        self.written += count;
    }

    fn deliver(&mut self, full: &FullBuffer<Region>) {
        let mut bytes = full.bytes()[..full.filled()].to_vec();
        bytes[..BufferHeader::SIZE].copy_from_slice(&full.header());
        if self.fits(bytes.len()) {
            self.report_lost();
            self.send(frames::BUFFER, bytes);
        } else {
            self.lost = [self.lost[0] + 1, self.lost[1] + full.events()];
        }
    }

    /// A round of the engine.
    fn round(&mut self) -> Result<(), WasKilled> {
        for number in self.pool.clone() {
            let payload = number.to_le_bytes();
            let event = Event {
                time: number as i64 * 10,
                cpu: (number / 3 % 2) as u16,
                provider: PROVIDER,
                payload: &payload,
                ..Event::default()
            };
            self.session.push(&event).unwrap();
        }
        self.step()?;
        if !self.has_slices && self.fits(QUEUE / 2) {
            self.has_slices = true;
            self.session.flush(self.now());
        }
        self.session.seal(self.batch + 1);
        self.step()?;
        self.batch += 1;
        self.pool.clear();
        self.step()?;
        while let Some(full) = self.session.take_full() {
            self.step()?;
            self.deliver(&full);
            self.step()?;
            self.session.delivered(full);
        }
        let now = self.now();
        let first = self.session.first_waiting().unwrap_or(now);
        self.send(frames::WATERMARK, first.min(now).to_le_bytes().into());
        self.step()?;
        let mut slices = Vec::new();
        self.session.take_slices(|slice| {
            let head = [u32::from(slice.cpu), slice.offset as u32].map(u32::to_le_bytes).concat();
            slices.push([&head, slice.records].concat());
        });
        for slice in slices {
            self.has_slices &= self.fits(slice.len());
            if self.has_slices {
                self.send(frames::SLICE, slice);
            }
        }
        if self.has_slices {
            self.send(frames::SLICES_WATERMARK, now.to_le_bytes().into());
        }
        self.step()
    }

    /// Another worker takes over.
    fn restart(&mut self) {
        self.queue.clear();
        (self.lost, self.has_slices) = ([0; 2], false);
        let left = mapped(&self.buffers, BUFFER_SIZE as usize, BUFFERS);
        let found = recover(left.iter().map(|region| region.as_ref()), self.batch);
        let saved = Saved::read(mapped(&self.state, STATE_SIZE, 1)[0].as_ref(), self.batch);
        let killed = Killed { saved: saved.unwrap(), found, batch: self.batch };
        let (regions, buffers) = memory(BUFFER_SIZE as usize, BUFFERS);
        let (mut states, state) = memory(STATE_SIZE, 1);
        let (mut session, _) =
            Session::resume(&self.config, self.host, regions, killed, &Guid::ZERO).unwrap();
        session.keep_state(states.remove(0), self.batch);
        (self.session, self.buffers, self.state) = (session, buffers, state);
        self.connect();
    }

    /// Another worker takes over after the session has ended: the keeper has its last position.
    fn restart_after_end(&mut self) {
        self.queue.clear();
        self.connect();
        self.send(frames::END, Vec::new());
    }

    /// Ends the session.
    fn end(&mut self) {
        self.fuse = None;
        self.session.stop(self.now());
        self.round().unwrap();
        self.report_lost();
        self.send(frames::END, Vec::new());
    }
}

/// A consumer and its observations.
struct Consumer {
    feed: Feed<()>,
    numbers: Vec<u64>,
    lost: u64,
}

impl Consumer {
    fn new(host: &mut Host) -> Consumer {
        let start = host.queue.pop_front().unwrap();
        let trace = TraceFile::from_bytes("live", start.bytes).unwrap();
        let mut consumer = Consumer { feed: Feed::new((), trace), numbers: Vec::new(), lost: 0 };
        // `Feed::open` waits for the position.
        consumer.read(host, 1);
        assert!(consumer.feed.progress.has_begun());
        consumer
    }

    /// Reads at most so many frames.
    fn read(&mut self, host: &mut Host, count: usize) {
        for frame in host.queue.drain(..count.min(host.queue.len())) {
            self.feed.take_frame(&frame, false).unwrap();
            self.feed.release();
        }
        while let Some(ready) = self.feed.state.ready.pop_front() {
            match ready {
                Ready::Record(record) => {
                    let record = record.as_record(&self.feed.state.trace);
                    self.numbers.push(u64::from_le_bytes(record.payload.try_into().unwrap()));
                }
                Ready::Lost { events, .. } => self.lost += events,
                _ => {}
            }
        }
    }
}

/// Writes a session whose worker is killed after these numbers of steps, and which reads so many frames in each round. Returns
/// how many workers were killed.
fn run(fuses: &[u32], frames_read: usize) -> usize {
    let mut host = Host::new();
    let mut consumer = Consumer::new(&mut host);
    let mut fuses = fuses.iter().copied();
    let mut kills = 0;
    host.fuse = fuses.next();
    for round in 0..ROUNDS {
        host.write(round * 7 % 11);
        while host.round().is_err() {
            kills += 1;
            // These frames were in the socket.
            consumer.read(&mut host, frames_read);
            host.restart();
            host.fuse = fuses.next();
        }
        consumer.read(&mut host, frames_read);
    }
    host.end();
    consumer.read(&mut host, usize::MAX);
    let Consumer { feed, numbers, lost } = consumer;
    let context = format!("{kills} kills, {frames_read} frames a round: {numbers:?}");
    assert_eq!(feed.state.end, Some(StreamEnd::SessionEnded), "{context}");
    assert!(numbers.is_sorted_by(|a, b| a < b), "an event came twice: {context}");
    assert_eq!(numbers.len() as u64 + lost, host.written, "{lost} lost, {context}");
    assert_eq!(feed.state.ledger.lost_events(), lost, "{context}");
    // A worker may be killed before the consumer reads from it.
    assert!(feed.state.ledger.workers_replaced as usize <= kills, "{context}");
    kills
}

/// P3: the worker dies after each of its steps, with a consumer that reads at once, slowly or not at all.
#[test]
fn every_event_is_delivered_or_counted_wherever_the_worker_is_killed() {
    for frames_read in [0, 1, 2, 3, 5, usize::MAX] {
        assert_eq!(run(&[], frames_read), 0);
        for first in 0.. {
            let kills = [run(&[first], frames_read), run(&[first, first % 13], frames_read)];
            if kills[0] == 0 {
                assert!(first > 100, "a session of {first} steps");
                break;
            }
        }
    }
}

/// P3: the worker dies after the session has ended, while its consumer has read some of the frames.
#[test]
fn events_in_the_queue_of_an_ended_session_are_counted_when_the_worker_is_killed() {
    for frames_read in 0..40 {
        let mut host = Host::new();
        let mut consumer = Consumer::new(&mut host);
        for round in 0..ROUNDS {
            host.write(round * 7 % 11);
            host.round().unwrap();
            consumer.read(&mut host, usize::from(round % 2 == 0));
        }
        host.end();
        consumer.read(&mut host, frames_read);
        let has_end = consumer.feed.state.end.is_some();
        if !has_end {
            host.restart_after_end();
            consumer.read(&mut host, usize::MAX);
        }
        let context = format!("{frames_read} frames read: {:?}", consumer.numbers);
        assert_eq!(consumer.feed.state.end, Some(StreamEnd::SessionEnded), "{context}");
        assert_eq!(consumer.numbers.len() as u64 + consumer.lost, host.written, "{context}");
        assert_eq!(consumer.feed.state.ledger.lost_events(), consumer.lost, "{context}");
        if frames_read == 0 {
            assert!(consumer.lost > 0, "{context}");
        }
    }
}

/// P3: a consumer that has lost buffers whose beginnings came in slices counts none of those events as lost.
#[test]
fn events_that_came_in_slices_are_not_counted_as_lost() {
    let mut host = Host::new();
    let mut consumer = Consumer::new(&mut host);
    host.write(3);
    host.round().unwrap();
    consumer.read(&mut host, usize::MAX);
    // The consumer reads nothing until its queue has lost the buffer of those three events.
    for _ in 0..8 {
        host.write(9);
        host.round().unwrap();
    }
    assert!(host.lost[1] > 0);
    consumer.read(&mut host, usize::MAX);
    host.write(30);
    host.round().unwrap();
    consumer.read(&mut host, usize::MAX);
    host.end();
    consumer.read(&mut host, usize::MAX);
    assert!(consumer.numbers.starts_with(&[0, 1, 2]));
    assert!(consumer.lost > 0);
    assert_eq!(consumer.numbers.len() as u64 + consumer.lost, host.written);
}
