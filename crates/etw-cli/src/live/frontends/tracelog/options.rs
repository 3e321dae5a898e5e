//! The options of `tracelog`, a row each.

use super::providers::sources;
use super::*;
use crate::frontends::table::{Effect, Row, action, help_row, option, refused};
use crate::frontends::words::{Word, Words, number};
use crate::live::frontends::KERNEL;
use etw_host::SessionClock;

pub const START: u16 = 1;
pub const STOP: u16 = 1 << 1;
pub const QUERY: u16 = 1 << 2;
pub const LIST: u16 = 1 << 3;
pub const UPDATE: u16 = 1 << 4;
pub const FLUSH: u16 = 1 << 5;
pub const ENABLE: u16 = 1 << 6;
pub const DISABLE: u16 = 1 << 7;
pub const ENUM_GUID: u16 = 1 << 8;
pub const CAPTURE_STATE: u16 = 1 << 9;

pub const ACTIONS: &[(u16, &str)] = &[
    (START, "start"),
    (STOP, "stop"),
    (QUERY, "q"),
    (LIST, "l"),
    (UPDATE, "update"),
    (FLUSH, "flush"),
    (ENABLE, "enable"),
    (DISABLE, "disable"),
    (ENUM_GUID, "enumguid"),
    (CAPTURE_STATE, "capturestate"),
];

/// Options that say what is enabled of a provider.
/// Words of the group masks of the kernel.
const MASK_WORDS: usize = 8;
const ENABLES: u16 = START | ENABLE;

fn session(command: &mut Command, words: &mut Words<'_>, _: &str) -> Result<(), Failure> {
    command.name = words.value().map(str::to_owned);
    Ok(())
}

/// `-seq MB` and its like. Sizes are in KB first, since `-kb` may follow.
fn file_mode(
    mode: FileMode,
    name: &'static str,
) -> impl Fn(&mut Command, u32) -> Result<(), Failure> {
    move |command, size| {
        command.setup.set_mode("tracelog", mode, name)?;
        command.setup.max_size = Some(u64::from(size) << 10);
        Ok(())
    }
}

/// `-in|-out COUNT ID...`
fn ids(words: &mut Words<'_>, name: &str) -> Result<Option<IdFilter>, Failure> {
    let include = match words.next() {
        Some(Word::Option(way)) if way.eq_ignore_ascii_case("in") => true,
        Some(Word::Option(way)) if way.eq_ignore_ascii_case("out") => false,
        _ => return Err(words.wrong(name, "-in or -out is needed behind it")),
    };
    Ok(Some(IdFilter { include, ids: words.counted(name, "an event id")? }))
}

fn mask(command: &mut Command, words: &mut Words<'_>, name: &str) -> Result<(), Failure> {
    let mask = words.number(name)?;
    match command.any.replace(mask) {
        None => Ok(()),
        Some(_) => {
            Err(words.wrong(name, "-flag and -matchanykw are one mask; give one of them, once"))
        }
    }
}

const fn kernel_class(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Command),
) -> Row<Command> {
    option(START, name, "", help, Effect::Flag(set))
}

/// Adds classes of the kernel. Their words are all known.
fn add_classes(command: &mut Command, words: &str) {
    for word in words.split(',') {
        let added = command.kernel.add_class(word);
        debug_assert!(added.is_ok(), "{word} names no class");
    }
}

pub const ROWS: &[Row<Command>] = &[
    help_row(),
    action(START, "start", "NAME", "Start a session", session),
    action(STOP, "stop", "NAME", "Stop a session", session),
    action(QUERY, "q", "NAME", "Show a session", session),
    action(LIST, "l", "", "Show all sessions", session),
    action(UPDATE, "update", "NAME", "Change a running session", session),
    action(FLUSH, "flush", "NAME", "Store what the session holds in memory", session),
    action(
        ENABLE,
        "enable enableex",
        "NAME",
        "Enable providers, or change what is enabled",
        session,
    ),
    action(DISABLE, "disable", "NAME", "Disable providers", session),
    action(
        CAPTURE_STATE,
        "capturestate",
        "NAME",
        "Ask the session's providers for their state",
        session,
    ),
    action(
        ENUM_GUID,
        "enumguid",
        "",
        "Show registered providers and the sessions that enabled them",
        session,
    ),
    option(
        START | UPDATE | FLUSH,
        "f",
        "[FILE]",
        "The file; default of a session with neither -rt nor -buffering: LogFile.etl",
        Effect::Values(|command, words, _| {
            command.setup.file = Some(words.value().unwrap_or("LogFile.etl").into());
            Ok(())
        }),
    ),
    option(
        START | UPDATE,
        "rt",
        "",
        "Deliver events to consumers",
        Effect::Flag(|c| c.real_time = true),
    ),
    option(
        START,
        "buffering",
        "",
        "Keep the last events in memory; -flush NAME -f FILE writes them",
        Effect::Flag(|c| c.setup.buffering = true),
    ),
    option(
        ENABLES | DISABLE,
        "guid",
        "PROVIDER",
        "#GUID, *NAME (the GUID of a TraceLogging name), or a file with lines GUID;MATCHANYKEYWORD;LEVEL",
        Effect::Values(|command, words, name| {
            command.guids.extend(sources(words.needed(name, "a provider")?)?);
            Ok(())
        }),
    ),
    option(
        ENABLES,
        "level",
        "N",
        "Level of the events, 0 to 255; default: all",
        // Microsoft's examples give 0xFFFF for all levels.
        Effect::Number(|c, level| c.level = u8::try_from(level).unwrap_or(u8::MAX)),
    ),
    option(
        ENABLES,
        "matchanykw flag flags",
        "MASK",
        "Events with any of these keywords; default: all",
        Effect::Values(mask),
    ),
    option(
        ENABLES,
        "matchallkw",
        "MASK",
        "Of those, events with all of these keywords",
        Effect::Number(|c, mask| c.all = mask),
    ),
    option(
        ENABLES,
        "enableproperty",
        "N",
        "Sum of: 1 SID, 2 terminal session, 4 call stack, 0x10 no events without a keyword, 0x20 provider group, 0x80 start key",
        Effect::Values(|command, words, name| {
            let number = words.number(name)?;
            command.property(number)
        }),
    ),
    option(
        ENABLES,
        "EventIdFilter",
        "-in|-out COUNT ID...",
        "Only events of these ids, or all but these",
        Effect::Values(|command, words, name| {
            command.filters.event_ids = ids(words, name)?;
            Ok(())
        }),
    ),
    option(
        ENABLES,
        "StackWalkFilter",
        "-in|-out COUNT ID...",
        "Call stacks only of events of these ids, or of all but these",
        Effect::Values(|command, words, name| {
            command.filters.stacks.event_ids = ids(words, name)?;
            Ok(())
        }),
    ),
    option(
        ENABLES,
        "in out",
        "COUNT ID...",
        "Part of -EventIdFilter and -StackWalkFilter",
        Effect::Values(|_, words, name| {
            Err(words.wrong(name, "it belongs behind -EventIdFilter or -StackWalkFilter"))
        }),
    ),
    option(
        ENABLES,
        "PidFilter",
        "COUNT PID...",
        "Only events of these processes, at most 8",
        Effect::Values(|command, words, name| {
            command.filters.process_ids = words.counted(name, "a process id")?;
            Ok(())
        }),
    ),
    option(
        ENABLES,
        "ExeFilter",
        "NAME[;NAME]",
        "Only events of programs with these file names",
        Effect::Text(|command, names| {
            let names = names.split(';').map(|name| name.trim().to_owned());
            command.filters.executables = names.collect();
        }),
    ),
    option(
        ENABLE,
        "timeout",
        "MS",
        "Wait so long for the programs' callbacks",
        Effect::Count(|c, ms| c.timeout_ms = ms),
    ),
    option(
        START,
        "seq",
        "MB",
        "A file of at most this size",
        Effect::Values(|command, words, name| {
            file_mode(FileMode::Sequential, "-seq")(command, words.count(name)?)
        }),
    ),
    option(
        START,
        "cir",
        "MB",
        "A circular file of this size",
        Effect::Values(|command, words, name| {
            file_mode(FileMode::Circular, "-cir")(command, words.count(name)?)
        }),
    ),
    option(
        START,
        "newfile",
        "MB",
        "A series of files of this size, with %d in the name",
        Effect::Values(|command, words, name| {
            file_mode(FileMode::NewFile, "-newfile")(command, words.count(name)?)
        }),
    ),
    option(
        START,
        "append",
        "",
        "Append to a file in system time, which is then the session's clock",
        Effect::Values(|command, _, _| {
            command.setup.set_mode("tracelog", FileMode::Append, "-append")
        }),
    ),
    option(
        START,
        "kb",
        "",
        "Sizes of -seq, -cir and -newfile are in KB",
        Effect::Flag(|c| c.sizes_in_kb = true),
    ),
    option(
        START,
        "prealloc",
        "",
        "Reserve the file's maximum size at the start",
        Effect::Flag(|c| c.setup.config.preallocate = true),
    ),
    option(
        START,
        "b",
        "KB",
        "Size of a buffer, 4 to 16384; default: 64",
        Effect::Number(|c, kb| c.setup.buffer_kb = Some(kb)),
    ),
    option(
        START,
        "min",
        "BUFFERS",
        "At least this many buffers; all are allocated at the start",
        Effect::Count(|c, n| c.setup.min_buffers = Some(n)),
    ),
    option(
        START | UPDATE,
        "max",
        "BUFFERS",
        "At most this many buffers; default: 64",
        Effect::Count(|c, n| c.setup.max_buffers = Some(n)),
    ),
    option(
        START | UPDATE,
        "ft",
        "SECONDS",
        "Store partly filled buffers after this time",
        Effect::Values(|command, words, name| {
            command.flush_timer_ms = Some(words.seconds(name)?);
            Ok(())
        }),
    ),
    option(
        START,
        "UsePerfCounter",
        "",
        "Clock: the performance counter",
        Effect::Flag(|c| c.setup.clock = Some(SessionClock::Qpc)),
    ),
    option(
        START,
        "UseSystemTime",
        "",
        "Clock: system time",
        Effect::Flag(|c| c.setup.clock = Some(SessionClock::System)),
    ),
    option(
        START,
        "UseCPUCycle",
        "",
        "Clock: the processor's cycles",
        Effect::Flag(|c| c.setup.clock = Some(SessionClock::Cycles)),
    ),
    option(
        START,
        "lowcapacity",
        "",
        "One stream of buffers for all processors",
        Effect::Flag(|c| c.setup.config.per_processor = false),
    ),
    option(
        START,
        "independent",
        "",
        "Neither delay other sessions nor be delayed by them",
        Effect::Flag(|c| c.setup.config.independent = true),
    ),
    option(
        START,
        "secure",
        "",
        "Only events of root's programs and of the session owner's",
        Effect::Flag(|c| c.setup.config.secure = true),
    ),
    option(START, "paged", "", "Accepted; a host's memory is always paged", Effect::Nothing),
    option(
        QUERY | LIST,
        "lp",
        "",
        "Show enabled providers, too",
        Effect::Flag(|c| c.with_providers = true),
    ),
    kernel_class("dpcisr", "Record DPCs, interrupts and context switches", |c| {
        add_classes(c, "dpc,isr,cswitch");
    }),
    kernel_class("img", "Record images", |c| add_classes(c, "img")),
    kernel_class("pf", "Record all page faults", |c| add_classes(c, "pf")),
    kernel_class("hf", "Record hard page faults", |c| add_classes(c, "hf")),
    kernel_class("fio", "Record file operations", |c| add_classes(c, "fileio,fileiocompletion")),
    kernel_class("noprocess", "No effect: processes are always recorded", |c| {
        c.without.push("process")
    }),
    kernel_class("nothread", "No effect: threads are always recorded", |c| {
        c.without.push("thread")
    }),
    kernel_class("nodisk", "Record no disk transfers", |c| c.without.push("disk")),
    kernel_class("nonet", "Record no network transfers", |c| c.without.push("net")),
    kernel_class(
        "systemlogger",
        "The session records events of the kernel, which other options name",
        |c| {
            c.is_system_logger = true;
        },
    ),
    option(
        START,
        "eflag",
        "N FLAG...",
        "N flags of the kernel: one number of EnableFlags, several words of group masks, or names",
        Effect::Values(|command, words, name| {
            let flags: Vec<String> = words.counted(name, "a flag")?;
            let numbers: Option<Vec<u32>> =
                flags.iter().map(|flag| u32::try_from(number(flag)?).ok()).collect();
            match numbers {
                Some(masks) if masks.len() > MASK_WORDS => {
                    let what =
                        format!("{} words of group masks: there are {MASK_WORDS}", masks.len());
                    Err(words.wrong(name, what))
                }
                Some(masks) if masks.len() > 1 => {
                    command.kernel.add_masks(&masks);
                    Ok(())
                }
                _ => flags.iter().try_for_each(|flag| {
                    command.kernel.add(flag).map_err(|what| words.wrong(name, what))
                }),
            }
        }),
    ),
    option(
        START,
        "stackwalk",
        "NAMES",
        "Call stacks of these events of the kernel, joined by +: Profile, CSwitch, ReadyThread, ...; xperf -help stackwalk lists them",
        Effect::Values(|command, words, name| {
            let names = words.needed(name, "names of events")?;
            command.kernel.add_stacks(names).map_err(|what| words.wrong(name, what))
        }),
    ),
    option(
        START,
        "setprofint",
        "N [SOURCE]",
        "Time between two CPU samples, in 100 ns; the source is the timer (0)",
        Effect::Values(|command, words, name| {
            command.kernel.set_interval(words, name)?;
            match words.value() {
                None | Some("0") => Ok(()),
                Some(source) if source.eq_ignore_ascii_case("timer") => Ok(()),
                Some(source) => {
                    Err(words.wrong(name, format!("{source}: the one source is timer")))
                }
            }
        }),
    ),
    refused("cm systemrundown lbr pmc profilesource", KERNEL),
    refused(
        "addautologger sessionguid remove",
        "put sessions that start with the host into its sessions.json; see etw daemon --help",
    ),
    refused("um critsec heap pids", "a program starts its private session itself (etw::Session)"),
    refused("gs ls", "messages have no sequence numbers here"),
    refused("x", "stop each session by its name; -l shows them"),
    refused("kd addtotriagedump hybridshutdown", "only Windows has this"),
    refused(
        "pkgidfilter pkgappidfilter",
        "there are no app packages here; use -ExeFilter or -PidFilter",
    ),
    refused("enumguidex", "use -enumguid, or etw provider show GUID for one provider"),
    refused("disableex", "use -disable"),
    refused("sourceguid", "a session is the source of the providers that it enables"),
    refused("age bt", "buffers exist until the session ends, and are stored when they are full"),
    refused("buffersize", "use -b KB"),
    refused("query", "use -q NAME"),
];
