//! Formats of messages inside of programs: the section `.etw.tmf` of an ELF file, which holds TMF texts with a NUL behind each.

use etw_types::le;

/// Name of the section.
const SECTION: &[u8] = b".etw.tmf";
/// Sections of one file that are looked at.
const SECTION_LIMIT: usize = 1 << 16;

/// Whether the bytes are an ELF file.
pub fn is_program(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// The TMF text in a program; `None` if it has none.
///
/// Source: the ELF specification; files of little-endian machines, of 32 and 64 bits.
pub fn formats(file: &[u8]) -> Option<String> {
    const LITTLE_ENDIAN: u8 = 1;
    let is_64 = match (file.get(4)?, *file.get(5)? == LITTLE_ENDIAN) {
        (1, true) => false,
        (2, true) => true,
        _ => return None,
    };
    let table = match is_64 {
        true => usize::try_from(le::u64(file, 0x28)?).ok()?,
        false => le::u32(file, 0x20)? as usize,
    };
    let counts = if is_64 { 0x3a } else { 0x2e };
    let entry_size = usize::from(le::u16(file, counts)?);
    let count = usize::from(le::u16(file, counts + 2)?).min(SECTION_LIMIT);
    let names = usize::from(le::u16(file, counts + 4)?);
    let section = |index: usize| -> Option<(usize, &[u8])> {
        let at = table.checked_add(index.checked_mul(entry_size)?)?;
        let header = file.get(at..at.checked_add(entry_size)?)?;
        let (offset, size) = match is_64 {
            true => (le::u64(header, 0x18)?, le::u64(header, 0x20)?),
            false => (u64::from(le::u32(header, 0x10)?), u64::from(le::u32(header, 0x14)?)),
        };
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(usize::try_from(size).ok()?)?;
        Some((le::u32(header, 0)? as usize, file.get(offset..end)?))
    };
    let (_, names) = section(names)?;
    let mut text = String::new();
    for index in 0..count {
        let Some((name, contents)) = section(index) else { continue };
        let is_named = names.get(name..).is_some_and(|name| {
            name.strip_prefix(SECTION).is_some_and(|rest| rest.first() == Some(&0))
        });
        // An object file has one of them for each source, a program one in all.
        if is_named && text.len() + contents.len() <= file.len() {
            for part in contents.split(|byte| *byte == 0) {
                text.push_str(&String::from_utf8_lossy(part));
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with the section and the table of names.
    fn program(text: &[u8]) -> Vec<u8> {
        let names = b"\0.etw.tmf\0.names\0";
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(64, 0);
        let contents = file.len();
        file.extend(text);
        let names_at = file.len();
        file.extend(names);
        let table = file.len();
        for (name, at, size) in
            [(0, 0, 0), (1u32, contents, text.len()), (10, names_at, names.len())]
        {
            let mut header = name.to_le_bytes().to_vec();
            header.resize(0x18, 0);
            header.extend((at as u64).to_le_bytes());
            header.extend((size as u64).to_le_bytes());
            header.resize(64, 0);
            file.extend(header);
        }
        file[0x28..0x30].copy_from_slice(&(table as u64).to_le_bytes());
        file[0x3a..0x40].copy_from_slice(&[64, 0, 3, 0, 2, 0]);
        file
    }

    #[test]
    fn a_program_has_the_texts_of_all_its_sources() {
        let file = program(b"first\n\0second\n\0");
        assert_eq!(formats(&file).as_deref(), Some("first\nsecond\n"));
        assert_eq!(formats(&program(b"")), None);
    }

    #[test]
    fn damaged_programs_have_no_formats_or_others() {
        let whole = program(b"text\0");
        for end in 0..whole.len() {
            let _ = formats(&whole[..end]);
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            let _ = formats(&changed);
        }
    }
}
