//! One buffer: on-disk layout from the first byte on, so that handing it out copies nothing.
//!
//! ```text
//! 00 u32 BufferSize   04 u32 SavedOffset   08 u32 CurrentOffset   10 i64 TimeStamp   18 i64 SequenceNumber
//! 20 u64 place *      28 u16 CPU           2A u16 LoggerId        2C u32 State       30 u32 Offset
//! 34 u16 BufferFlag   36 u16 BufferType    38 u64 mark A *        40 u64 mark B *    48 records
//! ```
//!
//! What is marked * is zero on disk and serves [recovery](crate::recover) while the buffer is in memory.

/// `WMI_BUFFER_HEADER`.
pub(crate) const HEADER_SIZE: usize = 0x48;
pub(crate) const PLACE: usize = 0x20;
pub(crate) const STATE: usize = 0x2c;
pub(crate) const MARKS: [usize; 2] = [0x38, 0x40];

pub(crate) const FREE: u32 = 0;
pub(crate) const IN_USE: u32 = 1;
/// The state that a buffer has on disk.
pub(crate) const FULL: u32 = 3;

const FLUSH_MARKER: u16 = 1;
const EVENTS_LOST: u16 = 2;
const BUFFER_LOST: u16 = 4;
const PROC_INDEX: u16 = 0x20;

/// Where a buffer belongs.
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

pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Bytes that a record of `size` bytes takes.
#[inline]
pub(crate) fn padded(size: usize) -> usize {
    (size + 7) & !7
}

/// A buffer that a CPU's events go to, or that waits to be handed out.
#[derive(Debug)]
pub(crate) struct Buffer<B> {
    pub memory: B,
    pub cpu: u16,
    /// 0 while it is open.
    pub sequence: i64,
    /// Bytes, with the header.
    pub filled: usize,
    /// Of which the marks know.
    pub sealed: usize,
    pub last_mark: usize,
    pub events: u64,
    /// Of which are reports on the session itself.
    pub reports: u64,
    pub first_time: i64,
    pub last_time: i64,
    pub flags: u16,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Buffer<B> {
    /// Begins a buffer: `FREE` with both marks 0, then the header, then `IN_USE`.
    pub fn begin(mut memory: B, cpu: u16, logger_id: u16) -> Buffer<B> {
        let bytes = memory.as_mut();
        put(bytes, STATE, &FREE.to_le_bytes());
        for at in MARKS {
            put(bytes, at, &[0; 8]);
        }
        let size = bytes.len() as u32;
        put(bytes, 0x00, &size.to_le_bytes());
        // Lengths, time, sequence number, place.
        put(bytes, 0x04, &[0; 36]);
        put(bytes, 0x28, &cpu.to_le_bytes());
        put(bytes, 0x2a, &logger_id.to_le_bytes());
        put(bytes, 0x30, &(HEADER_SIZE as u32).to_le_bytes());
        put(bytes, 0x34, &PROC_INDEX.to_le_bytes());
        put(bytes, 0x36, &[0; 2]);
        put(bytes, STATE, &IN_USE.to_le_bytes());
        Buffer {
            memory,
            cpu,
            sequence: 0,
            filled: HEADER_SIZE,
            sealed: 0,
            last_mark: 1,
            events: 0,
            reports: 0,
            first_time: 0,
            last_time: 0,
            flags: PROC_INDEX,
        }
    }

    /// Where a record of `size` bytes goes, if there is room.
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

    /// What it holds now belongs to `batch`.
    pub fn seal(&mut self, batch: u64) {
        if self.sealed == self.filled {
            return;
        }
        self.last_mark ^= 1;
        let at = MARKS[self.last_mark];
        put(self.memory.as_mut(), at, &mark(batch, self.filled).to_le_bytes());
        self.sealed = self.filled;
    }

    /// Header and filler as on disk, but for the words that recovery needs. Sequence numbers are given in the order in which
    /// buffers are closed, which is the order of their places.
    pub fn close(&mut self, sequence: i64, now: i64) {
        self.sequence = sequence;
        let (filled, time, flags) = (self.filled, self.last_time.max(now), self.flags);
        finish(self.memory.as_mut(), filled, time, sequence, flags);
    }

    /// What [`close`](Buffer::close) would make of it, as it lies in a file.
    pub fn copy(&self, sequence: i64, now: i64, is_last: bool) -> Vec<u8> {
        let mut bytes = self.memory.as_ref().to_vec();
        let flags = self.flags | if is_last { FLUSH_MARKER } else { 0 };
        finish(&mut bytes, self.filled, self.last_time.max(now), sequence, flags);
        put(&mut bytes, STATE, &FULL.to_le_bytes());
        for at in [PLACE, MARKS[0], MARKS[1]] {
            put(&mut bytes, at, &[0; 8]);
        }
        bytes
    }

    pub fn mark_flush(&mut self) {
        self.flags |= FLUSH_MARKER;
    }

    pub fn mark_events_lost(&mut self) {
        self.flags |= EVENTS_LOST;
    }

    pub fn mark_buffer_lost(&mut self) {
        self.flags |= BUFFER_LOST;
    }

    /// Its place is fixed: first the place, then the state that makes recovery use it.
    pub fn hand_out(mut self, place: Place) -> FullBuffer<B> {
        let flags = self.flags;
        let bytes = self.memory.as_mut();
        put(bytes, 0x34, &flags.to_le_bytes());
        put(bytes, PLACE, &place.pack().to_le_bytes());
        put(bytes, STATE, &FULL.to_le_bytes());
        FullBuffer { buffer: self, place }
    }
}

fn finish(bytes: &mut [u8], filled: usize, time: i64, sequence: i64, flags: u16) {
    let end = (filled as u32).to_le_bytes();
    put(bytes, 0x04, &end);
    put(bytes, 0x08, &end);
    put(bytes, 0x10, &time.to_le_bytes());
    put(bytes, 0x18, &sequence.to_le_bytes());
    put(bytes, 0x30, &end);
    put(bytes, 0x34, &flags.to_le_bytes());
    bytes[filled..].fill(0xff);
}

/// A full buffer on its way to its place.
#[derive(Debug)]
#[must_use = "give it back with `stored` or `not_stored`"]
pub struct FullBuffer<B> {
    pub(crate) buffer: Buffer<B>,
    place: Place,
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> FullBuffer<B> {
    /// Where it belongs.
    pub fn place(&self) -> Place {
        self.place
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

    /// The header as it is on disk: to be written in place of the first 72 of [`bytes`](FullBuffer::bytes).
    pub fn header(&self) -> [u8; HEADER_SIZE] {
        let mut header = [0; HEADER_SIZE];
        header.copy_from_slice(&self.buffer.memory.as_ref()[..HEADER_SIZE]);
        for at in [PLACE, MARKS[0], MARKS[1]] {
            put(&mut header, at, &[0; 8]);
        }
        header
    }

    /// The whole buffer, its own words in the header included: see [`header`](FullBuffer::header).
    pub fn bytes(&self) -> &[u8] {
        self.buffer.memory.as_ref()
    }

    /// Bytes of header and records.
    pub fn filled(&self) -> usize {
        self.buffer.filled
    }
}
