//! `xperf`: starts, changes, shows and stops sessions, and shows traces.

mod analysis;
mod options;
mod providers;

use super::kernel::{KERNEL_LOGGER, Kernel, is_kernel_provider};
use super::setup::Setup;
use super::{
    Controller, Enablement, KERNEL, all_sessions, mode_names, session_name, shown_file, worse,
};
use crate::format::safe;
use crate::frontends::answer::print;
use crate::frontends::table::show_help;
use crate::frontends::table::{Help, Table};
use crate::frontends::words::Words;
use crate::live::options::absolute;
use crate::live::system_options::meant;
use crate::live::wanted::Named;
use crate::output::{Failure, Outcome};
use crate::rewrite::{self, Inputs};
use etw_host::{FileMode, SessionConfig};
use etw_system::flags::{Flag, GROUPS, Masks};
use etw_system::stack_names::{STACK_NAMES, StackName};
use etw_wire::requests::{SessionStatus, Update};
use options::*;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

static TABLE: Table<Command> = Table {
    command: "xperf",
    about: "Start and stop sessions and show traces, as Windows' xperf does",
    forms: &[
        "-on FLAGS [-stackwalk NAMES] [-setprofint N] [options] [-start NAME -on ...]...",
        "-start NAME -on PROVIDER+PROVIDER... [options] [-start NAME -on ...]...",
        "-stop [NAME [NAME]...] [-stop NAME]... [-d MERGED.etl] | -d MERGED.etl",
        "-update [NAME] [-on PROVIDER+...] [-f FILE] [-MaxBuffers N] [-FlushTimer S] [-RealTime]",
        "-flush [NAME] [-f FILE] | -capturestate NAME PROVIDER+... | -loggers",
        "-providers [K|KF|KG] | -merge IN.etl... OUT.etl",
        "-i FILE.etl [-o OUT] [-a dumper|tracestats|process|stack] [-range FROM TO]",
    ],
    repeatable: START | STOP,
    actions: ACTIONS,
    operand: None,
    rows: ROWS,
    notes: "Sessions belong to your own host, which starts when it is needed. Flags and groups of the kernel record \
            events of the system (etw help, etw record --system); without -start NAME they are of the session NT Kernel \
            Logger. Profiles are not supported. etw session, etw dump, etw stat and etw merge are the commands behind it.",
};

/// Options behind one `-start` or another action with a session.
#[derive(Debug, Default)]
struct Logger {
    name: String,
    setup: Setup,
    enable: Vec<Enablement>,
    kernel: Kernel,
    flush_timer_ms: Option<u32>,
    real_time: bool,
}

/// A command line, parsed.
#[derive(Debug, Default)]
struct Command {
    loggers: Vec<Logger>,
    /// Sessions of `-stop`.
    names: Vec<String>,
    merged: Option<PathBuf>,
    /// Traces of `-merge` and `-i`.
    files: Vec<PathBuf>,
    analysis: Option<analysis::Analysis>,
    range: Option<analysis::Range>,
    /// `-providers` lists the kernel's flags, groups, or both.
    shows_flags: bool,
    shows_groups: bool,
    output: Option<PathBuf>,
}

impl Logger {
    /// The session, and the providers that it enables.
    fn config(self) -> Result<(SessionConfig, Vec<Enablement>), Failure> {
        let mut setup = self.setup;
        setup.config.real_time = self.real_time;
        setup.config.flush_timer = self.flush_timer_ms.map(|ms| Duration::from_millis(ms.into()));
        setup.config.system = self.kernel.config("xperf", &self.enable)?;
        let default = if setup.config.system.is_some() { "kernel.etl" } else { "user.etl" };
        Ok((setup.finish("xperf", self.name, || default.into())?, self.enable))
    }
}

impl Command {
    /// The session whose options are being read.
    fn logger(&mut self) -> &mut Logger {
        if self.loggers.is_empty() {
            self.loggers.push(Logger::default());
        }
        let last = self.loggers.len() - 1;
        &mut self.loggers[last]
    }
}

pub fn help() -> Help {
    TABLE.help()
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    match parse(words)? {
        Some((action, command)) => act(action, command),
        None if words.last().is_some_and(|topic| topic.eq_ignore_ascii_case("stackwalk")) => {
            print(&stack_words())
        }
        None => show_help(&help()),
    }
}

/// The kernel's events of the first session that a command starts.
#[cfg(test)]
pub fn kernel_of(words: &[String]) -> Result<Option<etw_host::SystemConfig>, Failure> {
    let Some((_, command)) = parse(words)? else { return Ok(None) };
    let Some(logger) = command.loggers.into_iter().next() else { return Ok(None) };
    Ok(logger.config()?.0.system)
}

/// The action and the rest; `None`: the user requested the help.
fn parse(words: &[String]) -> Result<Option<(u16, Command)>, Failure> {
    let mut command = Command::default();
    let Some(given) = TABLE.parse(words, &mut command)? else { return Ok(None) };
    let Some(first) = given.first() else { return Ok(None) };
    let by = TABLE.action(&given);
    // Without -start, the flags are of the kernel's session.
    for logger in command.loggers.iter_mut().filter(|logger| logger.name.is_empty()) {
        let is_start = by.is_none_or(|by| by.row.actions == START);
        let mut of_programs = logger.enable.iter().filter(|one| !one.provider.is_of_system());
        if let Some(Enablement { provider, .. }) = of_programs.next().filter(|_| is_start) {
            let provider = match provider {
                Named::Id(id) => id.to_string(),
                Named::Name(name) => name.clone(),
            };
            let what = match meant(&provider, etw_system::flags::words()) {
                Some(meant) => {
                    format!("{provider} is no flag or group of the kernel; did you mean {meant}?")
                }
                None => format!(
                    "{provider} is no flag or group of the kernel, and {KERNEL_LOGGER} records the kernel only; -providers K lists \
                     its flags, and -start NAME enables providers"
                ),
            };
            return Err(TABLE.wrong("on", what));
        }
        if !is_start || !logger.kernel.has_flags() && logger.enable.is_empty() {
            let what = "name a session with -start or -stop, or flags of the kernel with -on";
            return Err(TABLE.wrong(first.name, what));
        }
        logger.name = KERNEL_LOGGER.to_owned();
    }
    let (action, by_name) = match by {
        Some(by) => (by.row.actions, by.name),
        // A merge alone ends the kernel's session.
        None if command.merged.is_some() && command.loggers.is_empty() => {
            command.names.push(KERNEL_LOGGER.to_owned());
            (STOP, "stop")
        }
        None if !command.loggers.is_empty() => (START, "on"),
        None => {
            let what = "name a session with -start or -stop, or flags of the kernel with -on";
            return Err(TABLE.wrong(first.name, what));
        }
    };
    if let Some(odd) = TABLE.odd(&given, action) {
        let what = match action == UPDATE && odd.row.actions & START != 0 {
            true => {
                "it cannot be changed while a session runs; stop the session, and start it anew"
                    .to_owned()
            }
            false => format!("it does not go with -{by_name}"),
        };
        return Err(TABLE.wrong(odd.name, what));
    }
    if action == START
        && let Some(bare) = command
            .loggers
            .iter()
            .find(|logger| logger.enable.is_empty() && !logger.kernel.has_flags())
    {
        let what = format!("{}: -on PROVIDER+PROVIDER... is needed behind it", bare.name);
        return Err(TABLE.wrong("start", what));
    }
    Ok(Some((action, command)))
}

/// The session's name behind an option.
fn session_of(words: &mut Words<'_>, option: &str) -> Result<String, Failure> {
    let Some(name) = words.value() else {
        return Err(words.wrong(option, "a session's name is needed behind it"));
    };
    checked_name(words, option, name)
}

/// The session's name behind an option; without one, the kernel's session.
fn session_or_kernel(words: &mut Words<'_>, option: &str) -> Result<String, Failure> {
    match words.value() {
        Some(name) => checked_name(words, option, name),
        None => Ok(KERNEL_LOGGER.to_owned()),
    }
}

fn checked_name(words: &Words<'_>, option: &str, name: &str) -> Result<String, Failure> {
    if name.contains('!') {
        let what =
            format!("{name}: profiles are not supported; give the options on the command line");
        return Err(words.wrong(option, what));
    }
    session_name("xperf", name)
}

/// Windows' message about a session that does not exist.
fn missing(name: &str, hint: &str) -> Failure {
    Failure::new(format!(
        "xperf: error: {name}: The instance name passed was not recognized as valid by a WMI data provider. (0x1069). ({hint})"
    ))
}

fn act(action: u16, mut command: Command) -> Result<Outcome, Failure> {
    match action {
        LOGGERS => return loggers(),
        PROVIDERS => return print(&kernel_words(command.shows_flags, command.shows_groups)),
        START => return start(command.loggers),
        STOP => return stop(&command.names, command.merged),
        MERGE => {
            let output = command.files.pop().unwrap_or_default();
            return rewrite::merge_files(output, &command.files);
        }
        ANALYSE => return analysis::run(command),
        _ => {}
    }
    let Some(logger) = command.loggers.pop() else { return Ok(Outcome::Done) };
    if action == UPDATE {
        return update(logger);
    }
    let controller = Controller::connect_to(&logger.name, missing)?;
    match (action, logger.setup.file) {
        (FLUSH, Some(file)) => controller.snapshot(&logger.name, &file)?,
        (FLUSH, None) => controller.flush(&logger.name)?,
        _ => {
            for enablement in logger.enable {
                let id = controller.resolve(&enablement.provider)?;
                controller.capture(&logger.name, id, &enablement.info.wanted)?;
            }
        }
    }
    Ok(Outcome::Done)
}

/// Starts all sessions or none: if one fails, those that run already are stopped.
fn start(loggers: Vec<Logger>) -> Result<Outcome, Failure> {
    let all = loggers.into_iter().map(Logger::config).collect::<Result<Vec<_>, _>>()?;
    let controller = Controller::connect_or_start()?;
    let mut running: Vec<String> = Vec::new();
    for (start, enable) in all {
        match controller.start(start, enable) {
            Ok(status) => running.push(status.name),
            Err(failure) => {
                for name in running {
                    // The first failure is the one that is reported.
                    let _ = controller.stop(&name);
                }
                return Err(failure);
            }
        }
    }
    Ok(Outcome::Done)
}

fn stop(names: &[String], merged: Option<PathBuf>) -> Result<Outcome, Failure> {
    let Some(first) = names.first() else { return Ok(Outcome::Done) };
    let controller = Controller::connect_to(first, missing)?;
    let mut files = Vec::new();
    for name in names {
        // Nothing is stopped before all sessions are known.
        let status = controller.query(name)?;
        if merged.is_none() {
            continue;
        }
        match status.file {
            Some(file) if mode_names(status.mode).0 != "Newfile" => files.push(file),
            Some(_) => {
                let what = format!(
                    "session {name} writes a series of files; use etw merge with the files"
                );
                return Err(TABLE.wrong("d", what));
            }
            None => {
                let what = format!(
                    "session {name} has no file to merge; -flush {name} -f FILE writes one"
                );
                return Err(TABLE.wrong("d", what));
            }
        }
    }
    if let Some(merged) = &merged {
        rewrite::check_output(merged, &files)?;
    }
    let mut outcome = Outcome::Done;
    for name in names {
        outcome = worse(outcome, controller.stop(name)?.1);
    }
    if let Some(merged) = merged {
        outcome = worse(outcome, rewrite::merge_to(merged.clone(), &files, Inputs::OfHost)?);
        print(&format!("Merged Etl: {}\n", merged.display()))?;
    }
    Ok(outcome)
}

fn update(logger: Logger) -> Result<Outcome, Failure> {
    let controller = Controller::connect_to(&logger.name, missing)?;
    let update = Update {
        buffers: logger.setup.max_buffers,
        flush_timer_ms: logger.flush_timer_ms,
        file: logger.setup.file.as_deref().map(absolute).transpose()?,
        real_time: logger.real_time.then_some(true),
        ..Update::default()
    };
    // A missing session is reported even if nothing changes.
    controller.query(&logger.name)?;
    controller.update("xperf -update", &logger.name, update)?;
    controller.change_kernel("xperf -update", &logger.name, logger.kernel)?;
    for enablement in &logger.enable {
        controller.enable(&logger.name, enablement, 1000)?;
    }
    Ok(Outcome::Done)
}

/// The kernel's flags and groups, as xperf lists them.
fn kernel_words(shows_flags: bool, shows_groups: bool) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if shows_flags {
        text += "Kernel Flags:\n";
        let mut last = "";
        for Flag { xperf, description, is_recorded, .. } in Flag::ALL {
            if xperf.is_empty() || *xperf == last {
                continue;
            }
            last = xperf;
            let without = if *is_recorded || cfg!(windows) { "" } else { " (not on Linux)" };
            let _ = writeln!(text, "       {xperf:<15}: {description}{without}");
        }
    }
    if shows_groups {
        text += if shows_flags { "\nKernel Groups:\n" } else { "Kernel Groups:\n" };
        for (name, members) in GROUPS {
            let _ = writeln!(text, "       {name:<15}: {members}");
        }
    }
    text
}

/// The names of events with call stacks, and the flags of the kernel that record these events.
fn stack_words() -> String {
    let mut text = "Events of -stackwalk, and the flags that record them:\n".to_owned();
    for StackName { name, class, .. } in STACK_NAMES {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "       {name:<22}: {}", class.xperf);
    }
    text
}

fn loggers() -> Result<Outcome, Failure> {
    let sessions = all_sessions()?;
    print(&sessions.iter().map(shown).collect::<Vec<_>>().join("\n"))
}

/// The fields of xperf's display, in its order, that sessions have here.
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
        format!("{id}:{:#x}:{:#x}", info.wanted.any.0, info.wanted.level.0)
    };
    let system = status.system.as_ref().map(|system| Masks(system.masks).xperf_names());
    let providers =
        status.enabled.iter().filter(|(id, _)| system.is_none() || !is_kernel_provider(id));
    let flags: Vec<String> = system.iter().flatten().map(|name| (*name).to_owned()).collect();
    let flags: Vec<String> = flags.into_iter().chain(providers.map(of)).collect();
    row("Trace Flags", flags.join("+"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::Guid;
    use etw_types::{Keyword, Level};

    fn parsed(line: &str) -> Result<Option<(u16, Command)>, Failure> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    /// OV-24: several sessions in one command, each with its options.
    #[test]
    fn one_command_starts_several_sessions() {
        let id = Guid::from_name("Doc");
        let line = format!(
            "-START a -on {id}:0x30:4+*Doc /f /tmp/a.etl -start b -on My-Provider::3 -MaxFile 2"
        );
        let (_, command) = parsed(&line).unwrap().unwrap();
        let [a, b] = &command.loggers[..] else { panic!("{command:?}") };
        assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
        assert_eq!(
            a.enable,
            [
                Enablement::new(Named::Id(id), Level(4), Keyword(0x30)),
                Enablement::new(Named::Id(id), Level(255), Keyword(0))
            ]
        );
        assert_eq!(
            b.enable,
            [Enablement::new(Named::Name("My-Provider".to_owned()), Level(3), Keyword(0))]
        );
        assert_eq!((a.setup.max_size, b.setup.max_size), (None, Some(2 << 20)));
        let (_, stop) = parsed("-stop a b -stop c -d m.etl").unwrap().unwrap();
        assert_eq!((stop.names.join(" "), stop.merged), ("a b c".to_owned(), Some("m.etl".into())));
    }

    /// OV-24: an action without a name is about the kernel's session.
    #[test]
    fn actions_without_a_name_are_about_the_kernels_session() {
        for (line, wanted) in
            [("-flush", FLUSH), ("-flush -f k.etl", FLUSH), ("-update -MaxBuffers 9", UPDATE)]
        {
            let (action, command) = parsed(line).unwrap().unwrap();
            let names: Vec<&str> = command.loggers.iter().map(|one| one.name.as_str()).collect();
            assert_eq!((action, &names[..]), (wanted, &[KERNEL_LOGGER][..]), "{line}");
        }
        for line in ["-stop", "-stop -d m.etl", "-d m.etl"] {
            let (action, command) = parsed(line).unwrap().unwrap();
            assert_eq!((action, &command.names[..]), (STOP, &[KERNEL_LOGGER.to_owned()][..]));
        }
        assert!(parsed("-capturestate").is_err() && parsed("-start").is_err());
    }
}
