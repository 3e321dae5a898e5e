//! Writing: events and log calls into a session in memory, whose pool holds all of them.

use std::error::Error;
use std::hint::black_box;

use etw::evntprov::{EventDataDescriptor, event_register, event_write};
use etw::{EventBuilder, EventDescriptor, Keyword, Level, OutType, Session};
use etw::{define_provider, write_event};
use etw_log_sink::{EtwSink, LogContext, LogLevel, Pair, logger_log};

use crate::callgrind::measure;

define_provider!(pub PROVIDER, "OpenEtw.Budgets");

static SINK: EtwSink = EtwSink::new();

const EVENTS: u32 = 10_000;
const WARM_UP: u32 = 500;
const TEXT: &str = "0123456789abcdef0123456789abcdef";

#[inline(never)]
pub fn write_static(count: u32) {
    let text = black_box(TEXT);
    for n in 0..count as i32 {
        write_event!(PROVIDER, "A", level(Warning), i32("n", &n), str8("s", text));
    }
}

/// Events of the session's level, without its keyword.
#[inline(never)]
fn write_filtered(count: u32) {
    let text = black_box(TEXT);
    for n in 0..count as i32 {
        write_event!(PROVIDER, "F", level(Warning), keyword(2), i32("n", &n), str8("s", text));
    }
}

#[inline(never)]
fn build(count: u32) {
    let text = black_box(TEXT);
    let mut event = EventBuilder::new();
    for n in 0..count as i32 {
        event
            .reset("B", Level::WARNING, Keyword(1), 0)
            .add_i32("n", n, OutType::NULL, 0)
            .add_str8("s", text, OutType::UTF8, 0)
            .write(&PROVIDER, None, None);
    }
}

#[inline(never)]
fn write_described(count: u32) {
    let text = black_box(TEXT);
    let Ok(handle) = event_register(&PROVIDER.id(), None) else { return };
    let descriptor = EventDescriptor { level: Level::WARNING, ..EventDescriptor::default() };
    for n in 0..count {
        let n = n.to_le_bytes();
        let data = [EventDataDescriptor::new(&n), EventDataDescriptor::new(text.as_bytes())];
        event_write(handle, Some(&descriptor), &data);
    }
}

#[inline(never)]
fn log(count: u32) {
    let name = black_box("orders");
    let pairs = [
        Pair::structure("request", 4),
        Pair::new("id", 77u64),
        Pair::new("path", "/orders/77"),
        Pair::new("retry", false),
        Pair::new("status", 200i32),
    ];
    let context = LogContext::from_pairs(&pairs);
    for n in 0..count {
        logger_log!(SINK, LogLevel::INFO, Some(&context), "{name} took {n} ms");
    }
}

#[inline(never)]
fn format(count: u32) {
    use std::fmt::Write;
    let name = black_box("orders");
    let mut text = String::with_capacity(4096);
    for n in 0..count {
        text.clear();
        let _ = write!(text, "{name} took {n} ms");
        black_box(&text);
    }
}

/// Runs a path once to warm it up, and then for the count.
fn count(name: &str, path: fn(u32)) {
    path(WARM_UP);
    measure(name, EVENTS, path);
}

pub fn run() -> Result<(), Box<dyn Error>> {
    let _registration = PROVIDER.register();
    count("write_event!, disabled / event", write_static);
    SINK.ensure_registered();
    count("log call, not enabled / call", log);
    count("log call, formatting alone / call", format);
    let session = Session::builder("budgets").memory().pool_size(32 << 20, 32 << 20).start()?;
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(1))?;
    session.enable(&SINK.provider().0, Level::VERBOSE, Keyword(0))?;
    for (name, path) in [
        ("write_event! / event", write_static as fn(u32)),
        ("write_event!, filtered by keyword / event", write_filtered),
        ("EventBuilder / event", build),
        ("event_write / event", write_described),
        ("log call, four properties / call", log),
    ] {
        count(name, path);
        // The session drains the pool before the next path fills it.
        session.statistics()?;
    }
    let lost = session.stop()?.ledger.lost_total();
    if lost == 0 { Ok(()) } else { Err(format!("{lost} events were lost").into()) }
}
