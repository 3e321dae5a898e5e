//! `tracelog`

use super::command_line::{Vocabulary, Word, Words, number};
use super::setup::Setup;
use super::{
    Controller, KERNEL, Wish, all_sessions, enabled, mode_names, print, session_name, shown_file,
};
use crate::format::safe;
use crate::frontends::usage;
use crate::live::options::Named;
use crate::output::{Failure, Outcome};
use etw_host::{EnableInfo, EnableProperties, Filters, IdFilter};
use etw_types::{Guid, LogFileMode};
use etw_wire::control::{FileMode, SessionStatus, Update};
use std::fmt::Write;

const HELP: &str = "\
tracelog -start NAME [-f FILE] [-rt | -buffering] [options] [-guid PROVIDER]...
tracelog -enable NAME -guid PROVIDER... [-level N] [-matchanykw N] [-timeout MS]
tracelog -disable NAME -guid PROVIDER...
tracelog -update NAME [-f FILE] [-rt] [-ft SECONDS] [-max BUFFERS]
tracelog -stop NAME | -q NAME [-lp] | -l [-lp] | -flush NAME [-f FILE]
tracelog -capturestate NAME | -enumguid

PROVIDER: #GUID, *NAME (hashed), or a file with lines GUID;MATCHANYKEYWORD;LEVEL
  -level N, -flag N, -matchanykw N, -matchallkw N   what is wanted; default: everything
  -enableproperty N   1 SID, 2 terminal session, 4 call stack, 0x10 not without a keyword,
                      0x80 start key
  -EventIdFilter -in|-out COUNT ID...   -PidFilter COUNT PID...   -ExeFilter NAME[;NAME]
  -StackWalkFilter -in|-out COUNT ID...: whose call stacks
Options of -start:
  -f FILE   LogFile.etl if there is neither -f nor -rt nor -buffering
  -seq MB | -cir MB | -newfile MB   -kb (sizes in KB)   -prealloc
  -append (to a file in system time, which is then the clock)
  -b KB   -min BUFFERS   -max BUFFERS: all buffers are there from the start
  -ft SECONDS   -UsePerfCounter | -UseSystemTime | -UseCPUCycle
  -lowcapacity   -independent   -secure   -paged (as buffers always are)
Sessions are those of your own host, which is started when it is needed. Not supported,
and refused: the NT kernel's events, autologgers, private sessions, sequence numbers.
";

static VOCABULARY: Vocabulary = Vocabulary {
    command: "tracelog",
    options: "? h help start stop q l lp update flush enable enableex disable enumguid capturestate \
              f b min max seq cir newfile append kb prealloc ft rt buffering useperfcounter \
              usesystemtime usecpucycle lowcapacity independent secure paged guid level flag flags \
              matchanykw matchallkw enableproperty timeout eventidfilter stackwalkfilter in out pidfilter exefilter",
    refused: &[
        (
            "cm dpcisr eflag fio hf img nodisk nonet noprocess nothread pf systemlogger \
             systemrundown stackwalk lbr pmc profilesource setprofint",
            KERNEL,
        ),
        (
            "addautologger sessionguid remove",
            "sessions that begin with the host are in its sessions.json; see etw daemon --help",
        ),
        ("um critsec heap pids", "a private session is started by its program (etw::Session)"),
        ("gs ls", "messages get no sequence numbers here"),
        ("x", "stop each session by its name; -l shows them"),
        ("kd addtotriagedump hybridshutdown", "this is of Windows alone"),
        ("pkgidfilter pkgappidfilter", "there are no app packages here; -ExeFilter, -PidFilter"),
        ("enumguidex", "-enumguid lists providers; etw provider show GUID tells of one"),
        ("disableex", "it is -disable"),
        ("sourceguid", "a session is the source of what it enables"),
        ("age bt", "buffers are there until the session ends, and are stored when they are full"),
    ],
};

/// What one command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Start,
    Stop,
    Query,
    List,
    Update,
    Flush,
    Enable,
    Disable,
    EnumGuid,
    CaptureState,
}

/// Each with the options that go with it; others would have to be ignored.
const ACTIONS: [(Action, &str, &str); 11] = {
    const WANTED: &str = "guid level flag flags matchanykw matchallkw enableproperty timeout \
                          eventidfilter stackwalkfilter in out pidfilter exefilter";
    [
        (
            Action::Start,
            "start",
            "f b min max seq cir newfile append kb prealloc ft rt buffering useperfcounter \
             usesystemtime usecpucycle lowcapacity independent secure paged guid level flag flags \
             matchanykw matchallkw enableproperty eventidfilter stackwalkfilter in out pidfilter exefilter",
        ),
        (Action::Stop, "stop", ""),
        (Action::Query, "q", "lp"),
        (Action::List, "l", "lp"),
        (Action::Update, "update", "f ft max rt"),
        (Action::Flush, "flush", "f"),
        (Action::Enable, "enable", WANTED),
        (Action::Enable, "enableex", WANTED),
        (Action::Disable, "disable", "guid"),
        (Action::EnumGuid, "enumguid", ""),
        (Action::CaptureState, "capturestate", ""),
    ]
};

/// A command, understood.
#[derive(Debug, Default)]
struct Command {
    name: Option<String>,
    setup: Setup,
    sizes_in_kb: bool,
    guids: Vec<Source>,
    level: u8,
    any: Option<u64>,
    all: u64,
    info: EnableInfo,
    filters: Filters,
    timeout_ms: u32,
    with_providers: bool,
    real_time: bool,
    flush_timer_ms: Option<u32>,
}

/// What `-guid` names.
#[derive(Debug)]
enum Source {
    One(Named),
    /// Of a file: keywords and level of a line are its provider's own.
    Line(Guid, Option<u64>, Option<u8>),
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    let Some((action, command)) = parse(words)? else { return print(HELP) };
    act(action, command)
}

/// `None`: help is wanted.
fn parse(words: &[String]) -> Result<Option<(Action, Command)>, Failure> {
    let mut words = Words::new(&VOCABULARY, words);
    let mut command = Command::default();
    let mut action = None;
    let mut given = Vec::new();
    while let Some(word) = words.next() {
        let name = match word {
            Word::Option(name) => name,
            Word::Value(text) => {
                return Err(usage(format!(
                    "tracelog: {text:?} belongs to no option; see tracelog -h"
                )));
            }
        };
        if matches!(name.as_str(), "?" | "h" | "help") {
            return Ok(None);
        }
        match ACTIONS.iter().find(|(_, known, _)| *known == name) {
            Some(_) if action.is_some() => {
                return Err(VOCABULARY.wrong(&name, "a command does one thing"));
            }
            Some((is, _, options)) => {
                action = Some((*is, name, *options));
                command.name = words.value().map(str::to_owned);
            }
            None => {
                command.option(&mut words, &name)?;
                given.push(name);
            }
        }
    }
    let Some((action, by, options)) = action else {
        return Err(usage("tracelog: nothing is to be done; see tracelog -h"));
    };
    let odd = given.iter().find(|name| !options.split_whitespace().any(|known| known == *name));
    if let Some(odd) = odd {
        return Err(VOCABULARY.wrong(odd, format!("does not go with -{by}")));
    }
    match (action, &command.name) {
        (Action::List | Action::EnumGuid, None) => {}
        (Action::List | Action::EnumGuid, Some(_)) => {
            return Err(VOCABULARY.wrong(&by, "takes no name"));
        }
        // On Windows it would be the kernel's session.
        (_, None) => {
            return Err(VOCABULARY.wrong(&by, format!("a session's name is needed: {KERNEL}")));
        }
        (_, Some(name)) => drop(session_name("tracelog", name)?),
    }
    if command.guids.is_empty() {
        let of = "level flag flags matchanykw matchallkw enableproperty eventidfilter stackwalkfilter \
                  pidfilter exefilter";
        if let Some(odd) = given.iter().find(|name| of.split_whitespace().any(|o| o == *name)) {
            return Err(VOCABULARY.wrong(odd, "is said of providers; -guid names them"));
        }
        if matches!(action, Action::Enable | Action::Disable) {
            return Err(VOCABULARY.wrong(&by, "-guid PROVIDER is needed"));
        }
    }
    if command.sizes_in_kb && command.setup.max_size.is_none() {
        return Err(VOCABULARY.wrong("kb", "is the unit of -seq, -cir and -newfile"));
    }
    let has_stacks = command.info.properties.contains(EnableProperties::STACK_TRACE);
    if command.filters.stacks.event_ids.is_some() && !has_stacks {
        let what = "is of the events with call stacks, which -EnableProperty 4 asks for";
        return Err(VOCABULARY.wrong("stackwalkfilter", what));
    }
    command.filters.check().map_err(|error| usage(format!("tracelog: {error}")))?;
    Ok(Some((action, command)))
}

impl Command {
    fn option(&mut self, words: &mut Words<'_>, name: &str) -> Result<(), Failure> {
        let setup = &mut self.setup;
        let start = &mut setup.start;
        match name {
            "lp" => self.with_providers = true,
            "f" => setup.file = Some(words.value().unwrap_or("LogFile.etl").into()),
            "b" => setup.buffer_kb = Some(words.number(name)?),
            "min" => setup.min_buffers = Some(words.count(name)?),
            "max" => setup.max_buffers = Some(words.count(name)?),
            "seq" | "cir" | "newfile" => {
                let (mode, option) = match name {
                    "seq" => (FileMode::Sequential, "-seq"),
                    "cir" => (FileMode::Circular, "-cir"),
                    _ => (FileMode::NewFile, "-newfile"),
                };
                setup.set_mode("tracelog", mode, option)?;
                // In KB first: -kb may stand behind it.
                setup.max_size = Some(u64::from(words.count(name)?) << 10);
            }
            "append" => setup.set_mode("tracelog", FileMode::Append, "-append")?,
            "kb" => self.sizes_in_kb = true,
            "prealloc" => start.preallocate = true,
            "ft" => {
                let seconds = words.count(name)?;
                let time = seconds.checked_mul(1000);
                self.flush_timer_ms =
                    Some(time.ok_or_else(|| VOCABULARY.wrong(name, "this is too long"))?);
            }
            "rt" => self.real_time = true,
            "buffering" => start.buffering = true,
            "useperfcounter" => setup.clock = Some(1),
            "usesystemtime" => setup.clock = Some(2),
            "usecpucycle" => setup.clock = Some(3),
            "lowcapacity" => start.no_per_processor = true,
            "independent" => start.independent = true,
            "secure" => start.secure = true,
            // The host's memory always is.
            "paged" => {}
            "guid" => self.guids.extend(sources(words.needed(name, "a provider")?)?),
            "level" => self.level = words.level(name)?,
            "flag" | "flags" | "matchanykw" => {
                let mask = words.number(name)?;
                if self.any.replace(mask).is_some() {
                    let what = "-flag and -matchanykw are one mask, which is said once";
                    return Err(VOCABULARY.wrong(name, what));
                }
            }
            "matchallkw" => self.all = words.number(name)?,
            "enableproperty" => self.property(words.number(name)?)?,
            "timeout" => self.timeout_ms = words.count(name)?,
            "eventidfilter" | "stackwalkfilter" => {
                let include = match words.next() {
                    Some(Word::Option(way)) if way == "in" => true,
                    Some(Word::Option(way)) if way == "out" => false,
                    _ => return Err(VOCABULARY.wrong(name, "-in or -out is needed")),
                };
                let ids = words.counted(name, "an event id")?;
                let filter = Some(IdFilter { include, ids });
                match name {
                    "eventidfilter" => self.filters.event_ids = filter,
                    _ => self.filters.stacks.event_ids = filter,
                }
            }
            "in" | "out" => {
                return Err(
                    VOCABULARY.wrong(name, "stands behind -EventIdFilter or -StackWalkFilter")
                );
            }
            "pidfilter" => self.filters.process_ids = words.counted(name, "a process id")?,
            "exefilter" => {
                let names = words.needed(name, "a program's file name")?;
                self.filters.executables =
                    names.split(';').map(|name| name.trim().to_owned()).collect();
            }
            _ => return Err(VOCABULARY.refuse(name)),
        }
        Ok(())
    }

    fn property(&mut self, number: u64) -> Result<(), Failure> {
        use EnableProperties as P;
        let known = [
            P::SID,
            P::TS_ID,
            P::STACK_TRACE,
            P::IGNORE_KEYWORD_0,
            P::PROVIDER_GROUP,
            P::PROCESS_START_KEY,
            P::EXCLUDE_INPRIVATE,
        ];
        let known = known.iter().fold(0, |all, one| all | u64::from(one.0));
        if number & !known != 0 {
            let what = format!("{:#x} is not supported", number & !known);
            return Err(VOCABULARY.wrong("enableproperty", what));
        }
        self.info.properties = P(number as u32);
        self.info.wanted.ignore_keyword_0 = self.info.properties.contains(P::IGNORE_KEYWORD_0);
        Ok(())
    }

    fn wishes(&self) -> Vec<Wish> {
        let filters = (self.filters != Filters::default()).then(|| Box::new(self.filters.clone()));
        let each = self.guids.iter().map(|source| {
            let (provider, any, level) = match source {
                Source::One(named) => (named.clone(), None, None),
                Source::Line(id, any, level) => (Named::Id(*id), *any, *level),
            };
            let mut info = EnableInfo { filters: filters.clone(), ..self.info.clone() };
            info.wanted.level = level.unwrap_or(self.level);
            info.wanted.any = any.or(self.any).unwrap_or(0);
            info.wanted.all = self.all;
            Wish { provider, info }
        });
        each.collect()
    }
}

/// `#GUID`, `*NAME`, or the lines of a file.
fn sources(text: &str) -> Result<Vec<Source>, Failure> {
    let wrong = |what: String| VOCABULARY.wrong("guid", what);
    if let Some(id) = text.strip_prefix('#') {
        let id =
            id.trim_matches(['{', '}']).parse().map_err(|_| wrong(format!("{text}: no GUID")))?;
        return Ok(vec![Source::One(Named::Id(id))]);
    }
    if text.starts_with('*') {
        let named = text.parse().map_err(|error| wrong(format!("{text}: {error}")))?;
        return Ok(vec![Source::One(named)]);
    }
    let lines = std::fs::read_to_string(text).map_err(|error| {
        wrong(format!("{text}: {error} (a GUID has # before it, a provider's name *)"))
    })?;
    let mut all = Vec::new();
    for (at, line) in lines.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        let bad =
            || wrong(format!("{text}, line {}: GUID;MATCHANYKEYWORD;LEVEL is needed", at + 1));
        // Control GUID files have a name behind it.
        let mut parts = line.split_whitespace().next().unwrap_or(line).split(';');
        let id = parts.next().unwrap_or_default().trim_start_matches('#').trim_matches(['{', '}']);
        let mut number_of = || match parts.next().filter(|part| !part.is_empty()) {
            Some(part) => number(part).map(Some).ok_or_else(bad),
            None => Ok(None),
        };
        let (any, level) = (number_of()?, number_of()?);
        let level = level.map(|level| u8::try_from(level).unwrap_or(u8::MAX));
        all.push(Source::Line(id.parse().map_err(|_| bad())?, any, level));
    }
    match all.is_empty() {
        true => Err(wrong(format!("{text}: there is no GUID in it"))),
        false => Ok(all),
    }
}

fn act(action: Action, mut command: Command) -> Result<Outcome, Failure> {
    let wishes = command.wishes();
    let name = command.name.take().unwrap_or_default();
    match action {
        Action::Start => {
            let mut setup = command.setup;
            if !command.sizes_in_kb {
                setup.max_size = setup.max_size.map(|size| size << 10);
            }
            setup.start.real_time = command.real_time;
            setup.start.flush_timer_ms = command.flush_timer_ms;
            let start = setup.finish("tracelog", name, || "LogFile.etl".into())?;
            let status = Controller::connect_or_start()?.start(start, wishes)?;
            let mut text = "Logger Started...\n".to_owned();
            if !status.enabled.is_empty() {
                let _ = writeln!(text, "Enabling trace to logger {}", status.id);
            }
            print(&(text + &succeeded(&status, false)))
        }
        Action::Stop => {
            let (status, outcome) = Controller::connect()?.stop(&name)?;
            print(&succeeded(&status, false))?;
            Ok(outcome)
        }
        Action::Query => {
            print(&succeeded(&Controller::connect()?.query(&name)?, command.with_providers))
        }
        Action::List => {
            let each = all_sessions()?;
            let each = each.iter().map(|status| properties(status, command.with_providers));
            print(&each.collect::<Vec<_>>().join("\n"))
        }
        Action::Update => {
            let controller = Controller::connect()?;
            let file = command.setup.file.as_deref().map(crate::live::options::absolute);
            let update = Update {
                buffers: command.setup.max_buffers,
                flush_timer_ms: command.flush_timer_ms,
                file: file.transpose()?,
                real_time: command.real_time.then_some(true),
            };
            controller.update("tracelog -update", &name, update)?;
            print(&succeeded(&controller.query(&name)?, false))
        }
        Action::Flush => {
            let controller = Controller::connect()?;
            match &command.setup.file {
                Some(file) => controller.snapshot(&name, &file.to_string_lossy())?,
                None => controller.flush(&name)?,
            }
            print(&succeeded(&controller.query(&name)?, false))
        }
        Action::Enable => {
            let controller = Controller::connect()?;
            for wish in &wishes {
                controller.enable(&name, wish, command.timeout_ms)?;
            }
            let status = controller.query(&name)?;
            print(&format!("Enabling trace to logger {}\n{}", status.id, succeeded(&status, false)))
        }
        Action::Disable => {
            let controller = Controller::connect()?;
            for wish in &wishes {
                controller.disable(&name, &wish.provider)?;
            }
            print(&succeeded(&controller.query(&name)?, false))
        }
        Action::CaptureState => {
            let controller = Controller::connect()?;
            let status = controller.query(&name)?;
            for (id, info) in enabled(&status) {
                controller.capture(&name, id, &info.wanted)?;
            }
            print(&succeeded(&status, false))
        }
        Action::EnumGuid => enumerate(),
    }
}

/// How it went, and the session.
fn succeeded(status: &SessionStatus, with_providers: bool) -> String {
    format!(
        "Operation Status:       0L      The operation completed successfully.\n\n{}",
        properties(status, with_providers)
    )
}

/// The fields of tracelog's display in their order, as far as there is such a thing here.
fn properties(status: &SessionStatus, with_providers: bool) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let line = format!("{:<24}{}", format!("{name}:"), safe(&value));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let count = |value: u64| value.to_string();
    row("Logger Name", status.name.clone());
    row("Logger Id", format!("{:#x}", status.id));
    row("Guid", status.guid.to_string());
    row("Buffer Size", format!("{} Kb", status.buffer_size >> 10));
    row("Maximum Buffers", status.buffers.to_string());
    row("Minimum Buffers", status.buffers.to_string());
    row("Number of Buffers", status.buffers.to_string());
    row("Free Buffers", status.free_buffers.to_string());
    row("Buffers Written", count(status.buffers_written));
    row("Events Lost", count(status.lost));
    row("Log Buffers Lost", count(status.buffers_lost));
    row("Real Time Buffers Lost", count(status.real_time_buffers_lost));
    row("Real Time Consumers", status.consumers.to_string());
    row(
        "ClockType",
        match status.clock {
            2 => "SystemTime",
            3 => "CPUCycle",
            _ => "PerfCounter",
        }
        .to_owned(),
    );
    let (file_mode, others) = mode_names(status.mode);
    let is_buffering = status.mode.contains(LogFileMode::BUFFERING);
    let modes: Vec<&str> = others.into_iter().chain([file_mode]).collect();
    row(if is_buffering { "Mode" } else { "Log Mode" }, modes.join("  "));
    row(
        "Maximum File Size",
        match status.max_size {
            0 => "not set".to_owned(),
            size if size % (1 << 20) == 0 => format!("{} Mb", size >> 20),
            size => format!("{} Kb", size >> 10),
        },
    );
    row(
        "Buffer Flush Timer",
        match status.flush_timer_ms {
            0 => "not set".to_owned(),
            ms if ms % 1000 == 0 => format!("{} secs", ms / 1000),
            ms => format!("{ms} ms"),
        },
    );
    row("Log Filename", shown_file(status));
    if with_providers {
        // How tracelog shows them is documented nowhere: a form of our own.
        row("Enabled Providers", status.enabled.len().to_string());
        for (id, info) in enabled(status) {
            let wanted = &info.wanted;
            let _ = writeln!(
                text,
                "    {id}  Level {}  MatchAnyKeyword {:#x}  MatchAllKeyword {:#x}  EnableProperty {:#x}",
                wanted.level, wanted.any, wanted.all, info.properties.0
            );
        }
    }
    text
}

/// The providers that programs have registered: a line for each session that has one enabled.
fn enumerate() -> Result<Outcome, Failure> {
    let mut text = "##     Guid                     Enabled  LoggerId Level Flags\n".to_owned();
    let _ = writeln!(text, "{:-<60}", "");
    if let Some(controller) = Controller::if_there()? {
        let sessions = controller.sessions()?;
        let registered =
            controller.providers()?.into_iter().filter(|provider| !provider.pids.is_empty());
        for provider in registered {
            let before = text.len();
            for status in &sessions {
                let of = |id: &Guid| *id == provider.id || Some(*id) == provider.group;
                for (_, info) in enabled(status).filter(|(id, _)| of(id)) {
                    let (wanted, is) = (&info.wanted, "TRUE");
                    let _ = writeln!(
                        text,
                        "{}     {is:>5}  {:<4} {:<4} {:#x}",
                        provider.id, status.id, wanted.level, wanted.any
                    );
                }
            }
            if text.len() == before {
                let _ = writeln!(text, "{}     FALSE  0    0    0", provider.id);
            }
        }
    }
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<(Action, Command)>, Failure> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    /// OV-24: options in any case and order, with `-` or `/`.
    #[test]
    fn what_is_wanted_of_providers() {
        let id = Guid::from_name("Doc");
        let line = format!(
            "/START s /Guid #{{{id}}} -GUID *Doc -LEVEL ffff -Flag 0x10 -matchallkw 2 -enableproperty 0x91 \
             -EventIdFilter -out 2 5 6 -PidFilter 1 7 -ExeFilter a;b"
        );
        let (action, command) = parsed(&line).unwrap().unwrap();
        assert_eq!((action, command.name.as_deref()), (Action::Start, Some("s")));
        let wishes = command.wishes();
        assert_eq!(wishes.len(), 2);
        for wish in &wishes {
            assert_eq!(wish.provider, Named::Id(id));
            let wanted = &wish.info.wanted;
            assert_eq!((wanted.level, wanted.any, wanted.all), (255, 0x10, 2));
            assert!(wanted.ignore_keyword_0);
            assert_eq!(wish.info.properties.0, 0x91);
            let filters = wish.info.filters.as_ref().unwrap();
            assert_eq!(filters.event_ids, Some(IdFilter { include: false, ids: vec![5, 6] }));
            assert_eq!(filters.process_ids, [7]);
            assert_eq!(filters.executables, ["a", "b"]);
        }
        // Every option that is known is dealt with, and no action takes one that is not.
        for name in VOCABULARY.options.split_whitespace() {
            let is_action = ACTIONS.iter().any(|(_, known, _)| *known == name);
            let taken = ACTIONS.iter().any(|(_, _, options)| options.split(' ').any(|o| o == name));
            assert!(is_action || taken || ["?", "h", "help"].contains(&name), "{name}");
        }
        for (_, _, options) in ACTIONS {
            for name in options.split_whitespace() {
                assert!(VOCABULARY.options.split_whitespace().any(|known| known == name), "{name}");
            }
        }
    }

    /// OV-24: files of GUIDs, as Microsoft documents them and as control GUID files are.
    #[test]
    fn files_of_guids() {
        let path = std::env::temp_dir().join(format!("etw-tracelog-{}.guid", std::process::id()));
        let one = Guid::from_u128(1);
        let text = format!(
            "; comment\r\n{one};0x30;4\r\n\r\n{{{one}}};7\n{one}   CtlGuid\n{one};ff;0xffff ; all\n"
        );
        std::fs::write(&path, text).unwrap();
        let name = path.to_str().unwrap();
        let (_, command) =
            parsed(&format!("-enable s -guid {name} -level 2 -flags 1")).unwrap().unwrap();
        let wishes = command.wishes();
        let got: Vec<_> =
            wishes.iter().map(|wish| (wish.info.wanted.any, wish.info.wanted.level)).collect();
        assert_eq!(got, [(0x30, 4), (7, 2), (1, 2), (0xff, 255)]);
        for bad in ["", "; only\n", "x;1;2\n", &format!("{one};x\n")] {
            std::fs::write(&path, bad).unwrap();
            assert!(sources(name).is_err(), "{bad:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(sources(name).is_err());
    }
}
