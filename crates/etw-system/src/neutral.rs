//! Neutral events: what a source can say of the machine, in no form of any trace.

use std::ops::Range;
use std::sync::Arc;

/// One event of the machine.
#[derive(Clone, Copy, Debug)]
pub struct NeutralEvent<'a> {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The CPU.
    pub cpu: u16,
    /// The process that ran.
    pub process: u32,
    /// The thread that ran.
    pub thread: u32,
    /// The call stack, if the source recorded one.
    pub stack: Stack<'a>,
    /// The rest.
    pub detail: Detail<'a>,
}

/// Addresses of a call stack, innermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack<'a> {
    /// Frames in the kernel.
    pub kernel: &'a [u64],
    /// Frames in the program.
    pub user: &'a [u64],
}

impl Stack<'_> {
    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.kernel.is_empty() && self.user.is_empty()
    }
}

/// The events. `process` and `thread` are those that an event is about; those that ran are in [`NeutralEvent`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Detail<'a> {
    /// A process that existed when the recording began.
    ProcessFound(&'a ProcessFacts),
    /// A process that had ended when the recording began, and whose parent did not know yet. `status`: as of [`ExitStatus`](Detail::ExitStatus).
    DefunctFound { facts: &'a ProcessFacts, status: u32 },
    /// A thread that existed when the recording began.
    /// `affinity`: a bit for each of the first 64 CPUs that it may use; 0: not known.
    ThreadFound { process: u32, thread: u32, name: &'a [u8], priority: i32, affinity: u64 },
    /// A part of a file that a process had in memory when the recording began.
    ViewFound { process: u32, base: u64, size: u64, file: &'a FileFacts },
    /// A process listens for connections to a TCP port.
    ListenerFound { process: u32, at: Listening },
    /// All processes that existed when the recording began have been given.
    AllFound,
    /// A thread was made; if `process` differs from `parent_process`, a process with its first thread.
    Fork {
        process: u32,
        parent_process: u32,
        thread: u32,
        parent_thread: u32,
        /// The program that the new process executes soon after, if that is known already.
        soon: Option<&'a ExecFacts>,
    },
    /// The thread that ran has made a thread: the stack is that of its last [`Fork`](Detail::Fork).
    Created,
    /// The thread that ran has made a thread, by its last [`Fork`](Detail::Fork), with these flags of `clone`.
    Cloned { flags: u64 },
    /// Two processes have one memory.
    SharedMemory { process: u32, other: u32 },
    /// The thread that ran begins to end: the stack is that of its [`Exit`](Detail::Exit).
    Exiting,
    /// A process executes another program.
    Exec { process: u32, facts: &'a ExecFacts },
    /// The name and arguments of the program that a process executes are known now.
    ProgramFound { process: u32, facts: &'a ExecFacts },
    /// A thread has another name.
    Rename { process: u32, thread: u32, name: &'a [u8] },
    /// A thread ended.
    Exit { process: u32, thread: u32 },
    /// A thread has ended, and the kernel did not record that.
    Vanished { thread: u32 },
    /// A thread of a process ended with this status: the exit code, or 128 and the signal. The last one is the status of the
    /// process. This event may come early: before the beginning of the process.
    ExitStatus { process: u32, thread: u32, status: u32 },
    /// A process has another user. This event may come early, too.
    User { process: u32, user: u32 },
    /// Executable code was mapped. A file that was loaded has taken the place of all that was there.
    Map { process: u32, image: &'a Arc<Image> },
    /// A process has no code any more of the image at a base.
    Unmap { process: u32, base: u64 },
    /// A CPU changed its thread.
    Switch { old: SwitchedOut, new: SwitchedIn },
    /// A thread took its CPU from this one. The switch may have been given already, by the record of the thread that left.
    SwitchedFrom { thread: u32 },
    /// A thread of the recorded program began to run on a CPU; what ran before is not known.
    SwitchIn,
    /// A thread of the recorded program is about to stop: its next [`SwitchOut`](Detail::SwitchOut) has no stack, this has it.
    Leaving,
    /// A thread of the recorded program stopped to run; what runs now is not known.
    SwitchOut { state: ThreadState },
    /// A thread became ready.
    Wake { thread: u32, is_interrupt: bool },
    /// A CPU's timer found this address.
    Sample { address: u64 },
    /// The handler of a device's interrupt began.
    InterruptEnter { line: u32 },
    /// The handler of a device's interrupt ended.
    InterruptExit { line: u32, is_handled: bool },
    /// A soft interrupt's handler began.
    SoftInterruptEnter { vector: u32 },
    /// A soft interrupt's handler ended.
    SoftInterruptExit { vector: u32 },
    /// A thread asked for a request of a disk.
    DiskQueue(DiskRequest),
    /// A request was given to a disk.
    DiskIssue(DiskRequest),
    /// A disk completed a request.
    DiskComplete(DiskRequest),
    /// The driver did not take a request: it is issued again later.
    DiskRequeue(DiskRequest),
    /// Bytes of a socket were sent or received by the thread that ran. `addresses`: as far as they are known.
    Transfer { socket: u64, protocol: u8, is_send: bool, size: u32, addresses: Addresses },
    /// A TCP connection changed its state.
    SocketState { socket: u64, old: u32, new: u32, addresses: Addresses },
    /// A segment was sent again.
    Retransmit { socket: u64, addresses: Addresses },
    /// A page fault begins. `is_protection`: the page is there and may not be written.
    FaultBegin { is_protection: bool },
    /// The page fault that is being handled needs a page of a file.
    /// `is_around`: the first one of the pages around it that are mapped, too.
    FileFault { file: FileId, offset: u64, is_around: bool },
    /// A page fault.
    Fault { address: u64, program_counter: u64, is_hard: bool },
    /// The kernel changed the priority of a thread.
    Priority { thread: u32, old: i32, new: i32 },
    /// A descriptor of a process is that of a file; `None`: of something else.
    DescriptorFound { process: u32, descriptor: i32, file: Option<&'a FileFacts> },
    /// The counters of a process at the end of the recording.
    Counters { process: u32, counters: &'a ProcessCounters },
    /// A program began a system call. `number`: with [`CALL_OF_32_BITS`], if that is known. `file`: the file that it names, if that is known already.
    SyscallEnter { number: u64, arguments: [u64; 6], file: Option<&'a CalledFile> },
    /// A program's system call returned. `number`: the same.
    SyscallExit { number: u64, result: i64 },
    /// The machine was suspended for so many nanoseconds, in which the clock of events stood still.
    Resumed { suspended: u64 },
    /// Records may be missing from here on, until as many gaps have ended as have begun.
    GapBegin,
    /// A gap has ended.
    GapEnd,
    /// The kernel had no room for events.
    Lost { count: u64 },
}

/// The thread that a CPU left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchedOut {
    /// Its id; 0: idle.
    pub thread: u32,
    /// The kernel's priority: below 100 real-time, 120 the default.
    pub priority: i32,
    /// Its state.
    pub state: ThreadState,
}

/// The thread that a CPU runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchedIn {
    /// Its id; 0: idle.
    pub thread: u32,
    /// The kernel's priority.
    pub priority: i32,
}

/// Why a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// It gave the CPU up.
    Ready,
    /// Another thread took the CPU.
    Preempted,
    /// It waits and can be interrupted.
    Sleeping,
    /// It waits, and the kernel does not say for what.
    Waiting,
    /// It waits for a device or lock.
    Blocked,
    /// It is stopped, traced or parked.
    Stopped,
    /// A kernel thread without work.
    Idle,
    /// It has ended.
    Dead,
}

/// Facts about a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Its id.
    pub id: u32,
    /// Its parent's id.
    pub parent: u32,
    /// When it started, in nanoseconds since the machine's start; 0: not known.
    pub start: u64,
    /// Its user; `None`: not known.
    pub user: Option<u32>,
    /// Its audit session; `u32::MAX`: none.
    pub session: u32,
    /// It is a thread of the kernel.
    pub is_kernel: bool,
    /// Its folder, where relative paths begin; empty: not known.
    pub folder: Vec<u8>,
    /// Its program.
    pub exec: ExecFacts,
    /// Where its program begins to run; 0: not known.
    pub entry: u64,
    /// The stack of its first thread; zeros: not known.
    pub stack: StackBounds,
}

/// The bounds of a thread's stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackBounds {
    /// The address behind its highest byte, where it begins.
    pub base: u64,
    /// Its lowest address.
    pub limit: u64,
}

/// A program and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecFacts {
    /// The path of the file; empty: not known.
    pub path: Vec<u8>,
    /// The short name.
    pub name: Vec<u8>,
    /// Arguments, each followed by a NUL.
    pub arguments: Vec<u8>,
    /// Its user.
    pub user: Option<u32>,
    /// The systemd unit or container in which it runs; empty: none.
    pub unit: Option<Vec<u8>>,
}

/// A file of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The kernel's device number: the minor number has 20 bits.
    pub device: u32,
    /// The file's number there. Subvolumes of btrfs and layers of overlayfs have the same numbers for different files.
    pub inode: u64,
    /// Where the kernel has the file's inode, as long as it is in memory; 0: not known.
    pub address: u64,
}

impl FileId {
    /// Whether device and number alone say which file it is: those of a file system with a device of its own do.
    pub fn is_on_device(&self) -> bool {
        self.device >> 20 != 0
    }

    /// Whether both can be one file. Layers of overlayfs and subvolumes of btrfs have a device of their own, or that of their file system.
    pub fn may_be(&self, other: &FileId) -> bool {
        let has_other_device = self.device != other.device;
        let is_sure = self.is_on_device() && other.is_on_device();
        self.inode == other.inode && !(has_other_device && is_sure)
    }
}

/// A file and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// The file.
    pub id: FileId,
    /// Its path.
    pub path: Vec<u8>,
}

/// The file that a system call names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalledFile {
    /// The call's paths as its program gave them, or absolute; empty: not known.
    pub paths: [Vec<u8>; 2],
    /// The file that it opened.
    pub id: Option<FileId>,
    /// Bytes of the buffers that the call lists, or those that it copied.
    pub buffer_bytes: Option<u64>,
    /// The flags of a call that has them in memory.
    pub flags: Option<u64>,
    /// The call made the file that it opened; otherwise it may have.
    pub is_made: bool,
}

impl From<FileFacts> for CalledFile {
    fn from(FileFacts { id, path }: FileFacts) -> CalledFile {
        CalledFile { paths: [path, Vec::new()], id: Some(id), ..CalledFile::default() }
    }
}

/// A bit of the number of a system call of 32 bits, as `int 0x80` makes them in any program. Their numbers have other meanings.
pub const CALL_OF_32_BITS: u64 = 1 << 62;

/// Whether the number of a system call has that bit; the numbers of calls that are none may be negative.
pub fn is_call_of_32_bits(number: u64) -> bool {
    number >> 62 == CALL_OF_32_BITS >> 62
}

/// Counters of a process. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ProcessCounters {
    pub faults: u32,
    pub descriptors: u32,
    pub peak_virtual: u64,
    pub peak_resident: u64,
    pub virtual_size: u64,
    pub resident: u64,
    pub swapped: u64,
    pub private: u64,
}

/// Executable code in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Image {
    /// Lowest address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// The address of `base` in the file's headers.
    pub default_base: u64,
    /// The file.
    pub path: Vec<u8>,
    /// The build id, or empty.
    pub build_id: Vec<u8>,
    /// The numbers of the file that was mapped; `None`: not known.
    pub file: Option<FileId>,
    /// Where it begins to run if it is a program; 0: nowhere.
    pub entry: u64,
    /// Its code is of a processor with 32 bits.
    pub is_32_bit: bool,
    /// It is a part of a file: one that was mapped and not loaded, or that lies apart from the others. `base` is not the file's lowest address.
    pub is_part: bool,
    /// The addresses of its executable mappings, and what lies between them; empty: not known.
    pub code: Range<u64>,
}

impl Image {
    /// Its addresses.
    pub fn range(&self) -> Range<u64> {
        self.base..self.base.saturating_add(self.size)
    }

    /// Whether both are the same file at the same place, whatever is executable there.
    pub fn is_same(&self, other: &Image) -> bool {
        let place = |one: &Image| (one.base, one.size, one.default_base);
        place(self) == place(other) && self.path == other.path && self.build_id == other.build_id
    }

    /// The part of it at these addresses, which are its own.
    pub fn clipped(self, range: Range<u64>) -> Image {
        let is_part = !self.is_anonymous();
        let distance = if is_part { range.start.wrapping_sub(self.base) } else { 0 };
        Image {
            base: range.start,
            size: range.end.saturating_sub(range.start),
            default_base: self.default_base.wrapping_add(distance),
            entry: if range.contains(&self.entry) { self.entry } else { 0 },
            is_part,
            code: self.code.start.max(range.start)..self.code.end.min(range.end),
            ..self
        }
    }

    /// Whether it is memory without a file, such as that of code that was compiled at run time.
    pub fn is_anonymous(&self) -> bool {
        !names_file(&self.path)
    }
}

/// Whether the path of a mapping names a file. The kernel's records have `//toolong` for a path of more than 4 KiB.
pub(crate) fn names_file(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.starts_with(b"//") || path == b"//toolong"
}

/// A request of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// The kernel's device number.
    pub device: u32,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Bytes.
    pub size: u32,
    /// The direction.
    pub operation: DiskOperation,
    /// Read-ahead or write-back.
    pub is_background: bool,
}

/// An operation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOperation {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It flushes its cache.
    Flush,
    /// Something that Windows' events do not know.
    Other,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Version 6; otherwise the first four bytes of each address count.
    pub is_v6: bool,
    /// This side.
    pub local: [u8; 16],
    /// The other side.
    pub remote: [u8; 16],
    /// This side's port.
    pub local_port: u16,
    /// The other side's port.
    pub remote_port: u16,
}

/// The address and the port at which a socket listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Listening {
    /// The address is one of version 6.
    pub is_v6: bool,
    /// In network order; of version 4, the first four bytes; zeros: all addresses.
    pub address: [u8; 16],
    /// The port.
    pub port: u16,
}

impl Listening {
    /// The own side of a connection.
    pub fn of(addresses: &Addresses) -> Listening {
        let Addresses { is_v6, local, local_port, .. } = *addresses;
        Listening { is_v6, address: local, port: local_port }
    }
}
