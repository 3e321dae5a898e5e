//! The words of a command as Windows' tools read them: options begin with `-` or `/`, in any case, and take the words behind
//! them.

use crate::frontends::usage;
use crate::output::Failure;
use std::iter::Peekable;
use std::slice::Iter;

/// What a command knows.
pub struct Vocabulary {
    /// Its name.
    pub command: &'static str,
    /// Options that it has, with a space between; lower case.
    pub options: &'static str,
    /// Options of Windows' command that are refused, and why.
    pub refused: &'static [(&'static str, &'static str)],
}

impl Vocabulary {
    fn has(&self, name: &str) -> bool {
        let lists = self.refused.iter().map(|(names, _)| *names).chain([self.options]);
        lists.flat_map(str::split_whitespace).any(|known| known == name)
    }

    /// Is it `-option`, or `/option` for one that is known? Other words with a slash are paths.
    fn is_option(&self, word: &str) -> bool {
        match word.strip_prefix('/') {
            Some(name) => self.has(&name.to_ascii_lowercase()),
            None => word.len() > 1 && word.starts_with('-'),
        }
    }

    /// The refusal of an option.
    pub fn refuse(&self, name: &str) -> Failure {
        let of = |(names, _): &&(&str, &str)| names.split_whitespace().any(|known| known == name);
        let why = match self.refused.iter().find(of) {
            Some((_, why)) => (*why).to_owned(),
            None => format!("there is no such option; see {} -h", self.command),
        };
        self.wrong(name, why)
    }

    /// What is wrong with an option.
    pub fn wrong(&self, name: &str, what: impl std::fmt::Display) -> Failure {
        usage(format!("{} -{name}: {what}", self.command))
    }
}

/// A word.
#[derive(Debug, PartialEq, Eq)]
pub enum Word<'w> {
    /// Lower case, without the character before it; of `--p`, `-p`.
    Option(String),
    /// Anything else.
    Value(&'w str),
}

/// The words one by one.
pub struct Words<'w> {
    pub vocabulary: &'static Vocabulary,
    words: Peekable<Iter<'w, String>>,
}

impl<'w> Words<'w> {
    pub fn new(vocabulary: &'static Vocabulary, words: &'w [String]) -> Words<'w> {
        Words { vocabulary, words: words.iter().peekable() }
    }

    pub fn next(&mut self) -> Option<Word<'w>> {
        let word = self.words.next()?;
        Some(match self.vocabulary.is_option(word) {
            true => Word::Option(word[1..].to_ascii_lowercase()),
            false => Word::Value(word),
        })
    }

    /// The next word, if it is no option.
    pub fn value(&mut self) -> Option<&'w str> {
        let vocabulary = self.vocabulary;
        self.words.next_if(|word| !vocabulary.is_option(word)).map(String::as_str)
    }

    /// The word that an option needs.
    pub fn needed(&mut self, name: &str, what: &str) -> Result<&'w str, Failure> {
        self.value().ok_or_else(|| self.vocabulary.wrong(name, format!("{what} is needed")))
    }

    /// The number that an option needs.
    pub fn number(&mut self, name: &str) -> Result<u64, Failure> {
        let text = self.needed(name, "a number")?;
        number(text).ok_or_else(|| self.vocabulary.wrong(name, format!("{text:?} is no number")))
    }

    /// A number that is a count.
    pub fn count(&mut self, name: &str) -> Result<u32, Failure> {
        let number = self.number(name)?;
        u32::try_from(number)
            .map_err(|_| self.vocabulary.wrong(name, format!("{number} is too large")))
    }

    /// A level: those above a byte are all of them, as `0xFFFF` in Microsoft's examples.
    pub fn level(&mut self, name: &str) -> Result<u8, Failure> {
        Ok(u8::try_from(self.number(name)?).unwrap_or(u8::MAX))
    }

    /// So many words behind a number of them.
    pub fn counted<T: std::str::FromStr>(
        &mut self,
        name: &str,
        what: &str,
    ) -> Result<Vec<T>, Failure> {
        let count = self.count(name)?;
        let mut all = Vec::new();
        for _ in 0..count {
            let text = self.needed(name, what)?;
            let value = text.parse();
            all.push(
                value
                    .map_err(|_| self.vocabulary.wrong(name, format!("{text:?} is not {what}")))?,
            );
        }
        Ok(all)
    }
}

/// Decimal, or hexadecimal with `0x` or by its letters: 10, 0x10, ffff.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok().or_else(|| u64::from_str_radix(text, 16).ok()),
    }
    // `from_str_radix` takes a sign.
    .filter(|_| !text.contains(['+', '-']))
}

/// `[[hh:]mm:]ss` in milliseconds.
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
    fn numbers_and_times() {
        assert_eq!(
            (number("10"), number("0X1f"), number("ffff")),
            (Some(10), Some(31), Some(0xffff))
        );
        assert_eq!(number("0xffffffffffffffff"), Some(u64::MAX));
        for bad in ["", "0x", "+1", "-1", "0x+1", "1g", "0x10000000000000000"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!(duration("2"), Some(2000));
        assert_eq!((duration("1:30"), duration("01:00:01")), (Some(90_000), Some(3_601_000)));
        for bad in ["", "1:", "1:2:3:4", "x", "99999999"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn options_are_told_from_paths() {
        static KNOWN: Vocabulary =
            Vocabulary { command: "x", options: "f p", refused: &[("kernel", "no")] };
        let words = ["-F", "/tmp/a.etl", "/P", "--p", "/kernel", "/f.etl", "-"].map(str::to_owned);
        let mut words = Words::new(&KNOWN, &words);
        let option = |name: &str| Some(Word::Option(name.to_owned()));
        assert_eq!(words.next(), option("f"));
        assert_eq!(words.value(), Some("/tmp/a.etl"));
        assert_eq!(words.value(), None);
        assert_eq!(words.next(), option("p"));
        assert_eq!(words.next(), option("-p"));
        assert_eq!(words.next(), option("kernel"));
        assert_eq!(words.next(), Some(Word::Value("/f.etl")));
        assert_eq!(words.next(), Some(Word::Value("-")));
        assert_eq!(words.next(), None);
    }
}
