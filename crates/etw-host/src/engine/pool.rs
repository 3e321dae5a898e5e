//! An attached pool: everything that the engine knows of it beside its reader.

use std::time::Instant;

use etw_ring::layout::{BLOCK_SIZE, MAX_SEGMENT_UNITS, UNIT_SIZE};
use etw_ring::{Reader, SiteTable};
use etw_session::ProcessFacts;

use super::slots::SlotTable;
use crate::registrations::Registrations;
use crate::thread_ids::ThreadIds;

/// Bytes of the largest segment that a pool grows by.
pub(crate) const LARGEST_SEGMENT: u64 = (MAX_SEGMENT_UNITS * UNIT_SIZE) as u64;

/// The process that writes to a pool.
#[derive(Debug)]
pub struct PoolProcess {
    /// Its id in the host's PID namespace.
    pub id: u32,
    /// Facts for extended items.
    pub facts: ProcessFacts,
    /// Its threads' ids.
    pub thread_ids: ThreadIds,
}

/// How a pool grows.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Bytes of the pool now.
    pub size: u64,
    /// Bytes up to which it may grow.
    pub limit: u64,
    /// A step is so many times the pool's size.
    pub factor: u64,
    /// Bytes of the segment that was asked for and has not been added yet.
    pub requested: Option<u64>,
}

impl Growth {
    /// Growth of a pool of `size` bytes by steps of `factor` times its size.
    pub fn new(size: u64, limit: u64, factor: u64) -> Growth {
        Growth { size, limit, factor, requested: None }
    }

    /// Bytes of the next segment, if the pool may have one.
    fn next_step(&self) -> Option<u64> {
        let step = self.size.saturating_mul(self.factor);
        let step = step.min(self.limit.saturating_sub(self.size)).min(LARGEST_SEGMENT);
        let step = step / BLOCK_SIZE as u64 * BLOCK_SIZE as u64;
        (step > 0 && self.requested.is_none()).then_some(step)
    }
}

/// A pool that the engine drains.
#[derive(Debug)]
pub struct AttachedPool {
    /// The host's number of the pool.
    pub(super) key: u64,
    pub(super) process_id: u32,
    pub(super) facts: ProcessFacts,
    pub(super) thread_ids: ThreadIds,
    /// The providers that its records name.
    pub registrations: Registrations,
    pub(super) sites: SiteTable,
    pub(super) slots: SlotTable,
    /// How it grows.
    pub growth: Growth,
    /// Invalid records and chunks since the last count.
    pub(super) hostile: u64,
    /// The reader's pressure when growth was last considered.
    pub(super) pressure: u32,
    /// Bytes that the last round drained.
    pub(super) drained: u64,
    /// Raw time at which the process was known to have ended.
    pub(super) ended_at: Option<u64>,
    /// The process has ended, and its records are drained.
    pub(super) is_exhausted: bool,
    /// When a round last drained a record.
    pub(super) active: Instant,
    /// The pool is memory of this process: reading its counters costs no system call.
    pub(super) is_mapped: bool,
}

impl AttachedPool {
    /// A pool with the host's number `key`, which `reader` reads.
    pub fn new(key: u64, process: PoolProcess, growth: Growth, reader: &Reader) -> AttachedPool {
        AttachedPool {
            key,
            process_id: process.id,
            facts: process.facts,
            thread_ids: process.thread_ids,
            registrations: Registrations::default(),
            sites: reader.site_table(),
            slots: SlotTable::default(),
            growth,
            hostile: 0,
            pressure: reader.pressure(),
            drained: 0,
            ended_at: None,
            is_exhausted: false,
            active: Instant::now(),
            is_mapped: false,
        }
    }

    /// The same pool with the slots of a worker before.
    #[must_use]
    pub fn with_slots(mut self, slots: SlotTable) -> AttachedPool {
        self.slots = slots;
        self
    }

    /// The same pool, whose memory is mapped in this process.
    #[must_use]
    pub fn mapped(mut self) -> AttachedPool {
        self.is_mapped = true;
        self
    }

    /// The slots of its sessions.
    pub fn slots(&self) -> &SlotTable {
        &self.slots
    }

    /// The pressure has risen since the last call: writers found less than half of the pool free. Returns the bytes to grow by.
    pub(super) fn growth_wanted(&mut self, reader: &Reader) -> Option<u64> {
        let pressure = reader.pressure();
        if std::mem::replace(&mut self.pressure, pressure) == pressure {
            return None;
        }
        let step = self.growth.next_step();
        self.growth.requested = self.growth.requested.or(step);
        step
    }
}
