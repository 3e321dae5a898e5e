//! The promises of C callers: `abi.rs` states each as a clause, and unsafe code names its clauses.

use std::path::Path;

use crate::support::*;

const CLAUSES: [&str; 11] = [
    "ONE",
    "ARRAY",
    "TEXT",
    "BYTES",
    "OUT",
    "SIZED",
    "HANDLE",
    "CALLBACK",
    "BEGUN",
    "CODE",
    "No clause",
];

fn check(path: &Path, found: &mut usize) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            check(&entry.unwrap().path(), found);
        }
        return;
    }
    let text = std::fs::read_to_string(path).unwrap();
    for phrase in ["caller's promise", "as above", "As above", "the header says"] {
        assert!(!text.contains(phrase), "{}: {phrase}", path.display());
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (number, line) in lines.iter().enumerate() {
        if *line != "/// # Safety" {
            continue;
        }
        let section = lines[number + 1..].iter().take_while(|line| line.starts_with("///"));
        let section = section.copied().collect::<String>();
        // One function may have the clauses of another one, which it names; names in `ntdll` have those of a macro's argument.
        let refers = section.contains("As [`") || lines[number + 1].starts_with("#[doc");
        let names_clause = CLAUSES.iter().any(|clause| section.contains(clause));
        assert!(refers || names_clause, "{}:{}: {section}", path.display(), number + 1);
        *found += 1;
    }
}

#[test]
fn unsafe_functions_name_the_clauses_of_their_callers() {
    let mut found = 0;
    check(&home().join("src"), &mut found);
    assert!(found > 80, "{found}");
}
