//! Prints the records of logs that a query selects, as XML or JSON lines.
//!
//! `cargo run -p etw-evtx --example query_log -- [--json|--id] QUERY FILE…`

use etw_evtx::Log;
use etw_evtx::query::Query;
use etw_types::FileTime;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let form = arguments.next_if(|first| first.starts_with("--")).unwrap_or_default();
    let query: Query =
        arguments.next().ok_or("usage: query_log [--json|--id] QUERY FILE…")?.parse()?;
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let now = FileTime(FileTime::UNIX_EPOCH.0 + (since_epoch.as_nanos() / 100) as i64);
    for path in arguments {
        let log = Log::open(&path)?;
        let mut records = log.records();
        while let Some(record) = records.next()? {
            if !query.matches(&record, now)? {
                continue;
            }
            match form.as_str() {
                "--id" => println!("{}", record.id()),
                "--json" => println!("{}", record.to_json()?),
                _ => println!("{}", record.to_xml()?),
            }
        }
        for damage in records.damage() {
            eprintln!("{path}: {damage}");
        }
    }
    Ok(())
}
