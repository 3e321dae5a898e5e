//! `etw session`

use super::diagnosis::{self, AskedNames};
use super::host::{HostChoice, ask, ask_session};
use super::lookup::Lookup;
use super::options::{
    EnableOptions, NameSchemas, SessionOptions, absolute, check_config, enablement, enablements,
    milliseconds,
};
use super::system_options::{SystemEventOptions, described};
use super::wanted::{Named, Wanted};
use crate::format::{TextOrJson, safe};
use crate::output::{Failure, Outcome, counted, file_size, print_paged};
use crate::output_file::ReplaceOption;
use crate::stat::losses::Origin;
use clap::{Args, Subcommand};
use etw_host::{CUT, MOVED, REMOVED};
use etw_host::{EnableProperties, Enablement, LogMode, ProviderKey};
use etw_system::system_providers::is_system_provider;
use etw_types::{Guid, LevelKeyword, LogFileMode, SYSTEM_TRACE};
use etw_wire::ClientError;
use etw_wire::requests::{Request, Response, SessionStatus, Update};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    format: TextOrJson,
    #[command(flatten)]
    host: HostChoice,
}

#[derive(Subcommand)]
enum Command {
    /// Start a session, which runs until it is stopped
    Start(Start),
    /// Stop a session and complete its file
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
        /// Continue in this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        replace: ReplaceOption,
        /// Deliver events to consumers, or not
        #[arg(long, value_name = "true|false")]
        real_time: Option<bool>,
    },
    /// Store all events written so far
    Flush {
        /// Its name
        name: String,
        /// Write what a session in memory holds to this file
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        replace: ReplaceOption,
    },
    /// Enable providers or provider groups, or change what is enabled of them
    Enable {
        /// The session's name
        name: String,
        #[command(flatten)]
        providers: Providers<Wanted>,
        /// Wait so long for the programs' callbacks
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = milliseconds)]
        timeout: u32,
        #[command(flatten)]
        enable: EnableOptions,
        #[command(flatten)]
        schemas: NameSchemas,
    },
    /// Disable providers or provider groups
    Disable {
        /// The session's name
        name: String,
        #[command(flatten)]
        providers: Providers<Named>,
    },
    /// Ask providers to log their state, which later events build on
    CaptureState {
        /// The session's name
        name: String,
        #[command(flatten)]
        providers: Providers<Wanted>,
    },
}

// Words of `etw session start`. A doc comment would replace the help of the variant.
#[derive(Args)]
struct Start {
    /// Its name: 1 to 1023 characters
    name: String,
    /// Record to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    replace: ReplaceOption,
    /// Enable a provider: PROVIDER[:LEVEL[:ANY[:ALL]]]; GUID, name, or *Name; ANY and ALL: masks or keywords' names
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
    #[command(flatten)]
    schemas: NameSchemas,
    #[command(flatten)]
    system: SystemEventOptions,
}

/// Providers as words of their own, or behind `-p`.
#[derive(Args)]
#[group(id = "providers", required = true, multiple = true)]
struct Providers<P: Clone + Send + Sync + FromStr<Err = String> + 'static> {
    /// PROVIDER[:LEVEL[:ANY[:ALL]]]; GUID, name, or *Name; ANY and ALL: masks or keywords' names
    #[arg(value_name = "PROVIDER", value_parser = P::from_str)]
    words: Vec<P>,
    /// The same as PROVIDER
    #[arg(short, long, value_name = "PROVIDER", value_parser = P::from_str)]
    provider: Vec<P>,
}

impl<P: Clone + Send + Sync + FromStr<Err = String> + 'static> Providers<P> {
    fn iter(&self) -> impl Iterator<Item = &P> {
        self.words.iter().chain(&self.provider)
    }
}

/// Rejects a session without any output.
fn check_output(name: &str, file: Option<&Path>, has_other: bool) -> Result<(), Failure> {
    match file.is_some() || has_other {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "session start {name}: no output is named: give -o FILE, --real-time (for etw tail), or --buffering (memory)"
        ))),
    }
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let host = &arguments.host;
    let format = arguments.format;
    match &arguments.command {
        Command::Start(words) => start(words, host, format),
        Command::Stop { name } => {
            let request = Request::Stop { session: name.clone() };
            let client = host.connect()?;
            let recent = client.ask(&Request::RecentProviders);
            let status = ask_session(&client, &request)?;
            explain_zero(&status, recent, &[], &host.description());
            match format.is_json() {
                true => show(&status, format)?,
                false => print(&summary(&status))?,
            }
            outcome(&status)
        }
        Command::Query { name } => {
            let request = Request::Query { session: name.clone() };
            let status = ask_session(&host.connect()?, &request)?;
            show(&status, format)?;
            Ok(Outcome::Done)
        }
        Command::List => list_sessions(host, format),
        Command::Update { name, buffers, flush_timer, output, replace, real_time } => {
            if let Some(output) = output {
                replace.check(output)?;
            }
            let update = Update {
                buffers: *buffers,
                flush_timer_ms: *flush_timer,
                file: output.as_deref().map(absolute).transpose()?,
                real_time: *real_time,
                ..Update::default()
            };
            check_update(name, &update)?;
            ask(&host.connect()?, &Request::Update { session: name.clone(), update })?;
            Ok(Outcome::Done)
        }
        Command::Flush { name, output, replace } => {
            if let Some(output) = output {
                replace.check(output)?;
            }
            let client = host.connect()?;
            let session = name.clone();
            let request = match output {
                Some(file) => Request::Snapshot { session, file: absolute(file)? },
                None => Request::Flush { session },
            };
            ask(&client, &request)?;
            Ok(Outcome::Done)
        }
        Command::Enable { name, providers, timeout, enable, schemas } => {
            enable_providers(host, name, providers, *timeout, enable, schemas)
        }
        Command::Disable { name, providers } => disable_providers(host, name, providers),
        Command::CaptureState { name, providers } => {
            let client = host.connect()?;
            let lookup = Lookup::new(Some(&client), Arc::default());
            for wanted in providers.iter() {
                let (session, provider) = (name.clone(), lookup.id(&wanted.provider)?);
                let LevelKeyword { level, any, all, .. } =
                    lookup.level_keyword(wanted, provider)?;
                ask(&client, &Request::CaptureState { session, provider, level, any, all })?;
            }
            Ok(Outcome::Done)
        }
    }
}

fn start(words: &Start, host: &HostChoice, format: TextOrJson) -> Result<Outcome, Failure> {
    let Start { name, output, real_time, buffering, options, .. } = words;
    check_output(name, output.as_deref(), *real_time || *buffering)?;
    if *buffering && output.is_some() {
        let what = "a session with --buffering has no -o FILE; etw session flush NAME -o FILE writes its events when you want them";
        return Err(Failure::Usage(format!("session start {name}: {what}")));
    }
    if let Some(output) = output {
        options.check_output(output, words.replace)?;
    }
    let client = host.connect_or_start()?;
    let mut config = options.config(name, output.as_deref())?;
    config.real_time = *real_time;
    if *buffering {
        config.mode = LogMode::Buffering;
    }
    let lookup = words.schemas.lookup(Some(&client))?;
    config.enable = enablements(&words.provider, &words.enable, &lookup)?;
    config.system = words.system.config()?;
    check_config(&config)?;
    let status = ask_session(&client, &Request::start(config))?;
    if let Some(warning) = &status.error {
        eprintln!("etw: warning: {warning}");
    }
    match format.is_json() {
        true => show(&status, format)?,
        false => print(&format!("session {} is running\n", status.name))?,
    }
    Ok(Outcome::Done)
}

/// Rejects an update that changes nothing.
fn check_update(name: &str, update: &Update) -> Result<(), Failure> {
    let what = match update {
        update if *update == Update::default() => {
            "nothing to change is named: --buffers, --flush-timer, --output or --real-time"
        }
        Update { buffers: Some(0), .. } => "--buffers 0: a session has at least 2 buffers",
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!("session update {name}: {what}")))
}

fn list_sessions(host: &HostChoice, format: TextOrJson) -> Result<Outcome, Failure> {
    let sessions = match host.connect_if_any()? {
        Some(client) => match ask(&client, &Request::List)? {
            Response::Sessions { sessions } => sessions,
            _ => Vec::new(),
        },
        // Without a host there is no session.
        None => Vec::new(),
    };
    list(&sessions, format)?;
    host.failures().iter().for_each(|failure| eprintln!("etw: note: {}", safe(failure)));
    Ok(Outcome::Done)
}

fn enable_providers(
    host: &HostChoice,
    name: &str,
    providers: &Providers<Wanted>,
    timeout: u32,
    enable: &EnableOptions,
    schemas: &NameSchemas,
) -> Result<Outcome, Failure> {
    let client = host.connect()?;
    let lookup = schemas.lookup(Some(&client))?;
    for provider in providers.iter() {
        let Enablement { provider, info } = enablement(provider, enable, &lookup)?;
        let (session, timeout_ms) = (name.to_owned(), timeout);
        ask(&client, &Request::Enable { session, provider, info, timeout_ms })?;
    }
    Ok(Outcome::Done)
}

fn disable_providers(
    host: &HostChoice,
    name: &str,
    providers: &Providers<Named>,
) -> Result<Outcome, Failure> {
    let client = host.connect()?;
    let query = Request::Query { session: name.to_owned() };
    let SessionStatus { names: by_name, enabled, .. } = ask_session(&client, &query)?;
    let lookup = Lookup::new(Some(&client), Arc::default());
    for provider in providers.iter() {
        let provider = match provider {
            Named::Name(text) if by_name.keys().any(|n| n.eq_ignore_ascii_case(text)) => {
                ProviderKey::Name(text.clone())
            }
            other => lookup.id(other)?.into(),
        };
        // Sessions keep the classes of system providers, not the providers.
        let is_listed = |id: &Guid| enabled.contains_key(&id.to_string()) || is_system_provider(id);
        if matches!(&provider, ProviderKey::Id(id) if !is_listed(id)) {
            eprintln!(
                "etw: note: session {name} has {provider} not enabled; etw session query {name} shows what it has"
            );
        }
        ask(&client, &Request::Disable { session: name.to_owned(), provider })?;
    }
    Ok(Outcome::Done)
}

fn print(text: &str) -> Result<(), Failure> {
    print_paged(text).map(drop)
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string(value).map_err(Failure::new)?;
    text.push('\n');
    Ok(text)
}

/// Whether the host counts the events of its sessions by what became of them. Windows counts lost ones alone.
const HOST_COUNTS_EVENTS: bool = !cfg!(windows);

/// A stopped session in a line or two.
pub fn summary(status: &SessionStatus) -> String {
    let mut text = match HOST_COUNTS_EVENTS {
        true => counted(status.stored, "event"),
        false => counted(status.buffers_written, "buffer"),
    };
    let is_removed = is_removed(status);
    if let Some(file) = status.file.as_ref().filter(|_| !is_removed) {
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
    let is_in_memory = status.file.is_none() && status.mode.contains(LogFileMode::BUFFERING);
    if is_in_memory {
        text.push_str(" in memory");
    }
    if status.overwritten > 0 {
        let _ = write!(text, ", {} overwritten", status.overwritten);
    }
    match status.lost {
        // "none lost" would be wrong about programs that were not recorded, and about events that no file has.
        0 if status.refused > 0 || has_slow_consumer(status) => text.push('\n'),
        0 => text.push_str(", none lost\n"),
        lost if status.losses.is_empty() => {
            let _ = writeln!(
                text,
                ", {lost} LOST; more or larger buffers help: --buffers, --buffer-size"
            );
        }
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
            "{} without the call stack that --with stack asks for",
            counted(status.without_stack, "event")
        );
    }
    if is_in_memory && status.stored > 0 {
        text.push_str(
            "they ended with the session; before a stop, etw session flush NAME -o FILE writes them to a file\n",
        );
    }
    if status.real_time_buffers_lost > 0 {
        let lost = counted(status.real_time_buffers_lost, "buffer");
        let _ = writeln!(text, "{lost} did not reach a slow consumer");
    }
    for note in &status.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(error) = &status.error {
        let what = match () {
            () if !is_removed => "the file is not complete: ",
            () if error.ends_with(MOVED) => "",
            () => "these events are not in the file: ",
        };
        let _ = writeln!(text, "{what}{error}");
    }
    text
}

/// The numbers of a stopped session's summary.
pub fn summary_object(status: &SessionStatus) -> Value {
    let file = status.file.as_ref().filter(|_| !is_removed(status));
    let counts = HOST_COUNTS_EVENTS;
    let losses = status.losses.iter().map(|loss| {
        json!({
            "cause": loss.cause.name(), "pid": loss.process_id,
            "provider": loss.provider.map(|id| id.to_string()), "count": loss.count,
        })
    });
    let refusals = status.refusals.iter().map(|refusal| refusal.message.as_str());
    json!({
        "file": file.map(|file| file.to_string_lossy()),
        "bytes": file.and_then(|file| file_size(file)),
        "events": counts.then_some(status.stored),
        "buffers": status.buffers_written,
        "overwritten": counts.then_some(status.overwritten),
        "lost": status.lost,
        "losses": losses.collect::<Vec<_>>(),
        "not_recorded": status.refused,
        "refusals": refusals.collect::<Vec<_>>(),
        "without_stack": status.without_stack,
        "real_time_buffers_lost": status.real_time_buffers_lost,
        "notes": status.notes,
        "error": status.error,
    })
}

/// The remedy for losses with a cause.
pub fn remedy(cause: &str, status: &SessionStatus) -> &'static str {
    match cause {
        "session full" if status.file_full => {
            "the file has its maximum size: a larger --max-size, or --mode circular, which keeps the newest events"
        }
        "session full" if has_only_consumers(status) => {
            "no consumer read the session, or too slowly: etw tail reads it, more buffers help (--buffers)"
        }
        "disk" if has_changed_file(status) => {
            "another process changed the file: record again, and leave it alone until the session has stopped"
        }
        "no chunk" => {
            "the program wrote faster than the host drained: lower the level, or give the host more CPU"
        }
        "session full" => "more or larger buffers help: --buffers, --buffer-size",
        "too large" => "an event has at most 64 KiB; log less in one event",
        "too large for session" => "larger buffers help: --buffer-size",
        "all or none" => "another session of the event was full; --independent separates them",
        "disk" if has_read_only_file(status) => {
            "the file system is read-only now: mount it for writing, or record to another one"
        }
        "disk" => "the file could not be written: free some space, or record to a faster disk",
        "late" => {
            "the machine was too busy to commit events in time; fewer events or more CPUs help"
        }
        "abandoned" => "the program was stopped or killed in the middle of a write",
        "kernel" => {
            "the kernel dropped events of the machine: record fewer classes (--system) or call stacks (--stack)"
        }
        "hostile" => "the program has damaged its pool; look for a memory error in it",
        _ => "more buffers and fewer events help",
    }
}

/// Whether events reached neither a file nor each consumer.
fn has_slow_consumer(status: &SessionStatus) -> bool {
    has_only_consumers(status) && status.real_time_buffers_lost > 0
}

/// Whether nothing but live consumers receives a session's events.
fn has_only_consumers(status: &SessionStatus) -> bool {
    status.file.is_none() && status.mode.contains(LogFileMode::REAL_TIME)
}

/// Whether a session's current file was removed, or is elsewhere now.
fn is_removed(status: &SessionStatus) -> bool {
    let (Some(file), Some(error)) = (&status.file, &status.error) else { return false };
    let end = error.strip_prefix(&format!("{} ", file.display()));
    [REMOVED, MOVED].map(Some).contains(&end)
}

/// Whether the file system of a session's file takes no writes.
fn has_read_only_file(status: &SessionStatus) -> bool {
    status.error.as_ref().is_some_and(|error| error.contains("Read-only file system"))
}

/// Whether another process has removed, replaced or cut a file of a session.
fn has_changed_file(status: &SessionStatus) -> bool {
    let is_change = |error: &String| error.ends_with(REMOVED) || error.contains(CUT);
    status.error.as_ref().is_some_and(is_change)
}

/// Prints why a stopped session has no events.
pub fn explain_zero(
    status: &SessionStatus,
    recent: Result<Response, ClientError>,
    asked: &AskedNames,
    host: &str,
) {
    if !HOST_COUNTS_EVENTS {
        return;
    }
    if status.stored > 0 || status.overwritten > 0 || status.lost > 0 || status.refused > 0 {
        return;
    }
    let recent = match recent {
        Ok(Response::Providers { providers }) => providers,
        _ => Vec::new(),
    };
    for reason in diagnosis::reasons(status, &recent, asked, host) {
        eprintln!("etw: note: no events: {reason}");
    }
}

/// The losses of a session by cause, a line each.
pub fn losses(status: &SessionStatus) -> String {
    /// Rows that a person reads.
    const SHOWN: usize = 12;
    let mut text = String::new();
    for loss in status.losses.iter().take(SHOWN) {
        let origin = Origin::from(loss);
        let remedy = remedy(loss.cause.name(), status);
        let _ = writeln!(text, "  {:>12}  {origin} ({remedy})", loss.count);
    }
    let others = status.losses.get(SHOWN..).unwrap_or_default();
    if !others.is_empty() {
        let count: u64 = others.iter().map(|loss| loss.count).sum();
        let rows = counted(others.len(), "other row");
        let others = match status.file_full {
            true => "--json has them, and the trace, which is full, at least their sums",
            false => "--json and the trace have them",
        };
        let _ = writeln!(text, "  {count:>12}  in {rows}; {others}");
    }
    text
}

/// Registrations of which a session has no events, a line each.
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

/// Exit status 1 if this run has lost events, or has no events of a program that it was to record.
pub fn outcome(status: &SessionStatus) -> Result<Outcome, Failure> {
    let whole = status.lost == 0
        && status.refused == 0
        && status.error.is_none()
        && !has_slow_consumer(status);
    Ok(if whole { Outcome::Done } else { Outcome::Damaged })
}

fn show(status: &SessionStatus, format: TextOrJson) -> Result<(), Failure> {
    if format.is_json() {
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
    if status.compressed.is_possible() {
        row("compression", status.compressed.name().to_owned());
    }
    row("clock", status.clock.name().to_owned());
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
    if HOST_COUNTS_EVENTS {
        row("attempted", status.attempted.to_string());
        row("stored", status.stored.to_string());
        row("overwritten", status.overwritten.to_string());
        row("filtered", status.filtered.to_string());
    }
    row("lost", status.lost.to_string());
    if status.without_stack > 0 {
        row("without stack", status.without_stack.to_string());
    }
    text.push_str(&losses(status));
    if status.refused > 0 {
        let _ = writeln!(text, "{:<16}{}", "not recorded", status.refused);
        text.push_str(&refusals(status));
    }
    for (name, value) in status.system.iter().flat_map(described) {
        let _ = writeln!(text, "{name:<16}{value}");
    }
    let of_system = SYSTEM_TRACE.to_string();
    let shown = |id: &&String| status.system.is_none() || !id.eq_ignore_ascii_case(&of_system);
    for (provider, info) in status.enabled.iter().filter(|(id, _)| shown(id)) {
        let _ = writeln!(
            text,
            "{:<16}{provider} level {} any {:#x} all {:#x}",
            "enabled", info.wanted.level.0, info.wanted.any.0, info.wanted.all.0
        );
        if info.properties != EnableProperties::default() {
            let _ = writeln!(text, "{:<16}{:?}", "", info.properties);
        }
        if let Some(filters) = &info.filters {
            let filters = serde_json::to_value(filters).map_err(Failure::new)?;
            let _ = writeln!(text, "{:<16}{}", "", safe(&without_empty(filters).to_string()));
        }
    }
    for (name, ids) in &status.names {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "{:<16}{}: {}", "by name", safe(name), ids.join(", "));
    }
    for note in &status.notes {
        let _ = writeln!(text, "{:<16}{}", "note", safe(note));
    }
    if let Some(error) = &status.error {
        let _ = writeln!(text, "{:<16}{error}", "error");
    }
    print(&text)
}

/// An object without its empty members.
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

fn list(sessions: &[SessionStatus], format: TextOrJson) -> Result<(), Failure> {
    if format.is_json() {
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
            if HOST_COUNTS_EVENTS { status.stored.to_string() } else { "-".to_owned() },
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
