//! A thread's own state: one for each attachment, found without a call if possible.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::line::{Counters, Line};
use super::{MAX_ATTACHMENTS, NEVER_OPEN, Writer};
use crate::control::Gate;
use crate::layout::TOGETHER;
use crate::proto::Head;
use crate::sys::Cpu;

/// A thread's own state for one attachment. It has no destructor and a const constructor, so a `thread_local!` that a signal
/// handler touches first can hold it. A thread uses one state with each writer.
#[derive(Debug)]
pub struct ThreadState {
    /// Set during a write. Only a signal handler inside that write can find it set: no other thread reads it, and it is atomic only
    /// because of the compiler.
    pub(super) busy: AtomicBool,
    /// The epoch of the writer that the other fields belong to.
    pub(super) epoch: Cell<u64>,
    /// A word that has the epoch's value while a write on the usual machine may use this state: the writer's, or another one while the
    /// thread has a [word](replace_thread_word). Neither is ever freed. Not a reference, as Rust 1.85 refuses constants with references to
    /// atomics.
    pub(super) open: Cell<*const AtomicU64>,
    /// The writer's word.
    pub(super) open_of_writer: Cell<*const AtomicU64>,
    /// Copies of the writer's, for the same writes.
    pub(super) gate: Cell<*const Gate>,
    pub(super) cpu: Cell<Cpu>,
    pub(super) writer: Cell<*const Writer>,
    pub(super) tid: Cell<u32>,
    pub(super) slot: Cell<u16>,
    pub(super) class: Cell<u8>,
    pub(super) retry: Cell<u8>,
    pub(super) line: Cell<*const Line>,
    pub(super) counters: Cell<*const Counters>,
    /// The committed head; invalid if the thread has no chunk.
    pub(super) head: Cell<Head>,
    pub(super) base: Cell<*mut u8>,
    /// Free bytes of the chunk, behind the committed offset.
    pub(super) free: Cell<u32>,
    /// The chunk's word in the control page, and the key at which the host has revoked the chunk.
    pub(super) chunk: Cell<*const AtomicU64>,
    pub(super) closing_key: Cell<u32>,
    /// The control page's count of revocations up to which the chunk's word is known.
    pub(super) revocations: Cell<u64>,
    pub(super) opened: Cell<u64>,
    /// The masks of the line's counts that this thread has used; 0: none.
    pub(super) masks: [Cell<u8>; TOGETHER],
}

impl ThreadState {
    /// A state without a writer.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> ThreadState {
        ThreadState {
            busy: AtomicBool::new(false),
            epoch: Cell::new(0),
            open: Cell::new(&raw const NEVER_OPEN),
            open_of_writer: Cell::new(&raw const NEVER_OPEN),
            gate: Cell::new(std::ptr::null()),
            cpu: Cell::new(Cpu::UNKNOWN),
            writer: Cell::new(std::ptr::null()),
            tid: Cell::new(0),
            slot: Cell::new(0),
            class: Cell::new(0),
            retry: Cell::new(0),
            line: Cell::new(std::ptr::null()),
            counters: Cell::new(std::ptr::null()),
            head: Cell::new(Head(0)),
            base: Cell::new(std::ptr::null_mut()),
            free: Cell::new(0),
            chunk: Cell::new(std::ptr::null()),
            closing_key: Cell::new(0),
            revocations: Cell::new(0),
            opened: Cell::new(0),
            masks: [const { Cell::new(0) }; TOGETHER],
        }
    }
}

/// All thread-local data of the crate, in one struct: in a shared library, finding a thread-local can be a call.
///
/// [`try_this_thread`] finds it once for a write.
#[derive(Debug)]
pub struct Thread {
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
    let mut thread = pointer::get();
    if thread.is_null() {
        thread = pointer::find();
    }
    // SAFETY: the thread's own data, valid until the thread ends, even later than other locals, since it has no destructor. A
    // reference leaves this crate only in a reservation, which cannot leave the thread (it holds raw pointers).
    unsafe { &*thread }
}

/// Finds a thread's data through a word at a fixed distance from the thread pointer. In a shared library, access to any other
/// thread-local is a call, and in programs the compiler saves registers for one too. The word takes eight bytes of the space that
/// glibc keeps for libraries that are loaded later.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu", not(any(loom, miri))))]
mod pointer {
    use super::{THREAD, Thread};

    /// The word's name, which differs between versions of the crate.
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
        // Hidden: another library's word of this name is a different word.
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
        // SAFETY: reads this thread's copy of the word above.
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
        // SAFETY: writes this thread's copy of the word above. A signal handler in between writes the same value.
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
mod pointer {
    use super::{THREAD, Thread};

    /// Only takes the address inside `with`, so that the compiler inlines an addition.
    #[inline(always)]
    pub(super) fn get() -> *const Thread {
        THREAD.with(std::ptr::from_ref)
    }

    pub(super) fn find() -> *const Thread {
        get()
    }
}

/// The calling thread's data, if an earlier look at its word or an earlier write has found them.
#[inline(always)]
pub fn try_this_thread() -> Option<&'static Thread> {
    // SAFETY: null, or as in `this_thread`: a reference cannot leave the thread, since the data are not `Sync`, and no code of the thread
    // runs after their end.
    unsafe { pointer::get().as_ref() }
}

impl Thread {
    /// The bytes of [`thread_word`].
    #[inline(always)]
    pub fn word(&self) -> [u64; 2] {
        self.word.get()
    }
}

/// The calling thread's own state for an attachment.
#[inline(always)]
pub(super) fn thread_state<'a>(attachment: usize) -> &'a ThreadState {
    &this_thread().states[attachment % MAX_ATTACHMENTS]
}

/// Sixteen bytes of the calling thread that belong to the caller, zero at first. They lie beside the thread's state, so a look at them costs
/// nothing more than the write. Async-signal-safe. [`Thread::word`] is cheaper.
#[inline(always)]
pub fn thread_word() -> [u64; 2] {
    this_thread().word()
}

/// Sets the bytes of [`thread_word`], and returns the earlier ones. While they are not zero, [`try_begin_usual`](super::try_begin_usual) and
/// [`try_write_usual`](super::try_write_usual) do nothing. Async-signal-safe.
pub fn replace_thread_word(word: [u64; 2]) -> [u64; 2] {
    let thread = this_thread();
    let before = thread.word.replace(word);
    thread.states.iter().for_each(ThreadState::open_if_free);
    before
}

impl ThreadState {
    /// Chooses the word that [`ThreadState::open`] leads to.
    pub(super) fn open_if_free(&self) {
        self.open.set(if thread_word() == [0; 2] {
            self.open_of_writer.get()
        } else {
            &NEVER_OPEN
        });
    }
}
