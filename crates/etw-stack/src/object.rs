//! Loaded ELF objects, as the dynamic loader lists them (`dl_iterate_phdr(3)`).
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// An object, while the loader's lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a> {
    /// The difference between addresses in memory and in the file.
    pub(crate) bias: u64,
    name: &'a CStr,
    headers: &'a [libc::Elf64_Phdr],
    /// The number of objects that the loader has loaded, and unloaded, so far.
    pub(crate) changes: (u64, u64),
}

/// Calls `f` with each object, the program first.
pub(crate) fn each(mut f: impl FnMut(&Object)) {
    let mut f: &mut dyn FnMut(&Object) = &mut f;
    // SAFETY: the callback uses the pointer that is passed here, and only during the call.
    unsafe { libc::dl_iterate_phdr(Some(callback), (&raw mut f).cast()) };
}

unsafe extern "C" fn callback(info: *mut libc::dl_phdr_info, size: usize, f: *mut c_void) -> c_int {
    // SAFETY: `each` passed this pointer to a closure that no other code uses meanwhile.
    let f = unsafe { &mut *f.cast::<&mut dyn FnMut(&Object)>() };
    // SAFETY: the loader's structure, valid during the callback; the fields up to `dlpi_phnum` are always there.
    let object = unsafe {
        let info = &raw const *info;
        let name = (*info).dlpi_name;
        let headers = (*info).dlpi_phdr;
        let whole = size >= size_of::<libc::dl_phdr_info>();
        Object {
            bias: (*info).dlpi_addr,
            name: if name.is_null() { c"" } else { CStr::from_ptr(name) },
            headers: if headers.is_null() {
                &[]
            } else {
                core::slice::from_raw_parts(headers, (*info).dlpi_phnum.into())
            },
            changes: if whole { ((*info).dlpi_adds, (*info).dlpi_subs) } else { (0, 0) },
        }
    };
    f(&object);
    0
}

/// A part of an object in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    /// Its addresses.
    pub(crate) range: Range<u64>,
    /// The offset of its start in the file, in bytes.
    pub(crate) file_offset: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
}

impl Object<'_> {
    /// The parts that are loaded.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.headers.iter().filter(|h| h.p_type == libc::PT_LOAD).map(|h| Segment {
            range: self.range(h),
            file_offset: h.p_offset,
            readable: h.p_flags & libc::PF_R != 0,
            writable: h.p_flags & libc::PF_W != 0,
            executable: h.p_flags & libc::PF_X != 0,
        })
    }

    fn range(&self, header: &libc::Elf64_Phdr) -> Range<u64> {
        let start = self.bias.wrapping_add(header.p_vaddr);
        start..start.saturating_add(header.p_memsz)
    }

    /// The address range of the segment of this type, according to the headers.
    pub(crate) fn find(&self, header_type: u32) -> impl Iterator<Item = Range<u64>> + '_ {
        self.headers.iter().filter(move |h| h.p_type == header_type).map(|h| self.range(h))
    }

    /// The segment that contains an address.
    pub(crate) fn segment_of(&self, address: u64) -> Option<Segment> {
        self.segments().find(|s| s.range.contains(&address))
    }

    /// The bytes from an address to the end of its segment, or fewer; none outside of readable segments.
    pub(crate) fn bytes(&self, range: Range<u64>) -> &[u8] {
        match self.segment_of(range.start) {
            Some(segment) if segment.readable => {
                let end = range.end.min(segment.range.end);
                let len = end.saturating_sub(range.start) as usize;
                // SAFETY: the bytes lie in a segment that the loader has mapped and, holding its lock, does not unmap. Nothing writes to
                // notes and unwind tables.
                unsafe { core::slice::from_raw_parts(range.start as *const u8, len) }
            }
            _ => &[],
        }
    }

    /// True if the object is never unloaded: the program, and the kernel's own object.
    pub(crate) fn is_permanent(&self) -> bool {
        // SAFETY: reads a vector that never changes.
        let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        self.name.is_empty() || (vdso != 0 && self.segment_of(vdso).is_some())
    }

    /// Its file. The kernel reports the program's path; the loader does not.
    pub(crate) fn path(&self) -> PathBuf {
        if self.name.is_empty() {
            return std::fs::read_link("/proc/self/exe").unwrap_or_default();
        }
        PathBuf::from(OsStr::from_bytes(self.name.to_bytes()))
    }

    /// The GNU build id, or nothing.
    pub(crate) fn build_id(&self) -> Vec<u8> {
        let mut notes = self.find(libc::PT_NOTE).map(|range| self.bytes(range));
        let id = notes.find_map(|notes| notes_in(notes, b"GNU\0", 3).next());
        id.unwrap_or_default().to_vec()
    }

    /// Calls `f` with the description of each note of an owner and a type.
    pub(crate) fn notes(&self, owner: &[u8], note_type: u32, f: &mut dyn FnMut(&[u8])) {
        for range in self.find(libc::PT_NOTE) {
            notes_in(self.bytes(range), owner, note_type).for_each(&mut *f);
        }
    }
}

/// The descriptions of an owner's notes of a type in a segment of notes: size of the name, size of the description, type, and both,
/// padded to 4 bytes (gABI, "Note section"). The owner ends with a NUL. A size that leads out of the segment ends the search.
pub(crate) fn notes_in<'n>(
    mut notes: &'n [u8],
    owner: &[u8],
    note_type: u32,
) -> impl Iterator<Item = &'n [u8]> {
    let mut next = move || -> Option<(bool, &'n [u8])> {
        let word = |at: usize| Some(u32::from_ne_bytes(notes.get(at..at + 4)?.try_into().ok()?));
        let (name_size, size, found_type) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let name = notes.get(12..12_usize.checked_add(name_size)?)?;
        let start = 12 + name_size.next_multiple_of(4);
        let description = notes.get(start..start.checked_add(size)?)?;
        let is_wanted = found_type == note_type && name == owner;
        notes = notes.get(start + size.next_multiple_of(4)..).unwrap_or_default();
        Some((is_wanted, description))
    };
    std::iter::from_fn(move || {
        loop {
            if let (true, description) = next()? {
                return Some(description);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_id_in(notes: &[u8]) -> Option<&[u8]> {
        notes_in(notes, b"GNU\0", 3).next()
    }

    fn note(name: &[u8], note_type: u32, description: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, description.len() as u32, note_type] {
            note.extend(word.to_ne_bytes());
        }
        for part in [name, description] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn build_id_is_found_among_notes() {
        let id = [7; 20];
        let mut notes = note(b"GNU\0", 5, &[1; 16]);
        notes.extend(note(b"other\0", 3, &[2; 5]));
        notes.extend(note(b"GNU\0", 3, &id));
        assert_eq!(build_id_in(&notes), Some(&id[..]));
        for end in 0..notes.len() {
            assert_eq!(build_id_in(&notes[..end]), None, "{end}");
        }
    }

    #[test]
    fn malicious_note_sizes_end_the_search() {
        let mut notes = note(b"GNU\0", 1, &[0; 4]);
        for at in [0, 4] {
            notes[at..at + 4].fill(0xff);
            assert_eq!(build_id_in(&notes), None);
        }
    }

    #[test]
    fn the_program_comes_first() {
        let mut objects = Vec::new();
        let code = the_program_comes_first as *const () as u64;
        each(|o| {
            objects.push((o.is_permanent(), o.segment_of(code).is_some_and(|s| s.executable)))
        });
        assert_eq!(objects[0], (true, true));
        assert!(objects[1..].iter().all(|o| !o.1));
        assert!(
            objects.iter().any(|o| !o.0),
            "the C library can be unloaded, for all that is known"
        );
    }
}
