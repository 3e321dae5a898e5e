//! Files of a crate that import each other in a circle, a parent module and its children aside.

mod imports;

use super::Document;
use imports::Imports;
use std::collections::{BTreeMap, BTreeSet};

pub fn faults(documents: &[Document]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<&Document>> = BTreeMap::new();
    for document in documents.iter().filter(|document| document.has_extension("rs")) {
        if let Some((folder, _)) = document.name.split_once("/src/") {
            crates.entry(folder).or_default().push(document);
        }
    }
    crates.values().flat_map(|files| Crate::of(files).circles()).collect()
}

/// The file modules of one crate, as paths from its root: `["read", "file"]` for `src/read/file.rs`.
struct Crate<'d> {
    files: BTreeMap<Vec<&'d str>, Module<'d>>,
}

struct Module<'d> {
    name: &'d str,
    /// The files that this one imports from, each with the first line that does.
    imports: BTreeMap<Vec<&'d str>, usize>,
}

impl<'d> Crate<'d> {
    fn of(documents: &[&'d Document]) -> Crate<'d> {
        let mut scanned: BTreeMap<Vec<&str>, (&str, Imports)> = documents
            .iter()
            .map(|document| {
                let path = module_path(&document.name);
                let imports = Imports::of(&path, &document.text);
                (path, (document.name.as_str(), imports))
            })
            .collect();
        let tests: Vec<Vec<&str>> =
            scanned.values().flat_map(|(_, imports)| imports.test_modules.clone()).collect();
        scanned.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
        let paths: BTreeSet<Vec<&str>> = scanned.keys().cloned().collect();
        let mut files = BTreeMap::new();
        for (path, (name, found)) in scanned {
            let mut imports = BTreeMap::new();
            for import in found.paths {
                let target = file_of(&import.path, &paths);
                if !target.starts_with(&path) && !path.starts_with(target) {
                    imports.entry(target.to_vec()).or_insert(import.line);
                }
            }
            files.insert(path, Module { name, imports });
        }
        Crate { files }
    }

    /// One line per group of files that all import each other, directly or through others of the group.
    fn circles(&self) -> Vec<String> {
        let reachable: BTreeMap<&[&str], BTreeSet<&[&str]>> =
            self.files.keys().map(|path| (path.as_slice(), self.reachable_from(path))).collect();
        let mut reported: BTreeSet<&[&str]> = BTreeSet::new();
        let mut circles = Vec::new();
        for (path, reached) in &reachable {
            if !reached.contains(path) || reported.contains(path) {
                continue;
            }
            let group: BTreeSet<&[&str]> =
                reached.iter().copied().filter(|other| reachable[other].contains(path)).collect();
            reported.extend(&group);
            let edges: Vec<String> = group.iter().map(|from| self.edge(from, &group)).collect();
            circles.push(format!("import circle: {}", edges.join("; ")));
        }
        circles
    }

    fn reachable_from(&self, start: &[&'d str]) -> BTreeSet<&[&'d str]> {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(path) = open.pop() {
            for target in self.files.get(path).into_iter().flat_map(|file| file.imports.keys()) {
                if reached.insert(target.as_slice()) {
                    open.push(target);
                }
            }
        }
        reached
    }

    /// The imports of one file from others of its group: `crates/a/src/b.rs:3 imports c`.
    fn edge(&self, from: &[&'d str], group: &BTreeSet<&[&str]>) -> String {
        let file = &self.files[from];
        let targets: Vec<String> = file
            .imports
            .iter()
            .filter(|(target, _)| group.contains(target.as_slice()))
            .map(|(target, line)| format!("{} (line {line})", target.join("::")))
            .collect();
        format!("{} imports {}", file.name, targets.join(", "))
    }
}

/// `["read", "file"]` for `crates/etw-etl/src/read/file.rs`, nothing for `lib.rs` and `main.rs`.
fn module_path(name: &str) -> Vec<&str> {
    let inside = name.split_once("/src/").map_or(name, |(_, inside)| inside);
    match inside.trim_end_matches(".rs") {
        "lib" | "main" => Vec::new(),
        module => module.split('/').collect(),
    }
}

/// The longest beginning of `path` that is a file; the root of the crate if there is none.
fn file_of<'p, 'd>(path: &'p [&'d str], files: &BTreeSet<Vec<&'d str>>) -> &'p [&'d str] {
    (0..=path.len())
        .rev()
        .map(|end| &path[..end])
        .find(|start| files.contains(*start))
        .unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let documents: Vec<Document> = files
            .iter()
            .map(|(name, text)| document(&format!("crates/x/src/{name}"), text))
            .collect();
        faults(&documents)
    }

    #[test]
    fn two_files_that_import_each_other_are_a_fault() {
        let found = circles(&[
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "use crate::b::{self, B};\n"),
            ("b.rs", "//! B.\nfn f() { super::a::g() }\n"),
        ]);
        assert_eq!(
            found,
            [
                "import circle: crates/x/src/a.rs imports b (line 1); crates/x/src/b.rs imports a (line 2)"
            ]
        );
    }

    #[test]
    fn a_circle_of_three_is_one_fault() {
        let found = circles(&[
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use super::c::d::D;"),
            ("c/d.rs", "use super::super::a::A;"),
            ("e.rs", "use crate::a::A;"),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("c/d.rs") && !found[0].contains("e.rs"), "{found:?}");
    }

    #[test]
    fn a_parent_and_its_children_may_import_each_other() {
        let found = circles(&[
            ("lib.rs", "mod a; use a::b::B; pub struct Root;"),
            ("a.rs", "mod b; use self::b::B; use crate::Root; pub struct A;"),
            ("a/b.rs", "use super::A; use crate::{a::A as Same, Root};"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn tests_comments_and_texts_import_nothing() {
        let found = circles(&[
            ("a.rs", "use crate::b::B; #[cfg(test)] mod checks;"),
            (
                "b.rs",
                "/// Of [`crate::a::A`].\nconst T: &str = \"crate::a::A\";\n/* crate::a */\n\
                 #[cfg(test)]\nmod tests { use crate::a::A; fn f() {} }\n\
                 #[cfg(all(test, unix))]\nuse crate::a::A;\n",
            ),
            ("a/checks.rs", "use crate::c::C;"),
            ("c.rs", "use crate::a::checks::X;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn what_is_compiled_without_tests_imports() {
        let found = circles(&[
            ("a.rs", "#[cfg(not(test))]\nuse crate::b::B;"),
            ("b.rs", "mod inner { use super::super::a::A; }"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
