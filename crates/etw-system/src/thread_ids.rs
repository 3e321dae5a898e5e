//! Ids of threads in a container. Tracepoints name threads by the machine's ids, and all other records by those of the host's PID namespace;
//! each thread's own switch from its CPU has both.

use std::collections::HashMap;

use crate::neutral::{Detail, SwitchedIn, SwitchedOut};
use crate::shaper::FOREIGN;

/// `PROC_PID_INIT_INO`: the machine's ids are those of the first PID namespace.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// Threads that are remembered.
const LIMIT: usize = 1 << 16;

/// Whether this process is in the first PID namespace.
pub(crate) fn is_first_namespace() -> bool {
    let own = std::fs::read_link("/proc/self/ns/pid");
    own.is_ok_and(|own| own.as_os_str() == FIRST_PID_NAMESPACE)
}

/// Translates the machine's ids.
#[derive(Debug, Default)]
pub(crate) struct ThreadIds {
    /// Ids of the namespace by those of the machine.
    known: HashMap<u32, u32>,
    /// The thread that each CPU runs.
    running: HashMap<u16, Running>,
}

/// Ids of the thread that ran when an event happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub process: u32,
    pub thread: u32,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    of_machine: u32,
    shown: u32,
}

impl ThreadIds {
    /// A thread with both ids; 0 and `u32::MAX` are none of the namespace.
    pub fn learn(&mut self, of_machine: u32, own: u32) {
        if of_machine == 0 || own == 0 || own == u32::MAX {
            return;
        }
        if self.known.len() >= LIMIT {
            self.known.clear();
        }
        self.known.insert(of_machine, own);
    }

    fn shown(&self, of_machine: u32) -> u32 {
        match of_machine {
            0 => 0,
            id => self.known.get(&id).copied().unwrap_or(id | FOREIGN),
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
    pub fn translate<'a>(&mut self, cpu: u16, detail: Detail<'a>) -> Detail<'a> {
        match detail {
            Detail::Switch { old, new } => {
                let shown = self.shown(new.thread);
                let running = Running { of_machine: new.thread, shown };
                let before = self.running.insert(cpu, running);
                // Perhaps its id became known after the switch to it: the chain of the CPU stays whole.
                let same = before.filter(|before| before.of_machine == old.thread);
                let left = same.map_or_else(|| self.shown(old.thread), |before| before.shown);
                Detail::Switch {
                    old: SwitchedOut { thread: left, ..old },
                    new: SwitchedIn { thread: shown, ..new },
                }
            }
            Detail::Wake { thread, is_interrupt } => {
                Detail::Wake { thread: self.shown(thread), is_interrupt }
            }
            Detail::Priority { thread, old, new } => {
                Detail::Priority { thread: self.shown(thread), old, new }
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
        ids.learn(5001, 7);
        ids.learn(5002, 0);
        let switch = |old, new| Detail::Switch {
            old: SwitchedOut { thread: old, priority: 120, state: ThreadState::Sleeping },
            new: SwitchedIn { thread: new, priority: 120 },
        };
        let mut threads = |old, new| match ids.translate(0, switch(old, new)) {
            Detail::Switch { old, new } => (old.thread, new.thread),
            other => panic!("{other:?}"),
        };
        assert_eq!(threads(0, 5001), (0, 7));
        assert_eq!(threads(5001, 5003), (7, 5003 | FOREIGN));
        ids.learn(5003, 9);
        let mut threads = |old, new| match ids.translate(0, switch(old, new)) {
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
        let wake = ids.translate(1, Detail::Wake { thread: 5001, is_interrupt: false });
        assert!(matches!(wake, Detail::Wake { thread: 7, .. }));
    }
}
