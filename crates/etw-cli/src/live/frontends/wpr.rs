//! `wpr`: records profiles, as Windows Performance Recorder does.
//!
//! As on Windows, a recording has a session for the system's events, and one for each collector of events of programs. `-stop` merges them
//! into one file.

mod keywords;
mod lock;
mod options;
mod profiles;
mod recording;
mod status;

use super::{Controller, Enablement, all_sessions, worse};
use crate::format::safe;
use crate::frontends::answer::{print, usage};
use crate::frontends::table::{Help, Table, show_help};
use crate::output::{Failure, Outcome};
use crate::rewrite::{self, Inputs};
use etw_etl::read::TraceFile;
use etw_host::SessionConfig;
use etw_types::Guid;
use etw_wire::requests::SessionStatus;
use lock::lock;
use options::*;
use recording::Recording;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The names of a recording's sessions begin like this; a collector's name follows.
const PREFIX: &str = "WPR_initiated_WprApp_";

static TABLE: Table<Command> = Table {
    command: "wpr",
    about: "Record profiles of the system and of programs, as Windows' wpr does",
    forms: &[
        "-start PROFILE [-start PROFILE]... [-filemode] [-recordtempto FOLDER]",
        "-stop FILE.etl [DESCRIPTION]",
        "-cancel | -status | -profiles [FILE.wprp]",
    ],
    repeatable: START,
    actions: ACTIONS,
    operand: None,
    rows: ROWS,
    notes: "The profiles GeneralProfile, CPU, DiskIO, FileIO and Network have the levels Light and Verbose, which is the \
            default. Sessions belong to your own host, which starts when it is needed. etw record --system and \
            etw session start are the commands behind it.",
};

/// A command line, parsed.
#[derive(Debug, Default)]
struct Command {
    profiles: Vec<String>,
    is_file_mode: bool,
    /// The folder of files until `-stop`.
    folder: Option<PathBuf>,
    output: Option<PathBuf>,
    /// A file of profiles.
    file: Option<String>,
    shown: status::Shown,
}

pub fn help() -> Help {
    TABLE.help()
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    let mut command = Command::default();
    let Some(given) = TABLE.parse(words, &mut command)? else { return show_help(&help()) };
    let Some(by) = TABLE.action(&given) else {
        return Err(usage("wpr: name an action: -start, -stop, -cancel, -status or -profiles"));
    };
    let action = by.row.actions;
    if let Some(odd) = TABLE.odd(&given, action) {
        return Err(TABLE.wrong(odd.name, format!("it does not go with -{}", by.name)));
    }
    match action {
        START => start(&command),
        STOP => stop(&command.output.unwrap_or_default()),
        CANCEL => cancel(),
        STATUS => status::show(command.shown),
        _ => list(command.file.as_deref()),
    }
}

/// Those sessions that are the recording that runs.
fn running(mut sessions: Vec<SessionStatus>) -> Vec<SessionStatus> {
    sessions.retain(|one| one.name.starts_with(PREFIX));
    sessions
}

fn not_running() -> Failure {
    Failure::new("wpr: error: There are no trace profiles running. (0xc5583000)")
}

fn already_running() -> Failure {
    Failure::new(
        "wpr: error: The profiles are already running. (0xc5583001). Use -stop FILE or -cancel first",
    )
}

/// The kernel's events of the profiles that a command starts.
#[cfg(test)]
pub fn kernel_of(words: &[String]) -> Result<Option<etw_host::SystemConfig>, Failure> {
    let mut command = Command::default();
    TABLE.parse(words, &mut command)?;
    Recording::of(&command)?.kernel.config("wpr", &[])
}

fn start(command: &Command) -> Result<Outcome, Failure> {
    let recording = Recording::of(command)?;
    // Without a host, nothing is recorded: none is started to say so.
    if !running(all_sessions()?).is_empty() {
        return Err(already_running());
    }
    let folder =
        command.is_file_mode.then(|| make_folder(command.folder.as_deref())).transpose()?;
    let profiles = recording.profiles.clone();
    let all = recording.sessions(folder.as_deref());
    let done = all.and_then(|all| start_sessions(all, &profiles));
    if let (Err(_), Some(folder)) = (&done, folder) {
        // It is not there if a session's file was.
        let _ = std::fs::remove_dir(folder);
    }
    done
}

/// Starts all sessions of a recording, or none.
fn start_sessions(
    all: Vec<(SessionConfig, Vec<Enablement>)>,
    profiles: &[String],
) -> Result<Outcome, Failure> {
    let controller = Controller::connect_or_start()?;
    let _lock = lock(&controller)?;
    if !running(controller.sessions()?).is_empty() {
        return Err(already_running());
    }
    let mut started: Vec<SessionStatus> = Vec::new();
    for (config, providers) in all {
        match controller.start(config, providers) {
            Ok(status) => started.push(status),
            Err(failure) => {
                if let Err(another) = discard(&controller, &started) {
                    eprintln!("etw: warning: {}", another.message().unwrap_or_default());
                }
                return Err(failure);
            }
        }
    }
    let ids: Vec<Guid> = started.iter().map(|session| session.guid).collect();
    status::remember(&ids, profiles);
    Ok(Outcome::Done)
}

/// Ends sessions and removes their files.
fn discard(controller: &Controller, sessions: &[SessionStatus]) -> Result<(), Failure> {
    for session in sessions {
        controller.stop_temporary(&session.name)?;
        if let Some(file) = &session.file {
            remove(file);
        }
    }
    Ok(())
}

/// A new folder that only this user can read.
fn make_folder(parent: Option<&Path>) -> Result<PathBuf, Failure> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let folder = parent.join(format!("wpr-{}", std::process::id()));
    let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
    made.map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    Ok(folder)
}

/// Removes a file of a recording, and its folder with the last one.
fn remove(file: &Path) {
    // A file that remains is only one too many.
    let _ = std::fs::remove_file(file);
    if let Some(folder) = file.parent() {
        let is_own =
            folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wpr-"));
        let _ = is_own.then(|| std::fs::remove_dir(folder));
    }
}

/// The recording that runs, and the lock, so that nobody else starts or ends one.
fn recording() -> Result<(Controller, Vec<SessionStatus>, File), Failure> {
    let controller = Controller::if_there()?.ok_or_else(not_running)?;
    let lock = lock(&controller)?;
    match running(controller.sessions()?) {
        sessions if sessions.is_empty() => Err(not_running()),
        sessions => Ok((controller, sessions, lock)),
    }
}

fn stop(output: &Path) -> Result<Outcome, Failure> {
    let (controller, sessions, lock) = recording()?;
    let mut outcome = Outcome::Done;
    let known: Vec<PathBuf> = sessions.iter().filter_map(|session| session.file.clone()).collect();
    // If the trace cannot be written there, the recording goes on.
    rewrite::check_output(output, &known)?;
    let mut files = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let file = match &session.file {
            Some(file) => file.clone(),
            None => {
                let mut name = output.as_os_str().to_owned();
                name.push(format!(".{number}"));
                let file = PathBuf::from(name);
                if let Err(failure) = controller.snapshot(&session.name, &file) {
                    // A part of it is of no use.
                    let _ = std::fs::remove_file(&file);
                    return Err(failure);
                }
                file
            }
        };
        files.push(file);
    }
    for (session, file) in sessions.iter().zip(&files) {
        let ended = match session.file {
            Some(_) => controller.stop_temporary(&session.name)?,
            None => controller.stop_written(&session.name, told_losses(file)?)?,
        };
        outcome = worse(outcome, ended);
    }
    status::forget();
    // The merge may take long.
    drop(lock);
    outcome = worse(outcome, rewrite::merge_to(output.to_owned(), &files, Inputs::Temporary)?);
    files.iter().for_each(|file| remove(file));
    Ok(outcome)
}

/// The lost events that the header of a trace tells. The rundown at its end may have lost more than the session had before.
fn told_losses(file: &Path) -> Result<u64, Failure> {
    let trace = TraceFile::open(file).map_err(|error| Failure::new(error.to_string()))?;
    Ok(trace.header().map_or(0, |header| header.events_lost.into()))
}

fn cancel() -> Result<Outcome, Failure> {
    let (controller, sessions, _lock) = recording()?;
    discard(&controller, &sessions)?;
    status::forget();
    Ok(Outcome::Done)
}

fn list(file: Option<&str>) -> Result<Outcome, Failure> {
    let mut text = String::new();
    let mut names = Vec::new();
    for one in profiles::all(file)? {
        let name = status::profile_name(&one);
        // Most exist for files and for memory.
        if !names.contains(&name) {
            text += &format!("{:<28}{}\n", safe(&name), safe(&one.description));
            names.push(name);
        }
    }
    print(&text)
}
