//! Regions: memory cut into pieces that belong to one owner each.

use std::ptr::NonNull;
use std::sync::Arc;

use super::Memory;

/// A part of a memory with a single owner in this process: a session's buffer, mostly in memory that outlives the process.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    len: usize,
    memory: Arc<Memory>,
}

// SAFETY: the region alone uses its bytes, and `memory` keeps them alive.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; a shared region only gives shared references out.
unsafe impl Sync for Region {}

impl Memory {
    /// Cuts the memory into regions of `len` bytes. The rest stays unused.
    pub fn into_regions(self, len: usize) -> Vec<Region> {
        let memory = Arc::new(self);
        let count = memory.len().checked_div(len).unwrap_or(0);
        let region = |n| {
            // SAFETY: `(n + 1) * len <= memory.len()`.
            let start = unsafe { memory.start().add(n * len) };
            Region { start, len, memory: memory.clone() }
        };
        (0..count).map(region).collect()
    }
}

impl Region {
    /// A region of `len` bytes on the heap, which a crash loses.
    ///
    /// # Errors
    /// As [`Memory::heap`].
    pub fn heap(len: usize) -> std::io::Result<Region> {
        let memory = Memory::heap(len)?;
        Ok(Region { start: memory.start(), len, memory: Arc::new(memory) })
    }

    /// The pages of all regions of this memory.
    pub fn pages(&self) -> Pages {
        Pages(self.memory.clone())
    }
}

/// The pages of a memory, to be made present before they are used.
#[derive(Debug)]
pub struct Pages(Arc<Memory>);

impl Pages {
    /// Makes the last `most` bytes present, a MiB at a time from the end on, where sessions start. A thread that uses them meanwhile
    /// does not wait. Returns the bytes that are present then: fewer if the system has no such call (Linux before 5.14) or no memory.
    pub fn populate(&self, most: usize) -> usize {
        const STEP: usize = 1 << 20;
        let (end, most) = (self.0.len(), most.min(self.0.len()));
        let mut done = 0;
        while done < most {
            let step = STEP.min(most - done);
            if !self.0.populate(end - done - step, step) {
                break;
            }
            done += step;
        }
        done
    }
}

impl AsRef<[u8]> for Region {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the bytes lie in `memory`, which lives as long as `self`. The constructors consumed the memory and made disjoint
        // regions, so no other reference to these bytes exists. A file behind them belongs to this process alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for Region {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_ref`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}
