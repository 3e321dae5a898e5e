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

/// Extends a file. If the process's limit of file sizes, which counts for memory too, is lower, this is an error: otherwise the system
/// would send a signal that ends the process.
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
    /// Anonymous shared memory with a descriptor to send to a host: close-on-exec, sealed against shrinking, growing and further seals,
    /// never hugetlb.
    ///
    /// # Errors
    /// The system's error.
    pub fn shared(len: usize) -> io::Result<Memory> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string; the result is checked.
        let fd = cvt(unsafe { libc::memfd_create(c"etw-ring".as_ptr(), flags) })?;
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // Other users must not open it, however they get a descriptor: by default anyone may open it anew for writing.
        // SAFETY: plain system calls on an owned descriptor.
        cvt(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) })?;
        extend(&fd, len as u64)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: a plain system call on an owned descriptor.
        cvt(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Memory::map(fd, 0, len, true)
    }

    /// Anonymous memory of this process alone, which a child does not share: [`shared`](Self::shared) without a descriptor.
    ///
    /// # Errors
    /// The system's error.
    pub fn private(len: usize) -> io::Result<Memory> {
        let mut memory = Memory::shared(len)?;
        memory.fd = None;
        Ok(memory)
    }

    /// Maps `len` bytes of `fd` from `offset` (a multiple of the page size): a private session's `OUT.etl.part`, or a received
    /// descriptor. A writable file is extended to that size.
    ///
    /// If another process truncates the file, an access raises SIGBUS: only pass files that belong to this process, or sealed ones
    /// ([`check_pool_fd`]).
    ///
    /// # Errors
    /// `UnexpectedEof`: a read-only file is shorter. Else the system's error.
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
        // SAFETY: the mapping made above.
        cvt(unsafe { libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_DONTFORK) })?;
        remember(ptr.as_ptr(), len);
        Ok(memory)
    }

    /// [`map`](Self::map) for a file that the caller keeps: no descriptor is kept, made or closed (a close would end the process's
    /// record locks on the file).
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn map_file(
        fd: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        writable: bool,
    ) -> io::Result<Memory> {
        Memory::map_at(fd, offset, len, writable)
    }

    /// Replaces the mapping by private zeros: see [`Writer::retire`](crate::Writer::retire).
    pub(crate) fn retire(&self) -> io::Result<()> {
        if self.heap {
            return Ok(());
        }
        zeros(self.ptr.as_ptr(), self.len)
    }

    /// A read-only descriptor, for a process that must not write. (A process of the same user may open it anew for writing, as it may
    /// do anything to this process.)
    ///
    /// # Errors
    /// `Unsupported`: the memory has no descriptor. Else the system's error.
    pub fn read_only_fd(&self) -> io::Result<OwnedFd> {
        let fd = self.fd.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        // Opens the file anew through /proc, with read access alone.
        let file = std::fs::File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        Ok(file.into())
    }

    /// Takes the descriptor; the mapping stays.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fd.take()
    }

    /// The descriptor, to be sent; `None` on the heap.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.fd.as_ref().map(|fd| fd.as_fd())
    }

    /// Makes the pages of a range present, so that a write does not enter the kernel at their first use. Called before any other thread
    /// uses them.
    pub(crate) fn prefault(&self, offset: usize, len: usize) {
        if !self.populate(offset, len) {
            for at in (offset & !4095..offset + len).step_by(4096) {
                self.word(at).fetch_or(0, Ordering::Relaxed);
            }
        }
    }

    /// Makes the pages of a range present, if the system can do that; writers may use them meanwhile. Returns whether it did.
    pub(crate) fn populate(&self, offset: usize, len: usize) -> bool {
        assert!(self.writable && offset + len <= self.len);
        let start = offset & !4095;
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        // SAFETY: a range of this mapping; populating changes no content.
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
    // SAFETY: mapped by `map_at` with this length, and unmapped once, from Drop. In a child made by fork the range holds private zeros
    // or nothing; unmapping either is harmless.
    unsafe { libc::munmap(ptr.cast(), len) };
}

/// Checks that a descriptor can be a pool's segment: sealed, and not hugetlb. Returns its size.
///
/// # Errors
/// `InvalidData`: it is another kind of file. Else the system's error.
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
