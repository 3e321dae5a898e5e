//! The elements of the event schema of Windows, as tracerpt writes them.

use super::heads::{Heads, has_items};
use super::{FileFacts, Options, failure_text, guid_text, is_classic};
use super::{put_hex, put_hex16, put_number};
use etw_decode::{Decoded, Field, Names, Style, Value, Visitor};
use etw_types::{EventRecord, ExtType, Guid, HeaderType, Hook, le};

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
    let head = heads.of(record, decoded, false, |out| {
        put_head(out, record, decoded);
        [0, 0]
    });
    out.extend_from_slice(head.end());
    put_system(out, record, decoded, file);
    out.extend_from_slice(b"</System>");
    put_data(options, &mut heads.scratch, out, record, decoded);
    let message = decoded.message(record, &options.style);
    if is_classic(record) {
        put_class_rendering(out, record, decoded);
    } else if let Some(names) = decoded.names() {
        put_rendering(out, names, decoded, message.as_deref());
    }
    if is_classic(record)
        && let Some(class) = record.provider
    {
        out.extend_from_slice(
                b"<ExtendedTracingInfo xmlns=\"http://schemas.microsoft.com/win/2004/08/events/trace\">",
            );
        element(out, "EventGuid", |out| braced(out, &class.to_ascii()));
        out.extend_from_slice(b"</ExtendedTracingInfo>");
    }
    out.extend_from_slice(b"</Event>\n");
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

fn put_system(
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    decoded: &Decoded<'_>,
    file: &FileFacts,
) {
    let descriptor = &record.descriptor;
    out.extend_from_slice(b"<TimeCreated");
    if let Some(time) = record.timestamp(&file.clock).and_then(|time| time.to_ascii()) {
        attribute(out, "SystemTime", |out| out.extend_from_slice(&time));
    }
    out.extend_from_slice(b"/>");
    let has_items = has_items(record);
    let logged = record.log_item().filter(|_| has_items);
    if let Some(item) = &logged {
        element(out, "EventRecordID", |out| put_number(out, item.record_id));
    }
    out.extend_from_slice(b"<Correlation");
    attribute(out, "ActivityID", |out| braced(out, &guid_text(&record.activity_id)));
    if let Some(related) = record.related_activity_id().filter(|_| has_items) {
        attribute(out, "RelatedActivityID", |out| braced(out, &related.to_ascii()));
    }
    out.extend_from_slice(b"/><Execution");
    for (name, value) in [
        // Where there is none, Windows shows the largest number.
        ("ProcessID", record.process_id.or(Some(u32::MAX))),
        ("ThreadID", record.thread_id.or(Some(u32::MAX))),
        ("ProcessorID", logged.is_none().then_some(u32::from(record.cpu))),
        ("KernelTime", record.cpu_times.map(|times| times.kernel)),
        ("UserTime", record.cpu_times.map(|times| times.user)),
    ] {
        if let Some(value) = value {
            attribute(out, name, |out| put_number(out, value));
        }
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
        return;
    }
    match decoded.schema().and_then(|schema| schema.names.channel.as_deref()) {
        Some(channel) => element(out, "Channel", |out| escape(out, channel)),
        None if record.header.is_event() && descriptor.channel.0 != 0 => {
            element(out, "Channel", |out| put_number(out, descriptor.channel.0));
        }
        None => out.extend_from_slice(b"<Channel/>"),
    }
    out.extend_from_slice(b"<Computer/>");
}

fn put_data(
    options: &Options,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    decoded: &Decoded<'_>,
) {
    let start = out.len();
    out.extend_from_slice(b"<EventData>");
    let mut data = Data { out, style: &options.style, array: None, scratch };
    let visited = options.visit(record, decoded, &mut data);
    let failure = failure_text(decoded, visited.as_ref());
    let visited = match &visited {
        Some(visited) if failure.is_none() => visited,
        _ => {
            out.truncate(start);
            let is_unfit = visited.is_some();
            let code = if is_unfit { ERROR_EVT_INVALID_EVENT_DATA } else { ERROR_NOT_FOUND };
            put_error(out, record, failure.as_deref().unwrap_or_default(), code);
            return element(out, "BinaryEventData", |out| put_hex(out, record.payload));
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
}

/// The error of Windows' decoder without a schema, and for a payload that does not fit its schema.
const ERROR_NOT_FOUND: u32 = 1168;
const ERROR_EVT_INVALID_EVENT_DATA: u32 = 15005;

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

/// The provider of all classes of the kernel: the NT Kernel Logger.
const SYSTEM_TRACE: Guid = Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939);

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

fn put_rendering(out: &mut Vec<u8>, names: &Names, decoded: &Decoded<'_>, message: Option<&str>) {
    out.extend_from_slice(b"<RenderingInfo Culture=\"en-US\">");
    let put = |out: &mut Vec<u8>, name: &str, value: Option<&str>| match value {
        Some(value) => element(out, name, |out| escape(out, value)),
        None => {
            out.push(b'<');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"/>");
        }
    };
    put(out, "Level", names.level.as_deref());
    put(out, "Opcode", names.opcode.as_deref());
    out.extend_from_slice(b"<Keywords>");
    for keyword in &names.keywords {
        put(out, "Keyword", Some(keyword));
    }
    out.extend_from_slice(b"</Keywords>");
    put(out, "Task", names.task.as_deref().or(decoded.event_name()));
    put(out, "Message", message);
    put(out, "Channel", names.channel.as_deref());
    put(out, "Provider", decoded.provider_name().as_deref());
    out.extend_from_slice(b"</RenderingInfo>");
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

/// Whether a byte is, or begins, a character that [`escape`] replaces.
const IS_SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        special[byte] = true;
        byte += 1;
    }
    let mut marks: &[u8] = b"<>&\"";
    while let [mark, others @ ..] = marks {
        special[*mark as usize] = true;
        marks = others;
    }
    // U+FFFE and U+FFFF, among others.
    special[0xef] = true;
    special
};

/// Bytes at the front that are not special, as far as whole words of eight show it.
fn plain_words(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let is_plain = |word: &&[u8]| {
        let word = le::u64(word, 0).unwrap_or_default();
        let marks = b"<>&\"\xef".iter();
        let found = marks.fold(word.wrapping_sub(ONES * 0x20) & !word, |found, mark| {
            found | has_zero(word ^ (ONES * u64::from(*mark)))
        });
        found & ONES << 7 == 0
    };
    text.chunks_exact(8).take_while(is_plain).count() * 8
}

/// Characters that XML 1.0 cannot hold become U+FFFD.
fn escape(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    loop {
        let skipped = plain_words(rest.as_bytes());
        let special = rest.bytes().skip(skipped).position(|byte| IS_SPECIAL[usize::from(byte)]);
        let special = special.map(|at| at + skipped);
        let (plain, behind) = rest.split_at(special.unwrap_or(rest.len()));
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
}

impl Data<'_> {
    fn open(&mut self, name: &str, field: &Field) {
        self.tag(name, field);
        self.out.push(b'>');
    }

    fn tag(&mut self, name: &str, field: &Field) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        attribute(self.out, "Name", |out| escape(out, &field.name));
    }
}

impl Visitor for Data<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        match &mut self.array {
            Some(0) => self.array = Some(1),
            Some(_) => self.out.extend_from_slice(b", "),
            None => self.open("Data", field),
        }
        self.scratch.clear();
        match value {
            // The form for decoders without the protocol.
            Value::Custom { protocol, data, .. }
                if self.style.custom.is_none_or(|decoders| !decoders.knows(protocol)) =>
            {
                put_hex(self.scratch, data);
            }
            _ => value.write_text(self.scratch, self.style),
        }
        match std::str::from_utf8(self.scratch) {
            Ok(text) => escape(self.out, text),
            Err(_) => escape(self.out, &String::from_utf8_lossy(self.scratch)),
        }
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
    }

    fn end_array(&mut self, field: &Field) {
        if !field.is_struct() {
            self.out.extend_from_slice(b"</Data>");
            self.array = None;
        }
    }

    fn begin_struct(&mut self, field: &Field) {
        self.open("ComplexData", field);
    }

    fn end_struct(&mut self, _field: &Field) {
        self.out.extend_from_slice(b"</ComplexData>");
    }
}
