//! Programs that the kernel hides from this user from the moment on at which a recorded process executes them: those with a set-user-ID bit,
//! for example. Their process leaves the recording with a record as at its end, and runs on.

use std::collections::HashSet;

use super::Recorder;
use crate::neutral::Detail;
use crate::perf::Target;
use crate::process_files::{is_running, runs_on};
use crate::recorder::rundown::Giver;
use crate::shaper::Turn;

/// Processes that are remembered.
const LIMIT: usize = 1 << 12;

/// Processes with hidden programs.
#[derive(Debug, Default)]
pub(super) struct HiddenPrograms {
    running: Vec<u32>,
    /// Those that have ended, too.
    pub count: u64,
    /// Processes that have just executed a program, of whose code nothing is mapped yet: if this is their last record, it is hidden.
    unmapped: HashSet<u32>,
}

impl HiddenPrograms {
    /// Whether a record of the end of a thread is that of a process that runs on, or ran on until now.
    pub fn take(&mut self, target: Target, process: u32, thread: u32) -> bool {
        let is_hidden = matches!(target, Target::Tree(_))
            && process == thread
            && self.running.len() < LIMIT
            && (self.unmapped.remove(&process) || runs_on(process));
        if is_hidden && !self.running.contains(&process) {
            self.running.push(process);
            self.count += 1;
        }
        is_hidden
    }

    /// A process executes a program whose records are shown: its record of an end was that of its first thread, in place of which another
    /// one executes the program. A program that is hidden is executed before that record.
    pub fn show(&mut self, process: u32) {
        let before = self.running.len();
        self.running.retain(|one| *one != process);
        self.count -= (before - self.running.len()) as u64;
        if self.unmapped.len() < LIMIT {
            self.unmapped.insert(process);
        }
    }

    /// The code of a process's program is shown.
    pub fn mapped(&mut self, process: u32) {
        if !self.unmapped.is_empty() {
            self.unmapped.remove(&process);
        }
    }
}

impl Recorder {
    /// Ends the processes with hidden programs that have ended since the last look, at a time in nanoseconds.
    pub(super) fn end_hidden(&mut self, time: u64) {
        let Recorder { hidden, shaper, out, .. } = self;
        hidden.running.retain(|process| {
            if is_running(*process) {
                return true;
            }
            let turn = Turn { time, cpu: 0, process: *process, thread: *process };
            let detail = Detail::Exit { process: *process, thread: *process };
            Giver { shaper, out, turn }.event(detail);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_runs_on_has_not_ended() {
        let mut program = Command::new("sleep").arg("60").spawn().unwrap();
        let process = program.id();
        let tree = Target::Tree(process);
        let mut hidden = HiddenPrograms::default();
        assert!(hidden.take(tree, process, process));
        assert!(hidden.take(tree, process, process), "it executes another one");
        assert!(!hidden.take(tree, process, process + 1), "one of its threads has ended");
        assert!(!hidden.take(Target::Machine, process, process), "nothing is hidden from root");
        assert_eq!((hidden.count, &hidden.running[..]), (1, &[process][..]));
        // Another thread than the first one executes a program.
        hidden.show(process + 1);
        assert_eq!(hidden.count, 1);
        hidden.show(process);
        hidden.mapped(process);
        assert_eq!((hidden.count, &hidden.running[..]), (0, &[][..]));
        program.kill().unwrap();
        while is_running(process) {
            std::thread::yield_now();
        }
        assert!(!hidden.take(tree, process, process), "its program was shown to the end");
        program.wait().unwrap();
        assert!(!hidden.take(tree, process, process));
        // It executes a program with a set-user-ID bit, which ends at once.
        hidden.show(process);
        assert!(hidden.take(tree, process, process));
        assert_eq!((hidden.count, &hidden.running[..]), (1, &[process][..]));
    }
}
