//! Admission: which sessions of a mask take an event.

use std::sync::atomic::{AtomicU64, Ordering};

use super::thread::ThreadState;
use super::{Refused, Request, Writer};
use crate::control::{FULL, Gate, INDEPENDENT, LARGEST_EVENT_SIZE, OPEN};
use crate::layout::*;

impl Writer {
    pub(super) fn admission(&self, slot: usize) -> &AtomicU64 {
        self.control.word(C_ADMISSION + slot % SESSIONS * 8)
    }

    /// The line of the control page that each write reads.
    #[inline(always)]
    pub(super) fn gate(&self) -> &Gate {
        // SAFETY: `new` set the pointer into `control`, which the writer keeps alive.
        unsafe { &*self.gate }
    }

    /// The sessions that admit the event, or the refusal. Counts the attempts of sessions that refuse, and the losses.
    #[cold]
    #[inline(never)]
    pub(super) fn admit_slow(
        &self,
        request: &Request,
        thread: Option<&ThreadState>,
    ) -> Result<u8, Refused> {
        if self.gate().summary().admits(request.sessions, request.event_size) {
            return match request.sessions {
                0 => Err(Refused::NotWanted),
                sessions => Ok(sessions),
            };
        }
        let judged = self.judge(request);
        let Judged { wanted, admitted, left_out, worst } = judged;
        if wanted == 0 {
            return Err(Refused::NotWanted);
        }
        // Every open session of the mask counts an attempt; the caller counts those that are returned.
        let is_admitted = judged.is_admitted();
        let counted = if is_admitted { wanted & !admitted } else { wanted };
        self.attempted(thread, counted);
        for (slot, cause) in left_out.iter().enumerate() {
            if wanted & 1 << slot == 0 {
                continue;
            }
            match cause {
                Some(cause) => self.lost(thread, request.registration, *cause, 1 << slot),
                None if !is_admitted => {
                    self.lost(thread, request.registration, Cause::AllOrNone, 1 << slot)
                }
                None => {}
            }
        }
        if is_admitted {
            return Ok(admitted);
        }
        self.skip_sequence(thread);
        match worst {
            Some((_, refused)) => Err(refused),
            // Only independent sessions wanted the event, and none admits it: the status is that of a lost event.
            None => Err(Refused::NotEnoughMemory),
        }
    }

    /// Asks each session of the mask whether it admits the event. Counts nothing.
    pub(super) fn judge(&self, request: &Request) -> Judged {
        let mut judged = Judged { wanted: 0, admitted: 0, left_out: [None; SESSIONS], worst: None };
        for (slot, left_out) in judged.left_out.iter_mut().enumerate() {
            if request.sessions & 1 << slot == 0 {
                continue;
            }
            let word = self.admission(slot).load(Ordering::Relaxed);
            if word & OPEN == 0 {
                continue;
            }
            judged.wanted |= 1 << slot;
            let size = request.event_size.saturating_add((word >> 16) as u32 & 0xffff);
            let verdict = if size > LARGEST_EVENT_SIZE {
                (Cause::TooLarge, Refused::ArithmeticOverflow)
            } else if size > (word >> 32) as u32 {
                (Cause::TooLargeForSession, Refused::MoreData)
            } else if word & FULL != 0 {
                (Cause::SessionFull, Refused::NotEnoughMemory)
            } else {
                judged.admitted |= 1 << slot;
                continue;
            };
            *left_out = Some(verdict.0);
            if word & INDEPENDENT == 0 && judged.worst.is_none_or(|w| rank(verdict.0) > rank(w.0)) {
                judged.worst = Some(verdict);
            }
        }
        judged
    }
}

/// The answers of the sessions of an event's mask.
pub(super) struct Judged {
    /// The open sessions.
    wanted: u8,
    /// Those of them that take the event.
    admitted: u8,
    /// Why each other one does not.
    left_out: [Option<Cause>; SESSIONS],
    /// The refusal by which no session gets the event.
    worst: Option<(Cause, Refused)>,
}

impl Judged {
    pub(super) fn is_admitted(&self) -> bool {
        self.worst.is_none() && self.admitted != 0
    }
}

fn rank(cause: Cause) -> u8 {
    match cause {
        Cause::TooLarge => 3,
        Cause::TooLargeForSession => 2,
        _ => 1,
    }
}
