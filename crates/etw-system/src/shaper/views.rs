//! Files in the memory of a process.

use std::collections::BTreeMap;
use std::ops::Range;

/// Views of a process that are remembered.
const MAX_VIEWS: usize = 1 << 14;

/// A part of a file in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// The file.
    pub key: u64,
    /// Bytes, whole pages.
    pub size: u64,
}

/// The views of a process, by their lowest addresses. No two have a page in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Views(BTreeMap<u64, View>);

impl Views {
    /// Adds a view where none is. A process with too many of them loses all.
    pub fn add(&mut self, base: u64, view: View) {
        if self.0.len() >= MAX_VIEWS {
            self.0.clear();
        }
        self.0.insert(base, view);
    }

    /// The view with an address.
    pub fn at(&self, address: u64) -> Option<View> {
        let (base, view) = self.0.range(..=address).next_back()?;
        (address - base < view.size).then_some(*view)
    }

    /// Whether a part of a view is in a range of addresses.
    pub fn has_in(&self, range: &Range<u64>) -> bool {
        self.at(range.start).is_some() || self.0.range(range.clone()).next().is_some()
    }

    /// Takes the views out of a range of addresses: returns their parts there, in the order of addresses. What is outside of it stays.
    pub fn take(&mut self, range: Range<u64>) -> Vec<(u64, View)> {
        let Range { start, end } = range;
        if start >= end {
            return Vec::new();
        }
        let before = self.0.range(..start).next_back().map(|(base, view)| (*base, *view));
        let inside = self.0.range(start..end).map(|(base, view)| (*base, *view));
        let found: Vec<(u64, View)> = before.into_iter().chain(inside).collect();
        let mut parts = Vec::new();
        for (base, view) in found {
            let (from, to) = (base.max(start), base.saturating_add(view.size));
            let part_end = to.min(end);
            if from >= part_end {
                continue;
            }
            self.0.remove(&base);
            for rest in [base..from, part_end..to] {
                if !rest.is_empty() {
                    self.add(rest.start, View { size: rest.end - rest.start, ..view });
                }
            }
            parts.push((from, View { size: part_end - from, ..view }));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_taken_out_of_the_views() {
        let view = |key, size| View { key, size };
        let mut views = Views::default();
        views.add(0x1000, view(1, 0x4000));
        views.add(0x5000, view(2, 0x1000));
        views.add(0x8000, view(3, 0x2000));
        assert!(views.take(0x6000..0x8000).is_empty() && views.take(0x2000..0x2000).is_empty());
        assert_eq!(views.take(0x2000..0x3000), [(0x2000, view(1, 0x1000))]);
        let at = |views: &Views, address| views.at(address).map(|one| (one.key, one.size));
        assert_eq!(
            [0x1000, 0x2fff, 0x4fff].map(|one| at(&views, one)),
            [Some((1, 0x1000)), None, Some((1, 0x2000))]
        );
        let parts =
            [(0x4000, view(1, 0x1000)), (0x5000, view(2, 0x1000)), (0x8000, view(3, 0x1000))];
        assert_eq!(views.take(0x4000..0x9000), parts);
        let rest =
            [(0x1000, view(1, 0x1000)), (0x3000, view(1, 0x1000)), (0x9000, view(3, 0x1000))];
        assert_eq!(views.take(0..u64::MAX), rest);
        assert!(views.0.is_empty());
    }

    #[test]
    fn views_that_are_remembered_are_not_too_many() {
        const PAGE: u64 = 4096;
        let mut views = Views::default();
        views.add(0, View { key: 1, size: !(PAGE - 1) });
        for hole in 1..=2 * MAX_VIEWS as u64 {
            views.take(2 * hole * PAGE..(2 * hole + 1) * PAGE);
            assert!(views.0.len() <= MAX_VIEWS);
        }
    }
}
