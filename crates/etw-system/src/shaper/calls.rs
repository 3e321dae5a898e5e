//! System calls and what they do to memory: SysClEnter, SysClExit, VirtualAlloc, VirtualFree, MapFile, UnmapFile.

use std::collections::HashMap;

use super::files::{FileCall, Operation, is_error};
use super::{KEY, Shaper};
use crate::flags::Flag;
use crate::neutral::{CalledFile, NeutralEvent};
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
/// Files in the memory of a process that are remembered.
const MAX_MAPPINGS: usize = 1 << 14;
/// Bytes by which mappings grow and shrink.
const PAGE: u64 = 4096;
/// MAP_ANONYMOUS
const ANONYMOUS: u64 = 0x20;
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
    /// Files in memory, by process and address.
    mappings: HashMap<u32, HashMap<u64, FileMapping>>,
}

#[cfg(test)]
impl Calls {
    pub fn remembered(&self) -> [(&'static str, usize); 3] {
        let Calls { running, breaks, mappings } = self;
        [("calls", running.len()), ("breaks", breaks.len()), ("mappings", mappings.len())]
    }
}

/// A system call that has not returned.
#[derive(Clone, Debug)]
struct Call {
    number: u64,
    arguments: [u64; 6],
    operations: [Option<Operation>; 2],
    /// The folder to which it changes.
    folder: Option<Vec<u8>>,
}

/// A file in memory.
#[derive(Clone, Copy, Debug)]
struct FileMapping {
    key: u64,
    size: u64,
}

/// Memory that a process received or gave back.
#[derive(Clone, Copy, Debug)]
struct MemoryChange {
    hook: u16,
    base: u64,
    size: u64,
    flags: u32,
}

impl Shaper {
    pub(super) fn call_entered(
        &mut self,
        event: &NeutralEvent<'_>,
        number: u64,
        arguments: [u64; 6],
        file: Option<&CalledFile>,
        out: &mut Records,
    ) {
        self.ensure_running(event, out);
        if let Some(kind) = SystemCall::of_number(number) {
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
            let folder = self.next_folder(event.process, kind, &arguments, file);
            let call = Call { number, arguments, operations, folder };
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
        let call = self.calls.running.remove(&event.thread).filter(|call| call.number == number);
        if let (Some(mut call), Some(kind)) = (call, SystemCall::of_number(number)) {
            for operation in std::mem::take(&mut call.operations).into_iter().flatten() {
                self.operation_ended(event, operation, result, out);
            }
            if kind == SystemCall::Map {
                self.drop_map_stack(event.thread);
            }
            match kind {
                SystemCall::ChangeFolder | SystemCall::ChangeFolderTo => {
                    if !is_error(result) {
                        self.set_folder(event.process, call.folder);
                    }
                }
                _ if kind.is_memory() => self.memory_called(event, (kind, &call), result, out),
                _ => self.descriptors_changed(event.process, kind, &call.arguments, result),
            }
        }
        if self.has(Flag::SYSCALL) {
            let head = self.head_with_stack(event, out);
            out.perf_info(head, SYSCALL_EXIT, 2, &Payload::new().u32(result as u32));
            self.add_stack(head, SYSCALL_EXIT, event.stack, out);
        }
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
        let [base, size, advice, flags, ..] = call.arguments;
        let change = |hook, base, size, flags| Some(MemoryChange { hook, base, size, flags });
        let change = match kind {
            SystemCall::Map if flags & ANONYMOUS != 0 => {
                change(VIRTUAL_ALLOC, result as u64, size, COMMIT_AND_RESERVE)
            }
            SystemCall::Map => {
                self.file_mapped(event, call, result as u64, out);
                None
            }
            SystemCall::Unmap if self.file_unmapped(event, base, out) => None,
            SystemCall::Unmap => change(VIRTUAL_FREE, base, size, RELEASE),
            SystemCall::Break => self.break_moved(event.process, result as u64),
            SystemCall::Advise if GIVES_BACK.contains(&advice) => {
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
        let [base, old, new, ..] = call.arguments;
        let file = self.calls.mappings.get(&event.process).and_then(|all| all.get(&base)).copied();
        if let Some(file) = file {
            if old > 0 {
                self.file_unmapped(event, base, out);
            }
            let moved = FileMapping { size: new, ..file };
            return self.keep_mapping(event, (to, moved), out);
        }
        let change = |hook, base, size, flags| MemoryChange { hook, base, size, flags };
        let pages = |size: u64| size.saturating_add(PAGE - 1) & !(PAGE - 1);
        let (freed, made) = match to == base {
            true => {
                let (old, new) = (pages(old), pages(new));
                let freed = (base.saturating_add(new), old.saturating_sub(new));
                (freed, (base.saturating_add(old), new.saturating_sub(old)))
            }
            false => ((base, old), (to, new)),
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
        let Some(file) = self.file_of(event.process, descriptor) else { return };
        if self.calls.mappings.len() >= LIMIT {
            self.calls.mappings.clear();
        }
        let mapping = FileMapping { key: file.key, size: call.arguments[1] };
        self.keep_mapping(event, (base, mapping), out);
    }

    fn keep_mapping(
        &mut self,
        event: &NeutralEvent<'_>,
        (base, mapping): (u64, FileMapping),
        out: &mut Records,
    ) {
        let of_process = self.calls.mappings.entry(event.process).or_default();
        if of_process.len() >= MAX_MAPPINGS {
            of_process.clear();
        }
        of_process.insert(base, mapping);
        self.mapping_record(event, MAP_FILE, (base, mapping), out);
    }

    /// Whether a file was mapped at an address, whose record is added.
    fn file_unmapped(&mut self, event: &NeutralEvent<'_>, base: u64, out: &mut Records) -> bool {
        let of_process = self.calls.mappings.get_mut(&event.process);
        let Some(mapping) = of_process.and_then(|all| all.remove(&base)) else { return false };
        self.mapping_record(event, UNMAP_FILE, (base, mapping), out);
        true
    }

    fn mapping_record(
        &mut self,
        event: &NeutralEvent<'_>,
        hook: u16,
        (base, mapping): (u64, FileMapping),
        out: &mut Records,
    ) {
        if !self.has(Flag::MAP_FILE) {
            return;
        }
        let head = self.head_with_stack(event, out);
        let FileMapping { key, size } = mapping;
        let payload = Payload::new().u64(base).u64(key).u64(0).u64(size).u32(head.process);
        out.perf_info(head, hook, 2, &payload);
        self.add_stack(head, hook, event.stack, out);
    }

    /// The thread has ended: the call that it is in does not return.
    pub(super) fn forget_call(&mut self, thread: u32) {
        self.calls.running.remove(&thread);
    }

    /// The process executes a program or has ended: its memory is another one.
    pub(super) fn forget_memory(&mut self, process: u32) {
        self.calls.breaks.remove(&process);
        self.calls.mappings.remove(&process);
    }
}
