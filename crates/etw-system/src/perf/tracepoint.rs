//! Tracepoints: their numbers, and where their fields lie, as the kernel describes them.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use crate::neutral::ThreadState;

/// A tracepoint that gives neutral events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Tracepoint {
    Switch,
    Waking,
    NewTaskWakeup,
    InterruptEntry,
    InterruptExit,
    SoftInterruptEntry,
    SoftInterruptExit,
    DiskIssue,
    DiskComplete,
    SocketState,
    SocketSend,
    SocketReceive,
    Retransmit,
    SyscallEnter,
    SyscallExit,
    Priority,
    PageFault,
    FileFault,
    Exec,
    NewTask,
    TaskExit,
    DiskRequeue,
    FilePages,
    /// The end of a system call that names files: a program of ours records their paths.
    CallPaths,
    /// A switch from idle: a program of ours records them where perf records all other switches.
    IdleSwitch,
    /// A wake-up by an interrupt of an idle CPU: the same, with the call stack of the kernel.
    IdleWaking,
    DiskQueue,
    /// The end of a thread: a program of ours records its exit code.
    ExitStatus,
    /// A sample of a CPU, which is no tracepoint: a program of ours records it in the interrupt of perf's timer.
    CpuSample,
}

impl Tracepoint {
    /// All tracepoints.
    pub const ALL: &'static [Tracepoint] = &[
        Tracepoint::Switch,
        Tracepoint::Waking,
        Tracepoint::NewTaskWakeup,
        Tracepoint::InterruptEntry,
        Tracepoint::InterruptExit,
        Tracepoint::SoftInterruptEntry,
        Tracepoint::SoftInterruptExit,
        Tracepoint::DiskIssue,
        Tracepoint::DiskComplete,
        Tracepoint::SocketState,
        Tracepoint::SocketSend,
        Tracepoint::SocketReceive,
        Tracepoint::Retransmit,
        Tracepoint::SyscallEnter,
        Tracepoint::SyscallExit,
        Tracepoint::Priority,
        Tracepoint::PageFault,
        Tracepoint::FileFault,
        Tracepoint::Exec,
        Tracepoint::NewTask,
        Tracepoint::TaskExit,
        Tracepoint::DiskRequeue,
        Tracepoint::FilePages,
        Tracepoint::CallPaths,
        Tracepoint::IdleSwitch,
        Tracepoint::IdleWaking,
        Tracepoint::DiskQueue,
        Tracepoint::ExitStatus,
        Tracepoint::CpuSample,
    ];
}

impl Tracepoint {
    /// The tracepoint whose records a program of ours writes for this one.
    pub fn recorded_as(self) -> Tracepoint {
        if self == Tracepoint::IdleSwitch { Tracepoint::Switch } else { self }
    }

    /// The tracepoint of a group and name.
    pub fn named(name: &str) -> Option<Tracepoint> {
        Tracepoint::ALL.iter().copied().find(|point| point.name() == name)
    }

    /// Group and name.
    pub fn name(self) -> &'static str {
        match self {
            Tracepoint::Switch => "sched/sched_switch",
            Tracepoint::Waking => "sched/sched_waking",
            Tracepoint::NewTaskWakeup => "sched/sched_wakeup_new",
            Tracepoint::InterruptEntry => "irq/irq_handler_entry",
            Tracepoint::InterruptExit => "irq/irq_handler_exit",
            Tracepoint::SoftInterruptEntry => "irq/softirq_entry",
            Tracepoint::SoftInterruptExit => "irq/softirq_exit",
            Tracepoint::DiskQueue => "block/block_io_start",
            Tracepoint::DiskIssue => "block/block_rq_issue",
            Tracepoint::DiskComplete => "block/block_rq_complete",
            Tracepoint::SocketState => "sock/inet_sock_set_state",
            Tracepoint::SocketSend => "sock/sock_send_length",
            Tracepoint::SocketReceive => "sock/sock_recv_length",
            Tracepoint::Retransmit => "tcp/tcp_retransmit_skb",
            Tracepoint::SyscallEnter => "raw_syscalls/sys_enter",
            Tracepoint::SyscallExit => "raw_syscalls/sys_exit",
            Tracepoint::Priority => "sched/sched_pi_setprio",
            Tracepoint::PageFault => "exceptions/page_fault_user",
            Tracepoint::FileFault => "filemap/mm_filemap_fault",
            Tracepoint::Exec => "sched/sched_process_exec",
            Tracepoint::NewTask => "task/task_newtask",
            Tracepoint::TaskExit => "sched/sched_process_exit",
            Tracepoint::DiskRequeue => "block/block_rq_requeue",
            Tracepoint::FilePages => "filemap/mm_filemap_map_pages",
            Tracepoint::CallPaths => "raw_syscalls/sys_exit:paths",
            Tracepoint::IdleSwitch => "sched/sched_switch:idle",
            Tracepoint::IdleWaking => "sched/sched_waking:idle",
            Tracepoint::ExitStatus => "sched/sched_process_exit:status",
            Tracepoint::CpuSample => "perf/cpu-clock",
        }
    }

    /// The fields that are read, in the order of [`Layout`]'s numbers.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Tracepoint::Switch => {
                &["prev_pid", "prev_prio", "prev_state", "next_pid", "next_prio", "common_flags"]
            }
            Tracepoint::Waking | Tracepoint::NewTaskWakeup => &["pid", "common_flags"],
            Tracepoint::InterruptEntry => &["irq"],
            Tracepoint::InterruptExit => &["irq", "ret"],
            Tracepoint::SoftInterruptEntry | Tracepoint::SoftInterruptExit => &["vec"],
            Tracepoint::DiskQueue | Tracepoint::DiskIssue => {
                &["dev", "sector", "nr_sector", "rwbs", "bytes"]
            }
            Tracepoint::DiskRequeue | Tracepoint::DiskComplete => {
                &["dev", "sector", "nr_sector", "rwbs"]
            }
            Tracepoint::SocketState => &[
                "skaddr", "oldstate", "newstate", "sport", "dport", "family", "saddr", "daddr",
                "saddr_v6", "daddr_v6", "protocol",
            ],
            Tracepoint::SocketSend | Tracepoint::SocketReceive => {
                &["sk", "protocol", "ret", "family", "flags"]
            }
            Tracepoint::Retransmit => &[
                "skaddr", "sport", "dport", "family", "saddr", "daddr", "saddr_v6", "daddr_v6",
                "err",
            ],
            Tracepoint::SyscallEnter => &["id", "args"],
            Tracepoint::SyscallExit => &["id", "ret"],
            Tracepoint::Priority => &["pid", "oldprio", "newprio"],
            Tracepoint::PageFault => &["error_code"],
            Tracepoint::FileFault | Tracepoint::FilePages => &["i_ino", "s_dev", "index"],
            Tracepoint::Exec => &["filename"],
            Tracepoint::NewTask => &["clone_flags"],
            Tracepoint::TaskExit
            | Tracepoint::CallPaths
            | Tracepoint::IdleSwitch
            | Tracepoint::IdleWaking
            | Tracepoint::ExitStatus
            | Tracepoint::CpuSample => &[],
        }
    }
}

/// Where a field lies in the raw data of a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldAt {
    offset: usize,
    size: usize,
    is_signed: bool,
}

/// Where the fields of a tracepoint lie, by number; a field that this kernel does not have is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<Option<FieldAt>>,
    /// Bits of a thread's state and their letters, of sched_switch.
    states: Vec<(u64, u8)>,
}

impl Layout {
    /// Reads the kernel's description of a tracepoint.
    pub fn parse(description: &str, names: &[&str]) -> Layout {
        let mut all = HashMap::new();
        for line in description.lines() {
            let Some(rest) = line.trim().strip_prefix("field:") else { continue };
            let mut parts = rest.split(';').map(str::trim);
            let Some(declaration) = parts.next() else { continue };
            // `__data_loc char[] name`, but `char name[16]`.
            let declaration = match declaration.split_once("[] ") {
                Some((_, name)) => name,
                None => declaration.split('[').next().unwrap_or_default(),
            };
            let Some(name) = declaration.split([' ', '\t', '*']).rfind(|word| !word.is_empty())
            else {
                continue;
            };
            let mut field = FieldAt { offset: 0, size: 0, is_signed: false };
            for part in parts {
                match part.split_once(':') {
                    Some(("offset", value)) => field.offset = value.parse().unwrap_or(0),
                    Some(("size", value)) => field.size = value.parse().unwrap_or(0),
                    Some(("signed", value)) => field.is_signed = value == "1",
                    _ => {}
                }
            }
            all.insert(name.to_owned(), field);
        }
        let fields = names.iter().map(|name| all.get(*name).copied()).collect();
        Layout { fields, states: state_letters(description) }
    }

    /// Fields that are words of four bytes, by number.
    pub(crate) fn of_words(words: &[Option<usize>]) -> Layout {
        const SIZE: usize = 4;
        let field = |word| FieldAt { offset: word * SIZE, size: SIZE, is_signed: false };
        Layout { fields: words.iter().map(|word| word.map(field)).collect(), states: Vec::new() }
    }

    /// No field is known.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// A field has another size.
    pub(crate) fn with_size(mut self, number: usize, size: usize) -> Layout {
        if let Some(Some(field)) = self.fields.get_mut(number) {
            field.size = size;
        }
        self
    }

    /// The bytes of a field.
    pub(super) fn bytes<'a>(&self, number: usize, raw: &'a [u8]) -> &'a [u8] {
        let Some(Some(field)) = self.fields.get(number) else { return &[] };
        let end = field.offset.saturating_add(field.size);
        raw.get(field.offset..end).unwrap_or_default()
    }

    /// A number, with its sign; 0 if the kernel has no such field.
    pub(super) fn number(&self, number: usize, raw: &[u8]) -> i64 {
        let bytes = self.bytes(number, raw);
        let Some(Some(FieldAt { is_signed, .. })) = self.fields.get(number) else { return 0 };
        if bytes.is_empty() || bytes.len() > 8 {
            return 0;
        }
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        let shift = 64 - 8 * bytes.len() as u32;
        let value = i64::from_le_bytes(all);
        if *is_signed { value << shift >> shift } else { value }
    }

    /// The bytes of a field of variable size (`__data_loc`), up to their NUL: the field has `u16` offset, `u16` size.
    pub(super) fn text<'a>(&self, number: usize, raw: &'a [u8]) -> &'a [u8] {
        let at = self.number(number, raw) as usize;
        let (offset, size) = (at & 0xffff, at >> 16 & 0xffff);
        let bytes = raw.get(offset..offset + size).unwrap_or_default();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The state of a thread that leaves its CPU.
    pub(crate) fn thread_state(&self, state: u64) -> ThreadState {
        let known: u64 = self.states.iter().fold(0, |all, (bit, _)| all | bit);
        if state & !known != 0 {
            // The one bit without a letter.
            return ThreadState::Preempted;
        }
        let letter =
            self.states.iter().find(|(bit, _)| state & bit != 0).map(|(_, letter)| *letter);
        match letter {
            None => ThreadState::Ready,
            Some(b'S') => ThreadState::Sleeping,
            Some(b'D') => ThreadState::Blocked,
            Some(b'I') => ThreadState::Idle,
            Some(b'X' | b'Z' | b'x') => ThreadState::Dead,
            Some(_) => ThreadState::Stopped,
        }
    }
}

/// Pairs such as `{ 0x0001, "S" }` of a description.
fn state_letters(description: &str) -> Vec<(u64, u8)> {
    let print = description.lines().find(|line| line.starts_with("print fmt:"));
    let mut found = Vec::new();
    for part in print.unwrap_or_default().split('{').skip(1) {
        let Some((pair, _)) = part.split_once('}') else { continue };
        let Some((number, letter)) = pair.split_once(',') else { continue };
        let digits = number.trim().trim_start_matches("0x");
        let letter = letter.trim().trim_matches('"');
        if let (Ok(bit), [letter]) = (u64::from_str_radix(digits, 16), letter.as_bytes()) {
            found.push((bit, *letter));
        }
    }
    found
}

/// The kernel's descriptions of its tracepoints.
#[derive(Debug)]
pub(crate) struct TraceFiles {
    folder: PathBuf,
    /// A mount without a mount point.
    _mount: Option<OwnedFd>,
}

impl TraceFiles {
    /// Finds tracefs where it is mounted, or mounts it for this process without a mount point.
    pub fn open() -> io::Result<TraceFiles> {
        let mut refused = None;
        for folder in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            let folder = PathBuf::from(folder);
            match std::fs::read(folder.join("events/sched/sched_switch/id")) {
                Ok(_) => return Ok(TraceFiles { folder, _mount: None }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    refused = Some(error);
                }
                Err(_) => {}
            }
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        let mount = mount()?;
        let folder = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(TraceFiles { folder, _mount: Some(mount) })
    }

    /// The number and layout of a tracepoint.
    pub fn tracepoint(&self, tracepoint: Tracepoint) -> io::Result<(u64, Layout)> {
        let folder = self.folder.join("events").join(tracepoint.name());
        let id = std::fs::read_to_string(folder.join("id"))?;
        let id = id.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        let description = std::fs::read_to_string(folder.join("format"))?;
        Ok((id, Layout::parse(&description, tracepoint.fields())))
    }
}

fn mount() -> io::Result<OwnedFd> {
    const CREATE: libc::c_uint = 6;
    let descriptor = |number: libc::c_long| match number {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: the call returned a new descriptor, which nobody else has.
        number => Ok(unsafe { OwnedFd::from_raw_fd(number as libc::c_int) }),
    };
    // SAFETY: a text with a NUL, and numbers.
    let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: a descriptor of ours, null pointers and numbers, as the call wants for this command.
    let made =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, none, none, 0) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor of ours, and numbers.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = concat!(
        "name: sched_switch\nID: 246\nformat:\n",
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n",
        "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\n",
        "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n",
        "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n",
        "\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n",
        "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n",
        "print fmt: \"prev_state=%s%s\", (REC->prev_state & 255) ? __print_flags(x, \"|\", { 0x00000001, \"S\" }, ",
        "{ 0x00000002, \"D\" }, { 0x00000010, \"X\" }, { 0x00000080, \"I\" }) : \"R\", REC->prev_state & 256 ? \"+\" : \"\"\n"
    );

    #[test]
    fn fields_and_states_come_from_the_description() {
        let layout = Layout::parse(SWITCH, Tracepoint::Switch.fields());
        let mut raw = vec![0; 40];
        raw[24..28].copy_from_slice(&7u32.to_le_bytes());
        raw[28..32].copy_from_slice(&(-1i32).to_le_bytes());
        raw[32] = 2;
        assert_eq!([0, 1, 2, 3].map(|n| layout.number(n, &raw)), [7, -1, 2, 0]);
        let states = [0, 1, 2, 0x10, 0x80, 0x100].map(|state| layout.thread_state(state));
        use ThreadState::*;
        assert_eq!(states, [Ready, Sleeping, Blocked, Dead, Idle, Preempted]);
        assert_eq!(layout.number(0, &raw[..25]), 0);
    }

    #[test]
    fn a_text_lies_where_its_field_says() {
        let line = "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n";
        let layout = Layout::parse(line, Tracepoint::Exec.fields());
        let mut raw = vec![0; 12];
        raw[8..12].copy_from_slice(&(12u32 | 5 << 16).to_le_bytes());
        raw.extend(b"/a/b\0rest");
        assert_eq!(layout.text(0, &raw), b"/a/b");
        assert_eq!(layout.text(0, &raw[..14]), b"");
    }
}
