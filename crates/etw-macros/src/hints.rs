//! Hints for common mistakes: forgotten commas, misspelt names, types that have no field.

use proc_macro::{Delimiter, TokenTree};

use crate::tokens::{Error, Result};

/// Rust types, and names of other libraries, that users look for among the fields; what to write instead.
const FOREIGN: &[(&str, &str)] = &[
    ("duration", "a `Duration` is a number: `u64(\"name\", &(value.as_nanos() as u64))`"),
    ("instant", "an `Instant` has no time of day; use `systemtime` with a `SystemTime`"),
    ("time", "use `systemtime` with a `SystemTime`, or `time64` with seconds since 1970"),
    ("datetime", "use `systemtime` with a `SystemTime`, or `time64` with seconds since 1970"),
    ("timestamp", "use `systemtime` with a `SystemTime`, or `time64` with seconds since 1970"),
    ("string", "use `str8`"),
    ("str", "use `str8`"),
    ("text", "use `str8`"),
    ("path", "use `str8` with `path.to_string_lossy().as_ref()`"),
    ("pathbuf", "use `str8` with `path.to_string_lossy().as_ref()`"),
    ("osstring", "use `str8` with `value.to_string_lossy().as_ref()`"),
    ("json", "use `str8_json`"),
    ("debug_fmt", "use `str8` with `format!(\"{value:?}\")`"),
    ("bool", "use `bool8`, or `bool32` for four bytes"),
    ("char", "use `str8` with `value.encode_utf8(&mut [0; 4])`"),
    ("u128", "use `binaryc` with `&value.to_le_bytes()`"),
    ("i128", "use `binaryc` with `&value.to_le_bytes()`"),
    ("int", "use `i32`"),
    ("float", "use `f32`"),
    ("double", "use `f64`"),
    ("bytes", "use `binaryc`"),
    ("vec", "use the type of the items with `_slice`, as `u32_slice(\"name\", &list)`"),
    ("array", "use the type of the items with `_slice`, as `u32_slice(\"name\", &list)`"),
    ("option", "use the type of the value with `opt_`, as `opt_u32(\"name\", &option)`"),
    ("uuid", "use `guid` with `&Guid::from_bytes_le(…)`, or `binaryc`"),
    ("ip", "use `ipv4` or `ipv6c`"),
    ("ipaddr", "use `ipv4` or `ipv6c`"),
    ("socketaddr", "use `ipv4` or `ipv6c`, and `port`"),
    ("ptr", "use `pointer` with `&(value as usize)`"),
    ("hex", "use `u32_hex` or `u64_hex`"),
    ("error", "use `str8` with `error.to_string()`, or `errno` or `win_error` with the number"),
    ("sid", "use `win_sid`"),
    ("activity", "use the option `activity_id`"),
    ("related", "use the option `related_id`"),
    ("related_activity_id", "use the option `related_id`"),
    ("id", "use the option `id_version(id, version)`"),
    ("event_id", "use the option `id_version(id, version)`"),
    ("version", "use the option `id_version(id, version)`"),
    ("severity", "use the option `level`"),
    ("filetime", "use `win_filetime`"),
];

/// All options of fields.
pub const OPTIONS: &[&str] = &["tag", "format", "count", "protocol", "schema", "description"];

/// Words after which an expression continues.
const CONTINUES: &[&str] =
    &["as", "mut", "ref", "move", "return", "in", "if", "match", "else", "dyn", "unsafe", "break"];

/// Suggestions for field types that do not exist.
pub fn foreign(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    FOREIGN.iter().find(|(foreign, _)| *foreign == name).map(|(_, hint)| *hint)
}

/// The name among `known` that `name` may be a misspelling of.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let by_distance = known.into_iter().map(|other| (distance(name, other), other));
    let nearest = by_distance.min_by_key(|(distance, _)| *distance);
    nearest.filter(|(distance, _)| *distance <= (name.len() / 2).min(2)).map(|(_, other)| other)
}

/// `; did you mean …?`, if there is a name like it.
pub fn did_you_mean<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(name, known).map_or(String::new(), |other| format!("; did you mean `{other}`?"))
}

/// The name among `known` that `name` may be a misspelling or an abbreviation of, in any case. A name without lower-case letters
/// is that of a constant.
pub fn misspelt<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let lower = name.to_lowercase();
    if !name.contains(char::is_lowercase) {
        return None;
    }
    let is_same = |known: &&str| known.to_lowercase() == lower;
    let abbreviates = |known: &&str| lower.len() > 2 && known.to_lowercase().starts_with(&lower);
    let is_near =
        |known: &&str| distance(&lower, &known.to_lowercase()) <= (lower.len() / 2).min(2);
    let first = |test: &dyn Fn(&&'k str) -> bool| known.clone().find(|known| test(known));
    first(&is_same).or_else(|| first(&abbreviates)).or_else(|| first(&is_near))
}

/// The number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swapped = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                    replaced.min(swapped).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1)
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

/// Fails if a string literal is followed by more tokens: the comma behind a name was forgotten.
pub fn comma_behind_name(tokens: &[TokenTree]) -> Result<()> {
    match tokens {
        [TokenTree::Literal(name), next, ..] if is_string(name) => {
            Err(Error::new(next.span(), format!("a comma is missing behind the name {name}")))
        }
        _ => Ok(()),
    }
}

/// Fails if a string literal follows an expression: no expression has one there, so the comma before a name was forgotten.
pub fn comma_before_name(tokens: &[TokenTree]) -> Result<()> {
    let name = tokens.iter().skip(1).find(|token| is_string_token(token));
    name.map_or(Ok(()), |name| {
        Err(Error::new(name.span(), format!("a comma is missing before {name}")))
    })
}

/// Fails if `name(…)` is followed by another token: the comma between two fields was forgotten.
pub fn comma_between_fields(tokens: &[TokenTree]) -> Result<()> {
    match tokens {
        [TokenTree::Ident(name), TokenTree::Group(group), next, ..]
            if group.delimiter() == Delimiter::Parenthesis
                && !matches!(next, TokenTree::Punct(_)) =>
        {
            Err(Error::new(next.span(), format!("a comma is missing behind `{name}(…)`")))
        }
        _ => Ok(()),
    }
}

/// Fails if a value ends with an option, as `&value tag(1)`: the comma between them was forgotten.
pub fn comma_before_option(tokens: &[TokenTree]) -> Result<()> {
    let [.., before, TokenTree::Ident(option), TokenTree::Group(group)] = tokens else {
        return Ok(());
    };
    let ends_a_value = match before {
        TokenTree::Punct(_) => false,
        TokenTree::Ident(word) => !CONTINUES.contains(&word.to_string().as_str()),
        TokenTree::Literal(_) | TokenTree::Group(_) => true,
    };
    let is_option = group.delimiter() == Delimiter::Parenthesis
        && OPTIONS.contains(&option.to_string().as_str());
    match ends_a_value && is_option {
        true => Err(Error::new(option.span(), format!("a comma is missing before `{option}(…)`"))),
        false => Ok(()),
    }
}

fn is_string(literal: &proc_macro::Literal) -> bool {
    let text = literal.to_string();
    text.starts_with('"') || text.starts_with("r\"") || text.starts_with("r#")
}

fn is_string_token(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Literal(literal) if is_string(literal))
}
