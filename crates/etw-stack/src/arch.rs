//! Parts that differ between processors: registers, signal frames, call instructions.
//!
//! Registers have their DWARF numbers (x86-64 psABI, table 3.36; "DWARF for the Arm 64-bit Architecture", table 1).

/// The symbol of the function that stores registers. Two versions of this crate may be in one program.
macro_rules! symbol {
    () => {
        concat!(
            "etw_stack_store_registers_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH")
        )
    };
}

/// Declares `store_registers()` with these instructions as its body. A Rust function would change registers before it stores them.
macro_rules! store_registers {
    ($($instruction:literal,)*) => {
        core::arch::global_asm!(
            ".pushsection .text.etw_stack_store_registers, \"ax\", %progbits",
            concat!(".hidden ", symbol!()),
            concat!(".globl ", symbol!()),
            concat!(".type ", symbol!(), ", %function"),
            concat!(symbol!(), ":"),
            ".cfi_startproc",
            $($instruction,)*
            ".cfi_endproc",
            concat!(".size ", symbol!(), ", . - ", symbol!()),
            ".popsection",
        );

        unsafe extern "C" {
            /// Stores the values that the caller's registers have after the call returns.
            #[link_name = symbol!()]
            pub(crate) fn store_registers(out: *mut [u64; COUNT]);
        }
    };
}

#[cfg(target_arch = "x86_64")]
#[path = "arch/x86_64.rs"]
mod this;

#[cfg(target_arch = "aarch64")]
#[path = "arch/aarch64.rs"]
mod this;

pub(crate) use this::*;
