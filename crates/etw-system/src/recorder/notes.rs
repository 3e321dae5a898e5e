//! A recording says how it was made, and lists what it lacks.

use super::Recorder;
use crate::shaper::Machine;

/// Says that the trace has no image of the kernel.
pub(super) fn of_kernel(machine: &Machine) -> Option<String> {
    let is_kernel = |name: &[u8]| name == crate::kernel_image::KERNEL.as_bytes();
    let has_kernel = machine.images.iter().any(|image| is_kernel(&image.path));
    (!has_kernel).then(|| {
        "functions of the kernel have no names: its addresses need CAP_SYSLOG and kernel.kptr_restrict below 2".to_owned()
    })
}

impl Recorder {
    /// Sentences that say what was left out so far, with the right that would include it.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let count = self.shaper.programs_without_arguments();
        if count > 0 {
            let remedy = match self.has_arguments {
                true => "",
                false => "; with CAP_BPF and CAP_PERFMON the kernel records them",
            };
            notes.push(format!(
                "missing command lines: {count}, of programs that ended before the host read them{remedy}"
            ));
        }
        notes
    }

    /// By which mechanisms of the kernel it records: `perf`, and the tracepoints that programs record.
    pub fn mechanism(&self) -> String {
        let Some(programs) = self.perf.programs() else { return "perf".to_owned() };
        let names: Vec<&str> = programs.points().iter().map(|point| point.name()).collect();
        format!("perf; bpf: {}", names.join(", "))
    }
}
