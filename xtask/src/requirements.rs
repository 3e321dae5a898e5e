//! `cargo xtask requirements`: which requirement ids have a test that ran and passed.
//!
//! A test names its ids in the documentation lines above it: `/// TC-2, TC-4: what is shown`. At most five ids a test,
//! unless the lines say `table of cases`.

use crate::{Result, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct Arguments {
    /// Read the output of `cargo test --workspace` from this file instead of running it
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// A test that names ids.
struct NamedTest {
    place: String,
    function: String,
    ids: Vec<String>,
    is_table: bool,
}

/// Ids a test may name that is no table of cases.
const LIMIT: usize = 5;

pub fn run(arguments: &Arguments) -> Result<()> {
    let list = std::fs::read_to_string(root().join("xtask/requirements.txt"))?;
    let (known, planned) = parse_list(&list)?;
    let mut tests = Vec::new();
    for folder in ["crates", "xtask"] {
        scan(&root().join(folder), &known, &mut tests)?;
    }
    let log = match &arguments.log {
        Some(path) => std::fs::read_to_string(path)?,
        None => run_tests()?,
    };
    let passed = passed_tests(&log);
    let mut faults = Vec::new();
    let mut covered: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in &tests {
        if test.ids.len() > LIMIT && !test.is_table {
            faults.push(format!(
                "{} names {} ids; {LIMIT} are allowed",
                test.place,
                test.ids.len()
            ));
        } else if passed.contains(test.function.as_str()) {
            for id in &test.ids {
                covered.entry(id).or_default().push(&test.place);
            }
        } else {
            faults.push(format!(
                "{} names {} and did not run and pass",
                test.place,
                test.ids.join(", ")
            ));
        }
    }
    for id in &known {
        match covered.get(id.as_str()) {
            Some(places) => println!("covered  {id}  {}", places.join(", ")),
            None if planned.contains(id) => {}
            None => faults.push(format!("{id} has no test")),
        }
    }
    let open: Vec<&str> =
        planned.iter().map(String::as_str).filter(|id| !covered.contains_key(id)).collect();
    println!("planned  {}", open.join(" "));
    println!("{} covered, {} planned, {} faults", covered.len(), open.len(), faults.len());
    for fault in &faults {
        println!("fault    {fault}");
    }
    if faults.is_empty() { Ok(()) } else { Err("requirements have faults".into()) }
}

/// One id a line; `planned` behind those that nothing fulfils yet.
fn parse_list(text: &str) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let mut known = BTreeSet::new();
    let mut planned = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let id = words.next().unwrap_or_default().to_string();
        match words.next() {
            None => {}
            Some("planned") => {
                planned.insert(id.clone());
            }
            Some(other) => return Err(format!("requirements.txt: {other:?} behind {id}").into()),
        }
        known.insert(id);
    }
    Ok((known, planned))
}

fn scan(folder: &Path, known: &BTreeSet<String>, tests: &mut Vec<NamedTest>) -> Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            scan(&path, known, tests)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            scan_text(&name, &text, known, tests);
        }
    }
    Ok(())
}

fn scan_text(name: &str, text: &str, known: &BTreeSet<String>, tests: &mut Vec<NamedTest>) {
    let mut docs = String::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push_str(doc);
            docs.push(' ');
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]";
        } else {
            let function = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            if let (true, Some(function)) = (is_test, function) {
                let ids = ids_in(&docs, known);
                if !ids.is_empty() {
                    tests.push(NamedTest {
                        place: format!("{name}:{function}"),
                        function: function.to_string(),
                        is_table: docs.contains("table of cases"),
                        ids,
                    });
                }
            }
            docs.clear();
            is_test = false;
        }
    }
}

fn ids_in(docs: &str, known: &BTreeSet<String>) -> Vec<String> {
    let words = docs.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    let mut ids: Vec<String> =
        words.filter(|word| known.contains(*word)).map(String::from).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn run_tests() -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--workspace", "--locked"])
        .current_dir(root())
        .output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("the tests fail\n{errors}").into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Last parts of the names of tests that passed: `test a::b::name ... ok`.
fn passed_tests(log: &str) -> BTreeSet<&str> {
    log.lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok"))
        .filter_map(|path| path.split_whitespace().next()?.rsplit("::").next())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_only_above_tests() {
        let (known, planned) = parse_list("# ids\nTC-1\nTC-2 planned\nP1\n").unwrap();
        assert_eq!((known.len(), planned.len()), (3, 1));
        let text = "/// TC-1: said of a function\nfn helper() {}\n\n/// TC-1, P1 (see TC-10)\n/// table of cases\n\
                    #[test]\nfn named() {}\n#[test]\nfn unnamed() {}\n";
        let mut tests = Vec::new();
        scan_text("a.rs", text, &known, &mut tests);
        assert_eq!(tests.len(), 1);
        assert_eq!((tests[0].place.as_str(), tests[0].is_table), ("a.rs:named", true));
        assert_eq!(tests[0].ids, ["P1", "TC-1"]);
    }

    #[test]
    fn only_tests_that_passed_count() {
        let log = "test a::b::one ... ok\ntest two ... FAILED\ntest three ... ignored\ntest c::four ... ok\n";
        assert_eq!(passed_tests(log), BTreeSet::from(["one", "four"]));
    }
}
