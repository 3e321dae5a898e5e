//! The cost of an event on one thread, in ns: the best of many bursts into a session in memory, which is drained between
//! them.
//!
//! `cargo run --release -p openetw --example event_cost`

use std::hint::black_box;
use std::time::{Duration, Instant};

use etw::evntprov::{EventDataDescriptor, event_register, event_write};
use etw::{
    Activity, EventBuilder, EventDescriptor, Level, OutType, Session, define_provider, write_event,
};

define_provider!(PROVIDER, "OpenEtw.EventCost");

/// Fits into the pool.
const BURST: i32 = 4000;

fn main() -> Result<(), etw::SessionError> {
    let text = black_box("0123456789abcdef0123456789abcdef");
    let list = black_box([1u32; 8]);
    let mut event = EventBuilder::new();
    let _registration = PROVIDER.register();
    let number_and_text = |n: i32| {
        write_event!(PROVIDER, "A", level(Warning), i32("n", &n), str8("s", text));
    };
    run("disabled", None, number_and_text)?;
    run("disabled by keyword", Some(2), number_and_text)?;
    run("no field", Some(1), |_| {
        write_event!(PROVIDER, "N");
    })?;
    run("i32 and a 32-byte string", Some(1), number_and_text)?;
    run("eight i32", Some(1), |n| {
        write_event!(
            PROVIDER,
            "E",
            i32("a", &n),
            i32("b", &n),
            i32("c", &n),
            i32("d", &n),
            i32("e", &n),
            i32("f", &n),
            i32("g", &n),
            i32("h", &n),
        );
    })?;
    run("array of eight u32", Some(1), |_| {
        write_event!(PROVIDER, "L", u32_slice("l", &list));
    })?;
    run("eight structs of u32", Some(1), |_| {
        write_event!(PROVIDER, "S", struct_slice("s", &list, |item| { u32("i", item) }));
    })?;
    run("builder, i32 and a 32-byte string", Some(1), |n| {
        event
            .reset("B", Level::WARNING, etw::Keyword(1), 0)
            .add_i32("n", n, OutType::NULL, 0)
            .add_str8("s", text, OutType::UTF8, 0)
            .write(&PROVIDER, None, None);
    })?;
    let handle = event_register(&PROVIDER.id(), None)
        .map_err(|_| etw::SessionError::Io(std::io::Error::other("no registration")))?;
    let descriptor = EventDescriptor { level: Level::WARNING, ..EventDescriptor::default() };
    run("event_write, i32 and a 32-byte string", Some(0), |n| {
        let n = n.to_le_bytes();
        let data = [EventDataDescriptor::new(&n), EventDataDescriptor::new(text.as_bytes())];
        event_write(handle, Some(&descriptor), &data);
    })?;
    let _scope = Activity::new().enter();
    run("i32 and a 32-byte string, in an activity", Some(1), number_and_text)
}

fn run(what: &str, any: Option<u64>, mut write: impl FnMut(i32)) -> Result<(), etw::SessionError> {
    let session = Session::builder("cost").start()?;
    if let Some(any) = any {
        session.enable(&PROVIDER, Level::VERBOSE, etw::Keyword(any))?;
    }
    let mut best = f64::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        for n in 0..BURST {
            write(black_box(n));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(BURST));
        std::thread::sleep(Duration::from_millis(3));
    }
    let lost = session.stop()?.ledger.lost_total();
    println!("{what:<42} {best:6.1} ns, {lost} lost");
    Ok(())
}
