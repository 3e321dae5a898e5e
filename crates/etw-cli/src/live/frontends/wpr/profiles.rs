//! Recording profiles: those of this program, and those of files.

use crate::frontends::answer::usage;
use crate::output::Failure;
use etw_system::recording_profile::{MAX_SIZE, RecordingProfile, read_profiles};
use std::fs::File;
use std::io::Read;

/// The profiles of this program.
const OWN: &str = include_str!("profiles.wprp");

/// Profiles that a word names: `NAME`, `NAME.light`, `FILE.wprp`, `FILE.wprp!NAME.light`.
struct Wanted<'a> {
    file: Option<&'a str>,
    name: &'a str,
    level: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn parse(word: &'a str) -> Wanted<'a> {
        let (file, rest) = match word.rsplit_once('!') {
            Some((file, rest)) => (Some(file), rest),
            None if is_file(word) => (Some(word), ""),
            None => (None, word),
        };
        let (name, level) = match rest.rsplit_once('.') {
            Some((name, level)) => (name, Some(level)),
            None => (rest, None),
        };
        Wanted { file, name, level }
    }
}

fn is_file(word: &str) -> bool {
    word.len() > 5
        && word.get(word.len() - 5..).is_some_and(|end| end.eq_ignore_ascii_case(".wprp"))
}

/// All profiles of a file; without one, those of this program.
pub fn all(file: Option<&str>) -> Result<Vec<RecordingProfile>, Failure> {
    let Some(file) = file else {
        return read_profiles(OWN.as_bytes()).map_err(|error| Failure::new(error.to_string()));
    };
    let mut bytes = Vec::new();
    let opened = File::open(file)
        .and_then(|opened| opened.take(MAX_SIZE as u64 + 1).read_to_end(&mut bytes));
    opened.map_err(|error| Failure::new(format!("{file}: {error}")))?;
    read_profiles(&bytes).map_err(|error| usage(format!("wpr: {file}: {error}")))
}

/// The profile that a word of `-start` names. Without a level it is the verbose one; without a name, the first one of the file.
pub fn find(word: &str, is_file_mode: bool) -> Result<RecordingProfile, Failure> {
    let wanted = Wanted::parse(word);
    if wanted.name.is_empty() && !is_file(word) {
        return Err(usage(format!("wpr: {word:?} names no profile; wpr -profiles lists them")));
    }
    let profiles = all(wanted.file)?;
    let level = wanted.level.unwrap_or("Verbose");
    let is_named = |one: &&RecordingProfile| {
        wanted.name.is_empty() || one.name.eq_ignore_ascii_case(wanted.name)
    };
    let named: Vec<&RecordingProfile> = profiles.iter().filter(is_named).collect();
    let of_level: Vec<&RecordingProfile> =
        named.iter().filter(|one| one.level.eq_ignore_ascii_case(level)).copied().collect();
    let candidates = match wanted.level {
        Some(_) => of_level,
        None if of_level.is_empty() => named,
        None => of_level,
    };
    let fitting = candidates.iter().find(|one| one.is_file == is_file_mode);
    match fitting.or(candidates.first()) {
        Some(profile) => Ok((*profile).clone()),
        None => {
            let mut names: Vec<String> =
                profiles.iter().map(|one| format!("{}.{}", one.name, one.level)).collect();
            names.dedup();
            Err(usage(format!("wpr: there is no profile {word}; there are {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::kernel::Kernel;
    use super::super::keywords;
    use super::*;

    /// OV-24: each profile of this program has words that are known, and records something on Linux.
    #[test]
    fn profiles_of_this_program_are_valid() {
        let all = all(None).unwrap();
        assert_eq!(all.len(), 10);
        for profile in &all {
            let mut kernel = Kernel::default();
            keywords::add(&mut kernel, profile.system.as_ref().unwrap()).unwrap();
            assert!(kernel.has_flags(), "{}", profile.name);
        }
    }

    #[test]
    fn a_word_names_a_profile_and_its_level() {
        for (word, name, level) in [
            ("cpu", "CPU", "Verbose"),
            ("CPU.light", "CPU", "Light"),
            ("GeneralProfile.Verbose", "GeneralProfile", "Verbose"),
        ] {
            let profile = find(word, true).unwrap();
            assert_eq!((profile.name.as_str(), profile.level.as_str()), (name, level));
        }
        for word in ["Colour", "CPU.heavy", "/nowhere/x.wprp", "/nowhere/x.wprp!CPU"] {
            assert!(find(word, true).is_err(), "{word}");
        }
    }
}
