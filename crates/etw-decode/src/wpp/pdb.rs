//! Annotations of PDB files: the strings from which `tracepdb` makes TMF files.
//!
//! ```text
//! symbol S_ANNOTATION: u32 offset, u16 segment, u16 strings, each with its NUL
//! TMF:   GUID component // SRC=…   #typev …   {   argument …   }   PUBLIC_TMF:
//! ```

use super::{WppMessage, parse_tmf};
use crate::parsed::Parsed;
use etw_types::le;
use pdb::FallibleIterator;
use std::collections::HashMap;
use std::fmt::Debug;
use std::io::{Read, Seek};

/// S_ANNOTATION
const ANNOTATION: u16 = 0x1019;
/// Bytes of annotations that are looked at; a kernel's PDB has a hundredth of it.
const SIZE_LIMIT: usize = 256 << 20;

/// The messages of a PDB file; warnings about what could not be read.
///
/// # Errors
/// The message of the PDB reader.
pub fn parse(file: impl Read + Seek + Debug) -> Result<Parsed<Vec<WppMessage>>, String> {
    let Parsed { value: text, mut warnings } = to_tmf(file)?;
    let messages = parse_tmf(&text);
    warnings.extend(messages.warnings);
    warnings.truncate(100);
    Ok(Parsed { value: messages.value, warnings })
}

/// The TMF file that `tracepdb` would make of it, but for its head; warnings.
///
/// # Errors
/// The message of the PDB reader.
pub fn to_tmf(file: impl Read + Seek + Debug) -> Result<Parsed<String>, String> {
    let text = |error: pdb::Error| error.to_string();
    let mut pdb = pdb::PDB::open(file).map_err(text)?;
    let (mut tmf, mut warnings) = (String::new(), Vec::new());
    let mut take = |symbol: pdb::Symbol<'_>| {
        let is_annotation = symbol.raw_kind() == ANNOTATION;
        let text = is_annotation.then(|| annotation(symbol.raw_bytes())).flatten();
        if let Some(text) = text.filter(|text| tmf.len() + text.len() <= SIZE_LIMIT) {
            tmf.push_str(&text);
            tmf.push('\n');
        }
    };
    let debug = pdb.debug_information().map_err(text)?;
    let mut modules = debug.modules().map_err(text)?;
    while let Some(module) = modules.next().map_err(text)? {
        let each = |info: Option<pdb::ModuleInfo<'_>>| -> pdb::Result<()> {
            let Some(info) = info else { return Ok(()) };
            let mut symbols = info.symbols()?;
            while let Some(symbol) = symbols.next()? {
                take(symbol);
            }
            Ok(())
        };
        // A damaged module hides none of the others.
        if let Err(error) = pdb.module_info(&module).and_then(each)
            && warnings.len() < 100
        {
            warnings.push(format!("module {:?}: {error}", module.module_name()));
        }
    }
    // Stripped files keep public messages with the global symbols.
    if let Ok(globals) = pdb.global_symbols() {
        let mut symbols = globals.iter();
        while let Ok(Some(symbol)) = symbols.next() {
            take(symbol);
        }
    }
    if ["ItemEnum(", "ItemFlagsEnum("].iter().any(|item| tmf.contains(item)) {
        match enums(&mut pdb) {
            Ok(enums) => tmf = with_enums(&tmf, &enums),
            Err(error) => warnings.push(format!("types: {error}")),
        }
    }
    Ok(Parsed { value: tmf, warnings })
}

/// Names and values of enumerations, by name.
type Enums = HashMap<String, Vec<(String, i64)>>;

/// Names of all of a PDB's enumerations together; a kernel's has a hundredth of it.
const NAME_LIMIT: usize = 1 << 20;

/// The types' stream: a header of the size at 4, the first number at 8, then `u16` size, `u16` kind and the rest of each.
/// (The library's own reading of types panics on some that cannot be.)
fn enums<'s>(pdb: &mut pdb::PDB<'s, impl pdb::Source<'s> + 's>) -> pdb::Result<Enums> {
    const FIELD_LIST: u16 = 0x1203;
    const ENUM: u16 = 0x1507;
    let mut enums = Enums::new();
    let Some(stream) = pdb.raw_stream(pdb::StreamIndex(2))? else { return Ok(enums) };
    let bytes = stream.as_slice();
    let (Some(head), Some(first)) = (le::u32(bytes, 4), le::u32(bytes, 8)) else {
        return Ok(enums);
    };
    let mut at = head as usize;
    let mut index = first;
    let (mut lists, mut found) = (HashMap::new(), Vec::new());
    while let (Some(size), Some(kind)) = (le::u16(bytes, at), le::u16(bytes, at + 2)) {
        let Some(data) = bytes.get(at + 4..at + 2 + usize::from(size)) else { break };
        match kind {
            FIELD_LIST => drop(lists.insert(index, data)),
            // Count, properties, underlying type, field list, name.
            ENUM => found.extend(le::u32(data, 8).zip(data.get(12..).map(text))),
            _ => {}
        }
        at += 2 + usize::from(size);
        index = index.wrapping_add(1);
    }
    let mut count = 0;
    for (mut list, name) in found {
        let mut names = Vec::new();
        // A long list goes on in another; a circle of them is none.
        for _ in 0..64 {
            let Some(data) = lists.get(&list) else { break };
            match enumerators(data, &mut names) {
                Some(next) => list = next,
                None => break,
            }
        }
        count += names.len() + 1;
        if count > NAME_LIMIT {
            break;
        }
        // A declaration has none.
        if !names.is_empty() {
            enums.insert(name, names);
        }
    }
    Ok(enums)
}

/// Up to its NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The enumerators of a field list, and the list that continues it.
fn enumerators(data: &[u8], names: &mut Vec<(String, i64)>) -> Option<u32> {
    const ENUMERATE: u16 = 0x1502;
    const CONTINUED: u16 = 0x1404;
    let mut at = 0;
    loop {
        match le::u16(data, at)? {
            ENUMERATE => {
                // Attributes, then a number of its own size.
                let number = at + 4;
                let (value, size) = match le::u16(data, number)? {
                    small @ 0..0x8000 => (i64::from(small), 2),
                    0x8000 => (i64::from(le::u8(data, number + 2)? as i8), 3),
                    0x8001 => (i64::from(le::u16(data, number + 2)? as i16), 4),
                    0x8002 => (i64::from(le::u16(data, number + 2)?), 4),
                    0x8003 => (i64::from(le::u32(data, number + 2)? as i32), 6),
                    0x8004 => (i64::from(le::u32(data, number + 2)?), 6),
                    0x8009 | 0x800a => (le::i64(data, number + 2)?, 10),
                    _ => return None,
                };
                let rest = data.get(number + size..)?;
                let name = text(rest);
                at = number + size + rest.iter().position(|byte| *byte == 0)? + 1;
                names.push((name, value));
                // A filler byte says how far the next member is.
                while data.get(at).is_some_and(|byte| *byte > 0xf0) {
                    at += usize::from(data[at] & 0xf);
                }
            }
            CONTINUED => return le::u32(data, at + 4),
            _ => return None,
        }
    }
}

/// Enumerations as lists of their names, which TMF files can hold: of values, or of bits.
fn with_enums(tmf: &str, enums: &Enums) -> String {
    let mut out = String::with_capacity(tmf.len());
    for line in tmf.lines() {
        out.push_str(&with_enum(line, enums).unwrap_or_else(|| line.to_owned()));
        out.push('\n');
    }
    out
}

/// `expression, ItemEnum(NAME) -- index`
fn with_enum(line: &str, enums: &Enums) -> Option<String> {
    let (at, item) = ["ItemEnum(", "ItemFlagsEnum("]
        .iter()
        .find_map(|item| Some((line.rfind(&format!(", {item}"))? + 2, *item)))?;
    let (name, behind) = line[at + item.len()..].split_once(')')?;
    let names = enums.get(name.trim()).or_else(|| {
        // In a namespace, or by its tag.
        let mut named = enums.iter().filter(|(known, _)| {
            known.rsplit("::").next() == Some(name.trim())
                || known.strip_prefix('_') == Some(name.trim())
        });
        named.next().map(|(_, names)| names)
    })?;
    let is_flags = item.starts_with("ItemFlags");
    let entries = names.iter().filter_map(|(name, value)| {
        let value =
            u32::try_from(*value).ok().or_else(|| i32::try_from(*value).ok().map(|v| v as u32))?;
        match is_flags {
            true => value.is_power_of_two().then(|| format!("{name}={}", value.trailing_zeros())),
            false => Some(format!("{name}={value}")),
        }
    });
    let list = entries.collect::<Vec<_>>().join(",");
    let kind = if is_flags { "ItemSetLong" } else { "ItemListLong" };
    Some(format!("{}{kind}({list}){behind}", &line[..at]))
}

/// The strings of a `TMF:` annotation as a TMF file; `None` for others.
fn annotation(symbol: &[u8]) -> Option<String> {
    // Behind the kind.
    let count = usize::from(le::u16(symbol, 8)?);
    let strings = symbol.get(10..)?.split(|byte| *byte == 0).take(count);
    let mut strings = strings.map(String::from_utf8_lossy);
    if strings.next()? != "TMF:" {
        return None;
    }
    let lines = strings.filter(|line| line != "PUBLIC_TMF:");
    Some(lines.map(|line| line.replace(['\r', '\n'], " ")).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    const BLOCK: usize = 512;

    /// A file of streams.
    fn msf(streams: &[Vec<u8>]) -> Vec<u8> {
        let mut file = vec![0; 3 * BLOCK];
        let mut directory = Vec::new();
        let u32 = |bytes: &mut Vec<u8>, value: usize| bytes.extend((value as u32).to_le_bytes());
        u32(&mut directory, streams.len());
        for stream in streams {
            u32(&mut directory, stream.len());
        }
        for stream in streams {
            for part in stream.chunks(BLOCK) {
                u32(&mut directory, file.len() / BLOCK);
                file.extend(part);
                file.resize(file.len().next_multiple_of(BLOCK), 0);
            }
        }
        let map: Vec<usize> =
            (0..directory.len().div_ceil(BLOCK)).map(|n| file.len() / BLOCK + n).collect();
        file.extend(&directory);
        file.resize(file.len().next_multiple_of(BLOCK), 0);
        let map_at = file.len() / BLOCK;
        for block in map {
            u32(&mut file, block);
        }
        file.resize(file.len().next_multiple_of(BLOCK), 0);
        let mut head = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0".to_vec();
        for value in [BLOCK, 1, file.len() / BLOCK, directory.len(), 0, map_at] {
            u32(&mut head, value);
        }
        file[..head.len()].copy_from_slice(&head);
        file
    }

    fn symbol(strings: &[&str]) -> Vec<u8> {
        let mut data = vec![0x19, 0x10, 0, 0, 0, 0, 0, 0];
        data.extend((strings.len() as u16).to_le_bytes());
        for string in strings {
            data.extend(string.as_bytes());
            data.push(0);
        }
        data.resize((data.len() + 2).next_multiple_of(4) - 2, 0);
        [&(data.len() as u16).to_le_bytes()[..], &data].concat()
    }

    fn file() -> Vec<u8> {
        let mut symbols = 4u32.to_le_bytes().to_vec();
        symbols.extend(symbol(&["TMC:", "x", "y"]));
        symbols.extend(symbol(&[
            "TMF:",
            "00112233-4455-6677-8899-aabbccddeeff Driver // SRC=a.c MJ= MN=",
            "#typev a_c12 10 \"%0status %10!s!\" //   LEVEL=L FLAGS=F FUNC=f",
            "{",
            "status, ItemNTSTATUS -- 10",
            "state, ItemEnum(STATE) -- 11",
            "flags, ItemFlagsEnum(FLAGS) -- 12",
            "}",
            "PUBLIC_TMF:",
        ]));
        let mut module = vec![0; 64];
        module[34..36].copy_from_slice(&4u16.to_le_bytes());
        module[36..40].copy_from_slice(&(symbols.len() as u32).to_le_bytes());
        module.extend(b"a.obj\0a.lib\0");
        module.resize(module.len().next_multiple_of(4), 0);
        let mut debug = Vec::new();
        debug.extend((-1i32).to_le_bytes());
        debug.extend(19_990_903u32.to_le_bytes());
        debug.extend(1u32.to_le_bytes());
        debug.extend([0xff; 12]);
        debug.extend((module.len() as u32).to_le_bytes());
        debug.resize(64, 0);
        debug.extend(module);
        let mut info = Vec::new();
        for value in [20_000_404u32, 1, 1] {
            info.extend(value.to_le_bytes());
        }
        info.extend([7; 16]);
        info.extend([0; 16]);
        msf(&[Vec::new(), info, types(), debug, symbols])
    }

    /// `_STATE { Off, On = 5 }`, and `FLAGS { A = 1, C = 4 }`.
    fn types() -> Vec<u8> {
        let record = |kind: u16, data: &[u8]| {
            let mut record = [&kind.to_le_bytes()[..], data].concat();
            record.resize((record.len() + 2).next_multiple_of(4) - 2, 0xf1);
            [&(record.len() as u16).to_le_bytes()[..], &record].concat()
        };
        let list = |values: [(&str, u16); 2]| {
            let mut data = Vec::new();
            for (name, value) in values {
                data.extend(0x1502u16.to_le_bytes());
                data.extend(3u16.to_le_bytes());
                data.extend(value.to_le_bytes());
                data.extend(name.as_bytes());
                data.push(0);
                while data.len() % 4 != 0 {
                    data.push(0xf0 | (4 - data.len() % 4) as u8);
                }
            }
            record(0x1203, &data)
        };
        let named = |fields: u32, name: &str| {
            let head = [
                &2u16.to_le_bytes()[..],
                &0u16.to_le_bytes(),
                &0x74u32.to_le_bytes(),
                &fields.to_le_bytes(),
            ];
            record(0x1507, &[&head.concat()[..], name.as_bytes(), b"\0"].concat())
        };
        let records = [
            list([("Off", 0), ("On", 5)]),
            named(0x1000, "_STATE"),
            list([("A", 1), ("C", 4)]),
            named(0x1002, "FLAGS"),
        ]
        .concat();
        let mut types = Vec::new();
        for value in [20_040_203u32, 56, 0x1000, 0x1004, records.len() as u32, 0xffff, 4, 0x3ffff] {
            types.extend(value.to_le_bytes());
        }
        types.extend([0; 24]);
        types.extend(records);
        types
    }

    #[test]
    fn a_pdb_has_the_messages_of_its_program() {
        let Parsed { value: messages, warnings } = parse(Cursor::new(file())).unwrap();
        assert_eq!(warnings, [""; 0]);
        let [message] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!(message.number, 10);
        assert_eq!(message.schema.names.provider.as_deref(), Some("Driver"));
        let names = |number: usize, value: u64| {
            let map = message.schema.fields[number].map.as_ref().unwrap();
            map.name_of(value).map(|name| name.into_owned())
        };
        let count = message.schema.fields.len();
        assert_eq!((names(count - 2, 5).as_deref(), names(count - 2, 1)), (Some("On"), None));
        assert_eq!(names(count - 1, 5).as_deref(), Some("A|C"));
        assert!(parse(Cursor::new(b"no PDB")).is_err());
    }

    /// Any byte changed: an error or what is left, never a panic.
    #[test]
    fn damaged_symbol_files_cause_no_panic() {
        let whole = file();
        for end in (0..whole.len()).step_by(7) {
            let _ = parse(Cursor::new(&whole[..end]));
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            let _ = parse(Cursor::new(changed));
        }
    }
}
