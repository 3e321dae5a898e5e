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

    /// The slot's routes if its sessions want such an event, else 0: the rule of [`LevelKeyword::matches`](etw_types::LevelKeyword::matches).
    /// Each word is loaded where it decides, since the compiler keeps every atomic load.
    #[inline(always)]
    pub(super) fn route_of(&self, level: Level, keyword: Keyword) -> u64 {
        let load = |mask: &AtomicU64| mask.load(Ordering::Relaxed);
        if keyword.0 != 0 && keyword.0 & load(&self.any) == 0 {
            return 0;
        }
        let own = self.level.load(Ordering::Relaxed);
        let keyword_passes = match keyword.0 {
            0 => own & 0x100 == 0,
            keyword => {
                let all = load(&self.all);
                keyword & all == all
            }
        };
        match keyword_passes && level.0 <= own as u8 {
            true => load(&self.route),
            false => 0,
        }
    }

    /// [`route_of`](Self::route_of) an event whose level the slot wants, if the slot [is simple](Self::simple_level).
    #[inline(always)]
    pub(super) fn simple_route_of(&self, keyword: Keyword) -> u64 {
        match keyword.0 != 0 && keyword.0 & self.any.load(Ordering::Relaxed) == 0 {
            true => 0,
            false => self.route.load(Ordering::Relaxed),
        }
    }

    /// The most verbose level plus one if level and any-mask say all that the slot's sessions want, else 0.
    pub(super) fn simple_level(&self) -> u32 {
        let Wanted { level, all, ignore_keyword_0, .. } = self.load();
        match all.0 == 0 && !ignore_keyword_0 {
            true => u32::from(level.0) + 1,
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

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::LevelKeyword;

    /// OV-8, OV-9: a slot gives the answer of the rule.
    #[test]
    fn a_slot_passes_the_events_of_its_rule() {
        let masks = [0, 1, 2, 3, 1 << 63, u64::MAX];
        let mut simple = 0;
        for (level, any, all, ignore_keyword_0) in [0, 1, 3, 254, 255]
            .into_iter()
            .flat_map(|level| masks.map(|any| (level, any)))
            .flat_map(|(level, any)| masks.map(|all| (level, any, all)))
            .flat_map(|(level, any, all)| [false, true].map(|flag| (level, any, all, flag)))
        {
            let rule = LevelKeyword {
                level: Level(level),
                any: Keyword(any),
                all: Keyword(all),
                ignore_keyword_0,
            };
            let slot = Slot::new();
            slot.store(&Enablement { wanted: rule.wanted(), stacks: None }, 4);
            for event_level in [0, 1, 2, 3, 4, 254, 255].map(Level) {
                for keyword in masks.map(Keyword) {
                    let expected = if rule.matches(event_level, keyword) { 4 } else { 0 };
                    let of = format!("{rule:?} {event_level:?} {keyword:?}");
                    assert_eq!(slot.route_of(event_level, keyword), expected, "{of}");
                    if u32::from(event_level.0) < slot.simple_level() {
                        assert_eq!(slot.simple_route_of(keyword), expected, "{of}");
                        simple += 1;
                    }
                }
            }
        }
        assert!(simple > 100, "{simple}");
    }
}
