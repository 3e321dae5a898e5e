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
use etw_decode::manifest::{NamedValue, NamedValueKind};
use etw_system::flags::Flag;
use etw_system::system_providers::KERNEL_PROVIDER;
use etw_types::winmeta::{self, Predefined};
use etw_types::{Guid, Keyword, Level, SYSTEM_TRACE};
use etw_wire::requests::ProviderStatus;
use std::fmt::Write;

/// `PROVIDER [KEYWORDS [LEVEL]]`. Keywords and levels that are not given are all of them: logman shows level 255 for that.
pub fn enablement(
    provider: &str,
    keywords: Option<&str>,
    level: Option<&str>,
) -> Result<Enablement, Failure> {
    if is_kernel_provider(provider) {
        let what = format!(
            "{provider}: give it with its flags, as in (process,disk); it cannot be disabled"
        );
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
        Some(text) => level_of(text)?,
    };
    Enablement::parse(provider, Level(level), Keyword(any))
}

/// A number, or a name such as `win:Warning`.
pub fn level_of(text: &str) -> Result<u8, Failure> {
    let lower = text.to_ascii_lowercase();
    let level = match number(text) {
        Some(number) => u8::try_from(number).ok(),
        None => lower.strip_prefix("win:").and_then(|name| crate::live::wanted::level(name).ok()),
    };
    level.ok_or_else(|| {
        let what =
            format!("{text:?} is not a level; give 0 to 255, or win:Critical to win:Verbose");
        TABLE.wrong("p", what)
    })
}

/// The lines of a file of providers: `{GUID} flags level name`, or a name instead of the GUID. `add_kernel` takes the flags of the kernel.
pub fn enablements_of_file(
    path: &str,
    text: &str,
    mut add_kernel: impl FnMut(Option<&str>) -> Result<(), Failure>,
) -> Result<Vec<Enablement>, Failure> {
    let mut all = Vec::new();
    let mut has_kernel = false;
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
        if is_kernel_provider(provider) {
            add_kernel(flags_in(rest))?;
            has_kernel = true;
            continue;
        }
        let mut rest = rest.split_whitespace();
        // The rest of the line is a name for people.
        all.push(enablement(provider, rest.next(), rest.next())?);
    }
    match all.is_empty() && !has_kernel {
        true => Err(TABLE.wrong("pf", format!("{path}: the file contains no provider"))),
        false => Ok(all),
    }
}

/// The flags of the kernel in a line: `(process, thread) 0xff`, or a number.
fn flags_in(rest: &str) -> Option<&str> {
    let rest = rest.trim();
    match rest.starts_with('(').then(|| rest.find(')')).flatten() {
        Some(end) => Some(&rest[..=end]),
        None => rest.split_whitespace().next(),
    }
}

/// The kernel as a provider: its GUID, and a keyword for each class that logman names.
fn kernel_table() -> String {
    let guid = braced(&SYSTEM_TRACE);
    let mut text = format!("\n{:<41}{}\n{:-<79}\n", "Provider", "GUID", "");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{KERNEL_PROVIDER:<41}{guid}");
    let _ = write!(text, "\n{:<20}{:<21}Description\n{:-<79}\n", "Value", "Keyword", "");
    let is_named = |flag: &&Flag| !flag.logman.is_empty() && flag.enable != 0;
    let mut flags: Vec<&Flag> = Flag::ALL.iter().filter(is_named).collect();
    flags.sort_by_key(|flag| flag.enable);
    for Flag { enable, logman, description, is_recorded, .. } in flags {
        let without = if *is_recorded || cfg!(windows) { "" } else { " (not on Linux)" };
        let value = format!("{enable:#018x}");
        let _ = writeln!(text, "{value:<20}{logman:<21}{description}{without}");
    }
    format!("{text}\n\n{DONE}")
}

/// The tables of keywords and levels, as far as an installed manifest or the user's own schemas describe the provider.
fn put_keywords_and_levels(text: &mut String, id: &Guid) {
    let installed = crate::manifest::named_values_of(id);
    let rows = |kind| {
        let of_kind = installed.iter().filter(move |one| one.kind == kind);
        let row = |one: &NamedValue| Row::new(one.value, &one.name, &one.message);
        of_kind.map(row).collect::<Vec<_>>()
    };
    let mut keywords = rows(NamedValueKind::Keyword);
    let mut levels = rows(NamedValueKind::Level);
    let own = schemas::own();
    if keywords.is_empty() {
        let names = own.keywords_of(id).into_iter();
        keywords = names.map(|keyword| Row::new(keyword.mask.0, &keyword.name, "")).collect();
    }
    if levels.is_empty() {
        let used: Vec<String> =
            own.events_of(id).into_iter().filter_map(|event| event.level).collect();
        let is_used = |row: &&Predefined<Level>| {
            let name = row.name.trim_start_matches("win:");
            let matches = |used: &String| {
                used.eq_ignore_ascii_case(row.text)
                    || used.trim_start_matches("win:").eq_ignore_ascii_case(name)
            };
            used.is_empty() || used.iter().any(matches)
        };
        let rows = winmeta::LEVELS[1..].iter().filter(is_used);
        levels = rows.map(|row| Row::new(u64::from(row.value.0), row.name, row.text)).collect();
    }
    if !keywords.is_empty() {
        put_table(text, "Keyword", 18, &keywords);
    }
    put_table(text, "Level", 4, &levels);
}

struct Row {
    value: u64,
    name: String,
    description: String,
}

impl Row {
    fn new(value: u64, name: &str, description: &str) -> Row {
        Row { value, name: name.to_owned(), description: description.to_owned() }
    }
}

/// A table of values of so many characters, with names and descriptions.
fn put_table(text: &mut String, title: &str, width: usize, rows: &[Row]) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\n{:<20}{title:<21}Description\n{:-<79}\n", "Value", "");
    for Row { value, name, description } in rows {
        let value = format!("{value:#0width$x}");
        let row = format!("{value:<20}{:<21}{}", safe(name), safe(description));
        let _ = writeln!(text, "{}", row.trim_end());
    }
}

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
        let _ = writeln!(text, "{:<40} {guid}", safe(name));
    };
    let Some(name) = name else {
        let mut shown: Vec<&ProviderStatus> =
            known.iter().filter(|each| pid.is_none_or(|pid| each.pids.contains(&pid))).collect();
        shown.sort_by_key(|each| names.get(&each.id).unwrap_or("{").to_lowercase());
        shown.iter().for_each(|each| row(&each.id));
        return print(&format!("{text}\n{DONE}"));
    };
    if is_kernel_provider(&name) && pid.is_none() {
        return print(&kernel_table());
    }
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
