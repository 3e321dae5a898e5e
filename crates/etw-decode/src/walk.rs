//! The walk: a schema over a payload.

use crate::field::{Count, Field, Kind, Length};
use crate::integers::{Integers, Number};
use crate::read::{counted, is_half_character, read, stored_integer};
use crate::schema::Schema;
use crate::text::Text;
use crate::value::Value;
use crate::visitor::{Visitor, visit_each};
use etw_types::le;
use std::fmt;

/// Why a payload does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadError {
    /// The payload ends inside a field.
    Short {
        /// The name of the field.
        field: String,
        /// The offset of its start in the payload.
        offset: usize,
    },
    /// The payload ends before a field, where it may be shorter than the schema.
    Missing {
        /// The name of the field.
        field: String,
        /// The size of the payload.
        offset: usize,
    },
    /// Nested arrays make more values of the payload than an event can hold.
    TooMuch,
    /// A struct's members are not behind it.
    BadStruct,
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PayloadError::Short { field, offset } => {
                write!(f, "payload ends inside field {field:?} at offset {offset}")
            }
            PayloadError::Missing { field, offset } => {
                write!(f, "payload ends before field {field:?} at offset {offset}")
            }
            PayloadError::TooMuch => {
                f.write_str("nested arrays of more values than an event holds")
            }
            PayloadError::BadStruct => f.write_str("a struct of the schema holds itself"),
        }
    }
}

impl std::error::Error for PayloadError {}

/// The budget of one event: fields and values, plus the characters of their names and of the names of their values.
///
/// The largest honest event has 64 KiB of one-byte values; the rest is for names that repeat in arrays of structs.
pub(crate) const BUDGET: usize = 4 << 20;
/// Deeper than any encoder nests. Two brackets for each level and one for an array of values fit into 128 bits.
const DEPTH: usize = 60;

/// Values of so many fields that others refer to are kept without an allocation.
const FEW: usize = 16;

/// How far a walk came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Bytes of the payload that the visited fields take; the rest begins behind them.
    pub used: usize,
    /// The first field that is missing, if the payload ends behind the field before it and the schema does not say that builds differ there.
    /// Fields before it are whole.
    pub missing: Option<usize>,
    /// Why the walk ended before the last field.
    pub error: Option<PayloadError>,
}

/// Runs `schema` over `payload`; returns how many bytes the fields take.
///
/// Bytes behind the last field are left to the caller. Text without its NUL ends with the payload.
///
/// # Errors
/// [`PayloadError`]. `visitor` has received the fields before the error, as with [`walk_part`].
pub fn walk(
    schema: &Schema,
    payload: &[u8],
    pointer_size: u8,
    visitor: &mut impl Visitor,
) -> Result<usize, PayloadError> {
    let Walked { used, error, .. } = walk_part(schema, payload, pointer_size, visitor);
    match error {
        None => Ok(used),
        Some(error) => Err(error),
    }
}

/// Runs `schema` over `payload`, as far as the payload goes. If it ends early, `visitor` receives the fields before that, and the
/// end of each array and struct that was begun.
pub fn walk_part(
    schema: &Schema,
    payload: &[u8],
    pointer_size: u8,
    visitor: &mut impl Visitor,
) -> Walked {
    match schema.has_single_fields() {
        true => walk_single(schema, payload, pointer_size, visitor),
        false => walk_any(schema, payload, pointer_size, visitor),
    }
}

/// [`walk_part`] of all schemas. Not inlined: single fields are walked without its memory.
#[inline(never)]
fn walk_any(
    schema: &Schema,
    payload: &[u8],
    pointer_size: u8,
    visitor: &mut impl Visitor,
) -> Walked {
    let (mut few, mut many) = ([0; FEW], Vec::new());
    let referred = match schema.fields.len() {
        _ if !schema.has_references => &mut [][..],
        count if count <= FEW => &mut few[..count],
        count => {
            many.resize(count, 0);
            &mut many[..]
        }
    };
    let mut walker = Walker {
        schema,
        payload,
        at: 0,
        pointer_size,
        referred,
        budget: BUDGET,
        depth: 0,
        is_cut: false,
        missing: None,
        visitor,
    };
    let error = walker.fields(0, schema.top_level).err();
    Walked { used: walker.at, missing: walker.missing, error }
}

/// [`walk_part`] of fields without arrays and structs, whose lengths do not refer to other fields and whose walk cannot exceed its budget.
fn walk_single(
    schema: &Schema,
    payload: &[u8],
    pointer_size: u8,
    visitor: &mut impl Visitor,
) -> Walked {
    let fields = &schema.fields[..schema.top_level];
    let mut at = 0;
    for (number, field) in fields.iter().enumerate() {
        if schema.ends_early && at == payload.len() && number > 0 {
            let missing = (number < schema.optional_from).then_some(number);
            return Walked { used: at, missing, error: None };
        }
        let length = match field.length {
            Length::Fixed(length) => Some(usize::from(length)),
            _ => None,
        };
        let Some((mut value, taken)) = value_of(field, &payload[at..], length, pointer_size) else {
            let error = PayloadError::Short { field: field.name.clone(), offset: at };
            return Walked { used: at, missing: None, error: Some(error) };
        };
        visitor.place(at..at + taken);
        at += taken;
        if let Some(map) = &field.map {
            let number = value.as_u64().filter(|number| map.name_length(*number).is_some());
            value = number.map_or(value, |value| Value::Mapped { value, map });
        }
        visitor.value(field, value);
        if visitor.is_done() {
            break;
        }
        if is_half_character(field, payload, at) {
            let behind = fields.get(number + 1);
            let error =
                behind.map(|field| PayloadError::Short { field: field.name.clone(), offset: at });
            return Walked { used: at, missing: None, error };
        }
    }
    Walked { used: at, missing: None, error: None }
}

/// The value of a field at the front of `rest`, and its size in bytes. `None` if `rest` is too short, or for a struct.
#[inline(always)]
fn value_of<'a>(
    field: &'a Field,
    rest: &'a [u8],
    length: Option<usize>,
    pointer_size: u8,
) -> Option<(Value<'a>, usize)> {
    match &field.kind {
        Kind::Scalar { wire, show } => read(*wire, *show, rest, length, pointer_size),
        Kind::Custom { protocol, schema } => match length {
            Some(length) => rest.get(..length).map(|data| (data, length)),
            None => counted(rest, false),
        }
        .map(|(data, taken)| (Value::Custom { protocol: *protocol, schema, data }, taken)),
        Kind::Constant(text) => Some((Value::Text(Text::Utf8(text.as_bytes())), 0)),
        Kind::Struct { .. } => None,
    }
}

struct Walker<'a, V> {
    schema: &'a Schema,
    payload: &'a [u8],
    at: usize,
    pointer_size: u8,
    /// Last value of each field, where lengths or counts refer to fields.
    referred: &'a mut [u64],
    budget: usize,
    depth: usize,
    /// The payload ends with half a character of a text.
    is_cut: bool,
    /// See [`Walked::missing`].
    missing: Option<usize>,
    visitor: &'a mut V,
}

impl<'a, V: Visitor> Walker<'a, V> {
    fn fields(&mut self, first: usize, count: usize) -> Result<(), PayloadError> {
        let fields = &self.schema.fields[first..first + count];
        for (number, field) in fields.iter().enumerate() {
            let is_over = self.at == self.payload.len() && number > 0;
            if self.schema.ends_early && self.depth == 0 && is_over {
                let is_needed = |number: &usize| self.needs_bytes(&fields[*number]);
                let missing = (number..fields.len()).find(is_needed);
                self.missing = missing.filter(|number| *number < self.schema.optional_from);
                break;
            }
            self.field(first + number, field)?;
            if self.visitor.is_done() {
                break;
            }
        }
        Ok(())
    }

    fn field(&mut self, index: usize, field: &'a Field) -> Result<(), PayloadError> {
        if self.is_cut {
            return Err(self.short(field));
        }
        // Also for an array that turns out empty: it is named like any other.
        self.charge(1 + field.name.len())?;
        let count = match field.count {
            Count::One => return self.one(index, field),
            Count::Fixed(count) => usize::from(count),
            Count::Prefixed => {
                let count = le::u16(self.payload, self.at).ok_or_else(|| self.short(field))?;
                self.at += 2;
                usize::from(count)
            }
            Count::Field(source) => self.refer(source),
            Count::Rest => match field.kind {
                Kind::Scalar { wire, .. } => {
                    let size = wire.fixed_size(self.pointer_size).unwrap_or(0);
                    (self.payload.len() - self.at).checked_div(size).unwrap_or(0)
                }
                _ => 0,
            },
        };
        self.visitor.begin_array(field, count);
        let result = match Number::of(field, self.pointer_size) {
            Some(number) => self.numbers(index, field, number, count),
            None => self.elements(index, field, count),
        };
        self.visitor.end_array(field);
        result
    }

    /// The elements of an array.
    fn elements(
        &mut self,
        index: usize,
        field: &'a Field,
        count: usize,
    ) -> Result<(), PayloadError> {
        for _ in 0..count {
            if self.visitor.is_done() {
                break;
            }
            self.charge(1)?;
            self.one(index, field)?;
        }
        Ok(())
    }

    /// [`elements`](Walker::elements) of integers: their field is looked at once.
    fn numbers(
        &mut self,
        index: usize,
        field: &'a Field,
        number: Number,
        count: usize,
    ) -> Result<(), PayloadError> {
        let rest = &self.payload[self.at..];
        let whole = count.min(rest.len() / number.size).min(self.budget);
        let size = whole * number.size;
        let mut integers = Integers::new(number, &rest[..size], self.at);
        match number.is_plain() {
            true => self.visitor.integers(field, &mut integers),
            false => visit_each(&mut integers, field, self.visitor),
        }
        let taken = size - integers.rest_size();
        self.budget -= taken / number.size;
        self.at += taken;
        if taken < size {
            return Ok(());
        }
        if let (Some(slot), true) = (self.referred.get_mut(index), whole > 0) {
            // Where another field refers to an array, its last value counts.
            *slot = stored_integer(field, &rest[(whole - 1) * number.size..whole * number.size]);
        }
        if whole == count || self.visitor.is_done() {
            return Ok(());
        }
        self.charge(1)?;
        Err(self.short(field))
    }

    fn one(&mut self, index: usize, field: &'a Field) -> Result<(), PayloadError> {
        let Kind::Struct { first, count } = field.kind else { return self.value(index, field) };
        // Structs lie behind the one that holds them, so this ends; depth bounds the stack.
        let behind = first > index && first.saturating_add(count) <= self.schema.fields.len();
        if !(behind || count == 0) || self.depth >= DEPTH {
            return Err(PayloadError::BadStruct);
        }
        // Some forms name every struct of an array.
        self.charge(field.name.len())?;
        self.visitor.begin_struct(field);
        let mut result = Ok(());
        if count > 0 {
            self.depth += 1;
            result = self.fields(first, count);
            self.depth -= 1;
        }
        self.visitor.end_struct(field);
        result
    }

    #[inline]
    fn value(&mut self, index: usize, field: &'a Field) -> Result<(), PayloadError> {
        let length = match field.length {
            Length::Own => None,
            Length::Fixed(length) => Some(usize::from(length)),
            Length::Field(source) => Some(self.refer(source)),
        };
        let rest = &self.payload[self.at..];
        let read = value_of(field, rest, length, self.pointer_size);
        let (mut value, taken) = read.ok_or_else(|| self.short(field))?;
        self.visitor.place(self.at..self.at + taken);
        self.at += taken;
        self.is_cut = is_half_character(field, self.payload, self.at);
        if let Some(slot) = self.referred.get_mut(index) {
            *slot = stored_integer(field, &rest[..taken]);
        }
        if let Some(map) = &field.map {
            if let Some(number) = value.as_u64() {
                // Looking a value up costs something too.
                self.charge(map.entries.len() / 8)?;
                if let Some(length) = map.name_length(number) {
                    self.charge(length)?;
                    value = Value::Mapped { value: number, map };
                }
            }
        }
        self.visitor.value(field, value);
        Ok(())
    }

    /// Whether a field that begins where the payload ends is missing, and not an array without elements.
    fn needs_bytes(&self, field: &Field) -> bool {
        match field.count {
            Count::One | Count::Prefixed => true,
            Count::Fixed(count) => count > 0,
            Count::Field(source) => self.refer(source) > 0,
            Count::Rest => false,
        }
    }

    #[inline]
    fn charge(&mut self, cost: usize) -> Result<(), PayloadError> {
        self.budget = self.budget.checked_sub(cost).ok_or(PayloadError::TooMuch)?;
        Ok(())
    }

    fn refer(&self, source: usize) -> usize {
        let value = self.referred.get(source).copied().unwrap_or(0);
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    #[cold]
    fn short(&self, field: &Field) -> PayloadError {
        PayloadError::Short { field: field.name.clone(), offset: self.at }
    }
}
