//! Events of the system as a source of the engine.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use etw_host::engine::{EventSource, SourceLoss};
use etw_session::{Event, SystemConfig};
use etw_system::flags::Masks;
use etw_system::perf::Tracepoint;
use etw_system::{LeftRing, OpenRing, Options, Recorder, RingFacts, StartError};
use etw_types::{BufferHeader, SYSTEM_TRACE, Status};

use crate::keeper_protocol::Entry;
use crate::kept_state::KeptRing;

/// The recording of one session.
pub(crate) struct SystemSource {
    recorder: Recorder,
    /// While it records.
    haste: Option<Haste>,
    /// The recording continues with the rings of an earlier worker.
    is_resumed: bool,
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
        Ok(SystemSource { recorder, haste: None, is_resumed: false })
    }

    /// Opens the events again after a worker was killed and its rings are lost: the trace reports that events are missing.
    pub fn open_again(config: &SystemConfig, buffer_size: u32) -> Result<SystemSource, StartError> {
        let recorder =
            Recorder::open(options(config, buffer_size), config.process)?.behind_others();
        Ok(SystemSource { recorder, haste: None, is_resumed: false })
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
            let KeptRing { size, is_side, is_machine, programs, is_told } =
                serde_json::from_slice(&entry.facts)?;
            let points = programs.iter().map(|name| Tracepoint::named(name));
            let programs: Option<Vec<Tracepoint>> = points.collect();
            let programs = programs.ok_or(io::ErrorKind::InvalidData)?;
            let facts = RingFacts { size, is_side, is_machine, programs, is_told };
            rings.push(LeftRing { facts, events: entry.descriptors });
        }
        let recorder =
            Recorder::resume(options(config, buffer_size), config.process, rings, stored_until);
        let recorder = recorder.map_err(io::Error::other)?;
        Ok(SystemSource { recorder, haste: None, is_resumed: true })
    }

    /// The rings, as the keeper needs them; none if it has them.
    pub fn rings(&self) -> Vec<OpenRing<'_, KeptRing>> {
        if self.is_resumed {
            return Vec::new();
        }
        let rings = self.recorder.rings().into_iter();
        let kept = rings.map(|OpenRing { facts, events }| {
            let RingFacts { size, is_side, is_machine, programs, is_told } = facts;
            let programs = programs.iter().map(|point| point.name().to_owned()).collect();
            OpenRing { facts: KeptRing { size, is_side, is_machine, programs, is_told }, events }
        });
        kept.collect()
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
        self.recorder.poll()
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
