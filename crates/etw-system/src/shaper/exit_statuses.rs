//! Exit statuses that wait for the ends of their processes: the kernel reports them apart, often before the records of the ends are read.

use std::collections::{HashMap, VecDeque};

/// Statuses that wait at most.
const LIMIT: usize = 1 << 16;
/// Nanoseconds between a status and the record of the end, on a busy machine.
const LATEST_END: u64 = 2_000_000_000;

/// Where exit statuses come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatusSource {
    #[default]
    Nowhere,
    /// Apart from the ends of threads, and a little behind them.
    Connector,
    /// In order of time with the ends, and before them.
    Program,
}

/// The exit status of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExitStatus {
    /// Nanoseconds, a little behind the time at which the thread said its end.
    pub time: u64,
    pub thread: u32,
    pub status: u32,
}

/// Exit statuses of processes that have not ended yet.
#[derive(Clone, Debug, Default)]
pub(super) struct ExitStatuses {
    /// By process, in order of time. Several processes may have had one id.
    waiting: HashMap<u32, VecDeque<ExitStatus>>,
    count: usize,
    /// The statuses of processes that ended until then are forgotten.
    forgotten: u64,
}

impl ExitStatuses {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Remembers the exit status of a process's thread until its end.
    pub fn add(&mut self, process: u32, status: ExitStatus) {
        if self.count >= LIMIT {
            // Ends of many processes were lost, or other processes are recorded than those whose statuses the kernel reports.
            let since = status.time.saturating_sub(LATEST_END);
            self.waiting.retain(|_, all| {
                all.retain(|one| one.time >= since);
                !all.is_empty()
            });
            self.count = self.waiting.values().map(VecDeque::len).sum();
            // Those that are left are not looked through again soon.
            if self.count > LIMIT - LIMIT / 8 {
                self.waiting.clear();
                self.count = 0;
                self.forgotten = status.time;
            }
        }
        self.waiting.entry(process).or_default().push_back(status);
        self.count += 1;
    }

    /// Whether the status that a thread has said is there. `said`: when it said its end.
    pub fn has(&self, process: u32, thread: u32, said: u64) -> bool {
        let all = self.waiting.get(&process);
        all.is_some_and(|all| all.iter().any(|one| one.thread == thread && one.time >= said))
    }

    /// Takes the status of a process that ends: that of its last thread. Those behind it belong to the next process with this id. `said`: when
    /// the thread said its end, before its status; 0: not known, or the status came before it. `None`: no status has come.
    pub fn take(&mut self, process: u32, (thread, said): (u32, u64), end: u64) -> Option<u32> {
        let end = end.max(said);
        if end <= self.forgotten {
            return None;
        }
        let all = self.waiting.get_mut(&process)?;
        // One that comes later is that of another process: this one's was lost.
        let can_be_its = |one: &ExitStatus| one.time <= end.saturating_add(LATEST_END);
        let is_last = |one: &ExitStatus| said > 0 && one.thread == thread && one.time >= said;
        let count = match all.iter().take_while(|one| can_be_its(one)).position(is_last) {
            Some(at) => at + 1,
            None => {
                let before = all.iter().take_while(|one| one.time <= end).count();
                before.max(all.front().is_some_and(can_be_its).into())
            }
        };
        let last = all.drain(..count).next_back();
        self.count -= count;
        if all.is_empty() {
            self.waiting.remove(&process);
        }
        last.map(|one| one.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many threads have said their ends, one each microsecond.
    fn statuses(count: usize) -> ExitStatuses {
        let mut all = ExitStatuses::default();
        for number in 0..count as u32 {
            let time = 1_000_000 + 1000 * u64::from(number);
            all.add(60, ExitStatus { time, thread: 60, status: number });
            assert!(all.count <= LIMIT);
        }
        all
    }

    fn take(all: &mut ExitStatuses, number: u64) -> Option<u32> {
        let said = 999_900 + 1000 * number;
        all.take(60, (60, said), said + 500)
    }

    #[test]
    fn processes_with_one_id_have_their_own_statuses() {
        const COUNT: usize = 10_000;
        let mut all = statuses(COUNT);
        for number in 0..COUNT {
            assert_eq!(take(&mut all, number as u64), Some(number as u32));
        }
        assert!(all.waiting.is_empty() && all.count == 0);
    }

    #[test]
    fn a_forgotten_status_is_no_later_one() {
        let mut all = statuses(LIMIT + 10);
        assert_eq!(all.count, 10);
        assert_eq!(take(&mut all, 0), None);
        assert_eq!(take(&mut all, LIMIT as u64 - 1), None);
        assert_eq!(take(&mut all, LIMIT as u64 + 1), Some(LIMIT as u32 + 1));
        // The status of this process was lost, and another one has its id much later.
        let mut all = ExitStatuses::default();
        for said in [0, 10] {
            all.add(60, ExitStatus { time: 10 + 2 * LATEST_END, thread: 60, status: 7 });
            assert_eq!(all.take(60, (60, said), 20), None);
            assert_eq!(all.take(60, (60, said), 20 + 2 * LATEST_END), Some(7));
        }
    }
}
