//! `etw record`

#[cfg(windows)]
use command_of_system::record_command;
#[cfg(target_os = "linux")]
use command_with_host::record_command;

use super::host::{HostChoice, ask_session};
use super::options::{EnableOptions, NameSchemas, SessionOptions};
use super::options::{asked_names, check_config, enablements};
use super::session::{explain_zero, outcome, summary, summary_object};
use super::signals::Signals;
use super::system_options::SystemEventOptions;
use super::wanted::Wanted;
use crate::output::{Failure, Outcome, print_paged};
use crate::output_file::ReplaceOption;
use clap::{ArgGroup, Args};
use etw_wire::requests::{Request, SessionStatus, StartRequest};
use std::path::PathBuf;

#[cfg(windows)]
mod command_of_system;
#[cfg(target_os = "linux")]
mod command_with_host;

#[derive(Args)]
#[command(group = ArgGroup::new("events").args(["provider", "system"]).multiple(true).required(true))]
pub struct Arguments {
    /// Record to this file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    replace: ReplaceOption,
    /// Enable a provider: PROVIDER[:LEVEL[:ANY[:ALL]]]; GUID, name, or *Name; ANY and ALL: masks or keywords' names
    #[arg(short, long, value_name = "PROVIDER")]
    provider: Vec<Wanted>,
    /// Record all programs through the machine's host instead of your own; COMMAND has a host of its own
    #[arg(long, conflicts_with = "command")]
    system_host: bool,
    /// Print a summary only if events were lost
    #[arg(short, long)]
    quiet: bool,
    /// Print the summary as one JSON object: on standard output, or with COMMAND as the last line of standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: SessionOptions,
    #[command(flatten)]
    enable: EnableOptions,
    #[command(flatten)]
    schemas: NameSchemas,
    #[command(flatten)]
    system: SystemEventOptions,
    /// Record this command and its children, until it ends, and exit with its status; without one, all your programs until Ctrl-C
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

/// A command that has ended, and the session that recorded it.
struct CommandEnd {
    session: SessionStatus,
    /// The exit status for the command.
    exit_status: u8,
}

/// Exit status if the recording fails.
const RECORDING_FAILED: u8 = 125;
/// Exit status if the command exists and cannot be run.
const NOT_EXECUTABLE: u8 = 126;
/// Exit status if the command does not exist.
const NOT_FOUND: u8 = 127;

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    // Threads inherit the blocked signals.
    let signals = Signals::block()?;
    #[cfg(target_os = "linux")]
    crate::orphans::remove();
    let Some((program, words)) = arguments.command.split_first() else {
        let status = record_all(arguments, &signals)?;
        let outcome = outcome(&status)?;
        print_summary(arguments, &status, outcome, None)?;
        return Ok(outcome);
    };
    let recorded = record_command(arguments, program, words, &signals);
    let CommandEnd { session: status, exit_status } =
        recorded.map_err(|failure| match failure {
            Failure::Message(message) => Failure::Recording { status: RECORDING_FAILED, message },
            other => other,
        })?;
    print_summary(arguments, &status, outcome(&status)?, Some(exit_status))?;
    // The trace is gone, or not complete.
    let is_recorded = status.error.is_none();
    Ok(Outcome::OfCommand(if is_recorded { exit_status } else { RECORDING_FAILED }))
}

/// Prints the summary; `exit_status`: that of the recorded command, to which standard output belongs.
fn print_summary(
    arguments: &Arguments,
    status: &SessionStatus,
    outcome: Outcome,
    exit_status: Option<u8>,
) -> Result<(), Failure> {
    if arguments.quiet && outcome == Outcome::Done {
        return Ok(());
    }
    if !arguments.json {
        eprint!("etw: {}", summary(status));
        return Ok(());
    }
    let mut object = summary_object(status);
    if let Some(exit_status) = exit_status {
        object["exit_status"] = exit_status.into();
        eprintln!("{object}");
        return Ok(());
    }
    print_paged(&format!("{object}\n")).map(drop)
}

/// The error of a command that cannot be started.
fn cannot_be_run(program: &std::ffi::OsStr, error: &std::io::Error) -> Failure {
    let (status, advice) = match error.kind() {
        std::io::ErrorKind::NotFound if error.get_ref().is_some() => {
            (NOT_FOUND, "; correct the first line of the script")
        }
        std::io::ErrorKind::NotFound => (NOT_FOUND, "; give its path, or a name in PATH"),
        std::io::ErrorKind::PermissionDenied => (NOT_EXECUTABLE, advice_on_rights(program)),
        std::io::ErrorKind::WouldBlock => (NOT_EXECUTABLE, "; raise the limit of processes"),
        _ => (NOT_EXECUTABLE, ""),
    };
    let message = format!("{}: cannot be run: {error}{advice}", program.to_string_lossy());
    Failure::Recording { status, message }
}

/// How a program that the user may not execute becomes one.
fn advice_on_rights(program: &std::ffi::OsStr) -> &'static str {
    match std::fs::metadata(program) {
        Ok(found) if found.is_dir() => "; it is a folder",
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            "; you may not enter a folder of its path"
        }
        _ => "; chmod +x makes a program executable",
    }
}

/// The status of a session at its end, without the notes that were printed at its start.
fn ended_after(start: &SessionStatus, mut end: SessionStatus) -> SessionStatus {
    end.notes.retain(|note| !start.notes.contains(note));
    end
}

/// Records all programs through a host. The session is leased: it ends with this command, however that ends.
fn record_all(arguments: &Arguments, signals: &Signals) -> Result<SessionStatus, Failure> {
    arguments.options.check_output(&arguments.output, arguments.replace)?;
    let host = HostChoice { system_host: arguments.system_host };
    let client = host.connect_or_start()?;
    let name = format!("etw-record-{}", std::process::id());
    let mut config = arguments.options.config(&name, Some(&arguments.output))?;
    let lookup = arguments.schemas.lookup(Some(&client))?;
    config.enable = enablements(&arguments.provider, &arguments.enable, &lookup)?;
    config.system = arguments.system.config()?;
    check_config(&config)?;
    let request = StartRequest { config, leased: true };
    let status = ask_session(&client, &Request::start(request))?;
    if let Some(warning) = &status.error {
        eprintln!("etw: warning: {warning}");
    }
    let _lease = host.hold(client, &name);
    if !arguments.quiet {
        eprintln!("etw: recording; Ctrl-C ends it");
    }
    signals.wait_for_end();
    let client = host.connect()?;
    let recent = client.ask(&Request::RecentProviders);
    let status = ended_after(&status, ask_session(&client, &Request::Stop { session: name })?);
    explain_zero(&status, recent, &asked_names(&arguments.provider), &host.description());
    Ok(status)
}
