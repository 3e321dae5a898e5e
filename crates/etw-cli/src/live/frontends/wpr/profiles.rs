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

/// The profile that a word of `-start` names, for files or for memory. Without a level it is the verbose one; without a name, the default
/// profile of the file, or its first one.
pub fn find(word: &str, is_file_mode: bool) -> Result<RecordingProfile, Failure> {
    let mut wanted = Wanted::parse(word);
    if wanted.name.is_empty() && !is_file(word) {
        return Err(usage(format!("wpr: {word:?} names no profile; wpr -profiles lists them")));
    }
    let profiles = all(wanted.file)?;
    if wanted.name.is_empty() {
        let default = profiles.iter().find(|one| one.is_default);
        if let Some(one) = default.or(profiles.first()) {
            wanted.name = &one.name;
            wanted.level = one.is_default.then_some(&one.level);
        }
    }
    let named: Vec<&RecordingProfile> =
        profiles.iter().filter(|one| one.name.eq_ignore_ascii_case(wanted.name)).collect();
    let of_level = |level: &str| -> Vec<&RecordingProfile> {
        named.iter().filter(|one| one.level.eq_ignore_ascii_case(level)).copied().collect()
    };
    let candidates = match wanted.level {
        Some(level) => of_level(level),
        None => Some(of_level("Verbose")).filter(|some| !some.is_empty()).unwrap_or(named.clone()),
    };
    let Some(first) = candidates.first() else {
        let mut names: Vec<String> = Vec::new();
        for one in &profiles {
            let name = format!("{}.{}", one.name, one.level);
            // A profile may have a form for files and one for memory.
            if !names.contains(&name) {
                names.push(name);
            }
        }
        return Err(usage(format!(
            "wpr: there is no profile {word}; there are {}",
            names.join(", ")
        )));
    };
    match candidates.iter().find(|one| one.is_file == is_file_mode) {
        Some(profile) => Ok((*profile).clone()),
        None => {
            let name = format!("{}.{}", first.name, first.level);
            let what = match is_file_mode {
                true => "for memory (LoggingMode Memory) only; leave -filemode out",
                false => "for files (LoggingMode File) only; add -filemode",
            };
            Err(usage(format!("wpr: the profile {name} is {what}")))
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
        assert_eq!(all.len(), 20);
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
        let unknown = find("Colour", true).unwrap_err();
        assert_eq!(unknown.message().unwrap().matches("CPU.Light").count(), 1);
        for word in ["Colour", "CPU.heavy", "/nowhere/x.wprp", "/nowhere/x.wprp!CPU"] {
            assert!(find(word, true).is_err(), "{word}");
        }
    }
}
