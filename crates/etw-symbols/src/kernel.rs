//! [`KernelSymbols`]: symbols of the running kernel, as `/proc/kallsyms` lists them.

use crate::{Function, Module};
use object::elf::{FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::NoteIterator;
use std::sync::Arc;

/// Symbols that are kept; only a hostile list has more.
const LIMIT: usize = 4 << 20;

/// Symbols of a kernel.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// By address.
    functions: Vec<(u64, Box<str>)>,
    /// The address of `_text`.
    text: u64,
    /// The kernel's build id, or empty.
    pub build_id: Vec<u8>,
}

impl KernelSymbols {
    /// The symbols of this machine's kernel. Without the right to read addresses there are none.
    pub fn of_this_machine() -> KernelSymbols {
        let list = std::fs::read("/proc/kallsyms").unwrap_or_default();
        let mut symbols = KernelSymbols::parse(&list);
        symbols.build_id = running_build_id();
        symbols
    }

    /// Reads lines of address, type and name; modules follow in brackets.
    pub fn parse(list: &[u8]) -> KernelSymbols {
        let mut symbols = KernelSymbols::default();
        for line in list.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address == 0 || symbols.functions.len() >= LIMIT {
                continue;
            }
            if name == "_text" {
                symbols.text = address;
            } else if matches!(kind, "t" | "T" | "w" | "W") {
                symbols.functions.push((address, name.into()));
            }
        }
        // If an address has several names, the first one stays.
        symbols.functions.sort_by_key(|(address, _)| *address);
        symbols.functions.dedup_by_key(|(address, _)| *address);
        symbols
    }

    /// The function that lies so many bytes behind the start of the kernel's code. The kernel may have been at another address
    /// when it was recorded.
    pub fn function(&self, offset: u64) -> Option<Function> {
        let address = self.text.checked_add(offset).filter(|_| self.text != 0)?;
        let next = self.functions.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.functions.get(next.checked_sub(1)?)?;
        Some(Function { name: Arc::from(&**name), offset: address - start })
    }
}

/// The build id of the running kernel, or empty.
fn running_build_id() -> Vec<u8> {
    build_id_of_notes(&std::fs::read("/sys/kernel/notes").unwrap_or_default())
}

/// Whether a module is the running kernel.
pub(crate) fn is_running(module: &Module) -> bool {
    let known = &module.build_id;
    module.is_kernel() && !known.is_empty() && running_build_id().starts_with(known)
}

/// The build id in the notes of a kernel.
fn build_id_of_notes(notes: &[u8]) -> Vec<u8> {
    let endian = object::Endianness::default();
    let Ok(mut all) = NoteIterator::<FileHeader64<object::Endianness>>::new(endian, 4, notes)
    else {
        return Vec::new();
    };
    while let Ok(Some(note)) = all.next() {
        if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
            return note.desc().to_vec();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_functions_are_found_by_their_distance_from_its_start() {
        let list = b"ffffffff81000000 T _text\nffffffff81000010 t first\nbad\n\
            ffffffff81000010 T alias\nffffffff81000040 T second\nffffffff81000050 D data\n";
        let symbols = KernelSymbols::parse(list);
        let name = |offset| symbols.function(offset).map(|f| (f.name.to_string(), f.offset));
        assert_eq!(name(0x18), Some(("first".to_owned(), 8)));
        assert_eq!(name(0x58), Some(("second".to_owned(), 0x18)));
        assert_eq!(name(0), None);
        assert_eq!(KernelSymbols::parse(b"0000000000000000 T _text\n").function(0), None);
    }

    #[test]
    fn the_build_id_comes_from_the_notes() {
        let note =
            [&4u32.to_le_bytes()[..], &2u32.to_le_bytes(), &3u32.to_le_bytes(), b"GNU\0", &[7, 8]];
        assert_eq!(build_id_of_notes(&[note.concat(), vec![0, 0]].concat()), [7, 8]);
        assert!(build_id_of_notes(b"short").is_empty());
    }
}
