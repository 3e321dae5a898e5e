//! Rings, as a process leaves them to the next one.

use std::os::fd::OwnedFd;

use crate::perf::Tracepoint;

/// Facts about a ring, by which another process can continue with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingFacts {
    /// Bytes of its data.
    pub size: usize,
    /// It is one of processes and mappings.
    pub is_side: bool,
    /// The CPU whose events it has; `None`: it is no ring of one CPU.
    pub cpu: Option<u16>,
    /// The CPU has gone offline: the events record nothing, also if it comes back.
    pub is_offline: bool,
    /// The machine is recorded, not one process with its children.
    pub is_machine: bool,
    /// The tracepoints whose programs in the kernel fill it; empty: perf events fill it.
    pub programs: Vec<Tracepoint>,
    /// It is no ring: the losses that the ledger has are there.
    pub is_told: bool,
}

/// A ring that a process left which was killed.
#[derive(Debug)]
pub struct LeftRing {
    /// Its facts.
    pub facts: RingFacts,
    /// Its events, in the order of [`Recorder::rings`](crate::Recorder::rings).
    pub events: Vec<OwnedFd>,
}

/// The CPUs that the events of an earlier process record. `None`: it did not say so.
pub(crate) fn recorded_cpus<'f>(rings: impl Iterator<Item = &'f RingFacts>) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for ring in rings.filter(|ring| ring.programs.is_empty()) {
        let cpu = ring.cpu?;
        if !ring.is_offline && !cpus.contains(&cpu) {
            cpus.push(cpu);
        }
    }
    cpus.sort_unstable();
    Some(cpus)
}
