//! Columns, fields, times, the last records, colours and the pager: views that leave the default output as it is.

use crate::fixture::{TempFile, etw, greetings, json_lines, stderr, stdout};
use std::path::Path;

#[test]
fn columns_are_header_values_and_fields() {
    let file = TempFile::new(&greetings(3));
    let dump = |arguments: &[&str]| stdout(arguments, &[file.path()], 0);
    let text = dump(&["dump", "--columns", "pid,event,level,text,Missing"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "pid\tevent\tlevel\ttext\tMissing");
    // Behind the file's header.
    assert_eq!(lines[2], "10\tGreeting\tInformational\thello 0\t-");
    assert_eq!(lines.len(), 5);
    let text = dump(&["dump", "--columns", "tid,number", "--format", "csv"]);
    assert_eq!(text.lines().nth(2), Some("20,18446744073709551615"));
    let rows = json_lines(&dump(&["dump", "--columns", "provider,text,Missing", "--json"]));
    let expected =
        serde_json::json!({"provider": "Test.Provider", "text": "hello 2", "Missing": null});
    assert_eq!(rows[3], expected);
    let output = etw(&["dump", "--columns", "pid", "--format", "xml"], &[file.path()]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn only_the_chosen_fields_are_shown() {
    let file = TempFile::new(&greetings(1));
    let text = stdout(&["dump", "--fields", "NUMBER"], &[file.path()], 0);
    assert!(text.contains(" number=18446744073709551615") && !text.contains("hello"), "{text}");
    let rows = json_lines(&stdout(&["dump", "--json", "--fields", "text"], &[file.path()], 0));
    assert_eq!(rows[1]["fields"], serde_json::json!({"text": "hello 0"}));
}

#[test]
fn times_are_utc_local_or_relative() {
    let file = TempFile::new(&greetings(2));
    let first = |arguments: &[&str]| {
        let text = stdout(arguments, &[file.path()], 0);
        text.split(' ').next().unwrap().to_owned()
    };
    let utc = first(&["dump"]);
    assert!(utc.ends_with('Z') && first(&["dump", "--utc"]) == utc);
    assert_eq!(first(&["dump", "--relative"]), "+0.0000000");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(["dump", "--local"])
        .arg(file.path())
        .env("TZ", "Asia/Kolkata")
        .output()
        .unwrap();
    let local = String::from_utf8(output.stdout).unwrap();
    let local = local.split(' ').next().unwrap();
    // A machine without time zones shows UTC.
    assert!(local.ends_with("+05:30") || local.ends_with("+00:00"), "{local}");
    let output = etw(&["dump", "--relative", "--json"], &[file.path()]);
    assert!(stderr(&output).contains("--local and --relative go with"), "{}", stderr(&output));
}

#[test]
fn the_last_records_are_shown() {
    let file = TempFile::new(&greetings(2000));
    let whole = stdout(&["dump"], &[file.path()], 0);
    let expected: Vec<&str> = whole.lines().skip(1998).collect();
    for threads in ["1", "2"] {
        let text = stdout(&["dump", "--tail", "3", "--threads", threads], &[file.path()], 0);
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
    let text = stdout(&["dump", "--tail", "9999"], &[file.path()], 0);
    assert_eq!(text, whole);
    let filtered = ["dump", "--tail", "1", "--where", "text == \"hello 5\""];
    assert_eq!(stdout(&filtered, &[file.path()], 0).lines().next(), whole.lines().nth(6));
}

#[test]
fn colours_come_with_the_option_and_never_into_a_pipe_by_themselves() {
    let file = TempFile::new(&greetings(1));
    let plain = stdout(&["dump"], &[file.path()], 0);
    assert!(!plain.contains('\x1b'));
    let coloured = stdout(&["dump", "--color", "always"], &[file.path()], 0);
    assert!(coloured.contains("\x1b[1mTest.Provider/Greeting\x1b[0m"), "{coloured}");
    let stripped = coloured.replace("\x1b[1m", "").replace("\x1b[0m", "");
    assert_eq!(stripped, plain);
    let json = stdout(&["dump", "--json", "--color", "always"], &[file.path()], 0);
    assert!(!json.contains('\x1b'));
}

/// The output of a command on a terminal.
#[cfg(target_os = "linux")]
fn on_terminal(line: &str, variables: &[(&str, &str)]) -> Option<String> {
    let output = std::process::Command::new("script")
        .args(["-qec", line, "/dev/null"])
        .env_remove("NO_COLOR")
        .env_remove("LESS")
        .env("TERM", "xterm")
        .envs(variables.iter().copied())
        .stdin(std::process::Stdio::null())
        .output();
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => {
            eprintln!("skipped: there is no script(1)");
            None
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_has_colours_and_a_pager() {
    let file = TempFile::new(&greetings(2));
    let dump = |options: &str| {
        format!("{} dump {options} {}", env!("CARGO_BIN_EXE_etw"), file.path().display())
    };
    let pager = ("PAGER", "sed s/^/PAGED:/");
    let Some(text) = on_terminal(&dump(""), &[pager]) else { return };
    assert_eq!(text.matches("PAGED:").count(), 3, "{text}");
    assert!(text.contains("\x1b[1mTest.Provider/Greeting"), "{text}");
    let text = on_terminal(&dump("--no-pager"), &[pager, ("NO_COLOR", "1")]).unwrap();
    assert!(!text.contains("PAGED:") && !text.contains('\x1b'), "{text}");
    assert!(text.contains("Test.Provider/Greeting"), "{text}");
    let text = on_terminal(&dump("--color never"), &[("PAGER", "")]).unwrap();
    assert!(!text.contains('\x1b') && text.contains("Greeting"), "{text}");
    // A pager that ends early ends the command quietly.
    let text = on_terminal(&dump(""), &[("PAGER", "head -c 1")]).unwrap();
    assert!(!text.contains("etw:"), "{text}");
}

#[test]
fn a_file_alone_is_dumped_and_an_absent_one_is_named() {
    let file = TempFile::new(&greetings(1));
    let plain = stdout(&["dump"], &[file.path()], 0);
    assert_eq!(stdout(&[], &[file.path()], 0), plain);
    assert_eq!(stdout(&["--no-pager"], &[file.path()], 0), plain);
    let output = etw(&["absent.etl"], &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("absent.etl: no such file"), "{}", stderr(&output));
}

#[test]
fn help_lists_its_topics() {
    let none: [&Path; 0] = [];
    let help = stdout(&["help"], &none, 0);
    assert!(help.contains("etw help TOPIC") && help.contains("expressions"), "{help}");
    assert!(stdout(&["help", "expressions"], &none, 0).contains("Expressions of --where"));
    assert!(stdout(&["help", "columns"], &none, 0).contains("activity_id"));
    let candidates =
        stdout(&["complete", "3", "--", "etw", "dump", "--columns", "pid,l"], &none, 0);
    assert_eq!(candidates, "pid,level\n");
}
