//! `etw tracewpp`: what it writes, and what it leaves alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SOURCE: &str = "void f(void)\n{\n    DoTraceMessage(Start, \"%d of %s\", 1, \"x\");\n}\n";

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn tracewpp(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
    command.arg("tracewpp").args(words).current_dir(folder).output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn sources_found_by_a_wildcard_become_headers_where_the_options_say() {
    let folder = folder("tracewpp-files");
    for name in ["a.c", "b.cpp", "c.h"] {
        fs::write(folder.join(name), SOURCE).unwrap();
    }
    let output =
        tracewpp(&folder, &["/odir:out", "-tmf:formats", "-preserveext:.cpp", "-v", "*.*"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("2 sources, 2 messages\n"));
    assert_eq!(names(&folder.join("out")), ["a.tmh", "b.cpp.tmh"]);
    // The component is the current folder.
    let formats = folder.join("formats");
    let format = fs::read_to_string(formats.join(&names(&formats)[0])).unwrap();
    assert!(format.contains(" tracewpp-files // SRC="), "{format}");
}

#[test]
fn an_error_is_reported_at_its_line_and_leaves_the_headers() {
    let folder = folder("tracewpp-errors");
    fs::write(folder.join("a.c"), SOURCE).unwrap();
    fs::write(folder.join("b.c"), SOURCE.replace("of %s", "of %q")).unwrap();
    fs::write(folder.join("a.tmh"), "good").unwrap();
    let output = tracewpp(&folder, &["a.c", "b.c"]);
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("b.c:3: error: DoTraceMessage: %q is not a conversion"), "{errors}");
    assert_eq!(fs::read_to_string(folder.join("a.tmh")).unwrap(), "good");
    assert_eq!(names(&folder), ["a.c", "a.tmh", "b.c"]);
    // A source is never replaced.
    let output = tracewpp(&folder, &["-gen:{um-default.tpl}*.c", "a.c"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(fs::read_to_string(folder.join("a.c")).unwrap(), SOURCE);
}

#[test]
fn wrong_options_are_named() {
    let folder = folder("tracewpp-options");
    for (word, what) in [("-nonsense", "no such option"), ("-gen:x", "needs a template")] {
        let output = tracewpp(&folder, &[word]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(what));
    }
    let help = tracewpp(&folder, &["-?"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("-preserveext"));
}
