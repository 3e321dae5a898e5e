//! The kernel's perf events: rings of records, one pair for each CPU.

mod attribute;
mod parse;
mod ring;
mod tracepoint;

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::slice::SliceIndex;

pub(crate) use attribute::{Attribute, Event, Target};
pub use parse::{Kind, Mapping, Parsed, PerfDetail, Scratch, parse};
pub(crate) use tracepoint::TraceFiles;
pub use tracepoint::{Layout, Tracepoint};

use parse::{is_exec, lost_of, time_of};
use ring::Ring;

/// An event that a session wants from the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub attribute: Attribute,
    pub kind: Kind,
}

/// A record that waits until the watermark has passed its time.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time: u64,
    start: usize,
    size: usize,
    /// Its ring, and its position there.
    ring: usize,
    position: u64,
}

/// A program that was executed, as soon as its record is read.
#[derive(Clone, Debug)]
pub(crate) struct Executed {
    pub time: u64,
    pub process: u32,
    pub name: Vec<u8>,
}

/// Open events and their rings.
#[derive(Debug, Default)]
pub(crate) struct Perf {
    events: Vec<Event>,
    rings: Vec<Ring>,
    /// The events of each ring; the first one is that from which it was mapped.
    ring_events: Vec<Range<usize>>,
    kinds: HashMap<u64, Kind>,
    waiting: Vec<Waiting>,
    bytes: Vec<u8>,
    /// Records that the kernel had no room for, since the last look.
    lost: u64,
    executed: Vec<Executed>,
}

/// No ring is larger.
const MAX_RING: usize = 1 << 30;

/// Sizes of the rings of a CPU, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSize(pub usize);

impl RingSize {
    /// Half of it, as long as a ring is useful.
    fn smaller(self) -> Option<RingSize> {
        (self.0 > 64 << 10).then_some(RingSize(self.0 / 2))
    }
}

impl Perf {
    /// Opens events on all CPUs, into one ring of each CPU. An event that cannot be opened on the first CPU is an error; a CPU
    /// that is offline is left out.
    pub fn open(
        &mut self,
        wanted: &[Wanted],
        target: Target,
        cpus: &[u16],
        size: RingSize,
    ) -> io::Result<()> {
        for cpu in cpus {
            let mut leader: Option<usize> = None;
            for one in wanted {
                let event = match Event::open(&one.attribute, target, *cpu) {
                    Ok(event) => event,
                    // The CPU went offline.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                    Err(error) => return Err(error),
                };
                match leader {
                    Some(leader) => event.redirect(&self.rings[leader])?,
                    None => {
                        leader = Some(self.rings.len());
                        self.rings.push(map(&event, size)?);
                        self.ring_events.push(self.events.len()..self.events.len());
                    }
                }
                self.kinds.insert(event.id()?, one.kind.clone());
                self.events.push(event);
                if let Some(events) = self.ring_events.last_mut() {
                    events.end = self.events.len();
                }
            }
        }
        Ok(())
    }

    /// Continues with a ring whose events another process opened and began.
    pub fn adopt(
        &mut self,
        wanted: &[Wanted],
        events: Vec<OwnedFd>,
        size: usize,
    ) -> io::Result<()> {
        if events.len() != wanted.len() || events.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let first = self.events.len();
        for (event, one) in events.into_iter().zip(wanted) {
            let event = Event::from(event);
            self.kinds.insert(event.id()?, one.kind.clone());
            self.events.push(event);
        }
        self.rings.push(Ring::map(self.events[first].raw(), size)?);
        self.ring_events.push(first..self.events.len());
        Ok(())
    }

    /// The rings: their sizes and events.
    pub fn rings(&self) -> impl Iterator<Item = (usize, Vec<BorrowedFd<'_>>)> {
        self.rings.iter().zip(&self.ring_events).map(|(ring, events)| {
            (ring.size(), self.events[events.clone()].iter().map(AsFd::as_fd).collect())
        })
    }

    /// The earliest time of a record that has been read and not released, from a time on.
    pub fn first_time(&self, from: u64) -> Option<u64> {
        self.waiting.iter().map(|one| one.time).filter(|time| *time >= from).min()
    }

    /// For each ring the position before which all records have been released.
    pub fn released(&self) -> Vec<u64> {
        let mut positions: Vec<u64> = self.rings.iter().map(Ring::read_until).collect();
        for one in &self.waiting {
            positions[one.ring] = positions[one.ring].min(one.position);
        }
        positions
    }

    /// Gives the kernel the memory of the records before these positions: they are stored.
    pub fn commit(&self, positions: &[u64]) {
        self.rings.iter().zip(positions).for_each(|(ring, position)| ring.commit(*position));
    }

    /// Begins to record some events, in the order in which they were opened.
    pub fn enable(&self, which: impl SliceIndex<[Event], Output = [Event]>) -> io::Result<()> {
        self.events[which].iter().try_for_each(Event::enable)
    }

    /// Ends the recording; what is in the rings stays.
    pub fn disable(&self) {
        for event in &self.events {
            event.disable();
        }
    }

    /// Number of open events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Reads what the rings have.
    pub fn read(&mut self) {
        let Perf { rings, bytes, waiting, lost, executed, .. } = self;
        for (index, ring) in rings.iter_mut().enumerate() {
            let start = bytes.len();
            let first = ring.read(bytes);
            let mut at = start;
            while let Some(size) = ring::record_size(&bytes[at..]) {
                let record = &bytes[at..at + size];
                if let Some(time) = time_of(record) {
                    if let Some(exec) = is_exec(record) {
                        let name = exec.name.to_vec();
                        executed.push(Executed { time, process: exec.process, name });
                    }
                    *lost += lost_of(record);
                    let position = first + (at - start) as u64;
                    waiting.push(Waiting { time, start: at, size, ring: index, position });
                }
                at += size;
            }
            bytes.truncate(at);
        }
    }

    /// Programs whose records have been read since the last call.
    pub fn take_executed(&mut self) -> Vec<Executed> {
        std::mem::take(&mut self.executed)
    }

    /// Records that were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Gives the records before `until`, in order of time.
    pub fn release(&mut self, until: u64, mut give: impl FnMut(&Parsed<'_>)) {
        // Each ring is nearly sorted already.
        self.waiting.sort_by_key(|one| one.time);
        let count = self.waiting.partition_point(|one| one.time < until);
        let mut scratch = Scratch::default();
        for one in &self.waiting[..count] {
            let record = &self.bytes[one.start..one.start + one.size];
            if let Some(parsed) = parse(record, |id| self.kinds.get(&id), &mut scratch) {
                give(&parsed);
            }
        }
        self.waiting.drain(..count);
        // The rest moves to the front.
        let mut rest = Vec::with_capacity(self.waiting.iter().map(|one| one.size).sum());
        for one in &mut self.waiting {
            let start = rest.len();
            rest.extend_from_slice(&self.bytes[one.start..one.start + one.size]);
            one.start = start;
        }
        self.bytes = rest;
    }
}

/// A mapped ring that another process reads: its records stay when that process ends.
#[derive(Debug)]
pub struct HeldRing {
    /// Unmapped when it is dropped.
    _ring: Ring,
}

impl HeldRing {
    /// Maps the ring of an event, whose data have `size` bytes.
    ///
    /// # Errors
    /// The ring has another size, or the descriptor is that of no event.
    pub fn map(event: BorrowedFd<'_>, size: usize) -> io::Result<HeldRing> {
        let is_size = size.is_power_of_two() && size <= MAX_RING;
        let size = is_size.then_some(size).ok_or(io::ErrorKind::InvalidData)?;
        Ok(HeldRing { _ring: Ring::map(event.as_raw_fd(), size)? })
    }
}

/// Maps a ring for an event; a smaller one, if the user may not lock so much memory.
fn map(event: &Event, size: RingSize) -> io::Result<Ring> {
    let mut size = size;
    loop {
        match Ring::map(event.raw(), size.0) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                size = size.smaller().ok_or(error)?;
            }
            result => return result,
        }
    }
}
