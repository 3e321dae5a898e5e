//! Windows' commands by name (`etw tracerpt …`, or a link of that name), in their everyday forms.
//!
//! Each command is a [`table::Table`]: one row per option. Options that are not supported are rejected, not ignored.
//! Commands that control sessions are in `live/frontends`.

pub mod answer;
mod mc;
pub mod table;
mod tracefmt;
mod tracerpt;
mod tracewpp;
mod wevtutil;
pub mod words;

use crate::output::{Failure, Outcome};
use answer::{print, usage};
use table::Help;

/// A command, from its arguments.
pub type Run = fn(&[String]) -> Result<Outcome, Failure>;

/// A Windows command that this program has.
pub struct Frontend {
    pub name: &'static str,
    pub run: Run,
    pub help: fn() -> Help,
}

/// All of them.
pub static FRONTENDS: &[Frontend] = &[
    Frontend { name: "tracerpt", run: tracerpt::run, help: tracerpt::help },
    Frontend { name: "tracefmt", run: tracefmt::run, help: tracefmt::help },
    Frontend { name: "mc", run: mc::run, help: mc::help },
    Frontend { name: "tracewpp", run: tracewpp::run, help: tracewpp::help },
    Frontend { name: "wevtutil", run: wevtutil::run, help: wevtutil::help },
    #[cfg(target_os = "linux")]
    Frontend {
        name: "tracelog",
        run: crate::live::frontends::tracelog::run,
        help: crate::live::frontends::tracelog::help,
    },
    #[cfg(target_os = "linux")]
    Frontend {
        name: "logman",
        run: crate::live::frontends::logman::run,
        help: crate::live::frontends::logman::help,
    },
    #[cfg(target_os = "linux")]
    Frontend {
        name: "xperf",
        run: crate::live::frontends::xperf::run,
        help: crate::live::frontends::xperf::help,
    },
    #[cfg(target_os = "linux")]
    Frontend {
        name: "wpr",
        run: crate::live::frontends::wpr::run,
        help: crate::live::frontends::wpr::help,
    },
];

/// A Windows command that this program does not have.
pub struct Absent {
    pub name: &'static str,
    /// The commands to use instead.
    pub instead: &'static str,
}

/// Absent commands that users of Windows know.
pub static ABSENT: &[Absent] = &[
    Absent {
        name: "wpa",
        instead: "etw report makes a page of HTML, and etw convert --to perfetto a trace for ui.perfetto.dev",
    },
    Absent {
        name: "netsh",
        instead: "for netsh trace: tcpdump records packets here, and etw convert --to pcapng extracts those of a \
                  Windows trace",
    },
    Absent {
        name: "pktmon",
        instead: "tcpdump records packets here, and etw convert --to pcapng extracts those of a Windows trace",
    },
    Absent {
        name: "perfview",
        instead: "etw stat, etw report and etw convert --to perfetto show traces",
    },
    Absent {
        name: "tracepdb",
        instead: "etw tracefmt -pdb reads formats from a PDB file itself, and etw pack create gathers those of many",
    },
    Absent {
        name: "typeperf",
        instead: "performance counters are not events; etw record --system records CPU, disk and network",
    },
    Absent {
        name: "wprui",
        instead: "etw wpr -start records profiles, and etw record --system profile,cswitch samples the CPU",
    },
    Absent {
        name: "eventvwr",
        instead: "etw log list, etw log show and etw log query show event logs",
    },
    Absent {
        name: "wecutil",
        instead: "etw log tail follows a log of this machine; there are no subscriptions to other machines",
    },
    Absent {
        name: "traceview",
        instead: "etw tail shows events live, and etw tracefmt messages of a trace",
    },
];

/// Says what to use instead of a Windows command that this program does not have.
pub fn absent(name: &str, words: &[String]) -> Option<Result<Outcome, Failure>> {
    let name = name.strip_suffix(".exe").unwrap_or(name);
    let is_it = |absent: &&Absent| absent.name.eq_ignore_ascii_case(name);
    let Absent { name, instead } = ABSENT.iter().find(is_it)?;
    let text = format!("{name} is not part of etw: {instead}");
    let asks = ["-h", "-?", "/?", "-help", "--help", "help"];
    Some(match words.first().is_some_and(|word| asks.contains(&word.as_str())) {
        true => print(&format!("{text}\n")),
        false => Err(usage(text)),
    })
}

/// The command of this name.
pub fn by_name(program: &str) -> Option<&'static Frontend> {
    FRONTENDS.iter().find(|frontend| frontend.name == program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_one_row_and_an_explanation() {
        for frontend in FRONTENDS {
            let help = (frontend.help)();
            let mut names: Vec<String> = Vec::new();
            for (_, entries) in help.parts() {
                for entry in entries {
                    assert!(!entry.text.is_empty(), "{} {}", frontend.name, entry.term);
                    names.extend(entry.names.iter().cloned());
                }
            }
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}: an option has two rows", frontend.name);
            let text = help.to_text();
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }
}
