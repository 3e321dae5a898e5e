//! `etw complete`: candidates for a word of the command line that only this machine knows. Completion scripts call it.

use crate::column::HEADER_COLUMNS;
use crate::output::{Failure, Outcome};
use crate::{files, schemas};
use clap::Args;
use etw_decode::Decoder;
use etw_etl::read::Records;
use std::collections::BTreeSet;
use std::path::Path;

#[derive(Args)]
pub struct Arguments {
    /// Number of the word to complete; the command's name is word 0
    index: usize,
    /// The words of the command line
    #[arg(last = true)]
    words: Vec<String>,
}

/// The kind of name that a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Providers,
    Sessions,
    /// Columns and fields of the traces on the command line.
    Fields,
}

/// Exit status of a word that the script completes by itself.
const NOT_HERE: u8 = 1;
/// Records of a trace that are read for their fields.
const READ_RECORDS: usize = 20_000;

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    let Some(what) = what(&words, arguments.index) else {
        return Ok(Outcome::OfCommand(NOT_HERE));
    };
    let word = words.get(arguments.index).copied().unwrap_or_default();
    let candidates = match what {
        What::Providers => providers(),
        What::Sessions => sessions(),
        What::Fields => fields(&words),
    };
    // In a list, the last name is completed.
    let list = match what {
        What::Fields => word.rfind(',').map_or(0, |comma| comma + 1),
        _ => 0,
    };
    let (before, start) = word.split_at(list);
    let mut text = String::new();
    for name in candidates.iter().filter(|name| name.starts_with(start)) {
        text += &format!("{before}{name}\n");
    }
    crate::frontends::answer::print(&text)
}

fn what(words: &[&str], index: usize) -> Option<What> {
    let word = |number: usize| words.get(number).copied().unwrap_or_default();
    let is_option = word(index).starts_with('-');
    match word(index.checked_sub(1)?) {
        "-p" | "--provider" if matches!(word(1), "record" | "session" | "tail") => {
            return Some(What::Providers);
        }
        "--columns" | "--fields" | "--by" | "--sum" | "--where" => return Some(What::Fields),
        _ => {}
    }
    match (word(1), word(2), index) {
        _ if is_option => None,
        ("session", "start" | "list" | "help" | "", _) => None,
        ("session", _, 3) | ("tail", _, 2) => Some(What::Sessions),
        ("session", "enable" | "disable" | "capture-state", 4..) => Some(What::Providers),
        ("provider", "show" | "guid", 3) | ("doctor", _, 2) => Some(What::Providers),
        _ => None,
    }
}

/// Names of registered providers, and of those in the user's schemas.
fn providers() -> BTreeSet<String> {
    let mut names: BTreeSet<String> =
        schemas::own().providers().map(|(_, name)| name.to_owned()).collect();
    #[cfg(any(target_os = "linux", windows))]
    names.extend(crate::live::registered_names());
    names.retain(|name| !name.is_empty() && !name.chars().any(char::is_whitespace));
    names
}

#[cfg(any(target_os = "linux", windows))]
fn sessions() -> BTreeSet<String> {
    crate::live::session_names().into_iter().collect()
}

#[cfg(not(any(target_os = "linux", windows)))]
fn sessions() -> BTreeSet<String> {
    BTreeSet::new()
}

fn fields(words: &[&str]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> =
        HEADER_COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let traces = words.iter().skip(1).map(Path::new).filter(|path| crate::is_trace(path));
    let traces: Vec<_> = traces.filter_map(|path| files::open(path).ok()).collect();
    let mut records = Records::new(traces);
    let mut decoder = Decoder::new();
    decoder.set_own_catalog(schemas::own());
    for _ in 0..READ_RECORDS {
        let Some(record) = records.next() else { break };
        let decoded = decoder.decode(&record);
        let Some(schema) = decoded.schema() else { continue };
        for field in &schema.fields {
            if !names.contains(&*field.name) {
                names.insert(field.name.to_string());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_only_the_machine_knows_are_completed() {
        let of = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            what(&words, words.len() - 1)
        };
        for line in
            ["etw record -o x -p ", "etw tail --provider Sh", "etw provider show T", "etw doctor "]
        {
            assert_eq!(of(line), Some(What::Providers), "{line}");
        }
        for line in ["etw session stop ", "etw session enable w", "etw tail "] {
            assert_eq!(of(line), Some(What::Sessions), "{line}");
        }
        assert_eq!(of("etw session enable web "), Some(What::Providers));
        assert_eq!(of("etw dump t.etl --columns time,pi"), Some(What::Fields));
        for line in
            ["etw ", "etw dump ", "etw session ", "etw session start ", "etw tail --", "etw"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
