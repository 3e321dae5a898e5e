//! Events into buffers: space, admission by size, counts.

use std::sync::atomic::Ordering;

use super::{Session, State};
use crate::buffer::{Buffer, HEADER_SIZE};
use crate::event::{Event, MAX_EVENT_SIZE};
use crate::extra_items::ExtraItems;
use crate::ledger::{Cause, Loss};
use crate::loss_mark::is_mark;
use crate::shape::Shaped;

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// Would an event of `size` bytes on disk find room? May close the CPU's buffer and begin another.
    ///
    /// # Errors
    /// Why not. Nothing is counted.
    #[inline]
    pub fn has_room(&mut self, cpu: u16, size: usize) -> Result<(), Cause> {
        let index = if self.settings.per_processor { usize::from(cpu) } else { 0 };
        // A buffer exists only while the session runs.
        if let Some(Some(buffer)) = self.open.get(index) {
            // A large buffer has room for more than the u16 of a record's size can hold.
            if buffer.has_room(size) && size <= MAX_EVENT_SIZE {
                return Ok(());
            }
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
        let is_open = match self.state {
            State::Running => true,
            State::FileFull => self.is_reporting,
            State::Stopped => false,
        };
        if !is_open {
            return Err(Cause::SessionFull);
        }
        // The last buffer of a file is for the reports at its end.
        let reserved = u64::from(!self.is_reporting);
        if self.settings.policy.is_full(self.begun + reserved, self.settings.slots) {
            self.state = State::FileFull;
            self.is_file_full = true;
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
        self.mark_begun(index, size);
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
        self.overwritten_until = self.overwritten_until.max(Some(oldest.last_time));
        self.last_overwritten = self.last_overwritten.max(Some(oldest.last_time));
        Some(oldest.memory)
    }

    /// Whether a session in memory has overwritten an event of this time or a later one.
    pub fn has_overwritten_since(&self, time: i64) -> bool {
        self.last_overwritten.is_some_and(|last| last >= time)
    }

    /// In a session in memory: overwrites the events that are earlier than one that was overwritten with its buffer. Buffers of two
    /// CPUs overlap in time, so without this a thread that moved between them would have a gap in its events.
    pub fn trim(&mut self) {
        let Some(until) = self.overwritten_until.take() else { return };
        let mut trimmed = 0;
        for buffer in self.open.iter_mut().flatten().chain(&mut self.full) {
            if buffer.events > 0 && buffer.first_time < until {
                trimmed += buffer.trim(until, &self.reports);
            }
        }
        self.ledger.overwrite(trimmed);
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

    /// Counts an event as attempted and lost, and marks the gap in its stream. A mark is no event.
    pub(crate) fn refuse(&mut self, event: &Event<'_>, cause: Cause) {
        self.lost_since = true;
        self.mark_gap(event);
        if is_mark(event) {
            return;
        }
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
        self.store_shaped(event)
    }

    /// Whether [`put_shaped`](Session::put_shaped) stores an event.
    #[inline]
    pub(crate) fn takes_shaped(&self, event: &Shaped<'_>) -> bool {
        let size = event.size();
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        let Some(Some(buffer)) = self.open.get(index) else { return false };
        size <= MAX_EVENT_SIZE && buffer.has_room(size) && self.enabled.is_plain(event.shape)
    }

    /// [`put_shaped`](Session::put_shaped) of an event that the session wants unchanged.
    #[inline(always)]
    pub(crate) fn store_shaped(&mut self, event: &Shaped<'_>) -> bool {
        let size = event.size();
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        if size > MAX_EVENT_SIZE {
            return false;
        }
        // A buffer exists only while the session runs.
        let Some(Some(buffer)) = self.open.get_mut(index) else { return false };
        let Some(room) = buffer.room(size) else { return false };
        let time = self.settings.host.clock.of(event.time, event.raw);
        event.encode(time, size, room);
        self.ledger.attempted += 1;
        self.ledger.stored += 1;
        self.facts.stored(buffer, size, time);
        true
    }

    fn put(&mut self, event: &Event<'_>, extra: &[&[u8]], size: usize) {
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        // `has_room` said so.
        let Some(Some(buffer)) = self.open.get_mut(index) else { return };
        let time = self.settings.host.clock.of(event.time, event.raw);
        let Some(room) = buffer.room(size) else { return };
        event.encode(time, extra, size, room);
        if event.classic.is_some_and(crate::classic::is_numbered) {
            etw_types::cold_path();
            self.messages = self.messages.wrapping_add(1);
            room[crate::classic::SEQUENCE].copy_from_slice(&self.messages.to_le_bytes());
        }
        self.ledger.stored += 1;
        self.facts.stored(buffer, size, time);
    }

    pub(crate) fn put_counted(&mut self, event: &Event<'_>, extra: &ExtraItems<'_>, size: usize) {
        if is_mark(event) {
            return self.put_uncounted(event, size);
        }
        self.ledger.attempted += 1;
        self.facts.without_stack += u64::from(extra.lacks_stack);
        self.put(event, extra.as_slice(), size);
    }

    /// Puts an event that [`has_room`](Session::has_room) for, counting it.
    pub(crate) fn push_admitted(&mut self, event: &Event<'_>) {
        let items = self.extra(event);
        self.put_counted(event, &items, event.size(items.as_slice()));
    }

    /// No more events come: the session's reports may use the last buffer of a file of limited size.
    pub fn begin_report(&mut self) {
        self.is_reporting = true;
    }

    /// Bytes that are left for reports in the last buffer of a file of limited size; `None`: other buffers can follow.
    pub fn report_room(&self) -> Option<usize> {
        let is_last = self.settings.policy.is_full(self.begun, self.settings.slots);
        let open = self.open.first().and_then(Option::as_ref);
        is_last.then(|| open.map_or(0, |buffer| buffer.memory.as_ref().len() - buffer.filled))
    }

    /// Puts a report on the session itself into its stream: in no ledger.
    ///
    /// # Errors
    /// Why it found no room. Nothing is counted: one for which there is none yet may be given again.
    pub fn push_report(&mut self, event: &Event<'_>) -> Result<(), Cause> {
        let size = event.size(&[]);
        self.has_room(event.cpu, size)?;
        self.put_uncounted(event, size);
        self.reports = event.provider;
        Ok(())
    }

    fn put_uncounted(&mut self, event: &Event<'_>, size: usize) {
        self.put(event, &[], size);
        self.ledger.stored -= 1;
        let index = if self.settings.per_processor { usize::from(event.cpu) } else { 0 };
        if let Some(Some(buffer)) = self.open.get_mut(index) {
            buffer.reports += 1;
        }
    }
}
