//! Operations on files: FileIo events, and the names of files.

use std::collections::HashMap;

use super::names::Names;
use super::paths::joined;
use super::{KEY, Shaper};
use crate::flags::Flag;
use crate::neutral::{CalledFile, FileFacts, FileId, NeutralEvent};
use crate::record::{Head, Payload, Records};
use crate::system_calls::{FileArguments, FileOperation, PathArgument, SystemCall};

const NAME: u16 = 0x0400;
const RUNDOWN: u16 = 0x0424;
const CREATE: u16 = 0x0440;
const CLEANUP: u16 = 0x0441;
const CLOSE: u16 = 0x0442;
const OPERATION_END: u16 = 0x044c;
/// Processes that are remembered; only damage makes more.
const LIMIT: usize = 1 << 16;
/// Keys of files that no call has opened: no device has this number.
const UNOPENED: u64 = KEY | 0xffff << 32;
/// Descriptors of a process that are remembered. Those of a process with more are looked up again.
const MAX_DESCRIPTORS: usize = 1 << 12;
/// The offset of an operation at the position of its descriptor, if that is not known.
const CURRENT_POSITION: u64 = u64::MAX - 1;
/// `O_CREAT`, `O_EXCL` and `O_TRUNC`.
const CREATE_FLAG: u64 = 0o100;
const EXCLUSIVE_FLAG: u64 = 0o200;
const TRUNCATE_FLAG: u64 = 0o1000;
/// FILE_CREATE, the disposition of a call that fails if the file exists.
const NEW_FILE: u32 = 2;

/// Descriptors, files and their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// By process and descriptor; `None`: it is that of no file.
    descriptors: HashMap<u32, HashMap<i32, Option<OpenFile>>>,
    names: Names,
    /// A file that no call has opened has a key of its own.
    next_key: u64,
    next_object: u64,
    next_operation: u64,
}

#[cfg(test)]
impl Files {
    pub fn remembered(&self) -> [(&'static str, usize); 1] {
        [("descriptors", self.descriptors.len())]
    }
}

/// A file that a process has open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    object: u64,
    pub key: u64,
    /// Where the next operation without an offset begins.
    position: Option<u64>,
}

/// An operation that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    kind: FileOperation,
    arguments: FileArguments,
    id: u64,
    /// The file that it opens.
    opened: Option<OpenFile>,
    /// The absolute paths that it names; empty: not known.
    paths: [Vec<u8>; 2],
}

/// The identity of a file in records.
pub(super) fn file_key(file: FileId) -> u64 {
    let device = u64::from(file.device >> 20 << 8 ^ file.device & 0xf_ffff) & 0xffff;
    KEY | (device << 32 ^ file.inode) & !KEY
}

/// Windows' disposition of an open call.
fn disposition(flags: u64) -> u32 {
    let has = |flag| flags & flag != 0;
    match has(CREATE_FLAG) {
        true if has(EXCLUSIVE_FLAG) => NEW_FILE,
        true if has(TRUNCATE_FLAG) => 5,
        true => 3,
        false if has(TRUNCATE_FLAG) => 4,
        false => 1,
    }
}

/// A system call that uses a file.
#[derive(Clone, Copy)]
pub(super) struct FileCall {
    pub kind: FileOperation,
    /// The meaning of its arguments.
    pub arguments: FileArguments,
}

impl Shaper {
    /// Whether a session records anything that names files.
    fn has_files(&self) -> bool {
        let flags = [Flag::FILE_NAME, Flag::FILE_IO, Flag::FILE_IO_INIT, Flag::MAP_FILE];
        flags.iter().any(|flag| self.has(*flag))
    }

    /// The descriptors of a call whose files have to be found, with
    /// [`DescriptorFound`](crate::neutral::Detail::DescriptorFound), before the call is given. `file`: the file that the call names.
    pub fn unknown_files(
        &self,
        process: u32,
        call: SystemCall,
        arguments: &[u64; 6],
        file: &Option<CalledFile>,
    ) -> Vec<i32> {
        let of_process = self.files.descriptors.get(&process);
        let is_unknown = |one: &i32| of_process.is_none_or(|all| !all.contains_key(one));
        let own = call.descriptor(arguments).filter(|descriptor| *descriptor >= 0);
        let needs_folders = file.as_ref().is_some_and(CalledFile::is_relative);
        let folders = call.folders(arguments).filter(|_| needs_folders);
        let unknown = own.into_iter().chain(folders).filter(is_unknown);
        if self.has_files() { unknown.collect() } else { Vec::new() }
    }

    pub(super) fn descriptor_found(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        descriptor: i32,
        file: Option<&FileFacts>,
        out: &mut Records,
    ) {
        let open = file.map(|file| self.open_file(event, (file.id, &file.path), None, out));
        self.set_descriptor(process, descriptor, open);
    }

    fn set_descriptor(&mut self, process: u32, descriptor: i32, open: Option<OpenFile>) {
        if self.files.descriptors.len() >= LIMIT {
            self.files.descriptors.clear();
        }
        let of_process = self.files.descriptors.entry(process).or_default();
        if of_process.len() >= MAX_DESCRIPTORS {
            of_process.clear();
        }
        of_process.insert(descriptor, open);
    }

    fn open_file(
        &mut self,
        event: &NeutralEvent<'_>,
        (id, path): (FileId, &[u8]),
        position: Option<u64>,
        out: &mut Records,
    ) -> OpenFile {
        let key = file_key(id);
        self.name_file(event, key, path, out);
        self.files.next_object += 1;
        OpenFile { object: KEY | self.files.next_object, key, position }
    }

    /// A file that was opened and is closed before the host could look at it.
    fn unnamed_file(&mut self) -> OpenFile {
        self.files.next_object += 1;
        OpenFile { object: KEY | self.files.next_object, key: 0, position: Some(0) }
    }

    /// Adds the name of a file that has none. It keeps the first one if others lead to it, too.
    fn name_file(&mut self, event: &NeutralEvent<'_>, key: u64, path: &[u8], out: &mut Records) {
        if !self.has_files() || self.files.names.is_used(key) {
            return;
        }
        // A file that was made again may have the number of the one before.
        let has_record = self.files.names.path(key) == Some(path);
        self.files.names.add(key, path);
        if has_record {
            return;
        }
        out.perf_info(self.head(event), NAME, 2, &Payload::new().u64(key).wide(path));
    }

    /// The file of a path that a call names without opening it.
    fn named_file(&mut self, event: &NeutralEvent<'_>, path: &[u8], out: &mut Records) -> OpenFile {
        let key = self.files.names.key(path).unwrap_or_else(|| {
            self.files.next_key += 1;
            UNOPENED | self.files.next_key
        });
        self.name_file(event, key, path, out);
        OpenFile { object: 0, key, position: None }
    }

    /// The absolute path that an argument of a call names; relative, if the folder where it begins is not known.
    fn named_path(
        &mut self,
        process: u32,
        argument: PathArgument,
        values: &[u64; 6],
        path: &[u8],
    ) -> Vec<u8> {
        let descriptor = argument.folder.map(|at| values[at] as i32).filter(|one| *one >= 0);
        if let Some(folder) = self.file_of(process, descriptor) {
            self.files.names.is_used(folder.key);
        }
        let folder = match descriptor {
            Some(_) => self.file_of(process, descriptor).and_then(|one| self.name_of(one)),
            None if path.is_empty() => None,
            None => self.folder_of(process),
        };
        joined(folder.unwrap_or_default(), path)
    }

    fn name_of(&self, file: OpenFile) -> Option<&[u8]> {
        self.files.names.path(file.key)
    }

    /// The folder to which a call changes, if it is known.
    pub(super) fn next_folder(
        &self,
        process: u32,
        call: SystemCall,
        values: &[u64; 6],
        file: Option<&CalledFile>,
    ) -> Option<Vec<u8>> {
        match call {
            SystemCall::ChangeFolder => {
                let path = file.map(|file| &file.paths[0]).filter(|path| !path.is_empty())?;
                Some(joined(self.folder_of(process).unwrap_or_default(), path))
            }
            SystemCall::ChangeFolderTo => {
                let folder = self.file_of(process, call.descriptor(values))?;
                self.name_of(folder).map(<[u8]>::to_vec)
            }
            _ => None,
        }
    }

    /// Adds the names of the files that were used last.
    pub(super) fn run_files_down(&mut self, head: Head, out: &mut Records) {
        for (key, path) in self.files.names.take() {
            out.perf_info(head, RUNDOWN, 2, &Payload::new().u64(key).wide(&path));
        }
    }

    /// The process executes a program or has ended: its descriptors are looked up again.
    pub(super) fn forget_descriptors(&mut self, process: u32) {
        self.files.descriptors.remove(&process);
    }

    /// The file of a descriptor.
    pub(super) fn file_of(&self, process: u32, descriptor: Option<i32>) -> Option<OpenFile> {
        self.files.descriptors.get(&process)?.get(&descriptor?).copied().flatten()
    }

    /// An operation begins. `None`: it is not about a file.
    pub(super) fn operation_begun(
        &mut self,
        event: &NeutralEvent<'_>,
        FileCall { kind, arguments }: FileCall,
        values: &[u64; 6],
        names: Option<&CalledFile>,
        out: &mut Records,
    ) -> Option<Operation> {
        if !self.has_files() {
            return None;
        }
        let mut paths = [const { Vec::new() }; 2];
        if let Some(names) = names {
            for ((path, argument), name) in paths.iter_mut().zip(arguments.paths).zip(&names.paths)
            {
                if let Some(argument) = argument {
                    *path = self.named_path(event.process, argument, values, name);
                }
            }
        }
        let descriptor = arguments.descriptor.map(|at| values[at] as i32);
        let is_open = kind == FileOperation::Open;
        let file = match (descriptor, &paths[0][..]) {
            (Some(_), _) => Some(self.file_of(event.process, descriptor)?),
            (None, path) if is_open => {
                let id = names.and_then(|names| names.id).filter(|_| !path.is_empty());
                let flags = arguments.flags.map_or(0, |at| values[at]);
                if let Some(id) = id.filter(|_| disposition(flags) == NEW_FILE) {
                    self.files.names.replace(file_key(id), path);
                }
                Some(match id {
                    Some(id) => self.open_file(event, (id, path), Some(0), out),
                    None => self.unnamed_file(),
                })
            }
            (None, []) => None,
            (None, path) => Some(self.named_file(event, path, out)),
        };
        self.files.next_operation += 1;
        let id = KEY | 1 << 47 | self.files.next_operation;
        let opened = file.filter(|_| is_open);
        let operation = Operation { kind, arguments, id, opened, paths };
        if self.has(Flag::FILE_IO_INIT) {
            self.operation_records(event, &operation, file, values, out);
        }
        Some(operation)
    }

    fn operation_records(
        &mut self,
        event: &NeutralEvent<'_>,
        operation: &Operation,
        file: Option<OpenFile>,
        values: &[u64; 6],
        out: &mut Records,
    ) {
        let value = |at: Option<usize>| at.map(|at| values[at]);
        let &Operation { kind, arguments, id, paths: [ref path, ref new_path], .. } = operation;
        let (object, key) = file.map_or((0, 0), |file| (file.object, file.key));
        let head = self.head_with_stack(event, out);
        let thread = head.thread;
        let size = value(arguments.size).map_or(0, |size| size.min(u64::from(u32::MAX)) as u32);
        let about =
            |class: u32| Payload::new().u64(id).u64(object).u64(key).u64(0).u32(thread).u32(class);
        let (hook, payload) = match kind {
            FileOperation::Open => {
                let options = disposition(value(arguments.flags).unwrap_or(0)) << 24;
                let payload = Payload::new().u64(id).u64(object).u32(thread).u32(options);
                // Attributes are not known; everybody may share it.
                (CREATE, payload.u32(0).u32(7).wide(path))
            }
            FileOperation::Close | FileOperation::Flush => {
                let payload = Payload::new().u64(id).u64(object).u64(key).u32(thread);
                if kind == FileOperation::Close {
                    out.perf_info(head, CLEANUP, 3, &payload);
                }
                (if kind == FileOperation::Close { CLOSE } else { 0x0449 }, payload)
            }
            FileOperation::Read | FileOperation::Write => {
                let position = file.and_then(|file| file.position);
                let offset = value(arguments.offset).or(position).unwrap_or(CURRENT_POSITION);
                let payload = Payload::new().u64(offset).u64(id).u64(object).u64(key);
                let payload = payload.u32(thread).u32(size).u32(0).u32(0);
                (if kind == FileOperation::Read { 0x0443 } else { 0x0444 }, payload)
            }
            FileOperation::List => {
                let payload = Payload::new().u64(id).u64(object).u64(key).u32(thread);
                (0x0448, payload.u32(size).u32(0).u32(0).wide(&[]))
            }
            FileOperation::Set | FileOperation::Link => (0x0445, about(0)),
            FileOperation::Delete => (0x0446, about(0)),
            FileOperation::Rename => (0x0447, about(0)),
            FileOperation::Query => (0x044a, about(0)),
            FileOperation::Control => {
                let request = values[1] as u32;
                (0x044b, about(request))
            }
        };
        out.perf_info(head, hook, 3, &payload);
        self.add_stack(head, hook, event.stack, out);
        // Windows has the path in an event of its own, with the same request. Where it lies among the others is a guess.
        let (hook, path) = match kind {
            FileOperation::Delete => (0x044f, path),
            FileOperation::Rename => (0x0450, new_path),
            FileOperation::Link => (0x0451, new_path),
            _ => return,
        };
        if !path.is_empty() {
            out.perf_info(head, hook, 3, &about(0).wide(path));
        }
    }

    /// An operation has ended.
    pub(super) fn operation_ended(
        &mut self,
        event: &NeutralEvent<'_>,
        descriptor: i32,
        operation: Operation,
        result: i64,
        out: &mut Records,
    ) {
        if self.has(Flag::FILE_IO) {
            let status = if is_error(result) { result as u32 } else { 0 };
            let payload = Payload::new().u64(operation.id).u64(result as u64).u32(status);
            out.perf_info(self.head(event), OPERATION_END, 3, &payload);
        }
        match operation.kind {
            // Linux closes it even if it reports an error.
            FileOperation::Close => {
                self.remove_descriptor(event.process, descriptor);
            }
            _ if is_error(result) => {}
            FileOperation::Open => {
                self.set_descriptor(event.process, result as i32, operation.opened);
            }
            FileOperation::Delete => {
                self.files.names.remove(&operation.paths[0]);
            }
            FileOperation::Rename => {
                let [old, new] = &operation.paths;
                self.files.names.remove(new);
                let key = self.files.names.remove(old);
                if let Some(key) = key.filter(|_| !new.is_empty()) {
                    self.name_file(event, key, new, out);
                }
            }
            FileOperation::Read | FileOperation::Write if operation.arguments.offset.is_none() => {
                if let Some(OpenFile { position: Some(position), .. }) =
                    self.file_mut(event.process, descriptor)
                {
                    *position = position.saturating_add(result as u64);
                }
            }
            _ => {}
        }
    }

    fn remove_descriptor(&mut self, process: u32, descriptor: i32) {
        if let Some(of_process) = self.files.descriptors.get_mut(&process) {
            of_process.remove(&descriptor);
        }
    }

    fn file_mut(&mut self, process: u32, descriptor: i32) -> Option<&mut OpenFile> {
        self.files.descriptors.get_mut(&process)?.get_mut(&descriptor)?.as_mut()
    }

    /// A call that changes descriptors has returned.
    pub(super) fn descriptors_changed(
        &mut self,
        process: u32,
        kind: SystemCall,
        descriptor: i32,
        result: i64,
    ) {
        if is_error(result) {
            return;
        }
        match kind {
            SystemCall::Seek => {
                if let Some(file) = self.file_mut(process, descriptor) {
                    file.position = Some(result as u64);
                }
            }
            SystemCall::Replace => self.remove_descriptor(process, result as i32),
            _ => self.forget_descriptors(process),
        }
    }
}

/// Whether a result of a call is an error number.
pub(super) fn is_error(result: i64) -> bool {
    (-4095..0).contains(&result)
}
