//! The cost of decoding: fields through the visitor, JSON, `--where`, and opening schemas.

use super::Bench;
use super::measure::{Rate, Run};
use super::report::{Figure, Goal, Unit};
use crate::Result;
use etw_decode::pack::{Pack, PackBuilder};
use etw_decode::{Catalog, Decoder, Field, Value, Visitor};
use etw_etl::read::{Records, RecordsOptions, TraceFile};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// Visits every value of an event.
struct All(u64);

impl Visitor for All {
    fn value(&mut self, _: &Field, value: Value<'_>) {
        self.0 += u64::from(black_box(&value).as_u64().is_some());
    }
    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

/// Decodes a whole file; events and seconds.
fn visit_all(path: &Path, catalog: &Arc<Catalog>) -> Result<Run> {
    let trace = TraceFile::open(path)?;
    let mut decoder = Decoder::new();
    decoder.set_catalog(catalog.clone());
    let start = Instant::now();
    let mut records = Records::with_options(vec![trace], RecordsOptions::default());
    let (mut count, mut all) = (0, All(0));
    while let Some(record) = records.next() {
        let decoded = decoder.decode(&record);
        count += u64::from(decoded.visit(&record, &mut all)?);
    }
    black_box(all.0);
    Ok(Run { records: count, seconds: start.elapsed().as_secs_f64() })
}

/// A manifest with `events` events; five events share a template.
fn manifest(number: u32, events: u32) -> String {
    let mut text = format!(
        "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\"><instrumentation><events>\
         <provider name=\"Bench-{number}\" guid=\"{{{number:08x}-0000-0000-0000-000000000001}}\" symbol=\"P\">\n<templates>\n"
    );
    for template in 0..events.div_ceil(5) {
        text += &format!(
            "<template tid=\"T{template}\"><data name=\"Address\" inType=\"win:Pointer\"/><data name=\"Size\" inType=\"win:UInt32\" \
             outType=\"win:HexInt32\"/><data name=\"Name\" inType=\"win:UnicodeString\"/><data name=\"Status\" inType=\"win:UInt32\"/></template>\n"
        );
    }
    text += "</templates>\n<events>\n";
    for event in 0..events {
        text += &format!(
            "<event value=\"{event}\" version=\"0\" level=\"win:Informational\" template=\"T{}\" symbol=\"E{event}\" message=\"$(string.m{event})\"/>\n",
            event / 5
        );
    }
    text += "</events></provider></events></instrumentation><localization><resources culture=\"en-US\"><stringTable>\n";
    for event in 0..events {
        text += &format!("<string id=\"m{event}\" value=\"Allocated %2 bytes at %1 for %3.\"/>\n");
    }
    text + "</stringTable></resources></localization></instrumentationManifest>"
}

fn milliseconds<T>(runs: usize, run: impl Fn() -> T) -> f64 {
    let time = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..runs).map(time).fold(f64::MAX, f64::min)
}

impl Bench {
    pub fn decode(&mut self) -> Result<()> {
        let only = "decode";
        let files = self.inputs.real_traces()?;
        let of = |name: &str| files.iter().find(|file| file.ends_with(name));
        let clr = of("net45-x86-kernel-clr.etl");
        let manifest_file =
            clr.and_then(|file| Some(file.parent()?.parent()?.join("manifests/ClrEtwAll.man")));
        match (clr, &manifest_file) {
            (Some(file), Some(manifest)) => {
                let mut catalog = Catalog::default();
                catalog.add_manifest(&std::fs::read(manifest)?)?;
                let catalog = Arc::new(catalog);
                let (mut visited, mut json) = (Rate::default(), Rate::default());
                for _ in 0..self.runs {
                    let events = visit_all(file, &catalog)?;
                    visited.add(events);
                    let start = Instant::now();
                    let mut command = Command::new(&self.etw);
                    command
                        .args(["dump", "--format", "json", "--threads", "2", "--manifest"])
                        .arg(manifest)
                        .arg(file);
                    if !command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
                        return Err("etw dump failed".into());
                    }
                    let seconds = start.elapsed().as_secs_f64();
                    json.add(Run { seconds, ..events });
                }
                let name = "decode: all fields through the visitor, kernel and CLR, one thread";
                self.rate(name, &visited, Goal::AtLeast(4.0), only);
                let name = "decode: the same as JSON with its manifest, two threads, whole command";
                self.rate(name, &json, Goal::AtLeast(1.5), only);
            }
            _ => self.report.skip("decode: a real trace", "../shared/corpus is absent"),
        }
        self.refused("that the header refuses", "header.pid == 4 and header.tid == 12", 15.0)?;
        // The trace is read once before, for the owners of its kernel events.
        self.refused("that the owner refuses, kernel", "pid == 4 and tid == 12", 6.0)?;

        let text = manifest(1, 5000);
        let opened = milliseconds(self.runs.max(5), || {
            Catalog::default().add_manifest(text.as_bytes()).map(|w| w.len())
        });
        self.milliseconds("decode: opening a manifest of 5,000 events", opened, 30.0);
        let mut builder = PackBuilder::default();
        for number in 0..1000 {
            builder.add("m.man", manifest(number, 20).as_bytes())?;
        }
        let pack = builder.finish();
        let opened = milliseconds(self.runs.max(5), || {
            Pack::open(pack.clone().into()).map(|pack| pack.sources().count())
        });
        self.milliseconds("decode: opening a pack of 1,000 providers", opened, 10.0);
        Ok(())
    }

    /// Dumps a kernel trace with an expression that holds for few records or none.
    fn refused(&mut self, which: &str, expression: &str, goal: f64) -> Result<()> {
        let plain = self.inputs.plain()?;
        let records = super::measure::read_all(&plain, 0)?.records;
        let mut selected = Rate::default();
        for _ in 0..self.runs {
            let start = Instant::now();
            let mut command = Command::new(&self.etw);
            command.args(["dump", "--where", expression, "--format", "json"]).arg(&plain);
            if !command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
                return Err("etw dump --where failed".into());
            }
            selected.add(Run { records, seconds: start.elapsed().as_secs_f64() });
        }
        let name = format!("decode: --where {which}, whole command");
        self.rate(&name, &selected, Goal::AtLeast(goal), "decode");
        Ok(())
    }

    fn milliseconds(&mut self, name: &str, best: f64, goal: f64) {
        let (median, unit, goal) = (None, Unit::Milliseconds, Goal::AtMost(goal));
        self.report.add(&Figure { name, best, median, spread: None, unit, goal, only: "decode" });
    }
}
