//! Fields in the layout of TRACE_EVENT_INFO: those of the event first, members of structs behind them.

use crate::field::{Count, Field, Kind, Length};
use etw_tracelogging::{Show, Wire};

/// The part of a layout that can be decoded.
pub(crate) struct Whole {
    pub fields: Vec<Field>,
    /// How many of the fields are the event's own.
    pub top_level: usize,
    /// Why fields at the end are missing.
    pub incomplete: Option<String>,
}

/// Keeps the event's fields up to the first one that is bad, has bad members or refers to a field that is not kept.
pub(crate) fn whole_part(items: Vec<Result<Field, String>>, top_level: usize) -> Whole {
    let mut is_whole: Vec<Result<(), String>> = vec![Ok(()); items.len()];
    let order = order_of_reading(&items, top_level);
    // Members stand behind their struct, so they are known before it.
    for index in (0..items.len()).rev() {
        is_whole[index] = match &items[index] {
            Err(what) => Err(what.clone()),
            Ok(field) => check(field, index, &is_whole)
                .and_then(|()| check_references(&items, field, index, &order)),
        };
    }
    let bad = is_whole[..top_level].iter().position(Result::is_err);
    let Some(bad) = bad else {
        let fields = items.into_iter().map(|item| item.unwrap_or_else(|_| unused())).collect();
        return Whole { fields, top_level, incomplete: None };
    };
    let incomplete = is_whole.swap_remove(bad).err();
    let (fields, top_level) = first_fields(&items, bad);
    Whole { fields, top_level, incomplete }
}

/// When a walk first comes to each field; `None`: never.
fn order_of_reading(items: &[Result<Field, String>], top_level: usize) -> Vec<Option<usize>> {
    let mut order = vec![None; items.len()];
    let mut next = 0;
    // Ranges of fields that are still to be read, the innermost last.
    let mut open: Vec<_> = std::iter::once(0..top_level.min(items.len())).collect();
    while let Some(range) = open.last_mut() {
        let Some(index) = range.next() else {
            open.pop();
            continue;
        };
        if order[index].is_some() {
            continue;
        }
        order[index] = Some(next);
        next += 1;
        if let Ok(Field { kind: Kind::Struct { first, count }, .. }) = items[index] {
            let members = first..first.saturating_add(count);
            if members.end <= items.len() {
                open.push(members);
            }
        }
    }
    order
}

/// Whether the fields that a field refers to are numbers that are read before it: a walk takes others for zero.
fn check_references(
    items: &[Result<Field, String>],
    field: &Field,
    index: usize,
    order: &[Option<usize>],
) -> Result<(), String> {
    let count = if let Count::Field(source) = field.count { Some(source) } else { None };
    let length = if let Length::Field(source) = field.length { Some(source) } else { None };
    // A field that no walk comes to refers to nothing.
    let Some(own) = order[index] else { return Ok(()) };
    for source in [count, length].into_iter().flatten() {
        let Ok(other) = &items[source] else { continue };
        let what = match other.kind {
            Kind::Scalar { wire, .. } if wire.is_integer() || wire == Wire::Pointer => {
                match order[source] {
                    Some(other) if other < own => continue,
                    _ => "stands behind it",
                }
            }
            _ => "is no number",
        };
        return Err(format!(
            "{:?} has the length or count of {:?}, which {what}",
            field.name, other.name
        ));
    }
    Ok(())
}

/// The part before the first field whose size neither the schema nor the payload gives, unless nothing stands behind it.
pub(crate) fn sized_part(whole: Whole) -> Whole {
    // Whether each field, or one of its members, has no size. Members stand behind their struct.
    let mut has_no_size = vec![false; whole.fields.len()];
    for (index, field) in whole.fields.iter().enumerate().rev() {
        has_no_size[index] = match field.kind {
            Kind::Struct { first, count } => {
                let members = has_no_size.get(first..first.saturating_add(count));
                members.is_some_and(|members| members.contains(&true))
            }
            _ => is_unsized(field, index, whole.top_level),
        };
    }
    let is_bad = |index: &usize| {
        let field = &whole.fields[*index];
        let is_last = index + 1 == whole.top_level && !field.is_struct() && !field.is_array();
        has_no_size[*index] && !is_last
    };
    let Some(bad) = (0..whole.top_level).find(is_bad) else { return whole };
    let field = &whole.fields[bad];
    let what = match field.is_struct() {
        true => format!("the struct {:?} has a binary field without a length", field.name),
        false => format!("the binary field {:?} has no length", field.name),
    };
    let items: Vec<_> = whole.fields.into_iter().map(Ok).collect();
    let (fields, top_level) = first_fields(&items, bad);
    Whole { fields, top_level, incomplete: Some(what) }
}

/// The first field of the event whose size neither the schema nor the payload gives: a binary without a length. What stands behind it
/// cannot be decoded. An IPv6 address has a size of its own, and a socket address may end with the payload.
pub(crate) fn unsized_field(whole: &Whole) -> Option<&str> {
    let is_bad = |(index, field): &(usize, &Field)| is_unsized(field, *index, whole.top_level);
    let found = whole.fields.iter().enumerate().find(is_bad);
    found.map(|(_, field)| field.name.as_str())
}

fn is_unsized(field: &Field, index: usize, top_level: usize) -> bool {
    let Kind::Scalar { wire: Wire::Binary, show } = field.kind else { return false };
    let ends_with_payload = show == Show::SocketAddress && index + 1 == top_level;
    field.length == Length::Own && show != Show::Ipv6 && !ends_with_payload
}

/// The field that may be a struct of which a regenerated manifest has lost the members. PerfView's list every struct of an array as a value
/// whose in-type is the number of its first member: that of the fields of the event.
pub(crate) fn lost_struct(fields: &[Field], top_level: usize) -> Option<usize> {
    let is_lost = |field: &Field| {
        let in_type = usize::from(field.types.0.0);
        matches!(field.count, Count::Field(_)) && in_type == top_level
    };
    fields[..top_level].iter().position(is_lost)
}

/// Stands in for a bad item that no field of the event contains.
fn unused() -> Field {
    Field::new("", Wire::Nothing, Show::Plain)
}

fn check(field: &Field, index: usize, is_whole: &[Result<(), String>]) -> Result<(), String> {
    let is_known = |source: usize| source < is_whole.len() && source != index;
    let count = if let Count::Field(source) = field.count { is_known(source) } else { true };
    let length = if let Length::Field(source) = field.length { is_known(source) } else { true };
    if !(count && length) {
        return Err(format!(
            "{:?} has the length or count of a field that is not there",
            field.name
        ));
    }
    let Kind::Struct { first, count } = field.kind else { return Ok(()) };
    match is_whole.get(first..first.saturating_add(count)) {
        Some(members) if first > index || count == 0 => {
            members.iter().find_map(|member| member.clone().err()).map_or(Ok(()), Err)
        }
        _ => Err(format!("the struct {:?} has members that are not there", field.name)),
    }
}

/// The first `wanted` fields and their members, or fewer if they refer to others.
fn first_fields(items: &[Result<Field, String>], wanted: usize) -> (Vec<Field>, usize) {
    let mut top_level = wanted;
    loop {
        // The old index of each kept field, in the new order.
        let mut old: Vec<usize> = (0..top_level).collect();
        let mut fields = Vec::new();
        let mut next = 0;
        while let Some(&index) = old.get(next) {
            next += 1;
            let Ok(field) = &items[index] else { continue };
            let mut field = field.clone();
            if let Kind::Struct { first, count } = field.kind {
                field.kind = Kind::Struct { first: old.len(), count };
                old.extend(first..first + count);
            }
            fields.push(field);
            // Structs that share members have no part that is worth keeping.
            if old.len() > items.len() {
                return (Vec::new(), 0);
            }
        }
        let new = |source: usize| old.iter().position(|index| *index == source);
        let lost = fields.iter_mut().position(|field| {
            let mut is_lost = false;
            if let Count::Field(source) = field.count {
                match new(source) {
                    Some(source) => field.count = Count::Field(source),
                    None => is_lost = true,
                }
            }
            if let Length::Field(source) = field.length {
                match new(source) {
                    Some(source) => field.length = Length::Field(source),
                    None => is_lost = true,
                }
            }
            is_lost
        });
        match lost {
            None => return (fields, top_level),
            Some(lost) if lost < top_level => top_level = lost,
            // A member: its struct is found the slow way.
            Some(_) => top_level = top_level.saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Field {
        Field::new(name, Wire::U8, Show::Plain)
    }

    fn names(whole: &Whole) -> Vec<&str> {
        whole.fields.iter().map(|field| field.name.as_str()).collect()
    }

    #[test]
    fn fields_before_a_bad_one_are_kept_with_their_members() {
        let of = |first, count| Kind::Struct { first, count };
        let items = vec![
            Ok(Field { kind: of(4, 2), ..field("good") }),
            Ok(field("n")),
            Ok(Field { kind: of(6, 1), ..field("bad") }),
            Ok(field("behind")),
            Ok(field("a")),
            Ok(Field { length: Length::Field(4), ..field("b") }),
            Err("no such type".to_owned()),
        ];
        let whole = whole_part(items, 4);
        assert_eq!(names(&whole), ["good", "n", "a", "b"]);
        assert_eq!((whole.top_level, whole.incomplete.as_deref()), (2, Some("no such type")));
        assert_eq!(whole.fields[0].kind, of(2, 2));
        assert_eq!(whole.fields[3].length, Length::Field(2));
    }

    #[test]
    fn a_field_that_refers_to_a_lost_one_is_lost_too() {
        let items = vec![
            Ok(field("a")),
            Ok(Field { count: Count::Field(3), ..field("b") }),
            Ok(field("c")),
            Err("bad".to_owned()),
        ];
        assert_eq!(names(&whole_part(items, 4)), ["a"]);
        let items = vec![Ok(Field { count: Count::Field(9), ..field("a") })];
        assert_eq!(whole_part(items, 1).fields.len(), 0);
    }

    /// A walk would take them for zero, and what follows would be read at the wrong place.
    #[test]
    fn a_field_refers_to_numbers_before_it() {
        let counted = |source| Ok(Field { count: Count::Field(source), ..field("list") });
        let text = || Ok(Field::new("text", Wire::Utf16, Show::Plain));
        let of = |first, count| Kind::Struct { first, count };
        let structure = || Ok(Field { kind: of(2, 2), ..field("s") });
        for (items, top_level, kept, what) in [
            (vec![counted(1), Ok(field("n"))], 2, 0, Some("\"n\", which stands behind it")),
            (vec![text(), counted(0)], 2, 1, Some("\"text\", which is no number")),
            (vec![Ok(field("n")), counted(0)], 2, 2, None),
            // A member of a struct that is read before, of one that is read behind, and of none.
            (vec![structure(), counted(2), Ok(field("a")), Ok(field("b"))], 2, 2, None),
            (
                vec![counted(2), structure(), Ok(field("a")), Ok(field("b"))],
                2,
                0,
                Some("stands behind"),
            ),
            (vec![Ok(field("n")), counted(2), Ok(field("a"))], 2, 1, Some("stands behind it")),
            (
                vec![Ok(field("n")), structure(), counted(3), Ok(field("b"))],
                2,
                1,
                Some("stands behind it"),
            ),
        ] {
            let whole = whole_part(items, top_level);
            let incomplete = whole.incomplete.as_deref();
            let is_told = match what {
                Some(what) => incomplete.is_some_and(|told| told.contains(what)),
                None => incomplete.is_none(),
            };
            assert!(is_told && whole.top_level == kept, "{what:?}: {incomplete:?}");
        }
    }

    #[test]
    fn fields_behind_one_without_a_size_are_left_out() {
        let binary = || Field::new("bytes", Wire::Binary, Show::Plain);
        let members = || Ok(Field { kind: Kind::Struct { first: 2, count: 1 }, ..field("s") });
        for (items, top_level, kept, what) in [
            (vec![Ok(field("a")), Ok(binary()), Ok(field("b"))], 3, 1, Some("\"bytes\"")),
            (vec![members(), Ok(field("a")), Ok(binary())], 2, 0, Some("struct \"s\"")),
            // Where nothing stands behind it, the rest of the payload is shown.
            (vec![Ok(field("a")), Ok(binary())], 2, 2, None),
            (vec![Ok(Field { length: Length::Fixed(2), ..binary() }), Ok(field("a"))], 2, 2, None),
        ] {
            let whole = sized_part(whole_part(items, top_level));
            let told = whole.incomplete.as_deref().unwrap_or_default();
            assert_eq!(whole.top_level, kept, "{told}");
            assert!(told.contains(what.unwrap_or_default()) && told.is_empty() == what.is_none());
        }
    }

    #[test]
    fn malicious_structs_that_share_members() {
        let of = |first| Ok(Field { kind: Kind::Struct { first, count: 2 }, ..field("s") });
        let mut items: Vec<_> = (0..40).map(|index| of(index + 1)).collect();
        items.extend([Ok(field("x")), Ok(field("y"))]);
        items.insert(1, Err("bad".to_owned()));
        whole_part(items, 2);
    }
}
