//! A session's buffers, counts and state: `push` puts events into buffers, `hand_over` takes full buffers out.

mod enabled;
mod files;
mod gaps;
mod hand_over;
mod kernel_run;
mod push;
mod run;

pub use hand_over::HandOverPosition;
pub use kernel_run::{KernelEvent, KernelRun};
pub use run::{RunStage, ShapedRun};

use std::collections::VecDeque;

use etw_types::{BufferHeader, Guid};

use crate::buffer::{Buffer, HEADER_SIZE, Place};
use crate::config::SessionConfig;
use crate::enable::{EnableInfo, EnableProperties};
use crate::event::{Event, MAX_EVENT_SIZE};
use crate::file_contents::FileContents;
use crate::host_facts::{HostFacts, SessionError};
use crate::ledger::Ledger;
use crate::log_mode::LogPolicy;
use enabled::Enabled;
pub(crate) use gaps::Gap;

/// A session: events go into the buffer of their CPU, and the host takes full buffers.
#[derive(Debug)]
pub struct Session<B> {
    settings: Settings,
    enabled: Enabled,
    free: Vec<B>,
    /// The open buffers, by CPU.
    open: Vec<Option<Buffer<B>>>,
    /// Full buffers, in the order in which they were closed.
    full: VecDeque<Buffer<B>>,
    /// Buffers that were handed out and not returned yet.
    out: usize,
    /// Buffers begun.
    begun: u64,
    /// No more events come, but reports on the session itself.
    is_reporting: bool,
    next_sequence: i64,
    next_place: Place,
    contents: FileContents,
    state: State,
    /// An event was lost because a file had its maximum size.
    is_file_full: bool,
    ledger: Ledger,
    facts: Facts,
    batch: u64,
    /// Gaps that have no mark yet, by CPU.
    gaps: Vec<Option<Gap>>,
    /// The buffers that were lost in files and that no stored one has followed, by CPU: until then, the file may lack their marks.
    lost_buffers: Vec<Option<Gap>>,
    /// The end of the session, from its rundown on, once it has begun.
    end: Option<End>,
    /// Events were lost since the last buffer was started.
    lost_since: bool,
    /// A buffer was lost since the last one was handed out.
    buffer_lost_since: bool,
    /// The memory that gets the session's state at every seal.
    state_memory: Option<B>,
    /// In a session in memory: the time of the last event that was overwritten, until earlier ones are, too.
    overwritten_until: Option<i64>,
    /// The time of the latest event that was overwritten with its buffer.
    last_overwritten: Option<i64>,
    /// The provider of the session's reports on itself.
    reports: Guid,
    /// The last sequence number of a message.
    messages: u32,
    /// Buffers that live readers have lost.
    unread_buffers: u64,
    /// True if no consumer has taken a buffer for some time.
    is_unread: bool,
}

/// The part of a session's configuration that the state machine uses.
#[derive(Debug)]
struct Settings {
    policy: LogPolicy,
    /// Slots of a file, the header's among them.
    slots: Option<u64>,
    has_file: bool,
    buffer_size: u32,
    /// In ticks of the session clock.
    flush_timer: Option<i64>,
    per_processor: bool,
    independent: bool,
    /// Its streams have marks where events or buffers are missing: those of the system's events, whose readers follow one from another. The
    /// streams of other sessions have their programs' records alone, as on Windows: the next buffer's header says that something is missing.
    marks_gaps: bool,
    host: HostFacts,
}

/// The end of a session: the rundown, then its reports.
#[derive(Clone, Copy, Debug)]
struct End {
    since: i64,
    /// The first buffer with something of it, once that is full.
    first_sequence: Option<i64>,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The session takes events.
    Running,
    /// The file has its maximum size; later events are lost.
    FileFull,
    /// The session has ended and takes no events.
    Stopped,
}

/// Counts and times for the finalised logfile header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Buffers handed out, in all files, without headers.
    pub buffers: u64,
    /// Buffers that could not be stored.
    pub buffers_lost: u64,
    /// Time of the last event stored.
    pub last_time: i64,
    /// Bytes of records stored.
    pub bytes: u64,
    /// Events with a time before their predecessor's: the host's order was broken, or a writer set its own time.
    pub out_of_order: u64,
    /// Events stored without a requested call stack, because it did not fit or the program captures none.
    pub without_stack: u64,
}

impl Facts {
    /// A record of `size` bytes has been put into `buffer`.
    #[inline]
    fn stored<B: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        buffer: &mut Buffer<B>,
        size: usize,
        time: i64,
    ) {
        if time < buffer.last_time {
            self.out_of_order += u64::from(buffer.events > 0);
        }
        buffer.added(size, time);
        self.last_time = self.last_time.max(time);
        self.bytes += size as u64;
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// A session with this memory: at least two buffers, each of the session's buffer size.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn new(
        config: &SessionConfig,
        host: HostFacts,
        buffers: Vec<B>,
    ) -> Result<Session<B>, SessionError> {
        config.validate_sizes()?;
        let size = config.buffer_size as usize;
        if buffers.len() < 2 || buffers.iter().any(|memory| memory.as_ref().len() != size) {
            return Err(SessionError::Buffers { count: buffers.len(), size: config.buffer_size });
        }
        let policy = config.buffer_policy();
        let (slot, sequence) =
            host.append_to.map_or((1, 1), |end| (end.slots.max(1), end.last_sequence + 1));
        let mut session = Session {
            settings: Settings {
                policy,
                slots: policy.slots(config.buffer_size),
                has_file: config.file.is_some(),
                buffer_size: config.buffer_size,
                flush_timer: config.effective_flush_timer().map(|timer| host.ticks(timer)),
                per_processor: config.per_processor,
                independent: config.independent,
                marks_gaps: config.system.is_some(),
                host,
            },
            enabled: Enabled::default(),
            free: Vec::with_capacity(buffers.len()),
            open: Vec::new(),
            full: VecDeque::new(),
            out: 0,
            begun: 0,
            next_sequence: sequence,
            next_place: Place { file: 1, slot },
            contents: FileContents::default(),
            state: State::Running,
            is_file_full: false,
            ledger: Ledger::default(),
            facts: Facts::default(),
            batch: 0,
            gaps: Vec::new(),
            lost_buffers: Vec::new(),
            end: None,
            lost_since: false,
            buffer_lost_since: false,
            state_memory: None,
            overwritten_until: None,
            last_overwritten: None,
            reports: Guid::ZERO,
            messages: 0,
            unread_buffers: 0,
            is_unread: false,
            is_reporting: false,
        };
        for memory in buffers.into_iter().rev() {
            session.release(memory);
        }
        Ok(session)
    }

    fn release(&mut self, mut memory: B) {
        BufferHeader::STATE.put(memory.as_mut(), BufferHeader::STATE_FREE);
        self.free.push(memory);
    }

    pub(crate) fn open_buffers_mut(&mut self) -> impl Iterator<Item = &mut Buffer<B>> {
        self.open.iter_mut().flatten()
    }

    pub(crate) fn contents(&self) -> &FileContents {
        &self.contents
    }

    pub(crate) fn contents_mut(&mut self) -> &mut FileContents {
        &mut self.contents
    }

    /// Sets the provider of the session's reports on itself.
    pub(crate) fn set_reports(&mut self, provider: &Guid) {
        self.reports = *provider;
    }

    /// Events in buffers that have not been handed out.
    pub(crate) fn events_in_memory(&self) -> u64 {
        let waiting = self.open.iter().flatten().chain(&self.full);
        waiting.map(|buffer| buffer.events - buffer.reports).sum()
    }

    /// The policy of the session's log mode.
    pub fn policy(&self) -> &LogPolicy {
        &self.settings.policy
    }

    /// Bytes of a buffer.
    pub fn buffer_size(&self) -> u32 {
        self.settings.buffer_size
    }

    /// Whether the session neither blocks other sessions nor is blocked by them.
    pub fn is_independent(&self) -> bool {
        self.settings.independent || self.is_unread
    }

    /// Sets whether the session has no reader. If such a session has no free buffer, other sessions store the event nevertheless.
    pub fn set_unread(&mut self, is_unread: bool) {
        self.is_unread = is_unread;
    }

    /// Whether the session has no reader.
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Whether partly filled buffers are stored after a time.
    pub fn has_flush_timer(&self) -> bool {
        self.settings.flush_timer.is_some()
    }

    /// Whether the session's first buffers lie in the same file as its last ones.
    pub fn keeps_first_buffers(&self) -> bool {
        self.settings.policy.keeps_first_buffers && self.settings.has_file
    }

    pub(crate) fn has_file(&self) -> bool {
        self.settings.has_file
    }

    /// The session's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether an event was lost because a file had its maximum size.
    pub fn is_file_full(&self) -> bool {
        self.is_file_full
    }

    /// The messages of classic providers that it numbers from now on have numbers above this one.
    pub fn number_messages_after(&mut self, last: u32) {
        self.messages = last;
    }

    /// The session's ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The ledger for a caller that counts losses from elsewhere, and their attempts.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// For the logfile header.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The time of the last event of each CPU that has an open buffer with events. Without buffers of their own, CPUs have none.
    pub fn last_times(&self) -> impl Iterator<Item = (u16, i64)> + '_ {
        let open = self.open.iter().filter(|_| self.settings.per_processor).flatten();
        open.filter(|buffer| buffer.events > 0).map(|buffer| (buffer.cpu, buffer.last_time))
    }

    /// Largest event that fits a buffer, on disk.
    pub fn largest_event(&self) -> usize {
        (self.settings.buffer_size as usize - HEADER_SIZE).min(MAX_EVENT_SIZE)
    }

    /// Enables a provider or provider group, or changes its enablement.
    pub fn enable(&mut self, provider: Guid, info: EnableInfo) {
        self.enabled.insert(provider, info);
    }

    /// Disables a provider or provider group. Returns its enablement.
    pub fn disable(&mut self, provider: &Guid) -> Option<EnableInfo> {
        self.enabled.remove(provider)
    }

    /// The enablement of a provider.
    pub fn enabled(&self, provider: &Guid) -> Option<&EnableInfo> {
        self.enabled.get(provider)
    }

    /// The enablement of an event's provider, or else of its group.
    #[inline]
    pub(crate) fn enabled_for(&self, event: &Event<'_>) -> Option<&EnableInfo> {
        match self.enabled.get(&event.provider) {
            None if event.group != Guid::ZERO => self.enabled.get(&event.group),
            info => info,
        }
    }

    /// Whether an enablement asks for call stacks.
    pub fn wants_stacks(&self) -> bool {
        self.enablements().any(|(_, info)| info.properties.contains(EnableProperties::STACK_TRACE))
    }

    /// All enablements.
    pub fn enablements(&self) -> impl Iterator<Item = (&Guid, &EnableInfo)> {
        self.enabled.all.iter().map(|entry| (&entry.id, &entry.info))
    }
}
