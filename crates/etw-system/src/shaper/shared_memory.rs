//! Processes that have one memory, as `clone` with CLONE_VM and without CLONE_THREAD makes them: what one of them maps, all have. A process that
//! executes a program has another memory from then on.

use std::collections::HashMap;

use super::Shaper;

/// Processes that have one memory; further ones keep the images of their beginning. Each image is a record for each of them.
const MOST: usize = 64;

/// The processes that have their memory together with others.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedMemory {
    groups: HashMap<u64, Vec<u32>>,
    of_process: HashMap<u32, u64>,
    next: u64,
}

impl SharedMemory {
    #[cfg(test)]
    pub fn remembered(&self) -> [(&'static str, usize); 2] {
        [("processes in one memory", self.of_process.len()), ("memories", self.groups.len())]
    }

    /// A process has the memory of another one.
    fn join(&mut self, process: u32, other: u32) {
        if process == other {
            return;
        }
        self.leave(process);
        let group = match self.of_process.get(&other) {
            Some(group) => *group,
            None => {
                self.next += 1;
                self.groups.insert(self.next, vec![other]);
                self.of_process.insert(other, self.next);
                self.next
            }
        };
        if let Some(all) = self.groups.get_mut(&group).filter(|all| all.len() < MOST) {
            all.push(process);
            self.of_process.insert(process, group);
        }
    }

    /// A process has a memory of its own, or none any more.
    pub fn leave(&mut self, process: u32) {
        let Some(group) = self.of_process.remove(&process) else { return };
        let Some(all) = self.groups.get_mut(&group) else { return };
        all.retain(|one| *one != process);
        if let [alone] = all[..] {
            self.of_process.remove(&alone);
            self.groups.remove(&group);
        }
    }

    /// The process, and those that have its memory.
    pub fn of(&self, process: u32) -> Vec<u32> {
        let group = self.of_process.get(&process).and_then(|group| self.groups.get(group));
        let others = group.into_iter().flatten().copied().filter(|one| *one != process);
        std::iter::once(process).chain(others).collect()
    }
}

impl Shaper {
    /// Two processes have one memory.
    pub(super) fn memory_shared(&mut self, process: u32, other: u32) {
        if [process, other].iter().all(|one| self.processes.contains_key(one)) {
            self.shared_memory.join(process, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_leave_a_memory_one_by_one() {
        let mut all = SharedMemory::default();
        all.join(2, 1);
        all.join(3, 2);
        all.join(5, 4);
        all.join(6, 6);
        let of = |all: &SharedMemory| [1, 2, 4, 6].map(|one| all.of(one));
        assert_eq!(of(&all), [vec![1, 2, 3], vec![2, 1, 3], vec![4, 5], vec![6]]);
        all.leave(1);
        all.leave(4);
        assert_eq!(of(&all), [vec![1], vec![2, 3], vec![4], vec![6]]);
        all.join(3, 1);
        assert_eq!(of(&all), [vec![1, 3], vec![2], vec![4], vec![6]]);
        all.leave(3);
        assert_eq!(all.remembered().map(|(_, count)| count), [0, 0]);
        (2..1000).for_each(|process| all.join(process, 1));
        assert_eq!(all.of(1).len(), MOST);
        (1..1000).for_each(|process| all.leave(process));
        assert_eq!(all.remembered().map(|(_, count)| count), [0, 0]);
    }
}
