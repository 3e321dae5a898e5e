//! Ids of threads in the PID namespace of a host that is in a container.
//!
//! Programs read them where the kernel has them, for namespaces at any depth inside of the host's. (The helper
//! `bpf_get_ns_current_pid_tgid` knows only threads whose own namespace is the host's.) A thread that ends has given its id back before
//! it leaves its CPU for the last time: the host knows it by an earlier switch.

use super::btf::Btf;

/// The PID namespace of a host that is in a container.
#[derive(Clone, Copy, Debug)]
pub struct Namespace {
    /// Its depth below the first namespace.
    pub level: u32,
    /// Its number, which is the inode of `/proc/self/ns/pid`.
    pub number: u32,
}

/// Where the kernel has the ids of threads in a namespace, as `task_pid_nr_ns` of the kernel finds them.
#[derive(Clone, Copy, Debug)]
pub struct IdsAt {
    /// The namespace that gives them.
    pub namespace: Namespace,
    /// Where a thread has the pointer to its id.
    pub thread: i16,
    /// Where a thread has the pointer to what it shares with its process, and where that has the pointer to the process's id.
    pub shared: i16,
    pub process: i16,
    /// Where an id has its depth, the pointer to the namespace, and the number in that.
    pub level: i16,
    pub of_namespace: i16,
    pub shown: i16,
    /// Where a namespace has its number.
    pub number: i16,
}

impl IdsAt {
    /// `None`: the kernel's types lack a field.
    pub fn of(btf: &Btf, namespace: Namespace) -> Option<IdsAt> {
        const POINTER: i16 = 8;
        /// `PIDTYPE_TGID`
        const OF_PROCESS: i16 = 1;
        let pointer = btf.offset("upid", "ns")?;
        // The pointer is the last member.
        let size = pointer.checked_add(POINTER)?;
        let level = i16::try_from(namespace.level).ok()?;
        let own = btf.offset("pid", "numbers")?.checked_add(size.checked_mul(level)?)?;
        Some(IdsAt {
            namespace,
            thread: btf.offset("task_struct", "thread_pid")?,
            shared: btf.offset("task_struct", "signal")?,
            process: btf.offset("signal_struct", "pids")?.checked_add(OF_PROCESS * POINTER)?,
            level: btf.offset("pid", "level")?,
            of_namespace: own.checked_add(pointer)?,
            shown: own.checked_add(btf.offset("upid", "nr")?)?,
            number: btf
                .offset("pid_namespace", "ns")?
                .checked_add(btf.offset("ns_common", "inum")?)?,
        })
    }
}
