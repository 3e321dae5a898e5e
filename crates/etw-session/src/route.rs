use crate::event::Event;
use crate::ledger::Cause;
use crate::session::Session;

/// Sessions behind one stream of events.
pub const SLOTS: usize = 8;

/// Up to eight sessions, each in the slot that writers know it by.
#[derive(Debug)]
pub struct Router<B> {
    sessions: [Option<Session<B>>; SLOTS],
}

impl<B> Default for Router<B> {
    fn default() -> Router<B> {
        Router { sessions: [const { None }; SLOTS] }
    }
}

/// What became of one event: a mask of session slots for each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// In a buffer.
    pub stored: u8,
    /// Not wanted.
    pub filtered: u8,
    /// Counted as lost.
    pub lost: u8,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Router<B> {
    /// Puts a session into a slot; what was there comes back.
    pub fn insert(&mut self, slot: usize, session: Session<B>) -> Option<Session<B>> {
        self.sessions[slot].replace(session)
    }

    /// Takes a session out.
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

    /// Would routing find room in every session of `mask` that has to wait for its storage? Counts nothing.
    ///
    /// `false`: a session has no free buffer now, but will have when what it handed out comes back.
    #[inline]
    pub fn can_take(&mut self, mask: u8, event: &Event<'_>) -> bool {
        let mut left = mask;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(session) = &mut self.sessions[slot] {
                let mut items: [&[u8]; 3] = [&[]; 3];
                let size = event.size(session.extra(event, &mut items));
                if session.has_room(event.cpu, size) == Err(Cause::SessionFull)
                    && session.is_storing()
                {
                    return false;
                }
            }
        }
        true
    }

    /// Gives an event to the sessions of `mask`: to all that want it or to none, but for independent ones, which neither hold
    /// others up nor are held up by them.
    #[inline]
    pub fn route(&mut self, mask: u8, event: &Event<'_>) -> Routed {
        if mask.is_power_of_two()
            && let Some(session) = &mut self.sessions[mask.trailing_zeros() as usize]
        {
            return match session.wants(event) {
                false => {
                    session.count_filtered();
                    Routed { filtered: mask, ..Routed::default() }
                }
                true => match session.push(event) {
                    Ok(()) => Routed { stored: mask, ..Routed::default() },
                    Err(_) => Routed { lost: mask, ..Routed::default() },
                },
            };
        }
        self.route_to_many(mask, event)
    }

    fn route_to_many(&mut self, mask: u8, event: &Event<'_>) -> Routed {
        let mut routed = Routed::default();
        let mut refused: [Option<Cause>; SLOTS] = [None; SLOTS];
        let mut is_refused = false;
        let mut wanting = 0u8;
        for (slot, session) in self.iter_mut().filter(|(slot, _)| mask & 1 << slot != 0) {
            if !session.wants(event) {
                session.count_filtered();
                routed.filtered |= 1 << slot;
                continue;
            }
            wanting |= 1 << slot;
            let mut items: [&[u8]; 3] = [&[]; 3];
            let size = event.size(session.extra(event, &mut items));
            refused[slot] = session.has_room(event.cpu, size).err();
            is_refused |= refused[slot].is_some() && !session.options().independent;
        }
        for (slot, session) in self.iter_mut().filter(|(slot, _)| wanting & 1 << slot != 0) {
            let held_up = is_refused && !session.options().independent;
            match refused[slot].or(held_up.then_some(Cause::AllOrNone)) {
                None => {
                    let mut items: [&[u8]; 3] = [&[]; 3];
                    let extra = session.extra(event, &mut items);
                    let size = event.size(extra);
                    session.push_admitted(event, extra, size);
                    routed.stored |= 1 << slot;
                }
                Some(cause) => {
                    session.ledger_mut().attempted += 1;
                    session.lose(event, cause);
                    routed.lost |= 1 << slot;
                }
            }
        }
        routed
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// Do enablement and filters let the event pass?
    #[inline]
    pub fn wants(&self, event: &Event<'_>) -> bool {
        let descriptor = &event.descriptor;
        self.enabled(&event.provider).is_some_and(|info| {
            info.wanted.matches(descriptor.level.0, descriptor.keyword.0)
                && info.filters.as_ref().is_none_or(|filters| filters.pass(event))
        })
    }

    fn count_filtered(&mut self) {
        let ledger = self.ledger_mut();
        ledger.attempted += 1;
        ledger.filtered += 1;
    }
}
