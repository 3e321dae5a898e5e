//! Call stacks of the calling thread, captured by the program itself, for the stack item of an event.
//!
//! * [`capture`] walks the stack. It is async-signal-safe, allocates nothing and takes no lock.
//! * [`prepare`] makes known what `capture` needs of the loaded modules: where their code and their unwind tables lie.
//! * [`modules`] tells what is loaded where, so that the addresses can be given names on another machine.
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
//! Each frame is left by the rule for its address, which comes from the module's `.eh_frame` and is remembered in a
//! table of a fixed size. Most rules say "the frame pointer chain" or "so many bytes above the stack pointer", and cost a
//! few nanoseconds from the second time on. Asking the table first, and not the frame pointer, is what makes stacks right
//! where code with and without frame pointers calls each other: code without them carries its caller's frame pointer
//! about unchanged, so that the chain looks sound and leaves frames out.
//!
//! Code without unwind information (generated at run time, assembler) is left by its frame pointer, and so is all code
//! before [`prepare`] was called.
//!
//! Layers, from the bottom: `sys` and `arch` (system calls; registers), `limits` (the thread's own stack), `memory` (reads
//! that cannot fault), `object` and `snapshot` (modules), `cfi` and `expression` (`.eh_frame`), `rule` and `cache`, `walk`.
//!
//! # Limits
//!
//! * At most [`MAX_FRAMES`] frames. x86-64 and AArch64 on Linux; elsewhere there are none.
//! * 7 KiB of stack (optimised; three times that without optimisation) for a frame whose rule is not known yet, else less
//!   than 1 KiB: a handler that captures wants an alternate stack of 16 KiB.
//! * A module loaded after the last [`prepare`] is walked by frame pointers. One that was unloaded and replaced by another
//!   at the same place is walked by the wrong table until then: its frames may be wrong, nothing worse.
//! * Of a module without frame pointers and without `.eh_frame_hdr`, the callers are not found, or the next is left out.
//! * The unwind tables of libraries are copied (once each; the program's own are not), and what [`prepare`] found is kept
//!   until the process ends, as a handler may be reading it.
//! * In a library loaded with `dlopen`, the first use of thread-local storage by a thread may allocate (glibc): such a
//!   library is built with the initial-exec model, or its threads capture once outside handlers.
#![deny(unsafe_code)]

/// The most frames [`capture`] gives: as many as Windows puts into an event.
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
mod object;

mod module;

pub use module::{Module, modules};

/// Captures the call stack of the calling thread into `out`: return addresses, innermost first. Returns their count, at
/// most [`MAX_FRAMES`] and the length of `out`.
///
/// The first is in the function that calls `capture`; `skip` leaves out that many of the innermost. An address is that of
/// the instruction behind a call, but for a frame that a signal interrupted (the one behind its handler's return into
/// the C library), where it is that of the instruction to be executed next. The stack ends where the outermost function
/// or the room does, or where nothing tells how to go on; the frames before are good in any case.
///
/// Async-signal-safe, on any stack; `errno` stays as it is.
///
/// Elsewhere than on x86-64 and AArch64 Linux: 0.
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

/// Takes in the modules that are loaded now, for [`capture`] by any thread from here on.
///
/// Allocates, and takes the loader's lock: not for signal handlers. Called again it takes in what was loaded and unloaded
/// meanwhile, and returns at once where nothing was.
///
/// Returns a number that is another one each time that something has been; 0 where stacks are not captured.
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
