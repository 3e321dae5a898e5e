//! Words that the glossary replaces, and comments that do not begin with their subject.

use super::Document;

/// Phrases in lower case. Each is cut in two, so that this file does not hold it.
const PHRASES: [&str; 8] = [
    concat!("is t", "old"),
    concat!("are t", "old"),
    concat!("tells", " of"),
    concat!("goes on", " with"),
    concat!("whose", " affair"),
    concat!("shown", " out"),
    concat!("taken", " for"),
    concat!("wi", "sh"),
];

/// No comment of a source begins with these words.
const FIRST_WORDS: [&str; 6] = ["What", "Who", "Whose", "Whom", "Of", "That"];

/// The glossary lists the old words beside the new ones.
const GLOSSARY: &str = "docs/GLOSSARY.md";

pub fn faults(documents: &[Document]) -> Vec<String> {
    let mut faults = Vec::new();
    for document in documents.iter().filter(|document| document.name != GLOSSARY) {
        for (number, line) in document.text.lines().enumerate() {
            let lower = line.to_lowercase();
            for phrase in PHRASES.iter().filter(|phrase| is_in(&lower, phrase)) {
                faults.push(format!("{}:{}: \"{phrase}\"", document.name, number + 1));
            }
        }
        if document.has_extension("rs") {
            faults.extend(comment_faults(document));
        }
    }
    faults
}

fn comment_faults(document: &Document) -> Vec<String> {
    let mut faults = Vec::new();
    let mut is_continued = false;
    for (number, line) in document.text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        let text = comment.map_or("", |text| text.trim_start_matches(['/', '!']).trim());
        let first = text.split(' ').next().unwrap_or_default();
        if FIRST_WORDS.contains(&first) && !is_continued {
            faults.push(format!("{}:{}: a comment begins with {first}", document.name, number + 1));
        }
        // An empty line of a comment ends a paragraph.
        is_continued = !text.is_empty();
    }
    faults
}

/// Whether whole words of `line` are the phrase, the last one perhaps with `es`.
fn is_in(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(start, found)| {
        let before = line[..start].chars().next_back();
        let after = &line[start + found.len()..];
        let after = after.strip_prefix("es").unwrap_or(after).chars().next();
        ![before, after].into_iter().flatten().any(|c| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;

    #[test]
    fn only_whole_words_are_faults() {
        let verb = PHRASES[7];
        for (line, count) in [
            (format!("The session's {verb}es."), 1),
            (format!("What programs {verb}"), 1),
            (format!("un{verb}ed, {verb}ful, a {verb}_list"), 0),
            (format!("{} it", PHRASES[0].to_uppercase()), 1),
        ] {
            assert_eq!(faults(&[document("a.md", &line)]).len(), count, "{line}");
        }
    }

    #[test]
    fn a_comment_begins_with_its_subject() {
        let first = FIRST_WORDS[0];
        let text = format!(
            "//! {first} it does.\n//!\n/// The rest\n/// {first} follows\n    // {first}\n"
        );
        let faults = faults(&[document("a.rs", &text)]);
        assert_eq!(faults.len(), 1, "{faults:?}");
        let text = format!("fn f() {{\n    // {first} is this?\n}}\n");
        assert_eq!(super::faults(&[document("a.rs", &text)]).len(), 1);
    }

    #[test]
    fn the_glossary_may_name_them() {
        assert!(faults(&[document(GLOSSARY, PHRASES[0])]).is_empty());
    }
}
