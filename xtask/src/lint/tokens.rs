//! Words and signs of a Rust source, without its comments and literals.

#[derive(Clone, Copy)]
pub struct Token<'t> {
    /// A word, `::` or one other sign.
    pub text: &'t str,
    pub line: usize,
}

pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let skipped = comment(rest).or_else(|| literal(rest));
        let length = match skipped {
            Some(length) => length,
            None if word > 0 => word,
            None if rest.starts_with("::") => 2,
            None => first.len_utf8(),
        };
        if skipped.is_none() && !first.is_whitespace() {
            tokens.push(Token { text: &rest[..length], line });
        }
        line += rest[..length].matches('\n').count();
        at += length;
    }
    tokens
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment that `rest` begins with.
fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        match rest.get(at..at + 2) {
            Some("/*") => (depth, at) = (depth + 1, at + 2),
            Some("*/") => (depth, at) = (depth - 1, at + 2),
            _ if at >= rest.len() => return Some(rest.len()),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The length of the text or character that `rest` begins with. A lifetime is none.
fn literal(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(*prefix).unwrap_or(" ");
        after.trim_start_matches('#').starts_with('"')
            && (prefix.ends_with('r') || after.starts_with('"'))
    });
    if let Some(prefix) = prefix.filter(|prefix| prefix.ends_with('r')) {
        let hashes = rest[prefix.len()..].find('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let start = prefix.len() + hashes + 1;
        return Some(
            rest[start..].find(&end).map_or(rest.len(), |found| start + found + end.len()),
        );
    }
    if let Some(prefix) = prefix {
        return Some(escaped(rest, prefix.len() + 1, '"'));
    }
    let start = if rest.starts_with("b'") { 2 } else { 1 };
    let mut chars = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('\'')?.chars();
    let is_character = chars.next()? == '\\' || chars.next() == Some('\'');
    is_character.then(|| escaped(rest, start, '\''))
}

/// The length up to and with the first `quote` from `start` on that no backslash escapes.
fn escaped(rest: &str, start: usize, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest[start..].char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return start + at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_and_signs_remain() {
        assert_eq!(texts("use a::b_1;\n"), ["use", "a", "::", "b_1", ";"]);
        assert_eq!(texts("&'a str"), ["&", "'", "a", "str"]);
    }

    #[test]
    fn comments_and_literals_do_not() {
        assert_eq!(texts("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(texts(r####"a "b\"c" r#"d"e"# b"f" br"g" '"' b'\'' h"####), ["a", "h"]);
        assert_eq!(texts("'\\u{41}' x '→' y"), ["x", "y"]);
    }

    #[test]
    fn lines_count_through_comments_and_literals() {
        let lines: Vec<usize> =
            tokens("a /*\n*/ b \"\n\" c\nd").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
    }
}
