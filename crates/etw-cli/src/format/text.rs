//! A line a record, for people.
//!
//! ```text
//! 2026-01-02T03:04:05.0000010Z [1] 100.200 Provider/Event Informational {activity} name=value name="text"
//! ```

use super::heads::{Heads, has_items};
use super::{FileFacts, Options, View, failure_text, put_hex, put_number};
use crate::column::level_colour;
use crate::join::{Moment, Names};
use crate::safe_text::{is_printable_ascii, is_unsafe, safe};
use etw_decode::{
    Decoded, Escape, Field, Inserts, Integers, Reason, Source, Style, Value, Visitor,
    activity_path, write_json_string,
};
use etw_types::{EventRecord, HeaderType, Opcode};
use std::io::Write;

pub fn write(
    options: &Options,
    heads: &mut Heads,
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    decoded: &Decoded<'_>,
    file: &FileFacts,
) {
    let view = &options.view;
    match record.timestamp(&file.clock).and_then(|time| view.times.put(out, time)) {
        Some(()) => {}
        None => {
            let raw = record.raw_timestamp().map_or("-".to_string(), |raw| raw.to_string());
            put(out, format_args!("{raw:28}"));
        }
    }
    out.extend_from_slice(b" [");
    let has_items = has_items(record);
    match record.log_item().filter(|_| has_items) {
        Some(item) => out.extend_from_slice(safe(item.channel).as_bytes()),
        None => put_number(out, record.cpu),
    }
    out.extend_from_slice(b"] ");
    let owner = options.names.as_ref().map(|names| names.attributed(record));
    let ids = owner.as_ref().unwrap_or(record);
    match (ids.process_id, ids.thread_id) {
        (Some(process), Some(thread)) => {
            put_number(out, process);
            out.push(b'.');
            put_number(out, thread);
            let (names, moment) = (options.names.as_ref(), Moment::of(record));
            if let Some(name) = names.and_then(|names| names.process_name_at(process, moment)) {
                put(out, format_args!("({})", safe(name)));
            }
        }
        _ => out.push(b'-'),
    }
    if let Some(names) = &options.names
        && let Some(interrupt) = names.owner(record).interrupt
    {
        put(out, format_args!("[{}]", interrupt.name()));
    }
    let Heads { kinds, inserts, .. } = heads;
    let head = kinds.of(record, decoded, (false, None), |out| {
        put_head(view, out, record, decoded);
        let start = out.len();
        if decoded.schema().is_none() {
            put_reason(view, out, decoded.reason_text().as_deref());
        }
        [start; 3]
    });
    out.extend_from_slice(head.start());
    put_activity(out, record);
    let start = out.len();
    if decoded.schema().is_none() {
        out.extend_from_slice(head.end());
        put_payload(out, record);
        return put_position(options, out, record);
    }
    options.start_message(inserts, record, decoded);
    let mut fields = Fields { out, style: &options.style, inserts, depth: 0, opened: false };
    let visited = options.visit(record, decoded, &mut fields);
    let failure = failure_text(decoded, visited.as_ref());
    let visited = match &visited {
        Some(visited) if failure.is_none() => visited,
        _ => {
            out.truncate(start);
            put_reason(view, out, failure.as_deref());
            put_payload(out, record);
            return put_position(options, out, record);
        }
    };
    if !visited.rest.is_empty() {
        out.extend_from_slice(b" rest=");
        put_hex(out, visited.rest);
    }
    put_reason(view, out, visited.reason.as_ref().map(Reason::text).as_deref());
    if let Some(names) = &options.names {
        if let Some(name) = names.file_of(record, decoded) {
            out.extend_from_slice(b" file=");
            put_escaped(out, &name);
        }
        if let Some(name) = names.function_of(record) {
            put(out, format_args!(" function={}", safe(&name)));
        }
        put_stack(names, out, record);
    }
    let event = (record, decoded, Some(visited));
    let around = (&b" message=\""[..], &b"\""[..]);
    let start = out.len();
    inserts.put_message(out, event, around, &options.message_style(file), Escape::Json);
    escape_unsafe(out, start);
    if options.raw {
        put_payload(out, record);
    }
    put_position(options, out, record);
}

/// Names and level.
fn put_head(view: &View, out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
    out.push(b' ');
    view.coloured(out, view.name_colour(), |out| put_name(out, record, decoded));
    if record.header.is_event() || record.header.is_classic() {
        // A TraceLogging name is the same for start and stop.
        let self_described = decoded.source() == Some(Source::TraceLogging);
        let opcode = record.descriptor.opcode;
        if let Some(name) = opcode.name().filter(|_| self_described && opcode != Opcode::INFO) {
            out.push(b'/');
            out.extend_from_slice(name.as_bytes());
        }
        if let Some(level) = record.descriptor.level.name().filter(|_| record.header.is_event()) {
            out.push(b' ');
            view.put_coloured(out, level_colour(record.descriptor.level), level.as_bytes());
        }
    }
}

/// The activity of an event.
fn put_activity(out: &mut Vec<u8>, record: &EventRecord<'_>) {
    let has_activity = record.header.is_event() || record.header.is_classic();
    if has_activity && !record.activity_id.is_zero() {
        out.extend_from_slice(b" {");
        let shown = activity_path(record.activity_id, record.process_id);
        out.extend_from_slice(shown.as_bytes());
        out.push(b'}');
    }
}

/// The call stack, with names where the trace has them.
fn put_stack(names: &Names, out: &mut Vec<u8>, record: &EventRecord<'_>) {
    let mut is_first = true;
    names.each_function(record, &mut |frame, within| {
        out.extend_from_slice(if is_first { b" stack=[" } else { b" " });
        is_first = false;
        let text = frame.text_within(within).unwrap_or_else(|| frame.text());
        put(out, format_args!("{}", safe(&text)));
    });
    if !is_first {
        out.push(b']');
    }
}

fn put_reason(view: &View, out: &mut Vec<u8>, reason: Option<&str>) {
    if let Some(reason) = reason {
        out.push(b' ');
        view.coloured(out, view.wrong_colour(), |out| {
            out.push(b'(');
            out.extend_from_slice(safe(reason).as_bytes());
            out.push(b')');
        });
    }
}

fn put_position(options: &Options, out: &mut Vec<u8>, record: &EventRecord<'_>) {
    if options.raw {
        let position = &record.position;
        put(
            out,
            format_args!(
                " {} buffer={} offset={}",
                record.header, position.buffer_index, position.offset
            ),
        );
    }
    out.push(b'\n');
}

fn put_payload(out: &mut Vec<u8>, record: &EventRecord<'_>) {
    if !record.payload.is_empty() {
        out.push(b' ');
        put_hex(out, record.payload);
    }
}

/// Provider and event by name, or by what names them.
fn put_name(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
    match (decoded.provider_name(), record.provider, record.hook) {
        (Some(name), _, _) => out.extend_from_slice(safe(&name).as_bytes()),
        (None, _, Some(hook)) => {
            out.extend_from_slice(hook.class_name().unwrap_or("Kernel").as_bytes());
        }
        (None, Some(provider), None) => out.extend_from_slice(&provider.to_ascii()),
        (None, None, None) => out.extend_from_slice(record.header.name().as_bytes()),
    }
    out.push(b'/');
    let descriptor = &record.descriptor;
    match decoded.event_name() {
        Some(name) => out.extend_from_slice(safe(name).as_bytes()),
        None if record.header.is_event() => {
            put(out, format_args!("{}v{}", descriptor.id, descriptor.version));
        }
        None if record.header == HeaderType::Message => {
            put(out, format_args!("#{}", descriptor.id))
        }
        None => put(out, format_args!("{}v{}", descriptor.opcode.0, descriptor.version)),
    }
}

/// Appends a text in quotes, with the escapes of JSON, also for characters that JSON leaves alone and a line has not.
pub fn put_escaped(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    write_json_string(out, text);
    escape_unsafe(out, start);
}

fn put(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // Writing to a Vec cannot fail.
    let _ = out.write_fmt(arguments);
}

struct Fields<'o> {
    out: &'o mut Vec<u8>,
    style: &'o Style,
    inserts: &'o mut Inserts,
    depth: u32,
    /// Nothing stands yet behind the innermost bracket.
    opened: bool,
}

impl Fields<'_> {
    fn name(&mut self, field: &Field, in_array: bool) {
        if !std::mem::replace(&mut self.opened, false) {
            self.out.push(b' ');
        }
        if in_array {
            return;
        }
        match field.has_plain_name() {
            true => field.put_name(self.out),
            false => self.out.extend_from_slice(safe(&field.name).as_bytes()),
        }
        self.out.push(b'=');
    }

    fn open(&mut self, field: &Field, in_array: bool, bracket: u8) {
        self.name(field, in_array);
        self.out.push(bracket);
        self.depth += 1;
        self.opened = true;
    }

    fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.depth -= 1;
        self.opened = false;
    }
}

impl Visitor for Fields<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        let mut start = self.out.len();
        if !field.is_custom_length && !field.no_print {
            self.name(field, field.is_array());
            start = self.out.len();
            if put_value(self.out, value, self.style) {
                // The message escapes them itself.
                start = self.out.len();
            }
        }
        let written = (&self.out[..], start..self.out.len());
        self.inserts.value(field, &value, written, self.style, Escape::Json);
    }

    fn begin_array(&mut self, field: &Field, _count: usize) {
        if !field.no_print {
            self.open(field, false, b'[');
        }
        self.inserts.begin(true);
    }

    fn integers(&mut self, field: &Field, integers: &mut Integers<'_>) {
        self.inserts.integers(field, integers, self.style, Escape::Json);
        match field.no_print {
            true => integers.for_each(drop),
            false => {
                integers.write_text(self.out, b" ");
                self.opened = false;
            }
        }
    }

    fn end_array(&mut self, field: &Field) {
        if !field.no_print {
            self.close(b']');
        }
        self.inserts.end(true);
    }

    fn begin_struct(&mut self, field: &Field) {
        self.open(field, field.is_array(), b'{');
        self.inserts.begin(false);
    }

    fn end_struct(&mut self, _field: &Field) {
        self.close(b'}');
        self.inserts.end(false);
    }
}

/// Appends a value. Returns whether it has escapes that are not those of JSON.
pub fn put_value(out: &mut Vec<u8>, value: Value<'_>, style: &Style) -> bool {
    let start = out.len();
    match value {
        Value::Text(_) => value.write_json(out, style),
        Value::Mapped { value: number, map } => {
            match map.name_of(number) {
                Some(name) => out.extend_from_slice(safe(&name).as_bytes()),
                None => put_number(out, number),
            }
            return false;
        }
        _ => value.write_text(out, style),
    }
    // Numbers, times and the like have none; a decoder's text may have any.
    matches!(value, Value::Text(_) | Value::Custom { .. }) && escape_unsafe(out, start)
}

/// Escapes what JSON leaves alone and a line has not, such as DEL and the C1 controls, which terminals obey. Returns whether there was one.
fn escape_unsafe(out: &mut Vec<u8>, start: usize) -> bool {
    // All but ASCII controls begin with one of these bytes.
    let suspect = |byte: &u8| *byte < b' ' || matches!(byte, 0x7f | 0xc2 | 0xe2);
    if is_printable_ascii(&out[start..]) || !out[start..].iter().any(suspect) {
        return false;
    }
    let text = String::from_utf8_lossy(&out[start..]);
    if !text.chars().any(is_unsafe) {
        return false;
    }
    let text = text.into_owned();
    out.truncate(start);
    for c in text.chars() {
        match is_unsafe(c) {
            true => put(out, format_args!("\\u{:04x}", c as u32)),
            false => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    true
}
