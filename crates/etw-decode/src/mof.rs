//! Classes of classic events in MOF, Microsoft's language of WMI classes.
//!
//! A class with a `Guid` is a provider's or an event's; a class below it with `EventType` describes events of these types. A version is that
//! of the class or the nearest above it. Properties lie packed, in the order of `WmiDataId`.
//!
//! Source: Microsoft's documentation of MOF and of its qualifiers for event tracing.

use crate::schema::{Count, Field, Length, Map, MapKind, Names, Schema};
use crate::wpp::text_of;
use etw_tracelogging::{Show, Wire};
use etw_types::Guid;
use std::collections::HashMap;
use std::sync::Arc;

/// Text that is looked at.
const SIZE_LIMIT: usize = 64 << 20;
/// Fields of all events: each type of a class has its own.
const COPY_LIMIT: usize = 1 << 20;
/// A derived class has no more above it.
const DEPTH_LIMIT: usize = 64;

/// An event of a class.
#[derive(Clone, Debug)]
pub struct MofEvent {
    /// The class's GUID.
    pub class: Guid,
    /// Its type.
    pub kind: u8,
    /// Its version; a class without one stands for those that have no class of their own.
    pub version: Option<u8>,
    /// Names and fields.
    pub schema: Schema,
}

/// Reads classes; gives what could not be read as warnings.
pub fn parse(bytes: &[u8]) -> (Vec<MofEvent>, Vec<String>) {
    if bytes.len() > SIZE_LIMIT {
        return (Vec::new(), vec!["larger than 64 MiB".to_owned()]);
    }
    let text = text_of(bytes);
    let mut parser = Parser { text: &text, at: 0, warnings: Vec::new() };
    let mut classes = Vec::new();
    while parser.skip_blank() {
        let start = parser.at;
        match parser.class() {
            Some(Some(class)) => classes.push(class),
            Some(None) => {}
            None => {
                parser.warn(start, "no class");
                parser.resync(start);
            }
        }
    }
    let mut warnings = parser.warnings;
    let by_name: HashMap<String, usize> = classes
        .iter()
        .enumerate()
        .map(|(index, class)| (class.name.to_ascii_lowercase(), index))
        .collect();
    let (mut events, mut copied) = (Vec::new(), 0);
    for class in &classes {
        compile(class, &classes, &by_name, &mut events, &mut copied, &mut warnings);
    }
    warnings.truncate(100);
    (events, warnings)
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(String),
    Number(i64),
    List(Vec<Value>),
    None,
}

impl Value {
    fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::List(list) => list.first()?.text(),
            _ => None,
        }
    }

    fn numbers(&self) -> Vec<i64> {
        match self {
            Value::Number(number) => vec![*number],
            Value::List(list) => list.iter().flat_map(Value::numbers).collect(),
            Value::Text(text) => parse_number(text).into_iter().collect(),
            Value::None => Vec::new(),
        }
    }

    fn texts(&self) -> Vec<String> {
        match self {
            Value::Text(text) => vec![text.clone()],
            Value::List(list) => list.iter().flat_map(Value::texts).collect(),
            Value::Number(number) => vec![number.to_string()],
            Value::None => Vec::new(),
        }
    }
}

fn parse_number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i64::try_from(u64::from_str_radix(hex, 16).ok()?).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// By name in lower case.
type Qualifiers = HashMap<String, Value>;

#[derive(Debug)]
struct Class {
    name: String,
    parent: Option<String>,
    qualifiers: Qualifiers,
    properties: Vec<Property>,
}

#[derive(Debug)]
struct Property {
    name: String,
    kind: String,
    /// Of an array.
    count: Option<u16>,
    qualifiers: Qualifiers,
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    warnings: Vec<String>,
}

impl<'t> Parser<'t> {
    fn warn(&mut self, at: usize, what: &str) {
        if self.warnings.len() < 100 {
            let line = self.text[..at].matches('\n').count() + 1;
            self.warnings.push(format!("line {line}: {what}"));
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Blanks, comments and `#pragma` lines; whether anything follows.
    fn skip_blank(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            let skipped = if rest.starts_with("//") || rest.starts_with('#') {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                return !rest.is_empty();
            };
            self.at += skipped;
        }
    }

    fn take(&mut self, mark: char) -> bool {
        self.skip_blank();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += mark.len_utf8();
        }
        found
    }

    fn word(&mut self) -> Option<&'t str> {
        self.skip_blank();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'));
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        (!word.is_empty()).then_some(word)
    }

    /// Behind the next `};`, or the next `;` where there is none.
    fn resync(&mut self, start: usize) {
        self.at = self.at.max(start + 1);
        while !self.text.is_char_boundary(self.at) {
            self.at += 1;
        }
        let rest = self.rest();
        self.at += rest.find(';').map_or(rest.len(), |end| end + 1);
    }

    /// A class; `Some(None)` for another declaration, which is skipped.
    fn class(&mut self) -> Option<Option<Class>> {
        let qualifiers = self.qualifiers()?;
        if !self.word()?.eq_ignore_ascii_case("class") {
            let rest = self.rest();
            self.at += rest.find(';').map_or(rest.len(), |end| end + 1);
            return Some(None);
        }
        let name = self.word()?.to_owned();
        let parent = match self.take(':') {
            true => Some(self.word()?.to_owned()),
            false => None,
        };
        let mut class = Class { name, parent, qualifiers, properties: Vec::new() };
        if self.take(';') {
            return Some(Some(class));
        }
        if !self.take('{') {
            return None;
        }
        while !self.take('}') {
            let property = self.property()?;
            class.properties.push(property);
        }
        self.take(';');
        Some(Some(class))
    }

    fn property(&mut self) -> Option<Property> {
        let qualifiers = self.qualifiers()?;
        let kind = self.word()?.to_ascii_lowercase();
        let name = self.word()?.to_owned();
        let mut count = None;
        if self.take('[') {
            self.skip_blank();
            if !self.take(']') {
                let size = self.value()?;
                count = size.numbers().first().and_then(|size| u16::try_from(*size).ok());
                if !self.take(']') {
                    return None;
                }
            } else {
                count = Some(0);
            }
        }
        if self.take('=') {
            self.value()?;
        }
        self.take(';').then_some(Property { name, kind, count, qualifiers })
    }

    fn qualifiers(&mut self) -> Option<Qualifiers> {
        let mut qualifiers = Qualifiers::new();
        if !self.take('[') {
            return Some(qualifiers);
        }
        loop {
            if self.take(']') {
                return Some(qualifiers);
            }
            let name = self.word()?.to_ascii_lowercase();
            let value = if self.take('(') {
                let value = self.value()?;
                if !self.take(')') {
                    return None;
                }
                value
            } else if self.text[self.at..].starts_with('{') {
                self.value()?
            } else {
                Value::None
            };
            // Flavours.
            if self.take(':') {
                while let Some(_flavour) = self.word() {}
            }
            qualifiers.insert(name, value);
            self.take(',');
        }
    }

    fn value(&mut self) -> Option<Value> {
        let mut list: Option<Vec<Value>> = None;
        loop {
            self.skip_blank();
            match self.rest().chars().next()? {
                '{' if list.is_none() => {
                    self.at += 1;
                    list = Some(Vec::new());
                    continue;
                }
                '}' if list.is_some() => {
                    self.at += 1;
                    return list.map(Value::List);
                }
                ',' if list.is_some() => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let value = self.single()?;
            match &mut list {
                Some(list) => list.push(value),
                None => return Some(value),
            }
        }
    }

    fn single(&mut self) -> Option<Value> {
        if self.rest().starts_with('"') {
            let mut text = String::new();
            // Texts one behind the other are one.
            while self.take('"') {
                loop {
                    let c = self.rest().chars().next()?;
                    self.at += c.len_utf8();
                    match c {
                        '"' => break,
                        '\\' => {
                            let escaped = self.rest().chars().next()?;
                            self.at += escaped.len_utf8();
                            text.push(match escaped {
                                'n' => '\n',
                                't' => '\t',
                                other => other,
                            });
                        }
                        c => text.push(c),
                    }
                }
            }
            return Some(Value::Text(text));
        }
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_-+.$".contains(c)));
        let word = &rest[..end.unwrap_or(rest.len())];
        if word.is_empty() {
            return None;
        }
        self.at += word.len();
        Some(parse_number(word).map_or_else(|| Value::Text(word.to_owned()), Value::Number))
    }
}

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

fn compile(
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
        _ if property.count.is_some() && sized_by.is_some() => return None,
        _ => {}
    }
    field.map = map(property).map(Arc::new);
    Some(field)
}

fn map(property: &Property) -> Option<Map> {
    let list = |name: &str| property.qualifiers.get(name).map(Value::texts);
    let numbers = |name: &str| -> Option<Vec<i64>> {
        Some(
            property
                .qualifiers
                .get(name)?
                .texts()
                .iter()
                .map(|text| parse_number(text).unwrap_or(0))
                .collect(),
        )
    };
    let value_type = property.qualifiers.get("valuetype").and_then(Value::text).unwrap_or_default();
    let (kind, names, values) = if let Some(names) = list("bitvalues") {
        let bits = numbers("bitmap").unwrap_or_else(|| (0..names.len() as i64).collect());
        let masks = bits.into_iter().map(|bit| 1i64.checked_shl(bit as u32).unwrap_or(0)).collect();
        (MapKind::Bits, names, masks)
    } else {
        let names = list("values")?;
        let is_flag = value_type.eq_ignore_ascii_case("flag");
        let kind = if is_flag { MapKind::Bits } else { MapKind::Value };
        let implied = || match is_flag {
            true => (0..names.len().min(32)).map(|bit| 1i64 << bit).collect(),
            false => (0..names.len() as i64).collect(),
        };
        let values = numbers("valuemap").unwrap_or_else(implied);
        (kind, names, values)
    };
    let entries: Vec<(u32, String)> = values
        .into_iter()
        .zip(names)
        .filter_map(|(value, name): (i64, String)| Some((u32::try_from(value).ok()?, name)))
        .collect();
    (!entries.is_empty()).then(|| Map { name: property.name.clone(), kind, entries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Decoder, Source, Style};
    use etw_types::{EventRecord, HeaderType};

    const MOF: &str = r#"
#pragma namespace("\\\\.\\root\\wmi")
/* a provider */
[Dynamic, Description("x; }") : amended toinstance, Guid("{11111111-2222-3333-4444-555555555555}"), locale("MS\\0x409")]
class Maker : EventTrace { [Description("levels"), ValueDescriptions{"a","b"} : amended, ValueMap{"0x1"}] uint32 Flags; };
[Guid("{aaaaaaaa-2222-3333-4444-555555555555}"), EventVersion(2), DisplayName("Job") : amended]
class Job : Maker { };
[EventType{10, 11}, EventTypeName{"Begin", "End"}]
class Job_Type : Job
{
   [WmiDataId(2), read, Format("w"), StringTermination("NullTerminated")] string Name;
   [WmiDataId(1), Pointer] uint32 Address;
   [WmiDataId(3), Values{"No", "Yes"}, ValueType("index")] uint32 Answer;
   [WmiDataId(4), Format("x")] uint32 Mask;
   [WmiDataId(5), extension("IPAddr")] object Where;
   [WmiDataId(6), read] uint8 Count;
   [WmiDataId(7), WmiSizeIs("Count")] uint16 List[];
   [WmiDataId(8), MAX(3)] char16 Text[3];
};
[EventType(1)] class Alone { [WmiDataId(1)] uint8 X; };
"#;

    #[test]
    fn classes() {
        let (events, warnings) = parse(MOF.as_bytes());
        assert_eq!(events.len(), 2, "{warnings:?}");
        assert!(warnings.iter().any(|warning| warning.contains("Alone")), "{warnings:?}");
        let mut catalog = Catalog::default();
        catalog.add_mof(MOF.as_bytes());
        let mut decoder = Decoder::new();
        decoder.set_catalog(Arc::new(catalog));
        let payload = [
            &0x1234u32.to_le_bytes()[..],
            b"h\0i\0\0\0",
            &1u32.to_le_bytes(),
            &0xffu32.to_le_bytes(),
            &[10, 0, 0, 1, 2],
            &7u16.to_le_bytes(),
            &8u16.to_le_bytes(),
            b"a\0b\0\0\0",
        ]
        .concat();
        let mut record = EventRecord::new(HeaderType::Full32, &payload);
        record.provider = "aaaaaaaa-2222-3333-4444-555555555555".parse().ok();
        record.pointer_size = 4;
        record.descriptor.opcode.0 = 11;
        record.descriptor.version = 2;
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.source(), Some(Source::Mof), "{:?}", decoded.reason());
        assert_eq!(decoded.event_name(), Some("Job/End"));
        let fields = decoded.fields_text(&record, &Style::default()).unwrap();
        let texts: Vec<_> = fields.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["0x1234", "hi", "Yes", "0xff", "10.0.0.1", "2", "[7, 8]", "ab"]);
    }

    #[test]
    fn damaged_text() {
        for end in 0..MOF.len() {
            parse(&MOF.as_bytes()[..end]);
            parse(&MOF.as_bytes()[end..]);
        }
        let loops = "[EventType(1)] class A : B {}; class B : A {};";
        assert!(parse(loops.as_bytes()).0.is_empty());
        parse("[".repeat(100_000).as_bytes());
        parse("class A { [x{{{{".repeat(1000).as_bytes());
    }
}
