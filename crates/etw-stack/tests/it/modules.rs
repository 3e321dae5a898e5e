//! The list of loaded modules.

use std::process::Command;

use crate::library::{Library, compile};

fn readelf(path: &std::path::Path, option: &str) -> String {
    let out = Command::new("readelf").arg(option).arg(path).output().expect("binutils");
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn a_library_has_its_file_and_its_build_id() {
    let path = compile("identified", &["-fomit-frame-pointer"]);
    let (notes, symbols) = (readelf(&path, "-nW"), readelf(&path, "-sW"));
    let file = std::fs::read(&path).unwrap();
    let library = Library::load(&path);

    let address = library.chain("chain_plain") as usize as u64;
    let modules = etw_stack::modules();
    let mut at = modules.iter().filter(|m| m.range.contains(&address));
    let module = at.next().unwrap();
    assert_eq!(at.next(), None);
    assert_eq!(module.path, path);

    let id: String = module.build_id.iter().map(|b| format!("{b:02x}")).collect();
    assert!(!id.is_empty() && notes.contains(&format!("Build ID: {id}")), "{id} {notes}");

    // The bias leads to the symbol's value, and the offset to its bytes.
    let symbol = symbols.lines().find(|l| l.ends_with(" chain_plain")).unwrap();
    let value = symbol.split_whitespace().nth(1).unwrap();
    assert_eq!(u64::from_str_radix(value, 16).unwrap(), address - module.bias);
    let offset = (address - module.range.start + module.file_offset) as usize;
    // SAFETY: 16 bytes of a function that has more.
    let code = unsafe { std::slice::from_raw_parts(address as *const u8, 16) };
    assert_eq!(code, &file[offset..offset + 16]);
    library.unload();
    assert!(!etw_stack::modules().iter().any(|m| m.path == path));
}

#[test]
fn the_program_and_the_ranges_are_as_the_kernel_says() {
    let modules = etw_stack::modules();
    assert_eq!(modules[0].path, std::env::current_exe().unwrap());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    for module in modules {
        let line = maps.lines().find(|l| l.starts_with(&format!("{:x}-", module.range.start)));
        let line = line.unwrap_or_else(|| panic!("{module:x?} in {maps}"));
        let fields: Vec<&str> = line.split_whitespace().collect();
        assert!(fields[0].ends_with(&format!("-{:x}", module.range.end)), "{line}");
        assert!(fields[1].contains('x'), "{line}");
        if fields.get(5) != Some(&"[vdso]") {
            assert_eq!(u64::from_str_radix(fields[2], 16).unwrap(), module.file_offset);
        }
    }
}
