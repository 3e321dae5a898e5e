//! Values of fields, as they lie in a payload.

use etw_tracelogging::{InType, OutType};
use std::fmt::Write;
use tracing_core::Field;
use tracing_core::field::Visit;

/// The kind of a value; 4 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    I64 = 1,
    U64 = 2,
    F64 = 3,
    Bool = 4,
    /// `u16` bytes, UTF-8.
    Text = 5,
    /// `u16` bytes.
    Bytes = 6,
}

impl Kind {
    pub fn types(self) -> (InType, OutType) {
        match self {
            Kind::I64 => (InType::INT64, OutType::NULL),
            Kind::U64 => (InType::UINT64, OutType::NULL),
            Kind::F64 => (InType::DOUBLE, OutType::NULL),
            Kind::Bool => (InType::UINT8, OutType::BOOLEAN),
            Kind::Text => (InType::COUNTEDANSISTRING, OutType::UTF8),
            Kind::Bytes => (InType::BINARY, OutType::NULL),
        }
    }

    fn of(bits: u8) -> Option<Kind> {
        [Kind::I64, Kind::U64, Kind::F64, Kind::Bool, Kind::Text, Kind::Bytes]
            .into_iter()
            .find(|kind| *kind as u8 == bits)
    }
}

/// Kinds of the fields that an event has, by their numbers: `tracing` allows 32 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Shape(u128);

impl Shape {
    fn add(&mut self, field: &Field, kind: Kind) {
        self.0 |= (kind as u128) << (field.index().min(31) * 4);
    }

    /// Fields and their kinds, in order.
    pub fn kinds(self) -> impl Iterator<Item = (usize, Kind)> {
        (0..32)
            .filter_map(move |index| Some((index, Kind::of((self.0 >> (index * 4)) as u8 & 0xf)?)))
    }
}

/// Collects an event's values.
pub(crate) struct Recorder<'b> {
    pub payload: &'b mut Vec<u8>,
    pub shape: Shape,
    /// A value is longer than any event.
    pub is_too_large: bool,
}

impl Recorder<'_> {
    fn counted(&mut self, field: &Field, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.payload.len();
        self.payload.extend([0, 0]);
        write(self.payload);
        match u16::try_from(self.payload.len() - at - 2) {
            Ok(size) => self.payload[at..at + 2].copy_from_slice(&size.to_le_bytes()),
            Err(_) => self.is_too_large = true,
        }
        self.shape.add(field, kind);
    }

    fn plain(&mut self, field: &Field, kind: Kind, bytes: &[u8]) {
        self.payload.extend_from_slice(bytes);
        self.shape.add(field, kind);
    }
}

/// A value whose text fails has the text before that.
fn print(to: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    let _ = Text(to).write_fmt(arguments);
}

/// Appends what is written.
struct Text<'b>(&'b mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl Visit for Recorder<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.plain(field, Kind::F64, &value.to_le_bytes());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, Kind::I64, &value.to_le_bytes());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, Kind::U64, &value.to_le_bytes());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.counted(field, Kind::Text, |to| print(to, format_args!("{value}")));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.counted(field, Kind::Text, |to| print(to, format_args!("{value}")));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, Kind::Bool, &[u8::from(value)]);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.counted(field, Kind::Text, |to| to.extend_from_slice(value.as_bytes()));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        self.counted(field, Kind::Bytes, |to| to.extend_from_slice(value));
    }

    /// With its sources, each behind a colon.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.counted(field, Kind::Text, |to| {
            print(to, format_args!("{value}"));
            let mut source = value.source();
            // Sources that go round in a circle would have no end.
            for _ in 0..64 {
                let Some(error) = source else { break };
                print(to, format_args!(": {error}"));
                source = error.source();
            }
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.counted(field, Kind::Text, |to| print(to, format_args!("{value:?}")));
    }
}
