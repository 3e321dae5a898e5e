//! Call stacks of the calling thread, captured by the program itself, for the stack item of an event.
//!
//! * [`capture`] walks the stack. It is async-signal-safe, allocates nothing and takes no lock.
//! * [`prepare`] reads the addresses of the loaded modules' code and unwind tables, which `capture` needs.
//! * [`modules`] lists the loaded modules, so that another machine can name the addresses.
//!
//! ```
//! etw_stack::prepare();
//! let mut frames = [0; 32];
//! let count = etw_stack::capture(&mut frames, 0);
//! for address in &frames[..count] {
//!     let module = etw_stack::modules().into_iter().find(|m| m.range.contains(address));
//!     println!("{address:#x} {:?}", module.map(|m| m.path));
//! }
//! # assert_eq!(count > 1, cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))));
//! ```
//!
//! # How a stack is walked
//!
//! The rule for a frame's address leads to its caller. It comes from the module's `.eh_frame`, and a cache of fixed size keeps it. Most
//! rules follow the frame pointer or add a constant to the stack pointer, and cost a few nanoseconds from the second time on. The walk
//! asks the tables before the frame pointer, because code without frame pointers passes its caller's on unchanged: if code with and
//! without frame pointers calls each other, the frame pointer chain looks valid but omits frames.
//!
//! Code without unwind information (generated at run time, or assembler) is left by its frame pointer, and so is all code before the
//! first [`prepare`].
//!
//! Layers, from the bottom: `sys` and `arch` (system calls; registers), `limits` (the thread's own stack), `memory` (reads
//! that cannot fault), `object` and `snapshot` (modules), `cfi` and `expression` (`.eh_frame`), `rule` and `cache`, `walk`.
//!
//! # Limits
//!
//! * A stack has at most [`MAX_FRAMES`] frames. Supported are x86-64 and AArch64 on Linux; elsewhere a stack has none.
//! * `capture` takes 7 KiB of stack (three times that without optimisation) for a frame whose rule is not cached, else less than 1 KiB.
//!   Give a handler that captures an alternate stack of 16 KiB.
//! * A module loaded after the last [`prepare`] is walked by frame pointers. If a module was replaced by another one at the same
//!   address, the walk uses the old table until the next [`prepare`]: frames may then be wrong, nothing worse.
//! * For a module without frame pointers and without `.eh_frame_hdr`, the walk ends or omits the next frame.
//! * The unwind tables of libraries are copied, once each; the program's own are read in place. The memory is kept until the process
//!   ends, since a handler may read it.
//! * In a library loaded with `dlopen`, a thread's first use of thread-local storage may allocate (glibc). Build such a library with the
//!   initial-exec model, or let its threads capture once outside of handlers.
#![deny(unsafe_code)]

/// The largest number of frames of a stack, as in Windows' events.
pub const MAX_FRAMES: usize = 192;

/// Declares the modules that need a supported system.
macro_rules! on_supported {
    ($($item:item)*) => {
        $(#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))] $item)*
    };
}

on_supported! {
    mod arch;
    mod cache;
    mod cfi;
    mod expression;
    mod limits;
    mod memory;
    mod registers;
    mod rule;
    mod snapshot;
    mod sys;
    mod walk;
}

#[cfg(target_os = "linux")]
mod file;
#[cfg(target_os = "linux")]
mod object;

mod module;

#[cfg(target_os = "linux")]
pub use file::notes_of_file;
pub use module::{Module, modules, notes};

/// Captures the call stack of the calling thread into `out`: return addresses, innermost first. Returns their count, at
/// most [`MAX_FRAMES`] and the length of `out`.
///
/// The first frame is in the function that calls `capture`; `skip` omits that many of the innermost frames. An address is that of the
/// instruction behind a call. For a frame that a signal interrupted, it is that of the next instruction. The stack ends with the
/// outermost function, at the end of `out`, or where no rule leads on; the frames before are correct in any case.
///
/// Async-signal-safe on any stack; `errno` does not change.
///
/// On any system but Linux on x86-64 and AArch64, the result is 0.
#[inline(always)] // The caller's registers are those of the first frame.
pub fn capture(out: &mut [u64], skip: usize) -> usize {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let here = registers::Registers::here();
        walk::walk(&here, out, skip)
    }
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        let _ = (out, skip);
        0
    }
}

/// Reads the loaded modules, for every [`capture`] of any thread from now on.
///
/// Allocates, and takes the loader's lock, so it is not for signal handlers. Call it again after modules were loaded or unloaded; if
/// nothing has changed, it returns at once.
///
/// Returns a number that changes whenever the modules do; 0 if stacks are not supported here.
pub fn prepare() -> u64 {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        snapshot::prepare()
    }
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        0
    }
}

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
