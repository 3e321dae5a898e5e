//! Notes of files that a program's build id names.

/// Any file: its notes lie in it, and no read goes beyond a few mebibytes.
pub fn elf_notes(data: &[u8]) {
    let mut total = 0;
    let mut read = |offset: u64, out: &mut [u8]| {
        total += out.len();
        let start = usize::try_from(offset).ok();
        let found = start.and_then(|start| data.get(start..start.checked_add(out.len())?));
        found.map(|found| out.copy_from_slice(found)).is_some()
    };
    etw_stack::notes_of_file(&mut read, "GNU", 3, &mut |note| assert!(note.len() <= data.len()));
    assert!(total <= (16 << 20) + 4097 * 64);
}
