//! Changes of a provider's enable state, under the registry's lock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use etw_ring::MAX_ATTACHMENTS;
use etw_types::{LevelKeyword, StackFilter, Status, Wanted};

use super::callback::{Callback, EnableCallback};
use super::slot::{Slot, Wish};
use super::{MAX_SESSIONS, Provider, STACKS, State};
use crate::{pools, stacks};

impl Provider {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        crate::lock::lock(&self.state)
    }

    /// The slots in use, in their order.
    fn used(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let active = self.active.load(Ordering::Relaxed);
        self.slots.iter().enumerate().filter(move |(slot, _)| active & 1 << slot != 0)
    }

    fn use_slot(&self, slot: usize, wish: &Wish, route: u64) {
        self.active.fetch_and(!(1 << slot), Ordering::Relaxed);
        self.slots[slot].store(wish, route);
        // Release: a write that sees the bit sees the fields.
        self.active.fetch_or(1 << slot, Ordering::Release);
    }

    /// Takes sessions out of a slot; whether any was there. The fields of a slot without sessions stay as they are: a write that has
    /// loaded `active` before finds them.
    fn leave_slot(&self, slot: usize, routes: u64) -> bool {
        let before = self.slots[slot].route.load(Ordering::Relaxed);
        if before & routes == 0 {
            return false;
        }
        match before & !routes {
            0 => self.active.fetch_and(!(1 << slot), Ordering::Release) & 1 << slot != 0,
            _ => self.slots[slot].route.fetch_and(!routes, Ordering::Relaxed) & routes != 0,
        }
    }

    /// Sets what the session behind `route` wants, and of which events it wants the call stack.
    ///
    /// # Errors
    /// `ERROR_NO_SYSTEM_RESOURCES` for a ninth session.
    pub(crate) fn set_slot(
        &self,
        route: u64,
        wanted: &LevelKeyword,
        stacks: Option<&StackFilter>,
    ) -> Result<(), Status> {
        let wish = (wanted.wanted(), stacks.map(stacks::intern));
        let of = |slot: &Slot| slot.route.load(Ordering::Relaxed);
        let old = self.used().find(|(_, slot)| of(slot) & route != 0).map(|(old, _)| old);
        let sessions: u32 = self.used().map(|(_, slot)| of(slot).count_ones()).sum();
        if old.is_none() && sessions as usize >= MAX_SESSIONS {
            return Err(Status::ERROR_NO_SYSTEM_RESOURCES);
        }
        let same = self.used().find(|(_, slot)| slot.is_for(&wish)).map(|(same, _)| same);
        if same.is_some() && same == old {
            return Ok(());
        }
        let active = self.active.load(Ordering::Relaxed);
        let free = (0..MAX_SESSIONS).find(|slot| active & 1 << slot == 0);
        match (same, free, old) {
            // Sessions that want the same share a slot: a write asks once for all of them.
            (Some(same), ..) => {
                self.slots[same].route.fetch_or(route, Ordering::Release);
                old.map(|old| self.leave_slot(old, route));
            }
            // What is changed goes by way of another slot, and then back, since the first slot is the fastest: writes meanwhile find the
            // old wish or the new one.
            (None, Some(free), _) => {
                self.use_slot(free, &wish, route);
                if let Some(old) = old {
                    self.leave_slot(old, route);
                    if old < free && self.active.load(Ordering::Relaxed) & 1 << old == 0 {
                        self.use_slot(old, &wish, route);
                        self.leave_slot(free, route);
                    }
                }
            }
            // Eight sessions with a wish of their own each: in place.
            (None, None, Some(old)) => self.use_slot(old, &wish, route),
            (None, None, None) => return Err(Status::ERROR_NO_SYSTEM_RESOURCES),
        }
        self.set_gate();
        Ok(())
    }

    /// The sessions of `routes` want nothing more. Whether any of them was there.
    pub(crate) fn clear_slots(&self, routes: u64) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        let mut any = false;
        for slot in (0..MAX_SESSIONS).filter(|slot| active & 1 << slot != 0) {
            any |= self.leave_slot(slot, routes);
        }
        self.set_gate();
        any
    }

    /// The sessions of hosts that this process is not attached to (any more) want nothing. Lock-free; only the slots
    /// change, so the registry's own record is as it was.
    pub(crate) fn forget_detached(&self) {
        let mut gone = 0;
        for attachment in 0..MAX_ATTACHMENTS {
            if !pools::is_attached(attachment) {
                gone |= pools::routes(attachment);
            }
        }
        self.clear_slots(gone);
    }

    fn active_slots(&self) -> impl Iterator<Item = Wanted> {
        self.used().map(|(_, slot)| slot.load())
    }

    fn set_gate(&self) {
        let gate = self.active_slots().map(|wanted| u32::from(wanted.level) + 1).max();
        let any_stacks = self.used().any(|(_, slot)| slot.stacks().is_some());
        for size in [&self.described_size, &self.header_size] {
            match any_stacks {
                true => size.fetch_or(STACKS, Ordering::Relaxed),
                false => size.fetch_and(!STACKS, Ordering::Relaxed),
            };
        }
        self.gate.store(gate.unwrap_or(0), Ordering::Relaxed);
    }

    /// Does a session of the attachment want call stacks?
    pub(crate) fn wants_stacks(&self, attachment: usize) -> bool {
        let routes = pools::routes(attachment);
        self.used().any(|(_, slot)| {
            slot.route.load(Ordering::Relaxed) & routes != 0 && slot.stacks().is_some()
        })
    }

    /// All sessions together, as callbacks are told: `None` when there is none.
    pub(crate) fn aggregate(&self) -> Option<(u8, u64, u64)> {
        self.active_slots()
            .map(|wanted| (wanted.level, wanted.any, wanted.all))
            .reduce(|a, b| (a.0.max(b.0), a.1 | b.1, a.2 & b.2))
    }

    /// One registration more; whether it is the first, and the callback's number.
    pub(crate) fn enter(&self, callback: Option<Arc<EnableCallback>>) -> (bool, Option<u64>) {
        let mut state = self.state();
        state.registered += 1;
        if state.registered == 1 {
            // Whose wish was the newest says nothing any more.
            state.classic.since = 0;
        }
        let number = callback.map(|callback| {
            state.next_callback += 1;
            let number = state.next_callback;
            state.callbacks.push((number, Callback(callback)));
            number
        });
        (state.registered == 1, number)
    }

    /// One registration less; whether it was the last.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.state();
        state.registered -= 1;
        state.registered == 0
    }

    /// The callbacks to call, or that one.
    pub(crate) fn callbacks(&self, only: Option<u64>) -> Vec<Arc<EnableCallback>> {
        let state = self.state();
        let wanted = state.callbacks.iter().filter(|(number, _)| only.is_none_or(|n| n == *number));
        wanted.map(|(_, callback)| callback.0.clone()).collect()
    }

    pub(crate) fn remove_callback(&self, number: u64) {
        self.state().callbacks.retain(|(n, _)| *n != number);
    }
}
