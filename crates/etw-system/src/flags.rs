//! The words by which a session asks for events of the system: xperf's flags and groups, logman's words, numbers.

use std::fmt;

/// The eight words of group masks; the first one is `EnableFlags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks(pub [u32; 8]);

/// A class of events that a session can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The word of [`Masks`].
    pub word: usize,
    /// The bit in that word.
    pub bit: u32,
    /// The bit of `EnableFlags`; 0: none.
    pub enable: u32,
    /// xperf's name; empty: none.
    pub xperf: &'static str,
    /// logman's name; empty: none.
    pub logman: &'static str,
    /// The events, in a few words.
    pub description: &'static str,
    /// Whether Linux has such events, and this crate records them.
    pub is_recorded: bool,
}

macro_rules! flags {
    ($($name:ident = $word:literal: $bit:literal, $enable:literal, $xperf:literal, $logman:literal, $recorded:literal, $description:literal;)*) => {
        impl Flag {
            $(#[doc = concat!("`", $xperf, "`, `", $logman, "`")]
            pub const $name: Flag = Flag {
                word: $word, bit: $bit, enable: $enable, xperf: $xperf, logman: $logman, is_recorded: $recorded,
                description: $description,
            };)*

            /// All flags.
            pub const ALL: &'static [Flag] = &[$(Flag::$name),*];
        }
    };
}

flags! {
    PROCESS = 0: 0x1, 0x1, "PROC_THREAD", "process", true, "Starts and ends of processes";
    THREAD = 0: 0x2, 0x2, "PROC_THREAD", "thread", true, "Starts and ends of threads";
    IMAGE = 0: 0x4, 0x4, "LOADER", "img", true, "Loads and unloads of images";
    COUNTERS = 0: 0x8, 0x8, "PERF_COUNTER", "proccntr", true, "Counters of processes";
    SWITCH = 1: 0x4, 0x10, "CSWITCH", "cswitch", true, "Context switches";
    READY = 1: 0x200, 0x800, "DISPATCHER", "dispatcher", true, "Threads that become ready";
    DPC = 1: 0x80, 0x20, "DPC", "dpc", true, "Deferred procedure calls";
    INTERRUPT = 1: 0x4000, 0x40, "INTERRUPT", "isr", true, "Interrupts";
    SYSCALL = 2: 0x40, 0x80, "SYSCALL", "syscall", true, "System calls";
    DISK = 0: 0x100, 0x100, "DISK_IO", "disk", true, "Disk transfers";
    FILE_NAME = 0: 0x200, 0x200, "FILENAME", "file", true, "Names of files";
    DISK_INIT = 0: 0x400, 0x400, "DISK_IO_INIT", "diskinit", true, "Starts of disk transfers";
    FILE_IO = 0: 0x200_0000, 0x200_0000, "FILE_IO", "fileiocompletion", true, "Ends of file operations";
    FILE_IO_INIT = 0: 0x400_0000, 0x400_0000, "FILE_IO_INIT", "fileio", true, "Starts of file operations";
    ALL_FAULTS = 0: 0x1000, 0x1000, "ALL_FAULTS", "pf", true, "All page faults";
    HARD_FAULTS = 0: 0x2000, 0x2000, "HARD_FAULTS", "hf", true, "Hard page faults";
    VIRTUAL_ALLOC = 1: 0x8000, 0x4000, "VIRT_ALLOC", "virtalloc", true, "Virtual memory that is allocated and freed";
    MAP_FILE = 0: 0x8000, 0x8000, "VAMAP", "vamap", true, "Files that are mapped and unmapped";
    NETWORK = 0: 0x1_0000, 0x1_0000, "NETWORKTRACE", "net", true, "TCP and UDP transfers";
    PROFILE = 1: 0x2, 0x100_0000, "PROFILE", "profile", true, "CPU samples";
    PRIORITY = 1: 0x2000, 0, "PRIORITY", "", true, "Changes of priorities";
    POWER = 4: 0x8000, 0, "POWER", "", false, "Changes of power";
    REGISTRY = 0: 0x2_0000, 0x2_0000, "REGISTRY", "registry", false, "Registry operations";
    ALPC = 0: 0x10_0000, 0x10_0000, "ALPC", "alpc", false, "Local procedure calls";
    SPLIT_IO = 0: 0x20_0000, 0x20_0000, "SPLIT_IO", "splitio", false, "Split disk transfers";
    DRIVERS = 1: 0x10, 0x80_0000, "DRIVERS", "driver", false, "Driver requests";
    DEBUG_PRINT = 0: 0x4_0000, 0x4_0000, "", "dbgprint", false, "Debug messages";
    MEMORY_INFO = 0: 0x8_0000, 0, "MEMINFO", "", false, "Lists of pages";
    WORKING_SETS = 0: 0x40_0000, 0, "MEMINFO_WS", "", false, "Working sets";
    NO_CONFIGURATION = 0: 0x1000_0000, 0x1000_0000, "NO_SYSCONFIG", "", true, "No records of the machine's configuration";
    CONFIGURED_SYSTEM = 6: 0x1, 0, "", "", true, "CPUs, interrupts, power states";
    CONFIGURED_STORAGE = 6: 0x4, 0, "", "", true, "Disks and file systems";
    CONFIGURED_NETWORK = 6: 0x8, 0, "", "", true, "Network interfaces";
    CONFIGURED_SERVICES = 6: 0x10, 0, "", "", true, "Services";
}

impl Flag {
    /// Flags of classes of events that are recorded on this system.
    pub fn recorded() -> impl Iterator<Item = &'static Flag> + Clone {
        Flag::ALL.iter().filter(|flag| flag.is_recorded_here() && !flag.is_of_configuration())
    }

    /// Windows records all of them itself.
    fn is_recorded_here(self) -> bool {
        self.is_recorded || cfg!(windows)
    }

    /// Whether it is about the records of the machine's configuration, which are no class of events.
    pub fn is_of_configuration(self) -> bool {
        const WORD: usize = Flag::CONFIGURED_SYSTEM.word;
        self.word == WORD || self == Flag::NO_CONFIGURATION
    }

    /// logman's name, or that of xperf.
    pub fn name(self) -> &'static str {
        if self.logman.is_empty() { self.xperf } else { self.logman }
    }
}

/// xperf's flags that have no events on Linux and no bit that this crate needs, and that of configuration, which has no effect.
const WINDOWS_FLAGS: &str = "ANTI_STARVATION BYPASSIO_VETO CACHE_FLUSH CC CLOCKINT COMPACT_CSWITCH CONTMEMGEN CPU_CONFIG DEBUG_EVENTS \
    DISABLE_PRIQ DPC_QUEUE FLT_FASTIO FLT_IO FLT_IO_FAILURE FLT_IO_INIT FOOTPRINT HIBERRUNDOWN HV_CALLOUTS \
    HV_PROFILE IDEAL_PROC IDLE_STATES INTERRUPT_STEER IPI KE_CLOCK KQUEUE MEMORY NONTRADEABLE_MEMORY \
    OB_HANDLE OB_OBJECT OPTICAL_IO OPTICAL_IO_INIT PMC_PROFILE POOL PROCESS_FREEZE PROCESS_INSWAP REFSET REG_HIVE \
    SESSION SHOULDYIELD SPINLOCK TIMER VTL_CHANGE WDF_DPC WDF_INTERRUPT";

/// xperf's groups of flags and their members.
pub const GROUPS: &[(&str, &str)] = &[
    ("Base", "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+PROFILE+MEMINFO+MEMINFO_WS"),
    (
        "Diag",
        "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PERF_COUNTER+COMPACT_CSWITCH",
    ),
    ("DiagEasy", "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PERF_COUNTER"),
    ("Latency", "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+DPC+INTERRUPT+CSWITCH+PROFILE"),
    ("FileIO", "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+FILE_IO+FILE_IO_INIT"),
    ("IOTrace", "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+CSWITCH"),
    ("ResumeTrace", "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+PROFILE+POWER"),
    ("SysProf", "PROC_THREAD+LOADER+PROFILE"),
    (
        "ResidentSet",
        "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+MEMORY+MEMINFO+VAMAP+SESSION+VIRT_ALLOC",
    ),
    (
        "ReferenceSet",
        "PROC_THREAD+LOADER+HARD_FAULTS+MEMORY+FOOTPRINT+VIRT_ALLOC+MEMINFO+VAMAP+SESSION+REFSET+MEMINFO_WS",
    ),
    ("Network", "PROC_THREAD+LOADER+NETWORKTRACE"),
    ("Default", "PROC_THREAD+LOADER+DISK_IO+HARD_FAULTS+CSWITCH+DISPATCHER+PROFILE"),
];

/// Short words beside those of xperf and logman.
pub const ALIASES: &[(&str, &str)] = &[
    ("proc", "process"),
    ("loader", "img"),
    ("image", "img"),
    ("interrupts", "isr"),
    ("syscalls", "syscall"),
    ("network", "net"),
    ("faults", "pf"),
];

/// Words that name no events of the system, or none that Linux has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlagError {
    /// The word is not known.
    Unknown(String),
    /// None of the classes exists on Linux.
    NotOnLinux(Vec<String>),
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlagError::Unknown(word) => {
                match word.trim_matches(['+', ',', ' ']) {
                    "" => f.write_str("no class of system events is named")?,
                    _ => write!(f, "{word}: no class of system events")?,
                }
                let classes: Vec<&str> = Flag::recorded().map(|flag| flag.name()).collect();
                let groups: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
                write!(f, "; use {}, or a group: {}", classes.join(", "), groups.join(", "))
            }
            FlagError::NotOnLinux(words) if words.iter().all(|word| is_configuration(word)) => {
                let words = words.join(", ");
                write!(
                    f,
                    "{words}: the configuration of the system is always recorded; name classes, too"
                )
            }
            FlagError::NotOnLinux(words) => {
                write!(f, "{}: openetw does not record these events on Linux", words.join(", "))?;
                for word in words {
                    if let Some(reason) = reason(word) {
                        write!(f, "; {word}: {reason}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// The reason why the events of a word are not recorded on Linux.
pub fn reason(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_uppercase().as_str() {
        "POWER" => "the kernel's events of frequencies and idle states have none of its fields",
        "REGISTRY" | "REG_HIVE" => "Linux has no registry",
        "WDF_DPC" | "WDF_INTERRUPT" => "Linux has no such framework of drivers",
        "OB_HANDLE" | "OB_OBJECT" => "Linux has no manager of objects",
        "ALPC" => "Linux has no such calls between processes",
        "SPLIT_IO" | "SPLITIO" => "the kernel does not report which requests were one before",
        "DRIVERS" | "DRIVER" => "drivers of Linux have no such requests",
        "COMPACT_CSWITCH" => "CSWITCH records each switch whole",
        "MEMINFO" | "MEMINFO_WS" | "MEMORY" | "FOOTPRINT" | "REFSET" => {
            "Linux keeps no lists of pages by priority and no working sets"
        }
        _ => return None,
    })
}

impl std::error::Error for FlagError {}

/// Whether a word asks for the configuration of the system, which is recorded in any case but with `NO_SYSCONFIG`.
fn is_configuration(word: &str) -> bool {
    word.eq_ignore_ascii_case("CPU_CONFIG")
}

/// The words that name classes: xperf's groups and flags, logman's words, and short ones.
pub fn words() -> impl Iterator<Item = &'static str> {
    let flags = Flag::ALL.iter().flat_map(|flag| [flag.logman, flag.xperf]);
    let groups = GROUPS.iter().map(|(name, _)| *name);
    let aliases = ALIASES.iter().map(|(name, _)| *name);
    let all = flags.chain(groups).chain(aliases).chain(WINDOWS_FLAGS.split_whitespace());
    all.filter(|word| !word.is_empty())
}

/// Flags from words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The flags.
    pub masks: Masks,
    /// Words whose events are not recorded on Linux.
    pub dropped: Vec<String>,
}

impl Masks {
    /// Whether a flag is set.
    pub fn has(&self, flag: Flag) -> bool {
        self.0[flag.word] & flag.bit != 0
    }

    /// Whether records of a flag of the machine's configuration are recorded: all of them are, unless the session wants none; it may then ask
    /// for some.
    pub fn has_configuration(&self, flag: Flag) -> bool {
        !self.has(Flag::NO_CONFIGURATION) || self.has(flag)
    }

    /// Sets a flag.
    pub fn set(&mut self, flag: Flag) {
        self.0[flag.word] |= flag.bit;
    }

    /// The masks of a word of `EnableFlags`.
    pub fn of_enable_flags(flags: u32) -> Masks {
        let mut masks = Masks::default();
        for flag in Flag::ALL.iter().filter(|flag| flag.enable & flags != 0) {
            masks.set(*flag);
        }
        masks
    }

    /// The bits of `EnableFlags` of the flags that are set.
    pub fn enable_flags(&self) -> u32 {
        let set = Flag::ALL.iter().filter(|flag| self.has(**flag));
        set.fold(0, |all, flag| all | flag.enable)
    }

    /// xperf's names of the flags that are set.
    pub fn xperf_names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> =
            Flag::ALL.iter().filter(|flag| self.has(**flag)).map(|flag| flag.xperf).collect();
        names.dedup();
        names.retain(|name| !name.is_empty());
        names
    }

    /// The names of the flags that are set, as logman and xperf have them.
    pub fn names(&self) -> Vec<&'static str> {
        let set = Flag::ALL.iter().filter(|flag| self.has(**flag)).map(|flag| flag.name());
        set.filter(|name| !name.is_empty()).collect()
    }

    /// Reads words that are joined by `+` or commas: xperf's flags and groups, logman's words, numbers of `EnableFlags`. Case
    /// does not matter, and a group of xperf comes before a word of logman.
    ///
    /// # Errors
    /// [`FlagError`].
    pub fn parse(text: &str) -> Result<Parsed, FlagError> {
        Masks::parse_words(text, |_| false)
    }

    /// Reads words as [`parse`](Masks::parse) does, of somebody who may use those of xperf or of logman: in small letters, a word of logman is
    /// its class, also if xperf has a group of that name. `fileio` is a class, `FileIO` a group.
    ///
    /// # Errors
    /// [`FlagError`].
    pub fn parse_any(text: &str) -> Result<Parsed, FlagError> {
        Masks::parse_words(text, |word| Flag::ALL.iter().any(|flag| flag.logman == word))
    }

    /// `is_class`: the word is no group.
    fn parse_words(text: &str, is_class: impl Fn(&str) -> bool) -> Result<Parsed, FlagError> {
        let mut parsed = Parsed::default();
        let words = text.split(['+', ',']).map(str::trim).filter(|word| !word.is_empty());
        for word in words {
            let lower = word.to_ascii_lowercase();
            let digits = lower.strip_prefix("0x");
            let number = match digits {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => lower.parse().ok(),
            };
            if let Some(number) = number {
                parsed.merge(Parsed::of_enable_flags(number));
                continue;
            }
            let group = GROUPS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            if let Some((_, group)) = group.filter(|_| !is_class(word)) {
                for name in group.split('+') {
                    parsed.add_named(&name.to_ascii_lowercase());
                }
                continue;
            }
            if !parsed.add_named(&lower) {
                return Err(FlagError::Unknown(word.to_owned()));
            }
        }
        if parsed.masks == Masks::default() {
            let dropped = std::mem::take(&mut parsed.dropped);
            return Err(match dropped.is_empty() {
                true => FlagError::Unknown(text.to_owned()),
                false => FlagError::NotOnLinux(dropped),
            });
        }
        Ok(parsed)
    }
}

impl Parsed {
    /// The flags of one class: xperf's flag or logman's word, of which some are also names of xperf's groups. `None`: no class has
    /// this name.
    pub fn of_class(word: &str) -> Option<Parsed> {
        let mut parsed = Parsed::default();
        parsed.add_named(&word.to_ascii_lowercase()).then_some(parsed)
    }

    /// The flags of group masks that this crate records, and the names of those that it does not. Bits without a flag are dropped, as a
    /// number, behind the first word with that of their word.
    pub fn of_masks(masks: Masks) -> Parsed {
        let mut parsed = Parsed::default();
        Flag::ALL.iter().filter(|flag| masks.has(**flag)).for_each(|flag| parsed.add(*flag));
        for (word, bits) in masks.0.into_iter().enumerate() {
            let of_word = Flag::ALL.iter().filter(|flag| flag.word == word);
            let unknown = bits & !of_word.fold(0, |all, flag| all | flag.bit);
            let place = if word == 0 { String::new() } else { format!("{word}:") };
            if unknown != 0 {
                parsed.dropped.push(format!("{place}{unknown:#x}"));
            }
        }
        parsed
    }

    /// The flags of a number of `EnableFlags`. Bits without a flag are dropped, as a number.
    pub fn of_enable_flags(number: u32) -> Parsed {
        let mut parsed = Parsed::of_masks(Masks::of_enable_flags(number));
        let known = Flag::ALL.iter().fold(0, |all, flag| all | flag.enable);
        if number & !known != 0 {
            parsed.dropped.push(format!("{:#x}", number & !known));
        }
        parsed
    }

    /// Whether nothing of what was asked for is recorded.
    pub fn is_all_dropped(&self) -> bool {
        self.masks == Masks::default() && !self.dropped.is_empty()
    }

    /// Sentences on what is left out or has no effect, and why; `None`: nothing is.
    pub fn note(&self) -> Option<String> {
        let (configuration, words): (Vec<&str>, Vec<&str>) =
            self.dropped.iter().map(String::as_str).partition(|word| is_configuration(word));
        let mut reasons: Vec<&str> = words.iter().filter_map(|word| reason(word)).collect();
        reasons.dedup();
        let reasons = match reasons.is_empty() {
            true => String::new(),
            false => format!(": {}", reasons.join("; ")),
        };
        let mut notes = Vec::new();
        if !words.is_empty() {
            let words = words.join(", ");
            notes.push(format!(
                "{words}: left out, because openetw does not record them on Linux{reasons}"
            ));
        }
        if !configuration.is_empty() {
            notes.push(format!(
                "{}: no effect, because the configuration of the system is recorded in any case",
                configuration.join(", ")
            ));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Adds the flags of another one.
    pub fn merge(&mut self, other: Parsed) {
        self.masks.0.iter_mut().zip(other.masks.0).for_each(|(mask, more)| *mask |= more);
        for name in other.dropped {
            if !self.dropped.contains(&name) {
                self.dropped.push(name);
            }
        }
    }

    /// Adds a flag, or notes that it is not recorded.
    pub(crate) fn add(&mut self, flag: Flag) {
        match flag.is_recorded_here() {
            true => self.masks.set(flag),
            false => {
                self.drop_flag(if flag.xperf.is_empty() { flag.logman } else { flag.xperf });
            }
        }
    }

    fn drop_flag(&mut self, name: &str) {
        let name = name.to_ascii_uppercase();
        if !self.dropped.contains(&name) {
            self.dropped.push(name);
        }
    }

    /// Adds all flags of a name in small letters; `false`: there are none.
    fn add_named(&mut self, name: &str) -> bool {
        if name.is_empty() {
            // The name that some flags lack.
            return false;
        }
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        let is_named = |flag: &&Flag| flag.xperf.eq_ignore_ascii_case(name) || flag.logman == name;
        let found: Vec<Flag> = Flag::ALL.iter().filter(is_named).copied().collect();
        found.iter().for_each(|flag| self.add(*flag));
        let is_windows =
            WINDOWS_FLAGS.split_whitespace().any(|flag| flag.eq_ignore_ascii_case(name));
        if is_windows {
            self.drop_flag(name);
        }
        is_windows || !found.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_groups_and_numbers_give_the_masks_of_windows() {
        let all = |text: &str| Masks::parse(text).unwrap();
        assert_eq!(all("PROC_THREAD+LOADER").masks.0, [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(all("process,thread,img").masks, all("PROC_THREAD+loader").masks);
        assert_eq!(all("0x10005").masks.0, [0x1_0005, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(all("profile").masks.0, [0, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(all("CSWITCH+DISPATCHER").masks.0, [0, 0x204, 0, 0, 0, 0, 0, 0]);
        let base = all("Base");
        assert_eq!(base.masks.0, [0x2107, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(base.dropped, ["MEMINFO", "MEMINFO_WS"]);
        assert_eq!(all("16").masks, all("cswitch").masks);
        assert_eq!(all("Diag").dropped, ["COMPACT_CSWITCH"]);
        assert_eq!(all("ResidentSet").dropped, ["MEMORY", "MEMINFO", "SESSION"]);
        assert_eq!(
            all("ReferenceSet").masks,
            all("PROC_THREAD+LOADER+HARD_FAULTS+VIRT_ALLOC+VAMAP").masks
        );
    }

    /// Regression: `fileio` was xperf's group for those who meant logman's class.
    #[test]
    fn a_word_of_logman_is_its_class_in_small_letters() {
        let class = Masks::of_enable_flags(Flag::FILE_IO_INIT.enable);
        let any = |word: &str| Masks::parse_any(word).unwrap().masks;
        assert_eq!(any("fileio"), class);
        assert_eq!([any("FileIO"), any("FILEIO")], [Masks::parse("fileio").unwrap().masks; 2]);
        assert!(any("FileIO").has(Flag::DISK) && !class.has(Flag::DISK));
        assert_eq!(any("latency+file"), Masks::parse("Latency+FILENAME").unwrap().masks);
    }

    /// Regression: bits of a number that no flag has were left out without a word.
    #[test]
    fn unknown_bits_of_a_number_are_named() {
        let parsed = Masks::parse("0x80000001+0xA0000000").unwrap();
        assert_eq!(parsed.masks, Masks::parse("1").unwrap().masks);
        assert_eq!(parsed.dropped, ["0x80000000", "0xa0000000"]);
        let error = Masks::parse("0x80000000").unwrap_err();
        assert_eq!(error, FlagError::NotOnLinux(vec!["0x80000000".to_owned()]));
    }

    #[test]
    fn words_without_events_on_linux_are_errors_that_name_them() {
        let error = Masks::parse("registry").unwrap_err();
        assert_eq!(error, FlagError::NotOnLinux(vec!["REGISTRY".to_owned()]));
        for (text, start) in [("colour", "colour: no class"), (" +", "no class")] {
            let error = Masks::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{error}");
            let recorded = Flag::recorded();
            let groups = GROUPS.iter().map(|(name, _)| *name);
            for word in recorded.map(|flag| flag.name()).chain(groups) {
                assert!(error.contains(word), "{word} in {error}");
            }
        }
        let error = Masks::parse("Spinlock+SPINLOCK").unwrap_err();
        assert_eq!(error, FlagError::NotOnLinux(vec!["SPINLOCK".to_owned()]));
        assert_eq!(Masks::parse("registry+profile").unwrap().dropped, ["REGISTRY"]);
        let error = Masks::parse("CPU_CONFIG").unwrap_err().to_string();
        assert!(error.ends_with("is always recorded; name classes, too"), "{error}");
        // The newer flags of the published lists.
        let newer = "PROFILE+WDF_DPC+reg_hive+HIBERRUNDOWN+OB_HANDLE+CPU_CONFIG";
        let parsed = Masks::parse(newer).unwrap();
        assert_eq!(parsed.dropped.join("+"), newer.to_ascii_uppercase().replace("PROFILE+", ""));
        let note = parsed.note().unwrap();
        assert!(note.starts_with("WDF_DPC, REG_HIVE, HIBERRUNDOWN, OB_HANDLE: left out"), "{note}");
        assert!(note.contains("; CPU_CONFIG: no effect"), "{note}");
    }
}
