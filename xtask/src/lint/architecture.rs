//! Names and paths in `ARCHITECTURE.md`.

use super::Document;
use crate::root;
use std::collections::BTreeSet;

const NAME: &str = "ARCHITECTURE.md";
/// Words of prose and code spans that the page may have.
const MOST_WORDS: usize = 2500;

pub fn faults(documents: &[Document]) -> Vec<String> {
    let Some(page) = documents.iter().find(|document| document.name == NAME) else {
        return vec![format!("{NAME}: missing")];
    };
    let mut faults = missing_names(page, documents);
    faults.extend(missing_folders(page, documents));
    let words = page.text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric));
    let words = words.count();
    if words > MOST_WORDS {
        faults.push(format!("{NAME}: {words} words; {MOST_WORDS} are allowed"));
    }
    faults
}

/// Code spans that name a function (`drain()`), a type (`Reader`) or a path (`etw-ring/src/`) that is not there.
fn missing_names(page: &Document, documents: &[Document]) -> Vec<String> {
    let defined = Defined::of(documents);
    let mut faults = Vec::new();
    for (number, line) in page.text.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            if let Some(what) = defined.lacks(span) {
                faults.push(format!("{NAME}:{}: no {what} `{span}`", number + 1));
            }
        }
    }
    faults
}

/// Names that sources define.
struct Defined<'d> {
    functions: BTreeSet<&'d str>,
    types: BTreeSet<&'d str>,
}

impl<'d> Defined<'d> {
    fn of(documents: &'d [Document]) -> Defined<'d> {
        let mut defined = Defined { functions: BTreeSet::new(), types: BTreeSet::new() };
        for document in documents.iter().filter(|document| document.has_extension("rs")) {
            for line in document.text.lines() {
                let words: Vec<&str> = line
                    .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'))
                    .filter(|word| !word.is_empty())
                    .collect();
                for pair in words.windows(2) {
                    match pair[0] {
                        "fn" | "macro_rules!" => defined.functions.insert(pair[1]),
                        "struct" | "enum" | "trait" | "type" | "union" => {
                            defined.types.insert(pair[1])
                        }
                        _ => continue,
                    };
                }
            }
        }
        defined
    }

    /// The kind of what a span names, if it does not exist.
    fn lacks(&self, span: &str) -> Option<&'static str> {
        if span.contains('/') {
            let is_there = |folder: &str| root().join(folder).join(span).exists();
            return (!is_there("") && !is_there("crates")).then_some("file");
        }
        let last = span.rsplit("::").next().unwrap_or(span);
        let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if let Some(function) = last.strip_suffix("()").or_else(|| last.strip_suffix('!')) {
            return (is_name(function) && !self.functions.contains(function)).then_some("function");
        }
        let is_type = last.starts_with(char::is_uppercase)
            && last.contains(char::is_lowercase)
            && is_name(last);
        (is_type && !self.types.contains(last)).then_some("type")
    }
}

/// Folders with sources that the page does not name: as `etw-ring/src/` or `crates/etw-ring/src/`.
fn missing_folders(page: &Document, documents: &[Document]) -> Vec<String> {
    let folders: BTreeSet<&str> = documents
        .iter()
        .filter(|document| document.has_extension("rs"))
        .filter_map(|document| document.name.rsplit_once('/'))
        .map(|(folder, _)| folder)
        .filter(|folder| folder.split('/').any(|part| part == "src"))
        .collect();
    folders
        .into_iter()
        .map(|folder| folder.strip_prefix("crates/").unwrap_or(folder))
        .filter(|folder| !page.text.contains(&format!("{folder}/")))
        .map(|folder| format!("{NAME}: the folder `{folder}/` is not named"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;

    #[test]
    fn names_that_do_not_exist_are_faults() {
        let source = document("crates/a/src/b/c.rs", "pub fn drain() {}\npub struct Reader;\n");
        let page = document(
            NAME,
            "`a/src/b/` `Reader` `Reader::drain()` `Pool` `fill()` `xtask/src/main.rs` `xtask/x.rs` `--where`",
        );
        let faults = faults(&[source, page]);
        assert_eq!(
            faults,
            [
                "ARCHITECTURE.md:1: no file `a/src/b/`",
                "ARCHITECTURE.md:1: no type `Pool`",
                "ARCHITECTURE.md:1: no function `fill()`",
                "ARCHITECTURE.md:1: no file `xtask/x.rs`",
            ]
        );
    }

    #[test]
    fn every_source_folder_is_named() {
        let source = document("crates/a/src/b/c.rs", "");
        let faults = faults(&[source, document(NAME, "`Nothing` here")]);
        assert!(faults.iter().any(|fault| fault.contains("the folder `a/src/b/`")), "{faults:?}");
    }
}
