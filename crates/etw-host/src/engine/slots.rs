//! The eight slots of a pool: the session that each one names, and from which epoch on.

use etw_ring::layout::SESSIONS;
use etw_ring::{Cause, Reader, RegistrationLosses};

/// The counters of one slot at one time.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SlotCounters {
    /// Attempted writes.
    pub attempted: u64,
    /// Losses by cause.
    pub lost: [u64; 6],
    /// Losses by registration and cause, where the registration is known.
    pub by_registration: Vec<(u32, [u32; 6])>,
    /// Late records.
    pub late: u64,
    /// Drained records.
    pub drained: u64,
}

impl SlotCounters {
    /// The counters of a slot now.
    pub fn now(reader: &Reader, slot: usize) -> SlotCounters {
        let ring = reader.ledger();
        let lost = Cause::ALL.map(|cause| ring.lost(cause, slot));
        let rows = match lost {
            [0, 0, 0, 0, 0, 0] => Vec::new(),
            _ => reader.losses_by_registration(),
        };
        let of_slot = |row: RegistrationLosses| (row.registration, row.lost.map(|by| by[slot]));
        SlotCounters {
            attempted: ring.attempted[slot],
            lost,
            by_registration: rows.into_iter().map(of_slot).collect(),
            late: reader.late()[slot],
            drained: reader.drained()[slot],
        }
    }
}

/// A slot's session.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Slot {
    /// The session's number in the engine.
    pub session: usize,
    /// The control's epoch when the session took the slot. Records of an earlier epoch belong to another session.
    pub since: u16,
    /// The pool's counters when the session took the slot.
    pub base: SlotCounters,
    /// The batch with which the slot's losses entered the session's ledger, if the slot was given up. Once that batch is
    /// final, a worker that takes over must not count them again.
    #[cfg_attr(feature = "serde", serde(default))]
    pub counted_in: Option<u64>,
}

/// All slots of one pool.
#[derive(Clone, Debug, Default)]
pub struct SlotTable {
    slots: [Option<Slot>; SESSIONS],
    /// Slots that were given up last. They are kept until their batch is final.
    settled: [Option<Slot>; SESSIONS],
    /// Sessions of the last mask and epoch: they repeat from record to record.
    last: Option<(u8, u16, u64)>,
}

impl SlotTable {
    /// The slots that a worker before kept. Slots whose losses were counted in a batch up to `last`, the last final one, are
    /// free.
    pub fn restored(kept: Vec<Option<Slot>>, last: u64) -> SlotTable {
        let mut table = SlotTable::default();
        let is_counted = |slot: &Slot| slot.counted_in.is_some_and(|batch| batch <= last);
        for (slot, kept) in table.slots.iter_mut().zip(kept) {
            *slot = kept.filter(|kept| !is_counted(kept));
            if let Some(slot) = slot {
                slot.counted_in = None;
            }
        }
        table
    }

    /// The slots that the next worker has to know; `last`: the last final batch.
    pub fn to_keep(&self, last: u64) -> Vec<Option<Slot>> {
        let is_open = |slot: &&Slot| slot.counted_in.is_some_and(|batch| batch > last);
        let both = self.slots.iter().zip(&self.settled);
        both.map(|(slot, settled)| slot.as_ref().or(settled.as_ref().filter(is_open)).cloned())
            .collect()
    }

    /// The session in a slot.
    pub fn get(&self, slot: usize) -> Option<&Slot> {
        self.slots.get(slot)?.as_ref()
    }

    /// The slots that sessions have.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten()
    }

    /// The slots that sessions have, with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.slots.iter().enumerate().filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }

    /// The slot of a session.
    pub fn slot_of(&self, session: usize) -> Option<usize> {
        self.slots.iter().position(|slot| slot.as_ref().is_some_and(|s| s.session == session))
    }

    /// A slot without a session.
    pub(super) fn free_slot(&self) -> Option<usize> {
        self.slots.iter().position(Option::is_none)
    }

    pub(super) fn set(&mut self, slot: usize, session: Slot) {
        self.slots[slot] = Some(session);
        self.last = None;
    }

    /// Frees the slots that `which` selects; each with its number. `batch`: the one that their losses are counted in.
    pub(super) fn settle(
        &mut self,
        batch: u64,
        which: impl Fn(&Slot) -> bool,
    ) -> Vec<(usize, Slot)> {
        let mut settled = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if let Some(mut used) = slot.take_if(|used| which(used)) {
                used.counted_in = Some(batch);
                self.settled[number] = Some(used.clone());
                settled.push((number, used));
            }
        }
        self.last = None;
        settled
    }

    /// The engine's sessions that a record's mask of slots names, a bit each.
    pub(super) fn sessions_of(&mut self, mask: u8, epoch: u16) -> u64 {
        self.last_sessions(mask, epoch).unwrap_or_else(|| self.find_sessions(mask, epoch))
    }

    /// The sessions of a mask and epoch that are those of the last record.
    #[inline(always)]
    pub(super) fn last_sessions(&self, mask: u8, epoch: u16) -> Option<u64> {
        let (last_mask, last_epoch, sessions) = self.last?;
        ((last_mask, last_epoch) == (mask, epoch)).then_some(sessions)
    }

    #[inline(never)]
    fn find_sessions(&mut self, mask: u8, epoch: u16) -> u64 {
        let mut sessions = 0;
        let mut left = mask;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(slot) = &self.slots[slot] {
                if epoch.wrapping_sub(slot.since) < 1 << 15 {
                    sessions |= 1 << slot.session;
                }
            }
        }
        self.last = Some((mask, epoch, sessions));
        sessions
    }
}
