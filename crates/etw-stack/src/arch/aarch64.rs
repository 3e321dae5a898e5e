//! AArch64.
#![allow(unsafe_code)]

use crate::memory::Memory;
use crate::registers::Registers;

/// `x0` … `x30`, `sp`, `pc`.
pub(crate) const COUNT: usize = 33;
/// `x29`.
pub(crate) const FP: usize = 29;
/// `sp`.
pub(crate) const SP: usize = 31;
/// `pc`.
pub(crate) const PC: usize = 32;
/// The number of the return address in `.eh_frame`: the link register.
pub(crate) const RETURN_ADDRESS: usize = 30;

/// A call leaves its return address in a register.
pub(crate) const LINK_REGISTER: Option<usize> = Some(30);

/// The registers that [`store_registers`] stores: those that calls preserve (AAPCS64, 6.1.1), and the return address.
pub(crate) const STORED: u64 = 0x7ff << 19 | 1 << SP | 1 << PC;

store_registers! {
    "stp x19, x20, [x0, #19*8]",
    "stp x21, x22, [x0, #21*8]",
    "stp x23, x24, [x0, #23*8]",
    "stp x25, x26, [x0, #25*8]",
    "stp x27, x28, [x0, #27*8]",
    "str x29, [x0, #29*8]",
    "mov x1, sp",
    "stp x1, x30, [x0, #31*8]",
    "ret",
}

/// The thread pointer: the C library's descriptor of the thread lies just before it.
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// A return address without its pointer authentication code.
#[inline(always)]
pub(crate) fn strip_signature(address: u64) -> u64 {
    let mut stripped = address;
    // SAFETY: XPACLRI, which does nothing on processors without pointer authentication; it works on x30 only.
    unsafe {
        core::arch::asm!("mov x30, {0}", "hint #7", "mov {0}, x30", inout(reg) stripped,
            out("x30") _, options(nomem, nostack, preserves_flags));
    }
    stripped
}

/// True if the code ends in a call. `before` contains the eight bytes before a return address, the nearest in the highest byte.
pub(crate) fn ends_in_call(before: u64) -> bool {
    let instruction = (before >> 32) as u32;
    // BL; BLR; BLRAA and BLRAB, with and without a zero modifier (Arm ARM, C4.1).
    instruction & 0xfc00_0000 == 0x9400_0000
        || instruction & 0xffff_fc1f == 0xd63f_0000
        || instruction & 0xfeff_f800 == 0xd63f_0800
}

/// True if this is code of a procedure linkage table (AAELF64, 5.7.4): `adrp x16`, `ldr x17, [x16]`, `add x16, x16`, `br x17`.
pub(crate) fn is_linkage(code: u64) -> bool {
    let instruction = code as u32;
    instruction & 0x9f00_001f == 0x9000_0010
        || instruction & 0xffc0_03ff == 0xf940_0211
        || instruction & 0xff80_03ff == 0x9100_0210
        || instruction == 0xd61f_0220
}

/// True if this is the code that a signal handler returns to. `code` contains the bytes from the return address on.
///
/// The vdso has no unwind information for this code.
pub(crate) fn is_signal_return(code: [u64; 2]) -> bool {
    // mov x8, #139; svc #0: rt_sigreturn.
    code[0] == 0xd400_0001_d280_1168
}

/// The registers that a signal interrupted. After the handler has returned, the stack pointer is at `struct rt_sigframe`
/// (linux/arch/arm64/kernel/signal.c; uapi/asm/ucontext.h, sigcontext.h): 128 bytes of `siginfo`, then `ucontext`, whose
/// `sigcontext` is at 176 and begins with the fault address.
pub(crate) fn interrupted(sp: u64, memory: &mut Memory) -> Option<Registers> {
    let mut registers = Registers::unknown();
    for register in 0..COUNT {
        registers.set(register, memory.read(sp.wrapping_add(312 + 8 * register as u64))?);
    }
    Some(registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_other_code() {
        for call in [0x9400_0001, 0x97ff_fff0, 0xd63f_0100, 0xd63f_091f, 0xd73f_0a30_u64] {
            assert!(ends_in_call(call << 32), "{call:x}");
        }
        for other in [0x1400_0001, 0xd61f_0100, 0xd65f_03c0, 0_u64] {
            assert!(!ends_in_call(other << 32), "{other:x}");
        }
    }
}
