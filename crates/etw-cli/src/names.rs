//! Names of processes and threads, from what the kernel's events tell of them.

use etw_decode::{Decoded, Decoder, Field, Style, Value, Visitor};
use etw_etl::read::Records;
use etw_types::{EventRecord, Guid};
use std::collections::HashMap;

/// Microsoft-Windows-Kernel-Process
const KERNEL_PROCESS: Guid = Guid::from_u128(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);
/// Processes and threads of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 20;

/// What is known of a trace's processes and threads.
#[derive(Debug, Default)]
pub struct Names {
    processes: HashMap<u32, String>,
    /// By thread: its process, and its name where it has one.
    threads: HashMap<u32, (u32, Option<String>)>,
}

/// Some fields of an event, as text.
#[derive(Default)]
pub struct Picked {
    wanted: &'static [&'static str],
    found: Vec<Option<String>>,
}

impl Picked {
    /// The fields with these names; `None` where the payload does not fit.
    pub fn of(
        wanted: &'static [&'static str],
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
    ) -> Option<Picked> {
        let mut picked = Picked { wanted, found: vec![None; wanted.len()] };
        decoded.visit(record, &mut picked).ok()?.then_some(picked)
    }

    pub fn text(&self, number: usize) -> Option<&str> {
        self.found.get(number)?.as_deref()
    }

    pub fn number<N: std::str::FromStr>(&self, number: usize) -> Option<N> {
        self.text(number)?.parse().ok()
    }
}

impl Visitor for Picked {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        let place = self.wanted.iter().position(|name| name.eq_ignore_ascii_case(&field.name));
        if let Some(place) = place.filter(|place| self.found[*place].is_none()) {
            let mut text = Vec::new();
            value.write_text(&mut text, &Style::default());
            self.found[place] = Some(String::from_utf8_lossy(&text).into_owned());
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}

impl Names {
    /// What a whole trace tells: rundown comes before and after the rest.
    pub fn gather(mut records: Records, mut decoder: Decoder) -> Names {
        let mut names = Names::default();
        while let Some(record) = records.next() {
            if !Names::may_tell(&record) {
                continue;
            }
            let decoded = decoder.decode(&record);
            names.learn(&record, &decoded);
        }
        names
    }

    /// Whether an event is of those that tell of processes and threads.
    pub fn may_tell(record: &EventRecord<'_>) -> bool {
        match record.hook {
            Some(hook) => matches!(hook.group(), 3 | 5),
            None => record.provider == Some(KERNEL_PROCESS) || record.header.is_classic(),
        }
    }

    /// Takes what an event tells of a process or thread.
    pub fn learn(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        let is_kernel = record.hook.is_some() || record.header.is_classic();
        if !is_kernel {
            if record.provider == Some(KERNEL_PROCESS) && matches!(record.descriptor.id, 1 | 2 | 15)
            {
                self.process(&["ProcessID", "ImageName"], record, decoded);
            }
            return;
        }
        match decoded.event_name() {
            Some(
                "Process/Start" | "Process/DCStart" | "Process/DCEnd" | "Process/Defunct"
                | "Process/End",
            ) => {
                self.process(&["ProcessId", "ImageFileName"], record, decoded);
            }
            Some("Thread/Start" | "Thread/DCStart" | "Thread/DCEnd" | "Thread/End") => {
                let picked = Picked::of(&["TThreadId", "ProcessId", "ThreadName"], record, decoded);
                let Some(picked) = picked else { return };
                if let (Some(thread), Some(process)) = (picked.number(0), picked.number(1))
                    && self.threads.len() < LIMIT
                {
                    let known = self.threads.entry(thread).or_insert((process, None));
                    known.0 = process;
                    if let Some(name) = picked.text(2).filter(|name| !name.is_empty()) {
                        known.1 = Some(name.to_owned());
                    }
                }
            }
            Some("Thread/SetName") => {
                let Some(picked) =
                    Picked::of(&["ThreadId", "ProcessId", "ThreadName"], record, decoded)
                else {
                    return;
                };
                if let (Some(thread), Some(process), Some(name)) =
                    (picked.number(0), picked.number(1), picked.text(2))
                    && self.threads.len() < LIMIT
                {
                    self.threads.insert(thread, (process, Some(name.to_owned())));
                }
            }
            _ => {}
        }
    }

    fn process(
        &mut self,
        fields: &'static [&'static str],
        record: &EventRecord<'_>,
        decoded: &Decoded<'_>,
    ) {
        let Some(picked) = Picked::of(fields, record, decoded) else { return };
        if let (Some(process), Some(name)) = (picked.number(0), picked.text(1))
            && !name.is_empty()
            && self.processes.len() < LIMIT
        {
            // Of a path its last part.
            let name = name.rsplit(['\\', '/']).next().unwrap_or(name);
            self.processes.insert(process, name.to_owned());
        }
    }

    /// The name of a process.
    pub fn process_name(&self, process: u32) -> Option<&str> {
        match process {
            0 => Some("Idle"),
            _ => self.processes.get(&process).map(String::as_str),
        }
    }

    /// The name of a thread.
    pub fn thread_name(&self, thread: u32) -> Option<&str> {
        self.threads.get(&thread)?.1.as_deref()
    }

    /// The process of a thread.
    pub fn process_of(&self, thread: u32) -> Option<u32> {
        self.threads.get(&thread).map(|(process, _)| *process)
    }
}
