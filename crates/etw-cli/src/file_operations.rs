//! Operations on files: a record of its end names an operation by its IRP alone, and the record of its start names the thread.

use crate::attribution::ThreadTable;
use etw_decode::kernel_pointer_size;
use etw_types::{EventRecord, Hook, le};
use std::collections::BTreeMap;

/// FileIo/OperationEnd
const END: Hook = Hook(0x044c);
/// FileIo: Create to FSControl, DirNotify, and those with paths.
const STARTS: [std::ops::RangeInclusive<u16>; 3] =
    [0x0440..=0x044b, 0x044d..=0x044d, 0x044f..=0x0451];
/// Operations of a trace; those past this many are left out.
const LIMIT: usize = 1 << 20;

/// Threads of operations.
#[derive(Debug, Default)]
pub struct FileOperations {
    /// By file, IRP and raw time of the start: a system reuses IRPs.
    threads: BTreeMap<(u32, u64, i64), u32>,
}

impl FileOperations {
    /// Whether an operation starts.
    pub fn is_start(hook: Hook) -> bool {
        STARTS.iter().any(|all| all.contains(&hook.0))
    }

    /// Notes the thread of an operation that starts.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        let Some(hook) = record.hook.filter(|hook| FileOperations::is_start(*hook)) else { return };
        // Read and Write have an offset before it.
        let offset = if matches!(hook.0, 0x0443 | 0x0444) { 8 } else { 0 };
        if let Some(irp) = irp(record, offset)
            && let Some(thread) = ThreadTable::named_thread(record)
            && self.threads.len() < LIMIT
        {
            self.threads.insert((record.position.file_index, irp, record.order_time), thread);
        }
    }

    /// The thread of an operation that ends.
    pub fn thread_of(&self, record: &EventRecord<'_>) -> Option<u32> {
        if self.threads.is_empty() || record.hook != Some(END) {
            return None;
        }
        let (file, irp) = (record.position.file_index, irp(record, 0)?);
        let mut starts = self.threads.range((file, irp, i64::MIN)..=(file, irp, record.order_time));
        starts.next_back().map(|(_, thread)| *thread)
    }
}

fn irp(record: &EventRecord<'_>, offset: usize) -> Option<u64> {
    match kernel_pointer_size(record) {
        4 => le::u32(record.payload, offset).map(u64::from),
        _ => le::u64(record.payload, offset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::HeaderType;

    fn record(hook: u16, time: i64, payload: &[u8]) -> EventRecord<'_> {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        record.descriptor.version = 3;
        (record.pointer_size, record.order_time) = (8, time);
        record
    }

    #[test]
    fn an_operation_ends_on_the_thread_that_started_it() {
        let mut operations = FileOperations::default();
        let read = |thread: u32| {
            [&[0; 8][..], &7u64.to_le_bytes(), &[0; 16], &thread.to_le_bytes(), &[0; 12]].concat()
        };
        let close = [&8u64.to_le_bytes()[..], &[0; 16], &30u32.to_le_bytes()].concat();
        operations.learn(&record(0x0443, 10, &read(20)));
        operations.learn(&record(0x0443, 50, &read(21)));
        operations.learn(&record(0x0442, 60, &close));
        let end = |irp: u64, time| {
            operations.thread_of(&record(
                0x044c,
                time,
                &[&irp.to_le_bytes()[..], &[0; 12]].concat(),
            ))
        };
        assert_eq!((end(7, 9), end(7, 11), end(7, 51)), (None, Some(20), Some(21)));
        assert_eq!((end(8, 61), end(9, 61)), (Some(30), None));
        assert_eq!(operations.thread_of(&record(0x0443, 70, &read(20))), None);
    }

    #[test]
    fn malicious_payloads_are_no_operations() {
        let mut operations = FileOperations::default();
        for size in 0..8 {
            operations.learn(&record(0x0442, 1, &[0; 8][..size]));
            assert_eq!(operations.thread_of(&record(0x044c, 1, &[0; 8][..size])), None);
        }
        assert!(operations.threads.is_empty());
    }
}
