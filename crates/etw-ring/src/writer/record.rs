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

/// Time, CPU and thread of a write, and the size of its payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) time: u64,
    pub(super) cpu: u16,
    pub(super) filled: u32,
    pub(super) tid: u32,
}

/// Writes the header of a record.
///
/// # Safety
/// `RECORD`: the grant's record is 8-byte aligned, has space for a header, and belongs to the caller alone.
#[inline(always)]
pub(super) unsafe fn write_header(request: &Request, grant: &Grant, stamp: &Stamp) {
    // SAFETY: `RECORD`.
    unsafe {
        write_stamp(request, grant, stamp);
        write_identity(request, grant, stamp);
    }
}

/// Writes the first 16 bytes of the header.
///
/// # Safety
/// `RECORD` of [`write_header`].
#[inline(always)]
pub(super) unsafe fn write_stamp(request: &Request, grant: &Grant, stamp: &Stamp) {
    let first = u64::from(stamp.filled)
        | u64::from(request.kind) << 32
        | u64::from(grant.sessions) << 40
        | u64::from(stamp.cpu) << 48;
    // SAFETY: `RECORD`.
    unsafe {
        grant.record.cast::<u64>().write(first);
        grant.record.cast::<u64>().add(1).write(stamp.time);
    }
}

/// Writes the rest of the header. Of the stamp it uses the thread id alone.
///
/// # Safety
/// `RECORD` of [`write_header`].
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
        // SAFETY: `RECORD`.
        unsafe { grant.record.cast::<u64>().add(2 + i).write(word) };
    }
}
