//! Regular expressions without regard to case. `regex-lite` folds ASCII letters alone; so each other letter becomes a class of its forms.

use etw_types::fold_case;
use std::borrow::Cow;
use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::LazyLock;

/// Bytes of a pattern with all forms of its letters.
const SIZE_LIMIT: usize = 1 << 20;
/// No character behind this one has a case.
const LAST_WITH_CASE: char = '\u{1efff}';

/// The forms of all characters; made when a pattern first needs them.
static FORMS: LazyLock<Forms> = LazyLock::new(|| {
    let mut forms: HashMap<char, Vec<char>> = HashMap::new();
    for c in '\0'..=LAST_WITH_CASE {
        let folded = fold_case(c);
        if folded != c {
            forms.entry(folded).or_insert_with(|| vec![folded]).push(c);
        }
    }
    let mut all: Vec<char> = forms.values().flatten().copied().collect();
    all.sort_unstable();
    Forms { all, by_folded: forms }
});

struct Forms {
    /// Characters with a case, in order.
    all: Vec<char>,
    /// Those that fold to the same one, by that.
    by_folded: HashMap<char, Vec<char>>,
}

/// The other forms of a character, but those that `regex-lite` knows.
fn others(c: char) -> impl Iterator<Item = char> {
    let forms: &[char] = match c {
        'k' | 'K' => &['\u{212a}'],
        's' | 'S' => &['ſ'],
        // They are in the table only as forms of others.
        '\0'..='\x7f' => &[],
        _ => FORMS.by_folded.get(&fold_case(c)).map_or(&[], Vec::as_slice),
    };
    forms.iter().copied().filter(move |form| *form != c)
}

/// The pattern, with all forms of the letters for which `(?i)` holds.
///
/// # Errors
/// It becomes too long.
pub(super) fn with_all_cases(pattern: &str) -> Result<Cow<'_, str>, String> {
    // Only a flag asks for it.
    if !pattern.contains("(?") {
        return Ok(pattern.into());
    }
    let mut scanner = Scanner {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len()),
        flags: Flags::default(),
        around: Vec::new(),
    };
    scanner.scan()?;
    Ok(scanner.out.into())
}

#[derive(Clone, Copy, Default)]
struct Flags {
    in_any_case: bool,
    /// Blanks and comments are no part of the pattern.
    is_verbose: bool,
}

struct Scanner<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    flags: Flags,
    /// The flags around each open group.
    around: Vec<Flags>,
}

impl Scanner<'_> {
    /// Copies a pattern. What `regex-lite` refuses stays as it is.
    fn scan(&mut self) -> Result<(), String> {
        while let Some(c) = self.next()? {
            match c {
                '\\' => self.copy()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => self.flags = self.around.pop().unwrap_or_default(),
                '#' if self.flags.is_verbose => self.copy_until('\n')?,
                _ if self.flags.in_any_case && others(c).next().is_some() => {
                    self.out.pop();
                    self.out.push('[');
                    self.out.push(c);
                    self.out.extend(others(c));
                    self.out.push(']');
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Copies the next character.
    fn next(&mut self) -> Result<Option<char>, String> {
        if self.out.len() > SIZE_LIMIT {
            return Err("with all forms of its letters it is longer than 1 MiB".to_owned());
        }
        let next = self.rest.next();
        self.out.extend(next);
        Ok(next)
    }

    fn copy(&mut self) -> Result<(), String> {
        self.next().map(drop)
    }

    fn copy_until(&mut self, end: char) -> Result<(), String> {
        while self.next()?.is_some_and(|c| c != end) {}
        Ok(())
    }

    /// Behind the bracket of a group: its name, or flags for it or for the rest of the group around it.
    fn group(&mut self) -> Result<(), String> {
        self.around.push(self.flags);
        if self.rest.peek() != Some(&'?') {
            return Ok(());
        }
        self.copy()?;
        if matches!(self.rest.peek(), Some('P' | '<')) {
            return self.copy_until('>');
        }
        let (mut flags, mut is_on) = (self.flags, true);
        while let Some(c) = self.next()? {
            match c {
                '-' => is_on = false,
                'i' => flags.in_any_case = is_on,
                'x' => flags.is_verbose = is_on,
                ':' => break,
                ')' => {
                    self.around.pop();
                    break;
                }
                _ => {}
            }
        }
        self.flags = flags;
        Ok(())
    }

    /// Behind the bracket of a class.
    fn class(&mut self) -> Result<(), String> {
        if self.rest.peek() == Some(&'^') {
            self.copy()?;
        }
        let mut is_first = true;
        while let Some(c) = self.next()? {
            match c {
                ']' if !is_first => return Ok(()),
                '[' if self.rest.peek() == Some(&':') => self.copy_until(']')?,
                '\\' => self.copy()?,
                '#' if self.flags.is_verbose => self.copy_until('\n')?,
                _ if self.flags.in_any_case => self.member(c)?,
                _ => {}
            }
            is_first = false;
        }
        Ok(())
    }

    /// Adds the other forms of a character of a class, or of the range that it begins.
    fn member(&mut self, first: char) -> Result<(), String> {
        let mut ahead = self.rest.clone();
        let is_range = ahead.next() == Some('-') && first != '-';
        let last = ahead.next().filter(|c| is_range && !matches!(c, ']' | '\\'));
        let Some(last) = last else {
            self.out.extend(others(first));
            return Ok(());
        };
        self.copy()?;
        self.copy()?;
        // Few ranges have letters that are not of ASCII.
        for c in ['k', 's'].into_iter().flat_map(|c| [c, c.to_ascii_uppercase()]) {
            if (first..=last).contains(&c) {
                self.out.extend(others(c));
            }
        }
        if !last.is_ascii() {
            let cased = &FORMS.all;
            let from = cased.partition_point(|c| *c < first);
            let inside = cased[from..].iter().take_while(|c| **c <= last);
            let is_outside = |form: &char| !(first..=last).contains(form);
            self.out.extend(inside.flat_map(|c| others(*c)).filter(is_outside));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_lite::Regex;

    fn matches(pattern: &str, text: &str) -> bool {
        Regex::new(&with_all_cases(pattern).unwrap()).unwrap().is_match(text)
    }

    #[test]
    fn letters_of_all_scripts_match_in_any_case() {
        for (pattern, text, expected) in [
            ("(?i)größe", "GRÖSSE GRÖẞE", true),
            ("(?i)größe", "GRÖSSE", false),
            ("größe", "GRÖẞE", false),
            ("(?i)^σας$", "ΣΑΣ", true),
            ("(?i)ЖУК", "жук", true),
            ("(?i)^k+s$", "K\u{212a}k\u{17f}", true),
            ("a(?i:é)b", "aÉb", true),
            ("a(?i:é)b", "aÉB", false),
            ("a((?i)é)É", "aÉÉ", true),
            ("a((?i)é)é", "aÉÉ", false),
            ("(?i)é(?-i)é", "Éé", true),
            ("(?i)é(?-i)é", "éÉ", false),
            ("(?i)[а-я]+$", "ЖУК", true),
            ("(?i)^[^а-я]$", "Ж", false),
            ("(?i)^[]é-]{3}$", "É]-", true),
            ("(?i)^[a-z]$", "\u{212a}", true),
            ("(?i)^[à-ï]$", "È", true),
            ("(?i)^[à-ï]$", "Ö", false),
            ("(?i)^[[:digit:]é]$", "É", true),
            (r"(?i)^\é\[é$", "É[É", false),
            ("(?ix) é # s comment\n é", "ÉÉ", true),
            ("(?i)(?P<kind>é)", "É", true),
            ("(?i)notepad", "NotePad", true),
            (r"(?i)\s\d", " 5", true),
        ] {
            let is_match = match Regex::new(&with_all_cases(pattern).unwrap()) {
                Ok(regex) => regex.is_match(text),
                Err(_) => false,
            };
            assert_eq!(is_match, expected, "{pattern} {text}");
        }
        assert!(matches("é", "é"));
    }

    /// A wrong pattern stays wrong, and none grows without a bound.
    #[test]
    fn malicious_patterns_give_an_error() {
        for pattern in ["(?i)[é", "(?i)(é", "(?i)\\", "(?i", "(?P<", "(?i)[é-", "(?i))é", "(?i)[[:"]
        {
            let expanded = with_all_cases(pattern).unwrap();
            assert!(Regex::new(&expanded).is_err(), "{pattern} {expanded}");
        }
        // Letters of the Deseret alphabet.
        let ranges = format!("(?i)[{}]", "\u{10400}-\u{10427}".repeat(7000));
        assert!(with_all_cases(&ranges).is_err_and(|error| error.contains("longer than 1 MiB")));
    }
}
