//! The fork page and the child's handler on Linux.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const RANGES: usize = 128;
static RANGE_PTR: [AtomicPtr<u8>; RANGES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; RANGES];
static RANGE_LEN: [AtomicUsize; RANGES] = [const { AtomicUsize::new(0) }; RANGES];
/// The fork page: the process's generation, then words of writers.
type ForkPage = [AtomicU64; 512];
static FORK_PAGE: AtomicPtr<ForkPage> = AtomicPtr::new(std::ptr::null_mut());
static GENERATIONS: AtomicU64 = AtomicU64::new(1);
static AT_FORK: Once = Once::new();

pub(in crate::sys) fn remember(ptr: *mut u8, len: usize) {
    for (p, l) in RANGE_PTR.iter().zip(&RANGE_LEN) {
        // The length marks the entry taken; the pointer, stored last, makes it valid.
        if l.compare_exchange(0, len, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            p.store(ptr, Ordering::Release);
            return;
        }
    }
    // The table is full: a fork in a handler inside a write to this range then faults in the child.
}

pub(in crate::sys) fn forget(ptr: *mut u8) {
    for (p, l) in RANGE_PTR.iter().zip(&RANGE_LEN) {
        if p.compare_exchange(ptr, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            l.store(0, Ordering::Release);
            return;
        }
    }
}

/// Maps private zeros over a range of a `Memory`; async-signal-safe.
pub(in crate::sys) fn zeros(ptr: *mut u8, len: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the range belongs to a `Memory`, whose users access its bytes only by atomics and raw copies.
    let new =
        unsafe { libc::mmap(ptr.cast(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if new == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "C" fn in_child() {
    // SAFETY: null, or a page that is never unmapped.
    if let Some(page) = unsafe { FORK_PAGE.load(Ordering::Acquire).as_ref() } {
        // WIPEONFORK has zeroed it already, if the kernel supports it.
        page.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
    for (p, l) in RANGE_PTR.iter().zip(&RANGE_LEN) {
        let (ptr, len) = (p.load(Ordering::Acquire), l.load(Ordering::Acquire));
        if !ptr.is_null() && len != 0 {
            // MADV_DONTFORK has unmapped the range in this child, and no other thread runs that could have mapped something there. A
            // write in progress finds private zeros.
            let _ = zeros(ptr, len);
        }
    }
}

/// The word of the process's generation.
pub(crate) fn fork_word() -> io::Result<&'static AtomicU64> {
    let [generation, ..] = fork_page()?;
    Ok(generation)
}

/// A word that has this value until its owner makes it 0; a child finds 0. `None` while 511 others are in use.
pub(crate) fn claim_fork_word(value: u64) -> Option<&'static AtomicU64> {
    let [_, words @ ..] = fork_page().ok()?;
    let claim = |word: &&AtomicU64| {
        word.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    words.iter().find(claim)
}

/// The fork page: a child of any kind but vfork finds it zeroed. Made once in a process, never freed.
fn fork_page() -> io::Result<&'static ForkPage> {
    let mut fork_page = FORK_PAGE.load(Ordering::Acquire);
    if fork_page.is_null() {
        // SAFETY: a new anonymous page; the result is checked.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the page mapped above. If the kernel does not know the advice (before 4.14), the fork handler clears the page.
        unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) };
        match FORK_PAGE.compare_exchange(
            std::ptr::null_mut(),
            page.cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => fork_page = page.cast(),
            Err(other) => {
                // SAFETY: the page mapped above, which no other thread has seen.
                unsafe { libc::munmap(page, 4096) };
                fork_page = other;
            }
        }
        AT_FORK.call_once(|| {
            // SAFETY: the handler is async-signal-safe: atomics and mmap.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
    }
    // SAFETY: page-aligned, as large as the type, never unmapped.
    Ok(unsafe { &*fork_page })
}

/// This process's generation; a new one if the page was wiped.
pub(crate) fn current_generation(word: &AtomicU64) -> u64 {
    let now = word.load(Ordering::Relaxed);
    if now != 0 {
        return now;
    }
    let new = GENERATIONS.fetch_add(1, Ordering::Relaxed);
    match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(other) => other,
    }
}
