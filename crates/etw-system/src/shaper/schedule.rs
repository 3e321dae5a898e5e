//! Context switches, wake-ups and samples: CSwitch, ReadyThread, SampledProfile.

use super::{EndingThread, FOREIGN, KEY, Shaper, ticks};
use crate::flags::Flag;
use crate::neutral::{NeutralEvent, Stack, SwitchedIn, SwitchedOut, ThreadState};
use crate::record::{Head, Payload, Records};

pub(super) const CSWITCH: u16 = 0x0524;
const SET_PRIORITY: u16 = 0x0530;
const READY_THREAD: u16 = 0x0532;
const SAMPLED_PROFILE: u16 = 0x0f2e;
/// A tick of Windows' wait times, in nanoseconds.
const WAIT_TICK: u64 = 15_625_000;
/// Real-time priorities of the kernel are below this one.
const REAL_TIME: i32 = 100;
const NICE_0: i32 = 120;

/// Windows' priority for one of the kernel: real-time 31 to 16, others 15 to 1, of which 8 is normal.
pub(super) const fn windows_priority(priority: i32) -> u8 {
    let windows = match priority {
        ..0 => 31,
        0..REAL_TIME => 31 - priority * 15 / (REAL_TIME - 1),
        REAL_TIME..NICE_0 => 8 + (NICE_0 - priority) * 7 / 20,
        NICE_0..139 => 8 - (priority - NICE_0) * 7 / 19,
        139.. => 1,
    };
    windows as u8
}

/// [`windows_priority`] of the priorities that the kernel has.
const PRIORITIES: [u8; 140] = {
    let mut all = [0; 140];
    let mut priority = 0;
    while priority < all.len() {
        all[priority] = windows_priority(priority as i32);
        priority += 1;
    }
    all
};

/// The same as [`windows_priority`], without its divisions.
fn known_priority(priority: i32) -> u8 {
    let known = usize::try_from(priority).ok().and_then(|at| PRIORITIES.get(at));
    known.copied().unwrap_or_else(|| windows_priority(priority))
}

/// State and wait reason of Windows.
struct WaitState {
    state: u8,
    reason: u8,
}

fn wait_state(state: ThreadState) -> WaitState {
    const READY: u8 = 1;
    const TERMINATED: u8 = 4;
    const WAITING: u8 = 5;
    // No reason of Windows has this number.
    const UNKNOWN: u8 = 127;
    let (state, reason) = match state {
        ThreadState::Preempted => (READY, 32),
        ThreadState::Ready => (READY, 33),
        ThreadState::Sleeping => (WAITING, 6),
        ThreadState::Waiting => (WAITING, UNKNOWN),
        ThreadState::Blocked => (WAITING, 0),
        ThreadState::Stopped => (WAITING, 5),
        ThreadState::Idle => (WAITING, 15),
        ThreadState::Dead => (TERMINATED, 22),
    };
    WaitState { state, reason }
}

/// The id that its own events have of the thread that leaves its CPU. In a container, a switch has the machine's until the thread has left its CPU
/// for the first time, but names the thread's own beside it.
fn left_thread(event: &NeutralEvent<'_>, old: SwitchedOut) -> u32 {
    if old.thread & FOREIGN != 0 && event.thread != 0 { event.thread } else { old.thread }
}

impl Shaper {
    pub(super) fn switched(
        &mut self,
        event: &NeutralEvent<'_>,
        old: SwitchedOut,
        new: SwitchedIn,
        out: &mut Records,
    ) {
        let old = match old.thread {
            super::NO_ID => self.without_id(event, old, new.thread),
            _ => old,
        };
        if self.lacks_states && !self.ending.is_empty() {
            self.still_runs(old.thread, event.time);
        }
        let old = match old.state == ThreadState::Dead || self.lacks_states {
            true => self.with_first_id(event.cpu, old),
            false => old,
        };
        let new = match new.thread {
            super::NO_ID => SwitchedIn { thread: self.ending_on(event.cpu, old.thread), ..new },
            _ => new,
        };
        self.change_thread(event, old, new, out);
        let is_ending = |one: &EndingThread| one.thread == left_thread(event, old);
        if old.state == ThreadState::Dead
            // Most have just said their end.
            && let Some(at) = self.ending.iter().rposition(is_ending)
            && let Some(one) = self.ending.remove(at)
        {
            self.ended(event, one.process, one.thread, out);
        }
    }

    /// A thread whose ids the kernel has taken back leaves its CPU. Without states, this is its last switch.
    fn without_id(&self, event: &NeutralEvent<'_>, old: SwitchedOut, new: u32) -> SwitchedOut {
        let state = match (self.lacks_states, old.state) {
            (true, ThreadState::Waiting) => ThreadState::Dead,
            (_, state) => state,
        };
        let thread = match event.thread {
            super::NO_ID => self.nameless_on(event.cpu, new),
            thread => thread,
        };
        SwitchedOut { thread, state, ..old }
    }

    /// A thread on its way out, whose ids the kernel has taken back, and which is not `other`; 0: none is known.
    fn ending_on(&self, cpu: u16, other: u32) -> u32 {
        let newest_first = || self.ending.iter().rev().filter(|one| one.thread != other);
        let of_cpu = newest_first().find(|one| one.cpu == cpu);
        of_cpu.or(newest_first().next()).map_or(0, |one| one.thread)
    }

    /// The thread without ids that leaves a CPU: the one that came there, as far as that is known.
    fn nameless_on(&self, cpu: u16, new: u32) -> u32 {
        let shown = self.cpus.get(usize::from(cpu)).and_then(|cpu| cpu.thread);
        shown.filter(|shown| *shown != new).unwrap_or_else(|| self.ending_on(cpu, new))
    }

    /// The first thread of a process leaves its CPU for the last time, while another one executes a program with its id.
    fn with_first_id(&mut self, cpu: u16, old: SwitchedOut) -> SwitchedOut {
        let cpu = self.cpu(cpu);
        let (shown, is_shown_as_idle) = (cpu.thread, cpu.leaves_as.take() == Some(old.thread));
        match shown {
            Some(0) if is_shown_as_idle => {
                SwitchedOut { thread: 0, priority: 0, state: ThreadState::Ready }
            }
            Some(first) if first != old.thread && self.is_taken(first, old.thread) => {
                SwitchedOut { thread: first, ..old }
            }
            _ => old,
        }
    }

    /// Whether `other` executes a program, and so takes the id of its process's first thread, which has said its end.
    fn is_taken(&self, first: u32, other: u32) -> bool {
        let owner = |thread| self.threads.get(&thread).filter(|one| one.process == first);
        other != first
            && owner(other).is_some()
            && owner(first).is_some_and(|one| one.said_end > 0 || one.has_taken_id)
    }

    /// A thread that executes a program takes the id of its process's first thread: switches say so. If the first thread still runs on another
    /// CPU, that is idle from then on.
    pub(super) fn take_id(
        &mut self,
        event: &NeutralEvent<'_>,
        (other, first): (u32, u32),
        out: &mut Records,
    ) {
        let is_elsewhere =
            |(cpu, one): (usize, &super::Cpu)| cpu as u16 != event.cpu && one.thread == Some(first);
        let elsewhere = self.cpus.iter().enumerate().find(|one| is_elsewhere(*one));
        if let Some(cpu) = elsewhere.map(|(cpu, _)| cpu as u16) {
            self.id_record(&NeutralEvent { cpu, ..*event }, (first, 0), out);
            let cpu = self.cpu(cpu);
            (cpu.thread, cpu.leaves_as) = (Some(0), Some(other));
        }
        self.id_record(event, (other, first), out);
    }

    /// Adds the switch of a thread that never runs again under its id.
    fn id_record(&mut self, event: &NeutralEvent<'_>, (old, new): (u32, u32), out: &mut Records) {
        if !self.has(Flag::SWITCH) {
            return;
        }
        let priority = |thread| self.threads.get(&thread).map_or(0, |one| one.priority);
        let process = self.process_of(new).unwrap_or(0);
        let WaitState { state, reason } = wait_state(ThreadState::Dead);
        let payload = Payload::new()
            .u32(new)
            .u32(old)
            .bytes(&[priority(new), priority(old), 0, 0, reason, 1, state, event.cpu as u8])
            .u64(0);
        let head = Head { time: ticks(event.time), cpu: event.cpu, process, thread: new };
        let head = self.apart(head, out);
        out.perf_info(head, CSWITCH, 4, &payload);
    }

    fn change_thread(
        &mut self,
        event: &NeutralEvent<'_>,
        old: SwitchedOut,
        new: SwitchedIn,
        out: &mut Records,
    ) {
        let keeps_stacks = self.keeps_stacks;
        let is_container = self.machine.is_container;
        // In a container, a program may have the id of the kernel's process.
        let is_program = |process: u32| process != 0 && (is_container || process != super::SYSTEM);
        let mut is_user = false;
        let old_priority = if old.thread == 0 { 0 } else { known_priority(old.priority) };
        let new_priority = if new.thread == 0 { 0 } else { known_priority(new.priority) };
        if let Some(thread) = self.threads.get_mut(&left_thread(event, old)) {
            is_user = is_program(thread.process);
            thread.out_since = event.time;
            thread.is_ready = matches!(old.state, ThreadState::Ready | ThreadState::Preempted);
            thread.priority = old_priority;
            if keeps_stacks && !(self.has_leaving && event.stack.is_empty()) {
                thread.keep_stack(event.stack);
            }
        } else if !self.revive(event, old.thread, out) {
            self.begin_unseen(event, old, out);
        }
        let cpu = self.cpu(event.cpu);
        let is_past_unknown = std::mem::take(&mut cpu.has_unknown_past);
        cpu.is_behind_loss = false;
        let before = cpu.thread.replace(new.thread);
        if before.map_or(is_past_unknown, |before| before != old.thread) {
            self.mend_chain(event, (before, old.thread), out);
        }
        let mut waited = 0;
        let mut process = 0;
        if let Some(thread) = self.threads.get_mut(&new.thread) {
            process = thread.process;
            thread.is_ready = false;
            thread.priority = new_priority;
            let out_since = std::mem::take(&mut thread.out_since);
            if out_since > 0 {
                waited = event.time.saturating_sub(out_since) / WAIT_TICK;
            }
        } else if self.revive(event, new.thread, out) {
            process = new.thread;
        }
        if !self.has(Flag::SWITCH) {
            return;
        }
        let time = out.not_before(ticks(event.time));
        let mut head = Head { time, cpu: event.cpu, process, thread: new.thread };
        if self.last_stacks.has(time, new.thread) {
            head.time += 1;
        }
        let wait = wait_state(old.state);
        let mut fields = [0; 24];
        fields[..4].copy_from_slice(&new.thread.to_le_bytes());
        fields[4..8].copy_from_slice(&old.thread.to_le_bytes());
        let priorities = [new_priority, old_priority, 0, 0];
        fields[8..12].copy_from_slice(&priorities);
        let wait = [wait.reason, u8::from(is_user), wait.state, event.cpu as u8];
        fields[12..16].copy_from_slice(&wait);
        let waited = u32::try_from(waited).unwrap_or(u32::MAX);
        fields[16..20].copy_from_slice(&waited.to_le_bytes());
        out.frequent(head, CSWITCH, 4, &fields);
        if keeps_stacks {
            self.add_stack_of_switch(head, out);
        }
    }

    /// The thread that leaves a CPU is not the one that came.
    #[cold]
    fn mend_chain(
        &mut self,
        event: &NeutralEvent<'_>,
        (before, old): (Option<u32>, u32),
        out: &mut Records,
    ) {
        match before.filter(|before| self.is_taken(old, *before)) {
            Some(other) => self.take_id(event, (other, old), out),
            None if self.has(Flag::SWITCH) => {
                // The kernel leaves switches out now and then, and says nothing.
                self.add_loss(event, out);
                self.gaps += 1;
            }
            None => {}
        }
    }

    /// Whether switches of an event's CPU are missing: a thread runs there, and they do not show it. None are recorded before the rundown at
    /// the start is complete.
    pub(super) fn lacks_switch_to(&mut self, event: &NeutralEvent<'_>, thread: u32) -> bool {
        let is_early = event.time <= self.found_until;
        let cpu = self.cpu(event.cpu);
        match cpu.thread {
            Some(shown) => shown != thread && shown & FOREIGN == 0,
            None => cpu.is_behind_loss || is_early && !cpu.has_unknown_past,
        }
    }

    /// Adds the stack of a thread: the one with which it left a CPU is the one with which it comes back.
    pub(super) fn add_stack_of_switch(&mut self, head: Head, out: &mut Records) {
        let Some(thread) = self.threads.get_mut(&head.thread) else { return };
        let mut kernel = std::mem::take(&mut thread.kernel_stack);
        let mut user = std::mem::take(&mut thread.user_stack);
        self.add_stack(head, CSWITCH, Stack { kernel: &kernel, user: &user }, out);
        kernel.clear();
        user.clear();
        if let Some(thread) = self.threads.get_mut(&head.thread) {
            // The memory is used again.
            (thread.kernel_stack, thread.user_stack) = (kernel, user);
        }
    }

    /// A thread leaves its CPU, and nobody saw its beginning: it begins here, unless it does not come back.
    fn begin_unseen(&mut self, event: &NeutralEvent<'_>, old: SwitchedOut, out: &mut Records) {
        let SwitchedOut { thread, state, .. } = old;
        let is_own = event.thread == thread && event.process != super::NO_ID;
        let is_nobody = [thread, event.process].iter().any(|id| *id == 0 || id & FOREIGN != 0);
        if !self.is_found || !is_own || is_nobody || state == ThreadState::Dead {
            return;
        }
        if self.ended_last.contains(&thread) {
            return;
        }
        self.ensure(event, event.process, thread, out);
        if let Some(one) = self.threads.get_mut(&thread) {
            one.out_since = event.time;
            one.is_ready = matches!(state, ThreadState::Ready | ThreadState::Preempted);
        }
    }

    /// The trace has switches that this shaper has not seen. The first switch of each CPU is marked as one behind a loss, unless
    /// [`runs`](Shaper::runs) says which thread the CPU runs.
    pub fn continues_trace(&mut self) {
        (0..self.cpus.len() as u16).for_each(|cpu| self.forgets(cpu));
    }

    /// A CPU runs a thread since a switch that is stored already.
    pub fn runs(&mut self, cpu: u16, thread: u32) {
        self.cpu(cpu).thread = Some(thread);
    }

    /// The trace may lack the last switch of a CPU.
    pub fn forgets(&mut self, cpu: u16) {
        let cpu = self.cpu(cpu);
        (cpu.thread, cpu.has_unknown_past) = (None, true);
    }

    /// The thread that each CPU runs; `None`: the trace has switches of it, and the last one is not known. Without switches, there are none:
    /// those that a later recorder may have do not continue the chains of an earlier one.
    pub fn cpu_states(&self) -> impl Iterator<Item = (u16, Option<u32>)> {
        let has_switches = self.has(Flag::SWITCH);
        let known =
            move |cpu: &super::Cpu| has_switches && (cpu.thread.is_some() || cpu.has_unknown_past);
        let cpus = self.cpus.iter().enumerate().filter(move |(_, cpu)| known(cpu));
        cpus.map(|(index, cpu)| (index as u16, cpu.thread))
    }

    /// The trace has switches of a CPU from another shaper, and the last one brought this thread.
    pub fn follows(&mut self, cpu: u16, thread: Option<u32>) {
        let cpu = self.cpu(cpu);
        (cpu.thread, cpu.has_unknown_past) = (thread, thread.is_none());
    }

    /// A thread runs now, after another one. Mostly the record of that one has said so.
    pub(super) fn switched_from(
        &mut self,
        event: &NeutralEvent<'_>,
        thread: u32,
        out: &mut Records,
    ) {
        self.lacks_states = true;
        let thread = match thread {
            super::NO_ID => self.nameless_on(event.cpu, event.thread),
            thread => thread,
        };
        if self.cpu(event.cpu).thread == Some(event.thread) {
            return;
        }
        // Linux 6.18 writes none for some idle threads.
        let old = SwitchedOut { thread, priority: NICE_0, state: ThreadState::Waiting };
        let new = SwitchedIn { thread: event.thread, priority: NICE_0 };
        let process = self.process_of(thread).unwrap_or(0);
        self.switched(&NeutralEvent { process, thread, ..*event }, old, new, out);
    }

    /// A thread of the recorded program begins to run: its CPU was doing something unknown, which is shown as idle.
    pub(super) fn switched_in(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        self.is_of_threads = true;
        let old = self.cpu(event.cpu).thread.unwrap_or(0);
        if old == event.thread {
            return;
        }
        let out_of = SwitchedOut { thread: old, priority: NICE_0, state: ThreadState::Ready };
        let new = SwitchedIn { thread: event.thread, priority: NICE_0 };
        self.switched(event, out_of, new, out);
    }

    /// A thread is about to leave its CPU.
    pub(super) fn leaving(&mut self, event: &NeutralEvent<'_>) {
        self.has_leaving = true;
        if self.keeps_stacks
            && let Some(thread) = self.threads.get_mut(&event.thread)
        {
            thread.keep_stack(event.stack);
        }
    }

    pub(super) fn switched_out(
        &mut self,
        event: &NeutralEvent<'_>,
        state: ThreadState,
        out: &mut Records,
    ) {
        let cpu = self.cpu(event.cpu);
        let known = cpu.thread.replace(event.thread);
        let new = SwitchedIn { thread: 0, priority: NICE_0 };
        let others = known.filter(|thread| *thread != event.thread);
        let is_ended = !self.threads.contains_key(&event.thread);
        if is_ended && others.is_some_and(|other| self.process_of(other) == Some(event.thread)) {
            self.restart_first_thread(event, event.thread, out);
        }
        if let Some(other) = others.filter(|other| self.is_taken(event.thread, *other)) {
            self.take_id(event, (other, event.thread), out);
        } else if let Some(thread) = others {
            // Its beginning was lost.
            let (priority, state) = (NICE_0, ThreadState::Ready);
            let out_of = SwitchedOut { thread, priority, state };
            let new = SwitchedIn { thread: event.thread, priority: NICE_0 };
            self.switched(event, out_of, new, out);
        }
        let out_of = SwitchedOut { thread: event.thread, priority: NICE_0, state };
        self.switched(event, out_of, new, out);
    }

    pub(super) fn woken(
        &mut self,
        event: &NeutralEvent<'_>,
        thread: u32,
        is_interrupt: bool,
        out: &mut Records,
    ) {
        if !self.has(Flag::READY) {
            return;
        }
        let head = self.head_with_stack(event, out);
        let [a, b, c, d] = thread.to_le_bytes();
        let fields = [a, b, c, d, 1, 0, u8::from(is_interrupt), 0];
        out.frequent(head, READY_THREAD, 2, &fields);
        self.add_stack(head, READY_THREAD, event.stack, out);
    }

    pub(super) fn priority_changed(
        &mut self,
        event: &NeutralEvent<'_>,
        thread: u32,
        old: i32,
        new: i32,
        out: &mut Records,
    ) {
        let (old, new) = (windows_priority(old), windows_priority(new));
        if let Some(one) = self.threads.get_mut(&thread) {
            one.priority = new;
        }
        if self.has(Flag::PRIORITY) {
            let head = self.head_with_stack(event, out);
            let payload = Payload::new().u32(thread).bytes(&[old, new, 0, 0]);
            out.perf_info(head, SET_PRIORITY, 3, &payload);
            self.add_stack(head, SET_PRIORITY, event.stack, out);
        }
    }

    pub(super) fn sampled(&mut self, event: &NeutralEvent<'_>, address: u64, out: &mut Records) {
        if !self.has(Flag::PROFILE) {
            return;
        }
        self.revive(event, event.thread, out);
        self.ensure_running(event, out);
        if !self.ending.is_empty() && self.threads.contains_key(&event.thread) {
            self.still_runs(event.thread, event.time);
        }
        let head = self.head_with_stack(event, out);
        let priority = self.threads.get(&event.thread).map_or(0, |thread| thread.priority);
        let cpu = self.cpu(event.cpu);
        let in_soft = u8::from(cpu.soft_interrupts.iter().any(|since| *since > 0));
        let in_interrupt = u8::from(!cpu.interrupts.is_empty());
        let flags = in_soft | in_interrupt << 1 | priority << 3;
        let payload = Payload::new().u64(address).u32(event.thread).u16(1).bytes(&[flags, 0]);
        out.perf_info(head, SAMPLED_PROFILE, 2, &payload);
        if address >= KEY {
            self.remember_kernel(&[address]);
        }
        self.add_stack(head, SAMPLED_PROFILE, event.stack, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{known_priority, windows_priority};

    #[test]
    fn priorities_have_the_order_of_the_kernels() {
        let ends = [-1, 0, 99, 100, 119, 120, 121, 139].map(windows_priority);
        assert_eq!(ends, [31, 31, 16, 15, 8, 8, 8, 1]);
        assert!((-1..141).all(|linux| known_priority(linux) == windows_priority(linux)));
        assert!((0..139).all(|linux| windows_priority(linux) >= windows_priority(linux + 1)));
    }
}
