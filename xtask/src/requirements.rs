//! `cargo xtask requirements`: the requirement ids with a test that ran and passed.
//!
//! A test names its ids in the documentation lines above it: `/// TC-2, TC-4: what is shown`. At most five ids a test,
//! unless the lines say `table of cases`.

use crate::{Result, cargo, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub struct Arguments {
    /// Read the standard output of `cargo test --workspace` from this file instead of running it
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Ids that a test may name unless it is a table of cases.
const LIMIT: usize = 5;
/// An id is one of these and a number.
const PREFIXES: [&str; 6] = ["SRS_LOG_SINK_ETW_01_", "TC-", "OV-", "WF-", "SP-", "P"];

pub fn run(arguments: &Arguments) -> Result<()> {
    let list = List::parse(&std::fs::read_to_string(root().join("xtask/requirements.txt"))?)?;
    let mut sources = Sources::default();
    for folder in ["crates", "xtask"] {
        sources.scan(&root().join(folder))?;
    }
    let log = match &arguments.log {
        Some(path) => std::fs::read_to_string(path)?,
        None => run_tests()?,
    };
    let summary = summarise(&list, &sources, &passed_tests(&log));
    for (id, places) in &summary.covered {
        let state = if list.planned.contains(*id) { "partly " } else { "covered" };
        println!("{state}  {id}  {}", places.join(", "));
    }
    println!("planned  {}", summary.open.join(" "));
    for fault in &summary.faults {
        println!("fault    {fault}");
    }
    println!(
        "{} ids: {} with tests, {} planned and without, {} faults",
        list.known.len(),
        summary.covered.len(),
        summary.open.len(),
        summary.faults.len()
    );
    if summary.faults.is_empty() { Ok(()) } else { Err("requirements have faults".into()) }
}

/// All ids.
struct List {
    known: BTreeSet<String>,
    /// Ids that are not fulfilled yet, or not completely.
    planned: BTreeSet<String>,
}

impl List {
    /// Each line is an id, optionally followed by `planned`.
    fn parse(text: &str) -> Result<List> {
        let mut list = List { known: BTreeSet::new(), planned: BTreeSet::new() };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let id = words.next().unwrap_or_default().to_string();
            match (words.next(), words.next()) {
                (None, _) => {}
                (Some("planned"), None) => {
                    list.planned.insert(id.clone());
                }
                _ => return Err(format!("requirements.txt: {line:?}").into()),
            }
            if !list.known.insert(id.clone()) {
                return Err(format!("requirements.txt: {id} twice").into());
            }
        }
        Ok(list)
    }
}

/// Tests and their ids, from the sources.
#[derive(Default)]
struct Sources {
    named: Vec<NamedTest>,
    /// The number of tests by function name.
    count: BTreeMap<String, usize>,
}

/// A test that names ids.
struct NamedTest {
    place: String,
    function: String,
    ids: BTreeSet<String>,
    is_table: bool,
}

impl Sources {
    fn scan(&mut self, folder: &Path) -> Result<()> {
        let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<std::io::Result<_>>()?;
        entries.sort_by_key(std::fs::DirEntry::path);
        for entry in entries {
            let path = entry.path();
            if path.is_dir() {
                self.scan(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path)?;
                let name = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
                self.scan_text(&name, &text);
            }
        }
        Ok(())
    }

    fn scan_text(&mut self, name: &str, text: &str) {
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
                    *self.count.entry(function.to_string()).or_default() += 1;
                    let ids = ids_in(&docs);
                    if !ids.is_empty() {
                        self.named.push(NamedTest {
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
}

/// All words in the form of an id, so that ids which do not exist are found, too.
fn ids_in(docs: &str) -> BTreeSet<String> {
    let is_id = |word: &&str| {
        PREFIXES.iter().any(|prefix| {
            word.strip_prefix(prefix).is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        })
    };
    docs.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
        .filter(is_id)
        .map(String::from)
        .collect()
}

/// Runs the tests and returns what the harness printed. Standard error stays out of it, because tests start processes
/// whose messages can end up in the middle of the harness's lines.
fn run_tests() -> Result<String> {
    let output = Command::new(cargo())
        .args(["test", "--workspace", "--locked"])
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(log) } else { Err(format!("{log}\nthe tests fail").into()) }
}

/// Counts tests that ran and passed by name: `test a::b::name ... ok`. The harness writes the end of such a line
/// separately, so output of another process can stand between.
fn passed_tests(log: &str) -> BTreeMap<&str, usize> {
    let mut passed = BTreeMap::new();
    let mut begun = None;
    for line in log.lines() {
        let line = line.trim_end();
        let path = match line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            Some((path, "ok")) => Some(path),
            Some((path, end)) => {
                let is_whole = ["FAILED", "ignored"].iter().any(|other| end.starts_with(other));
                begun = (!is_whole).then_some(path);
                None
            }
            None if line == "ok" => begun.take(),
            None => None,
        };
        let name = path.and_then(|path| path.split_whitespace().next()?.rsplit("::").next());
        if let Some(name) = name {
            *passed.entry(name).or_default() += 1;
        }
    }
    passed
}

struct Summary<'a> {
    covered: BTreeMap<&'a str, Vec<&'a str>>,
    /// Planned ids without a test.
    open: Vec<&'a str>,
    faults: Vec<String>,
}

fn summarise<'a>(
    list: &'a List,
    sources: &'a Sources,
    passed: &BTreeMap<&str, usize>,
) -> Summary<'a> {
    let mut faults = Vec::new();
    let mut covered: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in &sources.named {
        for id in test.ids.iter().filter(|id| !list.known.contains(*id)) {
            faults.push(format!("{} names {id}, which does not exist", test.place));
        }
        if test.ids.len() > LIMIT && !test.is_table {
            let count = test.ids.len();
            faults.push(format!("{} names {count} ids; {LIMIT} are allowed", test.place));
            continue;
        }
        // The log does not say which crate's test it was, so all tests of that name have to pass.
        let name = test.function.as_str();
        if passed.get(name).copied().unwrap_or(0) < sources.count[name] {
            faults.push(format!("{} names ids and did not run and pass", test.place));
            continue;
        }
        for id in test.ids.iter().filter(|id| list.known.contains(*id)) {
            covered.entry(id).or_default().push(&test.place);
        }
    }
    let without = |id: &&str| !covered.contains_key(id);
    let (open, missing): (Vec<&str>, Vec<&str>) = list
        .known
        .iter()
        .map(String::as_str)
        .filter(without)
        .partition(|id| list.planned.contains(*id));
    faults.extend(missing.iter().map(|id| format!("{id} has no test that ran and passed")));
    Summary { covered, open, faults }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# ids\nTC-1\nTC-2 planned\nTC-3\nTC-4\nTC-5\nTC-6\nP1 planned\n";

    fn faults(source: &str, log: &str) -> Vec<String> {
        let list = List::parse(LIST).unwrap();
        let mut sources = Sources::default();
        sources.scan_text("a.rs", source);
        let passed = passed_tests(log);
        let mut faults = summarise(&list, &sources, &passed).faults;
        faults.retain(|fault| !fault.contains("has no test"));
        faults
    }

    #[test]
    fn lists_are_checked() {
        let list = List::parse(LIST).unwrap();
        assert_eq!((list.known.len(), list.planned.len()), (7, 2));
        for wrong in ["TC-1 soon", "TC-1 planned too", "TC-1\nTC-1 planned"] {
            assert!(List::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ids_count_only_above_tests() {
        let text = "/// TC-1: about a function\nfn helper() {}\n\n/// TC-1, P1 (see XTC-10, P1x)\n/// table of cases\n\
                    #[test]\n#[ignore]\nfn named() {}\n#[test]\nfn unnamed() {}\n";
        let mut sources = Sources::default();
        sources.scan_text("a.rs", text);
        assert_eq!(sources.count.len(), 2);
        let [test] = &sources.named[..] else { panic!("{} tests", sources.named.len()) };
        assert_eq!((test.place.as_str(), test.is_table), ("a.rs:named", true));
        assert_eq!(test.ids, BTreeSet::from(["P1".into(), "TC-1".into()]));
    }

    #[test]
    fn only_tests_that_passed_count() {
        let log = "test a::b::one ... ok\ntest two ... FAILED\ntest three ... ignored\n\
                   test c::four - should panic ... ok\ntest d::one ... ok\n\
                   test e::five ... a host writes\nmore\nok\nok\ntest f::six ... FAILED\nok\n";
        assert_eq!(passed_tests(log), BTreeMap::from([("one", 2), ("four", 1), ("five", 1)]));
    }

    #[test]
    fn an_id_needs_its_test_to_pass() {
        let source = "/// TC-1\n#[test]\nfn a() {}\n";
        assert_eq!(faults(source, "test m::a ... ok"), [""; 0]);
        for log in ["", "test m::a ... ignored", "test m::a ... FAILED", "test m::b ... ok"] {
            assert_eq!(faults(source, log), ["a.rs:a names ids and did not run and pass"]);
        }
    }

    #[test]
    fn a_namesake_that_passed_does_not_stand_in() {
        let source = "/// TC-1\n#[test]\nfn a() {}\nmod other {\n#[test]\nfn a() {}\n}\n";
        assert_eq!(faults(source, "test a ... ok\ntest other::a ... ok"), [""; 0]);
        assert_eq!(faults(source, "test a ... ignored\ntest other::a ... ok").len(), 1);
    }

    #[test]
    fn more_than_five_ids_are_a_fault() {
        let six = "/// TC-1 TC-2 TC-3 TC-4 TC-5 TC-6\n#[test]\nfn a() {}\n";
        assert_eq!(faults(six, "test a ... ok"), ["a.rs:a names 6 ids; 5 are allowed"]);
        let table = six.replace("TC-6", "TC-6: a table of cases");
        assert_eq!(faults(&table, "test a ... ok"), [""; 0]);
    }

    #[test]
    fn ids_that_do_not_exist_are_a_fault() {
        let source = "/// TC-1, TC-7\n#[test]\nfn a() {}\n";
        assert_eq!(faults(source, "test a ... ok"), ["a.rs:a names TC-7, which does not exist"]);
    }

    #[test]
    fn ids_without_a_test_are_planned_or_a_fault() {
        let list = List::parse("TC-1\nTC-2 planned\nTC-3 planned").unwrap();
        let mut sources = Sources::default();
        sources.scan_text("a.rs", "/// TC-2\n#[test]\nfn a() {}\n");
        let passed = passed_tests("test a ... ok");
        let summary = summarise(&list, &sources, &passed);
        assert_eq!(summary.open, ["TC-3"]);
        assert_eq!(summary.faults, ["TC-1 has no test that ran and passed"]);
        assert_eq!(summary.covered.keys().copied().collect::<Vec<_>>(), ["TC-2"]);
    }
}
