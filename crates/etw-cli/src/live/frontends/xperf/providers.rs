//! `-on` of `xperf`: providers with keywords, level and added items.

use super::super::Enablement;
use super::super::kernel::is_flag;
use super::TABLE;
use crate::frontends::words::number;
use crate::output::Failure;
use etw_host::EnableProperties;
use etw_types::{Keyword, Level};

/// `PROVIDER[:KEYWORDS[:LEVEL[:ITEMS]]]` with `+` between. Parts that are missing are everything (a guess: xperf's
/// documentation does not say).
pub fn enablements(option: &str, text: &str) -> Result<Vec<Enablement>, Failure> {
    text.split('+').map(|text| enablement(option, text)).collect()
}

fn enablement(option: &str, text: &str) -> Result<Enablement, Failure> {
    let wrong = |what: String| TABLE.wrong(option, what);
    let mut parts = text.split(':');
    let provider = parts.next().unwrap_or_default();
    if is_flag(provider) {
        return Err(wrong(format!("{provider} is a flag or group of the kernel; -start takes it")));
    }
    let mut number_of = |what: &str| match parts.next().filter(|part| !part.is_empty()) {
        None => Ok(None),
        Some(part) => number(part).map(Some).ok_or_else(|| {
            wrong(format!("{text}: {part:?} is not a {what}; give a number such as 0x10"))
        }),
    };
    let any = number_of("mask")?.unwrap_or(0);
    let level = number_of("level")?.unwrap_or(u64::from(u8::MAX));
    let level = u8::try_from(level)
        .map_err(|_| wrong(format!("{text}: level {level} is too large; levels are 0 to 255")))?;
    let mut properties = 0;
    // The quotes protect the list from Windows' shell.
    let items = parts.next().map(|items| items.trim_matches('\'')).into_iter();
    for item in items.flat_map(|items| items.split(',')) {
        properties |= match item.trim().to_ascii_lowercase().as_str() {
            "stack" => EnableProperties::STACK_TRACE.0,
            "sid" => EnableProperties::SID.0,
            "tsid" => EnableProperties::TS_ID.0,
            _ => {
                let what =
                    format!("{text}: {item:?} cannot be added to events; stack, sid and tsid can");
                return Err(wrong(what));
            }
        };
    }
    if let Some(more) = parts.next() {
        let what =
            format!("{text}: {more:?} is too much; the form is PROVIDER:KEYWORDS:LEVEL:'ITEMS'");
        return Err(wrong(what));
    }
    let mut enablement = Enablement::parse(provider, Level(level), Keyword(any))?;
    enablement.info.properties = EnableProperties(properties);
    Ok(enablement)
}
