//! The threads that live, by their ids.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::processes::Thread;

/// Threads whose places are at hand.
const RECENT: usize = 256;

/// Threads by their ids. Most events are of threads that had one a moment ago: their places are found without a search.
#[derive(Debug)]
pub(super) struct Threads {
    /// The indices in `all`.
    places: HashMap<u32, u32, RandomState>,
    all: Vec<Thread>,
    /// Indices of none.
    free: Vec<u32>,
    /// The threads asked for last, at their ids modulo the length.
    recent: Box<[Recent; RECENT]>,
}

#[derive(Clone, Copy, Debug)]
struct Recent {
    id: u32,
    /// `u32::MAX`: none.
    place: u32,
}

const NONE: Recent = Recent { id: 0, place: u32::MAX };

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            places: HashMap::default(),
            all: Vec::new(),
            free: Vec::new(),
            recent: Box::new([NONE; RECENT]),
        }
    }
}

impl Threads {
    /// The place of a thread among the recent ones.
    #[inline(always)]
    fn slot(id: u32) -> usize {
        id as usize % RECENT
    }

    #[inline(always)]
    fn recent_place(&self, id: u32) -> Option<usize> {
        let recent = self.recent[Threads::slot(id)];
        (recent.id == id && recent.place != NONE.place).then_some(recent.place as usize)
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.recent_place(id).or_else(|| self.places.get(&id).map(|place| *place as usize))
    }

    #[inline(never)]
    fn search(&mut self, id: u32) -> Option<usize> {
        let place = *self.places.get(&id)?;
        self.recent[Threads::slot(id)] = Recent { id, place };
        Some(place as usize)
    }

    pub fn contains_key(&self, id: &u32) -> bool {
        self.place(*id).is_some()
    }

    pub fn get(&self, id: &u32) -> Option<&Thread> {
        self.all.get(self.place(*id)?)
    }

    #[inline]
    pub fn get_mut(&mut self, id: &u32) -> Option<&mut Thread> {
        let place = match self.recent_place(*id) {
            Some(place) => place,
            None => self.search(*id)?,
        };
        self.all.get_mut(place)
    }

    /// Adds a thread, in place of one that has the id.
    pub fn insert(&mut self, id: u32, thread: Thread) {
        if let Some(one) = self.get_mut(&id) {
            *one = thread;
            return;
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = thread;
                place
            }
            None => {
                self.all.push(thread);
                (self.all.len() - 1) as u32
            }
        };
        self.places.insert(id, place);
    }

    pub fn remove(&mut self, id: &u32) -> Option<Thread> {
        let place = self.places.remove(id)?;
        let slot = Threads::slot(*id);
        if self.recent[slot].id == *id {
            self.recent[slot] = NONE;
        }
        self.free.push(place);
        Some(std::mem::take(&mut self.all[place as usize]))
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&u32, &Thread)> {
        self.places.iter().map(|(id, place)| (id, &self.all[*place as usize]))
    }

    /// The ids of all of them, in no order.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.places.keys().copied()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_process(process: u32) -> Thread {
        Thread { process, ..Thread::default() }
    }

    #[test]
    fn threads_that_share_a_recent_place_are_told_apart() {
        let mut threads = Threads::default();
        let ids = [0, 7, 7 + RECENT as u32, 7 + 2 * RECENT as u32, u32::MAX];
        for id in ids {
            threads.insert(id, of_process(id));
            assert!(threads.get(&(id ^ 1)).is_none() && threads.get_mut(&(id ^ 1)).is_none());
        }
        for id in ids.into_iter().chain(ids) {
            assert_eq!(threads.get(&id).map(|one| one.process), Some(id));
            assert_eq!(threads.get_mut(&id).map(|one| one.process), Some(id));
        }
        assert_eq!(threads.remove(&7).map(|one| one.process), Some(7));
        assert!(!threads.contains_key(&7) && threads.get_mut(&7).is_none());
        assert!(threads.remove(&7).is_none());
        // Another one gets its memory.
        threads.insert(8, of_process(80));
        threads.insert(8, of_process(81));
        assert_eq!(threads.get_mut(&8).map(|one| one.process), Some(81));
        let mut all: Vec<u32> = threads.iter().map(|(id, _)| *id).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 8, ids[2], ids[3], u32::MAX]);
        assert_eq!((threads.ids().count(), threads.len()), (5, 5));
    }
}
