//! A recording says how it was made, and lists what it lacks.

use super::Recorder;
use crate::kernel_image::{NO_KERNEL, has_kernel};
use crate::perf::Missing;
use crate::shaper::Machine;

/// Says that the trace has no image of the kernel.
pub(super) fn of_kernel(machine: &Machine) -> Option<String> {
    (!has_kernel(&machine.images)).then(|| NO_KERNEL.to_owned())
}

impl Recorder {
    /// The facts that the trace lacks so far: arguments of programs, calls of 32-bit programs, operations that programs handed to the kernel, hidden
    /// programs, descriptors that were closed too soon.
    pub(super) fn missing(&self) -> Missing {
        let Recorder { shaper, hidden, sources, missing_before, .. } = self;
        let [arguments, of_32_bits, submitted, of_hidden, closed] = *missing_before;
        [
            arguments + shaper.programs_without_arguments(),
            of_32_bits + shaper.calls_of_32_bits(),
            submitted + shaper.submitted_operations(),
            of_hidden + hidden.count,
            closed + sources.closed_descriptors,
        ]
    }

    /// Sentences that say what was left out so far, with the right that would include it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let [arguments, of_32_bits, submitted, hidden, closed] = self.missing();
        let count = arguments;
        if count > 0 {
            let remedy = match self.has_arguments {
                true => "",
                false => "; with CAP_BPF and CAP_PERFMON the kernel records them",
            };
            notes.push(format!(
                "missing command lines: {count}, of programs that ended before the host read them{remedy}"
            ));
        }
        let count = of_32_bits;
        if count > 0 {
            notes.push(format!(
                "missing system calls: {count}, of 32-bit programs, whose numbers of calls are others; their operations on files and memory are missing, too"
            ));
        }
        let count = submitted;
        if count > 0 && self.has_operations {
            notes.push(format!(
                "missing operations on files: {count}, which programs handed to the kernel by io_submit or io_uring_enter; only the programs' memory describes them"
            ));
        }
        let count = hidden;
        if count > 0 {
            notes.push(format!(
                "missing events of programs that this user may not record, such as those with a set-user-ID bit: {count} were executed; the trace has when their processes began, and to 50 ms when they ended; root or CAP_PERFMON records them"
            ));
        }
        let count = closed;
        if count > 0 {
            notes.push(format!(
                "missing operations on {count} descriptors that were closed before the host looked at them: the trace does not know whether they were files"
            ));
        }
        notes
    }

    /// Whether what happens in the kernel is recorded.
    pub fn has_kernel(&self) -> bool {
        self.has_kernel
    }

    /// By which mechanisms of the kernel it records: `perf`, and the tracepoints that programs record.
    pub fn mechanism(&self) -> String {
        let Some(programs) = self.perf.programs() else { return "perf".to_owned() };
        let names: Vec<&str> = programs.points().iter().map(|point| point.name()).collect();
        format!("perf; bpf: {}", names.join(", "))
    }
}
