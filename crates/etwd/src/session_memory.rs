//! Buffers of sessions in memory that outlives the worker.

use std::io;
use std::os::fd::OwnedFd;

use etw_host::storage::BufferMemory;
use etw_ring::{Memory, Region};

use crate::haste::take_what_is_left;

/// Bytes of buffers whose pages exist when the session starts; a thread makes more of them exist soon. A first burst would
/// otherwise wait for each page as long as for the records in it.
const POPULATED: usize = 16 << 20;
const POPULATED_SOON: usize = 64 << 20;

/// Allocates buffers in one memory; its descriptor keeps them while another worker takes over.
pub(crate) fn allocate_buffers(size: u32, count: u32) -> io::Result<(Vec<BufferMemory>, OwnedFd)> {
    // One mapping for all buffers: regions of many mappings would take a page more each.
    let mut memory = Memory::shared(size as usize * count as usize)?;
    let descriptor = memory.take_fd().ok_or(io::ErrorKind::Unsupported)?;
    let regions = memory.into_regions(size as usize);
    if let Some(pages) = regions.first().map(Region::pages)
        && pages.populate(POPULATED) == POPULATED
        && size as usize * count as usize > POPULATED
    {
        // Without a thread for it, pages are allocated when they are used. It has the time that nobody else needs: a session's first
        // events must not wait for it.
        let _ = etw_host::spawn("etw-pages", move || {
            take_what_is_left();
            pages.populate(POPULATED_SOON)
        });
    }
    Ok((regions, descriptor))
}
