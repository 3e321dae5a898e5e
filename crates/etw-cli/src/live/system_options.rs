//! Options of commands that record events of the system.

use crate::output::Failure;
use crate::where_filter::closest;
use clap::Args;
use etw_host::SystemConfig;
use etw_system::flags::{Flag, FlagError, Masks, Parsed};
use etw_system::stack_names::{StackName, StackNameError};
use etw_system::{SAMPLE_INTERVAL, stack_names};

/// The word for no call stacks.
const NO_STACKS: &str = "none";
/// The shortest time between two samples, in 100 ns.
pub const SHORTEST_INTERVAL: u32 = 500;
/// The longest one.
pub const LONGEST_INTERVAL: u32 = 10_000_000;

/// Which events of the system a session records.
#[derive(Args, Clone, Debug, Default)]
pub struct SystemEventOptions {
    /// Record events of the system: classes such as profile, cswitch, syscall, fileio, joined by commas; a group such as Latency;
    /// or a number of EnableFlags (all words: `etw help system`)
    #[arg(long, value_name = "FLAGS")]
    pub system: Option<String>,
    /// Call stacks of these events of the system: Profile, CSwitch, SyscallEnter (all words: `etw help stack`); none. Default:
    /// Profile and CSwitch, if they are recorded
    #[arg(long, value_name = "NAMES", requires = "system")]
    pub stack: Option<String>,
    /// Time between two samples of a CPU, from 50us to 1s: 250us [default: 1ms]
    #[arg(long, value_name = "TIME", requires = "system", value_parser = interval)]
    pub sample_interval: Option<u32>,
}

impl SystemEventOptions {
    /// The events of the system that the session records; `None` without `--system`.
    pub fn config(&self) -> Result<Option<SystemConfig>, Failure> {
        let Some(words) = &self.system else { return Ok(None) };
        let parsed = Masks::parse_any(words)
            .map_err(|error| Failure::Usage(format!("--system: {}", flag_message(&error))))?;
        let stacks = match self.stack.as_deref() {
            Some(names) if names.eq_ignore_ascii_case(NO_STACKS) => Some(Vec::new()),
            Some(names) => {
                let parsed = stack_names::parse(names).map_err(|error| {
                    let or_none = if error == StackNameError::Unnamed { ", or none" } else { "" };
                    Failure::Usage(format!("--stack: {}{or_none}", stack_message(&error)))
                })?;
                note_without_stacks(&parsed.dropped);
                Some(parsed.hooks)
            }
            None => None,
        };
        let config = system_config(parsed, stacks, self.sample_interval);
        note_without_class(&config.stacks, self.sample_interval, &Masks(config.masks));
        Ok(Some(config))
    }
}

/// The text of an error about words, with the word that may have been meant.
pub fn flag_message(error: &FlagError) -> String {
    match error {
        FlagError::Unknown(word) => match class_of_event(word) {
            Some(class) => format!("{word} is an event of the class {class}: use that word"),
            None => with_closest(error, word, etw_system::flags::words()),
        },
        _ => error.to_string(),
    }
}

/// The class of an event that has a name for call stacks.
fn class_of_event(word: &str) -> Option<&'static str> {
    let is_named = |row: &&StackName| row.name.eq_ignore_ascii_case(word);
    stack_names::STACK_NAMES.iter().find(is_named).map(|row| row.class.name())
}

/// The word that may have been meant: the shortest one that begins so, or one that differs little.
pub fn meant(word: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    const LEAST: usize = 3;
    let known: Vec<&'static str> = known.collect();
    let begins_so = |known: &&str| {
        let start = known.get(..word.len());
        word.len() >= LEAST && start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    let begins = known.iter().copied().filter(begins_so);
    begins
        .min_by_key(|known| (known.len(), *known))
        .or_else(|| closest(word, known.iter().copied()))
}

/// The text of an error about names of events with call stacks, with the name that may have been meant.
pub fn stack_message(error: &StackNameError) -> String {
    match error {
        StackNameError::Unknown(name) => with_closest(error, name, stack_names::words()),
        _ => error.to_string(),
    }
}

fn with_closest(
    error: &dyn std::fmt::Display,
    word: &str,
    known: impl Iterator<Item = &'static str>,
) -> String {
    match meant(word, known) {
        Some(meant) => format!("{word} is not known; did you mean {meant}?"),
        None => error.to_string(),
    }
}

/// Prints which call stacks are left out. `names`: those of their events.
pub fn note_without_stacks(names: &[String]) {
    if !names.is_empty() {
        eprintln!(
            "etw: note: {}: call stacks are left out, because openetw does not record them on Linux",
            names.join(", ")
        );
    }
}

/// The events of a session, with a note on those that Linux lacks. Without `stacks`, samples and switches have call stacks.
pub fn system_config(
    mut parsed: Parsed,
    stacks: Option<Vec<u16>>,
    sample_interval: Option<u32>,
) -> SystemConfig {
    if let Some(note) = parsed.note() {
        eprintln!("etw: note: {note}");
    }
    // Without names of processes and images nothing else can be read.
    let lives = [Flag::PROCESS, Flag::THREAD, Flag::IMAGE];
    let adds_lives = !lives.iter().any(|flag| parsed.masks.has(*flag));
    lives.iter().for_each(|flag| parsed.masks.set(*flag));
    let stacks = stacks.unwrap_or_else(|| {
        let profile = parsed.masks.has(Flag::PROFILE).then_some("Profile");
        let switch = parsed.masks.has(Flag::SWITCH).then_some("CSwitch");
        let names: Vec<&str> = profile.into_iter().chain(switch).collect();
        stack_names::parse(&names.join(",")).map_or(Vec::new(), |parsed| parsed.hooks)
    });
    SystemConfig {
        masks: parsed.masks.0,
        stacks,
        sample_interval: sample_interval.unwrap_or(SAMPLE_INTERVAL),
        process: None,
        adds_lives,
    }
}

/// Prints which call stacks, and whether an interval, are of events that a session does not record.
pub fn note_without_class(stacks: &[u16], sample_interval: Option<u32>, masks: &Masks) {
    let unrecorded = stack_names::unrecorded(stacks, masks);
    if !unrecorded.is_empty() {
        let names: Vec<&str> = unrecorded.iter().map(|(name, _)| *name).collect();
        let mut classes: Vec<&str> = unrecorded.iter().map(|(_, flag)| flag.name()).collect();
        classes.dedup();
        eprintln!(
            "etw: note: {}: no call stacks, because the session does not record these events; add {}",
            names.join(", "),
            classes.join(", ")
        );
    }
    if sample_interval.is_some() && !masks.has(Flag::PROFILE) {
        eprintln!(
            "etw: note: the interval is that of CPU samples, which the session does not record; add profile"
        );
    }
}

/// The events of the system that a session records, as rows of names and values.
pub fn described(system: &SystemConfig) -> Vec<(&'static str, String)> {
    let masks = Masks(system.masks);
    let mut rows = vec![("system", masks.names().join(", "))];
    let stacks = stack_names::STACK_NAMES.iter().filter(|row| system.stacks.contains(&row.hook));
    let stacks: Vec<&str> = stacks.map(|row| row.name).collect();
    if !stacks.is_empty() {
        rows.push(("call stacks", stacks.join(", ")));
    }
    if masks.has(Flag::PROFILE) {
        rows.push(("samples", format!("every {} us", f64::from(system.sample_interval) / 10.0)));
    }
    rows
}

/// A time between samples, in 100 ns.
fn interval(text: &str) -> Result<u32, String> {
    let units = [("ms", 10_000.0), ("us", 10.0), ("s", 10_000_000.0)];
    let found = units.iter().find_map(|(unit, ticks)| Some((text.strip_suffix(unit)?, *ticks)));
    let ticks = found.and_then(|(digits, ticks)| Some(digits.parse::<f64>().ok()? * ticks));
    let range = f64::from(SHORTEST_INTERVAL)..=f64::from(LONGEST_INTERVAL);
    match ticks.filter(|ticks| range.contains(ticks)) {
        Some(ticks) => Ok(ticks as u32),
        None => Err(format!("{text:?}: must be a time from 50us to 1s, such as 1ms or 250us")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(system: &str, stack: Option<&str>) -> Result<Option<SystemConfig>, Failure> {
        let options = SystemEventOptions {
            system: Some(system.to_owned()),
            stack: stack.map(str::to_owned),
            sample_interval: None,
        };
        options.config()
    }

    #[test]
    fn processes_and_images_are_always_recorded() {
        let config = self::config("profile", None).ok().flatten().unwrap();
        assert_eq!(config.masks[..2], [7, 2]);
        assert_eq!((config.stacks, config.sample_interval), (vec![0x0f2e], 10_000));
        assert!(config.adds_lives);
        assert!(!self::config("profile,img", None).ok().flatten().unwrap().adds_lives);
    }

    #[test]
    fn wrong_words_name_their_option() {
        for (system, stack, option) in
            [("nothing", None, "--system"), ("profile", Some("RegQueryKey"), "--stack")]
        {
            let Err(Failure::Usage(message)) = config(system, stack) else { panic!("{system}") };
            assert!(message.starts_with(option), "{message}");
        }
        for (system, stack, meant) in [
            ("cswich", None, "--system: cswich is not known; did you mean CSWITCH?"),
            (
                "readythread",
                None,
                "--system: readythread is an event of the class dispatcher: use that word",
            ),
            ("Latensy", None, "--system: Latensy is not known; did you mean Latency?"),
            ("profile,proces", None, "--system: proces is not known; did you mean process?"),
            ("profile", Some("profil"), "--stack: profil is not known; did you mean Profile?"),
            ("csw", None, "--system: csw is not known; did you mean CSWITCH?"),
            ("disp", None, "--system: disp is not known; did you mean DISPATCHER?"),
            ("profile", Some("ready"), "--stack: ready is not known; did you mean ReadyThread?"),
        ] {
            let message = config(system, stack).unwrap_err();
            assert_eq!(message.message(), Some(meant));
        }
        for empty in ["", " ", ","] {
            let refused = config("profile", Some(empty)).unwrap_err();
            let message = refused.message().unwrap();
            assert!(
                message.starts_with("--stack: no event with call stacks is named; use Profile, ")
            );
            assert!(message.ends_with(", or none"), "{message}");
        }
        let some = config("profile,wdf_dpc", Some("HandleCreate+Profile")).ok().flatten().unwrap();
        assert_eq!((&some.masks[..2], &some.stacks[..]), (&[7, 2][..], &[0x0f2e][..]));
        for none in ["none", "None"] {
            assert!(config("cswitch", Some(none)).ok().flatten().unwrap().stacks.is_empty());
        }
        assert_eq!(interval("250us"), Ok(2500));
        assert!(interval("1").is_err() && interval("10us").is_err());
    }
}
