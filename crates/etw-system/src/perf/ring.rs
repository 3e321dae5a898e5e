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
    /// Everything before has been read. The kernel keeps it until [`commit`](Ring::commit).
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

    /// The position up to which records have been read.
    pub fn read_until(&self) -> u64 {
        self.read_until
    }

    /// The position behind the last record that the kernel has written.
    pub fn head(&self) -> u64 {
        self.position(DATA_HEAD).load(Ordering::Acquire)
    }

    /// Bytes of records that have been read and not been committed.
    pub fn used(&self) -> u64 {
        self.read_until.wrapping_sub(self.position(DATA_TAIL).load(Ordering::Relaxed))
    }

    /// Gives each record that has come, with its position. The kernel keeps them until [`commit`](Ring::commit).
    pub fn read(&mut self, linear: &mut Vec<u8>, mut give: impl FnMut(u64, &[u8])) {
        let head = self.position(DATA_HEAD).load(Ordering::Acquire);
        let mut at = std::mem::replace(&mut self.read_until, head);
        if head.wrapping_sub(at) > self.size as u64 {
            // The kernel never writes so much behind a reader.
            return;
        }
        while let Some(record) = self.record(at, linear) {
            let size = record.len() as u64;
            give(at, record);
            at += size;
        }
    }

    /// The mapped bytes from an offset on, which lie between the last committed record and the end of what has been read.
    fn data(&self, from: usize, size: usize) -> &[u8] {
        assert!(from + size <= self.size);
        // SAFETY: the data are mapped, and the kernel does not write to what has been read and not been committed. The rest of the ring may
        // change, so that it is in no slice.
        unsafe {
            let start = self.memory.as_ptr().add(self.page + from);
            std::slice::from_raw_parts(start, size)
        }
    }

    /// The size of a record that the kernel wrote whole.
    fn record_size(&self, position: u64) -> Option<usize> {
        let available = self.read_until.checked_sub(position)? as usize;
        let start = position as usize & (self.size - 1);
        // Records begin at multiples of eight bytes, so headers do not wrap.
        if !start.is_multiple_of(HEADER) || available < HEADER {
            return None;
        }
        let size = usize::from(le::u16(self.data(start, HEADER), 6)?);
        (size >= HEADER && size <= available.min(self.size)).then_some(size)
    }

    /// The record at a position between the last committed one and the end of what has been read. `linear`: memory for a record that
    /// wraps around the end of the ring.
    pub fn record<'a>(&'a self, position: u64, linear: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let start = position as usize & (self.size - 1);
        let size = self.record_size(position)?;
        let to_end = self.size - start;
        if size <= to_end {
            return Some(self.data(start, size));
        }
        linear.clear();
        linear.extend_from_slice(self.data(start, to_end));
        linear.extend_from_slice(self.data(0, size - to_end));
        Some(linear)
    }

    /// Asks the processor for the first `size` bytes of the record at a position, and for its end: it is read soon, and the kernel wrote it
    /// on another CPU or long ago. A stack is read from frame to frame, each of which would wait for memory. Only the record's header is
    /// read here, as it was when the record was found.
    pub fn prefetch(&self, position: u64, size: usize) {
        let line = |offset: usize| {
            let start = (position as usize).wrapping_add(offset) & (self.size - 1);
            prefetch_line(self.memory.as_ptr().wrapping_add(self.page + start));
        };
        let Some(record) = self.record_size(position) else { return };
        (0..size.min(record)).step_by(LINE).for_each(line);
        if record > size {
            // The number of bytes that were copied.
            line(record - 1);
        }
    }

    /// Gives the kernel the memory of the records before a position.
    pub fn commit(&self, position: u64) {
        self.position(DATA_TAIL).store(position, Ordering::Release);
    }
}

/// Bytes of a line of a cache.
pub(crate) const LINE: usize = 64;

/// Loads the line at an address into the cache.
pub(crate) fn prefetch_line(address: *const u8) {
    // SAFETY: the instruction reads nothing into the program, whatever the address is.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nothing refers to any more.
        unsafe {
            libc::munmap(self.memory.as_ptr().cast(), self.page + self.size);
        }
    }
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

        /// Adds a record.
        pub(crate) fn write(&self, record: &[u8]) {
            let head = self.kernel.position(DATA_HEAD);
            let at = head.load(Ordering::Relaxed);
            let start = at as usize & (Self::SIZE - 1);
            let (back, front) = record.split_at(record.len().min(Self::SIZE - start));
            // SAFETY: both parts lie in the mapped data, and nobody reads behind `data_head`.
            unsafe {
                let data = self.kernel.memory.as_ptr().add(self.kernel.page);
                std::ptr::copy_nonoverlapping(back.as_ptr(), data.add(start), back.len());
                std::ptr::copy_nonoverlapping(front.as_ptr(), data, front.len());
            }
            head.store(at + record.len() as u64, Ordering::Release);
        }
    }
}
