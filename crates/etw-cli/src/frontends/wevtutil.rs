//! `wevtutil`: event logs in files queried, described and exported; manifests installed.

mod publishers;
mod settings;

use super::answer::{print, usage};
use super::table::show_help;
use super::table::{ALL, Effect, Help, Row, Table, help_row, option, refused};
use super::words::Words;
use crate::channels;
use crate::event_log::archive;
use crate::event_log::{self, WindowsQuery};
use crate::output::{Failure, Outcome};
use etw_types::FileTime;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Default)]
struct Command {
    /// The action, then its operands.
    words: Vec<String>,
    is_file: bool,
    is_query_file: bool,
    query: Option<String>,
    is_reverse: bool,
    count: Option<u64>,
    form: Form,
    root: Option<String>,
    bookmark: Option<String>,
    saved_bookmark: Option<String>,
    overwrites: bool,
    locale: Option<String>,
}

/// `/f`
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Xml,
    Text,
    RenderedXml,
}

/// Long names of actions and options, and their short ones.
const LONG_NAMES: &[(&str, &str)] = &[
    ("query-events", "qe"),
    ("get-loginfo", "gli"),
    ("export-log", "epl"),
    ("install-manifest", "im"),
    ("uninstall-manifest", "um"),
    ("enum-logs", "el"),
    ("get-log", "gl"),
    ("set-log", "sl"),
    ("enum-publishers", "ep"),
    ("get-publisher", "gp"),
    ("archive-log", "al"),
    ("clear-log", "cl"),
    ("logfile", "lf"),
    ("structuredquery", "sq"),
    ("query", "q"),
    ("reversedirection", "rd"),
    ("format", "f"),
    ("count", "c"),
    ("element", "e"),
    ("overwrite", "ow"),
    ("bookmark", "bm"),
    ("savebookmark", "sbm"),
    ("locale", "l"),
    ("unicode", "uni"),
    ("remote", "r"),
    ("username", "u"),
    ("password", "p"),
    ("authentication", "a"),
];

fn short(name: &str, long_names: &[(&str, &str)]) -> String {
    let lower = name.to_ascii_lowercase();
    let known = long_names.iter().find(|(long, _)| *long == lower);
    known.map_or(lower, |(_, short)| (*short).to_owned())
}

const TRUTHS: &[(&str, bool)] = &[("true", true), ("false", false)];

fn truth(words: &mut Words<'_>, name: &str) -> Result<bool, Failure> {
    words.one_of(name, TRUTHS)
}

const FORMS: &[(&str, Form)] =
    &[("xml", Form::Xml), ("text", Form::Text), ("renderedxml", Form::RenderedXml)];

const ROWS: &[Row<Command>] = &[
    help_row(),
    option(
        ALL,
        "lf",
        "true|false",
        "The operand is a file, not the name of a log",
        Effect::Values(|command, words, name| {
            command.is_file = truth(words, name)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "sq",
        "true|false",
        "The operand is a file with a query list, whose paths are files",
        Effect::Values(|command, words, name| {
            command.is_query_file = truth(words, name)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "q",
        "XPATH",
        "Only the records that an XPath query selects",
        Effect::Text(|command, query| command.query = Some(query.to_owned())),
    ),
    option(
        ALL,
        "rd",
        "true|false",
        "Newest records first",
        Effect::Values(|command, words, name| {
            command.is_reverse = truth(words, name)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "c",
        "N",
        "At most N records",
        Effect::Number(|command, count| command.count = Some(count)),
    ),
    option(
        ALL,
        "f",
        "xml|text|renderedxml",
        "Form of the records; default: XML, one record a line",
        Effect::Values(|command, words, name| {
            command.form = words.one_of(name, FORMS)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "e",
        "NAME",
        "Put the records into an element of this name",
        Effect::Text(|command, root| command.root = Some(root.to_owned())),
    ),
    option(
        ALL,
        "bm",
        "FILE",
        "Continue behind the record of this bookmark",
        Effect::Text(|command, file| command.bookmark = Some(file.to_owned())),
    ),
    option(
        ALL,
        "sbm",
        "FILE",
        "Store the last record that was printed in this bookmark",
        Effect::Text(|command, file| command.saved_bookmark = Some(file.to_owned())),
    ),
    option(
        ALL,
        "ow",
        "true|false",
        "Replace the file of epl if it exists",
        Effect::Values(|command, words, name| {
            command.overwrites = truth(words, name)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "l",
        "LOCALE",
        "Locale in the name of al's file; texts are in the language of their schemas",
        Effect::Text(|command, locale| command.locale = Some(locale.to_owned())),
    ),
    option(ALL, "uni", "VALUE", "Accepted; output is UTF-8", Effect::Text(|_, _| {})),
    computer(),
    authentication(),
    refused("u p", NO_OTHER_USER),
];

/// Why `-u` and `-p` are refused.
const NO_OTHER_USER: &str = "a user and a password are for other computers, which are not reached (Windows' error 50, \
     ERROR_NOT_SUPPORTED); run the command as that user there";

/// `-r`: this computer alone.
const fn computer<C>() -> Row<C> {
    option(
        ALL,
        "r",
        "COMPUTER",
        "Only this computer: its name, localhost or .",
        Effect::Values(|_, words, name| {
            let computer = words.needed(name, "the name of a computer")?;
            if etw_eventlog::is_this_computer(computer) {
                return Ok(());
            }
            let what = format!(
                "{computer}: other computers are not reached (Windows' error 50, ERROR_NOT_SUPPORTED); run the command there, or copy \
                 the log here"
            );
            Err(words.wrong(name, what))
        }),
    )
}

/// `-a`: has no effect on this computer.
const fn authentication<C>() -> Row<C> {
    option(
        ALL,
        "a",
        "Default|Negotiate|Kerberos|NTLM",
        "Accepted; nobody authenticates on this computer",
        Effect::Values(|_, words, name| {
            const KINDS: &[(&str, ())] =
                &[("Default", ()), ("Negotiate", ()), ("Kerberos", ()), ("NTLM", ())];
            words.one_of(name, KINDS)
        }),
    )
}

static TABLE: Table<Command> = Table {
    command: "wevtutil",
    about: "Query, describe and export event logs, as Windows' wevtutil does",
    forms: &[
        "qe LOG [/q:XPATH] [/c:N] [/rd:true] [/f:text|xml|renderedxml] [/e:NAME]",
        "qe LOG /bm:FILE [/sbm:FILE] [options of qe]",
        "qe LIST.xml /sq:true [options of qe]",
        "gli LOG",
        "epl LOG OUT.evtx [/q:XPATH] [/ow:true]",
        "epl LIST.xml OUT.evtx /sq:true [/ow:true]",
        "al FILE.evtx [/l:LOCALE]",
        "el",
        "gl LOG [/f:text|xml]",
        "sl LOG SETTINGS, sl /c:FILE.xml",
        "cl LOG [/bu:FILE.evtx]",
        "ep, gp PUBLISHER [/ge:true] [/gm:true]",
        "im MANIFEST, um MANIFEST",
    ],
    repeatable: 0,
    actions: &[],
    operand: Some(|command, word| {
        command.words.push(word.to_owned());
        Ok(())
    }),
    rows: ROWS,
    notes: "Options are written as /name:value, in any case, or with their long names, as in \
            query-events /format:text. An invalid query ends the command with status 2. \
            wevtutil sl -h lists the options of sl, gl, cl, gp and im. \
            al writes the schemas of a log's publishers into LocaleMetaData beside it, where every command finds them.",
};

pub fn help() -> Help {
    TABLE.help()
}

/// Splits `/name:value`, and gives options their short names. `names`: the options of the action.
fn split(words: &[String], long_names: &[(&str, &str)], names: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for word in words {
        let option = word.strip_prefix('/').or_else(|| word.strip_prefix('-'));
        let (name, value) =
            match option.map(|option| option.split_once(':').unwrap_or((option, ""))) {
                Some((name, value)) => (short(name, long_names), value),
                None => {
                    out.push(word.clone());
                    continue;
                }
            };
        if !names.contains(&name.as_str()) {
            // A path, or an unknown option.
            out.push(word.clone());
            continue;
        }
        out.push(format!("-{name}"));
        if !value.is_empty() {
            out.push(value.trim_matches('"').to_owned());
        }
    }
    out
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    let action = words.iter().find(|word| !word.starts_with(['/', '-']));
    let action = action.map_or(String::new(), |action| short(action, LONG_NAMES));
    if matches!(action.as_str(), "el" | "gl" | "sl" | "cl" | "im" | "um" | "ep" | "gp") {
        return settings::run(&action, words);
    }
    let names: Vec<&str> = ROWS.iter().flat_map(|row| row.names.split_whitespace()).collect();
    let mut command = Command::default();
    if words.is_empty() || TABLE.parse(&split(words, LONG_NAMES, &names), &mut command)?.is_none() {
        return show_help(&help());
    }
    let Some((action, operands)) = command.words.split_first() else {
        return Err(usage(
            "wevtutil: name an action: qe, gli, epl or al; wevtutil -h shows all forms",
        ));
    };
    match (short(action, LONG_NAMES).as_str(), operands) {
        ("qe", [log]) => event_log::windows_query(WindowsQuery {
            file: command.queried_file(log)?,
            query: command.query.clone(),
            is_reverse: command.is_reverse,
            count: command.count,
            is_xml: command.form != Form::Text,
            is_rendered: command.form == Form::RenderedXml,
            root: command.root.clone(),
            is_query_file: command.is_query_file,
            bookmark: command.bookmark.clone().map(Into::into),
            saved_bookmark: command.saved_bookmark.clone().map(Into::into),
        }),
        ("gli", [log]) => print(&log_info(command.info_file(log)?.as_deref())?),
        ("epl", [_, output]) if !command.overwrites && Path::new(output).is_file() => {
            Err(Failure::new(format!("{output}: exists; /ow:true replaces it")))
        }
        ("epl", [list, output]) if command.is_query_file => {
            event_log::export_list(Path::new(list), Path::new(output), command.overwrites)
                .map(|exported| exported.outcome)
        }
        ("epl", [log, output]) => {
            let file = command.queried_file(log)?;
            let query = command.query.as_deref();
            event_log::export(file, query, Path::new(output), command.overwrites)
                .map(|exported| exported.outcome)
        }
        ("al", [file]) => archive::write(Path::new(file), command.locale.as_deref()),
        ("qe" | "gli", _) => Err(usage(format!("wevtutil {action}: name one log"))),
        ("epl", _) => Err(usage("wevtutil epl: name a log and the file to write")),
        ("al", _) => Err(usage("wevtutil al: name one file, as wevtutil epl writes it")),
        (other, _) => {
            Err(usage(format!("wevtutil: there is no action {other}; wevtutil -h lists them")))
        }
    }
}

impl Command {
    /// The file of a log; `None`: nothing was written to the log yet.
    fn info_file(&self, log: &str) -> Result<Option<PathBuf>, Failure> {
        if self.is_query_file {
            return Err(usage("wevtutil -sq: only qe and epl read a file with a query list"));
        }
        self.queried_file(log)
    }

    /// The file of a log or of a query list; `None`: nothing was written to the log yet.
    fn queried_file(&self, log: &str) -> Result<Option<PathBuf>, Failure> {
        match self.is_file || self.is_query_file {
            true => Ok(Some(log.into())),
            false => channels::existing_log_file(log),
        }
    }
}

/// The facts of `gli`. The oldest record is the log's own, also after a clear. Without a file, nothing was written to the log yet.
fn log_info(path: Option<&Path>) -> Result<String, Failure> {
    let info = path.map_or(Ok(LogInfo::default()), LogInfo::read)?;
    let mut text = String::new();
    for (key, value) in [
        ("creationTime", info.created),
        ("lastAccessTime", info.accessed),
        ("lastWriteTime", info.written),
        ("fileSize", info.size.to_string()),
        // FILE_ATTRIBUTE_ARCHIVE, which every log of Windows has.
        ("attributes", "32".to_owned()),
        ("numberOfLogRecords", info.records.to_string()),
        ("oldestRecordNumber", info.oldest.unwrap_or(0).to_string()),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key}: {value}");
    }
    Ok(text)
}

/// The file of a log and its records. Times are as `gli` prints them, and empty if they are not known.
#[derive(Default)]
struct LogInfo {
    created: String,
    accessed: String,
    written: String,
    size: u64,
    records: u64,
    /// Number of the oldest record.
    oldest: Option<u64>,
}

impl LogInfo {
    fn read(path: &Path) -> Result<LogInfo, Failure> {
        let failure =
            |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let log = event_log::open(path)?;
        let metadata = std::fs::metadata(path).map_err(|error| failure(&error))?;
        let time = |time: std::io::Result<SystemTime>| {
            let since = time.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
            since.map_or(String::new(), |since| {
                FileTime(FileTime::UNIX_EPOCH.0 + (since.as_nanos() / 100) as i64).to_string()
            })
        };
        let mut info = LogInfo {
            created: time(metadata.created()),
            accessed: time(metadata.accessed()),
            written: time(metadata.modified()),
            size: metadata.len(),
            ..LogInfo::default()
        };
        let mut records = log.records();
        while let Some(record) = records.next().map_err(|error| failure(&error))? {
            info.records += 1;
            info.oldest.get_or_insert(record.id());
        }
        Ok(info)
    }
}
