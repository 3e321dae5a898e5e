//! Trimming: the start of a buffer that a session in memory has overwritten.

use etw_types::Guid;

use crate::buffer::{Buffer, HEADER_SIZE, TRIMMED};
use crate::recover::{is_report, own_records};

impl<B: AsRef<[u8]> + AsMut<[u8]>> Buffer<B> {
    /// Overwrites the records at the start that are earlier than `until`; the number of events, without reports of the provider
    /// `reports`.
    pub fn trim(&mut self, until: i64, reports: &Guid) -> u64 {
        let start = HEADER_SIZE + self.trimmed;
        let (mut size, mut trimmed) = (0, 0);
        for (record, time) in own_records(&self.memory.as_ref()[start..self.filled]) {
            if time >= until {
                self.first_time = time;
                break;
            }
            let is_counted = !is_report(record, reports);
            self.reports -= u64::from(!is_counted);
            self.events -= 1;
            trimmed += u64::from(is_counted);
            size += record.len();
        }
        self.trimmed += size;
        TRIMMED.put(self.memory.as_mut(), self.trimmed as u64);
        trimmed
    }
}
