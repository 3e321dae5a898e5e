//! Relative links in Markdown.

use super::Document;
use crate::root;

/// The folder that becomes a book, which has no other files.
const BOOK: &str = "docs/";
/// Code spans that begin so name a file or folder of the project.
const FOLDERS: [&str; 6] = ["crates/", "xtask/", "bench/", "fuzz/", "testdata/", ".ci/"];

pub fn faults(documents: &[Document]) -> Vec<String> {
    let mut faults = Vec::new();
    for document in documents.iter().filter(|document| document.has_extension("md")) {
        for link in links(&document.text) {
            if let Err(reason) = check(documents, document, &link.target) {
                let (name, line, target) = (&document.name, link.line, &link.target);
                faults.push(format!("{name}:{line}: {target}: {reason}"));
            }
        }
        for (index, line) in document.text.lines().enumerate() {
            for path in line.split('`').skip(1).step_by(2).filter(|span| is_missing_path(span)) {
                faults.push(format!("{}:{}: {path}: no such file", document.name, index + 1));
            }
        }
    }
    faults
}

fn is_missing_path(span: &str) -> bool {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let names_file = FOLDERS.iter().any(|folder| span.starts_with(folder));
    names_file && span.chars().all(is_path) && !root().join(span).exists()
}

struct Link {
    line: usize,
    target: String,
}

/// Targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (number, line) in prose_lines(text) {
        let mut rest = line.as_str();
        while let Some((_, behind)) = rest.split_once("](") {
            let Some((target, after)) = behind.split_once(')') else { break };
            links.push(Link { line: number, target: target.to_string() });
            rest = after;
        }
    }
    links
}

/// Lines outside of fenced code, without their code spans, numbered from 1.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        // Every second piece is a code span.
        let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        (!is_code).then_some((index + 1, prose))
    })
}

fn check(documents: &[Document], from: &Document, target: &str) -> Result<(), String> {
    if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return Ok(());
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let name = if path.is_empty() { from.name.clone() } else { resolve(&from.name, path)? };
    if from.name.starts_with(BOOK) && !name.starts_with(BOOK) {
        return Err("leads out of the book; name the file, or use its address".to_string());
    }
    let document = documents.iter().find(|document| document.name == name);
    match (document, anchor) {
        (Some(document), Some(anchor)) if !has_heading(document, anchor) => {
            Err("no such heading".to_string())
        }
        (Some(_), _) => Ok(()),
        (None, _) if root().join(&name).exists() => Ok(()),
        (None, _) => Err("no such file".to_string()),
    }
}

/// The project's name of a path that is relative to a document.
fn resolve(from: &str, path: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop().ok_or("leads out of the project")?;
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Whether a heading has the anchor that GitHub and mdbook give it.
fn has_heading(document: &Document, anchor: &str) -> bool {
    let mut is_code = false;
    document.text.lines().any(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#') && slug(line.trim_start_matches('#').trim()) == anchor
    })
}

fn slug(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
    heading.to_lowercase().chars().filter(is_kept).collect::<String>().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;

    #[test]
    fn paths_in_code_spans_exist() {
        let text = "`xtask/src/main.rs` `xtask/src/nothing.rs` `crates/*/src` `etw-ring/src`";
        let faults = faults(&[document("a.md", text)]);
        assert_eq!(faults, ["a.md:1: xtask/src/nothing.rs: no such file"]);
    }

    #[test]
    fn the_book_links_only_to_itself() {
        let documents = [document("docs/a.md", "[x](../b.md)"), document("b.md", "[a](docs/a.md)")];
        assert_eq!(faults(&documents).len(), 1);
    }

    #[test]
    fn dead_links_are_faults() {
        let documents = [
            document("docs/a.md", "# One, two\n[b](guide/b.md#the-end) [c](#one-two)\n"),
            document(
                "docs/guide/b.md",
                "## The end\n[up](../a.md) [x](nowhere.md) [y](../a.md#three)\n",
            ),
            document(
                "README.md",
                "`[code](dead.md)` [web](https://example.org)\n```\n[d](d.md)\n```\n",
            ),
        ];
        let faults = faults(&documents);
        assert_eq!(
            faults,
            [
                "docs/guide/b.md:2: nowhere.md: no such file",
                "docs/guide/b.md:2: ../a.md#three: no such heading",
            ]
        );
    }
}
