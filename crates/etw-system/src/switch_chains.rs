//! Chains of context switches: on each CPU, a switch leaves the thread that the switch before brought.

use std::collections::{HashMap, HashSet};

use etw_types::{EventRecord, HeaderType, Hook, LOST_EVENT, le};
use foldhash::fast::RandomState;

const CSWITCH: Hook = Hook(0x0524);

/// The thread that runs on a CPU.
#[derive(Clone, Copy, Debug)]
struct Running {
    thread: u32,
    /// A record behind its switch says that events are lost.
    has_loss: bool,
}

/// A place where switches of a CPU are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The CPU.
    pub cpu: u16,
    /// The thread that the switch before the gap brought. No switch shows how it left.
    pub behind: u32,
    /// A record in the gap says that events are lost.
    pub is_marked: bool,
}

/// The chains of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    /// Switches.
    pub switches: u64,
    /// Records that say that events are lost.
    pub losses: u64,
    /// Gaps behind threads that leave no CPU in the whole trace. Some kernels never run the tracepoint when certain threads leave their
    /// CPU: no recorder can have these switches.
    pub gaps_behind_unseen: u64,
    /// These threads.
    pub unseen: Vec<u32>,
    /// Gaps behind threads that leave their CPUs in other switches.
    pub gaps_behind_others: u64,
    /// Gaps, of both kinds, in which no record says that events are lost.
    pub unmarked_gaps: u64,
}

/// Follows the switches of a trace, in order of time.
#[derive(Clone, Debug, Default)]
pub struct SwitchChains {
    running: HashMap<u16, Running, RandomState>,
    /// Gaps by the thread behind which they are.
    behind: HashMap<u32, u64, RandomState>,
    /// Threads that a switch leaves.
    leave: HashSet<u32, RandomState>,
    found: Chains,
}

impl SwitchChains {
    /// Looks at the next record of a trace, whatever it is. Returns the gap before it.
    pub fn add(&mut self, record: &EventRecord<'_>) -> Option<Gap> {
        if record.header.is_classic() && record.provider == Some(LOST_EVENT) {
            self.lost(record.cpu);
        }
        if record.hook != Some(CSWITCH) || record.header != HeaderType::PerfInfo64 {
            return None;
        }
        let (new, old) = (le::u32(record.payload, 0)?, le::u32(record.payload, 4)?);
        self.switched(record.cpu, old, new)
    }

    /// A CPU switches from one thread to another. Returns the gap before that.
    pub fn switched(&mut self, cpu: u16, old: u32, new: u32) -> Option<Gap> {
        self.found.switches += 1;
        self.leave.insert(old);
        let before = self.running.insert(cpu, Running { thread: new, has_loss: false })?;
        if before.thread == old {
            return None;
        }
        let gap = Gap { cpu, behind: before.thread, is_marked: before.has_loss };
        *self.behind.entry(gap.behind).or_default() += 1;
        self.found.unmarked_gaps += u64::from(!gap.is_marked);
        Some(gap)
    }

    /// Events of a CPU are lost.
    pub fn lost(&mut self, cpu: u16) {
        self.found.losses += 1;
        if let Some(running) = self.running.get_mut(&cpu) {
            running.has_loss = true;
        }
    }

    /// CPUs and the threads that run on them, without CPUs whose last switches may be lost.
    pub fn running(&self) -> impl Iterator<Item = (u16, u32)> {
        let known = self.running.iter().filter(|(_, running)| !running.has_loss);
        known.map(|(cpu, running)| (*cpu, running.thread))
    }

    /// The chains so far. What a thread does later may change the kind of its gaps.
    pub fn found(&self) -> Chains {
        let mut found = self.found.clone();
        for (thread, gaps) in &self.behind {
            if self.leave.contains(thread) {
                found.gaps_behind_others += gaps;
            } else {
                found.gaps_behind_unseen += gaps;
                found.unseen.push(*thread);
            }
        }
        found.unseen.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_chain_has_no_gap() {
        let mut chains = SwitchChains::default();
        for (cpu, old, new) in [(0, 1, 2), (1, 0, 9), (0, 2, 3), (1, 9, 0), (0, 3, 1)] {
            assert_eq!(chains.switched(cpu, old, new), None);
        }
        assert_eq!(chains.found(), Chains { switches: 5, ..Chains::default() });
        let mut running: Vec<_> = chains.running().collect();
        running.sort_unstable();
        assert_eq!(running, [(0, 1), (1, 0)]);
    }

    /// A gap behind a thread is the kernel's if the thread leaves in no switch at all, also in a later one.
    #[test]
    fn gaps_are_told_apart_by_what_their_threads_do_elsewhere() {
        let mut chains = SwitchChains::default();
        chains.switched(0, 1, 7);
        assert_eq!(chains.running().count(), 1);
        chains.lost(0);
        assert_eq!(chains.running().count(), 0, "nobody knows what runs there");
        let gap = Gap { cpu: 0, behind: 7, is_marked: true };
        assert_eq!(chains.switched(0, 2, 8), Some(gap));
        assert_eq!(chains.switched(0, 2, 1), Some(Gap { cpu: 0, behind: 8, is_marked: false }));
        let all = Chains {
            switches: 3,
            losses: 1,
            gaps_behind_unseen: 2,
            unseen: vec![7, 8],
            gaps_behind_others: 0,
            unmarked_gaps: 1,
        };
        assert_eq!(chains.found(), all);
        assert_eq!(chains.switched(1, 8, 0), None, "the first switch of a CPU");
        let later = Chains {
            switches: 4,
            gaps_behind_unseen: 1,
            unseen: vec![7],
            gaps_behind_others: 1,
            ..all
        };
        assert_eq!(chains.found(), later);
    }

    /// A loss on one CPU explains no gap on another one, and none behind the next switch.
    #[test]
    fn a_loss_explains_the_next_gap_of_its_cpu_only() {
        let mut chains = SwitchChains::default();
        chains.switched(0, 1, 2);
        chains.switched(1, 1, 3);
        chains.lost(1);
        assert_eq!(chains.switched(0, 5, 6).map(|gap| gap.is_marked), Some(false));
        assert_eq!(chains.switched(1, 3, 4), None);
        assert_eq!(chains.switched(1, 5, 6).map(|gap| gap.is_marked), Some(false));
        assert_eq!(chains.found().unmarked_gaps, 2);
    }

    #[test]
    fn records_of_other_kinds_do_not_change_the_chains() {
        let payload = [8u8, 0, 0, 0, 7, 0, 0, 0];
        let mut switch = EventRecord::new(HeaderType::PerfInfo64, &payload);
        let mut chains = SwitchChains::default();
        switch.hook = Some(Hook(0x0532));
        chains.add(&switch);
        assert_eq!(chains.found(), Chains::default());
        switch.hook = Some(CSWITCH);
        switch.cpu = 3;
        assert_eq!(chains.add(&switch), None);
        assert_eq!(chains.add(&switch), Some(Gap { cpu: 3, behind: 8, is_marked: false }));
        switch.payload = &payload[..7];
        assert_eq!(chains.add(&switch), None, "too short");
        assert_eq!(chains.found().switches, 2);
    }
}
