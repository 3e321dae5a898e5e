//! Notes of files.

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/stack.rs"]
mod targets;

use etw_stack::notes_of_file;

/// A file with two sections of notes of owner `GNU` and type 3, and between them one of another type.
fn file() -> Vec<u8> {
    let mut out = vec![0; 64];
    out[..5].copy_from_slice(b"\x7fELF\x02");
    let note = |text: &[u8; 4]| {
        let words = [4u32, 4, 3].map(u32::to_ne_bytes).concat();
        [&words[..], b"GNU\0", text].concat()
    };
    let sections = [(7, note(b"one.")), (1, note(b"none")), (7, note(b"two."))];
    let mut headers = Vec::new();
    for (kind, notes) in sections {
        let mut header = [0; 64];
        header[4..8].copy_from_slice(&u32::to_ne_bytes(kind));
        header[0x18..0x20].copy_from_slice(&(out.len() as u64).to_ne_bytes());
        header[0x20..0x28].copy_from_slice(&(notes.len() as u64).to_ne_bytes());
        out.extend(notes);
        headers.extend(header);
    }
    let at = out.len() as u64;
    out[0x28..0x30].copy_from_slice(&at.to_ne_bytes());
    out[0x3a..0x3c].copy_from_slice(&64u16.to_ne_bytes());
    out[0x3c..0x3e].copy_from_slice(&3u16.to_ne_bytes());
    out.extend(headers);
    out
}

fn notes(file: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut read = |offset: u64, out: &mut [u8]| match file.get(offset as usize..) {
        Some(rest) if rest.len() >= out.len() => {
            out.copy_from_slice(&rest[..out.len()]);
            true
        }
        _ => false,
    };
    notes_of_file(&mut read, "GNU", 3, &mut |note| found.push(note.to_vec()));
    found
}

#[test]
fn notes_of_a_file_are_those_of_its_sections_of_notes() {
    let file = file();
    assert_eq!(notes(&file), [b"one.", b"two."]);
    for end in 0..file.len() {
        assert!(notes(&file[..end]).len() < 2, "{end}");
    }
}

/// P5
#[test]
fn any_file_has_notes_or_none() {
    replaying::replay("elf_notes", &[("notes.o", file())], 400, targets::elf_notes);
}
