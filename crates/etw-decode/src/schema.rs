//! Names and types of an event's fields, in one form for every source.

use crate::message::Message;
use crate::text::write_json_string;
use crate::wpp::WppFormat;
use etw_tracelogging::tdh::{InType, OutType};
use etw_tracelogging::{Show, Wire, tdh_types};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// What an event is called and made of.
///
/// Fields lie as in TRACE_EVENT_INFO: those of the event first, members of structs behind them, each struct naming a
/// range further back. So no struct can hold itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    /// Names of the provider, the event and its parts.
    pub names: Names,
    /// All fields, members of structs included.
    pub fields: Vec<Field>,
    /// How many of them are the event's own.
    pub top_level: usize,
    /// The text that the event stands for.
    pub message: Option<Message>,
    /// 28 bits that only consumers give a meaning.
    pub tag: u32,
    /// Whether lengths or counts of fields are values of other fields.
    pub(crate) has_references: bool,
    /// Fields at the end may be missing: one that would begin where the payload ends is not there.
    pub(crate) ends_early: bool,
    /// The text of a WPP message, in place of `message`.
    pub(crate) wpp: Option<Box<WppFormat>>,
}

/// Names from a schema, as far as it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Names {
    pub provider: Option<String>,
    pub event: Option<String>,
    pub level: Option<String>,
    pub channel: Option<String>,
    pub task: Option<String>,
    pub opcode: Option<String>,
    pub keywords: Vec<String>,
}

impl Names {
    /// The event's name; else its task, plus `/` and its opcode unless that is Info.
    pub fn resolve_event(&mut self) {
        if self.event.is_some() {
            return;
        }
        let plain = |name: &Option<String>| {
            name.as_deref().map(|name| name.strip_prefix("win:").unwrap_or(name).to_string())
        };
        let opcode = plain(&self.opcode).filter(|name| name != "Info");
        self.event = match (plain(&self.task), opcode) {
            (Some(task), Some(opcode)) => Some(format!("{task}/{opcode}")),
            (task, _) => task,
        };
    }
}

/// One field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// As the schema has it.
    pub name: String,
    /// What is stored.
    pub kind: Kind,
    /// The types by which TDH tells it: those of the schema, or what stands for them. They say nothing of a struct.
    pub types: (InType, OutType),
    /// How often.
    pub count: Count,
    /// How long, for text and bytes that do not tell; a custom field of its own length has a `u16` before it.
    pub length: Length,
    /// Names of its values.
    pub map: Option<Arc<Map>>,
    /// 28 bits that only consumers give a meaning.
    pub tag: u32,
    /// Asks not to be shown to people.
    pub no_print: bool,
    /// The length of the custom-serialised field behind it: JSON, CSV and text show the two as one.
    pub is_custom_length: bool,
    /// The name as a JSON key with quotes and colon, made unique among its siblings.
    pub(crate) json_key: Box<[u8]>,
}

/// What a field stores.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A value.
    Scalar {
        /// How it lies in the payload.
        wire: Wire,
        /// What it is shown as.
        show: Show,
    },
    /// Other fields, one after the other.
    Struct {
        /// Index of the first.
        first: usize,
        /// How many.
        count: usize,
    },
    /// A custom-serialised value; to decoders that do not know this, BINARY with a length.
    Custom {
        /// 0–31
        protocol: u8,
        /// For the protocol's decoder.
        schema: Box<[u8]>,
    },
    /// A text of the schema's: no bytes of the payload.
    Constant(Box<str>),
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// One, which is no array.
    One,
    /// An array of so many.
    Fixed(u16),
    /// An array; a `u16` before it tells.
    Prefixed,
    /// An array; the field with this index tells.
    Field(usize),
    /// An array; as many as the rest of the payload holds, of a type whose size does not depend on the payload.
    Rest,
}

/// How long a text or binary value is: characters or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As its type says.
    Own,
    /// So long.
    Fixed(u16),
    /// The field with this index tells.
    Field(usize),
}

impl Field {
    /// A single value.
    pub fn new(name: impl Into<String>, wire: Wire, show: Show) -> Field {
        Field {
            name: name.into(),
            kind: Kind::Scalar { wire, show },
            types: tdh_types(wire, show),
            count: Count::One,
            length: Length::Own,
            map: None,
            tag: 0,
            no_print: false,
            is_custom_length: false,
            json_key: Box::default(),
        }
    }

    /// The name as a JSON key with quotes and colon; a name that a sibling had before has `#2`, `#3`, … behind it.
    #[inline]
    pub fn json_key(&self) -> &[u8] {
        &self.json_key
    }

    /// The name, made unique among its siblings like [`json_key`](Field::json_key).
    pub(crate) fn unique_name(&self) -> &str {
        let key = self.json_key.strip_prefix(b"\"").and_then(|key| key.strip_suffix(b"\":"));
        match key.map(std::str::from_utf8) {
            // A name with escapes stays as it is.
            Some(Ok(key)) if !key.contains('\\') => key,
            _ => &self.name,
        }
    }

    /// Whether it is a struct, or an array of structs.
    pub fn is_struct(&self) -> bool {
        matches!(self.kind, Kind::Struct { .. })
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        self.count != Count::One
    }
}

impl Schema {
    /// Puts a schema together; `top_level` of the fields are the event's own.
    pub fn new(names: Names, mut fields: Vec<Field>, top_level: usize) -> Schema {
        let top_level = top_level.min(fields.len());
        name_siblings(&mut fields[..top_level]);
        for index in 0..fields.len() {
            if let Kind::Struct { first, count } = fields[index].kind {
                // Members behind their struct; a range that several structs share gets the same names again.
                let range = first..first.saturating_add(count);
                if first > index
                    && let Some(members) = fields.get_mut(range)
                {
                    name_siblings(members);
                }
            }
        }
        let refers = |field: &Field| {
            matches!(field.count, Count::Field(_)) || matches!(field.length, Length::Field(_))
        };
        Schema {
            has_references: fields.iter().any(refers),
            names,
            fields,
            top_level,
            message: None,
            tag: 0,
            ends_early: false,
            wpp: None,
        }
    }

    /// Approximate bytes of memory it takes.
    pub(crate) fn size(&self) -> usize {
        let fields = self.fields.iter().map(|field| {
            let custom = match &field.kind {
                Kind::Custom { schema, .. } => schema.len(),
                Kind::Constant(text) => text.len(),
                _ => 0,
            };
            size_of::<Field>() + field.name.len() * 2 + custom
        });
        let names = &self.names;
        let single = [
            &names.provider,
            &names.event,
            &names.level,
            &names.channel,
            &names.task,
            &names.opcode,
        ];
        let names = names.keywords.iter().chain(single.into_iter().flatten()).map(String::len);
        let message = self.message.as_ref().map_or(0, Message::size)
            + self.wpp.as_ref().map_or(0, |wpp| wpp.size());
        size_of::<Schema>() + fields.sum::<usize>() + names.sum::<usize>() + message
    }
}

/// JSON keys: a name that a sibling had before gets `#2`, `#3`, …, whichever is free.
fn name_siblings(fields: &mut [Field]) {
    // Of each key that is taken, the number to try next.
    let mut taken: HashMap<String, u32> = HashMap::new();
    for field in fields {
        if field.is_custom_length {
            continue;
        }
        let mut name = Cow::Borrowed(field.name.as_str());
        if let Some(&(mut number)) = taken.get(&*name) {
            while taken.contains_key(&*name) {
                name = Cow::Owned(format!("{}#{number}", field.name));
                number += 1;
            }
            taken.insert(field.name.clone(), number);
        }
        let mut key = Vec::with_capacity(name.len() + 3);
        write_json_string(&mut key, &name);
        key.push(b':');
        taken.insert(name.into_owned(), 2);
        field.json_key = key.into();
    }
}

/// Names of an integer's values.
#[doc(alias = "EVENT_MAP_INFO")]
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Map {
    /// Its name in the manifest.
    pub name: String,
    /// Whole values or single bits.
    pub kind: MapKind,
    /// Value or bit, and its name.
    pub entries: Vec<(u32, String)>,
}

/// What the entries of a map stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MapKind {
    /// The whole value.
    #[default]
    Value,
    /// Bits of it.
    Bits,
}

impl Map {
    /// The value's name; names of its bits joined by `|`, bits without one as hex at the end.
    pub fn name_of(&self, value: u64) -> Option<Cow<'_, str>> {
        match self.kind {
            MapKind::Value => {
                let entry = self.entries.iter().find(|entry| u64::from(entry.0) == value)?;
                Some(Cow::Borrowed(&entry.1))
            }
            MapKind::Bits => self.bits(value).map(Cow::Owned),
        }
    }

    /// Bytes of [`name_of`](Map::name_of), for what it costs to write.
    pub(crate) fn name_length(&self, value: u64) -> Option<usize> {
        match self.kind {
            MapKind::Value => self.name_of(value).map(|name| name.len()),
            MapKind::Bits => {
                let set = self.entries.iter().filter(|entry| is_set(entry.0, value));
                let length = set.map(|entry| entry.1.len() + 1).sum();
                (length > 0).then_some(length)
            }
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn size(&self) -> usize {
        let names = self.entries.iter().map(|entry| size_of_val(entry) + entry.1.len());
        size_of::<Map>() + self.name.len() * 2 + names.sum::<usize>()
    }

    fn bits(&self, value: u64) -> Option<String> {
        let mut left = value;
        let mut text = String::new();
        for (bits, name) in &self.entries {
            if is_set(*bits, value) {
                let separator = if text.is_empty() { "" } else { "|" };
                let _ = write!(text, "{separator}{name}");
                left &= !u64::from(*bits);
            }
        }
        if text.is_empty() {
            return None;
        }
        if left != 0 {
            let _ = write!(text, "|{left:#x}");
        }
        Some(text)
    }
}

fn is_set(bits: u32, value: u64) -> bool {
    let bits = u64::from(bits);
    if bits == 0 { value == 0 } else { value & bits == bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_from_task_and_opcode() {
        let name = |event: Option<&str>, task: Option<&str>, opcode: Option<&str>| {
            let mut names = Names {
                event: event.map(String::from),
                task: task.map(String::from),
                opcode: opcode.map(String::from),
                ..Names::default()
            };
            names.resolve_event();
            names.event
        };
        assert_eq!(name(Some("E"), Some("T"), Some("O")).as_deref(), Some("E"));
        assert_eq!(name(None, Some("T"), Some("win:Start")).as_deref(), Some("T/Start"));
        assert_eq!(name(None, Some("T"), Some("win:Info")).as_deref(), Some("T"));
        assert_eq!(name(None, Some("T"), None).as_deref(), Some("T"));
        assert_eq!(name(None, None, Some("Start")), None);
    }

    #[test]
    fn repeated_names_are_numbered() {
        let fields = ["a", "b", "a", "a"].map(|name| Field::new(name, Wire::U8, Show::Plain));
        let schema = Schema::new(Names::default(), fields.to_vec(), 4);
        let keys: Vec<_> = schema.fields.iter().map(|f| &*f.json_key).collect();
        assert_eq!(keys, [&b"\"a\":"[..], b"\"b\":", b"\"a#2\":", b"\"a#3\":"]);
    }

    #[test]
    fn keys_are_unique_beside_names_that_look_numbered() {
        let fields =
            ["a", "a#2", "a", "a", "a#2"].map(|name| Field::new(name, Wire::U8, Show::Plain));
        let schema = Schema::new(Names::default(), fields.to_vec(), 5);
        let keys: Vec<_> =
            schema.fields.iter().map(|f| String::from_utf8_lossy(&f.json_key)).collect();
        assert_eq!(keys, ["\"a\":", "\"a#2\":", "\"a#3\":", "\"a#4\":", "\"a#2#2\":"]);
    }

    #[test]
    fn maps() {
        let entries = vec![(1, "one".into()), (4, "four".into()), (2, "two".into())];
        let mut map = Map { name: "m".into(), kind: MapKind::Value, entries };
        assert_eq!(map.name_of(4).as_deref(), Some("four"));
        assert_eq!(map.name_of(5), None);
        map.kind = MapKind::Bits;
        assert_eq!(map.name_of(5).as_deref(), Some("one|four"));
        assert_eq!(map.name_of(0x13).as_deref(), Some("one|two|0x10"));
        assert_eq!(map.name_of(0), None);
        assert_eq!(map.name_of(8), None);
    }
}
