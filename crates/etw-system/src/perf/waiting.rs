//! Records that wait in their rings.

/// A record that waits in its ring until the watermark has passed its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub time: u64,
    /// Its position there; of [`LOSS`](super::LOSS), the number of lost records.
    pub position: u64,
    /// Its ring.
    pub ring: usize,
}

/// Adds a record to those of its ring, which begin at `start`. CPUs that share a ring, and interrupts, change places with their neighbours:
/// in order, the ring is one run for the sort that merges all rings.
#[inline]
pub(super) fn add_in_order(waiting: &mut Vec<Waiting>, start: usize, one: Waiting) {
    match waiting[start..].last() {
        Some(last) if last.time > one.time => insert(waiting, start, one),
        _ => waiting.push(one),
    }
}

#[cold]
fn insert(waiting: &mut Vec<Waiting>, start: usize, one: Waiting) {
    /// A record that is further away is left to that sort.
    const NEIGHBOURS: usize = 32;
    let first = start.max(waiting.len().saturating_sub(NEIGHBOURS));
    let earlier = waiting[first..].iter().rev().take_while(|other| other.time > one.time).count();
    waiting.insert(waiting.len() - earlier, one);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_one_ring_are_kept_in_order_of_time() {
        let mut waiting = vec![Waiting { time: 900, position: 0, ring: 0 }];
        for (position, time) in [100, 300, 200, 200, 50, 400].into_iter().enumerate() {
            add_in_order(&mut waiting, 1, Waiting { time, position: position as u64, ring: 1 });
        }
        let found: Vec<_> = waiting.iter().map(|one| (one.time, one.position)).collect();
        assert_eq!(found, [(900, 0), (50, 4), (100, 0), (200, 2), (200, 3), (300, 1), (400, 5)]);
    }
}
