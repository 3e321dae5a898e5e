//! Sources beside the pools: each gives one session events of the system, in order of time up to a watermark of its own.

use std::any::Any;
use std::ops::ControlFlow;
use std::time::Duration;

use etw_session::{Cause, EnableInfo, Event, KernelRun, Loss, Router};
use etw_types::{Guid, SYSTEM_EVENTS, SYSTEM_TRACE, UNIVERSAL_SYSTEM};

use super::Engine;
use super::session::{BufferedSession, Sink};
use crate::clock::ClockMap;
use crate::report::{SystemOrigin, SystemSource};
use crate::storage::BufferMemory;

/// A source's watermark and the pools' clock map may differ by so many nanoseconds.
const CLOCK_ERROR: u64 = 20_000;

/// The providers of events that sources give.
const OF_SOURCES: [Guid; 3] = [SYSTEM_TRACE, SYSTEM_EVENTS, UNIVERSAL_SYSTEM];

/// The longest pause between two looks at a source that does not say how long it may be left alone, or that a live reader watches.
pub(super) const SOURCE_PAUSE: Duration = Duration::from_millis(10);

/// A run of kernel events into a session.
pub type SystemRun<'s> = KernelRun<'s, BufferMemory>;

/// Gives a session events that no program wrote.
pub trait EventSource: Send {
    /// Reads what has come. Returns its watermark in nanoseconds of `CLOCK_MONOTONIC`: no later event is earlier.
    fn poll(&mut self) -> u64;

    /// The next event before the watermark.
    fn peek(&self) -> Option<Event<'_>>;

    /// Removes the event that [`peek`](EventSource::peek) returned.
    fn pop(&mut self);

    /// Gives a run the next kernel events up to a time, and removes those that it takes, until it takes one not. The others come by
    /// [`peek`](EventSource::peek).
    fn give(&mut self, until: i64, run: &mut SystemRun<'_>) {
        let _ = (until, run);
    }

    /// The longest pause until the next [`poll`](EventSource::poll).
    fn longest_pause(&self) -> Duration {
        SOURCE_PAUSE
    }

    /// Events that were lost since the last call, before they reached the source, by class.
    fn take_losses(&mut self) -> Vec<SourceLoss>;

    /// Ends the recording: the rest of the events can be taken, and the watermark is `u64::MAX`.
    fn finish(&mut self);

    /// Ends the recording like [`finish`](EventSource::finish), at a moment that has passed, in the time of its events: another source that
    /// records already gives the later events. Returns the threads that the CPUs run then, for
    /// that source.
    fn finish_before(&mut self, moment: i64) -> Vec<CpuState> {
        let _ = moment;
        self.finish();
        Vec::new()
    }

    /// Facts that this source knew at its end, for one of its kind that takes its place.
    fn take_known(&mut self) -> Box<dyn Any> {
        Box::new(())
    }

    /// The events follow those of a source that ended with this state: what is missing between them is a loss. `known`: its
    /// [facts](EventSource::take_known).
    fn follow(&mut self, states: &[CpuState], known: Box<dyn Any>) {
        let _ = (states, known);
    }

    /// Sentences that say what the recording leaves out.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// How the events are recorded, for the trace.
    fn mechanism(&self) -> Option<String> {
        None
    }

    /// Whether it records what happens in the kernel.
    fn has_kernel(&self) -> bool {
        true
    }

    /// The system that its events are about.
    fn origin(&self) -> SystemOrigin {
        SystemOrigin::default()
    }

    /// Bytes of the events with which it begins, and with which it is about to end: what exists at that time.
    fn rundown_size(&self) -> u64 {
        0
    }
}

/// The thread of a CPU at the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuState {
    /// The CPU.
    pub cpu: u16,
    /// The thread. `None`: switches before are in the trace, and the last one is not known.
    pub thread: Option<u32>,
}

/// Events of one class that were lost before they reached a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLoss {
    /// The class.
    pub provider: Guid,
    /// The number of events.
    pub count: u64,
}

/// A source and its session.
pub(super) struct SessionSource {
    session: usize,
    source: Box<dyn EventSource>,
    /// The source has ended: its events are the session's last ones.
    is_finished: bool,
    /// Its events wait, as they belong to the session's next file.
    held: Option<Held>,
}

/// The events of a source wait from a time on: no event of its session is later.
#[derive(Clone, Copy)]
struct Held {
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    at: u64,
    /// Programs write to the session, too. Pools are drained for all sessions together, so time stands still for all of them.
    is_for_all: bool,
}

impl SessionSource {
    fn peek(&self) -> Option<Event<'_>> {
        self.source.peek().filter(|_| self.held.is_none())
    }

    /// Reads what has come, also while its events wait: when they are given, none is earlier than what other sessions have. Returns the
    /// watermark for the pools and all other sources.
    fn poll(&mut self) -> u64 {
        let watermark = self.source.poll();
        let held = self.held.filter(|held| held.is_for_all);
        held.map_or(watermark, |held| watermark.min(held.at))
    }

    pub(super) fn longest_pause(&self) -> Duration {
        self.source.longest_pause()
    }
}

impl<S: Sink> Engine<S> {
    /// Adds a source of events to a session.
    pub fn attach_source(&mut self, session: usize, source: Box<dyn EventSource>) {
        if let Some(buffered) = self.router.session_mut(session) {
            for provider in OF_SOURCES {
                buffered.enable(provider, EnableInfo::default());
            }
            let hosted = self.sessions.get_mut(&session);
            if let (Some(hosted), Some(mechanism)) = (hosted, source.mechanism()) {
                let (has_kernel, origin) = (source.has_kernel(), source.origin());
                hosted.modules.add_source(SystemSource { mechanism, has_kernel, origin });
            }
            self.sources.push(SessionSource { session, source, is_finished: false, held: None });
        }
    }

    /// Ends the recording of a session's source. The next drain gives the session the rest of its events.
    pub fn finish_source(&mut self, session: usize) {
        if self.sources.iter().any(|one| one.session == session) {
            // In units of 100 ns, as all of its events.
            let since = self.session_time(session) - (CLOCK_ERROR / 100) as i64;
            if let Some(session) = self.router.session_mut(session) {
                session.begin_end(since);
            }
        }
        for one in self.sources.iter_mut().filter(|one| one.session == session) {
            one.source.finish();
            one.is_finished = true;
        }
    }

    /// Adds a source to a session whose events, from a moment on, are those of this source. The sources before end there, and stay until
    /// they have [given](Engine::remove_given_sources) the rest of their events. Returns the state that this source follows; `None`: there
    /// was no source before.
    pub fn replace_source(
        &mut self,
        session: usize,
        moment: i64,
        mut source: Box<dyn EventSource>,
    ) -> Option<Vec<CpuState>> {
        let before = |one: &&mut SessionSource| one.session == session && !one.is_finished;
        let mut followed = None;
        for one in self.sources.iter_mut().filter(before) {
            let states = one.source.finish_before(moment);
            source.follow(&states, one.source.take_known());
            one.is_finished = true;
            followed = Some(states);
        }
        self.attach_source(session, source);
        followed
    }

    /// Holds back the events of a session's source, which begin at this moment, in the time of its events: they belong to another file, and those
    /// of the sources before to this one. Until they are [given on](Engine::release_source), time stands still for the session; and for all
    /// sessions, if programs write to this one.
    pub fn hold_source(&mut self, session: usize, moment: i64) {
        let at = u64::try_from(moment).unwrap_or(0).saturating_mul(100);
        let of_programs = self
            .router
            .session(session)
            .map(|one| one.enablements().any(|(provider, _)| !OF_SOURCES.contains(provider)));
        let held = Some(Held { at, is_for_all: of_programs.unwrap_or(false) });
        let is_its = |one: &&mut SessionSource| one.session == session && !one.is_finished;
        self.sources.iter_mut().filter(is_its).for_each(|one| one.held = held);
    }

    /// Gives a session the events that its source was held back with.
    pub fn release_source(&mut self, session: usize) {
        let is_its = |one: &&mut SessionSource| one.session == session;
        self.sources.iter_mut().filter(is_its).for_each(|one| one.held = None);
    }

    /// Bytes of the events with which the sources of a session begin, or end.
    pub fn rundown_size(&self, session: usize) -> u64 {
        let own = self.sources.iter().filter(|one| one.session == session);
        own.map(|one| one.source.rundown_size()).max().unwrap_or(0)
    }

    /// Removes the sources of a session that others have replaced, if they have given all of their events. Returns whether some have not.
    /// After a round, the given events are final.
    pub fn remove_given_sources(&mut self, session: usize) -> bool {
        let is_given = |one: &SessionSource| one.is_finished && one.peek().is_none();
        self.remove_sources(|one| one.session == session && is_given(one));
        self.sources.iter().any(|one| one.session == session && one.is_finished)
    }

    /// Removes the source of a session that ends.
    pub(super) fn detach_source(&mut self, session: usize) {
        self.remove_sources(|one| one.session == session);
    }

    /// Removes sources, whose sessions remember what they left out.
    fn remove_sources(&mut self, is_removed: impl Fn(&SessionSource) -> bool) {
        let sessions = &mut self.sessions;
        self.sources.retain(|one| {
            let is_removed = is_removed(one);
            if let Some(hosted) = sessions.get_mut(&one.session).filter(|_| is_removed) {
                add_new(&mut hosted.notes, one.source.notes());
            }
            !is_removed
        });
    }

    /// Sentences that say what the recording of the system's events leaves out in a session.
    pub fn notes(&self, session: usize) -> Vec<String> {
        let mut all = self.sessions.get(&session).map_or(Vec::new(), |one| one.notes.clone());
        for one in self.sources.iter().filter(|one| one.session == session) {
            add_new(&mut all, one.source.notes());
        }
        all
    }

    /// Whether a session records events of the system.
    pub(super) fn has_sources(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Reads all sources. Returns the raw time up to which pools may be drained.
    pub(super) fn poll_sources(&mut self) -> u64 {
        let watermark = self.sources.iter_mut().map(SessionSource::poll).min();
        match watermark {
            None | Some(u64::MAX) => u64::MAX,
            Some(ns) => self.map.raw_at(ns.saturating_sub(CLOCK_ERROR)),
        }
    }

    /// The time of the session's earliest event that waits in its source.
    pub(super) fn first_in_source(&self, session: usize) -> Option<i64> {
        let own = self.sources.iter().filter(|one| one.session == session);
        own.filter_map(|one| Some(one.peek()?.time)).min()
    }

    /// The time of the earliest event that waits in a source; `i64::MAX`: none waits.
    pub(super) fn first_in_sources(&self) -> i64 {
        let times = self.sources.iter().filter_map(|one| Some(one.peek()?.time));
        times.min().unwrap_or(i64::MAX)
    }

    /// Whether a source has an event up to `until`, which a session had no buffer for. One that has ended gives all of its events.
    pub(super) fn is_source_behind(&self, until: u64) -> bool {
        let until = self.map.qpc(until);
        let is_behind = |one: &SessionSource| {
            one.peek().is_some_and(|event| one.is_finished || event.time <= until)
        };
        self.sources.iter().any(is_behind)
    }

    /// The session ends: events that wait in its sources are stored as far as there are buffers. The others are counted as lost.
    pub(super) fn end_waiting_events(&mut self, session: usize) {
        for one in self.sources.iter_mut().filter(|one| one.session == session) {
            while let Some(event) = one.source.peek() {
                self.router.route(1 << session, &event);
                one.source.pop();
            }
        }
    }

    /// Counts what the sources lost in the ledgers of their sessions.
    pub(super) fn count_source_losses(&mut self) {
        for one in &mut self.sources {
            for loss in one.source.take_losses() {
                if let Some(session) = self.router.session_mut(one.session) {
                    count_lost(session, loss);
                }
            }
        }
    }
}

/// The watermark of a session, if `watermark` is that of the pools, in raw time: it is earlier while events of its source wait.
pub(super) fn watermark_of(
    sources: &[SessionSource],
    session: usize,
    map: &ClockMap,
    watermark: u64,
) -> u64 {
    let held = sources.iter().filter(|one| one.session == session).filter_map(|one| one.held);
    held.map(|held| map.raw_at(held.at.saturating_sub(CLOCK_ERROR))).fold(watermark, u64::min)
}

/// Adds sentences that are not among them.
fn add_new(all: &mut Vec<String>, notes: Vec<String>) {
    for note in notes {
        if !all.contains(&note) {
            all.push(note);
        }
    }
}

fn count_lost(session: &mut BufferedSession, SourceLoss { provider, count }: SourceLoss) {
    let ledger = session.ledger_mut();
    ledger.attempted += count;
    let provider = Some(provider);
    ledger.count_lost(Loss { cause: Cause::Kernel, provider, process_id: None, count });
}

/// How far the sources' events are routed.
#[derive(Clone, Copy)]
pub(super) struct Until {
    /// The last time.
    pub time: i64,
    /// All records of the pools before this time are routed: sources that have ended give the rest of their events.
    pub is_end: bool,
}

/// Routes the sources' events into their sessions, in one order of time. `Break`: a session that the drain waits for has no
/// free buffer.
pub(super) fn route_until(
    sources: &mut [SessionSource],
    router: &mut Router<BufferMemory>,
    patient: u64,
    until: Until,
) -> ControlFlow<()> {
    let is_alone = sources.len() == 1;
    loop {
        let at = match sources {
            [] => return ControlFlow::Continue(()),
            [_] => 0,
            _ => {
                let times = sources.iter().enumerate();
                let next = times.filter_map(|(at, one)| Some((one.peek()?.time, at))).min();
                let Some((_, at)) = next else { return ControlFlow::Continue(()) };
                at
            }
        };
        let SessionSource { session, source, is_finished, held } = &mut sources[at];
        let Some(event) = source.peek().filter(|_| held.is_none()) else {
            return ControlFlow::Continue(());
        };
        let last = if until.is_end && *is_finished { i64::MAX } else { until.time };
        if event.time > last {
            return ControlFlow::Continue(());
        }
        if router.route_or_wait(1 << *session, patient, &event).is_none() {
            return ControlFlow::Break(());
        }
        source.pop();
        let session = router.session_mut(*session).filter(|_| is_alone);
        if let Some(mut run) = session.and_then(|one| one.begin_kernel_run(&SYSTEM_TRACE)) {
            source.give(last, &mut run);
            run.finish();
        }
    }
}
