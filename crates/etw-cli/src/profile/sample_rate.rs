//! [`SampleRates`]: the time that a CPU sample stands for when several sessions sample.

use std::collections::HashMap;

/// Samples of a CPU that came too early, at which there are several sessions, and not timers that are late now and then.
const EARLY: i64 = 8;

/// How often the samples of each CPU come.
#[derive(Debug, Default)]
pub struct SampleRates {
    /// By file and CPU.
    cpus: HashMap<(u32, u16), Rate>,
    are_more: bool,
}

#[derive(Debug)]
struct Rate {
    last: i64,
    /// How much time the latest samples would stand for beyond that in which they came, in nanoseconds.
    excess: i64,
}

impl SampleRates {
    /// The nanoseconds for which the next sample of a CPU stands: the interval between two samples, but no more than there are since the last one if
    /// they come more often.
    pub fn time_of_sample(&mut self, cpu: (u32, u16), time: i64, interval: i64) -> i64 {
        let first = Rate { last: time.saturating_sub(interval), excess: 0 };
        let rate = self.cpus.entry(cpu).or_insert(first);
        // A sample may be late; long pauses are none.
        let since_last = time.saturating_sub(rate.last).clamp(0, 4 * interval);
        rate.last = time;
        // An interval may be an eighth shorter than its name.
        let excess = rate.excess + interval - since_last - since_last / 8;
        rate.excess = excess.clamp(0, 2 * EARLY * interval);
        if rate.excess <= EARLY * interval {
            return interval;
        }
        self.are_more = true;
        since_last.min(interval)
    }

    /// Whether samples came more often than their interval says.
    pub fn are_more(&self) -> bool {
        self.are_more
    }
}
