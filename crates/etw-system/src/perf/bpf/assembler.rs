//! Instructions of programs.

use super::super::sample;
use super::ids::IdsAt;

/// An instruction: `u8` operation, `u4` target, `u4` source, `i16` offset, `i32` number.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction(u64);

/// Where a record has its parts.
pub const EVENT: i16 = sample::NUMBER as i16;
pub const PROCESS: i16 = sample::PROCESS as i16;
pub const THREAD: i16 = sample::THREAD as i16;
pub const TIME: i16 = sample::TIME as i16;
pub const CPU: i16 = sample::REST as i16;
/// The size of what follows it.
pub const SIZE: i16 = CPU + 8;
/// The words of the tracepoint.
pub const WORDS: i16 = SIZE + 4;

/// Where programs find what they share with the host: descriptors of the maps.
#[derive(Clone, Copy, Debug)]
pub struct Maps {
    /// The ring.
    pub ring: i32,
    /// The words of `points`.
    pub shared: i32,
    /// Bytes of each CPU, in which a program puts a record together.
    pub scratch: i32,
    /// The same for samples, which come while that is in use.
    pub samples: i32,
    /// The program for the end of a system call records its paths, too: one program costs less than two.
    pub with_paths: bool,
}

/// The numbers of a program's records.
#[derive(Clone, Copy)]
pub struct Target {
    /// The event's number.
    pub number: u64,
    /// Offset of the number of lost records.
    pub lost: usize,
    /// Offset of the number of runs.
    pub runs: Option<usize>,
}

/// Registers: 0 is a call's result, 1 to 5 are its arguments, 6 to 9 survive calls.
pub type Register = u8;
pub const RESULT: Register = 0;
pub const CONTEXT: Register = 6;
pub const RECORD: Register = 7;
/// The helper that returns the structure of the thread that runs.
pub const GET_CURRENT_TASK: i32 = 158;

/// A program that is being made.
#[derive(Default)]
pub struct Assembler {
    pub instructions: Vec<Instruction>,
    /// `None`: records have the ids of the first namespace.
    pub ids: Option<IdsAt>,
}

impl Assembler {
    pub fn put(
        &mut self,
        operation: u8,
        target: Register,
        source: Register,
        offset: i16,
        number: i32,
    ) {
        let registers = u64::from(source) << 4 | u64::from(target);
        let low = u64::from(operation) | registers << 8 | u64::from(offset as u16) << 16;
        self.instructions.push(Instruction(low | u64::from(number as u32) << 32));
    }

    /// A number of 64 bits, or with a kind an address that the kernel fills in.
    pub fn load_wide(&mut self, target: Register, kind: u8, low: i32, high: i32) {
        self.put(0x18, target, kind, 0, low);
        self.put(0, 0, 0, 0, high);
    }

    pub fn load_shared(&mut self, target: Register, maps: Maps, at: usize) {
        self.load_wide(target, 2, maps.shared, at as i32);
    }

    pub fn copy(&mut self, target: Register, source: Register) {
        self.put(0xbf, target, source, 0, 0);
    }

    pub fn set(&mut self, target: Register, number: i32) {
        self.put(0xb7, target, 0, 0, number);
    }

    pub fn load32(&mut self, target: Register, from: Register, offset: i16) {
        self.put(0x61, target, from, offset, 0);
    }

    pub fn load64(&mut self, target: Register, from: Register, offset: i16) {
        self.put(0x79, target, from, offset, 0);
    }

    pub fn store32(&mut self, offset: i16, value: Register) {
        self.put(0x63, RECORD, value, offset, 0);
    }

    pub fn store64(&mut self, offset: i16, value: Register) {
        self.put(0x7b, RECORD, value, offset, 0);
    }

    pub fn call(&mut self, helper: i32) {
        self.put(0x85, 0, 0, 0, helper);
    }

    pub fn end(&mut self) {
        self.set(RESULT, 0);
        self.put(0x95, 0, 0, 0, 0);
    }

    /// A jump if a register is 0; [`land`](Assembler::land) gives it its end.
    pub fn jump_if_zero(&mut self, register: Register) -> usize {
        self.put(0x15, register, 0, 0, 0);
        self.instructions.len() - 1
    }

    pub fn jump_unless_zero(&mut self, register: Register) -> usize {
        self.put(0x55, register, 0, 0, 0);
        self.instructions.len() - 1
    }

    /// A jump, whose end [`land`](Self::land) gives.
    pub fn jump(&mut self) -> usize {
        self.put(0x05, 0, 0, 0, 0);
        self.instructions.len() - 1
    }

    pub fn land(&mut self, jump: usize) {
        let distance = (self.instructions.len() - jump - 1) as u64;
        self.instructions[jump].0 |= distance << 16;
    }

    /// Ends the program, unless the word at `gate` says that events are recorded. Returns the jump that ends it.
    pub fn test_gate(&mut self, maps: Maps, gate: usize) -> usize {
        self.copy(CONTEXT, 1);
        self.load_shared(1, maps, gate);
        self.load32(1, 1, 0);
        self.jump_if_zero(1)
    }

    /// Adds 1 to a shared word.
    pub fn count(&mut self, maps: Maps, word: usize) {
        self.load_shared(1, maps, word);
        self.set(2, 1);
        // An atomic addition of 64 bits.
        self.put(0xdb, 1, 2, 0, 0);
    }
}
