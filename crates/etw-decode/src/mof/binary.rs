//! Binary MOF, as `mofcomp -B` makes it: files (`.bmf`), and resources of drivers and libraries of the type MOFDATA.
//!
//! ```text
//! "FOMB"   u32 1   u32 compressed size   u32 size   compressed: see `doublespace.rs`
//! decompressed: "FOMB"   u32 size with these eight bytes   u32 1   u32 1   u32 n   n objects
//! object     u32 size   u32 0   u32 size of its qualifiers   u32 size of qualifiers and properties   u32 0 class, 1 instance
//!            list of qualifiers   list of properties   list of methods
//! list       u32 size   u32 n   n items; all sizes count their own four bytes
//! qualifier  u32 size   u32 type   u32 0   u32 size of the name   name   value
//! property   u32 size   u32 type   u32 0   u32 place of its value   u32 place of its list of qualifiers, or -1   name
//!            places count from the name on; a property with a value and without qualifiers is the class's own: __CLASS, __SUPERCLASS
//! type       CIM's: 2 sint16, 3 sint32, 4 real32, 5 real64, 8 string, b boolean, d object, 10 sint8, 11 uint8, 12 uint16, 13 uint32,
//!            14 sint64, 15 uint64, 65 datetime, 67 char16; and 2000 for an array
//! array      u32 size   u32 1   u32 n   u32 size of the values with these four bytes   n values; a boolean has two bytes
//! ```
//!
//! Texts are UTF-16 with NUL. Source: the public descriptions of the bmfdec and tarkin projects; tarkin's has arrays.

use super::doublespace::decompress;
use super::parser::{Class, Property, Qualifiers, Value};
use etw_types::le;

const SIGNATURE: &[u8; 4] = b"FOMB";
/// A decompressed file; Windows' largest has a hundredth of it.
const SIZE_LIMIT: usize = 16 << 20;
const ARRAY: u32 = 0x2000;
/// The place of a part that a property lacks.
const ABSENT: u32 = u32::MAX;

/// Whether bytes are binary MOF, compressed or not.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(SIGNATURE)
}

/// The classes of binary MOF. A damaged one ends the list, and a warning names its offset.
pub(super) fn classes(bytes: &[u8], warnings: &mut Vec<String>) -> Vec<Class> {
    let number = |at: usize| le::u32(bytes, at).unwrap_or(0) as usize;
    let decompressed;
    let bytes = match number(4) {
        1 => {
            let (size, stream) = (number(12), bytes.get(16..).unwrap_or_default());
            let stream = stream.get(..number(8)).unwrap_or(stream);
            let whole = if size > SIZE_LIMIT { None } else { decompress(stream, size) };
            let Some(whole) = whole else {
                warnings.push("binary MOF whose compression is damaged".to_owned());
                return Vec::new();
            };
            decompressed = whole;
            &decompressed[..]
        }
        _ => bytes,
    };
    let mut classes = Vec::new();
    if !is_binary(bytes) {
        warnings.push("binary MOF without its signature".to_owned());
        return classes;
    }
    let end = le::u32(bytes, 4).map_or(0, |end| end as usize).min(bytes.len());
    let Some(count) = le::u32(bytes, 16) else {
        warnings.push("binary MOF that ends before its classes".to_owned());
        return classes;
    };
    let mut at = 20;
    for _ in 0..count {
        let object = bytes.get(..end).and_then(|bytes| item(bytes, at));
        let Some(object) = object.filter(|object| object.len() >= 20) else {
            warnings.push(format!("bad binary MOF: a class was expected at offset {at:#x}"));
            break;
        };
        // Instances describe no events.
        if le::u32(object, 16) == Some(0) {
            match class(object, warnings) {
                Some(class) => classes.push(class),
                None => warnings.push(format!("bad binary MOF: the class at offset {at:#x}")),
            }
        }
        at += object.len();
    }
    classes
}

/// The bytes at `at`, which begin with their size.
fn item(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let size = le::u32(bytes, at)? as usize;
    bytes.get(at..at.checked_add(size)?).filter(|_| size >= 8)
}

/// The items of a list.
fn list(bytes: &[u8], at: usize) -> Option<impl Iterator<Item = Option<&[u8]>>> {
    let list = item(bytes, at)?;
    let count = le::u32(list, 4)? as usize;
    let mut at = 8;
    // An item has at least eight bytes.
    Some((0..count.min(list.len() / 8)).map(move |_| {
        let found = item(list, at)?;
        at += found.len();
        Some(found)
    }))
}

fn class(object: &[u8], warnings: &mut Vec<String>) -> Option<Class> {
    let number = |at: usize| Some(le::u32(object, at)? as usize);
    let (qualifiers_size, data_size) = (number(8)?, number(12)?);
    let data = object.get(20..20usize.checked_add(data_size)?)?;
    let qualifiers = qualifiers(data, 0, warnings)?;
    let (mut name, mut parent, mut properties) = (None, None, Vec::new());
    for property in list(data, qualifiers_size)? {
        let part = Part::read(property?)?;
        match (part.name.as_str(), part.own_value()) {
            ("__CLASS", Some(value)) => name = Some(text(value)),
            ("__SUPERCLASS", Some(value)) => parent = Some(text(value)),
            (_, Some(_)) => {}
            (_, None) => properties.push(part.property(warnings)?),
        }
    }
    Some(Class { name: name?, parent, qualifiers, properties })
}

/// A property of a class, or a fact about the class in the form of one.
struct Part<'b> {
    kind: u32,
    name: String,
    /// From the name on.
    bytes: &'b [u8],
    value: Option<usize>,
    qualifiers: Option<usize>,
}

impl<'b> Part<'b> {
    fn read(item: &'b [u8]) -> Option<Part<'b>> {
        let place =
            |at: usize| Some(le::u32(item, at)?).map(|at| (at != ABSENT).then_some(at as usize));
        let (value, qualifiers) = (place(12)?, place(16)?);
        let bytes = item.get(20..)?;
        let name = bytes.get(..value.or(qualifiers).unwrap_or(bytes.len()))?;
        Some(Part { kind: le::u32(item, 4)?, name: text(name), bytes, value, qualifiers })
    }

    /// The value of a fact about the class.
    fn own_value(&self) -> Option<&'b [u8]> {
        if self.qualifiers.is_none() { self.bytes.get(self.value?..) } else { None }
    }

    fn property(self, warnings: &mut Vec<String>) -> Option<Property> {
        let qualifiers = match self.qualifiers {
            Some(at) => qualifiers(self.bytes, at, warnings)?,
            None => Qualifiers::new(),
        };
        let max = qualifiers.get("max").and_then(|max| max.numbers().first().copied());
        let max = max.and_then(|max| u16::try_from(max).ok()).unwrap_or(0);
        let count = (self.kind & ARRAY != 0).then_some(max);
        Some(Property { name: self.name, kind: kind_name(self.kind).to_owned(), count, qualifiers })
    }
}

/// The word of MOF for a type.
fn kind_name(kind: u32) -> &'static str {
    match kind & !ARRAY {
        0x02 => "sint16",
        0x03 => "sint32",
        0x04 => "real32",
        0x05 => "real64",
        0x08 => "string",
        0x0b => "boolean",
        0x0d => "object",
        0x10 => "sint8",
        0x11 => "uint8",
        0x12 => "uint16",
        0x13 => "uint32",
        0x14 => "sint64",
        0x15 => "uint64",
        0x65 => "datetime",
        0x67 => "char16",
        _ => "unknown",
    }
}

fn qualifiers(bytes: &[u8], at: usize, warnings: &mut Vec<String>) -> Option<Qualifiers> {
    let mut qualifiers = Qualifiers::new();
    for qualifier in list(bytes, at)? {
        let qualifier = qualifier?;
        let (kind, name_size) = (le::u32(qualifier, 4)?, le::u32(qualifier, 12)? as usize);
        let name = qualifier.get(16..16usize.checked_add(name_size)?)?;
        let (name, value) = (text(name), &qualifier[16 + name.len()..]);
        let value = match kind {
            // A truth value without bytes is true.
            0x0b if value.is_empty() || value.iter().any(|byte| *byte != 0) => Value::None,
            0x0b => continue,
            0x03 => Value::Number(i64::from(le::u32(value, 0)? as i32)),
            0x08 => Value::Text(text(value)),
            kind if kind & ARRAY != 0 => match array(kind & !ARRAY, value) {
                Some(values) => Value::List(values),
                None => {
                    warnings.push(format!("binary MOF: the list {name:?} is not readable"));
                    continue;
                }
            },
            _ => continue,
        };
        qualifiers.insert(name.to_ascii_lowercase(), value);
    }
    Some(qualifiers)
}

/// The values of an array of numbers or texts.
fn array(kind: u32, bytes: &[u8]) -> Option<Vec<Value>> {
    let number = |index: usize| le::u32(bytes, index * 4).map(|number| number as usize);
    let data = bytes.get(16..)?;
    let is_array = number(0)? == bytes.len() && number(1)? == 1 && number(3)? == data.len() + 4;
    let values = values(kind, data).filter(|values| is_array && Some(values.len()) == number(2))?;
    Some(values)
}

/// Values of one type that fill their bytes.
fn values(kind: u32, bytes: &[u8]) -> Option<Vec<Value>> {
    let integers = |size: usize, read: fn(&[u8]) -> Option<i64>| -> Option<Vec<Value>> {
        let numbers = bytes.chunks_exact(size).map(|number| read(number).map(Value::Number));
        if bytes.len() % size == 0 { numbers.collect() } else { None }
    };
    match kind {
        0x02 => integers(2, |bytes| Some(i64::from(le::u16(bytes, 0)? as i16))),
        0x03 => integers(4, |bytes| Some(i64::from(le::u32(bytes, 0)? as i32))),
        0x10 => integers(1, |bytes| Some(i64::from(le::u8(bytes, 0)? as i8))),
        0x11 => integers(1, |bytes| le::u8(bytes, 0).map(i64::from)),
        0x0b | 0x12 => integers(2, |bytes| le::u16(bytes, 0).map(i64::from)),
        0x13 => integers(4, |bytes| le::u32(bytes, 0).map(i64::from)),
        0x14 | 0x15 => integers(8, |bytes| le::i64(bytes, 0)),
        0x08 if bytes.len() % 2 == 0 && (bytes.is_empty() || bytes.ends_with(&[0, 0])) => {
            let mut rest = bytes;
            let mut texts = Vec::new();
            while let Some((one, taken)) = le::utf16_z(rest) {
                texts.push(Value::Text(le::utf16_lossy(one)));
                rest = &rest[taken..];
            }
            rest.is_empty().then_some(texts)
        }
        _ => None,
    }
}

/// UTF-16 up to its NUL.
fn text(bytes: &[u8]) -> String {
    le::utf16_lossy(le::utf16_z(bytes).map_or(bytes, |(text, _)| text))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Parsed;
    use crate::mof::parse;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    fn sized(rest: Vec<u8>) -> Vec<u8> {
        [&(rest.len() as u32 + 4).to_le_bytes()[..], &rest].concat()
    }

    fn put_list(items: &[Vec<u8>]) -> Vec<u8> {
        sized([&(items.len() as u32).to_le_bytes()[..], &items.concat()].concat())
    }

    fn qualifier(kind: u32, name: &str, value: &[u8]) -> Vec<u8> {
        let name = wide(name);
        let head = [kind, 0, name.len() as u32].map(u32::to_le_bytes).concat();
        sized([&head[..], &name, value].concat())
    }

    /// The form of an array's head: numbers in front of its values.
    type Head = fn(size: u32, count: u32) -> Vec<u32>;

    fn put_array(head: Head, count: usize, data: &[u8]) -> Vec<u8> {
        let head = head(data.len() as u32, count as u32);
        [&head.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>()[..], data].concat()
    }

    fn property(kind: u32, name: &str, value: Option<&[u8]>, list: Option<&[Vec<u8>]>) -> Vec<u8> {
        let name = wide(name);
        let behind = (name.len() + value.map_or(0, <[u8]>::len)) as u32;
        let places =
            [kind, 0, value.map_or(ABSENT, |_| name.len() as u32), list.map_or(ABSENT, |_| behind)];
        let list = list.map_or_else(Vec::new, put_list);
        let head = places.map(u32::to_le_bytes).concat();
        sized([&head[..], &name, value.unwrap_or_default(), &list].concat())
    }

    fn put_class(name: &str, parent: &str, own: &[Vec<u8>], properties: &[Vec<u8>]) -> Vec<u8> {
        let own = put_list(own);
        let mut all = vec![
            property(8, "__CLASS", Some(&wide(name)), None),
            property(8, "__SUPERCLASS", Some(&wide(parent)), None),
        ];
        all.extend_from_slice(properties);
        let data = [&own[..], &put_list(&all)].concat();
        let head = [0, own.len() as u32, data.len() as u32, 0].map(u32::to_le_bytes).concat();
        sized([head, data, put_list(&[])].concat())
    }

    fn id(number: i32) -> Vec<u8> {
        qualifier(3, "WmiDataId", &number.to_le_bytes())
    }

    /// The classes of an event "Run" (types 10 and 11), decompressed.
    pub fn file(head: Head) -> Vec<u8> {
        let types = [10u32, 11].map(u32::to_le_bytes).concat();
        let names = [wide("Begin"), wide("End")].concat();
        let classes = [
            put_class(
                "Job",
                "EventTrace",
                &[
                    qualifier(0xb, "Dynamic", &0xffffu32.to_le_bytes()),
                    qualifier(8, "Guid", &wide("{aaaaaaaa-2222-3333-4444-555555555555}")),
                    qualifier(3, "EventVersion", &2u32.to_le_bytes()),
                ],
                &[],
            ),
            put_class(
                "Job_Type",
                "Job",
                &[
                    qualifier(0x2003, "EventType", &put_array(head, 2, &types)),
                    qualifier(0x2008, "EventTypeName", &put_array(head, 2, &names)),
                ],
                &[
                    property(0x13, "Address", None, Some(&[id(1), qualifier(0xb, "Pointer", &[])])),
                    property(8, "Name", None, Some(&[id(2), qualifier(8, "Format", &wide("w"))])),
                    property(
                        0x2012,
                        "Pair",
                        None,
                        Some(&[id(3), qualifier(3, "MAX", &2u32.to_le_bytes())]),
                    ),
                ],
            ),
        ];
        let body = [&[1u32, 1, 2].map(u32::to_le_bytes).concat()[..], &classes.concat()].concat();
        [&SIGNATURE[..], &(body.len() as u32 + 8).to_le_bytes(), &body].concat()
    }

    pub const ROW: Head = |size, count| vec![size + 16, 1, count, size + 4];

    /// A file as the compiler writes it, with the table of flavours behind its classes.
    pub fn compressed() -> Vec<u8> {
        let whole = [&file(ROW)[..], b"BMOFQUALFLAVOR11", &0u32.to_le_bytes()].concat();
        let stream = crate::mof::doublespace::tests::compress(&whole);
        let head = [1, stream.len() as u32, whole.len() as u32].map(u32::to_le_bytes).concat();
        [&SIGNATURE[..], &head, &stream].concat()
    }

    #[test]
    fn the_classes_of_a_compressed_file_are_those_of_its_text() {
        const TEXT: &str = r#"
            [Dynamic, Guid("{aaaaaaaa-2222-3333-4444-555555555555}"), EventVersion(2)] class Job : EventTrace {};
            [EventType{10, 11}, EventTypeName{"Begin", "End"}] class Job_Type : Job {
            [WmiDataId(1), Pointer] uint32 Address; [WmiDataId(2), Format("w")] string Name;
            [WmiDataId(3), MAX(2)] uint16 Pair[]; };"#;
        let Parsed { value: expected, .. } = parse(TEXT.as_bytes());
        let Parsed { value: events, warnings } = parse(&compressed());
        assert_eq!((events.len(), warnings.len()), (2, 0), "{warnings:?}");
        assert_eq!(format!("{events:?}"), format!("{expected:?}"));
        let Parsed { value: events, warnings } = parse(&file(ROW));
        assert_eq!(format!("{events:?}"), format!("{expected:?}"), "{warnings:?}");
        // Other numbers: the list is left out, and with it the events, and a warning says so.
        let heads: [Head; 5] = [
            |_, _| vec![77, 78],
            |size, count| vec![size + 16, 2, count, size + 4],
            |size, count| vec![size + 16, 1, count + 1, size + 4],
            |size, count| vec![size + 16, 1, count, size],
            |size, count| vec![size + 12, 1, count, size + 4],
        ];
        for head in heads {
            let Parsed { value: events, warnings } = parse(&file(head));
            assert!(events.is_empty() && warnings[0].contains("EventType"), "{warnings:?}");
        }
    }

    #[test]
    fn arrays_of_every_integer_have_their_values() {
        let numbers = |kind: u32, bytes: &[u8]| {
            let head = [bytes.len() as u32 + 16, 1, 2, bytes.len() as u32 + 4];
            let whole = [&head.map(u32::to_le_bytes).concat()[..], bytes].concat();
            array(kind, &whole).map(|values| Value::List(values).numbers())
        };
        assert_eq!(numbers(0x10, &[0, 0xc0]), Some(vec![0, -64]));
        assert_eq!(numbers(0x11, &[0, 64]), Some(vec![0, 64]));
        assert_eq!(numbers(0x02, &[0, 0, 0x80, 0xff]), Some(vec![0, -128]));
        assert_eq!(numbers(0x12, &[0, 0, 128, 0]), Some(vec![0, 128]));
        assert_eq!(numbers(0x03, &[0, 0, 0, 0, 0, 0xff, 0xff, 0xff]), Some(vec![0, -256]));
        assert_eq!(numbers(0x13, &[0, 0, 0, 0, 0, 1, 0, 0]), Some(vec![0, 256]));
        let wide = [0i64, 512].map(i64::to_le_bytes).concat();
        assert_eq!(numbers(0x15, &wide), Some(vec![0, 512]));
        assert_eq!(numbers(0x0b, &[0, 0, 0xff, 0xff]), Some(vec![0, 0xffff]));
        assert_eq!(numbers(0x13, &[0; 7]), None);
    }

    /// The fuzz corpus has both forms, which other crates' tests use, too: u16 size, MOF, payload.
    #[test]
    fn the_corpus_has_these_files() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/mof/");
        for (name, file) in [("binary", file(ROW)), ("compressed", compressed())] {
            let payload = [1, 2, 3, 4, b'a', 0, 0, 0, 5, 0, 6, 0];
            let whole = [&(file.len() as u16).to_le_bytes()[..], &file, &payload].concat();
            if std::env::var_os("ETW_BLESS").is_some() {
                std::fs::write(format!("{folder}{name}"), &whole).unwrap();
            }
            assert_eq!(std::fs::read(format!("{folder}{name}")).unwrap(), whole, "{name}");
        }
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_is_reported() {
        let whole = file(ROW);
        for size in 0..whole.len() {
            let Parsed { value: events, warnings } = parse(&whole[..size]);
            assert!(events.is_empty() && (size < 4 || !warnings.is_empty()), "{size}");
        }
        let mut damaged = compressed();
        damaged[16] ^= 1;
        assert_eq!(parse(&damaged).warnings, ["binary MOF whose compression is damaged"]);
    }
}
