//! The kernel's events in a session, as Windows' commands ask for them.

use super::Enablement;
use crate::frontends::answer::usage;
use crate::frontends::words::{Words, number};
use crate::live::system_options::{
    LONGEST_INTERVAL, SHORTEST_INTERVAL, flag_message, note_without_class, note_without_stacks,
    stack_message, system_config,
};
use crate::live::wanted::Named;
use crate::output::Failure;
use etw_host::SystemConfig;
use etw_system::flags::{FlagError, Masks, Parsed};
use etw_system::stack_names::{self, StackNameError};
use etw_system::system_providers::flags_of;
use etw_types::SYSTEM_TRACE;

/// The kernel's own session, which commands without a session's name are about.
pub const KERNEL_LOGGER: &str = "NT Kernel Logger";

/// The kernel's events that a command asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    parsed: Parsed,
    stacks: Vec<u16>,
    /// Events whose call stacks are not recorded on Linux.
    dropped_stacks: Vec<String>,
    interval: Option<u32>,
}

/// Whether a name is that of the kernel's session.
pub fn is_kernel_logger(name: &str) -> bool {
    name.eq_ignore_ascii_case(KERNEL_LOGGER)
}

/// Whether a provider is the kernel.
pub fn is_kernel_provider(name: &str) -> bool {
    name.trim_start_matches('#').parse() == Ok(Named::Id(SYSTEM_TRACE))
}

/// The classes of the system providers among those that a command enables; `None`: there is no such provider.
fn classes_of_providers(enabled: &[Enablement]) -> Option<Masks> {
    let of_system = enabled.iter().filter_map(|one| match &one.provider {
        Named::Id(id) => flags_of(id, one.info.wanted.any.0),
        Named::Name(_) => None,
    });
    of_system
        .reduce(|mut all, one| {
            all.merge(one);
            all
        })
        .map(|all| all.masks)
}

/// Whether a word is a flag or group of the kernel.
pub fn is_flag(word: &str) -> bool {
    // A provider's name cannot begin like this; a GUID has hyphens.
    let is_mask = word.starts_with("0x") || word.starts_with("0X");
    (is_mask || number(word).is_none()) && !matches!(Masks::parse(word), Err(FlagError::Unknown(_)))
}

impl Kernel {
    /// Whether no option was given.
    pub fn is_empty(&self) -> bool {
        *self == Kernel::default()
    }

    /// Whether any class of events is recorded or was left out.
    pub fn has_flags(&self) -> bool {
        self.parsed != Parsed::default()
    }

    /// Adds a word of xperf or logman, or a number of `EnableFlags`.
    pub fn add(&mut self, word: &str) -> Result<(), String> {
        let parsed = match Masks::parse(word) {
            Ok(parsed) => parsed,
            Err(FlagError::NotOnLinux(dropped)) => Parsed { dropped, ..Parsed::default() },
            Err(error) => return Err(flag_message(&error)),
        };
        self.parsed.merge(parsed);
        Ok(())
    }

    /// Adds a word of logman, or a number of `EnableFlags`. Some words are names of xperf's groups, too.
    pub fn add_class(&mut self, word: &str) -> Result<(), String> {
        match Parsed::of_class(word) {
            Some(parsed) => {
                self.parsed.merge(parsed);
                Ok(())
            }
            None => self.add(word),
        }
    }

    /// Notes a class of Windows that has no events on Linux.
    pub fn drop_class(&mut self, name: &str) {
        self.parsed.merge(Parsed { dropped: vec![name.to_ascii_uppercase()], ..Parsed::default() });
    }

    /// Removes a class.
    pub fn remove(&mut self, word: &str) {
        if let Some(parsed) = Parsed::of_class(word) {
            for (mask, removed) in self.parsed.masks.0.iter_mut().zip(parsed.masks.0) {
                *mask &= !removed;
            }
        }
    }

    /// Adds words of group masks.
    pub fn add_masks(&mut self, words: &[u32]) {
        let mut masks = Masks::default();
        masks.0.iter_mut().zip(words).for_each(|(mask, word)| *mask = *word);
        self.parsed.merge(Parsed::of_masks(masks));
    }

    /// Adds events with call stacks, joined by `+` or commas; or `@FILE` with such names, separated by blanks and lines, and with
    /// comments behind `!`.
    pub fn add_stacks(&mut self, names: &str) -> Result<(), String> {
        let names = match names.strip_prefix('@') {
            Some(file) => stack_file(file)?,
            None => names.to_owned(),
        };
        match stack_names::parse(&names) {
            Ok(parsed) => {
                self.stacks.extend(parsed.hooks);
                self.dropped_stacks.extend(parsed.dropped);
            }
            Err(StackNameError::NotRecorded(names)) => self.dropped_stacks.extend(names),
            Err(error) => return Err(stack_message(&error)),
        }
        Ok(())
    }

    /// Notes events whose call stacks are left out. If those were all, the command has asked for nothing that there is.
    fn check_stacks(&mut self, command: &str) -> Result<(), Failure> {
        let dropped = std::mem::take(&mut self.dropped_stacks);
        if self.stacks.is_empty() && !dropped.is_empty() {
            let error = StackNameError::NotRecorded(dropped);
            return Err(usage(format!("{command}: {error}")));
        }
        note_without_stacks(&dropped);
        Ok(())
    }

    /// Time between two samples, in 100 ns.
    pub fn set_interval(&mut self, words: &mut Words<'_>, option: &str) -> Result<(), Failure> {
        let interval = words.count(option)?;
        if interval < SHORTEST_INTERVAL {
            let what =
                format!("{interval}: the shortest interval is {SHORTEST_INTERVAL} (of 100 ns)");
            return Err(words.wrong(option, what));
        }
        if interval > LONGEST_INTERVAL {
            let what =
                format!("{interval}: the longest interval is {LONGEST_INTERVAL} (of 100 ns)");
            return Err(words.wrong(option, what));
        }
        self.interval = Some(interval);
        Ok(())
    }

    /// The events of a session that records `now` so far: classes, stacks and the interval that were given replace those.
    pub fn changed(mut self, command: &str, now: SystemConfig) -> Result<SystemConfig, Failure> {
        self.check_stacks(command)?;
        let (has_flags, has_stacks) = (self.has_flags(), !self.stacks.is_empty());
        let interval = self.interval;
        let asked = match has_flags {
            true => self.config(command, &[])?.unwrap_or_default(),
            false => {
                note_without_class(&self.stacks, interval, &Masks(now.masks));
                SystemConfig { masks: now.masks, stacks: self.stacks, ..now.clone() }
            }
        };
        Ok(SystemConfig {
            masks: asked.masks,
            stacks: if has_stacks { asked.stacks } else { now.stacks },
            sample_interval: interval.unwrap_or(now.sample_interval),
            process: now.process,
            adds_lives: asked.adds_lives,
        })
    }

    /// The events of the session; `None`: it records none of the kernel's. `enabled`: its providers, of which those of the system have
    /// classes that the host adds.
    pub fn config(
        mut self,
        command: &str,
        enabled: &[Enablement],
    ) -> Result<Option<SystemConfig>, Failure> {
        let of_providers = classes_of_providers(enabled);
        if self.is_empty() && of_providers.is_none() {
            return Ok(None);
        }
        self.check_stacks(command)?;
        if !self.has_flags() && of_providers.is_none() {
            let what = "call stacks and intervals are of the kernel's events; name its flags, too";
            return Err(usage(format!("{command}: {what}")));
        }
        if self.parsed.masks == Masks::default() && of_providers.is_none() {
            let error = FlagError::NotOnLinux(self.parsed.dropped);
            return Err(usage(format!("{command}: {error}")));
        }
        let config = system_config(self.parsed, Some(self.stacks), self.interval);
        let mut all = of_providers.unwrap_or_default();
        all.0.iter_mut().zip(config.masks).for_each(|(mask, more)| *mask |= more);
        note_without_class(&config.stacks, self.interval, &all);
        Ok(Some(config))
    }
}

/// The names in a file of events with call stacks.
fn stack_file(file: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let lines = text.trim_start_matches('\u{feff}').lines();
    let lines = lines.map(|line| line.split('!').next().unwrap_or_default());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    match words.is_empty() {
        true => Err(format!("{file}: the file names no event")),
        false => Ok(words.join("+")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-24: flags of Windows that Linux lacks are left out; a set of none is an error.
    #[test]
    fn flags_that_linux_lacks_are_left_out_unless_none_remains() {
        let mut kernel = Kernel::default();
        for word in ["Base", "SPINLOCK", "registry", "0x10"] {
            kernel.add(word).unwrap();
        }
        kernel.remove("disk");
        kernel.add_stacks("Profile+cswitch").unwrap();
        assert!(kernel.add("colour").is_err() && kernel.add_stacks("FlightRecorder").is_err());
        let config = kernel.config("x", &[]).ok().flatten().unwrap();
        assert_eq!(config.masks[..2], [0x2007, 6]);
        assert_eq!(config.stacks, [0x0f2e, 0x0524]);
        let mut none = Kernel::default();
        none.add("spinlock").unwrap();
        none.add_class("registry").unwrap();
        assert!(none.config("x", &[]).is_err());
        assert!(Kernel::default().config("x", &[]).is_ok_and(|config| config.is_none()));
    }

    #[test]
    fn names_of_the_kernel_are_known_in_every_spelling() {
        assert!(is_kernel_logger("nt kernel logger") && is_kernel_provider("windows kernel trace"));
        assert!(is_kernel_provider("{9E814AAD-3204-11D2-9A82-006008A86939}"));
        assert!(is_flag("latency") && is_flag("Proc_Thread") && is_flag("spinlock"));
        assert!(is_flag("0x10005"));
        assert!(!is_flag("*A") && !is_flag("1234"));
    }
}
