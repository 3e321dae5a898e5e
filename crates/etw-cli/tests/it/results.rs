//! `--json` of commands that print one result, and nouns after counts.

use crate::fixture::{TempFile, greetings, json_lines, stdout};
use serde_json::{Value, json};
use std::path::Path;

/// The only line that a command prints.
fn object(arguments: &[&str], file: &TempFile) -> Value {
    let mut lines = json_lines(&stdout(arguments, &[file.path()], 0));
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

#[test]
fn commands_that_write_a_file_print_their_result_as_json() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sample.etl");
    let sample = TempFile::new(&std::fs::read(sample).unwrap());
    let trace = TempFile::new(&greetings(10));
    let out = TempFile::new(b"");
    let path = out.path().to_str().unwrap();
    let size = || std::fs::metadata(path).unwrap().len();
    for (command, count) in [
        (&["merge"][..], "records"),
        (&["relog"], "records"),
        (&["convert", "--to", "chrome"], "written"),
        (&["convert", "--to", "evtx"], "written"),
        (&["pack", "learn"], "sources"),
    ] {
        let arguments = [command, &["--json", "--force", "-o", path]].concat();
        let result = object(&arguments, &sample);
        assert_eq!((&result["file"], &result["bytes"]), (&json!(path), &json!(size())), "{result}");
        let least = if count == "sources" { 1 } else { 10 };
        assert!(result[count].as_u64().unwrap() >= least, "{result}");
    }
    let relog = ["relog", "--json", "--force", "--where", "cpu == 0", "-o", path];
    let relog = object(&relog, &trace);
    assert_eq!((&relog["records"], &relog["not_selected"]), (&json!(5), &json!(6)), "{relog}");
    assert_eq!(relog["inputs"], json!([trace.path().to_str().unwrap()]));
}

#[test]
fn repair_prints_its_result_as_json() {
    let trace = TempFile::new(&greetings(10));
    let result = object(&["repair", "--json"], &trace);
    assert_eq!((&result["outcome"], &result["records"]), (&json!("sound"), &json!(11)), "{result}");
    assert_eq!((&result["folded_in"], &result["damage_count"]), (&Value::Null, &json!(0)));
}

#[test]
fn a_count_of_one_has_a_singular_noun() {
    let trace = TempFile::new(&greetings(1));
    let by = ["stat", "--by", "provider,cpu", "--where", "cpu == 0 and level == 4"];
    let text = stdout(&by, &[trace.path()], 0);
    assert_eq!(text.lines().nth(1), Some("  1 record in 1 group"), "{text}");
}
