//! System calls that use files or change memory: their numbers, and which of their arguments mean what.

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Open or create.
    Open,
    /// Close.
    Close,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write back to the disk.
    Flush,
    /// Remove a name.
    Delete,
    /// Change a name.
    Rename,
    /// Add a name.
    Link,
    /// List a directory.
    List,
    /// Read attributes.
    Query,
    /// Change attributes or the size.
    Set,
    /// Another request to the file system or driver.
    Control,
    /// Create a folder, a symbolic link or a device file, without opening it.
    Make,
}

/// The meaning of a call's arguments; `None`: it has no such argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileArguments {
    /// The file's descriptor.
    pub descriptor: Option<usize>,
    /// Bytes to transfer.
    pub size: Option<usize>,
    /// The address of the buffers of a call with several ones; their number is the next argument.
    pub buffers: Option<usize>,
    /// The offset in the file.
    pub offset: Option<usize>,
    /// Without an offset, which is -1 then, it is at the descriptor's position.
    pub may_lack_offset: bool,
    /// The address of the offset; 0: at the descriptor's position.
    pub offset_address: Option<usize>,
    /// Flags of an open call, of a change of a name, or of a write.
    pub flags: Option<usize>,
    /// The address of the flags of an open call.
    pub flags_address: Option<usize>,
    /// Flags of a call that has none.
    pub implied_flags: u64,
    /// Windows' attributes of a file that it makes.
    pub attributes: u32,
    /// Paths: of the file, and of what a second one is for.
    pub paths: [Option<PathArgument>; 2],
}

/// A path among a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// The argument with the address of the path.
    pub at: usize,
    /// The argument with the descriptor of the folder where a relative path begins; `None`: in the process's folder.
    pub folder: Option<usize>,
}

/// The effect of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// It uses a file.
    File(FileOperation, FileArguments),
    /// It copies from one descriptor to another one: a read and a write.
    Copy {
        /// The file that it reads.
        from: FileArguments,
        /// The file that it writes.
        to: FileArguments,
    },
    /// `lseek`: it changes the offset of a descriptor.
    Seek,
    /// `dup`: another descriptor is that of the same open file.
    Duplicate,
    /// `dup2`, `dup3`: the same with a given number, in place of the one before.
    Replace,
    /// `fcntl`, which duplicates a descriptor, or says whether it is closed when a program is executed.
    ControlDescriptor,
    /// `close_range`: it closes several descriptors.
    CloseRange,
    /// `clone`: it makes a process or thread, which may have its descriptors together with the one that makes it.
    Clone,
    /// `unshare`: the thread has alone from then on what it had together with others.
    Unshare,
    /// `setns`: it has another namespace, and its folder is there.
    EnterNamespace,
    /// `io_submit`, `io_uring_enter`: they hand operations to the kernel, which only the program's memory describes.
    Submit,
    /// `chdir`: relative paths begin in another folder.
    ChangeFolder,
    /// `fchdir`: the same, by a descriptor.
    ChangeFolderTo,
    /// `mmap`
    Map,
    /// `munmap`
    Unmap,
    /// `brk`
    Break,
    /// `madvise`
    Advise,
    /// `mremap`
    Remap,
}

/// A call and its numbers; [`NONE`]: the architecture has no such call.
struct Row {
    x86_64: u64,
    aarch64: u64,
    call: SystemCall,
}

const NONE: u64 = u64::MAX;

const fn row(x86_64: u64, aarch64: u64, call: SystemCall) -> Row {
    Row { x86_64, aarch64, call }
}

/// A call about a descriptor, its first argument.
const fn of_descriptor(operation: FileOperation) -> SystemCall {
    transfer(operation, None, None)
}

const fn transfer(
    operation: FileOperation,
    size: Option<usize>,
    offset: Option<usize>,
) -> SystemCall {
    let arguments = FileArguments { descriptor: Some(0), size, offset, ..FileArguments::NONE };
    SystemCall::File(operation, arguments)
}

/// A call that transfers several buffers, which the second argument lists and the third one counts.
const fn transfers_buffers(operation: FileOperation, offset: Option<usize>) -> SystemCall {
    let arguments =
        FileArguments { descriptor: Some(0), buffers: Some(1), offset, ..FileArguments::NONE };
    SystemCall::File(operation, arguments)
}

/// `preadv2` and `pwritev2`, whose last argument has flags.
const fn transfers_with_flags(operation: FileOperation) -> SystemCall {
    let (descriptor, buffers, offset, flags) = (Some(0), Some(1), Some(3), Some(5));
    let may_lack_offset = true;
    let all = FileArguments { descriptor, buffers, offset, flags, ..FileArguments::NONE };
    SystemCall::File(operation, FileArguments { may_lack_offset, ..all })
}

/// A call that makes a file with some attributes.
const fn makes(path: PathArgument, attributes: u32) -> SystemCall {
    let arguments = FileArguments { attributes, paths: [Some(path), None], ..FileArguments::NONE };
    SystemCall::File(Make, arguments)
}

/// A call that copies bytes: the arguments with the descriptors, each with the address of its offset, and with the size.
const fn copies(
    (from, from_offset): (usize, Option<usize>),
    (to, to_offset): (usize, Option<usize>),
    size: usize,
) -> SystemCall {
    const fn side(descriptor: usize, offset_address: Option<usize>, size: usize) -> FileArguments {
        let (descriptor, size) = (Some(descriptor), Some(size));
        FileArguments { descriptor, size, offset_address, ..FileArguments::NONE }
    }
    let (from, to) = (side(from, from_offset, size), side(to, to_offset, size));
    SystemCall::Copy { from, to }
}

const fn path(at: usize) -> PathArgument {
    PathArgument { at, folder: None }
}

/// A path behind the descriptor of the folder where it begins.
const fn path_in(folder: usize) -> PathArgument {
    PathArgument { at: folder + 1, folder: Some(folder) }
}

/// A call about a path. perf's records only have the address of the path.
const fn of_path(operation: FileOperation, path: PathArgument) -> SystemCall {
    let paths = [Some(path), None];
    SystemCall::File(operation, FileArguments { paths, ..FileArguments::NONE })
}

const fn opens(path: PathArgument, flags: Option<usize>) -> SystemCall {
    let arguments = FileArguments { flags, paths: [Some(path), None], ..FileArguments::NONE };
    SystemCall::File(FileOperation::Open, arguments)
}

/// `openat2`, whose flags begin a structure.
const fn opens_as_listed() -> SystemCall {
    let (flags_address, paths) = (Some(2), [Some(path_in(0)), None]);
    let arguments = FileArguments { flags_address, paths, ..FileArguments::NONE };
    SystemCall::File(FileOperation::Open, arguments)
}

/// A call about the name of a file and another name for it.
const fn of_paths(operation: FileOperation, old: PathArgument, new: PathArgument) -> SystemCall {
    let paths = [Some(old), Some(new)];
    SystemCall::File(operation, FileArguments { paths, ..FileArguments::NONE })
}

/// Where in a file an operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// At the position of the descriptor, which it moves.
    Position,
    /// At an offset.
    At(u64),
    /// At an offset that only the program's memory has.
    Unknown,
}

impl FileArguments {
    /// Where a call begins.
    pub fn offset_of(&self, values: &[u64; 6]) -> Offset {
        match (self.offset.map(|at| values[at]), self.offset_address.map(|at| values[at])) {
            (Some(u64::MAX), _) if self.may_lack_offset => Offset::Position,
            (None, None | Some(0)) => Offset::Position,
            (Some(offset), _) => Offset::At(offset),
            (None, Some(_)) => Offset::Unknown,
        }
    }

    const NONE: FileArguments = FileArguments {
        descriptor: None,
        size: None,
        buffers: None,
        offset: None,
        may_lack_offset: false,
        offset_address: None,
        flags: None,
        flags_address: None,
        implied_flags: 0,
        attributes: 0,
        paths: [None; 2],
    };
}

/// `creat`: `O_CREAT`, `O_WRONLY` and `O_TRUNC`.
const fn creates(path: PathArgument) -> SystemCall {
    let arguments =
        FileArguments { implied_flags: 0o1101, paths: [Some(path), None], ..FileArguments::NONE };
    SystemCall::File(FileOperation::Open, arguments)
}

/// `renameat2`
const fn renames_with_flags() -> SystemCall {
    let paths = [Some(path_in(0)), Some(path_in(2))];
    let arguments = FileArguments { flags: Some(4), paths, ..FileArguments::NONE };
    SystemCall::File(FileOperation::Rename, arguments)
}

use FileOperation::*;

/// `FILE_ATTRIBUTE_DIRECTORY`
pub const FOLDER: u32 = 0x10;
/// `FILE_ATTRIBUTE_DEVICE`
const DEVICE: u32 = 0x40;
/// `FILE_ATTRIBUTE_REPARSE_POINT`
const LINK: u32 = 0x400;

const ROWS: &[Row] = &[
    row(2, NONE, opens(path(0), Some(1))),
    row(85, NONE, creates(path(0))),
    row(257, 56, opens(path_in(0), Some(2))),
    row(437, 437, opens_as_listed()),
    row(3, 57, of_descriptor(Close)),
    row(0, 63, transfer(Read, Some(2), None)),
    row(17, 67, transfer(Read, Some(2), Some(3))),
    row(19, 65, transfers_buffers(Read, None)),
    row(295, 69, transfers_buffers(Read, Some(3))),
    row(327, 286, transfers_with_flags(Read)),
    row(1, 64, transfer(Write, Some(2), None)),
    row(18, 68, transfer(Write, Some(2), Some(3))),
    row(20, 66, transfers_buffers(Write, None)),
    row(296, 70, transfers_buffers(Write, Some(3))),
    row(328, 287, transfers_with_flags(Write)),
    row(40, 71, copies((1, Some(2)), (0, None), 3)),
    row(326, 285, copies((0, Some(1)), (2, Some(3)), 4)),
    row(275, 76, copies((0, Some(1)), (2, Some(3)), 4)),
    row(74, 82, of_descriptor(Flush)),
    row(75, 83, of_descriptor(Flush)),
    row(277, 84, of_descriptor(Flush)),
    row(306, 267, of_descriptor(Flush)),
    row(84, NONE, of_path(Delete, path(0))),
    row(87, NONE, of_path(Delete, path(0))),
    row(263, 35, of_path(Delete, path_in(0))),
    row(82, NONE, of_paths(Rename, path(0), path(1))),
    row(264, 38, of_paths(Rename, path_in(0), path_in(2))),
    row(316, 276, renames_with_flags()),
    row(86, NONE, of_paths(Link, path(0), path(1))),
    row(265, 37, of_paths(Link, path_in(0), path_in(2))),
    row(83, NONE, makes(path(0), FOLDER)),
    row(258, 34, makes(path_in(0), FOLDER)),
    row(88, NONE, makes(path(1), LINK)),
    row(266, 36, makes(path_in(1), LINK)),
    row(133, NONE, makes(path(0), DEVICE)),
    row(259, 33, makes(path_in(0), DEVICE)),
    row(78, NONE, transfer(List, Some(2), None)),
    row(217, 61, transfer(List, Some(2), None)),
    row(4, NONE, of_path(Query, path(0))),
    row(6, NONE, of_path(Query, path(0))),
    row(262, 79, of_path(Query, path_in(0))),
    row(332, 291, of_path(Query, path_in(0))),
    row(21, NONE, of_path(Query, path(0))),
    row(269, 48, of_path(Query, path_in(0))),
    row(439, 439, of_path(Query, path_in(0))),
    row(5, 80, of_descriptor(Query)),
    row(89, NONE, of_path(Query, path(0))),
    row(267, 78, of_path(Query, path_in(0))),
    row(137, 43, of_path(Query, path(0))),
    row(138, 44, of_descriptor(Query)),
    row(191, 8, of_path(Query, path(0))),
    row(192, 9, of_path(Query, path(0))),
    row(193, 10, of_descriptor(Query)),
    row(194, 11, of_path(Query, path(0))),
    row(195, 12, of_path(Query, path(0))),
    row(196, 13, of_descriptor(Query)),
    row(188, 5, of_path(Set, path(0))),
    row(189, 6, of_path(Set, path(0))),
    row(190, 7, of_descriptor(Set)),
    row(197, 14, of_path(Set, path(0))),
    row(198, 15, of_path(Set, path(0))),
    row(199, 16, of_descriptor(Set)),
    row(76, 45, of_path(Set, path(0))),
    row(77, 46, of_descriptor(Set)),
    row(90, NONE, of_path(Set, path(0))),
    row(91, 52, of_descriptor(Set)),
    row(93, 55, of_descriptor(Set)),
    row(268, 53, of_path(Set, path_in(0))),
    row(285, 47, of_descriptor(Set)),
    row(92, NONE, of_path(Set, path(0))),
    row(94, NONE, of_path(Set, path(0))),
    row(260, 54, of_path(Set, path_in(0))),
    row(452, 452, of_path(Set, path_in(0))),
    row(132, NONE, of_path(Set, path(0))),
    row(235, NONE, of_path(Set, path(0))),
    row(261, NONE, of_path(Set, path_in(0))),
    row(280, 88, of_path(Set, path_in(0))),
    row(16, 29, of_descriptor(Control)),
    row(8, 62, SystemCall::Seek),
    row(32, 23, SystemCall::Duplicate),
    row(72, 25, SystemCall::ControlDescriptor),
    row(33, NONE, SystemCall::Replace),
    row(292, 24, SystemCall::Replace),
    row(436, 436, SystemCall::CloseRange),
    row(56, 220, SystemCall::Clone),
    row(272, 97, SystemCall::Unshare),
    row(308, 268, SystemCall::EnterNamespace),
    row(80, 49, SystemCall::ChangeFolder),
    row(81, 50, SystemCall::ChangeFolderTo),
    row(209, 2, SystemCall::Submit),
    row(426, 426, SystemCall::Submit),
    row(9, 222, SystemCall::Map),
    row(11, 215, SystemCall::Unmap),
    row(12, 214, SystemCall::Break),
    row(28, 233, SystemCall::Advise),
    row(25, 216, SystemCall::Remap),
];

impl Row {
    fn number(&self) -> u64 {
        if cfg!(target_arch = "aarch64") { self.aarch64 } else { self.x86_64 }
    }
}

impl SystemCall {
    /// The call with a number of this architecture; `None`: it does something else.
    pub fn of_number(number: u64) -> Option<SystemCall> {
        let row = ROWS.iter().find(|row| row.number() == number && number != NONE)?;
        Some(row.call)
    }

    /// Whether it changes memory.
    pub fn is_memory(self) -> bool {
        use SystemCall::{Advise, Break, Map, Remap, Unmap};
        matches!(self, Map | Unmap | Break | Advise | Remap)
    }

    /// Whether it changes the folder in which relative paths begin, or who has it.
    pub fn is_about_folders(self) -> bool {
        use SystemCall::{ChangeFolder, ChangeFolderTo, EnterNamespace, Unshare};
        matches!(self, ChangeFolder | ChangeFolderTo | EnterNamespace | Unshare)
    }

    /// Its operations on files.
    pub fn file_operations(self) -> impl Iterator<Item = (FileOperation, FileArguments)> {
        let all = match self {
            SystemCall::File(operation, arguments) => [Some((operation, arguments)), None],
            SystemCall::Copy { from, to } => [Some((Read, from)), Some((Write, to))],
            _ => [None; 2],
        };
        all.into_iter().flatten()
    }

    /// The descriptors among the arguments whose files have to be known.
    pub fn descriptors(self, arguments: &[u64; 6]) -> impl Iterator<Item = i32> {
        let other = match self {
            SystemCall::ChangeFolderTo => Some(0),
            SystemCall::Map => Some(4),
            _ => None,
        };
        let all = self.file_operations().filter_map(|(_, one)| one.descriptor).chain(other);
        all.map(|at| arguments[at] as i32).filter(|descriptor| *descriptor >= 0)
    }

    /// Descriptors of folders where relative paths begin.
    pub fn folders(self, arguments: &[u64; 6]) -> impl Iterator<Item = i32> {
        let paths = self.file_operations().flat_map(|(_, one)| one.paths);
        let folders = paths.flatten().filter_map(|path| path.folder);
        // Negative: the process's own folder.
        folders.map(|at| arguments[at] as i32).filter(|descriptor| *descriptor >= 0)
    }
}

/// The numbers of this architecture for calls that a test selects.
pub fn numbers(is_wanted: impl Fn(SystemCall) -> bool) -> Vec<u64> {
    let wanted = ROWS.iter().filter(|row| row.number() != NONE && is_wanted(row.call));
    wanted.map(Row::number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel refuses an offset of -1 but for these two calls.
    #[test]
    fn calls_with_flags_alone_may_lack_their_offset() {
        let values = [3, 0, 0, u64::MAX, 0, 0];
        let lacking = ROWS.iter().filter(|row| {
            let mut with_offset = row.call.file_operations().filter(|one| one.1.offset.is_some());
            with_offset.any(|(_, arguments)| match arguments.offset_of(&values) {
                Offset::Position => true,
                offset => {
                    assert_eq!(offset, Offset::At(u64::MAX));
                    false
                }
            })
        });
        let lacking: Vec<u64> = lacking.map(|row| row.x86_64).collect();
        assert_eq!(lacking, [327, 328]);
    }

    #[test]
    fn each_number_names_one_call() {
        for numbers in [
            ROWS.iter().map(|row| row.x86_64).collect::<Vec<_>>(),
            ROWS.iter().map(|row| row.aarch64).collect(),
        ] {
            let mut known: Vec<u64> = numbers.into_iter().filter(|one| *one != NONE).collect();
            let all = known.len();
            known.sort_unstable();
            known.dedup();
            assert_eq!(known.len(), all);
        }
        assert_eq!(SystemCall::of_number(NONE), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn numbers_are_those_of_the_system() {
        let file =
            |operation| move |call| matches!(call, SystemCall::File(one, _) if one == operation);
        let copy = |call| matches!(call, SystemCall::Copy { .. });
        for (number, is_right) in [
            (libc::SYS_openat, numbers(file(Open))),
            (libc::SYS_close, numbers(file(Close))),
            (libc::SYS_preadv2, numbers(file(Read))),
            (libc::SYS_writev, numbers(file(Write))),
            (libc::SYS_mkdirat, numbers(file(Make))),
            (libc::SYS_symlinkat, numbers(file(Make))),
            (libc::SYS_mknodat, numbers(file(Make))),
            (libc::SYS_readlinkat, numbers(file(Query))),
            (libc::SYS_statfs, numbers(file(Query))),
            (libc::SYS_fstatfs, numbers(file(Query))),
            (libc::SYS_getxattr, numbers(file(Query))),
            (libc::SYS_lgetxattr, numbers(file(Query))),
            (libc::SYS_fgetxattr, numbers(file(Query))),
            (libc::SYS_listxattr, numbers(file(Query))),
            (libc::SYS_llistxattr, numbers(file(Query))),
            (libc::SYS_flistxattr, numbers(file(Query))),
            (libc::SYS_setxattr, numbers(file(Set))),
            (libc::SYS_lsetxattr, numbers(file(Set))),
            (libc::SYS_fsetxattr, numbers(file(Set))),
            (libc::SYS_removexattr, numbers(file(Set))),
            (libc::SYS_lremovexattr, numbers(file(Set))),
            (libc::SYS_fremovexattr, numbers(file(Set))),
            (libc::SYS_pwrite64, numbers(file(Write))),
            (libc::SYS_fdatasync, numbers(file(Flush))),
            (libc::SYS_sendfile, numbers(copy)),
            (libc::SYS_copy_file_range, numbers(copy)),
            (libc::SYS_splice, numbers(copy)),
            (libc::SYS_unlinkat, numbers(file(Delete))),
            (libc::SYS_renameat2, numbers(file(Rename))),
            (libc::SYS_getdents64, numbers(file(List))),
            (libc::SYS_statx, numbers(file(Query))),
            (libc::SYS_fallocate, numbers(file(Set))),
            (libc::SYS_fchownat, numbers(file(Set))),
            (libc::SYS_utimensat, numbers(file(Set))),
            (libc::SYS_faccessat, numbers(file(Query))),
            (libc::SYS_syncfs, numbers(file(Flush))),
            (libc::SYS_ioctl, numbers(file(Control))),
            (libc::SYS_lseek, numbers(|call| call == SystemCall::Seek)),
            (libc::SYS_dup3, numbers(|call| call == SystemCall::Replace)),
            (libc::SYS_dup, numbers(|call| call == SystemCall::Duplicate)),
            (libc::SYS_fcntl, numbers(|call| call == SystemCall::ControlDescriptor)),
            (libc::SYS_close_range, numbers(|call| call == SystemCall::CloseRange)),
            (libc::SYS_clone, numbers(|call| call == SystemCall::Clone)),
            (libc::SYS_unshare, numbers(|call| call == SystemCall::Unshare)),
            (libc::SYS_io_submit, numbers(|call| call == SystemCall::Submit)),
            (libc::SYS_io_uring_enter, numbers(|call| call == SystemCall::Submit)),
            (libc::SYS_linkat, numbers(file(Link))),
            (libc::SYS_chdir, numbers(|call| call == SystemCall::ChangeFolder)),
            (libc::SYS_fchdir, numbers(|call| call == SystemCall::ChangeFolderTo)),
            (libc::SYS_mmap, numbers(|call| call == SystemCall::Map)),
            (libc::SYS_munmap, numbers(|call| call == SystemCall::Unmap)),
            (libc::SYS_brk, numbers(|call| call == SystemCall::Break)),
            (libc::SYS_madvise, numbers(|call| call == SystemCall::Advise)),
            (libc::SYS_mremap, numbers(|call| call == SystemCall::Remap)),
        ] {
            assert!(is_right.contains(&(number as u64)), "{number} in {is_right:?}");
        }
    }
}
