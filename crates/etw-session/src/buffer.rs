//! One buffer: on-disk layout from the first byte on, so that handing it out copies nothing.
//!
//! The header is a [`BufferHeader`]. While the buffer is in memory its runtime words serve [recovery](crate::recover):
//! the position of a full buffer, and two marks. In a session without files, the word of the position has the number of trimmed bytes.

use etw_types::{BufferFlags, BufferHeader, Field};

pub(crate) const HEADER_SIZE: usize = BufferHeader::SIZE;
pub(crate) const PLACE: Field<u64> = BufferHeader::RUNTIME_WORDS[0];
/// Bytes of records that were trimmed. A packed position is larger than any buffer.
pub(crate) const TRIMMED: Field<u64> = PLACE;
pub(crate) const MARKS: [Field<u64>; 2] =
    [BufferHeader::RUNTIME_WORDS[1], BufferHeader::RUNTIME_WORDS[2]];

/// The position of a buffer in a session's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Number of the file in a series, from 1.
    pub file: u32,
    /// Index in the file, in buffers; the header is 0.
    pub slot: u64,
}

impl Place {
    /// Never 0: files count from 1.
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.file) << 40 | self.slot & 0xff_ffff_ffff
    }

    pub(crate) fn unpack(word: u64) -> Option<Place> {
        let place = Place { file: (word >> 40) as u32, slot: word & 0xff_ffff_ffff };
        (place.file != 0 && place.slot != 0).then_some(place)
    }
}

pub(crate) fn mark(batch: u64, filled: usize) -> u64 {
    batch << 24 | (filled as u64 / 8) & 0xff_ffff
}

/// Bytes that a record of `size` bytes takes.
#[inline]
pub(crate) fn padded(size: usize) -> usize {
    (size + 7) & !7
}

/// A buffer that receives a CPU's events, or that waits to be handed out.
#[derive(Debug)]
pub(crate) struct Buffer<B> {
    pub memory: B,
    pub cpu: u16,
    /// 0 while it is open.
    pub sequence: i64,
    /// Bytes, with the header.
    pub filled: usize,
    /// Bytes up to the last mark, with the header.
    pub sealed: usize,
    /// Bytes that live readers have received in slices.
    pub sliced: usize,
    /// Events in them, without the session's own reports.
    pub sliced_events: u64,
    pub last_mark: usize,
    /// Bytes of records at the start that the session in memory has overwritten.
    pub trimmed: usize,
    /// Events in it, without those that were trimmed.
    pub events: u64,
    /// Events among them that report on the session itself.
    pub reports: u64,
    pub first_time: i64,
    pub last_time: i64,
    /// Bytes, with the header, up to the end of the last mark of a loss.
    pub mark_end: usize,
    pub flags: BufferFlags,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Buffer<B> {
    /// Begins a buffer: `FREE` with both marks 0, then the header, then `IN_USE`.
    pub fn begin(mut memory: B, cpu: u16, logger_id: u16) -> Buffer<B> {
        let bytes = memory.as_mut();
        BufferHeader::STATE.put(bytes, BufferHeader::STATE_FREE);
        for mark in MARKS {
            mark.put(bytes, 0);
        }
        let header = BufferHeader {
            logger_id,
            offset: HEADER_SIZE as u32,
            state: BufferHeader::STATE_FREE,
            ..BufferHeader::new(bytes.len() as u32, cpu)
        };
        bytes[..HEADER_SIZE].copy_from_slice(&header.to_bytes());
        BufferHeader::STATE.put(bytes, BufferHeader::STATE_IN_USE);
        Buffer {
            memory,
            cpu,
            sequence: 0,
            filled: HEADER_SIZE,
            sealed: 0,
            sliced: HEADER_SIZE,
            sliced_events: 0,
            last_mark: 1,
            trimmed: 0,
            events: 0,
            reports: 0,
            first_time: 0,
            last_time: 0,
            mark_end: 0,
            flags: BufferFlags::PROC_INDEX,
        }
    }

    /// The memory for a record of `size` bytes, if it fits.
    #[inline]
    pub fn room(&mut self, size: usize) -> Option<&mut [u8]> {
        let end = self.filled + padded(size);
        self.memory.as_mut().get_mut(self.filled..end)
    }

    #[inline]
    pub fn added(&mut self, size: usize, time: i64) {
        if self.events == 0 {
            self.first_time = time;
        }
        self.last_time = time;
        self.events += 1;
        self.filled += padded(size);
    }

    #[inline]
    pub fn has_room(&self, size: usize) -> bool {
        self.filled + padded(size) <= self.memory.as_ref().len()
    }

    /// Marks the current contents as part of `batch`.
    pub fn seal(&mut self, batch: u64) {
        if self.sealed == self.filled {
            return;
        }
        self.last_mark ^= 1;
        MARKS[self.last_mark].put(self.memory.as_mut(), mark(batch, self.filled));
        self.sealed = self.filled;
    }

    /// Writes header and filler as on disk, except for the words that recovery needs. Sequence numbers follow the order in which
    /// buffers are closed, which is the order of their positions.
    pub fn close(&mut self, sequence: i64, now: i64) {
        self.sequence = sequence;
        let (filled, time, flags) = (self.filled, self.last_time.max(now), self.flags);
        finish(self.memory.as_mut(), filled, time, sequence, flags);
    }

    /// A copy of the buffer in its form in a file, as [`close`](Buffer::close) would write it.
    pub fn copy(&self, sequence: i64, now: i64, is_last: bool) -> Vec<u8> {
        let mut bytes = self.memory.as_ref().to_vec();
        let filled = remove_trimmed(&mut bytes, self.filled, self.trimmed);
        let flags = self.flags | BufferFlags::FLUSH_MARKER.when(is_last);
        finish(&mut bytes, filled, self.last_time.max(now), sequence, flags);
        BufferHeader::STATE.put(&mut bytes, BufferHeader::STATE_FULL);
        BufferHeader::clear_runtime_words(&mut bytes);
        bytes
    }

    pub fn mark_flush(&mut self) {
        self.flags |= BufferFlags::FLUSH_MARKER;
    }

    pub fn mark_events_lost(&mut self) {
        self.flags |= BufferFlags::EVENTS_LOST;
    }

    pub fn mark_buffer_lost(&mut self) {
        self.flags |= BufferFlags::BUFFER_LOST;
    }

    /// Fixes the buffer's position: writes the position first, then the state that makes recovery use it.
    pub fn hand_out(mut self, place: Place, leaves_mark: bool) -> FullBuffer<B> {
        let flags = self.flags;
        let bytes = self.memory.as_mut();
        BufferHeader::FLAGS.put(bytes, flags.0);
        PLACE.put(bytes, place.pack());
        BufferHeader::STATE.put(bytes, BufferHeader::STATE_FULL);
        FullBuffer { buffer: self, place, leaves_mark }
    }
}

/// Removes the first `trimmed` bytes of the records; the bytes that are then filled.
pub(crate) fn remove_trimmed(bytes: &mut [u8], filled: usize, trimmed: usize) -> usize {
    bytes.copy_within(HEADER_SIZE + trimmed..filled, HEADER_SIZE);
    filled - trimmed
}

fn finish(bytes: &mut [u8], filled: usize, time: i64, sequence: i64, flags: BufferFlags) {
    BufferHeader::put_filled(bytes, filled as u32);
    BufferHeader::TIME_STAMP.put(bytes, time);
    BufferHeader::SEQUENCE_NUMBER.put(bytes, sequence);
    BufferHeader::FLAGS.put(bytes, flags.0);
    bytes[filled..].fill(0xff);
}

/// A full buffer on its way to its slot of a file.
#[derive(Debug)]
#[must_use = "give it back with `stored` or `not_stored`"]
pub struct FullBuffer<B> {
    pub(crate) buffer: Buffer<B>,
    place: Place,
    leaves_mark: bool,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> FullBuffer<B> {
    /// The buffer's position.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether a mark stands in its place if it is lost.
    pub fn leaves_mark(&self) -> bool {
        self.leaves_mark
    }

    /// Its sequence number.
    pub fn sequence(&self) -> i64 {
        self.buffer.sequence
    }

    /// Its CPU.
    pub fn cpu(&self) -> u16 {
        self.buffer.cpu
    }

    /// Time of its last event.
    pub fn last_time(&self) -> i64 {
        self.buffer.last_time
    }

    /// Events in it, without reports of the session on itself.
    pub fn events(&self) -> u64 {
        self.buffer.events - self.buffer.reports
    }

    /// The header as it is on disk. Write it in place of the first bytes of [`bytes`](FullBuffer::bytes).
    pub fn header(&self) -> [u8; HEADER_SIZE] {
        let mut header = [0; HEADER_SIZE];
        header.copy_from_slice(&self.buffer.memory.as_ref()[..HEADER_SIZE]);
        BufferHeader::clear_runtime_words(&mut header);
        header
    }

    /// The whole buffer. Its header still has the runtime words; [`header`](FullBuffer::header) is the one for the disk.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.memory.as_ref()
    }

    /// Bytes of header and records.
    pub fn filled(&self) -> usize {
        self.buffer.filled
    }
}
