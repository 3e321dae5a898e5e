//! Compressed files, whose buffers have their own lengths.

use std::fs::File;
use std::io;
use std::path::Path;

use etw_types::BufferHeader;

use crate::part::ReadAt;

/// The whole buffers of a compressed file, found by walking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    pub slots: u64,
    /// Sequence number of the last one.
    pub sequence: i64,
    pub end: u64,
}

impl Walked {
    pub fn of(path: &Path, buffer_size: u32) -> io::Result<Walked> {
        // A buffer that compression does not shrink is stored uncompressed.
        let largest = u64::from(buffer_size);
        let mut walked = Walked { slots: 0, sequence: 0, end: 0 };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(walked),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        let mut before = walked;
        while length - walked.end >= BufferHeader::SIZE as u64 {
            let mut bytes = [0; BufferHeader::SIZE];
            file.read_exact_at(&mut bytes, walked.end)?;
            let header = BufferHeader::read(&bytes);
            let size = u64::from(header.buffer_size);
            // A header is written after its records: without one, the writer was killed before.
            if size < BufferHeader::SIZE as u64 || size > (length - walked.end).min(largest) {
                break;
            }
            before = walked;
            walked.slots += 1;
            walked.end += size;
            walked.sequence = walked.sequence.max(header.sequence_number);
        }
        // Even the header may span a page that was written and one that was not: then its size covers no buffer.
        let mut last = vec![0; (walked.end - before.end) as usize];
        file.read_exact_at(&mut last, before.end)?;
        match etw_etl::read::buffer::open(&last, buffer_size) {
            Ok((header, _)) if header.saved_offset == header.offset => {}
            _ => return Ok(before),
        }
        Ok(walked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_etl::lzxpress::Level;
    use etw_etl::write::CompressedBuffer;

    fn buffer(sequence: i64, records: usize) -> Vec<u8> {
        let length = (BufferHeader::SIZE + records) as u32;
        let header = BufferHeader {
            saved_offset: length,
            current_offset: length,
            offset: length,
            sequence_number: sequence,
            ..BufferHeader::read(&[0; BufferHeader::SIZE])
        };
        let mut out = CompressedBuffer::default();
        let records: Vec<u8> = (0..records).map(|n| (n * n / 2048) as u8).collect();
        out.compress(&header, &records, Level::default());
        out.into_bytes()
    }

    /// A header in two pages, of which only the second was written, is not a buffer of the file. Other systems map no files.
    #[cfg(unix)]
    #[test]
    fn a_torn_header_ends_the_walk() {
        let path = std::env::temp_dir().join(format!("etw-walk-{}", std::process::id()));
        let (first, second) = (buffer(1, 2000), buffer(2, 3000));
        assert!(
            second.len() > 256 + BufferHeader::SIZE && second.len() % 256 != 0,
            "{}",
            second.len()
        );
        for torn in 0..BufferHeader::SIZE {
            let mut bytes = [&first[..], &second].concat();
            bytes[first.len()..first.len() + torn].fill(0);
            std::fs::write(&path, bytes).unwrap();
            let walked = Walked::of(&path, 4096).unwrap();
            let whole = torn == 0;
            let end = first.len() + if whole { second.len() } else { 0 };
            assert_eq!(
                (walked.slots, walked.sequence, walked.end),
                (1 + u64::from(whole), 1 + i64::from(whole), end as u64),
                "{torn}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
}
