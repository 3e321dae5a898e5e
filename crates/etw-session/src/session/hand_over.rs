//! Buffers out of the session: closed, sealed, handed out, given back; flushes, the end, and snapshots.

use std::time::Duration;

use etw_types::Guid;

use super::{End, Facts, Session, State};
use crate::buffer::{Buffer, FullBuffer, HEADER_SIZE, Place};
use crate::event::Event;
use crate::file_contents::FileSlot;
use crate::ledger::{Cause, Ledger, Loss};
use crate::recover::Recovered;
use crate::state;

/// The position of a session's next buffer among those that it hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOverPosition {
    /// The sequence number of the next buffer.
    pub next_sequence: i64,
    /// Events that were handed out before it, also if they could not be stored.
    pub events_before: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    pub(super) fn close(&mut self, index: usize, now: i64) {
        if let Some(mut buffer) = self.open[index].take() {
            self.move_gap_behind(index, buffer.last_time);
            if let Some(end) = self.end.as_mut().filter(|end| buffer.last_time >= end.since) {
                end.first_sequence.get_or_insert(self.next_sequence);
            }
            buffer.close(self.next_sequence, now);
            self.next_sequence += 1;
            self.full.push_back(buffer);
        }
    }

    pub(super) fn close_filled(&mut self, index: usize, now: i64) {
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
                let counts = (&self.ledger, &self.facts);
                state::save(memory.as_mut(), batch, numbers, counts, &self.gaps);
            }
            state::save_unread(memory.as_mut(), self.unread_buffers);
            state::save_lost_buffers(memory.as_mut(), &self.lost_buffers);
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

    fn numbers(&self) -> state::Numbers {
        state::Numbers {
            sequence: self.next_sequence,
            begun: self.begun,
            is_stopped: self.state == State::Stopped,
        }
    }

    pub(crate) fn restore_state(&mut self, is_stopped: bool, unread_buffers: u64) {
        if is_stopped {
            self.state = State::Stopped;
        }
        self.unread_buffers = unread_buffers;
    }

    /// Counts buffers that live readers have lost, for each reader of a buffer.
    pub fn count_unread(&mut self, buffers: u64) {
        self.unread_buffers += buffers;
        if let Some(memory) = &mut self.state_memory {
            state::save_unread(memory.as_mut(), self.unread_buffers);
        }
    }

    /// The number of buffers that live readers have lost.
    pub fn unread_buffers(&self) -> u64 {
        self.unread_buffers
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
        self.trim();
        let numbers = self.numbers();
        if let Some(memory) = &mut self.state_memory {
            let counts = (&self.ledger, &self.facts);
            state::save(memory.as_mut(), batch, numbers, counts, &self.gaps);
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
        let events = buffer.events - buffer.reports;
        let before = self.contents.occupy(place, FileSlot { sequence: buffer.sequence, events });
        if self.settings.policy.overwrites_file() {
            self.ledger.overwrite(before.events);
        } else {
            self.contents.forget_old_slots();
        }
        let full = buffer.hand_out(place, self.settings.marks_gaps);
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
        let mut place = self.next_place;
        for _ in 0..self.full.len() + self.last_buffers(0, reports_size) {
            ledger.overwrite(self.contents.events_in(place.slot));
            place = self.place_after(place);
        }
        ledger
    }

    /// Buffers that become full at the end with reports of so many bytes, in the streams from `first` on.
    fn last_buffers(&self, first: usize, reports_size: usize) -> usize {
        let others = self.open.iter().skip(first.max(1)).flatten();
        let filled = others.filter(|buffer| buffer.events > 0).count();
        if first > 0 {
            return filled;
        }
        // Reports go to the first stream, and into another buffer when they do not fit.
        let with_reports = match self.open.first().and_then(Option::as_ref) {
            Some(buffer) if buffer.events == 0 || buffer.has_room(reports_size) => 1,
            Some(_) => 2,
            None => 1,
        };
        filled + with_reports
    }

    /// The end of the session begins: records from this time on are its rundown and its reports. Only the first call counts.
    pub fn begin_end(&mut self, since: i64) {
        self.end.get_or_insert(End { since, first_sequence: None });
    }

    /// The size that a circular file needs for the end of the session, with further reports of so many bytes. `None`: it has it. In a
    /// smaller file, the end overwrites its own beginning.
    pub fn size_for_end(&self, reports_size: usize) -> Option<u64> {
        let slots = self.settings.slots.filter(|_| self.settings.policy.overwrites_file())?;
        let end = self.end?;
        let is_of_end = |buffer: &Option<Buffer<B>>| {
            buffer.as_ref().is_some_and(|one| one.events > 0 && one.last_time >= end.since)
        };
        let buffers = match end.first_sequence {
            Some(first) => {
                let full = u64::try_from(self.next_sequence - first).unwrap_or(0);
                full + self.last_buffers(0, reports_size) as u64
            }
            None => {
                let first = self.open.iter().position(is_of_end).unwrap_or(0);
                self.last_buffers(first, reports_size) as u64
            }
        };
        let needed = buffers + 1;
        (needed > slots).then(|| needed * u64::from(self.settings.buffer_size))
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

    /// Called when a buffer without a file is delivered. Its memory is free again.
    pub fn delivered(&mut self, full: FullBuffer<B>) {
        self.contents.clear_slots();
        self.stored(full);
    }

    /// Called when a buffer is stored. Its memory is free again.
    pub fn stored(&mut self, full: FullBuffer<B>) {
        self.out -= 1;
        self.forget_lost();
        self.count_in_series(&full);
        self.release(full.buffer.memory);
    }

    /// The buffer could not be written: its events are lost.
    pub fn not_stored(&mut self, full: FullBuffer<B>) {
        self.out -= 1;
        self.remember_lost(&full);
        self.facts.buffers_lost += 1;
        let mut events = full.buffer.events - full.buffer.reports;
        let is_in_this_file = full.place().file == self.next_place.file;
        if is_in_this_file {
            match self.contents.slot_mut(full.place().slot) {
                Some(slot) if slot.sequence == full.buffer.sequence => *slot = FileSlot::default(),
                // A later buffer has the slot: the events are counted as overwritten.
                _ if self.settings.policy.overwrites_file() => events = 0,
                _ => {}
            }
        }
        self.lose_stored(events);
        self.release(full.buffer.memory);
    }

    /// A buffer that was on its way to its place when the host was killed could not be stored there by the next one either; with
    /// how many events, reports aside.
    pub fn not_stored_again(&mut self, events: u64) {
        self.facts.buffers_lost += 1;
        self.lose_stored(events);
    }

    /// Stored events turn out to be lost: the disk did not take them, or another process has removed them.
    pub(super) fn lose_stored(&mut self, events: u64) {
        let events = events.min(self.ledger.stored);
        self.ledger.stored -= events;
        self.ledger.count_lost(Loss { cause: Cause::Disk, count: events, ..Loss::default() });
        self.save_lost();
        self.lost_since = true;
        self.buffer_lost_since = true;
    }

    /// At the end of a session without files: events that no consumer has received are lost.
    pub fn lose_unread(&mut self) {
        if self.settings.policy.is_in_memory() {
            return;
        }
        let unread = |buffer: &Buffer<B>| {
            (buffer.events - buffer.reports).saturating_sub(buffer.sliced_events)
        };
        let count = self.full.iter().map(unread).sum::<u64>().min(self.ledger.stored);
        self.ledger.stored -= count;
        self.ledger.count_lost(Loss { cause: Cause::SessionFull, count, ..Loss::default() });
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
        let mut order: Vec<usize> =
            (0..self.open.len()).filter(|index| filled(&self.open[*index])).collect();
        if self.is_reporting && order.first() == Some(&0) {
            // The ledger, which is in the first one, ends the last file of a series.
            order.rotate_left(1);
        }
        let last = order.last().copied();
        for index in order {
            let ends_file = Some(index) == last;
            if let Some(buffer) = self.open[index].as_mut().filter(|_| ends_file) {
                buffer.mark_flush();
            }
            self.close(index, now);
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

    /// The position of the next buffer among those that are handed out.
    pub fn position(&self) -> HandOverPosition {
        let next = self.full.front().map_or(self.next_sequence, |buffer| buffer.sequence);
        let here = self.events_in_memory();
        let handed_out = self.ledger.handed_out();
        HandOverPosition { next_sequence: next, events_before: handed_out.saturating_sub(here) }
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
        self.contents.clear_slots();
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

    /// A memory session's events as buffers of a file while the session continues, the oldest first, and behind them buffers with
    /// `reports` on the session: the bytes of each, for slots 1, 2, …. A report that is larger than a buffer is left out.
    pub fn snapshot(&mut self, now: i64, reports: &[Event<'_>]) -> Vec<Vec<u8>> {
        self.trim();
        // Full ones in their order, then the open ones.
        let mut open: Vec<&Buffer<B>> =
            self.open.iter().flatten().filter(|b| b.events > 0).collect();
        open.sort_by_key(|buffer| buffer.first_time);
        let buffers: Vec<&Buffer<B>> = self.full.iter().chain(open).collect();
        let reports = self.report_buffers(reports);
        let last = buffers.len() + reports.len();
        let is_last = |number: usize| number == last;
        let events = (1..)
            .zip(buffers)
            .map(|(number, buffer)| buffer.copy(number as i64, now, is_last(number)));
        let mut copies: Vec<Vec<u8>> = events.collect();
        for buffer in reports {
            let number = copies.len() + 1;
            copies.push(buffer.copy(number as i64, now, is_last(number)));
        }
        copies
    }

    /// Reports on the session in buffers of their own, which belong to nobody.
    fn report_buffers(&self, reports: &[Event<'_>]) -> Vec<Buffer<Vec<u8>>> {
        let buffer_size = self.settings.buffer_size as usize;
        let mut buffers: Vec<Buffer<Vec<u8>>> = Vec::new();
        for report in reports {
            let size = report.size(&[]);
            if HEADER_SIZE + size.next_multiple_of(8) > buffer_size {
                continue;
            }
            if !buffers.last().is_some_and(|buffer| buffer.has_room(size)) {
                let memory = vec![0; buffer_size];
                buffers.push(Buffer::begin(memory, 0, self.settings.host.logger_id));
            }
            let Some(buffer) = buffers.last_mut() else { continue };
            let time = self.settings.host.clock.of(report.time, report.raw);
            let Some(bytes) = buffer.room(size) else { continue };
            report.encode(time, &[], size, bytes);
            buffer.added(size, time);
        }
        buffers
    }
}
