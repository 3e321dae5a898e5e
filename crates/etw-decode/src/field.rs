//! [`Field`]: name, type, count and length of one field.

use crate::block_text::BlockText;
use crate::map::Map;
use crate::text::write_json_string;
use etw_tracelogging::tdh::{InType, OutType};
use etw_tracelogging::{Show, Wire, tdh_types};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// One field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// As the schema has it.
    pub name: String,
    /// How its values are stored.
    pub kind: Kind,
    /// TDH's types: those of the schema, or equivalent ones. A struct's are meaningless.
    pub types: (InType, OutType),
    /// How often.
    pub count: Count,
    /// The length of text and bytes without a length of their own. A custom field with `Length::Own` has a `u16` before it.
    pub length: Length,
    /// Names of its values.
    pub map: Option<Arc<Map>>,
    /// 28 bits whose meaning the provider and its consumers define.
    pub tag: u32,
    /// Asks not to be shown to people.
    pub no_print: bool,
    /// The length of the custom-serialised field behind it: JSON, CSV and text show the two as one.
    pub is_custom_length: bool,
    /// A comma, and the name as a JSON key with quotes and colon, made unique among its siblings.
    pub(crate) json_key: BlockText,
    /// Whether the name is of visible ASCII characters that no format escapes.
    pub(crate) has_plain_name: bool,
}

/// How values of a field are stored.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// A value.
    Scalar {
        /// How it lies in the payload.
        wire: Wire,
        /// How it is shown.
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
    /// A text of the schema; it takes no bytes of the payload.
    Constant(Box<str>),
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Count {
    /// One value, not an array.
    One,
    /// An array of this many.
    Fixed(u16),
    /// An array; a `u16` before it is the count.
    Prefixed,
    /// An array; the field with this index is the count.
    Field(usize),
    /// An array; as many as the rest of the payload holds, of a type whose size does not depend on the payload.
    Rest,
}

/// How long a text or binary value is: characters or bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Length {
    /// As its type says.
    Own,
    /// This length.
    Fixed(u16),
    /// The field with this index is the length.
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
            json_key: BlockText::default(),
            has_plain_name: false,
        }
    }

    /// Whether the name is of ASCII letters, digits and other visible characters that neither JSON nor XML escapes. May be false for
    /// such a name, too.
    #[inline]
    pub fn has_plain_name(&self) -> bool {
        self.has_plain_name
    }

    /// The name as a JSON key with quotes and colon; a name that a sibling had before has `#2`, `#3`, … behind it.
    #[inline]
    pub fn json_key(&self) -> &[u8] {
        self.json_key.as_bytes().get(1..).unwrap_or_default()
    }

    /// Appends the [`json_key`](Field::json_key), with a comma before it unless it is the first one of an object.
    #[inline(always)]
    pub fn put_json_key(&self, out: &mut Vec<u8>, is_first: bool) {
        match is_first {
            true => self.json_key.put_part::<1>(out, self.json_key.len()),
            false => self.json_key.put(out),
        }
    }

    /// Appends the name.
    #[inline(always)]
    pub fn put_name(&self, out: &mut Vec<u8>) {
        let length = self.name.len();
        // A key that is as long is the name between a comma, quotes and a colon.
        match self.has_plain_name && self.json_key.len() == length + 4 {
            true => self.json_key.put_part::<2>(out, 2 + length),
            false => out.extend_from_slice(self.name.as_bytes()),
        }
    }

    /// The name, made unique among its siblings like [`json_key`](Field::json_key).
    pub fn unique_name(&self) -> &str {
        let key = self.json_key().strip_prefix(b"\"").and_then(|key| key.strip_suffix(b"\":"));
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

/// JSON keys: a name that a sibling had before gets `#2`, `#3`, …, whichever is free.
pub(crate) fn name_siblings(fields: &mut [Field]) {
    // The number to try next, for each key that is taken.
    let mut taken: HashMap<String, u32> = HashMap::new();
    for field in fields {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !b"\"&'<>\\".contains(byte);
        field.has_plain_name = field.name.as_bytes().iter().all(is_plain);
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
        let mut key = Vec::with_capacity(name.len() + 4);
        key.push(b',');
        write_json_string(&mut key, &name);
        key.push(b':');
        taken.insert(name.into_owned(), 2);
        field.json_key = BlockText::new(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Names, Schema};

    #[test]
    fn repeated_names_are_numbered() {
        let fields = ["a", "b", "a", "a"].map(|name| Field::new(name, Wire::U8, Show::Plain));
        let schema = Schema::new(Names::default(), fields.to_vec(), 4);
        let keys: Vec<_> = schema.fields.iter().map(Field::json_key).collect();
        assert_eq!(keys, [&b"\"a\":"[..], b"\"b\":", b"\"a#2\":", b"\"a#3\":"]);
    }

    #[test]
    fn keys_are_unique_beside_names_that_look_numbered() {
        let fields =
            ["a", "a#2", "a", "a", "a#2"].map(|name| Field::new(name, Wire::U8, Show::Plain));
        let schema = Schema::new(Names::default(), fields.to_vec(), 5);
        let keys: Vec<_> =
            schema.fields.iter().map(|f| String::from_utf8_lossy(f.json_key())).collect();
        assert_eq!(keys, ["\"a\":", "\"a#2\":", "\"a#3\":", "\"a#4\":", "\"a#2#2\":"]);
    }
}
