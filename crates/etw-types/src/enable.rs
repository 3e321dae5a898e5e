//! What a session asks of a provider, as far as level and keyword go: one rule for providers and sessions.

/// Level and keyword masks of one session's enablement, or of all of them together.
///
/// An event passes when its level does and its keyword does. Level: the session's is 0 (all), or the event's is not
/// above it; level 0 passes always. Keyword: an event without one passes, unless `ignore_keyword_0`; `any` 0 passes
/// everything (`all` is then not looked at); else one bit of `any` and every bit of `all` must be there.
///
/// Source: the documentation of `EnableTraceEx2` and `TraceLoggingProviderEnabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct LevelKeyword {
    /// Most verbose level that passes; 0 and 255 pass all.
    pub level: u8,
    /// `MatchAnyKeyword`.
    pub any: u64,
    /// `MatchAllKeyword`.
    pub all: u64,
    /// `EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0`: events without a keyword do not pass.
    pub ignore_keyword_0: bool,
}

impl LevelKeyword {
    /// Everything passes.
    pub const ALL: LevelKeyword =
        LevelKeyword { level: 0, any: 0, all: 0, ignore_keyword_0: false };

    /// Does an event of this level and keyword pass?
    #[inline(always)]
    pub const fn matches(&self, level: u8, keyword: u64) -> bool {
        let level_passes = self.level == 0 || level <= self.level;
        let keyword_passes = if keyword == 0 {
            !self.ignore_keyword_0
        } else {
            self.any == 0 || keyword & self.any != 0 && keyword & self.all == self.all
        };
        level_passes && keyword_passes
    }
}

/// A [`LevelKeyword`] in the form in which a write asks it: no value with a meaning of its own, so fewer branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Most verbose level that passes.
    pub level: u8,
    /// One of these bits must be there, of a keyword that is not 0.
    pub any: u64,
    /// All of these too.
    pub all: u64,
    /// Events without a keyword do not pass.
    pub ignore_keyword_0: bool,
}

impl LevelKeyword {
    /// The same rule without special values.
    pub const fn wanted(&self) -> Wanted {
        let level = if self.level == 0 { u8::MAX } else { self.level };
        let (any, all) = if self.any == 0 { (u64::MAX, 0) } else { (self.any, self.all) };
        Wanted { level, any, all, ignore_keyword_0: self.ignore_keyword_0 }
    }
}

impl Wanted {
    /// As [`LevelKeyword::matches`].
    #[inline(always)]
    pub const fn matches(&self, level: u8, keyword: u64) -> bool {
        let keyword_passes = if keyword == 0 {
            !self.ignore_keyword_0
        } else {
            keyword & self.any != 0 && keyword & self.all == self.all
        };
        level <= self.level && keyword_passes
    }
}

impl Default for LevelKeyword {
    fn default() -> LevelKeyword {
        LevelKeyword::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-8, OV-9: level 0 passes every filter, keyword 0 too unless the session ignores it; any- and all-masks.
    #[test]
    fn the_rule() {
        let of =
            |level, any, all, ignore_keyword_0| LevelKeyword { level, any, all, ignore_keyword_0 };
        for (session, level, keyword, passes) in [
            (of(0, 0, 0, false), 255, 8, true),
            (of(3, 0, 0, false), 3, 8, true),
            (of(3, 0, 0, false), 4, 8, false),
            (of(3, 0, 0, false), 0, 8, true),
            (of(3, 0, 4, false), 3, 8, true),
            (of(3, 6, 0, false), 3, 8, false),
            (of(3, 6, 0, false), 3, 4, true),
            (of(3, 6, 3, false), 3, 2, false),
            (of(3, 6, 3, false), 3, 3, true),
            (of(3, 6, 3, false), 3, 0, true),
            (of(3, 6, 3, true), 3, 0, false),
            (of(3, 0, 0, true), 3, 0, false),
            (of(3, 0, 0, true), 3, 1 << 63, true),
        ] {
            assert_eq!(session.matches(level, keyword), passes, "{session:?} {level} {keyword}");
        }
    }

    /// OV-8, OV-9: both forms are one rule.
    #[test]
    fn wanted_is_the_same_rule() {
        let masks = [0, 1, 2, 3, 1 << 63, u64::MAX];
        for (level, any, all, ignore_keyword_0) in [0, 1, 3, 254, 255]
            .into_iter()
            .flat_map(|level| masks.map(|any| (level, any)))
            .flat_map(|(level, any)| masks.map(|all| (level, any, all)))
            .flat_map(|(level, any, all)| [false, true].map(|flag| (level, any, all, flag)))
        {
            let rule = LevelKeyword { level, any, all, ignore_keyword_0 };
            for event_level in [0, 1, 2, 3, 4, 254, 255] {
                for keyword in masks {
                    assert_eq!(
                        rule.wanted().matches(event_level, keyword),
                        rule.matches(event_level, keyword),
                        "{rule:?} {event_level} {keyword:#x}"
                    );
                }
            }
        }
    }
}
