//! Annotations of PDB files: the strings from which `tracepdb` makes TMF files.
//!
//! ```text
//! symbol S_ANNOTATION: u32 offset, u16 segment, u16 strings, each with its NUL
//! TMF:   GUID component // SRC=…   #typev …   {   argument …   }   PUBLIC_TMF:
//! ```

use super::{WppMessage, parse_tmf};
use etw_types::le;
use pdb::FallibleIterator;
use std::fmt::Debug;
use std::io::{Read, Seek};

/// S_ANNOTATION
const ANNOTATION: u16 = 0x1019;
/// Bytes of annotations that are looked at; a kernel's PDB has a hundredth of it.
const SIZE_LIMIT: usize = 256 << 20;

/// The messages of a PDB file; warnings about what could not be read.
///
/// # Errors
/// What the reader of PDBs says of the file.
pub fn parse(file: impl Read + Seek + Debug) -> Result<(Vec<WppMessage>, Vec<String>), String> {
    let (text, mut warnings) = to_tmf(file)?;
    let (messages, more) = parse_tmf(&text);
    warnings.extend(more);
    warnings.truncate(100);
    Ok((messages, warnings))
}

/// The TMF file that `tracepdb` would make of it, but for its head; warnings.
///
/// # Errors
/// What the reader of PDBs says of the file.
pub fn to_tmf(file: impl Read + Seek + Debug) -> Result<(String, Vec<String>), String> {
    let text = |error: pdb::Error| error.to_string();
    let mut pdb = pdb::PDB::open(file).map_err(text)?;
    let (mut tmf, mut warnings) = (String::new(), Vec::new());
    let mut take = |symbol: pdb::Symbol<'_>| {
        if symbol.raw_kind() == ANNOTATION
            && let Some(text) = annotation(symbol.raw_bytes())
            && tmf.len() + text.len() <= SIZE_LIMIT
        {
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
    Ok((tmf, warnings))
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
        msf(&[Vec::new(), info, Vec::new(), debug, symbols])
    }

    #[test]
    fn messages_of_a_pdb() {
        let (messages, warnings) = parse(Cursor::new(file())).unwrap();
        assert_eq!(warnings, [""; 0]);
        let [message] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!(message.number, 10);
        assert_eq!(message.schema.names.provider.as_deref(), Some("Driver"));
        assert!(parse(Cursor::new(b"no PDB")).is_err());
    }

    /// Any byte changed: an error or what is left, never a panic.
    #[test]
    fn damaged_files() {
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
