//! Files with names of functions.

use etw_symbols::{KernelSymbols, SymbolFile};

/// A jitdump file.
pub fn jit_dump(data: &[u8]) {
    if let Some(dump) = etw_symbols::jit_dump::parse(data) {
        assert!(dump.code.len() * 16 <= data.len(), "more code than records");
        assert!(dump.code.iter().all(|code| !code.name.is_empty()));
    }
}

/// A perf map, and a list of the kernel's symbols.
pub fn perf_map(data: &[u8]) {
    let count = etw_symbols::perf_map::parse(data).count();
    assert!(count <= data.len());
    let symbols = KernelSymbols::parse(data);
    for offset in [0, 1, 0x1000, u64::MAX] {
        let _ = symbols.function(offset);
    }
}

/// An ELF file with symbols and debug information.
pub fn symbol_file(data: &[u8]) {
    let Some(file) = SymbolFile::parse(data) else { return };
    for address in [0, 0x1000, 0x1010, 0x2000, u64::MAX] {
        let _ = (file.function(address), file.frames(address));
    }
}
