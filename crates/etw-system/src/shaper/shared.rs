//! Values that several owners have together, as threads and processes have what `clone` does not copy.

use std::collections::HashMap;
use std::hash::Hash;

/// The values of all owners.
#[derive(Clone, Debug)]
pub(super) struct Shared<O, V> {
    values: HashMap<u64, Value<V>>,
    of_owner: HashMap<O, u64>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Value<V> {
    value: V,
    owners: usize,
}

impl<O, V> Default for Shared<O, V> {
    fn default() -> Self {
        Shared { values: HashMap::new(), of_owner: HashMap::new(), next: 0 }
    }
}

impl<O: Copy + Eq + Hash, V> Shared<O, V> {
    /// Owners, and values.
    pub fn counts(&self) -> [usize; 2] {
        [self.of_owner.len(), self.values.len()]
    }

    /// The value of an owner.
    pub fn get(&self, owner: O) -> Option<&V> {
        self.entry(owner).map(|one| &one.value)
    }

    /// The same, to be changed for all that have it.
    pub fn get_mut(&mut self, owner: O) -> Option<&mut V> {
        self.values.get_mut(self.of_owner.get(&owner)?).map(|one| &mut one.value)
    }

    /// Whether others have the value of an owner, too.
    pub fn is_shared(&self, owner: O) -> bool {
        self.entry(owner).is_some_and(|one| one.owners > 1)
    }

    /// All values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.values.values_mut().map(|one| &mut one.value)
    }

    /// An owner has a value alone from now on. Returns the one that it had, if nobody has that any more.
    pub fn add(&mut self, owner: O, value: V) -> Option<V> {
        let before = self.end(owner);
        self.next += 1;
        self.values.insert(self.next, Value { value, owners: 1 });
        self.of_owner.insert(owner, self.next);
        before
    }

    /// An owner has the value of another one from now on, if that has any.
    pub fn share(&mut self, owner: O, with: O) {
        let Some(id) = self.of_owner.get(&with).copied().filter(|_| owner != with) else { return };
        self.end(owner);
        if let Some(value) = self.values.get_mut(&id) {
            value.owners += 1;
            self.of_owner.insert(owner, id);
        }
    }

    /// An owner has no value from now on. Returns the one that it had, if nobody has that any more.
    pub fn end(&mut self, owner: O) -> Option<V> {
        let id = self.of_owner.remove(&owner)?;
        let value = self.values.get_mut(&id)?;
        value.owners -= 1;
        if value.owners > 0 {
            return None;
        }
        self.values.remove(&id).map(|one| one.value)
    }

    fn entry(&self, owner: O) -> Option<&Value<V>> {
        self.values.get(self.of_owner.get(&owner)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lives_as_long_as_its_owners() {
        let mut all = Shared::default();
        assert_eq!((all.add(1, 'a'), all.add(2, 'b')), (None, None));
        all.share(3, 1);
        all.share(1, 1);
        all.share(4, 9);
        assert_eq!(
            [1, 2, 3, 4].map(|one| all.get(one).copied()),
            [Some('a'), Some('b'), Some('a'), None]
        );
        assert_eq!([1, 2].map(|one| all.is_shared(one)), [true, false]);
        *all.get_mut(3).unwrap() = 'c';
        assert_eq!((all.get(1), all.counts()), (Some(&'c'), [3, 2]));
        assert_eq!((all.end(1), all.end(1)), (None, None));
        assert_eq!((all.add(3, 'd'), all.end(2)), (Some('c'), Some('b')));
        all.share(2, 3);
        all.share(2, 3);
        assert_eq!((all.end(3), all.end(2), all.counts()), (None, Some('d'), [0, 0]));
    }
}
