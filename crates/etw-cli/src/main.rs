//! The `etw` command: traces of Event Tracing for Windows, on any system.
// Some tables and words serve commands of sessions alone, of which not all systems have all.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[macro_use]
mod stderr;

mod activities;
mod asked_names;
mod attribution;
mod breakdown;
mod channels;
mod check;
mod column;
mod complete;
mod convert;
mod distribution;
mod dump;
mod event_kinds;
mod event_log;
mod file_operations;
mod files;
mod filter_names;
mod format;
mod frontends;
mod grouping;
mod join;
#[cfg(any(target_os = "linux", windows))]
mod live;
mod machines;
mod manifest;
mod manual;
#[cfg(target_os = "linux")]
mod orphans;
mod output;
mod output_file;
mod pack;
mod pack_show;
mod pipeline;
mod profile;
mod repair;
mod report;
mod rewrite;
mod running_threads;
mod safe_text;
mod sample_intervals;
mod schemas;
#[cfg(unix)]
mod size_limit;
mod stat;
mod stored_records;
mod switches;
mod symbols;
mod terminal;
mod threads;
mod time_point;
mod times;
mod topics;
mod where_filter;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use output::Outcome;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Event Tracing for Windows on any system: decode, count and check `.etl` traces
///
/// Exit status: 0 done; 1 done, but bytes were damaged or this run itself lost something; 2 wrong usage; 3 could not do it.
#[derive(Parser)]
#[command(name = "etw", version, arg_required_else_help = true)]
struct Arguments {
    #[command(flatten)]
    terminal: terminal::TerminalOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print every record, decoded, in time order; several files are merged
    Dump(dump::Arguments),
    /// Count records by type and event; show header facts, losses and damage
    Stat(stat::Arguments),
    /// Say whether files are sound traces, damaged ones, or no traces
    Check(check::Arguments),
    /// Write the records of several traces to one, in time order
    Merge(rewrite::MergeArguments),
    /// Copy the records of a trace, or those that --where selects, into a new trace
    Relog(rewrite::RelogArguments),
    /// Make a trace for another viewer: Perfetto, Chrome, Wireshark
    Convert(convert::Arguments),
    /// Show a trace on one page of HTML
    Report(report::Arguments),
    /// Gather schemas into one file, or learn them from traces
    Pack(pack::Arguments),
    /// Show and query event logs (.evtx)
    Log(event_log::Arguments),
    /// Install manifests, so that every command finds them; list, show and uninstall them
    Manifest(manifest::Arguments),
    /// Complete, in place, a trace whose session was killed; a complete trace stays unchanged
    Repair(repair::Arguments),
    /// Record a command, or all your programs until Ctrl-C
    #[cfg(any(target_os = "linux", windows))]
    Record(live::RecordArguments),
    /// Start, stop, change and show sessions that record all programs
    #[cfg(any(target_os = "linux", windows))]
    Session(live::SessionArguments),
    /// Show events as they happen
    #[cfg(any(target_os = "linux", windows))]
    Tail(live::TailArguments),
    /// Show providers: registered ones, GUIDs of names, what one can emit
    #[cfg(any(target_os = "linux", windows))]
    Provider(live::ProviderArguments),
    /// Host sessions in the foreground, as a service does
    #[cfg(target_os = "linux")]
    Daemon(live::DaemonArguments),
    /// Find out why no events arrive: check each link of the chain, and say how to fix it
    #[cfg(target_os = "linux")]
    Doctor(live::DoctorArguments),
    /// Print a script that completes the words of this command in a shell
    Completions(manual::CompletionsArguments),
    /// Print candidates for a word of the command line: completion scripts call this
    #[command(hide = true)]
    Complete(complete::Arguments),
    /// Write the manual pages to a folder
    #[command(hide = true)]
    Manual(manual::ManualArguments),
}

/// The command line, with Windows' commands in it.
fn command() -> clap::Command {
    let mut command = Arguments::command().after_help(topics::list());
    for frontend in frontends::FRONTENDS {
        let words = clap::Arg::new("arguments")
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .help(format!("As {0} takes them; etw {0} --help lists them", frontend.name));
        let about = (frontend.help)().about;
        let known = clap::Command::new(frontend.name).about(about).disable_help_flag(true);
        command = command.subcommand(known.arg(words));
    }
    command
}

/// The line of one command that scripts run for each of many traces: to build the options of all other commands, which [`command`] has
/// too, takes as long as to print a small trace. `None`: another command.
fn command_of_one(name: &str) -> Option<clap::Command> {
    let alone = clap::Command::new(name.to_owned());
    let alone = match name {
        "dump" => dump::Arguments::augment_args(alone),
        "stat" => stat::Arguments::augment_args(alone),
        "check" => check::Arguments::augment_args(alone),
        _ => return None,
    };
    Some(terminal::TerminalOptions::augment_args(clap::Command::new("etw")).subcommand(alone))
}

/// Parses the line of such a command. `None`: another command, or a line that is wrong or asks for help.
fn parse_alone(line: &[OsString]) -> Option<Arguments> {
    let command = command_of_one(line.get(1)?.to_str()?)?;
    Arguments::from_arg_matches(&command.try_get_matches_from(line).ok()?).ok()
}

fn main() -> ExitCode {
    #[cfg(unix)]
    size_limit::ignore_signal();
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let program = program.trim_end_matches(".exe");
    let words: Vec<String> = words.collect();
    let first = words.first().map_or("", String::as_str);
    // By a link's name. A link is also the program that it starts its host with (`daemon`).
    if let Some(frontend) = frontends::by_name(program).filter(|_| first != "daemon") {
        return finish((frontend.run)(&words));
    }
    if let Some(frontend) = frontends::by_name(first) {
        return finish((frontend.run)(&words[1..]));
    }
    if let Some(outcome) = frontends::absent(first, words.get(1..).unwrap_or_default()) {
        return finish(outcome);
    }
    if let Some(outcome) = frontends::absent(program, &words) {
        return finish(outcome);
    }
    // Topics beside the commands that clap's own `help` knows.
    if let [help, topic] = &words[..]
        && help == "help"
        && let Some(outcome) = topics::print(topic)
    {
        return finish(outcome);
    }
    if let [help, topic] = &words[..]
        && help == "help"
        && command().find_subcommand(topic).is_none()
        && let Some(meant) = topics::closest(topic)
    {
        let message = format!("there is no topic {topic}; did you mean etw help {meant}?");
        return finish(Err(output::Failure::Usage(message)));
    }
    if is_absent_trace(first) {
        let message = format!("{first}: no such file; etw FILE.etl prints a trace");
        return finish(Err(output::Failure::Message(message)));
    }
    let mut line: Vec<OsString> = std::env::args_os().collect();
    if is_dump(&words) {
        line.insert(1, "dump".into());
    }
    let arguments = parse_alone(&line).unwrap_or_else(|| {
        let matches = command().try_get_matches_from(&line).unwrap_or_else(|error| reject(&error));
        Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    });
    terminal::set(arguments.terminal);
    let outcome = match &arguments.command {
        Command::Dump(arguments) => dump::run(arguments),
        Command::Stat(arguments) => stat::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Merge(arguments) => rewrite::merge(arguments),
        Command::Relog(arguments) => rewrite::relog(arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Pack(arguments) => pack::run(arguments),
        Command::Log(arguments) => event_log::run(arguments),
        Command::Manifest(arguments) => manifest::run(arguments),
        Command::Repair(arguments) => repair::run(arguments),
        #[cfg(any(target_os = "linux", windows))]
        Command::Record(arguments) => live::record(arguments),
        #[cfg(any(target_os = "linux", windows))]
        Command::Session(arguments) => live::session(arguments),
        #[cfg(any(target_os = "linux", windows))]
        Command::Tail(arguments) => live::tail(arguments),
        #[cfg(any(target_os = "linux", windows))]
        Command::Provider(arguments) => live::provider(arguments),
        #[cfg(target_os = "linux")]
        Command::Daemon(arguments) => live::daemon(arguments),
        #[cfg(target_os = "linux")]
        Command::Doctor(arguments) => live::doctor(arguments),
        Command::Completions(arguments) => manual::completions(arguments),
        Command::Complete(arguments) => complete::run(arguments),
        Command::Manual(arguments) => manual::manual(arguments),
    };
    finish(outcome)
}

/// Prints why the command line is wrong, or the help that it asks for.
fn reject(error: &clap::Error) -> ! {
    let text = error.to_string();
    let plain = text.replace("invalid digit found in string", "a whole number is needed");
    let printed = match plain == text {
        // It may be in colours.
        true => error.print().and_then(|()| std::io::stdout().flush()),
        false => {
            eprint!("{plain}");
            Ok(())
        }
    };
    match printed {
        // Nothing is left to say an error of standard error to.
        Err(error_of_output) if !error.use_stderr() => {
            let failure = Err(output::stdout_failure(&error_of_output));
            std::process::exit(exit_status(failure).into())
        }
        _ => std::process::exit(error.exit_code()),
    }
}

/// Whether the words are a trace, with options before it, and no command.
fn is_dump(words: &[String]) -> bool {
    let is_trace = |word: &String| is_trace(word.as_ref());
    let names_command =
        || command().get_subcommands().any(|known| words.iter().any(|w| w == known.get_name()));
    match words.first() {
        Some(first) if first.starts_with('-') => words.iter().any(is_trace) && !names_command(),
        first => first.is_some_and(is_trace),
    }
}

/// Whether a word has the form of a trace's name, and no file has it.
fn is_absent_trace(word: &str) -> bool {
    let path = std::path::Path::new(word);
    has_name_of_a_trace(path) && !word.starts_with('-') && !path.exists()
}

/// Whether a word names an existing trace.
fn is_trace(path: &std::path::Path) -> bool {
    has_name_of_a_trace(path) && path.is_file()
}

/// Whether a path ends in `.etl` or `.evtx`.
fn has_name_of_a_trace(path: &std::path::Path) -> bool {
    let is = |known: &str| path.extension().is_some_and(|it| it.eq_ignore_ascii_case(known));
    is("etl") || is("evtx")
}

fn finish(outcome: Result<Outcome, output::Failure>) -> ExitCode {
    ExitCode::from(exit_status(outcome))
}

/// The status that a command ends with. A failure is printed.
fn exit_status(outcome: Result<Outcome, output::Failure>) -> u8 {
    match outcome {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Damaged) => 1,
        Ok(Outcome::OfCommand(status)) => status,
        Err(failure) => match failure.message() {
            // A reader that closes the pipe has seen enough.
            None => 0,
            Some(message) => {
                // A file's name may have what a terminal obeys.
                let lines: Vec<_> = message.split('\n').map(format::safe).collect();
                eprintln!("etw: {}", lines.join("\n"));
                match failure {
                    output::Failure::Usage(_) => 2,
                    output::Failure::Recording { status, .. } => status,
                    _ => 3,
                }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line means the same without the options of other commands, and what only they can answer is left to them.
    #[test]
    fn the_line_of_one_command_means_the_same_alone() {
        for line in [
            "etw dump a.etl",
            "etw dump --format xml --raw --threads 3 --manifest m.man --where pid==4 a.etl b.etl",
            "etw dump --color never -n 7 --fields a,b --custom 5=cbor -- -x.etl",
            "etw stat --no-pager a.etl stat",
            "etw check --json a.etl",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let alone = command_of_one(words[1].to_str().unwrap()).unwrap();
            let alone = alone.try_get_matches_from(&words).unwrap();
            let all = command().try_get_matches_from(&words).unwrap();
            assert_eq!(alone.subcommand(), all.subcommand(), "{line}");
            assert!(parse_alone(&words).is_some(), "{line}");
        }
        for line in
            ["etw", "etw --version", "etw dump", "etw dump --help", "etw check -x a", "etw log a"]
        {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(parse_alone(&words).is_none(), "{line}");
        }
    }
}
