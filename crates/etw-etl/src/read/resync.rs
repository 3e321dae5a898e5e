//! Finds the next buffer behind damaged bytes.

use super::buffer_loader::decompress_into;
use super::byte_source::{ByteSource, next_data, read_full};
use crate::DamageKind;
use crate::record::{self, RecordContext};
use etw_types::BufferHeader;
use std::io;

/// Largest read of a search, in bytes.
const WINDOW: usize = 1 << 20;
/// First read of a search, in bytes: a file can make many short searches necessary.
const FIRST_WINDOW: usize = 1 << 13;
/// Bytes that identify a buffer: its header, and the header of its first record, compressed or not.
const PROBE: usize = BufferHeader::SIZE + 0x200;

/// The buffer header at `offset`, if the file is long enough.
pub(crate) fn header_at(source: &dyn ByteSource, offset: u64) -> io::Result<Option<BufferHeader>> {
    let mut bytes = [0; BufferHeader::SIZE];
    let got = read_full(source, &mut bytes, offset)?;
    Ok((got == bytes.len()).then(|| BufferHeader::read(&bytes)))
}

/// Whether a buffer starts at `offset`: a plausible header, and a record behind it unless it is empty.
pub(crate) fn is_buffer(source: &dyn ByteSource, offset: u64) -> io::Result<bool> {
    let mut bytes = [0; PROBE];
    let got = read_full(source, &mut bytes, offset)?;
    Ok(looks_like_buffer(&bytes[..got]))
}

/// Whether a record follows the header at `offset`, whose sizes may be wrong.
pub(crate) fn has_record(
    source: &dyn ByteSource,
    offset: u64,
    header: &BufferHeader,
) -> io::Result<bool> {
    let mut bytes = [0; PROBE - BufferHeader::SIZE];
    let got = read_full(source, &mut bytes, offset + BufferHeader::SIZE as u64)?;
    Ok(starts_with_record(header, &bytes[..got]))
}

fn looks_like_buffer(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk() else { return false };
    let header = BufferHeader::read(head);
    if !header.is_plausible() {
        return false;
    }
    if header.filled(BufferHeader::MAX_BUFFER_SIZE) == Some(0) {
        // No record confirms the header, so it must be as a writer leaves it.
        return header.state == 3 && header.reference_count == 0;
    }
    starts_with_record(&header, rest)
}

fn starts_with_record(header: &BufferHeader, rest: &[u8]) -> bool {
    let limit = BufferHeader::MAX_BUFFER_SIZE;
    let filled = header.filled(limit).unwrap_or(limit as usize);
    // No header that `frame` looks into is longer.
    let mut start = [0; 0x50];
    let start = if header.is_compressed() {
        let stored = (header.buffer_size as usize).saturating_sub(BufferHeader::SIZE);
        let stored = if stored == 0 { rest } else { &rest[..rest.len().min(stored)] };
        let want = filled.min(start.len());
        let (got, _) = decompress_into(stored, &mut start[..want]);
        &start[..got]
    } else {
        &rest[..rest.len().min(filled)]
    };
    match record::frame(start, &RecordContext::default()) {
        Ok(_) => true,
        // The record may be longer than the bytes read.
        Err(DamageKind::RecordSize { size, .. }) => {
            (start.len() + 1..=filled).contains(&(size as usize))
        }
        Err(_) => false,
    }
}

/// The first buffer at or after `from` and before `until`.
pub(crate) fn find_buffer(
    source: &dyn ByteSource,
    from: u64,
    until: u64,
) -> io::Result<Option<u64>> {
    let mut window = Vec::new();
    let mut length = FIRST_WINDOW;
    let mut start = from;
    loop {
        // The first three bytes of a header may be zero.
        start = start.max(next_data(source, start)?.saturating_sub(3));
        if start >= until {
            return Ok(None);
        }
        window.resize(length, 0);
        let got = read_full(source, &mut window, start)?;
        let window = &window[..got];
        let is_last = got < length;
        let ahead = if is_last { BufferHeader::SIZE } else { PROBE };
        let mut at = 0;
        while at + ahead <= got {
            let offset = start + at as u64;
            if offset >= until {
                return Ok(None);
            }
            if window[at..at + 64] == [0; 64] {
                // No size of 0 is plausible.
                at += 61;
                continue;
            }
            // State, flags and type are small numbers: these five bytes are zero in every header.
            let may_be = window[at + 0x2d..at + 0x30] == [0; 3] && window[at + 0x37] == 0;
            if may_be && looks_like_buffer(&window[at..got.min(at + PROBE)]) {
                return Ok(Some(offset));
            }
            at += 1;
        }
        if is_last {
            return Ok(None);
        }
        start += at as u64;
        length = (2 * length).min(WINDOW);
    }
}

/// Whether every byte of the range is zero.
pub(crate) fn is_zero(source: &dyn ByteSource, from: u64, until: u64) -> io::Result<bool> {
    let mut window = vec![0; WINDOW];
    let mut start = next_data(source, from)?;
    while start < until {
        let want = WINDOW.min((until - start) as usize);
        let got = read_full(source, &mut window[..want], start)?;
        if got == 0 {
            return Ok(true);
        }
        if window[..got].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        start = next_data(source, start + got as u64)?;
    }
    Ok(true)
}
