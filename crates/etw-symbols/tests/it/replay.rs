//! The seeds of the fuzz targets, replayed on stable, and mutants of them. `ETW_BLESS=1` rewrites them.

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/symbols.rs"]
mod target;

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn jit_dumps_cause_no_panic() {
    let header = words(&[0x4a69_5444, 1, 40, 62, 0, 77, 1, 0, 0, 0]);
    let load = [words(&[0, 60, 5, 0, 77, 78, 16, 0, 16, 0, 4, 0, 1, 0]), b"add\0".to_vec()];
    let moved = words(&[1, 64, 6, 0, 77, 78, 32, 0, 16, 0, 32, 0, 4, 0, 1, 0]);
    let whole = [header.clone(), load.concat(), moved].concat();
    replaying::replay("jit_dump", &[("code", whole), ("empty", header)], 400, target::jit_dump);
}

#[test]
fn perf_maps_cause_no_panic() {
    let map = b"7f00 20 LazyCompile:*add /shop.js:3\nbad line\n0x7f40 8 x\n".to_vec();
    let kernel = b"ffffffff81000000 T _text\nffffffff81000010 t first [module]\n".to_vec();
    let seeds = [("map", map), ("kernel", kernel)];
    replaying::replay("perf_map", &seeds, 400, target::perf_map);
}

/// A file with one section of symbols: header, three section headers, one symbol, names.
fn elf() -> Vec<u8> {
    const HEADER: usize = 64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(words(&[3 | 62 << 16, 1]));
    file.extend([0, 0, HEADER as u64].iter().flat_map(|value| value.to_le_bytes()));
    file.extend(words(&[0, 64 | 56 << 16, 64 << 16, 3 | 2 << 16]));
    file.resize(HEADER, 0);
    let section = |name: u32, kind: u32, offset: u64, size: u64, link: u32| {
        let mut bytes = words(&[name, kind]);
        bytes.extend([0, 0, offset, size].iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(words(&[link, 0]));
        bytes.extend([8, 24u64].iter().flat_map(|value| value.to_le_bytes()));
        bytes
    };
    let names = HEADER as u64 + 3 * 64;
    file.extend(section(0, 0, 0, 0, 0));
    file.extend(section(1, 2, names + 16, 48, 2));
    file.extend(section(1, 3, names, 16, 0));
    file.extend(b"\0.symtab\0known\0\0".get(..16).unwrap_or_default());
    file.extend([0; 24]);
    file.extend(words(&[9, 2 | 1 << 16, 0x1000, 0, 0x20, 0]));
    file
}

#[test]
fn symbol_files_cause_no_panic() {
    let file = elf();
    let parsed = etw_symbols::SymbolFile::parse(&file).unwrap();
    let function = parsed.function(0x1010).unwrap();
    assert_eq!((&*function.name, function.offset), ("known", 0x10));
    replaying::replay("symbol_file", &[("symbol", file)], 400, target::symbol_file);
}
