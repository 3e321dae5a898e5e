//! The ring that programs fill on all CPUs: `BPF_MAP_TYPE_RINGBUF`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::points::SHARED_SIZE;
use crate::perf::ring::{LINE, prefetch_line};

/// A record that is being written, in the first word of its header.
const BUSY: u32 = 1 << 31;
/// A record that its program gave up.
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

/// Memory that the kernel shares.
#[derive(Debug)]
struct Mapping {
    memory: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to this value; what others write to it is read by atomic loads, or behind one.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(
        map: BorrowedFd<'_>,
        size: usize,
        access: libc::c_int,
        offset: usize,
    ) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                access,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        match NonNull::new(memory.cast::<u8>()) {
            Some(memory) if memory.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Mapping { memory, size })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn word64(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + 8 <= self.size);
        // SAFETY: `at` is an aligned offset in the mapping, which all callers give as a constant or masked by its size.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }

    fn word32(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at + 4 <= self.size);
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing refers to any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.size) };
    }
}

fn page_size() -> usize {
    // SAFETY: takes and returns a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// A mapped ring.
#[derive(Debug)]
pub struct ProgramRing {
    /// The position before which the kernel may write again.
    consumer: Mapping,
    /// The kernel's position, and behind that page the data twice, so that no record wraps.
    data: Mapping,
    page: usize,
    size: usize,
    /// Everything before has been read. The kernel keeps it until [`commit`](ProgramRing::commit).
    read_until: u64,
}

impl ProgramRing {
    /// Maps the ring of a map, whose data have `size` bytes.
    pub fn map(map: BorrowedFd<'_>, size: usize) -> io::Result<ProgramRing> {
        let page = page_size();
        if !size.is_power_of_two() || size < page {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let consumer = Mapping::new(map, page, libc::PROT_READ | libc::PROT_WRITE, 0)?;
        let data = Mapping::new(map, page + 2 * size, libc::PROT_READ, page)?;
        let read_until = consumer.word64(0).load(Ordering::Relaxed);
        Ok(ProgramRing { consumer, data, page, size, read_until })
    }

    /// Bytes for records.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The position up to which records have been read.
    pub fn read_until(&self) -> u64 {
        self.read_until
    }

    /// Gives each record that has come, with its position. A record that is being written ends the reading: those behind it come next
    /// time. Returns whether there was none.
    pub fn read(&mut self, mut give: impl FnMut(u64, &[u8])) -> bool {
        let produced = self.data.word64(0).load(Ordering::Acquire);
        while self.read_until < produced {
            let start = self.read_until as usize & (self.size - 1);
            let header = self.data.word32(self.page + start).load(Ordering::Acquire);
            let size = (header & !(BUSY | DISCARDED)) as usize;
            if header & BUSY != 0 || size > self.size {
                return false;
            }
            let position = self.read_until;
            self.read_until += (size as u64 + HEADER + 7) & !7;
            if header & DISCARDED == 0 {
                give(position, self.bytes(start, size));
            }
        }
        true
    }

    /// The bytes of a whole record, whose header is at `start`. `size` is at most that of the ring.
    #[inline]
    fn bytes(&self, start: usize, size: usize) -> &[u8] {
        // SAFETY: the record lies in the data, which are mapped twice, and the kernel does not write to it before it is committed.
        unsafe {
            let at = self.data.memory.as_ptr().add(self.page + start + HEADER as usize);
            std::slice::from_raw_parts(at, size)
        }
    }

    /// Loads bytes from a position on into the cache.
    pub fn prefetch(&self, position: u64, size: usize) {
        let start = self.page + (position as usize & (self.size - 1));
        // An address behind the mapping loads nothing.
        let at = |offset: usize| self.data.memory.as_ptr().wrapping_add(start + offset);
        (0..size).step_by(LINE).for_each(|offset| prefetch_line(at(offset)));
    }

    /// Bytes of records that have been read and not been committed.
    pub fn used(&self) -> u64 {
        self.read_until - self.committed()
    }

    /// The position before which the kernel may write again.
    pub fn committed(&self) -> u64 {
        self.consumer.word64(0).load(Ordering::Relaxed)
    }

    /// The record at a position that [`read`](ProgramRing::read) gave and that has not been committed.
    pub fn record(&self, position: u64) -> Option<&[u8]> {
        let start = position as usize & (self.size - 1);
        let header = self.data.word32(self.page + start).load(Ordering::Relaxed);
        let size = (header & !(BUSY | DISCARDED)) as usize;
        if header & BUSY != 0 || size > self.size || position >= self.read_until {
            return None;
        }
        Some(self.bytes(start, size))
    }

    /// Gives the kernel the memory of the records before a position.
    pub fn commit(&self, position: u64) {
        self.consumer.word64(0).store(position, Ordering::Release);
    }
}

/// The words that programs and the host share.
#[derive(Debug)]
pub struct SharedWords(Mapping);

impl SharedWords {
    /// Maps the value of an array with one element.
    pub fn map(map: BorrowedFd<'_>) -> io::Result<SharedWords> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        Ok(SharedWords(Mapping::new(map, SHARED_SIZE as usize, access, 0)?))
    }

    /// The word at one of the offsets of the programs.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        self.0.word64(at)
    }
}

/// Rings of files in memory.
#[cfg(test)]
pub(crate) mod fake {
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    use super::*;

    /// A file in memory of so many bytes.
    pub(crate) fn memory(size: usize) -> OwnedFd {
        // SAFETY: a text with a NUL, and a number.
        let file = unsafe { libc::memfd_create(c"programs".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(file >= 0);
        // SAFETY: the call returned a new descriptor, which nobody else has.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: the arguments are numbers.
        assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), size as libc::off_t) }, 0);
        file
    }

    /// A ring that a test fills in place of programs, until its end.
    pub(crate) struct FakeProgramRing {
        pub file: OwnedFd,
        data: Mapping,
    }

    impl FakeProgramRing {
        pub(crate) const SIZE: usize = 1 << 16;

        pub(crate) fn new() -> FakeProgramRing {
            let page = page_size();
            let file = memory(2 * page + 2 * Self::SIZE);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let data = Mapping::new(file.as_fd(), page + Self::SIZE, access, page).unwrap();
            FakeProgramRing { file, data }
        }

        /// Adds a record. It is being written until [`complete`](Self::complete) is called with the returned position.
        pub(crate) fn begin(&self, record: &[u8]) -> usize {
            let at = self.data.word64(0).load(Ordering::Relaxed) as usize;
            let start = page_size() + at;
            self.data.word32(start).store(record.len() as u32 | BUSY, Ordering::Relaxed);
            for (index, word) in record.chunks_exact(4).enumerate() {
                let word = u32::from_ne_bytes(word.try_into().unwrap());
                let at = start + HEADER as usize + index * 4;
                self.data.word32(at).store(word, Ordering::Relaxed);
            }
            let end = (at as u64 + record.len() as u64 + HEADER).next_multiple_of(8);
            self.data.word64(0).store(end, Ordering::Release);
            start
        }

        pub(crate) fn complete(&self, start: usize) {
            self.data.word32(start).fetch_and(!BUSY, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_ring_of_an_impossible_size_is_refused() {
        let file = std::fs::File::open("/dev/zero").unwrap();
        for size in [0, 1, 4095, 5000, usize::MAX] {
            let error = ProgramRing::map(file.as_fd(), size).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{size}");
        }
    }
}
