//! The rule by which level and keyword of an event pass an enablement: one rule for providers and sessions.

use crate::{Keyword, Level};

/// Level and keyword masks of one session's enablement, or of all enablements of a registration together.
///
/// An event passes if both its level and its keyword do.
///
/// * Level: passes if the enablement's level is 0 (all) or not below the event's. An event of level 0 always passes.
/// * Keyword: an event without a keyword passes, unless `ignore_keyword_0` is set. If `any` is 0, every keyword passes and `all` has
///   no effect. Otherwise the event needs at least one bit of `any` and every bit of `all`.
///
/// Source: the documentation of `EnableTraceEx2` and `TraceLoggingProviderEnabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct LevelKeyword {
    /// The most verbose level that passes; 0 and 255 pass all.
    pub level: Level,
    /// `MatchAnyKeyword`.
    pub any: Keyword,
    /// `MatchAllKeyword`.
    pub all: Keyword,
    /// `EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0`: events without a keyword do not pass.
    pub ignore_keyword_0: bool,
}

impl LevelKeyword {
    /// Passes everything.
    pub const ALL: LevelKeyword =
        LevelKeyword { level: Level(0), any: Keyword(0), all: Keyword(0), ignore_keyword_0: false };

    /// Passes events up to `level` that have a keyword of `any`; 0: of any keyword.
    pub const fn new(level: Level, any: Keyword) -> LevelKeyword {
        LevelKeyword { level, any, ..LevelKeyword::ALL }
    }

    /// Whether an event of this level and keyword passes.
    #[inline(always)]
    pub const fn matches(&self, level: Level, keyword: Keyword) -> bool {
        let level_passes = self.level.0 == 0 || level.0 <= self.level.0;
        let keyword_passes = if keyword.0 == 0 {
            !self.ignore_keyword_0
        } else {
            self.any.0 == 0 || keyword.0 & self.any.0 != 0 && keyword.0 & self.all.0 == self.all.0
        };
        level_passes && keyword_passes
    }

    /// The same rule without special values.
    pub const fn wanted(&self) -> Wanted {
        let level = if self.level.0 == 0 { Level(u8::MAX) } else { self.level };
        let (any, all) =
            if self.any.0 == 0 { (Keyword(u64::MAX), Keyword(0)) } else { (self.any, self.all) };
        Wanted { level, any, all, ignore_keyword_0: self.ignore_keyword_0 }
    }
}

impl Default for LevelKeyword {
    fn default() -> LevelKeyword {
        LevelKeyword::ALL
    }
}

/// A [`LevelKeyword`] in the form that a write tests ([`LevelKeyword::wanted`]): without special values, so with fewer branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The most verbose level that passes.
    pub level: Level,
    /// A keyword other than 0 needs one of these bits.
    pub any: Keyword,
    /// A keyword other than 0 needs all of these bits.
    pub all: Keyword,
    /// Events without a keyword do not pass.
    pub ignore_keyword_0: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-8, OV-9: level 0 passes every filter, keyword 0 too unless the session ignores it; any- and all-masks.
    #[test]
    fn level_and_keyword_masks_pass_as_documented() {
        let of = |level, any, all, ignore_keyword_0| LevelKeyword {
            level: Level(level),
            any: Keyword(any),
            all: Keyword(all),
            ignore_keyword_0,
        };
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
            assert_eq!(
                session.matches(Level(level), Keyword(keyword)),
                passes,
                "{session:?} {level} {keyword}"
            );
        }
    }
}
