//! `etw check`: sound, damaged and other files.

use crate::fixture::{TempFile, etw, greetings, json_lines, stdout};
use etw_etl::write::FileBuilder;

#[test]
fn sound_damaged_and_not_an_etl_are_told_apart() {
    let sound = TempFile::new(&greetings(100));
    let text = stdout(&["check"], &[sound.path()], 0);
    assert!(text.contains(": sound, 101 records in 7 buffers"), "{text}");

    let mut bytes = greetings(100);
    let end = bytes.len() - 0x1000;
    bytes[end..].fill(0);
    let damaged = TempFile::new(&bytes);
    let text = stdout(&["check"], &[damaged.path()], 1);
    assert!(text.contains(": damaged in 1 place,"), "{text}");
    assert!(text.contains(&format!("offset {end:#x}: 4096 zero bytes")), "{text}");

    let rows = json_lines(&stdout(&["check", "--json"], &[sound.path(), damaged.path()], 1));
    assert_eq!((&rows[0]["sound"], &rows[0]["records"]), (&true.into(), &101.into()));
    assert_eq!((&rows[1]["sound"], &rows[1]["damage"][0]["offset"]), (&false.into(), &end.into()));

    let none = TempFile::new(b"nothing of the kind");
    let output = etw(&["check"], &[sound.path(), none.path(), damaged.path()]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(": sound") && text.contains(": damaged"), "{text}");
}

#[test]
fn a_file_that_was_not_finalised_is_sound_with_a_note() {
    let mut file = FileBuilder::new();
    file.finalised = false;
    crate::fixture::push_tracelogging(&mut file, 0, 1, "x");
    let mut bytes = file.finish();
    bytes.resize(bytes.len() + 0x20000, 0);
    let file = TempFile::new(&bytes);
    let text = stdout(&["check"], &[file.path()], 0);
    assert!(text.contains("sound"), "{text}");
    assert!(text.contains("note: not finalised"), "{text}");
    assert!(text.contains("only in its memory are not in this file"), "{text}");
    assert!(text.contains("131072 bytes reserved"), "{text}");
}
