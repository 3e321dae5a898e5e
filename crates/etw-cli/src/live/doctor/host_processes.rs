//! The processes of a host, a keeper and its worker, and why they do not answer.

use etw_wire::Channel;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The processes of the host of a runtime directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HostProcesses {
    /// Keeps the sessions and starts workers; or a program that hosts sessions itself.
    keeper: Option<HostProcess>,
    /// Records and answers.
    worker: Option<HostProcess>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostProcess {
    pid: u32,
    /// By a signal or a debugger: state T or t.
    is_stopped: bool,
}

impl HostProcess {
    fn of(pid: u32) -> HostProcess {
        HostProcess { pid, is_stopped: matches!(stat(pid).state, 'T' | 't') }
    }
}

impl HostProcesses {
    /// Those of the host that listens in a directory.
    pub fn of(directory: &Path) -> HostProcesses {
        let channel = Channel::connect(&directory.join("socket"));
        // The process that began to listen, also if it has ended and left the socket to its worker.
        let listening = channel.and_then(|channel| channel.peer()).map_or(0, |peer| peer.pid);
        let is_there = listening != 0 && Path::new(&format!("/proc/{listening}")).exists();
        let pids = std::fs::read_dir("/proc").into_iter().flatten();
        let mut pids = pids.filter_map(|one| one.ok()?.file_name().to_str()?.parse::<u32>().ok());
        HostProcesses {
            keeper: is_there.then(|| HostProcess::of(listening)),
            worker: pids.find(|pid| is_worker(*pid, listening, directory)).map(HostProcess::of),
        }
    }

    /// The process that listens.
    pub fn keeper(&self) -> Option<u32> {
        self.keeper.map(|keeper| keeper.pid)
    }

    /// The state of the processes, and the way out of it. `failures`: what the host says of itself.
    pub fn advice(&self, failures: &[String]) -> (String, String) {
        let keeper = if self.worker.is_some() { "its keeper" } else { "the host" };
        let all = [(keeper, self.keeper), ("its worker", self.worker)];
        let all = || all.into_iter().filter_map(|(name, process)| Some((name, process?)));
        let stopped: Vec<_> = all().filter(|(_, process)| process.is_stopped).collect();
        if !stopped.is_empty() {
            let names: Vec<String> =
                stopped.iter().map(|(name, one)| format!("{name}, process {},", one.pid)).collect();
            let verb = if names.len() == 1 { "is" } else { "are" };
            let what = format!("{} {verb} stopped (state T)", names.join(" and "));
            let pids: Vec<String> = stopped.iter().map(|(_, one)| one.pid.to_string()).collect();
            return (what, format!("kill -CONT {}{}", pids.join(" "), self.after_kill()));
        }
        // With a worker, they are of sessions that ended.
        if self.worker.is_none() && !failures.is_empty() {
            let fix = "raise the limit: the keeper goes on to start workers";
            return (failures.join("; "), fix.to_owned());
        }
        let names: Vec<String> =
            all().map(|(name, one)| format!("{name}, process {},", one.pid)).collect();
        let (verb, what) = match names.len() {
            0 => {
                let fix = "run etw doctor as the host's user or as root";
                return ("its processes are hidden from you".to_owned(), fix.to_owned());
            }
            1 => ("runs", "it waits"),
            _ => ("run", "they wait"),
        };
        let fix = format!("see what {what} for (/proc/PID/wchan){}", self.after_kill());
        (format!("{} {verb}", names.join(" and ")), fix)
    }

    fn after_kill(&self) -> String {
        match (self.keeper, self.worker) {
            (Some(_), Some(worker)) => format!(
                "; after kill -9 {} the keeper starts another worker, which restores the sessions",
                worker.pid
            ),
            (None, Some(worker)) => format!(
                "; its keeper has ended, so it ends its sessions then; after kill -9 {} the events in their buffers are lost",
                worker.pid
            ),
            (Some(_) | None, None) => String::new(),
        }
    }
}

/// Whether a process is the worker of a keeper, or one of this directory whose keeper has ended.
fn is_worker(pid: u32, keeper: u32, directory: &Path) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = words.split(|byte| *byte == 0);
    let is_of_directory = |word: &[u8]| word == directory.as_os_str().as_bytes();
    words.any(|word| word == b"--worker")
        && (stat(pid).parent == keeper || words.any(is_of_directory))
}

struct Stat {
    state: char,
    parent: u32,
}

/// Zeros if the process has ended.
fn stat(pid: u32) -> Stat {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may have any of them.
    let mut words = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    let state = words.next().and_then(|word| word.chars().next()).unwrap_or('0');
    Stat { state, parent: words.next().and_then(|word| word.parse().ok()).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, is_stopped: bool) -> Option<HostProcess> {
        Some(HostProcess { pid, is_stopped })
    }

    /// The process that is stopped is named, and what a kill of the worker does.
    #[test]
    fn the_advice_is_for_the_process_that_does_not_answer() {
        let advice = |keeper, worker| HostProcesses { keeper, worker }.advice(&[]);
        let (what, fix) = advice(process(5, false), process(6, true));
        assert_eq!(what, "its worker, process 6, is stopped (state T)");
        assert!(fix.starts_with("kill -CONT 6; after kill -9 6 the keeper"), "{fix}");
        let (what, fix) = advice(process(5, true), process(6, true));
        assert_eq!(what, "its keeper, process 5, and its worker, process 6, are stopped (state T)");
        assert!(fix.starts_with("kill -CONT 5 6; "), "{fix}");
        let (_, fix) = advice(None, process(6, true));
        assert!(fix.starts_with("kill -CONT 6; its keeper has ended"), "{fix}");
        let (what, fix) = advice(process(5, false), process(6, false));
        assert_eq!(what, "its keeper, process 5, and its worker, process 6, run");
        assert!(fix.contains("kill -9 6"), "{fix}");
    }

    #[test]
    fn a_limit_is_to_be_raised_only_where_there_is_no_worker() {
        let failures = ["no other worker can start".to_owned()];
        let advice = |worker| HostProcesses { keeper: process(5, false), worker }.advice(&failures);
        let (what, fix) = advice(None);
        assert_eq!(what, failures[0]);
        assert!(fix.starts_with("raise the limit"), "{fix}");
        let (what, fix) = advice(process(6, false));
        assert_eq!(what, "its keeper, process 5, and its worker, process 6, run");
        assert!(fix.contains("kill -9 6"), "{fix}");
    }

    #[test]
    fn the_process_that_listens_is_found() {
        let directory = std::env::temp_dir().join(format!("etw-holder-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let listener = Channel::listen(&directory.join("socket")).unwrap();
        let found = HostProcesses::of(&directory);
        assert_eq!(found.keeper, process(std::process::id(), false));
        drop(listener);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
