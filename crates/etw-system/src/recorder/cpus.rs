//! CPUs that come and go while a recording runs.

use super::Recorder;
use super::rundown::Giver;
use crate::clocks::now;
use crate::neutral::Detail;
use crate::perf::{Gap, Target};
use crate::process_files::has_ended;
use crate::shaper::Turn;

/// Ends of threads that no record shows.
#[derive(Debug, Default)]
pub(super) struct UnseenEnds {
    /// Perf records a CPU since this time, in nanoseconds: threads that lived before may have ended on it.
    due: Option<u64>,
    /// Threads that had ended at this time, but by the records up to an earlier one.
    suspects: Option<(u64, Vec<u32>)>,
}

impl Recorder {
    /// Finds the CPUs that went offline and came back while no process recorded: their events record nothing, not even the name that a
    /// thread gets. They are opened again like those of a CPU that comes online.
    pub(super) fn find_silent_cpus(&mut self) {
        if self.target != Target::Machine {
            return;
        }
        for cpu in self.cpus.clone() {
            let Some(before) = self.perf.end_of_side(cpu) else { continue };
            if rename_on(cpu) && self.perf.end_of_side(cpu) == Some(before) {
                self.perf.remove_cpu(cpu);
                self.cpus.retain(|one| *one != cpu);
            }
        }
    }

    /// Records the CPUs that have come online. The perf events that were opened before a CPU went offline deliver no more records, so they
    /// are opened again. The trace marks that the CPU's chain of switches starts again.
    pub(super) fn follow_cpus(&mut self, online: Vec<u16>) {
        let came: Vec<u16> =
            online.iter().filter(|cpu| !self.cpus.contains(cpu)).copied().collect();
        for cpu in self.cpus.iter().filter(|cpu| !online.contains(cpu)) {
            self.perf.remove_cpu(*cpu);
        }
        self.cpus = online;
        for cpu in came {
            if let Err(error) = self.perf.add_cpu(cpu) {
                self.notes.push(format!("CPU {cpu} came online and is left out: {error}"));
            }
            // All that the CPU did before is missing.
            let until = now();
            self.perf.add_gap(Gap { from: self.last_look, until });
            self.unseen_ends.due = Some(until);
            self.add_unknown(1);
            let turn = Turn { time: self.watermark, cpu, process: 0, thread: 0 };
            let mut give = Giver { shaper: &mut self.shaper, out: &mut self.out, turn };
            give.event(Detail::Lost { count: 1 });
            if !self.known_cpus.contains(&cpu) {
                self.known_cpus.push(cpu);
                if self.target == Target::Machine {
                    give.idle_thread();
                }
            }
        }
    }
}

impl Recorder {
    /// Ends the threads that ended on a CPU that was not recorded yet: they live by the records, and not in the system.
    pub(super) fn end_unseen(&mut self) {
        let UnseenEnds { due, suspects } = &mut self.unseen_ends;
        if let Some((_, threads)) = suspects.take_if(|(time, _)| *time < self.watermark) {
            let turn = Turn { time: self.watermark, cpu: 0, process: 0, thread: 0 };
            let mut give = Giver { shaper: &mut self.shaper, out: &mut self.out, turn };
            // An id may have been used again.
            for thread in threads.into_iter().filter(|thread| has_ended(*thread)) {
                give.event(Detail::Vanished { thread });
            }
        }
        if due.take_if(|time| *time < self.watermark).is_some() {
            let time = now();
            let mut threads = self.shaper.thread_ids();
            threads.retain(|thread| has_ended(*thread));
            *suspects = Some((time, threads));
        }
    }
}

/// Gives this thread its name once more, on a CPU. Returns whether it ran there. Another thread would have to wait for its turn on a busy CPU.
fn rename_on(cpu: u16) -> bool {
    // A set has so many CPUs.
    if usize::from(cpu) >= 8 * size_of::<libc::cpu_set_t>() {
        return false;
    }
    let mut name = [0u8; 16];
    // SAFETY: sets of this call's own, of their own size, and memory for a name, which has 16 bytes at most; this thread gets its CPUs back.
    unsafe {
        let (mut before, mut set): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        libc::CPU_SET(usize::from(cpu), &mut set);
        if libc::sched_getaffinity(0, size, &raw mut before) != 0
            || libc::sched_setaffinity(0, size, &raw const set) != 0
        {
            return false;
        }
        let is_named = libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) == 0
            && libc::prctl(libc::PR_SET_NAME, name.as_ptr()) == 0;
        let was_there = libc::sched_getcpu() == libc::c_int::from(cpu);
        libc::sched_setaffinity(0, size, &raw const before);
        is_named && was_there
    }
}
