//! Regions: memory cut into pieces that belong to one owner each.

use super::Memory;

/// A part of a mapping with a single owner in this process: a session's buffer in memory that outlives the process.
#[derive(Debug)]
pub struct Region {
    memory: std::sync::Arc<Memory>,
    offset: usize,
    len: usize,
}

impl Memory {
    /// Cuts the memory into regions of `len` bytes. The rest stays unused.
    pub fn into_regions(self, len: usize) -> Vec<Region> {
        let memory = std::sync::Arc::new(self);
        let count = memory.len().checked_div(len).unwrap_or(0);
        (0..count).map(|n| Region { memory: memory.clone(), offset: n * len, len }).collect()
    }
}

impl Region {
    /// The pages of all regions of this memory.
    pub fn pages(&self) -> Pages {
        Pages(self.memory.clone())
    }
}

/// The pages of a memory, to be made present before they are used.
#[derive(Debug)]
pub struct Pages(std::sync::Arc<Memory>);

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
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the bytes lie in the mapping, which lives as long as `self`. `into_regions` consumed the memory and made disjoint
        // regions, so no other reference to these bytes exists. The file behind them belongs to this process alone.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(self.offset), self.len) }
    }
}

impl AsMut<[u8]> for Region {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_ref`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(self.offset), self.len) }
    }
}
