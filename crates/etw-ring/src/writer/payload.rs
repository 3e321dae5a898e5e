//! The payload of an event being written.

use crate::layout::RECORD_HEADER_SIZE;
use crate::room::Room;

/// The payload of an event while it is written.
#[derive(Debug)]
pub struct Payload<'a> {
    start: *mut u8,
    filled: u32,
    room: u32,
    of: std::marker::PhantomData<&'a mut [u8]>,
}

impl Payload<'_> {
    /// # Safety
    /// `record` points to space for a header and `room` bytes, which belong to the caller alone for the value's lifetime.
    #[inline(always)]
    pub(super) unsafe fn new<'a>(record: *mut u8, room: u32) -> Payload<'a> {
        // SAFETY: the caller promises space behind the header.
        let start = unsafe { record.add(RECORD_HEADER_SIZE) };
        Payload { start, filled: 0, room, of: std::marker::PhantomData }
    }

    /// Appends bytes. More than was reserved spoils the event: its commit is refused, and the event counts as lost.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        // `filled <= room`, until a put spoils the event; then `filled` is larger than any size, and stays so.
        let end = self.filled as usize + bytes.len();
        if end > self.room as usize {
            self.filled = u32::MAX;
            return;
        }
        // SAFETY: `end` lies inside the reservation.
        unsafe {
            let at = self.start.add(self.filled as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
        }
        self.filled = end as u32;
    }

    /// Appends the bytes that `fill` puts into the rest of the reservation.
    #[inline(always)]
    pub fn fill(&mut self, fill: impl for<'b> FnOnce(Room<'b>) -> Room<'b>) {
        let left = self.room.saturating_sub(self.filled) as usize;
        if self.filled > self.room {
            return;
        }
        // SAFETY: the rest of the reservation, which only this borrow of `self` can reach.
        let room = unsafe {
            let at = self.start.add(self.filled as usize);
            std::slice::from_raw_parts_mut(at.cast(), left)
        };
        match fill(Room::new(room)).left() {
            Some(rest) => self.filled = self.room - rest as u32,
            None => self.filled = u32::MAX,
        }
    }

    #[inline(always)]
    pub(super) fn filled(&self) -> Option<u32> {
        (self.filled <= self.room).then_some(self.filled)
    }
}
