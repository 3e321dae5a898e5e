//! Call stacks of events that the kernel reports without one: starts and ends of processes and threads, loads and unloads of images.
//!
//! Each of them has a tracepoint or system call beside it, in the same thread, that has the stack.

use super::closes::CLONE_FILES;
use super::folders::CLONE_FOLDER;
use super::{SYSTEM, Shaper};
use crate::neutral::{Detail, ExecFacts, NeutralEvent, Stack};
use crate::record::{Head, Records};

pub(super) const PROCESS_START: u16 = 0x0301;
pub(super) const PROCESS_END: u16 = 0x0302;
pub(super) const THREAD_START: u16 = 0x0501;
pub(super) const THREAD_END: u16 = 0x0502;
pub(super) const IMAGE_LOAD: u16 = 0x030a;
pub(super) const IMAGE_UNLOAD: u16 = 0x1402;

/// Flags of `clone`: CLONE_VM and CLONE_THREAD.
const CLONE_MEMORY: u64 = 0x100;
const CLONE_THREAD: u64 = 0x1_0000;

/// The stack of the creator, and the flags with which it made a thread, come within so many nanoseconds, or were lost.
const CREATION_DELAY: u64 = 5_000_000;

/// A stack that waits for its event.
#[derive(Clone, Debug, Default)]
pub(super) struct SavedStack {
    kernel: Vec<u64>,
    user: Vec<u64>,
}

impl SavedStack {
    pub fn of(stack: Stack<'_>) -> SavedStack {
        SavedStack { kernel: stack.kernel.to_vec(), user: stack.user.to_vec() }
    }

    pub fn get(&self) -> Stack<'_> {
        Stack { kernel: &self.kernel, user: &self.user }
    }
}

/// A thread that was made, until the stack of its creator comes. The kernel lets it run only after that.
#[derive(Clone, Debug)]
pub(super) struct Creation {
    time: u64,
    cpu: u16,
    process: u32,
    thread: u32,
    parent_process: u32,
    parent_thread: u32,
    soon: Option<ExecFacts>,
    /// Those of `clone`, if they are known.
    flags: Option<u64>,
}

impl Shaper {
    fn keeps_creations(&self) -> bool {
        self.options.has_stack(PROCESS_START) || self.options.has_stack(THREAD_START)
    }

    /// A thread was made. If its start has a call stack, it waits for it.
    pub(super) fn created(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        let Detail::Fork { process, parent_process, thread, parent_thread, soon } = event.detail
        else {
            return;
        };
        if !self.keeps_creations() {
            return self.forked(event, out);
        }
        self.creations.push(Creation {
            time: event.time,
            cpu: event.cpu,
            process,
            thread,
            parent_process,
            parent_thread,
            soon: soon.cloned(),
            flags: None,
        });
    }

    /// Adds the starts of threads whose stack has come with this event, or will not come any more.
    pub(super) fn complete_creations(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        let has_stack = matches!(event.detail, Detail::Created);
        let is_due = |one: &Creation| {
            let is_next = match event.detail {
                Detail::Created | Detail::Fork { .. } => event.thread == one.parent_thread,
                Detail::Wake { thread, .. } => thread == one.thread,
                Detail::Switch { new, .. } => new.thread == one.thread,
                Detail::Lost { .. } | Detail::AllFound => true,
                _ => event.thread == one.thread,
            };
            is_next || event.time.saturating_sub(one.time) >= CREATION_DELAY
        };
        while let Some(at) = self.creations.iter().position(is_due) {
            let one = self.creations.remove(at);
            let is_own = has_stack && event.thread == one.parent_thread;
            self.start_created(one, if is_own { event.stack } else { Stack::default() }, out);
        }
    }

    fn start_created(&mut self, one: Creation, stack: Stack<'_>, out: &mut Records) {
        let Creation { time, cpu, process, thread, parent_process, parent_thread, soon, flags } =
            one;
        let (soon, parent, made) = (soon.as_ref(), (parent_process, parent_thread), thread);
        let detail = Detail::Fork { process, parent_process, thread, parent_thread, soon };
        let (process, thread) = parent;
        self.forked(&NeutralEvent { time, cpu, process, thread, stack, detail }, out);
        if let Some(flags) = flags {
            self.thread_shares(parent, made, flags);
        }
    }

    /// The flags are known with which a thread has made another one.
    pub(super) fn cloned(&mut self, event: &NeutralEvent<'_>, flags: u64) {
        let (process, parent) = (event.process, event.thread);
        if let Some(one) = self.creations.iter_mut().rfind(|one| one.parent_thread == parent) {
            one.flags = Some(flags);
            return;
        }
        let Some((thread, time)) = self.threads.get(&parent).map(|one| one.made) else { return };
        // The record of that thread may have been lost.
        if event.time.saturating_sub(time) < CREATION_DELAY {
            self.thread_shares((process, parent), thread, flags);
        }
    }

    /// A process was found in the memory of another one.
    pub(super) fn found_sharing(&mut self, process: u32, other: u32, out: &mut Records) {
        // If its start waits for a stack, nothing records that: it would have the flags, too.
        if let Some(at) = self.creations.iter().position(|one| one.thread == process) {
            let one = self.creations.remove(at);
            self.start_created(one, Stack::default(), out);
        }
        self.memory_shared(process, other);
    }

    /// Gives a new thread together with the one that made it all that the flags of `clone` say.
    fn thread_shares(&mut self, parent: (u32, u32), thread: u32, flags: u64) {
        let is_process = flags & CLONE_THREAD == 0;
        let process = if is_process { thread } else { parent.0 };
        if is_process && flags & CLONE_MEMORY != 0 {
            self.memory_shared(process, parent.0);
        }
        let [folder, descriptors] = [CLONE_FOLDER, CLONE_FILES].map(|flag| {
            let is_shared = flags & flag != 0;
            (self.shares(parent.1, flag, is_process) != is_shared).then_some(is_shared)
        });
        if let Some(is_shared) = folder {
            self.begin_in_folder(thread, parent.1, is_shared);
        }
        if let Some(is_shared) = descriptors {
            self.begin_descriptors((process, thread), parent, is_shared);
        }
    }

    /// The thread that ran begins to end.
    pub(super) fn exiting(&mut self, event: &NeutralEvent<'_>) {
        if let Some(thread) = self.threads.get_mut(&event.thread) {
            thread.saved_stack = SavedStack::of(event.stack);
        }
    }

    /// A thread begins a call that maps a file, which may be an image.
    pub(super) fn keep_map_stack(&mut self, event: &NeutralEvent<'_>) {
        if self.options.has_stack(IMAGE_LOAD)
            && let Some(thread) = self.threads.get_mut(&event.thread)
        {
            thread.saved_stack = SavedStack::of(event.stack);
        }
    }

    /// The call is over.
    pub(super) fn drop_map_stack(&mut self, thread: u32) {
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.saved_stack = SavedStack::default();
        }
    }

    /// The stack of the thread that maps an image now.
    pub(super) fn map_stack(&self, thread: u32) -> SavedStack {
        self.threads.get(&thread).map(|one| one.saved_stack.clone()).unwrap_or_default()
    }

    /// The frames of a program for a stack that has none: of the call that the thread is in, if they are known, or an address that is in
    /// no image. A thread that ends has no memory any more; without any frame of the program, readers would wait for a second part.
    pub(super) fn missing_frames(&self, head: Head) -> &[u64] {
        const NONE: &[u64] = &[0];
        // Readers know the kernel's process by its id, also in a container, where a program may have it.
        if matches!(head.process, 0 | SYSTEM) {
            return &[];
        }
        match self.threads.get(&head.thread).map(|one| &one.saved_stack.user[..]) {
            None | Some([]) => NONE,
            Some(user) => user,
        }
    }

    /// The head of a record that may have a stack: readers find its event by time and thread.
    pub(super) fn apart(&self, head: Head, out: &Records) -> Head {
        let time = out.not_before(head.time);
        let is_same = self.last_stacks.has(time, head.thread);
        Head { time: time + i64::from(is_same), ..head }
    }
}
