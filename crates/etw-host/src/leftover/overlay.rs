//! A trace read together with its `.part` file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use etw_etl::read::ByteSource;
use etw_session::Place;

use super::{EVENTS_LOST, Leftover, events_lost, paths, pattern, read};
use crate::facts::file_name;
use crate::part::ReadAt;

/// A file as it would be after folding, without changing it.
pub struct Overlay {
    base: Option<File>,
    base_size: u64,
    size: u64,
    buffer_size: u64,
    header: Vec<u8>,
    /// Buffers by their offset.
    buffers: BTreeMap<u64, Vec<u8>>,
    /// The end of a compressed file's own bytes.
    tail: Option<u64>,
    events_lost: [u8; 4],
}

impl Overlay {
    /// `OUT.etl` as it would be after [`fold`](super::fold); of a series, the file `OUT.etl` itself. `None` without a `.part` file.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` for an invalid `.part` file.
    pub fn open(path: &Path) -> io::Result<Option<(Overlay, Leftover)>> {
        let (out, _) = paths(path);
        let Some(mut leftover) = read(path)? else { return Ok(None) };
        let pattern = pattern(&leftover.facts, &out);
        let base = match File::open(&out) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let base_size = base.as_ref().map_or(Ok(0), |file| file.metadata().map(|m| m.len()))?;
        let buffer_size = u64::from(leftover.facts.header.buffer_size);
        let offsets: Vec<(Place, u64)> =
            leftover.buffers.keys().map(|place| (*place, leftover.offset(*place))).collect();
        let buffers: BTreeMap<u64, Vec<u8>> = std::mem::take(&mut leftover.buffers)
            .into_values()
            .zip(offsets)
            .filter(|(_, (place, _))| file_name(&pattern, place.file) == out)
            .map(|(bytes, (_, offset))| (offset, bytes))
            .collect();
        let end = buffers.last_key_value().map_or(0, |(offset, _)| offset + buffer_size);
        let tail = leftover.tail;
        let base_size = tail.map_or(base_size, |tail| base_size.min(tail));
        let header = leftover.facts.header_buffer(&leftover.facts.header)?;
        let size = base_size.max(end).max(header.len() as u64);
        let events_lost = events_lost(base.as_ref(), leftover.lost)?;
        let overlay =
            Overlay { base, base_size, size, buffer_size, header, buffers, tail, events_lost };
        Ok(Some((overlay, leftover)))
    }
}

impl ByteSource for Overlay {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.read_buffers(buffer, offset)?;
        for (at, byte) in (EVENTS_LOST..).zip(self.events_lost) {
            let inside = at.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
            if let Some(slot) = inside.and_then(|at| buffer[..count].get_mut(at)) {
                *slot = byte;
            }
        }
        Ok(count)
    }
}

impl Overlay {
    fn read_buffers(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        // Buffers of one length from here on, or from the start of the file.
        let from = self.tail.filter(|tail| offset >= *tail).unwrap_or(0);
        let inside = (offset - from) % self.buffer_size;
        let start = offset - inside;
        let end = match self.tail {
            Some(tail) if offset < tail && self.base_size > 0 => tail,
            _ => start + self.buffer_size,
        };
        let count = (end - offset).min(self.size - offset).min(buffer.len() as u64);
        let buffer = &mut buffer[..count as usize];
        let bytes = match self.buffers.get(&start) {
            Some(bytes) => Some(bytes),
            None if start == 0 && self.base_size == 0 => Some(&self.header),
            None => None,
        };
        if let Some(bytes) = bytes {
            buffer.copy_from_slice(&bytes[inside as usize..inside as usize + buffer.len()]);
            return Ok(buffer.len());
        }
        let count = match &self.base {
            Some(file) if offset < self.base_size => {
                let left = usize::try_from(self.base_size - offset).unwrap_or(usize::MAX);
                let count = buffer.len().min(left);
                file.read_exact_at(&mut buffer[..count], offset)?;
                count
            }
            _ => 0,
        };
        // Between the file's end and a later buffer, the session had not written anything.
        buffer[count..].fill(0);
        Ok(buffer.len())
    }
}
