//! Processes, threads and mappings as `/proc` lists them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::exit_statuses::status_of;
use crate::neutral::{
    ExecFacts, FileFacts, FileId, Listening, ProcessCounters, ProcessFacts, StackBounds,
};
use crate::perf::Mapping;
use crate::process_root::path_of;

/// The end of the name of a file that has been deleted.
pub(crate) const DELETED: &[u8] = b" (deleted)";

/// PF_KTHREAD
const KERNEL_THREAD: u64 = 0x0020_0000;
/// PF_EXITING
const EXITING: u64 = 0x4;
/// Ticks of `/proc` in a second.
const TICKS: u64 = 100;
/// Real-time and normal priorities of `stat` lie so much below those of the scheduler.
const PRIORITY_SHIFT: i32 = 100;
/// Longer command lines are cut: no record holds them.
const MAX_ARGUMENTS: usize = 64 << 10;

/// The numbers of directories, such as processes in `/proc`.
pub(crate) fn numbered(folder: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// A line of `stat`.
#[derive(Debug, Default)]
struct Stat {
    name: Vec<u8>,
    has_ended: bool,
    /// The status for its parent, if it has ended and this user may know.
    wait_status: u32,
    parent: u32,
    flags: u64,
    priority: i32,
    start_ticks: u64,
    /// Page faults, hard ones included.
    faults: u32,
}

fn stat(path: &str) -> Option<Stat> {
    stat_of(&std::fs::read(path).ok()?)
}

fn stat_of(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(bytes.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let faults = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        name: bytes.get(open + 1..close)?.to_vec(),
        has_ended: matches!(*fields.first()?, "Z" | "X"),
        wait_status: fields.get(49).and_then(|field| field.parse().ok()).unwrap_or(0),
        parent: fields.get(1)?.parse().ok()?,
        flags: fields.get(6)?.parse().ok()?,
        priority: fields.get(15)?.parse::<i32>().ok()?.saturating_add(PRIORITY_SHIFT),
        start_ticks: fields.get(19)?.parse().ok()?,
        faults: faults(7)?.wrapping_add(faults(9)?) as u32,
    })
}

impl Stat {
    /// Whether it has neither ended nor begun to end.
    fn runs_on(&self) -> bool {
        !self.has_ended && self.flags & EXITING == 0
    }
}

/// Whether a process runs on. The kernel marks one as ending before it gives the record of its end, and its state changes some time later.
pub(crate) fn runs_on(process: u32) -> bool {
    stat(&format!("/proc/{process}/stat")).is_some_and(|stat| stat.runs_on())
}

/// Whether a process has not ended. One that nobody has waited for yet has.
pub(crate) fn is_running(process: u32) -> bool {
    stat(&format!("/proc/{process}/stat")).is_some_and(|stat| !stat.has_ended)
}

/// Whether a thread has ended for certain, also one that nobody has waited for yet.
pub(crate) fn has_ended(thread: u32) -> bool {
    let Ok(id) = libc::pid_t::try_from(thread) else { return false };
    // SAFETY: the arguments are numbers; no signal is sent.
    let is_missing = unsafe { libc::kill(id, 0) } != 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    is_missing || stat(&format!("/proc/{thread}/stat")).is_some_and(|stat| stat.has_ended)
}

/// The user of a process.
pub(crate) fn user(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The folder of a process in `/proc`. If its first thread has ended, that of another one: there is no memory, and no file or folder, in the
/// first one's any more.
fn living_folder(process: u32) -> String {
    let own = format!("/proc/{process}");
    let has_ended = |folder: &str| {
        let program = std::fs::read_link(format!("{folder}/exe"));
        program.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    if !has_ended(&own) {
        return own;
    }
    let others = numbered(&format!("{own}/task")).into_iter().filter(|id| *id != process);
    let mut others = others.map(|id| format!("{own}/task/{id}"));
    others.find(|folder| !has_ended(folder)).unwrap_or(own)
}

/// The path of a link of `/proc`; empty: it cannot be read.
fn link_text(link: &str) -> Vec<u8> {
    let path = std::fs::read_link(link);
    let mut path = path.map_or(Vec::new(), |path| path.into_os_string().into_vec());
    if let Some(stripped) = path.strip_suffix(DELETED)
        && !is_named(link, &path)
    {
        path.truncate(stripped.len());
    }
    path
}

/// Whether the file of a link in a process's folder has this name, which may look like a deleted one's.
fn is_named(link: &str, path: &[u8]) -> bool {
    let root = link.rsplit_once('/').map_or("", |(folder, _)| folder);
    let named = [root.as_bytes(), b"/root", path].concat();
    let [named, linked] = [path_of(&named), path_of(link.as_bytes())].map(std::fs::metadata);
    let id = |data: Metadata| (data.dev(), data.ino());
    named.map(id).is_ok_and(|named| linked.map(id).is_ok_and(|linked| named == linked))
}

/// The program that a process executes now. `name`: its short name. `known_user`: its user, if the caller knows.
pub(crate) fn exec_facts(
    process: u32,
    name: &[u8],
    needs_arguments: bool,
    known_user: Option<u32>,
) -> ExecFacts {
    let folder = living_folder(process);
    let path = link_text(&format!("{folder}/exe"));
    let arguments = match path.is_empty() || !needs_arguments {
        // The process has ended, or this user may not see it; or the caller has them.
        true => Vec::new(),
        false => arguments(&folder),
    };
    let user = known_user.or_else(|| user(process));
    ExecFacts { path, name: name.to_vec(), arguments, user, unit: unit_of(process) }
}

/// Whether a process has this short name now.
pub(crate) fn has_name(process: u32, name: &[u8]) -> bool {
    let now = std::fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    now.strip_suffix(b"\n").unwrap_or(&now) == name
}

/// The systemd unit or container of a process: the last part of its control group. `None`: the process has ended.
fn unit_of(process: u32) -> Option<Vec<u8>> {
    unit_in(&std::fs::read(format!("/proc/{process}/cgroup")).ok()?)
}

/// The unit in a list of control groups: `0::/system.slice/cron.service`, or `1:name=systemd:…` without the unified hierarchy.
fn unit_in(groups: &[u8]) -> Option<Vec<u8>> {
    let lines = || groups.split(|byte| *byte == b'\n');
    let of = |kind: &[u8]| {
        let path = lines().find_map(|line| {
            line[line.iter().position(|byte| *byte == b':')? + 1..].strip_prefix(kind)
        })?;
        path.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())
    };
    let unit = of(b":").or_else(|| of(b"name=systemd:")).unwrap_or_default();
    (!groups.is_empty()).then(|| unit.to_vec())
}

/// The arguments of the process with a folder in `/proc`. The kernel reports an exec a moment before it has copied the arguments: until then there are none.
fn arguments(folder: &str) -> Vec<u8> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_micros(100);
    let mut arguments = vec![0; MAX_ARGUMENTS];
    for _ in 0..TRIES {
        // By one call: between two of them, the process can end, or execute another program.
        let read =
            File::open(format!("{folder}/cmdline")).and_then(|mut file| file.read(&mut arguments));
        match read {
            Ok(0) => std::thread::sleep(PAUSE),
            Ok(size) => {
                arguments.truncate(size);
                arguments.shrink_to_fit();
                return arguments;
            }
            Err(_) => break,
        }
    }
    Vec::new()
}

/// The folder of all threads of a process; empty: not known, or they have several.
fn working_folder(process: u32) -> Vec<u8> {
    let link = format!("{}/cwd", living_folder(process));
    let own = std::fs::read_link(&link).ok();
    let tasks = format!("/proc/{process}/task");
    let others = numbered(&tasks).into_iter().filter(|id| *id != process);
    let mut others = others.filter_map(|id| std::fs::read_link(format!("{tasks}/{id}/cwd")).ok());
    if others.any(|other| Some(other) != own) { Vec::new() } else { link_text(&link) }
}

/// Facts about a process. If it has ended, and its parent does not know yet, there is no program any more.
pub(crate) fn process_facts(id: u32) -> Option<ProcessFacts> {
    let stat = stat(&format!("/proc/{id}/stat"))?;
    let is_kernel = stat.flags & KERNEL_THREAD != 0;
    let exec = match is_kernel {
        true => ExecFacts { name: stat.name, ..ExecFacts::default() },
        false => exec_facts(id, &stat.name, true, None),
    };
    let session = std::fs::read_to_string(format!("/proc/{id}/sessionid"));
    let session = session.ok().and_then(|text| text.trim().parse().ok());
    Some(ProcessFacts {
        id,
        parent: stat.parent,
        start: stat.start_ticks.wrapping_mul(1_000_000_000 / TICKS),
        // Programs that the kernel starts have the user of its threads: root.
        user: exec.user.or(is_kernel.then_some(0)),
        session: session.unwrap_or(u32::MAX),
        is_kernel,
        folder: match is_kernel {
            true => Vec::new(),
            false => working_folder(id),
        },
        exec,
        ..ProcessFacts::default()
    })
}

/// The file of a process's descriptor; `None`: it is closed, or that of no file.
pub(crate) fn file_facts(process: u32, descriptor: i32) -> Option<FileFacts> {
    let link = format!("/proc/{process}/fd/{descriptor}");
    let path = std::fs::read_link(&link).ok()?.as_os_str().as_bytes().to_vec();
    // Sockets and pipes have names such as `socket:[7]`.
    path.starts_with(b"/").then_some(())?;
    Some(FileFacts { id: id_of(&std::fs::metadata(&link).ok()?), path })
}

pub(crate) fn id_of(metadata: &Metadata) -> FileId {
    let device = metadata.dev();
    let device = libc::major(device) << 20 | libc::minor(device) & 0xf_ffff;
    FileId { device, inode: metadata.ino(), address: 0 }
}

/// Whether a process has no such descriptor, or has ended.
pub(crate) fn is_closed(process: u32, descriptor: i32) -> bool {
    let link = std::fs::read_link(format!("/proc/{process}/fd/{descriptor}"));
    link.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The sockets that listen, with the processes that have them. Each network namespace has a table of its own, which its processes show.
pub(crate) fn listeners() -> Vec<(u32, Listening)> {
    let mut tables: HashMap<PathBuf, HashMap<u64, Listening>> = HashMap::new();
    let mut found = Vec::new();
    for process in numbered("/proc") {
        let of_process = |name: &str| format!("/proc/{process}/{name}");
        let Ok(namespace) = std::fs::read_link(of_process("ns/net")) else { continue };
        let sockets = tables.entry(namespace).or_insert_with(|| {
            let texts =
                ["net/tcp", "net/tcp6"].map(|name| std::fs::read_to_string(of_process(name)));
            let lines = texts.iter().flatten().flat_map(|text| text.lines());
            lines.filter_map(listening_socket).collect()
        });
        if sockets.is_empty() {
            continue;
        }
        let entries = std::fs::read_dir(of_process("fd")).into_iter().flatten();
        let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        found.extend(links.filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some((process, *sockets.get(&inode.parse().ok()?)?))
        }));
    }
    found
}

/// The inode and the place of a line of `/proc/net/tcp` about a socket that listens; addresses are words in the machine's order:
/// `0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 12345 1 …`
fn listening_socket(line: &str) -> Option<(u64, Listening)> {
    const LISTENS: &str = "0A";
    let mut words = line.split_ascii_whitespace();
    let (local, state) = (words.nth(1)?, words.nth(1)?);
    (state == LISTENS).then_some(())?;
    let (digits, port) = local.rsplit_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut address = [0; 16];
    for (number, word) in address.chunks_exact_mut(4).enumerate() {
        let Some(digits) = digits.get(number * 8..number * 8 + 8) else { break };
        word.copy_from_slice(&u32::from_str_radix(digits, 16).ok()?.to_ne_bytes());
    }
    let is_v6 = digits.len() == 32;
    Some((words.nth(5)?.parse().ok()?, Listening { is_v6, address, port }))
}

/// The counters of a process that is no kernel thread.
pub(crate) fn process_counters(process: u32) -> Option<ProcessCounters> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let size = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"));
    Some(ProcessCounters {
        faults: stat(&format!("/proc/{process}/stat"))?.faults,
        descriptors: descriptors.map_or(0, |entries| entries.count() as u32),
        peak_virtual: size("VmPeak:")?,
        peak_resident: size("VmHWM:")?,
        virtual_size: size("VmSize:")?,
        resident: size("VmRSS:")?,
        swapped: size("VmSwap:").unwrap_or(0),
        private: size("RssAnon:").unwrap_or(0),
    })
}

/// A thread of `/proc`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListedThread {
    pub id: u32,
    pub name: Vec<u8>,
    pub priority: i32,
    pub affinity: u64,
    pub has_ended: bool,
}

/// The exit status of a process that has ended, and whose parent does not know yet.
pub(crate) fn exit_status(process: u32) -> Option<u32> {
    let stat = stat(&format!("/proc/{process}/stat"))?;
    stat.has_ended.then(|| status_of(stat.wait_status))
}

/// The exit status of a thread that is on its way out, or whose end nobody has taken note of yet.
pub(crate) fn exit_status_of_thread(process: u32, thread: u32) -> Option<u32> {
    let stat = stat(&format!("/proc/{process}/task/{thread}/stat"))?;
    (!stat.runs_on()).then(|| status_of(stat.wait_status))
}

/// The threads of a process.
pub(crate) fn threads(process: u32) -> Vec<ListedThread> {
    let numbers = numbered(&format!("/proc/{process}/task"));
    let listed = numbers.into_iter().filter_map(|id| {
        let stat = stat(&format!("/proc/{process}/task/{id}/stat"))?;
        let Stat { name, priority, has_ended, .. } = stat;
        Some(ListedThread { id, name, priority, affinity: affinity_of(id), has_ended })
    });
    listed.collect()
}

/// Gives the mappings of a process, and whether they are executable. Returns the stack of its first thread.
pub(crate) fn each_mapping(process: u32, mut give: impl FnMut(&Mapping<'_>, bool)) -> StackBounds {
    let maps = std::fs::read(format!("{}/maps", living_folder(process))).unwrap_or_default();
    let mut stack = StackBounds::default();
    for line in maps.split(|byte| *byte == b'\n') {
        let line = &*with_line_breaks(line);
        if line.ends_with(b" [stack]")
            && let Some((limit, base)) = range_of_line(line)
        {
            stack = StackBounds { base, limit };
        }
        if let Some((mapping, is_executable)) = mapping_of_line(process, line) {
            give(&mapping, is_executable);
        }
    }
    stack
}

/// A part of a file in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedView {
    pub base: u64,
    pub size: u64,
    pub file: Arc<FileFacts>,
}

/// Files in the memory of processes. The files of lines that differ in their addresses alone are looked up once.
#[derive(Debug, Default)]
pub(crate) struct ListedViews {
    files: HashMap<Vec<u8>, Option<Arc<FileFacts>>>,
}

impl ListedViews {
    /// Those of a process. Files whose file system this user may not know are left out, if it has no device of its own.
    pub fn of_process(&mut self, process: u32) -> Vec<ListedView> {
        let folder = living_folder(process);
        let maps = std::fs::read(format!("{folder}/maps")).unwrap_or_default();
        let views = maps.split(|byte| *byte == b'\n').filter_map(|line| {
            let (base, end) = range_of_line(line)?;
            let of_file = after_words(line, 3);
            let file = match self.files.get(of_file) {
                Some(file) => file.clone(),
                None => {
                    let file = view_file(&folder, line).map(Arc::new);
                    self.files.insert(of_file.to_vec(), file.clone());
                    file
                }
            };
            Some(ListedView { base, size: end.checked_sub(base)?, file: file? })
        });
        views.collect()
    }
}

/// The rest of a line behind so many words.
fn after_words(line: &[u8], count: usize) -> &[u8] {
    (0..count).fold(line, |rest, _| {
        let at = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        rest[at..].trim_ascii_start()
    })
}

/// The file of a line of a process's mappings; `None`: it is memory of the process's own.
fn view_file(folder: &str, line: &[u8]) -> Option<FileFacts> {
    /// Memory that processes share without a file.
    const SHARED: &[u8] = b"/dev/zero (deleted)";
    let path = with_line_breaks(after_words(line, 5)).into_owned();
    (path.starts_with(b"/") && path != SHARED).then_some(())?;
    let mut words = line.split(|byte| *byte == b' ').map(|one| std::str::from_utf8(one).ok());
    let range = words.next()??;
    let id = id_of_words(words.nth(2)??, words.next()??)?;
    let id = match id.is_on_device() {
        true => id,
        // The list has the device of the file system's first subvolume, with numbers of any one.
        false => id_of(&std::fs::metadata(format!("{folder}/map_files/{range}")).ok()?),
    };
    Some(FileFacts { id, path })
}

/// The file of a device, as lists of mappings have it, and an inode.
fn id_of_words(device: &str, inode: &str) -> Option<FileId> {
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let device = number(major)? << 20 | number(minor)?;
    Some(FileId { device, inode: inode.parse().ok()?, address: 0 })
}

/// A line of a list of mappings; the kernel writes a line break of a name as `\\012`.
fn with_line_breaks(line: &[u8]) -> Cow<'_, [u8]> {
    const BREAK: &[u8] = b"\\012";
    let mut rest = line;
    let mut all = Vec::new();
    while let Some(at) = rest.windows(BREAK.len()).position(|part| part == BREAK) {
        all.extend([&rest[..at], b"\n"].concat());
        rest = &rest[at + BREAK.len()..];
    }
    if all.is_empty() { Cow::Borrowed(line) } else { Cow::Owned([&all, rest].concat()) }
}

/// The first address of a mapping, and that behind it.
fn range_of_line(line: &[u8]) -> Option<(u64, u64)> {
    let range = line.split(|byte| *byte == b' ').next()?;
    let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(start)?, hex(end)?))
}

/// The first 64 CPUs that a thread may use, a bit each; 0: not known.
pub(crate) fn affinity_of(thread: u32) -> u64 {
    let mut mask = [0u64; 128];
    // SAFETY: a mask that outlives the call, and its size. The kernel refuses one that is too small.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, thread, size_of_val(&mask), mask.as_mut_ptr())
    };
    if result > 0 { mask[0] } else { 0 }
}

/// `5581a000-5581c000 r-xp 00002000 fd:00 1234   /usr/bin/cat`
fn mapping_of_line(process: u32, line: &[u8]) -> Option<(Mapping<'_>, bool)> {
    let mut rest = line;
    let mut word = || {
        let at = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let word = &rest[..at];
        rest = rest[at..].trim_ascii_start();
        std::str::from_utf8(word).ok()
    };
    let (range, access, offset) = (word()?, word()?, word()?);
    let file = id_of_words(word()?, word()?).filter(|id| id.inode != 0);
    let is_executable = *access.as_bytes().get(2)? == b'x';
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (address, end) = range_of_line(range.as_bytes())?;
    let size = end.checked_sub(address)?;
    // Code that was compiled at run time has no name; perf's records give it this one.
    let path = if rest.is_empty() { b"//anon" } else { rest };
    let offset = hex(offset)?;
    let mapping = Mapping { process, address, size, offset, build_id: &[], file, path };
    Some((mapping, is_executable))
}

/// Whether two processes have one memory, as far as this one may ask.
pub(crate) fn have_one_memory(one: u32, other: u32) -> bool {
    /// `KCMP_VM`
    const MEMORY: libc::c_int = 1;
    // SAFETY: numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, MEMORY, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// OV-23: the unit of a process is the last part of its control group.
    #[test]
    fn a_process_has_the_unit_of_its_control_group() {
        for (groups, unit) in [
            (&b"0::/system.slice/cron.service\n"[..], Some(&b"cron.service"[..])),
            (
                b"3:cpu:/x\n1:name=systemd:/user.slice/session-2.scope\n0::/\n",
                Some(b"session-2.scope"),
            ),
            (b"0::/docker/cb7e\n", Some(b"cb7e")),
            (b"4:memory:/other\n0::/\n", Some(b"")),
            (b"nothing", Some(b"")),
            (b"", None),
        ] {
            assert_eq!(unit_in(groups).as_deref(), unit, "{groups:?}");
        }
    }

    /// OV-23: a process that another one has displaced while it ended is no program that runs on.
    #[test]
    fn a_process_that_has_begun_to_end_does_not_run_on() {
        let line = |state: char, flags: u64| {
            let rest = format!("{state} 1 7 7 0 -1 {flags} 9 0 0 0 1 0 0 0 20 0 1 0 1234 0 0");
            stat_of(format!("7 (a) R) {rest}").as_bytes()).unwrap()
        };
        // PF_RANDOMIZE and PF_FORKNOEXEC.
        let flags = 0x40_0040;
        assert!(line('R', flags).runs_on() && line('S', flags).runs_on());
        for state in ['R', 'D', 'Z', 'X'] {
            assert!(!line(state, flags | EXITING).runs_on(), "{state}");
        }
        assert!(runs_on(std::process::id()));
    }

    #[test]
    fn this_process_and_its_mappings_are_listed() {
        let own = std::process::id();
        let facts = process_facts(own).unwrap();
        assert!(!facts.is_kernel && facts.exec.path.starts_with(b"/") && facts.start > 0);
        assert!(threads(own).iter().any(|thread| thread.id == own));
        let mut program = Vec::new();
        each_mapping(own, |mapping, is_executable| {
            if is_executable && mapping.path == facts.exec.path {
                program.push(mapping.address..mapping.address + mapping.size);
            }
        });
        let address = this_process_and_its_mappings_are_listed as *const () as u64;
        assert!(program.iter().any(|one| one.contains(&address)));
    }

    /// A process has the folder of all its threads, or none that is known.
    #[test]
    fn a_process_whose_threads_have_several_folders_has_none() {
        let (done, until) = std::sync::mpsc::channel::<()>();
        let (tell, here) = std::sync::mpsc::channel();
        let own = std::process::id();
        let folder = std::env::current_dir().unwrap();
        assert_eq!(working_folder(own), folder.as_os_str().as_bytes());
        let other = std::thread::spawn(move || {
            // SAFETY: numbers, and a text with a NUL.
            let results =
                unsafe { [libc::unshare(libc::CLONE_FS), libc::chdir(c"/proc".as_ptr())] };
            tell.send(results).unwrap();
            until.recv().unwrap_err();
        });
        assert_eq!(here.recv().unwrap(), [0, 0]);
        let of_several = working_folder(own);
        drop(done);
        other.join().unwrap();
        assert_eq!(of_several, b"");
    }

    /// A mapped file is the one that its descriptor names; other memory is no file's.
    #[test]
    fn mapped_files_of_this_process_are_listed() {
        use std::os::fd::AsRawFd;
        const SIZE: usize = 3 << 12;
        let own = std::process::id();
        let path = std::env::temp_dir().join(format!("etw views-{own}"));
        let file = File::create_new(&path).unwrap();
        let map = |flags, file| {
            // SAFETY: new memory, which is not used.
            let at =
                unsafe { libc::mmap(std::ptr::null_mut(), SIZE, libc::PROT_NONE, flags, file, 0) };
            assert_ne!(at, libc::MAP_FAILED);
            at
        };
        let of_file = map(libc::MAP_SHARED, file.as_raw_fd());
        let shared = map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
        let mut listed = ListedViews::default();
        let [views, again] = [(); 2].map(|()| listed.of_process(own));
        let facts = file_facts(own, file.as_raw_fd()).unwrap();
        for at in [of_file, shared] {
            // SAFETY: the memory from above.
            assert_eq!(unsafe { libc::munmap(at, SIZE) }, 0);
        }
        std::fs::remove_file(&path).unwrap();
        let at = |at: *mut libc::c_void| views.iter().find(|one| one.base == at as u64);
        let Some(view) = at(of_file) else {
            let is_root = user(own) == Some(0);
            assert!(!facts.id.is_on_device() && !is_root, "{views:?}");
            return;
        };
        assert_eq!((view.size, &*view.file), (SIZE as u64, &facts));
        assert!(at(shared).is_none() && again.contains(view));
    }

    /// A copy of a program that is named oddly has that name in the lists of its process.
    #[test]
    fn odd_names_of_programs_are_read() {
        let folder = std::env::temp_dir().join(format!("etw-odd-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        for name in ["two\nlines", "old (deleted)"] {
            for is_deleted in [false, true] {
                let path = folder.join(name);
                std::fs::copy("/bin/sleep", &path).unwrap();
                let mut child = std::process::Command::new(&path).arg("1000").spawn().unwrap();
                if is_deleted {
                    std::fs::remove_file(&path).unwrap();
                }
                let program = exec_facts(child.id(), b"", false, None).path;
                let mut images = Vec::new();
                // The kernel may still load it.
                while images.len() < 3 {
                    images.clear();
                    each_mapping(child.id(), |mapping, is_executable| {
                        images.extend(is_executable.then(|| mapping.path.to_vec()));
                    });
                }
                child.kill().unwrap();
                child.wait().unwrap();
                let path = path.as_os_str().as_bytes();
                assert_eq!(program, path);
                let remark = if is_deleted { DELETED } else { b"" };
                assert!(images.contains(&[path, remark].concat()), "{images:?}");
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn lines_of_maps_with_spaces_in_names_are_read() {
        let line = b"5581a000-5581c000 r-xp 00002000 fd:00 1234    /tmp/a b (deleted)";
        let (mapping, is_executable) = mapping_of_line(7, line).unwrap();
        assert!(is_executable);
        assert_eq!((mapping.address, mapping.size, mapping.offset), (0x5581_a000, 0x2000, 0x2000));
        assert_eq!(mapping.path, b"/tmp/a b (deleted)");
        assert!(!mapping_of_line(7, b"1000-2000 rw-p 0 0:0 0 /x").unwrap().1);
        let (compiled, _) = mapping_of_line(7, b"1000-2000 r-xp 0 0:0 0").unwrap();
        assert_eq!((compiled.address, compiled.path), (0x1000, &b"//anon"[..]));
        assert_eq!(mapping_of_line(7, b""), None);
    }
}
