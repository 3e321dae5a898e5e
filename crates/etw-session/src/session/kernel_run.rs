//! Runs of kernel events, of any CPUs: what the session asks of their provider is looked up once, and they are counted once.

use etw_types::{Classic, ClassicHeader, Guid};

use super::{Facts, Session};
use crate::buffer::Buffer;
use crate::classic::{KernelIds, encode_kernel};
use crate::event::MAX_EVENT_SIZE;
use crate::ledger::Ledger;

/// Where the events of a run go. They count from [`finish`](KernelRun::finish) on.
#[derive(Debug)]
#[must_use = "its events count only after `finish`"]
pub struct KernelRun<'s, B> {
    open: &'s mut [Option<Buffer<B>>],
    per_processor: bool,
    count: u64,
    ledger: &'s mut Ledger,
    facts: &'s mut Facts,
}

/// A kernel event of a run.
#[derive(Clone, Copy, Debug)]
pub struct KernelEvent<'a> {
    /// Session clock.
    pub time: i64,
    /// The CPU whose stream it belongs to.
    pub cpu: u16,
    /// The process in the header, if that has one.
    pub process_id: u32,
    /// The thread in the header, if that has one.
    pub thread_id: u32,
    /// The header.
    pub class: &'a Classic,
    /// The fields.
    pub payload: &'a [u8],
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// Begins a run of kernel events. `None`: the session does not store all events of the provider unchanged.
    #[inline]
    pub fn begin_kernel_run(&mut self, provider: &Guid) -> Option<KernelRun<'_, B>> {
        self.enabled.entry(provider).filter(|entry| entry.is_plain)?;
        Some(KernelRun {
            open: &mut self.open,
            per_processor: self.settings.per_processor,
            count: 0,
            ledger: &mut self.ledger,
            facts: &mut self.facts,
        })
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> KernelRun<'_, B> {
    /// Puts an event into the buffer of its CPU. Returns whether it did: a CPU may have no open buffer, or no room in it, and events
    /// of other classes go another way. Otherwise nothing is done.
    #[inline(always)]
    pub fn put(&mut self, event: &KernelEvent<'_>) -> bool {
        let index = if self.per_processor { usize::from(event.cpu) } else { 0 };
        // A buffer exists only while the session runs.
        let Some(Some(buffer)) = self.open.get_mut(index) else { return false };
        let (class, ids) = match &event.class.header {
            ClassicHeader::PerfInfo(class) => (class, None),
            ClassicHeader::System(class) => {
                (class, Some(KernelIds { thread: event.thread_id, process: event.process_id }))
            }
            _ => return false,
        };
        let size = event.class.size() + event.payload.len();
        if size > MAX_EVENT_SIZE {
            return false;
        }
        let Some(room) = buffer.room(size) else { return false };
        encode_kernel(class, ids, event.time, event.payload, room);
        self.count += 1;
        self.facts.stored(buffer, size, event.time);
        true
    }

    /// Ends the run: its events are stored and counted.
    #[inline]
    pub fn finish(self) {
        self.ledger.attempted += self.count;
        self.ledger.stored += self.count;
    }
}
