//! `etw report`: a trace on one page of HTML, which needs nothing else.

use crate::files;
use crate::output::{Failure, Outcome, Output, counted as with_noun};
use crate::output_file::{NewFile, ReplaceOption};
use crate::schemas::Schemas;
use crate::stat::{self, Counted, EventRow};
use clap::Args;
use etw_decode::activity_path;
use etw_etl::read::TraceFile;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::Write as _;
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// Write to this file; it appears when it is whole
    #[arg(short, long, value_name = "OUT.html")]
    pub output: PathBuf,
    #[command(flatten)]
    pub replace: ReplaceOption,
    #[command(flatten)]
    pub schemas: Schemas,
    /// Traces, each with a part of its own
    #[arg(required = true, value_name = "FILE.etl")]
    pub files: Vec<PathBuf>,
}

/// Rows of a table that are shown.
const ROWS: usize = 100;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Trace report</title>\n<style>\n\
    body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:76em;padding:0 1em;color:#222;background:#fff}\n\
    h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}\n\
    table{border-collapse:collapse;width:100%}th,td{padding:.15em .6em;text-align:left;border-bottom:1px solid #ddd}\n\
    td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.b{width:24%}\n\
    .bar{background:#4a7fb5;height:.8em}.bad{color:#a00;font-weight:600}svg{width:100%}.axis path{fill:none;stroke:#888}.axis text{fill:#666;font-size:12px}\n\
    @media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}th,td{border-color:#444}.axis text{fill:#aaa}}\n\
    </style></head><body>\n";

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    run_told(arguments, false)
}

/// As [`run`]. `is_told`: damage is printed already.
pub fn run_told(arguments: &Arguments, is_told: bool) -> Result<Outcome, Failure> {
    arguments.schemas.check_output(&arguments.output)?;
    let traces: Vec<TraceFile> =
        arguments.files.iter().map(files::open).collect::<Result<_, _>>()?;
    let catalog = arguments.schemas.load_for(&traces)?;
    let mut html = HEAD.to_owned();
    let mut outcome = Outcome::Done;
    for trace in traces {
        let counted = stat::count(trace, &catalog, true);
        outcome = outcome.worse(files::outcome(&counted.records, is_told));
        put_trace(&mut html, &counted);
    }
    html.push_str("</body></html>\n");
    let new = NewFile::create(&arguments.output, &arguments.files, arguments.replace.force)?;
    new.file().write_all(html.as_bytes()).map_err(|error| new.failure(&error))?;
    new.keep()?;
    let mut output = Output::open(None, &[])?;
    let count = arguments.files.len();
    let traces = if count == 1 { "trace" } else { "traces" };
    output.write(format!("{}: {count} {traces}\n", arguments.output.display()).as_bytes())?;
    output.finish()?;
    Ok(outcome)
}

/// Names come from traces: nothing in them may be markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Writing to a String cannot fail.
fn put_trace(html: &mut String, counted: &Counted) {
    let trace = counted.trace();
    let _ = writeln!(html, "<h1>{}</h1>\n<table>", escape(&trace.path().display().to_string()));
    let mut fact = |name: &str, value: String, is_bad: bool| {
        let class = if is_bad { " class=\"bad\"" } else { "" };
        let _ = writeln!(html, "<tr><th>{name}</th><td{class}>{}</td></tr>", escape(&value));
    };
    let session = trace.header().filter(|_| !trace.is_translated());
    if let Some(header) = session {
        let [major, minor, ..] = header.version;
        let build = header.provider_version;
        fact("Session", header.logger_name.clone(), false);
        fact(
            "System",
            format!("Windows {major}.{minor} build {build}, {} CPUs", header.number_of_processors),
            false,
        );
        let seconds = header.end_time.0.saturating_sub(header.start_time.0) as f64 / 1e7;
        let end = match header.end_time.0 {
            0 => "not finalised".to_owned(),
            _ => format!("{} ({seconds:.3} s)", header.end_time),
        };
        fact("Time", format!("{} to {end}", header.start_time), false);
        let (events, buffers) = (header.events_lost, header.buffers_lost);
        let has_losses = events > 0 || buffers > 0;
        let (events, buffers) = (with_noun(events, "event"), with_noun(buffers, "buffer"));
        fact("Lost", format!("{events}, {buffers}"), has_losses);
    }
    for loss in counted.losses.texts() {
        fact("Lost", loss, true);
    }
    let totals = trace.totals();
    let content = match trace.is_translated() {
        true => with_noun(counted.total, "record"),
        false => format!(
            "{} in {}",
            with_noun(counted.total, "record"),
            with_noun(totals.buffers, "buffer")
        ),
    };
    fact("Content", content, false);
    for note in files::notes(trace) {
        fact("Note", note, false);
    }
    let damage = counted.records.damage();
    if !damage.is_empty() {
        fact("Damaged", format!("{} places", damage.count()), true);
    }
    html.push_str("</table>\n");
    put_rate(html, counted);

    put_table(html, "Events", event_rows(&counted.rows));
    let rows = counted.providers().into_iter().map(|row| {
        let name = row.name.or(row.guid.map(|guid| guid.to_string())).unwrap_or("-".into());
        Row { name, count: row.count, bytes: row.bytes }
    });
    put_table(html, "Providers", rows.collect());
    let rows = counted.views.processes().into_iter().map(|row| {
        let process = row.process.map_or("-".to_owned(), |process| process.to_string());
        let name = format!("{process} {}", row.name.unwrap_or_default());
        Row { name, count: row.count, bytes: row.bytes }
    });
    put_table(html, "Processes", rows.collect());
    let activities = counted.views.activities();
    if !activities.is_empty() {
        html.push_str("<h2>Longest activities</h2>\n<table><tr><th class=\"n\">seconds</th><th class=\"n\">records</th><th>activity</th><th>first event</th></tr>\n");
        for row in activities.iter().take(ROWS) {
            let _ = writeln!(
                html,
                "<tr><td class=\"n\">{:.6}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                row.seconds,
                row.count,
                activity_path(row.id, None),
                escape(&row.name)
            );
        }
        html.push_str("</table>\n");
    }
}

/// A row of a table of counts.
struct Row {
    name: String,
    count: u64,
    bytes: u64,
}

/// The rows of events; where several have one name, with their opcodes, and their versions if those differ.
fn event_rows(rows: &[EventRow]) -> Vec<Row> {
    let name = |row: &EventRow| {
        let provider = row.provider_name.clone().or(row.provider.map(|guid| guid.to_string()));
        let event = row.event.clone().or(row.id.map(|id| format!("event {id}")));
        format!("{} / {}", provider.unwrap_or("-".into()), event.unwrap_or("-".into()))
    };
    let with_opcode = |row: &EventRow| match row.opcode {
        Some(opcode) => format!("{}, opcode {opcode}", name(row)),
        None => name(row),
    };
    let with_version = |row: &EventRow| match row.version {
        Some(version) => format!("{}, version {version}", with_opcode(row)),
        None => with_opcode(row),
    };
    let with_id = |row: &EventRow| match row.id {
        Some(id) => format!("{}, id {id}", with_version(row)),
        None => with_version(row),
    };
    let (mut names, mut opcodes) = (HashMap::<_, u32>::new(), HashMap::<_, u32>::new());
    let mut versions = HashMap::<_, u32>::new();
    for row in rows {
        *names.entry(name(row)).or_default() += 1;
        *opcodes.entry(with_opcode(row)).or_default() += 1;
        *versions.entry(with_version(row)).or_default() += 1;
    }
    let label = |row: &EventRow| {
        if names[&name(row)] == 1 {
            return name(row);
        }
        if opcodes[&with_opcode(row)] == 1 {
            return with_opcode(row);
        }
        match versions[&with_version(row)] {
            1 => with_version(row),
            _ => with_id(row),
        }
    };
    rows.iter().map(|row| Row { name: label(row), count: row.count, bytes: row.bytes }).collect()
}

/// Size of the chart, and the space for its axes.
const CHART: (f64, f64) = (1000.0, 200.0);
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 10.0;

fn put_rate(html: &mut String, counted: &Counted) {
    let Some(crate::breakdown::RateColumns { start, seconds, counts }) = counted.views.rate()
    else {
        return;
    };
    let (chart_width, chart_height) = CHART;
    let (width, height) = (chart_width - LEFT - 10.0, chart_height - BOTTOM - TOP);
    let largest = counts.iter().copied().max().unwrap_or(0).max(1) as f64 / seconds;
    let (top, per_second) = (round_up(largest), |count: u64| count as f64 / seconds);
    let column = width / counts.len() as f64;
    let _ = writeln!(
        html,
        "<h2>Records over time</h2>\n<p>From {start}, {seconds} s a column, at most {largest:.0} records a second.</p>\n\
         <svg viewBox=\"0 0 {chart_width} {chart_height}\" role=\"img\" aria-label=\"records over time\">"
    );
    for (number, count) in counts.iter().enumerate() {
        let tall = per_second(*count) / top * height;
        let _ = writeln!(
            html,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{tall:.2}\" fill=\"#4a7fb5\"><title>{count} records after {:.3} s</title></rect>",
            LEFT + number as f64 * column,
            TOP + height - tall,
            column * 0.9,
            number as f64 * seconds
        );
    }
    let (right, base) = (LEFT + width, TOP + height);
    let _ = writeln!(html, "<g class=\"axis\"><path d=\"M{LEFT} {TOP}V{base}H{right}\"/>");
    for part in 0..=4u8 {
        let share = f64::from(part) / 4.0;
        let (x, y) = (LEFT + share * width, base - share * height);
        let _ = writeln!(
            html,
            "<path d=\"M{} {y}H{LEFT}M{x} {base}V{}\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"{}\">{}{}</text>",
            LEFT - 5.0,
            base + 5.0,
            LEFT - 8.0,
            y + 4.0,
            number_text(share * top),
            base + 18.0,
            if part == 4 { "end" } else { "middle" },
            number_text(share * seconds * counts.len() as f64),
            if part == 4 { " s" } else { "" },
        );
    }
    let middle = TOP + height / 2.0;
    let _ = writeln!(
        html,
        "<text x=\"12\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 12 {middle})\">records/s</text></g></svg>"
    );
}

/// The next larger of 1, 2, 4 and 8 times a power of ten: its quarters are short numbers.
fn round_up(value: f64) -> f64 {
    let power = format!("1e{}", exponent(value)).parse().unwrap_or(1.0);
    let steps = [1.0, 2.0, 4.0, 8.0, 10.0];
    steps.iter().map(|step| step * power).find(|round| *round >= value).unwrap_or(value)
}

/// The exponent of a number in scientific notation.
fn exponent(value: f64) -> i32 {
    let text = format!("{value:e}");
    text.rsplit('e').next().and_then(|exponent| exponent.parse().ok()).unwrap_or(0)
}

/// At most four digits that matter, without zeros at the end.
fn number_text(value: f64) -> String {
    let digits = match value {
        value if value >= 100.0 || value == 0.0 => 0,
        value if value >= 1.0 => 2,
        value => usize::try_from(2 - exponent(value)).unwrap_or(0).min(12),
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn put_table(html: &mut String, title: &str, rows: Vec<Row>) {
    let largest = rows.first().map_or(1, |row| row.count).max(1);
    let _ = writeln!(
        html,
        "<h2>{title}</h2>\n<table><tr><th class=\"n\">records</th><th class=\"n\">payload bytes</th><th></th><th>{title}</th></tr>"
    );
    for Row { name, count, bytes } in rows.iter().take(ROWS) {
        let part = *count as f64 / largest as f64 * 100.0;
        let _ = writeln!(
            html,
            "<tr><td class=\"n\">{count}</td><td class=\"n\">{bytes}</td><td class=\"b\"><div class=\"bar\" style=\"width:{part:.1}%\"></div></td><td>{}</td></tr>",
            escape(name)
        );
    }
    if rows.len() > ROWS {
        let rest: u64 = rows[ROWS..].iter().map(|row| row.count).sum();
        let _ = writeln!(
            html,
            "<tr><td class=\"n\">{rest}</td><td></td><td></td><td>{} further</td></tr>",
            rows.len() - ROWS
        );
    }
    html.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::fit::FitCounts;

    fn row(event: &str, opcode: u8, version: u8) -> EventRow {
        EventRow {
            provider: None,
            provider_name: Some("P".into()),
            event: Some(event.into()),
            id: None,
            version: Some(version),
            opcode: Some(opcode),
            count: 1,
            bytes: 1,
            fit: FitCounts::default(),
        }
    }

    #[test]
    fn rows_of_one_name_are_told_apart_by_opcode_and_version() {
        let rows = [row("A", 1, 0), row("B", 1, 0), row("B", 2, 0), row("C", 1, 2), row("C", 1, 3)];
        let labels: Vec<String> = event_rows(&rows).into_iter().map(|row| row.name).collect();
        let expected = [
            "P / A",
            "P / B, opcode 1",
            "P / B, opcode 2",
            "P / C, opcode 1, version 2",
            "P / C, opcode 1, version 3",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn numbers_of_axes_are_short() {
        assert_eq!([round_up(1.0), round_up(37.0), round_up(8_100.0)], [1.0, 40.0, 10_000.0]);
        let texts = [0.0, 0.0125, 2.5, 30.0, 12_000.0].map(number_text);
        assert_eq!(texts, ["0", "0.0125", "2.5", "30", "12000"]);
    }
}
