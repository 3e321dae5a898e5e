//! The payload of an event being written.

use crate::layout::RECORD_HEADER_SIZE;
use crate::room::Room;

/// The payload of an event being written.
#[derive(Debug)]
pub struct Payload<'a> {
    start: *mut u8,
    filled: u32,
    room: u32,
    of: std::marker::PhantomData<&'a mut [u8]>,
}

impl Payload<'_> {
    /// # Safety
    /// `record` has room for a header and `room` bytes, which are the caller's alone for the value's lifetime.
    #[inline(always)]
    pub(super) unsafe fn new<'a>(record: *mut u8, room: u32) -> Payload<'a> {
        // SAFETY: the caller's promise.
        let start = unsafe { record.add(RECORD_HEADER_SIZE) };
        Payload { start, filled: 0, room, of: std::marker::PhantomData }
    }

    /// Appends. More than was reserved spoils the event: its commit refuses, and it is counted as lost.
    #[inline(always)]
    pub fn put(&mut self, bytes: &[u8]) {
        // While nothing is spoiled, `filled <= room`; once it is, `filled` is beyond any room and stays there.
        let end = self.filled as usize + bytes.len();
        if end > self.room as usize {
            self.filled = u32::MAX;
            return;
        }
        // SAFETY: `end` is inside the reserved room.
        unsafe {
            let at = self.start.add(self.filled as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
        }
        self.filled = end as u32;
    }

    /// Appends what `fill` puts into the room that is left. What it returns can only be the rest of what it was given.
    #[inline(always)]
    pub fn fill(&mut self, fill: impl for<'b> FnOnce(Room<'b>) -> Room<'b>) {
        let left = self.room.saturating_sub(self.filled) as usize;
        if self.filled > self.room {
            return;
        }
        // SAFETY: the rest of the reserved room, which nobody else can reach while `self` is borrowed.
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
