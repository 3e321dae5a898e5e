//! Words that the glossary replaces.

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
    fn the_glossary_may_name_them() {
        assert!(faults(&[document(GLOSSARY, PHRASES[0])]).is_empty());
    }
}
