//! A slot of a provider: one enablement, and the routes of all sessions that ask for just this one.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use etw_types::{Keyword, Level, StackFilter, Wanted};

/// The enablement that the sessions of a slot have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Enablement {
    pub wanted: Wanted,
    /// The events that get a call stack.
    pub stacks: Option<&'static StackFilter>,
}

#[derive(Debug)]
pub(super) struct Slot {
    /// Level, and 0x100 for `ignore_keyword_0`.
    pub(super) level: AtomicU32,
    pub(super) any: AtomicU64,
    pub(super) all: AtomicU64,
    /// A bit for each session: attachment × 8 + session slot.
    pub(super) route: AtomicU64,
    /// The filter of events that get a call stack; null: no event gets one.
    pub(super) stacks: AtomicPtr<StackFilter>,
}

impl Slot {
    pub(super) const fn new() -> Slot {
        Slot {
            level: AtomicU32::new(0),
            any: AtomicU64::new(0),
            all: AtomicU64::new(0),
            route: AtomicU64::new(0),
            stacks: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    pub(super) fn stacks(&self) -> Option<&'static StackFilter> {
        // SAFETY: null, or a filter that is never freed (`stacks::intern`).
        unsafe { self.stacks.load(Ordering::Acquire).as_ref() }
    }

    pub(super) fn is_for(&self, enablement: &Enablement) -> bool {
        self.load() == enablement.wanted && self.stacks() == enablement.stacks
    }

    #[inline(always)]
    pub(super) fn load(&self) -> Wanted {
        let level = self.level.load(Ordering::Relaxed);
        Wanted {
            level: Level(level as u8),
            any: Keyword(self.any.load(Ordering::Relaxed)),
            all: Keyword(self.all.load(Ordering::Relaxed)),
            ignore_keyword_0: level & 0x100 != 0,
        }
    }

    /// The slot's routes if its sessions want such an event, else 0.
    #[inline(always)]
    pub(super) fn route_of(&self, level: Level, keyword: Keyword) -> u64 {
        match self.load().matches(level, keyword) {
            true => self.route.load(Ordering::Relaxed),
            false => 0,
        }
    }

    pub(super) fn store(&self, Enablement { wanted, stacks }: &Enablement, route: u64) {
        let stacks =
            stacks.map_or(std::ptr::null_mut(), |filter| std::ptr::from_ref(filter).cast_mut());
        self.stacks.store(stacks, Ordering::Release);
        let flag = u32::from(wanted.ignore_keyword_0) << 8;
        self.level.store(u32::from(wanted.level.0) | flag, Ordering::Relaxed);
        self.any.store(wanted.any.0, Ordering::Relaxed);
        self.all.store(wanted.all.0, Ordering::Relaxed);
        self.route.store(route, Ordering::Relaxed);
    }
}
