//! Links of the chain that belong to the machine: clock, kernel, shared memory.

use super::Report;
use etw_host::part::{PartState, part_memory};
use etw_system::{ProcError, check_proc};
use etw_wire::runtime_directory::Directory;
use std::collections::BTreeSet;
use std::path::Path;

/// Where private sessions have their memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// Clock sources that programs read without a system call.
const FAST_CLOCKS: [&str; 4] =
    ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];

/// Facts of the machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    clock_source: Option<String>,
    kernel: Option<String>,
    has_membarrier: bool,
    has_memory_files: bool,
    /// Free bytes of `/dev/shm`.
    shared_memory: Option<u64>,
    /// This user may create files there.
    is_shared_memory_writable: bool,
    /// Facts of processes cannot be read.
    proc: Option<ProcError>,
}

impl Machine {
    pub fn read() -> Machine {
        // SAFETY: system calls that take numbers and change nothing.
        let (membarrier, memory) = unsafe {
            let memory = libc::syscall(libc::SYS_memfd_create, c"etw-doctor".as_ptr(), 3u32);
            if memory >= 0 {
                libc::close(memory as i32);
            }
            (libc::syscall(libc::SYS_membarrier, 0, 0, 0), memory)
        };
        Machine {
            clock_source: first_line(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            has_membarrier: membarrier > 0,
            has_memory_files: memory >= 0,
            shared_memory: FileSystem::of(Path::new(SHARED_MEMORY)).map(|it| it.free),
            is_shared_memory_writable: Directory::is_writable(Path::new(SHARED_MEMORY)),
            proc: check_proc().err(),
        }
    }

    pub fn check(&self, report: &mut Report) {
        match self.clock_source.as_deref() {
            Some(name) if FAST_CLOCKS.contains(&name) => {
                report.ok("clock", format!("{name}, read without a system call"));
            }
            Some(name) => report.note(
                "clock",
                format!(
                    "{name}: each event's timestamp costs a system call; if the kernel found the processor's counter \
                     unstable, dmesg says so (clocksource)"
                ),
            ),
            None => report.note("clock", "the kernel does not name its clock source"),
        }
        if let Some(version) = &self.kernel {
            report.ok("kernel", version);
        }
        match self.has_membarrier {
            true => report.ok("kernel", "membarrier"),
            false => report.note("kernel", "no membarrier: each write costs a fence"),
        }
        match self.has_memory_files {
            true => report.ok("kernel", "memory files with seals"),
            false => report.wrong(
                "kernel",
                "memfd_create is not allowed, so programs can have no pool",
                "allow memfd_create in the seccomp profile of the container",
            ),
        }
        if let Some(error) = self.proc {
            let what = match error {
                ProcError::Missing => {
                    "/proc is not mounted: processes cannot be checked, and hosts do not learn their names"
                }
                _ => {
                    "/proc has the processes of another PID namespace: system events cannot be recorded, and hosts know programs by other ids"
                }
            };
            report.wrong("kernel", what, error.remedy());
        }
        const LINK: &str = "shared memory";
        match self.shared_memory {
            Some(free) if free < 32 << 20 => {
                let what = format!(
                    "{SHARED_MEMORY} has {} MiB left; private sessions need 16",
                    free >> 20
                );
                report.wrong(LINK, what, "remove what is not needed there, or enlarge it");
            }
            Some(_) if !self.is_shared_memory_writable => report.wrong(
                LINK,
                format!(
                    "you cannot create files in {SHARED_MEMORY}: private sessions keep their memory on the disk of their \
                     traces, where writers wait for it"
                ),
                format!("mount -o remount,rw {SHARED_MEMORY}; chmod 1777 {SHARED_MEMORY}"),
            ),
            Some(free) => report.ok(LINK, format!("{SHARED_MEMORY} has {} MiB left", free >> 20)),
            None => report.wrong(
                LINK,
                format!(
                    "there is no {SHARED_MEMORY}: private sessions keep their memory on the disk of their traces, \
                     where writers wait for it"
                ),
                format!("mount a tmpfs at {SHARED_MEMORY}"),
            ),
        }
    }
}

/// Descriptors that a host or a program with some sessions needs.
const NEEDED_DESCRIPTORS: u64 = 256;

/// Checks what this shell permits to the programs and hosts that it starts.
pub fn check_limits(report: &mut Report) {
    let limit = |kind| {
        // SAFETY: space for the answer.
        let limit = unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            (libc::getrlimit(kind, &raw mut limit) == 0).then_some(limit.rlim_cur)?
        };
        (limit != libc::RLIM_INFINITY).then_some(limit)
    };
    let limits = Limits {
        descriptors: limit(libc::RLIMIT_NOFILE),
        file_size: limit(libc::RLIMIT_FSIZE),
        memory: limit(libc::RLIMIT_AS),
        data: limit(libc::RLIMIT_DATA),
    };
    limits.check(report);
}

/// Limits of a process; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    descriptors: Option<u64>,
    /// Bytes of a file.
    file_size: Option<u64>,
    /// Bytes of memory.
    memory: Option<u64>,
    /// Bytes of private memory.
    data: Option<u64>,
}

impl Limits {
    fn check(&self, report: &mut Report) {
        const LINK: &str = "limits";
        match self.descriptors {
            Some(limit) if limit < NEEDED_DESCRIPTORS => {
                let what = format!(
                    "at most {limit} open files for a process: a host needs several for each program"
                );
                report.wrong(LINK, what, "ulimit -n 1024, or LimitNOFILE= of the service");
            }
            Some(limit) => report.ok(LINK, format!("{limit} open files for a process")),
            None => report.ok(LINK, "any number of open files"),
        }
        if let Some(limit) = self.file_size {
            let what = format!("files may have at most {} KiB: a trace then ends", limit >> 10);
            report.wrong(LINK, what, "ulimit -f unlimited, or LimitFSIZE=infinity");
        }
        if let Some(limit) = self.memory.filter(|limit| *limit < 1 << 30) {
            let what =
                format!("a process may have {} MiB of memory: a host maps pools", limit >> 20);
            report.wrong(LINK, what, "ulimit -v unlimited, or LimitAS=infinity");
        }
        if let Some(limit) = self.data.filter(|limit| *limit < 256 << 20) {
            let what = format!(
                "a process may have {} MiB of data: a host's threads and buffers need more",
                limit >> 20
            );
            report.wrong(LINK, what, "ulimit -d unlimited, or LimitDATA=infinity");
        }
    }
}

/// Lists the memory of private sessions in `/dev/shm`: whether it is in use, which trace it belongs to, and its size.
pub fn check_left_memory(report: &mut Report) {
    const LINK: &str = "shared memory";
    for memory in part_memory() {
        let (path, size, trace) = (memory.path.display(), memory.size / 1024, memory.trace());
        let trace = trace.display();
        match memory.state {
            PartState::InUse => report.ok(LINK, format!("{path}: {size} KiB, in use, of {trace}")),
            PartState::Left => report.note(
                LINK,
                format!(
                    "{path}: {size} KiB that a killed program left; etw repair {trace} completes its trace"
                ),
            ),
            PartState::Orphaned => report.wrong(
                LINK,
                format!(
                    "{path}: {size} KiB that a killed program left; its trace {trace} has no .part any more"
                ),
                format!("the next etw record, daemon or repair removes it; or rm {path}"),
            ),
        }
    }
}

/// Space and files that a file system still takes from this user.
#[derive(Clone, Copy, Debug)]
pub struct FileSystem {
    /// Bytes.
    pub free: u64,
    /// It counts its files, and has space for no other one.
    pub has_no_inodes: bool,
    pub is_read_only: bool,
}

impl FileSystem {
    /// The file system of a folder.
    pub fn of(folder: &Path) -> Option<FileSystem> {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
        // SAFETY: a path that ends with zero, and space for the answer.
        let stat = unsafe {
            let mut stat: libc::statvfs = std::mem::zeroed();
            (libc::statvfs(path.as_ptr(), &raw mut stat) == 0).then_some(stat)?
        };
        Some(FileSystem {
            free: (stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64),
            has_no_inodes: stat.f_files > 0 && stat.f_favail == 0,
            is_read_only: stat.f_flag & libc::ST_RDONLY != 0,
        })
    }

    /// No file can be created.
    pub fn is_full(&self) -> bool {
        self.free == 0 || self.has_no_inodes
    }
}

/// Checks the installed manifests and packs, and the settings of channels, which hosts and readers use.
pub fn check_manifests(report: &mut Report) {
    let mut notes = BTreeSet::new();
    let mut note = |note| {
        notes.insert(note);
    };
    etw_decode::registered::catalog(&mut note);
    etw_eventlog::registry::Registry::load(&mut note);
    for note in notes {
        let fix = "etw manifest install FILE.man installs a manifest again; remove the file if nothing needs it";
        report.wrong("manifests", note, fix);
    }
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Machine {
        Machine {
            clock_source: Some("tsc".to_owned()),
            kernel: Some("6.12.0".to_owned()),
            has_membarrier: true,
            has_memory_files: true,
            shared_memory: Some(1 << 30),
            is_shared_memory_writable: true,
            proc: None,
        }
    }

    fn report(machine: &Machine) -> Report {
        let mut report = Report::default();
        machine.check(&mut report);
        report
    }

    #[test]
    fn a_sound_machine_has_nothing_wrong() {
        let report = report(&sound());
        assert_eq!(report.wrong, 0, "{}", report.text);
        assert!(!report.text.contains("note"), "{}", report.text);
    }

    #[test]
    fn each_missing_feature_of_the_machine_is_found() {
        let other = Some(ProcError::OtherNamespace);
        let broken: [(Machine, bool, &str); 8] = [
            (Machine { proc: Some(ProcError::Missing), ..sound() }, true, "/proc is not mounted"),
            (Machine { proc: other, ..sound() }, true, "another PID namespace"),
            (
                Machine { is_shared_memory_writable: false, ..sound() },
                true,
                "you cannot create files in /dev/shm",
            ),
            (Machine { shared_memory: None, ..sound() }, true, "there is no /dev/shm"),
            (
                Machine { clock_source: Some("hpet".to_owned()), ..sound() },
                false,
                "hpet: each event's",
            ),
            (Machine { has_membarrier: false, ..sound() }, false, "no membarrier"),
            (Machine { has_memory_files: false, ..sound() }, true, "memfd_create is not allowed"),
            (Machine { shared_memory: Some(1 << 20), ..sound() }, true, "has 1 MiB left"),
        ];
        for (machine, is_wrong, expected) in broken {
            let Report { text, wrong, .. } = report(&machine);
            assert!(text.contains(expected), "{expected}: {text}");
            assert_eq!(wrong, u32::from(is_wrong), "{text}");
            assert_eq!(text.contains("fix: "), is_wrong, "{text}");
        }
    }

    #[test]
    fn limits_that_stop_a_recording_are_found() {
        let check = |limits: Limits| {
            let mut report = Report::default();
            limits.check(&mut report);
            report
        };
        assert_eq!(check(Limits::default()).wrong, 0);
        assert_eq!(check(Limits { descriptors: Some(1024), ..Limits::default() }).wrong, 0);
        for (limits, expected) in [
            (Limits { descriptors: Some(64), ..Limits::default() }, "at most 64 open files"),
            (Limits { file_size: Some(1 << 20), ..Limits::default() }, "at most 1024 KiB"),
            (Limits { memory: Some(64 << 20), ..Limits::default() }, "64 MiB of memory"),
            (Limits { data: Some(32 << 20), ..Limits::default() }, "32 MiB of data"),
        ] {
            let report = check(limits);
            assert!(report.text.contains(expected) && report.wrong == 1, "{}", report.text);
        }
    }
}
