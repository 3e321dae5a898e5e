//! The fast paths of the write functions: payload in data descriptors, one host. `evntprov.rs` has the general path.
//!
//! ```text
//! EventWrite, EventWriteTransfer ─► which sessions? ─► write into the ring ─┐ several hosts, an activity,
//! etw_write_site ─────────────────► which sessions? ─► write into the ring ─┤ or a pool that needs attention:
//!   ▲ NULL                                                                  └► described, site_anywhere
//! etw_begin_site ─────────────────► which sessions? ─► the macro copies its values into the ring ─► etw_commit_site
//! etw_begin_described: the same for EventWriteTransfer where the compiler inlines it
//! ```
//!
//! Each fast path is one function without calls up to the ring, so that its values stay in registers.

// The slow paths have C's calling convention because nothing unwinds through it; C code does not call them.
#![allow(improper_ctypes_definitions)]

use etw_api::evntprov::{self, MAX_DATA_DESCRIPTORS, RegHandle};
use std::mem::offset_of;
use std::ptr::NonNull;

use etw_api::rt::{self, FillRoom, LevelAndKeyword, NotUsual, Piece, Room, Site};
use etw_api::{Keyword, Level, Provider, Status};

use crate::abi::{RawData, RawDescriptor, RawGuid, guarded, guid_of};
use crate::evntprov::EventWriteEx;

/// The data descriptors of one write. The program may change them during the write, so the copy into the ring checks their sizes again.
#[derive(Clone, Copy)]
pub(crate) struct Pieces {
    pub count: u32,
    pub data: *const RawData,
}

impl Pieces {
    /// The size of the payload in bytes; `None` for descriptors of other kinds, too many descriptors, or NULL with a count.
    ///
    /// # Safety
    /// ARRAY `data`, `count`.
    #[inline(always)]
    pub unsafe fn payload_size(self) -> Option<usize> {
        if self.data.is_null() {
            return (self.count == 0).then_some(0);
        }
        if self.count as usize > MAX_DATA_DESCRIPTORS {
            return None;
        }
        let (mut size, mut kinds) = (0, 0);
        // SAFETY: ARRAY. Each member is loaded by itself: the program has just stored the members one by one, and a wider load would
        // wait for those stores.
        unsafe {
            let (mut piece, mut left) = (self.data, self.count);
            while left != 0 {
                size += (&raw const (*piece).size).read_unaligned() as usize;
                kinds |= (&raw const (*piece).kind).read();
                piece = piece.add(1);
                left = plainly(left - 1);
            }
        }
        (kinds == 0).then_some(size)
    }
}

impl FillRoom for Pieces {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        // SAFETY: every function that makes `Pieces` has ARRAY for them and BYTES for each element, until its call returns.
        unsafe { room.put_pieces(Piece::all(self.data.cast(), self.count as usize)) }
    }
}

const _: () = assert!(
    size_of::<RawData>() == size_of::<Piece>()
        && offset_of!(RawData, size) == offset_of!(Piece, size)
);

/// Hides a count from the optimiser, which would otherwise unroll a loop of typically two turns.
#[inline(always)]
fn plainly(mut count: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the block has no instruction.
    unsafe {
        std::arch::asm!("/* {0:e} */", inout(reg) count, options(nomem, nostack, preserves_flags));
    }
    count
}

/// # Safety
/// ONE `descriptor`; ARRAY `data`, `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWrite(
    handle: u64,
    descriptor: *const RawDescriptor,
    count: u32,
    data: *const RawData,
) -> u32 {
    let none = std::ptr::null();
    // SAFETY: ONE, ARRAY; NULL is allowed for the ids.
    unsafe { EventWriteTransfer(handle, descriptor, none, none, count, data) }
}

/// # Safety
/// ONE `descriptor`; ONE `activity`; ONE `related`; ARRAY `data`, `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteTransfer(
    handle: u64,
    descriptor: *const RawDescriptor,
    activity: *const RawGuid,
    related: *const RawGuid,
    count: u32,
    data: *const RawData,
) -> u32 {
    // SAFETY: ONE, ARRAY.
    unsafe {
        // The ring takes the descriptor as two little-endian words.
        if cfg!(target_endian = "big") || descriptor.is_null() {
            return any_event(handle, descriptor, activity, related, count, data);
        }
        let words: *const [u64; 2] = descriptor.cast();
        let [head, keyword] = words.read_unaligned();
        let level = Level((head >> 32) as u8);
        let Some(provider) = evntprov::provider_of_handle(RegHandle(handle)) else {
            return Status::ERROR_INVALID_HANDLE.0;
        };
        let only = rt::only_route(provider, level, Keyword(keyword));
        if only == Some(0) {
            return Status::ERROR_SUCCESS.0;
        }
        let Some(size) = (Pieces { count, data }).payload_size() else {
            // The general path handles descriptors of other kinds and rejects invalid ones.
            return any_event(handle, descriptor, activity, related, count, data);
        };
        if only == Some(1) && activity.is_null() && related.is_null() {
            let fill = Pieces { count, data };
            let sent = rt::try_write_described_inline(provider, words, 1, size, fill);
            if let Some(status) = sent {
                return status.0;
            }
        }
        described(provider, words, activity, related, count, data, size)
    }
}

/// # Safety
/// As [`EventWriteTransfer`].
#[cold]
#[inline(never)]
unsafe extern "C" fn any_event(
    handle: u64,
    descriptor: *const RawDescriptor,
    activity: *const RawGuid,
    related: *const RawGuid,
    count: u32,
    data: *const RawData,
) -> u32 {
    // SAFETY: ONE, ARRAY.
    unsafe { EventWriteEx(handle, descriptor, 0, 0, activity, related, count, data) }
}

/// Writes an event that belongs to an activity, that other sessions than the first of the first host enabled, or whose pool needs attention.
/// `size`: of its payload.
///
/// # Safety
/// As [`EventWriteTransfer`]; `descriptor` is not NULL, and all data descriptors are payload.
#[inline(never)]
unsafe extern "C" fn described(
    provider: &Provider,
    descriptor: *const [u64; 2],
    activity: *const RawGuid,
    related: *const RawGuid,
    count: u32,
    data: *const RawData,
    size: usize,
) -> u32 {
    guarded(|| {
        // SAFETY: ONE.
        let (words, ids) =
            unsafe { (descriptor.read_unaligned(), (guid_of(activity), guid_of(related))) };
        let routes = rt::routes(provider, Level((words[0] >> 32) as u8), Keyword(words[1]));
        if !routes.any() {
            return Status::ERROR_SUCCESS;
        }
        let (activity, related) = (ids.0.as_ref(), ids.1.as_ref());
        let event = rt::Described { descriptor: words, activity, related };
        let pieces = Pieces { count, data };
        rt::write_described(provider, event, routes, size, &|room| pieces.fill(room))
    })
}

/// Begins an event in no activity: the address of `size` bytes for its payload, which lie behind the descriptor in the record. 1: no session
/// wants the event. NULL: nothing happened, and the caller calls [`EventWriteTransfer`].
///
/// # Safety
/// ONE `descriptor`. BEGUN: the caller fills all bytes at once, and then calls [`etw_commit_described`] with the same size on the same
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_begin_described(
    handle: u64,
    descriptor: *const RawDescriptor,
    size: u64,
) -> *mut u8 {
    let none = std::ptr::null_mut();
    let provider = evntprov::provider_of_handle(RegHandle(handle));
    // The ring takes the descriptor as two little-endian words.
    let (Some(provider), false) = (provider, cfg!(target_endian = "big") || descriptor.is_null())
    else {
        return none;
    };
    let words: *const [u64; 2] = descriptor.cast();
    // SAFETY: ONE.
    let [head, keyword] = unsafe { words.read_unaligned() };
    let only = rt::only_route(provider, Level((head >> 32) as u8), Keyword(keyword));
    if only != Some(1) {
        return std::ptr::without_provenance_mut(usize::from(only == Some(0)));
    }
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    // SAFETY: ONE, BEGUN.
    unsafe {
        match rt::try_begin_described_usual(provider, words, 1, size) {
            Ok(begun) => begun.as_ptr(),
            Err(NotUsual::State) => begin_described_slowly(provider, words, size),
            Err(NotUsual::Gate) => none,
        }
    }
}

/// [`etw_begin_described`] on any machine, and if the thread needs another chunk. The fast path ends with this call, so
/// that it keeps its values in registers.
///
/// # Safety
/// ONE `descriptor`; BEGUN.
#[cold]
#[inline(never)]
unsafe extern "C" fn begin_described_slowly(
    provider: &Provider,
    descriptor: *const [u64; 2],
    size: usize,
) -> *mut u8 {
    // SAFETY: ONE, BEGUN.
    let begun = unsafe { rt::try_begin_described(provider, descriptor, 1, size) };
    begun.map_or(std::ptr::null_mut(), NonNull::as_ptr)
}

/// Publishes the event that [`etw_begin_described`] began.
///
/// # Safety
/// BEGUN of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_commit_described(size: u32) {
    // SAFETY: BEGUN.
    unsafe { rt::commit_described(size) }
}

/// Begins an event of a site that `TraceLoggingProvider.h` defines: the address of `size` bytes for its payload. NULL: nothing happened, and
/// the caller calls [`etw_write_site`].
///
/// # Safety
/// ONE `site`, which is not NULL, and whose level and keyword passed the gate in the provider's storage. BEGUN: the caller fills all bytes at once, and then calls [`etw_commit_site`] with the same size on the same thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_begin_site(handle: u64, site: *const Site, size: u64) -> *mut u8 {
    // SAFETY: ONE, as in `etw_write_site`.
    let site: &'static Site = unsafe { &*site };
    let provider = evntprov::provider_of_handle(RegHandle(handle));
    let provider =
        provider.filter(|provider| rt::only_route_behind_gate(provider, site) == Some(1));
    let Some(provider) = provider else { return std::ptr::null_mut() };
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    // SAFETY: BEGUN.
    unsafe {
        match rt::try_begin_site_usual(provider, site, 1, size) {
            Ok(begun) => begun.as_ptr(),
            Err(NotUsual::State) => begin_site_slowly(provider, site, size),
            Err(NotUsual::Gate) => std::ptr::null_mut(),
        }
    }
}

/// [`etw_begin_site`] on any machine, and if the thread needs another chunk: as `begin_described_slowly`.
///
/// # Safety
/// BEGUN.
#[cold]
#[inline(never)]
unsafe extern "C" fn begin_site_slowly(
    provider: &Provider,
    site: &'static Site,
    size: usize,
) -> *mut u8 {
    // SAFETY: BEGUN.
    let begun = unsafe { rt::try_begin_site(provider, site, 1, size) };
    begun.map_or(std::ptr::null_mut(), NonNull::as_ptr)
}

/// Publishes the event that [`etw_begin_site`] began.
///
/// # Safety
/// BEGUN of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_commit_site(size: u32) {
    // SAFETY: BEGUN.
    unsafe { rt::commit_site(size) }
}

/// Writes an event of a site that `TraceLoggingProvider.h` defines, in the thread's current activity. `size`: of the whole payload.
///
/// # Safety
/// ONE `site`; ARRAY `data`, `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_write_site(
    handle: u64,
    site: *const Site,
    size: u32,
    count: u32,
    data: *const RawData,
) -> u32 {
    // SAFETY: ONE for the site and what it contains. `'static` is longer than the caller promises, but nothing keeps the site after the
    // call.
    let Some(site): Option<&'static Site> = (unsafe { site.as_ref() }) else {
        return Status::ERROR_INVALID_PARAMETER.0;
    };
    let LevelAndKeyword { level, keyword } = site.level_and_keyword();
    let Some(provider) = evntprov::provider_of_handle(RegHandle(handle)) else {
        return Status::ERROR_INVALID_HANDLE.0;
    };
    let only = rt::only_route(provider, level, keyword);
    if only == Some(0) {
        return Status::ERROR_SUCCESS.0;
    }
    let pieces = Pieces { count, data };
    if only == Some(1)
        && let Some(status) = rt::try_write_site_inline(provider, site, 1, size as usize, pieces)
    {
        return status.0;
    }
    // SAFETY: ARRAY.
    unsafe { site_anywhere(provider, site, size, count, data) }
}

/// Writes an event that other sessions than the first of the first host enabled, or whose pool needs attention.
///
/// # Safety
/// ARRAY `data`, `count`; BYTES for each element.
#[inline(never)]
unsafe extern "C" fn site_anywhere(
    provider: &Provider,
    site: &'static Site,
    size: u32,
    count: u32,
    data: *const RawData,
) -> u32 {
    guarded(|| {
        let LevelAndKeyword { level, keyword } = site.level_and_keyword();
        let routes = rt::routes(provider, level, keyword);
        if !routes.any() {
            return Status::ERROR_SUCCESS;
        }
        let pieces = Pieces { count, data };
        rt::write_site(provider, site, routes, size as usize, |room| pieces.fill(room))
    })
}

/// As [`etw_write_site`], with the further arguments of `EventWriteEx`.
///
/// # Safety
/// ONE `site`; ONE `activity`; ONE `related`; ARRAY `data`, `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_write_site_ex(
    handle: u64,
    site: *const Site,
    filter: u64,
    flags: u32,
    activity: *const RawGuid,
    related: *const RawGuid,
    count: u32,
    data: *const RawData,
) -> u32 {
    guarded(|| {
        let pieces = Pieces { count, data };
        // SAFETY: ONE for the site, which nothing keeps after the call, and for the ids; ARRAY.
        let (site, size, ids) = unsafe {
            let ids = rt::Extras::ids(guid_of(activity), guid_of(related));
            (site.as_ref(), pieces.payload_size(), ids)
        };
        let (Some(site), Some(size)) = (site, size) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        let write = evntprov::WriteOptions { filter, flags };
        let options = evntprov::SiteOptions { write, ids };
        evntprov::event_write_site_ex(RegHandle(handle), site, options, size, &|room| {
            pieces.fill(room)
        })
    })
}
