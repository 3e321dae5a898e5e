//! Counts the events of a trace by name: `cargo run --release -p etw-decode --example count_events -- trace.etl`

use etw_decode::Decoder;
use etw_etl::read::{Records, TraceFile};
use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: count_events FILE.etl")?;
    let mut records = Records::new(vec![TraceFile::open(path)?]);
    let mut decoder = Decoder::new();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    while let Some(record) = records.next() {
        let decoded = decoder.decode(&record);
        let name = match (decoded.event_name(), decoded.reason()) {
            (Some(name), _) => name.to_string(),
            (None, Some(reason)) => format!("({reason})"),
            (None, None) => "-".to_string(),
        };
        *counts.entry(name).or_default() += 1;
    }
    for (name, count) in counts {
        println!("{count:10} {name}");
    }
    for place in records.damage().kept() {
        eprintln!("{:#x}: {}", place.offset, place.kind);
    }
    Ok(())
}
