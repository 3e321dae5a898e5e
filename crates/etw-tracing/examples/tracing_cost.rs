//! The cost of `tracing` through the layer: an event of two fields beside `fmt` into nothing, and a span that nobody wants beside no
//! subscriber at all. One JSON object a figure.
//!
//! `cargo run --release -p etw-tracing --example tracing_cost`
use etw::{Guid, Keyword, Level, Session};
use std::hint::black_box;
use std::time::Instant;
use tracing::{Dispatch, dispatcher, info, info_span};
use tracing_subscriber::prelude::*;

const BURST: u64 = 4000;
const ROUNDS: usize = 100;

fn figure(name: &str, value: f64, unit: &str) {
    println!("{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\"}}");
}

/// The first quartile of many bursts, in nanoseconds.
fn cost(mut between: impl FnMut(), one: impl Fn(u64)) -> f64 {
    let mut bursts: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..BURST).for_each(&one);
            let time = start.elapsed().as_nanos() as f64 / BURST as f64;
            between();
            time
        })
        .collect();
    bursts.sort_by(f64::total_cmp);
    bursts[ROUNDS / 4]
}

fn event(n: u64) {
    info!(n = black_box(n), text = black_box("a text of thirty-two characters."));
}

fn span(n: u64) {
    let span = info_span!("span", n = black_box(n));
    let _entered = span.enter();
    black_box(n);
}

fn main() -> Result<(), etw::SessionError> {
    let none = cost(|| {}, span);
    figure("tracing: a span without a subscriber", none, "ns");

    let layer = Dispatch::new(
        tracing_subscriber::registry().with(etw_tracing::layer("OpenEtw.Bench.Tracing")),
    );
    let (off, off_event, on, spans) =
        dispatcher::with_default(&layer, || -> Result<_, etw::SessionError> {
            let off = cost(|| {}, span);
            let off_event = cost(|| {}, event);
            let session =
                Session::builder("tracing").memory().pool_size(16 << 20, 16 << 20).start()?;
            session.enable(
                &Guid::from_name("OpenEtw.Bench.Tracing"),
                Level::VERBOSE,
                Keyword(0),
            )?;
            let drain = || drop(session.statistics());
            let on = cost(drain, event);
            let spans = cost(drain, span);
            let lost = session.stop()?.ledger.lost_total();
            assert_eq!(lost, 0);
            Ok((off, off_event, on, spans))
        })?;
    figure("tracing: a span that nobody wants", off, "ns");
    figure("tracing: the same / without a subscriber", off / none, "x");
    figure("tracing: an event that nobody wants", off_event, "ns");
    figure("tracing: an event of two fields", on, "ns");
    figure("tracing: a span with one field, begun, entered, ended", spans, "ns");

    let fmt = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
    let fmt = dispatcher::with_default(&Dispatch::new(fmt), || cost(|| {}, event));
    figure("tracing: the event with fmt into nothing", fmt, "ns");
    figure("tracing: ours / fmt", on / fmt, "x");
    Ok(())
}
