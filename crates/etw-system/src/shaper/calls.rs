//! System calls and what they do to memory: SysClEnter, SysClExit, VirtualAlloc, VirtualFree, MapFile, UnmapFile.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::descriptors::Move;
use super::files::{FileCall, Operation, is_error};
use super::views::{View, Views};
use super::{KEY, Shaper};
use crate::flags::Flag;
use crate::neutral::{CalledFile, FileFacts, NeutralEvent, is_call_of_32_bits};
use crate::record::{Payload, Records};
use crate::system_calls::SystemCall;

const SYSCALL_ENTER: u16 = 0x0f33;
const SYSCALL_EXIT: u16 = 0x0f34;
const VIRTUAL_ALLOC: u16 = 0x0262;
const VIRTUAL_FREE: u16 = 0x0263;
const MAP_FILE: u16 = 0x0425;
const UNMAP_FILE: u16 = 0x0426;
/// Calls and processes that are remembered; only damage makes more.
const LIMIT: usize = 1 << 16;
/// Bytes by which mappings grow and shrink.
const PAGE: u64 = 4096;
/// PROT_EXEC
const EXECUTABLE: u64 = 4;
/// MAP_ANONYMOUS
const ANONYMOUS: u64 = 0x20;
/// MREMAP_DONTUNMAP
const DONT_UNMAP: u64 = 4;
/// MADV_DONTNEED and MADV_FREE
const GIVES_BACK: [u64; 2] = [4, 8];
/// MEM_COMMIT and MEM_RESERVE
const COMMIT_AND_RESERVE: u32 = 0x3000;
/// MEM_DECOMMIT
const DECOMMIT: u32 = 0x4000;
/// MEM_RELEASE
const RELEASE: u32 = 0x8000;

/// Calls that have not returned, and what earlier ones did to memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    /// By thread.
    running: HashMap<u32, Call>,
    /// The end of each process's data segment.
    breaks: HashMap<u32, u64>,
    /// Files in memory, by process. A new process has those of its parent until one of them changes its own.
    views: HashMap<u32, Arc<Views>>,
    /// Processes of programs with 32 bits, whose calls have other numbers.
    narrow: HashSet<u32>,
    /// Their calls.
    of_narrow: u64,
    /// Operations that programs handed to the kernel in their memory.
    submitted: u64,
}

#[cfg(test)]
impl Calls {
    pub fn remembered(&self) -> [(&'static str, usize); 4] {
        let Calls { running, breaks, views, narrow, .. } = self;
        let narrow = ("processes of 32 bits", narrow.len());
        [("calls", running.len()), ("breaks", breaks.len()), ("views", views.len()), narrow]
    }
}

/// A system call that has not returned.
#[derive(Clone, Debug)]
struct Call {
    number: u64,
    arguments: [u64; 6],
    operations: [Option<Operation>; 2],
    /// It seeks.
    seek: Option<Move>,
    /// The folder to which it changes.
    folder: Option<Vec<u8>>,
}

/// Memory that a process received or gave back.
#[derive(Clone, Copy, Debug)]
struct MemoryChange {
    hook: u16,
    base: u64,
    size: u64,
    flags: u32,
}

/// A size in whole pages.
fn pages(size: u64) -> u64 {
    size.saturating_add(PAGE - 1) & !(PAGE - 1)
}

impl Calls {
    fn is_narrow(&self, process: u32) -> bool {
        !self.narrow.is_empty() && self.narrow.contains(&process)
    }

    /// The program of a process has 32 bits.
    pub fn add_narrow(&mut self, process: u32) {
        if self.narrow.len() < LIMIT {
            self.narrow.insert(process);
        }
    }

    fn views_mut(&mut self, process: u32) -> &mut Views {
        if self.views.len() >= LIMIT {
            self.views.clear();
        }
        Arc::make_mut(self.views.entry(process).or_default())
    }

    /// A new process runs the program of its parent, in a copy of its memory.
    pub fn inherit(&mut self, process: u32, parent: u32) {
        if let Some(views) = self.views.get(&parent).filter(|_| self.views.len() < LIMIT) {
            self.views.insert(process, views.clone());
        }
        if self.is_narrow(parent) {
            self.add_narrow(process);
        }
    }
}

impl Shaper {
    /// The number of calls of programs with 32 bits, which are not recorded.
    pub fn calls_of_32_bits(&self) -> u64 {
        self.calls.of_narrow
    }

    /// The number of operations that programs handed to the kernel in their memory, which are not recorded.
    pub fn submitted_operations(&self) -> u64 {
        self.calls.submitted
    }

    pub(super) fn call_entered(
        &mut self,
        event: &NeutralEvent<'_>,
        number: u64,
        arguments: [u64; 6],
        file: Option<&CalledFile>,
        out: &mut Records,
    ) {
        self.ensure_running(event, out);
        if self.calls.is_narrow(event.process) || is_call_of_32_bits(number) {
            self.calls.of_narrow += 1;
            return;
        }
        if let Some(kind) = SystemCall::of_number(number).filter(|_| self.files.gaps == 0) {
            let mut operations = [const { None }; 2];
            for (operation, (kind, meaning)) in operations.iter_mut().zip(kind.file_operations()) {
                let call = FileCall { kind, arguments: meaning };
                *operation = self.operation_begun(event, call, &arguments, file, out);
            }
            if kind == SystemCall::Map {
                self.keep_map_stack(event);
            }
            if self.calls.running.len() >= LIMIT {
                self.calls.running.clear();
            }
            let folder = self.next_folder(event, kind, &arguments, file);
            let seek = self.seek_begun(event, kind, &arguments);
            let call = Call { number, arguments, operations, seek, folder };
            self.calls.running.insert(event.thread, call);
        }
        if self.has(Flag::SYSCALL) {
            let routine = self.machine.system_calls.get(number as usize).copied().unwrap_or(0);
            let head = self.head_with_stack(event, out);
            // A call without a known routine is shown by its number.
            let address = if routine == 0 { KEY | number } else { routine };
            out.perf_info(head, SYSCALL_ENTER, 2, &Payload::new().u64(address));
            self.add_stack(head, SYSCALL_ENTER, event.stack, out);
        }
    }

    pub(super) fn call_left(
        &mut self,
        event: &NeutralEvent<'_>,
        number: u64,
        result: i64,
        out: &mut Records,
    ) {
        if self.calls.is_narrow(event.process) || is_call_of_32_bits(number) {
            return;
        }
        let call = self.calls.running.remove(&event.thread).filter(|call| call.number == number);
        if let (Some(mut call), Some(kind)) = (call, SystemCall::of_number(number)) {
            for operation in std::mem::take(&mut call.operations).into_iter().flatten() {
                self.operation_ended(event, operation, result, out);
            }
            match call.seek.take() {
                Some(seek) if is_error(result) => seek.advance(0),
                Some(seek) => seek.end_at(result as u64),
                None => {}
            }
            if kind == SystemCall::Map {
                self.drop_map_stack(event.thread);
            }
            if kind.is_about_folders() && !is_error(result) {
                let folder = call.folder.take();
                self.folder_changed(event.thread, kind, &call.arguments, folder);
            }
            match kind {
                SystemCall::Submit => {
                    self.calls.submitted += u64::try_from(result).unwrap_or(0);
                }
                _ if kind.is_memory() => self.memory_called(event, (kind, &call), result, out),
                _ => self.descriptors_changed(event, kind, &call.arguments, result, out),
            }
        }
        if self.has(Flag::SYSCALL) {
            let head = self.head_with_stack(event, out);
            out.perf_info(head, SYSCALL_EXIT, 2, &Payload::new().u32(result as u32));
            self.add_stack(head, SYSCALL_EXIT, event.stack, out);
        }
    }

    fn seek_begun(
        &self,
        event: &NeutralEvent<'_>,
        kind: SystemCall,
        arguments: &[u64; 6],
    ) -> Option<Move> {
        if kind != SystemCall::Seek {
            return None;
        }
        let descriptor = Some(arguments[0] as i32);
        Some(self.file_of(self.owner_of_files(event), descriptor)?.begin_move())
    }

    /// Records of calls may be missing from now on: a call's return may be that of the next one, and a descriptor's file may be another.
    pub(super) fn gap_begins(&mut self) {
        self.files.gaps += 1;
        self.calls.running.clear();
        self.files.descriptors.doubt();
    }

    fn memory_called(
        &mut self,
        event: &NeutralEvent<'_>,
        (kind, call): (SystemCall, &Call),
        result: i64,
        out: &mut Records,
    ) {
        if is_error(result) {
            return;
        }
        let [base, size, third, flags, ..] = call.arguments;
        let size = pages(size);
        let change = |hook, base, size, flags| Some(MemoryChange { hook, base, size, flags });
        let change = match kind {
            SystemCall::Map => {
                let to = result as u64;
                // A call can say that its memory takes the place of other memory. New code has a record of its own.
                self.views_ended(event, to..to.saturating_add(size), out);
                if third & EXECUTABLE == 0 {
                    self.code_unmapped(event, to..to.saturating_add(size), out);
                }
                if flags & ANONYMOUS == 0 {
                    self.file_mapped(event, call, to, out);
                    return;
                }
                change(VIRTUAL_ALLOC, to, size, COMMIT_AND_RESERVE)
            }
            SystemCall::Unmap => {
                self.code_unmapped(event, base..base.saturating_add(size), out);
                self.memory_unmapped(event, base..base.saturating_add(size), out);
                None
            }
            SystemCall::Break => self.break_moved(event.process, pages(result as u64)),
            SystemCall::Advise if GIVES_BACK.contains(&third) => {
                change(VIRTUAL_FREE, base, size, DECOMMIT)
            }
            SystemCall::Remap => {
                self.memory_moved(event, call, result as u64, out);
                None
            }
            _ => None,
        };
        if let Some(change) = change {
            self.memory_record(event, change, out);
        }
    }

    /// Memory is given back: that of files, and the process's own between them.
    fn memory_unmapped(&mut self, event: &NeutralEvent<'_>, range: Range<u64>, out: &mut Records) {
        let mut at = range.start;
        let freed = |base, end: u64| {
            let size = end.saturating_sub(base);
            MemoryChange { hook: VIRTUAL_FREE, base, size, flags: RELEASE }
        };
        for (base, view) in self.take_views(event.process, range.clone()) {
            self.memory_record(event, freed(at, base), out);
            self.view_record(event, UNMAP_FILE, (base, view), out);
            at = base.saturating_add(view.size);
        }
        self.memory_record(event, freed(at, range.end), out);
    }

    fn memory_record(&mut self, event: &NeutralEvent<'_>, change: MemoryChange, out: &mut Records) {
        let MemoryChange { hook, base, size, flags } = change;
        if size == 0 || !self.has(Flag::VIRTUAL_ALLOC) {
            return;
        }
        let head = self.head_with_stack(event, out);
        let payload = Payload::new().u64(base).u64(size).u32(head.process).u32(flags);
        out.perf_info(head, hook, 2, &payload);
        self.add_stack(head, hook, event.stack, out);
    }

    /// A mapping has another address or size.
    fn memory_moved(&mut self, event: &NeutralEvent<'_>, call: &Call, to: u64, out: &mut Records) {
        let [base, old, new, flags, ..] = call.arguments;
        let (old, new) = (pages(old), pages(new));
        // It stays where it was, without its contents.
        let stays = flags & DONT_UNMAP != 0;
        let gone = match to == base {
            true => [base.saturating_add(new)..base.saturating_add(old), 0..0],
            false if stays => [0..0, to..to.saturating_add(new)],
            false => [base..base.saturating_add(old), to..to.saturating_add(new)],
        };
        gone.into_iter().for_each(|range| self.code_unmapped(event, range, out));
        let view = self.calls.views.get(&event.process).and_then(|all| all.at(base));
        if view.is_some() && !stays {
            // If it had no size, its file is in memory twice now.
            self.views_ended(event, base..base.saturating_add(old), out);
        }
        if to != base {
            self.views_ended(event, to..to.saturating_add(new), out);
        }
        if let Some(view) = view {
            return self.keep_view(event, (to, View { size: new, ..view }), out);
        }
        let change = |hook, base, size, flags| MemoryChange { hook, base, size, flags };
        let (freed, made) = match to == base {
            true => {
                let freed = (base.saturating_add(new), old.saturating_sub(new));
                (freed, (base.saturating_add(old), new.saturating_sub(old)))
            }
            false => ((base, if stays { 0 } else { old }), (to, new)),
        };
        self.memory_record(event, change(VIRTUAL_FREE, freed.0, freed.1, RELEASE), out);
        self.memory_record(event, change(VIRTUAL_ALLOC, made.0, made.1, COMMIT_AND_RESERVE), out);
    }

    /// The end of a process's data segment is at an address now.
    fn break_moved(&mut self, process: u32, to: u64) -> Option<MemoryChange> {
        if self.calls.breaks.len() >= LIMIT {
            self.calls.breaks.clear();
        }
        let from = self.calls.breaks.insert(process, to)?;
        match from < to {
            true => Some(MemoryChange {
                hook: VIRTUAL_ALLOC,
                base: from,
                size: to - from,
                flags: COMMIT_AND_RESERVE,
            }),
            false if to < from => Some(MemoryChange {
                hook: VIRTUAL_FREE,
                base: to,
                size: from - to,
                flags: DECOMMIT,
            }),
            false => None,
        }
    }

    fn file_mapped(&mut self, event: &NeutralEvent<'_>, call: &Call, base: u64, out: &mut Records) {
        let descriptor = SystemCall::Map.descriptors(&call.arguments).next();
        let Some(file) = self.file_of(self.owner_of_files(event), descriptor) else { return };
        let view = View { key: file.key, size: pages(call.arguments[1]) };
        self.keep_view(event, (base, view), out);
    }

    /// Whether the files that processes have in memory already have to be found.
    pub fn has_views(&self) -> bool {
        self.has(Flag::MAP_FILE)
    }

    pub(super) fn view_found(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        (base, size): (u64, u64),
        file: &FileFacts,
        out: &mut Records,
    ) {
        let key = self.files.names.key_of(file.id, &file.path);
        self.name_file(event, key, &file.path, out);
        self.files.names.identify(key, file.id);
        self.calls.views_mut(process).add(base, View { key, size });
    }

    fn keep_view(&mut self, event: &NeutralEvent<'_>, place: (u64, View), out: &mut Records) {
        self.calls.views_mut(event.process).add(place.0, place.1);
        self.view_record(event, MAP_FILE, place, out);
    }

    /// The key of the file that a process has in memory at an address.
    pub(super) fn file_at(&self, process: u32, address: u64) -> Option<u64> {
        Some(self.calls.views.get(&process)?.at(address)?.key)
    }

    fn take_views(&mut self, process: u32, range: Range<u64>) -> Vec<(u64, View)> {
        let has_some = self.calls.views.get(&process).is_some_and(|views| views.has_in(&range));
        if has_some { self.calls.views_mut(process).take(range) } else { Vec::new() }
    }

    /// The files in a range of memory, if there are any, are there no more.
    fn views_ended(&mut self, event: &NeutralEvent<'_>, range: Range<u64>, out: &mut Records) {
        for place in self.take_views(event.process, range) {
            self.view_record(event, UNMAP_FILE, place, out);
        }
    }

    fn view_record(
        &mut self,
        event: &NeutralEvent<'_>,
        hook: u16,
        (base, View { key, size }): (u64, View),
        out: &mut Records,
    ) {
        if !self.has(Flag::MAP_FILE) {
            return;
        }
        self.tell_name(event, key, out);
        let head = self.head_with_stack(event, out);
        let payload = Payload::new().u64(base).u64(key).u64(0).u64(size).u32(head.process);
        out.perf_info(head, hook, 2, &payload);
        self.add_stack(head, hook, event.stack, out);
    }

    /// Whether the thread that a thread makes now has something together with it; `flag`: the flag of `clone` that says so. Those of other
    /// calls are not in their arguments: as programs use them, threads have all together, and processes (`is_process`) nothing.
    pub(super) fn shares(&self, parent_thread: u32, flag: u64, is_process: bool) -> bool {
        let call = self.calls.running.get(&parent_thread);
        let is_clone = |number| SystemCall::of_number(number) == Some(SystemCall::Clone);
        call.filter(|call| is_clone(call.number))
            .map_or(!is_process, |call| call.arguments[0] & flag != 0)
    }

    /// The thread has ended: the call that it is in does not return.
    pub(super) fn forget_call(&mut self, thread: u32) {
        self.calls.running.remove(&thread);
    }

    /// The process executes a program or has ended: its memory is another one.
    pub(super) fn forget_memory(&mut self, process: u32) {
        self.calls.breaks.remove(&process);
        self.calls.views.remove(&process);
        self.calls.narrow.remove(&process);
    }
}
