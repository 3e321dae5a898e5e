//! Classic providers: one session at a time, the one that enabled the provider last.

use std::sync::atomic::{AtomicU32, Ordering};

use etw_types::{Guid, Keyword, Level, LevelKeyword, StackFilter, Status};

use super::Provider;

/// The enablement of a classic provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassicEnable {
    /// The session's last request.
    pub wanted: LevelKeyword,
    /// The request with which the session took the provider.
    pub first: LevelKeyword,
    /// The time of the last request, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) since: u64,
    /// Counts requests: each has another number.
    pub number: u64,
}

impl Default for ClassicEnable {
    fn default() -> ClassicEnable {
        ClassicEnable::NONE
    }
}

impl ClassicEnable {
    pub(super) const NONE: ClassicEnable =
        ClassicEnable { wanted: LevelKeyword::ALL, first: LevelKeyword::ALL, since: 0, number: 0 };
}

/// The last number of a classic provider's session; the next one gets 1.
pub(crate) const MAX_SERIAL: u32 = (1 << 13) - 1;

impl Provider {
    /// A classic provider.
    pub(crate) fn classic(id: Guid) -> Provider {
        Provider { is_classic: true, ..Provider::new("", id, &[]) }
    }

    pub(crate) fn is_classic(&self) -> bool {
        self.is_classic
    }

    /// The number of a classic provider's session.
    #[inline]
    pub(crate) fn serial(&self) -> u32 {
        self.serial.load(Ordering::Acquire)
    }

    /// The route to a classic provider's session; 0 without one. The slot lets every event pass, so no level is compared.
    #[inline(always)]
    pub(crate) fn classic_route(&self) -> u64 {
        match self.active.load(Ordering::Acquire) {
            0 => 0,
            1 => self.slots[0].route.load(Ordering::Relaxed),
            _ => self.routes(Level(0), Keyword(0)),
        }
    }

    /// The enablement of a classic provider; `None` without a session.
    pub(crate) fn classic_enable(&self) -> Option<ClassicEnable> {
        let state = self.state();
        (self.classic_route() != 0).then_some(state.classic)
    }

    /// [`set_slot`](Self::set_slot) for a request made at `since`; whether it changed anything. For a classic provider, the newest
    /// request holds, in whatever order requests arrive.
    ///
    /// # Errors
    /// `ERROR_NO_SYSTEM_RESOURCES` for a ninth session.
    pub(crate) fn want(
        &self,
        route: u64,
        wanted: &LevelKeyword,
        stacks: Option<&StackFilter>,
        since: u64,
    ) -> Result<bool, Status> {
        if !self.is_classic {
            return self.set_slot(route, wanted, stacks).map(|()| true);
        }
        let mut state = self.state();
        let enable = &mut state.classic;
        if since < enable.since {
            return Ok(false);
        }
        let is_there = self.classic_route() == route;
        // A host that was replaced repeats its requests.
        if is_there && since == enable.since && *wanted == enable.wanted {
            return Ok(false);
        }
        let first = if is_there { enable.first } else { *wanted };
        *enable = ClassicEnable { wanted: *wanted, first, since, number: enable.number + 1 };
        if !is_there {
            static LAST: AtomicU32 = AtomicU32::new(0);
            let serial = LAST.fetch_add(1, Ordering::Relaxed) % MAX_SERIAL + 1;
            self.clear_slots(u64::MAX);
            self.serial.store(serial, Ordering::Release);
            self.set_slot(route, &LevelKeyword::ALL, None)?;
        }
        Ok(true)
    }
}
