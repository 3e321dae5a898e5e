//! x86-64.
#![allow(unsafe_code)]

use crate::memory::Memory;
use crate::registers::Registers;

/// `rax` … `r15`, and the return address as number 16.
pub(crate) const COUNT: usize = 17;
/// `rbp`.
pub(crate) const FP: usize = 6;
/// `rsp`.
pub(crate) const SP: usize = 7;
/// The return address.
pub(crate) const PC: usize = 16;
/// The number of the return address in `.eh_frame`.
pub(crate) const RETURN_ADDRESS: usize = 16;

/// A call leaves its return address on the stack.
pub(crate) const LINK_REGISTER: Option<usize> = None;

/// The registers that [`store_registers`] stores: those that calls preserve (psABI, 3.2.1), and the return address.
pub(crate) const STORED: u64 =
    1 << 3 | 1 << FP | 1 << SP | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << PC;

store_registers! {
    "mov [rdi + 3*8], rbx",
    "mov [rdi + 6*8], rbp",
    "lea rax, [rsp + 8]",
    "mov [rdi + 7*8], rax",
    "mov [rdi + 12*8], r12",
    "mov [rdi + 13*8], r13",
    "mov [rdi + 14*8], r14",
    "mov [rdi + 15*8], r15",
    "mov rax, [rsp]",
    "mov [rdi + 16*8], rax",
    "ret",
}

/// The thread pointer: the C library's descriptor of the thread, which begins with its own address (ELF TLS, 3.4.2).
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: every thread of a program with thread-local storage has the word at `fs:0`.
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// Return addresses are not signed on x86-64.
#[inline(always)]
pub(crate) fn strip_signature(address: u64) -> u64 {
    address
}

/// True if the code ends in a call. `before` contains the eight bytes before a return address, the nearest in the highest byte.
pub(crate) fn ends_in_call(before: u64) -> bool {
    let byte = |back: u32| (before >> (64 - 8 * back)) as u8;
    // CALL rel32 is E8; CALL r/m64 is FF /2 with 0, 1 or 4 bytes of displacement and perhaps a SIB byte (Intel SDM, CALL).
    let indirect = |length: u32| {
        let modrm = byte(length - 1);
        let (mode, rm) = (modrm >> 6, modrm & 7);
        let sib = u32::from(mode != 3 && rm == 4);
        let base = if sib == 1 { byte(length.max(3) - 2) & 7 } else { rm };
        let displacement = match mode {
            0 if base == 5 => 4,
            1 => 1,
            2 => 4,
            _ => 0,
        };
        byte(length) == 0xff && modrm >> 3 & 7 == 2 && length == 2 + sib + displacement
    };
    byte(5) == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

/// True if this is code of a procedure linkage table. Such code starts with a jump through a table, possibly after ENDBR64 (x86-64
/// psABI, 5.2), or pushes an index.
pub(crate) fn is_linkage(code: u64) -> bool {
    const JUMP: u64 = 0x25ff;
    const ENDBR64: u64 = 0xfa1e_0ff3;
    code & 0xffff == JUMP
        || code & 0xff_ffff == JUMP << 8 | 0xf2
        || code & 0xffff_ffff == ENDBR64
        || code & 0xff00_0000_00ff == 0xe900_0000_0068
}

/// True if this is the code that a signal handler returns to. `code` contains the bytes from the return address on.
pub(crate) fn is_signal_return(code: [u64; 2]) -> bool {
    // mov $15, %rax; syscall: rt_sigreturn.
    code[0] == 0x0f00_0000_0fc0_c748 && code[1] as u8 == 0x05
}

/// The registers that a signal interrupted. After the handler has returned, the stack pointer is at `struct ucontext`
/// (linux/arch/x86/include/asm/sigframe.h, uapi/asm/sigcontext.h).
pub(crate) fn interrupted(sp: u64, memory: &mut Memory) -> Option<Registers> {
    // r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip
    const ORDER: [usize; COUNT] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
    let mut registers = Registers::unknown();
    for (n, register) in ORDER.into_iter().enumerate() {
        registers.set(register, memory.read(sp.wrapping_add(40 + 8 * n as u64))?);
    }
    Some(registers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(code: &[u8]) -> u64 {
        let mut bytes = [0x90; 8];
        bytes[8 - code.len()..].copy_from_slice(code);
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn calls_are_told_from_other_code() {
        let calls: [&[u8]; 7] = [
            &[0xe8, 1, 2, 3, 4],                         // call rel32
            &[0xff, 0xd0],                               // call *%rax
            &[0x41, 0xff, 0xd3],                         // call *%r11
            &[0xff, 0x50, 0x08],                         // call *8(%rax)
            &[0xff, 0x15, 1, 2, 3, 4],                   // call *x(%rip)
            &[0xff, 0x94, 0x24, 0x80, 0x00, 0x00, 0x00], // call *128(%rsp)
            &[0xff, 0x14, 0xc8],                         // call *(%rax,%rcx,8)
        ];
        for code in calls {
            assert!(ends_in_call(before(code)), "{code:x?}");
        }
        let others: [&[u8]; 5] = [
            &[0xff, 0xe0],             // jmp *%rax
            &[0xff, 0x50],             // the beginning of a call
            &[0xe9, 1, 2, 3, 4],       // jmp rel32
            &[0xff, 0x25, 1, 2, 3, 4], // jmp *x(%rip)
            &[],
        ];
        for code in others {
            assert!(!ends_in_call(before(code)), "{code:x?}");
        }
    }

    #[test]
    fn signal_return_is_known() {
        let code = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x90, 0x90, 0x90, 0, 0, 0, 0];
        let words = |code: &[u8; 16]| {
            [0, 8].map(|at| u64::from_le_bytes(code[at..at + 8].try_into().unwrap()))
        };
        assert!(is_signal_return(words(&code)));
        let mut other = code;
        other[3] = 0x0e;
        assert!(!is_signal_return(words(&other)));
    }
}
