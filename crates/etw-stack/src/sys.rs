//! System calls, all async-signal-safe: they go to the kernel directly, and `errno` stays as it was.
#![allow(unsafe_code)]

use core::ops::Range;

/// Nothing here depends on the real size but the number of probes.
pub(crate) const PAGE: u64 = 4096;

/// Runs the call and gives its result or its error number.
fn call(f: impl FnOnce() -> libc::c_long) -> Result<usize, libc::c_int> {
    // SAFETY: the thread's own errno.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result = f();
        let after = *errno;
        *errno = before;
        usize::try_from(result).map_err(|_| after)
    }
}

/// Reads the ranges `remote` of this process's memory. Returns the number of bytes before the first range that cannot be read whole.
fn read_ranges(remote: &[libc::iovec], out: &mut [u8]) -> Result<usize, libc::c_int> {
    let local = libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    call(|| {
        // SAFETY: the kernel writes `out` only, and returns EFAULT for unmapped memory.
        unsafe {
            libc::syscall(
                libc::SYS_process_vm_readv,
                libc::syscall(libc::SYS_getpid),
                &raw const local,
                1_usize,
                remote.as_ptr(),
                remote.len(),
                0_usize,
            )
        }
    })
}

fn range(address: u64, len: usize) -> libc::iovec {
    libc::iovec { iov_base: address as *mut libc::c_void, iov_len: len }
}

/// Copies memory of this process, which may be unmapped. Returns true if all of it could be read.
pub(crate) fn read_memory(address: u64, out: &mut [u8]) -> bool {
    read_ranges(&[range(address, out.len())], out) == Ok(out.len())
}

/// The first address below `to` that cannot be read, or `to`.
pub(crate) fn readable_until(from: u64, to: u64) -> u64 {
    let mut at = from;
    while at < to {
        let mut probes = [const { range_of_nothing() }; 64];
        let mut places = [0; 64];
        let mut count = 0;
        while count < probes.len() && at < to {
            probes[count] = range(at, 1);
            places[count] = at;
            count += 1;
            at = (at & !(PAGE - 1)) + PAGE;
        }
        let mut bytes = [0; 64];
        let good = match read_ranges(&probes[..count], &mut bytes[..count]) {
            Ok(good) => good,
            Err(libc::EFAULT) => 0,
            // This process may not call it, so another system call makes the kernel read the memory.
            Err(_) => places[..count].iter().take_while(|place| readable(**place)).count(),
        };
        if good < count {
            return places[good];
        }
    }
    to
}

const fn range_of_nothing() -> libc::iovec {
    libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }
}

/// True if the eight bytes that contain the address can be read.
fn readable(address: u64) -> bool {
    let result = call(|| {
        // SAFETY: the kernel reads the set before it looks at `how`, which is invalid, so that no mask changes
        // (linux/kernel/signal.c): EFAULT or EINVAL.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                !0_usize,
                address & !7,
                core::ptr::null_mut::<libc::c_void>(),
                8_usize,
            )
        }
    });
    result == Err(libc::EINVAL)
}

/// The alternate signal stack, while the thread runs on it.
pub(crate) fn alternate_stack() -> Option<Range<u64>> {
    let mut stack =
        libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: asks only; the kernel writes `stack`.
    let result = call(|| unsafe {
        libc::syscall(libc::SYS_sigaltstack, core::ptr::null::<libc::stack_t>(), &raw mut stack)
    });
    (result.is_ok() && stack.ss_flags & libc::SS_ONSTACK != 0).then(|| {
        let start = stack.ss_sp as u64;
        start..start.saturating_add(stack.ss_size as u64)
    })
}

/// True if the calling thread is the first of its process.
pub(crate) fn is_main_thread() -> bool {
    // SAFETY: both calls take nothing and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) == libc::syscall(libc::SYS_getpid) }
}

/// An address in the main thread's stack above all its frames: the program's file name lies there (`getauxval(3)`).
pub(crate) fn main_stack_top() -> u64 {
    // SAFETY: reads a vector that never changes.
    let name = unsafe { libc::getauxval(libc::AT_EXECFN) };
    name & !7
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages, the last of which cannot be read.
    fn pages() -> u64 {
        // SAFETY: new pages, never unmapped.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages = libc::mmap(core::ptr::null_mut(), 3 * 4096, libc::PROT_READ, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(pages.add(2 * 4096), 4096, libc::PROT_NONE), 0);
            pages as u64
        }
    }

    #[test]
    fn unreadable_memory_is_an_answer() {
        let pages = pages();
        let mut out = [1; 16];
        assert!(read_memory(pages + 4096 - 8, &mut out));
        assert_eq!(out, [0; 16]);
        assert!(!read_memory(pages + 2 * 4096 - 8, &mut out));
        for bad in [0, 8, pages + 2 * 4096, 0x8000_0000_0000, u64::MAX - 7] {
            assert!(!read_memory(bad, &mut out), "{bad:x}");
            assert!(!readable(bad), "{bad:x}");
        }
        assert!(readable(pages) && readable(pages + 2 * 4096 - 1));
    }

    #[test]
    fn the_first_unreadable_place_is_found() {
        let pages = pages();
        let end = pages + 2 * 4096;
        assert_eq!(readable_until(pages + 100, end), end);
        assert_eq!(readable_until(pages + 100, end + 4096), end);
        assert_eq!(readable_until(end, end + 1), end);
    }

    #[test]
    fn reading_memory_keeps_errno() {
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = 77 };
        assert!(!read_memory(0, &mut [0; 8]));
        assert!(!readable(0));
        // SAFETY: the thread's own errno.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
    }
}
