//! The elements of the event schema of Windows, as tracerpt writes them.

use super::heads::{Heads, has_items};
use super::{FileFacts, Options, failure_text, guid_text, is_classic};
use super::{put_hex, put_hex16, put_number};
use etw_decode::{
    Decoded, Escape, Field, Inserts, Integers, Names, Style, Value, Visited, Visitor,
};
use etw_types::{EventRecord, ExtType, HeaderType, Hook, SYSTEM_TRACE, le};

pub const PROLOGUE: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Events>\n";
pub const EPILOGUE: &str = "</Events>\n";

pub fn write(
    options: &Options,
    heads: &mut Heads,
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    decoded: &Decoded<'_>,
    file: &FileFacts,
) {
    let Heads { kinds, scratch, inserts } = heads;
    let is_classic = is_classic(record);
    let is_logged = has_items(record) && record.log_item().is_some();
    let names = decoded.names().filter(|_| !is_classic);
    // Only a channel is shown of the names of a classic event, which hardly any has.
    let key_names = names.or(decoded.names().filter(|names| names.channel.is_some()));
    let head = kinds.of(record, decoded, (is_logged, key_names), |out| {
        put_head(out, record, decoded);
        let start = out.len();
        if !is_logged {
            put_channel(out, record, decoded);
        }
        out.extend_from_slice(b"</System>");
        if has_same_error(record, decoded) {
            put_undecoded(out, record, decoded);
        }
        let system = out.len();
        let mut rendering = system;
        if is_classic {
            put_class_rendering(out, record, decoded);
            put_class(out, record);
        } else if let Some(names) = names {
            put_rendering_start(out, names, decoded);
            rendering = out.len();
            put_rendering_end(out, names, decoded);
        }
        [start, system, rendering]
    });
    out.extend_from_slice(head.start());
    put_system(out, record, file);
    out.extend_from_slice(head.second());
    let visited = put_data(options, (scratch, inserts), out, record, decoded);
    out.extend_from_slice(head.third());
    if names.is_some() {
        let start = out.len();
        let event = (record, decoded, visited.as_ref());
        let around = (&b"<Message>"[..], &b"</Message>"[..]);
        inserts.put_message(out, event, around, &options.message_style(file), Escape::With(escape));
        if out.len() == start {
            out.extend_from_slice(b"<Message/>");
        }
    }
    out.extend_from_slice(head.end());
    if options.raw {
        out.extend_from_slice(b"<Position");
        attribute(out, "Buffer", |out| put_number(out, record.position.buffer_index));
        attribute(out, "Offset", |out| put_number(out, record.position.offset));
        out.extend_from_slice(b"/>");
    }
    out.extend_from_slice(b"</Event>\n");
}

/// The class of a classic event.
fn put_class(out: &mut Vec<u8>, record: &EventRecord<'_>) {
    if let Some(class) = record.provider {
        out.extend_from_slice(
            b"<ExtendedTracingInfo xmlns=\"http://schemas.microsoft.com/win/2004/08/events/trace\">",
        );
        element(out, "EventGuid", |out| braced(out, &class.to_ascii()));
        out.extend_from_slice(b"</ExtendedTracingInfo>");
    }
}

/// Up to the keywords.
fn put_head(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
    out.extend_from_slice(
        b"<Event xmlns=\"http://schemas.microsoft.com/win/2004/08/events/event\"><System>",
    );
    let descriptor = &record.descriptor;
    out.extend_from_slice(b"<Provider");
    if let Some(name) = decoded.provider_name() {
        attribute(out, "Name", |out| escape(out, &name));
    }
    // The classes of the kernel have one provider, the kernel's logger; the class itself is in ExtendedTracingInfo.
    let provider = match record.provider.and_then(Hook::name_of_class) {
        Some(_) if is_classic(record) => Some(SYSTEM_TRACE),
        _ => record.provider,
    };
    if let Some(provider) = provider {
        attribute(out, "Guid", |out| braced(out, &provider.to_ascii()));
    }
    out.extend_from_slice(b"/>");
    for (name, value) in [
        ("EventID", u64::from(descriptor.id)),
        ("Version", u64::from(descriptor.version)),
        ("Level", u64::from(descriptor.level.0)),
        ("Task", u64::from(descriptor.task)),
        ("Opcode", u64::from(descriptor.opcode.0)),
    ] {
        element(out, name, |out| put_number(out, value));
    }
    element(out, "Keywords", |out| put_hex16(out, descriptor.keyword.0));
}

/// The parts of each record.
fn put_system(out: &mut Vec<u8>, record: &EventRecord<'_>, file: &FileFacts) {
    let start = out.len();
    out.extend_from_slice(b"<TimeCreated SystemTime=\"");
    match record.timestamp(&file.clock).is_some_and(|time| time.put_ascii(out)) {
        true => out.extend_from_slice(b"\"/>"),
        false => {
            out.truncate(start);
            out.extend_from_slice(b"<TimeCreated/>");
        }
    }
    let has_items = has_items(record);
    let logged = record.log_item().filter(|_| has_items);
    if let Some(item) = &logged {
        element(out, "EventRecordID", |out| put_number(out, item.record_id));
    }
    out.extend_from_slice(b"<Correlation ActivityID=\"{");
    out.extend_from_slice(&guid_text(&record.activity_id));
    out.extend_from_slice(b"}\"");
    if let Some(related) = record.related_activity_id().filter(|_| has_items) {
        attribute(out, "RelatedActivityID", |out| braced(out, &related.to_ascii()));
    }
    // Where there is none, Windows shows the largest number.
    out.extend_from_slice(b"/><Execution ProcessID=\"");
    put_number(out, record.process_id.unwrap_or(u32::MAX));
    out.extend_from_slice(b"\" ThreadID=\"");
    put_number(out, record.thread_id.unwrap_or(u32::MAX));
    if logged.is_none() {
        out.extend_from_slice(b"\" ProcessorID=\"");
        put_number(out, record.cpu);
    }
    out.push(b'"');
    if let Some(times) = record.cpu_times {
        attribute(out, "KernelTime", |out| put_number(out, times.kernel));
        attribute(out, "UserTime", |out| put_number(out, times.user));
    }
    out.extend_from_slice(b"/>");
    if let Some(item) = &logged {
        element(out, "Channel", |out| escape(out, item.channel));
        element(out, "Computer", |out| escape(out, item.computer));
        if let Some(sid) = record.extended.find(ExtType::SID) {
            out.extend_from_slice(b"<Security");
            attribute(out, "UserID", |out| Value::Sid(sid).write_text(out, &Style::default()));
            out.extend_from_slice(b"/>");
        }
    }
}

/// Channel and computer of an event that is of no event log.
fn put_channel(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
    let descriptor = &record.descriptor;
    match decoded.schema().and_then(|schema| schema.names.channel.as_deref()) {
        Some(channel) => element(out, "Channel", |out| escape(out, channel)),
        None if record.header.is_event() && descriptor.channel.0 != 0 => {
            element(out, "Channel", |out| put_number(out, descriptor.channel.0));
        }
        None => out.extend_from_slice(b"<Channel/>"),
    }
    out.extend_from_slice(b"<Computer/>");
}

fn put_data<'p>(
    options: &Options,
    (scratch, inserts): (&mut Vec<u8>, &mut Inserts),
    out: &mut Vec<u8>,
    record: &EventRecord<'p>,
    decoded: &Decoded<'_>,
) -> Option<Visited<'p>> {
    let start = out.len();
    if decoded.schema().is_none() {
        if !has_same_error(record, decoded) {
            put_undecoded(out, record, decoded);
        }
        element(out, "BinaryEventData", |out| put_hex(out, record.payload));
        return None;
    }
    out.extend_from_slice(b"<EventData>");
    options.start_message(inserts, record, decoded);
    let mut data = Data { out, style: &options.style, array: None, scratch, inserts };
    let result = options.visit(record, decoded, &mut data);
    let failure = failure_text(decoded, result.as_ref());
    let visited = match &result {
        Some(visited) if failure.is_none() => visited,
        _ => {
            out.truncate(start);
            let reason = failure.as_deref().unwrap_or_default();
            put_error(out, record, reason, ERROR_EVT_INVALID_EVENT_DATA);
            element(out, "BinaryEventData", |out| put_hex(out, record.payload));
            return result;
        }
    };
    out.extend_from_slice(b"</EventData>");
    if let Some(reason) = &visited.reason {
        put_error(out, record, &reason.text(), ERROR_EVT_INVALID_EVENT_DATA);
    }
    if options.raw {
        element(out, "BinaryEventData", |out| put_hex(out, record.payload));
    } else if !visited.rest.is_empty() {
        element(out, "Rest", |out| put_hex(out, visited.rest));
    }
    result
}

/// The error of Windows' decoder without a schema, and for a payload that does not fit its schema.
const ERROR_NOT_FOUND: u32 = 1168;
const ERROR_EVT_INVALID_EVENT_DATA: u32 = 15005;

/// Whether the error of a record without a schema is that of all records of its kind.
fn has_same_error(record: &EventRecord<'_>, decoded: &Decoded<'_>) -> bool {
    decoded.schema().is_none() && record.header != HeaderType::Message
}

/// The error of a record without a schema.
fn put_undecoded(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
    let reason = decoded.reason_text();
    put_error(out, record, reason.as_deref().unwrap_or_default(), ERROR_NOT_FOUND);
}

fn put_error(out: &mut Vec<u8>, record: &EventRecord<'_>, reason: &str, code: u32) {
    if record.header == HeaderType::Message {
        out.extend_from_slice(b"<DebugData>");
        if let Some(sequence) = record.sequence {
            element(out, "SequenceNumber", |out| put_number(out, sequence));
        }
        element(out, "Message", |out| escape(out, reason));
        out.extend_from_slice(b"</DebugData>");
    } else {
        out.extend_from_slice(b"<ProcessingErrorData>");
        element(out, "ErrorCode", |out| put_number(out, code));
        element(out, "DataItemName", |out| escape(out, reason));
        out.extend_from_slice(b"</ProcessingErrorData>");
    }
}

/// `<EventName>PerfInfo</EventName><Opcode>SampleProf</Opcode>`: class and type.
fn put_class_rendering(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
    let class = || record.hook.and_then(|hook| hook.class_name());
    let (class, kind) = match decoded.event_name().map(|name| name.split_once('/').ok_or(name)) {
        Some(Ok((class, kind))) => (Some(class), Some(kind)),
        Some(Err(name)) => (Some(name), None),
        None => (class(), None),
    };
    let provider = decoded.provider_name();
    if class.is_none() && provider.is_none() {
        return;
    }
    out.extend_from_slice(b"<RenderingInfo Culture=\"en-US\">");
    if let Some(class) = class {
        element(out, "EventName", |out| escape(out, class));
    }
    if let Some(kind) = kind {
        element(out, "Opcode", |out| escape(out, kind));
    }
    if let Some(provider) = provider {
        element(out, "Provider", |out| escape(out, &provider));
    }
    out.extend_from_slice(b"</RenderingInfo>");
}

/// From the level to the task.
fn put_rendering_start(out: &mut Vec<u8>, names: &Names, decoded: &Decoded<'_>) {
    out.extend_from_slice(b"<RenderingInfo Culture=\"");
    escape(out, decoded.language().unwrap_or("en-US"));
    out.extend_from_slice(b"\">");
    put_text(out, "Level", names.level.as_deref());
    put_text(out, "Opcode", names.opcode.as_deref());
    out.extend_from_slice(b"<Keywords>");
    for keyword in &names.keywords {
        put_text(out, "Keyword", Some(keyword));
    }
    out.extend_from_slice(b"</Keywords>");
    put_text(out, "Task", names.task.as_deref().or(decoded.event_name()));
}

/// Behind the message.
fn put_rendering_end(out: &mut Vec<u8>, names: &Names, decoded: &Decoded<'_>) {
    put_text(out, "Channel", names.channel.as_deref());
    put_text(out, "Provider", decoded.provider_name().as_deref());
    out.extend_from_slice(b"</RenderingInfo>");
}

/// An element with a text, or an empty one.
fn put_text(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    match value {
        Some(value) => element(out, name, |out| escape(out, value)),
        None => {
            out.push(b'<');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"/>");
        }
    }
}

fn element(out: &mut Vec<u8>, name: &str, content: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
    content(out);
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

fn attribute(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    out.push(b' ');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"=\"");
    value(out);
    out.push(b'"');
}

fn braced(out: &mut Vec<u8>, guid: &[u8]) {
    out.push(b'{');
    out.extend_from_slice(guid);
    out.push(b'}');
}

/// Bytes in front of the first character that [`escape`] may replace: controls, marks, and what begins with EF, as U+FFFE and U+FFFF do.
fn plain_length(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    // The highest bit of each byte that is special. Bits above the first one may be wrong.
    let found = |word: u64| {
        let marks = b"<>&\"\xef".iter();
        let found = marks.fold(word.wrapping_sub(ONES * 0x20) & !word, |found, mark| {
            found | has_zero(word ^ (ONES * u64::from(*mark)))
        });
        found & ONES << 7
    };
    let words = text.chunks_exact(8);
    let tail = words.remainder();
    for (number, word) in words.enumerate() {
        let found = found(le::u64(word, 0).unwrap_or_default());
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    // The last word overlaps bytes that are not special, and a shorter text ends with letters.
    let before = text.len() - tail.len();
    let (word, shown) = match text.last_chunk() {
        Some(last) => (u64::from_le_bytes(*last), 8),
        None => {
            let mut word = *b"aaaaaaaa";
            word[..tail.len()].copy_from_slice(tail);
            (u64::from_le_bytes(word), tail.len())
        }
    };
    match found(word) {
        0 => text.len(),
        found if before == 0 => (found.trailing_zeros() as usize / 8).min(shown),
        found => text.len() - 8 + found.trailing_zeros() as usize / 8,
    }
}

/// Characters that XML 1.0 cannot hold become U+FFFD.
fn escape(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    loop {
        let (plain, behind) = rest.split_at(plain_length(rest.as_bytes()));
        out.extend_from_slice(plain.as_bytes());
        let mut chars = behind.chars();
        let Some(c) = chars.next() else { return };
        rest = chars.as_str();
        match c {
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '&' => out.extend_from_slice(b"&amp;"),
            '"' => out.extend_from_slice(b"&quot;"),
            // Written as they are, a parser would fold them into blanks.
            '\t' | '\n' | '\r' => {
                out.extend_from_slice(b"&#");
                put_number(out, c as u32);
                out.push(b';');
            }
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.extend_from_slice("\u{fffd}".as_bytes()),
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

struct Data<'o> {
    out: &'o mut Vec<u8>,
    style: &'o Style,
    /// Values of the innermost array so far, where it is one of values.
    array: Option<usize>,
    scratch: &'o mut Vec<u8>,
    inserts: &'o mut Inserts,
}

impl Data<'_> {
    fn open(&mut self, name: &str, field: &Field) {
        self.tag(name, field);
        self.out.push(b'>');
    }

    fn tag(&mut self, name: &str, field: &Field) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        self.put_attributes(field);
    }

    fn put_attributes(&mut self, field: &Field) {
        self.out.extend_from_slice(b" Name=\"");
        match field.has_plain_name() {
            true => field.put_name(self.out),
            false => escape(self.out, &field.name),
        }
        self.out.push(b'"');
    }

    fn put_value(&mut self, value: &Value<'_>) {
        self.scratch.clear();
        match *value {
            // Digits, letters and marks that need no escape.
            Value::Int(_)
            | Value::UInt(_)
            | Value::Hex(_)
            | Value::Bool(_)
            | Value::F32(_)
            | Value::F64(_)
            | Value::Guid(_)
            | Value::Sid(_)
            | Value::Binary(_)
            | Value::Ipv4(_)
            | Value::FileTime(_) => return value.write_text(self.out, self.style),
            // The form for decoders without the protocol.
            Value::Custom { protocol, data, .. }
                if self.style.custom.is_none_or(|decoders| !decoders.knows(protocol)) =>
            {
                return put_hex(self.out, data);
            }
            _ => value.write_text(self.scratch, self.style),
        }
        match std::str::from_utf8(self.scratch) {
            Ok(text) => escape(self.out, text),
            Err(_) => escape(self.out, &String::from_utf8_lossy(self.scratch)),
        }
    }
}

impl Visitor for Data<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        match &mut self.array {
            Some(0) => self.array = Some(1),
            Some(_) => self.out.extend_from_slice(b", "),
            None => self.open("Data", field),
        }
        let start = self.out.len();
        self.put_value(&value);
        let written = (&self.out[..], start..self.out.len());
        self.inserts.value(field, &value, written, self.style, Escape::With(escape));
        if self.array.is_none() {
            self.out.extend_from_slice(b"</Data>");
        }
    }

    fn begin_array(&mut self, field: &Field, count: usize) {
        if !field.is_struct() {
            self.open("Data", field);
            self.array = Some(0);
        } else if count == 0 {
            self.tag("ComplexData", field);
            self.out.extend_from_slice(b"/>");
        }
        self.inserts.begin(true);
    }

    fn integers(&mut self, field: &Field, integers: &mut Integers<'_>) {
        let style = self.style;
        self.inserts.integers(field, integers, style, Escape::With(escape));
        integers.write_text(self.out, b", ");
        self.array = Some(1);
    }

    fn end_array(&mut self, field: &Field) {
        if !field.is_struct() {
            self.out.extend_from_slice(b"</Data>");
            self.array = None;
        }
        self.inserts.end(true);
    }

    fn begin_struct(&mut self, field: &Field) {
        self.open("ComplexData", field);
        self.inserts.begin(false);
    }

    fn end_struct(&mut self, _field: &Field) {
        self.out.extend_from_slice(b"</ComplexData>");
        self.inserts.end(false);
    }
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn characters_are_escaped_wherever_they_are() {
        let expected = |c: char| match c {
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '&' => "&amp;".to_owned(),
            '"' => "&quot;".to_owned(),
            '\t' | '\n' | '\r' => format!("&#{};", c as u32),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => "\u{fffd}".to_owned(),
            c => c.to_string(),
        };
        for special in "<>&\"\t\r\n\0\x1f!'\x7f\u{80}\u{fffd}\u{fffe}\u{ffff}\u{f000}😀".chars() {
            for length in 0..20 {
                for at in 0..=length {
                    let text: String =
                        (0..=length).map(|n| if n == at { special } else { 'x' }).collect();
                    for text in [format!("{text}{special}"), text] {
                        let mut out = Vec::new();
                        escape(&mut out, &text);
                        let expected: String = text.chars().map(expected).collect();
                        assert_eq!(String::from_utf8(out).unwrap(), expected);
                    }
                }
            }
        }
    }
}
