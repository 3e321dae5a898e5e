//! `-guid` of `tracelog`: providers by GUID, by name, and in files of GUIDs.

use super::TABLE;
use crate::frontends::words::number;
use crate::live::wanted::Named;
use crate::output::Failure;
use etw_types::Guid;

/// A provider of `-guid`.
#[derive(Debug)]
pub enum Source {
    One(Named),
    /// A line of a file, with keywords and level of its own.
    Line {
        id: Guid,
        any: Option<u64>,
        level: Option<u8>,
    },
}

impl Source {
    pub fn named(&self) -> Named {
        match self {
            Source::One(named) => named.clone(),
            Source::Line { id, .. } => Named::Id(*id),
        }
    }
}

/// `#GUID`, `*NAME`, a system provider by its name, or the lines of a file.
pub fn sources(text: &str) -> Result<Vec<Source>, Failure> {
    let wrong = |what: String| TABLE.wrong("guid", what);
    if let Some(id) = text.strip_prefix('#') {
        let id = id.trim_matches(['{', '}']).parse().map_err(|_| {
            wrong(format!("{text} is not a GUID: #xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"))
        })?;
        return Ok(vec![Source::One(Named::Id(id))]);
    }
    if text.starts_with('*') {
        let named = text.parse().map_err(|error| wrong(format!("{text}: {error}")))?;
        return Ok(vec![Source::One(named)]);
    }
    if let Ok(named) = text.parse::<Named>()
        && named.is_of_system()
    {
        return Ok(vec![Source::One(named)]);
    }
    let lines = std::fs::read_to_string(text).map_err(|error| {
        wrong(format!("{text}: {error}; write a GUID as #GUID, and a provider's name as *NAME"))
    })?;
    let mut all = Vec::new();
    for (at, line) in lines.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        let bad = || {
            wrong(format!("{text}, line {}: not of the form GUID;MATCHANYKEYWORD;LEVEL", at + 1))
        };
        // Control GUID files have a name behind the GUID.
        let mut parts = line.split_whitespace().next().unwrap_or(line).split(';');
        let id = parts.next().unwrap_or_default().trim_start_matches('#').trim_matches(['{', '}']);
        let mut number_of = || match parts.next().filter(|part| !part.is_empty()) {
            Some(part) => number(part).map(Some).ok_or_else(bad),
            None => Ok(None),
        };
        let (any, level) = (number_of()?, number_of()?);
        let level = level.map(|level| u8::try_from(level).unwrap_or(u8::MAX));
        all.push(Source::Line { id: id.parse().map_err(|_| bad())?, any, level });
    }
    match all.is_empty() {
        true => Err(wrong(format!("{text}: the file contains no GUID"))),
        false => Ok(all),
    }
}
