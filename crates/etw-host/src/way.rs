//! The measured speed of one of two ways to do the same, of which the faster one is used.

use std::time::{Duration, Instant};

/// The slower way is measured again after this time, and after twice that time whenever it was less than half as fast as the other.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(64);

/// The measured speed of one way.
#[derive(Debug)]
pub(crate) struct Way {
    /// Bytes per nanosecond; `None`: not measured.
    rate: Option<f64>,
    used: Option<Instant>,
    /// How long the rate holds.
    retry: Duration,
}

impl Default for Way {
    fn default() -> Way {
        Way { rate: None, used: None, retry: RETRY }
    }
}

impl Way {
    /// Bytes per nanosecond; infinite if they have to be measured.
    pub fn rate(&self) -> f64 {
        match (self.rate, self.used) {
            (Some(rate), Some(used)) if used.elapsed() < self.retry => rate,
            _ => f64::INFINITY,
        }
    }

    /// This way has taken so long for so many bytes.
    pub fn took(&mut self, bytes: usize, time: Duration, other: &Way) {
        let rate = bytes as f64 / time.as_nanos().max(1) as f64;
        self.rate = Some(self.rate.map_or(rate, |before| (before + rate) / 2.0));
        self.used = Some(Instant::now());
        let is_slow = other.rate.is_some_and(|other| rate < other / 2.0);
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
}
