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

#[test]
fn rights_that_are_no_sddl_are_a_warning() {
    let folder = folder("mc-rights");
    let manifest = folder.join("rights.man");
    let channel = |access: &str| {
        format!(
            "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\"><instrumentation><events>\
             <provider name=\"P\" guid=\"{{0a0b0c0d-0102-0304-0506-0708090a0b0c}}\" symbol=\"S\" resourceFileName=\"p\"><channels>\n\
             <channel name=\"C\" type=\"Debug\" access=\"{access}\"/></channels></provider></events></instrumentation>\
             </instrumentationManifest>"
        )
    };
    for (access, warning) in [
        ("rwx", "rights.man:2:1: warning: channel `C`: access: expected D:"),
        // mc compiles this one, which is in manifests.
        ("O:BAG:SYD:", ""),
    ] {
        fs::write(&manifest, channel(access)).unwrap();
        let out = mc(&folder, &["rights.man"]);
        assert!(out.status.success());
        let shown = String::from_utf8_lossy(&out.stderr);
        assert!(
            if warning.is_empty() { shown.is_empty() } else { shown.contains(warning) },
            "{shown}"
        );
    }
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn rust_objects_and_packs_are_written_beside_or_instead_of_the_header() {
    let folder = folder("mc-rust");
    fs::write(folder.join("shop.man"), MANIFEST).unwrap();
    let output = mc(&folder, &["--rust", "shop.man", "--elf", "shop.o", "/pack", "shop.etwpack"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read_to_string(folder.join("shop.rs")).unwrap().contains("pub fn lengths("));
    assert!(!folder.join("shop.h").exists() && !folder.join("shopTEMP.BIN").exists());
    for (file, source) in [("shop.etwpack", "shop.man"), ("shop.o", "shop.o")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
        command.args(["pack", "create", "--force", "-o", "all.etwpack", file]);
        let output = command.current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
        let output = command.args(["pack", "show", "all.etwpack"]).current_dir(&folder);
        let shown = String::from_utf8(output.output().unwrap().stdout).unwrap();
        assert!(shown.contains(&format!("1 GUIDs  {source}")), "{file}: {shown}");
    }
}

#[test]
fn a_manifest_that_breaks_its_baseline_is_rejected() {
    let folder = folder("mc-baseline");
    fs::create_dir(folder.join("base")).unwrap();
    fs::write(folder.join("shop.man"), MANIFEST).unwrap();
    for words in [["-s", "base", "shop.man"], ["-t", "base", "shop.man"]] {
        let output = mc(&folder, &words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(fs::read_to_string(folder.join("base/shop.man")).unwrap(), MANIFEST);
    let header = fs::read(folder.join("shop.h")).unwrap();
    let changed = MANIFEST
        .replace("name=\"h32\" inType=\"win:HexInt32\"", "name=\"h32\" inType=\"win:UInt8\"");
    fs::write(folder.join("shop.man"), changed).unwrap();
    let output = mc(&folder, &["-t", "base", "-lint", "shop.man"]);
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&output.stderr);
    let line = MANIFEST.lines().position(|line| line.contains("symbol=\"Scalars\"")).unwrap() + 1;
    let expected = format!("shop.man:{line}:11: error: the fields of event 1 version 0 changed");
    assert!(errors.contains(&expected), "{errors}");
    assert_eq!(fs::read(folder.join("shop.h")).unwrap(), header);
    // Without the baseline, the linter only warns.
    let output = mc(&folder, &["-lint", "shop.man"]);
    assert!(output.status.success());
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert!(warnings.contains("warning: event 5 has no symbol"), "{warnings}");
}

#[test]
fn long_messages_are_a_warning() {
    let folder = folder("mc-long");
    fs::write(folder.join("shop.man"), MANIFEST).unwrap();
    // Two texts, of 4 and 9 characters.
    let texts =
        "MessageId=1\nLanguage=English\nfour\n.\nMessageId=2\nLanguage=English\nnine\nchr\n.\n";
    fs::write(folder.join("texts.mc"), texts).unwrap();
    let line = MANIFEST.lines().position(|line| line.contains("\"Administrators\"")).unwrap() + 1;
    let string = format!("shop.man:{line}:");
    for (words, place, expected) in [
        (["-m", "14", "shop.man"], "", ""),
        (
            ["-m", "13", "shop.man"],
            &*string,
            "warning: string `channel` has 14 characters, more than 13\n",
        ),
        (["-m", "9", "texts.mc"], "", ""),
        (
            ["-m", "8", "texts.mc"],
            "texts.mc:6:1:",
            "warning: the text has 9 characters, more than 8\n",
        ),
    ] {
        let output = mc(&folder, &words);
        assert!(output.status.success());
        let shown = String::from_utf8_lossy(&output.stderr);
        let found: Vec<&str> = shown.lines().filter(|line| line.contains("more than")).collect();
        let expected: Vec<&str> = expected.lines().collect();
        assert_eq!(found.len(), expected.len(), "{shown}");
        assert!(found.iter().zip(&expected).all(|(line, end)| line.ends_with(end)), "{shown}");
        assert!(found.iter().all(|line| line.starts_with(place)), "{shown}");
    }
    assert_eq!(mc(&folder, &["-m", "many", "shop.man"]).status.code(), Some(2));
}

#[test]
fn a_message_text_file_becomes_three_files() {
    let folder = folder("mc-message-text");
    fs::write(
        folder.join("shop.mc"),
        "MessageId=7 Severity=Error SymbolicName=SHOP_CLOSED\nLanguage=English\nThe shop %1 is closed.\n.\n",
    )
    .unwrap();
    let output = mc(&folder, &["-b", "-c", "shop.mc"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let script = fs::read_to_string(folder.join("shop.rc")).unwrap();
    assert_eq!(script, "LANGUAGE 0x9,0x1\r\n1 11 \"shop_MSG00001.bin\"\r\n");
    assert!(fs::read(folder.join("shop_MSG00001.bin")).unwrap().len() > 40);
    let header = fs::read_to_string(folder.join("shop.h")).unwrap();
    assert!(header.contains("0xE0000007L"), "{header}");
    fs::write(folder.join("bad.mc"), "MessageId=7\nLanguage=English\nno end\n").unwrap();
    let output = mc(&folder, &["bad.mc"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad.mc:2:1: error: the text behind"));
    let output = mc(&folder, &["-rust", "shop.mc"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("need a manifest"));
}
