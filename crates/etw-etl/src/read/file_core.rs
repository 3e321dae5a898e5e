//! The facts about a file that the pass over its buffer headers finds.

use super::buffer_loader::{LoadContext, Loader, Spare};
use super::index::{Entry, Index};
use super::resync::header_at;
use crate::DamageLog;
use crate::header::LogfileHeader;
use etw_types::{BufferHeader, Clock};
use std::io;
use std::path::PathBuf;

pub(crate) struct Core {
    pub(super) path: PathBuf,
    pub(super) header: Option<LogfileHeader>,
    pub(super) clock: Clock,
    pub(crate) index: Index,
    pub(crate) load: LoadContext,
    /// Offset and size of the last buffer; the file may end before it does.
    pub(super) last: Option<(u64, u32)>,
    pub(super) damage: DamageLog,
    pub(super) totals: Totals,
    /// Whether the bytes are another file's records, translated.
    pub(super) is_translated: bool,
}

/// Counts of the first pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Buffers found, the header's included.
    pub buffers: u64,
    /// Compressed buffers.
    pub compressed_buffers: u64,
    /// Buffers marked as having lost events.
    pub lossy_buffers: u64,
    /// Largest buffer, decompressed.
    pub largest_buffer: u32,
    /// CPU streams.
    pub streams: usize,
    /// A circular file that has overwritten its oldest buffers.
    pub wrapped: bool,
    /// Zero bytes behind the last buffer of a file that was not finalised, or that reserves its space.
    pub reserved_bytes: u64,
}

/// The last buffer of a file, perhaps truncated.
pub(crate) struct LastBuffer {
    pub(crate) offset: u64,
    /// Its whole size on disk.
    pub(crate) size: u32,
    /// Whether all buffers of the file have this size.
    pub(crate) uniform: bool,
    pub(crate) header: BufferHeader,
    /// Bytes of records by its header.
    pub(crate) filled: usize,
    /// Its whole records, decompressed.
    pub(crate) records: Vec<u8>,
}

impl Core {
    /// Reads the last buffer; `None` if there is none.
    pub(crate) fn last_buffer(&self) -> io::Result<Option<LastBuffer>> {
        let Some((offset, size)) = self.last else { return Ok(None) };
        let Some(header) = header_at(&*self.load.source, offset)? else { return Ok(None) };
        let entry = Entry { index: 0, offset, sequence: header.sequence_number };
        let loaded = Loader::default().load(&self.load, header.cpu(), entry, Spare::default());
        Ok(Some(LastBuffer {
            offset,
            size,
            uniform: self.load.uniform_size.is_some(),
            filled: header.filled(self.load.limit).unwrap_or(0),
            header,
            records: loaded.bytes().to_vec(),
        }))
    }

    pub(super) fn has_records(&self) -> bool {
        (0..self.index.stream_count()).any(|stream| {
            let mut cursor = self.index.cursor(stream);
            while let Ok(Some(entry)) = self.index.next(&mut cursor) {
                let cpu = self.index.cpu(stream);
                let loaded = Loader::default().load(&self.load, cpu, entry, Spare::default());
                if !loaded.records().is_empty() {
                    return true;
                }
            }
            false
        })
    }
}
