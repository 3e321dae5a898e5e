//! The enablements of a session, by provider or group.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use etw_types::Guid;

use crate::enable::{EnableInfo, EnableProperties};
use crate::shape::Shape;

/// For keys that the controller chooses: no program can make them collide.
#[derive(Default)]
struct GuidHasher(u64);

impl Hasher for GuidHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// The enablements of a session by provider or group.
#[derive(Debug, Default)]
pub(super) struct Enabled {
    pub(super) all: Vec<Entry>,
    /// Indices in `all`.
    by_id: HashMap<Guid, usize, BuildHasherDefault<GuidHasher>>,
    /// The index that was used last: the next event is nearly always of the same provider.
    last: Cell<usize>,
    /// A number that differs from those of all other sessions, and changes with each enablement; 0 while nothing is enabled.
    pub(super) version: u64,
}

/// The next version of a session's enablements.
static VERSIONS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: Guid,
    pub(super) info: EnableInfo,
    /// The enablement has only level and keyword, so that events are stored unchanged.
    pub(super) is_plain: bool,
}

impl Entry {
    fn new(id: Guid, info: EnableInfo) -> Entry {
        let is_plain = info.filters.is_none() && info.properties == EnableProperties::default();
        Entry { id, info, is_plain }
    }
}

impl Enabled {
    pub(super) fn insert(&mut self, id: Guid, info: EnableInfo) {
        self.version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        match self.by_id.get(&id) {
            Some(at) => self.all[*at] = Entry::new(id, info),
            None => {
                self.by_id.insert(id, self.all.len());
                self.all.push(Entry::new(id, info));
            }
        }
    }

    pub(super) fn remove(&mut self, id: &Guid) -> Option<EnableInfo> {
        let at = self.by_id.remove(id)?;
        self.version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        let removed = self.all.swap_remove(at);
        if let Some(moved) = self.all.get(at) {
            self.by_id.insert(moved.id, at);
        }
        Some(removed.info)
    }

    #[inline]
    pub(super) fn get(&self, id: &Guid) -> Option<&EnableInfo> {
        Some(&self.entry(id)?.info)
    }

    #[inline]
    pub(super) fn entry(&self, id: &Guid) -> Option<&Entry> {
        match self.all.get(self.last.get()) {
            Some(last) if last.id == *id => Some(last),
            _ => self.find(id),
        }
    }

    /// Whether the session stores all events of this shape unchanged.
    #[inline(never)]
    pub(super) fn is_plain(&self, shape: &Shape) -> bool {
        let (level, keyword) = (shape.descriptor.level, shape.descriptor.keyword);
        self.entry(&shape.provider)
            .is_some_and(|entry| entry.is_plain && entry.info.wanted.matches(level, keyword))
    }

    #[inline(never)]
    fn find(&self, id: &Guid) -> Option<&Entry> {
        let at = *self.by_id.get(id)?;
        self.last.set(at);
        self.all.get(at)
    }
}
