//! The site table: static metadata is interned in the pool once, and records name it by its id.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::*;
use crate::writer::{MAX_ATTACHMENTS, Writer};

pub(crate) const SITE_COMMITTED: u64 = 1 << 63;
/// The longest metadata that is interned.
pub const MAX_SITE_SIZE: usize = 65535;

pub(crate) fn index_entry(offset: u32, size: u32) -> u64 {
    SITE_COMMITTED | u64::from(size) << 32 | u64::from(offset)
}

/// The ids of static metadata, one for each attachment. Lies beside the metadata.
#[derive(Debug)]
#[repr(transparent)]
pub struct SiteCache {
    pub(crate) ids: [AtomicU64; MAX_ATTACHMENTS],
}

impl SiteCache {
    /// An empty cache.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> SiteCache {
        SiteCache { ids: [const { AtomicU64::new(0) }; MAX_ATTACHMENTS] }
    }

    /// The id in the pool of the writer with this epoch, if it has one.
    #[inline(always)]
    pub(crate) fn id_of(&self, attachment: usize, epoch: u64) -> Option<u32> {
        let cached = self.ids[attachment % MAX_ATTACHMENTS].load(Ordering::Relaxed);
        (cached >> 32 == epoch & 0xffff_ffff).then_some(cached as u32)
    }
}

impl Writer {
    /// The id of a static site's metadata in this pool. 0: the metadata must travel in the record, since the table is full, the
    /// metadata is too long, or the pool belongs to another process.
    ///
    /// Lock-free and async-signal-safe. The entry is committed before the id is returned, so before any record names it. Two threads
    /// that reach a new site at once may intern it twice. A cached id carries the writer's epoch, and is not used for another pool.
    #[inline]
    pub fn intern(&self, cache: &SiteCache, metadata: &[u8]) -> u32 {
        self.intern_at(self.attachment, cache, metadata)
    }

    /// [`intern`](Self::intern) for a caller that knows the writer's attachment as a constant.
    #[inline(always)]
    pub fn intern_at(&self, attachment: usize, cache: &SiteCache, metadata: &[u8]) -> u32 {
        self.interned_at(attachment, cache).unwrap_or_else(|| self.intern_slow(cache, metadata))
    }

    /// [`intern_at`](Self::intern_at) of metadata that was interned before; else `None`.
    #[inline(always)]
    pub fn interned_at(&self, attachment: usize, cache: &SiteCache) -> Option<u32> {
        cache.id_of(attachment, self.epoch)
    }

    #[cold]
    fn intern_slow(&self, cache: &SiteCache, metadata: &[u8]) -> u32 {
        if !self.is_attached() {
            return 0;
        }
        // If the table is full, nothing is cached, so that a cached id is never 0.
        let Some(id) = self.append_site(metadata) else { return 0 };
        let value = (self.epoch & 0xffff_ffff) << 32 | u64::from(id);
        cache.ids[self.attachment % MAX_ATTACHMENTS].store(value, Ordering::Relaxed);
        id
    }

    fn append_site(&self, metadata: &[u8]) -> Option<u32> {
        if metadata.len() > MAX_SITE_SIZE {
            return None;
        }
        let first = self.first();
        let word = first.word(P_SITE_ALLOC);
        let mut now = word.load(Ordering::Relaxed);
        let (id, offset) = loop {
            let (id, offset) = ((now >> 32) as usize, now as u32 as usize);
            let end = offset + metadata.len().next_multiple_of(8);
            if id >= MAX_SITES || end > SITE_BLOB_SIZE {
                return None;
            }
            let next = (id as u64 + 1) << 32 | end as u64;
            match word.compare_exchange_weak(now, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break (id, offset),
                Err(seen) => now = seen,
            }
        };
        // SAFETY: the compare-exchange above reserved the range in the blob for this thread alone.
        unsafe {
            let at = first.as_ptr().add(P_SITE_BLOB + offset);
            std::ptr::copy_nonoverlapping(metadata.as_ptr(), at, metadata.len());
        }
        // Release; pairs with the acquire of a host that reads a record with this id, which is committed later.
        first
            .word(P_SITES + id * 8)
            .store(index_entry(offset as u32, metadata.len() as u32), Ordering::Release);
        Some(id as u32)
    }
}
