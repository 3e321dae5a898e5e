//! [`FieldValue`] and [`Fields`]: an event's fields as owned values.

use crate::decoded::Decoded;
use crate::field::Field;
use crate::value::{Style, Value};
use crate::visitor::Visitor;
use crate::walk::PayloadError;
use etw_types::{EventRecord, FileTime, Guid, SystemTime};

/// A field's value, owned.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldValue {
    /// A field without bytes.
    Null,
    /// Signed
    Int(i64),
    /// Unsigned, hex and pointers too.
    UInt(u64),
    /// true or false
    Bool(bool),
    /// Single or double.
    Float(f64),
    /// Text; an address or SID in its usual form.
    Text(String),
    /// GUID
    Guid(Guid),
    /// FILETIME, or SYSTEMTIME as one.
    Time(FileTime),
    /// Bytes
    Bytes(Vec<u8>),
    /// An integer that its schema names.
    Named(u64, String),
    /// An array.
    List(Vec<FieldValue>),
    /// A structure, in order.
    Struct(Vec<(String, FieldValue)>),
}

impl FieldValue {
    /// As an unsigned number, if it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            FieldValue::Int(value) => u64::try_from(*value).ok(),
            FieldValue::UInt(value) | FieldValue::Named(value, _) => Some(*value),
            FieldValue::Bool(value) => Some(u64::from(*value)),
            _ => None,
        }
    }

    /// As a signed number, if it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            FieldValue::Int(value) => Some(*value),
            other => i64::try_from(other.as_u64()?).ok(),
        }
    }

    /// As a floating number, if it is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            FieldValue::Float(value) => Some(*value),
            FieldValue::Int(value) => Some(*value as f64),
            other => other.as_u64().map(|value| value as f64),
        }
    }

    /// As a truth value: true, false, or a number that is not zero.
    pub fn as_bool(&self) -> Option<bool> {
        self.as_u64().map(|value| value != 0)
    }

    /// Its text; of a named number the name.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            FieldValue::Text(text) | FieldValue::Named(_, text) => Some(text),
            _ => None,
        }
    }

    /// As a GUID, if it is one.
    pub fn as_guid(&self) -> Option<Guid> {
        match self {
            FieldValue::Guid(guid) => Some(*guid),
            _ => None,
        }
    }

    /// As a time, if it is one.
    pub fn as_time(&self) -> Option<FileTime> {
        match self {
            FieldValue::Time(time) => Some(*time),
            _ => None,
        }
    }

    /// Its bytes, if it is bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            FieldValue::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Its elements, if it is an array.
    pub fn as_list(&self) -> Option<&[FieldValue]> {
        match self {
            FieldValue::List(list) => Some(list),
            _ => None,
        }
    }

    /// A member of a structure.
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        match self {
            FieldValue::Struct(members) => find(members, name),
            _ => None,
        }
    }
}

fn find<'f>(fields: &'f [(String, FieldValue)], name: &str) -> Option<&'f FieldValue> {
    fields.iter().find(|(found, _)| found == name).map(|(_, value)| value)
}

/// All fields of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    fields: Vec<(String, FieldValue)>,
}

impl Fields {
    /// The field with a name.
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        find(&self.fields, name)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FieldValue)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl Decoded<'_> {
    /// The event's fields as owned values; `None` if there is no schema. [`visit`](Decoded::visit) visits them without allocating.
    ///
    /// ```
    /// # use etw_decode::Decoder;
    /// # use etw_types::{EventRecord, HeaderType, Hook};
    /// # let mut record = EventRecord::new(HeaderType::PerfInfo64, b"26100\0");
    /// # record.hook = Some(Hook(0x0042));
    /// # let mut decoder = Decoder::new();
    /// # let decoded = decoder.decode(&record);
    /// let fields = decoded.fields(&record)?.unwrap_or_default();
    /// assert_eq!(fields.get("BuildString").and_then(|value| value.as_str()), Some("26100"));
    /// # Ok::<(), etw_decode::PayloadError>(())
    /// ```
    ///
    /// # Errors
    /// The payload does not fit the schema.
    pub fn fields(&self, record: &EventRecord<'_>) -> Result<Option<Fields>, PayloadError> {
        let mut builder = Builder::new();
        if !self.visit(record, &mut builder)? {
            return Ok(None);
        }
        Ok(Some(Fields { fields: builder.open.pop().unwrap_or_default() }))
    }
}

/// Builds values from what a walk visits.
pub(crate) struct Builder {
    /// The top level, and each array and struct that is open.
    open: Vec<Vec<(String, FieldValue)>>,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder { open: vec![Vec::new()] }
    }

    /// Whether every array and struct that was begun is complete, and a value is there.
    pub(crate) fn has_whole_value(&self) -> bool {
        matches!(&self.open[..], [top] if !top.is_empty())
    }

    /// The first value of the top level.
    pub(crate) fn into_value(self) -> Option<FieldValue> {
        self.open.into_iter().next()?.into_iter().next().map(|(_, value)| value)
    }

    fn put(&mut self, field: &Field, value: FieldValue) {
        if let Some(innermost) = self.open.last_mut() {
            innermost.push((field.name.clone(), value));
        }
    }
}

impl Visitor for Builder {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        let text = || {
            let mut text = Vec::new();
            value.write_text(&mut text, &Style::default());
            FieldValue::Text(String::from_utf8_lossy(&text).into_owned())
        };
        let owned = match value {
            Value::Null => FieldValue::Null,
            Value::Int(value) | Value::Status { value, .. } => FieldValue::Int(value),
            Value::UInt(value) | Value::Hex(value) => FieldValue::UInt(value),
            Value::Bool(value) => FieldValue::Bool(value),
            Value::F32(value) => FieldValue::Float(value.into()),
            Value::F64(value) => FieldValue::Float(value),
            Value::Guid(guid) => FieldValue::Guid(guid),
            Value::FileTime(time) => FieldValue::Time(time),
            Value::SystemTime(time) => system_time(&time).map_or_else(text, FieldValue::Time),
            Value::Binary(bytes) | Value::Custom { data: bytes, .. } => {
                FieldValue::Bytes(bytes.to_vec())
            }
            Value::Mapped { value, map } => match map.name_of(value) {
                Some(name) => FieldValue::Named(value, name.into_owned()),
                None => FieldValue::UInt(value),
            },
            _ => text(),
        };
        self.put(field, owned);
    }

    fn begin_array(&mut self, _: &Field, _: usize) {
        self.open.push(Vec::new());
    }

    fn end_array(&mut self, field: &Field) {
        let list =
            self.open.pop().unwrap_or_default().into_iter().map(|(_, value)| value).collect();
        self.put(field, FieldValue::List(list));
    }

    fn begin_struct(&mut self, _: &Field) {
        self.open.push(Vec::new());
    }

    fn end_struct(&mut self, field: &Field) {
        let members = self.open.pop().unwrap_or_default();
        self.put(field, FieldValue::Struct(members));
    }
}

fn system_time(time: &SystemTime) -> Option<FileTime> {
    FileTime::from_system_time(time)
}
