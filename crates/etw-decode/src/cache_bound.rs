//! [`CacheBound`]: how many bytes of schemas a cache keeps.

use std::collections::HashSet;

/// Bytes at first.
const FIRST_LIMIT: usize = 8 << 20;
/// Hashes that are remembered, about.
const HASHES: usize = 1 << 16;
/// Bytes at most, unless a decoder has another limit.
pub(crate) const DEFAULT_LIMIT: usize = 32 << 20;

/// The bound of a cache that starts over when it is full. If most of what it holds then was there before, the events use
/// their schemas again, and the bound doubles. A trace whose schemas are used once does not raise it.
pub(crate) struct CacheBound {
    size: usize,
    limit: usize,
    most: usize,
    /// Hashes of the entries that it had when it started over.
    before: HashSet<u64, foldhash::fast::RandomState>,
    /// Entries, and those of them that were there before.
    count: usize,
    again: usize,
}

impl Default for CacheBound {
    fn default() -> CacheBound {
        CacheBound {
            size: 0,
            limit: FIRST_LIMIT,
            most: DEFAULT_LIMIT,
            before: HashSet::default(),
            count: 0,
            again: 0,
        }
    }
}

impl CacheBound {
    /// Sets how far the bound may rise.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
        self.limit = self.limit.min(most);
    }

    /// Whether the cache has no room for another entry. If so, it is emptied and starts over; `hashes` are those of its entries.
    pub fn starts_over(&mut self, hashes: impl Iterator<Item = u64>) -> bool {
        if self.size <= self.limit {
            return false;
        }
        if self.again * 2 > self.count {
            self.limit = (self.limit * 2).min(self.most);
        }
        if self.before.len() > HASHES {
            self.before.clear();
        }
        self.before.extend(hashes);
        (self.size, self.count, self.again) = (0, 0, 0);
        true
    }

    /// Counts a new entry.
    pub fn add(&mut self, hash: u64, size: usize) {
        self.size += size;
        self.count += 1;
        self.again += usize::from(self.before.contains(&hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries that a cache had to make for `rounds` of `count` entries of 2 KiB each.
    fn made(count: u64, rounds: u64, is_new_each_round: bool) -> u64 {
        let (mut bound, mut cached, mut made) = (CacheBound::default(), HashSet::new(), 0);
        for round in 0..rounds {
            for number in 0..count {
                let entry = if is_new_each_round { round * count + number } else { number };
                if !cached.contains(&entry) {
                    if bound.starts_over(cached.iter().copied()) {
                        cached.clear();
                    }
                    bound.add(entry, 2 << 10);
                    cached.insert(entry);
                    made += 1;
                }
                assert!(cached.len() <= (DEFAULT_LIMIT >> 11) + 1);
            }
        }
        if is_new_each_round {
            assert_eq!(bound.limit, FIRST_LIMIT);
        }
        made
    }

    #[test]
    fn the_bound_rises_for_schemas_that_are_used_again() {
        // 20 MiB of schemas: they fit after a few rounds.
        assert!(made(10_000, 100, false) < 60_000, "{}", made(10_000, 100, false));
        assert_eq!(made(10_000, 10, true), 100_000);
        // More than the largest bound holds.
        assert_eq!(made(40_000, 5, false), 200_000);
    }
}
