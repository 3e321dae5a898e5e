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
    by_time: HashMap<(u32, i64), Vec<Stack>>,
    size: usize,
    /// Uses of a key whose frames are not known yet: a key is described when it is deleted, or at the end.
    pending: HashMap<(u32, u64), Vec<(i64, u32)>>,
    pending_count: usize,
    /// Stacks that were not kept.
    pub left_out: u64,
}

#[derive(Debug)]
struct Stack {
    thread: u32,
    frames: Box<[u64]>,
}

/// StackWalk: Stack, KeyCreate, KeyDelete, KeyRundown, StackKeyKernel, StackKeyUser.
pub fn is_stack(hook: Hook) -> bool {
    matches!(hook.0, 0x1820 | 0x1822..=0x1826)
}

impl Stacks {
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
                let frames: Vec<u64> = (1..).map_while(|number| pointer(number * width)).collect();
                for (time, thread) in uses {
                    self.add((file, time), thread, frames.clone().into());
                }
            }
            // `u64` time of the event, `u32` process, `u32` thread, frames or a key.
            _ => {
                let (Some(time), Some(thread)) = (le::i64(payload, 0), le::u32(payload, 12)) else {
                    return;
                };
                if hook.0 == 0x1820 {
                    // 0 stands for frames that nobody knows.
                    let frames = (0..).map_while(|number| pointer(16 + number * width));
                    let frames = frames.filter(|frame| *frame != 0).collect();
                    self.add((file, time), thread, frames);
                } else if let Some(key) = pointer(16).filter(|_| self.pending_count < PENDING_LIMIT)
                {
                    self.pending_count += 1;
                    self.pending.entry((file, key)).or_default().push((time, thread));
                }
            }
        }
    }

    fn add(&mut self, event: (u32, i64), thread: u32, frames: Box<[u64]>) {
        self.size += frames.len() * 8 + 64;
        if self.size > LIMIT {
            self.left_out += 1;
            return;
        }
        self.by_time.entry(event).or_default().push(Stack { thread, frames });
    }

    fn of(&self, record: &EventRecord<'_>) -> &[Stack] {
        let time = record.raw_timestamp().filter(|_| !record.hook.is_some_and(is_stack));
        let found = time.and_then(|time| self.by_time.get(&(record.position.file_index, time)));
        found.map_or(&[], Vec::as_slice)
    }

    /// The stacks of an event: of the kernel's side, and of the user's.
    pub fn frames_of(&self, record: &EventRecord<'_>) -> impl Iterator<Item = &[u64]> {
        let thread = record.thread_id;
        let all = self.of(record).iter();
        all.filter(move |stack| thread.is_none_or(|thread| thread == stack.thread))
            .map(|stack| &*stack.frames)
    }

    /// The thread of the stack of an event that names none.
    pub fn thread_of(&self, record: &EventRecord<'_>) -> Option<u32> {
        if self.by_time.is_empty() || record.thread_id.is_some() {
            return None;
        }
        Some(self.of(record).first()?.thread)
    }
}
