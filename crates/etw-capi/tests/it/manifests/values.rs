//! Values for every field of a manifest's events, and the payload that the manifest says they have.

use etw_mc::manifest::{Extent, Field};
use etw_tracelogging::tdh::InType;

/// A value of a field.
#[derive(Clone, Debug)]
pub enum Value {
    /// An integer, a Boolean, a pointer, or the bits of a floating-point number.
    Number(u64),
    /// Text without a NUL or a size, or bytes.
    Bytes(Vec<u8>),
    Array(Vec<Value>),
    Struct(Vec<Value>),
}

/// Values that differ from event to event and from field to field.
pub struct Source(pub u64);

impl Source {
    fn next(&mut self) -> u64 {
        // Steele, Lea, Flood: SplitMix.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }

    /// Values for a template's fields, or for a struct's members.
    pub fn values(&mut self, fields: &[Field]) -> Vec<Value> {
        let mut values: Vec<Value> = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let is_size = fields
                .iter()
                .any(|other| [other.length, other.count].contains(&Extent::Field(index as u16)));
            let value = match (is_size, field.count) {
                (true, _) => Value::Number(2 + self.next() % 3),
                (false, Extent::None) => self.one(field, &values),
                (false, count) => {
                    let count = number_of(count, &values).unwrap_or(0);
                    Value::Array((0..count).map(|_| self.one(field, &values)).collect())
                }
            };
            values.push(value);
        }
        values
    }

    fn one(&mut self, field: &Field, before: &[Value]) -> Value {
        if !field.members.is_empty() {
            return Value::Struct(self.values(&field.members));
        }
        let length = number_of(field.length, before);
        let mut letters = |count: u64| -> Vec<u8> {
            (0..count).map(|_| b'a' + (self.next() % 26) as u8).collect()
        };
        match field.in_type {
            InType::UNICODESTRING | InType::MANIFEST_COUNTEDSTRING => {
                let text = letters(length.unwrap_or(5));
                // Every second letter is one of two bytes that are not zero.
                let units = text.chunks(2).flat_map(|pair| match pair {
                    [a, b] => vec![*a, 0, *b, 4],
                    _ => vec![pair[0], 0],
                });
                Value::Bytes(units.collect())
            }
            InType::ANSISTRING | InType::MANIFEST_COUNTEDANSISTRING => {
                Value::Bytes(letters(length.unwrap_or(7)))
            }
            InType::BINARY | InType::MANIFEST_COUNTEDBINARY => {
                Value::Bytes(letters(length.unwrap_or(3)))
            }
            InType::GUID | InType::SYSTEMTIME => Value::Bytes(letters(16)),
            InType::FILETIME => Value::Bytes(self.next().to_le_bytes().to_vec()),
            InType::SID => {
                let mut sid = vec![1, 2, 0, 0, 0, 0, 0, 5];
                sid.extend(letters(8));
                Value::Bytes(sid)
            }
            InType::BOOLEAN => Value::Number(self.next() % 2),
            InType::FLOAT => Value::Number(((self.next() % 1000) as f32 + 0.5).to_bits().into()),
            InType::DOUBLE => Value::Number(((self.next() % 1000) as f64 - 500.25).to_bits()),
            in_type => {
                let bits = 8 * size_of(in_type);
                // Maps know small numbers.
                let value = if field.map.is_some() { self.next() % 4 } else { self.next() };
                Value::Number(if bits == 64 { value } else { value & ((1 << bits) - 1) })
            }
        }
    }
}

fn number_of(extent: Extent, before: &[Value]) -> Option<u64> {
    match extent {
        Extent::None => None,
        Extent::Fixed(number) => Some(number.into()),
        Extent::Field(index) => match &before[usize::from(index)] {
            Value::Number(number) => Some(*number),
            other => panic!("{other:?} is not a number"),
        },
    }
}

/// Bytes of a number.
pub fn size_of(in_type: InType) -> usize {
    in_type.fixed_size(8).unwrap_or_else(|| panic!("{in_type:?} has no size of its own"))
}

/// The bytes of a field in the payload.
pub fn payload(field: &Field, value: &Value) -> Vec<u8> {
    match value {
        Value::Array(items) => items.iter().flat_map(|item| payload(field, item)).collect(),
        Value::Struct(members) => payload_of(&field.members, members),
        Value::Number(number) => number.to_le_bytes()[..size_of(field.in_type)].to_vec(),
        Value::Bytes(bytes) => {
            let nul: &[u8] = match (field.in_type, field.length) {
                (InType::UNICODESTRING, Extent::None) => &[0, 0],
                (InType::ANSISTRING, Extent::None) => &[0],
                _ => &[],
            };
            match field.in_type {
                InType::MANIFEST_COUNTEDSTRING
                | InType::MANIFEST_COUNTEDANSISTRING
                | InType::MANIFEST_COUNTEDBINARY => {
                    [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat()
                }
                _ => [bytes, nul].concat(),
            }
        }
    }
}

/// The payload of an event, or the bytes of a struct.
pub fn payload_of(fields: &[Field], values: &[Value]) -> Vec<u8> {
    fields.iter().zip(values).flat_map(|(field, value)| payload(field, value)).collect()
}
