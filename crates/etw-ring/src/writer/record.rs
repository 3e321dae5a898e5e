//! The header of a record, as a writer puts it into a chunk.

use super::Request;
use crate::proto::Head;

/// An announced and counted write: its record, and values for the header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) record: *mut u8,
    pub(super) head: Head,
    pub(super) seq: u32,
    pub(super) epoch: u16,
    pub(super) sessions: u8,
}

/// Time and CPU of a write, and the size of its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) time: u64,
    pub(super) cpu: u16,
    pub(super) filled: u32,
}

/// Writes the header of a record.
///
/// # Safety
/// `RECORD`: the grant's record is 8-byte aligned, has space for a header, and belongs to the caller alone.
#[inline(always)]
pub(super) unsafe fn write_header(request: &Request, grant: &Grant, stamp: &Stamp, tid: u32) {
    // SAFETY: `RECORD`.
    unsafe {
        write_stamp(request, grant, stamp);
        write_identity(request, grant, tid);
    }
}

/// Writes the first 16 bytes of the header.
///
/// # Safety
/// `RECORD` of [`write_header`].
#[inline(always)]
pub(super) unsafe fn write_stamp(request: &Request, grant: &Grant, stamp: &Stamp) {
    let kind_and_sessions = u16::from(request.kind) | u16::from(grant.sessions) << 8;
    // Each value by a store of its own: to put several into one word first takes more time.
    // SAFETY: `RECORD`.
    unsafe {
        grant.record.cast::<u32>().write(stamp.filled);
        grant.record.cast::<u16>().add(2).write(kind_and_sessions);
        grant.record.cast::<u16>().add(3).write(stamp.cpu);
        grant.record.cast::<u64>().add(1).write(stamp.time);
    }
}

/// Writes the rest of the header, with the thread's id.
///
/// # Safety
/// `RECORD` of [`write_header`].
#[inline(always)]
pub(super) unsafe fn write_identity(request: &Request, grant: &Grant, tid: u32) {
    for (i, half) in [request.site, grant.seq, request.registration, tid].into_iter().enumerate() {
        // SAFETY: `RECORD`.
        unsafe { grant.record.cast::<u32>().add(4 + i).write(half) };
    }
    // Mostly two of these are zeros, and the epoch lies as in the summary of admissions.
    let last = u64::from(request.metadata_size)
        | u64::from(grant.epoch) << 16
        | u64::from(request.user) << 32;
    // SAFETY: `RECORD`.
    unsafe { grant.record.cast::<u64>().add(4).write(last) };
}
