//! Sites: the static part of an event.

use etw_ring::SiteCache;
use etw_types::{Channel, EventDescriptor, Keyword, Level};

/// The level and keyword by which sessions enable an event.
#[derive(Clone, Copy, Debug)]
pub struct LevelAndKeyword {
    /// The level.
    pub level: Level,
    /// The keyword.
    pub keyword: Keyword,
}

/// The static part of an event, made at compile time beside the code that writes it.
///
/// C makes sites too (`etw_event_site` of `TraceLoggingProvider.h`), so the layout is part of the C ABI.
///
/// ```text
/// 0  pointer to the bytes   8  u32 their size   12  u32 size of the metadata on disk   16  u64 ids[8], 0 at first
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct Site {
    /// The descriptor's sixteen bytes, then the TraceLogging metadata: the bytes that a site table holds.
    start: *const u8,
    size: u32,
    /// Bytes that the metadata takes on disk; 0 without metadata.
    pub(super) metadata_size: u32,
    pub(super) cache: SiteCache,
}

// SAFETY: the pointer leads to bytes that nobody changes while the site exists; the other fields are atomics.
unsafe impl Send for Site {}
// SAFETY: as for `Send`.
unsafe impl Sync for Site {}

impl Site {
    /// A site of `bytes`: a descriptor's sixteen bytes ([`descriptor_bytes`]) and the event's TraceLogging metadata, which may be
    /// empty.
    ///
    /// # Panics
    /// At compile time, if there are fewer than sixteen bytes or 16 MiB of them.
    pub const fn new(bytes: &'static [u8]) -> Site {
        assert!(
            bytes.len() >= 16 && bytes.len() < 1 << 24,
            "a site begins with an event descriptor"
        );
        let size = bytes.len() as u32;
        let metadata_size = if size == 16 { 0 } else { (8 + size - 16).next_multiple_of(8) };
        Site { start: bytes.as_ptr(), size, metadata_size, cache: SiteCache::new() }
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> &'static [u8] {
        // SAFETY: the pointer comes from a slice (`new`), or from C, whose side of the ABI promises that the bytes exist and do not
        // change.
        unsafe { std::slice::from_raw_parts(self.start, self.size as usize) }
    }

    /// The event's descriptor.
    #[cfg(windows)]
    pub(crate) fn descriptor(&self) -> [u8; 16] {
        self.bytes().first_chunk().copied().unwrap_or_default()
    }

    /// The event's level and keyword.
    #[inline]
    pub fn level_and_keyword(&self) -> LevelAndKeyword {
        let Some((descriptor, _)) = self.bytes().split_first_chunk::<16>() else {
            return LevelAndKeyword { level: Level(0), keyword: Keyword(0) };
        };
        let keyword = descriptor[8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        LevelAndKeyword { level: Level(descriptor[4]), keyword: Keyword(keyword) }
    }

    /// The event's level.
    #[inline]
    pub fn level(&self) -> Level {
        self.level_and_keyword().level
    }

    /// The event's channel.
    #[inline]
    pub fn channel(&self) -> Channel {
        Channel(self.bytes().get(3).copied().unwrap_or_default())
    }

    /// The event's TraceLogging metadata.
    pub fn metadata(&self) -> &'static [u8] {
        self.bytes().get(16..).unwrap_or(&[])
    }
}

const _: () = {
    // The layout of `etw_event_site` in `TraceLoggingProvider.h`.
    assert!(std::mem::offset_of!(Site, cache) == (size_of::<usize>() + 8).next_multiple_of(8));
    assert!(size_of::<SiteCache>() == 8 * 8);
};

/// The bytes of an event descriptor, for a constant.
pub const fn descriptor_bytes(d: &EventDescriptor) -> [u8; 16] {
    let (id, task, keyword) = (d.id.to_le_bytes(), d.task.to_le_bytes(), d.keyword.0.to_le_bytes());
    [
        id[0],
        id[1],
        d.version,
        d.channel.0,
        d.level.0,
        d.opcode.0,
        task[0],
        task[1],
        keyword[0],
        keyword[1],
        keyword[2],
        keyword[3],
        keyword[4],
        keyword[5],
        keyword[6],
        keyword[7],
    ]
}
