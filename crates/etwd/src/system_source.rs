//! Events of the system as a source of the engine.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use etw_host::engine::{EventSource, SourceLoss};
use etw_session::{Event, SystemConfig};
use etw_system::flags::Masks;
use etw_system::perf::Tracepoint;
use etw_system::{LeftRing, OpenRing, Options, Recorder, RingFacts, StartError};
use etw_types::{BufferHeader, SYSTEM_TRACE, Status};

use crate::keeper_protocol::{Entry, KeeperLink, RING};
use crate::kept_state::KeptRing;

/// The recording of one session.
pub(crate) struct SystemSource {
    recorder: Recorder,
    /// While it records.
    haste: Option<Haste>,
    /// The rings that the keeper has: [`Recorder::ring_changes`] at that time.
    kept: Option<u64>,
    keeper: Option<RingKeeper>,
}

/// Keeps the rings of a session for the next worker.
pub(crate) struct RingKeeper {
    pub keeper: Arc<KeeperLink>,
    pub slot: usize,
    /// The number of entries that the keeper has.
    pub count: Arc<AtomicUsize>,
}

impl RingKeeper {
    fn keep(&self, rings: &[OpenRing<'_, KeptRing>]) {
        let name = |number: usize| format!("{RING}/{}/{number}", self.slot);
        for (number, ring) in rings.iter().enumerate() {
            self.keeper.put(&name(number), &ring.facts, &ring.events);
        }
        let before = self.count.swap(rings.len(), Ordering::Relaxed);
        (rings.len()..before).for_each(|number| self.keeper.remove(&name(number)));
    }
}

/// While there is one, the thread that made it runs before most others: on a busy machine, the kernel's rings would be full before an
/// ordinary thread has its turn. Without the right to it, the thread remains an ordinary one.
struct Haste;

/// Recordings of this process.
static HASTES: AtomicUsize = AtomicUsize::new(0);

impl Haste {
    const NICENESS: libc::c_int = -10;

    fn new() -> Haste {
        if HASTES.fetch_add(1, Ordering::Relaxed) == 0 {
            Haste::set(Haste::NICENESS);
        }
        Haste
    }

    fn set(niceness: libc::c_int) {
        // SAFETY: it takes numbers; 0 is this thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
    }
}

impl Drop for Haste {
    fn drop(&mut self) {
        if HASTES.fetch_sub(1, Ordering::Relaxed) == 1 {
            Haste::set(0);
        }
    }
}

/// `buffer_size`: bytes of the session's buffers.
fn options(config: &SystemConfig, buffer_size: u32) -> Options {
    Options {
        masks: Masks(config.masks),
        stacks: config.stacks.clone(),
        sample_interval: config.sample_interval.max(1),
        largest_event: buffer_size.saturating_sub(BufferHeader::SIZE as u32),
    }
}

impl SystemSource {
    /// Opens the events that a session enables. Recording starts with `begin`.
    pub fn open(config: &SystemConfig, buffer_size: u32) -> Result<SystemSource, StartError> {
        let recorder = Recorder::open(options(config, buffer_size), config.process)?;
        Ok(SystemSource { recorder, haste: None, kept: None, keeper: None })
    }

    /// Opens the events again after a worker was killed and its rings are lost: the trace reports that events are missing.
    pub fn open_again(config: &SystemConfig, buffer_size: u32) -> Result<SystemSource, StartError> {
        let recorder =
            Recorder::open(options(config, buffer_size), config.process)?.behind_others();
        Ok(SystemSource { recorder, haste: None, kept: None, keeper: None })
    }

    /// Continues the recording of a worker that was killed, from its rings. Its records up to a time are stored.
    pub fn resume(
        config: &SystemConfig,
        buffer_size: u32,
        left: Vec<Entry>,
        stored_until: i64,
    ) -> io::Result<SystemSource> {
        let mut rings = Vec::new();
        for entry in left {
            let KeptRing { size, is_side, is_machine, cpu, is_offline, programs, is_told } =
                serde_json::from_slice(&entry.facts)?;
            let points = programs.iter().map(|name| Tracepoint::named(name));
            let programs: Option<Vec<Tracepoint>> = points.collect();
            let programs = programs.ok_or(io::ErrorKind::InvalidData)?;
            let facts = RingFacts { size, is_side, cpu, is_offline, is_machine, programs, is_told };
            rings.push(LeftRing { facts, events: entry.descriptors });
        }
        let recorder =
            Recorder::resume(options(config, buffer_size), config.process, rings, stored_until);
        let recorder = recorder.map_err(io::Error::other)?;
        // The keeper has them.
        let kept = Some(recorder.ring_changes());
        Ok(SystemSource { recorder, haste: None, kept, keeper: None })
    }

    /// Keeps the rings for the next worker, from now on also those of CPUs that come.
    pub fn keep_rings(&mut self, keeper: RingKeeper) {
        self.keeper = Some(keeper);
        self.keep_changed_rings();
    }

    fn keep_changed_rings(&mut self) {
        let changes = Some(self.recorder.ring_changes());
        let Some(keeper) = self.keeper.as_ref().filter(|_| self.kept != changes) else { return };
        let rings = self.recorder.rings().into_iter();
        let kept = rings.map(|OpenRing { facts, events }| {
            let RingFacts { size, is_side, cpu, is_offline, is_machine, programs, is_told } = facts;
            let programs = programs.iter().map(|point| point.name().to_owned()).collect();
            let facts = KeptRing { size, is_side, is_machine, cpu, is_offline, programs, is_told };
            OpenRing { facts, events }
        });
        keeper.keep(&kept.collect::<Vec<_>>());
        self.kept = changes;
    }

    /// Begins to record.
    pub fn begin(&mut self) -> std::io::Result<()> {
        self.haste = Some(Haste::new());
        self.recorder.begin()
    }

    /// Notes on classes that were left out.
    pub fn notes(&self) -> &[String] {
        self.recorder.notes()
    }
}

/// The status of a session that cannot record the system.
pub(crate) fn status_of(error: &StartError) -> Status {
    match error {
        StartError::Rings(_) => Status::ERROR_NO_SYSTEM_RESOURCES,
        _ => Status::ERROR_ACCESS_DENIED,
    }
}

impl EventSource for SystemSource {
    fn poll(&mut self) -> u64 {
        let watermark = self.recorder.poll();
        self.keep_changed_rings();
        watermark
    }

    fn peek(&self) -> Option<Event<'_>> {
        let record = self.recorder.peek()?;
        Some(Event {
            time: record.time,
            cpu: record.cpu,
            process_id: record.process,
            thread_id: record.thread,
            provider: SYSTEM_TRACE,
            payload: record.payload,
            classic: Some(record.class),
            ..Event::default()
        })
    }

    fn pop(&mut self) {
        self.recorder.pop();
    }

    fn take_losses(&mut self) -> Vec<SourceLoss> {
        let losses = self.recorder.take_losses();
        losses.iter().map(|(provider, count)| SourceLoss { provider, count }).collect()
    }

    fn finish(&mut self) {
        self.recorder.finish();
        self.haste = None;
    }

    fn mechanism(&self) -> Option<String> {
        Some(self.recorder.mechanism())
    }
}
