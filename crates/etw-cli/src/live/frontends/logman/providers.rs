//! Providers of `logman`: `-p`, `-pf`, and `query providers`.

use super::super::kernel::is_kernel_provider;
use super::super::{Controller, Enablement, ProviderNames, braced};
use super::{DONE, TABLE};
use crate::format::safe;
use crate::frontends::answer::{print, usage};
use crate::frontends::words::number;
use crate::live::options::resolve;
use crate::live::provider::add_installed;
use crate::live::wanted::Named;
use crate::output::{Failure, Outcome};
use crate::schemas;
use etw_decode::manifest::KeywordName;
use etw_types::{Guid, Keyword, Level};
use etw_wire::requests::ProviderStatus;
use std::fmt::Write;

/// `PROVIDER [KEYWORDS [LEVEL]]`. Keywords and levels that are not given are all of them: logman shows level 255 for that.
pub fn enablement(
    provider: &str,
    keywords: Option<&str>,
    level: Option<&str>,
) -> Result<Enablement, Failure> {
    if is_kernel_provider(provider) {
        let what = format!("{provider}: give it with its flags when the session starts");
        return Err(TABLE.wrong("p", what));
    }
    let any = match keywords {
        None => 0,
        Some(text) => number(text).ok_or_else(|| {
            let what = format!("{text:?} is not a mask of keywords; give a number such as 0x10");
            TABLE.wrong("p", what)
        })?,
    };
    let level = match level {
        None => u8::MAX,
        Some(text) => level_of(text).ok_or_else(|| {
            let what =
                format!("{text:?} is not a level; give 0 to 255, or win:Critical to win:Verbose");
            TABLE.wrong("p", what)
        })?,
    };
    Enablement::parse(provider, Level(level), Keyword(any))
}

pub fn level_of(text: &str) -> Option<u8> {
    match number(text) {
        Some(number) => u8::try_from(number).ok(),
        None => {
            let lower = text.to_ascii_lowercase();
            crate::live::wanted::level(lower.strip_prefix("win:")?).ok()
        }
    }
}

/// The lines of a file of providers: `{GUID} flags level name`, or a name instead of the GUID.
pub fn enablements_of_file(path: &str, text: &str) -> Result<Vec<Enablement>, Failure> {
    let mut all = Vec::new();
    for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
        if line.is_empty() {
            continue;
        }
        let (provider, rest) = match line.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(|| {
                TABLE.wrong("pf", format!("{path}: a quotation mark is missing: {line}"))
            })?,
            None => line.split_once(char::is_whitespace).unwrap_or((line, "")),
        };
        let mut rest = rest.split_whitespace();
        // The rest of the line is a name for people.
        all.push(enablement(provider, rest.next(), rest.next())?);
    }
    match all.is_empty() {
        true => Err(TABLE.wrong("pf", format!("{path}: the file contains no provider"))),
        false => Ok(all),
    }
}

/// The tables of keywords and levels, as far as a manifest of the user's describes the provider.
fn put_keywords_and_levels(text: &mut String, id: &Guid) {
    let own = schemas::own();
    // Writing to a String cannot fail.
    let keywords = own.keywords_of(id);
    if !keywords.is_empty() {
        let _ = write!(text, "\n{:<20}{:<21}Description\n{:-<79}\n", "Value", "Keyword", "");
        for KeywordName { mask, name } in keywords {
            let _ = writeln!(text, "{:<20}{}", format!("{mask:#018x}"), safe(&name));
        }
    }
    let mut levels: Vec<(u8, &str)> = own
        .events_of(id)
        .into_iter()
        .filter_map(|event| {
            let name = event.level?;
            let name = name.strip_prefix("win:").unwrap_or(&name).to_ascii_lowercase();
            LEVELS.into_iter().find(|(_, known)| known[4..].eq_ignore_ascii_case(&name))
        })
        .collect();
    levels.sort();
    levels.dedup();
    if levels.is_empty() {
        levels = LEVELS.to_vec();
    }
    let _ = write!(text, "\n{:<20}{:<21}Description\n{:-<79}\n", "Value", "Level", "");
    for (value, name) in levels {
        let _ = writeln!(text, "{:<20}{name:<21}{}", format!("{value:#04x}"), &name[4..]);
    }
}

/// Windows' own levels.
const LEVELS: [(u8, &str); 5] = [
    (1, "win:Critical"),
    (2, "win:Error"),
    (3, "win:Warning"),
    (4, "win:Informational"),
    (5, "win:Verbose"),
];

/// `query providers`: all registered, enabled or installed providers, those of a process, or one with its processes.
pub fn show(name: Option<String>, pid: Option<u32>) -> Result<Outcome, Failure> {
    let controller = Controller::if_there()?;
    let mut known = controller.as_ref().map_or(Ok(Vec::new()), Controller::providers)?;
    add_installed(&mut known);
    let names = ProviderNames::of(known.clone());
    let mut text = format!("\n{:<41}{}\n{:-<79}\n", "Provider", "GUID", "");
    let mut row = |id: &Guid| {
        let guid = braced(id);
        let name = names.get(id).unwrap_or(&guid);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<41}{guid}", safe(name));
    };
    let Some(name) = name else {
        let mut shown: Vec<&ProviderStatus> =
            known.iter().filter(|each| pid.is_none_or(|pid| each.pids.contains(&pid))).collect();
        shown.sort_by_key(|each| names.get(&each.id).unwrap_or("{").to_lowercase());
        shown.iter().for_each(|each| row(&each.id));
        return print(&format!("{text}\n{DONE}"));
    };
    if pid.is_some() {
        return Err(
            TABLE.wrong("pid", "it lists the providers of a process; give it without a name")
        );
    }
    let named: Named = name.parse().map_err(|error| usage(format!("{name:?}: {error}")))?;
    let id = resolve(&named, controller.as_ref().map(|c| &c.client))?;
    row(&id);
    let pids = known.iter().find(|each| each.id == id).map_or(&[][..], |each| &each.pids);
    put_keywords_and_levels(&mut text, &id);
    let _ = write!(text, "\n{:<20}Image\n{:-<79}\n", "PID", "");
    for pid in pids {
        let image = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let row = format!("{:<20}{}", format!("{pid:#010x}"), safe(&image.to_string_lossy()));
        let _ = writeln!(text, "{}", row.trim_end());
    }
    print(&format!("{text}\n\n{DONE}"))
}
