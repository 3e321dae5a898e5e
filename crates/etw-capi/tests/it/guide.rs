//! The C programs of the guide compile, and write the events that the guide shows.

use crate::support::*;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/guide/c.md");
const COMPILER: Compiler = Compiler("gcc", &["-std=gnu11", "-O2"]);

/// The page's program that defines this provider.
fn program(folder: &Folder, provider: &str) -> Option<PathBuf> {
    let mut blocks = PAGE.split("```c\n").skip(1).filter_map(|rest| rest.split("```\n").next());
    let text = blocks.find(|text| text.contains(provider) && text.contains("int main")).unwrap();
    let source = folder.0.join("guide.c");
    std::fs::write(&source, text).unwrap();
    compile_file(folder, &source, COMPILER)
}

/// Standard output of `etw` in a folder.
fn etw(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new(command_line());
    command.args(words).current_dir(folder).env("HOME", folder).env("TMPDIR", folder);
    let output = command.env("ETW_RUNTIME_DIR", folder.join("run")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_program_with_a_session_of_its_own_records_its_sale() {
    let folder = Folder::new("guide-shop");
    let Some(program) = program(&folder, "MyCompany.Shop") else { return };
    assert!(Command::new(program).current_dir(&folder.0).status().unwrap().success());
    let text = etw(&folder.0, &["dump", "--where", "event == Sold", "shop.etl"]);
    assert!(text.contains("MyCompany.Shop/Sold Informational What=\"tea\" count=7"), "{text}");
}

#[test]
fn the_slowest_request_of_a_c_program_is_found() {
    let folder = Folder::new("guide-orders");
    let Some(program) = program(&folder, "MyCompany.Orders") else { return };
    let program = program.to_str().unwrap();
    etw(&folder.0, &["record", "-o", "orders.etl", "-p", "MyCompany.Orders", "--", program]);
    let text = etw(&folder.0, &["stat", "--by", "activity", "--top", "4", "orders.etl"]);
    let lines: Vec<&str> = text.lines().collect();
    let request = lines.iter().position(|line| line.contains("  Request ")).unwrap();
    assert!(lines[request].contains("path=/report number="), "{text}");
    assert!(lines[request + 1].contains("    Query ") && text.contains("table=sales"), "{text}");
    assert!(text.contains("         204  "), "{text}");
}
