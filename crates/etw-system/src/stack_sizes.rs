//! How many bytes of programs' stacks are copied with each sample: as few as nearly all walks need. With registers, the kernel's copy of
//! 8 KiB costs a busy CPU 2.2 µs a sample, one of 2 KiB 0.9 µs.

use crate::wanted_events::STACK_SIZES as SIZES;

const LARGEST: usize = SIZES.len() - 1;
/// So many walks are looked at before a smaller size is chosen.
const WALKS: u32 = 512;
/// One in so many of them may need more.
const ONE_IN: u32 = 256;
/// If more walks than these, and than one in [`ONE_IN`], need more than is copied, the largest size is chosen at once.
const FEW: u32 = 4;

/// Chooses one of the [`SIZES`].
#[derive(Debug)]
pub(crate) struct StackSizes {
    chosen: usize,
    /// Walks since the last choice, by the smallest size that has all that they need; the last number: none has.
    walks: [u32; SIZES.len() + 1],
}

impl Default for StackSizes {
    fn default() -> StackSizes {
        StackSizes { chosen: LARGEST, walks: [0; SIZES.len() + 1] }
    }
}

impl StackSizes {
    /// A walk has needed so many bytes, or would have needed them to go on.
    pub fn note(&mut self, needed: usize) {
        self.walks[SIZES.iter().filter(|size| needed > **size as usize).count()] += 1;
    }

    /// The size to be copied from now on; `None`: the same as before.
    pub fn next_size(&mut self) -> Option<u32> {
        let beyond = |at: usize| self.walks[at + 1..].iter().sum::<u32>();
        let all = self.walks.iter().sum::<u32>();
        let fits = |at: &usize| beyond(*at) * ONE_IN <= all;
        let is_small = self.chosen < LARGEST;
        let next = if is_small && beyond(self.chosen) > FEW && !fits(&self.chosen) {
            LARGEST
        } else if all >= WALKS {
            // Walks may need more than was copied, and nobody knows how much: only a smaller size can follow.
            (0..self.chosen).find(fits).unwrap_or(self.chosen)
        } else {
            return None;
        };
        self.walks = [0; SIZES.len() + 1];
        (std::mem::replace(&mut self.chosen, next) != next).then_some(SIZES[next])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(sizes: &mut StackSizes, count: u32, needed: usize) -> Option<u32> {
        (0..count).for_each(|_| sizes.note(needed));
        sizes.next_size()
    }

    #[test]
    fn the_smallest_size_that_nearly_all_walks_need_is_copied() {
        let mut sizes = StackSizes::default();
        assert_eq!(walk(&mut sizes, WALKS - 1, 2048), None, "too few to decide");
        assert_eq!(walk(&mut sizes, 1, 2048), Some(2048));
        assert_eq!(walk(&mut sizes, WALKS * 10, 100), None);
        // A few may need more.
        assert_eq!(walk(&mut sizes, FEW, 2049), None);
        assert_eq!(walk(&mut sizes, FEW + 1, 2049), Some(8192), "at once");
        (0..WALKS).for_each(|_| sizes.note(100));
        assert_eq!(walk(&mut sizes, WALKS / ONE_IN, 4000), Some(2048));
        let mut sizes = StackSizes::default();
        (0..WALKS).for_each(|_| sizes.note(100));
        assert_eq!(walk(&mut sizes, WALKS / ONE_IN + 1, 4000), Some(4096));
        let mut sizes = StackSizes::default();
        (0..WALKS).for_each(|_| sizes.note(100));
        assert_eq!(walk(&mut sizes, WALKS / 10, 9000), None, "the largest is not too large");
    }
}
