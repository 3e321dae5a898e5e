//! A JSON object a record; keys as `INTERFACE` fixes them, further ones only where the record has what they show.

use super::heads::{Head, Heads, has_items};
use super::{FileFacts, Number, Options, put_hex, put_hex16, put_number};
use crate::join::{Moment, Names};
use etw_decode::{
    Decoded, Escape, Field, Inserts, Integers, Style, Value, Visitor, write_json_string,
};
use etw_types::{EventRecord, ExtType, Guid, HeaderType, le};
use std::collections::BTreeMap;

pub fn write(
    options: &Options,
    heads: &mut Heads,
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    decoded: &Decoded<'_>,
    file: &FileFacts,
) {
    let has_items = has_items(record);
    let is_logged = has_items && record.is_logged();
    let Heads { kinds, inserts, .. } = heads;
    let head = kinds.of(record, decoded, (is_logged, None), |out| {
        put_start(out, record);
        let start = out.len();
        put_names(out, record, decoded, is_logged);
        let names = out.len();
        match decoded.schema() {
            Some(_) => put_schema(out, decoded),
            None => put_undecoded(out, decoded.reason_text().as_deref()),
        }
        [start, names, names]
    });
    out.extend_from_slice(head.start());
    put_times_and_ids(out, record, file, is_logged);
    if let Some(names) = &options.names {
        put_joined(out, record, decoded, names);
    }
    out.extend_from_slice(head.second());
    if record.header.is_event() {
        guid(out, Some(record.activity_id).filter(|id| !id.is_zero()));
    }
    put_optional_parts(options, out, record);
    if has_items {
        put_items(out, record);
    }
    put_content(options, (head, inserts), out, (record, file), decoded);
    if options.raw {
        for (key, item) in
            [("traits", ExtType::PROV_TRAITS), ("metadata", ExtType::EVENT_SCHEMA_TL)]
        {
            if let Some(bytes) = record.extended.find(item) {
                put_key(out, key);
                out.push(b'"');
                put_hex(out, bytes);
                out.push(b'"');
            }
        }
        out.extend_from_slice(b",\"buffer\":");
        put_number(out, record.position.buffer_index);
        out.extend_from_slice(b",\"offset\":");
        put_number(out, record.position.offset);
    }
    out.extend_from_slice(b"}\n");
}

/// Up to the time.
fn put_start(out: &mut Vec<u8>, record: &EventRecord<'_>) {
    out.extend_from_slice(b"{\"header\":\"");
    out.extend_from_slice(record.header_name().as_bytes());
    out.extend_from_slice(b"\",\"timestamp\":");
}

fn put_times_and_ids(
    out: &mut Vec<u8>,
    record: &EventRecord<'_>,
    file: &FileFacts,
    is_logged: bool,
) {
    let start = out.len();
    out.push(b'"');
    match record.timestamp(&file.clock).is_some_and(|time| time.put_ascii(out)) {
        true => out.push(b'"'),
        false => {
            out.truncate(start);
            null(out);
        }
    }
    out.extend_from_slice(b",\"raw_timestamp\":");
    optional(out, record.raw_timestamp());
    out.extend_from_slice(b",\"cpu\":");
    optional(out, (!is_logged).then_some(record.cpu));
    out.extend_from_slice(b",\"pid\":");
    optional(out, record.process_id);
    out.extend_from_slice(b",\"tid\":");
    optional(out, record.thread_id);
}

/// Names for `--join`.
fn put_joined(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>, names: &Names) {
    let name = |out: &mut Vec<u8>, key: &str, name: Option<&str>| {
        if let Some(name) = name {
            put_key(out, key);
            write_json_string(out, name);
        }
    };
    let owner = names.owner(record);
    if let Some(process) = owner.process {
        out.extend_from_slice(b",\"process\":{\"pid\":");
        put_number(out, process);
        out.extend_from_slice(b",\"name\":");
        match names.process_name_at(process, Moment::of(record)) {
            Some(name) => write_json_string(out, name),
            None => null(out),
        }
        out.push(b'}');
    }
    name(out, "thread_name", owner.thread.and_then(|thread| names.thread_name(thread)));
    name(out, "interrupt", owner.interrupt.map(|interrupt| interrupt.name()));
    name(out, "function", names.function_of(record).as_deref());
    name(out, "file_name", names.file_of(record, decoded).as_deref());
}

/// From the provider to the activity, which follows for an event.
fn put_names(out: &mut Vec<u8>, record: &EventRecord<'_>, decoded: &Decoded<'_>, is_logged: bool) {
    let is_event = record.header.is_event();
    let is_message = record.header == HeaderType::Message;
    let is_classic = record.header.is_classic();
    let descriptor = &record.descriptor;
    out.extend_from_slice(b",\"provider\":");
    guid(out, record.provider);
    out.extend_from_slice(b",\"provider_name\":");
    match decoded.provider_name() {
        Some(name) => write_json_string(out, &name),
        None => null(out),
    }
    out.extend_from_slice(b",\"event\":");
    match decoded.event_name() {
        Some(name) => write_json_string(out, name),
        None => null(out),
    }
    out.extend_from_slice(b",\"id\":");
    optional(out, (is_event || is_message).then_some(descriptor.id));
    out.extend_from_slice(b",\"version\":");
    optional(out, (!is_message).then_some(descriptor.version));
    out.extend_from_slice(b",\"level\":");
    optional(out, (is_event || is_classic).then_some(descriptor.level.0));
    out.extend_from_slice(b",\"opcode\":");
    let has_opcode = is_event || is_classic || record.hook.is_some();
    optional(out, has_opcode.then_some(descriptor.opcode.0));
    if is_event {
        out.extend_from_slice(b",\"channel\":");
        optional(out, (!is_logged).then_some(descriptor.channel.0));
        out.extend_from_slice(b",\"task\":");
        put_number(out, descriptor.task);
        out.extend_from_slice(b",\"keyword\":\"");
        put_hex16(out, descriptor.keyword.0);
        out.extend_from_slice(b"\",\"activity_id\":");
    } else {
        out.extend_from_slice(
            b",\"channel\":null,\"task\":null,\"keyword\":null,\"activity_id\":null",
        );
    }
}

/// From the provider's group to the first field, if there is a schema.
fn put_schema(out: &mut Vec<u8>, decoded: &Decoded<'_>) {
    let (Some(source), Some(schema)) = (decoded.source(), decoded.schema()) else { return };
    if let Some(group) = decoded.provider_group() {
        put_key(out, "provider_group");
        guid(out, Some(group));
    }
    if schema.tag != 0 {
        put_key(out, "tag");
        put_number(out, schema.tag);
    }
    out.extend_from_slice(b",\"decoded\":\"");
    out.extend_from_slice(source.name().as_bytes());
    out.extend_from_slice(b"\",\"fields\":{");
}

/// The parts that only some headers have, and stacks for `--join`.
fn put_optional_parts(options: &Options, out: &mut Vec<u8>, record: &EventRecord<'_>) {
    for (key, value) in [("sequence", record.sequence), ("component_id", record.component_id)] {
        if let Some(value) = value {
            put_key(out, key);
            put_number(out, value);
        }
    }
    if let Some(names) = &options.names {
        // The kernel's side and the user's are records of their own.
        let mut frames = names.stacks_of(record).flatten().peekable();
        if frames.peek().is_some() {
            put_stack(out, frames.copied());
        }
        put_functions(names, out, record);
    }
}

/// The function of each address of a stack, and those that the compiler inlined there.
fn put_functions(names: &Names, out: &mut Vec<u8>, record: &EventRecord<'_>) {
    let mut count = 0;
    let mut inlined: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    names.each_function(record, &mut |frame, within| {
        let name = frame.text_within(within);
        if let Some(name) = name.as_ref().filter(|_| within.is_inlined) {
            return inlined.entry(count).or_default().push(name.clone());
        }
        if count == 0 {
            put_key(out, "frames");
        }
        out.push(if count == 0 { b'[' } else { b',' });
        count += 1;
        match name {
            Some(name) => write_json_string(out, &name),
            None => null(out),
        }
    });
    if count > 0 {
        out.push(b']');
    }
    if !inlined.is_empty() {
        put_key(out, "inlined");
        for number in 0..count {
            out.push(if number == 0 { b'[' } else { b',' });
            let Some(names) = inlined.get(&number) else {
                null(out);
                continue;
            };
            for (number, name) in names.iter().enumerate() {
                out.push(if number == 0 { b'[' } else { b',' });
                write_json_string(out, name);
            }
            out.push(b']');
        }
        out.push(b']');
    }
}

fn put_items(out: &mut Vec<u8>, record: &EventRecord<'_>) {
    if let Some(item) = record.log_item() {
        put_key(out, "record_id");
        put_number(out, item.record_id);
        put_key(out, "channel_name");
        write_json_string(out, item.channel);
        put_key(out, "computer");
        write_json_string(out, item.computer);
    }
    if let Some(related) = record.related_activity_id() {
        put_key(out, "related_activity_id");
        guid(out, Some(related));
    }
    let mut frames = record.stack().peekable();
    if frames.peek().is_some() {
        put_stack(out, frames);
    }
    for item in record.extended {
        put_item(out, item.ext_type, item.data);
    }
}

fn put_stack(out: &mut Vec<u8>, frames: impl Iterator<Item = u64>) {
    put_key(out, "stack");
    for (number, frame) in frames.enumerate() {
        out.extend_from_slice(if number == 0 { b"[\"" } else { b",\"" });
        put_hex16(out, frame);
        out.push(b'"');
    }
    out.push(b']');
}

fn put_item(out: &mut Vec<u8>, ext_type: ExtType, data: &[u8]) {
    let number = |out: &mut Vec<u8>, key: &str, value: Option<u64>| {
        if let Some(value) = value {
            put_key(out, key);
            put_number(out, value);
        }
    };
    match ext_type {
        ExtType::SID => {
            put_key(out, "sid");
            Value::Sid(data).write_json(out, &Style::default());
        }
        ExtType::TS_ID => number(out, "session_id", le::u32(data, 0).map(u64::from)),
        ExtType::INSTANCE_INFO => {
            number(out, "instance_id", le::u32(data, 0).map(u64::from));
            number(out, "parent_instance_id", le::u32(data, 4).map(u64::from));
            if let Some(parent) = Guid::read(data, 8) {
                put_key(out, "parent_guid");
                guid(out, Some(parent));
            }
        }
        ExtType::PEBS_INDEX => number(out, "pebs_index", le::u64(data, 0)),
        ExtType::PMC_COUNTERS => {
            put_key(out, "pmc_counters");
            out.push(b'[');
            for (at, counter) in data.chunks_exact(8).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                put_number(out, le::u64(counter, 0).unwrap_or(0));
            }
            out.push(b']');
        }
        ExtType::PSM_KEY => number(out, "psm_key", le::u64(data, 0)),
        ExtType::EVENT_KEY => number(out, "event_key", le::u64(data, 0)),
        ExtType::PROCESS_START_KEY => number(out, "process_start_key", le::u64(data, 0)),
        ExtType::CONTROL_GUID => {
            put_key(out, "control_guid");
            guid(out, Guid::read(data, 0));
        }
        ExtType::QPC_DELTA => {
            if let Some(delta) = le::i64(data, 0) {
                put_key(out, "qpc_delta");
                put_number(out, delta);
            }
        }
        ExtType::CONTAINER_ID => {
            put_key(out, "container_id");
            match Guid::read(data, 0).filter(|_| data.len() == 16) {
                Some(id) => guid(out, Some(id)),
                None => Value::Binary(data).write_json(out, &Style::default()),
            }
        }
        ExtType::STACK_KEY32 => {
            number(out, "stack_key", le::u32(data, 8).map(u64::from));
        }
        ExtType::STACK_KEY64 => number(out, "stack_key", le::u64(data, 8)),
        _ => {}
    }
}

/// `decoded`, `reason`, `fields`, `rest`, `message`, `payload`.
fn put_content(
    options: &Options,
    (head, inserts): (&Head, &mut Inserts),
    out: &mut Vec<u8>,
    (record, file): (&EventRecord<'_>, &FileFacts),
    decoded: &Decoded<'_>,
) {
    let start = out.len();
    out.extend_from_slice(head.end());
    if decoded.schema().is_none() {
        put_hex(out, record.payload);
        return out.push(b'"');
    }
    let (style, arrays) = (&options.style, 0);
    let visited = match options.start_message(inserts, record, decoded) {
        true => {
            let mut fields = Fields::<true> { out, style, inserts, arrays };
            options.visit(record, decoded, &mut fields)
        }
        false => {
            let mut fields = Fields::<false> { out, style, inserts, arrays };
            options.visit(record, decoded, &mut fields)
        }
    };
    out.push(b'}');
    if let Some(reason) = visited.as_ref().and_then(|visited| visited.failure()) {
        out.truncate(start);
        put_undecoded(out, Some(&reason.text()));
        put_hex(out, record.payload);
        return out.push(b'"');
    }
    if let Some(visited) = &visited {
        if let Some(reason) = &visited.reason {
            put_key(out, "reason");
            write_json_string(out, &reason.text());
        }
        if !visited.rest.is_empty() {
            out.extend_from_slice(b",\"rest\":\"");
            put_hex(out, visited.rest);
            out.push(b'"');
        }
    }
    let event = (record, decoded, visited.as_ref());
    let around = (&b",\"message\":\""[..], &b"\""[..]);
    inserts.put_message(out, event, around, &options.message_style(file), Escape::Json);
    if options.raw {
        put_payload(out, record);
    }
}

/// Up to the payload of a record that is not decoded.
fn put_undecoded(out: &mut Vec<u8>, reason: Option<&str>) {
    out.extend_from_slice(b",\"decoded\":null");
    if let Some(reason) = reason {
        out.extend_from_slice(b",\"reason\":");
        write_json_string(out, reason);
    }
    out.extend_from_slice(b",\"fields\":null,\"payload\":\"");
}

fn put_payload(out: &mut Vec<u8>, record: &EventRecord<'_>) {
    out.extend_from_slice(b",\"payload\":\"");
    put_hex(out, record.payload);
    out.push(b'"');
}

fn put_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn null(out: &mut Vec<u8>) {
    out.extend_from_slice(b"null");
}

fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

fn optional(out: &mut Vec<u8>, value: Option<impl Number>) {
    match value {
        Some(value) => put_number(out, value),
        None => null(out),
    }
}

fn guid(out: &mut Vec<u8>, value: Option<Guid>) {
    match value {
        Some(guid) => quoted(out, &guid.to_ascii()),
        None => null(out),
    }
}

/// `MESSAGE`: whether the record's message is made of its fields. Most records have none, and nothing asks for each of their fields.
struct Fields<'o, const MESSAGE: bool> {
    out: &'o mut Vec<u8>,
    style: &'o Style,
    inserts: &'o mut Inserts,
    /// One bit for every open bracket, the innermost lowest: whether it is an array, whose values have no keys.
    arrays: u128,
}

impl<const MESSAGE: bool> Fields<'_, MESSAGE> {
    fn key(&mut self, field: &Field) {
        let is_first = matches!(self.out.last(), Some(b'{' | b'['));
        match self.arrays & 1 {
            0 => field.put_json_key(self.out, is_first),
            _ if is_first => {}
            _ => self.out.push(b','),
        }
    }

    fn open(&mut self, field: &Field, array: bool) {
        self.key(field);
        self.out.push(if array { b'[' } else { b'{' });
        self.arrays = self.arrays << 1 | u128::from(array);
    }

    fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.arrays >>= 1;
    }
}

impl<const MESSAGE: bool> Visitor for Fields<'_, MESSAGE> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        let mut start = self.out.len();
        if !field.is_custom_length {
            self.key(field);
            start = self.out.len();
            value.write_json(self.out, self.style);
        }
        if MESSAGE {
            let written = (&self.out[..], start..self.out.len());
            self.inserts.value(field, &value, written, self.style, Escape::Json);
        }
    }

    fn begin_array(&mut self, field: &Field, _count: usize) {
        self.open(field, true);
        if MESSAGE {
            self.inserts.begin(true);
        }
    }

    fn integers(&mut self, field: &Field, integers: &mut Integers<'_>) {
        if MESSAGE {
            self.inserts.integers(field, integers, self.style, Escape::Json);
        }
        integers.write_json(self.out, self.style);
    }

    fn end_array(&mut self, _field: &Field) {
        self.close(b']');
        if MESSAGE {
            self.inserts.end(true);
        }
    }

    fn begin_struct(&mut self, field: &Field) {
        self.open(field, false);
        if MESSAGE {
            self.inserts.begin(false);
        }
    }

    fn end_struct(&mut self, _field: &Field) {
        self.close(b'}');
        if MESSAGE {
            self.inserts.end(false);
        }
    }
}
