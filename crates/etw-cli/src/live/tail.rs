//! `etw tail`

use super::host::{HostChoice, ask_session};
use super::lookup::Lookup;
use super::options::{EnableOptions, asked_names, enablements};
use super::session::{explain_zero, losses, refusals};
use super::signals::Signals;
use super::wanted::Wanted as Provider;
use crate::column::Column;
use crate::event_kinds::EventKinds;
use crate::filter_names::FilterNames;
use crate::format::{FileFacts, Heads, Options, TextOrJson, View, safe};
use crate::output::{Failure, Outcome, Output, counted};
use crate::schemas::{self, Schemas};
use crate::terminal::has_colours;
use crate::times::TimesOption;
use crate::where_filter::{Filter, TraceNames, WhereOption};
use ::etw::{Closer, LiveItem, LiveStream, StreamLedger};
use clap::Args;
use etw_decode::{Decoder, Style};
use etw_host::SessionConfig;
use etw_types::{EventRecord, FileTime, LogFileMode};
use etw_wire::requests::{Request, Response, StartRequest};

#[derive(Args)]
pub struct Arguments {
    /// A running real-time session; without one, -p starts one that ends with this command
    session: Option<String>,
    /// Show this provider's events: PROVIDER[:LEVEL[:ANY[:ALL]]]; GUID, name, or *Name; ANY and ALL: masks or keywords' names
    #[arg(short, long, value_name = "PROVIDER", conflicts_with = "session")]
    provider: Vec<Provider>,
    #[command(flatten)]
    format: TextOrJson,
    /// Stop after N events
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,
    /// Show only these columns: names of --where (time, provider, event, level, pid, …) and of fields
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<Column>,
    /// Show only these fields of the events
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "columns")]
    fields: Vec<String>,
    #[command(flatten)]
    times: TimesOption,
    #[command(flatten)]
    enable: EnableOptions,
    #[command(flatten)]
    schemas: Schemas,
    #[command(flatten)]
    filter: WhereOption,
    #[command(flatten)]
    host: HostChoice,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    if arguments.session.is_none() && arguments.provider.is_empty() {
        return Err(nothing_to_show(&arguments.host));
    }
    let client = arguments.host.connect_or_start()?;
    // A host that this command started does not inherit the blocked signals.
    let signals = Signals::block()?;
    let session = match &arguments.session {
        Some(session) => session.clone(),
        None => {
            let mut config = SessionConfig {
                name: format!("etw-tail-{}", std::process::id()),
                real_time: true,
                per_processor: false,
                independent: true,
                ..SessionConfig::default()
            };
            let lookup = Lookup::new(Some(&client), arguments.schemas.load()?);
            config.enable = enablements(&arguments.provider, &arguments.enable, &lookup)?;
            let request = StartRequest { config, leased: true };
            let status = ask_session(&client, &Request::start(request))?;
            if let Some(warning) = &status.error {
                eprintln!("etw: warning: {warning}");
            }
            status.name
        }
    };
    // A session that this command started ends with `client`, or with the stream if a worker was killed.
    let host = arguments.host.controller().map_err(refused)?;
    let mut stream = LiveStream::open(&host, &session).map_err(refused)?;
    detach_at_signal(signals, stream.closer())?;
    let mut printer = Printer::new(arguments, &stream)?;
    let mut output = Output::open(None, &[])?;
    output.write(printer.options.prologue().as_bytes())?;
    let mut ledger = StreamLedger::default();
    loop {
        let continues = stream.wait().map_err(|error| refused(error.into()))?;
        while let Some(item) = stream.next_ready() {
            if let LiveItem::Record(record) = item {
                printer.print(&record);
            }
        }
        if !printer.text.is_empty() {
            output.write(&printer.text)?;
            output.finish()?;
            printer.text.clear();
        }
        report_losses(&ledger, &stream.ledger());
        ledger = stream.ledger();
        if !continues || printer.left == 0 {
            break;
        }
    }
    if let Some(filter) = &printer.filter {
        filter.report(printer.shown, || TraceNames::of(printer.kinds, printer.decoder));
    }
    let mut whole = ledger.lost_events() == 0 && ledger.lost_buffers == 0;
    if arguments.session.is_none() {
        // If the session ended with its host, no host can answer.
        if let Ok(client) = arguments.host.connect()
            && let Ok(Response::Session(status)) = client.ask(&Request::Query { session })
        {
            let recent = client.ask(&Request::RecentProviders);
            let host = arguments.host.description();
            explain_zero(&status, recent, &asked_names(&arguments.provider), &host);
            whole &= status.refused == 0 && status.lost == 0;
            if status.refused > 0 {
                eprint!("etw: {} not recorded:\n{}", status.refused, refusals(&status));
            }
            if status.lost > 0 {
                eprint!("etw: {} LOST:\n{}", counted(status.lost, "event"), losses(&status));
            }
        }
    }
    drop(client);
    Ok(if whole { Outcome::Done } else { Outcome::Damaged })
}

/// At the first signal that ends commands, the stream ends after everything that was written before; at the second one, the
/// command ends.
fn detach_at_signal(signals: Signals, closer: Closer) -> Result<(), Failure> {
    let wait = move || {
        let mut is_ending = false;
        loop {
            let signal = signals.wait_for_end();
            if is_ending {
                std::process::exit(128 + signal);
            }
            is_ending = true;
            let closer = closer.clone();
            std::thread::spawn(move || closer.detach());
        }
    };
    let thread = std::thread::Builder::new().name("etw-signals".to_owned());
    thread.spawn(wait).map(drop).map_err(Failure::new)
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

/// Prints what the reader lost since `before`.
fn report_losses(before: &StreamLedger, now: &StreamLedger) {
    if (now.lost, now.lost_buffers) != (before.lost, before.lost_buffers) {
        eprintln!(
            "etw: {} lost so far: this command reads too slowly; --where or -o FILE of etw record help",
            counted(now.lost, "event")
        );
    }
    if now.workers_replaced != before.workers_replaced {
        eprintln!("etw: note: the host's worker was restarted; the session continues");
    }
    if now.lost_in_replacement != before.lost_in_replacement {
        let events =
            counted(now.lost_in_replacement - before.lost_in_replacement, "in-flight event");
        eprintln!("etw: {events} lost in that restart");
    }
}

/// Filters, decodes and formats records.
struct Printer {
    filter: Option<Filter>,
    /// Owners of the events, for the filter.
    names: FilterNames,
    /// Kinds of events in the stream, for what the filter reports at the end.
    kinds: EventKinds,
    shown: u64,
    decoder: Decoder,
    options: Options,
    heads: Heads,
    facts: FileFacts,
    /// Events to print until the limit is reached.
    left: u64,
    /// Output that was not written yet.
    text: Vec<u8>,
}

impl Printer {
    fn new(arguments: &Arguments, stream: &LiveStream) -> Result<Printer, Failure> {
        let header = stream.trace().header();
        let start = header.map_or(FileTime(0), |header| header.start_time);
        let mut decoder = Decoder::new();
        let traces = std::slice::from_ref(stream.trace());
        decoder.set_catalog(arguments.schemas.load_for(traces)?);
        decoder.set_own_catalog(schemas::own_for(traces));
        let view = View {
            times: arguments.times.times(start),
            has_colours: !arguments.format.is_json() && has_colours(),
            fields: arguments.fields.clone(),
            columns: arguments.columns.clone(),
            asked: std::sync::Arc::default(),
        };
        let filter = arguments.filter.compile(start)?.map(Filter::of_stream);
        Ok(Printer {
            names: FilterNames::of_stream(filter.as_ref()),
            filter,
            kinds: EventKinds::default(),
            shown: 0,
            decoder,
            options: Options {
                format: arguments.format.format(),
                raw: false,
                style: Style::default(),
                names: None,
                view,
            },
            heads: Heads::default(),
            facts: FileFacts {
                clock: *stream.trace().clock(),
                timer_resolution: header.map_or(0, |header| header.timer_resolution),
            },
            left: arguments.limit.unwrap_or(u64::MAX),
            text: Vec::new(),
        })
    }

    /// Appends the record to the output if the filter accepts it.
    fn print(&mut self, record: &EventRecord<'_>) {
        if self.left == 0 {
            return;
        }
        let time = || record.timestamp(&self.facts.clock);
        self.names.follow(record, &mut self.decoder);
        if let Some(filter) = &self.filter {
            let time = filter.needs_time().then(time).flatten();
            if self.names.by_header(filter, record, time) == Some(false) {
                return;
            }
        }
        let decoded = self.decoder.decode(record);
        if let Some(filter) = &self.filter {
            if filter.needs_names() {
                self.kinds.number(record);
            }
            let time = filter.needs_time().then(time).flatten();
            if !self.names.matches(filter, (record, &decoded), time, &self.options.style) {
                return;
            }
            filter.check_shown(&decoded);
        }
        self.left -= 1;
        self.shown += 1;
        self.options.write(&mut self.heads, &mut self.text, record, &decoded, &self.facts);
    }
}

fn refused(error: ::etw::ControlError) -> Failure {
    match error.status().name() {
        Some(name) => Failure::new(format!("{error} ({name}, {})", error.status().0)),
        None => Failure::new(format!("{error} ({})", error.status().0)),
    }
}
