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

/// The file of [`elf`] with symbols, as `xz` packs it.
const PACKED: &[u8] = &[
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
    0x1c, 0x00, 0x00, 0x00, 0x10, 0xcf, 0x58, 0xcc, 0xe0, 0x01, 0x3f, 0x00, 0x52, 0x5d, 0x00, 0x3f,
    0x91, 0x45, 0x84, 0x68, 0x3d, 0x89, 0xa6, 0xda, 0x8a, 0xe1, 0x83, 0x32, 0x4e, 0xf1, 0xee, 0x39,
    0xd5, 0x98, 0x70, 0xce, 0x2c, 0xfd, 0x67, 0x28, 0xf2, 0x2a, 0x6b, 0xfa, 0x55, 0x5a, 0x8a, 0xca,
    0x30, 0xc4, 0x91, 0x6d, 0x54, 0xda, 0xd6, 0x6f, 0x01, 0x82, 0x86, 0x6f, 0xd4, 0xad, 0x60, 0x55,
    0x29, 0x04, 0x31, 0x6a, 0xb5, 0xf2, 0x36, 0x54, 0x92, 0x1b, 0xc1, 0x74, 0x55, 0x7d, 0xc6, 0x4d,
    0xf6, 0xd0, 0xdc, 0x9e, 0x8b, 0x4b, 0x5a, 0x7e, 0x5a, 0x5d, 0x9b, 0x12, 0xb7, 0xf5, 0xdd, 0x56,
    0x41, 0x00, 0x00, 0x00, 0x73, 0x00, 0xe5, 0xbd, 0x40, 0xff, 0x84, 0x5f, 0x00, 0x01, 0x6e, 0xc0,
    0x02, 0x00, 0x00, 0x00, 0xa7, 0x9a, 0xb7, 0xb2, 0xb1, 0xc4, 0x67, 0xfb, 0x02, 0x00, 0x00, 0x00,
    0x00, 0x04, 0x59, 0x5a,
];

/// A file with one section that links to the next one, that of names.
fn elf(name: &[u8], kind: u32, contents: &[u8], names: &[u8]) -> Vec<u8> {
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
    let names = [b"\0", name, b"\0", names, b"\0\0"].concat();
    let at = HEADER as u64 + 3 * 64;
    let size = names.len() as u64;
    file.extend(section(0, 0, 0, 0, 0));
    file.extend(section(1, kind, at + size, contents.len() as u64, 2));
    file.extend(section(1, 3, at, size, 0));
    file.extend(names);
    file.extend(contents);
    file
}

#[test]
fn symbol_files_cause_no_panic() {
    let symbols = [vec![0; 24], words(&[9, 2 | 1 << 16, 0x1000, 0, 0x20, 0])].concat();
    let plain = elf(b".symtab", 2, &symbols, b"known");
    let packed = elf(b".gnu_debugdata", 1, PACKED, b"");
    for file in [&plain, &packed] {
        let parsed = etw_symbols::SymbolFile::parse(file).unwrap();
        let function = parsed.function(0x1010).unwrap();
        assert_eq!((&*function.name, function.offset), ("known", 0x10));
    }
    let seeds = [("symbol", plain), ("packed", packed)];
    replaying::replay("symbol_file", &seeds, 400, target::symbol_file);
}
