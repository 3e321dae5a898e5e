//! `etw tail`

use super::host::{HostChoice, ask_session};
use super::options::{EnableOptions, Wanted as Provider, enablements, resolve};
use super::session::refusals;
use crate::format::{FileFacts, Options, TextOrJson, safe};
use crate::output::{Failure, Outcome, Output};
use crate::schemas::{self, Schemas};
use crate::where_filter::{TraceNames, WhereOption};
use ::etw::{Consumer, Controller, Lost, Missed};
use clap::Args;
use etw_decode::{Decoder, Style};
use etw_host::SessionConfig;
use etw_types::{EventRecord, FileTime, LogFileMode};
use etw_wire::requests::{Request, Response, StartRequest};
use std::io::IsTerminal;
use std::time::Duration;

#[derive(Args)]
pub struct Arguments {
    /// A running real-time session; without one, -p starts one that ends with this command
    session: Option<String>,
    /// Show this provider's events: PROVIDER[:LEVEL[:ANY[:ALL]]]; GUID, registered name, or *Name
    #[arg(short, long, value_name = "PROVIDER", conflicts_with = "session")]
    provider: Vec<Provider>,
    #[command(flatten)]
    format: TextOrJson,
    /// Stop after N events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    enable: EnableOptions,
    #[command(flatten)]
    schemas: Schemas,
    #[command(flatten)]
    filter: WhereOption,
    #[command(flatten)]
    host: HostChoice,
}

/// Sooner than anybody sees: buffers are handed out when their first event is so old.
const FLUSH_TIMER: Duration = Duration::from_millis(2);

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    if arguments.session.is_none() && arguments.provider.is_empty() {
        return Err(nothing_to_show(&arguments.host));
    }
    let client = arguments.host.connect_or_start()?;
    let session = match &arguments.session {
        Some(session) => session.clone(),
        None => {
            let mut config = SessionConfig {
                name: format!("etw-tail-{}", std::process::id()),
                real_time: true,
                per_processor: false,
                independent: true,
                flush_timer: Some(FLUSH_TIMER),
                ..SessionConfig::default()
            };
            config.enable = enablements(&arguments.provider, &arguments.enable, |named| {
                resolve(named, Some(&client))
            })?;
            let request = StartRequest { config, leased: true };
            let status = ask_session(&client, &Request::start(request))?;
            if let Some(warning) = &status.error {
                eprintln!("etw: warning: {warning}");
            }
            status.name
        }
    };
    // A session of our own ends with `client`.
    let host = Controller::connect_to(arguments.host.directory()).map_err(refused)?;
    let mut events = Consumer::open(&host, &session).map_err(refused)?;
    let header = events.trace().header();
    let start = header.map_or(FileTime(0), |header| header.start_time);
    let facts = FileFacts {
        clock: *events.trace().clock(),
        timer_resolution: header.map_or(0, |header| header.timer_resolution),
    };
    let filter = arguments.filter.compile(start)?;
    let mut names = TraceNames::default();
    let mut shown = 0;
    let mut decoder = Decoder::new();
    decoder.set_catalog(arguments.schemas.load()?);
    decoder.set_own_catalog(schemas::own());
    let options = Options {
        format: arguments.format.format(),
        raw: false,
        style: Style::default(),
        names: None,
    };
    let colours = !arguments.format.is_json()
        && std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut output = Output::open(None, &[])?;
    let mut text = Vec::new();
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let mut told = Lost::default();
    let mut missed = Missed::default();
    loop {
        text.clear();
        let goes_on = events.next(|record| {
            let time = || record.timestamp(&facts.clock);
            if left == 0 {
                return;
            }
            let decoded = decoder.decode(record);
            if let Some(filter) = &filter {
                names.add(record, &decoded);
                let time = filter.needs_time().then(time).flatten();
                if !filter.matches(record, &decoded, time, &options.style) {
                    return;
                }
                filter.check_shown(&decoded);
            }
            left -= 1;
            shown += 1;
            let colour = if colours { colour(record) } else { "" };
            text.extend_from_slice(colour.as_bytes());
            options.write(&mut text, record, &decoded, &facts);
            if !colour.is_empty() {
                // Before the line's end: a pager's lines are whole.
                let end = if text.last() == Some(&b'\n') { text.len() - 1 } else { text.len() };
                text.splice(end..end, *b"\x1b[0m");
            }
        });
        let goes_on = goes_on.map_err(refused)?;
        if !text.is_empty() {
            output.write(&text)?;
            output.finish()?;
        }
        if events.lost() != told {
            told = events.lost();
            eprintln!(
                "etw: {} events lost so far: this command reads too slowly; --where or -o FILE of etw record help",
                told.events
            );
        }
        if events.missed() != missed {
            let before = std::mem::replace(&mut missed, events.missed());
            if missed.replaced != before.replaced {
                eprintln!("etw: note: the host's worker was restarted; the session continues");
            }
            if missed.events != before.events {
                let missed = missed.events - before.events;
                eprintln!("etw: {missed} in-flight events were lost in that restart");
            }
        }
        if !goes_on || left == 0 {
            break;
        }
    }
    if let Some(filter) = &filter {
        filter.report_names(shown, &names);
    }
    let mut whole = events.lost() == Lost::default() && events.missed().events == 0;
    if arguments.session.is_none() {
        // Of a session that has ended with its host there is nobody to ask.
        let query = client.ask(&Request::Query { session });
        if let Ok(Response::Session(status)) = query
            && status.refused > 0
        {
            whole = false;
            eprint!("etw: {} not recorded:\n{}", status.refused, refusals(&status));
        }
    }
    drop(client);
    Ok(if whole { Outcome::Done } else { Outcome::Damaged })
}

/// The error for a command without a session and without providers.
fn nothing_to_show(host: &HostChoice) -> Failure {
    let sessions = match host.connect_if_any() {
        Ok(Some(client)) => client.ask(&Request::List).ok(),
        _ => None,
    };
    let names: Vec<String> = match sessions {
        Some(Response::Sessions { sessions }) => {
            let live = sessions.into_iter().filter(|s| s.mode.contains(LogFileMode::REAL_TIME));
            live.map(|status| status.name).collect()
        }
        _ => Vec::new(),
    };
    let running = match names.is_empty() {
        true => "no real-time session is running".to_owned(),
        false => format!("running real-time sessions: {}", safe(&names.join(", "))),
    };
    Failure::Usage(format!(
        "tail: name a session (etw tail SESSION) or a provider (etw tail -p PROVIDER); {running}"
    ))
}

fn refused(error: ::etw::ControlError) -> Failure {
    match error.status().name() {
        Some(name) => Failure::new(format!("{error} ({name}, {})", error.status().0)),
        None => Failure::new(format!("{error} ({})", error.status().0)),
    }
}

/// By level, as people know it.
fn colour(record: &EventRecord<'_>) -> &'static str {
    match record.descriptor.level.0 {
        1 | 2 => "\x1b[31m",
        3 => "\x1b[33m",
        5.. => "\x1b[2m",
        _ => "",
    }
}
