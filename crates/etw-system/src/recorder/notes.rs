//! A recording says how it was made, and lists what it lacks.

use super::Recorder;
use crate::kernel_image::{NO_KERNEL, has_kernel};
use crate::perf::{Missing, bpf};
use crate::shaper::{MAX_FRAMES, Machine};

/// Says that the trace has no image of the kernel.
pub(super) fn of_kernel(machine: &Machine) -> Option<String> {
    (!has_kernel(&machine.images)).then(|| NO_KERNEL.to_owned())
}

impl Recorder {
    /// The facts that the trace lacks so far: arguments of programs, calls of 32 bits, operations that programs handed to the kernel, hidden
    /// programs, descriptors that were closed too soon, outer frames of call stacks, exit statuses, ends of command lines.
    pub(super) fn missing(&self) -> Missing {
        let Recorder { shaper, hidden, sources, stacks, missing_before, .. } = self;
        let [arguments, of_32_bits, submitted, of_hidden, closed, cut, statuses, long] =
            *missing_before;
        [
            arguments + shaper.programs_without_arguments(),
            of_32_bits + shaper.calls_of_32_bits(),
            submitted + shaper.submitted_operations(),
            of_hidden + hidden.count,
            closed + sources.closed_descriptors,
            cut + shaper.cut_stacks() + stacks.cut,
            statuses + shaper.ends_without_status(),
            long + shaper.cut_command_lines(),
        ]
    }

    /// Sentences that say what was left out so far, with the right that would include it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let [arguments, of_32_bits, submitted, hidden, closed, cut, statuses, long] =
            self.missing();
        let count = arguments;
        if count > 0 {
            let condition = if self.has_arguments { None } else { bpf::unmet_condition() };
            let remedy = condition.map(|it| format!("; {it}, BPF programs record them"));
            let remedy = remedy.unwrap_or_default();
            notes.push(format!(
                "missing command lines: {count}, of programs that ended before the host read them{remedy}"
            ));
        }
        if long > 0 {
            notes.push(format!(
                "missing ends of command lines in {long} events: an event holds less than 64 KiB, and less than a buffer of the session"
            ));
        }
        let count = of_32_bits;
        if count > 0 {
            notes.push(format!(
                "missing system calls: {count}, of 32 bits, whose numbers are others; their operations on files and memory are missing, too"
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
        if cut > 0 {
            notes.push(format!(
                "missing outer frames of {cut} call stacks: an event holds {MAX_FRAMES}, and the kernel follows kernel.perf_event_max_stack frame pointers"
            ));
        }
        if statuses > 0 {
            notes.push(format!(
                "missing exit statuses: {statuses}, because the kernel's reports were lost or came too late; they are 0 in the trace"
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
