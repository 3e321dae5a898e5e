//! Slices: the final records of open buffers, for live readers that must not wait until a buffer is full.

use crate::buffer::{Buffer, HEADER_SIZE};
use crate::session::Session;

/// Records at the end of an open buffer that live readers have not received yet.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'b> {
    /// The buffer's CPU.
    pub cpu: u16,
    /// Offset of the first record in the buffer. The first slice of a buffer begins behind the header.
    pub offset: usize,
    /// The records.
    pub records: &'b [u8],
    /// Number of records, without the session's own reports.
    pub events: u64,
}

impl Slice<'_> {
    /// Whether the slice is the first one of its buffer.
    pub fn is_first(&self) -> bool {
        self.offset == HEADER_SIZE
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Session<B> {
    /// Gives `deliver` the sealed records of open buffers, each once. When the buffer is full, it is handed out with all of
    /// its records.
    pub fn take_slices(&mut self, mut deliver: impl FnMut(&Slice<'_>)) {
        for buffer in self.open_buffers_mut().filter(|buffer| buffer.sealed > buffer.sliced) {
            let Buffer { sealed, sliced, events, reports, .. } = *buffer;
            let counted = events - reports;
            deliver(&Slice {
                cpu: buffer.cpu,
                offset: sliced,
                records: &buffer.memory.as_ref()[sliced..sealed],
                events: counted.saturating_sub(buffer.sliced_events),
            });
            (buffer.sliced, buffer.sliced_events) = (sealed, counted);
        }
    }
}
