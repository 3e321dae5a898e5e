//! The `etw` command: traces of Event Tracing for Windows, on any system.

mod breakdown;
mod check;
mod convert;
mod dump;
mod files;
mod format;
mod frontends;
mod join;
#[cfg(target_os = "linux")]
mod live;
mod output;
mod output_file;
mod pack;
mod pipeline;
mod repair;
mod report;
mod rewrite;
mod schemas;
mod stat;
mod time_point;
mod where_filter;

use clap::{Parser, Subcommand};
use output::Outcome;
use std::process::ExitCode;

/// Event Tracing for Windows on any system: decode, count and check `.etl` traces
///
/// Exit status: 0 done; 1 done, but bytes were damaged or this run itself lost something; 2 wrong usage; 3 could not do it.
#[derive(Parser)]
#[command(name = "etw", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print every record, decoded, in time order; several files are merged
    Dump(dump::Arguments),
    /// Count records by type and event; show header facts, losses and damage
    Stat(stat::Arguments),
    /// Tell sound traces from damaged ones and from files that are none
    Check(check::Arguments),
    /// Write the records of several traces to one, in time order
    Merge(rewrite::MergeArguments),
    /// Write the records of a trace to a new one, compressed or not
    Relog(rewrite::RelogArguments),
    /// Make a trace for another viewer: Perfetto, Chrome, Wireshark
    Convert(convert::Arguments),
    /// Show a trace on one page of HTML
    Report(report::Arguments),
    /// Windows' tracerpt, in its everyday forms
    #[command(disable_help_flag = true)]
    Tracerpt {
        /// As tracerpt has them: tracerpt -h
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Windows' tracefmt, in its everyday forms
    #[command(disable_help_flag = true)]
    Tracefmt {
        /// As tracefmt has them: tracefmt -h
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Windows' tracelog, in its everyday forms
    #[cfg(target_os = "linux")]
    #[command(disable_help_flag = true)]
    Tracelog {
        /// As tracelog has them: tracelog -h
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Windows' logman with -ets, in its everyday forms
    #[cfg(target_os = "linux")]
    #[command(disable_help_flag = true)]
    Logman {
        /// As logman has them: logman -h
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Windows' xperf, as a controller, in its everyday forms
    #[cfg(target_os = "linux")]
    #[command(disable_help_flag = true)]
    Xperf {
        /// As xperf has them: xperf -h
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Gather schemas into one file, or learn them from traces
    Pack(pack::Arguments),
    /// Complete a trace that its session did not, in place; a complete one stays as it is
    Repair(repair::Arguments),
    /// Record a command, or all your programs until Ctrl-C
    #[cfg(target_os = "linux")]
    Record(live::RecordArguments),
    /// Start, stop, change and show sessions that record all programs
    #[cfg(target_os = "linux")]
    Session(live::SessionArguments),
    /// Show events as they happen
    #[cfg(target_os = "linux")]
    Tail(live::TailArguments),
    /// Show providers: registered ones, GUIDs of names, what one can emit
    #[cfg(target_os = "linux")]
    Provider(live::ProviderArguments),
    /// Host sessions, in the foreground: what a service runs
    #[cfg(target_os = "linux")]
    Daemon(live::DaemonArguments),
}

fn main() -> ExitCode {
    // By a link's name. A copy or a hard link is the program that it starts its host with, too.
    let mut words = std::env::args().peekable();
    let program = words.next().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    if words.peek().is_none_or(|word| word != "daemon")
        && let Some(frontend) = frontends::by_name(program.trim_end_matches(".exe"))
    {
        return finish((frontend.run)(&words.collect::<Vec<_>>()));
    }
    // A topic beside the commands that clap's own `help` knows.
    if std::env::args_os().skip(1).eq(["help", "where"]) {
        return finish(where_filter::help());
    }
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Command::Dump(arguments) => dump::run(arguments),
        Command::Stat(arguments) => stat::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Merge(arguments) => rewrite::merge(arguments),
        Command::Relog(arguments) => rewrite::relog(arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Tracerpt { arguments } => frontend("tracerpt", arguments),
        Command::Tracefmt { arguments } => frontend("tracefmt", arguments),
        #[cfg(target_os = "linux")]
        Command::Tracelog { arguments } => frontend("tracelog", arguments),
        #[cfg(target_os = "linux")]
        Command::Logman { arguments } => frontend("logman", arguments),
        #[cfg(target_os = "linux")]
        Command::Xperf { arguments } => frontend("xperf", arguments),
        Command::Pack(arguments) => pack::run(arguments),
        Command::Repair(arguments) => repair::run(arguments),
        #[cfg(target_os = "linux")]
        Command::Record(arguments) => live::record(arguments),
        #[cfg(target_os = "linux")]
        Command::Session(arguments) => live::session(arguments),
        #[cfg(target_os = "linux")]
        Command::Tail(arguments) => live::tail(arguments),
        #[cfg(target_os = "linux")]
        Command::Provider(arguments) => live::provider(arguments),
        #[cfg(target_os = "linux")]
        Command::Daemon(arguments) => live::daemon(arguments),
    };
    finish(outcome)
}

fn frontend(name: &str, arguments: &[String]) -> Result<Outcome, output::Failure> {
    match frontends::by_name(name) {
        Some(frontend) => (frontend.run)(arguments),
        None => Err(output::Failure::new("no such command")),
    }
}

fn finish(outcome: Result<Outcome, output::Failure>) -> ExitCode {
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Damaged) => ExitCode::from(1),
        Err(failure) => match failure.message() {
            // A reader that has seen enough closes the pipe; that is no failure.
            None => ExitCode::SUCCESS,
            Some(message) => {
                eprintln!("etw: {message}");
                ExitCode::from(if matches!(failure, output::Failure::Usage(_)) { 2 } else { 3 })
            }
        },
    }
}
