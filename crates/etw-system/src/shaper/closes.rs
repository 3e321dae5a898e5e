//! Descriptors that change, and the ends of open files.

use super::Shaper;
use super::descriptors::{Closed, Descriptor, OpenFile, Owner};
use super::files::{APPEND_FLAG, CLEANUP, CLOSE, CLOSE_ON_EXEC, is_error};
use crate::flags::Flag;
use crate::neutral::NeutralEvent;
use crate::record::{Payload, Records};
use crate::system_calls::{FileOperation, SystemCall};

/// `F_DUPFD`, `F_SETFD` and `F_DUPFD_CLOEXEC`
const DUPLICATE: u64 = 0;
const SET_FLAGS: u64 = 2;
/// `F_SETFL`, which changes whether writes append.
const SET_STATUS: u64 = 4;
const DUPLICATE_CLOSED: u64 = 1030;
/// `FIONCLEX` and `FIOCLEX`, requests of `ioctl` to every descriptor
const KEEPS_ON_EXEC: u32 = 0x5450;
const CLOSES_ON_EXEC: u32 = 0x5451;
/// `CLONE_FILES`, also a flag of `unshare`
pub(super) const CLONE_FILES: u64 = 0x400;
/// `CLOSE_RANGE_UNSHARE` and `CLOSE_RANGE_CLOEXEC`
const RANGE_OF_OWN: u64 = 2;
const RANGE_ON_EXEC: u64 = 4;

impl Shaper {
    /// A call closes a descriptor. Returns its file, if this was the last one.
    pub(super) fn file_closed(&mut self, owner: Owner, descriptor: i32) -> Option<OpenFile> {
        // From now on, the number may be that of another file; Linux takes it back even if it reports an error. That of no file is no
        // file later, either, so that not each connection is looked up.
        self.file_of(owner, Some(descriptor))?;
        self.files.descriptors.remove(owner, descriptor).pop()
    }

    /// The last descriptors of files were closed without a call that closes them.
    pub(super) fn files_closed(
        &mut self,
        event: &NeutralEvent<'_>,
        closed: Closed,
        out: &mut Records,
    ) {
        if !self.has(Flag::FILE_IO_INIT) {
            return;
        }
        for file in closed {
            self.tell_name(event, file.key, out);
            let head = self.head_with_stack(event, out);
            let id = self.files.operation_id();
            let payload = Payload::new().u64(id).u64(file.object).u64(file.key).u32(head.thread);
            out.perf_info(head, CLEANUP, 3, &payload);
            out.perf_info(head, CLOSE, 3, &payload);
            self.add_stack(head, CLOSE, event.stack, out);
        }
    }

    /// A process executes a program, which closes some of its files.
    pub(super) fn keep_descriptors(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        out: &mut Records,
    ) {
        let threads = self.processes.get(&process).map(|one| one.threads.clone());
        for thread in threads.unwrap_or_default() {
            // The others of the process have ended.
            let closed = self.files.descriptors.take_over(process, thread);
            self.files_closed(event, closed, out);
        }
        let closed = self.files.descriptors.executed(Owner::Process(process));
        self.files_closed(event, closed, out);
    }

    /// The last thread of a process ends: the kernel has closed its files.
    pub(super) fn forget_descriptors(
        &mut self,
        event: &NeutralEvent<'_>,
        (process, thread): (u32, u32),
        out: &mut Records,
    ) {
        let closed = self.files.descriptors.end(Owner::Process(process));
        self.files_closed(&NeutralEvent { process, thread, ..*event }, closed, out);
    }

    /// A thread ends: the kernel has closed the files that it had alone.
    pub(super) fn forget_own_descriptors(
        &mut self,
        event: &NeutralEvent<'_>,
        (process, thread): (u32, u32),
        out: &mut Records,
    ) {
        let closed = self.files.descriptors.end(Owner::Thread(thread));
        self.files_closed(&NeutralEvent { process, thread, ..*event }, closed, out);
    }

    /// A thread, or a process that has no other ones, has its descriptors alone from now on.
    fn unshare_descriptors(&mut self, process: u32, thread: u32) {
        let of_process = self.processes.get(&process);
        match of_process.is_some_and(|one| one.threads.len() > 1) {
            true => self.files.descriptors.detach(process, thread),
            false => self.files.descriptors.unshare(Owner::Process(process)),
        }
    }

    /// A thread begins with the descriptors of the one that made it, together with it or as a copy.
    pub(super) fn begin_descriptors(
        &mut self,
        (process, thread): (u32, u32),
        parent: (u32, u32),
        is_shared: bool,
    ) {
        let is_process = process != parent.0;
        let of_parent = self.files.descriptors.owner(parent.0, parent.1);
        let is_own = is_process || !is_shared || of_parent == Owner::Thread(parent.1);
        if is_own {
            let owner = if is_process { Owner::Process(process) } else { Owner::Thread(thread) };
            self.files.descriptors.inherit(owner, of_parent, is_shared);
        }
    }

    /// A descriptor is that of the same open file as another one. If that one is not known, both are looked up.
    fn duplicate(
        &mut self,
        event: &NeutralEvent<'_>,
        (from, to): (i32, i32),
        closes_on_exec: bool,
        out: &mut Records,
    ) {
        if from == to {
            return;
        }
        let owner = self.owner_of_files(event);
        let file = self.files.descriptors.get(owner, from).map(|one| one.file.clone());
        let closed = match file {
            Some(file) => {
                let one = Descriptor { file, closes_on_exec: Some(closes_on_exec) };
                self.files.descriptors.set(owner, to, one)
            }
            None => self.files.descriptors.remove(owner, to),
        };
        self.files_closed(event, closed, out);
    }

    /// A call that changes descriptors has returned.
    pub(super) fn descriptors_changed(
        &mut self,
        event: &NeutralEvent<'_>,
        kind: SystemCall,
        arguments: &[u64; 6],
        result: i64,
        out: &mut Records,
    ) {
        if is_error(result) {
            return;
        }
        let owner = self.owner_of_files(event);
        let (descriptor, to) = (arguments[0] as i32, result as i32);
        match (kind, arguments[1]) {
            (SystemCall::Seek, _) => {
                if let Some(file) = self.file_of(owner, Some(descriptor)) {
                    file.set_position(result as u64);
                }
            }
            (SystemCall::Duplicate, _) | (SystemCall::ControlDescriptor, DUPLICATE) => {
                self.duplicate(event, (descriptor, to), false, out);
            }
            (SystemCall::ControlDescriptor, DUPLICATE_CLOSED) => {
                self.duplicate(event, (descriptor, to), true, out);
            }
            (SystemCall::ControlDescriptor, SET_FLAGS) => {
                let closes = arguments[2] & 1 != 0;
                self.files.descriptors.mark(owner, descriptor..=descriptor, closes);
            }
            (SystemCall::File(FileOperation::Control, _), request)
                if [KEEPS_ON_EXEC, CLOSES_ON_EXEC].contains(&(request as u32)) =>
            {
                let closes = request as u32 == CLOSES_ON_EXEC;
                self.files.descriptors.mark(owner, descriptor..=descriptor, closes);
            }
            (SystemCall::ControlDescriptor, SET_STATUS) => {
                if let Some(file) = self.file_of(owner, Some(descriptor)) {
                    file.set_appends(Some(arguments[2] & APPEND_FLAG != 0));
                }
            }
            // Whatever `dup2` has in place of the flags of `dup3` is no flag.
            (SystemCall::Replace, _) => {
                let is_closed = arguments[2] == CLOSE_ON_EXEC;
                self.duplicate(event, (descriptor, to), is_closed, out);
            }
            (SystemCall::Unshare, _) if arguments[0] & CLONE_FILES != 0 => {
                self.unshare_descriptors(event.process, event.thread);
            }
            (SystemCall::CloseRange, last) => {
                let number = |value: u64| i32::try_from(value as u32).unwrap_or(i32::MAX);
                let range = number(arguments[0])..=number(last);
                if arguments[2] & RANGE_OF_OWN != 0 {
                    self.unshare_descriptors(event.process, event.thread);
                }
                let owner = self.owner_of_files(event);
                if arguments[2] & RANGE_ON_EXEC != 0 {
                    return self.files.descriptors.mark(owner, range, true);
                }
                let closed = self.files.descriptors.remove_all(owner, range);
                self.files_closed(event, closed, out);
            }
            _ => {}
        }
    }
}
