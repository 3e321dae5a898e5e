//! The header of a record, as a writer puts it into a chunk.

use super::Request;
use crate::proto::Head;

/// What the fast path hands on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) record: *mut u8,
    pub(super) head: Head,
    pub(super) seq: u32,
    pub(super) epoch: u16,
    pub(super) sessions: u8,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) time: u64,
    pub(super) cpu: u16,
    pub(super) filled: u32,
    pub(super) tid: u32,
}

/// # Safety
/// The grant's record is 8-byte aligned, has room for a header, and is the caller's alone.
#[inline(always)]
pub(super) unsafe fn write_header(request: &Request, grant: &Grant, stamp: &Stamp) {
    // SAFETY: the caller's promise.
    unsafe {
        write_stamp(request, grant, stamp);
        write_identity(request, grant, stamp);
    }
}

/// The header's first 16 bytes.
///
/// # Safety
/// As [`write_header`].
#[inline(always)]
pub(super) unsafe fn write_stamp(request: &Request, grant: &Grant, stamp: &Stamp) {
    let first = u64::from(stamp.filled)
        | u64::from(request.kind) << 32
        | u64::from(grant.sessions) << 40
        | u64::from(stamp.cpu) << 48;
    // SAFETY: the caller's promise.
    unsafe {
        grant.record.cast::<u64>().write(first);
        grant.record.cast::<u64>().add(1).write(stamp.time);
    }
}

/// The rest of the header. Nothing of it is the stamp's but the thread.
///
/// # Safety
/// As [`write_header`].
#[inline(always)]
pub(super) unsafe fn write_identity(request: &Request, grant: &Grant, stamp: &Stamp) {
    let words = [
        u64::from(request.site) | u64::from(grant.seq) << 32,
        u64::from(request.registration) | u64::from(stamp.tid) << 32,
        u64::from(request.metadata_size)
            | u64::from(grant.epoch) << 16
            | u64::from(request.user) << 32,
    ];
    for (i, word) in words.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { grant.record.cast::<u64>().add(2 + i).write(word) };
    }
}
