//! The time between two CPU samples, as the records of a trace name it.
//!
//! The record may be behind the samples: a circular file has lost the one at its start, and a flight recorder's is in the rundown at the end.

use etw_types::{EventRecord, Hook, le};
use std::collections::BTreeMap;

/// PerfInfo: `SetInterval`, `CollectionStart`, `CollectionEnd`.
const SET: u16 = 0x0f48;
const NAMES_INTERVAL: std::ops::RangeInclusive<u16> = SET..=0x0f4a;
/// The source of samples by time.
const TIMER: u32 = 0;
/// Records of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 16;

/// The intervals of a trace's samples, in nanoseconds.
#[derive(Debug, Default)]
pub struct SampleIntervals {
    /// By file and raw time: the interval from then on, and the one until then.
    changes: BTreeMap<(u32, i64), (i64, i64)>,
}

impl SampleIntervals {
    /// Whether a record names the interval.
    pub fn is_named_by(record: &EventRecord<'_>) -> bool {
        record.hook.is_some_and(|hook| NAMES_INTERVAL.contains(&hook.0))
    }

    /// Notes the interval of a record that names one: `u32` source, `u32` new interval, `u32` old interval, of 100 ns.
    pub fn learn(&mut self, record: &EventRecord<'_>) {
        if !SampleIntervals::is_named_by(record) || le::u32(record.payload, 0) != Some(TIMER) {
            return;
        }
        let nanoseconds =
            |offset| Some(i64::from(le::u32(record.payload, offset)?) * 100).filter(|one| *one > 0);
        let Some(new) = nanoseconds(4) else { return };
        let old = nanoseconds(8).filter(|_| record.hook == Some(Hook(SET))).unwrap_or(new);
        if self.changes.len() < LIMIT {
            self.changes.insert((record.position.file_index, record.order_time), (new, old));
        }
    }

    /// The interval at the time of a sample; `None`: no record of its file names one.
    pub fn at(&self, sample: &EventRecord<'_>) -> Option<i64> {
        let file = sample.position.file_index;
        let time = sample.order_time;
        let before = self.changes.range((file, i64::MIN)..=(file, time)).next_back();
        let behind = || self.changes.range((file, time)..=(file, i64::MAX)).next();
        before.map(|(_, (new, _))| *new).or_else(|| behind().map(|(_, (_, old))| *old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::HeaderType;

    fn record(hook: u16, (file, time): (u32, i64), payload: &[u8]) -> EventRecord<'_> {
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(Hook(hook));
        (record.position.file_index, record.order_time) = (file, time);
        record
    }

    #[test]
    fn a_sample_has_the_interval_of_its_file_at_its_time() {
        let mut intervals = SampleIntervals::default();
        let mut learn = |hook, at, words: [u32; 3]| {
            intervals.learn(&record(hook, at, &words.map(u32::to_le_bytes).concat()));
        };
        learn(0x0f48, (0, 50), [0, 5000, 2500]);
        learn(0x0f4a, (0, 90), [0, 5000, 1]);
        learn(0x0f49, (0, 60), [1, 7, 7]);
        learn(0x0f49, (0, 70), [0, 0, 0]);
        learn(0x0f4a, (1, 90), [0, 20_000, 1]);
        let at = |file, time| intervals.at(&record(0x0f2e, (file, time), &[]));
        assert_eq!((at(0, 10), at(0, 49)), (Some(250_000), Some(250_000)));
        assert_eq!((at(0, 50), at(0, 75), at(0, 99)), (Some(500_000), at(0, 50), at(0, 50)));
        assert_eq!((at(1, 10), at(1, 99)), (Some(2_000_000), Some(2_000_000)));
        assert_eq!(at(2, 10), None);
    }

    #[test]
    fn malicious_payloads_name_no_interval() {
        let mut intervals = SampleIntervals::default();
        for size in 0..8 {
            intervals.learn(&record(SET, (0, 1), &[0; 12][..size]));
        }
        assert!(intervals.changes.is_empty());
    }
}
