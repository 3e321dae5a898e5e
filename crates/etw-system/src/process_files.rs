//! Processes, threads and mappings as `/proc` lists them, and the files that are mapped.

use std::borrow::Cow;
#[cfg(feature = "unwind")]
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::elf::{ElfFile, Extent};
use crate::exit_statuses::status_of;
use crate::neutral::{
    ExecFacts, FileFacts, FileId, Image, Listening, ProcessCounters, ProcessFacts, StackBounds,
};
use crate::perf::Mapping;
use crate::process_root::{LastLink, open_here, open_in_root, path_of};
#[cfg(feature = "unwind")]
use crate::unwind::{FileIdentity, MappedFiles};

/// PF_KTHREAD
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Ticks of `/proc` in a second.
const TICKS: u64 = 100;
/// Real-time and normal priorities of `stat` lie so much below those of the scheduler.
const PRIORITY_SHIFT: i32 = 100;
/// Longer command lines are cut: no record holds them.
const MAX_ARGUMENTS: usize = 64 << 10;
/// Files that are remembered. Those of programs that run again and again are soon known again.
const MAX_FILES: usize = 1 << 10;

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
    let bytes = std::fs::read(path).ok()?;
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

/// Whether a process has not ended. One that nobody has waited for yet has.
pub(crate) fn is_running(process: u32) -> bool {
    stat(&format!("/proc/{process}/stat")).is_some_and(|stat| !stat.has_ended)
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
    let mut arguments = match path.is_empty() || !needs_arguments {
        // The process has ended, or this user may not see it; or the caller has them.
        true => Vec::new(),
        false => arguments(&folder),
    };
    arguments.truncate(MAX_ARGUMENTS);
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
    for _ in 0..TRIES {
        match std::fs::read(format!("{folder}/cmdline")) {
            Ok(arguments) if arguments.is_empty() => std::thread::sleep(PAUSE),
            Ok(arguments) => return arguments,
            Err(_) => break,
        }
    }
    Vec::new()
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
            false => link_text(&format!("{}/cwd", living_folder(id))),
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
    let metadata = std::fs::metadata(&link).ok()?;
    let device = metadata.dev();
    let device = libc::major(device) << 20 | libc::minor(device) & 0xf_ffff;
    Some(FileFacts { id: FileId { device, inode: metadata.ino() }, path })
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

/// Gives the executable mappings of a process. Returns the stack of its first thread.
pub(crate) fn each_mapping(process: u32, mut give: impl FnMut(&Mapping<'_>)) -> StackBounds {
    let maps = std::fs::read(format!("{}/maps", living_folder(process))).unwrap_or_default();
    let mut stack = StackBounds::default();
    for line in maps.split(|byte| *byte == b'\n') {
        let line = &*with_line_breaks(line);
        if line.ends_with(b" [stack]")
            && let Some((limit, base)) = range_of_line(line)
        {
            stack = StackBounds { base, limit };
        }
        if let Some(mapping) = mapping_of_line(process, line) {
            give(&mapping);
        }
    }
    stack
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
fn mapping_of_line(process: u32, line: &[u8]) -> Option<Mapping<'_>> {
    let mut rest = line;
    let mut word = || {
        let at = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let word = &rest[..at];
        rest = rest[at..].trim_ascii_start();
        std::str::from_utf8(word).ok()
    };
    let (range, access, offset) = (word()?, word()?, word()?);
    let _device_and_inode = (word()?, word()?);
    (access.as_bytes().get(2) == Some(&b'x')).then_some(())?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (address, end) = range_of_line(range.as_bytes())?;
    let size = end.checked_sub(address)?;
    // Code that was compiled at run time has no name; perf's records give it this one.
    let path = if rest.is_empty() { b"//anon" } else { rest };
    Some(Mapping { process, address, size, offset: hex(offset)?, build_id: &[], path })
}

/// Images of mappings, with what is known of their files.
#[derive(Debug, Default)]
pub(crate) struct Images {
    files: HashMap<Vec<u8>, Option<ElfFile>>,
}

impl Images {
    /// The image of a mapping.
    pub fn image(&mut self, mapping: &Mapping<'_>) -> Arc<Image> {
        let whole = Extent {
            base: mapping.address.saturating_sub(mapping.offset),
            size: mapping.size.saturating_add(mapping.offset.min(mapping.address)),
            ..Extent::default()
        };
        let is_file = mapping.path.starts_with(b"/") && !mapping.path.starts_with(b"//");
        let file = if is_file { self.file(mapping) } else { None };
        let extent = file.and_then(|file| file.extent(mapping.address, mapping.offset));
        let build_id = match mapping.build_id {
            [] => file.map_or(Vec::new(), |file| file.build_id.clone()),
            known => known.to_vec(),
        };
        let Extent { base, size, default_base, entry } = extent.unwrap_or(match is_file {
            true => whole,
            false => Extent { base: mapping.address, size: mapping.size, ..Extent::default() },
        });
        let path = mapping.path.to_vec();
        let is_32_bit = file.is_some_and(|file| file.is_32_bit);
        Arc::new(Image { base, size, default_base, path, build_id, entry, is_32_bit })
    }

    fn file(&mut self, mapping: &Mapping<'_>) -> Option<&ElfFile> {
        let known = self.files.get(mapping.path);
        let is_same =
            |file: &ElfFile| mapping.build_id.is_empty() || file.build_id == mapping.build_id;
        // A file may be replaced by another one of its name.
        if !known.is_some_and(|file| file.as_ref().is_none_or(is_same)) {
            if self.files.len() >= MAX_FILES {
                self.files.clear();
            }
            self.files.insert(mapping.path.to_vec(), read_file(mapping));
        }
        self.files.get(mapping.path)?.as_ref()
    }
}

/// Reads the headers of a mapped file, as its process sees it.
fn read_file(mapping: &Mapping<'_>) -> Option<ElfFile> {
    let file = open_file(mapping.process, mapping.path)?;
    ElfFile::read(|at, size| read_bytes(&file, at, size))
}

fn open_file(process: u32, path: &[u8]) -> Option<File> {
    path.starts_with(b"/").then_some(())?;
    let program = || {
        let link = PathBuf::from(format!("/proc/{process}/exe"));
        // The link of a deleted file has the path with a remark.
        let target = std::fs::read_link(&link).ok()?.into_os_string().into_vec();
        let is_it = target == path || target.strip_suffix(DELETED) == Some(path);
        is_it.then(|| open_here(&link, LastLink::Followed).ok()).flatten()
    };
    let named = open_in_root(process, path_of(path), LastLink::Followed);
    let named = named.or_else(|_| open_here(path_of(path), LastLink::Followed));
    named.ok().or_else(program)
}

/// The end of the name of a file that has been deleted.
pub(crate) const DELETED: &[u8] = b" (deleted)";

fn read_bytes(file: &File, at: u64, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size];
    let count = file.read_at(&mut bytes, at).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

/// Files that are open while the records of one poll are read: mostly one file has several of the wanted rules. Open for longer, they
/// would keep others from unmounting them.
#[cfg(feature = "unwind")]
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(RefCell<Vec<OpenFile>>);

#[cfg(feature = "unwind")]
#[derive(Debug)]
struct OpenFile {
    process: u32,
    path: Vec<u8>,
    file: File,
    identity: Option<FileIdentity>,
}

#[cfg(feature = "unwind")]
impl OpenFiles {
    const MAX: usize = 16;

    /// Closes them.
    pub fn close(&mut self) {
        self.0.get_mut().clear();
    }

    fn with<T>(&self, process: u32, path: &[u8], use_it: impl FnOnce(&OpenFile) -> T) -> Option<T> {
        let mut all = self.0.borrow_mut();
        let known = all.iter().position(|one| one.process == process && one.path == path);
        let at = match known {
            Some(at) => at,
            None => {
                let file = open_file(process, path)?;
                let identity = identity_of(&file);
                if all.len() >= Self::MAX {
                    all.remove(0);
                }
                all.push(OpenFile { process, path: path.to_vec(), file, identity });
                all.len() - 1
            }
        };
        all.get(at).map(use_it)
    }
}

/// The files of a process, as it sees them, and the code that the kernel maps into all processes.
#[cfg(feature = "unwind")]
#[derive(Debug)]
pub(crate) struct FilesOf<'f> {
    pub process: u32,
    pub open: &'f OpenFiles,
}

#[cfg(feature = "unwind")]
fn identity_of(file: &File) -> Option<FileIdentity> {
    let data = file.metadata().ok()?;
    let changed = i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec());
    Some(FileIdentity { device: data.dev(), inode: data.ino(), changed })
}

#[cfg(feature = "unwind")]
impl MappedFiles for FilesOf<'_> {
    fn identity(&self, path: &[u8]) -> Option<FileIdentity> {
        match path {
            b"[vdso]" => Some(FileIdentity::default()),
            _ => self.open.with(self.process, path, |one| one.identity)?,
        }
    }

    fn read(
        &self,
        path: &[u8],
        wanted: Option<FileIdentity>,
        at: u64,
        size: usize,
    ) -> Option<Vec<u8>> {
        if path == b"[vdso]" {
            static VDSO: std::sync::OnceLock<Option<Vec<u8>>> = std::sync::OnceLock::new();
            let bytes = VDSO.get_or_init(own_vdso).as_ref()?;
            let rest = bytes.get(usize::try_from(at).ok()?..).unwrap_or_default();
            return Some(rest[..size.min(rest.len())].to_vec());
        }
        let read = |one: &OpenFile| {
            (wanted.is_some() && one.identity == wanted).then_some(())?;
            read_bytes(&one.file, at, size)
        };
        self.open.with(self.process, path, read)?
    }
}

/// This process's copy of the kernel's `[vdso]`: those of all 64-bit processes are the same.
#[cfg(feature = "unwind")]
fn own_vdso() -> Option<Vec<u8>> {
    let mut found = None;
    each_mapping(std::process::id(), |mapping| {
        if mapping.path == b"[vdso]" {
            found = Some((mapping.address, mapping.size));
        }
    });
    let (address, size) = found?;
    let memory = File::open("/proc/self/mem").ok()?;
    read_bytes(&memory, address, usize::try_from(size).ok()?)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn this_process_and_its_mappings_are_listed() {
        let own = std::process::id();
        let facts = process_facts(own).unwrap();
        assert!(!facts.is_kernel && facts.exec.path.starts_with(b"/") && facts.start > 0);
        assert!(threads(own).iter().any(|thread| thread.id == own));
        let mut images = Images::default();
        let mut found = Vec::new();
        each_mapping(own, |mapping| found.push(images.image(mapping)));
        let program = found.iter().find(|image| image.path == facts.exec.path).unwrap();
        let address = this_process_and_its_mappings_are_listed as *const () as u64;
        assert!((program.base..program.base + program.size).contains(&address));
    }

    #[cfg(feature = "unwind")]
    #[test]
    fn the_vdso_is_read_from_memory() {
        let own = std::process::id();
        let mut has_one = false;
        each_mapping(own, |mapping| has_one |= mapping.path == b"[vdso]");
        // Some machines run without one.
        let wanted = has_one.then(|| b"\x7fELF\x02\x01".to_vec());
        let vdso = Some(FileIdentity::default());
        let files = FilesOf { process: own, open: &OpenFiles::default() };
        assert_eq!(files.read(b"[vdso]", vdso, 0, 6), wanted);
    }

    #[test]
    fn a_file_that_is_a_pipe_by_now_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("etw-pipe-{}", std::process::id()));
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a text with a NUL, and a number.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let opened = open_file(std::process::id(), path.as_os_str().as_bytes());
        std::fs::remove_file(&path).unwrap();
        assert!(opened.is_none());
    }

    #[test]
    fn a_deleted_program_is_read_from_its_process() {
        let path = std::env::temp_dir().join(format!("etw-deleted-{}", std::process::id()));
        std::fs::copy("/bin/sleep", &path).unwrap();
        let mut child = std::process::Command::new(&path).arg("1000").spawn().unwrap();
        std::fs::remove_file(&path).unwrap();
        let opened = open_file(child.id(), path.as_os_str().as_bytes());
        let other = open_file(child.id(), b"/no/such/file");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(opened.is_some() && other.is_none());
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
                    each_mapping(child.id(), |mapping| images.push(mapping.path.to_vec()));
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
        let mapping = mapping_of_line(7, line).unwrap();
        assert_eq!((mapping.address, mapping.size, mapping.offset), (0x5581_a000, 0x2000, 0x2000));
        assert_eq!(mapping.path, b"/tmp/a b (deleted)");
        assert_eq!(mapping_of_line(7, b"1000-2000 rw-p 0 0:0 0 /x"), None);
        let compiled = mapping_of_line(7, b"1000-2000 r-xp 0 0:0 0").unwrap();
        assert_eq!((compiled.address, compiled.path), (0x1000, &b"//anon"[..]));
        assert_eq!(mapping_of_line(7, b""), None);
    }
}
