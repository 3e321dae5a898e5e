//! Notes of ELF files that are not loaded: separate debug files and objects.
//!
//! ```text
//! file header 64 bytes: 00 7F "ELF" 02   28 u64 section headers   3A u16 size of one   3C u16 number
//! section header 64 bytes: 04 u32 type (7 notes)   18 u64 offset   20 u64 size
//! ```

use crate::object::notes_in;

const NOTE_SECTION: u32 = 7;
const HEADER_SIZE: usize = 64;
/// Bytes of notes that are read of one file.
const MAX_NOTES: u64 = 16 << 20;
/// Sections that are looked at.
const MAX_SECTIONS: u16 = 4096;

/// Calls `f` with the descriptions of the notes of an owner and a type in a 64-bit ELF file. `read` fills a buffer from an offset and
/// returns whether it could. A file that is damaged has the notes up to the damage; at most 16 MiB of notes are read.
pub fn notes_of_file(
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
    owner: &str,
    note_type: u32,
    f: &mut dyn FnMut(&[u8]),
) {
    let mut header = [0; HEADER_SIZE];
    if !read(0, &mut header) || !header.starts_with(b"\x7fELF\x02") {
        return;
    }
    let u16_at = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let sections = u64_at(&header, 0x28);
    if usize::from(u16_at(0x3a)) != HEADER_SIZE {
        return;
    }
    let owner = [owner.as_bytes(), b"\0"].concat();
    let mut left = MAX_NOTES;
    for number in 0..u16_at(0x3c).min(MAX_SECTIONS) {
        let at = sections.checked_add(u64::from(number) * HEADER_SIZE as u64);
        let mut section = [0; HEADER_SIZE];
        if !at.is_some_and(|at| read(at, &mut section)) {
            return;
        }
        let kind = u32::from_ne_bytes([section[4], section[5], section[6], section[7]]);
        let (offset, size) = (u64_at(&section, 0x18), u64_at(&section, 0x20));
        if kind != NOTE_SECTION || size > left {
            continue;
        }
        left -= size;
        let mut notes = vec![0; size as usize];
        if read(offset, &mut notes) {
            notes_in(&notes, &owner, note_type).for_each(&mut *f);
        }
    }
}

fn u64_at(bytes: &[u8; HEADER_SIZE], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}
