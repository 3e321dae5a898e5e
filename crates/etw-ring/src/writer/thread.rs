//! A thread's own state: one for each attachment, found without a call where that is possible.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::MAX_ATTACHMENTS;
use super::line::{Counters, Line};
use crate::proto::Head;

/// A thread's own state for one attachment: no destructor, const-made, so that it can live in a `thread_local!` that a
/// signal handler may be the first to touch. One thread uses one of them with a writer.
#[derive(Debug)]
pub struct ThreadState {
    /// Set from before the first to after the last step of a write: whoever finds it set is a signal handler inside that
    /// write. Atomic only against the compiler; no other thread looks at it.
    pub(super) busy: AtomicBool,
    /// The writer the rest belongs to.
    pub(super) epoch: Cell<u64>,
    pub(super) tid: Cell<u32>,
    pub(super) slot: Cell<u16>,
    pub(super) class: Cell<u8>,
    pub(super) retry: Cell<u8>,
    pub(super) line: Cell<*const Line>,
    pub(super) counters: Cell<*const Counters>,
    /// The head as committed, invalid when the thread has no chunk.
    pub(super) head: Cell<Head>,
    pub(super) base: Cell<*mut u8>,
    /// Bytes from the committed offset to the chunk's end.
    pub(super) room: Cell<u32>,
    /// Our chunk's word in the control, and the key at which it stops being ours.
    pub(super) chunk: Cell<*const AtomicU64>,
    pub(super) closing_key: Cell<u32>,
    pub(super) opened: Cell<u64>,
}

impl ThreadState {
    /// A state that belongs to no writer yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> ThreadState {
        ThreadState {
            busy: AtomicBool::new(false),
            epoch: Cell::new(0),
            tid: Cell::new(0),
            slot: Cell::new(0),
            class: Cell::new(0),
            retry: Cell::new(0),
            line: Cell::new(std::ptr::null()),
            counters: Cell::new(std::ptr::null()),
            head: Cell::new(Head(0)),
            base: Cell::new(std::ptr::null_mut()),
            room: Cell::new(0),
            chunk: Cell::new(std::ptr::null()),
            closing_key: Cell::new(0),
            opened: Cell::new(0),
        }
    }
}

/// All that a thread has, in one place: finding it can be a call, in a shared library.
pub(super) struct Thread {
    pub(super) states: [ThreadState; MAX_ATTACHMENTS],
    word: Cell<[u64; 2]>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread { states: [const { ThreadState::new() }; MAX_ATTACHMENTS], word: Cell::new([0; 2]) }
    };
}

#[inline(always)]
pub(super) fn this_thread<'a>() -> &'a Thread {
    let mut thread = place::get();
    if thread.is_null() {
        thread = place::find();
    }
    // SAFETY: this thread's own, until it ends; it has no destructor, so even later than other locals. No reference
    // leaves this crate but in a reservation, which cannot leave the thread (it holds raw pointers), and as below.
    unsafe { &*thread }
}

/// Where a thread's own lies, by way of a word at a fixed distance from the thread pointer. In a shared library the way to any other
/// thread-local is a call, and the compiler takes it for one in programs too. The word is eight bytes of what glibc keeps for
/// libraries that are loaded later.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", not(any(loom, miri))))]
mod place {
    use super::{THREAD, Thread};

    /// The word's name. Another version's word is another one.
    macro_rules! word {
        () => {
            concat!(
                "etw_ring_thread_",
                env!("CARGO_PKG_VERSION_MAJOR"),
                "_",
                env!("CARGO_PKG_VERSION_MINOR")
            )
        };
    }

    core::arch::global_asm!(
        concat!(".pushsection .tbss.", word!(), ", \"awT\", @nobits"),
        ".p2align 3",
        concat!(".globl ", word!()),
        // Another library's word is never taken for this one.
        concat!(".hidden ", word!()),
        concat!(".type ", word!(), ", @object"),
        concat!(".size ", word!(), ", 8"),
        concat!(word!(), ":"),
        ".zero 8",
        ".popsection",
    );

    /// Null before the first [`find`].
    #[inline(always)]
    pub(super) fn get() -> *const Thread {
        let thread;
        // SAFETY: reads the word above, of this thread.
        unsafe {
            core::arch::asm!(
                concat!("mov {0}, qword ptr [rip + ", word!(), "@GOTTPOFF]"),
                "mov {0}, qword ptr fs:[{0}]",
                out(reg) thread,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        thread
    }

    #[cold]
    #[inline(never)]
    pub(super) fn find() -> *const Thread {
        let thread = THREAD.with(std::ptr::from_ref);
        // SAFETY: writes the word above, of this thread. A signal handler in between writes the same.
        unsafe {
            core::arch::asm!(
                concat!("mov {0}, qword ptr [rip + ", word!(), "@GOTTPOFF]"),
                "mov qword ptr fs:[{0}], {1}",
                out(reg) _,
                in(reg) thread,
                options(nostack, preserves_flags),
            );
        }
        thread
    }
}

#[cfg(not(all(
    target_arch = "x86_64",
    target_os = "linux",
    target_env = "gnu",
    not(any(loom, miri))
)))]
mod place {
    use super::{THREAD, Thread};

    /// Only the address is taken inside `with`, which then is inlined to an addition.
    #[inline(always)]
    pub(super) fn get() -> *const Thread {
        THREAD.with(std::ptr::from_ref)
    }

    pub(super) fn find() -> *const Thread {
        get()
    }
}

/// [`this_thread`], if it has been asked for before.
#[inline(always)]
pub(super) fn thread_at_once<'a>() -> Option<&'a Thread> {
    // SAFETY: null, or as there.
    unsafe { place::get().as_ref() }
}

/// The calling thread's own state for an attachment.
#[inline(always)]
pub(super) fn thread_state<'a>(attachment: usize) -> &'a ThreadState {
    &this_thread().states[attachment % MAX_ATTACHMENTS]
}

/// Sixteen bytes of the calling thread that are the caller's, zero at first: beside what a write needs anyway, so that looking at them
/// costs nothing. Async-signal-safe, as far as the caller's own use is.
///
/// [`thread_word_at_once`] is `None` where that is not yet known, and cheaper.
#[inline(always)]
pub fn with_thread_word<R>(f: impl FnOnce(&Cell<[u64; 2]>) -> R) -> R {
    f(&this_thread().word)
}

/// As [`with_thread_word`] gives it.
#[inline(always)]
pub fn thread_word_at_once() -> Option<[u64; 2]> {
    Some(thread_at_once()?.word.get())
}
