//! From classes to schemas.

use super::parser::{Class, Property, Value, parse_number};
use super::{COPY_LIMIT, DEPTH_LIMIT, MofEvent};
use crate::field::{Count, Field, Length};
use crate::map::{Map, MapKind};
use crate::schema::{Names, Schema};
use etw_tracelogging::{Show, Wire};
use etw_types::Guid;
use std::collections::HashMap;
use std::sync::Arc;

/// Itself and what is above it.
fn ancestors<'c>(
    class: &'c Class,
    classes: &'c [Class],
    by_name: &HashMap<String, usize>,
) -> Vec<&'c Class> {
    let mut chain = vec![class];
    while let Some(parent) = chain.last().and_then(|class| class.parent.as_ref()) {
        match by_name.get(&parent.to_ascii_lowercase()) {
            Some(index) if chain.len() < DEPTH_LIMIT => chain.push(&classes[*index]),
            _ => break,
        }
    }
    chain
}

pub(super) fn compile(
    class: &Class,
    classes: &[Class],
    by_name: &HashMap<String, usize>,
    events: &mut Vec<MofEvent>,
    copied: &mut usize,
    warnings: &mut Vec<String>,
) {
    let Some(types) = class.qualifiers.get("eventtype") else { return };
    let chain = ancestors(class, classes, by_name);
    let guid_of = |class: &Class| class.qualifiers.get("guid")?.text()?.parse::<Guid>().ok();
    let Some((home, guid)) = chain.iter().find_map(|class| Some((class, guid_of(class)?))) else {
        warnings.push(format!("class {:?} has no GUID", class.name));
        return;
    };
    let version = chain.iter().find_map(|class| {
        class.qualifiers.get("eventversion")?.numbers().first().map(|version| *version as u8)
    });
    let text = |class: &Class, name: &str| Some(class.qualifiers.get(name)?.text()?.to_owned());
    // Versions of a class may be siblings with one GUID; the name is that of the first one.
    let class_name = text(home, "displayname").unwrap_or_else(|| home.name.clone());
    let provider = chain.last().filter(|top| top.name != home.name).and_then(|top| {
        text(top, "displayname").or_else(|| guid_of(top).map(|_| top.name.clone()))
    });
    let mut fields = Vec::new();
    let mut properties: Vec<(i64, &Property)> = chain
        .iter()
        .rev()
        .flat_map(|class| &class.properties)
        .filter_map(|property| {
            Some((*property.qualifiers.get("wmidataid")?.numbers().first()?, property))
        })
        .collect();
    properties.sort_by_key(|(id, _)| *id);
    for (_, property) in properties {
        match field(property, &fields) {
            Some(field) => fields.push(field),
            None => {
                let what =
                    format!("{}.{} has the type {:?}", class.name, property.name, property.kind);
                warnings.push(what);
                return;
            }
        }
    }
    let names = class.qualifiers.get("eventtypename").map(Value::texts).unwrap_or_default();
    for (number, kind) in types.numbers().into_iter().enumerate() {
        let name = names.get(number).or(names.first()).cloned();
        let event = name.map_or_else(|| class_name.clone(), |name| format!("{class_name}/{name}"));
        let names = Names { provider: provider.clone(), event: Some(event), ..Names::default() };
        let count = fields.len();
        *copied += count;
        if *copied > COPY_LIMIT {
            return warnings
                .push(format!("class {:?} is left out: too many fields in all", class.name));
        }
        let schema = Schema { ends_early: true, ..Schema::new(names, fields.clone(), count) };
        let Ok(kind) = u8::try_from(kind) else { continue };
        events.push(MofEvent { class: guid, kind, version, schema });
    }
}

fn field(property: &Property, before: &[Field]) -> Option<Field> {
    let qualifier = |name: &str| property.qualifiers.get(name);
    let format = qualifier("format").and_then(Value::text).unwrap_or_default();
    let is_pointer = qualifier("pointer").is_some() || qualifier("pointertype").is_some();
    let extension = qualifier("extension").and_then(Value::text).unwrap_or_default();
    let wide = format.eq_ignore_ascii_case("w");
    let hex = format.eq_ignore_ascii_case("x");
    let number = |wire| (wire, if hex { Show::Hex } else { Show::Plain });
    let mut no_print = false;
    let (wire, show) = if is_pointer {
        (Wire::Pointer, Show::Hex)
    } else {
        match (&*property.kind, &*extension.to_ascii_lowercase()) {
            (_, "guid") => (Wire::Guid, Show::Plain),
            (_, "ipaddr" | "ipaddrv4") => (Wire::U32, Show::Ipv4),
            (_, "ipaddrv6") => (Wire::Binary, Show::Ipv6),
            (_, "port") => (Wire::U16, Show::Port),
            (_, "sid") => (Wire::WbemSid, Show::Plain),
            (_, "sizet") => (Wire::Pointer, Show::Hex),
            (_, "wmitime") => (Wire::U64, Show::Plain),
            (_, "variant") => (Wire::HexDump, Show::Plain),
            ("object", _) => return None,
            (kind, extension) => {
                no_print = extension == "noprint";
                match kind {
                    "sint8" if format == "c" => (Wire::I8, Show::Character),
                    "uint8" if format == "c" => (Wire::U8, Show::Character),
                    "sint8" => number(Wire::I8),
                    "uint8" => number(Wire::U8),
                    "sint16" => number(Wire::I16),
                    "uint16" => number(Wire::U16),
                    "sint32" => number(Wire::I32),
                    "uint32" => number(Wire::U32),
                    "sint64" => number(Wire::I64),
                    "uint64" => number(Wire::U64),
                    "real32" => (Wire::F32, Show::Plain),
                    "real64" => (Wire::F64, Show::Plain),
                    "boolean" => (Wire::U8, Show::Boolean),
                    "char16" => (Wire::U16, Show::Character),
                    "string" => {
                        let ends = qualifier("stringtermination").and_then(Value::text);
                        let ends = ends.unwrap_or_default().to_ascii_lowercase();
                        let wire = match (&*ends, wide) {
                            ("counted", true) => Wire::CountedUtf16,
                            ("counted", false) => Wire::CountedAnsi,
                            ("reversecounted", true) => Wire::ReverseCountedUtf16,
                            ("reversecounted", false) => Wire::ReverseCountedAnsi,
                            ("notcounted", true) => Wire::RestUtf16,
                            ("notcounted", false) => Wire::RestAnsi,
                            (_, true) => Wire::Utf16,
                            (_, false) => Wire::Ansi,
                        };
                        (wire, Show::Plain)
                    }
                    _ => return None,
                }
            }
        }
    };
    let mut field = Field::new(&property.name, wire, show);
    field.no_print = no_print;
    let max = qualifier("max").and_then(|max| max.numbers().first().copied());
    let fixed = property.count.filter(|count| *count > 0).or_else(|| u16::try_from(max?).ok());
    let sized_by = qualifier("wmisizeis").and_then(Value::text);
    let source = sized_by
        .and_then(|name| before.iter().rposition(|field| field.name.eq_ignore_ascii_case(name)));
    if sized_by.is_some() && source.is_none() {
        return None;
    }
    // Characters in a row are text.
    let text = match (&*property.kind, format) {
        ("char16", _) => Some(Wire::Utf16),
        ("sint8" | "uint8", "s" | "c") => Some(Wire::Ansi),
        _ => None,
    };
    match (text, fixed, source) {
        (Some(text), Some(count), None) if !is_pointer => {
            field = Field::new(&property.name, text, Show::Plain);
            field.length = Length::Fixed(count);
        }
        (_, _, Some(source)) => field.count = Count::Field(source),
        // An IPv6 address is declared as sixteen bytes.
        (_, Some(_), None) if show == Show::Ipv6 || wire == Wire::Guid => {}
        (_, Some(count), None) => field.count = Count::Fixed(count),
        _ => {}
    }
    field.map = map(property).map(Arc::new);
    Some(field)
}

fn map(property: &Property) -> Option<Map> {
    let list = |name: &str| property.qualifiers.get(name).map(Value::texts);
    // A text that is no number names no value.
    let numbers = |name: &str| -> Option<Vec<Option<i64>>> {
        let texts = property.qualifiers.get(name)?.texts();
        Some(texts.iter().map(|text| parse_number(text)).collect())
    };
    let value_type = property.qualifiers.get("valuetype").and_then(Value::text).unwrap_or_default();
    let (kind, names, values) = if let Some(names) = list("bitvalues") {
        let bits = numbers("bitmap").unwrap_or_else(|| (0..names.len() as i64).map(Some).collect());
        let mask = |bit: Option<i64>| 1i64.checked_shl(u32::try_from(bit?).ok()?);
        let masks = bits.into_iter().map(mask).collect();
        (MapKind::Bits, names, masks)
    } else {
        let names = list("values")?;
        let is_flag = value_type.eq_ignore_ascii_case("flag");
        let kind = if is_flag { MapKind::Bits } else { MapKind::Value };
        let implied = || match is_flag {
            true => (0..names.len().min(32)).map(|bit| Some(1i64 << bit)).collect(),
            false => (0..names.len() as i64).map(Some).collect(),
        };
        let values = numbers("valuemap").unwrap_or_else(implied);
        (kind, names, values)
    };
    let entries: Vec<(u32, String)> = values
        .into_iter()
        .zip(names)
        .filter_map(|(value, name): (Option<i64>, String)| {
            Some((u32::try_from(value?).ok()?, name))
        })
        .collect();
    (!entries.is_empty()).then(|| Map { name: property.name.clone(), kind, entries })
}
