//! The rules that were found last, in memory of a bounded size.
//!
//! ```text
//!   address ──► recent (a place for each hash of an address) ──► young rows ──► old rows ──► the file
//!                                                                     ▲              │
//!                                                                     └── used again ┘
//! ```
//!
//! When the young rows are full, they replace the old ones. A row that is used again in between is copied to the young ones, so that only
//! rows are forgotten which nobody needed for a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rule::{FRAME_POINTER, FrameAddress, Row, Rule};

/// Bytes of the young rows, and of the old ones, at most.
const GENERATION_SIZE: usize = 3 << 20;
/// Bytes of a row in its map, whose nodes are not full.
const ROW_SIZE: usize = 128;
/// Addresses whose rules are found without a search.
const RECENT: usize = 1 << RECENT_BITS;
const RECENT_BITS: u32 = 14;

/// The rule of an address, if it has one.
#[derive(Clone, Debug)]
pub(super) enum KnownRule {
    None,
    Row(Row),
    Whole(Arc<Rule>),
}

impl KnownRule {
    /// Whether the frame pointer leads from such a frame to its caller.
    pub fn leads_by_frame_pointer(&self) -> bool {
        match self {
            KnownRule::None => true,
            KnownRule::Row(row) => row.is_by_frame_pointer(),
            KnownRule::Whole(rule) => match rule.frame {
                FrameAddress::Register(register, _) => usize::from(register) == FRAME_POINTER,
                FrameAddress::Expression(_) => false,
            },
        }
    }

    fn size(&self) -> usize {
        match self {
            KnownRule::None | KnownRule::Row(_) => ROW_SIZE,
            KnownRule::Whole(rule) => ROW_SIZE + rule.size(),
        }
    }
}

/// An address in the headers of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileAddress {
    /// The number of the file.
    pub file: u64,
    pub address: u64,
}

impl FileAddress {
    /// The place of the address among the recent ones.
    fn place(self) -> usize {
        /// Odd numbers with bits in all places.
        const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];
        let mixed = (self.address ^ self.file.wrapping_mul(FACTORS[0])).wrapping_mul(FACTORS[1]);
        (mixed >> (u64::BITS - RECENT_BITS)) as usize
    }
}

/// Rules by the first address of each, with the end of its addresses.
#[derive(Debug, Default)]
struct Generation {
    rows: BTreeMap<FileAddress, (u64, KnownRule)>,
    size: usize,
}

impl Generation {
    fn find(&self, at: FileAddress) -> Option<(FileAddress, &(u64, KnownRule))> {
        let (start, row) = self.rows.range(..=at).next_back()?;
        (start.file == at.file && at.address < row.0).then_some((*start, row))
    }
}

/// The rules that were found last.
#[derive(Debug)]
pub(super) struct Rules {
    /// Bytes of a generation.
    room: usize,
    /// By [`FileAddress::place`].
    recent: Vec<Option<(FileAddress, KnownRule)>>,
    young: Generation,
    old: Generation,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules::with_room(GENERATION_SIZE)
    }
}

impl Rules {
    /// No rules yet, and room for so many bytes of young ones, and of old ones.
    pub fn with_room(room: usize) -> Rules {
        Rules { room, recent: Vec::new(), young: Generation::default(), old: Generation::default() }
    }

    /// The rule of an address; `None`: it is not known.
    pub fn get(&mut self, at: FileAddress) -> Option<KnownRule> {
        if let Some(Some((known, rule))) = self.recent.get(at.place())
            && *known == at
        {
            return Some(rule.clone());
        }
        let rule = match self.young.find(at) {
            Some((_, (_, rule))) => rule.clone(),
            None => {
                let (start, (end, rule)) = self.old.find(at)?;
                let (end, rule) = (*end, rule.clone());
                self.insert(start, end, rule.clone());
                rule
            }
        };
        self.remember(at, &rule);
        Some(rule)
    }

    /// Adds the rule of the addresses from `start` to `end`, one of which is `at`.
    pub fn add(&mut self, at: FileAddress, [start, end]: [u64; 2], rule: &KnownRule) {
        self.insert(FileAddress { address: start, ..at }, end, rule.clone());
        self.remember(at, rule);
    }

    fn insert(&mut self, start: FileAddress, end: u64, rule: KnownRule) {
        let size = rule.size();
        if self.young.size + size > self.room {
            self.old = std::mem::take(&mut self.young);
        }
        let before = self.young.rows.insert(start, (end, rule));
        self.young.size += size;
        self.young.size -= before.map_or(0, |(_, rule)| rule.size());
    }

    fn remember(&mut self, at: FileAddress, rule: &KnownRule) {
        if self.recent.is_empty() {
            self.recent.resize_with(RECENT, || None);
        }
        self.recent[at.place()] = Some((at, rule.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flat_memory::own_bytes;

    fn at(address: u64) -> FileAddress {
        FileAddress { file: 1, address }
    }

    fn is_known(rules: &mut Rules, address: u64) -> bool {
        rules.get(at(address)).is_some()
    }

    /// Rules that are used stay, others go; no number of rules needs more memory than the bound, which is that of the memory itself.
    #[test]
    fn rules_that_are_used_again_are_kept() {
        const GENERATION: u64 = (GENERATION_SIZE / ROW_SIZE) as u64;
        let before = own_bytes();
        let mut rules = Rules::default();
        let add = |rules: &mut Rules, number: u64| {
            rules.add(at(number * 16), [number * 16, number * 16 + 16], &KnownRule::None);
        };
        for number in 0..10 * GENERATION {
            add(&mut rules, number);
            if number % 1000 == 0 {
                // Another address of the row, which is not among the recent ones for long.
                assert!(is_known(&mut rules, number % 16), "{number}");
            }
            let sizes = [&rules.young, &rules.old].map(|one| one.size);
            assert!(sizes.iter().all(|size| *size <= GENERATION_SIZE), "{sizes:?}");
            assert!(rules.young.rows.len() as u64 <= GENERATION);
        }
        let recent = RECENT * size_of::<Option<(FileAddress, KnownRule)>>();
        let bytes = own_bytes() - before;
        assert!(bytes as usize <= 2 * GENERATION_SIZE + recent, "{bytes}");
        assert!(recent < 1 << 20 && bytes as usize > GENERATION_SIZE / 2, "{recent} {bytes}");
        assert!(is_known(&mut rules, 10 * GENERATION * 16 - 1) && is_known(&mut rules, 5));
        assert!(!is_known(&mut rules, 16 * GENERATION), "nobody asked for it");
        assert!(!is_known(&mut rules, 10 * GENERATION * 16), "behind the last one");
        assert!(rules.get(FileAddress { file: 2, address: 5 }).is_none());
    }

    #[test]
    fn a_rule_replaces_that_of_the_same_address() {
        let mut rules = Rules::default();
        for _ in 0..3 {
            rules.add(at(8), [0, 16], &KnownRule::None);
        }
        assert_eq!((rules.young.size, rules.young.rows.len()), (ROW_SIZE, 1));
    }
}
