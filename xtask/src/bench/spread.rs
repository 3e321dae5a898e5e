//! A figure of several rounds: its median, and how far rounds lie from it.

/// The median of several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Middle {
    pub median: f64,
    /// Half of the distance between the quartiles: one half of the rounds lies about as near to the median.
    pub spread: f64,
}

impl Middle {
    /// `NaN` of no rounds.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Middle {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |part: f64| quantile(&values, part);
        Middle { median: at(0.5), spread: (at(0.75) - at(0.25)) / 2.0 }
    }

    /// The cost that each round added to `alone`, as a part of a peer's in the same round.
    pub fn of_ratios(ours: &[f64], peer: &[f64], alone: f64) -> Middle {
        Middle::of(ours.iter().zip(peer).map(|(ours, peer)| (ours - alone) / (peer - alone)))
    }
}

/// Between two values, their mean by distance.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = last as f64 * part;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_is_between_its_quartiles() {
        let middle = Middle::of([5.0, 1.0, 2.0, 100.0, 3.0]);
        assert_eq!(middle, Middle { median: 3.0, spread: 1.5 });
        let middle = Middle::of([4.0, 1.0, 2.0, 3.0]);
        assert_eq!(middle, Middle { median: 2.5, spread: 0.75 });
        assert_eq!(Middle::of([7.0]), Middle { median: 7.0, spread: 0.0 });
        assert!(Middle::of([]).median.is_nan());
    }

    #[test]
    fn ratios_are_of_one_round_each() {
        // A slow round is slow for both.
        let middle = Middle::of_ratios(&[12.5, 30.0, 17.5], &[20.0, 50.0, 20.0], 10.0);
        assert_eq!(middle, Middle { median: 0.5, spread: 0.125 });
        assert!(Middle::of_ratios(&[1.0], &[], 0.5).median.is_nan());
    }
}
