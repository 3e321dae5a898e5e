use crate::header::BufferHeader;
use crate::lzxpress;
use etw_types::EventRecord;

use super::record::{EncodeError, encode};

/// One buffer in the making. Its header is public, so that a test can make it lie.
#[derive(Clone, Debug)]
pub struct BufferBuilder {
    /// `buffer_size` is the room; `finish` sets the lengths that [`BufferBuilder::bytes`] does not.
    pub header: BufferHeader,
    records: Vec<u8>,
}

impl BufferBuilder {
    /// An empty buffer of `buffer_size` bytes for the events of one CPU.
    pub fn new(buffer_size: u32, cpu: u16) -> BufferBuilder {
        BufferBuilder {
            header: BufferHeader {
                buffer_size,
                saved_offset: 0,
                current_offset: 0,
                reference_count: 0,
                time_stamp: 0,
                sequence_number: 0,
                processor: cpu,
                logger_id: 1,
                state: 3,
                offset: 0,
                flags: BufferHeader::PROC_INDEX,
                buffer_type: BufferHeader::GENERIC,
            },
            records: Vec::new(),
        }
    }

    /// Bytes of records, padding included.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no record is in it.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether a record of `size` bytes still fits.
    pub fn has_room(&self, size: usize) -> bool {
        let filled = BufferHeader::SIZE + self.records.len() + size.next_multiple_of(8);
        filled <= self.header.buffer_size as usize
    }

    /// Appends a record.
    ///
    /// # Errors
    /// As [`encode`]; room is not checked.
    pub fn push(&mut self, record: &EventRecord<'_>) -> Result<(), EncodeError> {
        encode(record, &mut self.records)?;
        self.pad(record.order_time);
        Ok(())
    }

    /// Appends bytes as they are, padded to eight.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.records.extend(bytes);
        self.pad(self.header.time_stamp);
    }

    fn pad(&mut self, time: i64) {
        self.records.resize(self.records.len().next_multiple_of(8), 0);
        self.header.time_stamp = self.header.time_stamp.max(time);
    }

    /// The buffer as it lies in an uncompressed file: header, records, 0xFF up to its size.
    pub fn finish(mut self) -> Vec<u8> {
        self.set_filled();
        self.bytes()
    }

    /// The buffer with its records compressed and no filler. Stays as it is where compression would not help.
    pub fn finish_compressed(mut self) -> Vec<u8> {
        self.set_filled();
        let mut stream = Vec::with_capacity(self.records.len());
        lzxpress::compress(&self.records, &mut stream);
        if stream.len() >= self.records.len() {
            self.header.buffer_size = self.header.offset;
            return self.bytes();
        }
        self.header.flags |= BufferHeader::COMPRESSED;
        self.header.buffer_size = (BufferHeader::SIZE + stream.len()) as u32;
        let mut bytes = self.header.to_bytes().to_vec();
        bytes.extend(stream);
        bytes
    }

    fn set_filled(&mut self) {
        self.header.offset = (BufferHeader::SIZE + self.records.len()) as u32;
        self.header.saved_offset = self.header.offset;
        self.header.current_offset = self.header.offset;
    }

    /// Header as it stands, records and filler.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_bytes().to_vec();
        bytes.extend(&self.records);
        bytes.resize(bytes.len().max(self.header.buffer_size as usize), 0xff);
        bytes
    }
}
