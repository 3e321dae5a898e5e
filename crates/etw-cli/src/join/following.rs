//! Names of a stream, in which each record is asked about as it comes.

use super::processes::ProcessNames;
use super::{KERNEL_PROCESS, Names};
use crate::attribution::ThreadTable;
use crate::running_threads::RunningThreads;
use etw_decode::Decoder;
use etw_types::{EventRecord, Hook};

impl Names {
    /// Names of a stream, in which each record is asked about as it comes: [`follow`](Names::follow).
    pub fn of_stream() -> Names {
        Names {
            processes: ProcessNames::of_stream(),
            threads: ThreadTable::of_stream(),
            running: RunningThreads::of_stream(),
            ..Names::default()
        }
    }

    /// Learns from a record of a stream who owns it and those behind it.
    pub fn follow(&mut self, record: &EventRecord<'_>, decoder: &mut Decoder) {
        const SWITCH: u16 = 0x0524;
        const READY: u16 = 0x0532;
        self.running.learn(record);
        let is_life =
            |hook: Hook| matches!(hook.group(), 3 | 5) && !matches!(hook.0, SWITCH | READY);
        if record.hook.is_some_and(is_life) || record.provider == Some(KERNEL_PROCESS) {
            let decoded = decoder.decode(record);
            self.learn(record, &decoded);
        }
    }
}
