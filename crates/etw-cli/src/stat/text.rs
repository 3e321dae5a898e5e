//! The counts of a trace as text for people.

use super::By;
use super::counter::Counted;
use crate::breakdown::{self, RateColumns};
use crate::files;
use crate::format::shown_path;
use crate::output::counted;
use etw_types::Hook;
use std::fmt::Write;

impl Counted {
    /// Writing to a String cannot fail.
    pub(super) fn to_text(&self, by: By) -> String {
        let trace = self.trace();
        let totals = trace.totals();
        let mut text = format!("{}\n", shown_path(trace.path()));
        if trace.is_translated() {
            self.put_log_facts(&mut text);
        } else if let Some(header) = trace.header() {
            let [major, minor, ..] = header.version;
            let _ = writeln!(
                text,
                "  session  {:?}, Windows {major}.{minor} build {}, {} CPUs, {}-bit, clock {}",
                header.logger_name,
                header.provider_version,
                header.number_of_processors,
                header.pointer_size * 8,
                header.clock_type.name().unwrap_or("unknown"),
            );
            let end = if header.end_time.0 == 0 {
                "not finalised".into()
            } else {
                let seconds = header.end_time.0.saturating_sub(header.start_time.0) as f64 / 1e7;
                format!("{} ({seconds:.3} s)", header.end_time)
            };
            let _ = writeln!(text, "  time     {} to {end}", header.start_time);
            if let Some((first, last)) = self.span
                && (first, last) != (header.start_time, header.end_time)
            {
                let seconds = last.0.saturating_sub(first.0) as f64 / 1e7;
                let _ = writeln!(text, "  events   {first} to {last} ({seconds:.3} s)");
            }
        }
        if !trace.is_translated() {
            let compressed = match totals.compressed_buffers {
                0 => String::new(),
                // The header's buffer is never compressed.
                count => match totals.buffers.saturating_sub(count + 1) {
                    0 => format!(", {count} compressed"),
                    plain => format!(", {count} compressed, {plain} plain"),
                },
            };
            let _ = writeln!(
                text,
                "  content  {} in {} of {} KiB{compressed}",
                counted(self.total, "record"),
                counted(totals.buffers, "buffer"),
                trace.header().map_or(0, |header| header.buffer_size) / 1024,
            );
            self.put_losses(&mut text);
        }
        for note in files::notes(trace).iter().chain(self.losses.notes()) {
            let _ = writeln!(text, "  note     {}", crate::format::safe(note));
        }
        if self.records.out_of_order(0) > 0 {
            let late = counted(self.records.out_of_order(0), "record");
            let _ = writeln!(text, "  order    {late} with an earlier time than the one before");
        }
        for place in self.records.damage().kept() {
            let _ = writeln!(text, "  DAMAGED  offset {:#x}: {}", place.offset, place.kind);
        }
        match by {
            By::Event => self.put_tables(&mut text),
            By::Provider => self.put_providers(&mut text),
            By::Process => self.put_processes(&mut text),
            By::Time => self.put_rate(&mut text),
            // They are counted in another way.
            By::Activity => {}
        }
        text
    }

    /// The facts of an event log: it has neither a session nor buffers.
    fn put_log_facts(&self, text: &mut String) {
        let channel = self.trace().header().map_or("", |header| &header.logger_name);
        let _ = writeln!(text, "  log      {}", crate::format::safe(channel));
        if let Some((first, last)) = self.span {
            let seconds = last.0.saturating_sub(first.0) as f64 / 1e7;
            let _ = writeln!(text, "  events   {first} to {last} ({seconds:.3} s)");
        }
        let _ = writeln!(text, "  content  {}", counted(self.total, "record"));
    }

    fn put_providers(&self, text: &mut String) {
        let mut rows = self.providers();
        let others = rows.split_off(self.top.min(rows.len()));
        let largest = rows.first().map_or(0, |row| row.count);
        let _ =
            writeln!(text, "\n  {:>12} {:>14}  {:<20}  provider", "records", "payload bytes", "");
        for row in rows {
            let bar = breakdown::bar(row.count, largest, 20);
            let name =
                row.name.or(row.guid.map(|guid| format!("{{{guid}}}"))).unwrap_or("-".into());
            let name = crate::format::safe(&name);
            let _ = writeln!(text, "  {:>12} {:>14}  {bar:<20}  {name}", row.count, row.bytes);
        }
        put_others(text, others.iter().map(|row| (row.count, row.bytes)));
    }

    fn put_processes(&self, text: &mut String) {
        let mut rows = self.views.processes();
        let others = rows.split_off(self.top.min(rows.len()));
        let largest = rows.first().map_or(0, |row| row.count);
        let _ =
            writeln!(text, "\n  {:>12} {:>14}  {:<20}  process", "records", "payload bytes", "");
        for row in rows {
            let bar = breakdown::bar(row.count, largest, 20);
            let process = row.process.map_or("-".to_owned(), |process| process.to_string());
            let name = row.name.unwrap_or_default();
            let name = crate::format::safe(&name);
            let _ = writeln!(
                text,
                "  {:>12} {:>14}  {bar:<20}  {process} {name}",
                row.count, row.bytes
            );
        }
        put_others(text, others.iter().map(|row| (row.count, row.bytes)));
    }

    fn put_rate(&self, text: &mut String) {
        let Some(RateColumns { start, seconds, counts }) = self.views.rate() else { return };
        let largest = counts.iter().copied().max().unwrap_or(0);
        let _ = writeln!(text, "\n  {:>14} {:>12}  records a second, from {start}", "after", "");
        for (number, count) in counts.iter().enumerate() {
            let rate = *count as f64 / seconds;
            let after = number as f64 * seconds;
            let bar = breakdown::bar(*count, largest, 40);
            let _ = writeln!(text, "  {after:>12.6} s {rate:>12.0}  {bar}");
        }
    }

    fn put_losses(&self, text: &mut String) {
        let header = self.trace().header();
        let (events, buffers) = header.map_or((0, 0), |h| (h.events_lost, h.buffers_lost));
        let word = if events == 0 && buffers == 0 { "lost    " } else { "LOST    " };
        let overwritten = match self.losses.overwritten() {
            0 => String::new(),
            count => format!("; {} overwritten by newer ones", counted(count, "event")),
        };
        let (events, buffers) = (counted(events, "event"), counted(buffers, "buffer"));
        let _ = writeln!(text, "  {word} {events}, {buffers}{overwritten}");
        for loss in self.losses.texts() {
            let _ = writeln!(text, "  LOST     {}", crate::format::safe(&loss));
        }
    }

    fn put_tables(&self, text: &mut String) {
        let _ = writeln!(text, "\n  {:>12}  header", "records");
        for ((_, header), count) in &self.by_header {
            let _ = writeln!(text, "  {count:>12}  {header}");
        }
        let _ = writeln!(
            text,
            "\n  {:>12} {:>14} {:>6} {:>4} {:>4}  provider / event",
            "records", "payload bytes", "id", "ver", "op"
        );
        let number = |value: Option<u16>| value.map_or("-".into(), |value| value.to_string());
        let (shown, more) = self.shown_rows();
        for row in shown {
            let provider = match (&row.provider_name, row.provider) {
                (Some(name), _) => name.clone(),
                (None, Some(guid)) => match Hook::name_of_class(guid) {
                    Some(class) => format!("{class} {{{guid}}}"),
                    None => format!("{{{guid}}}"),
                },
                (None, None) => "-".into(),
            };
            let name = format!("{provider} / {}", row.event.as_deref().unwrap_or("-"));
            let name = crate::format::safe(&name);
            let fit = row.fit.to_text();
            let _ = writeln!(
                text,
                "  {:>12} {:>14} {:>6} {:>4} {:>4}  {name}{fit}",
                row.count,
                row.bytes,
                number(row.id),
                number(row.version.map(u16::from)),
                number(row.opcode.map(u16::from)),
            );
        }
        if more.count > 0 {
            let (count, bytes) = (more.count, more.bytes);
            let _ = writeln!(text, "  {count:>12} {bytes:>14}  further kinds of events");
        }
    }
}

/// Adds the sums of rows that are not shown.
fn put_others(text: &mut String, rows: impl ExactSizeIterator<Item = (u64, u64)>) {
    let number = rows.len() as u64;
    let (count, bytes) = rows.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    if number > 0 {
        let _ = writeln!(
            text,
            "  {count:>12} {bytes:>14}  {:<20}  in {}",
            "",
            counted(number, "further row")
        );
    }
}
