//! tracerpt's columns; every field of the event is a column of its own behind them.

use super::heads::{Heads, has_items};
use super::{FileFacts, Number, Options, failure_text, guid_text, is_classic};
use super::{put_hex, put_hex16, put_number};
use etw_decode::{Decoded, Field, Integers, Source, Style, Value, Visitor};
use etw_types::{EVENT_METADATA, EventRecord, ExtType, ExtendedItems, HeaderType, le};

pub const PROLOGUE: &str = "Event Name,Type,Event ID,Version,Channel,Level,Opcode,Task,Keyword,PID,TID,\
    Processor Number,Instance ID,Parent Instance ID,Activity ID,Related Activity ID,Clock-Time,Kernel(ms),\
    User(ms),User Data\n";

pub fn write(
    options: &Options,
    heads: &mut Heads,
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    decoded: &Decoded<'_>,
    file: &FileFacts,
) {
    // Windows shows classic events with the fields that they lack as 0.
    let is_event = record.header.is_event() || is_classic(record);
    let head = heads.kinds.of(record, decoded, (false, None), |out| {
        put_head(out, record, decoded, is_event);
        let start = out.len();
        if decoded.schema().is_none() {
            put_failure(out, decoded.reason_text().as_deref());
        }
        [start; 3]
    });
    out.extend_from_slice(head.start());
    number(out, record.process_id);
    number(out, record.thread_id);
    number(out, Some(record.cpu));
    let items = if has_items(record) { record.extended } else { ExtendedItems::NONE };
    let instance = items.find(ExtType::INSTANCE_INFO).unwrap_or_default();
    number(out, le::u32(instance, 0));
    number(out, le::u32(instance, 4));
    if is_event {
        out.extend_from_slice(&guid_text(&record.activity_id));
    }
    out.push(b',');
    if let Some(related) = record.related_activity_id().filter(|_| !items.is_empty()) {
        out.extend_from_slice(&related.to_ascii());
    }
    out.push(b',');
    number(out, record.timestamp(&file.clock).map(|time| time.0));
    let milliseconds = |ticks: u32| u64::from(ticks) * u64::from(file.timer_resolution) / 10_000;
    number(out, record.cpu_times.map(|times| milliseconds(times.kernel)));
    number(out, record.cpu_times.map(|times| milliseconds(times.user)));
    if decoded.schema().is_none() {
        out.extend_from_slice(head.end());
        put_hex(out, record.payload);
    } else {
        put_fields(options, &mut heads.scratch, out, record, decoded);
    }
    if options.raw {
        out.extend_from_slice(b",buffer=");
        put_number(out, record.position.buffer_index);
        out.extend_from_slice(b",offset=");
        put_number(out, record.position.offset);
    }
    out.push(b'\n');
}

/// The columns up to the keyword.
fn put_head(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>, is_event: bool) {
    let descriptor = &record.descriptor;
    put_names(out, record, decoded);
    number(out, (is_event || record.header == HeaderType::Message).then_some(descriptor.id));
    number(out, (record.header != HeaderType::Message).then_some(descriptor.version));
    number(out, is_event.then_some(descriptor.channel.0));
    number(out, is_event.then_some(descriptor.level.0));
    number(out, is_event.then_some(descriptor.opcode.0));
    number(out, is_event.then_some(descriptor.task));
    if is_event {
        put_hex16(out, descriptor.keyword.0);
    }
    out.push(b',');
}

/// Event Name and Type: class and type of classic events, else provider and event.
fn put_names(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
    let event = decoded.event_name();
    // A schema record has the name of the event that it describes.
    let has_class = is_classic(record) && record.provider != Some(EVENT_METADATA);
    let classic = event.filter(|_| has_class).and_then(|name| name.split_once('/'));
    match classic {
        Some((class, kind)) => {
            text(out, class);
            out.push(b',');
            text(out, kind);
        }
        None => {
            match (decoded.provider_name(), record.hook, record.provider) {
                (Some(name), _, _) => text(out, &name),
                (None, Some(hook), _) if hook.class_name().is_some() => {
                    text(out, hook.class_name().unwrap_or_default());
                }
                (None, _, Some(provider)) => out.extend_from_slice(&provider.to_ascii()),
                (None, _, None) => out.extend_from_slice(record.header.name().as_bytes()),
            }
            out.push(b',');
            match event {
                Some(name) => text(out, name),
                None => put_number(out, record.descriptor.opcode.0),
            }
        }
    }
    out.push(b',');
}

fn put_fields(
    options: &Options,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    decoded: &Decoded<'_>,
) {
    let start = out.len();
    scratch.clear();
    let mut columns = Columns {
        style: &options.style,
        depth: 0,
        column: scratch,
        out,
        first: true,
        opened: true,
        is_header: decoded.source() == Some(Source::Header),
    };
    let visited = options.visit(record, decoded, &mut columns);
    let mut is_first = columns.first;
    let failure = failure_text(decoded, visited.as_ref());
    let visited = match &visited {
        Some(visited) if failure.is_none() => visited,
        _ => {
            out.truncate(start);
            put_failure(out, failure.as_deref());
            return put_hex(out, record.payload);
        }
    };
    if let Some(reason) = &visited.reason {
        separate(out, &mut is_first);
        text(out, &reason.text());
    }
    if !visited.rest.is_empty() {
        separate(out, &mut is_first);
        out.extend_from_slice(b"rest=");
        put_hex(out, visited.rest);
    }
    if options.raw {
        separate(out, &mut is_first);
        out.extend_from_slice(b"payload=");
        put_hex(out, record.payload);
    }
}

/// In place of the fields of a record that is not decoded, up to its payload.
fn put_failure(out: &mut Vec<u8>, failure: Option<&str>) {
    text(out, failure.unwrap_or_default());
    out.push(b',');
}

fn separate(out: &mut Vec<u8>, is_first: &mut bool) {
    if !std::mem::replace(is_first, false) {
        out.push(b',');
    }
}

fn number(out: &mut Vec<u8>, value: Option<impl Number>) {
    if let Some(value) = value {
        put_number(out, value);
    }
    out.push(b',');
}

/// RFC 4180.
fn text(out: &mut Vec<u8>, text: &str) {
    quote(out, text.as_bytes(), false);
}

pub(super) fn quote(out: &mut Vec<u8>, bytes: &[u8], always: bool) {
    const NEEDS_QUOTES: [bool; 256] = {
        let mut needs = [false; 256];
        (needs[b',' as usize], needs[b'"' as usize]) = (true, true);
        (needs[b'\n' as usize], needs[b'\r' as usize]) = (true, true);
        needs
    };
    if !always && !bytes.iter().any(|byte| NEEDS_QUOTES[usize::from(*byte)]) {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(b'"');
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'"') {
        out.extend_from_slice(&rest[..=at]);
        out.push(b'"');
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

struct Columns<'o> {
    out: &'o mut Vec<u8>,
    style: &'o Style,
    depth: u32,
    /// The column of the top-level field that is open.
    column: &'o mut Vec<u8>,
    first: bool,
    /// Nothing stands yet behind the innermost bracket.
    opened: bool,
    /// Whether the record is the trace's header or one of its companions.
    is_header: bool,
}

impl Columns<'_> {
    fn separate(&mut self) {
        if self.depth > 0 && !std::mem::replace(&mut self.opened, false) {
            self.column.extend_from_slice(b", ");
        }
    }

    fn end(&mut self, always_quote: bool) {
        if self.depth > 0 {
            return;
        }
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        quote(self.out, self.column, always_quote);
        self.column.clear();
    }

    fn open(&mut self, bracket: u8) {
        self.separate();
        self.column.push(bracket);
        self.depth += 1;
        self.opened = true;
    }

    fn close(&mut self, bracket: u8) {
        self.column.push(bracket);
        self.depth -= 1;
        self.opened = false;
        self.end(true);
    }
}

impl Visitor for Columns<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if field.is_custom_length {
            return;
        }
        // tracerpt leaves the time zone out, and shows one of the header's times as its number.
        if self.is_header && field.name == "TimeZoneInformation" {
            return;
        }
        self.separate();
        match value {
            Value::FileTime(time) if self.is_header && field.name == "BootTime" => {
                put_number(self.column, time.0);
            }
            Value::Mapped { value, map } => {
                // Windows' message compiler ends the names of values with a space.
                let name = map.name_of(value).unwrap_or_default();
                self.column.extend_from_slice(name.as_bytes());
                self.column.push(b' ');
            }
            _ => value.write_text(self.column, self.style),
        }
        self.end(matches!(value, Value::Text(_) | Value::Mapped { .. }));
    }

    fn begin_array(&mut self, _field: &Field, _count: usize) {
        self.open(b'[');
    }

    fn integers(&mut self, field: &Field, integers: &mut Integers<'_>) {
        // Some values of the header have a form of their own.
        if self.is_header {
            return integers.for_each(|(value, _)| self.value(field, value));
        }
        integers.write_text(self.column, b", ");
        self.opened = false;
    }

    fn end_array(&mut self, _field: &Field) {
        self.close(b']');
    }

    fn begin_struct(&mut self, _field: &Field) {
        self.open(b'{');
    }

    fn end_struct(&mut self, _field: &Field) {
        self.close(b'}');
    }
}
