//! Events of the system as a source of the engine.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use etw_host::engine::{CpuState, EventSource, SourceLoss, SystemRun};
use etw_host::report::{self, SystemOrigin};
use etw_session::{Event, KernelEvent, SystemConfig};
use etw_system::flags::Masks;
use etw_system::perf::Tracepoint;
use etw_system::record::{ProviderEvent, RecordKind, SystemRecord};
use etw_system::{
    KnownProcesses, LeftRing, OpenRing, Options, Recorder, RingFacts, StartError, Stored,
};
use etw_types::{
    BufferHeader, Channel, EventDescriptor, Level, SYSTEM_EVENTS, SYSTEM_TRACE, Status,
    UNIVERSAL_SYSTEM,
};

use crate::haste::{Haste, own_thread};
use crate::keeper_protocol::{Entry, KeeperLink, ring_name};
use crate::kept_state::{KeptRing, RingSet};
use crate::shared_rings::SharedRings;

/// The recording of one session.
pub(crate) struct SystemSource {
    recorder: Recorder,
    events: ProviderEvents,
    /// While it records.
    haste: Option<Haste>,
    /// The rings that the keeper has: [`Recorder::ring_changes`] at that time.
    kept: Option<u64>,
    keeper: Option<RingKeeper>,
    /// The state that it follows is the one that was kept.
    has_kept_states: bool,
}

/// The extended items that all events of a kind have, for those that no kernel class has.
#[derive(Debug)]
struct ProviderEvents {
    module: Vec<u8>,
    exec: Vec<u8>,
    resumed: Vec<u8>,
    waiting: Vec<u8>,
}

impl ProviderEvents {
    fn new() -> ProviderEvents {
        ProviderEvents {
            module: report::module_chain(),
            exec: report::exec_chain(),
            resumed: report::resumed_chain(),
            waiting: report::waiting_chain(),
        }
    }

    /// The event without its time, place and fields.
    fn of(&self, event: ProviderEvent) -> Event<'_> {
        let level = Level::INFO;
        let chain = match event {
            ProviderEvent::Universal(id) => {
                let descriptor = EventDescriptor { id, level, ..EventDescriptor::default() };
                return Event { provider: UNIVERSAL_SYSTEM, descriptor, ..Event::default() };
            }
            ProviderEvent::Module => &self.module,
            ProviderEvent::Exec => &self.exec,
            ProviderEvent::Resumed => &self.resumed,
            ProviderEvent::Waiting => &self.waiting,
        };
        let channel = Channel::TRACE_LOGGING;
        let descriptor = EventDescriptor { level, channel, ..EventDescriptor::default() };
        Event { provider: SYSTEM_EVENTS, descriptor, chain, ..Event::default() }
    }
}

/// Keeps the rings of a session for the next worker.
pub(crate) struct RingKeeper {
    pub keeper: Arc<KeeperLink>,
    pub slot: usize,
    /// The number of the ring set.
    pub set: u64,
    pub rings: Arc<SharedRings>,
}

impl RingKeeper {
    fn keep(&self, rings: &[OpenRing<'_, KeptRing>]) {
        let name = |number| ring_name(self.slot, self.set, number);
        for (number, ring) in rings.iter().enumerate() {
            self.keeper.put(&name(number), &ring.facts, &ring.events);
        }
        (rings.len()..self.rings.set_count(rings.len()))
            .for_each(|number| self.keeper.remove(&name(number)));
    }
}

/// `buffer_size`: bytes of the session's buffers.
fn options(config: &SystemConfig, buffer_size: u32) -> Options {
    Options {
        masks: Masks(config.masks),
        stacks: config.stacks.clone(),
        sample_interval: config.sample_interval.max(1),
        adds_lives: config.adds_lives,
        largest_event: buffer_size.saturating_sub(BufferHeader::SIZE as u32),
    }
}

impl SystemSource {
    fn of(recorder: Recorder) -> SystemSource {
        let events = ProviderEvents::new();
        SystemSource {
            recorder,
            events,
            haste: None,
            kept: None,
            keeper: None,
            has_kept_states: false,
        }
    }

    /// Opens the events that a session enables. Recording starts with `begin`.
    pub fn open(config: &SystemConfig, buffer_size: u32) -> Result<SystemSource, StartError> {
        let recorder = Recorder::open(options(config, buffer_size), config.process)?;
        Ok(SystemSource::of(recorder))
    }

    /// Opens the events again after a worker was killed and its rings are lost: the trace reports that events are missing.
    pub fn open_again(config: &SystemConfig, buffer_size: u32) -> Result<SystemSource, StartError> {
        let recorder =
            Recorder::open(options(config, buffer_size), config.process)?.behind_others();
        Ok(SystemSource::of(recorder))
    }

    /// Continues the recording of a worker that was killed, from its rings.
    pub fn resume(
        config: &SystemConfig,
        buffer_size: u32,
        left: Vec<Entry>,
        stored: Stored,
        ring_set: &RingSet,
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
        let options = options(config, buffer_size);
        let recorder = Recorder::resume(options, config.process, rings, stored, ring_set.since);
        let mut recorder = recorder.map_err(io::Error::other)?;
        let kept_states = ring_set.follows.as_ref();
        if let Some(states) = kept_states {
            recorder.follow(states.iter().copied());
        }
        // The keeper has them.
        let kept = Some(recorder.ring_changes());
        let mut source = SystemSource::of(recorder);
        (source.kept, source.has_kept_states) = (kept, kept_states.is_some());
        Ok(source)
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
        self.haste = Some(Haste::of_engine());
        self.recorder.begin()
    }

    /// Begins to record in the place of another source. Returns [the moment](Recorder::begin_in_place) from which its events are the session's.
    pub fn begin_in_place(&mut self) -> io::Result<i64> {
        self.haste = Some(Haste::of_engine());
        self.recorder.begin_in_place()
    }
}

impl Drop for SystemSource {
    fn drop(&mut self) {
        // It did not finish, for example because it could not begin.
        if let Some(keeper) = self.keeper.take() {
            keeper.rings.finish(self.recorder.take_rings());
        }
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
        if self.haste.as_ref().is_some_and(|haste| haste.thread() != own_thread()) {
            // Another thread began the recording: the one that took over from a killed worker.
            self.haste = Some(Haste::of_engine());
        }
        let watermark = self.recorder.poll();
        self.keep_changed_rings();
        watermark
    }

    fn peek(&self) -> Option<Event<'_>> {
        let SystemRecord { time, cpu, process, thread, kind, payload } = self.recorder.peek()?;
        let kind = match kind {
            RecordKind::Kernel(class) => {
                Event { provider: SYSTEM_TRACE, classic: Some(class), ..Event::default() }
            }
            RecordKind::Provider(event) => self.events.of(*event),
        };
        Some(Event { time, cpu, process_id: process, thread_id: thread, payload, ..kind })
    }

    fn pop(&mut self) {
        self.recorder.pop();
    }

    fn give(&mut self, until: i64, run: &mut SystemRun<'_>) {
        self.recorder.give(until, |record| {
            // Others come one by one.
            let Some(class) = record.class() else { return false };
            run.put(&KernelEvent {
                time: record.time,
                cpu: record.cpu,
                process_id: record.process,
                thread_id: record.thread,
                class,
                payload: record.payload,
            })
        });
    }

    fn longest_pause(&self) -> Duration {
        self.recorder.longest_pause()
    }

    fn take_losses(&mut self) -> Vec<SourceLoss> {
        let losses = self.recorder.take_losses();
        losses.iter().map(|(provider, count)| SourceLoss { provider, count }).collect()
    }

    fn finish(&mut self) {
        self.finish_before(i64::MAX);
    }

    fn finish_before(&mut self, moment: i64) -> Vec<CpuState> {
        let rings = self.recorder.finish_before(moment);
        self.haste = None;
        // It has no rings any more. Those that the keeper has may be of the recording that took its place.
        if let Some(keeper) = self.keeper.take() {
            keeper.rings.finish(rings);
        }
        let states = self.recorder.cpu_states();
        states.map(|(cpu, thread)| CpuState { cpu, thread }).collect()
    }

    fn take_known(&mut self) -> Box<dyn Any> {
        Box::new(self.recorder.take_known())
    }

    fn follow(&mut self, states: &[CpuState], known: Box<dyn Any>) {
        if let Ok(known) = known.downcast::<KnownProcesses>() {
            self.recorder.take_over(*known);
        }
        if !self.has_kept_states {
            self.recorder.follow(states.iter().map(|one| (one.cpu, one.thread)));
        }
    }

    fn notes(&self) -> Vec<String> {
        self.recorder.notes()
    }

    fn mechanism(&self) -> Option<String> {
        Some(self.recorder.mechanism())
    }

    fn has_kernel(&self) -> bool {
        self.recorder.has_kernel()
    }

    fn origin(&self) -> SystemOrigin {
        let (pid_namespace, boot_id) = (etw_system::pid_namespace(), etw_system::boot_id());
        SystemOrigin { pid_namespace, boot_id }
    }

    fn rundown_size(&self) -> u64 {
        self.recorder.rundown_size() as u64
    }
}
