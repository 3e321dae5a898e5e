//! Stubs of the procedure linkage table: code without symbols that jumps to a function of another file.
//!
//! A stub loads the address of its function from a slot of the global offset table, and a relocation of that slot has the function's name. Source: the
//! System V ABI's supplements for x86-64 and for AArch64; forms with `endbr64`, `bnd` and `bti` as binutils and lld write them.

use crate::bytes::Elf;
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget,
};
use std::collections::HashMap;

/// Sections with stubs.
const SECTIONS: [&str; 3] = [".plt", ".plt.sec", ".plt.got"];
/// Bytes of such a section; only damage has more.
const MAX_SECTION: usize = 16 << 20;
/// Bytes of a stub, unless its section is aligned to less.
const STUB: u64 = 16;

/// A stub.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stub<'a> {
    pub address: u64,
    pub size: u64,
    /// The function that it calls. A damaged file may have one long name for many stubs, so the name is not copied.
    pub function: &'a [u8],
}

/// The slot by which the stub at an address jumps.
type SlotOf = fn(&[u8], u64) -> Option<u64>;

/// The stubs of a file.
pub(crate) fn stubs<'a>(file: &Elf<'a>) -> Vec<Stub<'a>> {
    let (slot_of, step): (SlotOf, u64) = match file.architecture() {
        Architecture::X86_64 => (slot_of_x86, STUB),
        // Stubs with `bti` are longer.
        Architecture::Aarch64 => (slot_of_arm, 4),
        _ => return Vec::new(),
    };
    let sections = SECTIONS.iter().filter_map(|name| file.section_by_name(name));
    let sections: Vec<_> = sections.collect();
    if sections.is_empty() {
        return Vec::new();
    }
    let names = slot_names(file);
    let mut found = Vec::new();
    for section in sections {
        let Ok(bytes) = section.data() else { continue };
        if bytes.len() > MAX_SECTION {
            continue;
        }
        // On x86-64, stubs that have no place for lazy binding are aligned to their eight bytes.
        let size = STUB.min(section.align().max(8));
        let step = step.min(size);
        let mut at = 0;
        while let Some(stub) = bytes.get(at as usize..).filter(|rest| !rest.is_empty()) {
            let address = section.address().wrapping_add(at);
            let function = slot_of(stub, address).and_then(|slot| names.get(&slot).copied());
            found.extend(function.map(|function| Stub { address, size, function }));
            at += if function.is_some() { size } else { step };
        }
    }
    found
}

/// The names of functions by the slots that hold their addresses.
fn slot_names<'a>(file: &Elf<'a>) -> HashMap<u64, &'a [u8]> {
    let mut names = HashMap::new();
    let Some(symbols) = file.dynamic_symbol_table() else { return names };
    for (slot, relocation) in file.dynamic_relocations().into_iter().flatten() {
        if let RelocationTarget::Symbol(index) = relocation.target()
            && let Ok(symbol) = symbols.symbol_by_index(index)
            && let Ok(name) = symbol.name_bytes()
            && !name.is_empty()
        {
            names.insert(slot, name);
        }
    }
    names
}

/// `jmp *slot(%rip)`, maybe behind `endbr64`, maybe with the prefix `bnd`.
fn slot_of_x86(stub: &[u8], address: u64) -> Option<u64> {
    const BRANCH_TARGET: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const BOUND: &[u8] = &[0xf2];
    const JUMP: &[u8] = &[0xff, 0x25];
    let stub = &stub[..stub.len().min(STUB as usize)];
    let mut rest = stub;
    for optional in [BRANCH_TARGET, BOUND] {
        rest = rest.strip_prefix(optional).unwrap_or(rest);
    }
    let behind = rest.strip_prefix(JUMP)?;
    let distance = i32::from_le_bytes(*behind.first_chunk()?);
    let next = (stub.len() - behind.len() + 4) as u64;
    Some(address.wrapping_add(next).wrapping_add_signed(distance.into()))
}

/// `adrp x16, page` and `ldr x17, [x16, #offset]`, maybe behind `bti c`.
fn slot_of_arm(stub: &[u8], address: u64) -> Option<u64> {
    const BRANCH_TARGET: u32 = 0xd503_245f;
    const PAGE: u64 = 4096;
    let word = |at: usize| Some(u32::from_le_bytes(*stub.get(at..)?.first_chunk()?));
    let start = if word(0)? == BRANCH_TARGET { 4 } else { 0 };
    let (page, load) = (word(start)?, word(start + 4)?);
    let at = address.wrapping_add(start as u64);
    let is_page = page & 0x9f00_001f == 0x9000_0010;
    let is_load = load & 0xffc0_03ff == 0xf940_0211;
    if !is_page || !is_load {
        return None;
    }
    let pages = u64::from(page >> 5 & 0x7_ffff) << 2 | u64::from(page >> 29 & 3);
    // 21 bits with a sign.
    let pages = (pages << 43) as i64 >> 43;
    let offset = u64::from(load >> 10 & 0xfff) * 8;
    let page = (at & !(PAGE - 1)).wrapping_add_signed(pages.wrapping_mul(PAGE as i64));
    Some(page.wrapping_add(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_of_x86_64_jumps_by_its_slot() {
        // 1030: jmp *0x2fe2(%rip) to 4018, as in a table for lazy binding.
        let lazy = [0xff, 0x25, 0xe2, 0x2f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0xe0, 0xff, 0xff, 0xff];
        assert_eq!(slot_of_x86(&lazy, 0x1030), Some(0x4018));
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xdd, 0x2f, 0, 0];
        assert_eq!(slot_of_x86(&marked, 0x1030), Some(0x4018));
        assert_eq!(slot_of_x86(&[0xff, 0x35, 1, 0, 0, 0], 0x1020), None, "it pushes");
        for cut in 0..6 {
            assert_eq!(slot_of_x86(&lazy[..cut], 0x1030), None);
        }
    }

    #[test]
    fn a_stub_of_aarch64_jumps_by_its_slot() {
        // adrp x16, 0x11000 at 0x630; ldr x17, [x16, #0xf98]
        let words = [0x9000_0090u32, 0xf947_ce11, 0x913e_6210, 0xd61f_0220];
        let bytes = words.map(u32::to_le_bytes).concat();
        assert_eq!(slot_of_arm(&bytes, 0x630), Some(0x1_0000 + 0xf98));
        let marked = [&0xd503_245fu32.to_le_bytes()[..], &bytes].concat();
        assert_eq!(slot_of_arm(&marked, 0x62c), Some(0x1_0000 + 0xf98));
        // The page before.
        let back = [0xf0ff_fff0u32, 0xf947_ce11].map(u32::to_le_bytes).concat();
        assert_eq!(slot_of_arm(&back, 0x1630), Some(0xf98));
        assert_eq!(slot_of_arm(&bytes[..4], 0x630), None);
    }
}
