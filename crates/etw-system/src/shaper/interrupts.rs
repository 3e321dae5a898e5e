//! Interrupts and soft interrupts.

use super::{Shaper, ticks};
use crate::flags::Flag;
use crate::neutral::NeutralEvent;
use crate::record::{Payload, Records};

const ISR: u16 = 0x0f43;
const DPC: u16 = 0x0f44;
const TIMER_DPC: u16 = 0x0f45;
/// Soft interrupts of timers.
const TIMER_VECTORS: [u32; 2] = [1, 8];
/// The addresses that stand for lines of interrupts, which have no routine of their own.
pub(crate) const INTERRUPT_LINES: u64 = 0xffff_fffe_0000_0000;

impl Shaper {
    pub(super) fn interrupted(
        &mut self,
        event: &NeutralEvent<'_>,
        line: u32,
        is_handled: bool,
        out: &mut Records,
    ) {
        let interrupts = &mut self.cpu(event.cpu).interrupts;
        // Handlers that began later have ended unseen.
        let Some(at) = interrupts.iter().rposition(|(one, _)| *one == line) else { return };
        let since = interrupts[at].1;
        interrupts.truncate(at);
        if self.has(Flag::INTERRUPT) {
            let payload = Payload::new()
                .u64(ticks(since) as u64)
                .u64(INTERRUPT_LINES + u64::from(line))
                .u8(u8::from(is_handled))
                .u16(line as u16)
                .u8(0);
            out.perf_info(self.head(event), ISR, 2, &payload);
        }
    }

    pub(super) fn soft_interrupted(
        &mut self,
        event: &NeutralEvent<'_>,
        vector: u32,
        out: &mut Records,
    ) {
        let since = match self.cpu(event.cpu).soft_interrupts.get_mut(vector as usize) {
            Some(since) => std::mem::take(since),
            None => return,
        };
        if since == 0 || !self.has(Flag::DPC) {
            return;
        }
        let hook = if TIMER_VECTORS.contains(&vector) { TIMER_DPC } else { DPC };
        let routine = self.machine.soft_interrupts.get(vector as usize).copied().unwrap_or(0);
        let payload = Payload::new().u64(ticks(since) as u64).u64(routine);
        out.perf_info(self.head(event), hook, 2, &payload);
    }
}
