//! [`Selector`]: a query or a query list, ready to be run on logs.

use std::ops::RangeInclusive;

use etw_types::FileTime;

use super::screen::Screen;
use super::{Query, QueryList, bounds};
use crate::{Error, Record};

/// The records that a command or a call asks for.
///
/// ```
/// use etw_evtx::query::{Query, Selector};
/// use etw_types::FileTime;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let query: Query = "*[System[EventID=4625]]".parse()?;
/// let selector = Selector::query(query, FileTime(133_000_000_000_000_000));
/// # let _ = selector; Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Selector {
    condition: Condition,
    screen: Option<Screen>,
    ids: RangeInclusive<u64>,
    now: FileTime,
}

#[derive(Clone, Debug)]
enum Condition {
    All,
    Query(Query),
    /// A list, and the path by which it names the log; `None`: it names the channel of each record.
    List(QueryList, Option<String>),
}

impl Selector {
    /// Every record.
    pub fn all() -> Selector {
        Selector { condition: Condition::All, screen: None, ids: 0..=u64::MAX, now: FileTime(0) }
    }

    /// The records that a query selects. `now` is the time that `timediff` with one argument counts to.
    pub fn query(query: Query, now: FileTime) -> Selector {
        let screen = Some(Screen::of(&query, now)).filter(Screen::is_useful);
        let ids = bounds(&query.path);
        Selector { condition: Condition::Query(query), screen, ids, now }
    }

    /// The records that a query list selects. If `path` is given, only the queries of that path apply; otherwise a path in the list
    /// names the channel of a record.
    pub fn list(list: QueryList, path: Option<&str>, now: FileTime) -> Selector {
        let screen = Some(Screen::of_list(&list, now)).filter(Screen::is_useful);
        let ids = 0..=u64::MAX;
        Selector { condition: Condition::List(list, path.map(str::to_owned)), screen, ids, now }
    }

    /// Whether a record is selected.
    ///
    /// # Errors
    /// As [`Query::matches`].
    pub fn matches(&self, record: &Record<'_>) -> Result<bool, Error> {
        match &self.condition {
            Condition::All => Ok(true),
            Condition::Query(query) => query.matches(record, self.now),
            Condition::List(list, Some(path)) => list.matches(path, record, self.now),
            Condition::List(list, None) => {
                let channel = record.system().channel().unwrap_or_default();
                list.matches(&channel, record, self.now)
            }
        }
    }

    /// The range of `EventRecordID` that a match lies in.
    pub(crate) fn ids(&self) -> &RangeInclusive<u64> {
        &self.ids
    }

    pub(crate) fn screen(&self) -> Option<&Screen> {
        self.screen.as_ref()
    }
}
