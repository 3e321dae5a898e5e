//! [`CompressedBuffer`]: a buffer as a compressed file stores it.

use crate::lzxpress::{self, Level};
use etw_types::{BufferFlags, BufferHeader};

/// A compressed buffer. Its memory serves for the next one, too.
#[derive(Debug, Default)]
pub struct CompressedBuffer {
    /// Longer than the buffer as a rule: what follows it is left of others, and is written over.
    memory: Vec<u8>,
    size: usize,
}

impl CompressedBuffer {
    /// Compresses a buffer in place of the former one: the header with flag and size set, then its records as one LZ77 stream.
    /// Records that compression does not make shorter are stored uncompressed.
    pub fn compress(&mut self, header: &BufferHeader, records: &[u8], level: Level) {
        let mut header = *header;
        let plain = BufferHeader::SIZE + records.len();
        self.size = lzxpress::compress_at(records, &mut self.memory, BufferHeader::SIZE, level);
        if self.size < plain {
            header.flags |= BufferFlags::COMPRESSED;
        } else {
            self.size = plain;
            self.memory[BufferHeader::SIZE..plain].copy_from_slice(records);
        }
        header.buffer_size = self.size as u32;
        self.memory[..BufferHeader::SIZE].copy_from_slice(&header.to_bytes());
    }

    /// Header and stream.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.size]
    }

    /// The same without the memory behind them.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.memory.truncate(self.size);
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory that has served for other buffers makes no difference to the next one.
    #[test]
    fn each_buffer_is_as_in_new_memory() {
        let text = |size: usize| (0..size).map(|n| b"tick tock "[n % 10]).collect::<Vec<u8>>();
        let noise = |size: u32| -> Vec<u8> {
            (0..size).map(|n| (n.wrapping_mul(n ^ 0x9e37_79b1) >> 13) as u8).collect()
        };
        let header = BufferHeader::read(&[0; BufferHeader::SIZE]);
        let mut again = CompressedBuffer::default();
        for records in [text(50_000), noise(300), text(40), noise(40_000), text(7), Vec::new()] {
            for level in [Level::Fast, Level::Small] {
                let mut once = CompressedBuffer::default();
                once.compress(&header, &records, level);
                again.compress(&header, &records, level);
                assert_eq!(again.bytes(), once.bytes());
                let stored = BufferHeader::read(again.bytes().first_chunk().expect("a header"));
                assert_eq!(stored.buffer_size as usize, again.bytes().len());
                let mut plain = vec![0; records.len()];
                let stream = &again.bytes()[BufferHeader::SIZE..];
                match stored.flags.contains(BufferFlags::COMPRESSED) {
                    true => assert!(lzxpress::decompress(stream, &mut plain).is_ok()),
                    false => plain.copy_from_slice(stream),
                }
                assert_eq!(plain, records);
            }
        }
    }
}
