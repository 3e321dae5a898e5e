//! Values of literals. The compiler has checked their form, so any other form is another kind of literal.

use proc_macro::{Literal, TokenTree};

/// The value of a string literal, `None` for any other token.
pub fn string(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Literal(literal) => unescape(&literal.to_string()),
        _ => None,
    }
}

/// The value of an unsigned integer literal, with any suffix.
pub fn integer(token: &TokenTree) -> Option<u64> {
    match token {
        TokenTree::Literal(literal) => parse_integer(&literal.to_string()),
        _ => None,
    }
}

/// `b"…"`
pub fn bytes(bytes: &[u8]) -> Literal {
    Literal::byte_string(bytes)
}

fn unescape(text: &str) -> Option<String> {
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inner = raw.get(hashes..raw.len().checked_sub(hashes)?)?;
        return Some(inner.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    }
    let mut rest = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut value = String::new();
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let escape = rest.chars().next()?;
        rest = &rest[escape.len_utf8()..];
        value.push(match escape {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            '\\' | '\'' | '"' => escape,
            'x' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                char::from(u8::from_str_radix(digits, 16).ok()?)
            }
            'u' => {
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                rest = after;
                char::from_u32(u32::from_str_radix(&digits.replace('_', ""), 16).ok()?)?
            }
            '\n' | '\r' => {
                rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
                continue;
            }
            _ => return None,
        });
    }
    value.push_str(rest);
    Some(value)
}

fn parse_integer(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    let (radix, digits) = match text.get(..2) {
        Some("0x") => (16, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some("0b") => (2, &text[2..]),
        _ => (10, &text[..]),
    };
    let suffixes =
        ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize"];
    let suffix = suffixes.iter().find_map(|suffix| digits.strip_suffix(suffix));
    u64::from_str_radix(suffix.unwrap_or(digits), radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_strings_have_rusts_values() {
        for (text, value) in [
            (r#""""#, Some("")),
            (r#""a\n\r\t\0\\\'\"b""#, Some("a\n\r\t\0\\'\"b")),
            (r#""\x41\u{e9}\u{1_F600}""#, Some("Aé\u{1f600}")),
            ("\"a\\\n   b\"", Some("ab")),
            (r###"r#"a\n"b"#"###, Some("a\\n\"b")),
            (r#"r"x""#, Some("x")),
            (r#"b"x""#, None),
            ("'x'", None),
            ("12", None),
            (r#"c"x""#, None),
        ] {
            assert_eq!(unescape(text).as_deref(), value, "{text}");
        }
    }

    #[test]
    fn literals_of_integers_have_rusts_values() {
        for (text, value) in [
            ("0", Some(0)),
            ("1_000u32", Some(1000)),
            ("0xFF", Some(255)),
            ("0x1f_u8", Some(31)),
            ("0b101", Some(5)),
            ("0o17usize", Some(15)),
            ("0xffff_ffff_ffff_ffff", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("1.0", None),
            ("1f32", None),
            ("\"1\"", None),
        ] {
            assert_eq!(parse_integer(text), value, "{text}");
        }
    }
}
