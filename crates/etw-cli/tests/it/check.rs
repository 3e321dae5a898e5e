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

/// A terminal obeys what stands behind ESC, and a second line would be another file's.
#[cfg(unix)]
#[test]
fn names_of_files_have_no_control_characters_for_people() {
    let mut bytes = greetings(100);
    let end = bytes.len() - 0x1000;
    bytes[end..].fill(0);
    let file = TempFile::new(&bytes);
    let folder = file.path().with_extension("names");
    std::fs::create_dir_all(&folder).unwrap();
    let hostile = folder.join("a\x1b[31m\nb: sound.etl");
    std::fs::copy(file.path(), &hostile).unwrap();
    for (command, status) in [("check", 1), ("stat", 1), ("dump", 1)] {
        let output = etw(&[command], &[&hostile]);
        let errors = crate::fixture::stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{errors}");
        let text = String::from_utf8(output.stdout).unwrap() + &errors;
        assert!(!text.contains('\x1b') && !text.contains("\nb: sound"), "{command}: {text}");
        let shown = "a\u{fffd}[31m\u{fffd}b: sound.etl";
        assert!(text.contains(shown), "{command}: {text}");
    }
    let missing = etw(&["check"], &[&folder.join("none\x1b[31m")]);
    let text = crate::fixture::stderr(&missing);
    assert!(text.contains("none\u{fffd}[31m") && !text.contains('\x1b'), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
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

/// Commands that make a file of a trace say if it is damaged, and end with 1.
#[test]
fn damage_is_told_by_commands_that_write_files() {
    let mut bytes = crate::dump::described_trace();
    bytes.extend([0xee; 100]);
    let damaged = TempFile::new(&bytes);
    let folder = damaged.path().with_extension("made");
    std::fs::create_dir_all(&folder).unwrap();
    let output = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let [summary, page, both, pack] = ["s.txt", "r.html", "b.html", "p.etwpack"].map(output);
    let csv = output("o.csv");
    for (before, behind) in [
        (&["tracerpt"][..], &["-summary", &summary][..]),
        (&["tracerpt"], &["-report", &page]),
        (&["tracerpt"], &["-of", "CSV", "-o", &csv, "-summary", &summary, "-report", &both, "-y"]),
        (&["report", "--force", "-o", &page], &[]),
        (&["pack", "learn", "-o", &pack], &[]),
    ] {
        let behind = behind.iter().map(std::path::Path::new);
        let files: Vec<_> = [damaged.path()].into_iter().chain(behind).collect();
        let output = etw(before, &files);
        let told = crate::fixture::stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{before:?} {files:?}: {told}");
        assert_eq!(told.matches("damaged: ").count(), 1, "{before:?} {files:?}: {told}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
