//! Where the stacks of threads begin, for the program that records samples: it copies a stack from its pointer to there, and needs no
//! frames of the kernel's then. The host learns a base from a walk that reached the thread's first frame.
//!
//! The table has a word for each hash of a thread's id, so that neither side sees half of an entry: the base in eight bytes, above
//! [`TAG_BITS`] bits with the rest of the id.

#[cfg(feature = "unwind")]
pub(crate) use host::StackBases;

/// Linux has ids of 22 bits at most, and addresses of programs of 48 bits unless a program asks for more.
pub const TAG_BITS: u32 = 19;
/// Stacks begin at multiples of so many bytes.
pub const UNIT_BITS: u32 = 3;

#[cfg(feature = "unwind")]
mod host {
    use std::sync::atomic::Ordering;

    use super::super::points::{BASE_BITS, BASES, BASES_COUNT};
    use super::super::ring::SharedWords;
    use super::{TAG_BITS, UNIT_BITS};

    /// The table, as the host writes it.
    #[derive(Debug)]
    pub(crate) struct StackBases(pub(in super::super) SharedWords);

    impl StackBases {
        pub(super) fn entry(thread: u32) -> usize {
            BASES + (thread as usize & (BASES_COUNT - 1)) * 8
        }

        fn tag(thread: u32) -> u64 {
            u64::from(thread) >> BASE_BITS
        }

        /// The entry's word; `None`: the address has no room there.
        fn value(thread: u32, base: u64) -> Option<u64> {
            let units = base.div_ceil(1 << UNIT_BITS);
            let fits = units >> (u64::BITS - TAG_BITS) == 0;
            fits.then(|| units << TAG_BITS | Self::tag(thread))
        }

        /// The stack of a thread begins at this address, behind its last word.
        pub fn set(&self, thread: u32, base: u64) {
            let Some(value) = Self::value(thread, base) else { return self.forget(thread) };
            let word = self.0.word(Self::entry(thread));
            if word.load(Ordering::Relaxed) != value {
                word.store(value, Ordering::Relaxed);
            }
        }

        /// Whether the stack of a thread is known to begin at this address.
        pub fn is_at(&self, thread: u32, base: u64) -> bool {
            let known = self.0.word(Self::entry(thread)).load(Ordering::Relaxed);
            Self::value(thread, base) == Some(known)
        }

        /// It is not known where the stack of a thread begins.
        pub fn forget(&self, thread: u32) {
            let word = self.0.word(Self::entry(thread));
            let value = word.load(Ordering::Relaxed);
            if value != 0 && value & ((1 << TAG_BITS) - 1) == Self::tag(thread) {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, feature = "unwind"))]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    use super::super::ring::SharedWords;
    use super::super::ring::fake::memory;
    use super::host::StackBases;
    use super::*;
    use crate::perf::bpf::points::{BASE_BITS, BASES_COUNT, SHARED_SIZE};

    impl StackBases {
        /// A table in memory of its own.
        pub(crate) fn fake() -> StackBases {
            StackBases(SharedWords::map(memory(SHARED_SIZE as usize).as_fd()).unwrap())
        }
    }

    /// OV-23: a base is that of its thread alone.
    #[test]
    fn a_thread_has_its_own_base_or_none() {
        let bases = StackBases::fake();
        let word = |thread: u32| bases.0.word(StackBases::entry(thread)).load(Ordering::Relaxed);
        let (first, second) = (4_000_001, 4_000_001 - BASES_COUNT as u32);
        bases.set(first, 0x7fff_ffff_e008);
        assert_eq!(word(first) >> TAG_BITS << UNIT_BITS, 0x7fff_ffff_e008);
        assert_eq!(word(first) & ((1 << TAG_BITS) - 1), u64::from(first >> BASE_BITS));
        bases.forget(second);
        assert_ne!(word(first), 0, "another thread with the same entry");
        bases.set(second, 0x1001);
        assert_eq!(word(second) >> TAG_BITS << UNIT_BITS, 0x1008, "all bytes that are needed");
        bases.forget(first);
        assert_ne!(word(second), 0);
        for far in [1 << 49, u64::MAX] {
            bases.set(second, 0x1001);
            bases.set(second, far);
            assert_eq!(word(second), 0, "an address without room");
        }
    }
}
