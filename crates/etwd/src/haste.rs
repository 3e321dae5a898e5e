//! The priorities of the host's threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// While there is one, the thread that made it runs before most others: on a busy machine, the kernel's rings would be full before an
/// ordinary thread has its turn. It has the lowest real-time priority, of which the kernel leaves other threads a part of each second; without
/// the right to it, a niceness; without that, too, it remains an ordinary thread. Its children are ordinary threads.
pub(crate) struct Haste {
    thread: libc::pid_t,
    /// The niceness of the thread without it.
    ordinary: libc::c_int,
}

/// The niceness of threads in haste, and of the thread that drains the pools. On a full machine the latter has its turn before programs that
/// compute: if it is late, their pools are full. What it takes is bounded by what they write. The threads that store its sessions' buffers have
/// the same. Without the right to it, they are ordinary threads.
const NICENESS: libc::c_int = -10;

/// The calling thread is the one that drains the pools.
pub(crate) fn begin_engine() {
    set_niceness(own_thread(), NICENESS);
}

/// The calling thread takes only what others leave: the system moves others to its processor as if nothing ran there.
pub(crate) fn take_what_is_left() {
    set_policy(own_thread(), libc::SCHED_IDLE, 0);
}

/// The threads in haste, with the numbers of their recordings.
static HASTES: Mutex<BTreeMap<libc::pid_t, usize>> = Mutex::new(BTreeMap::new());

impl Haste {
    const PRIORITY: libc::c_int = 1;

    /// Haste of a thread that has no other priority.
    pub fn new() -> Haste {
        Haste::of(0)
    }

    /// Haste of the thread that drains the pools.
    pub fn of_engine() -> Haste {
        Haste::of(NICENESS)
    }

    fn of(ordinary: libc::c_int) -> Haste {
        let thread = own_thread();
        let mut all = HASTES.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(thread).or_insert(0);
        *count += 1;
        if *count == 1 {
            set_niceness(thread, NICENESS);
            set_policy(thread, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, Haste::PRIORITY);
        }
        Haste { thread, ordinary }
    }

    /// The thread.
    pub fn thread(&self) -> libc::pid_t {
        self.thread
    }

    /// Calls a function whose threads and processes begin with this thread's priority. Each of them makes a [`Haste`] of its own, which ends it.
    /// Without the right to that, they are ordinary ones.
    pub fn bequeath<T>(&self, begin: impl FnOnce() -> T) -> T {
        set_policy(self.thread, libc::SCHED_RR, Haste::PRIORITY);
        let begun = begin();
        set_policy(self.thread, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, Haste::PRIORITY);
        begun
    }
}

impl Drop for Haste {
    fn drop(&mut self) {
        let mut all = HASTES.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = all.get_mut(&self.thread) else { return };
        *count -= 1;
        if *count == 0 {
            all.remove(&self.thread);
            set_policy(self.thread, libc::SCHED_OTHER, 0);
            set_niceness(self.thread, self.ordinary);
        }
    }
}

/// Brings all threads of a process into haste.
pub(crate) fn hurry(process: u32) {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return };
    for thread in threads.flatten() {
        if let Some(thread) = thread.file_name().to_str().and_then(|name| name.parse().ok()) {
            set_policy(thread, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, Haste::PRIORITY);
        }
    }
}

pub(crate) fn own_thread() -> libc::pid_t {
    // SAFETY: it takes nothing and returns a number.
    unsafe { libc::syscall(libc::SYS_gettid) as libc::pid_t }
}

fn set_niceness(thread: libc::pid_t, niceness: libc::c_int) {
    // SAFETY: it takes numbers.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, niceness) };
}

fn set_policy(thread: libc::pid_t, policy: libc::c_int, priority: libc::c_int) {
    // Some C libraries refuse their own function. The kernel's structure is this one number.
    // SAFETY: a number that outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const priority) };
}
