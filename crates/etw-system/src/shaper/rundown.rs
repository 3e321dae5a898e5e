//! The beginning and the end of a recording: masks, rundowns, configuration.

use std::collections::BTreeMap;

use super::processes::{Moment, Process, Thread, image_name, system_process};
use super::{Configuration, SYSTEM, Shaper, ticks};
use crate::flags::{Flag, Masks};
use crate::neutral::{Detail, NeutralEvent, ProcessCounters, Stack};
use crate::record::{Head, Payload, ProviderEvent, Records};
use etw_types::Guid;

const HEADER_EXTENSION: u16 = 0x0005;
const RUNDOWN_COMPLETE: u16 = 0x0008;
const END_EXTENSION: u16 = 0x0020;
const COLLECTION_START: u16 = 0x0f49;
const COLLECTION_END: u16 = 0x0f4a;
const IMAGE_AT_END: u16 = 0x1404;
const COUNTERS_RUNDOWN: u16 = 0x0321;
const PHYSICAL_DISK: u16 = 0x0b0b;
const LOGICAL_DISK: u16 = 0x0b0c;
const NETWORK_INTERFACE: u16 = 0x0b0d;
const SERVICES: u16 = 0x0b0f;
const SERVICE_RUNNING: u32 = 4;
/// The names of services' units end so.
const SERVICE: &[u8] = b".service";
/// `KernelEventVersion` of Windows 10.
const KERNEL_EVENT_VERSION: u32 = 0x46;
/// SysConfigEx: merging adds it on Windows.
const SYSTEM_CONFIG_EX: Guid = Guid::from_u128(0x9b79ee91_b5fd_41c0_a243_4248e266e9d0);
const BUILD_INFO: u8 = 32;

/// The moment at which a recording begins or ends.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU of the controller.
    pub cpu: u16,
    /// The process of the controller.
    pub process: u32,
    /// The thread of the controller.
    pub thread: u32,
}

impl Turn {
    fn head(self) -> Head {
        let Turn { time, cpu, process, thread } = self;
        Head { time: ticks(time), cpu, process, thread }
    }
}

/// The flag of a record of the machine's configuration.
fn configured(hook: u16) -> Flag {
    match hook {
        PHYSICAL_DISK | LOGICAL_DISK => Flag::CONFIGURED_STORAGE,
        NETWORK_INTERFACE => Flag::CONFIGURED_NETWORK,
        _ => Flag::CONFIGURED_SYSTEM,
    }
}

fn masks(masks: Masks) -> Payload {
    let all = masks.0.iter().fold(Payload::new(), |payload, word| payload.u32(*word));
    all.u32(KERNEL_EVENT_VERSION)
}

impl Shaper {
    /// Adds the records with which a recording begins.
    pub fn begin(&mut self, turn: Turn, out: &mut Records) {
        out.perf_info(turn.head(), HEADER_EXTENSION, 2, &masks(self.options.masks));
    }

    /// Processes and threads that began before this time are among those that were found, even if their records follow.
    pub fn found_until(&mut self, time: u64) {
        self.found_until = self.found_until.max(time);
    }

    /// All processes of the beginning are known.
    pub(super) fn all_found(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        self.is_found = true;
        self.found_until = self.found_until.max(event.time);
        let head = Head { process: 0, thread: 0, ..self.head(event) };
        self.interval_record(head, COLLECTION_START, out);
        out.perf_info(head, RUNDOWN_COMPLETE, 2, &Payload::new());
    }

    fn interval_record(&mut self, head: Head, hook: u16, out: &mut Records) {
        if self.has(Flag::PROFILE) {
            let interval = self.options.sample_interval;
            let payload = Payload::new().u32(0).u32(interval).u32(interval).wide(b"Timer");
            out.perf_info(head, hook, 3, &payload);
        }
    }

    /// Adds the records with which a recording ends: configuration, and everything that still exists.
    pub fn finish(&mut self, turn: Turn, out: &mut Records) {
        let head = turn.head();
        let Turn { time, cpu, process, thread } = turn;
        let (stack, detail) = (Stack::default(), Detail::AllFound);
        let now = NeutralEvent { time, cpu, process, thread, stack, detail };
        self.complete_creations(&now, out);
        for one in std::mem::take(&mut self.ending).into_iter().filter(|one| !one.is_told) {
            self.ended(&now, one.process, one.thread, out);
        }
        self.process_ids().into_iter().for_each(|process| self.change_user(process, time));
        for Configuration { hook, version, payload } in
            std::mem::take(&mut self.machine.configuration)
        {
            if self.options.masks.has_configuration(configured(hook)) {
                out.system(head, hook, version, &payload);
            }
        }
        if self.options.masks.has_configuration(Flag::CONFIGURED_SERVICES) {
            self.service_records(head, out);
        }
        let [build, product] = std::mem::take(&mut self.machine.product);
        if !build.is_empty() {
            let payload = Payload::new().u64(0).wide(build.as_bytes()).wide(product.as_bytes());
            out.classic(head, SYSTEM_CONFIG_EX, BUILD_INFO, 0, &payload);
        }
        out.perf_info(head, END_EXTENSION, 2, &masks(self.options.masks));
        self.symbols.repeat_files();
        let head = Head { time: out.not_before(head.time), ..head };
        self.waiting_records(time, head, out);
        // Call stacks lead to their events by time and thread.
        let head = Head { time: head.time + 1, ..head };
        self.run_down(head, out);
        self.function_records(head, out);
        self.interval_record(head, COLLECTION_END, out);
        self.run_files_down(head, out);
        out.perf_info(head, HEADER_EXTENSION, 2, &masks(Masks::default()));
        out.perf_info(head, RUNDOWN_COMPLETE, 2, &Payload::new());
    }

    /// Adds a record for each thread that has left its CPU and has not come back, with the stack with which it left: a switch has the
    /// stack of the thread that comes back. If events were lost since, it may have come back unseen.
    fn waiting_records(&mut self, now: u64, head: Head, out: &mut Records) {
        if !self.has(Flag::SWITCH) {
            return;
        }
        let is_off = |(id, one): &(&u32, &Thread)| **id != 0 && one.out_since > 0;
        let mut off: Vec<u32> = self.threads.iter().filter(is_off).map(|(id, _)| *id).collect();
        off.sort_unstable();
        for thread in off {
            let Some(one) = self.threads.get(&thread) else { continue };
            let may_have_run = self.last_loss >= one.out_since;
            let payload = Payload::new().u64(now.saturating_sub(one.out_since));
            let payload = payload.bytes(&[u8::from(may_have_run)]);
            let head = Head { process: one.process, thread, ..head };
            out.event(head, ProviderEvent::Waiting, &payload);
            self.add_stack_of_switch(head, out);
        }
    }

    /// Adds a record for each service: that of its first process.
    fn service_records(&self, head: Head, out: &mut Records) {
        let mut services: BTreeMap<&[u8], &Process> = BTreeMap::new();
        for process in self.processes.values() {
            let unit = process.facts.exec.unit.as_deref().unwrap_or_default();
            if !unit.ends_with(SERVICE) {
                continue;
            }
            let first = services.entry(unit).or_insert(process);
            let age = |one: &Process| (one.facts.start, one.facts.id);
            if age(process) < age(first) {
                *first = process;
            }
        }
        for (unit, process) in services {
            let payload = Payload::new()
                .u32(process.id())
                .u32(SERVICE_RUNNING)
                .u32(0)
                .wide(unit)
                .wide(unit)
                .wide(image_name(&process.facts, process.id()))
                .wide(&[])
                .wide(&[]);
            out.system(head, SERVICES, 3, &payload);
        }
    }

    fn run_down(&mut self, head: Head, out: &mut Records) {
        let mut processes: Vec<_> = std::mem::take(&mut self.processes).into_values().collect();
        // The idle process, the kernel's threads, the rest.
        processes.sort_by_key(|one| (one.facts.id != 0, !one.facts.is_kernel, one.facts.id));
        let has_idle = processes.first().is_some_and(|one| one.facts.id == 0);
        let mut is_system_due = has_idle && !self.machine.is_container;
        let system = Head { process: SYSTEM, thread: 0, ..head };
        for process in &processes {
            if is_system_due && process.facts.id != 0 && !process.facts.is_kernel {
                is_system_due = false;
                self.process_record(system, Moment::After, &system_process(), out);
            }
            self.run_process_down(head, process, out);
        }
        if is_system_due {
            self.process_record(system, Moment::After, &system_process(), out);
        }
    }

    fn run_process_down(&mut self, head: Head, process: &Process, out: &mut Records) {
        let id = process.id();
        let mut threads = process.threads.clone();
        threads.sort_unstable();
        for number in threads {
            let Some(thread) = self.threads.remove(&number) else { continue };
            let head = Head { process: id, thread: number, ..head };
            self.thread_record(head, Moment::After, number, &thread, out);
        }
        let head = Head { process: id, thread: 0, ..head };
        if id == 0 {
            for cpu in std::mem::take(&mut self.idle_cpus) {
                self.thread_record(Head { cpu, ..head }, Moment::After, 0, &Thread::default(), out);
            }
        }
        if !process.facts.is_kernel {
            if let Some(counters) = self.counters.remove(&process.facts.id) {
                self.counters_record(head, id, &counters, out);
            }
            self.process_record(head, Moment::After, process, out);
        }
        for image in process.images.values() {
            self.image_record(head, IMAGE_AT_END, id, image, out);
        }
    }

    fn counters_record(
        &mut self,
        head: Head,
        process: u32,
        counters: &ProcessCounters,
        out: &mut Records,
    ) {
        if !self.has(Flag::COUNTERS) {
            return;
        }
        let ProcessCounters { faults, descriptors, peak_virtual, peak_resident, .. } = *counters;
        let ProcessCounters { virtual_size, resident, swapped, private, .. } = *counters;
        let payload = Payload::new()
            .u32(process)
            .u32(faults)
            .u32(descriptors)
            .u32(0)
            .u64s(&[peak_virtual, peak_resident, swapped, 0, 0])
            .u64s(&[virtual_size, resident, swapped, 0, 0, private]);
        out.perf_info(head, COUNTERS_RUNDOWN, 2, &payload);
    }
}
