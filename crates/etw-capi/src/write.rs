//! The write calls as programs mostly use them: payload in pieces, one host. What is rarer goes the way of `evntprov.rs`.
//!
//! ```text
//! EventWrite, EventWriteTransfer ─► who wants it? ─► straight into the ring ─┐ where that cannot be:
//! etw_write_site ─────────────────► who wants it? ─► straight into the ring ─┴► described, site_anywhere
//! ```
//!
//! All of it up to the ring is one function without a call: what several would keep for each other in memory stays in registers.

// What is rarer has C's calling convention since nothing unwinds through it; no C code calls it.
#![allow(improper_ctypes_definitions)]

use etw_api::evntprov::{self, MAX_DATA_DESCRIPTORS, RegHandle};
use std::mem::offset_of;

use etw_api::rt::{self, FillRoom, Piece, Room, Site};
use etw_api::{Provider, Status};

use crate::abi::{RawData, RawDescriptor, RawGuid, guarded};
use crate::evntprov::{EventWriteEx, guid_of};

/// What a program gives to be written. It may change meanwhile: what is put is measured again.
#[derive(Clone, Copy)]
struct Pieces {
    count: u32,
    data: *const RawData,
}

impl Pieces {
    /// Bytes of payload. `None`: pieces of other kinds, too many, or not there.
    ///
    /// # Safety
    /// So many pieces are there, or `data` is NULL.
    #[inline(always)]
    unsafe fn payload_size(self) -> Option<usize> {
        if self.data.is_null() {
            return (self.count == 0).then_some(0);
        }
        if self.count as usize > MAX_DATA_DESCRIPTORS {
            return None;
        }
        let (mut size, mut kinds) = (0, 0);
        // SAFETY: the caller's promise. Each member by itself: a load of what was stored in parts just before would wait for them.
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

// SAFETY of all that hand them on to be put: so many pieces are there, each leading to its bytes, for as long as the call.
impl FillRoom for Pieces {
    #[inline(always)]
    fn fill<'r>(self, room: Room<'r>) -> Room<'r> {
        // SAFETY: as above.
        unsafe { room.put_pieces(self.data.cast(), self.count as usize) }
    }
}

const _: () = assert!(
    size_of::<RawData>() == size_of::<Piece>()
        && offset_of!(RawData, size) == offset_of!(Piece, size)
);

/// A count that the compiler knows nothing of: it would have loops of two turns take four at a time, and registers for them.
#[inline(always)]
fn plainly(mut count: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("/* {0:e} */", inout(reg) count, options(nomem, nostack, preserves_flags));
    }
    count
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWrite(
    handle: u64,
    descriptor: *const RawDescriptor,
    count: u32,
    data: *const RawData,
) -> u32 {
    let none = std::ptr::null();
    // SAFETY: the caller's promise.
    unsafe { EventWriteTransfer(handle, descriptor, none, none, count, data) }
}

/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EventWriteTransfer(
    handle: u64,
    descriptor: *const RawDescriptor,
    activity: *const RawGuid,
    related: *const RawGuid,
    count: u32,
    data: *const RawData,
) -> u32 {
    // SAFETY: the caller's promise, handed on.
    unsafe {
        // A descriptor is taken as it lies in memory.
        if cfg!(target_endian = "big") || descriptor.is_null() {
            return any_event(handle, descriptor, activity, related, count, data);
        }
        let words: *const [u64; 2] = descriptor.cast();
        let [head, keyword] = words.read_unaligned();
        let level = (head >> 32) as u8;
        let Some(provider) = evntprov::provider_of_handle(RegHandle(handle)) else {
            return Status::ERROR_INVALID_HANDLE.0;
        };
        let only = rt::only_route(provider, level, keyword);
        if only == Some(0) {
            return Status::ERROR_SUCCESS.0;
        }
        let Some(size) = (Pieces { count, data }).payload_size() else {
            // Kinds count for some registrations only; what is wrong with pieces is told there, too.
            return any_event(handle, descriptor, activity, related, count, data);
        };
        if only == Some(1) && activity.is_null() && related.is_null() {
            let fill = Pieces { count, data };
            let sent = rt::send_described_here(provider, words, 1, size, fill);
            if let Some(status) = sent {
                return status.0;
            }
        }
        described(provider, words, activity, related, count, data)
    }
}

/// # Safety
/// As [`EventWriteTransfer`] has it.
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
    // SAFETY: the caller's promise.
    unsafe { EventWriteEx(handle, descriptor, 0, 0, activity, related, count, data) }
}

/// In an activity, to other sessions than the first host's first, or while a pool needs attention.
///
/// # Safety
/// As [`EventWriteTransfer`] has it, with payload only.
#[inline(never)]
unsafe extern "C" fn described(
    provider: &Provider,
    descriptor: *const [u64; 2],
    activity: *const RawGuid,
    related: *const RawGuid,
    count: u32,
    data: *const RawData,
) -> u32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let (words, ids, size) = unsafe {
            let ids = (guid_of(activity), guid_of(related));
            (descriptor.read_unaligned(), ids, Pieces { count, data }.payload_size())
        };
        let Some(size) = size else { return Status::ERROR_INVALID_PARAMETER };
        let routes = rt::routes(provider, (words[0] >> 32) as u8, words[1]);
        if !routes.any() {
            return Status::ERROR_SUCCESS;
        }
        let ids = (ids.0.as_ref(), ids.1.as_ref());
        let pieces = Pieces { count, data };
        rt::send_described(provider, words, routes, ids, size, &|room| pieces.fill(room))
    })
}

/// Writes an event of a site that `TraceLoggingProvider.h` made, in the thread's current activity. `size`: of all pieces together.
///
/// # Safety
/// As the header says: the site and the bytes that it leads to stay where they are for as long as the call, and so do the pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_write_site(
    handle: u64,
    site: *const Site,
    size: u32,
    count: u32,
    data: *const RawData,
) -> u32 {
    // SAFETY: the caller's promise. The lifetime is too long, but nothing keeps a site.
    let Some(site): Option<&'static Site> = (unsafe { site.as_ref() }) else {
        return Status::ERROR_INVALID_PARAMETER.0;
    };
    let (level, keyword) = site.level_and_keyword();
    let Some(provider) = evntprov::provider_of_handle(RegHandle(handle)) else {
        return Status::ERROR_INVALID_HANDLE.0;
    };
    let only = rt::only_route(provider, level, keyword);
    if only == Some(0) {
        return Status::ERROR_SUCCESS.0;
    }
    let pieces = Pieces { count, data };
    if only == Some(1)
        && let Some(status) = rt::send_here(provider, site, 1, size as usize, pieces)
    {
        return status.0;
    }
    // SAFETY: the caller's promise.
    unsafe { site_anywhere(provider, site, size, count, data) }
}

/// To other sessions than the first host's first, or while a pool needs attention.
///
/// # Safety
/// As [`etw_write_site`] has it.
#[inline(never)]
unsafe extern "C" fn site_anywhere(
    provider: &Provider,
    site: &'static Site,
    size: u32,
    count: u32,
    data: *const RawData,
) -> u32 {
    guarded(|| {
        let (level, keyword) = site.level_and_keyword();
        let routes = rt::routes(provider, level, keyword);
        if !routes.any() {
            return Status::ERROR_SUCCESS;
        }
        let pieces = Pieces { count, data };
        rt::send(provider, site, routes, size as usize, &|room| pieces.fill(room))
    })
}

/// As [`etw_write_site`], with what `EventWriteEx` has beside.
///
/// # Safety
/// As the header says.
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
        // SAFETY: as in `etw_write_site`.
        let (site, size, ids) = unsafe {
            (site.as_ref(), pieces.payload_size(), (guid_of(activity), guid_of(related)))
        };
        let (Some(site), Some(size)) = (site, size) else {
            return Status::ERROR_INVALID_PARAMETER;
        };
        evntprov::event_write_site_ex(RegHandle(handle), site, filter, flags, ids, size, &|room| {
            pieces.fill(room)
        })
    })
}
