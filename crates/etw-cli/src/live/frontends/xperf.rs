//! `xperf`, as a controller.

use super::command_line::{Vocabulary, Word, Words, number};
use super::setup::Setup;
use super::{
    Controller, KERNEL, Wish, all_sessions, mode_names, print, session_name, shown_file, worse,
};
use crate::format::safe;
use crate::frontends::usage;
use crate::live::options::absolute;
use crate::output::{Failure, Outcome};
use crate::rewrite;
use etw_host::EnableProperties;
use etw_wire::control::{FileMode, SessionStatus, Update};
use std::fmt::Write;
use std::path::PathBuf;

const HELP: &str = "\
xperf -start NAME -on PROVIDER+PROVIDER... [options] [-start NAME -on ...]...
xperf -stop NAME [NAME]... [-stop NAME]... [-d MERGED.etl]
xperf -update NAME [-on PROVIDER+...] [-f FILE] [-MaxBuffers N] [-FlushTimer S] [-RealTime]
xperf -flush NAME [-f FILE] | -capturestate NAME PROVIDER+... | -loggers
xperf -merge IN.etl... OUT.etl

PROVIDER: GUID, registered name or *NAME (hashed), then [:KEYWORDS[:LEVEL[:'stack,sid,tsid']]];
          default: all keywords and levels, and none of what may be added to each event
Options of -start:
  -f FILE             user.etl if there is neither -f nor -RealTime nor -Buffering
  -BufferSize KB      default 64
  -MinBuffers N   -MaxBuffers N   default 64: all buffers are there from the start
  -MaxFile MB   -FileMode Sequential|Circular|Append|NewFile
  -FlushTimer SECONDS   -ClockType PerfCounter|SystemTime|Cycle   -RealTime   -Buffering
Sessions are those of your own host, which is started when it is needed. Not supported, and
refused: the NT kernel's flags and groups, profiles, heap and boot traces, and
analysis (-i, -a): etw dump, etw stat and etw convert read traces.
";

static VOCABULARY: Vocabulary = Vocabulary {
    command: "xperf",
    options: "? h help start stop update flush capturestate loggers merge on f d buffersize minbuffers \
              maxbuffers maxfile filemode flushtimer clocktype realtime buffering",
    refused: &[
        (
            "boottrace setprofint seteresourcesample setspinlocksample pooltag pmcprofile \
          lastbranch",
            KERNEL,
        ),
        (
            "stackwalk",
            "is of the kernel's events; PROVIDER:KEYWORDS:LEVEL:'stack' asks for call stacks",
        ),
        ("stopall", "stop each session by its name; -loggers shows them"),
        ("cancel", "-stop NAME, and remove its file"),
        ("save", "-flush NAME -f FILE writes what a session in memory holds"),
        (
            "heap critsec pids pidnewprocess waitfornewprocess",
            "a private session is started by its program (etw::Session)",
        ),
        ("providers", "etw provider list shows them"),
        ("i o a symbols", "analysis: etw dump, etw stat, etw convert and etw report read traces"),
        ("injectonly compress", "etw relog --compress makes small files"),
    ],
};

/// Flags and groups of the kernel's session (`xperf -providers K`), which look like providers' names.
const KERNEL_FLAGS: &str = "PROC_THREAD LOADER PROFILE CSWITCH COMPACT_CSWITCH DISPATCHER DPC INTERRUPT \
    SYSCALL PRIORITY SPINLOCK KQUEUE ALPC PERF_COUNTER DISK_IO DISK_IO_INIT FILE_IO FILE_IO_INIT HARD_FAULTS \
    FILENAME SPLIT_IO REGISTRY DRIVERS POWER CC MEMINFO MEMINFO_WS MEMORY FOOTPRINT NETWORKTRACE VIRT_ALLOC \
    ALL_FAULTS POOL CONTMEMGEN VAMAP REFSET SESSION TIMER CLOCKINT IPI OPTICAL_IO OPTICAL_IO_INIT FLT_IO \
    FLT_IO_INIT FLT_FASTIO FLT_IO_FAILURE HV_PROFILE KE_CLOCK IDLE_STATES DEBUG_EVENTS SHOULDYIELD \
    Base Diag DiagEasy Latency FileIO IOTrace ResumeTrace SysProf ResidentSet ReferenceSet Network";

/// What one `-start` or `-update` says.
#[derive(Debug, Default)]
struct Logger {
    name: String,
    setup: Setup,
    wishes: Vec<Wish>,
    flush_timer_ms: Option<u32>,
    real_time: bool,
    /// Options that were given.
    given: Vec<String>,
}

#[derive(Debug)]
enum Command {
    Start(Vec<Logger>),
    Update(Box<Logger>),
    Stop { names: Vec<String>, merged: Option<PathBuf> },
    Flush { name: String, file: Option<String> },
    CaptureState { name: String, wishes: Vec<Wish> },
    Loggers,
    Merge(Vec<PathBuf>),
    Help,
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    match parse(words)? {
        Command::Help => print(HELP),
        Command::Loggers => loggers(),
        Command::Start(loggers) => start(loggers),
        Command::Stop { names, merged } => stop(&names, merged),
        Command::Update(logger) => update(&logger),
        Command::Flush { name, file } => {
            let controller = Controller::connect()?;
            match file {
                Some(file) => controller.snapshot(&name, &file)?,
                None => controller.flush(&name)?,
            }
            Ok(Outcome::Done)
        }
        Command::CaptureState { name, wishes } => {
            let controller = Controller::connect()?;
            for wish in wishes {
                let id = controller.resolve(&wish.provider)?;
                controller.capture(&name, id, &wish.info.wanted)?;
            }
            Ok(Outcome::Done)
        }
        Command::Merge(mut files) => {
            let out = files.pop().unwrap_or_default();
            rewrite::merge_to(out, &files)
        }
    }
}

fn parse(words: &[String]) -> Result<Command, Failure> {
    let mut words = Words::new(&VOCABULARY, words);
    let Some(first) = words.next() else { return Ok(Command::Help) };
    let verb = match first {
        Word::Option(verb) => verb,
        Word::Value(text) => {
            return Err(usage(format!("xperf: {text:?} belongs to no option; see xperf -h")));
        }
    };
    match verb.as_str() {
        "?" | "h" | "help" => Ok(Command::Help),
        "loggers" => nothing_more(&mut words, &verb).map(|()| Command::Loggers),
        "start" => starts(&mut words),
        "update" => {
            let mut logger = Logger { name: name(&mut words, &verb)?, ..Logger::default() };
            while let Some(word) = words.next() {
                logger.option(&mut words, word)?;
            }
            let may = ["on", "f", "maxbuffers", "flushtimer", "realtime"];
            match logger.given.iter().find(|name| !may.contains(&name.as_str())) {
                Some(odd) => Err(VOCABULARY.wrong(odd, "cannot be changed while a session runs")),
                None => Ok(Command::Update(Box::new(logger))),
            }
        }
        "stop" => stops(&mut words),
        "flush" => {
            let name = name(&mut words, &verb)?;
            let file = match words.next() {
                None => None,
                Some(Word::Option(option)) if option == "f" => {
                    let file = words.needed("f", "a file")?.to_owned();
                    nothing_more(&mut words, &verb)?;
                    Some(file)
                }
                Some(word) => return Err(does_not_go(word, &verb)),
            };
            Ok(Command::Flush { name, file })
        }
        "capturestate" => {
            let name = name(&mut words, &verb)?;
            let wishes = wishes(&verb, words.needed(&verb, "PROVIDER+PROVIDER...")?)?;
            nothing_more(&mut words, &verb)?;
            Ok(Command::CaptureState { name, wishes })
        }
        "merge" => {
            let mut files = Vec::new();
            while let Some(file) = words.value() {
                files.push(PathBuf::from(file));
            }
            nothing_more(&mut words, &verb)?;
            match files.len() {
                0 | 1 => Err(VOCABULARY.wrong(&verb, "traces and the new one's name are needed")),
                _ => Ok(Command::Merge(files)),
            }
        }
        // On Windows these are the kernel's session.
        "on" | "d" | "f" | "buffersize" | "minbuffers" | "maxbuffers" | "maxfile" | "filemode"
        | "flushtimer" | "clocktype" | "realtime" | "buffering" => Err(VOCABULARY.wrong(
            &verb,
            format!("without -start NAME or -stop NAME before it, it is of the kernel's session: {KERNEL}"),
        )),
        _ => Err(VOCABULARY.refuse(&verb)),
    }
}

/// The session's name behind a verb.
fn name(words: &mut Words<'_>, verb: &str) -> Result<String, Failure> {
    let Some(name) = words.value() else {
        return Err(VOCABULARY.wrong(verb, format!("a session's name is needed: {KERNEL}")));
    };
    if name.contains('!') {
        return Err(VOCABULARY.wrong(verb, format!("{name}: profiles are not supported")));
    }
    session_name("xperf", name)
}

fn nothing_more(words: &mut Words<'_>, verb: &str) -> Result<(), Failure> {
    words.next().map_or(Ok(()), |word| Err(does_not_go(word, verb)))
}

fn does_not_go(word: Word<'_>, verb: &str) -> Failure {
    match word {
        Word::Option(name) if VOCABULARY.options.split_whitespace().any(|known| known == name) => {
            VOCABULARY.wrong(&name, format!("does not go with -{verb}"))
        }
        Word::Option(name) => VOCABULARY.refuse(&name),
        Word::Value(text) => VOCABULARY.wrong(verb, format!("{text:?} belongs to no option")),
    }
}

/// Several sessions, each with the options behind its name.
fn starts(words: &mut Words<'_>) -> Result<Command, Failure> {
    let mut loggers = vec![Logger { name: name(words, "start")?, ..Logger::default() }];
    while let Some(word) = words.next() {
        if word == Word::Option("start".to_owned()) {
            loggers.push(Logger { name: name(words, "start")?, ..Logger::default() });
        } else if let Some(logger) = loggers.last_mut() {
            logger.option(words, word)?;
        }
    }
    match loggers.iter().find(|logger| logger.wishes.is_empty()) {
        Some(bare) => {
            let what = format!("{}: -on PROVIDER+PROVIDER... is needed", bare.name);
            Err(VOCABULARY.wrong("start", what))
        }
        None => Ok(Command::Start(loggers)),
    }
}

fn stops(words: &mut Words<'_>) -> Result<Command, Failure> {
    let mut names = vec![name(words, "stop")?];
    let mut merged = None;
    while let Some(word) = words.next() {
        match word {
            Word::Value(text) => names.push(session_name("xperf", text)?),
            Word::Option(option) if option == "stop" => names.push(name(words, "stop")?),
            Word::Option(option) if option == "d" && merged.is_none() => {
                merged = Some(PathBuf::from(words.needed("d", "the merged trace's name")?));
            }
            word => return Err(does_not_go(word, "stop")),
        }
    }
    Ok(Command::Stop { names, merged })
}

/// `PROVIDER[:KEYWORDS[:LEVEL]]` with `+` between. What is not said is everything (a guess: xperf's documentation does not say).
fn wishes(option: &str, text: &str) -> Result<Vec<Wish>, Failure> {
    let wrong = |what: String| VOCABULARY.wrong(option, what);
    let one = |text: &str| {
        let mut parts = text.split(':');
        let provider = parts.next().unwrap_or_default();
        if KERNEL_FLAGS.split_whitespace().any(|flag| flag.eq_ignore_ascii_case(provider)) {
            return Err(wrong(format!("{provider} is a flag or group of the kernel's: {KERNEL}")));
        }
        let mut number_of = |what: &str| match parts.next().filter(|part| !part.is_empty()) {
            None => Ok(None),
            Some(part) => number(part)
                .map(Some)
                .ok_or_else(|| wrong(format!("{text}: {part:?} is no {what}"))),
        };
        let any = number_of("mask")?.unwrap_or(0);
        let level = number_of("level")?.unwrap_or(u64::from(u8::MAX));
        let level =
            u8::try_from(level).map_err(|_| wrong(format!("{text}: levels are 0 to 255")))?;
        let mut properties = 0;
        // The quotes are there to be kept from other shells than ours.
        for added in
            parts.next().map(|more| more.trim_matches('\'')).into_iter().flat_map(|m| m.split(','))
        {
            properties |= match added.trim().to_ascii_lowercase().as_str() {
                "stack" => EnableProperties::STACK_TRACE.0,
                "sid" => EnableProperties::SID.0,
                "tsid" => EnableProperties::TS_ID.0,
                _ => {
                    let what =
                        format!("{text}: {added:?}: stack, sid and tsid can be added to events");
                    return Err(wrong(what));
                }
            };
        }
        if let Some(more) = parts.next() {
            return Err(wrong(format!("{text}: {more:?} is too much")));
        }
        let mut wish = Wish::parse(provider, level, any)?;
        wish.info.properties = EnableProperties(properties);
        Ok(wish)
    };
    text.split('+').map(one).collect()
}

impl Logger {
    fn option(&mut self, words: &mut Words<'_>, word: Word<'_>) -> Result<(), Failure> {
        let name = match word {
            Word::Option(name) => name,
            word => return Err(does_not_go(word, "start")),
        };
        let setup = &mut self.setup;
        match name.as_str() {
            "on" => self.wishes.extend(wishes("on", words.needed("on", "PROVIDER+PROVIDER...")?)?),
            "f" => setup.file = Some(words.needed("f", "a file")?.into()),
            "buffersize" => setup.buffer_kb = Some(words.number(&name)?),
            "minbuffers" => setup.min_buffers = Some(words.count(&name)?),
            "maxbuffers" => setup.max_buffers = Some(words.count(&name)?),
            "maxfile" => setup.max_size = Some(u64::from(words.count(&name)?) << 20),
            "filemode" => {
                let text = words.needed(&name, "a mode")?;
                let mode = match text.to_ascii_lowercase().as_str() {
                    "sequential" => FileMode::Sequential,
                    "circular" => FileMode::Circular,
                    "append" => FileMode::Append,
                    "newfile" => FileMode::NewFile,
                    _ => {
                        let what = format!("{text}: it is Sequential, Circular, Append or NewFile");
                        return Err(VOCABULARY.wrong(&name, what));
                    }
                };
                setup.set_mode("xperf", mode, "-FileMode")?;
            }
            "flushtimer" => {
                let time = words.count(&name)?.checked_mul(1000);
                self.flush_timer_ms =
                    Some(time.ok_or_else(|| VOCABULARY.wrong(&name, "this is too long"))?);
            }
            "clocktype" => {
                let text = words.needed(&name, "a clock")?;
                let clock = match text.to_ascii_lowercase().as_str() {
                    "perfcounter" => 1,
                    "systemtime" => 2,
                    "cycle" => 3,
                    _ => {
                        let what = format!("{text}: it is PerfCounter, SystemTime or Cycle");
                        return Err(VOCABULARY.wrong(&name, what));
                    }
                };
                setup.clock = Some(clock);
            }
            "realtime" => self.real_time = true,
            "buffering" => setup.start.buffering = true,
            _ => return Err(does_not_go(Word::Option(name), "start")),
        }
        self.given.push(name);
        Ok(())
    }
}

/// All of them or none: those that run already are stopped when one cannot be.
fn start(loggers: Vec<Logger>) -> Result<Outcome, Failure> {
    let mut all = Vec::new();
    for logger in loggers {
        let mut setup = logger.setup;
        setup.start.real_time = logger.real_time;
        setup.start.flush_timer_ms = logger.flush_timer_ms;
        all.push((setup.finish("xperf", logger.name, || "user.etl".into())?, logger.wishes));
    }
    let controller = Controller::connect_or_start()?;
    let mut running: Vec<String> = Vec::new();
    for (start, wishes) in all {
        match controller.start(start, wishes) {
            Ok(status) => running.push(status.name),
            Err(failure) => {
                for name in running {
                    // What went wrong first is what is told.
                    let _ = controller.stop(&name);
                }
                return Err(failure);
            }
        }
    }
    Ok(Outcome::Done)
}

fn stop(names: &[String], merged: Option<PathBuf>) -> Result<Outcome, Failure> {
    let controller = Controller::connect()?;
    let mut files = Vec::new();
    for name in names {
        // Before anything is stopped.
        let status = controller.query(name)?;
        if merged.is_none() {
            continue;
        }
        match status.file {
            Some(file) if mode_names(status.mode).0 != "Newfile" => files.push(file),
            Some(_) => {
                let what =
                    format!("session {name} writes a series of files; merge those that you want");
                return Err(VOCABULARY.wrong("d", what));
            }
            None => {
                let what = format!(
                    "session {name} has no file that could be merged; -flush {name} -f FILE"
                );
                return Err(VOCABULARY.wrong("d", what));
            }
        }
    }
    let mut outcome = Outcome::Done;
    for name in names {
        outcome = worse(outcome, controller.stop(name)?.1);
    }
    if let Some(merged) = merged {
        outcome = worse(outcome, rewrite::merge_to(merged.clone(), &files)?);
        print(&format!("Merged Etl: {}\n", merged.display()))?;
    }
    Ok(outcome)
}

fn update(logger: &Logger) -> Result<Outcome, Failure> {
    let controller = Controller::connect()?;
    let update = Update {
        buffers: logger.setup.max_buffers,
        flush_timer_ms: logger.flush_timer_ms,
        file: logger.setup.file.as_deref().map(absolute).transpose()?,
        real_time: logger.real_time.then_some(true),
    };
    // A session that is not there is told whatever is to be changed.
    controller.query(&logger.name)?;
    controller.update("xperf -update", &logger.name, update)?;
    for wish in &logger.wishes {
        controller.enable(&logger.name, wish, 1000)?;
    }
    Ok(Outcome::Done)
}

fn loggers() -> Result<Outcome, Failure> {
    let sessions = all_sessions()?;
    print(&sessions.iter().map(shown).collect::<Vec<_>>().join("\n"))
}

/// The fields of xperf's display in their order, as far as there is such a thing here.
fn shown(status: &SessionStatus) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let line = format!("{name:<22}: {}", safe(&value));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let (file_mode, others) = mode_names(status.mode);
    let modes: Vec<&str> = [file_mode].into_iter().chain(others).collect();
    row("Logger Name", status.name.clone());
    row("Logger Id", format!("{:x}", status.id));
    row("Buffer Size", (status.buffer_size >> 10).to_string());
    row("Maximum Buffers", status.buffers.to_string());
    row("Minimum Buffers", status.buffers.to_string());
    row("Number of Buffers", status.buffers.to_string());
    row("Free Buffers", status.free_buffers.to_string());
    row("Buffers Written", status.buffers_written.to_string());
    row("Events Lost", status.lost.to_string());
    row("Log Buffers Lost", status.buffers_lost.to_string());
    row("Real Time Buffers Lost", status.real_time_buffers_lost.to_string());
    row("Flush Timer", (status.flush_timer_ms.div_ceil(1000)).to_string());
    row("Log File Mode", modes.join(" "));
    row("Maximum File Size", (status.max_size.div_ceil(1 << 20)).to_string());
    row("Log Filename", shown_file(status));
    let of = |(id, info): (&String, &etw_host::EnableInfo)| {
        format!("{id}:{:#x}:{:#x}", info.wanted.any, info.wanted.level)
    };
    row("Trace Flags", status.enabled.iter().map(of).collect::<Vec<_>>().join("+"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::options::Named;
    use etw_types::Guid;

    fn parsed(line: &str) -> Result<Command, Failure> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    /// OV-24: several sessions in one command, each with its options.
    #[test]
    fn what_is_wanted_of_providers() {
        let id = Guid::from_name("Doc");
        let line = format!(
            "-START a -on {id}:0x30:4+*Doc /f /tmp/a.etl -start b -on My-Provider::3 -MaxFile 2"
        );
        let Command::Start(loggers) = parsed(&line).unwrap() else { panic!() };
        let [a, b] = &loggers[..] else { panic!("{loggers:?}") };
        assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
        assert_eq!(
            a.wishes,
            [Wish::of(Named::Id(id), 4, 0x30, 0), Wish::of(Named::Id(id), 255, 0, 0)]
        );
        assert_eq!(b.wishes, [Wish::of(Named::Name("My-Provider".to_owned()), 3, 0, 0)]);
        assert_eq!((a.setup.max_size, b.setup.max_size), (None, Some(2 << 20)));
        let Command::Stop { names, merged } = parsed("-stop a b -stop c -d m.etl").unwrap() else {
            panic!()
        };
        assert_eq!((names.join(" "), merged), ("a b c".to_owned(), Some("m.etl".into())));
    }
}
