//! Memory on Linux: memfd, mmap, seals, madvise.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::Memory;
use crate::sys::fork::{forget, remember, zeros};

fn cvt(r: libc::c_int) -> io::Result<libc::c_int> {
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r) }
}

/// Makes a file longer. Where the process may not have files of that length, which counts for memory, too, it is an error here: the
/// system would send it a signal that ends it.
fn extend(fd: &impl AsRawFd, len: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid out pointer.
    cvt(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) })?;
    if limit.rlim_cur != libc::RLIM_INFINITY && len > limit.rlim_cur {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: plain system call on an open descriptor.
    cvt(unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) }).map(drop)
}

impl Memory {
    /// Anonymous shared memory with an fd to hand to a host: close-on-exec, sealed against shrinking, growing and
    /// further seals, never hugetlb.
    pub fn shared(len: usize) -> io::Result<Memory> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string; the result is checked.
        let fd = cvt(unsafe { libc::memfd_create(c"etw-ring".as_ptr(), flags) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // Not for other users, however they come by a descriptor: by default anybody may open it anew for writing.
        // SAFETY: plain system calls on an owned descriptor.
        cvt(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) })?;
        extend(&fd, len as u64)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: as above.
        cvt(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Memory::map(fd, 0, len, true)
    }

    /// Anonymous memory of this process alone that a child does not share: as [`shared`](Self::shared), without a
    /// descriptor.
    pub fn private(len: usize) -> io::Result<Memory> {
        let mut memory = Memory::shared(len)?;
        memory.fd = None;
        Ok(memory)
    }

    /// Maps `len` bytes of `fd` from `offset` (a multiple of the page size): a private session's `OUT.etl.part`, or a
    /// descriptor received from the other side. A file of ours is extended to that size.
    ///
    /// A regular file that someone else truncates raises SIGBUS: only pass files that belong to this process, or
    /// sealed ones ([`check_pool_fd`]).
    pub fn map(fd: OwnedFd, offset: u64, len: usize, writable: bool) -> io::Result<Memory> {
        use std::os::fd::AsFd;
        let mut memory = Memory::map_at(fd.as_fd(), offset, len, writable)?;
        memory.fd = Some(fd);
        Ok(memory)
    }

    fn map_at(fd: BorrowedFd<'_>, offset: u64, len: usize, writable: bool) -> io::Result<Memory> {
        // SAFETY: zeroed is a valid value of the plain C struct.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is a valid out pointer.
        cvt(unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
        let end = offset.checked_add(len as u64).ok_or(io::ErrorKind::InvalidInput)?;
        if (stat.st_size as u64) < end {
            if !writable {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            extend(&fd, end)?;
        }
        let prot = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let ptr = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                prot,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ptr = NonNull::new(ptr.cast::<u8>()).ok_or(io::ErrorKind::Other)?;
        let memory = Memory { ptr, len, fd: None, heap: false, writable };
        // SAFETY: our own mapping.
        cvt(unsafe { libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_DONTFORK) })?;
        remember(ptr.as_ptr(), len);
        Ok(memory)
    }

    /// As [`map`](Self::map), of a file that the caller keeps: no descriptor is held, and none made or closed (which
    /// would end the process's record locks on the file).
    pub fn map_file(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        writable: bool,
    ) -> io::Result<Memory> {
        Memory::map_at(fd, offset, len, writable)
    }

    /// Puts private zeros in the mapping's place: see [`Writer::retire`](crate::Writer::retire).
    pub(crate) fn retire(&self) -> io::Result<()> {
        if self.heap {
            return Ok(());
        }
        zeros(self.ptr.as_ptr(), self.len)
    }

    /// A descriptor for reading alone, to hand to somebody who must not write. (A process of the same user may open it anew for
    /// writing, as it may do anything to this one.)
    pub fn read_only_fd(&self) -> io::Result<OwnedFd> {
        let fd = self.fd.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        // The file that /proc names is opened anew, with rights of its own.
        let file = std::fs::File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        Ok(file.into())
    }

    /// Takes the descriptor out: the mapping stays without it.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fd.take()
    }

    /// The descriptor to hand over; `None` on the heap.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.fd.as_ref().map(|fd| fd.as_fd())
    }

    /// Makes the pages of a range present, so that a first touch does not enter the kernel in a write. Before anybody
    /// else uses them.
    pub(crate) fn prefault(&self, offset: usize, len: usize) {
        if !self.populate(offset, len) {
            for at in (offset & !4095..offset + len).step_by(4096) {
                self.word(at).fetch_or(0, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn populate(&self, offset: usize, len: usize) -> bool {
        assert!(self.writable && offset + len <= self.len);
        let start = offset & !4095;
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        // SAFETY: a range of our own mapping; populating changes no content.
        !self.heap
            && unsafe {
                libc::madvise(
                    self.ptr.as_ptr().add(start).cast(),
                    offset + len - start,
                    MADV_POPULATE_WRITE,
                ) == 0
            }
    }
}

pub(super) fn unmap(ptr: *mut u8, len: usize) {
    forget(ptr);
    // SAFETY: mapped in `map` with this length, unmapped once (from Drop). In a child made by fork the range is the
    // placeholder or nothing; unmapping either is harmless.
    unsafe { libc::munmap(ptr.cast(), len) };
}

/// Is this descriptor fit to be a pool or a segment of one? Sealed, not hugetlb, a size we accept; gives the size.
pub fn check_pool_fd(fd: BorrowedFd<'_>) -> io::Result<u64> {
    const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
    let bad = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    // SAFETY: plain call, checked.
    let seals = cvt(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
    let wanted = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    if seals & wanted != wanted {
        return Err(bad("pool memory is not sealed"));
    }
    // SAFETY: zeroed is a valid value of the plain C structs, which are then valid out pointers.
    let (stat, fs) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        let mut fs: libc::statfs = std::mem::zeroed();
        cvt(libc::fstat(fd.as_raw_fd(), &mut stat))?;
        cvt(libc::fstatfs(fd.as_raw_fd(), &mut fs))?;
        (stat, fs)
    };
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG || fs.f_type as u64 == HUGETLBFS_MAGIC {
        return Err(bad("pool memory is not a plain memfd"));
    }
    Ok(stat.st_size as u64)
}
