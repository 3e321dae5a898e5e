//! Sums and percentiles of a stream of numbers, in bounded memory.

use std::collections::BTreeMap;

/// Numbers that are kept as they are; more are counted in buckets.
const EXACT: usize = 256;
/// The lowest bits of a number that its bucket leaves out: 7 bits of the mantissa stay, so percentiles are off by half a percent at most.
const BUCKET_BITS: u32 = f64::MANTISSA_DIGITS - 1 - 7;

/// Percentiles that are shown.
pub const SHOWN: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// Count, sum and distribution.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    pub count: u64,
    /// The sum of integers.
    integers: i128,
    /// The sum of other numbers.
    others: f64,
    pub min: f64,
    pub max: f64,
    exact: Vec<f64>,
    /// Positive numbers by exponent and highest bits of the mantissa, which lie in one word in the order of the numbers.
    buckets: BTreeMap<u32, u64>,
    /// Numbers that are not positive count as the least one.
    low: u64,
}

impl Distribution {
    pub fn add_integer(&mut self, number: i128) {
        self.integers = self.integers.saturating_add(number);
        self.place(number as f64);
    }

    pub fn add(&mut self, number: f64) {
        if number.is_finite() {
            self.others += number;
            self.place(number);
        }
    }

    fn place(&mut self, number: f64) {
        (self.min, self.max) = match self.count {
            0 => (number, number),
            _ => (self.min.min(number), self.max.max(number)),
        };
        self.count += 1;
        if self.buckets.is_empty() && self.low == 0 && self.exact.len() < EXACT {
            return self.exact.push(number);
        }
        for number in std::mem::take(&mut self.exact) {
            self.put_in_bucket(number);
        }
        self.put_in_bucket(number);
    }

    fn put_in_bucket(&mut self, number: f64) {
        match number > 0.0 {
            true => {
                let bucket = (number.to_bits() >> BUCKET_BITS) as u32;
                *self.buckets.entry(bucket).or_default() += 1;
            }
            false => self.low += 1,
        }
    }

    /// The number below or at which a part (0 to 1) of all numbers lie.
    pub fn quantile(&self, part: f64) -> f64 {
        let rank = ((part * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        if !self.exact.is_empty() {
            let mut sorted = self.exact.clone();
            sorted.sort_by(f64::total_cmp);
            return sorted.get(rank as usize - 1).copied().unwrap_or(self.max);
        }
        let mut seen = self.low;
        if rank <= seen {
            return self.min;
        }
        for (bucket, count) in &self.buckets {
            seen += count;
            if rank <= seen {
                let first = u64::from(*bucket) << BUCKET_BITS;
                let middle = f64::from_bits(first | 1 << (BUCKET_BITS - 1));
                return middle.clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The sum as JSON: integers with all their digits; a sum beyond a double is a text, as a value is.
    pub fn sum_json(&self) -> String {
        if self.others == 0.0 {
            return self.integers.to_string();
        }
        let mut out = Vec::new();
        etw_decode::Value::F64(self.sum()).write_json(&mut out, &etw_decode::Style::default());
        String::from_utf8_lossy(&out).into_owned()
    }

    pub fn sum(&self) -> f64 {
        self.integers as f64 + self.others
    }

    pub fn sum_text(&self) -> String {
        match self.others == 0.0 {
            true => self.integers.to_string(),
            false => shown(self.sum()),
        }
    }
}

/// A number for people: integers without a point.
pub fn shown(number: f64) -> String {
    match number.fract() == 0.0 && number.abs() < 1e15 {
        true => format!("{number:.0}"),
        false => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_numbers_have_exact_percentiles_and_many_have_close_ones() {
        let mut few = Distribution::default();
        (1..=100).rev().for_each(|number| few.add_integer(number));
        assert_eq!((few.quantile(0.5), few.quantile(0.99)), (50.0, 99.0));
        assert_eq!((few.min, few.max, few.sum_text()), (1.0, 100.0, "5050".to_owned()));
        let mut many = Distribution::default();
        (0..=100_000).for_each(|number| many.add(f64::from(number)));
        for (part, expected) in [(0.5, 50_000.0), (0.99, 99_000.0)] {
            assert!(
                (many.quantile(part) / expected - 1.0).abs() < 0.005,
                "{}",
                many.quantile(part)
            );
        }
        assert_eq!((many.quantile(0.0), many.quantile(1.0)), (0.0, 100_000.0));
        assert!(many.buckets.len() < 2000);
    }

    #[test]
    fn numbers_below_zero_and_none_are_no_problem() {
        let mut some = Distribution::default();
        assert_eq!(some.quantile(0.5), 0.0);
        (0..500).for_each(|number| some.add(f64::from(number - 400)));
        some.add(f64::NAN);
        assert_eq!((some.count, some.min, some.quantile(0.1)), (500, -400.0, -400.0));
    }
}
