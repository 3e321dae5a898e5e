//! Processes that have one memory, as `clone` with CLONE_VM and without CLONE_THREAD makes them: what one of them maps, all have. A process that
//! executes a program has another memory from then on.

use super::Shaper;
use super::shared::Shared;

/// Processes that have one memory; further ones keep the images of their beginning. Each image is a record for each of them.
const MOST: usize = 64;

/// The processes that have their memory together with others.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedMemory(Shared<u32, Vec<u32>>);

impl SharedMemory {
    #[cfg(test)]
    pub fn remembered(&self) -> [(&'static str, usize); 2] {
        let [processes, memories] = self.0.counts();
        [("processes in one memory", processes), ("memories", memories)]
    }

    /// A process has the memory of another one.
    fn join(&mut self, process: u32, other: u32) {
        if process == other {
            return;
        }
        self.leave(process);
        if self.0.get(other).is_none() {
            self.0.add(other, vec![other]);
        }
        if let Some(all) = self.0.get_mut(other).filter(|all| all.len() < MOST) {
            all.push(process);
            self.0.share(process, other);
        }
    }

    /// A process has a memory of its own, or none any more.
    pub fn leave(&mut self, process: u32) {
        let Some(all) = self.0.get_mut(process) else { return };
        all.retain(|one| *one != process);
        let left = all.clone();
        self.0.end(process);
        if let [alone] = left[..] {
            self.0.end(alone);
        }
    }

    /// The process, and those that have its memory.
    pub fn of(&self, process: u32) -> Vec<u32> {
        let all = self.0.get(process).into_iter().flatten().copied();
        std::iter::once(process).chain(all.filter(|one| *one != process)).collect()
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
