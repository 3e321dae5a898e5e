//! The lives of threads around the moment of a rundown: `/proc` is listed later than that, and the rings have what happened meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Recorder;
use crate::neutral::{Image, ProcessFacts};
use crate::perf::{Life, LifeMoment};
use crate::process_files::{self, ListedThread, ListedView};

/// A priority that says nothing.
const NORMAL_PRIORITY: i32 = 120;

/// A process, as `/proc` lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub facts: ProcessFacts,
    pub threads: Vec<ListedThread>,
    pub images: Vec<Arc<Image>>,
    pub views: Vec<ListedView>,
    /// It has ended with this status, and its parent does not know yet.
    pub status: Option<u32>,
}

/// Lives of threads, as the rings show them.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// The first moment of each thread whose record is still to be shown.
    first: BTreeMap<u32, LifeMoment>,
    /// Threads that begin in such a record.
    begin: BTreeSet<u32>,
    /// Threads that ended in an earlier one, and have not begun again before the moment.
    ended: BTreeSet<u32>,
    /// The parents of processes whose threads end in records that are still to be shown.
    parents: BTreeMap<u32, u32>,
}

impl Lives {
    /// `moments`: in order of time. `is_shown`: the trace has the record at this time behind the rundown.
    pub fn of(moments: &[LifeMoment], is_shown: impl Fn(u64) -> bool) -> Lives {
        let mut lives = Lives::default();
        for one in moments {
            let is_shown = is_shown(one.time);
            match one.life {
                Life::End { .. } if !is_shown => drop(lives.ended.insert(one.thread)),
                _ if !is_shown => drop(lives.ended.remove(&one.thread)),
                Life::Begin => drop(lives.begin.insert(one.thread)),
                _ => {}
            }
            if let (true, Life::End { parent }) = (is_shown, one.life) {
                lives.parents.entry(one.process).or_insert(parent);
            }
            if is_shown {
                lives.first.entry(one.thread).or_insert(*one);
            }
        }
        lives
    }

    /// Whether a thread that is listed lived at the moment.
    fn has(&self, thread: &ListedThread) -> bool {
        match self.first.get(&thread.id) {
            _ if self.begin.contains(&thread.id) => false,
            Some(_) => true,
            None => !thread.has_ended && !self.ended.contains(&thread.id),
        }
    }

    /// The processes that lived at the moment, with the threads that did. Those that have ended since, and are in no list any more, have no
    /// names. Behind them, those whose threads had all ended.
    pub fn living(&self, listed: Vec<Listed>) -> (Vec<Listed>, Vec<Listed>) {
        let mut all: BTreeMap<u32, Listed> = BTreeMap::new();
        let mut defunct = Vec::new();
        for mut one in listed.into_iter().filter(|one| !self.begin.contains(&one.facts.id)) {
            one.threads.retain(|thread| self.has(thread));
            all.insert(one.facts.id, one);
        }
        for LifeMoment { process, thread, life, .. } in self.first.values().copied() {
            // One that executes a program may have ended since, too.
            let is_new = life == Life::Begin || life == Life::Exec && all.contains_key(&process);
            if is_new {
                continue;
            }
            let parent = self.parents.get(&process).copied().unwrap_or(0);
            let facts =
                ProcessFacts { id: process, parent, session: u32::MAX, ..ProcessFacts::default() };
            let owner = all.entry(process).or_insert_with(|| Listed { facts, ..Listed::default() });
            if owner.threads.iter().all(|one| one.id != thread) {
                let priority = NORMAL_PRIORITY;
                owner.threads.push(ListedThread {
                    id: thread,
                    priority,
                    ..ListedThread::default()
                });
            }
        }
        let (living, others): (Vec<Listed>, Vec<Listed>) =
            all.into_values().partition(|one| !one.threads.is_empty());
        defunct.extend(others.into_iter().filter(|one| one.status.is_some()));
        (living, defunct)
    }
}

impl Recorder {
    /// Gives the shaper the CPUs that living threads may use, and the users of processes.
    pub(super) fn look_at_living(&mut self) {
        for thread in self.shaper.thread_ids() {
            self.shaper.set_affinity(thread, process_files::affinity_of(thread));
        }
        for process in self.shaper.process_ids() {
            if let Some(user) = process_files::user(process) {
                self.shaper.set_user(process, user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(process: u32, threads: &[u32]) -> Listed {
        let thread = |id: &u32| ListedThread { id: *id, name: vec![b'x'], ..Default::default() };
        let facts = ProcessFacts { id: process, user: Some(7), ..ProcessFacts::default() };
        let threads = threads.iter().map(thread).collect();
        Listed { facts, threads, ..Listed::default() }
    }

    /// Ids of processes with their users, and of threads: with a name, one was listed.
    type Shown = (u32, Option<u32>, Vec<(u32, bool)>);

    fn shown(all: &[Listed]) -> Vec<Shown> {
        let threads =
            |one: &Listed| one.threads.iter().map(|one| (one.id, !one.name.is_empty())).collect();
        all.iter().map(|one| (one.facts.id, one.facts.user, threads(one))).collect()
    }

    /// OV-23: each process and thread of a moment is in its rundown, and no other one.
    #[test]
    fn a_rundown_has_what_lived_at_its_moment() {
        const END: Life = Life::End { parent: 1 };
        let moments = [
            // 10 and 11 had ended, but for their parents; 12 ended, and its id was used again.
            (80, 10, 10, END),
            (81, 12, 12, END),
            (82, 12, 12, Life::Begin),
            // The first thread ended, and another one executed a program with its id.
            (83, 13, 13, END),
            (84, 13, 13, Life::Exec),
            // Begun since: a thread, a process that is listed, and one that has ended again.
            (100, 20, 21, Life::Begin),
            (101, 30, 30, Life::Begin),
            (102, 31, 31, Life::Begin),
            (103, 31, 31, END),
            // Ended since: one of 6 threads, and all of another process; only one of them is listed.
            (104, 40, 41, END),
            (105, 50, 51, END),
            (106, 50, 50, END),
            (107, 50, 52, END),
            (108, 51, 51, END),
            // Its id is another process's.
            (109, 60, 60, END),
            (110, 60, 60, Life::Begin),
            // It executed a program before it ended.
            (111, 70, 70, Life::Exec),
            (112, 70, 70, END),
        ];
        let moment = |(time, process, thread, life)| LifeMoment { time, process, thread, life };
        let lives = Lives::of(&moments.map(moment), |time| time >= 100);
        let mut zombies = [listed(11, &[11]), listed(51, &[51])];
        for one in &mut zombies {
            (one.status, one.threads[0].has_ended) = (Some(3), true);
        }
        let [zombie, later_zombie] = zombies;
        let all = [
            listed(1, &[1]),
            listed(10, &[10]),
            zombie,
            listed(12, &[12]),
            listed(13, &[13]),
            listed(20, &[20, 21]),
            listed(30, &[30]),
            listed(40, &[40]),
            later_zombie,
            listed(60, &[60]),
        ];
        let (living, defunct) = lives.living(all.to_vec());
        let one = |id| (id, Some(7), vec![(id, true)]);
        let expected = [
            one(1),
            one(12),
            one(13),
            one(20),
            (40, Some(7), vec![(40, true), (41, false)]),
            (50, None, vec![(50, false), (51, false), (52, false)]),
            one(51),
            (60, None, vec![(60, false)]),
            (70, None, vec![(70, false)]),
        ];
        assert_eq!(shown(&living)[..5], expected[..5]);
        assert_eq!(shown(&living)[5..], expected[5..]);
        assert_eq!([5, 8].map(|at: usize| living[at].facts.parent), [1, 1]);
        assert_eq!(shown(&defunct), [(11, Some(7), vec![])]);
    }
}
