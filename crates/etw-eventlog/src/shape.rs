//! The fields of an event as an event log stores them: names and types apart from values.

use etw_decode::{Decoded, Field, Kind, Reason, Source, Style, Value, Visitor};
use etw_evtx::value::ValueType;
use etw_tracelogging::Wire;
use etw_tracelogging::tdh::InType;
use etw_types::{EventRecord, Guid};
use std::ops::Range;

/// Values of one event. One with more, which a hostile schema has, is stored as one without a schema.
const VALUE_LIMIT: usize = 4096;

/// Typed values in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Values {
    bytes: Vec<u8>,
    list: Vec<(ValueType, Range<usize>)>,
}

impl Values {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = (ValueType, &[u8])> {
        self.list.iter().map(|(value_type, range)| (*value_type, &self.bytes[range.clone()]))
    }

    pub fn push_bytes(&mut self, value_type: ValueType, bytes: &[u8]) {
        self.push_with(value_type, |out| out.extend_from_slice(bytes));
    }

    pub fn push_null(&mut self) {
        self.push_bytes(ValueType::NULL, &[]);
    }

    pub fn push_guid(&mut self, guid: Option<Guid>) {
        match guid {
            Some(guid) => self.push_bytes(ValueType::GUID, &guid.0),
            None => self.push_null(),
        }
    }

    /// An empty text has no type, as in Windows' logs.
    pub fn push_text(&mut self, text: &str) {
        match text.is_empty() {
            true => self.push_null(),
            false => self.push_with(ValueType::STRING, |out| push_utf16(out, text)),
        }
    }

    fn push_with(&mut self, value_type: ValueType, put: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        put(&mut self.bytes);
        self.list.push((value_type, start..self.bytes.len()));
    }
}

fn push_utf16(out: &mut Vec<u8>, text: &str) {
    out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
}

/// A field: a value, or a struct of others.
#[derive(Debug)]
pub(crate) enum Leaf {
    Value { name: String, value_type: ValueType },
    Struct { name: String, members: Vec<Leaf> },
}

impl Leaf {
    pub fn name(&self) -> &str {
        match self {
            Leaf::Value { name, .. } | Leaf::Struct { name, .. } => name,
        }
    }
}

/// Names and types of an event's fields.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The name of an event that nothing else names: a TraceLogging event has no id.
    name: Option<String>,
    leaves: Vec<Leaf>,
    /// Equal for equal names, types and structure.
    key: Vec<u8>,
    is_undecoded: bool,
}

impl Shape {
    /// The shape of an event's fields; their values are appended to `values`.
    pub fn of(event: &EventRecord<'_>, decoded: &Decoded<'_>, values: &mut Values) -> Shape {
        let name = own_name(decoded);
        let mut key = Vec::new();
        if let Some(name) = name {
            key.extend_from_slice(name.as_bytes());
            key.extend_from_slice(&[0, NAME]);
        }
        let mut fields = Fields {
            values,
            open: vec![Vec::new()],
            array: None,
            key,
            limit: VALUE_LIMIT,
            is_over: false,
        };
        let visited = decoded.visit_part(event, &mut fields);
        let reason = match &visited {
            None => decoded.reason_text(),
            Some(_) if fields.is_over => Some("too many fields for a record".into()),
            Some(visited) => visited.failure().map(Reason::text),
        };
        let Some(visited) = visited.filter(|_| reason.is_none()) else {
            values.clear();
            return Shape::undecoded(&reason.unwrap_or_default(), event.payload, values);
        };
        // Message and rest.
        fields.limit += 2;
        if decoded.source() == Some(Source::Wpp)
            && let Some(message) = decoded.message(event, &Style::default())
        {
            fields.put_text("Message", &message);
        }
        if !visited.rest.is_empty() {
            fields.put("rest", ValueType::BINARY, |out| out.extend_from_slice(visited.rest));
        }
        let leaves = fields.open.into_iter().next().unwrap_or_default();
        Shape { name: name.map(str::to_owned), leaves, key: fields.key, is_undecoded: false }
    }

    /// The shape of an event without fields: the reason and its payload are the values. Each event has its own reason.
    pub fn undecoded(reason: &str, payload: &[u8], values: &mut Values) -> Shape {
        values.push_text(reason);
        values.push_bytes(ValueType::BINARY, payload);
        Shape { key: b"reason and payload".to_vec(), is_undecoded: true, ..Shape::default() }
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn is_undecoded(&self) -> bool {
        self.is_undecoded
    }

    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

/// The name in the metadata of a TraceLogging event, or of a record of an event log.
fn own_name<'d>(decoded: &Decoded<'d>) -> Option<&'d str> {
    let has_own = matches!(decoded.source()?, Source::TraceLogging | Source::EventLog);
    let name = decoded.schema()?.names.event.as_deref();
    name.filter(|name| has_own && !name.is_empty())
}

/// An array of values under construction.
#[derive(Default)]
struct Array {
    bytes: Vec<u8>,
    items: Vec<(ValueType, Range<usize>)>,
}

impl Array {
    /// The type of an array value that has the items as they are. `None`: they have no such type, as binary values, or differ in theirs.
    fn item_type(&self) -> Option<ValueType> {
        let (first, _) = self.items.first()?;
        let is_whole = |bytes: &[u8]| match *first {
            ValueType::NULL | ValueType::BINARY => false,
            // A NUL ends an item.
            ValueType::STRING => bytes.chunks_exact(2).all(|unit| unit != [0, 0]),
            ValueType::SID => {
                bytes.get(1).is_some_and(|count| bytes.len() == 8 + 4 * usize::from(*count))
            }
            _ => first.fixed_size() == Some(bytes.len()),
        };
        let mut items = self.items.iter();
        let is_one =
            items.all(|(item, range)| item == first && is_whole(&self.bytes[range.clone()]));
        is_one.then_some(*first)
    }
}

struct Fields<'v> {
    values: &'v mut Values,
    /// Members of the structs that are open, the event's own fields first.
    open: Vec<Vec<Leaf>>,
    array: Option<Array>,
    key: Vec<u8>,
    /// Most values.
    limit: usize,
    /// There were more.
    is_over: bool,
}

impl Fields<'_> {
    fn put(&mut self, name: &str, value_type: ValueType, put: impl FnOnce(&mut Vec<u8>)) {
        if self.values.list.len() >= self.limit {
            self.is_over = true;
            return;
        }
        self.values.push_with(value_type, put);
        self.put_key(name, value_type.0);
        if let Some(members) = self.open.last_mut() {
            members.push(Leaf::Value { name: name.to_owned(), value_type });
        }
    }

    fn put_text(&mut self, name: &str, text: &str) {
        self.put(name, ValueType::STRING, |out| push_utf16(out, text));
    }

    fn put_key(&mut self, name: &str, kind: u8) {
        self.key.extend_from_slice(name.as_bytes());
        self.key.extend_from_slice(&[0, kind]);
    }
}

/// Marks of the key beside types of values.
const NAME: u8 = 0x7d;
const OPEN: u8 = 0x7e;
const CLOSE: u8 = 0x7f;

impl Visitor for Fields<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if field.is_custom_length {
            return;
        }
        let wire = match &field.kind {
            Kind::Scalar { wire, .. } => Some(*wire),
            _ => None,
        };
        let mut bytes = Vec::new();
        let value_type = match value {
            // A status that its schema has as a hexadecimal number stays one.
            Value::Status { value, .. } if field.types.0 == InType::HEXINT32 => {
                put_value(wire, Value::Hex(value as u64), &mut bytes)
            }
            value => put_value(wire, value, &mut bytes),
        };
        let Some(array) = &mut self.array else {
            return self.put(&field.name, value_type, |out| out.extend_from_slice(&bytes));
        };
        let start = array.bytes.len();
        array.bytes.extend_from_slice(&bytes);
        array.items.push((value_type, start..array.bytes.len()));
    }

    fn begin_array(&mut self, field: &Field, _: usize) {
        // An array of structs is a sequence of structs.
        if !matches!(field.kind, Kind::Struct { .. }) {
            self.array = Some(Array::default());
        }
    }

    fn end_array(&mut self, field: &Field) {
        let Some(array) = self.array.take() else { return };
        if array.items.is_empty() {
            return self.put(&field.name, ValueType::NULL, |_| {});
        }
        let items = array.items.iter().map(|(item, range)| (*item, &array.bytes[range.clone()]));
        let Some(item_type) = array.item_type() else {
            for (value_type, bytes) in items {
                self.put(&field.name, value_type, |out| out.extend_from_slice(bytes));
            }
            return;
        };
        let value_type = ValueType(item_type.0 | ValueType::ARRAY);
        self.put(&field.name, value_type, |out| {
            for (_, bytes) in items {
                out.extend_from_slice(bytes);
                if item_type == ValueType::STRING {
                    out.extend_from_slice(&[0, 0]);
                }
            }
        });
    }

    fn begin_struct(&mut self, field: &Field) {
        self.put_key(&field.name, OPEN);
        self.open.push(Vec::new());
    }

    fn end_struct(&mut self, field: &Field) {
        self.key.push(CLOSE);
        if self.open.len() > 1
            && let Some(members) = self.open.pop()
            && let Some(parent) = self.open.last_mut()
        {
            parent.push(Leaf::Struct { name: field.name.clone(), members });
        }
    }
}

/// Appends a value in the form of event logs, and gives its type.
fn put_value(wire: Option<Wire>, value: Value<'_>, out: &mut Vec<u8>) -> ValueType {
    let mut put = |value_type, bytes: &[u8]| {
        out.extend_from_slice(bytes);
        value_type
    };
    match value {
        Value::Null => ValueType::NULL,
        Value::Bool(value) => put(ValueType::BOOL, &u32::from(value).to_le_bytes()),
        Value::F32(value) => put(ValueType::FLOAT, &value.to_le_bytes()),
        Value::F64(value) => put(ValueType::DOUBLE, &value.to_le_bytes()),
        Value::Guid(guid) => put(ValueType::GUID, &guid.0),
        Value::FileTime(time) => put(ValueType::FILETIME, &time.0.to_le_bytes()),
        Value::Sid(sid) if sid.len() >= 8 => put(ValueType::SID, sid),
        Value::Binary(bytes) => put(ValueType::BINARY, bytes),
        Value::Hex(value) => match wire.and_then(|wire| wire.fixed_size(8)) {
            Some(1..=4) => put(ValueType::HEX32, &(value as u32).to_le_bytes()),
            _ => put(ValueType::HEX64, &value.to_le_bytes()),
        },
        Value::Int(value) => integer(wire, value as u64, true, out),
        Value::UInt(value) | Value::Mapped { value, .. } => integer(wire, value, false, out),
        // A status code has the sign of its type.
        Value::Status { value, .. } => {
            integer(wire, value as u64, wire.is_none_or(Wire::is_signed), out)
        }
        other => {
            let mut text = Vec::new();
            other.write_text(&mut text, &Style::default());
            // An empty item of an array keeps its type.
            push_utf16(out, &String::from_utf8_lossy(&text));
            ValueType::STRING
        }
    }
}

/// An integer in as many bytes as the payload has for it.
fn integer(wire: Option<Wire>, value: u64, is_signed: bool, out: &mut Vec<u8>) -> ValueType {
    let size = wire.and_then(|wire| wire.fixed_size(8)).unwrap_or(8);
    let (value_type, size) = match (size, is_signed) {
        (1, true) => (ValueType::INT8, 1),
        (1, false) => (ValueType::UINT8, 1),
        (2, true) => (ValueType::INT16, 2),
        (2, false) => (ValueType::UINT16, 2),
        (4, true) => (ValueType::INT32, 4),
        (4, false) => (ValueType::UINT32, 4),
        (_, true) => (ValueType::INT64, 8),
        (_, false) => (ValueType::UINT64, 8),
    };
    out.extend_from_slice(&value.to_le_bytes()[..size]);
    value_type
}
