//! Filters by id, name, level and keyword: one rule for sessions and, for call stacks, for the programs that capture them.

use crate::{Channel, EventDescriptor, Keyword, Level, LevelKeyword, le};

/// A filter by event ids, to include or to exclude.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct IdFilter {
    /// True to include only these, false to exclude them.
    pub include: bool,
    /// At most 64.
    pub ids: Vec<u16>,
}

/// A filter by names of TraceLogging events, to include or to exclude, for events of a level and keyword.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NameFilter {
    /// The events that the filter tests; others pass.
    pub of: LevelKeyword,
    /// True to include only these, false to exclude them.
    pub include: bool,
    /// Exact names.
    pub names: Vec<String>,
}

/// A filter by level and keyword, to include or to exclude.
#[doc(alias = "EVENT_FILTER_LEVEL_KW")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct LevelKeywordFilter {
    /// The level and keyword.
    pub of: LevelKeyword,
    /// True to include only these, false to exclude them.
    pub include: bool,
}

impl IdFilter {
    /// True if an event passes. TraceLogging events, whose ids have no meaning, pass.
    pub fn passes(&self, descriptor: &EventDescriptor, name: Option<&[u8]>) -> bool {
        let is_tracelogging = name.is_some() || descriptor.channel == Channel::TRACE_LOGGING;
        is_tracelogging || self.ids.contains(&descriptor.id) == self.include
    }
}

impl NameFilter {
    /// True if an event passes. Events without TraceLogging metadata pass.
    pub fn passes(&self, descriptor: &EventDescriptor, name: Option<&[u8]>) -> bool {
        let Some(name) = name else { return true };
        !self.of.matches(descriptor.level, descriptor.keyword)
            || self.names.iter().any(|wanted| wanted.as_bytes() == name) == self.include
    }
}

impl LevelKeywordFilter {
    /// True if an event passes.
    pub fn passes(&self, descriptor: &EventDescriptor) -> bool {
        self.of.matches(descriptor.level, descriptor.keyword) == self.include
    }
}

/// Selects the events that get a call stack in sessions with call stacks. An event must pass each filter that is present; an empty
/// `StackFilter` selects all events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct StackFilter {
    /// `EVENT_FILTER_TYPE_STACKWALK`
    pub event_ids: Option<IdFilter>,
    /// `EVENT_FILTER_TYPE_STACKWALK_NAME`
    pub event_names: Option<NameFilter>,
    /// `EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW`
    pub level_keyword: Option<LevelKeywordFilter>,
}

const IDS: u8 = 1;
const IDS_INCLUDE: u8 = 2;
const NAMES: u8 = 4;
const NAMES_INCLUDE: u8 = 8;
const LEVEL: u8 = 16;
const LEVEL_INCLUDE: u8 = 32;
/// Set in every form: a filter is never no bytes.
const IS_THERE: u8 = 128;

impl StackFilter {
    /// True if an event gets a call stack. `name` is the name of a TraceLogging event. Async-signal-safe.
    pub fn passes(&self, descriptor: &EventDescriptor, name: Option<&[u8]>) -> bool {
        self.event_ids.as_ref().is_none_or(|filter| filter.passes(descriptor, name))
            && self.event_names.as_ref().is_none_or(|filter| filter.passes(descriptor, name))
            && self.level_keyword.is_none_or(|filter| filter.passes(descriptor))
    }

    /// The form that hosts send to programs, never empty:
    ///
    /// ```text
    /// u8 128 | 1: ids, 2: only these | 4: names, 8: only these | 16: level and keyword, 32: only these
    /// ids: u8 count, u16 each    names: level and keyword, u8 count, each u16 size and bytes    level and keyword
    /// level and keyword: u8 level, u8 1: ignore keyword 0, u64 any, u64 all
    /// ```
    ///
    /// Ids and names beyond ETW's limits (64 ids, 4096 bytes of names) are omitted.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bits = |there: bool, bit: u8, include: Option<bool>| {
            let include = if include == Some(true) { bit << 1 } else { 0 };
            if there { bit | include } else { 0 }
        };
        let StackFilter { event_ids, event_names, level_keyword } = self;
        let mut out = vec![
            IS_THERE
                | bits(event_ids.is_some(), IDS, event_ids.as_ref().map(|f| f.include))
                | bits(event_names.is_some(), NAMES, event_names.as_ref().map(|f| f.include))
                | bits(level_keyword.is_some(), LEVEL, level_keyword.map(|f| f.include)),
        ];
        if let Some(filter) = event_ids {
            let ids = &filter.ids[..filter.ids.len().min(64)];
            out.push(ids.len() as u8);
            ids.iter().for_each(|id| out.extend(id.to_le_bytes()));
        }
        if let Some(filter) = event_names {
            put_level_keyword(&mut out, &filter.of);
            let mut left = 4096usize;
            let mut fits = |name: &&String| {
                left = left.saturating_sub(name.len() + 1);
                left > 0
            };
            let names: Vec<&String> = filter.names.iter().take(255).take_while(&mut fits).collect();
            out.push(names.len() as u8);
            for name in names {
                out.extend((name.len() as u16).to_le_bytes());
                out.extend(name.as_bytes());
            }
        }
        if let Some(filter) = level_keyword {
            put_level_keyword(&mut out, &filter.of);
        }
        out
    }

    /// Reads the form back. `None` if the bytes are not exactly such a form.
    pub fn read(bytes: &[u8]) -> Option<StackFilter> {
        let flags = *bytes.first()?;
        let known = IDS | IDS_INCLUDE | NAMES | NAMES_INCLUDE | LEVEL | LEVEL_INCLUDE | IS_THERE;
        let orphaned = |bit: u8| flags & bit == 0 && flags & bit << 1 != 0;
        if flags & !known != 0
            || flags & IS_THERE == 0
            || [IDS, NAMES, LEVEL].into_iter().any(orphaned)
        {
            return None;
        }
        let mut at = 1;
        let mut filter = StackFilter::default();
        if flags & IDS != 0 {
            let count = usize::from(*bytes.get(at)?).min(65);
            let all = bytes.get(at + 1..at + 1 + 2 * count).filter(|_| count <= 64)?;
            let ids = all.chunks_exact(2).map(|id| u16::from_le_bytes([id[0], id[1]])).collect();
            filter.event_ids = Some(IdFilter { include: flags & IDS_INCLUDE != 0, ids });
            at += 1 + 2 * count;
        }
        if flags & NAMES != 0 {
            let of = level_keyword(bytes, &mut at)?;
            let count = usize::from(*bytes.get(at)?);
            at += 1;
            let mut names = Vec::new();
            for _ in 0..count {
                let size = usize::from(le::u16(bytes, at)?);
                let name = bytes.get(at + 2..at + 2 + size)?;
                names.push(std::str::from_utf8(name).ok()?.to_owned());
                at += 2 + size;
            }
            let include = flags & NAMES_INCLUDE != 0;
            filter.event_names = Some(NameFilter { of, include, names });
        }
        if flags & LEVEL != 0 {
            let of = level_keyword(bytes, &mut at)?;
            filter.level_keyword =
                Some(LevelKeywordFilter { of, include: flags & LEVEL_INCLUDE != 0 });
        }
        // Only the canonical form is valid, within the limits.
        (at == bytes.len() && filter.to_bytes() == bytes).then_some(filter)
    }
}

fn put_level_keyword(out: &mut Vec<u8>, of: &LevelKeyword) {
    out.extend([of.level.0, u8::from(of.ignore_keyword_0)]);
    out.extend(of.any.0.to_le_bytes());
    out.extend(of.all.0.to_le_bytes());
}

fn level_keyword(bytes: &[u8], at: &mut usize) -> Option<LevelKeyword> {
    let start = std::mem::replace(at, *at + 18);
    Some(LevelKeyword {
        level: Level(*bytes.get(start)?),
        ignore_keyword_0: *bytes.get(start + 1).filter(|flag| **flag <= 1)? == 1,
        any: Keyword(le::u64(bytes, start + 2)?),
        all: Keyword(le::u64(bytes, start + 10)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> StackFilter {
        let of = LevelKeyword {
            level: Level(4),
            any: Keyword(6),
            all: Keyword(2),
            ignore_keyword_0: true,
        };
        let names = vec!["One".to_owned(), String::new()];
        StackFilter {
            event_ids: Some(IdFilter { include: true, ids: vec![1, 0xffff] }),
            event_names: Some(NameFilter { of, include: false, names }),
            level_keyword: Some(LevelKeywordFilter { of, include: true }),
        }
    }

    #[test]
    fn forms_come_back_and_nothing_else_does() {
        let parts = 0..8;
        let forms: Vec<StackFilter> = parts
            .map(|parts| {
                let StackFilter { event_ids, event_names, level_keyword } = full();
                StackFilter {
                    event_ids: event_ids.filter(|_| parts & 1 != 0),
                    event_names: event_names.filter(|_| parts & 2 != 0),
                    level_keyword: level_keyword.filter(|_| parts & 4 != 0),
                }
            })
            .collect();
        for filter in forms {
            let mut bytes = filter.to_bytes();
            assert_eq!(StackFilter::read(&bytes), Some(filter));
            bytes.push(0);
            assert_eq!(StackFilter::read(&bytes), None);
            for size in 0..bytes.len() - 1 {
                assert_eq!(StackFilter::read(&bytes[..size]), None);
            }
        }
        // An unknown bit; "only these" without any.
        assert_eq!(StackFilter::read(&[128 | 64]), None);
        assert_eq!(StackFilter::read(&[128 | 2]), None);
    }

    /// OV-17: filters by id, by name, by level and keyword; an event that a filter does not test passes it.
    #[test]
    fn which_events_get_a_stack() {
        let event = |id, level, keyword| EventDescriptor {
            id,
            level: Level(level),
            keyword: Keyword(keyword),
            ..EventDescriptor::default()
        };
        let ids = |include| StackFilter {
            event_ids: Some(IdFilter { include, ids: vec![7] }),
            ..StackFilter::default()
        };
        let names = |include| StackFilter {
            event_names: Some(NameFilter {
                of: LevelKeyword { level: Level(4), ..LevelKeyword::ALL },
                include,
                names: vec!["A".to_owned()],
            }),
            ..StackFilter::default()
        };
        let levels = |include| StackFilter {
            level_keyword: Some(LevelKeywordFilter {
                of: LevelKeyword { level: Level(3), any: Keyword(2), ..LevelKeyword::ALL },
                include,
            }),
            ..StackFilter::default()
        };
        for (filter, event, name, passes) in [
            (StackFilter::default(), event(1, 5, 1), None, true),
            (ids(true), event(7, 5, 1), None, true),
            (ids(true), event(8, 5, 1), None, false),
            (ids(false), event(7, 5, 1), None, false),
            (ids(true), event(8, 5, 1), Some(&b"A"[..]), true),
            (names(true), event(0, 4, 1), Some(b"A"), true),
            (names(true), event(0, 4, 1), Some(b"B"), false),
            (names(false), event(0, 4, 1), Some(b"A"), false),
            (names(true), event(0, 5, 1), Some(b"B"), true),
            (names(true), event(0, 4, 1), None, true),
            (levels(true), event(0, 3, 2), None, true),
            (levels(true), event(0, 4, 2), None, false),
            (levels(true), event(0, 3, 1), None, false),
            (levels(false), event(0, 3, 1), None, true),
            (levels(false), event(0, 3, 2), None, false),
        ] {
            assert_eq!(filter.passes(&event, name), passes, "{filter:?} {event:?} {name:?}");
        }
    }
}
