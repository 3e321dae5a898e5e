//! Changes of a provider's enable state, under the registry's lock.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering, fence};

use etw_ring::MAX_ATTACHMENTS;
use etw_types::{Keyword, LevelKeyword, StackFilter, Status, Wanted};

use super::slot::{Enablement, Slot};
use super::{MAX_SESSIONS, Provider, STACKS, State};
use crate::{pools, stacks};

impl Provider {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        crate::lock::lock(&self.state)
    }

    /// The slots in use, in order.
    fn used(&self) -> impl Iterator<Item = (usize, &Slot)> {
        let active = self.active.load(Ordering::Relaxed);
        self.slots.iter().enumerate().filter(move |(slot, _)| active & 1 << slot != 0)
    }

    fn use_slot(&self, slot: usize, enablement: &Enablement, route: u64) {
        self.only.store(0, Ordering::Relaxed);
        self.active.fetch_and(!(1 << slot), Ordering::Relaxed);
        self.slots[slot].store(enablement, route);
        // Release: a write that sees the bit sees the fields.
        self.active.fetch_or(1 << slot, Ordering::Release);
    }

    /// Takes sessions out of a slot; whether any was in it. The fields of an empty slot stay as they are, for writes that loaded
    /// `active` before.
    fn leave_slot(&self, slot: usize, routes: u64) -> bool {
        let before = self.slots[slot].route.load(Ordering::Relaxed);
        if before & routes == 0 {
            return false;
        }
        self.only.store(0, Ordering::Relaxed);
        match before & !routes {
            0 => self.active.fetch_and(!(1 << slot), Ordering::Release) & 1 << slot != 0,
            _ => self.slots[slot].route.fetch_and(!routes, Ordering::Relaxed) & routes != 0,
        }
    }

    /// Sets the enablement of the session at `route`, and its filter of call stacks.
    ///
    /// # Errors
    /// `ERROR_NO_SYSTEM_RESOURCES` for a ninth session.
    pub(crate) fn set_slot(
        &self,
        route: u64,
        wanted: &LevelKeyword,
        stacks: Option<&StackFilter>,
    ) -> Result<(), Status> {
        let enablement = Enablement { wanted: wanted.wanted(), stacks: stacks.map(stacks::intern) };
        let of = |slot: &Slot| slot.route.load(Ordering::Relaxed);
        let old = self.used().find(|(_, slot)| of(slot) & route != 0).map(|(old, _)| old);
        let sessions: u32 = self.used().map(|(_, slot)| of(slot).count_ones()).sum();
        if old.is_none() && sessions as usize >= MAX_SESSIONS {
            return Err(Status::ERROR_NO_SYSTEM_RESOURCES);
        }
        let same = self.used().find(|(_, slot)| slot.is_for(&enablement)).map(|(same, _)| same);
        if same.is_some() && same == old {
            return Ok(());
        }
        let active = self.active.load(Ordering::Relaxed);
        let free = (0..MAX_SESSIONS).find(|slot| active & 1 << slot == 0);
        match (same, free, old) {
            // Sessions with the same enablement share a slot: a write tests it once for all of them.
            (Some(same), ..) => {
                self.slots[same].route.fetch_or(route, Ordering::Release);
                old.map(|old| self.leave_slot(old, route));
            }
            // A changed enablement goes into a free slot first, and then back, since the first slot is the fastest: writes meanwhile
            // find the old enablement or the new one.
            (None, Some(free), _) => {
                self.use_slot(free, &enablement, route);
                if let Some(old) = old {
                    self.leave_slot(old, route);
                    if old < free && self.active.load(Ordering::Relaxed) & 1 << old == 0 {
                        self.use_slot(old, &enablement, route);
                        self.leave_slot(free, route);
                    }
                }
            }
            // Eight sessions with eight different enablements: no slot is free, so the change is made in place.
            (None, None, Some(old)) => self.use_slot(old, &enablement, route),
            (None, None, None) => return Err(Status::ERROR_NO_SYSTEM_RESOURCES),
        }
        self.set_gate();
        Ok(())
    }

    /// Removes the sessions of `routes`; whether any of them had the provider enabled.
    pub(crate) fn clear_slots(&self, routes: u64) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        let mut any = false;
        for slot in (0..MAX_SESSIONS).filter(|slot| active & 1 << slot != 0) {
            any |= self.leave_slot(slot, routes);
        }
        self.set_gate();
        any
    }

    /// Removes the sessions of hosts that this process is no longer attached to. Lock-free: only the slots change, not the
    /// registry.
    pub(crate) fn forget_detached(&self) {
        let mut detached = 0;
        for attachment in 0..MAX_ATTACHMENTS {
            if !pools::is_attached(attachment) {
                detached |= pools::routes(attachment);
            }
        }
        self.clear_slots(detached);
    }

    fn active_slots(&self) -> impl Iterator<Item = Wanted> {
        self.used().map(|(_, slot)| slot.load())
    }

    /// Sets the words that follow from the slots. [`forget_detached`](Self::forget_detached) may change slots and call this at the same time.
    /// So each caller compares the words with the slots again after it has stored them.
    fn set_gate(&self) {
        loop {
            let (gate, only) = self.gate_and_only();
            self.gate.store(gate, Ordering::Relaxed);
            self.only.store(only, Ordering::Release);
            fence(Ordering::SeqCst);
            if self.gate_and_only() == (gate, only) {
                break;
            }
        }
        let any_stacks = self.used().any(|(_, slot)| slot.stacks().is_some());
        for size in [&self.described_size, &self.header_size] {
            match any_stacks {
                true => size.fetch_or(STACKS, Ordering::Relaxed),
                false => size.fetch_and(!STACKS, Ordering::Relaxed),
            };
        }
    }

    fn gate_and_only(&self) -> (u32, u32) {
        let gate = self.active_slots().map(|wanted| u32::from(wanted.level.0) + 1).max();
        let only = match self.active.load(Ordering::Relaxed) {
            1 => self.slots[0].simple_level(),
            _ => 0,
        };
        (gate.unwrap_or(0), only)
    }

    /// Whether a session of the attachment wants call stacks.
    #[cfg(target_os = "linux")]
    pub(crate) fn wants_stacks(&self, attachment: usize) -> bool {
        let routes = pools::routes(attachment);
        self.used().any(|(_, slot)| {
            slot.route.load(Ordering::Relaxed) & routes != 0 && slot.stacks().is_some()
        })
    }

    /// The enable state as callbacks get it: level and masks of all sessions together. `None` without a session.
    pub(crate) fn aggregate(&self) -> Option<Wanted> {
        self.active_slots().reduce(|a, b| Wanted {
            level: a.level.max(b.level),
            any: a.any | b.any,
            all: Keyword(a.all.0 & b.all.0),
            ignore_keyword_0: false,
        })
    }
}
