//! Builds single buffers.

use crate::lzxpress::Level;
use etw_types::{BufferHeader, EventRecord};
use std::io::{self, Write};

use super::CompressedBuffer;
use super::record::{EncodeError, encode};

/// Builds one buffer. The header is public, so that a test can make it wrong.
#[derive(Clone, Debug)]
pub struct BufferBuilder {
    /// `buffer_size` is the capacity. [`BufferBuilder::bytes`] writes the lengths as they are here; all other methods set them.
    pub header: BufferHeader,
    /// Space for the header, then the records: one write, without another copy.
    bytes: Vec<u8>,
}

impl BufferBuilder {
    /// An empty buffer of `buffer_size` bytes for the events of one CPU.
    pub fn new(buffer_size: u32, cpu: u16) -> BufferBuilder {
        BufferBuilder {
            header: BufferHeader::new(buffer_size, cpu),
            bytes: vec![0; BufferHeader::SIZE],
        }
    }

    /// Bytes of records, padding included.
    pub fn len(&self) -> usize {
        self.bytes.len() - BufferHeader::SIZE
    }

    /// Whether no record is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a record of `size` bytes still fits.
    #[inline]
    pub fn has_room(&self, size: usize) -> bool {
        self.bytes.len() + size.next_multiple_of(8) <= self.header.buffer_size as usize
    }

    /// Appends a record.
    ///
    /// # Errors
    /// As [`encode`]; the capacity is not checked.
    pub fn push(&mut self, record: &EventRecord<'_>) -> Result<(), EncodeError> {
        encode(record, &mut self.bytes)?;
        self.pad(record.order_time);
        Ok(())
    }

    /// Appends bytes as they are, padded to eight.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.push_timed(bytes, self.header.time_stamp);
    }

    /// Appends a record in its on-disk form; the buffer's own time becomes at least `time`.
    #[inline]
    pub fn push_timed(&mut self, bytes: &[u8], time: i64) {
        self.bytes.extend_from_slice(bytes);
        self.pad(time);
    }

    #[inline]
    fn pad(&mut self, time: i64) {
        let past = self.bytes.len() % 8;
        if past != 0 {
            self.bytes.extend_from_slice(&[0; 8][past..]);
        }
        self.header.time_stamp = self.header.time_stamp.max(time);
    }

    /// The buffer as an uncompressed file stores it: header, records, 0xFF up to its size.
    pub fn finish(mut self) -> Vec<u8> {
        self.seal();
        self.bytes
    }

    /// The buffer with compressed records and without filler; uncompressed if compression does not make it shorter.
    pub fn finish_compressed(mut self) -> Vec<u8> {
        let mut compressed = CompressedBuffer::default();
        self.compress_into(&mut compressed, Level::Small);
        compressed.into_bytes()
    }

    /// Writes what [`finish`](BufferBuilder::finish) returns, and empties the buffer.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.seal();
        out.write_all(&self.bytes)?;
        self.clear(self.header.buffer_size, self.header.processor);
        Ok(())
    }

    /// Puts the buffer with compressed records into `out`, as [`finish_compressed`](BufferBuilder::finish_compressed) returns it for
    /// [`Level::Small`].
    pub fn compress_into(&mut self, out: &mut CompressedBuffer, level: Level) {
        self.set_filled();
        out.compress(&self.header, &self.bytes[BufferHeader::SIZE..], level);
    }

    /// Resets it to [`new`](BufferBuilder::new) and keeps the memory.
    pub fn clear(&mut self, buffer_size: u32, cpu: u16) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(BufferHeader::SIZE);
        *self = BufferBuilder { bytes, ..BufferBuilder::new(buffer_size, cpu) };
    }

    fn seal(&mut self) {
        self.set_filled();
        self.bytes[..BufferHeader::SIZE].copy_from_slice(&self.header.to_bytes());
        let size = self.bytes.len().max(self.header.buffer_size as usize);
        self.bytes.resize(size, 0xff);
    }

    fn set_filled(&mut self) {
        self.header.offset = self.bytes.len() as u32;
        self.header.saved_offset = self.header.offset;
        self.header.current_offset = self.header.offset;
    }

    /// Header as it stands, records and filler.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_bytes().to_vec();
        bytes.extend_from_slice(&self.bytes[BufferHeader::SIZE..]);
        bytes.resize(bytes.len().max(self.header.buffer_size as usize), 0xff);
        bytes
    }
}
