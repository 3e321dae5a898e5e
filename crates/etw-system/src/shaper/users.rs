//! Users of processes that change while they run.

use std::collections::{HashMap, VecDeque};

use super::Shaper;

/// Processes and changes of each that are remembered.
const MAX_PROCESSES: usize = 1 << 16;
const MAX_CHANGES: usize = 64;

/// Changes of users that may be later than the events that the shaper has taken, by process.
#[derive(Debug, Default)]
pub(super) struct UserChanges(HashMap<u32, VecDeque<UserChange>>);

#[derive(Clone, Copy, Debug)]
struct UserChange {
    /// Nanoseconds.
    time: u64,
    user: u32,
}

impl UserChanges {
    pub fn add(&mut self, process: u32, time: u64, user: u32) {
        if self.0.len() >= MAX_PROCESSES {
            // Ends of many processes were lost.
            self.0.clear();
        }
        let all = self.0.entry(process).or_default();
        if all.len() >= MAX_CHANGES {
            all.pop_front();
        }
        all.push_back(UserChange { time, user });
    }

    /// Removes the changes of a process up to a time, and returns the last one.
    fn take(&mut self, process: u32, until: u64) -> Option<u32> {
        let all = self.0.get_mut(&process)?;
        let count = all.iter().take_while(|one| one.time <= until).count();
        let last = all.drain(..count).next_back();
        if all.is_empty() {
            self.0.remove(&process);
        }
        last.map(|one| one.user)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Shaper {
    /// A process has the user of a time.
    pub(super) fn change_user(&mut self, process: u32, time: u64) {
        if let Some(user) = self.user_changes.take(process, time) {
            self.set_user(process, user);
        }
    }

    /// A process has this user from now on.
    pub fn set_user(&mut self, process: u32, user: u32) {
        if let Some(one) = self.processes.get_mut(&process) {
            one.facts.user = Some(user);
        }
    }
}
