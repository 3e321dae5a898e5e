//! The ring that the kernel fills for one CPU.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use etw_types::le;

/// Where `data_head` and `data_tail` stand in the first page.
const DATA_HEAD: usize = 0x400;
const DATA_TAIL: usize = 0x408;
/// Bytes of a record's header.
pub(super) const HEADER: usize = 8;

/// A mapped ring.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: NonNull<u8>,
    size: usize,
    page: usize,
    /// The event that it was mapped from.
    event: libc::c_int,
    /// Everything before has been copied. The kernel keeps it until [`commit`](Ring::commit).
    read_until: u64,
}

// SAFETY: the mapping belongs to this value alone, and no thread of ours shares it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `size` bytes, a power of two of at least a page, for the event with this descriptor.
    pub fn map(event: libc::c_int, size: usize) -> io::Result<Ring> {
        // SAFETY: takes and returns a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event,
                0,
            )
        };
        match NonNull::new(memory.cast::<u8>()) {
            Some(memory) if memory.as_ptr().cast() != libc::MAP_FAILED => {
                let mut ring = Ring { memory, size, page, event, read_until: 0 };
                ring.read_until = ring.position(DATA_TAIL).load(Ordering::Relaxed);
                Ok(ring)
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The descriptor of the event that it was mapped from.
    pub fn event(&self) -> libc::c_int {
        self.event
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped, and the position is an aligned u64 in it that the kernel and this process share.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }

    /// Bytes for records.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The position up to which records have been copied.
    pub fn read_until(&self) -> u64 {
        self.read_until
    }

    /// Copies the records that have come to the end of `out`. Returns the position of the first one.
    pub fn read(&mut self, out: &mut Vec<u8>) -> u64 {
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.read_until;
        let count = (head.wrapping_sub(tail) as usize).min(self.size);
        let start = tail as usize & (self.size - 1);
        let first = count.min(self.size - start);
        // SAFETY: both parts lie in the mapped data, and the kernel does not write between tail and head.
        unsafe {
            let data = self.memory.as_ptr().add(self.page);
            out.extend_from_slice(std::slice::from_raw_parts(data.add(start), first));
            out.extend_from_slice(std::slice::from_raw_parts(data, count - first));
        }
        self.read_until = head;
        tail
    }

    /// Gives the kernel the memory of the records before a position.
    pub fn commit(&self, position: u64) {
        self.position(DATA_TAIL).store(position, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nothing refers to any more.
        unsafe {
            libc::munmap(self.memory.as_ptr().cast(), self.page + self.size);
        }
    }
}

/// Bytes of the record at the front; `None`: there is no whole one.
pub(super) fn record_size(bytes: &[u8]) -> Option<usize> {
    let size = usize::from(le::u16(bytes, 6)?);
    (size >= HEADER && size <= bytes.len()).then_some(size)
}

/// Rings of files in memory.
#[cfg(test)]
pub(crate) mod fake {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::*;

    /// A ring that a test fills in place of the kernel.
    pub(crate) struct FakeRing {
        file: OwnedFd,
        kernel: Ring,
    }

    impl FakeRing {
        pub(crate) const SIZE: usize = 1 << 16;

        pub(crate) fn new() -> FakeRing {
            // SAFETY: a text with a NUL, and a number.
            let file = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
            assert!(file >= 0);
            // SAFETY: the call returned a new descriptor, which nobody else has.
            let file = unsafe { OwnedFd::from_raw_fd(file) };
            // SAFETY: takes and returns a number.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            // SAFETY: the arguments are numbers.
            let sized =
                unsafe { libc::ftruncate(file.as_raw_fd(), (page + Self::SIZE) as libc::off_t) };
            assert_eq!(sized, 0);
            let kernel = Ring::map(file.as_raw_fd(), Self::SIZE).unwrap();
            FakeRing { file, kernel }
        }

        /// The ring as a process maps it.
        pub(crate) fn map(&self) -> Ring {
            Ring::map(self.file.as_raw_fd(), Self::SIZE).unwrap()
        }

        /// Adds a record that does not wrap.
        pub(crate) fn write(&self, record: &[u8]) {
            let head = self.kernel.position(DATA_HEAD);
            let at = head.load(Ordering::Relaxed);
            let start = at as usize & (Self::SIZE - 1);
            assert!(start + record.len() <= Self::SIZE);
            // SAFETY: the record lies in the mapped data, and nobody reads behind `data_head`.
            unsafe {
                let to = self.kernel.memory.as_ptr().add(self.kernel.page + start);
                std::ptr::copy_nonoverlapping(record.as_ptr(), to, record.len());
            }
            head.store(at + record.len() as u64, Ordering::Release);
        }
    }
}
