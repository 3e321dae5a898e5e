//! Attribution: the process and thread to which an event belongs.
//!
//! An event of a provider belongs to the process that wrote it. A kernel event is recorded on whatever thread runs: a CPU
//! sample, a context switch, a stack or a disk transfer belongs to the thread that its payload names, and through the
//! thread to a process.

use etw_types::{EventRecord, Hook, le};
use std::collections::HashMap;

/// Threads of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 20;

/// The process and thread to which an event belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    pub process: Option<u32>,
    pub thread: Option<u32>,
}

impl Owner {
    /// The ids that the record's header stores. Windows stores 4294967295 if there is none.
    fn of_header(record: &EventRecord<'_>) -> Owner {
        let known = |id: &u32| *id != u32::MAX;
        Owner { process: record.process_id.filter(known), thread: record.thread_id.filter(known) }
    }
}

/// The process of each thread, by time: a system reuses thread ids.
#[derive(Debug, Default)]
pub struct ThreadTable {
    /// Lives of each id, in the order in which they became known.
    lives: HashMap<u32, Vec<Life>>,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Life {
    file_index: u32,
    /// Raw time of the thread's start; the smallest time if the trace started later.
    start: i64,
    process: u32,
}

impl ThreadTable {
    /// Notes a thread that `record` names; `is_start`: it starts with this record.
    pub fn add(&mut self, record: &EventRecord<'_>, thread: u32, process: u32, is_start: bool) {
        let file_index = record.position.file_index;
        let start = if is_start { record.order_time } else { i64::MIN };
        let lives = self.lives.entry(thread).or_default();
        // Rundown at the end repeats a thread that is known; a late start of an unknown one does not change it.
        let is_known = |life: &Life| life.process == process && (!is_start || life.start == start);
        if self.count < LIMIT && !lives.iter().any(is_known) {
            self.count += 1;
            lives.push(Life { file_index, start, process });
        }
    }

    /// The process of a thread at the time of a record.
    pub fn process_at(&self, record: &EventRecord<'_>, thread: u32) -> Option<u32> {
        let lives = self.lives.get(&thread)?;
        let has_begun = |life: &&Life| {
            life.file_index == record.position.file_index && life.start <= record.order_time
        };
        let life = lives.iter().filter(has_begun).max_by_key(|life| life.start);
        life.or_else(|| lives.first()).map(|life| life.process)
    }

    /// The process of a thread at any time: the last one known.
    pub fn process_of(&self, thread: u32) -> Option<u32> {
        Some(self.lives.get(&thread)?.last()?.process)
    }

    /// The owner of an event.
    pub fn owner(&self, record: &EventRecord<'_>) -> Owner {
        let Some(hook) = record.hook else { return Owner::of_header(record) };
        match named_owner(hook, record) {
            Named::Thread(thread) => {
                // Thread 0 is the idle thread of each CPU.
                let process = if thread == 0 { Some(0) } else { self.process_at(record, thread) };
                Owner { process, thread: Some(thread) }
            }
            Named::Both(process, thread) => Owner { process: Some(process), thread: Some(thread) },
            Named::Interrupt => Owner::default(),
            Named::None => {
                let header = Owner::of_header(record);
                let process = || self.process_at(record, header.thread?);
                Owner { process: header.process.or_else(process), ..header }
            }
        }
    }
}

/// The owner that a kernel record's payload names.
enum Named {
    Thread(u32),
    Both(u32, u32),
    /// A DPC or an interrupt: it runs on a thread and belongs to none.
    Interrupt,
    None,
}

/// Offsets as the kernel classes have them (`etw-decode/src/kernel.txt`).
fn named_owner(hook: Hook, record: &EventRecord<'_>) -> Named {
    let (payload, pointer) = (record.payload, usize::from(record.pointer_size));
    let thread_at = |offset: usize| le::u32(payload, offset).map_or(Named::None, Named::Thread);
    match hook.0 {
        // PerfInfo/SampleProf: behind the instruction pointer.
        0x0f2e => thread_at(pointer),
        // PerfInfo: threaded DPC, ISR, DPC, timer DPC.
        0x0f42..=0x0f45 => Named::Interrupt,
        // Thread/CSwitch: the new thread; Thread/ReadyThread.
        0x0524 | 0x0532 => thread_at(0),
        // StackWalk/Stack.
        0x1820 => match (le::u32(payload, 8), le::u32(payload, 12)) {
            (Some(process), Some(thread)) => Named::Both(process, thread),
            _ => Named::None,
        },
        // PageFault/HardFault.
        0x0220 => thread_at(16 + 2 * pointer),
        // DiskIo of version 3: Read and Write, their Inits, FlushBuffers.
        0x010a | 0x010b | 0x0137 | 0x0138 if record.descriptor.version >= 3 => {
            thread_at(32 + 2 * pointer)
        }
        0x010c | 0x010d | 0x010f | 0x013a..=0x013c if record.descriptor.version >= 3 => {
            thread_at(pointer)
        }
        0x010e | 0x0139 if record.descriptor.version >= 3 => thread_at(16 + pointer),
        _ => Named::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::HeaderType;

    fn record(hook: u16, version: u8, time: i64, payload: &[u8]) -> EventRecord<'_> {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        record.descriptor.version = version;
        record.order_time = time;
        record
    }

    #[test]
    fn a_sample_belongs_to_the_thread_in_its_payload_at_its_time() {
        let mut threads = ThreadTable::default();
        threads.add(&record(0x0503, 3, 5, &[]), 7, 100, false);
        threads.add(&record(0x0501, 3, 50, &[]), 7, 200, true);
        threads.add(&record(0x0504, 3, 90, &[]), 7, 200, false);
        let sample = [&8u64.to_le_bytes()[..], &7u32.to_le_bytes(), &[0; 4]].concat();
        let at = |time| threads.owner(&record(0x0f2e, 2, time, &sample));
        assert_eq!(at(10), Owner { process: Some(100), thread: Some(7) });
        assert_eq!(at(60), Owner { process: Some(200), thread: Some(7) });
        assert_eq!(threads.process_of(7), Some(200));
    }

    #[test]
    fn idle_time_is_process_0_and_a_dpc_has_no_owner() {
        let threads = ThreadTable::default();
        assert_eq!(threads.owner(&record(0x0524, 2, 1, &[0; 24])).process, Some(0));
        assert_eq!(threads.owner(&record(0x0f44, 2, 1, &[0; 16])), Owner::default());
    }

    #[test]
    fn the_header_decides_for_events_of_providers() {
        let mut event = EventRecord::new(HeaderType::Event64, &[]);
        (event.process_id, event.thread_id) = (Some(4), Some(u32::MAX));
        let owner = ThreadTable::default().owner(&event);
        assert_eq!(owner, Owner { process: Some(4), thread: None });
    }

    #[test]
    fn malicious_payloads_have_no_owner() {
        for hook in 0..=u16::MAX {
            let _ = ThreadTable::default().owner(&record(hook, 3, 0, &[1, 2, 3]));
        }
    }
}
