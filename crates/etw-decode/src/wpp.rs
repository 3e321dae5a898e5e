//! WPP: formats of trace messages, from TMF files and the annotations of PDBs.
//!
//! ```text
//! GUID component // SRC=file MJ= MN=
//! #typev file_line number "%0 text %10!d! %11!s!" // LEVEL=… FLAGS=… FUNC=…
//! {
//! expression, ItemLong -- 10
//! expression, ItemListByte(a,b) -- 11
//! }
//! ```
//!
//! Source: Microsoft's documentation of TMF files and WPP types; the grammar checked on TMF files that `tracepdb` made. What follows no
//! grammar is left out and counted.

use crate::schema::{Field, Kind, Length, Map, MapKind, Names, Schema};
use crate::status::status_text;
use crate::text::CodePage;
use crate::value::{Style, Value};
use crate::walk::Visitor;
use etw_tracelogging::StatusKind;
use etw_tracelogging::{Show, Wire};
use etw_types::{FileTime, Guid};
use std::fmt::Write;
use std::sync::Arc;

/// Bytes of a formatted message, past which the rest is left out: a width can ask for any number of blanks.
const SIZE_LIMIT: usize = 1 << 20;
/// Larger widths and precisions are those of nobody.
const WIDTH_LIMIT: usize = 4096;

/// A message of a provider.
#[derive(Clone, Debug)]
pub struct WppMessage {
    /// Its GUID, one for a source file of a component.
    pub guid: Guid,
    /// Its number.
    pub number: u16,
    /// Names and arguments; [`Decoded::message`](crate::Decoded::message) is the text.
    pub schema: Schema,
}

/// Reads a TMF file, or several one behind the other; gives what could not be read as warnings.
pub fn parse_tmf(text: &str) -> (Vec<WppMessage>, Vec<String>) {
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
            warnings.push(format!("line {}: {:?} is no part of a TMF", number + 1, cut(line)));
        }
    }
    (messages, warnings)
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
            .ok_or_else(|| format!("{:?} is no argument", cut(argument)))?;
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

/// How the text of an argument is made, beyond what its format asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Plain,
    Pointer,
    Status(StatusKind),
    Timestamp,
    TimeDelta,
    WaitTime,
    Set,
    MacAddress,
    Guid,
    /// Control characters become blanks.
    Tidy,
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
        "ItemChar" => plain(Wire::I8),
        "ItemUChar" => plain(Wire::U8),
        "ItemCharShort" | "ItemShort" => plain(Wire::I16),
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
        "ItemHexDump" => plain(Wire::CountedBinary),
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

/// The text of a message and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WppFormat {
    parts: Vec<Part>,
    /// Of each field: its number in the text, and how it is written.
    items: Vec<(usize, Item)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    /// A field, by its place among all.
    Argument(usize, Spec),
}

/// A conversion of `printf`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spec {
    left: bool,
    plus: bool,
    zero: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    conversion: u8,
    /// Bits that the size prefix asks for; 0: of the argument.
    bits: u8,
}

impl Spec {
    fn parse(text: &str) -> Spec {
        let mut spec = Spec { conversion: b's', ..Spec::default() };
        let mut rest = text.as_bytes();
        while let [flag @ (b'-' | b'+' | b'0' | b'#' | b' '), behind @ ..] = rest {
            match flag {
                b'-' => spec.left = true,
                b'+' => spec.plus = true,
                b'0' => spec.zero = true,
                b'#' => spec.alternate = true,
                _ => {}
            }
            rest = behind;
        }
        let number = |rest: &mut &[u8]| {
            let mut value = None;
            while let [digit @ b'0'..=b'9', behind @ ..] = *rest {
                let digit = usize::from(digit - b'0');
                value = Some((value.unwrap_or(0) * 10 + digit).min(WIDTH_LIMIT));
                *rest = behind;
            }
            value
        };
        spec.width = number(&mut rest).unwrap_or(0);
        if let [b'.', behind @ ..] = rest {
            rest = behind;
            spec.precision = Some(number(&mut rest).unwrap_or(0));
        }
        for (prefix, bits) in [
            ("I64", 64),
            ("I32", 32),
            ("ll", 64),
            ("hh", 8),
            ("h", 16),
            ("l", 32),
            ("I", 0),
            ("w", 0),
        ] {
            // A lone `I`, `l`, `h` or `w` stands before a conversion.
            if let Some(behind) = rest.strip_prefix(prefix.as_bytes())
                && !behind.is_empty()
            {
                (spec.bits, rest) = (bits, behind);
                break;
            }
        }
        if let [conversion, ..] = rest {
            spec.conversion = *conversion;
        }
        spec
    }

    fn pad(&self, out: &mut String, text: &str) {
        let missing = self.width.saturating_sub(text.chars().count());
        let blanks = " ".repeat(missing);
        match (self.left, self.zero && self.is_number()) {
            (true, _) => {
                out.push_str(text);
                out.push_str(&blanks);
            }
            (false, true) => {
                let (sign, digits) = match text.strip_prefix('-') {
                    Some(digits) => ("-", digits),
                    None => ("", text),
                };
                out.push_str(sign);
                out.push_str(&"0".repeat(missing));
                out.push_str(digits);
            }
            (false, false) => {
                out.push_str(&blanks);
                out.push_str(text);
            }
        }
    }

    fn is_number(&self) -> bool {
        matches!(self.conversion, b'd' | b'i' | b'u' | b'o' | b'x' | b'X' | b'p')
    }
}

/// Cuts a format at its inserts.
fn parts(
    format: &str,
    items: &[(usize, Item)],
    named: impl Fn(&str) -> String,
    component: &str,
    place: &str,
) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find(['%', '\\']) {
        text.push_str(&rest[..at]);
        let escape = &rest[at..];
        rest = &rest[at + 1..];
        if escape.starts_with('\\') {
            match rest.as_bytes().first() {
                Some(b'n') => text.push('\n'),
                Some(b't') => text.push('\t'),
                Some(b'"') => text.push('"'),
                Some(b'\\') => text.push('\\'),
                _ => {
                    text.push('\\');
                    continue;
                }
            }
            rest = &rest[1..];
            continue;
        }
        let digits = rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let number: usize = rest[..digits].parse().unwrap_or(0);
            rest = &rest[digits..];
            let spec = match rest.strip_prefix('!').and_then(|spec| spec.split_once('!')) {
                Some((spec, behind)) => {
                    rest = behind;
                    Some(Spec::parse(spec))
                }
                None => None,
            };
            let field = items.iter().position(|(index, _)| *index == number && number >= 10);
            match (number, field) {
                // The prefix stands in columns of its own.
                (0, _) => {}
                (1, _) => text.push_str(component),
                (2, _) => text.push_str(place),
                (_, Some(field)) => {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    let spec = spec.unwrap_or(Spec { conversion: b's', ..Spec::default() });
                    parts.push(Part::Argument(field, spec));
                }
                // Writing to a String cannot fail.
                (_, None) => drop(write!(text, "%{number}")),
            }
        } else if let Some((name, behind)) =
            rest.strip_prefix('!').and_then(|rest| rest.split_once('!'))
        {
            if name == "STDPREFIX" {
                rest = behind;
                continue;
            }
            text.push_str(&named(name));
            rest = behind;
        } else {
            match rest.as_bytes().first() {
                Some(b'%') => text.push('%'),
                Some(b'n') => text.push('\n'),
                _ => {
                    text.push('%');
                    continue;
                }
            }
            rest = &rest[1..];
        }
    }
    text.push_str(rest);
    parts.push(Part::Text(text));
    // What stands behind the prefix is set off from it.
    if let Some(Part::Text(first)) = parts.first_mut() {
        let trimmed = first.trim_start().len();
        first.drain(..first.len() - trimmed);
    }
    parts.retain(|part| *part != Part::Text(String::new()));
    parts
}

impl WppFormat {
    /// A collector of arguments.
    pub fn writer<'f>(&'f self, style: &'f Style, pointer_size: u8) -> WppText<'f> {
        let texts = self.items.iter().map(|_| Vec::new()).collect();
        WppText { format: self, style, pointer_size, place: 0, texts }
    }

    pub fn size(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Argument(..) => 0,
        });
        parts.sum::<usize>() + self.parts.len() * size_of::<Part>() + self.items.len() * 16
    }
}

/// Collects the texts of the arguments as the format asks for them.
pub(crate) struct WppText<'f> {
    format: &'f WppFormat,
    style: &'f Style,
    pointer_size: u8,
    place: usize,
    /// Of each field, a text for each of its inserts.
    texts: Vec<Vec<String>>,
}

impl WppText<'_> {
    /// The message.
    pub fn finish(self) -> String {
        let mut out = String::new();
        let mut used = vec![0; self.texts.len()];
        for part in &self.format.parts {
            let text = match part {
                Part::Text(text) => text.as_str(),
                Part::Argument(field, _) => {
                    used[*field] += 1;
                    self.texts[*field].get(used[*field] - 1).map_or("", String::as_str)
                }
            };
            if out.len() + text.len() > SIZE_LIMIT {
                out.push('…');
                break;
            }
            out.push_str(text);
        }
        out
    }
}

impl Visitor for WppText<'_> {
    fn value(&mut self, _: &Field, value: Value<'_>) {
        let place = self.place;
        self.place += 1;
        let Some((_, item)) = self.format.items.get(place) else { return };
        for part in &self.format.parts {
            if let Part::Argument(field, spec) = part
                && *field == place
            {
                let mut text = String::new();
                write_argument(&mut text, *item, spec, value, self.style, self.pointer_size);
                self.texts[place].push(text);
            }
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

fn write_argument(
    out: &mut String,
    item: Item,
    spec: &Spec,
    value: Value<'_>,
    style: &Style,
    pointer_size: u8,
) {
    let number = match value {
        Value::Bool(_) | Value::Mapped { .. } => None,
        value => value.as_integer(),
    };
    let text = match (item, value, number) {
        (Item::Status(kind), _, Some(code))
            if !matches!(spec.conversion, b'x' | b'X' | b'd' | b'u') =>
        {
            status_text(kind, code as u32)
        }
        (Item::Pointer, _, Some(address)) if matches!(spec.conversion, b'p' | b's') => {
            let width = usize::from(pointer_size) * 2;
            format!("{address:0width$X}")
        }
        (Item::Timestamp, Value::FileTime(time), _) => short_time(time),
        (Item::TimeDelta, _, Some(milliseconds)) => {
            let (days, rest) = (milliseconds / 86_400_000, milliseconds % 86_400_000);
            let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
            format!("{days}~{hours}:{minutes}:{}", rest / 1000 % 60)
        }
        (Item::WaitTime, _, Some(ticks)) if ticks < 0 => format!("{} ms from now", -ticks / 10_000),
        (Item::WaitTime, _, Some(ticks)) => short_time(FileTime(ticks as i64)),
        (Item::Set, Value::Mapped { value, map }, _) => {
            let names = map.entries.iter().filter(|entry| u64::from(entry.0) & value != 0);
            format!("[{}]", names.map(|entry| entry.1.as_str()).collect::<Vec<_>>().join(","))
        }
        (Item::Set, _, Some(_)) => "[]".to_owned(),
        (Item::Guid, Value::Guid(guid), _) => format!("{{{guid}}}"),
        (Item::MacAddress, Value::Binary(bytes), _) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join("-")
        }
        (_, Value::Mapped { value, map }, _) => match map.name_of(value) {
            Some(name) => name.into_owned(),
            None => value.to_string(),
        },
        (_, Value::F32(value), _) => float(f64::from(value), spec),
        (_, Value::F64(value), _) => float(value, spec),
        (Item::Tidy, value, _) => {
            let text = plain(value, style);
            text.replace(['\t', '\r', '\n'], " ").trim().to_owned()
        }
        (_, _, Some(number)) => integer(number, value, spec),
        (_, value, None) => plain(value, style),
    };
    // A precision cuts texts.
    let text = match spec.precision {
        Some(precision) if number.is_none() && !matches!(value, Value::F32(_) | Value::F64(_)) => {
            text.chars().take(precision).collect()
        }
        _ => text,
    };
    spec.pad(out, &text);
}

fn plain(value: Value<'_>, style: &Style) -> String {
    let mut out = Vec::new();
    value.write_text(&mut out, style);
    String::from_utf8_lossy(&out).into_owned()
}

/// `MM/dd/yyyy-HH:mm:ss.fff`, UTC: a trace away from its machine has no local time.
fn short_time(time: FileTime) -> String {
    let Some(text) = time.to_ascii() else { return time.0.to_string() };
    let text = String::from_utf8_lossy(&text).into_owned();
    match (text.get(..4), text.get(5..7), text.get(8..10), text.get(11..23)) {
        (Some(year), Some(month), Some(day), Some(time)) => format!("{month}/{day}/{year}-{time}"),
        _ => text,
    }
}

fn integer(number: i128, value: Value<'_>, spec: &Spec) -> String {
    // A signed number shown unsigned has the bits of its size.
    let bits = match (spec.bits, value) {
        (0, Value::Int(value)) if i32::try_from(value).is_ok() => 32,
        (0, _) => 64,
        (bits, _) => bits,
    };
    let unsigned = number as u128 & ((1 << bits) - 1);
    let digits = match spec.conversion {
        b'x' => format!("{unsigned:x}"),
        b'X' => format!("{unsigned:X}"),
        b'p' => format!("{unsigned:X}"),
        b'o' => format!("{unsigned:o}"),
        b'u' => unsigned.to_string(),
        b'c' => {
            return char::from_u32(unsigned as u32 & 0xffff).map_or(String::new(), String::from);
        }
        _ if matches!(value, Value::Hex(_)) && spec.conversion == b's' => format!("{unsigned:x}"),
        _ if matches!(value, Value::UInt(_)) && bits == 64 => unsigned.to_string(),
        _ => {
            let shift = 128 - u32::from(bits);
            ((number << shift) >> shift).to_string()
        }
    };
    let prefix = match spec.conversion {
        b'x' if spec.alternate && unsigned != 0 => "0x",
        b'X' if spec.alternate && unsigned != 0 => "0X",
        b'd' | b'i' if spec.plus && number >= 0 => "+",
        _ => "",
    };
    let missing = spec.precision.unwrap_or(0).saturating_sub(digits.trim_start_matches('-').len());
    match digits.strip_prefix('-') {
        Some(rest) => format!("-{}{rest}", "0".repeat(missing)),
        None => format!("{prefix}{}{digits}", "0".repeat(missing)),
    }
}

fn float(value: f64, spec: &Spec) -> String {
    let precision = spec.precision.unwrap_or(6);
    match spec.conversion {
        b'e' => format!("{value:.precision$e}"),
        b'E' => format!("{value:.precision$E}"),
        b'g' | b'G' => format!("{value}"),
        _ => format!("{value:.precision$}"),
    }
}

/// What stands before a message: a format of `%1` component, `%2` file and line, `%3` thread, `%4` time, `%5` and `%6` kernel and user
/// time, `%7` sequence number, `%8` process, `%9` CPU.
#[derive(Clone, Debug)]
pub struct Prefix {
    parts: Vec<PrefixPart>,
}

#[derive(Clone, Debug)]
enum PrefixPart {
    Text(String),
    Value(u8, Spec),
}

/// What a prefix tells of a message.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct PrefixFacts<'f> {
    pub component: &'f str,
    pub place: &'f str,
    pub thread: u32,
    pub process: u32,
    pub cpu: u16,
    pub sequence: u32,
    pub time: Option<FileTime>,
}

impl Prefix {
    /// As `TRACE_FORMAT_PREFIX` is, unless set.
    pub const DEFAULT: &'static str = "[%9!d!]%8!04X!.%3!04X!::%4!s! [%1!s!]";

    /// Reads a format; what is no variable stays as it is.
    pub fn parse(text: &str) -> Prefix {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            plain.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let Some(number @ b'1'..=b'9') = rest.bytes().next() else {
                plain.push('%');
                rest = rest.strip_prefix('%').unwrap_or(rest);
                continue;
            };
            rest = &rest[1..];
            let spec = match rest.strip_prefix('!').and_then(|spec| spec.split_once('!')) {
                Some((spec, behind)) => {
                    rest = behind;
                    Spec::parse(spec)
                }
                None => Spec { conversion: b's', ..Spec::default() },
            };
            parts.push(PrefixPart::Text(std::mem::take(&mut plain)));
            parts.push(PrefixPart::Value(number - b'0', spec));
        }
        plain.push_str(rest);
        parts.push(PrefixPart::Text(plain));
        Prefix { parts }
    }

    /// Appends it.
    pub fn write(&self, out: &mut String, facts: &PrefixFacts<'_>) {
        for part in &self.parts {
            let (number, spec) = match part {
                PrefixPart::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                PrefixPart::Value(number, spec) => (number, spec),
            };
            let count = |value: u32| integer(value.into(), Value::UInt(value.into()), spec);
            let text = match number {
                1 => facts.component.to_owned(),
                2 => facts.place.to_owned(),
                3 => count(facts.thread),
                4 => facts.time.map(short_time).unwrap_or_default(),
                7 => count(facts.sequence),
                8 => count(facts.process),
                9 => count(facts.cpu.into()),
                // Kernel and user time: messages have none.
                _ => count(0),
            };
            spec.pad(out, &text);
        }
    }
}

/// Text as it is in files of formats.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding.decode_with_bom_removal(bytes).0.into_owned(),
        None => crate::text::Text::Ansi(bytes).to_str(CodePage::default()).into_owned(),
    }
}

#[cfg(feature = "pdb")]
pub mod pdb;
#[cfg(test)]
mod tests;
