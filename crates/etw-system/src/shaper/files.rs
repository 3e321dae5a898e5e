//! Operations on files: FileIo events, and the names of files.

use super::descriptors::{CURRENT_POSITION, Descriptor, Move, OpenFile, Owner, Tables};
use super::names::{Names, is_nameless, is_opened};
use super::paths::{descriptor_of_path, joined};
use super::{KEY, Numbers, Shaper};
use crate::flags::Flag;
use crate::neutral::{CalledFile, FileFacts, FileId, NeutralEvent};
use crate::record::{Payload, Records};
use crate::system_calls::{FOLDER, FileArguments, FileOperation, Offset, SystemCall};

const CREATE: u16 = 0x0440;
pub(super) const CLEANUP: u16 = 0x0441;
pub(super) const CLOSE: u16 = 0x0442;
const OPERATION_END: u16 = 0x044c;
/// Windows' offset of a write to the end of the file, `FILE_WRITE_TO_END_OF_FILE`.
const END_OF_FILE: u64 = u64::MAX;
/// `O_CREAT`, `O_EXCL` and `O_TRUNC`.
const CREATE_FLAG: u64 = 0o100;
const EXCLUSIVE_FLAG: u64 = 0o200;
const TRUNCATE_FLAG: u64 = 0o1000;
/// `O_APPEND`: every write is one to the end of the file.
pub(super) const APPEND_FLAG: u64 = 0o2000;
/// `RWF_APPEND` and `RWF_NOAPPEND`: whether one write appends.
const APPENDS_ONCE: u64 = 0x10;
const APPENDS_NOT: u64 = 0x20;
/// `O_TMPFILE`: the path is that of a folder.
const NAMELESS_FLAGS: u64 = 0o20_200_000;
/// `O_CLOEXEC`, also a flag of `dup3`
pub(super) const CLOSE_ON_EXEC: u64 = 0o2_000_000;
/// `RENAME_EXCHANGE`
const EXCHANGE_FLAG: u64 = 2;
/// FILE_CREATE, the disposition of a call that fails if the file exists.
const NEW_FILE: u32 = 2;
/// FILE_SHARE_READ, _WRITE and _DELETE
const SHARED: u32 = 7;

/// Descriptors, files and their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    pub descriptors: Tables,
    pub names: Names,
    /// A file that no call has opened has a key of its own.
    pub keys: Numbers,
    /// Gaps that have begun and not ended: what calls do in them is not known for certain.
    pub gaps: u32,
    pub objects: Numbers,
    pub operations: Numbers,
}

impl Files {
    /// The number of another open file.
    fn object(&mut self) -> u64 {
        KEY | self.objects.next()
    }

    /// The id of another operation.
    pub fn operation_id(&mut self) -> u64 {
        KEY | 1 << 47 | self.operations.next()
    }

    #[cfg(test)]
    pub fn remembered(&self) -> [(&'static str, usize); 2] {
        self.descriptors.remembered()
    }
}

/// An operation that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    kind: FileOperation,
    arguments: FileArguments,
    /// It begins at the position of its descriptor.
    position: Option<Move>,
    id: u64,
    /// The file that it opens or uses.
    file: Option<OpenFile>,
    /// The absolute paths that it names; empty: not known.
    paths: [Vec<u8>; 2],
    /// `None`: not known.
    flags: Option<u64>,
    /// Bytes of the buffers that it lists.
    buffer_bytes: Option<u64>,
    /// The files of both paths at the beginning of a call that takes these names from them.
    taken: [Option<u64>; 2],
    /// The name of the file that it opens, if that is known only at the end.
    late_name: Option<LateName>,
}

/// The name of an opened file of which the trace knows another one, or whose name another file has: the call may have waited until that one was deleted
/// or renamed. No call uses the new file before it is open.
#[derive(Clone, Debug)]
struct LateName {
    id: FileId,
    path: Vec<u8>,
    /// The call made the file: any other name was that of an earlier one.
    is_new: bool,
}

impl Operation {
    fn has(&self, flag: u64) -> bool {
        self.flags.is_some_and(|flags| flags & flag != 0)
    }

    /// Whether it writes to the end of the file, wherever that is; `None`: not known.
    fn appends(&self, file: Option<&OpenFile>) -> Option<bool> {
        match self.kind {
            FileOperation::Write if self.has(APPENDS_ONCE) => Some(true),
            FileOperation::Write if !self.has(APPENDS_NOT) => {
                file.map_or(Some(false), OpenFile::appends)
            }
            _ => Some(false),
        }
    }
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
    pub(super) fn has_files(&self) -> bool {
        let flags = [Flag::FILE_NAME, Flag::FILE_IO, Flag::FILE_IO_INIT, Flag::MAP_FILE];
        flags.iter().any(|flag| self.has(*flag))
    }

    /// The descriptors of a call whose files have to be found, with
    /// [`DescriptorFound`](crate::neutral::Detail::DescriptorFound), before the call is given. `file`: the file that the call names.
    pub fn unknown_files(
        &self,
        (process, thread): (u32, u32),
        call: SystemCall,
        arguments: &[u64; 6],
        file: &Option<CalledFile>,
    ) -> Vec<i32> {
        let owner = self.files.descriptors.owner(process, thread);
        let is_unknown = |one: &i32| self.files.descriptors.get(owner, *one).is_none();
        if !self.has_files() || self.files.gaps > 0 {
            return Vec::new();
        }
        let own = call.descriptors(arguments);
        let needs_folders = file.as_ref().is_some_and(CalledFile::is_relative);
        let folders = call.folders(arguments).filter(|_| needs_folders);
        let links = call.file_operations().any(|(kind, _)| kind == FileOperation::Link);
        let linked = file.as_ref().filter(|_| links);
        let linked = linked.and_then(|file| descriptor_of_path(process, &file.paths[0]));
        own.chain(folders).chain(linked).filter(is_unknown).collect()
    }

    pub(super) fn descriptor_found(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        descriptor: i32,
        file: Option<&FileFacts>,
        out: &mut Records,
    ) {
        let owner = self.files.descriptors.owner(process, event.thread);
        let Files { descriptors: tables, names, .. } = &mut self.files;
        let file = file.map(|file| (names.key_of(file.id, &file.path), file));
        let known = file.and_then(|(key, _)| tables.known_before(owner, descriptor, key));
        let file = match (known, file) {
            (None, Some((key, file))) => {
                Some(self.open_file(event, key, (file.id, &file.path), None, out))
            }
            (known, _) => known,
        };
        let found = Descriptor { file, closes_on_exec: None };
        let closed = self.files.descriptors.set(owner, descriptor, found);
        self.files_closed(event, closed, out);
    }

    fn open_file(
        &mut self,
        event: &NeutralEvent<'_>,
        key: u64,
        (id, path): (FileId, &[u8]),
        position: Option<u64>,
        out: &mut Records,
    ) -> OpenFile {
        self.name_opened(event, key, (id, path), out);
        OpenFile::new(self.files.object(), key, position)
    }

    fn name_opened(
        &mut self,
        event: &NeutralEvent<'_>,
        key: u64,
        (id, path): (FileId, &[u8]),
        out: &mut Records,
    ) {
        if self.files.names.path(key).is_some_and(|known| is_nameless(id.inode, known)) {
            self.files.names.replace(key, path);
        }
        self.name_file(event, key, path, out);
        self.files.names.identify(key, id);
    }

    /// A call opens a file.
    fn file_opened(
        &mut self,
        event: &NeutralEvent<'_>,
        (id, path): (FileId, &[u8]),
        (flags, is_made): (u64, bool),
        out: &mut Records,
    ) -> (OpenFile, Option<LateName>) {
        let mut name = path.to_vec();
        let is_nameless_now = flags & NAMELESS_FLAGS == NAMELESS_FLAGS;
        if is_nameless_now && !is_nameless(id.inode, path) {
            // As `/proc` names it.
            name = joined(path, format!("#{}", id.inode).as_bytes());
        }
        let key = self.files.names.key_of(id, &name);
        if descriptor_of_path(event.process, path).is_some()
            && let Some(known) = self.files.names.path(key)
        {
            name = known.to_vec();
        }
        let names = &self.files.names;
        // A file that has just been made has no other name: the file with that one was deleted unseen.
        let has_other =
            names.path(key).is_some_and(|known| known != name) && (is_made || names.has_name(key));
        let is_of_other = names.key(&name).is_some_and(|one| one != key && is_opened(one));
        if has_other || is_of_other {
            let is_new = is_made || is_nameless_now || disposition(flags) == NEW_FILE;
            let late = LateName { id, path: name, is_new };
            return (OpenFile::new(self.files.object(), key, Some(0)), Some(late));
        }
        (self.open_file(event, key, (id, &name), Some(0), out), None)
    }

    /// The call that opened a file has ended.
    fn name_late(
        &mut self,
        event: &NeutralEvent<'_>,
        key: u64,
        name: &LateName,
        out: &mut Records,
    ) {
        if name.is_new || !self.files.names.has_safe_name(key) {
            self.files.names.replace(key, &name.path);
        }
        self.name_opened(event, key, (name.id, &name.path), out);
    }

    /// A file that was opened and is closed before the host could look at it.
    fn unnamed_file(&mut self) -> OpenFile {
        OpenFile::new(self.files.object(), 0, Some(0))
    }

    /// The file of a descriptor.
    pub(super) fn file_of(&self, owner: Owner, descriptor: Option<i32>) -> Option<OpenFile> {
        self.files.descriptors.get(owner, descriptor?)?.file.clone()
    }

    /// The owner of the descriptors of the thread that ran.
    pub(super) fn owner_of_files(&self, event: &NeutralEvent<'_>) -> Owner {
        self.files.descriptors.owner(event.process, event.thread)
    }

    /// The id under which `/proc` has the descriptors of a thread: its own, if it has them alone.
    pub fn id_of_descriptors(&self, process: u32, thread: u32) -> u32 {
        match self.files.descriptors.owner(process, thread) {
            Owner::Process(id) | Owner::Thread(id) => id,
        }
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
        let owner = self.owner_of_files(event);
        let mut paths = [const { Vec::new() }; 2];
        if let Some(names) = names {
            for ((path, argument), name) in paths.iter_mut().zip(arguments.paths).zip(&names.paths)
            {
                if let Some(argument) = argument {
                    *path = self.named_path(event, argument, values, name);
                }
            }
        }
        if kind == FileOperation::Link
            && let Some(descriptor) = descriptor_of_path(event.process, &paths[0])
            && let Some(file) = self.file_of(owner, Some(descriptor))
        {
            paths[0] = self.name_of(&file).unwrap_or_default().to_vec();
        }
        // With an empty path, `newfstatat` and its kin are about the descriptor of the folder itself.
        let of_folder = || {
            let is_about = matches!(kind, FileOperation::Query | FileOperation::Set);
            let at = arguments.paths[0]?.folder.filter(|_| is_about)?;
            let is_empty = names.is_some_and(|names| names.paths[0].is_empty());
            Some(values[at] as i32).filter(|number| is_empty && *number >= 0)
        };
        let descriptor = arguments.descriptor.map(|at| values[at] as i32).or_else(of_folder);
        let is_open = kind == FileOperation::Open;
        let flags = match (arguments.flags, arguments.flags_address) {
            (Some(at), _) => Some(values[at]),
            (None, Some(_)) => names.and_then(|names| names.flags),
            (None, None) => Some(arguments.implied_flags),
        };
        let mut late_name = None;
        let file = match (descriptor, &paths[0][..]) {
            (Some(number), _) if kind == FileOperation::Close => {
                Some(self.file_closed(owner, number)?)
            }
            (Some(_), _) => Some(self.file_of(owner, descriptor)?),
            (None, path) if is_open => {
                let id = names.and_then(|names| names.id).filter(|_| !path.is_empty());
                let how = (flags.unwrap_or(0), names.is_some_and(|names| names.is_made));
                let opened = id.map(|id| self.file_opened(event, (id, path), how, out));
                let (file, late) = opened.unwrap_or_else(|| (self.unnamed_file(), None));
                late_name = late;
                Some(file)
            }
            (None, []) => None,
            (None, path) if kind == FileOperation::Make => {
                let mut file = self.named_file(event, path, out);
                file.object = self.files.object();
                Some(file)
            }
            (None, path) => Some(self.named_file(event, path, out)),
        };
        if let Some(file) = &file {
            self.tell_name(event, file.key, out);
        }
        let taken = match kind {
            FileOperation::Delete | FileOperation::Rename => {
                paths.each_ref().map(|path| self.files.names.begin_taking(path))
            }
            _ => [None; 2],
        };
        let id = self.files.operation_id();
        let moves = matches!(kind, FileOperation::Read | FileOperation::Write)
            && arguments.offset_of(values) == Offset::Position;
        let position = file.as_ref().filter(|_| moves).map(OpenFile::begin_move);
        let operation = Operation {
            kind,
            arguments,
            position,
            id,
            file,
            paths,
            flags,
            buffer_bytes: names.and_then(|names| names.buffer_bytes),
            taken,
            late_name,
        };
        if self.has(Flag::FILE_IO_INIT) {
            self.operation_records(event, &operation, values, out);
        }
        Some(operation)
    }

    fn operation_records(
        &mut self,
        event: &NeutralEvent<'_>,
        operation: &Operation,
        values: &[u64; 6],
        out: &mut Records,
    ) {
        let value = |at: Option<usize>| at.map(|at| values[at]);
        let &Operation { kind, arguments, id, ref file, paths: [ref path, ref new_path], .. } =
            operation;
        let (object, key) = file.as_ref().map_or((0, 0), |file| (file.object, file.key));
        let head = self.head_with_stack(event, out);
        let thread = head.thread;
        // Programs ask for as much as there is: then the size is that of what was copied.
        let size = operation.buffer_bytes.or(value(arguments.size));
        let size = size.map_or(0, |size| size.min(u64::from(u32::MAX)) as u32);
        let about =
            |class: u32| Payload::new().u64(id).u64(object).u64(key).u64(0).u32(thread).u32(class);
        let (hook, payload) = match kind {
            FileOperation::Open => {
                let options = disposition(operation.flags.unwrap_or(0)) << 24;
                let payload = Payload::new().u64(id).u64(object).u32(thread).u32(options);
                // Attributes are not known; everybody may share it.
                (CREATE, payload.u32(0).u32(SHARED).wide(path))
            }
            FileOperation::Make => {
                let options = NEW_FILE << 24 | u32::from(arguments.attributes == FOLDER);
                let payload = Payload::new().u64(id).u64(object).u32(thread).u32(options);
                (CREATE, payload.u32(arguments.attributes).u32(SHARED).wide(path))
            }
            FileOperation::Close | FileOperation::Flush => {
                let payload = Payload::new().u64(id).u64(object).u64(key).u32(thread);
                if kind == FileOperation::Close {
                    out.perf_info(head, CLEANUP, 3, &payload);
                }
                (if kind == FileOperation::Close { CLOSE } else { 0x0449 }, payload)
            }
            FileOperation::Read | FileOperation::Write => {
                let appends = operation.appends(file.as_ref());
                let offset = match arguments.offset_of(values) {
                    _ if appends == Some(true) => END_OF_FILE,
                    _ if appends.is_none() => CURRENT_POSITION,
                    Offset::At(offset) => offset,
                    Offset::Unknown => CURRENT_POSITION,
                    Offset::Position => {
                        operation.position.as_ref().map_or(CURRENT_POSITION, Move::start)
                    }
                };
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
        mut operation: Operation,
        result: i64,
        out: &mut Records,
    ) {
        if self.has(Flag::FILE_IO) {
            let status = if is_error(result) { result as u32 } else { 0 };
            let payload = Payload::new().u64(operation.id).u64(result as u64).u32(status);
            out.perf_info(self.head(event), OPERATION_END, 3, &payload);
        }
        for (path, key) in operation.paths.iter().zip(operation.taken) {
            self.files.names.end_taking(path, key);
        }
        if let Some(position) = operation.position.take() {
            let appends = operation.appends(operation.file.as_ref());
            match is_error(result) {
                true => position.advance(0),
                false if appends == Some(false) => position.advance(result as u64),
                // At the new end of the file, wherever that is.
                false => position.end_at(CURRENT_POSITION),
            }
        }
        match operation.kind {
            _ if is_error(result) => {}
            FileOperation::Open => {
                if let (Some(file), Some(name)) = (&operation.file, &operation.late_name) {
                    self.name_late(event, file.key, name, out);
                }
                let has = |flag| operation.flags.map(|flags| flags & flag != 0);
                let closes_on_exec = has(CLOSE_ON_EXEC);
                if let Some(file) = &operation.file {
                    file.set_appends(has(APPEND_FLAG));
                }
                let opened = Descriptor { file: operation.file, closes_on_exec };
                let owner = self.owner_of_files(event);
                let tables = &mut self.files.descriptors;
                let closed = tables.set(owner, result as i32, opened);
                self.files_closed(event, closed, out);
            }
            FileOperation::Delete => {
                self.files.names.take_name(&operation.paths[0], operation.taken[0]);
            }
            FileOperation::Rename => {
                let is_exchange = operation.has(EXCHANGE_FLAG);
                let names = (&operation.paths, operation.taken);
                self.file_renamed(event, names, is_exchange, out);
            }
            FileOperation::Link => self.file_linked(event, &operation.paths, out),
            _ => {}
        }
    }
}

/// Whether a result of a call is an error number.
pub(super) fn is_error(result: i64) -> bool {
    (-4095..0).contains(&result)
}
