//! `etw session`

use super::host::{Which, ask, ask_session};
use super::options::{
    EnableOptions, Named, SessionOptions, Wanted, absolute, enablements, milliseconds, resolve,
};
use crate::format::safe;
use crate::output::{Failure, Outcome, Output};
use clap::{Args, Subcommand, ValueEnum};
use etw_host::{EnableProperties, LogMode};
use etw_wire::requests::{Request, Response, SessionStatus, Update};
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Form of the output
    #[arg(long, value_enum, default_value = "text", global = true)]
    format: Format,
    #[command(flatten)]
    which: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// JSON
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Start a session; it goes on until it is stopped
    Start {
        /// Its name
        name: String,
        /// Record to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Enable a provider: PROVIDER[:LEVEL[:ANY[:ALL]]]; GUID, registered name, or *Name
        #[arg(short, long, value_name = "PROVIDER")]
        provider: Vec<Wanted>,
        /// Deliver events to `etw tail` and other consumers
        #[arg(long)]
        real_time: bool,
        /// Keep the last events in memory; `etw session flush -o` writes them
        #[arg(long)]
        buffering: bool,
        #[command(flatten)]
        options: SessionOptions,
        #[command(flatten)]
        enable: EnableOptions,
    },
    /// Stop a session: what was written before is in its file
    Stop {
        /// Its name
        name: String,
    },
    /// Show a session's state and where every event went
    Query {
        /// Its name
        name: String,
    },
    /// Show all sessions
    List,
    /// Change a running session
    Update {
        /// Its name
        name: String,
        /// Number of buffers, if it is more than there are
        #[arg(long, value_name = "N")]
        buffers: Option<u32>,
        /// Store partly filled buffers after this time; 0: when they are full
        #[arg(long, value_name = "TIME", value_parser = milliseconds)]
        flush_timer: Option<u32>,
        /// Go on in this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Deliver events to consumers, or not
        #[arg(long, value_name = "true|false")]
        real_time: Option<bool>,
    },
    /// Store what was written before this call
    Flush {
        /// Its name
        name: String,
        /// Write what a session in memory holds to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Enable a provider or provider group, or change what is wanted of it
    Enable {
        /// The session's name
        name: String,
        /// PROVIDER[:LEVEL[:ANY[:ALL]]]; GUID, registered name, or *Name
        provider: Wanted,
        /// Wait so long for the programs' callbacks
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = milliseconds)]
        timeout: u32,
        #[command(flatten)]
        enable: EnableOptions,
    },
    /// Disable a provider or provider group
    Disable {
        /// The session's name
        name: String,
        /// GUID, registered name, or *Name
        provider: Named,
    },
    /// Ask a provider for the state that its later events build on
    CaptureState {
        /// The session's name
        name: String,
        /// PROVIDER[:LEVEL[:ANY[:ALL]]]
        provider: Wanted,
    },
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let which = &arguments.which;
    let format = arguments.format;
    match &arguments.command {
        Command::Start { name, output, provider, real_time, buffering, options, enable } => {
            let client = which.connect_or_start()?;
            let mut config = options.config(name, output.as_deref())?;
            config.real_time = *real_time;
            if *buffering {
                config.mode = LogMode::Buffering;
            }
            config.enable = enablements(provider, enable, |named| resolve(named, Some(&client)))?;
            let status = ask_session(&client, &Request::start(config))?;
            if let Some(warning) = &status.error {
                eprintln!("etw: warning: {warning}");
            }
            match format {
                Format::Json => show(&status, format)?,
                Format::Text => print(&format!("session {} is running\n", status.name))?,
            }
            Ok(Outcome::Done)
        }
        Command::Stop { name } => {
            let request = Request::Stop { session: name.clone() };
            let status = ask_session(&which.connect()?, &request)?;
            match format {
                Format::Json => show(&status, format)?,
                Format::Text => print(&summary(&status))?,
            }
            outcome(&status)
        }
        Command::Query { name } => {
            let request = Request::Query { session: name.clone() };
            let status = ask_session(&which.connect()?, &request)?;
            show(&status, format)?;
            Ok(Outcome::Done)
        }
        Command::List => {
            let sessions = match which.connect_if_any()? {
                Some(client) => match ask(&client, &Request::List)? {
                    Response::Sessions { sessions } => sessions,
                    _ => Vec::new(),
                },
                // Nobody hosts a session, so there is none.
                None => Vec::new(),
            };
            list(&sessions, format)?;
            Ok(Outcome::Done)
        }
        Command::Update { name, buffers, flush_timer, output, real_time } => {
            let update = Update {
                buffers: *buffers,
                flush_timer_ms: *flush_timer,
                file: output.as_deref().map(absolute).transpose()?,
                real_time: *real_time,
            };
            ask(&which.connect()?, &Request::Update { session: name.clone(), update })?;
            Ok(Outcome::Done)
        }
        Command::Flush { name, output } => {
            let client = which.connect()?;
            let session = name.clone();
            let request = match output {
                Some(file) => Request::Snapshot { session, file: absolute(file)? },
                None => Request::Flush { session },
            };
            ask(&client, &request)?;
            Ok(Outcome::Done)
        }
        Command::Enable { name, provider, timeout, enable } => {
            let client = which.connect()?;
            let request = Request::Enable {
                session: name.clone(),
                provider: resolve(&provider.provider, Some(&client))?,
                info: enable.info(&provider.wanted)?,
                timeout_ms: *timeout,
            };
            ask(&client, &request)?;
            Ok(Outcome::Done)
        }
        Command::Disable { name, provider } => {
            let client = which.connect()?;
            let provider = resolve(provider, Some(&client))?;
            ask(&client, &Request::Disable { session: name.clone(), provider })?;
            Ok(Outcome::Done)
        }
        Command::CaptureState { name, provider } => {
            let client = which.connect()?;
            let request = Request::CaptureState {
                session: name.clone(),
                provider: resolve(&provider.provider, Some(&client))?,
                level: provider.wanted.level,
                any: provider.wanted.any,
                all: provider.wanted.all,
            };
            ask(&client, &request)?;
            Ok(Outcome::Done)
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut output = Output::open(None, &[])?;
    output.write(text.as_bytes())?;
    output.finish()
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string(value).map_err(Failure::new)?;
    text.push('\n');
    Ok(text)
}

/// The end of a session, in a line or two.
pub fn summary(status: &SessionStatus) -> String {
    let mut text = format!("{} events", status.stored);
    if let Some(file) = &status.file {
        let size = std::fs::metadata(file).map(|file| file.len());
        match size {
            Ok(size) => {
                let _ = write!(text, " in {} ({} KiB)", file.display(), size.div_ceil(1024));
            }
            Err(_) => {
                let _ = write!(text, " in {}", file.display());
            }
        }
    }
    if status.overwritten > 0 {
        let _ = write!(text, ", {} overwritten", status.overwritten);
    }
    match status.lost {
        // That would be said of programs that were not recorded, too.
        0 if status.refused > 0 => text.push('\n'),
        0 => text.push_str(", none lost\n"),
        lost => {
            let _ = writeln!(text, ", {lost} LOST:");
            text.push_str(&losses(status));
        }
    }
    if status.refused > 0 {
        let _ = writeln!(text, "{} NOT RECORDED:", status.refused);
        text.push_str(&refusals(status));
    }
    if status.without_stack > 0 {
        let _ = writeln!(
            text,
            "{} events without the call stack that was wanted",
            status.without_stack
        );
    }
    if status.real_time_buffers_lost > 0 {
        let lost = status.real_time_buffers_lost;
        let _ = writeln!(text, "{lost} buffers did not reach a slow consumer");
    }
    if let Some(error) = &status.error {
        let _ = writeln!(text, "the file: {error}");
    }
    text
}

fn losses(status: &SessionStatus) -> String {
    let mut text = String::new();
    for loss in &status.losses {
        let _ = write!(text, "  {:>12}  {}", loss.count, loss.cause);
        if let Some(pid) = loss.pid {
            let _ = write!(text, ", process {pid}");
        }
        if let Some(provider) = &loss.provider {
            let _ = write!(text, ", provider {provider}");
        }
        text.push('\n');
    }
    text
}

/// Programs' providers that a session has nothing of, a line each.
pub fn refusals(status: &SessionStatus) -> String {
    let mut text = String::new();
    for refusal in &status.refusals {
        let _ = writeln!(text, "  {}", safe(&refusal.message));
    }
    let more = status.refused.saturating_sub(status.refusals.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    text
}

/// Exit status 1: this run has lost something, or has nothing of a program that it was to record.
pub fn outcome(status: &SessionStatus) -> Result<Outcome, Failure> {
    let whole = status.lost == 0 && status.refused == 0 && status.error.is_none();
    Ok(if whole { Outcome::Done } else { Outcome::Damaged })
}

fn show(status: &SessionStatus, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return print(&json(status)?);
    }
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<16}{}", safe(&value));
    };
    row("session", status.name.clone());
    row("guid", status.guid.to_string());
    row("state", status.state.clone());
    row("file", status.file.as_ref().map_or("-".to_owned(), |file| file.display().to_string()));
    row("log mode", format!("{:#010x}", status.mode.0));
    row(
        "clock",
        match status.clock {
            2 => "system".to_owned(),
            3 => "cycles".to_owned(),
            _ => "qpc".to_owned(),
        },
    );
    row(
        "buffers",
        format!(
            "{} of {} KiB, {} free, {} written, {} lost",
            status.buffers,
            status.buffer_size / 1024,
            status.free_buffers,
            status.buffers_written,
            status.buffers_lost
        ),
    );
    row(
        "consumers",
        format!("{}, {} buffers lost", status.consumers, status.real_time_buffers_lost),
    );
    row("owner", format!("{}{}", status.owner, if status.leased { ", leased" } else { "" }));
    row("attempted", status.attempted.to_string());
    row("stored", status.stored.to_string());
    row("overwritten", status.overwritten.to_string());
    row("filtered", status.filtered.to_string());
    row("lost", status.lost.to_string());
    if status.without_stack > 0 {
        row("without stack", status.without_stack.to_string());
    }
    text.push_str(&losses(status));
    if status.refused > 0 {
        let _ = writeln!(text, "{:<16}{}", "not recorded", status.refused);
        text.push_str(&refusals(status));
    }
    for (provider, info) in &status.enabled {
        let _ = writeln!(
            text,
            "{:<16}{provider} level {} any {:#x} all {:#x}",
            "enabled", info.wanted.level, info.wanted.any, info.wanted.all
        );
        if info.properties != EnableProperties::default() {
            let _ = writeln!(text, "{:<16}{:?}", "", info.properties);
        }
        if let Some(filters) = &info.filters {
            let filters = serde_json::to_value(filters).map_err(Failure::new)?;
            let _ = writeln!(text, "{:<16}{}", "", safe(&without_empty(filters).to_string()));
        }
    }
    if let Some(error) = &status.error {
        let _ = writeln!(text, "{:<16}{error}", "error");
    }
    print(&text)
}

/// Of an object the members that say something.
fn without_empty(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(all) => {
            let all = all.into_iter().map(|(name, value)| (name, without_empty(value)));
            Value::Object(all.filter(|(_, value)| !is_empty(value)).collect())
        }
        other => other,
    }
}

fn list(sessions: &[SessionStatus], format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return print(&json(&sessions)?);
    }
    let mut text = String::new();
    if !sessions.is_empty() {
        let _ = writeln!(
            text,
            "{:<24} {:<10} {:>12} {:>10}  FILE",
            "SESSION", "STATE", "EVENTS", "LOST"
        );
    }
    for status in sessions {
        let file = status.file.as_ref().map_or("-".to_owned(), |file| file.display().to_string());
        let _ = writeln!(
            text,
            "{:<24} {:<10} {:>12} {:>10}  {}",
            safe(&status.name),
            status.state,
            status.stored,
            status.lost,
            safe(&file)
        );
    }
    print(&text)
}

/// For `etw provider`.
pub fn print_text(text: &str) -> Result<(), Failure> {
    print(text)
}

/// For `etw provider`.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&json(value)?)
}
