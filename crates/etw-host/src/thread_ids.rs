//! Thread ids of a process in another PID namespace, translated to the host's.

use std::collections::HashMap;

/// Translations that are kept for one process.
const MAX_THREADS: usize = 65_536;

/// Translates the thread ids that a program's records claim.
#[derive(Debug, Default)]
pub struct ThreadIds {
    process: u32,
    /// Host's id by claimed id; `None` if the process is in the host's namespace.
    by_claimed: Option<HashMap<u32, u32>>,
}

impl ThreadIds {
    /// No translation: the process is in the host's PID namespace.
    pub fn same_namespace() -> ThreadIds {
        ThreadIds::default()
    }

    /// The translation for a process that is running now.
    pub fn of_process(process: u32) -> ThreadIds {
        let by_claimed = is_in_other_namespace(process).then(|| {
            // The process may have ended by the time its records are drained.
            let mut threads = HashMap::new();
            read_threads(process, &mut threads);
            threads
        });
        ThreadIds { process, by_claimed }
    }

    /// Whether the process is in another PID namespace than the host.
    pub fn is_translating(&self) -> bool {
        self.by_claimed.is_some()
    }

    /// The host's id of a thread; the claimed id if the thread cannot be found.
    #[inline]
    pub fn translate(&mut self, claimed: u32) -> u32 {
        if self.by_claimed.is_none() { claimed } else { self.find(claimed) }
    }

    #[inline(never)]
    fn find(&mut self, claimed: u32) -> u32 {
        let Some(threads) = &mut self.by_claimed else { return claimed };
        if !threads.contains_key(&claimed) && threads.len() < MAX_THREADS {
            read_threads(self.process, threads);
            threads.entry(claimed).or_insert(claimed);
        }
        threads.get(&claimed).copied().unwrap_or(claimed)
    }
}

fn is_in_other_namespace(process: u32) -> bool {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    match (namespace(&process.to_string()), namespace("self")) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    }
}

/// Reads `NSpid:` of each thread, which lists its ids from the host's namespace inward.
fn read_threads(process: u32, threads: &mut HashMap<u32, u32>) {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else { return };
    for task in tasks.flatten() {
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        let Some(ids) = status.lines().find_map(|line| line.strip_prefix("NSpid:")) else {
            continue;
        };
        let mut ids = ids.split_ascii_whitespace().filter_map(|id| id.parse().ok());
        if let (Some(ours), Some(theirs)) = (ids.next(), ids.next_back()) {
            threads.insert(theirs, ours);
        }
    }
}
