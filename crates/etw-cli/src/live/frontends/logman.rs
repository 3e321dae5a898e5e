//! `logman`, with `-ets`: sessions that run, not collectors that are saved.

use super::command_line::{Vocabulary, Word, Words, duration, number};
use super::setup::Setup;
use super::{
    Controller, KERNEL, ProviderNames, Wish, all_sessions, braced, enabled, print, session_name,
    shown_file,
};
use crate::format::safe;
use crate::frontends::usage;
use crate::live::options::{Named, absolute};
use crate::output::{Failure, Outcome};
use etw_types::Guid;
use etw_types::LogFileMode;
use etw_wire::control::{FileMode, ProviderStatus, SessionStatus, Update};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HELP: &str = "\
logman start NAME [options] -ets        (or: logman create trace NAME [options] -ets)
logman update NAME [-p ...]... [--p PROVIDER]... [-o FILE] [-nb MIN MAX] [-ft TIME]
              [-[-]rt] [-fd] -ets
logman stop NAME -ets
logman [query] [NAME] -ets
logman query providers [PROVIDER | -pid PID]

  -p PROVIDER [KEYWORDS [LEVEL]]   {GUID}, registered name, or *NAME (hashed); all of its
                      events unless said otherwise; LEVEL: a number, or win:Warning
  -pf FILE            lines of the same form
  -o FILE             NAME.etl if there is neither -o nor -rt
  -f bin|bincirc   -max MB   -mode Sequential|Circular|NewFile|Append|Preallocate|PagedMemory
  -a (append: to a file in system time)   -[-]ow (overwrite: as without it; --ow: never)   -y
  -bs KB   -nb MIN MAX: all buffers are there from the start
  -ct perf|system|cycle   -ft [[hh:]mm:]ss   -rt
Sessions are those of your own host, which is started when it is needed. Not supported, and
refused: saved collectors (everything without -ets), counters, schedules, other computers.
";

static VOCABULARY: Vocabulary = Vocabulary {
    command: "logman",
    options: "? h help ets n p -p pf o f max -max mode a -a ow -ow y bs nb ct ft rt -rt fd pid \
              -v -cnf -r -u -rc -ul",
    refused: &[
        ("s", "sessions of other computers cannot be reached"),
        ("config xml", "settings are taken from the command line alone"),
        (
            "b e m r rf rc si c cf sc",
            "nothing is scheduled or counted; cron or systemd start and stop sessions",
        ),
        ("u", "a session is its user's; sudo starts one of root's"),
        ("v", "give the file a name of its own in -o"),
        ("cnf", "-mode NewFile -max MB with %d in the name of -o makes a series of files"),
        ("ul", "a private session is started by its program (etw::Session)"),
        ("ln", "a session is called as the command says: logman start NAME"),
        ("lp gid", "logman query providers PROVIDER tells of one"),
    ],
};

const SAVED: &str = "only sessions that run are known, not collectors that are saved: add -ets \
                     (sessions that begin with the host are in its sessions.json; see etw daemon --help)";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Start,
    Stop,
    Query,
    Providers,
    Update,
}

impl Action {
    /// Options that go with it, and what it is called.
    fn options(self) -> (&'static str, &'static str) {
        match self {
            Action::Start => (
                "ets n p pf o f max -max mode a -a ow -ow y bs nb ct ft rt -rt -v -cnf -r -u -rc -ul",
                "start",
            ),
            Action::Stop => ("ets n y", "stop"),
            Action::Query => ("ets n y", "query"),
            Action::Providers => ("pid y", "query providers"),
            Action::Update => ("ets n p -p pf o nb ft rt -rt fd y", "update"),
        }
    }
}

/// A command, understood.
#[derive(Debug, Default)]
struct Command {
    /// Words that belong to no option.
    words: Vec<String>,
    /// Of `-n`.
    named: Option<String>,
    setup: Setup,
    wishes: Vec<Wish>,
    unwanted: Vec<Named>,
    ets: bool,
    is_circular: bool,
    appends: bool,
    keeps_existing: bool,
    real_time: Option<bool>,
    flush_timer_ms: Option<u32>,
    flushes: bool,
    pid: Option<u32>,
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    match parse(words)? {
        Some((action, name, command)) => act(action, name, command),
        None => print(HELP),
    }
}

/// What it does, the session's or provider's name, and the rest; `None`: help is wanted.
fn parse(words: &[String]) -> Result<Option<(Action, Option<String>, Command)>, Failure> {
    let mut words = Words::new(&VOCABULARY, words);
    let mut command = Command::default();
    let mut given = Vec::new();
    while let Some(word) = words.next() {
        match word {
            Word::Value(text) => command.words.push(text.to_owned()),
            Word::Option(name) if matches!(name.as_str(), "?" | "h" | "help") => return Ok(None),
            Word::Option(name) => {
                command.option(&mut words, &name)?;
                given.push(name);
            }
        }
    }
    if command.words.is_empty() && given.is_empty() {
        return Ok(None);
    }
    let (action, name) = command.action()?;
    let (options, verb) = action.options();
    let odd = given.iter().find(|name| !options.split_whitespace().any(|known| known == *name));
    if let Some(odd) = odd {
        return Err(VOCABULARY.wrong(odd, format!("does not go with logman {verb}")));
    }
    if !command.ets && action != Action::Providers {
        return Err(usage(format!("logman {verb}: {SAVED}")));
    }
    if let Some(name) = &name
        && action != Action::Providers
    {
        session_name("logman", name)?;
    } else if !matches!(action, Action::Query | Action::Providers) {
        return Err(usage(format!("logman {verb}: the session's name is needed")));
    }
    if command.is_circular {
        command.setup.set_mode("logman", FileMode::Circular, "-f bincirc")?;
    }
    if command.appends {
        command.setup.set_mode("logman", FileMode::Append, "-a")?;
    }
    Ok(Some((action, name, command)))
}

impl Command {
    /// The verb, which may be missing, what it is done to, and its name.
    fn action(&mut self) -> Result<(Action, Option<String>), Failure> {
        let mut words = std::mem::take(&mut self.words).into_iter();
        let first = words.next().unwrap_or_default();
        let mut rest: Vec<String> = words.collect();
        let is = |word: Option<&String>, name: &str| {
            word.is_some_and(|word| word.eq_ignore_ascii_case(name))
        };
        let action = match first.to_ascii_lowercase().as_str() {
            "start" => Action::Start,
            "create" if is(rest.first(), "trace") => {
                rest.remove(0);
                Action::Start
            }
            "create" => {
                let what = "logman create: create trace is supported; there are no counters, alerts and API traces";
                return Err(usage(what));
            }
            "stop" => Action::Stop,
            "update" => Action::Update,
            "query" if is(rest.first(), "providers") => {
                rest.remove(0);
                Action::Providers
            }
            "query" => Action::Query,
            verb @ ("delete" | "import" | "export") => {
                return Err(usage(format!("logman {verb}: {SAVED}; logman stop ends a session")));
            }
            "" => Action::Query,
            _ => {
                rest.insert(0, first);
                Action::Query
            }
        };
        // `logman update trace NAME`, but `logman start trace` for a session of that name.
        let takes_kind = matches!(action, Action::Start | Action::Update | Action::Stop);
        if takes_kind && rest.len() > 1 && is(rest.first(), "trace") {
            rest.remove(0);
        }
        rest.extend(self.named.take());
        match &mut rest[..] {
            [] => Ok((action, None)),
            [name] => Ok((action, Some(std::mem::take(name)))),
            [_, more, ..] => {
                Err(usage(format!("logman: {more:?} belongs to no option; see logman -h")))
            }
        }
    }

    fn option(&mut self, words: &mut Words<'_>, name: &str) -> Result<(), Failure> {
        let setup = &mut self.setup;
        let mut once =
            |by: &str| words.needed(by, "a value").map(|text| (text, text.to_ascii_lowercase()));
        match name {
            "ets" => self.ets = true,
            "n" => self.named = Some(words.needed(name, "a name")?.to_owned()),
            "p" => {
                let provider = words.needed(name, "a provider")?;
                let keywords = words.value();
                let level = keywords.and_then(|_| words.value());
                self.wishes.push(wish(provider, keywords, level)?);
            }
            "-p" => {
                let provider = words.needed(name, "a provider")?;
                // As one copies it from -p: they change nothing.
                let _ = (words.value(), words.value());
                self.unwanted.push(wish(provider, None, None)?.provider);
            }
            "pf" => {
                let path = words.needed(name, "a file of providers")?;
                let text = std::fs::read_to_string(path)
                    .map_err(|error| VOCABULARY.wrong(name, format!("{path}: {error}")))?;
                self.wishes.extend(wishes_of(path, &text)?);
            }
            "o" => setup.file = Some(with_extension(words.needed(name, "a file")?)),
            "f" => match once(name)?.1.as_str() {
                "bin" => {}
                "bincirc" => self.is_circular = true,
                other => {
                    let what = format!("{other}: bin and bincirc are supported");
                    return Err(VOCABULARY.wrong(name, what));
                }
            },
            "max" => setup.max_size = Some(u64::from(words.count(name)?) << 20),
            "mode" => match once(name)? {
                (_, mode) if mode == "pagedmemory" => {}
                (_, mode) if mode == "preallocate" => setup.start.preallocate = true,
                (text, mode) => {
                    let mode = match mode.as_str() {
                        "sequential" => FileMode::Sequential,
                        "circular" => FileMode::Circular,
                        "newfile" => FileMode::NewFile,
                        "append" => FileMode::Append,
                        "globalsequence" | "localsequence" => {
                            let what = format!("{text}: messages get no sequence numbers here");
                            return Err(VOCABULARY.wrong("mode", what));
                        }
                        _ => {
                            let what = format!(
                                "{text}: Sequential, Circular, NewFile, Append, Preallocate and \
                                 PagedMemory are supported"
                            );
                            return Err(VOCABULARY.wrong("mode", what));
                        }
                    };
                    setup.set_mode("logman", mode, "-mode")?;
                }
            },
            "a" => self.appends = true,
            "ow" => self.keeps_existing = false,
            "-ow" => self.keeps_existing = true,
            "bs" => setup.buffer_kb = Some(words.number(name)?),
            "nb" => {
                setup.min_buffers = Some(words.count(name)?);
                setup.max_buffers = Some(words.count(name)?);
                if setup.min_buffers > setup.max_buffers {
                    return Err(VOCABULARY.wrong(name, "MIN is not above MAX"));
                }
            }
            "ct" => {
                let clock = match once(name)?.1.as_str() {
                    "perf" => 1,
                    "system" => 2,
                    "cycle" => 3,
                    other => {
                        let what = format!("{other}: it is perf, system or cycle");
                        return Err(VOCABULARY.wrong(name, what));
                    }
                };
                setup.clock = Some(clock);
            }
            "ft" => {
                let text = words.needed(name, "a time")?;
                let time = duration(text).ok_or_else(|| {
                    VOCABULARY.wrong(name, format!("{text:?} is no time: [[hh:]mm:]ss"))
                })?;
                self.flush_timer_ms = Some(time);
            }
            "rt" => self.real_time = Some(true),
            "-rt" => self.real_time = Some(false),
            "fd" => self.flushes = true,
            "pid" => self.pid = Some(words.count(name)?),
            // Nothing is asked, and what these take back is never so.
            "y" | "-a" | "-max" | "-v" | "-cnf" | "-r" | "-u" | "-rc" | "-ul" => {}
            _ => return Err(VOCABULARY.refuse(name)),
        }
        Ok(())
    }
}

/// `PROVIDER [KEYWORDS [LEVEL]]`. What is not said is everything: logman's own displays show level 255 then.
fn wish(provider: &str, keywords: Option<&str>, level: Option<&str>) -> Result<Wish, Failure> {
    if provider.eq_ignore_ascii_case("Windows Kernel Trace") {
        return Err(VOCABULARY.wrong("p", format!("{provider}: {KERNEL}")));
    }
    let any = match keywords {
        None => 0,
        Some(text) => number(text).ok_or_else(|| {
            let what = format!("{text}: keywords are given as a mask, as in 0x10");
            VOCABULARY.wrong("p", what)
        })?,
    };
    let level = match level {
        None => u8::MAX,
        Some(text) => level_of(text).ok_or_else(|| {
            let what = format!("{text}: a level is 0 to 255, or win:Critical to win:Verbose");
            VOCABULARY.wrong("p", what)
        })?,
    };
    Wish::parse(provider, level, any)
}

fn level_of(text: &str) -> Option<u8> {
    match number(text) {
        Some(number) => u8::try_from(number).ok(),
        None => {
            let lower = text.to_ascii_lowercase();
            crate::live::options::level(lower.strip_prefix("win:")?).ok()
        }
    }
}

/// The lines of a file of providers: `{GUID} flags level name`, or a name in the GUID's place.
fn wishes_of(path: &str, text: &str) -> Result<Vec<Wish>, Failure> {
    let mut all = Vec::new();
    for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
        if line.is_empty() {
            continue;
        }
        let (provider, rest) = match line.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(|| {
                VOCABULARY.wrong("pf", format!("{path}: a quotation mark is missing: {line}"))
            })?,
            None => line.split_once(char::is_whitespace).unwrap_or((line, "")),
        };
        let mut rest = rest.split_whitespace();
        // What is behind them is a name, for people.
        all.push(wish(provider, rest.next(), rest.next())?);
    }
    match all.is_empty() {
        true => Err(VOCABULARY.wrong("pf", format!("{path}: there is no provider in it"))),
        false => Ok(all),
    }
}

/// As logman names files: `trace` is `trace.etl`.
fn with_extension(file: &str) -> PathBuf {
    let path = PathBuf::from(file);
    match path.extension() {
        Some(_) => path,
        None => PathBuf::from(format!("{file}.etl")),
    }
}

const DONE: &str = "The command completed successfully.\n";

fn act(action: Action, name: Option<String>, command: Command) -> Result<Outcome, Failure> {
    match (action, name) {
        (Action::Start, Some(name)) => {
            let mut setup = command.setup;
            setup.start.real_time = command.real_time == Some(true);
            setup.start.flush_timer_ms = command.flush_timer_ms;
            let default = with_extension(&name.replace('/', "_"));
            let start = setup.finish("logman", name, || default)?;
            if command.keeps_existing
                && let Some(file) = start.file.as_deref().filter(|file| file.exists())
            {
                return Err(Failure::new(format!("{}: exists; -ow replaces it", file.display())));
            }
            Controller::connect_or_start()?.start(start, command.wishes)?;
            print(DONE)
        }
        (Action::Stop, Some(name)) => {
            let (_, outcome) = Controller::connect()?.stop(&name)?;
            print(DONE)?;
            Ok(outcome)
        }
        (Action::Update, Some(name)) => {
            let controller = Controller::connect()?;
            let update = Update {
                buffers: command.setup.max_buffers,
                flush_timer_ms: command.flush_timer_ms,
                file: command.setup.file.as_deref().map(absolute).transpose()?,
                real_time: command.real_time,
            };
            // A session that is not there is told whatever is to be changed.
            controller.query(&name)?;
            controller.update("logman update", &name, update)?;
            for wish in &command.wishes {
                controller.enable(&name, wish, 1000)?;
            }
            for provider in &command.unwanted {
                controller.disable(&name, provider)?;
            }
            if command.flushes {
                controller.flush(&name)?;
            }
            print(DONE)
        }
        (Action::Query, Some(name)) => {
            let controller = Controller::connect()?;
            let status = controller.query(&name)?;
            let names = ProviderNames::of(controller.providers()?);
            print(&format!("\n{}\n{DONE}", shown(&status, &names)))
        }
        (Action::Providers, name) => providers(name, command.pid),
        (_, None) => {
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

/// `running`, `file-full`… as a title.
fn state(status: &SessionStatus) -> String {
    let mut state = status.state.replace('-', " ");
    if let Some(first) = state.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    state
}

/// The fields of logman's display in their order. Segments and schedules are of saved collectors; of a session they are off.
fn shown(status: &SessionStatus, names: &ProviderNames) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        // A name may begin with the empty line before it. Writing to a String cannot fail.
        let before = name.len() - name.trim_start().len();
        let value = safe(value);
        let line = format!("{}{:<22}{value}", &name[..before], format!("{}:", &name[before..]));
        let _ = writeln!(text, "{}", line.trim_end_matches(' '));
    };
    let is_set = |flag| if status.mode.contains(flag) { "On" } else { "Off" };
    let root = status.file.as_deref().and_then(Path::parent);
    row("Name", &status.name);
    row("Status", &state(status));
    if let Some(root) = root {
        row("Root Path", &root.to_string_lossy());
    }
    row("Segment", "Off");
    row("Schedules", "Off");
    if status.max_size > 0 {
        row("Segment Max Size", &format!("{} MB", status.max_size.div_ceil(1 << 20)));
    }
    row("\nName", &format!("{0}\\{0}", status.name));
    row("Type", "Trace");
    if status.file.is_some() {
        row("Output Location", &shown_file(status));
    }
    row("Append", is_set(LogFileMode::APPEND));
    row("Circular", is_set(LogFileMode::CIRCULAR));
    row("Overwrite", "Off");
    row("Buffer Size", &(status.buffer_size >> 10).to_string());
    row("Buffers Lost", &(status.buffers_lost + status.real_time_buffers_lost).to_string());
    row("Buffers Written", &status.buffers_written.to_string());
    row("Buffer Flush Timer", &seconds(status.flush_timer_ms));
    row(
        "Clock Type",
        match status.clock {
            2 => "System",
            3 => "Cycle",
            _ => "Performance",
        },
    );
    let modes = [
        (status.file.is_some(), "File"),
        (status.mode.contains(LogFileMode::REAL_TIME), "Real-time"),
        (status.mode.contains(LogFileMode::BUFFERING), "Buffered"),
    ];
    let modes: Vec<&str> = modes.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    row("File Mode", &modes.join(", "));
    for (id, info) in enabled(status) {
        let level = match info.wanted.level {
            1 => "1 (win:Critical)".to_owned(),
            2 => "2 (win:Error)".to_owned(),
            3 => "3 (win:Warning)".to_owned(),
            4 => "4 (win:Informational)".to_owned(),
            5 => "5 (win:Verbose)".to_owned(),
            level => level.to_string(),
        };
        let guid = braced(&id);
        row("\nProvider", "");
        row("Name", names.get(&id).unwrap_or(&guid));
        row("Provider Guid", &guid);
        row("Level", &level);
        row("KeywordsAll", &format!("{:#x}", info.wanted.all));
        row("KeywordsAny", &format!("{:#x}", info.wanted.any));
        row("Properties", &info.properties.0.to_string());
        row("Filter Type", if info.filters.is_some() { "1" } else { "0" });
    }
    text
}

/// Whole seconds as Windows has them; others with what is left.
fn seconds(ms: u32) -> String {
    match ms % 1000 {
        0 => (ms / 1000).to_string(),
        _ => format!("{}.{:03}", ms / 1000, ms % 1000),
    }
}

/// Providers that programs have registered or sessions have enabled: all, those of a process, or one with its processes.
fn providers(name: Option<String>, pid: Option<u32>) -> Result<Outcome, Failure> {
    let controller = Controller::if_there()?;
    let known = controller.as_ref().map_or(Ok(Vec::new()), Controller::providers)?;
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
            VOCABULARY.wrong("pid", "tells the providers of a process: it goes without a name")
        );
    }
    let named: Named = name.parse().map_err(|error| usage(format!("{name:?}: {error}")))?;
    let id = crate::live::options::resolve(&named, controller.as_ref().map(|c| &c.client))?;
    row(&id);
    let pids = known.iter().find(|each| each.id == id).map_or(&[][..], |each| &each.pids);
    let _ = write!(text, "\n{:<20}Image\n{:-<79}\n", "PID", "");
    for pid in pids {
        let image = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let row = format!("{:<20}{}", format!("{pid:#010x}"), safe(&image.to_string_lossy()));
        let _ = writeln!(text, "{}", row.trim_end());
    }
    print(&format!("{text}\n\n{DONE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Option<(Action, Option<String>, Command)>, Failure> {
        parse(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    /// OV-24: providers with what is wanted of them, in the command and in a file.
    #[test]
    fn what_is_wanted_of_providers() {
        let id = Guid::from_name("Doc");
        let guid = braced(&id);
        let line =
            ["START", "s", "-P", &guid, "0x30", "4", "/p", "A b", "-p", "*Doc", "ff", "-ETS"];
        let (action, name, command) = parsed(&line).unwrap().unwrap();
        assert_eq!((action, name.as_deref()), (Action::Start, Some("s")));
        let expected = [
            Wish::of(Named::Id(id), 4, 0x30, 0),
            Wish::of(Named::Name("A b".to_owned()), 255, 0, 0),
            Wish::of(Named::Id(id), 255, 0xff, 0),
        ];
        assert_eq!(command.wishes, expected);
        let text = format!("\u{feff}{guid} 0x30 0x4 Doc of all\r\n\"A b\"\n\n*Doc ff\n");
        assert_eq!(wishes_of("f", &text).unwrap(), expected);
        for bad in ["", "\"A b", "a x", "a 1 win:Loud", "a 1 256"] {
            assert!(wishes_of("f", bad).is_err(), "{bad:?}");
        }
        assert_eq!(level_of("win:Informational"), Some(4));
    }

    /// OV-24: the forms in which verbs and names stand.
    #[test]
    fn verbs() {
        for (words, expected, named) in [
            (&["create", "trace", "a", "-ets"][..], Action::Start, Some("a")),
            (&["create", "TRACE", "-n", "a", "-ets"], Action::Start, Some("a")),
            (&["start", "trace", "a", "-ets"], Action::Start, Some("a")),
            (&["start", "trace", "-ets"], Action::Start, Some("trace")),
            (&["update", "trace", "a", "-ets", "--p", "b", "1", "2"], Action::Update, Some("a")),
            (&["stop", "a", "/ets"], Action::Stop, Some("a")),
            (&["query", "-ets"], Action::Query, None),
            (&["query", "a", "-ets"], Action::Query, Some("a")),
            (&["-ets"], Action::Query, None),
            (&["a", "-ets"], Action::Query, Some("a")),
            (&["query", "providers"], Action::Providers, None),
            (&["query", "providers", "p"], Action::Providers, Some("p")),
        ] {
            let (action, name, _) = parsed(words).unwrap().unwrap();
            assert_eq!((action, name.as_deref()), (expected, named), "{words:?}");
        }
        for help in [&[][..], &["-?"], &["start", "/?"], &["-h"]] {
            assert!(parsed(help).unwrap().is_none(), "{help:?}");
        }
        assert_eq!(with_extension("/a.b/c"), PathBuf::from("/a.b/c.etl"));
        assert_eq!(with_extension("c.bin"), PathBuf::from("c.bin"));
    }
}
