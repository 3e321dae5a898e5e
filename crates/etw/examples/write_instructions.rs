//! Writes events by one path, for a count of instructions:
//!
//! `valgrind --tool=callgrind --toggle-collect='*_burst' write_instructions static 100000`
//!
//! Paths: `static`, `builder`, `event_write`. The number of events must fit into the pool of 16 MiB.

use etw::evntprov::{EventDataDescriptor, event_register, event_write};
use etw::{EventBuilder, EventDescriptor, Level, OutType, Session, define_provider, write_event};
use std::hint::black_box;

define_provider!(PROVIDER, "OpenEtw.Instructions");

const TEXT: &str = "0123456789abcdef0123456789abcdef";

#[inline(never)]
fn static_burst(count: i32) {
    let text = black_box(TEXT);
    for n in 0..count {
        write_event!(PROVIDER, "A", level(Warning), i32("n", &n), str8("s", text));
    }
}

#[inline(never)]
fn builder_burst(count: i32) {
    let text = black_box(TEXT);
    let mut event = EventBuilder::new();
    for n in 0..count {
        event
            .reset("B", Level::WARNING, etw::Keyword(1), 0)
            .add_i32("n", n, OutType::NULL, 0)
            .add_str8("s", text, OutType::UTF8, 0)
            .write(&PROVIDER, None, None);
    }
}

#[inline(never)]
fn event_write_burst(count: i32) {
    let text = black_box(TEXT);
    let Ok(handle) = event_register(&PROVIDER.id(), None) else { return };
    let descriptor = EventDescriptor { level: Level::WARNING, ..EventDescriptor::default() };
    for n in 0..count {
        let n = n.to_le_bytes();
        let data = [EventDataDescriptor::new(&n), EventDataDescriptor::new(text.as_bytes())];
        event_write(handle, Some(&descriptor), &data);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_default();
    let count = arguments.next().unwrap_or_default().parse()?;
    let _registration = PROVIDER.register();
    let session =
        Session::builder("instructions").memory().pool_size(16 << 20, 16 << 20).start()?;
    session.enable(&PROVIDER, Level::VERBOSE, etw::Keyword(0))?;
    match path.as_str() {
        "static" => static_burst(count),
        "builder" => builder_burst(count),
        "event_write" => event_write_burst(count),
        other => return Err(format!("no path {other:?}").into()),
    }
    let ledger = session.stop()?.ledger;
    println!("{ledger:?}");
    Ok(())
}
