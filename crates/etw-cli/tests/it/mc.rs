//! `etw mc`: what it writes, and what it leaves alone.

use std::fs;
use std::process::{Command, Output};

const MANIFEST: &str = include_str!("../../../etw-mc/tests/it/all_types.man");

fn mc(folder: &std::path::Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
    command.arg("mc").args(words).current_dir(folder).output().unwrap()
}

#[test]
fn a_manifest_becomes_four_files_where_the_options_say() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mc-files");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("res")).unwrap();
    fs::write(folder.join("shop.man"), MANIFEST).unwrap();
    let output =
        mc(&folder, &["-um", "/r", "res", "shop.man", "-z", "Store", "-P", "Sca", "-p", "Log"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let header = fs::read_to_string(folder.join("Store.h")).unwrap();
    // -P and -p are two options.
    assert!(header.contains("#define Loglars(text, ansi, "), "{header}");
    assert!(fs::read(folder.join("res/StoreTEMP.BIN")).unwrap().starts_with(b"CRIM"));
    let table = fs::read(folder.join("res/Store_MSG00001.bin")).unwrap();
    let text: Vec<u8> = "All types\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(table.windows(text.len()).any(|part| part == text));
    let script = fs::read_to_string(folder.join("res/Store.rc")).unwrap();
    assert!(script.contains("1 11 \"Store_MSG00001.bin\"") && script.contains("LANGUAGE 0x9,0x1"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
}

#[test]
fn an_error_is_reported_at_its_line_and_leaves_the_outputs() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mc-errors");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("shop.h"), "good").unwrap();
    fs::write(
        folder.join("shop.man"),
        MANIFEST.replace("value=\"2\" symbol", "value=\"1\" symbol"),
    )
    .unwrap();
    let output = mc(&folder, &["shop.man"]);
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = MANIFEST.lines().position(|line| line.contains("symbol=\"Lengths\"")).unwrap() + 1;
    assert!(
        errors.contains(&format!("shop.man:{line}:11: error: two events have value 1")),
        "{errors}"
    );
    assert_eq!(fs::read_to_string(folder.join("shop.h")).unwrap(), "good");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}
