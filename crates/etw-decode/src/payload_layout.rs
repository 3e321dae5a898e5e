//! The layout of a manifest event's payload, as TraceLogging metadata that sessions read.

use etw_tracelogging::{Count as MetaCount, InType, MetadataBuilder, OutType, Wire};

use crate::field::{Count, Field, Kind, Length};
use crate::schema::Schema;

/// How deep structures may lie inside one another.
const MAX_DEPTH: u8 = 8;

/// The layout of an event's payload for filters on its fields: events of manifests carry no metadata, and sessions have no manifests.
#[derive(Clone, Debug)]
pub struct PayloadLayout {
    builder: MetadataBuilder,
    fields: Vec<String>,
}

impl PayloadLayout {
    /// The layout of a schema up to the first field whose size the payload does not give, or that TraceLogging cannot express: no field
    /// behind it has a known offset.
    pub fn of(schema: &Schema) -> PayloadLayout {
        let mut layout = PayloadLayout { builder: MetadataBuilder::new("", 0), fields: Vec::new() };
        for field in &schema.fields[..schema.top_level] {
            match layout.clone().field(schema, field, "", 0) {
                Some(longer) => layout = longer,
                None => break,
            }
        }
        layout
    }

    /// The fields that a filter can compare, members of structures as `Structure.Member`.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// TraceLogging metadata of an event without a name; `None` if it would be too long.
    pub fn metadata(self) -> Option<Vec<u8>> {
        self.builder.finish().ok()
    }

    fn field(
        self,
        schema: &Schema,
        field: &Field,
        outer: &str,
        depth: u8,
    ) -> Option<PayloadLayout> {
        let PayloadLayout { builder, mut fields } = self;
        let count = match field.count {
            Count::One => MetaCount::Scalar,
            Count::Fixed(count) => MetaCount::Fixed(count),
            Count::Prefixed => MetaCount::Variable,
            _ => return None,
        };
        match &field.kind {
            Kind::Constant(_) => Some(PayloadLayout { builder, fields }),
            Kind::Struct { first, count: members } => {
                let range = schema.fields.get(*first..first.checked_add(*members)?)?;
                if depth >= MAX_DEPTH {
                    return None;
                }
                let path = format!("{outer}{}.", field.name);
                let members = (*members).try_into().ok()?;
                let builder = builder.structure(&field.name, members, count, 0);
                let mut layout = PayloadLayout { builder, fields };
                for member in range {
                    layout = layout.field(schema, member, &path, depth + 1)?;
                }
                Some(layout)
            }
            Kind::Scalar { wire, .. } => {
                let (in_type, length) = match (wire, field.length) {
                    (Wire::Nothing, _) => return Some(PayloadLayout { builder, fields }),
                    // A text of fixed length becomes an array of numbers: the session skips it and cannot compare it.
                    (Wire::Utf16, Length::Fixed(length)) => (InType::UINT16, Some(length)),
                    (Wire::Ansi | Wire::Binary, Length::Fixed(length)) => {
                        (InType::UINT8, Some(length))
                    }
                    (_, Length::Own) => (InType::of_wire(*wire)?, None),
                    _ => return None,
                };
                let count = match (length, count) {
                    (None, count) => {
                        fields.push(format!("{outer}{}", field.name));
                        count
                    }
                    (Some(length), MetaCount::Scalar) => MetaCount::Fixed(length),
                    (Some(length), MetaCount::Fixed(count)) => {
                        MetaCount::Fixed(length.checked_mul(count)?)
                    }
                    (Some(_), MetaCount::Variable) => return None,
                };
                let builder = builder.field(&field.name, in_type, OutType(0), count, 0);
                Some(PayloadLayout { builder, fields })
            }
            _ => None,
        }
    }
}
