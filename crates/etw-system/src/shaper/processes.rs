//! Processes and threads: Process and Thread events.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::closes::CLONE_FILES;
use super::exit_statuses::StatusSource;
use super::folders::CLONE_FOLDER;
use super::lifecycle_stacks::{
    IMAGE_UNLOAD, PROCESS_END, PROCESS_START, SavedStack, THREAD_END, THREAD_START,
};
use super::schedule::windows_priority;
use super::{EndingThread, FOREIGN, KEY, REMEMBERED_ENDS, SYSTEM, Shaper, ticks};
use crate::flags::Flag;
use crate::neutral::{
    Detail, ExecFacts, Image, NeutralEvent, ProcessFacts, Stack, StackBounds, ThreadState,
};
use crate::record::{Head, Payload, ProviderEvent, Records};

/// Bytes of the largest event.
const LARGEST_EVENT: usize = 65_400;
/// Bytes of the longest name of an image, or of a unit: that of a file.
const LONGEST_NAME: usize = 255;
/// The exit status of a process that runs.
const STILL_ACTIVE: u32 = 259;
/// Bytes of the fields and the header around a command line or the arguments of a program, the image's name included.
const AROUND_COMMAND_LINE: usize = 1024;
/// `S-1-22-1-uid`: the identifier authority of Unix users.
const UNIX_USER_AUTHORITY: u8 = 22;
/// Nanoseconds that the keys of processes tell apart: an id is hardly used again sooner, and not at all a multiple of two hours later.
const KEY_TICK: u64 = 100_000;
/// A priority that says nothing.
const NORMAL_PRIORITY: i32 = 120;

/// A process that lives.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub facts: ProcessFacts,
    /// By base.
    pub images: BTreeMap<u64, Arc<Image>>,
    /// Changes with `images`; no other process has had it.
    pub images_version: u64,
    /// The images are its parent's, and have no records yet: it executes another program soon.
    pub has_untold_images: bool,
    /// The ids of its threads.
    pub threads: Vec<u32>,
    /// Known at its end.
    pub exit_status: u32,
    /// When its program was executed, if it was recorded.
    pub executed: Option<u64>,
}

impl Process {
    /// The id that records name.
    pub fn id(&self) -> u32 {
        if self.facts.is_kernel { SYSTEM } else { self.facts.id }
    }

    /// Nobody could read the arguments of its program. The kernel gives each program at least an empty one.
    fn lacks_arguments(&self) -> bool {
        self.executed.is_some() && self.facts.exec.arguments.is_empty()
    }
}

/// A thread that lives.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    /// The process that records name.
    pub process: u32,
    pub name: Vec<u8>,
    pub priority: u8,
    /// A bit for each of the first 64 CPUs that it may use; 0: not known.
    pub affinity: u64,
    /// Where its program begins to run, and its stack, if it is the first one of its process; zeros: not known.
    pub entry: u64,
    pub stack: StackBounds,
    /// When it left its CPU; 0: it runs, or it is not known.
    pub out_since: u64,
    /// When it said its end; 0: it has not.
    pub said_end: u64,
    /// It executes a program, and has the id of a first thread that has ended.
    pub has_taken_id: bool,
    /// It was ready to run when it left its CPU.
    pub is_ready: bool,
    /// The thread that it has made last, and when.
    pub made: (u32, u64),
    /// The stack with which it left its CPU.
    pub kernel_stack: Vec<u64>,
    pub user_stack: Vec<u64>,
    /// The stack of the call that maps an image now, or with which the thread ends.
    pub saved_stack: SavedStack,
}

impl Thread {
    /// Keeps the stack with which it leaves its CPU; the memory is used again.
    pub fn keep_stack(&mut self, stack: Stack<'_>) {
        self.kernel_stack.clear();
        self.kernel_stack.extend(stack.kernel);
        self.user_stack.clear();
        self.user_stack.extend(stack.user);
    }
}

/// Types of Process and Thread events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Start = 1,
    End = 2,
    /// It existed when the recording began.
    Before = 3,
    /// It exists when the recording ends.
    After = 4,
    /// It had ended when the recording began, and its parent does not know yet.
    Defunct = 39,
}

/// A thread that existed when the recording began.
pub(super) struct FoundThread<'a> {
    pub thread: u32,
    pub name: &'a [u8],
    /// The kernel's priority.
    pub priority: i32,
    pub affinity: u64,
}

impl Shaper {
    pub(super) fn process_found(
        &mut self,
        event: &NeutralEvent<'_>,
        facts: &ProcessFacts,
        out: &mut Records,
    ) {
        let head = Head { process: facts.id, thread: 0, ..self.head(event) };
        self.found_until = self.found_until.max(event.time);
        let process = Process { facts: facts.clone(), ..Process::default() };
        if !facts.is_kernel {
            self.process_record(head, Moment::Before, &process, out);
        }
        if facts.id == 0 && !self.machine.is_container {
            self.process_record(head, Moment::Before, &system_process(), out);
        }
        self.processes.insert(facts.id, process);
        self.folders.add(facts.id, facts.folder.clone());
    }

    pub(super) fn defunct_found(
        &mut self,
        event: &NeutralEvent<'_>,
        facts: &ProcessFacts,
        exit_status: u32,
        out: &mut Records,
    ) {
        let head = Head { process: facts.id, thread: 0, ..self.head(event) };
        let process = Process { facts: facts.clone(), exit_status, ..Process::default() };
        self.process_record(head, Moment::Defunct, &process, out);
    }

    pub(super) fn thread_found(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        &FoundThread { thread, name, priority, affinity }: &FoundThread<'_>,
        out: &mut Records,
    ) {
        let Some(owner) = self.processes.get_mut(&process) else { return };
        let id = owner.id();
        let name = name.to_vec();
        let priority = if thread == 0 { 0 } else { windows_priority(priority) };
        let is_first = thread == owner.facts.id;
        let (entry, stack) = match is_first {
            true => (owner.facts.entry, owner.facts.stack),
            false => Default::default(),
        };
        let one =
            Thread { process: id, name, priority, affinity, entry, stack, ..Thread::default() };
        let head = Head { time: ticks(event.time), cpu: event.cpu, process: id, thread };
        if thread == 0 {
            // One of the idle threads, which all have this id.
            self.idle_cpus.push(event.cpu);
            return self.thread_record(head, Moment::Before, 0, &one, out);
        }
        owner.threads.push(thread);
        self.folders.share(thread, process);
        self.thread_record(head, Moment::Before, thread, &one, out);
        self.threads.insert(thread, one);
    }

    /// Adds the process of an event that nothing was known of: its beginning was lost.
    pub(super) fn ensure(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        thread: u32,
        out: &mut Records,
    ) {
        if thread != 0 {
            self.count_unseen(event, process, thread, out);
        }
        if !self.processes.contains_key(&process) {
            let facts = ProcessFacts { id: process, session: u32::MAX, ..ProcessFacts::default() };
            self.process_found(event, &facts, out);
        }
        if thread != 0 && !self.threads.contains_key(&thread) {
            let found = FoundThread { thread, name: &[], priority: NORMAL_PRIORITY, affinity: 0 };
            self.thread_found(event, process, &found, out);
        }
    }

    fn count_unseen(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        thread: u32,
        out: &mut Records,
    ) {
        if self.is_unseen(event, process, thread) {
            self.add_loss(event, out);
            self.unseen += 1;
        }
    }

    /// A thread ends whose beginning was lost. So are those of its process's other threads: the first one of them lives until its own end, and
    /// behind that there are no lives. Returns whether there is one.
    fn ensure_ending(
        &mut self,
        event: &NeutralEvent<'_>,
        (process, thread): (u32, u32),
        out: &mut Records,
    ) -> bool {
        if !self.processes.contains_key(&process) && thread != process {
            if self.ended_last.contains(&process) {
                self.count_unseen(event, process, thread, out);
                return false;
            }
            self.ensure(event, process, process, out);
        }
        self.ensure(event, process, thread, out);
        true
    }

    /// Whether a thread has begun since the recording began, and nobody saw it. One that has just ended is still seen now and then, and the
    /// thread that executes a program takes the id of its process.
    fn is_unseen(&self, event: &NeutralEvent<'_>, process: u32, thread: u32) -> bool {
        let takes_id = || {
            thread == process
                && self.processes.get(&process).is_some_and(|one| !one.threads.is_empty())
        };
        self.is_found
            && event.time > self.found_until
            && !self.threads.contains_key(&thread)
            && !self.ended_last.contains(&thread)
            && !takes_id()
    }

    /// A thread that nothing was known of is sampled or calls the kernel: its beginning was lost. One that is off its CPU by what is known has
    /// come back, and the switch was lost.
    pub(super) fn ensure_running(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        let NeutralEvent { process, thread, .. } = *event;
        if let Some(one) = self.threads.get_mut(&thread) {
            if one.out_since > 0 && self.last_loss >= one.out_since {
                one.out_since = 0;
            }
            return;
        }
        let is_nobody = process == 0 || [process, thread].iter().any(|id| id & FOREIGN != 0);
        if !is_nobody && !self.ended_last.contains(&thread) {
            self.ensure(event, process, thread, out);
        }
    }

    /// A thread that executes a program takes the id of the process before the exec is recorded, while the first thread may have ended:
    /// the id names a thread again. Returns whether it does.
    pub(super) fn revive(
        &mut self,
        event: &NeutralEvent<'_>,
        thread: u32,
        out: &mut Records,
    ) -> bool {
        let is_revived = !self.threads.contains_key(&thread)
            && self.processes.get(&thread).is_some_and(|one| !one.threads.is_empty())
            && !self.ending.iter().any(|one| one.is_told && one.thread == thread);
        if is_revived {
            self.restart_first_thread(event, thread, out);
        }
        is_revived
    }

    /// Another thread of a process executes a program while the first one has ended, and takes its id: a thread with that id begins. It is
    /// the other one, whose record ends with the exec.
    pub(super) fn restart_first_thread(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        out: &mut Records,
    ) {
        let Some(owner) = self.processes.get_mut(&process) else { return };
        let other = owner.threads.last().copied();
        self.folders.share(process, other.unwrap_or(process));
        let other = other.and_then(|other| self.threads.get(&other));
        let Some(Thread { name, priority, affinity, .. }) = other.cloned() else { return };
        let id = owner.id();
        owner.threads.push(process);
        let has_taken_id = true;
        let one =
            Thread { process: id, name, priority, affinity, has_taken_id, ..Thread::default() };
        let head = Head { time: ticks(event.time), cpu: event.cpu, process: id, thread: process };
        let head = self.apart(head, out);
        self.thread_record(head, Moment::Start, process, &one, out);
        self.threads.insert(process, one);
    }

    pub(super) fn forked(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        let Detail::Fork { process, parent_process, thread, parent_thread, soon } = event.detail
        else {
            return;
        };
        if self.threads.contains_key(&thread) {
            let ending = self.ending.iter().rposition(|one| one.thread == thread);
            let is_before = !self.is_found || event.time <= self.found_until;
            if is_before && ending.is_none() {
                // The rundown has it already.
                return;
            }
            // It has ended meanwhile; perhaps its end was lost.
            let owner = ending.and_then(|at| self.ending.remove(at));
            self.ended(event, owner.map_or(process, |one| one.process), thread, out);
        }
        self.ensure(event, parent_process, parent_thread, out);
        let creator = Head {
            time: ticks(event.time),
            cpu: event.cpu,
            process: self.process_of(parent_thread).unwrap_or(parent_process),
            thread: parent_thread,
        };
        let creator = self.apart(creator, out);
        if process != parent_process {
            self.end_lost_process(event, process, out);
            self.process_started(event, creator, soon, out);
            self.sockets.inherit(process, parent_process);
            self.calls.inherit(process, parent_process);
        }
        self.ensure_process_only(event, process, out);
        let is_process = process != parent_process;
        let [folder, descriptors] =
            [CLONE_FOLDER, CLONE_FILES].map(|flag| self.shares(parent_thread, flag, is_process));
        self.begin_in_folder(thread, parent_thread, folder);
        self.begin_descriptors((process, thread), (parent_process, parent_thread), descriptors);
        if let Some(parent) = self.threads.get_mut(&parent_thread) {
            parent.made = (thread, event.time);
        }
        let Some(owner) = self.processes.get_mut(&process) else { return };
        owner.threads.push(thread);
        let id = owner.id();
        let parent = self.threads.get(&parent_thread).cloned().unwrap_or_default();
        let name = soon.map_or(parent.name, |soon| soon.name.clone());
        let Thread { priority, affinity, .. } = parent;
        // The memory of a new process is its parent's, unless it executes a program soon.
        let first = self.threads.get(&parent_process);
        let first = first.filter(|_| process != parent_process && soon.is_none());
        let (entry, stack) = first.map_or(Default::default(), |first| (first.entry, first.stack));
        let one =
            Thread { process: id, name, priority, affinity, entry, stack, ..Thread::default() };
        let creator = self.apart(creator, out);
        self.thread_record(creator, Moment::Start, thread, &one, out);
        if self.has(Flag::THREAD) {
            self.add_stack(creator, THREAD_START, event.stack, out);
        }
        self.threads.insert(thread, one);
        if process != parent_process {
            self.inherit_images(process, parent_process);
            if soon.is_none() {
                self.tell_images(creator, process, out);
            }
        }
    }

    fn ensure_process_only(&mut self, event: &NeutralEvent<'_>, process: u32, out: &mut Records) {
        self.ensure(event, process, 0, out);
    }

    fn process_started(
        &mut self,
        event: &NeutralEvent<'_>,
        creator: Head,
        soon: Option<&ExecFacts>,
        out: &mut Records,
    ) {
        let Detail::Fork { process, parent_process, .. } = event.detail else { return };
        self.change_user(parent_process, event.time);
        let parent = self.processes.get(&parent_process).map(|parent| parent.facts.clone());
        let parent = parent.unwrap_or_default();
        let unit = parent.exec.unit.clone();
        let mut exec = soon.cloned().unwrap_or(parent.exec);
        exec.unit = exec.unit.or(unit);
        let facts = ProcessFacts {
            id: process,
            parent: if parent.is_kernel { SYSTEM } else { parent_process },
            start: event.time,
            user: exec.user.or(parent.user),
            session: parent.session,
            is_kernel: parent.is_kernel && soon.is_none(),
            exec,
            ..ProcessFacts::default()
        };
        let mut one = Process { facts, ..Process::default() };
        if !one.facts.is_kernel {
            // Without a program of its own it has the parent's name and command line. It may still execute one, and readers use the command
            // line of the end if there is none here.
            let inherited = match soon {
                None => std::mem::take(&mut one.facts.exec.arguments),
                Some(_) => Vec::new(),
            };
            self.process_record(creator, Moment::Start, &one, out);
            if soon.is_none() {
                one.facts.exec.arguments = inherited;
            }
            if self.has(Flag::PROCESS) {
                self.add_stack(creator, PROCESS_START, event.stack, out);
            }
        }
        self.processes.insert(process, one);
    }

    pub(super) fn executed(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        facts: &ExecFacts,
        out: &mut Records,
    ) {
        let has_others = self.processes.get(&process).is_some_and(|one| !one.threads.is_empty());
        if has_others && !self.threads.contains_key(&process) {
            self.restart_first_thread(event, process, out);
        }
        self.ensure(event, process, process, out);
        self.complete_id(event, process, out);
        self.change_user(process, event.time);
        // The first thread of a process may have ended before another one executes a program and takes its id.
        self.ending.retain(|one| one.process != process);
        self.keep_descriptors(event, process, out);
        self.forget_memory(process);
        self.shared_memory.leave(process);
        let head = self.head(event);
        self.exec_record(head, process, facts, out);
        let is_untold = self.forget_untold(process);
        self.image_changes += 1;
        let Some(one) = self.processes.get_mut(&process) else { return };
        one.images_version = self.image_changes;
        let images = std::mem::take(&mut one.images);
        // The thread that executes a program is the only one left, and has the process's id.
        let others: Vec<u32> = one.threads.iter().copied().filter(|id| *id != process).collect();
        let was_kernel = std::mem::take(&mut one.facts.is_kernel);
        let lacked_arguments = one.lacks_arguments();
        one.executed = Some(event.time);
        let unit = one.facts.exec.unit.take();
        one.facts.exec = facts.clone();
        // If the process has ended, its unit is that of the program before.
        one.facts.exec.unit = one.facts.exec.unit.take().or(unit);
        one.facts.user = facts.user.or(one.facts.user);
        let started = was_kernel.then(|| one.clone());
        self.without_arguments += u64::from(lacked_arguments);
        for image in images.values().filter(|_| !is_untold) {
            self.image_record(head, IMAGE_UNLOAD, process, image, out);
        }
        for thread in others {
            self.end_thread(event, process, thread, out);
        }
        if let Some(started) = started {
            // A helper that the kernel started has been one of its threads so far.
            self.process_record(head, Moment::Start, &started, out);
            let ended = self.threads.remove(&process).unwrap_or_default();
            self.thread_record(head, Moment::End, process, &ended, out);
            let one = Thread { process, ..ended };
            self.thread_record(head, Moment::Start, process, &one, out);
            self.threads.insert(process, one);
        }
        if let Some(thread) = self.threads.get_mut(&process) {
            thread.name = facts.name.clone();
            (thread.entry, thread.stack) = Default::default();
        }
    }

    /// The thread that executes a program has the id of the process now.
    fn complete_id(&mut self, event: &NeutralEvent<'_>, process: u32, out: &mut Records) {
        let Some(first) = self.threads.get_mut(&process) else { return };
        (first.said_end, first.has_taken_id) = (0, false);
        let runs = |one: &Thread| one.process == process && one.said_end == 0;
        let other = self.cpu(event.cpu).thread.filter(|other| *other != process);
        if let Some(other) = other.filter(|other| self.threads.get(other).is_some_and(runs)) {
            self.take_id(event, (other, process), out);
            self.folders.share(process, other);
            self.cpu(event.cpu).thread = Some(process);
        }
    }

    /// Adds the event of an exec, which no kernel class has.
    fn exec_record(&mut self, head: Head, process: u32, facts: &ExecFacts, out: &mut Records) {
        if !self.has(Flag::PROCESS) {
            return;
        }
        let mut rest = self.largest_event().saturating_sub(AROUND_COMMAND_LINE);
        // Without its path, the short name is known.
        let path = if facts.path.is_empty() { &facts.name } else { &facts.path };
        let path = &path[..path.len().min(rest)];
        rest -= path.len();
        let arguments = facts.arguments.strip_suffix(&[0]).unwrap_or(&facts.arguments);
        let arguments = arguments.split(|byte| *byte == 0).filter(|_| !facts.arguments.is_empty());
        let mut texts = Payload::new();
        let mut count = 0;
        for argument in arguments {
            let Some(left) = rest.checked_sub(argument.len() + 2) else {
                self.cut_command_lines += 1;
                break;
            };
            rest = left;
            count += 1;
            // Short enough: an event has less than 64 KiB.
            texts = texts.u16(argument.len() as u16).bytes(argument);
        }
        let payload = Payload::new().u32(process).counted(path).u16(count).bytes(&texts.0);
        out.event(head, ProviderEvent::Exec, &payload);
    }

    pub(super) fn renamed(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        thread: u32,
        name: &[u8],
        out: &mut Records,
    ) {
        self.ensure(event, process, thread, out);
        let head = self.head(event);
        let Some(one) = self.threads.get_mut(&thread) else { return };
        if one.name == name {
            return;
        }
        one.name = name.to_vec();
        let id = one.process;
        if self.has(Flag::THREAD) {
            let payload = Payload::new().u32(id).u32(thread).wide(name);
            out.perf_info(head, 0x0548, 2, &payload);
        }
    }

    pub(super) fn exited(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        thread: u32,
        out: &mut Records,
    ) {
        if !self.ensure_ending(event, (process, thread), out) {
            return;
        }
        if let Some(one) = self.threads.get_mut(&thread) {
            one.said_end = event.time;
        }
        // Its last switch is its end, if the trace sees that.
        let is_told =
            self.is_of_threads || !self.has(Flag::SWITCH) || self.lacks_switch_to(event, thread);
        let (said, since, cpu) = (event.time, event.time, event.cpu);
        self.ending.push_back(EndingThread { said, since, cpu, process, thread, is_told });
        if self.is_of_threads && self.cpu(event.cpu).thread == Some(thread) {
            return self.switched_out(event, ThreadState::Dead, out);
        }
        if is_told {
            return self.ended(event, process, thread, out);
        }
        self.forget_own_descriptors(event, (process, thread), out);
        let is_ending = |one: &&EndingThread| one.process == process && !one.is_told;
        let count = self.ending.iter().filter(is_ending).count();
        if self.processes.get(&process).is_some_and(|one| one.threads.len() <= count) {
            self.forget_descriptors(event, (process, thread), out);
        }
    }

    /// A thread has run for the last time.
    pub(super) fn ended(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        thread: u32,
        out: &mut Records,
    ) {
        if !self.threads.contains_key(&thread) {
            return;
        }
        let said = self.threads.get(&thread).map_or(0, |one| one.said_end);
        let stack = self.end_thread(event, process, thread, out);
        if self.processes.get(&process).is_some_and(|one| one.threads.is_empty()) {
            let event = NeutralEvent { stack: stack.get(), ..*event };
            self.end_process(&event, process, (thread, said), out);
        }
    }

    /// A thread has ended, and nobody saw it: it ends here, unless its last word is known.
    pub(super) fn vanished(&mut self, event: &NeutralEvent<'_>, thread: u32, out: &mut Records) {
        let mut all = self.processes.values();
        let owner = all.find(|one| one.threads.contains(&thread)).map(|one| one.facts.id);
        let Some(owner) = owner.filter(|_| self.ending.iter().all(|one| one.thread != thread))
        else {
            return;
        };
        self.add_loss(event, out);
        self.ended(event, owner, thread, out);
        match self.processes.contains_key(&owner) {
            true => self.vanished.threads += 1,
            false => self.vanished.processes += 1,
        }
    }

    /// The id of a process is used again: its end was lost.
    fn end_lost_process(&mut self, event: &NeutralEvent<'_>, process: u32, out: &mut Records) {
        let Some(one) = self.processes.get(&process) else { return };
        for thread in one.threads.clone() {
            self.end_thread(event, process, thread, out);
        }
        let event = NeutralEvent { stack: Stack::default(), ..*event };
        self.end_process(&event, process, (process, 0), out);
    }

    /// The stack of the event is that with which the last thread ended. `said`: when it said its end; 0: not known.
    fn end_process(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        (thread, said): (u32, u64),
        out: &mut Records,
    ) {
        let is_untold = self.forget_untold(process);
        self.change_user(process, event.time);
        let Some(one) = self.processes.remove(&process) else { return };
        self.without_arguments += u64::from(one.lacks_arguments());
        self.forget_descriptors(event, (process, thread), out);
        self.forget_memory(process);
        self.shared_memory.leave(process);
        self.folders.end(process);
        self.sockets_of_process_end(event, process, out);
        let head = Head { process: one.id(), thread, ..self.head(event) };
        for image in one.images.values().filter(|_| !is_untold) {
            let head = self.apart(head, out);
            self.image_record(head, IMAGE_UNLOAD, process, image, out);
            if self.has(Flag::IMAGE) {
                self.add_stack(head, IMAGE_UNLOAD, event.stack, out);
            }
        }
        let exit_status = self.exit_status(process, (thread, said), event.time);
        if !one.facts.is_kernel {
            let head = self.apart(head, out);
            self.process_record(head, Moment::End, &Process { exit_status, ..one }, out);
            if self.has(Flag::PROCESS) {
                self.add_stack(head, PROCESS_END, event.stack, out);
            }
        }
    }

    /// The exit status of a process that ends; 0 where nothing has said it.
    fn exit_status(&mut self, process: u32, (thread, said): (u32, u64), end: u64) -> u32 {
        let said = if self.status_source == StatusSource::Program { 0 } else { said };
        let status = self.exit_statuses.take(process, (thread, said), end);
        let is_lost = status.is_none() && self.status_source != StatusSource::Nowhere;
        self.without_status += u64::from(is_lost);
        status.unwrap_or(0)
    }

    /// Whether a thread says its end, which may be that of its process, before its exit status has come. With switches, the end is later.
    pub fn lacks_exit_status(&self, process: u32, thread: u32, said: u64) -> bool {
        self.status_source == StatusSource::Connector
            && (self.is_of_threads || !self.has(Flag::SWITCH))
            && self.processes.contains_key(&process)
            && !self.exit_statuses.has(process, thread, said)
    }

    /// Returns the stack with which the thread ended.
    fn end_thread(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        thread: u32,
        out: &mut Records,
    ) -> SavedStack {
        // It may have ended in a call or a page fault.
        self.forget_call(thread);
        self.folders.end(thread);
        self.forget_own_descriptors(event, (process, thread), out);
        self.faults.remove(&thread);
        let Some(ended) = self.threads.remove(&thread) else { return SavedStack::default() };
        if self.ended_last.len() >= REMEMBERED_ENDS {
            self.ended_last.pop_front();
        }
        self.ended_last.push_back(thread);
        if let Some(owner) = self.processes.get_mut(&process) {
            owner.threads.retain(|id| *id != thread);
        }
        let head = Head { time: ticks(event.time), cpu: event.cpu, process: ended.process, thread };
        let head = self.apart(head, out);
        self.thread_record(head, Moment::End, thread, &ended, out);
        if self.has(Flag::THREAD) {
            self.add_stack(head, THREAD_END, ended.saved_stack.get(), out);
        }
        ended.saved_stack
    }

    /// Bytes of the largest event that the session stores.
    fn largest_event(&self) -> usize {
        match self.options.largest_event as usize {
            0 => LARGEST_EVENT,
            largest => largest.min(LARGEST_EVENT),
        }
    }

    pub(super) fn process_record(
        &mut self,
        head: Head,
        moment: Moment,
        process: &Process,
        out: &mut Records,
    ) {
        if !self.has(Flag::PROCESS) {
            return;
        }
        let facts = &process.facts;
        let id = process.id();
        // In a container, a program may have the id of the kernel's process.
        let is_system = facts.is_kernel || id == 0;
        let key = KEY | (facts.start / KEY_TICK) << 22 & !KEY | u64::from(id);
        let has_ended = matches!(moment, Moment::End | Moment::Defunct);
        let status = if has_ended { process.exit_status } else { STILL_ACTIVE };
        let mut payload = Payload::new()
            .u64(key)
            .u32(id)
            .u32(if is_system { 0 } else { facts.parent })
            .u32(facts.session)
            .u32(status)
            .u64(0)
            .u32(if facts.is_kernel { 4 } else { 0 });
        payload = match facts.user.filter(|_| !is_system) {
            // No SID.
            None => payload.u32(0),
            // TOKEN_USER, then the SID.
            Some(user) => payload
                .u64(KEY | 1)
                .u64(0)
                .bytes(&[1, 2, 0, 0, 0, 0, 0, UNIX_USER_AUTHORITY])
                .u32(1)
                .u32(user),
        };
        let command_line = command_line(&facts.exec.arguments);
        let units = self.largest_event().saturating_sub(AROUND_COMMAND_LINE) / 2;
        // A unit has at least a byte.
        let is_cut = command_line.len() > units
            && String::from_utf8_lossy(&command_line).encode_utf16().count() > units;
        self.cut_command_lines += u64::from(is_cut);
        let name = image_name(facts, id);
        let payload = payload.ansi(&name[..name.len().min(LONGEST_NAME)]);
        let unit = facts.exec.unit.as_deref().unwrap_or_default();
        let unit = &unit[..unit.len().min(LONGEST_NAME)];
        let payload = payload.wide_up_to(&command_line, units).wide(unit).wide(&[]);
        out.system(head, 0x0300 | moment as u16, 4, &payload);
    }

    pub(super) fn thread_record(
        &mut self,
        head: Head,
        moment: Moment,
        id: u32,
        thread: &Thread,
        out: &mut Records,
    ) {
        if !self.has(Flag::THREAD) {
            return;
        }
        let affinity = if id == 0 { 1 << (head.cpu & 63) } else { thread.affinity };
        let StackBounds { base, limit } = thread.stack;
        let payload = Payload::new()
            .u32(thread.process)
            .u32(id)
            .u64s(&[0, 0, base, limit, affinity, thread.entry, 0])
            .u32(0)
            .bytes(&[thread.priority, 5, 2, 0])
            .wide(&thread.name);
        out.system(head, 0x0500 | moment as u16, 3, &payload);
    }
}

/// The process of the kernel's threads. The threads' own ids are those of Linux, one of which may be its id, too.
pub(super) fn system_process() -> Process {
    let facts = ProcessFacts { is_kernel: true, session: u32::MAX, ..ProcessFacts::default() };
    Process { facts, ..Process::default() }
}

/// The last part of a path.
pub(super) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

pub(super) fn image_name(facts: &ProcessFacts, id: u32) -> &[u8] {
    match (id, file_name(&facts.exec.path)) {
        (0, _) => b"Idle",
        (SYSTEM, _) if facts.is_kernel => b"System",
        (_, []) => &facts.exec.name,
        (_, name) => name,
    }
}

/// Arguments as one line; those that would be read as several are quoted.
fn command_line(arguments: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    if arguments.is_empty() {
        return line;
    }
    let arguments = arguments.strip_suffix(&[0]).unwrap_or(arguments);
    for (index, argument) in arguments.split(|byte| *byte == 0).enumerate() {
        if index > 0 {
            line.push(b' ');
        }
        let is_plain = !argument.is_empty()
            && !argument.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'"');
        if is_plain {
            line.extend(argument);
            continue;
        }
        line.push(b'"');
        let mut backslashes = 0;
        for byte in argument {
            if *byte == b'"' {
                // Backslashes before a quotation mark are doubled, and it has one of its own.
                line.extend(std::iter::repeat_n(b'\\', backslashes + 1));
            }
            backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
            line.push(*byte);
        }
        line.extend(std::iter::repeat_n(b'\\', backslashes));
        line.push(b'"');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_split_again() {
        for (arguments, line) in [
            ("ls\0-l\0", "ls -l"),
            ("sh\0-c\0echo \"a b\"\0", r#"sh -c "echo \"a b\"""#),
            ("x\0\0end\\ here\\\0", r#"x "" "end\ here\\""#),
            ("\0", "\"\""),
            ("a\nb\0", "\"a\nb\""),
            ("", ""),
        ] {
            assert_eq!(command_line(arguments.as_bytes()), line.as_bytes());
        }
    }
}
