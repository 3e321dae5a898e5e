//! Programs, and parts of them, that read ids of threads in a namespace.

use super::assembler::{
    Assembler, GET_CURRENT_TASK, Instruction, PROCESS, RESULT, Register, THREAD,
};
use super::btf::Btf;
use super::ids::IdsAt;

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
        const SHOWN: Register = 5;
        self.copy(SHOWN, thread);
        self.load64(1, SHOWN, at.thread);
        self.store_shown_id(at, THREAD);
        self.load64(1, SHOWN, at.shared);
        self.load64(1, 1, at.process);
        self.store_shown_id(at, PROCESS);
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
