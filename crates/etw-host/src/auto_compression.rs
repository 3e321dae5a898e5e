//! The rule by which a session with `--compress=auto` compresses a buffer.
//!
//! Compression costs processor time that the recorded programs may need, and plain buffers cost the disk's. So buffers are plain
//! as long as the disk takes them. When buffers wait for the storage and fewer than half of the session's are free, events would
//! be lost soon: from then on, until no buffer waits, the faster way is used. Both ways are measured: compression is the slower
//! one if the processor, not the disk, is the limit.

use std::time::Duration;

use crate::way::Way;

/// The state of the rule.
#[derive(Debug, Default)]
pub(crate) struct AutoCompression {
    /// The storage is behind: buffers have waited since fewer than half of them were free.
    is_behind: bool,
    /// Speeds of the storage while it is behind.
    compressed: Way,
    plain: Way,
}

impl AutoCompression {
    /// Whether the next buffer is compressed. `waiting`: buffers behind it. `is_pressed`: fewer than half of the session's buffers
    /// are free.
    pub fn compresses(&mut self, waiting: usize, is_pressed: bool) -> bool {
        self.is_behind = waiting > 0 && (self.is_behind || is_pressed);
        self.is_behind && self.compressed.rate() >= self.plain.rate()
    }

    /// Storing so many bytes of buffers took so long.
    pub fn took(&mut self, is_compressed: bool, bytes: usize, time: Duration) {
        // Single writes of a session that is not behind say little about the disk.
        match (self.is_behind, is_compressed) {
            (false, _) => {}
            (true, true) => self.compressed.took(bytes, time, &self.plain),
            (true, false) => self.plain.took(bytes, time, &self.compressed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 16;

    /// A storage that has measured both ways, in bytes a microsecond.
    fn measured(compressed: u64, plain: u64) -> AutoCompression {
        let mut auto = AutoCompression::default();
        assert!(auto.compresses(1, true), "the first time, compression is tried first");
        auto.took(true, SIZE, Duration::from_micros(SIZE as u64 / compressed));
        assert!(!auto.compresses(1, true), "then the other way is measured");
        auto.took(false, SIZE, Duration::from_micros(SIZE as u64 / plain));
        auto
    }

    #[test]
    fn buffers_are_plain_while_the_disk_takes_them() {
        let mut auto = measured(2000, 100);
        assert!(!auto.compresses(0, true), "nothing waits");
        assert!(!auto.compresses(20, false), "most buffers are free");
        assert!(auto.compresses(20, true));
    }

    #[test]
    fn compression_ends_when_no_buffer_waits() {
        let mut auto = measured(2000, 100);
        assert!(auto.compresses(20, true));
        assert!(auto.compresses(19, false), "half of the buffers are free, but some wait still");
        assert!(!auto.compresses(0, false));
        assert!(!auto.compresses(19, false), "it begins anew when few buffers are free");
    }

    #[test]
    fn buffers_are_plain_if_the_processor_is_the_limit() {
        let mut auto = measured(100, 2000);
        assert!(!auto.compresses(20, true));
    }

    #[test]
    fn only_a_storage_that_is_behind_is_measured() {
        let mut auto = AutoCompression::default();
        assert!(!auto.compresses(0, false));
        auto.took(false, SIZE, Duration::from_secs(1));
        assert_eq!(auto.plain.rate(), f64::INFINITY);
    }
}
