//! The options of `xperf`, a row each.

use super::super::kernel::is_flag;
use super::analysis::ANALYSES;
use super::providers::enablements;
use super::*;
use crate::frontends::table::{Effect, Row, action, help_row, option, refused};
use etw_host::SessionClock;

pub const START: u16 = 1;
pub const STOP: u16 = 1 << 1;
pub const UPDATE: u16 = 1 << 2;
pub const FLUSH: u16 = 1 << 3;
pub const CAPTURE_STATE: u16 = 1 << 4;
pub const LOGGERS: u16 = 1 << 5;
pub const MERGE: u16 = 1 << 6;
pub const ANALYSE: u16 = 1 << 7;
pub const PROVIDERS: u16 = 1 << 8;

pub const ACTIONS: &[(u16, &str)] = &[
    (START, "start"),
    (STOP, "stop"),
    (UPDATE, "update"),
    (FLUSH, "flush"),
    (CAPTURE_STATE, "capturestate"),
    (LOGGERS, "loggers"),
    (MERGE, "merge"),
    (ANALYSE, "i"),
    (PROVIDERS, "providers"),
];

pub const ROWS: &[Row<Command>] = &[
    help_row(),
    action(START, "start", "NAME", "Start a session; several can be started at once", |c, w, n| {
        let name = session_of(w, n)?;
        c.loggers.push(Logger { name, ..Logger::default() });
        Ok(())
    }),
    action(
        STOP,
        "stop",
        "[NAME...]",
        "Stop sessions; without a name: the kernel's",
        |command, words, _| {
            command.names.push(session_or_kernel(words, "stop")?);
            while let Some(name) = words.value() {
                command.names.push(session_name("xperf", name)?);
            }
            Ok(())
        },
    ),
    action(
        UPDATE,
        "update",
        "[NAME]",
        "Change a running session; without a name: the kernel's",
        |c, w, n| {
            let name = session_or_kernel(w, n)?;
            c.loggers.push(Logger { name, ..Logger::default() });
            Ok(())
        },
    ),
    action(
        FLUSH,
        "flush",
        "[NAME]",
        "Store what the session holds in memory; without a name: the kernel's",
        |c, w, n| {
            let name = session_or_kernel(w, n)?;
            c.loggers.push(Logger { name, ..Logger::default() });
            Ok(())
        },
    ),
    action(
        CAPTURE_STATE,
        "capturestate",
        "NAME PROVIDER+...",
        "Ask providers for their state",
        |c, w, n| {
            let name = session_of(w, n)?;
            let enable = enablements(n, w.needed(n, "PROVIDER+PROVIDER...")?)?;
            c.loggers.push(Logger { name, enable, ..Logger::default() });
            Ok(())
        },
    ),
    action(LOGGERS, "loggers", "", "Show all sessions", |_, _, _| Ok(())),
    action(
        MERGE,
        "merge",
        "IN.etl... OUT.etl",
        "Merge traces by time",
        |command, words, option| {
            while let Some(file) = words.value() {
                command.files.push(file.into());
            }
            match command.files.len() {
                0 | 1 => {
                    Err(words.wrong(option, "one trace or more and the new one's name are needed"))
                }
                _ => Ok(()),
            }
        },
    ),
    action(ANALYSE, "i", "FILE.etl...", "Analyse traces, as -a says", |command, words, option| {
        command.files.push(words.needed(option, "FILE.etl")?.into());
        while let Some(file) = words.value() {
            command.files.push(file.into());
        }
        Ok(())
    }),
    action(
        PROVIDERS,
        "providers",
        "[K|KF|KG]",
        "List the kernel's flags (KF), groups (KG) or both",
        |command, words, option| {
            let all = [("k", (true, true)), ("kf", (true, false)), ("kg", (false, true))];
            let Some(word) = words.value() else {
                (command.shows_flags, command.shows_groups) = (true, true);
                return Ok(());
            };
            let found = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            let Some((_, (flags, groups))) = found else {
                let what = format!(
                    "{word} is not supported; K, KF and KG are, and etw provider list shows other providers"
                );
                return Err(words.wrong(option, what));
            };
            (command.shows_flags, command.shows_groups) = (*flags, *groups);
            Ok(())
        },
    ),
    option(
        START | UPDATE,
        "on",
        "PROVIDER+...",
        "GUID, registered name or *NAME (the GUID of a TraceLogging name), then [:KEYWORDS[:LEVEL[:'stack,sid,tsid']]]; default: \
         all keywords and levels",
        Effect::Values(|command, words, option| {
            let text = words.needed(option, "PROVIDER+PROVIDER... or flags of the kernel")?;
            let logger = command.logger();
            let (flags, providers): (Vec<&str>, Vec<&str>) =
                text.split('+').partition(|word| is_flag(word));
            for flag in flags {
                logger.kernel.add(flag).map_err(|what| words.wrong(option, what))?;
            }
            if !providers.is_empty() {
                logger.enable.extend(enablements(option, &providers.join("+"))?);
            }
            Ok(())
        }),
    ),
    option(
        START | UPDATE | FLUSH,
        "f",
        "FILE",
        "The file; default of a session with neither -RealTime nor -Buffering: kernel.etl with flags of the kernel, user.etl \
         without",
        Effect::Text(|c, file| c.logger().setup.file = Some(file.into())),
    ),
    option(
        STOP,
        "d",
        "MERGED.etl",
        "Merge the files of the stopped sessions; alone: stop the kernel's session and merge its file",
        Effect::Text(|c, file| c.merged = Some(file.into())),
    ),
    option(
        START,
        "BufferSize",
        "KB",
        "Size of a buffer, 4 to 16384; default: 64",
        Effect::Number(|c, kb| c.logger().setup.buffer_kb = Some(kb)),
    ),
    option(
        START,
        "MinBuffers",
        "N",
        "At least this many buffers; all are allocated at the start",
        Effect::Count(|c, n| c.logger().setup.min_buffers = Some(n)),
    ),
    option(
        START | UPDATE,
        "MaxBuffers",
        "N",
        "At most this many buffers; default: 64",
        Effect::Count(|c, n| c.logger().setup.max_buffers = Some(n)),
    ),
    option(
        START,
        "MaxFile",
        "MB",
        "Maximum size of the file",
        Effect::Count(|c, mb| c.logger().setup.max_size = Some(u64::from(mb) << 20)),
    ),
    option(
        START,
        "FileMode",
        "MODE",
        "Sequential, Circular, Append or NewFile",
        Effect::Values(|command, words, option| {
            let modes = [
                ("Sequential", FileMode::Sequential),
                ("Circular", FileMode::Circular),
                ("Append", FileMode::Append),
                ("NewFile", FileMode::NewFile),
            ];
            let mode = words.one_of(option, &modes)?;
            command.logger().setup.set_mode("xperf", mode, "-FileMode")
        }),
    ),
    option(
        START | UPDATE,
        "FlushTimer",
        "SECONDS",
        "Store partly filled buffers after this time",
        Effect::Values(|command, words, option| {
            command.logger().flush_timer_ms = Some(words.seconds(option)?);
            Ok(())
        }),
    ),
    option(
        START,
        "ClockType",
        "CLOCK",
        "PerfCounter, SystemTime or Cycle",
        Effect::Values(|command, words, option| {
            let clocks = [
                ("PerfCounter", SessionClock::Qpc),
                ("SystemTime", SessionClock::System),
                ("Cycle", SessionClock::Cycles),
            ];
            command.logger().setup.clock = Some(words.one_of(option, &clocks)?);
            Ok(())
        }),
    ),
    option(
        START | UPDATE,
        "RealTime",
        "",
        "Deliver events to consumers",
        Effect::Flag(|c| c.logger().real_time = true),
    ),
    option(
        START,
        "Buffering",
        "",
        "Keep the last events in memory; -flush NAME -f FILE writes them",
        Effect::Flag(|c| c.logger().setup.buffering = true),
    ),
    option(
        ANALYSE,
        "a",
        "ANALYSIS",
        "dumper (records as CSV), tracestats (counts by event), process (counts by process) or stack (records with their \
         call stacks)",
        Effect::Values(|command, words, option| {
            let name = words.needed(option, "dumper, tracestats, process or stack")?;
            let found = ANALYSES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            let Some((_, analysis)) = found else {
                let what = format!(
                    "{name} is not supported; dumper, tracestats, process and stack are, and etw dump, etw stat, \
                     etw convert and etw report show more"
                );
                return Err(words.wrong(option, what));
            };
            command.analysis = Some(*analysis);
            Ok(())
        }),
    ),
    option(
        ANALYSE,
        "o",
        "OUT",
        "Write the analysis to this file",
        Effect::Text(|c, file| c.output = Some(file.into())),
    ),
    option(
        ANALYSE,
        "range",
        "FROM TO",
        "Only records of this time, in microseconds from the start (dumper, stack)",
        Effect::Values(|command, words, option| {
            let (from, to) = (words.number(option)?, words.number(option)?);
            command.range = Some(analysis::Range { from_us: from, to_us: to });
            Ok(())
        }),
    ),
    option(
        ANALYSE,
        "tle tti quiet",
        "",
        "Accepted; lost events and times out of order stop no analysis",
        Effect::Nothing,
    ),
    option(
        START | UPDATE,
        "stackwalk",
        "NAMES",
        "Call stacks of these events of the kernel, joined by +: Profile, CSwitch, ReadyThread, ...; -help stackwalk lists them",
        Effect::Values(|command, words, option| {
            let names = words.needed(option, "names of events")?;
            command.logger().kernel.add_stacks(names).map_err(|what| words.wrong(option, what))
        }),
    ),
    option(
        START | UPDATE,
        "setprofint",
        "N [cached]",
        "Time between two CPU samples, in 100 ns",
        Effect::Values(|command, words, option| {
            command.logger().kernel.set_interval(words, option)?;
            match words.value() {
                None => Ok(()),
                Some(word) if word.eq_ignore_ascii_case("cached") => Ok(()),
                Some(word) => Err(words.wrong(option, format!("{word:?} is too much"))),
            }
        }),
    ),
    refused("boottrace seteresourcesample setspinlocksample pooltag pmcprofile lastbranch", KERNEL),
    refused("stopall", "stop each session by its name; -loggers shows them"),
    refused("cancel", "use -stop NAME, and remove the file"),
    refused("save", "use -flush NAME -f FILE, which writes what a session in memory holds"),
    refused(
        "heap critsec pids pidnewprocess waitfornewprocess",
        "a program starts its private session itself (etw::Session)",
    ),
    refused("symbols", "there are no symbols of Windows; -a stack shows images and offsets"),
    refused("injectonly compress", "use etw relog --compress for small files"),
];
