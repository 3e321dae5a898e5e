//! Memory of a pool or a control: on the heap, anonymous and shared, or a mapped file.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::check_pool_fd;

/// Zeroed memory for a pool or a control page.
///
/// On Linux it is a mapping that fork does not copy (`MADV_DONTFORK`). A child made by `fork` finds private zeros at the same
/// addresses, so that a write in which a handler forked ends without harm.
#[derive(Debug)]
pub struct Memory {
    ptr: NonNull<u8>,
    len: usize,
    #[cfg(unix)]
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "held open"))]
    fd: Option<std::os::fd::OwnedFd>,
    heap: bool,
    writable: bool,
}

// SAFETY: `Memory` only gives its address out. All threads access the bytes by the protocol of `proto`.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

const HEAP_ALIGN: usize = 4096;

impl Memory {
    /// Memory on the heap, of this process alone.
    ///
    /// # Errors
    /// `OutOfMemory`, or `InvalidInput` for a size beyond the address space.
    pub fn heap(len: usize) -> io::Result<Memory> {
        let layout = std::alloc::Layout::from_size_align(len.max(1), HEAP_ALIGN)
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the layout has a size above zero.
        let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
        let ptr = NonNull::new(ptr).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory {
            ptr,
            len,
            #[cfg(unix)]
            fd: None,
            heap: true,
            writable: true,
        })
    }

    /// Memory on the heap with a copy of these bytes, as for a pool or a control page in a file.
    ///
    /// # Errors
    /// As [`heap`](Self::heap).
    pub fn copy_of(bytes: &[u8]) -> io::Result<Memory> {
        let memory = Memory::heap(bytes.len())?;
        // SAFETY: new memory of the size of `bytes`, which no other thread knows.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr(), bytes.len());
        }
        Ok(memory)
    }

    /// The address; valid as long as the value.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Size in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The word at `offset`.
    ///
    /// # Panics
    /// If the offset is unaligned or out of range: callers use constants and checked offsets.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset % 8 == 0 && offset + 8 <= self.len);
        // SAFETY: in range and aligned by the assertion (the base is page-aligned), and valid as long as `self`. Both sides access
        // shared words atomically; a hostile process can only change values.
        unsafe { &*self.ptr.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// The half word at `offset`; as [`word`](Self::word).
    pub(crate) fn half(&self, offset: usize) -> &std::sync::atomic::AtomicU32 {
        assert!(offset % 4 == 0 && offset + 4 <= self.len);
        // SAFETY: as in `word`.
        unsafe { &*self.ptr.as_ptr().add(offset).cast() }
    }

    /// Copies bytes out with atomic reads: a process that writes meanwhile can only change values.
    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(offset.checked_add(out.len()).is_some_and(|end| end <= self.len));
        let byte = |at: usize| {
            // SAFETY: `at < len`, by the assertion; a byte read as an atomic.
            unsafe {
                (*self.ptr.as_ptr().add(at).cast::<std::sync::atomic::AtomicU8>())
                    .load(Ordering::Relaxed)
            }
        };
        let lead = (offset.wrapping_neg() & 7).min(out.len());
        for (i, b) in out[..lead].iter_mut().enumerate() {
            *b = byte(offset + i);
        }
        let mut at = offset + lead;
        let out = &mut out[lead..];
        let lines = lines_of(out);
        // SAFETY: `at + lines.len() <= len`, by the assertion.
        unsafe { copy_lines(self.ptr.as_ptr().add(at), lines) };
        at += lines.len();
        let copied = lines.len();
        let mut words = out[copied..].chunks_exact_mut(8);
        for out in &mut words {
            // SAFETY: `at + 8 <= len`, by the assertion, and aligned.
            let word = unsafe { &*self.ptr.as_ptr().add(at).cast::<AtomicU64>() };
            out.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            at += 8;
        }
        for (i, b) in words.into_remainder().iter_mut().enumerate() {
            *b = byte(at + i);
        }
    }
}

/// Bytes that [`copy_lines`] copies at a time.
const LINE: usize = 64;

/// The part of `out` that is copied by whole lines.
fn lines_of(out: &mut [u8]) -> &mut [u8] {
    let len =
        if cfg!(all(target_arch = "x86_64", not(miri))) { out.len() / LINE * LINE } else { 0 };
    &mut out[..len]
}

/// Copies whole lines with vector moves. They are assembly because the compiler may assume of its own loads that nobody writes
/// meanwhile, and merges no atomic ones: word by word, the copy cost a tenth of a drained record.
///
/// # Safety
/// `from` points to as many readable bytes as `out` has, which is a multiple of [`LINE`]. Other processes may write to them.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_lines(from: *const u8, out: &mut [u8]) {
    let len = out.len();
    if len == 0 {
        return;
    }
    // SAFETY: reads and writes `len` bytes, from the lowest line on; registers and flags are declared.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from} + {at}]",
            "movups {b}, [{from} + {at} + 16]",
            "movups {c}, [{from} + {at} + 32]",
            "movups {d}, [{from} + {at} + 48]",
            "movups [{to} + {at}], {a}",
            "movups [{to} + {at} + 16], {b}",
            "movups [{to} + {at} + 32], {c}",
            "movups [{to} + {at} + 48], {d}",
            "add {at}, 64",
            "jnz 2b",
            // Offsets count up to zero.
            from = in(reg) from.add(len),
            to = in(reg) out.as_mut_ptr().add(len),
            at = inout(reg) len.wrapping_neg() => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_lines(_from: *const u8, out: &mut [u8]) {
    debug_assert!(out.is_empty());
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.heap {
            // SAFETY: allocated in `heap` with the same layout.
            unsafe {
                std::alloc::dealloc(
                    self.ptr.as_ptr(),
                    std::alloc::Layout::from_size_align_unchecked(self.len.max(1), HEAP_ALIGN),
                )
            }
            return;
        }
        #[cfg(target_os = "linux")]
        linux::unmap(self.ptr.as_ptr(), self.len);
    }
}

#[cfg(not(target_os = "linux"))]
impl Memory {
    pub(crate) fn prefault(&self, _offset: usize, _len: usize) {}

    pub(crate) fn populate(&self, _offset: usize, _len: usize) -> bool {
        false
    }

    pub(crate) fn retire(&self) -> io::Result<()> {
        Ok(())
    }
}
