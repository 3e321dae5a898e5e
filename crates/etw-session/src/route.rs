//! The router: which sessions store an event.

use crate::enable::{EnableInfo, EnableProperties};
use crate::event::Event;
use crate::extra_items::ExtraItems;
use crate::ledger::Cause;
use crate::session::Session;
use crate::shape::Shaped;

/// Sessions behind one stream of events: ETW's limit for a machine.
pub const SLOTS: usize = 64;

/// Up to 64 sessions, each in a slot.
#[derive(Debug)]
pub struct Router<B> {
    sessions: [Option<Session<B>>; SLOTS],
}

impl<B> Default for Router<B> {
    fn default() -> Router<B> {
        Router { sessions: [const { None }; SLOTS] }
    }
}

/// The outcomes of one event: a mask of slots for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// Sessions that have the event in a buffer.
    pub stored: u64,
    /// Sessions that did not enable or that filtered the event.
    pub filtered: u64,
    /// Sessions that counted the event as lost.
    pub lost: u64,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Router<B> {
    /// Puts a session into a slot. Returns the session that was there.
    pub fn insert(&mut self, slot: usize, session: Session<B>) -> Option<Session<B>> {
        self.sessions[slot].replace(session)
    }

    /// Removes a session from its slot.
    pub fn remove(&mut self, slot: usize) -> Option<Session<B>> {
        self.sessions[slot].take()
    }

    /// The session in a slot.
    pub fn session(&self, slot: usize) -> Option<&Session<B>> {
        self.sessions.get(slot)?.as_ref()
    }

    /// The session in a slot.
    pub fn session_mut(&mut self, slot: usize) -> Option<&mut Session<B>> {
        self.sessions.get_mut(slot)?.as_mut()
    }

    /// The sessions, with their slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Session<B>)> {
        self.sessions.iter_mut().enumerate().filter_map(|(slot, s)| Some((slot, s.as_mut()?)))
    }

    fn masked(&mut self, mask: u64) -> impl Iterator<Item = (usize, &mut Session<B>)> {
        // From the first of the mask to the last.
        let first = (mask.trailing_zeros() as usize).min(SLOTS);
        let end = SLOTS - mask.leading_zeros() as usize;
        let slots = self.sessions[first..end.max(first)].iter_mut().zip(first..);
        slots
            .filter(move |(_, slot)| mask & 1 << slot != 0)
            .filter_map(|(s, slot)| Some((slot, s.as_mut()?)))
    }

    /// Gives an event to the sessions of `mask`: to all that enabled it or to none. Independent sessions are decided each alone.
    #[inline]
    pub fn route(&mut self, mask: u64, event: &Event<'_>) -> Routed {
        if mask.is_power_of_two() {
            if let Some(session) = &mut self.sessions[mask.trailing_zeros() as usize] {
                return match session.offer(event) {
                    Offered::Filtered => Routed { filtered: mask, ..Routed::default() },
                    Offered::Stored => Routed { stored: mask, ..Routed::default() },
                    Offered::Refused(cause) => {
                        session.refuse(event, cause);
                        Routed { lost: mask, ..Routed::default() }
                    }
                };
            }
        }
        self.route_to_many(mask, event)
    }

    /// As [`route`](Router::route) for a host that can wait. `None`: a session of `patient` enabled the event and has no free buffer,
    /// but will have one when its storage returns buffers. Nothing is counted then.
    pub fn route_or_wait(&mut self, mask: u64, patient: u64, event: &Event<'_>) -> Option<Routed> {
        if mask.is_power_of_two() {
            if let Some(session) = &mut self.sessions[mask.trailing_zeros() as usize] {
                return match session.offer(event) {
                    Offered::Filtered => Some(Routed { filtered: mask, ..Routed::default() }),
                    Offered::Stored => Some(Routed { stored: mask, ..Routed::default() }),
                    Offered::Refused(Cause::SessionFull)
                        if mask & patient != 0 && session.is_storing() =>
                    {
                        None
                    }
                    Offered::Refused(cause) => {
                        session.refuse(event, cause);
                        Some(Routed { lost: mask, ..Routed::default() })
                    }
                };
            }
        }
        self.can_take(mask & patient, event).then(|| self.route_to_many(mask, event))
    }

    /// Stores an event in all its sessions, if they ask for nothing unusual and their buffers have space. Returns whether it
    /// did; otherwise nothing is counted, and [`route_or_wait`](Router::route_or_wait) decides.
    #[inline(always)]
    pub fn put_shaped(&mut self, mask: u64, event: &Shaped<'_>) -> bool {
        if mask.is_power_of_two() {
            if let Some(session) = &mut self.sessions[mask.trailing_zeros() as usize] {
                return session.put_shaped(event);
            }
        }
        self.put_shaped_in_many(mask, event)
    }

    #[inline(never)]
    fn put_shaped_in_many(&mut self, mask: u64, event: &Shaped<'_>) -> bool {
        let taking = self.masked(mask).filter(|(_, session)| session.takes_shaped(event)).count();
        if taking == 0 || taking as u32 != mask.count_ones() {
            return false;
        }
        self.masked(mask).for_each(|(_, session)| _ = session.store_shaped(event));
        true
    }

    /// [`put_shaped`](Router::put_shaped), then [`route_or_wait`](Router::route_or_wait).
    #[inline]
    pub fn route_shaped_or_wait(
        &mut self,
        mask: u64,
        patient: u64,
        event: &Shaped<'_>,
    ) -> Option<Routed> {
        if self.put_shaped(mask, event) {
            return Some(Routed { stored: mask, ..Routed::default() });
        }
        self.route_or_wait(mask, patient, &event.event())
    }

    fn can_take(&mut self, mask: u64, event: &Event<'_>) -> bool {
        self.masked(mask).all(|(_, session)| {
            let Some(size) = session.wanted_size(event) else { return true };
            session.has_room(event.cpu, size) != Err(Cause::SessionFull) || !session.is_storing()
        })
    }

    fn route_to_many(&mut self, mask: u64, event: &Event<'_>) -> Routed {
        let mut routed = Routed::default();
        let mut refused: [Option<Cause>; SLOTS] = [None; SLOTS];
        let mut is_refused = false;
        let mut wanting = 0u64;
        for (slot, session) in self.masked(mask) {
            let Some(size) = session.wanted_size(event) else {
                session.count_filtered();
                routed.filtered |= 1 << slot;
                continue;
            };
            wanting |= 1 << slot;
            refused[slot] = session.has_room(event.cpu, size).err();
            is_refused |= refused[slot].is_some() && !session.is_independent();
        }
        for (slot, session) in self.masked(wanting) {
            let held_up = is_refused && !session.is_independent();
            match refused[slot].or(held_up.then_some(Cause::AllOrNone)) {
                None => {
                    session.push_admitted(event);
                    routed.stored |= 1 << slot;
                }
                Some(cause) => {
                    session.refuse(event, cause);
                    routed.lost |= 1 << slot;
                }
            }
        }
        routed
    }
}

/// A session's outcome for one event.
enum Offered {
    Filtered,
    Stored,
    /// Nothing is counted yet.
    Refused(Cause),
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// True if the enablement and its filters let the event pass.
    #[inline]
    pub fn wants(&self, event: &Event<'_>) -> bool {
        self.wanted(event).is_some()
    }

    #[inline]
    fn wanted(&self, event: &Event<'_>) -> Option<&EnableInfo> {
        let descriptor = &event.descriptor;
        self.enabled_for(event).filter(|info| {
            (event.classic.is_some() || info.wanted.matches(descriptor.level, descriptor.keyword))
                && !(event.in_private
                    && info.properties.contains(EnableProperties::EXCLUDE_INPRIVATE))
                && info.filters.as_ref().is_none_or(|filters| filters.pass(event))
        })
    }

    /// Bytes that an event takes if it is wanted.
    fn wanted_size(&self, event: &Event<'_>) -> Option<usize> {
        let mut items = ExtraItems::default();
        items.find(self.wanted(event)?, event, self.largest_event());
        Some(event.size(items.as_slice()))
    }

    fn offer(&mut self, event: &Event<'_>) -> Offered {
        let Some(info) = self.wanted(event) else {
            self.count_filtered();
            return Offered::Filtered;
        };
        let mut items = ExtraItems::default();
        items.find(info, event, self.largest_event());
        let size = event.size(items.as_slice());
        match self.has_room(event.cpu, size) {
            Ok(()) => {
                self.put_counted(event, &items, size);
                Offered::Stored
            }
            Err(cause) => Offered::Refused(cause),
        }
    }

    fn count_filtered(&mut self) {
        let ledger = self.ledger_mut();
        ledger.attempted += 1;
        ledger.filtered += 1;
    }
}
