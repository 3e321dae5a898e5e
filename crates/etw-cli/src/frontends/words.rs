//! Words of a Windows command line: options begin with `-` or `/`, in any case, and take the words behind them.

use super::answer::usage;
use crate::output::Failure;
use std::iter::Peekable;
use std::slice::Iter;

/// One word.
#[derive(Debug, PartialEq, Eq)]
pub enum Word<'w> {
    /// An option without its first character: `-p` for `--p`.
    Option(String),
    /// Anything else.
    Value(&'w str),
}

/// The words of a command line, read one by one.
pub struct Words<'w> {
    command: &'static str,
    /// Names of the command's options, in lower case.
    options: Vec<String>,
    words: Peekable<Iter<'w, String>>,
}

impl<'w> Words<'w> {
    /// `options`: every option that the command knows, in lower case.
    pub fn new(command: &'static str, options: Vec<String>, words: &'w [String]) -> Words<'w> {
        Words { command, options, words: words.iter().peekable() }
    }

    /// Whether a word is `-option`, or `/option` for a known one. Other words with a slash are paths.
    fn is_option(&self, word: &str) -> bool {
        match word.strip_prefix('/') {
            Some(name) => self.options.iter().any(|known| known.eq_ignore_ascii_case(name)),
            None => word.len() > 1 && word.starts_with('-'),
        }
    }

    /// The next word.
    pub fn next(&mut self) -> Option<Word<'w>> {
        let word = self.words.next()?;
        Some(match self.is_option(word) {
            true => Word::Option(word[1..].to_owned()),
            false => Word::Value(word),
        })
    }

    /// The next word, unless it is an option.
    pub fn value(&mut self) -> Option<&'w str> {
        let word: &'w str = self.words.peek()?;
        if self.is_option(word) {
            return None;
        }
        self.words.next();
        Some(word)
    }

    /// The value that an option needs.
    pub fn needed(&mut self, option: &str, what: &str) -> Result<&'w str, Failure> {
        self.value().ok_or_else(|| self.wrong(option, format!("{what} is needed behind it")))
    }

    /// The number that an option needs.
    pub fn number(&mut self, option: &str) -> Result<u64, Failure> {
        let text = self.needed(option, "a number")?;
        number(text).ok_or_else(|| {
            self.wrong(option, format!("{text:?} is not a number; give it as 10, 0x10 or ffff"))
        })
    }

    /// A number of 32 bits; a hexadecimal one begins with `0x`, so that a word of letters is none.
    pub fn count(&mut self, option: &str) -> Result<u32, Failure> {
        let text = self.needed(option, "a number")?;
        let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
        let is_count = is_hexadecimal || text.bytes().all(|byte| byte.is_ascii_digit());
        let number = number(text).filter(|_| is_count).ok_or_else(|| {
            self.wrong(option, format!("{text:?} is not a number; give it as 10 or 0x10"))
        })?;
        u32::try_from(number)
            .map_err(|_| self.wrong(option, format!("{number} is too large; {} is", u32::MAX)))
    }

    /// Seconds, in milliseconds.
    pub fn seconds(&mut self, option: &str) -> Result<u32, Failure> {
        let seconds = self.count(option)?;
        seconds.checked_mul(1000).ok_or_else(|| {
            self.wrong(option, format!("{seconds} s is too long; at most {} s", u32::MAX / 1000))
        })
    }

    /// A number of values, and the values behind it.
    pub fn counted<T: std::str::FromStr>(
        &mut self,
        option: &str,
        what: &str,
    ) -> Result<Vec<T>, Failure> {
        let count = self.count(option)?;
        let mut all = Vec::new();
        for _ in 0..count {
            let text = self.value().ok_or_else(|| {
                let there = all.len();
                self.wrong(
                    option,
                    format!(
                        "{count} values are announced, and {there} follow; the form is a number of values and as many values, each {what}: \
                         -{option} 1 VALUE"
                    ),
                )
            })?;
            let value = text.parse();
            all.push(value.map_err(|_| self.wrong(option, format!("{text:?} is not {what}")))?);
        }
        Ok(all)
    }

    /// One of some words, in any case, and what it stands for.
    pub fn one_of<T: Copy>(&mut self, option: &str, choices: &[(&str, T)]) -> Result<T, Failure> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let text = self.needed(option, &names.join(", "))?;
        let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, value)| *value).ok_or_else(|| {
            self.wrong(option, format!("{text:?} is not supported; choose {}", names.join(", ")))
        })
    }

    /// An error about an option.
    pub fn wrong(&self, option: &str, what: impl std::fmt::Display) -> Failure {
        usage(format!("{} -{option}: {what}", self.command))
    }
}

/// Decimal, or hexadecimal with `0x` or by its letters: 10, 0x10, ffff.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok().or_else(|| u64::from_str_radix(text, 16).ok()),
    }
    // `from_str_radix` accepts a sign.
    .filter(|_| !text.contains(['+', '-']))
}

/// `[[hh:]mm:]ss` in milliseconds.
#[cfg(target_os = "linux")]
pub fn duration(text: &str) -> Option<u32> {
    let parts: Vec<u32> = text.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    if parts.len() > 3 {
        return None;
    }
    let seconds =
        parts.iter().try_fold(0u32, |seconds, part| seconds.checked_mul(60)?.checked_add(*part))?;
    seconds.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(
            (number("10"), number("0X1f"), number("ffff")),
            (Some(10), Some(31), Some(0xffff))
        );
        assert_eq!(number("0xffffffffffffffff"), Some(u64::MAX));
        for bad in ["", "0x", "+1", "-1", "0x+1", "1g", "0x10000000000000000"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn durations_are_hours_minutes_seconds() {
        assert_eq!(duration("2"), Some(2000));
        assert_eq!((duration("1:30"), duration("01:00:01")), (Some(90_000), Some(3_601_000)));
        for bad in ["", "1:", "1:2:3:4", "x", "99999999"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_word_with_a_slash_is_an_option_only_if_it_is_known() {
        let known = ["f", "p", "kernel"].map(str::to_owned).to_vec();
        let words = ["-F", "/tmp/a.etl", "/P", "--p", "/kernel", "/f.etl", "-"].map(str::to_owned);
        let mut words = Words::new("x", known, &words);
        let option = |name: &str| Some(Word::Option(name.to_owned()));
        assert_eq!(words.next(), option("F"));
        assert_eq!(words.value(), Some("/tmp/a.etl"));
        assert_eq!(words.value(), None);
        assert_eq!(words.next(), option("P"));
        assert_eq!(words.next(), option("-p"));
        assert_eq!(words.next(), option("kernel"));
        assert_eq!(words.next(), Some(Word::Value("/f.etl")));
        assert_eq!(words.next(), Some(Word::Value("-")));
        assert_eq!(words.next(), None);
    }
}
