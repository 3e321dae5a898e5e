//! The program that records samples of the CPUs. It runs in the interrupt of a perf event's timer, in place of perf's own record. It copies a
//! thread's stack up to its base if `stack_bases` has that, and otherwise as many bytes as the host has chosen for all. Its records have the form of
//! perf's samples:
//!
//! ```text
//! 28 u64 frames   30 the kernel's frames; if the thread is one of a program: u64 -512, the program's frames
//!    u64 2, or 0 if nothing else follows   u64 registers of UNWOUND_REGISTERS   u64 bytes of the stack   these   u64 the same number
//! ```

use super::assembler::{
    Assembler, CONTEXT, CPU, EVENT, GET_CURRENT_TASK, Instruction, Maps, RECORD, RESULT, Register,
    THREAD, TIME, Target,
};
use super::btf::Btf;
use super::points::{BASE_BITS, BASES, BASES_COUNT, GATE, LARGEST_SAMPLE_STACK, SAMPLE_STACK};
use super::stack_bases::{TAG_BITS, UNIT_BITS};
use crate::perf::UNWOUND_REGISTERS;

/// Bytes of a stack at most.
pub const LARGEST_STACK: i32 = 32 << 10;
/// Frames of the kernel, and of the program, at most: a larger setting of the kernel's would need memory for each CPU.
const MAX_FRAMES: usize = 1024;

const COUNT: i16 = CPU + 8;
const FRAMES: i16 = COUNT + 8;
const REGISTERS: usize = UNWOUND_REGISTERS.count_ones() as usize;
/// ABI, registers, size of the stack.
const STATE: usize = 8 + REGISTERS * 8 + 8;

/// The end of the record, from [`FRAMES`] on.
const END: Register = 8;
/// The registers of the program.
const STATE_OF_PROGRAM: Register = 9;
/// Bytes of the stack. The context is not needed any more.
const STACK: Register = CONTEXT;
/// The stack of the program in the kernel.
const FRAME: Register = 10;
const KEY_AT: i16 = -4;
const RESERVED_AT: i16 = -24;
/// Bytes of the stack to be copied.
const STACK_AT: i16 = -32;
/// Bytes that are copied already, and those that are copied next.
const DONE_AT: i16 = -40;
const SIZE_AT: i16 = -48;
const PAGE: i32 = 4096;
const PROBE_READ_USER: i32 = 112;

/// Where the kernel has a program's registers, and facts about the mode in which it ran.
struct RegistersAt {
    /// Those of [`UNWOUND_REGISTERS`].
    all: [i16; REGISTERS],
    stack_pointer: i16,
    address: i16,
    /// The word with the mode.
    mode: i16,
    /// Bits of that word; all are 0 in the mode of `is_program_if_zero`.
    mode_bits: i32,
    is_program_if_zero: bool,
    /// Bits of the word that have this value in a program of 64 bits.
    width_bits: i32,
    is_wide: i32,
}

/// `struct pt_regs` of x86-64; `cs` says the mode, and is 0x33 in programs of 64 bits.
#[cfg(not(target_arch = "aarch64"))]
const AT: RegistersAt = RegistersAt {
    // rbx, rdi, rbp, rsp, rip, r12 to r15
    all: [40, 112, 32, 152, 128, 24, 16, 8, 0],
    stack_pointer: 152,
    address: 128,
    mode: 136,
    mode_bits: 3,
    is_program_if_zero: false,
    width_bits: 0xffff,
    is_wide: 0x33,
};

/// `struct user_pt_regs` of arm64; `pstate` says the mode, and its bit 4 that the program is one of 32 bits.
#[cfg(target_arch = "aarch64")]
const AT: RegistersAt = RegistersAt {
    // x19 to x30, sp, pc
    all: [152, 160, 168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256],
    stack_pointer: 248,
    address: 256,
    mode: 264,
    mode_bits: 0xf,
    is_program_if_zero: true,
    width_bits: 0x10,
    is_wide: 0,
};

/// Frames that the kernel gives at most.
fn frames() -> usize {
    crate::stacks::longest_chain().clamp(1, MAX_FRAMES)
}

/// Bytes of the memory of a CPU in which the program puts a record together.
pub fn memory_size() -> u32 {
    let frames = 2 * frames() * 8 + 8;
    // A page more, so that the kernel sees that all copies have room.
    (FRAMES as usize + frames + STATE + (LARGEST_STACK + PAGE) as usize + 8) as u32
}

/// The program; `None`: the kernel's types lack a field.
pub fn assemble(
    btf: &Btf,
    mut assembler: Assembler,
    maps: Maps,
    target: Target,
) -> Option<Vec<Instruction>> {
    let memory = btf.offset("task_struct", "mm")?;
    assembler.record_sample(maps, target, memory);
    Some(assembler.instructions)
}

impl Assembler {
    fn record_sample(&mut self, maps: Maps, target: Target, memory: i16) {
        const GET_SMP_PROCESSOR_ID: i32 = 8;
        const MAP_LOOKUP: i32 = 1;
        let mut ended = vec![self.test_gate(maps, GATE)];
        self.call(GET_SMP_PROCESSOR_ID);
        self.put(0x63, FRAME, RESULT, KEY_AT, 0);
        self.load_wide(1, 1, maps.samples, 0);
        self.copy(2, FRAME);
        self.add(2, KEY_AT.into());
        self.call(MAP_LOOKUP);
        let lacks_memory = self.jump_if_zero(RESULT);
        self.copy(RECORD, RESULT);
        self.load32(1, FRAME, KEY_AT);
        self.store64(CPU, 1);
        self.store_current();
        let number = target.number;
        self.load_wide(1, 0, number as i32, (number >> 32) as i32);
        self.store64(EVENT, 1);
        self.store_both_stacks(maps, memory);
        self.store_state();
        self.write_record(maps, &mut ended);
        self.land(lacks_memory);
        self.count(maps, target.lost);
        ended.into_iter().for_each(|jump| self.land(jump));
        self.end();
    }

    /// Adds a number, as 64 bits.
    fn add(&mut self, register: Register, number: i32) {
        self.put(0x07, register, 0, 0, number);
    }

    /// The address of the record's end, so many bytes further.
    fn end_of_record(&mut self, register: Register, further: i32) {
        self.copy(register, RECORD);
        self.put(0x0f, register, END, 0, 0);
        self.add(register, further);
    }

    /// Writes the frames of the kernel, if the CPU was in it, and those of the program, if it has one: the first one, if the copied stack
    /// will have all others. Puts the program's registers into [`STATE_OF_PROGRAM`], or 0.
    fn store_both_stacks(&mut self, maps: Maps, memory: i16) {
        const TASK_PT_REGS: i32 = 175;
        const OF_PROGRAM: i32 = 256;
        const CONTEXT_USER: i32 = -512;
        self.set(END, 0);
        self.load64(1, CONTEXT, AT.mode);
        self.put(0x57, 1, 0, 0, AT.mode_bits);
        let is_in_program = match AT.is_program_if_zero {
            true => self.jump_if_zero(1),
            false => self.jump_unless_zero(1),
        };
        self.store_chain(0);
        self.land(is_in_program);
        self.set(STATE_OF_PROGRAM, 0);
        self.call(GET_CURRENT_TASK);
        self.load64(1, RESULT, memory);
        let has_none = self.jump_if_zero(1);
        self.copy(1, RESULT);
        self.call(TASK_PT_REGS);
        self.copy(STATE_OF_PROGRAM, RESULT);
        self.end_of_record(1, 0);
        self.put(0x7a, 1, 0, FRAMES, CONTEXT_USER);
        self.add(END, 8);
        let unknown = self.choose_stack(maps);
        self.end_of_record(1, 0);
        self.load64(2, STATE_OF_PROGRAM, AT.address);
        self.put(0x7b, 1, 2, FRAMES, 0);
        self.add(END, 8);
        let has_all = self.jump();
        unknown.into_iter().for_each(|jump| self.land(jump));
        self.load_shared(2, maps, SAMPLE_STACK);
        self.load64(1, 2, 0);
        self.put(0x7b, FRAME, 1, STACK_AT, 0);
        self.store_chain(OF_PROGRAM);
        self.land(has_none);
        self.land(has_all);
        self.copy(1, END);
        self.put(0x77, 1, 0, 0, 3);
        self.store64(COUNT, 1);
    }

    /// Notes the bytes from the stack pointer to the base of the thread's stack, to be copied. Returns the jumps that are taken if the base is
    /// not known, or too far.
    fn choose_stack(&mut self, maps: Maps) -> Vec<usize> {
        const TAG: i32 = (1 << TAG_BITS) - 1;
        self.load32(1, RECORD, THREAD);
        self.copy(2, 1);
        self.put(0x57, 2, 0, 0, BASES_COUNT as i32 - 1);
        self.put(0x67, 2, 0, 0, 3);
        self.load_shared(3, maps, BASES);
        self.put(0x0f, 3, 2, 0, 0);
        self.load64(3, 3, 0);
        let mut unknown = vec![self.jump_if_zero(3)];
        self.copy(4, 3);
        self.put(0x57, 4, 0, 0, TAG);
        self.put(0x77, 1, 0, 0, BASE_BITS as i32);
        unknown.push(self.instructions.len());
        // Not equal, two registers.
        self.put(0x5d, 4, 1, 0, 0);
        self.put(0x77, 3, 0, 0, TAG_BITS as i32);
        self.put(0x67, 3, 0, 0, UNIT_BITS as i32);
        self.load64(1, STATE_OF_PROGRAM, AT.stack_pointer);
        self.put(0x1f, 3, 1, 0, 0);
        unknown.push(self.jump_if_zero(3));
        self.load_shared(2, maps, LARGEST_SAMPLE_STACK);
        self.load64(2, 2, 0);
        unknown.push(self.instructions.len());
        // Unsigned: greater, two registers.
        self.put(0x2d, 3, 2, 0, 0);
        self.put(0x7b, FRAME, 3, STACK_AT, 0);
        unknown
    }

    /// Writes the frames that the kernel finds.
    fn store_chain(&mut self, flags: i32) {
        const GET_STACK: i32 = 67;
        self.copy(1, CONTEXT);
        self.end_of_record(2, FRAMES.into());
        self.set(3, (frames() * 8) as i32);
        self.set(4, flags);
        self.call(GET_STACK);
        // Signed, 64 bits: not greater. An error gives no frames.
        let has_none = self.instructions.len();
        self.put(0xd5, RESULT, 0, 0, 0);
        self.put(0x0f, END, RESULT, 0, 0);
        self.land(has_none);
    }

    /// Writes the registers and the stack of the program, or that there are none.
    fn store_state(&mut self) {
        const WIDE: i32 = 2;
        let at_state = FRAMES;
        let at_bytes = i32::from(FRAMES) + STATE as i32;
        self.end_of_record(1, 0);
        self.put(0x7a, 1, 0, at_state, 0);
        let mut has_none = vec![self.jump_if_zero(STATE_OF_PROGRAM)];
        // 16 bits: on kernels with FRED, `cs` has no more.
        self.put(0x69, 2, STATE_OF_PROGRAM, AT.mode, 0);
        self.put(0x57, 2, 0, 0, AT.width_bits);
        has_none.push(self.instructions.len());
        // Not equal.
        self.put(0x55, 2, 0, 0, AT.is_wide);
        self.load64(STACK, FRAME, STACK_AT);
        has_none.push(self.jump_if_zero(STACK));
        has_none.push(self.instructions.len());
        // Unsigned: greater.
        self.put(0x25, STACK, 0, 0, LARGEST_STACK);
        self.put(0x7a, 1, 0, at_state, WIDE);
        for (index, at) in AT.all.into_iter().enumerate() {
            self.load64(2, STATE_OF_PROGRAM, at);
            self.put(0x7b, 1, 2, at_state + 8 + index as i16 * 8, 0);
        }
        self.end_of_record(1, at_bytes);
        self.copy(2, STACK);
        self.load64(3, STATE_OF_PROGRAM, AT.stack_pointer);
        self.call(PROBE_READ_USER);
        let is_copied = self.jump_if_zero(RESULT);
        self.copy_pages(at_bytes);
        self.land(is_copied);
        self.end_of_record(1, 0);
        self.put(0x7b, 1, STACK, at_bytes as i16 - 8, 0);
        self.put(0x0f, END, STACK, 0, 0);
        self.add(END, STATE as i32);
        self.end_of_record(1, 0);
        self.put(0x7b, 1, STACK, FRAMES, 0);
        has_none.into_iter().for_each(|jump| self.land(jump));
        // The last word.
        self.add(END, i32::from(FRAMES) + 8);
    }

    /// Copies a stack that ends before the wanted bytes do: its pages one by one, up to the first one that cannot be read. Puts their bytes
    /// into [`STACK`].
    fn copy_pages(&mut self, at_bytes: i32) {
        const PAGES: i32 = LARGEST_STACK / PAGE + 1;
        let mut ended = Vec::new();
        self.put(0x7a, FRAME, 0, DONE_AT, 0);
        for _ in 0..PAGES {
            self.load64(1, FRAME, DONE_AT);
            ended.push(self.instructions.len());
            // Unsigned: greater.
            self.put(0x25, 1, 0, 0, LARGEST_STACK);
            self.load64(3, STATE_OF_PROGRAM, AT.stack_pointer);
            self.put(0x0f, 3, 1, 0, 0);
            // As many as are wanted still, and lie in the page.
            self.copy(2, STACK);
            self.put(0x1f, 2, 1, 0, 0);
            self.set(4, PAGE);
            self.copy(5, 3);
            self.put(0x57, 5, 0, 0, PAGE - 1);
            self.put(0x1f, 4, 5, 0, 0);
            // Unsigned: not greater, two registers.
            let is_less = self.instructions.len();
            self.put(0xbd, 2, 4, 0, 0);
            self.copy(2, 4);
            self.land(is_less);
            ended.push(self.jump_if_zero(2));
            ended.push(self.instructions.len());
            self.put(0x25, 2, 0, 0, PAGE);
            self.put(0x7b, FRAME, 2, SIZE_AT, 0);
            self.copy(4, 1);
            self.end_of_record(1, at_bytes);
            self.put(0x0f, 1, 4, 0, 0);
            self.call(PROBE_READ_USER);
            ended.push(self.jump_unless_zero(RESULT));
            self.load64(1, FRAME, DONE_AT);
            self.load64(2, FRAME, SIZE_AT);
            self.put(0x0f, 1, 2, 0, 0);
            self.put(0x7b, FRAME, 1, DONE_AT, 0);
        }
        ended.into_iter().for_each(|jump| self.land(jump));
        self.load64(STACK, FRAME, DONE_AT);
        let is_small = self.instructions.len();
        // Unsigned: not greater.
        self.put(0xb5, STACK, 0, 0, LARGEST_STACK);
        self.set(STACK, LARGEST_STACK);
        self.land(is_small);
    }

    /// Writes the record, whose size is in [`END`], into the ring.
    fn write_record(&mut self, maps: Maps, ended: &mut Vec<usize>) {
        const KTIME_GET_NS: i32 = 5;
        const RESERVE: i32 = 198;
        const SUBMIT: i32 = 199;
        const DISCARD: i32 = 200;
        const WRITE: i32 = 202;
        const NO_WAKEUP: i32 = 1;
        let reserved = |this: &mut Assembler, register| {
            this.copy(register, FRAME);
            this.add(register, RESERVED_AT.into());
        };
        // The record's size, in the upper half of a word.
        self.copy(1, END);
        self.put(0x67, 1, 0, 0, 48);
        self.put(0x47, 1, 0, 0, super::super::sample::SAMPLE as i32);
        self.store64(0, 1);
        self.load_wide(1, 1, maps.ring, 0);
        self.copy(2, END);
        self.set(3, 0);
        reserved(self, 4);
        self.call(RESERVE);
        let is_full = self.jump_unless_zero(RESULT);
        // Behind the reservation, as the host expects.
        self.call(KTIME_GET_NS);
        self.store64(TIME, RESULT);
        reserved(self, 1);
        self.set(2, 0);
        self.copy(3, RECORD);
        self.copy(4, END);
        self.set(5, 0);
        self.call(WRITE);
        reserved(self, 1);
        self.set(2, NO_WAKEUP);
        self.call(SUBMIT);
        ended.push(self.jump());
        self.land(is_full);
        reserved(self, 1);
        self.set(2, NO_WAKEUP);
        self.call(DISCARD);
    }
}

#[cfg(all(test, feature = "unwind"))]
mod tests {
    use std::time::{Duration, Instant};

    use etw_types::le;

    use super::super::Programs;
    use super::*;
    use crate::neutral::Detail;
    use crate::perf::bpf::number_of;
    use crate::perf::{
        Attribute, Event, Kind, PerfDetail, RecordRing, Scratch, Target, Tracepoint, parse,
    };
    use crate::system_facts::online_cpus;

    const KIND: Kind = Kind::Sample { has_stack: true };

    /// Frames of the kernel and of the program, the stack pointer, and copied bytes.
    #[derive(Debug)]
    struct Sample {
        frames: [usize; 2],
        stack_pointer: u64,
        copied: Option<usize>,
    }

    fn sample(record: &[u8], thread: u32) -> Option<Sample> {
        const STACK_POINTER: usize = if cfg!(target_arch = "aarch64") { 12 } else { 3 };
        let mut scratch = Scratch::default();
        let is_own = |number: u64| (number == number_of(Tracepoint::CpuSample)).then_some(&KIND);
        let parsed = parse(RecordRing::OfPrograms, record, is_own, &mut scratch)?;
        assert!(matches!(parsed.detail, PerfDetail::Neutral(Detail::Sample { .. })));
        let frames = [parsed.stack.kernel.len(), parsed.stack.user.len()];
        let registers = parsed.user.map(|user| user.registers);
        let stack_pointer = registers.and_then(|all| le::u64(all, STACK_POINTER * 8)).unwrap_or(0);
        let copied = parsed.user.map(|user| user.stack.len());
        (parsed.thread == thread).then_some(Sample { frames, stack_pointer, copied })
    }

    /// Programs with a timer on a CPU, on which this thread runs.
    struct Sampled {
        programs: Programs,
        _event: Event,
        thread: u32,
    }

    impl Sampled {
        fn start() -> Option<Sampled> {
            let programs = match Programs::open(&[Tracepoint::CpuSample], 16 << 20, None) {
                Ok(programs) => programs,
                Err(error) => {
                    eprintln!("left out: the kernel permits no program for samples ({error})");
                    return None;
                }
            };
            let cpu = online_cpus()[0];
            // SAFETY: a set of CPUs of this function's own, and numbers.
            let thread = unsafe {
                let mut cpus: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu.into(), &mut cpus);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus), 0);
                libc::gettid() as u32
            };
            let attribute = Attribute::samples(50_000).by_program();
            let event = Event::open(&attribute, Target::Machine, cpu).unwrap();
            event.set_program(programs.of_samples().unwrap()).unwrap();
            programs.set_recording(true);
            event.enable().unwrap();
            Some(Sampled { programs, _event: event, thread })
        }

        /// Samples of this thread in its own code.
        fn take(&mut self) -> Vec<Sample> {
            // Those of before.
            self.programs.read(|_, _| {});
            let (mut all, start) = (Vec::new(), Instant::now());
            while all.len() < 20 {
                assert!(start.elapsed() < Duration::from_secs(20), "{all:?}");
                let turn = Instant::now();
                while turn.elapsed() < Duration::from_millis(3) {}
                let until = self.programs.read(|_, record| {
                    let own = sample(record, self.thread);
                    all.extend(own.filter(|sample| sample.frames[0] == 0));
                });
                assert_eq!(until.missing, 0);
                let position = self.programs.read_until();
                self.programs.commit(position, 0);
            }
            all
        }
    }

    /// OV-23: the program copies a stack to its base if that is known and near, and otherwise as many bytes as are chosen.
    #[test]
    fn a_stack_is_copied_to_its_base() {
        let Some(mut sampled) = Sampled::start() else { return };
        let bases = sampled.programs.stack_bases().unwrap();
        let thread = sampled.thread;
        sampled.programs.set_sample_stack(512, LARGEST_STACK as u32);
        let all = sampled.take();
        assert!(all.iter().all(|one| one.copied == Some(512) && one.frames[1] >= 1), "{all:?}");
        let base = all[0].stack_pointer + 2000;
        bases.set(thread, base);
        for one in sampled.take() {
            let size = base.next_multiple_of(8).wrapping_sub(one.stack_pointer) as usize;
            assert_eq!((one.copied, one.frames[1]), (Some(size), 1), "{one:?}");
        }
        bases.set(thread + (1 << BASE_BITS), base);
        let all = sampled.take();
        assert!(all.iter().all(|one| one.copied == Some(512)), "another thread's: {all:?}");
        for far in [base + (1 << 20), base - (1 << 20)] {
            bases.set(thread, far);
            let all = sampled.take();
            assert!(all.iter().all(|one| one.copied == Some(512)), "{far:x}: {all:?}");
        }
        // More than there may be: whole pages behind the first one.
        sampled.programs.set_sample_stack(LARGEST_STACK as u32, LARGEST_STACK as u32);
        bases.forget(thread);
        for one in sampled.take() {
            let in_page = (4096 - one.stack_pointer % 4096) as usize;
            let copied = one.copied.unwrap();
            let ends_with_page = (copied - in_page.min(copied)) % 4096 == 0 && copied >= in_page;
            assert!(copied == LARGEST_STACK as usize || ends_with_page, "{one:?}");
        }
        sampled.programs.set_sample_stack(0, 0);
        let all = sampled.take();
        assert!(all.iter().all(|one| one.copied.is_none()), "{all:?}");
    }

    /// A record that is cut anywhere is refused, or has no copied bytes.
    #[test]
    fn a_cut_record_of_a_sample_is_refused() {
        let mut record = Vec::new();
        let mut add = |words: &[u64]| record.extend(words.iter().flat_map(|one| one.to_le_bytes()));
        add(&[9, number_of(Tracepoint::CpuSample), 7 | 8 << 32, 99, 1]);
        add(&[3, 0xffff_ffff_8100_0000, (-512i64) as u64, 0x1000, 2]);
        add(&[5; REGISTERS]);
        add(&[16, 1, 2, 16]);
        let whole = sample(&record, 8).unwrap();
        assert_eq!((whole.frames, whole.copied), ([1, 1], Some(16)));
        let state = FRAMES as usize + 24;
        for size in 0..record.len() {
            let copied = sample(&record[..size], 8).map(|one| one.copied);
            assert!(copied.is_none_or(|copied| size >= state && copied.is_none()), "{size}");
        }
    }
}
