//! TMF files: messages and their arguments.

use super::WppMessage;
use super::format::{Item, WppFormat, parts};
use crate::field::{Field, Kind, Length};
use crate::map::{Map, MapKind};
use crate::parsed::Parsed;
use crate::schema::{Names, Schema};
use etw_tracelogging::{Show, StatusKind, Wire};
use etw_types::Guid;
use std::sync::Arc;

/// Reads a TMF file, or several one behind the other; returns warnings about what could not be read.
pub fn parse_tmf(text: &str) -> Parsed<Vec<WppMessage>> {
    let mut messages = Vec::new();
    let mut warnings = Vec::new();
    let mut head: Option<(Guid, String)> = None;
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("#typev ").or_else(|| line.strip_prefix("#type ")) {
            let mut arguments = Vec::new();
            if lines.next_if(|(_, line)| line.trim() == "{").is_some() {
                for (_, line) in lines.by_ref() {
                    if line.trim() == "}" {
                        break;
                    }
                    arguments.push(line);
                }
            }
            let message = match &head {
                Some((guid, component)) => message(*guid, component, rest, &arguments),
                None => Err("a message before any GUID".to_owned()),
            };
            match message {
                Ok(message) => messages.push(message),
                Err(what) => warnings.push(format!("line {}: {what}", number + 1)),
            }
            continue;
        }
        let guid = line.get(..36).and_then(|guid| guid.parse::<Guid>().ok());
        if let Some(guid) = guid {
            let name = line[36..].split("//").next().unwrap_or_default().trim();
            head = Some((guid, name.to_owned()));
        } else if !line.starts_with('#') {
            warnings.push(format!(
                "line {}: {:?} is not part of a TMF file",
                number + 1,
                cut(line)
            ));
        }
    }
    Parsed { value: messages, warnings }
}

fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}

/// `file_line number "format" // trailer`
fn message(
    guid: Guid,
    component: &str,
    line: &str,
    arguments: &[&str],
) -> Result<WppMessage, String> {
    let bad = |what: &str| format!("{what} in {:?}", cut(line));
    let (place, rest) = line.trim_start().split_once(' ').ok_or_else(|| bad("no number"))?;
    let (number, rest) = rest.trim_start().split_once(' ').ok_or_else(|| bad("no format"))?;
    let number: u16 = number.parse().map_err(|_| bad("no number"))?;
    let rest = rest.trim_start().strip_prefix('"').ok_or_else(|| bad("no format"))?;
    // The trailer begins behind the quote that ends the format; both may hold quotes and slashes.
    let mut ends = rest.match_indices('"').map(|(at, _)| at);
    let end = ends
        .rfind(|at| {
            let behind = rest[at + 1..].trim_start();
            behind.is_empty() || behind.starts_with("//")
        })
        .ok_or_else(|| bad("no end of the format"))?;
    let (format, trailer) = (&rest[..end], rest[end + 1..].trim_start().trim_start_matches('/'));
    let trailer = |key: &str| trailer_value(trailer, key);

    let constant = |name: &str, text: Option<String>| {
        let text = text.filter(|text| !text.is_empty())?;
        let mut field = Field::new(name, Wire::Nothing, Show::Plain);
        field.kind = Kind::Constant(text.into());
        Some(field)
    };
    let mut fields: Vec<Field> = [
        constant("ComponentName", Some(component.to_owned())),
        constant("SubComponentName", trailer("SUBCOMP")),
        constant("GuidTypeName", Some(place.to_owned())),
        constant("FunctionName", trailer("FUNC")),
        constant("LevelName", trailer("LEVEL")),
        constant("FlagsName", trailer("FLAGS")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut items = vec![(0, Item::Plain); fields.len()];
    for argument in arguments {
        let (field, item, index) = self::argument(argument)
            .ok_or_else(|| format!("{:?} is not an argument", cut(argument)))?;
        fields.push(field);
        items.push((index, item));
    }
    let names = Names {
        provider: Some(component.to_owned()).filter(|name| !name.is_empty()),
        event: Some(place.to_owned()),
        level: trailer("LEVEL"),
        keywords: trailer("FLAGS").into_iter().collect(),
        ..Names::default()
    };
    let function = trailer("FUNC").unwrap_or_default();
    let named = |name: &str| match name {
        "FUNC" => function.clone(),
        "LEVEL" => trailer("LEVEL").unwrap_or_default(),
        "FLAGS" => trailer("FLAGS").unwrap_or_default(),
        "COMPNAME" => trailer("COMPNAME").unwrap_or_else(|| component.to_owned()),
        "SUBCOMP" => trailer("SUBCOMP").unwrap_or_default(),
        "FILE" | "TYP" => place.to_owned(),
        "MOD" => component.to_owned(),
        "SPACE" => " ".to_owned(),
        other => format!("%!{other}!"),
    };
    let parts = parts(format, &items, named, component, place);
    let count = fields.len();
    let mut schema = Schema::new(names, fields, count);
    schema.wpp = Some(Box::new(WppFormat { parts, items }));
    Ok(WppMessage { guid, number, schema })
}

/// Up to the next ` KEY=`, or the end.
fn trailer_value(trailer: &str, key: &str) -> Option<String> {
    let is_key = |word: &str| {
        word.split_once('=').is_some_and(|(key, _)| {
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        })
    };
    let mut words = trailer.split(' ').skip_while(|word| {
        !word.split_once('=').is_some_and(|(found, _)| found.eq_ignore_ascii_case(key))
    });
    let first = words.next()?.split_once('=')?.1;
    let rest = words.take_while(|word| !is_key(word));
    Some(std::iter::once(first).chain(rest).collect::<Vec<_>>().join(" ").trim().to_owned())
}

/// `expression, Item(list) -- index`
fn argument(line: &str) -> Option<(Field, Item, usize)> {
    let (line, index) = line.trim().rsplit_once(" -- ")?;
    let index = index.trim().parse().ok()?;
    let at = line.rfind(", Item")?;
    let (expression, item) = (line[..at].trim(), line[at + 2..].trim());
    let (name, list) = match item.split_once('(') {
        Some((name, list)) => (name.trim(), list.trim_end().strip_suffix(')').unwrap_or(list)),
        None => (item, ""),
    };
    let plain = |wire| (wire, Show::Plain, Item::Plain);
    let hex = |wire| (wire, Show::Hex, Item::Plain);
    let mut length = Length::Own;
    let mut map = None;
    let (wire, show, kind) = match name {
        "ItemChar" => (Wire::I8, Show::Plain, Item::Small(8)),
        "ItemUChar" => plain(Wire::U8),
        "ItemCharShort" | "ItemShort" => (Wire::I16, Show::Plain, Item::Small(16)),
        "ItemUShort" => plain(Wire::U16),
        "ItemLong" => plain(Wire::I32),
        "ItemULong" => plain(Wire::U32),
        "ItemLongX" | "ItemULongX" => hex(Wire::U32),
        "ItemLongLong" => plain(Wire::I64),
        "ItemULongLong" | "ItemLongLongO" => plain(Wire::U64),
        "ItemLongLongX" | "ItemLongLongXX" | "ItemULongLongX" | "ItemULongLongXX" => hex(Wire::U64),
        "ItemChar4" => {
            length = Length::Fixed(4);
            plain(Wire::Ansi)
        }
        "ItemFloat" => plain(Wire::F32),
        "ItemDouble" => plain(Wire::F64),
        "ItemPtr" => (Wire::Pointer, Show::Hex, Item::Pointer),
        "ItemString" | "ItemMLString" => plain(Wire::Ansi),
        "ItemWString" | "ItemMLWString" => plain(Wire::Utf16),
        "ItemRString" => (Wire::Ansi, Show::Plain, Item::Tidy),
        "ItemRWString" => (Wire::Utf16, Show::Plain, Item::Tidy),
        "ItemPString" | "ItemDSString" => plain(Wire::CountedAnsi),
        "ItemPWString" | "ItemDSWString" => plain(Wire::CountedUtf16),
        "ItemNWString" => plain(Wire::RestUtf16),
        "ItemSid" => plain(Wire::Sid),
        "ItemHexDump" | "ItemHEXDump" | "ItemHexBytes" => plain(Wire::CountedBinary),
        "ItemGuid" | "ItemIID" | "ItemCLSID" | "ItemLIBID" => (Wire::Guid, Show::Plain, Item::Guid),
        "ItemTimestamp" => (Wire::FileTime, Show::Plain, Item::Timestamp),
        "ItemTimeDelta" => (Wire::I64, Show::Plain, Item::TimeDelta),
        "ItemWaitTime" => (Wire::I64, Show::Plain, Item::WaitTime),
        "ItemNTSTATUS" => {
            (Wire::U32, Show::Status(StatusKind::NtStatus), Item::Status(StatusKind::NtStatus))
        }
        "ItemHRESULT" => {
            (Wire::U32, Show::Status(StatusKind::HResult), Item::Status(StatusKind::HResult))
        }
        "ItemWINERROR" | "ItemNTerror" => {
            (Wire::U32, Show::Status(StatusKind::Win32), Item::Status(StatusKind::Win32))
        }
        "ItemNDIS_STATUS" => {
            (Wire::U32, Show::Status(StatusKind::NtStatus), Item::Status(StatusKind::NtStatus))
        }
        "ItemNDIS_OID" => hex(Wire::U32),
        "ItemIPAddr" => (Wire::U32, Show::Ipv4, Item::Plain),
        "ItemIPV6Addr" => (Wire::Binary, Show::Ipv6, Item::Plain),
        "ItemMACAddr" => {
            length = Length::Fixed(6);
            (Wire::Binary, Show::Plain, Item::MacAddress)
        }
        "ItemPort" => (Wire::U16, Show::Port, Item::Plain),
        // Their names are in the PDB.
        "ItemEnum" | "ItemFlagsEnum" => plain(Wire::U32),
        _ => {
            let (wire, is_set) = match name {
                "ItemListByte" => (Wire::U8, false),
                "ItemListShort" => (Wire::U16, false),
                "ItemListLong" => (Wire::U32, false),
                "ItemSetByte" => (Wire::U8, true),
                "ItemSetShort" => (Wire::U16, true),
                "ItemSetLong" => (Wire::U32, true),
                _ => return None,
            };
            map = Some(Arc::new(list_map(list, is_set)));
            (wire, Show::Plain, if is_set { Item::Set } else { Item::Plain })
        }
    };
    let mut field = Field::new(expression, wire, show);
    field.length = length;
    field.map = map;
    Some((field, kind, index))
}

/// Names of values from 0 on, `=n` begins anew; of a set, of bits.
fn list_map(list: &str, is_set: bool) -> Map {
    let mut next = 0u32;
    let mut entries = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => {
                let value = value.trim();
                let value = match value.strip_prefix("0x") {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => value.parse(),
                };
                (name.trim(), value.unwrap_or(next))
            }
            None => (name, next),
        };
        next = value.wrapping_add(1);
        match is_set {
            true if value < 32 => entries.push((1 << value, name.to_owned())),
            true => {}
            false => entries.push((value, name.to_owned())),
        }
    }
    let kind = if is_set { MapKind::Bits } else { MapKind::Value };
    Map { name: String::new(), kind, entries }
}
