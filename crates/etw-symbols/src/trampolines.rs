//! Signal trampolines: code to which the handlers of signals return. The kernel makes its frame, so no call did, and the next frame of a call stack is the
//! instruction that the signal interrupted.

use crate::bytes::Elf;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::HashSet;
use std::ops::Range;

/// The names of trampolines: those of the C libraries, and of the kernel's vdso.
const NAMES: [&[u8]; 5] = [
    b"__restore_rt",
    b"__restore",
    b"__kernel_rt_sigreturn",
    b"__kernel_sigreturn",
    b"__vdso_rt_sigreturn",
];
/// Trampolines of a file that are kept; only damage has more.
const LIMIT: usize = 1 << 10;

/// The addresses of a file's trampolines: those that the unwind table marks by the letter S of their augmentation (LSB, "Augmentation String
/// Format", and GCC's `.cfi_signal_frame`), and those of the known names. Each begins one byte early: callers are looked up by the byte in front of their
/// address.
pub(crate) fn trampolines(file: &Elf<'_>) -> Vec<Range<u64>> {
    let mut found = marked(file).unwrap_or_default();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.is_definition() && symbol.name_bytes().is_ok_and(|name| NAMES.contains(&name)) {
            let start = symbol.address();
            found.push(start.saturating_sub(1)..start.saturating_add(symbol.size().max(1)));
        }
    }
    found.truncate(LIMIT);
    found
}

/// The trampolines that the unwind table marks.
fn marked(file: &Elf<'_>) -> Option<Vec<Range<u64>>> {
    let section = file.section_by_name(".eh_frame")?;
    let endian = match file.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    };
    let mut table = EhFrame::from(EndianSlice::new(section.data().ok()?, endian));
    table.set_address_size(if file.is_64() { 8 } else { 4 });
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = file.section_by_name(".text") {
        bases = bases.set_text(text.address());
    }
    let (mut found, mut signals) = (Vec::new(), HashSet::new());
    let mut entries = table.entries(&bases);
    // Entries behind a damaged one are not read.
    while let Ok(Some(entry)) = entries.next() {
        match entry {
            CieOrFde::Cie(cie) if cie.is_signal_trampoline() => {
                signals.insert(cie.offset());
            }
            CieOrFde::Fde(partial) if signals.contains(&partial.cie_offset().0) => {
                let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
                found.push(fde.initial_address().saturating_sub(1)..fde.end_address());
            }
            _ => {}
        }
        if found.len() >= LIMIT {
            break;
        }
    }
    Some(found)
}
