//! Rights of this process: its capabilities, its namespaces, filters of its system calls, and what `/proc` shows to it.

use std::fmt;
use std::io;
use std::path::Path;

/// The numbers of capabilities, as `capabilities(7)` has them.
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// `SECCOMP_MODE_FILTER`
const FILTER: &str = "2";

/// A file of `/proc`; an empty text if it cannot be read.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// `kernel.perf_event_paranoid`; `None`: it cannot be read.
pub(crate) fn paranoid() -> Option<i32> {
    read("/proc/sys/kernel/perf_event_paranoid").trim().parse().ok()
}

/// The rights of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnRights {
    /// The effective capabilities, a bit each.
    capabilities: u64,
    /// A program filters its system calls.
    is_filtered: bool,
    /// Its capabilities are those in a user namespace, which perf does not take.
    is_in_user_namespace: bool,
}

impl OwnRights {
    pub fn read() -> OwnRights {
        OwnRights::of(&read("/proc/self/status"), &read("/proc/self/uid_map"))
    }

    pub fn of(status: &str, users: &str) -> OwnRights {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let capabilities = field("CapEff:").map(|set| u64::from_str_radix(set.trim(), 16));
        // The machine's own namespace maps all users to themselves.
        let is_own = |line: &str| line.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
        OwnRights {
            capabilities: capabilities.and_then(Result::ok).unwrap_or(0),
            is_filtered: field("Seccomp:").is_some_and(|mode| mode.trim() == FILTER),
            is_in_user_namespace: !users.is_empty() && !users.lines().any(is_own),
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 != 0
    }

    /// The right to see the memory of all processes.
    pub fn has_ptrace(&self) -> bool {
        self.has(CAP_SYS_PTRACE)
    }

    /// The right to lock as much memory as it likes, which rings in the machine's user namespace need.
    pub fn has_ipc_lock(&self) -> bool {
        self.has(CAP_IPC_LOCK) && !self.is_in_user_namespace
    }

    /// The capabilities that it lacks for programs that record tracepoints. Those in a user namespace count for nothing.
    pub fn missing_for_programs(&self) -> Option<&'static str> {
        match (self.has(CAP_PERFMON), self.has(CAP_BPF)) {
            _ if self.has(CAP_SYS_ADMIN) => None,
            (true, true) => None,
            (true, false) => Some("CAP_BPF"),
            (false, true) => Some("CAP_PERFMON"),
            (false, false) => Some("CAP_PERFMON and CAP_BPF"),
        }
    }

    /// The right to record tracepoints of the whole machine by perf. `paranoid`: `kernel.perf_event_paranoid`, if it can be read.
    pub fn may_record_tracepoints(&self, paranoid: Option<i32>) -> bool {
        self.may_record(paranoid, -1)
    }

    /// The right to events of the whole machine that everybody has up to this level.
    fn may_record(&self, paranoid: Option<i32>, highest: i32) -> bool {
        paranoid.is_some_and(|level| level <= highest)
            || !self.is_in_user_namespace && (self.has(CAP_PERFMON) || self.has(CAP_SYS_ADMIN))
    }

    /// Whether it is in another user namespace than the machine's.
    pub fn is_in_user_namespace(&self) -> bool {
        self.is_in_user_namespace
    }

    /// Why the kernel refuses perf events of the whole machine with this error.
    fn refusal(&self, error: &io::Error, paranoid: Option<i32>) -> Refusal {
        let number = error.raw_os_error();
        let may_record = self.may_record(paranoid, 0);
        match () {
            () if number == Some(libc::ENOSYS) => Refusal::NoPerf,
            // The kernel itself refuses the machine with EACCES.
            () if self.is_filtered && (may_record || number == Some(libc::EPERM)) => {
                Refusal::Filter
            }
            () if may_record => Refusal::Module,
            () if self.is_in_user_namespace => Refusal::UserNamespace { paranoid },
            () => Refusal::Rights { paranoid },
        }
    }
}

/// Why the kernel refuses perf events of the whole machine. Its text says what happened, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has no such system call, or a filter hides it.
    NoPerf,
    /// A filter of system calls refuses it.
    Filter,
    /// This process has the right, and the system call is not filtered.
    Module,
    /// Capabilities in a user namespace are none for perf.
    UserNamespace {
        /// `kernel.perf_event_paranoid`, if it can be read.
        paranoid: Option<i32>,
    },
    /// This process has no right.
    Rights {
        /// `kernel.perf_event_paranoid`, if it can be read.
        paranoid: Option<i32>,
    },
}

impl Refusal {
    /// Why `perf_event_open` failed with this error.
    pub(crate) fn of(error: &io::Error) -> Refusal {
        OwnRights::read().refusal(error, paranoid())
    }

    /// The reason.
    pub fn reason(&self) -> String {
        let level = |paranoid: &Option<i32>| match paranoid {
            Some(level) => format!("kernel.perf_event_paranoid is {level}"),
            None => "kernel.perf_event_paranoid cannot be read".to_owned(),
        };
        match self {
            Refusal::NoPerf => {
                "the kernel has no perf events, or a seccomp filter hides them".to_owned()
            }
            Refusal::Filter => {
                "a seccomp filter, such as a container's, refuses perf_event_open".to_owned()
            }
            Refusal::Module => "this process has the right, but a security module or the kernel's lockdown refuses perf_event_open".to_owned(),
            Refusal::UserNamespace { paranoid } => {
                level(paranoid) + ", and capabilities in a user namespace do not count"
            }
            Refusal::Rights { paranoid } => level(paranoid),
        }
    }

    /// The change that lets this process record the machine.
    pub fn remedy(&self) -> &'static str {
        match self {
            Refusal::NoPerf => {
                "permit perf_event_open in the filter, or use a kernel with CONFIG_PERF_EVENTS"
            }
            Refusal::Filter => "permit it in the filter (docker run --security-opt seccomp=FILE)",
            Refusal::Module => "dmesg and ausearch -m avc show what refuses it",
            Refusal::UserNamespace { .. } => {
                "run outside of it as root or with CAP_PERFMON, or set kernel.perf_event_paranoid to 0"
            }
            Refusal::Rights { .. } => "run as root, or give CAP_PERFMON",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason(), self.remedy())
    }
}

/// A `/proc` by which no system event can be recorded. Its text says what happened, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcError {
    /// It is not mounted.
    Missing,
    /// Its ids are those of another PID namespace: they would be mixed with the ones that the kernel records for this process.
    OtherNamespace,
}

impl ProcError {
    /// The reason.
    pub fn reason(&self) -> &'static str {
        match self {
            ProcError::Missing => "/proc is not mounted",
            ProcError::OtherNamespace => {
                "/proc has the processes of another PID namespace, whose ids are others"
            }
        }
    }

    /// The change that helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            ProcError::Missing => "mount -t proc proc /proc",
            ProcError::OtherNamespace => {
                "mount this one's: mount -t proc proc /proc, or unshare --mount-proc"
            }
        }
    }
}

/// Whether `/proc` has the ids of this process's PID namespace.
///
/// # Errors
/// [`ProcError`].
pub fn check_proc() -> Result<(), ProcError> {
    own_id_in(Path::new("/proc"), std::process::id())
}

fn own_id_in(proc: &Path, own: u32) -> Result<(), ProcError> {
    let shown = std::fs::read_link(proc.join("self"));
    match shown {
        Ok(shown) if shown.as_os_str().to_str() == Some(&own.to_string()) => Ok(()),
        Ok(_) => Err(ProcError::OtherNamespace),
        // This process has no id there.
        Err(_) if proc.join("uptime").exists() => Err(ProcError::OtherNamespace),
        Err(_) => Err(ProcError::Missing),
    }
}

/// Says that `/proc` hides processes of other users, if it does: the first one is another user's, or this user's own.
pub(crate) fn hidden_processes() -> Option<String> {
    let first = std::fs::File::open("/proc/1/stat");
    first.is_err().then(|| HIDDEN_PROCESSES.to_owned())
}

const HIDDEN_PROCESSES: &str = "other users' processes that run already, and threads of the kernel, appear as processes without name, parent, user and images: /proc hides them (hidepid); CAP_SYS_PTRACE or the group of its gid= shows them";

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "         0          0 4294967295\n";
    const CONTAINER: &str = "         0       1000          1\n";

    fn rights(capabilities: u64, seccomp: u32, users: &str) -> OwnRights {
        let status = format!("Name:\tetw\nCapEff:\t{capabilities:016x}\nSeccomp:\t{seccomp}\n");
        OwnRights::of(&status, users)
    }

    /// Regression: root was advised to become root, whatever refused the events.
    #[test]
    fn each_refusal_of_perf_names_what_refuses() {
        let error = io::Error::from_raw_os_error;
        let [none, all] = [0, u64::MAX >> 23];
        let perfmon = 1 << CAP_PERFMON;
        let paranoid = Some(2);
        for (own, number, level, expected, word) in [
            (
                rights(none, 0, MACHINE),
                libc::EACCES,
                2,
                Refusal::Rights { paranoid },
                "run as root",
            ),
            (rights(none, 2, MACHINE), libc::EACCES, 2, Refusal::Rights { paranoid }, "is 2"),
            (rights(none, 2, MACHINE), libc::EPERM, 2, Refusal::Filter, "seccomp"),
            (rights(perfmon, 2, MACHINE), libc::EACCES, 2, Refusal::Filter, "perf_event_open"),
            (rights(none, 2, CONTAINER), libc::EPERM, 0, Refusal::Filter, "seccomp"),
            (rights(perfmon, 0, MACHINE), libc::EACCES, 2, Refusal::Module, "security module"),
            (rights(none, 0, MACHINE), libc::EACCES, 0, Refusal::Module, "security module"),
            (
                rights(all, 0, CONTAINER),
                libc::EACCES,
                2,
                Refusal::UserNamespace { paranoid },
                "user namespace do not count",
            ),
            (rights(all, 2, MACHINE), libc::ENOSYS, 2, Refusal::NoPerf, "no perf events"),
        ] {
            let refusal = own.refusal(&error(number), Some(level));
            assert_eq!(refusal, expected, "{own:?} {number} {level}");
            assert!(refusal.to_string().contains(word), "{refusal}");
        }
        let unknown = Refusal::Rights { paranoid: None }.to_string();
        assert!(unknown.starts_with("kernel.perf_event_paranoid cannot be read; "), "{unknown}");
        assert!(rights(1 << CAP_SYS_PTRACE, 0, MACHINE).has_ptrace());
        assert!(!rights(perfmon, 0, MACHINE).has_ptrace());
    }

    #[test]
    fn programs_need_two_capabilities() {
        let [perfmon, bpf, admin] = [CAP_PERFMON, CAP_BPF, CAP_SYS_ADMIN].map(|bit| 1u64 << bit);
        for (capabilities, missing) in [
            (perfmon | bpf, None),
            (admin, None),
            (perfmon, Some("CAP_BPF")),
            (bpf, Some("CAP_PERFMON")),
            (0, Some("CAP_PERFMON and CAP_BPF")),
        ] {
            let rights = rights(capabilities, 0, MACHINE);
            assert_eq!(rights.missing_for_programs(), missing, "{capabilities:x}");
        }
    }

    /// Regression: ids of two PID namespaces were mixed.
    #[test]
    fn a_proc_of_another_namespace_is_found() {
        let own = std::process::id();
        assert_eq!(check_proc(), Ok(()));
        assert_eq!(own_id_in(Path::new("/proc"), own + 1), Err(ProcError::OtherNamespace));
        assert_eq!(own_id_in(Path::new("/no/such/folder"), own), Err(ProcError::Missing));
    }
}
