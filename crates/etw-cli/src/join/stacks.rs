//! Stacks that the kernel recorded as events of their own, with their frames or with a key.

use etw_decode::kernel_pointer_size;
use etw_types::{EventRecord, Hook, le};
use std::collections::HashMap;

/// Bytes of stacks that are kept for their events.
const LIMIT: usize = 256 << 20;
/// Uses of keys that wait for their frames.
const PENDING_LIMIT: usize = 1 << 20;

/// The stacks of the kernel's events, by file and raw time.
#[derive(Debug, Default)]
pub struct Stacks {
    by_time: HashMap<(u32, i64), Vec<Stack>, foldhash::fast::RandomState>,
    size: usize,
    /// Uses of a key whose frames are not known yet: a key is described when it is deleted, or at the end.
    pending: HashMap<(u32, u64), Vec<Use>>,
    pending_count: usize,
    /// Stacks that were not kept.
    pub left_out: u64,
    /// The threads of stacks are kept alone.
    has_no_frames: bool,
}

/// The event that a stack belongs to.
#[derive(Clone, Copy, Debug)]
struct Use {
    time: i64,
    thread: u32,
    /// The CPU on which the stack was walked.
    cpu: u16,
}

#[derive(Debug)]
struct Stack {
    thread: u32,
    cpu: u16,
    frames: Box<[u64]>,
}

/// StackWalk: Stack, KeyCreate, KeyDelete, KeyRundown, StackKeyKernel, StackKeyUser.
pub fn is_stack(hook: Hook) -> bool {
    matches!(hook.0, 0x1820 | 0x1822..=0x1826)
}

impl Stacks {
    /// For the threads of events alone.
    pub fn without_frames() -> Stacks {
        Stacks { has_no_frames: true, ..Stacks::default() }
    }

    /// Notes a stack, a use of a key, or the frames of one.
    pub fn learn(&mut self, hook: Hook, record: &EventRecord<'_>) {
        let (payload, width) = (record.payload, usize::from(kernel_pointer_size(record)));
        let file = record.position.file_index;
        let pointer = |at: usize| match width {
            4 => le::u32(payload, at).map(u64::from),
            _ => le::u64(payload, at),
        };
        match hook.0 {
            // The key, and its frames.
            0x1822..=0x1824 => {
                let Some(key) = pointer(0) else { return };
                let Some(uses) = self.pending.remove(&(file, key)) else { return };
                self.pending_count -= uses.len();
                let frames = (1..).map_while(|number| pointer(number * width));
                uses.into_iter().for_each(|one| self.add(file, one, frames.clone()));
            }
            // `u64` time of the event, `u32` process, `u32` thread, frames or a key.
            _ => {
                let (Some(time), Some(thread)) = (le::i64(payload, 0), le::u32(payload, 12)) else {
                    return;
                };
                let one = Use { time, thread, cpu: record.cpu };
                if hook.0 == 0x1820 {
                    // 0 stands for frames that nobody knows.
                    let frames = (0..).map_while(|number| pointer(16 + number * width));
                    self.add(file, one, frames.filter(|frame| *frame != 0));
                } else if let Some(key) = pointer(16).filter(|_| self.pending_count < PENDING_LIMIT)
                {
                    self.pending_count += 1;
                    self.pending.entry((file, key)).or_default().push(one);
                }
            }
        }
    }

    fn add(&mut self, file: u32, of: Use, frames: impl Iterator<Item = u64> + Clone) {
        // The same stacks are left out with and without frames.
        self.size += frames.clone().count() * 8 + 64;
        if self.size > LIMIT {
            self.left_out += 1;
            return;
        }
        let Use { time, thread, cpu } = of;
        let frames = if self.has_no_frames { Box::default() } else { frames.collect() };
        self.by_time.entry((file, time)).or_default().push(Stack { thread, cpu, frames });
    }

    fn of(&self, record: &EventRecord<'_>) -> &[Stack] {
        // The trace's own records (EventTrace) and stacks have no stack: one of their time belongs to another event.
        let has_none = |hook: Hook| is_stack(hook) || hook.group() == 0;
        let time = record.raw_timestamp().filter(|_| !record.hook.is_some_and(has_none));
        let found = time.and_then(|time| self.by_time.get(&(record.position.file_index, time)));
        found.map_or(&[], Vec::as_slice)
    }

    /// The stacks of an event: of the kernel's side, and of the user's. An event that names no thread has those of the thread that was walked
    /// on its CPU at its time: another CPU may have had an event with a stack at the same time.
    pub fn frames_of(&self, record: &EventRecord<'_>) -> impl Iterator<Item = &[u64]> {
        let all = self.of(record);
        let thread = record.thread_id.or_else(|| thread_on(record.cpu, all));
        let of_thread = all.iter().filter(move |stack| thread == Some(stack.thread));
        of_thread.map(|stack| &*stack.frames)
    }

    /// The thread of the stack of an event that names none.
    pub fn thread_of(&self, record: &EventRecord<'_>) -> Option<u32> {
        if self.by_time.is_empty() || record.thread_id.is_some() {
            return None;
        }
        thread_on(record.cpu, self.of(record))
    }
}

/// The thread that was walked on a CPU.
fn thread_on(cpu: u16, stacks: &[Stack]) -> Option<u32> {
    stacks.iter().find(|stack| stack.cpu == cpu).map(|stack| stack.thread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::HeaderType;

    /// Regression: an event without a stack had that of an event at the same time on another CPU, and its thread.
    #[test]
    fn an_event_has_the_stacks_of_its_own_cpu() {
        let mut stacks = Stacks::default();
        let payload = |thread: u32, frame: u64| {
            let mut bytes = 5000i64.to_le_bytes().to_vec();
            bytes.extend([0; 4]);
            bytes.extend(thread.to_le_bytes());
            bytes.extend(frame.to_le_bytes());
            bytes
        };
        fn record(cpu: u16, payload: &[u8]) -> EventRecord<'_> {
            let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
            (record.cpu, record.order_time) = (cpu, 5000);
            record
        }
        for (cpu, thread, frame) in [(1, 77, 0x10), (1, 77, 0x11), (2, 88, 0x20)] {
            stacks.learn(Hook(0x1820), &record(cpu, &payload(thread, frame)));
        }
        let found = |cpu| {
            let event = record(cpu, &[]);
            let frames: Vec<u64> = stacks.frames_of(&event).flatten().copied().collect();
            (stacks.thread_of(&event), frames)
        };
        assert_eq!(found(0), (None, vec![]));
        assert_eq!(found(1), (Some(77), vec![0x10, 0x11]));
        assert_eq!(found(2), (Some(88), vec![0x20]));
        // A record of the trace itself at the same time.
        let mut of_trace = record(1, &[]);
        of_trace.hook = Some(Hook(0x0020));
        assert_eq!((stacks.thread_of(&of_trace), stacks.frames_of(&of_trace).count()), (None, 0));
        // The user's side may be walked on the CPU to which the thread has moved.
        let mut event = record(1, &[]);
        event.thread_id = Some(88);
        assert_eq!(stacks.frames_of(&event).collect::<Vec<_>>(), [&[0x20][..]]);
    }
}
