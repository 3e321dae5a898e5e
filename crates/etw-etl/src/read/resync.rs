//! Finding the next buffer behind bytes that are none.

use super::load::decompress_into;
use super::source::{Source, read_full};
use crate::header::BufferHeader;
use crate::record::{self, RecordContext};
use std::io;

/// How much is read at once while searching.
const WINDOW: usize = 1 << 20;

/// The buffer header at `offset`, if the file has 72 bytes there.
pub(crate) fn header_at(source: &dyn Source, offset: u64) -> io::Result<Option<BufferHeader>> {
    let mut bytes = [0; BufferHeader::SIZE];
    let got = read_full(source, &mut bytes, offset)?;
    Ok((got == bytes.len()).then(|| BufferHeader::read(&bytes)))
}

/// Whether a buffer starts at `offset`: a plausible header, and a record where it says that there is one.
pub(crate) fn is_buffer(source: &dyn Source, offset: u64, limit: u32) -> io::Result<bool> {
    let Some(header) = header_at(source, offset)? else { return Ok(false) };
    if !header.is_plausible() {
        return Ok(false);
    }
    let Some(filled) = header.filled(limit) else { return Ok(false) };
    if filled == 0 {
        // Nothing behind it speaks for it, so the header has to be as a writer leaves it.
        return Ok(header.state == 3 && header.reference_count == 0);
    }
    let stored = if header.is_compressed() {
        header.buffer_size as usize - BufferHeader::SIZE
    } else {
        filled.min(0x1000)
    };
    let mut bytes = vec![0; stored];
    let got = read_full(source, &mut bytes, offset + BufferHeader::SIZE as u64)?;
    bytes.truncate(got);
    if header.is_compressed() {
        let mut records = vec![0; filled];
        let (length, _) = decompress_into(&bytes, &mut records);
        bytes = records;
        bytes.truncate(length);
    }
    let room = bytes.len();
    match record::frame(&bytes, &RecordContext::default()) {
        Ok(_) => Ok(true),
        // The first record may be longer than what was looked at.
        Err(crate::DamageKind::RecordSize { size, .. }) => {
            Ok(!header.is_compressed() && size as usize > room && (size as usize) <= filled)
        }
        Err(_) => Ok(false),
    }
}

/// The first buffer at or after `from` and before `until`.
pub(crate) fn find_buffer(
    source: &dyn Source,
    from: u64,
    until: u64,
    limit: u32,
) -> io::Result<Option<u64>> {
    let mut window = vec![0; WINDOW];
    let mut start = from;
    while start < until {
        let got = read_full(source, &mut window, start)?;
        if got < BufferHeader::SIZE {
            return Ok(None);
        }
        for at in 0..=got - BufferHeader::SIZE {
            // State, flags and type are small numbers: these five bytes are zero in every header.
            if window[at + 0x2d..at + 0x30] != [0; 3] || window[at + 0x37] != 0 {
                continue;
            }
            let offset = start + at as u64;
            if offset >= until {
                return Ok(None);
            }
            let Some(bytes) = window[at..].first_chunk() else { break };
            if BufferHeader::read(bytes).is_plausible() && is_buffer(source, offset, limit)? {
                return Ok(Some(offset));
            }
        }
        start += (got - BufferHeader::SIZE + 1) as u64;
    }
    Ok(None)
}

/// Whether every byte of the range is zero.
pub(crate) fn is_zero(source: &dyn Source, from: u64, until: u64) -> io::Result<bool> {
    let mut window = vec![0; WINDOW];
    let mut start = from;
    while start < until {
        let want = WINDOW.min((until - start) as usize);
        let got = read_full(source, &mut window[..want], start)?;
        if got == 0 {
            return Ok(true);
        }
        if window[..got].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        start += got as u64;
    }
    Ok(true)
}
