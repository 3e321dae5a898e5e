//! A session's buffers, counts and state.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etw_types::{BufferHeader, Guid};

use crate::buffer::{Buffer, FullBuffer, HEADER_SIZE, Place};
use crate::config::SessionConfig;
use crate::enable::{EnableInfo, EnableProperties};
use crate::event::{Event, ExtraItems, MAX_EVENT_SIZE, Shape, Shaped};
use crate::file_contents::{FileContents, FileSlot};
use crate::host_facts::{HostFacts, SessionError};
use crate::ledger::{Cause, Ledger, Loss};
use crate::log_mode::LogPolicy;
use crate::recover::Recovered;
use crate::state;

/// A session: events go into the buffer of their CPU, full buffers to whoever takes them.
#[derive(Debug)]
pub struct Session<B> {
    settings: Settings,
    enabled: Enabled,
    free: Vec<B>,
    /// By CPU.
    open: Vec<Option<Buffer<B>>>,
    /// In the order in which they were closed.
    full: VecDeque<Buffer<B>>,
    /// Handed out and not back yet.
    out: usize,
    /// Buffers begun.
    begun: u64,
    next_sequence: i64,
    next_place: Place,
    contents: FileContents,
    state: State,
    ledger: Ledger,
    facts: Facts,
    batch: u64,
    /// Events were lost since the last buffer was begun.
    lost_since: bool,
    /// A buffer was lost since the last one was handed out.
    buffer_lost_since: bool,
    /// The memory that gets the session's state at every seal.
    state_memory: Option<B>,
    /// The last sequence number of a message.
    messages: u32,
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
    host: HostFacts,
}

/// For keys that the controller chooses: no program can make them collide.
#[derive(Default)]
struct GuidHasher(u64);

impl Hasher for GuidHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// The enablements of a session by provider or group.
#[derive(Debug, Default)]
struct Enabled {
    all: Vec<Entry>,
    /// Places in `all`.
    by_id: HashMap<Guid, usize, BuildHasherDefault<GuidHasher>>,
    /// The place that was asked for last: the next event is nearly always of the same provider.
    last: Cell<usize>,
    /// Unlike that of any other session, and of this one before a change; 0 while nothing is wanted.
    version: u64,
}

/// The next version of what some session wants.
static VERSIONS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
struct Entry {
    id: Guid,
    info: EnableInfo,
    /// Level and keyword are all that is asked for, and events are stored as they come.
    is_plain: bool,
}

impl Entry {
    fn new(id: Guid, info: EnableInfo) -> Entry {
        let is_plain = info.filters.is_none() && info.properties == EnableProperties::default();
        Entry { id, info, is_plain }
    }
}

impl Enabled {
    fn insert(&mut self, id: Guid, info: EnableInfo) {
        self.version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        match self.by_id.get(&id) {
            Some(at) => self.all[*at] = Entry::new(id, info),
            None => {
                self.by_id.insert(id, self.all.len());
                self.all.push(Entry::new(id, info));
            }
        }
    }

    fn remove(&mut self, id: &Guid) -> Option<EnableInfo> {
        let at = self.by_id.remove(id)?;
        self.version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        let removed = self.all.swap_remove(at);
        if let Some(moved) = self.all.get(at) {
            self.by_id.insert(moved.id, at);
        }
        Some(removed.info)
    }

    #[inline]
    fn get(&self, id: &Guid) -> Option<&EnableInfo> {
        Some(&self.entry(id)?.info)
    }

    #[inline]
    fn entry(&self, id: &Guid) -> Option<&Entry> {
        match self.all.get(self.last.get()) {
            Some(last) if last.id == *id => Some(last),
            _ => self.find(id),
        }
    }

    /// Are all events of this shape wanted, and stored as they come?
    #[inline(never)]
    fn is_plain(&self, shape: &Shape) -> bool {
        let (level, keyword) = (shape.descriptor.level, shape.descriptor.keyword);
        self.entry(&shape.provider)
            .is_some_and(|entry| entry.is_plain && entry.info.wanted.matches(level, keyword))
    }

    #[inline(never)]
    fn find(&self, id: &Guid) -> Option<&Entry> {
        let at = *self.by_id.get(id)?;
        self.last.set(at);
        self.all.get(at)
    }
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Takes events.
    Running,
    /// The file has its maximum size; later events are lost.
    FileFull,
    /// Takes nothing any more.
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
        let policy = config.mode.policy();
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
            ledger: Ledger::default(),
            facts: Facts::default(),
            batch: 0,
            lost_since: false,
            buffer_lost_since: false,
            state_memory: None,
            messages: 0,
            is_unread: false,
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

    /// A session without a reader loses its events alone: other sessions do not lose them, too.
    pub fn set_unread(&mut self, is_unread: bool) {
        self.is_unread = is_unread;
    }

    /// Whether nobody reads the session.
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

    /// Does it want call stacks of anybody's events?
    pub fn wants_stacks(&self) -> bool {
        self.enablements().any(|(_, info)| info.properties.contains(EnableProperties::STACK_TRACE))
    }

    /// All that it wants.
    pub fn enablements(&self) -> impl Iterator<Item = (&Guid, &EnableInfo)> {
        self.enabled.all.iter().map(|entry| (&entry.id, &entry.info))
    }

    /// Would an event of `size` bytes on disk find room? May close the CPU's buffer and begin another.
    ///
    /// # Errors
    /// Why not. Nothing is counted.
    #[inline]
    pub fn has_room(&mut self, cpu: u16, size: usize) -> Result<(), Cause> {
        let index = if self.settings.per_processor { usize::from(cpu) } else { 0 };
        if let Some(Some(buffer)) = self.open.get(index)
            && buffer.has_room(size)
            // A large buffer has room for more than the u16 of a record's size can tell.
            && size <= MAX_EVENT_SIZE
        {
            // A buffer exists only while the session runs.
            return Ok(());
        }
        self.make_room(index, size)
    }

    #[inline(never)]
    fn make_room(&mut self, index: usize, size: usize) -> Result<(), Cause> {
        if size > MAX_EVENT_SIZE {
            return Err(Cause::TooLarge);
        }
        if HEADER_SIZE + size.next_multiple_of(8) > self.settings.buffer_size as usize {
            return Err(Cause::TooLargeForSession);
        }
        if self.state != State::Running {
            return Err(Cause::SessionFull);
        }
        if self.settings.policy.is_full(self.begun, self.settings.slots) {
            self.state = State::FileFull;
            return Err(Cause::SessionFull);
        }
        if self.open.len() <= index {
            self.open.resize_with(index + 1, || None);
        }
        // It leaves whether or not another can follow it: what waits for storage must reach the storage.
        self.close(index, i64::MIN);
        let Some(memory) = self.free.pop().or_else(|| self.reclaim()) else {
            return Err(Cause::SessionFull);
        };
        self.begun += 1;
        let mut buffer = Buffer::begin(memory, index as u16, self.settings.host.logger_id);
        if std::mem::take(&mut self.lost_since) {
            buffer.mark_events_lost();
        }
        self.open[index] = Some(buffer);
        Ok(())
    }

    /// Memory for a new buffer when none is free: from one that is empty or, in a memory session, the oldest. Elsewhere the buffers
    /// of other CPUs are sent to the storage if nothing is on its way there: it is where free buffers come from.
    fn reclaim(&mut self) -> Option<B> {
        let is_empty = |b: &Option<Buffer<B>>| b.as_ref().is_some_and(|b| b.events == 0);
        if let Some(empty) = self.open.iter().position(is_empty) {
            self.begun -= 1;
            return self.open[empty].take().map(|buffer| buffer.memory);
        }
        if !self.settings.policy.is_in_memory() {
            if !self.is_storing() {
                let time = |index: &usize| self.open[*index].as_ref().map(|b| b.first_time);
                let filled = (0..self.open.len()).filter(|index| self.open[*index].is_some());
                if let Some(oldest) = filled.min_by_key(time) {
                    self.close(oldest, i64::MIN);
                }
            }
            return None;
        }
        // A CPU that has fallen silent keeps the past of no other.
        let open = self.open.iter_mut().filter(|b| b.is_some());
        let oldest_open = open.min_by_key(|b| b.as_ref().map(|b| b.last_time));
        let oldest = match (self.full.front(), oldest_open) {
            (Some(full), Some(Some(open))) if full.last_time <= open.last_time => {
                self.full.pop_front()
            }
            (_, Some(open)) => open.take(),
            (_, None) => self.full.pop_front(),
        }?;
        let events = oldest.events - oldest.reports;
        self.ledger.overwrite(events);
        Some(oldest.memory)
    }

    /// Puts an event into its buffer. Filters are not asked.
    ///
    /// # Loss
    /// Counted under the returned cause.
    ///
    /// # Errors
    /// The cause of the loss.
    #[inline]
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), Cause> {
        let items = self.extra(event);
        let size = event.size(items.as_slice());
        match self.has_room(event.cpu, size) {
            Ok(()) => {
                self.put_counted(event, &items, size);
                Ok(())
            }
            Err(cause) => {
                self.refuse(event, cause);
                Err(cause)
            }
        }
    }

    /// Counts an event as attempted and lost.
    pub(crate) fn refuse(&mut self, event: &Event<'_>, cause: Cause) {
        self.lost_since = true;
        self.ledger.attempted += 1;
        self.ledger.count_lost(Loss {
            cause,
            provider: Some(event.provider),
            process_id: Some(event.process_id),
            count: 1,
        });
    }

    /// The items that this session wants on every event of the provider.
    fn extra<'e>(&self, event: &Event<'e>) -> ExtraItems<'e> {
        let mut items = ExtraItems::default();
        if let Some(info) = self.enabled_for(event) {
            items.find(info, event, self.largest_event());
        }
        items
    }

    /// Puts an event into its buffer and counts it, if nothing about it is unusual: of its provider nothing but level and keyword is
    /// asked, and its buffer has room. Otherwise nothing is done, and the long way is to be taken.
    #[inline(always)]
    pub(crate) fn put_shaped(&mut self, event: &Shaped<'_>) -> bool {
        let version = self.enabled.version;
        if event.shape.wanted.load(Ordering::Relaxed) != version {
            if !self.enabled.is_plain(event.shape) {
                return false;
            }
            event.shape.wanted.store(version, Ordering::Relaxed);
        }
        let size = event.size();
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        if let Some(Some(buffer)) = self.open.get_mut(index)
            && size <= MAX_EVENT_SIZE
            && let Some(room) = buffer.room(size)
        {
            // A buffer exists only while the session runs.
            let time = self.settings.host.clock.of(event.time, event.raw);
            event.encode(time, size, room);
            self.ledger.attempted += 1;
            self.ledger.stored += 1;
            self.facts.stored(buffer, size, time);
            return true;
        }
        false
    }

    fn put(&mut self, event: &Event<'_>, extra: &[&[u8]], size: usize) {
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        // `has_room` said so.
        let Some(Some(buffer)) = self.open.get_mut(index) else { return };
        let time = self.settings.host.clock.of(event.time, event.raw);
        let Some(room) = buffer.room(size) else { return };
        event.encode(time, extra, size, room);
        if let Some(classic) = event.classic
            && crate::classic::is_numbered(classic)
        {
            std::hint::cold_path();
            self.messages = self.messages.wrapping_add(1);
            room[crate::classic::SEQUENCE].copy_from_slice(&self.messages.to_le_bytes());
        }
        self.ledger.stored += 1;
        self.facts.stored(buffer, size, time);
    }

    pub(crate) fn put_counted(&mut self, event: &Event<'_>, extra: &ExtraItems<'_>, size: usize) {
        self.ledger.attempted += 1;
        self.facts.without_stack += u64::from(extra.lacks_stack);
        self.put(event, extra.as_slice(), size);
    }

    /// Puts an event that [`has_room`](Session::has_room) for, counting it.
    pub(crate) fn push_admitted(&mut self, event: &Event<'_>) {
        let items = self.extra(event);
        self.put_counted(event, &items, event.size(items.as_slice()));
    }

    /// Puts a report on the session itself into its stream: in no ledger.
    ///
    /// # Errors
    /// Why it found no room. Nothing is counted: one for which there is none yet may be given again.
    pub fn push_report(&mut self, event: &Event<'_>) -> Result<(), Cause> {
        let size = event.size(&[]);
        self.has_room(event.cpu, size)?;
        self.put(event, &[], size);
        self.ledger.stored -= 1;
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        if let Some(Some(buffer)) = self.open.get_mut(index) {
            buffer.reports += 1;
        }
        Ok(())
    }

    fn close(&mut self, index: usize, now: i64) {
        if let Some(mut buffer) = self.open[index].take() {
            buffer.close(self.next_sequence, now);
            self.next_sequence += 1;
            self.full.push_back(buffer);
        }
    }

    fn close_filled(&mut self, index: usize, now: i64) {
        if self.open[index].as_ref().is_some_and(|buffer| buffer.events > 0) {
            self.close(index, now);
        }
    }

    /// Writes the session's numbers to `memory`, of [`STATE_SIZE`](crate::state::STATE_SIZE) bytes, at every seal: what
    /// [`Saved::read`](crate::state::Saved::read) needs after a kill. And now, as what was true at `batch`, the last that was final.
    pub fn keep_state(&mut self, mut memory: B, batch: u64) {
        if memory.as_ref().len() >= state::STATE_SIZE {
            state::save_place(memory.as_mut(), self.next_place);
            if batch > 0 {
                let numbers = self.numbers();
                state::save(memory.as_mut(), batch, numbers, &self.ledger, &self.facts);
            }
            self.state_memory = Some(memory);
            self.save_lost();
        }
    }

    pub(crate) fn restore(
        &mut self,
        sequence: i64,
        place: Place,
        begun: u64,
        ledger: Ledger,
        facts: Facts,
    ) {
        (self.next_sequence, self.next_place, self.begun) = (sequence, place, begun);
        // How many of them were messages is in no memory: numbers go on above all that were given.
        self.number_messages_after(ledger.attempted as u32);
        (self.ledger, self.facts) = (ledger, facts);
    }

    fn numbers(&self) -> (i64, u64, bool) {
        (self.next_sequence, self.begun, self.state == State::Stopped)
    }

    pub(crate) fn restore_state(&mut self, is_stopped: bool) {
        if is_stopped {
            self.state = State::Stopped;
        }
    }

    pub(crate) fn take_sequence(&mut self) -> i64 {
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    pub(crate) fn restore_full(&mut self, found: &Recovered, batch: u64, reports: &Guid) {
        match self.free.pop() {
            Some(memory) if found.bytes.len() == memory.as_ref().len() => {
                self.full.push_back(state::restored(memory, found, batch, reports));
            }
            _ => self.facts.buffers_lost += 1,
        }
    }

    /// Everything pushed so far belongs to `batch`: see [`recover`](crate::recover). Batches rise.
    pub fn seal(&mut self, batch: u64) {
        self.batch = batch;
        let numbers = self.numbers();
        if let Some(memory) = &mut self.state_memory {
            state::save(memory.as_mut(), batch, numbers, &self.ledger, &self.facts);
        }
        for buffer in self.open.iter_mut().flatten().chain(&mut self.full) {
            buffer.seal(batch);
        }
    }

    /// The next full buffer, if all of it is sealed. A memory session gives none: see [`snapshot`](Session::snapshot).
    pub fn take_full(&mut self) -> Option<FullBuffer<B>> {
        let first = self.full.front()?;
        if self.settings.policy.is_in_memory() || first.sealed != first.filled {
            return None;
        }
        let mut buffer = self.full.pop_front()?;
        if std::mem::take(&mut self.buffer_lost_since) {
            buffer.mark_buffer_lost();
        }
        let place = self.next_place;
        self.next_place = self.place_after(place);
        self.out += 1;
        self.facts.buffers += 1;
        if self.settings.policy.overwrites_file() {
            let events = buffer.events - buffer.reports;
            let before =
                self.contents.occupy(place.slot, FileSlot { sequence: buffer.sequence, events });
            self.ledger.overwrite(before.events);
        }
        let full = buffer.hand_out(place);
        if let Some(memory) = &mut self.state_memory {
            state::save_place(memory.as_mut(), self.next_place);
        }
        Some(full)
    }

    /// The ledger as it is when all buffers, and reports of so many bytes, are in the file: further buffers of a circular file are then
    /// overwritten.
    pub fn ledger_at_end(&self, reports_size: usize) -> Ledger {
        let mut ledger = self.ledger.clone();
        if !self.settings.policy.overwrites_file() {
            return ledger;
        }
        let filled = self.open.iter().skip(1).flatten().filter(|buffer| buffer.events > 0).count();
        // Reports go to the first stream, and into another buffer when they do not fit.
        let first = self.open.first().and_then(Option::as_ref);
        let with_reports = match first {
            Some(buffer) if buffer.events == 0 || buffer.has_room(reports_size) => 1,
            Some(_) => 2,
            None => 1,
        };
        let mut place = self.next_place;
        for _ in 0..self.full.len() + filled + with_reports {
            let slot =
                usize::try_from(place.slot).ok().and_then(|slot| self.contents.slots.get(slot));
            ledger.overwrite(slot.map_or(0, |slot| slot.events));
            place = self.place_after(place);
        }
        ledger
    }

    pub(crate) fn place_after(&self, place: Place) -> Place {
        // A full file has stopped its session before; a place behind its end is never given.
        let next = self.settings.policy.place_after(place, self.settings.slots);
        next.unwrap_or(Place { slot: place.slot + 1, ..place })
    }

    /// Are there full buffers that wait to be taken or given back?
    pub fn is_storing(&self) -> bool {
        self.out > 0 || !self.full.is_empty()
    }

    /// Called when a buffer is stored. Its memory is free again.
    pub fn stored(&mut self, full: FullBuffer<B>) {
        self.out -= 1;
        self.count_in_series(&full);
        self.release(full.buffer.memory);
    }

    /// The buffer could not be written: its events are lost.
    pub fn not_stored(&mut self, full: FullBuffer<B>) {
        self.out -= 1;
        self.facts.buffers_lost += 1;
        let mut events = full.buffer.events - full.buffer.reports;
        let is_in_this_file = full.place().file == self.next_place.file;
        if self.settings.policy.overwrites_file() && is_in_this_file {
            let index = usize::try_from(full.place().slot).unwrap_or(usize::MAX);
            match self.contents.slots.get_mut(index) {
                Some(slot) if slot.sequence == full.buffer.sequence => *slot = FileSlot::default(),
                // A later buffer has the slot: the events are counted as overwritten.
                _ => events = 0,
            }
        }
        self.ledger.stored -= events;
        self.ledger.count_lost(Loss { cause: Cause::Disk, count: events, ..Loss::default() });
        self.save_lost();
        self.lost_since = true;
        self.buffer_lost_since = true;
        self.release(full.buffer.memory);
    }

    /// A buffer that was on its way to its place when the host was killed could not be stored there by the next one either; with
    /// how many events, reports aside.
    pub fn not_stored_again(&mut self, events: u64) {
        let events = events.min(self.ledger.stored);
        self.facts.buffers_lost += 1;
        self.ledger.stored -= events;
        self.ledger.count_lost(Loss { cause: Cause::Disk, count: events, ..Loss::default() });
        self.save_lost();
        self.lost_since = true;
        self.buffer_lost_since = true;
    }

    fn save_lost(&mut self) {
        if let Some(memory) = &mut self.state_memory {
            let (events, buffers) = (self.ledger.lost(Cause::Disk), self.facts.buffers_lost);
            state::save_lost(memory.as_mut(), events, buffers);
        }
    }

    /// All partly filled buffers become full ones; the last of them marks the end of the flush.
    pub fn flush(&mut self, now: i64) {
        if self.settings.policy.is_in_memory() {
            return;
        }
        let filled = |buffer: &Option<Buffer<B>>| buffer.as_ref().is_some_and(|b| b.events > 0);
        let last = self.open.iter().rposition(filled);
        for index in 0..self.open.len() {
            if filled(&self.open[index]) {
                if Some(index) == last
                    && let Some(buffer) = &mut self.open[index]
                {
                    buffer.mark_flush();
                }
                self.close(index, now);
            }
        }
    }

    /// The flush timer: hands out what has waited for too long.
    pub fn tick(&mut self, now: i64) {
        let Some(timer) = self.settings.flush_timer else { return };
        for index in 0..self.open.len() {
            let is_due = self.open[index]
                .as_ref()
                .is_some_and(|b| b.events > 0 && now.saturating_sub(b.first_time) >= timer);
            if is_due {
                self.close(index, now);
            }
        }
    }

    /// The sequence number of the buffer that is handed out next, and how many events were handed out before it, those among them
    /// that could not be stored.
    pub fn position(&self) -> (i64, u64) {
        let next = self.full.front().map_or(self.next_sequence, |buffer| buffer.sequence);
        let here = self.events_in_memory();
        let handed_out =
            self.ledger.stored + self.ledger.overwritten + self.ledger.lost(Cause::Disk);
        (next, handed_out.saturating_sub(here))
    }

    /// The position of the next buffer.
    pub fn next_place(&self) -> Place {
        self.next_place
    }

    /// When the flush timer has something to do, on the session clock.
    pub fn due(&self) -> Option<i64> {
        let timer = self.settings.flush_timer?;
        let filled = self.open.iter().flatten().filter(|buffer| buffer.events > 0);
        filled.map(|buffer| buffer.first_time.saturating_add(timer)).min()
    }

    /// Sets the flush timer.
    pub fn set_flush_timer(&mut self, timer: Option<Duration>) {
        self.settings.flush_timer = timer.map(|timer| self.settings.host.ticks(timer));
    }

    /// Time of the first event that has not been handed out.
    pub fn first_waiting(&self) -> Option<i64> {
        let waiting = self.open.iter().flatten().filter(|buffer| buffer.events > 0);
        waiting.chain(&self.full).map(|buffer| buffer.first_time).min()
    }

    /// Starts another file. Buffers that are handed out from now on get positions from its start, with the next file number.
    pub fn begin_file(&mut self) {
        self.contents.slots.clear();
        self.next_place = Place { file: self.next_place.file + 1, slot: 1 };
        if let Some(memory) = &mut self.state_memory {
            state::save_place(memory.as_mut(), self.next_place);
        }
        self.begun = (self.open.iter().flatten().count() + self.full.len()) as u64;
        if self.state == State::FileFull {
            self.state = State::Running;
        }
    }

    /// Buffers that nothing is in.
    pub fn free_buffers(&self) -> usize {
        self.free.len()
    }

    /// Adds buffers. Buffers of another size are ignored.
    pub fn add_buffers(&mut self, buffers: Vec<B>) {
        let size = self.settings.buffer_size as usize;
        for memory in buffers.into_iter().filter(|memory| memory.as_ref().len() == size) {
            self.release(memory);
        }
    }

    /// Ends the session: it accepts no more events, open buffers become full ones, and empty buffers are released.
    pub fn stop(&mut self, now: i64) {
        if self.settings.policy.is_in_memory() {
            // Nobody is waiting for a flush: a snapshot has a marker of its own.
            (0..self.open.len()).for_each(|index| self.close_filled(index, now));
        } else {
            self.flush(now);
        }
        self.state = State::Stopped;
        for buffer in std::mem::take(&mut self.open).into_iter().flatten() {
            self.release(buffer.memory);
        }
    }

    /// A memory session's events as buffers of a file while it goes on, the oldest first: the bytes of
    /// each, to stand at slots 1, 2, ….
    pub fn snapshot(&self, now: i64) -> Vec<Vec<u8>> {
        // Full ones in their order, then the open ones.
        let mut open: Vec<&Buffer<B>> =
            self.open.iter().flatten().filter(|b| b.events > 0).collect();
        open.sort_by_key(|buffer| buffer.first_time);
        let buffers: Vec<&Buffer<B>> = self.full.iter().chain(open).collect();
        let last = buffers.len();
        let copy =
            |(buffer, number): (&Buffer<B>, usize)| buffer.copy(number as i64, now, number == last);
        buffers.into_iter().zip(1..).map(copy).collect()
    }
}
