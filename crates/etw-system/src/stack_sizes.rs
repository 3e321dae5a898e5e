//! How many bytes of programs' stacks are copied with each sample: as few as nearly all walks need. With registers, the kernel's copy of
//! 8 KiB costs a busy CPU 2.2 µs a sample, one of 2 KiB 0.9 µs; and the host reads what was copied from another CPU's cache.

/// So many walks are looked at before a smaller size is chosen.
const WALKS: u32 = 256;
/// One in so many of them may be cut by a size and whole with a larger one.
const ONE_IN: u32 = 256;
/// If one in so many needs more than the largest size, that size is copied: it has the most frames of them. Fewer do not decide, since
/// every size cuts them.
const ONE_BEYOND_IN: u32 = 32;
/// If more walks than these, and than those parts of them, need more than is copied, the largest size is chosen at once.
const FEW: u32 = 4;

/// Chooses one of some sizes.
#[derive(Debug)]
pub(crate) struct StackSizes {
    /// From the smallest one to the largest one.
    sizes: &'static [u32],
    chosen: usize,
    /// Walks since the last choice, by the smallest size that has all that they need; the last number: none has.
    walks: Vec<u32>,
    /// The walks that needed more than the largest size when that was copied last. A smaller size does not show how much a walk that it
    /// cuts would need.
    deep: Share,
}

/// So many walks of all.
#[derive(Clone, Copy, Debug)]
struct Share {
    count: u32,
    of: u32,
}

impl Share {
    /// The same part of another number, at least one if it is any.
    fn share_of(self, all: u32) -> u32 {
        (u64::from(self.count) * u64::from(all)).div_ceil(u64::from(self.of.max(1))) as u32
    }
}

impl StackSizes {
    /// The largest one is copied until it is known how many bytes are needed.
    pub fn new(sizes: &'static [u32]) -> StackSizes {
        let deep = Share { count: 0, of: 1 };
        StackSizes { sizes, chosen: sizes.len() - 1, walks: vec![0; sizes.len() + 1], deep }
    }

    fn largest(&self) -> usize {
        self.sizes.len() - 1
    }

    /// A walk has needed so many bytes, or would have needed them to go on.
    pub fn note(&mut self, needed: usize) {
        self.walks[self.sizes.iter().filter(|size| needed > **size as usize).count()] += 1;
    }

    /// The size to be copied from now on; `None`: the same as before.
    pub fn next_size(&mut self) -> Option<u32> {
        let beyond = |at: usize| self.walks[at + 1..].iter().sum::<u32>();
        let all = self.walks.iter().sum::<u32>();
        let largest = self.largest();
        let is_small = self.chosen < largest;
        let deep = match is_small {
            true => self.deep.share_of(all).saturating_mul(2),
            false => self.walks[largest + 1],
        };
        let cut = |at: usize| beyond(at).saturating_sub(deep);
        let fits =
            |at: &usize| cut(*at) * ONE_IN <= all && (is_small || deep * ONE_BEYOND_IN <= all);
        let next = if is_small && cut(self.chosen) > FEW && !fits(&self.chosen) {
            largest
        } else if all >= WALKS {
            // Walks may need more than was copied, and nobody knows how much: only a smaller size can follow.
            (0..self.chosen).find(fits).unwrap_or(self.chosen)
        } else {
            return None;
        };
        if !is_small {
            self.deep = Share { count: deep, of: all };
        }
        self.walks.fill(0);
        (std::mem::replace(&mut self.chosen, next) != next).then_some(self.sizes[next])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: &[u32] = &[1024, 2048, 4096, 8192];
    const LARGEST: usize = SIZES.len() - 1;

    fn walk(sizes: &mut StackSizes, count: u32, needed: usize) -> Option<u32> {
        (0..count).for_each(|_| sizes.note(needed));
        sizes.next_size()
    }

    #[test]
    fn the_smallest_size_that_nearly_all_walks_need_is_copied() {
        let mut sizes = StackSizes::new(SIZES);
        assert_eq!(walk(&mut sizes, WALKS - 1, 2048), None, "too few to decide");
        assert_eq!(walk(&mut sizes, 1, 2048), Some(2048));
        assert_eq!(walk(&mut sizes, WALKS * 10, 1024), Some(1024));
        assert_eq!(walk(&mut sizes, WALKS * 10, 100), None);
        // A few may need more.
        assert_eq!(walk(&mut sizes, FEW, 1025), None);
        assert_eq!(walk(&mut sizes, FEW + 1, 1025), Some(8192), "at once");
        (0..WALKS).for_each(|_| sizes.note(100));
        assert_eq!(walk(&mut sizes, WALKS / ONE_IN, 4000), Some(1024));
        let mut sizes = StackSizes::new(SIZES);
        (0..WALKS).for_each(|_| sizes.note(1500));
        assert_eq!(walk(&mut sizes, WALKS / ONE_IN + 1, 4000), Some(4096));
        let mut sizes = StackSizes::new(SIZES);
        (0..WALKS).for_each(|_| sizes.note(100));
        assert_eq!(walk(&mut sizes, WALKS / 10, 9000), None, "the largest is not too large");
    }
    /// Walks that every size cuts do not decide, as long as they are few.
    #[test]
    fn few_walks_that_the_largest_size_cuts_do_not_keep_it() {
        let mut sizes = StackSizes::new(SIZES);
        let mut chosen = Vec::new();
        for turn in 0..WALKS * 40 {
            // One in 100 needs more than any size; a smaller size shows only that it needs more.
            let deep = match sizes.chosen {
                LARGEST => 9000,
                at => SIZES[at] as usize + 8,
            };
            sizes.note(if turn % 100 == 50 { deep } else { 3000 });
            chosen.extend(sizes.next_size());
        }
        assert_eq!(chosen, [4096]);
        let mut sizes = StackSizes::new(SIZES);
        (0..WALKS).for_each(|turn| sizes.note(if turn % 16 == 0 { 9000 } else { 3000 }));
        assert_eq!(sizes.next_size(), None, "one in 16 has the most frames by the largest size");
    }
}
