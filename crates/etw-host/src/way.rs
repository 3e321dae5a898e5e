//! The measured speed of one of two ways to do the same, of which the faster one is used.

use std::time::{Duration, Instant};

/// The slower way is measured again after this time, and after twice that time whenever it was less than half as fast as the other.
/// Tests may wait for a processor in between.
const RETRY: Duration = Duration::from_millis(if cfg!(test) { 8_000 } else { 50 });
const LONGEST_RETRY: Duration = Duration::from_secs(64);

/// The measured speed of one way.
#[derive(Debug)]
pub(crate) struct Way {
    /// Bytes per nanosecond, the last two times; `None`: not measured.
    rates: Option<[f64; 2]>,
    used: Option<Instant>,
    /// How long the rate holds.
    retry: Duration,
}

impl Default for Way {
    fn default() -> Way {
        Way { rates: None, used: None, retry: RETRY }
    }
}

impl Way {
    /// Bytes per nanosecond; infinite if they have to be measured.
    pub fn rate(&self) -> f64 {
        match (self.last_rate(), self.used) {
            (Some(rate), Some(used)) if used.elapsed() < self.retry => rate,
            _ => f64::INFINITY,
        }
    }

    /// The better of the last two: one write may have waited for something else.
    fn last_rate(&self) -> Option<f64> {
        self.rates.map(|[before, last]| before.max(last))
    }

    /// Whether it need not be measured now.
    pub fn is_known(&self) -> bool {
        self.rate().is_finite()
    }

    /// This way has taken so long for so many bytes.
    pub fn took(&mut self, bytes: usize, time: Duration, other: &Way) {
        let rate = bytes as f64 / time.as_nanos().max(1) as f64;
        self.rates = Some([self.rates.map_or(rate, |[_, before]| before), rate]);
        self.used = Some(Instant::now());
        let is_slow = other.last_rate().is_some_and(|other| rate < other / 2.0);
        self.retry = if is_slow { (self.retry * 2).min(LONGEST_RETRY) } else { RETRY };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way that is much slower is tried less and less often, until it is fast again.
    #[test]
    fn a_slow_way_is_tried_seldom() {
        let second = Duration::from_secs(1);
        let (mut slow, mut fast) = (Way::default(), Way::default());
        fast.took(1000, second, &slow);
        for tries in 1..10 {
            slow.took(100, second, &fast);
            assert_eq!(slow.retry, (RETRY * (1 << tries)).min(LONGEST_RETRY));
            fast.took(1000, second, &slow);
            assert_eq!(fast.retry, RETRY);
        }
        slow.took(900, second, &fast);
        assert_eq!(slow.retry, RETRY);
    }

    #[test]
    fn one_slow_write_does_not_make_a_way_slow() {
        let second = Duration::from_secs(1);
        let (mut way, other) = (Way::default(), Way::default());
        way.took(1000, second, &other);
        way.took(10, second, &other);
        assert_eq!(way.rate(), 1e-6);
        way.took(20, second, &other);
        assert_eq!(way.rate(), 2e-8);
    }
}
