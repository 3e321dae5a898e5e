//! The expected output of `tdh_sample.c` for a trace, from the reader and the decoder of Rust.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use etw_decode::{
    Catalog, CodePage, Count, Decoder, Field, InType, Kind, Length, PayloadError, Source,
    StatusKind, Style, Value, Visitor, Wire, status_name, status_text,
};
use etw_etl::read::{Records, TraceFile};
use etw_types::{Clock, EventFlags, EventRecord, HeaderType, le};

/// How the program is called.
#[derive(Clone, Default)]
pub struct Call {
    pub files: Vec<PathBuf>,
    pub manifest: Option<PathBuf>,
    /// A folder of TMF files.
    pub tmf: Option<PathBuf>,
    pub limit: usize,
    pub by_format: bool,
    pub older: bool,
    pub raw: bool,
    pub raw_info: bool,
}

impl Call {
    pub fn of(files: &[PathBuf]) -> Call {
        Call { files: files.to_vec(), limit: usize::MAX, ..Call::default() }
    }

    pub fn arguments(&self) -> Vec<std::ffi::OsString> {
        let mut arguments: Vec<std::ffi::OsString> = Vec::new();
        let pairs = [("-m", &self.manifest), ("-t", &self.tmf)];
        for (name, path) in pairs {
            if let Some(path) = path {
                arguments.extend([name.into(), path.clone().into_os_string()]);
            }
        }
        if self.limit != usize::MAX {
            arguments.extend(["-n".into(), self.limit.to_string().into()]);
        }
        let flags =
            [("-f", self.by_format), ("-o", self.older), ("-r", self.raw), ("-x", self.raw_info)];
        for (name, is) in flags {
            if is {
                arguments.push(name.into());
            }
        }
        arguments.extend(self.files.iter().map(|file| file.clone().into_os_string()));
        arguments
    }
}

/// UTF-16 as the program prints it, to its NUL.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    for unit in text.encode_utf16().take_while(|unit| *unit != 0) {
        match unit {
            0x5c => out += "\\u005c",
            0x20..0x7f => out.push(char::from(unit as u8)),
            _ => drop(write!(out, "\\u{unit:04x}")),
        }
    }
    out
}

fn hash(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(2_166_136_261, |value, byte| (value ^ u32::from(*byte)).wrapping_mul(16_777_619))
}

/// A value as TDH writes it.
fn text_of(value: &Value<'_>) -> String {
    let plain = || {
        let mut text = Vec::new();
        value.write_text(&mut text, &Style::default());
        String::from_utf8_lossy(&text).into_owned()
    };
    let hex = |bytes: &[u8]| {
        bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02X}"))
    };
    match value {
        Value::Hex(value) => format!("0x{value:X}"),
        Value::F32(value) => format!("{value:.6}"),
        Value::F64(value) => format!("{value:.6}"),
        Value::Guid(guid) => format!("{{{guid}}}").to_uppercase(),
        Value::Binary(bytes) | Value::Custom { data: bytes, .. } => hex(bytes),
        Value::FileTime(_) | Value::SystemTime(_) => {
            let text = plain();
            text.strip_suffix('Z').map(|text| format!("{text}00Z")).unwrap_or(text)
        }
        Value::Text(text) => text.to_str(CodePage::default()).into_owned(),
        Value::Status { value, kind, .. } => {
            let code = *value as u32;
            let what = match kind {
                StatusKind::NtStatus => "NTSTATUS",
                StatusKind::HResult => "HResult",
                _ => "Win32",
            };
            match status_name(*kind, code) {
                Some(_) => status_text(*kind, code),
                None => format!("Unknown {what} Error code: 0x{code:08x}"),
            }
        }
        _ => plain(),
    }
}

/// The lines of an event's properties.
#[derive(Default)]
pub struct Lines {
    pub out: String,
    around: Vec<Around>,
}

enum Around {
    Struct(String),
    Array(usize),
}

impl Lines {
    fn path(&self, name: &str) -> String {
        let mut path = String::new();
        for around in &self.around {
            if let Around::Struct(name) = around {
                path += name;
                path.push('.');
            }
        }
        path + &escaped(name)
    }

    /// The name, or that of the next element of the array that it is.
    fn next(&mut self, name: &str) -> String {
        let path = self.path(name);
        match self.around.last_mut() {
            Some(Around::Array(next)) => {
                *next += 1;
                format!("{path}[{}]", *next - 1)
            }
            _ => path,
        }
    }

    fn line(&mut self, path: &str, text: &str) {
        let _ = writeln!(self.out, "{path}={}", escaped(text));
    }
}

impl Visitor for Lines {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if matches!(field.kind, Kind::Constant(_)) {
            return;
        }
        let path = self.next(&field.name);
        // A length that is stored before the value is a property of its own.
        let is_counted = matches!(field.kind, Kind::Scalar { wire: Wire::CountedBinary, .. } if field.types.0 == InType::BINARY)
            || (matches!(field.kind, Kind::Custom { .. }) && field.length == Length::Own);
        if is_counted && field.count == Count::One {
            let size = match &value {
                Value::Binary(bytes) | Value::SocketAddress(bytes) => bytes.len(),
                Value::Custom { data, .. } => data.len(),
                Value::Ipv6(_) => 16,
                other => panic!("{other:?} of a binary field"),
            };
            self.line(&format!("{path}.Length"), &size.to_string());
        }
        if let Kind::Custom { protocol, schema } = &field.kind {
            let line = format!("custom {protocol} {} {:08x}", schema.len(), hash(schema));
            let _ = writeln!(self.out, "{line}");
        }
        self.line(&path, &text_of(&value));
    }

    fn begin_array(&mut self, field: &Field, count: usize) {
        if field.count == Count::Prefixed {
            let path = self.path(&format!("{}.Count", field.name));
            self.line(&path, &count.to_string());
        }
        self.around.push(Around::Array(0));
    }

    fn end_array(&mut self, _: &Field) {
        self.around.pop();
    }

    fn begin_struct(&mut self, field: &Field) {
        let path = self.next(&field.name);
        // Its own part: what is around it stands before.
        let around = self.path("").len();
        self.around.push(Around::Struct(path[around..].to_owned()));
    }

    fn end_struct(&mut self, _: &Field) {
        self.around.pop();
    }
}

struct Expected<'c> {
    call: &'c Call,
    decoder: Decoder,
    out: String,
    events: usize,
}

impl Expected<'_> {
    /// `false`: the limit is reached.
    fn event(&mut self, record: &EventRecord<'_>, clock: &Clock) -> bool {
        let raw = record.order_time;
        let time = if self.call.raw { raw } else { clock.filetime(raw).map_or(raw, |time| time.0) };
        let provider = record.provider.unwrap_or_default();
        let d = &record.descriptor;
        let pid = record.process_id.unwrap_or(u32::MAX);
        let tid = record.thread_id.unwrap_or(u32::MAX);
        let data = format!("data {} {:08x}", record.payload.len(), hash(record.payload));
        self.events += 1;
        if self.call.older {
            let _ = writeln!(
                self.out,
                "trace {provider} {} {} {} {time} {pid} {tid}\n{data}",
                d.opcode.0, d.level.0, d.version
            );
            return self.events < self.call.limit;
        }
        let _ = writeln!(
            self.out,
            "event {provider} {} {} {} {} {} {} {:x}\nat {time} {pid} {tid} {} {:x} {}\n{data}",
            d.id,
            d.version,
            d.channel.0,
            d.level.0,
            d.opcode.0,
            d.task,
            d.keyword.0,
            record.cpu,
            flags(record),
            record.activity_id
        );
        let items: Vec<_> = record.extended.into_iter().collect();
        for (number, item) in items.iter().enumerate() {
            let more = u8::from(number + 1 < items.len());
            let (kind, size) = (item.ext_type.0, item.data.len());
            let _ = writeln!(self.out, "item {kind} {size} {:08x} {more}", hash(item.data));
        }
        self.decoded(record);
        self.events < self.call.limit
    }

    fn decoded(&mut self, record: &EventRecord<'_>) {
        let decoded = self.decoder.decode(record);
        let Some(schema) = decoded.schema() else {
            self.out += "schema 1168 -1\n";
            return;
        };
        let mut lines = Lines::default();
        let visited = decoded.visit(record, &mut lines);
        if matches!(visited, Err(PayloadError::TooMuch | PayloadError::BadStruct)) {
            self.out += "schema 15005 -1\n";
            return;
        }
        let source = decoded.source().unwrap();
        let number = match source {
            Source::EventInfo => {
                decoded.event_info().and_then(|blob| le::u32(blob, 0x30)).unwrap_or(0)
            }
            Source::Kernel | Source::Mof | Source::Header => 1,
            Source::Wpp => 2,
            Source::TraceLogging => 3,
            _ => 0,
        };
        let _ = writeln!(self.out, "schema 0 {number}");
        let mut line = |what: &str, text: Option<&str>| {
            if let Some(text) = text {
                let _ = writeln!(self.out, "{what} {}", escaped(text));
            }
        };
        let names = &schema.names;
        line("provider", decoded.provider_name().as_deref());
        let parts = [&names.task, &names.opcode];
        let joined = match parts {
            [Some(task), Some(opcode)] => {
                let plain = |name: &str| name.strip_prefix("win:").unwrap_or(name).to_owned();
                match plain(opcode).as_str() {
                    "Info" => Some(plain(task)),
                    opcode => Some(format!("{}/{opcode}", plain(task))),
                }
            }
            [Some(task), None] => Some(task.strip_prefix("win:").unwrap_or(task).to_owned()),
            _ => None,
        };
        // A name made of task and opcode is shown as these two.
        let own = decoded.event_name().filter(|name| joined.as_deref() != Some(name));
        let halves = own.and_then(|name| name.split_once('/'));
        let (mut task, mut opcode) = (names.task.as_deref(), names.opcode.as_deref());
        match number {
            1 => {
                if let (Some((class, kind)), None, None) = (halves, task, opcode) {
                    (task, opcode) = (Some(class), Some(kind));
                }
            }
            2 => task = names.event.as_deref(),
            3 => {
                line("name", own);
                task = task.or(own);
            }
            // A record that describes another is named like that one by the decoder alone.
            _ if source == Source::EventInfo && decoded.event_info().is_none() => {}
            _ => line("name", own),
        }
        line("level", names.level.as_deref());
        line("channel", names.channel.as_deref());
        line("task", task);
        line("opcode", opcode);
        line("message", schema.message.as_ref().map(etw_decode::Message::template));
        let keywords = names.keywords.iter().filter(|keyword| !keyword.is_empty());
        keywords.for_each(|keyword| line("keyword", Some(keyword)));
        self.out += &lines.out;
        if visited.is_err() {
            self.out += "error 15005\n";
        }
        if source == Source::Wpp
            && let Some(text) = decoded.message(record, &Style::default())
        {
            let _ = writeln!(self.out, "formatted {}", escaped(&text));
        }
    }
}

fn flags(record: &EventRecord<'_>) -> u16 {
    let mut flags = record.flags.0 & !(EventFlags::EXTENDED_INFO.0 | EventFlags::NO_CPUTIME.0);
    if !record.extended.is_empty() {
        flags |= 1;
    }
    if record.header == HeaderType::Message {
        flags |= 8;
    }
    if etw_decode::is_string_event(record) {
        flags |= 4;
    }
    flags |= if record.pointer_size == 4 { 0x20 } else { 0x40 };
    if record.header.is_classic() || record.header.is_kernel() {
        flags |= 0x100;
    }
    (flags | 0x200) & !EventFlags::PRIVATE_SESSION.0
}

fn is_header(record: &EventRecord<'_>) -> bool {
    let place = record.position;
    (place.buffer_index, place.offset) == (0, 0)
        && record.provider == Some(etw_types::EVENT_TRACE)
        && record.descriptor.opcode.0 == 0
        && record.header.is_kernel()
}

/// The expected output of the program.
pub fn expected(call: &Call) -> String {
    let files: Vec<TraceFile> =
        call.files.iter().map(|file| TraceFile::open(file).unwrap()).collect();
    let mut catalog = Catalog::default();
    if let Some(manifest) = &call.manifest {
        let text = std::fs::read(manifest).unwrap();
        if manifest.extension().is_some_and(|extension| extension == "mof") {
            catalog.add_mof(&text);
        } else {
            catalog.add_manifest(&text).unwrap();
        }
    }
    if let Some(folder) = &call.tmf {
        for entry in std::fs::read_dir(folder).unwrap() {
            catalog.add_tmf(&std::fs::read(entry.unwrap().path()).unwrap());
        }
    }
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let mut expected = Expected { call, decoder, out: String::new(), events: 0 };
    for file in &files {
        let _ = match file.header() {
            Some(h) => writeln!(
                expected.out,
                "header {} {} {} {} {} {} {} {} {} {} {}",
                h.buffer_size,
                h.pointer_size,
                h.number_of_processors,
                h.buffers_written,
                h.start_time.0,
                h.end_time.0,
                h.perf_freq,
                h.events_lost,
                h.clock_type.0,
                escaped(&h.logger_name),
                escaped(&h.log_file_name)
            ),
            None => writeln!(expected.out, "header 0 0 0 0 0 0 0 0 0  "),
        };
    }
    // The header of each file goes before the first of its other records.
    let mut headers: Vec<Option<()>> = vec![None; files.len()];
    // A buffer is done where the next one of its CPU begins.
    let mut open: HashMap<(u32, u16), u64> = HashMap::new();
    let mut buffers = 0;
    let mut goes_on = true;
    let mut records = Records::new(files.clone());
    let clocks: Vec<Clock> = files.iter().map(|file| *file.clock()).collect();
    while let Some(record) = records.next() {
        let place = record.position;
        let number = place.file_index as usize;
        let last = open.get(&(place.file_index, record.cpu)).copied();
        let begins = last.is_some_and(|last| last != place.buffer_index);
        // Where it was closed, buffers end that have begun; the header's does not count.
        if !goes_on && begins && last != Some(0) {
            break;
        }
        open.insert((place.file_index, record.cpu), place.buffer_index);
        buffers += usize::from(begins);
        if headers[number].is_none() {
            headers[number] = Some(());
            let mut alone = Records::new(vec![files[number].clone()]);
            while let Some(first) = alone.next() {
                if is_header(&first) && files[number].header().is_some() {
                    goes_on &= expected.event(&first, &clocks[number]);
                    break;
                }
            }
        }
        if !is_header(&record) || files[number].header().is_none() {
            goes_on &= expected.event(&record, &clocks[number]);
        }
    }
    let status = if goes_on { 0 } else { 1223 };
    buffers += open.len();
    let events = expected.events;
    let _ = writeln!(expected.out, "processed {status}\nevents {events}\nbuffers {buffers}");
    expected.out
}
