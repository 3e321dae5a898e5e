//! `logman`, with `-ets`: it acts on running sessions, not on saved collectors.

mod display;
mod options;
mod providers;

use super::kernel::Kernel;
use super::setup::Setup;
use super::{Controller, Enablement, ProviderNames, all_sessions, session_name};
use crate::format::safe;
use crate::frontends::answer::{print, usage};
use crate::frontends::table::show_help;
use crate::frontends::table::{Help, Table};
use crate::live::options::absolute;
use crate::live::wanted::Named;
use crate::output::{Failure, Outcome};
use display::{properties, state};
use etw_host::FileMode;
use etw_wire::requests::Update;
use options::*;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

static TABLE: Table<Command> = Table {
    command: "logman",
    about: "Start, change, show and stop sessions, as Windows' logman -ets does",
    forms: &[
        "start NAME [options] -ets        (or: create trace NAME [options] -ets)",
        "update NAME [-p ...]... [--p PROVIDER]... [options] -ets",
        "stop NAME -ets",
        "[query] [NAME] -ets",
        "query providers [PROVIDER | -pid PID]",
    ],
    repeatable: 0,
    actions: ACTIONS,
    operand: Some(|command, word| {
        command.words.push(word.to_owned());
        Ok(())
    }),
    rows: ROWS,
    notes: "Sessions belong to your own host, which starts when it is needed. Saved collectors (everything without \
            -ets), counters, schedules and other computers are not supported. etw session and etw provider are the \
            commands behind it.",
};

const SAVED: &str = "add -ets: there are running sessions only, no saved collectors \
                     (a host starts the sessions of its sessions.json; see etw daemon --help)";

const DONE: &str = "The command completed successfully.\n";

/// A command line, parsed.
#[derive(Debug, Default)]
struct Command {
    /// Words that belong to no option.
    words: Vec<String>,
    /// The name behind `-n`.
    named: Option<String>,
    setup: Setup,
    enable: Vec<Enablement>,
    kernel: Kernel,
    disable: Vec<Named>,
    ets: bool,
    is_circular: bool,
    appends: bool,
    keeps_existing: bool,
    real_time: Option<bool>,
    flush_timer_ms: Option<u32>,
    flushes: bool,
    pid: Option<u32>,
}

pub fn help() -> Help {
    TABLE.help()
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    match parse(words)? {
        Some(request) => act(request),
        None => show_help(&help()),
    }
}

/// The kernel's events of the session that a command starts.
#[cfg(test)]
pub fn kernel_of(words: &[String]) -> Result<Option<etw_host::SystemConfig>, Failure> {
    match parse(words)? {
        Some(Request { command, .. }) => command.kernel.config("logman", &command.enable),
        None => Ok(None),
    }
}

/// A command line as an action on a session or provider.
#[derive(Debug)]
struct Request {
    action: u16,
    /// The session or provider.
    name: Option<String>,
    command: Command,
}

/// `None`: the user requested the help.
fn parse(words: &[String]) -> Result<Option<Request>, Failure> {
    let mut command = Command::default();
    let Some(given) = TABLE.parse(words, &mut command)? else { return Ok(None) };
    if command.words.is_empty() && given.is_empty() {
        return Ok(None);
    }
    let Request { action, name, mut command } = command.into_request()?;
    let verb = ACTIONS.iter().find(|(bit, _)| *bit == action).map_or("", |(_, verb)| verb);
    if let Some(odd) = TABLE.odd(&given, action) {
        return Err(TABLE.wrong(odd.name, format!("it does not go with logman {verb}")));
    }
    if !command.ets && action != PROVIDERS {
        return Err(usage(format!("logman {verb}: {SAVED}")));
    }
    if let Some(name) = &name
        && action != PROVIDERS
    {
        session_name("logman", name)?;
    } else if !matches!(action, QUERY | PROVIDERS) {
        return Err(usage(format!(
            "logman {verb}: the session's name is needed: logman {verb} NAME"
        )));
    }
    if command.is_circular {
        command.setup.set_mode("logman", FileMode::Circular, "-f bincirc")?;
    }
    if command.appends {
        command.setup.set_mode("logman", FileMode::Append, "-a")?;
    }
    Ok(Some(Request { action, name, command }))
}

impl Command {
    /// Takes the action and the name that it acts on from the words. A missing verb is `query`.
    fn into_request(mut self) -> Result<Request, Failure> {
        let mut words = std::mem::take(&mut self.words).into_iter();
        let first = words.next().unwrap_or_default();
        let mut rest: Vec<String> = words.collect();
        let is = |word: Option<&String>, name: &str| {
            word.is_some_and(|word| word.eq_ignore_ascii_case(name))
        };
        let action = match first.to_ascii_lowercase().as_str() {
            "start" => START,
            "create" if is(rest.first(), "trace") => {
                rest.remove(0);
                START
            }
            "create" => {
                let what =
                    "logman create: use create trace; there are no counters, alerts and API traces";
                return Err(usage(what));
            }
            "stop" => STOP,
            "update" => UPDATE,
            "query" if is(rest.first(), "providers") => {
                rest.remove(0);
                PROVIDERS
            }
            "query" => QUERY,
            verb @ ("delete" | "import" | "export") => {
                return Err(usage(format!(
                    "logman {verb}: {SAVED}; logman stop NAME -ets ends a session"
                )));
            }
            "" => QUERY,
            _ => {
                rest.insert(0, first);
                QUERY
            }
        };
        // `logman update trace NAME`, but `logman start trace` for a session of that name.
        let takes_kind = matches!(action, START | UPDATE | STOP);
        if takes_kind && rest.len() > 1 && is(rest.first(), "trace") {
            rest.remove(0);
        }
        rest.extend(self.named.take());
        match &mut rest[..] {
            [] => Ok(Request { action, name: None, command: self }),
            [name] => Ok(Request { action, name: Some(std::mem::take(name)), command: self }),
            [_, more, ..] => Err(TABLE.stray(more)),
        }
    }
}

/// logman's name of a file: `trace` is `trace.etl`.
fn with_extension(file: &str) -> PathBuf {
    let path = PathBuf::from(file);
    match path.extension() {
        Some(_) => path,
        None => PathBuf::from(format!("{file}.etl")),
    }
}

/// Windows' message about a session that does not exist.
fn missing(name: &str, hint: &str) -> Failure {
    // Scripts look for this text in the output.
    let _ = print("\nError:\nData Collector Set was not found.\n");
    Failure::new(format!("logman: {name}: Data Collector Set was not found; {hint}"))
}

fn act(Request { action, name, command }: Request) -> Result<Outcome, Failure> {
    match (action, name) {
        (START, Some(name)) => {
            let mut setup = command.setup;
            setup.config.real_time = command.real_time == Some(true);
            setup.config.flush_timer =
                command.flush_timer_ms.map(|ms| Duration::from_millis(ms.into()));
            setup.config.system = command.kernel.config("logman", &command.enable)?;
            let default = with_extension(&name.replace('/', "_"));
            let start = setup.finish("logman", name, || default)?;
            if command.keeps_existing
                && let Some(file) = start.file.as_deref().filter(|file| file.exists())
            {
                return Err(Failure::new(format!("{}: exists; -ow replaces it", file.display())));
            }
            Controller::connect_or_start()?.start(start, command.enable)?;
            print(DONE)
        }
        (STOP, Some(name)) => {
            let (_, outcome) = Controller::connect_to(&name, missing)?.stop(&name)?;
            print(DONE)?;
            Ok(outcome)
        }
        (UPDATE, Some(name)) => {
            let controller = Controller::connect_to(&name, missing)?;
            let update = Update {
                buffers: command.setup.max_buffers,
                flush_timer_ms: command.flush_timer_ms,
                file: command.setup.file.as_deref().map(absolute).transpose()?,
                real_time: command.real_time,
                ..Update::default()
            };
            // A missing session is reported even if nothing changes.
            controller.query(&name)?;
            controller.update("logman update", &name, update)?;
            controller.change_kernel("logman update", &name, command.kernel)?;
            for enablement in &command.enable {
                controller.enable(&name, enablement, 1000)?;
            }
            for provider in &command.disable {
                controller.disable(&name, provider)?;
            }
            if command.flushes {
                controller.flush(&name)?;
            }
            print(DONE)
        }
        (QUERY, Some(name)) => {
            let controller = Controller::connect_to(&name, missing)?;
            let status = controller.query(&name)?;
            let names = ProviderNames::of(controller.providers()?);
            print(&format!("\n{}\n{DONE}", properties(&status, &names)))
        }
        (PROVIDERS, name) => providers::show(name, command.pid),
        _ => {
            let mut text =
                format!("\n{:<40}{:<30}{}\n{:-<79}\n", "Data Collector Set", "Type", "Status", "");
            for status in all_sessions()? {
                let _ =
                    writeln!(text, "{:<40}{:<30}{}", safe(&status.name), "Trace", state(&status));
            }
            print(&format!("{text}\n{DONE}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::braced;
    use super::*;
    use etw_types::Guid;
    use etw_types::{Keyword, Level};

    fn parsed(words: &[&str]) -> Result<Option<Request>, Failure> {
        parse(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    /// OV-24: -p in the command and in a file of providers.
    #[test]
    fn providers_have_keywords_and_levels() {
        let id = Guid::from_name("Doc");
        let guid = braced(&id);
        let line =
            ["START", "s", "-P", &guid, "0x30", "4", "/p", "A b", "-p", "*Doc", "ff", "-ETS"];
        let Request { action, name, command } = parsed(&line).unwrap().unwrap();
        assert_eq!((action, name.as_deref()), (START, Some("s")));
        let expected = [
            Enablement::new(Named::Id(id), Level(4), Keyword(0x30)),
            Enablement::new(Named::Name("A b".to_owned()), Level(255), Keyword(0)),
            Enablement::new(Named::Id(id), Level(255), Keyword(0xff)),
        ];
        assert_eq!(command.enable, expected);
        let text = format!("\u{feff}{guid} 0x30 0x4 Doc of all\r\n\"A b\"\n\n*Doc ff\n");
        assert_eq!(providers::enablements_of_file("f", &text, |_| Ok(())).unwrap(), expected);
        for bad in ["", "\"A b", "a x", "a 1 win:Loud", "a 1 256"] {
            assert!(providers::enablements_of_file("f", bad, |_| Ok(())).is_err(), "{bad:?}");
        }
        assert!(matches!(providers::level_of("win:Informational"), Ok(4)));
    }

    /// OV-24
    #[test]
    fn verbs_and_names_are_read_in_all_forms() {
        for (words, expected, named) in [
            (&["create", "trace", "a", "-ets"][..], START, Some("a")),
            (&["create", "TRACE", "-n", "a", "-ets"], START, Some("a")),
            (&["start", "trace", "a", "-ets"], START, Some("a")),
            (&["start", "trace", "-ets"], START, Some("trace")),
            (&["update", "trace", "a", "-ets", "--p", "b", "1", "2"], UPDATE, Some("a")),
            (&["stop", "a", "/ets"], STOP, Some("a")),
            (&["query", "-ets"], QUERY, None),
            (&["query", "a", "-ets"], QUERY, Some("a")),
            (&["-ets"], QUERY, None),
            (&["a", "-ets"], QUERY, Some("a")),
            (&["query", "providers"], PROVIDERS, None),
            (&["query", "providers", "p"], PROVIDERS, Some("p")),
        ] {
            let Request { action, name, .. } = parsed(words).unwrap().unwrap();
            assert_eq!((action, name.as_deref()), (expected, named), "{words:?}");
        }
        for help in [&[][..], &["-?"], &["start", "/?"], &["-h"]] {
            assert!(parsed(help).unwrap().is_none(), "{help:?}");
        }
        assert_eq!(with_extension("/a.b/c"), PathBuf::from("/a.b/c.etl"));
        assert_eq!(with_extension("c.bin"), PathBuf::from("c.bin"));
    }
}
