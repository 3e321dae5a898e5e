//! The cost of logging: with no session, and a message of two arguments with four properties, beside formatting alone. One JSON
//! object a figure.
//!
//! `cargo run --release -p etw-log-sink --example log_cost`
use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use etw::{Keyword, Level, Session, define_provider, write_event};
use etw_log_sink::{EtwSink, LogContext, LogLevel, Pair, logger_log, logger_log_ex};

define_provider!(FIELDS, "OpenEtw.Bench.Fields");

static SINK: EtwSink = EtwSink::new();

const BURST: u32 = 4000;
const ROUNDS: usize = 100;

fn figure(name: &str, value: f64) {
    println!("{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"ns\"}}");
}

fn ratio(name: &str, value: f64) {
    println!("{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"x\"}}");
}

/// The first quartile of many bursts, in nanoseconds.
fn cost(mut between: impl FnMut(), mut one: impl FnMut(u32)) -> f64 {
    let mut bursts: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..BURST).for_each(&mut one);
            let time = start.elapsed().as_nanos() as f64 / f64::from(BURST);
            between();
            time
        })
        .collect();
    bursts.sort_by(f64::total_cmp);
    bursts[ROUNDS / 4]
}

fn main() -> Result<(), etw::SessionError> {
    let name = black_box("orders");
    let pairs = [
        Pair::structure("request", 4),
        Pair::new("id", 77u64),
        Pair::new("path", "/orders/77"),
        Pair::new("retry", false),
        Pair::new("status", 200i32),
    ];
    let context = LogContext::from_pairs(&pairs);
    let log = |n| logger_log!(SINK, LogLevel::INFO, Some(&context), "{name} took {n} ms");
    let off = cost(|| {}, log);
    figure("log sink: not enabled", off);

    let session = Session::builder("log").memory().pool_size(16 << 20, 16 << 20).start()?;
    session.enable(&SINK.provider().0, Level::VERBOSE, Keyword(0))?;
    let drain = || {
        let _ = session.statistics();
    };
    let mut text = String::with_capacity(4096);
    let formatting = cost(
        || {},
        |n| {
            text.clear();
            let _ = write!(text, "{name} took {n} ms");
            black_box(&text);
        },
    );
    let plain = cost(drain, |n| logger_log!(SINK, LogLevel::INFO, None, "{name} took {n} ms"));
    let full = cost(drain, log);
    let own = cost(drain, |n| {
        logger_log_ex!(
            SINK,
            LogLevel::INFO,
            { "id" = 77u64, "path" = "/orders/77", "retry" = false, "status" = n },
            "{name} took {n} ms"
        );
    });
    figure("log sink: formatting alone", formatting);
    figure("log sink: enabled, no properties", plain);
    figure("log sink: enabled, four properties", full);
    figure("log sink: enabled, four properties of the call's own", own);
    figure("log sink: enabled, beyond formatting", full - formatting);

    // A field of 64 bytes that only a decoder of its protocol can read, and one that every decoder shows.
    let _registration = FIELDS.register();
    session.enable(&FIELDS, Level::VERBOSE, Keyword(0))?;
    let bytes = black_box([7u8; 64]);
    let binary = cost(drain, |_| {
        write_event!(FIELDS, "Binary", level(Informational), binary("b", &bytes));
    });
    let custom = cost(drain, |_| {
        write_event!(
            FIELDS,
            "Custom",
            level(Informational),
            custom("b", &bytes, protocol(5), schema([1, 0]))
        );
    });
    figure("custom fields: a binary field of 64 bytes", binary);
    figure("custom fields: a custom field of 64 bytes", custom);
    ratio("custom fields: custom / binary", custom / binary);
    let lost = session.stop()?.ledger.lost_total();
    assert_eq!(lost, 0);
    Ok(())
}
