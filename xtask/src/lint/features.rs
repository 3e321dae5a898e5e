//! Feature tables: the documentation and the README of a crate name each feature of its `Cargo.toml`.

use super::Document;

pub fn faults(documents: &[Document]) -> Vec<String> {
    let mut faults = Vec::new();
    for manifest in documents {
        let Some(folder) = manifest.name.strip_suffix("Cargo.toml") else { continue };
        if !folder.starts_with("crates/") {
            continue;
        }
        for feature in features(&manifest.text) {
            for (file, row) in [
                ("README.md", format!("| `{feature}`")),
                ("src/lib.rs", format!("//! | `{feature}`")),
            ] {
                let name = format!("{folder}{file}");
                let document = documents.iter().find(|document| document.name == name);
                let has_row = |document: &Document| {
                    document.text.lines().any(|line| line.starts_with(row.as_str()))
                };
                if !document.is_some_and(has_row) {
                    faults.push(format!("{name}: the feature table has no row for `{feature}`"));
                }
            }
        }
    }
    faults
}

/// The features of a manifest, except `default`.
fn features(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let section = lines.take_while(|line| !line.starts_with('['));
    let names = section.filter(|line| !line.starts_with(['#', ' '])).filter_map(|line| {
        let (name, _) = line.split_once('=')?;
        Some(name.trim())
    });
    names.filter(|name| *name != "default").collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;

    #[test]
    fn each_feature_has_a_row_in_both_tables() {
        let manifest =
            "[features]\ndefault = [\"a\"]\n# Words.\na = []\nb = [\"dep:b\"]\n\n[x]\nc = 1\n";
        assert_eq!(features(manifest), ["a", "b"]);
        let documents = [
            document("crates/e/Cargo.toml", manifest),
            document("crates/e/README.md", "| `a` (default) | adds |\n| `b` | adds |\n"),
            document("crates/e/src/lib.rs", "//! | `a` (default) | adds |\n"),
        ];
        let faults = faults(&documents);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("crates/e/src/lib.rs") && faults[0].contains("`b`"));
    }
}
