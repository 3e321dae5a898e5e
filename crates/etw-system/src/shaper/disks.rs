//! Requests of disks, from their callers to their completions.
//!
//! A request is queued by the thread that asks for it. The scheduler of the disk issues it later, in any thread, and may merge it with
//! others before. So the thread and the time of a request are those of its queueing, its size is that of its issue. Each request that is merged
//! with others is a part of what is issued, up to the first sector of the next one.

use std::collections::{BTreeMap, HashMap};

use super::{Configuration, Disk, KEY, Numbers, Shaper};
use crate::flags::Flag;
use crate::neutral::{DiskOperation, DiskRequest, NeutralEvent};
use crate::record::{Payload, Records};

/// Requests that are remembered, and disks; only damage makes more.
const LIMIT: usize = 1 << 16;
const SECTOR: u64 = 512;

/// Requests that began and did not end, by device and sector.
#[derive(Clone, Debug, Default)]
pub(super) struct Disks {
    queued: BTreeMap<(u32, u64), Request>,
    issued: HashMap<(u32, u64), Request>,
    pub ids: Numbers,
}

#[cfg(test)]
impl Disks {
    pub fn remembered(&self) -> [(&'static str, usize); 2] {
        [("queued requests", self.queued.len()), ("issued requests", self.issued.len())]
    }
}

/// A request of a disk, or a part of a larger one.
#[derive(Clone, Copy, Debug)]
struct Request {
    id: u64,
    operation: DiskOperation,
    since: u64,
    thread: u32,
    /// Bytes that are not complete.
    left: u32,
    first_sector: u64,
    size: u32,
    /// The driver has not taken it.
    is_requeued: bool,
    /// The next part begins where it ends.
    has_next: bool,
}

impl Disks {
    fn make(&mut self, event: &NeutralEvent<'_>, request: &DiskRequest) -> Request {
        Request {
            id: KEY | self.ids.next(),
            operation: request.operation,
            since: event.time,
            thread: event.thread,
            left: request.size,
            first_sector: request.sector,
            size: request.size,
            is_requeued: false,
            has_next: false,
        }
    }

    /// The queued requests that a request is made of, in the order of their sectors, with their parts of it.
    fn take_queued(&mut self, request: &DiskRequest) -> Vec<Request> {
        let size = u64::from(request.size).div_ceil(SECTOR).max(1);
        let end = request.sector.saturating_add(size);
        let range = (request.device, request.sector)..(request.device, end);
        let is_part = |one: &Request| one.operation == request.operation;
        let merged = self.queued.range(range).filter(|(_, one)| is_part(one));
        let keys: Vec<(u32, u64)> = merged.map(|(key, _)| *key).collect();
        let mut parts: Vec<Request> =
            keys.iter().filter_map(|key| self.queued.remove(key)).collect();
        let mut end = u64::from(request.size);
        for (at, part) in parts.iter_mut().enumerate().rev() {
            // The first one may have grown at its front.
            let sector = if at == 0 { request.sector } else { part.first_sector };
            let start = (sector - request.sector) * SECTOR;
            part.has_next = end < u64::from(request.size);
            // Both are less than the request's size.
            part.size = (end - start) as u32;
            (part.left, part.first_sector) = (part.size, sector);
            end = start;
        }
        parts
    }

    /// Takes the next part of a request that has completed so many bytes from a sector on. `None`: it is known no more, or not complete.
    fn take_complete(&mut self, device: u32, sector: &mut u64, bytes: &mut u32) -> Option<Request> {
        let mut one = self.issued.remove(&(device, *sector))?;
        let done = one.left.min(*bytes);
        *bytes -= done;
        *sector = sector.wrapping_add(u64::from(done) / SECTOR);
        if done < one.left {
            // The rest comes with another completion.
            one.left -= done;
            self.issued.insert((device, *sector), one);
            return None;
        }
        Some(one)
    }
}

/// A call that only flushes is a write of nothing until the disk's driver flushes.
fn queued_form(request: &DiskRequest) -> DiskRequest {
    match request {
        DiskRequest { operation: DiskOperation::Write, size: 0, .. } => {
            DiskRequest { operation: DiskOperation::Flush, sector: 0, ..*request }
        }
        _ => *request,
    }
}

impl Shaper {
    /// The number of a disk. One that came later gets the next number; its name is unknown at first.
    pub(crate) fn disk_number(&mut self, device: u32) -> u32 {
        let disks = &mut self.machine.disks;
        let at = disks.iter().position(|disk| disk.device == device).unwrap_or_else(|| {
            if disks.len() < LIMIT {
                disks.push(Disk { device, name: String::new() });
            }
            disks.len() - 1
        });
        at as u32
    }

    /// The disks, in the order of their numbers. Those that came later, and were not [described](Shaper::describe_disk) yet, have no names.
    pub fn disks(&self) -> &[Disk] {
        &self.machine.disks
    }

    /// Names a disk that came later. Its record is one of those at the end.
    pub fn describe_disk(&mut self, number: u32, name: String, record: Configuration) {
        let Some(disk) = self.machine.disks.get_mut(number as usize) else { return };
        disk.name = name;
        self.add_configuration(record);
    }

    /// Adds a record about a disk or file system that came later: it is the last one of its kind.
    pub fn add_configuration(&mut self, record: Configuration) {
        let all = &mut self.machine.configuration;
        // Those of disks are followed by those of file systems, and all others but the first one by higher hooks.
        let last = all.iter().rposition(|one| one.hook <= record.hook);
        all.insert(last.map_or(0, |last| last + 1), record);
    }

    /// Numbers the disks anew, before the first event, with the records of the machine's configuration.
    #[cfg(target_os = "linux")]
    pub(crate) fn number_disks(&mut self, disks: Vec<Disk>, configuration: Vec<Configuration>) {
        self.machine.disks = disks;
        self.machine.configuration = configuration;
    }

    /// A thread asks for a request.
    pub(super) fn disk_queued(
        &mut self,
        event: &NeutralEvent<'_>,
        request: &DiskRequest,
        out: &mut Records,
    ) {
        let request = queued_form(request);
        let key = (request.device, request.sector);
        if request.operation == DiskOperation::Flush && self.disks.queued.contains_key(&key) {
            // One flush serves all that wait for it.
            return;
        }
        if self.disks.queued.len() >= LIMIT {
            self.disks.queued.clear();
        }
        let one = self.disks.make(event, &request);
        self.disks.queued.insert(key, one);
        self.disk_begun(event, &request, one.id, out);
    }

    /// The driver gets a request. Without a record of its queueing, it begins here.
    pub(super) fn disk_issued(
        &mut self,
        event: &NeutralEvent<'_>,
        request: &DiskRequest,
        out: &mut Records,
    ) {
        let key = (request.device, request.sector);
        if let Some(one) = self.disks.issued.get_mut(&key)
            && std::mem::take(&mut one.is_requeued)
        {
            // It keeps its first time and thread.
            return;
        }
        let mut parts = self.disks.take_queued(request);
        if parts.is_empty() {
            let one = self.disks.make(event, request);
            self.disk_begun(event, request, one.id, out);
            parts.push(one);
        }
        for one in parts {
            if self.disks.issued.len() < LIMIT {
                // The completion of an earlier request of the same sector was lost.
                self.disks.issued.insert((request.device, one.first_sector), one);
            }
        }
    }

    fn disk_begun(
        &mut self,
        event: &NeutralEvent<'_>,
        request: &DiskRequest,
        id: u64,
        out: &mut Records,
    ) {
        let hook = match request.operation {
            DiskOperation::Read => 0x010c,
            DiskOperation::Write => 0x010d,
            DiskOperation::Flush => 0x010f,
            DiskOperation::Other => return,
        };
        if self.has(Flag::DISK_INIT) {
            let head = self.head_with_stack(event, out);
            out.system(head, hook, 3, &Payload::new().u64(id).u32(event.thread));
            self.add_stack(head, hook, event.stack, out);
        }
    }

    pub(super) fn disk_requeued(&mut self, request: &DiskRequest) {
        if let Some(one) = self.disks.issued.get_mut(&(request.device, request.sector)) {
            one.is_requeued = true;
        }
    }

    pub(super) fn disk_completed(
        &mut self,
        event: &NeutralEvent<'_>,
        request: &DiskRequest,
        out: &mut Records,
    ) {
        if request.operation == DiskOperation::Write && request.size == 0 {
            // A call that only flushed: the flush itself has completed.
            return;
        }
        let (mut sector, mut bytes) = (request.sector, request.size);
        while let Some(one) = self.disks.take_complete(request.device, &mut sector, &mut bytes) {
            self.disk_ended(event, request, one, out);
            if !one.has_next || bytes == 0 {
                return;
            }
        }
    }

    fn disk_ended(
        &mut self,
        event: &NeutralEvent<'_>,
        request: &DiskRequest,
        one: Request,
        out: &mut Records,
    ) {
        let hook = match request.operation {
            DiskOperation::Read => 0x010a,
            DiskOperation::Write => 0x010b,
            DiskOperation::Flush => 0x010e,
            DiskOperation::Other => return,
        };
        if !self.has(Flag::DISK) {
            return;
        }
        let head = self.head(event);
        let disk = self.disk_number(request.device);
        // Priority 3 is normal; 2 is that of paging.
        let flags: u32 = if request.is_background { 0x6_0002 } else { 0x6_0000 };
        let took = (event.time.saturating_sub(one.since)) / 100;
        let payload = match request.operation {
            DiskOperation::Flush => {
                Payload::new().u32(disk).u32(flags).u64(took).u64(one.id).u32(one.thread)
            }
            _ => Payload::new()
                .u32(disk)
                .u32(flags)
                .u32(one.size)
                .u32(0)
                .u64(one.first_sector.wrapping_mul(SECTOR))
                .u64(0)
                .u64(one.id)
                .u64(took)
                .u32(one.thread),
        };
        out.perf_info(head, hook, 3, &payload);
    }
}
