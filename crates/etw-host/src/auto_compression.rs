//! The rule by which a session with `--compress=auto` compresses a buffer.
//!
//! Compression costs processor time that the recorded programs may need, and plain buffers cost the disk's. So buffers are plain
//! as long as the disk takes them. When buffers wait for the storage and fewer than half of the session's are free, events would
//! be lost soon: from then on, until no buffer has waited for a second, the faster way is used. Both ways are measured: compression is
//! the slower one if the processor, not the disk, is the limit.

use std::time::{Duration, Instant};

use crate::way::Way;

/// A storage that is no longer behind would be soon again if it went back to plain buffers at once.
const CALM: Duration = Duration::from_secs(1);

/// The state of the rule.
#[derive(Debug, Default)]
pub(crate) struct AutoCompression {
    /// When a buffer last waited, if the storage is behind: fewer than half of the buffers were free, and no second without one that
    /// waited has passed since.
    behind_at: Option<Instant>,
    /// Speeds of the storage while it is behind.
    compressed: Way,
    plain: Way,
}

impl AutoCompression {
    /// Whether the next buffer is compressed. `waiting`: buffers behind it. `is_pressed`: fewer than half of the session's buffers
    /// are free.
    pub fn compresses(&mut self, waiting: usize, is_pressed: bool, now: Instant) -> bool {
        self.behind_at = self.behind_at.filter(|at| now.duration_since(*at) < CALM);
        if waiting > 0 && (self.behind_at.is_some() || is_pressed) {
            self.behind_at = Some(now);
        }
        self.behind_at.is_some() && self.compressed.rate() >= self.plain.rate()
    }

    /// Storing so many bytes of buffers took so long.
    pub fn took(&mut self, is_compressed: bool, bytes: usize, time: Duration) {
        // Single writes of a session that is not behind say little about the disk.
        match (self.behind_at, is_compressed) {
            (None, _) => {}
            (Some(_), true) => self.compressed.took(bytes, time, &self.plain),
            (Some(_), false) => self.plain.took(bytes, time, &self.compressed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 16;

    /// A storage that has measured both ways, in bytes a microsecond.
    fn measured(compressed: u64, plain: u64, now: Instant) -> AutoCompression {
        let mut auto = AutoCompression::default();
        assert!(auto.compresses(1, true, now), "the first time, compression is tried first");
        auto.took(true, SIZE, Duration::from_micros(SIZE as u64 / compressed));
        assert!(!auto.compresses(1, true, now), "then the other way is measured");
        auto.took(false, SIZE, Duration::from_micros(SIZE as u64 / plain));
        auto
    }

    #[test]
    fn buffers_are_plain_while_the_disk_takes_them() {
        let start = Instant::now();
        let mut auto = measured(2000, 100, start);
        let calm = start + CALM;
        assert!(!auto.compresses(0, true, calm), "nothing waits");
        assert!(!auto.compresses(20, false, calm), "most buffers are free");
        assert!(auto.compresses(20, true, calm));
    }

    #[test]
    fn compression_ends_when_no_buffer_has_waited_for_a_second() {
        let start = Instant::now();
        let mut auto = measured(2000, 100, start);
        let at = |tenths: u32| start + CALM * tenths / 10;
        assert!(auto.compresses(20, true, at(0)));
        assert!(auto.compresses(19, false, at(1)), "most buffers are free, but some wait still");
        assert!(auto.compresses(0, false, at(2)), "one was stored in time");
        assert!(auto.compresses(1, false, at(9)));
        assert!(auto.compresses(0, false, at(18)));
        assert!(!auto.compresses(0, false, at(19)));
        assert!(!auto.compresses(19, false, at(20)), "it begins anew when few buffers are free");
    }

    #[test]
    fn buffers_are_plain_if_the_processor_is_the_limit() {
        let start = Instant::now();
        let mut auto = measured(100, 2000, start);
        assert!(!auto.compresses(20, true, start));
    }

    #[test]
    fn only_a_storage_that_is_behind_is_measured() {
        let mut auto = AutoCompression::default();
        assert!(!auto.compresses(0, false, Instant::now()));
        auto.took(false, SIZE, Duration::from_secs(1));
        assert_eq!(auto.plain.rate(), f64::INFINITY);
    }
}
