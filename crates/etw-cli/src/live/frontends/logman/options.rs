//! The options of `logman`, a row each.

use super::super::kernel::is_kernel_provider;
use super::providers::{enablement, enablements_of_file, level_of};
use super::*;
use crate::frontends::table::{ALL, Effect, Row, help_row, option, refused};
use crate::frontends::words::duration;
use etw_host::SessionClock;
use etw_system::system_providers::KERNEL_PROVIDER;

pub const START: u16 = 1;
pub const STOP: u16 = 1 << 1;
pub const QUERY: u16 = 1 << 2;
pub const PROVIDERS: u16 = 1 << 3;
pub const UPDATE: u16 = 1 << 4;

pub const ACTIONS: &[(u16, &str)] = &[
    (START, "start"),
    (STOP, "stop"),
    (QUERY, "query"),
    (PROVIDERS, "query providers"),
    (UPDATE, "update"),
];

/// Words of `-mode`.
#[derive(Clone, Copy)]
enum Mode {
    File(FileMode),
    Preallocate,
    /// As a host's memory always is.
    Paged,
    Sequence,
}

const MODES: [(&str, Mode); 8] = [
    ("Sequential", Mode::File(FileMode::Sequential)),
    ("Circular", Mode::File(FileMode::Circular)),
    ("NewFile", Mode::File(FileMode::NewFile)),
    ("Append", Mode::File(FileMode::Append)),
    ("Preallocate", Mode::Preallocate),
    ("PagedMemory", Mode::Paged),
    ("GlobalSequence", Mode::Sequence),
    ("LocalSequence", Mode::Sequence),
];

/// `(process,thread,img)`, or a number of `EnableFlags`.
fn kernel_classes(kernel: &mut Kernel, words: Option<&str>) -> Result<(), String> {
    let Some(words) = words else {
        return Err(format!("{KERNEL_PROVIDER} needs its flags: (process,thread,img) or a number"));
    };
    let is_open = words.starts_with('(') == words.ends_with(')');
    let words = words.trim_start_matches('(').trim_end_matches(')');
    if !is_open || words.trim().is_empty() {
        return Err(format!("{KERNEL_PROVIDER} needs its flags: (process,thread,img) or a number"));
    }
    words.split(',').try_for_each(|word| kernel.add_class(word.trim()))
}

pub const ROWS: &[Row<Command>] = &[
    help_row(),
    option(
        START | STOP | QUERY | UPDATE,
        "ets",
        "",
        "Act on a running session, not on a saved collector; always needed",
        Effect::Flag(|c| c.ets = true),
    ),
    option(
        START | STOP | QUERY | UPDATE,
        "n",
        "NAME",
        "The session's name, which can also stand alone",
        Effect::Text(|c, name| c.named = Some(name.to_owned())),
    ),
    option(
        START | UPDATE,
        "p",
        "PROVIDER [KEYWORDS [LEVEL]]",
        "Enable a provider: {GUID}, registered name, or *NAME (the GUID of a TraceLogging name); default: all \
         keywords and levels. LEVEL is a number, or win:Warning",
        Effect::Values(|command, words, name| {
            let provider = words.needed(name, "a provider")?;
            let keywords = words.value();
            let level = keywords.and_then(|_| words.value());
            if is_kernel_provider(provider) {
                // The kernel's events have no levels.
                level.map(level_of).transpose()?;
                return kernel_classes(&mut command.kernel, keywords)
                    .map_err(|what| words.wrong(name, what));
            }
            command.enable.push(enablement(provider, keywords, level)?);
            Ok(())
        }),
    ),
    option(
        UPDATE,
        "-p",
        "PROVIDER",
        "Disable a provider",
        Effect::Values(|command, words, name| {
            let provider = words.needed(name, "a provider")?;
            // Keywords and level, where they were copied from -p, change nothing.
            let _ = (words.value(), words.value());
            command.disable.push(enablement(provider, None, None)?.provider);
            Ok(())
        }),
    ),
    option(
        START | UPDATE,
        "pf",
        "FILE",
        "Enable the providers of a file with lines of the same form",
        Effect::Values(|command, words, name| {
            let path = words.needed(name, "a file of providers")?;
            let text = std::fs::read_to_string(path)
                .map_err(|error| words.wrong(name, format!("{path}: {error}")))?;
            let kernel = &mut command.kernel;
            let add = |flags: Option<&str>| {
                kernel_classes(kernel, flags).map_err(|what| words.wrong(name, what))
            };
            command.enable.extend(enablements_of_file(path, &text, add)?);
            Ok(())
        }),
    ),
    option(
        START | UPDATE,
        "o",
        "FILE",
        "The file; default of a session without -rt: NAME.etl",
        Effect::Text(|c, file| c.setup.file = Some(with_extension(file))),
    ),
    option(
        START,
        "f",
        "bin|bincirc",
        "Sequential or circular file",
        Effect::Values(|command, words, name| {
            command.is_circular = words.one_of(name, &[("bin", false), ("bincirc", true)])?;
            Ok(())
        }),
    ),
    option(
        START,
        "mode",
        "MODE",
        "Sequential, Circular, NewFile, Append, Preallocate or PagedMemory",
        Effect::Values(|command, words, name| {
            match words.one_of(name, &MODES)? {
                Mode::File(mode) => command.setup.set_mode("logman", mode, "-mode")?,
                Mode::Preallocate => command.setup.config.preallocate = true,
                Mode::Paged => {}
                Mode::Sequence => {
                    return Err(words.wrong(name, "messages have no sequence numbers here"));
                }
            }
            Ok(())
        }),
    ),
    option(
        START,
        "max",
        "MB",
        "Maximum size of the file",
        Effect::Count(|c, mb| c.setup.max_size = Some(u64::from(mb) << 20)),
    ),
    option(START, "a", "", "Append to a file in system time", Effect::Flag(|c| c.appends = true)),
    option(
        START,
        "ow",
        "",
        "Replace the file, as without it",
        Effect::Flag(|c| c.keeps_existing = false),
    ),
    option(START, "-ow", "", "Do not replace the file", Effect::Flag(|c| c.keeps_existing = true)),
    option(
        START,
        "bs",
        "KB",
        "Size of a buffer",
        Effect::Number(|c, kb| c.setup.buffer_kb = Some(kb)),
    ),
    option(
        START | UPDATE,
        "nb",
        "MIN MAX",
        "Number of buffers; all of them are allocated at the start",
        Effect::Values(|command, words, name| {
            let (min, max) = (words.count(name)?, words.count(name)?);
            if min > max {
                return Err(words.wrong(name, format!("MIN {min} is above MAX {max}")));
            }
            (command.setup.min_buffers, command.setup.max_buffers) = (Some(min), Some(max));
            Ok(())
        }),
    ),
    option(
        START,
        "ct",
        "perf|system|cycle",
        "Clock",
        Effect::Values(|command, words, name| {
            let clocks = [
                ("perf", SessionClock::Qpc),
                ("system", SessionClock::System),
                ("cycle", SessionClock::Cycles),
            ];
            command.setup.clock = Some(words.one_of(name, &clocks)?);
            Ok(())
        }),
    ),
    option(
        START | UPDATE,
        "ft",
        "[[hh:]mm:]ss",
        "Store partly filled buffers after this time",
        Effect::Values(|command, words, name| {
            let text = words.needed(name, "a time")?;
            let time = duration(text).ok_or_else(|| {
                words.wrong(name, format!("{text:?} is not a time; give it as [[hh:]mm:]ss"))
            })?;
            command.flush_timer_ms = Some(time);
            Ok(())
        }),
    ),
    option(
        START | UPDATE,
        "rt",
        "",
        "Deliver events to consumers",
        Effect::Flag(|c| c.real_time = Some(true)),
    ),
    option(
        START | UPDATE,
        "-rt",
        "",
        "Do not deliver events to consumers",
        Effect::Flag(|c| c.real_time = Some(false)),
    ),
    option(
        UPDATE,
        "fd",
        "",
        "Store what the session holds in memory",
        Effect::Flag(|c| c.flushes = true),
    ),
    option(
        PROVIDERS,
        "pid",
        "PID",
        "Only the providers of this process",
        Effect::Count(|c, pid| c.pid = Some(pid)),
    ),
    option(ALL, "y", "", "Accepted; nothing is asked", Effect::Nothing),
    option(
        START,
        "-a -max -v -cnf -r -u -rc -ul",
        "",
        "Accepted; they take back options that are not given",
        Effect::Nothing,
    ),
    refused("s", "sessions of other computers cannot be reached; run it there"),
    refused("config xml", "give the options on the command line"),
    refused(
        "b e m r rf rc si c cf sc",
        "nothing is scheduled or counted; use cron or systemd to start and stop sessions",
    ),
    refused("u", "a session belongs to its user; sudo starts one of root's"),
    refused("v", "give the file a name of its own in -o"),
    refused("cnf", "use -mode NewFile -max MB, with %d in the name of -o, for a series of files"),
    refused("ul", "a program starts its private session itself (etw::Session)"),
    refused("ln lp gid", "use logman start NAME, and logman query providers PROVIDER"),
];
