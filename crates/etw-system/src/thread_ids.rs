//! Ids of threads in a container. Tracepoints name threads by the machine's ids, and all other records by those of the host's PID namespace;
//! each thread's own switch from its CPU has both.

use std::collections::HashMap;

use etw_types::Guid;

use crate::neutral::{Detail, SwitchedIn, SwitchedOut};
use crate::shaper::FOREIGN;

/// `PROC_PID_INIT_INO`: the machine's ids are those of the first PID namespace.
const FIRST_PID_NAMESPACE: u64 = 0xefff_fffc;
/// Threads that are remembered.
const LIMIT: usize = 1 << 16;

/// Whether this process is in the first PID namespace.
pub(crate) fn is_first_namespace() -> bool {
    pid_namespace() == Some(FIRST_PID_NAMESPACE)
}

/// The number of this process's PID namespace, whose ids all records have. `None`: the system does not show it.
pub fn pid_namespace() -> Option<u64> {
    let own = std::fs::read_link("/proc/self/ns/pid").ok()?;
    own.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// The id that the kernel took when it started, which all of its containers share. `None`: the system does not show it.
pub fn boot_id() -> Option<Guid> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    id.trim_end().parse().ok()
}

/// Translates the machine's ids.
#[derive(Debug, Default)]
pub(crate) struct ThreadIds {
    /// Ids of the namespace by those of the machine.
    known: HashMap<u32, Known>,
    /// The thread that each CPU runs.
    running: HashMap<u16, Running>,
}

/// Ids of the thread that ran when an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub process: u32,
    pub thread: u32,
}

/// A thread with both ids. The machine gives its id to another thread at once if a process writes to `ns_last_pid`, as tools that restore
/// processes do.
#[derive(Clone, Copy, Debug)]
struct Known {
    own: u32,
    /// The times of its first and last switch from a CPU that were read.
    first: u64,
    last: u64,
    /// The thread that had the machine's id before, and when it switched for the last time.
    before: Option<(u64, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    of_machine: u32,
    shown: u32,
}

impl ThreadIds {
    /// A thread leaves a CPU. `own`: its id in the namespace; 0 or `u32::MAX`: it has none, or none any more.
    pub fn learn(&mut self, of_machine: u32, own: u32, time: u64) {
        let has_own = own != 0 && own != u32::MAX;
        if of_machine == 0 {
            return;
        }
        let new = Known { own, first: time, last: time, before: None };
        match self.known.get_mut(&of_machine) {
            // Records of several CPUs are not read in the order of their times.
            Some(known) if time < known.first => match &mut known.before {
                Some((until, id)) if !has_own || *id == own => *until = time.max(*until),
                _ if own == known.own => known.first = time,
                _ if has_own => known.before = Some((time, own)),
                _ => {}
            },
            Some(known) if !has_own || known.own == own => known.last = time.max(known.last),
            Some(known) => *known = Known { before: Some((known.last, known.own)), ..new },
            None if has_own => {
                if self.known.len() >= LIMIT {
                    self.known.clear();
                }
                self.known.insert(of_machine, new);
            }
            None => {}
        }
    }

    fn shown(&self, of_machine: u32, time: u64) -> u32 {
        if of_machine == 0 {
            return 0;
        }
        match self.known.get(&of_machine) {
            Some(Known { before: Some((until, own)), .. }) if time <= *until => *own,
            Some(known) => known.own,
            None => of_machine | FOREIGN,
        }
    }

    /// The thread that ran. The kernel gives threads outside of the namespace the id of idle; if the switches of the CPU say that another
    /// thread runs, or idle has no such events, the thread is an outside one, and so is its process.
    pub fn ran(&self, cpu: u16, ran: Ran, detail: &Detail<'_>) -> Ran {
        if ran != (Ran { process: 0, thread: 0 }) || matches!(detail, Detail::Switch { .. }) {
            return ran;
        }
        let is_never_idle = matches!(
            detail,
            Detail::Sample { .. }
                | Detail::Fault { .. }
                | Detail::SyscallEnter { .. }
                | Detail::SyscallExit { .. }
        );
        match self.running.get(&cpu).map(|running| running.shown) {
            Some(shown @ 1..) => Ran { process: shown, thread: shown },
            _ if is_never_idle => Ran { process: FOREIGN, thread: FOREIGN },
            _ => ran,
        }
    }

    /// The event with the ids of the namespace.
    pub fn translate<'a>(&mut self, (time, cpu): (u64, u16), detail: Detail<'a>) -> Detail<'a> {
        match detail {
            Detail::Switch { old, new } => {
                let shown = self.shown(new.thread, time);
                let running = Running { of_machine: new.thread, shown };
                let before = self.running.insert(cpu, running);
                // Perhaps its id became known after the switch to it: the chain of the CPU stays whole.
                let same = before.filter(|before| before.of_machine == old.thread);
                let left = same.map_or_else(|| self.shown(old.thread, time), |before| before.shown);
                Detail::Switch {
                    old: SwitchedOut { thread: left, ..old },
                    new: SwitchedIn { thread: shown, ..new },
                }
            }
            Detail::Wake { thread, is_interrupt } => {
                Detail::Wake { thread: self.shown(thread, time), is_interrupt }
            }
            Detail::Priority { thread, old, new } => {
                Detail::Priority { thread: self.shown(thread, time), old, new }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutral::ThreadState;

    /// OV-23: ids of threads in containers are those of the container.
    #[test]
    fn ids_are_those_of_the_namespace_and_chains_stay_whole() {
        let mut ids = ThreadIds::default();
        ids.learn(5001, 7, 1);
        ids.learn(5002, 0, 1);
        let switch = |old, new| Detail::Switch {
            old: SwitchedOut { thread: old, priority: 120, state: ThreadState::Sleeping },
            new: SwitchedIn { thread: new, priority: 120 },
        };
        let mut threads = |old, new| match ids.translate((1, 0), switch(old, new)) {
            Detail::Switch { old, new } => (old.thread, new.thread),
            other => panic!("{other:?}"),
        };
        assert_eq!(threads(0, 5001), (0, 7));
        assert_eq!(threads(5001, 5003), (7, 5003 | FOREIGN));
        ids.learn(5003, 9, 1);
        let mut threads = |old, new| match ids.translate((1, 0), switch(old, new)) {
            Detail::Switch { old, new } => (old.thread, new.thread),
            other => panic!("{other:?}"),
        };
        assert_eq!(threads(5003, 5002), (5003 | FOREIGN, 5002 | FOREIGN));
        assert_eq!(threads(5002, 5003), (5002 | FOREIGN, 9));
        // The thread that the CPU runs has not left it: its process is not known.
        let outside = Ran { process: 0, thread: 0 };
        let sample = Detail::Sample { address: 1 };
        assert_eq!(ids.ran(0, outside, &sample), Ran { process: 9, thread: 9 });
        assert_eq!(ids.ran(1, outside, &sample), Ran { process: FOREIGN, thread: FOREIGN });
        assert_eq!(ids.ran(1, outside, &Detail::Created), outside);
        let inside = Ran { process: 7, thread: 8 };
        assert_eq!(ids.ran(0, inside, &sample), inside);
        let wake = ids.translate((1, 1), Detail::Wake { thread: 5001, is_interrupt: false });
        assert!(matches!(wake, Detail::Wake { thread: 7, .. }));
    }

    /// OV-23: a machine that gives an id again at once, as for processes that are restored: the host may read the records of both threads before
    /// it translates those of the first one.
    #[test]
    fn an_id_of_the_machine_that_is_used_again_is_that_of_its_time() {
        for order in [[0, 1, 2, 3], [2, 3, 0, 1], [0, 2, 1, 3], [3, 2, 1, 0]] {
            let mut ids = ThreadIds::default();
            let all = [(7, 10), (0, 20), (9, 40), (9, 50)];
            for (own, time) in order.map(|at| all[at]) {
                ids.learn(5001, own, time);
            }
            let shown = [5, 10, 20, 35, 45, 90].map(|time| ids.shown(5001, time));
            assert_eq!(shown[3..], [9, 9, 9], "{order:?}");
            assert_eq!(shown[..2], [7, 7], "{order:?}");
            // Its last switch is known if that record was read behind its own.
            let ended_behind =
                order.iter().position(|at| *at == 1) > order.iter().position(|at| *at == 0);
            assert!(!ended_behind || shown[2] == 7, "{order:?}");
        }
    }
}
