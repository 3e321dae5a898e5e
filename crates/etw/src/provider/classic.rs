//! Classic providers: one session at a time, the one that asked last.

use std::sync::atomic::{AtomicU32, Ordering};

use etw_types::{Guid, LevelKeyword, StackFilter, Status};

use super::Provider;

/// What the session of a classic provider asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassicWish {
    /// As it was asked for.
    pub wanted: LevelKeyword,
    /// What the same session asked for when it took the provider.
    pub first: LevelKeyword,
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) since: u64,
    /// Another number for each wish.
    pub number: u64,
}

impl Default for ClassicWish {
    fn default() -> ClassicWish {
        ClassicWish::NONE
    }
}

impl ClassicWish {
    pub(super) const NONE: ClassicWish =
        ClassicWish { wanted: LevelKeyword::ALL, first: LevelKeyword::ALL, since: 0, number: 0 };
}

/// Numbers of sessions of classic providers begin again after this.
pub(crate) const MAX_SERIAL: u32 = (1 << 13) - 1;

impl Provider {
    /// A classic provider.
    pub(crate) fn classic(id: Guid) -> Provider {
        Provider { is_classic: true, ..Provider::new("", id, &[]) }
    }

    pub(crate) fn is_classic(&self) -> bool {
        self.is_classic
    }

    /// Of a classic provider: the number of its session.
    #[inline]
    pub(crate) fn serial(&self) -> u32 {
        self.serial.load(Ordering::Acquire)
    }

    /// Of a classic provider: what its session wants; `None` without one.
    pub(crate) fn classic_wish(&self) -> Option<ClassicWish> {
        let state = self.state();
        (self.routes(0, 0) != 0).then_some(state.classic)
    }

    /// As [`set_slot`](Self::set_slot), for a wish that is as old as it says; whether that changed anything. Of a classic provider, the
    /// newest wish holds.
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
        let wish = &mut state.classic;
        if since < wish.since {
            return Ok(false);
        }
        let is_there = self.routes(0, 0) == route;
        // One that is told again, by a host that has been replaced.
        if is_there && since == wish.since && *wanted == wish.wanted {
            return Ok(false);
        }
        let first = if is_there { wish.first } else { *wanted };
        *wish = ClassicWish { wanted: *wanted, first, since, number: wish.number + 1 };
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
