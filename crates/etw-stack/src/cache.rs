//! A cache of rules, for all threads.
//!
//! A table of fixed size. An entry has two words: the packed rule, and the rule combined with its key. Writers store both words without
//! a lock; readers accept an entry only if the two words yield their key. An entry torn between two writers yields another key or, by
//! a coincidence of 64 bits, a wrong rule, which gives a wrong frame.
//!
//! A key has two entries side by side. With one, two frames of a stack that share it would evict each other at every capture, and each
//! such miss costs as much as a dozen frames.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::rule::Rule;

/// 128 KiB, of which only used pages take memory.
const COUNT: usize = 8192;

struct Entry {
    rule: AtomicU64,
    /// The rule XOR the key.
    check: AtomicU64,
}

static ENTRIES: [Entry; COUNT] =
    [const { Entry { rule: AtomicU64::new(0), check: AtomicU64::new(0) } }; COUNT];

/// The key of a rule: an address, whether it is a return address, and a set of modules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Key(u64);

/// 2⁶⁴ divided by the golden ratio: products with it differ in their high bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Key {
    /// `generation` counts the sets of modules.
    #[inline]
    pub(crate) fn new(address: u64, exact: bool, generation: u64) -> Key {
        // Addresses have at most 57 bits; products of generations differ in their high bits.
        Key((address << 1 | u64::from(exact)) ^ generation.wrapping_mul(SPREAD))
    }

    /// The index of the first entry that may have the key. The other one is [`NEIGHBOUR`].
    #[inline]
    fn index(self) -> usize {
        (self.0.wrapping_mul(SPREAD) >> (64 - COUNT.ilog2())) as usize
    }

    #[inline]
    fn entry(self) -> &'static Entry {
        &ENTRIES[self.index()]
    }

    #[inline]
    fn second_entry(self) -> &'static Entry {
        &ENTRIES[self.index() ^ NEIGHBOUR]
    }
}

/// The bit by which the indices of a key's two entries differ.
const NEIGHBOUR: usize = 1;

impl Entry {
    #[inline]
    fn get(&self, key: Key) -> Option<u64> {
        let rule = self.rule.load(Ordering::Relaxed);
        // The words check each other, so their order does not matter.
        (rule ^ self.check.load(Ordering::Relaxed) == key.0).then_some(rule)
    }

    fn put(&self, rule: u64, check: u64) {
        self.rule.store(rule, Ordering::Relaxed);
        self.check.store(check, Ordering::Relaxed);
    }
}

/// The packed rule for a key, if the table has it.
#[inline]
pub(crate) fn get(key: Key) -> Option<u64> {
    key.entry().get(key).or_else(|| key.second_entry().get(key))
}

/// Stores a rule in the first entry of its key, whose former rule moves to the second.
pub(crate) fn put(key: Key, rule: Rule) {
    if let Some(rule) = rule.pack() {
        let (first, second) = (key.entry(), key.second_entry());
        second.put(first.rule.load(Ordering::Relaxed), first.check.load(Ordering::Relaxed));
        first.put(rule, rule ^ key.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_for_its_key_alone() {
        let key = |address| Key::new(address, false, u64::MAX);
        assert_eq!(get(key(0x7000_0000_0000)), None);
        put(key(0x7000_0000_0000), Rule::End);
        assert_eq!(get(key(0x7000_0000_0000)), Rule::End.pack());
        for other in [
            key(0x7000_0000_0001),
            Key::new(0x7000_0000_0000, true, u64::MAX),
            Key::new(0x7000_0000_0000, false, u64::MAX - 1),
        ] {
            assert_eq!(get(other), None);
        }
    }

    #[test]
    fn two_keys_of_one_entry_keep_both_their_rules() {
        let first = Key::new(0x7300_0000_0000, false, 0);
        let shares = |key: &Key| key.index() == first.index();
        let second = (1..).map(|n| Key::new(0x7300_0000_0000 + n, false, 0)).find(shares).unwrap();
        put(first, Rule::Full);
        put(second, Rule::End);
        assert_eq!(get(first), Rule::Full.pack());
        assert_eq!(get(second), Rule::End.pack());
    }

    #[test]
    fn a_torn_entry_is_nobodys() {
        let (a, b) = (Key::new(0x7100_0000_0000, false, 0), Key::new(0x7200_0000_0000, false, 0));
        put(a, Rule::Full);
        // Another writer's first word.
        a.entry().rule.store(Rule::Chain.pack().unwrap(), Ordering::Relaxed);
        assert_eq!(get(a), None);
        assert_eq!(get(b), None);
    }
}
