//! [`measure`]: how much of a payload a schema's fields take, without their values.

use crate::extent::{Extent, FixedFields};
use crate::field::{Count, Kind, Length};
use crate::read::{is_half_character, read};
use crate::schema::Schema;
use crate::walk::{BUDGET, walk_part};
use etw_tracelogging::Wire;

/// How well a schema fits a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Bytes that the fields take.
    pub used: usize,
    /// Whether the payload ends before the last field.
    pub is_cut: bool,
}

impl Extent {
    fn of(schema: &Schema) -> Extent {
        let is_pointer =
            |kind: &Kind| matches!(kind, Kind::Scalar { wire: Wire::Pointer | Wire::WbemSid, .. });
        let has_pointers = schema.fields.iter().any(|field| is_pointer(&field.kind));
        let fields = &schema.fields[..schema.top_level];
        let is_single = fields.iter().all(|field| {
            field.count == Count::One
                && !field.is_struct()
                && !matches!(field.length, Length::Field(_))
        });
        // A walk of single values that cannot exceed its budget.
        let cost = fields.iter().map(|field| {
            let map = field.map.as_ref().map_or(0, |map| map.size());
            1 + field.name.len() + map
        });
        if !is_single || cost.sum::<usize>() >= BUDGET {
            return Extent { has_pointers, fixed: None };
        }
        let mut fixed = FixedFields { count: 0, sizes: [0; 2] };
        for field in fields {
            let size = |pointer_size: u8| match (&field.kind, field.length) {
                (Kind::Constant(_), _) => Some(0),
                (Kind::Scalar { wire: Wire::Utf16, .. }, Length::Fixed(length)) => {
                    Some(2 * usize::from(length))
                }
                (Kind::Scalar { wire: Wire::Ansi | Wire::Binary, .. }, Length::Fixed(length)) => {
                    Some(usize::from(length))
                }
                (Kind::Scalar { wire, .. }, _) => wire.fixed_size(pointer_size),
                _ => None,
            };
            let (Some(narrow), Some(wide)) = (size(4), size(8)) else { break };
            fixed.count += 1;
            fixed.sizes[0] += narrow;
            fixed.sizes[1] += wide;
        }
        Extent { has_pointers, fixed: Some(fixed) }
    }
}

impl Schema {
    fn extent(&self) -> &Extent {
        self.extent.0.get_or_init(|| Extent::of(self))
    }

    /// Whether the size of a field depends on the width of pointers.
    pub(crate) fn has_pointers(&self) -> bool {
        self.extent().has_pointers
    }

    /// Whether its fields are single values whose walk cannot exceed its budget.
    #[inline]
    pub(crate) fn has_single_fields(&self) -> bool {
        self.extent().fixed.is_some()
    }
}

/// Runs a schema over a payload like [`walk_part`], for its size alone.
pub(crate) fn measure(schema: &Schema, payload: &[u8], pointer_size: u8) -> Measured {
    match schema.extent().fixed {
        Some(fixed) => measure_single(schema, fixed, payload, pointer_size),
        None => measure_by_walk(schema, payload, pointer_size),
    }
}

fn measure_by_walk(schema: &Schema, payload: &[u8], pointer_size: u8) -> Measured {
    let walked = walk_part(schema, payload, pointer_size, &mut ());
    Measured { used: walked.used, is_cut: walked.error.is_some() || walked.missing.is_some() }
}

/// Fields without arrays and structs, of which the first have a fixed size.
fn measure_single(
    schema: &Schema,
    fixed: FixedFields,
    payload: &[u8],
    pointer_size: u8,
) -> Measured {
    let mut used = fixed.sizes[usize::from(pointer_size != 4)];
    if payload.len() < used {
        return measure_by_walk(schema, payload, pointer_size);
    }
    for (number, field) in schema.fields[..schema.top_level].iter().enumerate().skip(fixed.count) {
        if schema.ends_early && used == payload.len() && number > 0 {
            return Measured { used, is_cut: number < schema.optional_from };
        }
        let (wire, show) = match &field.kind {
            Kind::Scalar { wire, show } => (wire, show),
            Kind::Constant(_) => continue,
            _ => return measure_by_walk(schema, payload, pointer_size),
        };
        let length = match field.length {
            Length::Fixed(length) => Some(usize::from(length)),
            _ => None,
        };
        match read(*wire, *show, &payload[used..], length, pointer_size) {
            Some((_, taken)) => used += taken,
            None => return Measured { used, is_cut: true },
        }
        let has_more = number + 1 < schema.top_level;
        if has_more && is_half_character(field, payload, used) {
            return Measured { used, is_cut: true };
        }
    }
    Measured { used, is_cut: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::schema::Names;
    use etw_tracelogging::Show;

    fn schema(fields: Vec<Field>, ends_early: bool) -> Schema {
        let count = fields.len();
        Schema { ends_early, ..Schema::new(Names::default(), fields, count) }
    }

    #[test]
    fn a_measurement_agrees_with_a_walk_wherever_the_payload_ends() {
        let plain = |wire| Field::new("f", wire, Show::Plain);
        let fixed = |wire, length| Field { length: Length::Fixed(length), ..plain(wire) };
        let lists = [
            vec![plain(Wire::U32), plain(Wire::Pointer), plain(Wire::Guid)],
            vec![plain(Wire::U8), plain(Wire::Utf16), plain(Wire::U16), plain(Wire::Ansi)],
            vec![fixed(Wire::Utf16, 3), fixed(Wire::Binary, 5), fixed(Wire::Ansi, 2)],
            vec![plain(Wire::CountedUtf16), plain(Wire::Sid), plain(Wire::Binary)],
            vec![plain(Wire::U16), Field { count: Count::Field(0), ..plain(Wire::U8) }],
            vec![plain(Wire::U16), Field { length: Length::Field(0), ..plain(Wire::Binary) }],
            vec![Field { kind: Kind::Constant("c".into()), ..plain(Wire::U8) }, plain(Wire::U8)],
            vec![plain(Wire::Utf16), Field { kind: Kind::Constant("c".into()), ..plain(Wire::U8) }],
        ];
        let bytes: Vec<u8> = (0..64).map(|number: u8| number % 5).collect();
        for list in lists {
            for ends_early in [false, true] {
                let schema = schema(list.clone(), ends_early);
                for end in 0..bytes.len() {
                    for pointer_size in [0, 4, 8] {
                        let payload = &bytes[..end];
                        let walked = measure_by_walk(&schema, payload, pointer_size);
                        assert_eq!(measure(&schema, payload, pointer_size), walked, "{list:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_clone_with_other_fields_has_its_own_extent() {
        let field = Field::new("f", Wire::U32, Show::Plain);
        let one = schema(vec![field.clone()], false);
        assert_eq!(measure(&one, &[0; 8], 8).used, 4);
        let mut two = one.clone();
        two.fields.push(field);
        two.top_level = 2;
        assert_eq!(measure(&two, &[0; 8], 8).used, 8);
    }
}
