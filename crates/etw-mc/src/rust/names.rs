//! Names in Rust.

use std::collections::HashSet;

/// The words of a name: divided at other characters than letters and digits, and where the case changes.
fn words(name: &str) -> Vec<String> {
    let characters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for (index, &c) in characters.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            is_open = false;
            continue;
        }
        let before = index.checked_sub(1).map(|index| characters[index]);
        let next = characters.get(index + 1);
        let begins = c.is_ascii_uppercase()
            && before.is_some_and(|before| {
                !before.is_ascii_uppercase() || next.is_some_and(char::is_ascii_lowercase)
            });
        if !is_open || begins {
            words.push(String::new());
        }
        is_open = true;
        if let Some(word) = words.last_mut() {
            word.push(c.to_ascii_lowercase());
        }
    }
    words
}

/// The name of a module, function or parameter: `HTTPRequest-Sent` as `http_request_sent`; a keyword of Rust gets an underscore.
pub fn snake(name: &str) -> String {
    finish(words(name).join("_"))
}

/// The name of a type or variant: `http request` as `HttpRequest`.
pub fn pascal(name: &str) -> String {
    let capital = |word: &String| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    };
    finish(words(name).iter().map(capital).collect())
}

/// `http request` as `HTTP_REQUEST`.
pub fn upper(name: &str) -> String {
    finish(words(name).join("_").to_ascii_uppercase())
}

/// A name is not empty, begins with a letter and is no keyword.
fn finish(name: String) -> String {
    const KEYWORDS: &[&str] = &[
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
        "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
        "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
        "ref", "return", "self", "static", "struct", "super", "trait", "true", "try", "type",
        "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield", "Self", "SELF",
    ];
    match name {
        name if name.is_empty() => "unnamed".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("n{name}"),
        name if KEYWORDS.contains(&name.as_str()) => name + "_",
        name => name,
    }
}

/// Names that are used already.
#[derive(Default)]
pub struct Used(HashSet<String>);

impl Used {
    /// The name, or the name with a number that makes it unique.
    pub fn unique(&mut self, name: String) -> String {
        let mut unique = name.clone();
        let mut number = 2;
        while !self.0.insert(unique.clone()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions_of_rust() {
        assert_eq!(snake("HTTPRequest-Sent2"), "http_request_sent2");
        assert_eq!(snake("WClientLayout_V1"), "w_client_layout_v1");
        assert_eq!(snake("fixed text"), "fixed_text");
        assert_eq!(snake("type"), "type_");
        assert_eq!(snake("2nd"), "n2nd");
        assert_eq!(snake("größe"), "gr_e");
        assert_eq!(snake("é"), "unnamed");
        assert_eq!(pascal("_DARK_BLUE"), "DarkBlue");
        assert_eq!(pascal("self"), "Self_");
        assert_eq!(upper("darkBlue"), "DARK_BLUE");
        let mut used = Used::default();
        assert_eq!(used.unique("a".into()), "a");
        assert_eq!(used.unique("a".into()), "a_2");
    }
}
