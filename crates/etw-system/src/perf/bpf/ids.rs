//! Ids of threads in the PID namespace of a host that is in a container.
//!
//! Programs read them where the kernel has them, for namespaces at any depth inside of the host's. (The helper
//! `bpf_get_ns_current_pid_tgid` knows only threads whose own namespace is the host's.) A thread that ends has given its id back before
//! it leaves its CPU for the last time: the host knows it by an earlier switch.

use super::assembler::{Assembler, GET_CURRENT_TASK, Instruction, RESULT, Register};
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
    namespace: Namespace,
    /// Where a thread has the pointer to its id.
    thread: i16,
    /// Where a thread has the pointer to what it shares with its process, and where that has the pointer to the process's id.
    shared: i16,
    process: i16,
    /// Where an id has its depth, the pointer to the namespace, and the number in that.
    level: i16,
    of_namespace: i16,
    shown: i16,
    /// Where a namespace has its number.
    number: i16,
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

/// A program that returns how far below the first PID namespace the process is that runs it.
pub fn level_of_namespace(btf: &Btf) -> Option<Vec<Instruction>> {
    let (id, level) = (btf.offset("task_struct", "thread_pid")?, btf.offset("pid", "level")?);
    Some(Assembler::of_current(|assembler| {
        assembler.load64(1, RESULT, id);
        assembler.load32(RESULT, 1, level);
    }))
}

/// A program that returns the id in the first PID namespace of the process that runs it.
pub fn id_of_machine(btf: &Btf) -> Option<Vec<Instruction>> {
    let id = btf.offset("task_struct", "tgid")?;
    Some(Assembler::of_current(|assembler| assembler.load32(RESULT, RESULT, id)))
}

impl Assembler {
    /// A program that finds its result behind the thread that runs it.
    fn of_current(load: impl FnOnce(&mut Assembler)) -> Vec<Instruction> {
        let mut assembler = Assembler::default();
        assembler.call(GET_CURRENT_TASK);
        load(&mut assembler);
        assembler.put(0x95, 0, 0, 0, 0);
        assembler.instructions
    }

    /// Writes the ids of a thread in the namespace. Registers 1 to 5 are changed.
    pub fn store_shown(&mut self, at: IdsAt, thread: Register) {
        const THREAD: Register = 5;
        self.copy(THREAD, thread);
        self.load64(1, THREAD, at.thread);
        self.store_shown_id(at, 0x1c);
        self.load64(1, THREAD, at.shared);
        self.load64(1, 1, at.process);
        self.store_shown_id(at, 0x18);
    }

    /// Writes the number that the namespace has for the id in register 1; 0: it has none, or the thread has given its id back.
    fn store_shown_id(&mut self, at: IdsAt, to: i16) {
        self.set(4, 0);
        self.load32(2, 1, at.level);
        let is_above = self.instructions.len();
        // Less, unsigned.
        self.put(0xa5, 2, 0, 0, at.namespace.level as i32);
        self.load64(2, 1, at.of_namespace);
        self.load32(2, 2, at.number);
        let is_other = self.instructions.len();
        // Not equal, 32 bits.
        self.put(0x56, 2, 0, 0, at.namespace.number as i32);
        self.load32(4, 1, at.shown);
        self.land(is_above);
        self.land(is_other);
        self.store32(to, 4);
    }
}
