//! Page faults: HardFault, TransitionFault, DemandZeroFault, CopyOnWrite.

use std::collections::HashMap;

use super::names::key_of_number;
use super::{Shaper, ticks};
use crate::flags::Flag;
use crate::neutral::{FileId, NeutralEvent};
use crate::record::{Payload, Records};

const TRANSITION: u16 = 0x020a;
const DEMAND_ZERO: u16 = 0x020b;
const COPY_ON_WRITE: u16 = 0x020c;
const HARD_FAULT: u16 = 0x0220;
const PAGE: u32 = 4096;
/// Faults that are remembered; only damage makes more.
const LIMIT: usize = 1 << 16;

/// Page faults that are being handled, by thread.
pub(super) type Faults = HashMap<u32, Fault>;

/// A page fault that is being handled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fault {
    since: u64,
    is_protection: bool,
    /// The page of a file that it needs.
    page: Option<FilePage>,
}

/// A page of a file.
#[derive(Clone, Copy, Debug)]
struct FilePage {
    file: FileId,
    offset: u64,
}

impl Shaper {
    pub(super) fn fault_begun(&mut self, event: &NeutralEvent<'_>, is_protection: bool) {
        if self.faults.len() >= LIMIT {
            self.faults.clear();
        }
        self.faults.insert(event.thread, Fault { since: event.time, is_protection, page: None });
    }

    pub(super) fn file_fault(
        &mut self,
        event: &NeutralEvent<'_>,
        (file, offset): (FileId, u64),
        is_around: bool,
    ) {
        if self.faults.len() >= LIMIT {
            self.faults.clear();
        }
        let fault = self.faults.entry(event.thread);
        let fault = fault.or_insert(Fault { since: event.time, ..Fault::default() });
        let page = FilePage { file, offset };
        // Behind the page that was read, those around it are mapped.
        match is_around {
            true => _ = fault.page.get_or_insert(page),
            false => fault.page = Some(page),
        }
    }

    /// The key of the file of a page at an address of a process: that of its view, if it is known. The kernel says the file system whose
    /// page it is, which may lie below that of the file.
    fn key_of_page(&self, (process, address): (u32, u64), file: FileId) -> u64 {
        self.file_at(process, address).unwrap_or_else(|| key_of_number(file))
    }

    pub(super) fn faulted(
        &mut self,
        event: &NeutralEvent<'_>,
        address: u64,
        program_counter: u64,
        is_hard: bool,
        out: &mut Records,
    ) {
        let fault = self.faults.remove(&event.thread).unwrap_or_default();
        let wanted = if is_hard { Flag::HARD_FAULTS } else { Flag::ALL_FAULTS };
        if !self.has(wanted) {
            return;
        }
        let place = (event.process, address);
        let page = fault.page.filter(|_| is_hard);
        let page = page.map(|page| (self.key_of_page(place, page.file), page.offset));
        if let Some((key, _)) = page {
            self.tell_name(event, key, out);
        }
        let head = self.head_with_stack(event, out);
        if is_hard {
            let since = if fault.since == 0 { head.time } else { ticks(fault.since) };
            let (key, offset) = page.unwrap_or_default();
            let payload = Payload::new()
                .u64(since as u64)
                .u64(offset)
                .u64(address)
                .u64(key)
                .u32(event.thread)
                .u32(PAGE);
            out.perf_info(head, HARD_FAULT, 2, &payload);
            self.add_stack(head, HARD_FAULT, event.stack, out);
            return;
        }
        let hook = match fault {
            Fault { is_protection: true, .. } => COPY_ON_WRITE,
            Fault { page: Some(_), .. } => TRANSITION,
            _ => DEMAND_ZERO,
        };
        let payload = Payload::new().u64(address).u64(program_counter);
        out.perf_info(head, hook, 2, &payload);
        self.add_stack(head, hook, event.stack, out);
    }
}
