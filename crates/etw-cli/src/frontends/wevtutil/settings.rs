//! The actions of `wevtutil` on the registry of logs: `el`, `gl`, `sl`, `cl`, `im`, `um`, `ep`, `gp`.
//!
//! Their options share letters with those of queries, so they have a table of their own.

use super::super::answer::{print, usage};
use super::super::table::{ALL, Effect, Row, Table, help_row, option, refused, show_help};
use super::super::words::Words;
use super::publishers::{self, Parts};
use super::{NO_OTHER_USER, authentication, computer, split, truth};
use crate::channels::{self, change, failure, mask, registry};
use crate::output::{Failure, Outcome};
use etw_eventlog::channel::{Change, Isolation};
use etw_eventlog::config_file::{self, ConfigFile};
use etw_types::{Keyword, Level};
use std::path::{Path, PathBuf};

#[derive(Default)]
struct Command {
    words: Vec<String>,
    change: Change,
    /// `/c`
    config: Option<PathBuf>,
    is_xml: bool,
    is_quiet: bool,
    /// `/bu`
    backup: Option<PathBuf>,
    parts: Parts,
}

/// Long names of the options, and their short ones.
const LONG_NAMES: &[(&str, &str)] = &[
    ("format", "f"),
    ("enabled", "e"),
    ("isolation", "i"),
    ("logfilename", "lfn"),
    ("retention", "rt"),
    ("autobackup", "ab"),
    ("maxsize", "ms"),
    ("level", "l"),
    ("keywords", "k"),
    ("channelaccess", "ca"),
    ("config", "c"),
    ("quiet", "q"),
    ("backup", "bu"),
    ("getevents", "ge"),
    ("getmessage", "gm"),
    ("resourcefilepath", "rf"),
    ("messagefilepath", "mf"),
    ("parameterfilepath", "pf"),
    ("locale", "l"),
    ("unicode", "uni"),
    ("remote", "r"),
    ("username", "u"),
    ("password", "p"),
    ("authentication", "a"),
];

const ISOLATIONS: &[(&str, Isolation)] = &[
    ("application", Isolation::Application),
    ("system", Isolation::System),
    ("custom", Isolation::Custom),
];

fn set_truth(words: &mut Words<'_>, name: &str, setting: &mut Option<bool>) -> Result<(), Failure> {
    *setting = Some(truth(words, name)?);
    Ok(())
}

const ROWS: &[Row<Command>] = &[
    help_row(),
    option(
        ALL,
        "f",
        "text|xml",
        "Form of gl's output; default: text",
        Effect::Values(|command, words, name| {
            command.is_xml = words.one_of(name, &[("text", false), ("xml", true)])?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "e",
        "true|false",
        "Keep the log's events, or not",
        Effect::Values(|command, words, name| {
            set_truth(words, name, &mut command.change.is_enabled)
        }),
    ),
    option(
        ALL,
        "lfn",
        "FILE",
        "Absolute path of the log",
        Effect::Text(|command, file| command.change.file = Some(file.into())),
    ),
    option(
        ALL,
        "rt",
        "true|false",
        "A full log refuses new records; otherwise they overwrite the oldest",
        Effect::Values(|command, words, name| {
            set_truth(words, name, &mut command.change.retention)
        }),
    ),
    option(
        ALL,
        "ab",
        "true|false",
        "A full log is archived, and a new one begins; needs -rt true",
        Effect::Values(|command, words, name| {
            set_truth(words, name, &mut command.change.auto_backup)
        }),
    ),
    option(
        ALL,
        "ms",
        "BYTES",
        "Bytes of the log, at least 1048576",
        Effect::Values(|command, words, name| {
            let text = words.needed(name, "a number of bytes")?;
            let size = text.parse();
            command.change.max_size = Some(size.map_err(|_| {
                usage(format!("wevtutil -{name}: {text:?} is not a number of bytes"))
            })?);
            Ok(())
        }),
    ),
    option(
        ALL,
        "l",
        "LEVEL",
        "Keep events up to this level; 0: all",
        Effect::Values(|command, words, name| {
            let level = words.count(name)?;
            let level = u8::try_from(level);
            let level = level.map_err(|_| usage("wevtutil -l: a level is 0 to 255"))?;
            command.change.level = Some(Level(level));
            Ok(())
        }),
    ),
    option(
        ALL,
        "k",
        "MASK",
        "Keep events with one of these keywords, a hexadecimal mask; 0: all",
        Effect::Values(|command, words, name| {
            let text = words.needed(name, "a mask")?;
            let keywords = mask(text).map_err(|what| usage(format!("wevtutil -{name}: {what}")))?;
            command.change.keywords = Some(Keyword(keywords));
            Ok(())
        }),
    ),
    option(
        ALL,
        "ca",
        "SDDL",
        "Who may read, write and clear the log",
        Effect::Text(|command, access| command.change.access = Some(access.to_owned())),
    ),
    option(
        ALL,
        "c",
        "FILE",
        "Settings in XML, as gl -f xml prints them; sl needs no name of a log then",
        Effect::Text(|command, file| command.config = Some(file.into())),
    ),
    option(
        ALL,
        "q",
        "true|false",
        "Ask no questions; none are asked",
        Effect::Values(|command, words, name| {
            command.is_quiet = truth(words, name)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "bu",
        "FILE",
        "Event log that receives the records of cl first; it must not exist",
        Effect::Text(|command, file| command.backup = Some(file.into())),
    ),
    option(
        ALL,
        "ge",
        "true|false",
        "Print the events of gp's publisher",
        Effect::Values(|command, words, name| {
            command.parts.has_events = truth(words, name)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "gm",
        "true|false",
        "Print the messages of these events",
        Effect::Values(|command, words, name| {
            command.parts.has_messages = truth(words, name)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "rf mf pf",
        "FILE",
        "Accepted; im reads resources beside the manifest",
        Effect::Text(|_, _| {}),
    ),
    option(ALL, "uni", "VALUE", "Accepted; output is UTF-8", Effect::Text(|_, _| {})),
    option(
        ALL,
        "i",
        "application|system|custom",
        "Session that the log shares; custom: one of its own, and -ca is needed, too",
        Effect::Values(|command, words, name| {
            command.change.isolation = Some(words.one_of(name, ISOLATIONS)?);
            Ok(())
        }),
    ),
    computer(),
    authentication(),
    refused("u p", NO_OTHER_USER),
];

const FORMS: &[&str] = &[
    "el",
    "gl LOG [/f:text|xml]",
    "sl LOG [/e:true|false] [/ms:BYTES] [/rt:true|false] [/ab:true|false] [/lfn:FILE]",
    "sl LOG [/ca:SDDL] [/l:LEVEL] [/k:MASK] [/i:application|system|custom]",
    "sl /c:FILE.xml",
    "cl LOG [/bu:FILE.evtx]",
    "ep",
    "gp PUBLISHER [/ge:true] [/gm:true]",
    "im MANIFEST, um MANIFEST",
];

static TABLE: Table<Command> = Table {
    command: "wevtutil",
    about: "List, clear and configure logs; install manifests; list publishers",
    forms: FORMS,
    repeatable: 0,
    actions: &[],
    operand: Some(|command, word| {
        command.words.push(word.to_owned());
        Ok(())
    }),
    rows: ROWS,
    notes: "",
};

/// Runs an action. `action`: its short name.
pub fn run(action: &str, words: &[String]) -> Result<Outcome, Failure> {
    let names: Vec<&str> = ROWS.iter().flat_map(|row| row.names.split_whitespace()).collect();
    let mut command = Command::default();
    if TABLE.parse(&split(words, LONG_NAMES, &names), &mut command)?.is_none() {
        return show_help(&TABLE.help());
    }
    let operands = command.words.get(1..).unwrap_or_default();
    match (action, operands) {
        ("el", []) => {
            let registry = registry(false);
            let names = registry.channels().iter().map(|channel| channel.name.clone() + "\n");
            print(&names.collect::<String>())
        }
        ("gl", [name]) => {
            let registry = registry(false);
            let channel = registry.channel(name).map_err(|error| failure(&error))?;
            print(&match command.is_xml {
                true => channels::windows_xml(channel),
                false => channels::windows_text(channel),
            })
        }
        ("sl", names) => set(&command, names),
        ("cl", [name]) => channels::clear_log(name, command.backup.as_deref()),
        ("im", [file]) => {
            crate::manifest::install_again(Path::new(file))?;
            Ok(Outcome::Done)
        }
        ("um", [file]) => {
            crate::manifest::uninstall_described(Path::new(file))?;
            Ok(Outcome::Done)
        }
        ("ep", []) => print(&publishers::list()),
        ("gp", [name]) => print(&publishers::show(name, command.parts)?),
        ("im" | "um", _) => Err(usage(format!("wevtutil {action}: name one manifest"))),
        ("gp", _) => Err(usage("wevtutil gp: name one publisher; wevtutil ep lists them")),
        ("ep", _) => Err(usage("wevtutil ep: it takes no operand")),
        ("el", _) => Err(usage("wevtutil el: it takes no operand")),
        _ => Err(usage(format!("wevtutil {action}: name one log; wevtutil el lists them"))),
    }
}

fn set(command: &Command, names: &[String]) -> Result<Outcome, Failure> {
    let ConfigFile { name, change: wanted } = match (&command.config, names) {
        (Some(file), []) => {
            let text = crate::schemas::read(file)?;
            config_file::parse(&text)
                .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?
        }
        (None, [name]) => ConfigFile { name: name.clone(), change: command.change.clone() },
        (Some(_), _) => return Err(usage("wevtutil sl: with -c, the file names the log")),
        (None, _) => return Err(usage("wevtutil sl: name one log; wevtutil el lists them")),
    };
    let mut wanted = wanted;
    if let Some(isolation) = wanted.isolation
        && wanted.access.is_none()
    {
        if isolation == Isolation::Custom {
            let what =
                "wevtutil sl -i: custom isolation needs rights of its own; give them as /ca:SDDL";
            return Err(usage(what));
        }
        wanted.access = Some(isolation.default_access().to_owned());
    }
    if wanted == Change::default() {
        return Err(usage("wevtutil sl: name a setting to change; wevtutil -h lists them"));
    }
    change(&mut registry(false), &name, &wanted)?;
    Ok(Outcome::Done)
}
