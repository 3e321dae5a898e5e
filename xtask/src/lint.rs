//! `cargo xtask lint`: the house rules that the compiler and clippy do not check.
//!
//! * every source file opens with a `//!` line, and none is named `mod.rs`;
//! * the name of a test has at least three words, so that it can state a claim;
//! * prose uses the words of `docs/GLOSSARY.md` and not those that it replaces, and comments begin with their subject;
//! * relative links in Markdown lead to a file and, behind `#`, to a heading;
//! * names and paths in `ARCHITECTURE.md` exist, and each source folder is named there;
//! * no file has more than 900 lines, no function more than 100 or more than six parameters;
//! * no files of a crate import each other in a circle, a parent and its children aside;
//! * a crate's documentation and README have a row for each of its features.

mod architecture;
mod circles;
mod features;
mod links;
mod prose;
mod sizes;
mod test_names;
mod tokens;

use crate::{Result, root};
use std::path::{Path, PathBuf};

/// Folders that hold no prose or sources of the project.
const SKIPPED: [&str; 4] = ["target", ".git", "corpus", "testdata"];

/// A text file of the project.
struct Document {
    /// Relative to the project, with `/`.
    name: String,
    text: String,
}

impl Document {
    fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.name).extension().is_some_and(|found| found == extension)
    }
}

pub fn run() -> Result<()> {
    let documents = documents()?;
    let mut faults = sources(&documents);
    faults.extend(prose::faults(&documents));
    faults.extend(links::faults(&documents));
    faults.extend(architecture::faults(&documents));
    faults.extend(sizes::faults(&documents));
    faults.extend(test_names::faults(&documents));
    faults.extend(circles::faults(&documents));
    faults.extend(features::faults(&documents));
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => Ok(()),
        count => Err(format!("{count} lines break the house rules").into()),
    }
}

/// All text files, in the order of their names.
fn documents() -> Result<Vec<Document>> {
    let mut paths = Vec::new();
    collect(&root(), &mut paths)?;
    paths.sort();
    let mut documents = Vec::new();
    for path in paths {
        // Anything that is not UTF-8 is not prose.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(root())?.to_string_lossy().replace('\\', "/");
        documents.push(Document { name, text });
    }
    Ok(documents)
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}

fn sources(documents: &[Document]) -> Vec<String> {
    let mut faults = Vec::new();
    for document in documents.iter().filter(|document| document.has_extension("rs")) {
        if !document.text.starts_with("//!") {
            faults.push(format!("{}:1: no //! line opens the file", document.name));
        }
        if document.name.ends_with("/mod.rs") {
            faults.push(format!("{}: name it after its module", document.name));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn document(name: &str, text: &str) -> Document {
        Document { name: name.into(), text: text.into() }
    }

    #[test]
    fn a_source_file_opens_with_its_purpose() {
        let documents = [
            document("a.rs", "//! Parses.\n"),
            document("b.rs", "use a;\n"),
            document("c/mod.rs", "//! Also.\n"),
            document("d.md", "# Text\n"),
        ];
        let faults = sources(&documents);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("b.rs:1") && faults[1].starts_with("c/mod.rs"));
    }
}
