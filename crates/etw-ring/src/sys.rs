//! Where the crate meets the operating system: shared memory, the fork page, membarrier, clock, thread id, processor.
//!
//! Linux has all of it. Elsewhere pools live on the heap, writers fence for themselves, and the clock is the standard
//! library's; nothing is shared between processes there.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A zero-filled region that a pool or a control lies in.
///
/// On Linux it is a mapping that fork does not copy (`MADV_DONTFORK`); a child made by `fork` finds harmless private
/// zeros at its place, so that a write interrupted by the handler that forked comes to its end there.
#[derive(Debug)]
pub struct Memory {
    ptr: NonNull<u8>,
    len: usize,
    #[cfg(unix)]
    fd: Option<std::os::fd::OwnedFd>,
    heap: bool,
    writable: bool,
}

// SAFETY: `Memory` only hands out its address; who may write where is the protocol of `proto`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

const HEAP_ALIGN: usize = 4096;

impl Memory {
    /// Memory of this process alone.
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

    /// Memory of this process alone, with these bytes: a pool or control found in a file.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Memory> {
        let memory = Memory::heap(bytes.len())?;
        // SAFETY: as long as `bytes`, just made, and nobody else's yet.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr(), bytes.len());
        }
        Ok(memory)
    }

    /// The address, for the process's lifetime or the value's, whichever ends first.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
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
    /// When it is unaligned or out of range: offsets come from our own constants or were checked.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len);
        // SAFETY: in range and aligned by the assertion (the base is page-aligned); lives as long as `self`; every access
        // to shared words is atomic, by us and by the other side's honest code (a hostile one only garbles values).
        unsafe { &*self.ptr.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// The half word at `offset`; as [`word`](Self::word).
    pub(crate) fn half(&self, offset: usize) -> &std::sync::atomic::AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len);
        // SAFETY: as in `word`.
        unsafe { &*self.ptr.as_ptr().add(offset).cast() }
    }

    /// Copies out with atomic reads, so that a writer that scribbles meanwhile changes values and nothing else.
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
        let start = offset + lead;
        let mut words = out[lead..].chunks_exact_mut(8);
        let mut at = start;
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

/// A part of a mapping that nobody else in this process knows: a session's buffer in memory that outlives the process.
#[derive(Debug)]
pub struct Region {
    memory: std::sync::Arc<Memory>,
    offset: usize,
    len: usize,
}

impl Memory {
    /// Cuts the memory into regions of `len` bytes; the rest is not used.
    pub fn into_regions(self, len: usize) -> Vec<Region> {
        let memory = std::sync::Arc::new(self);
        let count = memory.len().checked_div(len).unwrap_or(0);
        (0..count).map(|n| Region { memory: memory.clone(), offset: n * len, len }).collect()
    }
}

impl Region {
    /// The pages of all regions of this memory.
    pub fn pages(&self) -> Pages {
        Pages(self.memory.clone())
    }
}

/// Pages of a memory, which the system can be asked for before they are used: nothing else can be done with it.
#[derive(Debug)]
pub struct Pages(std::sync::Arc<Memory>);

impl Pages {
    /// Makes the last `most` bytes present, a MiB at a time from the end on, which is where sessions begin; whoever uses them meanwhile
    /// does not wait for it. The bytes that are present then: fewer where the system has no such call (Linux before 5.14) or no memory.
    pub fn populate(&self, most: usize) -> usize {
        const STEP: usize = 1 << 20;
        let (end, most) = (self.0.len(), most.min(self.0.len()));
        let mut done = 0;
        while done < most {
            let step = STEP.min(most - done);
            if !self.0.populate(end - done - step, step) {
                break;
            }
            done += step;
        }
        done
    }
}

impl AsRef<[u8]> for Region {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: inside the mapping, which lives as long as `self`; `into_regions` consumed the memory and made disjoint
        // regions, so no other reference to these bytes exists. (The file behind it belongs to this process alone.)
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(self.offset), self.len) }
    }
}

impl AsMut<[u8]> for Region {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_ref`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(self.offset), self.len) }
    }
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

/// The raw clock of a pool; the host chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawClock {
    /// The processor's time-stamp counter. Only sound where it is invariant and the same on all processors.
    Tsc,
    /// `CLOCK_MONOTONIC` in nanoseconds.
    Monotonic,
}

impl RawClock {
    /// The TSC where the kernel itself keeps time by it, else `CLOCK_MONOTONIC`.
    pub fn best() -> RawClock {
        find_time_namespace();
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        {
            let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            if std::fs::read(source).is_ok_and(|s| s.trim_ascii() == b"tsc") {
                return RawClock::Tsc;
            }
        }
        RawClock::Monotonic
    }

    /// The time now.
    #[inline(always)]
    pub fn now(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: RDTSC exists on every x86-64; a system that forbids it (PR_TSC) has no TSC clock source in use.
            RawClock::Tsc => unsafe { core::arch::x86_64::_rdtsc() },
            #[cfg(not(target_arch = "x86_64"))]
            RawClock::Tsc => monotonic(),
            RawClock::Monotonic => monotonic(),
        }
    }
}

#[cfg(unix)]
fn monotonic() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid out pointer; the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    let here = ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64;
    here.wrapping_sub(OFFSET.load(Ordering::Relaxed))
}

/// What this process's time namespace adds to `CLOCK_MONOTONIC`, in nanoseconds.
#[cfg(unix)]
static OFFSET: AtomicU64 = AtomicU64::new(0);

/// In a time namespace `CLOCK_MONOTONIC` is the machine's with an offset: processes of several agree on the machine's. Asked when a
/// process begins with a clock; where the system does not tell, there is no other namespace, or its records are told by their times, and
/// counted.
pub(crate) fn find_time_namespace() {
    #[cfg(target_os = "linux")]
    if let Ok(text) = std::fs::read_to_string("/proc/self/timens_offsets") {
        OFFSET.store(monotonic_offset(&text).unwrap_or(0), Ordering::Relaxed);
    }
}

/// From lines of a clock's name, seconds and nanoseconds.
#[cfg(target_os = "linux")]
fn monotonic_offset(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_ascii_whitespace();
    let seconds: i64 = numbers.next()?.parse().ok()?;
    let nanos: i64 = numbers.next()?.parse().ok()?;
    Some(seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos) as u64)
}

#[cfg(not(unix))]
fn monotonic() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// How the host makes every writer's announcement visible before it reads the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// membarrier(2), private expedited: host and writers are one process.
    Private,
    /// membarrier(2), global expedited: the writers' processes have registered for it.
    Global,
    /// Writers execute a full fence at every event: where membarrier is missing or forbidden.
    WriterFences,
}

impl Barrier {
    /// The cheapest that works here, for a host inside the writer's process or outside it.
    pub fn best(same_process: bool) -> Barrier {
        #[cfg(target_os = "linux")]
        {
            if same_process && linux::register_private() {
                return Barrier::Private;
            }
            if linux::global_works() {
                return Barrier::Global;
            }
        }
        let _ = same_process;
        Barrier::WriterFences
    }

    /// Called by a writer's process when it attaches: without it the host's barrier does not reach it.
    pub(crate) fn register(self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Barrier::Private => linux::register_private(),
            #[cfg(target_os = "linux")]
            Barrier::Global => linux::register_global(),
            #[cfg(not(target_os = "linux"))]
            Barrier::Private | Barrier::Global => false,
            Barrier::WriterFences => true,
        }
    }

    /// Issued by the host. `false`: the kernel refused, and watermarks are no longer proven.
    pub(crate) fn issue(self) -> bool {
        std::sync::atomic::fence(Ordering::SeqCst);
        match self {
            #[cfg(target_os = "linux")]
            Barrier::Private => linux::membarrier(linux::PRIVATE_EXPEDITED),
            #[cfg(target_os = "linux")]
            Barrier::Global => linux::membarrier(linux::GLOBAL_EXPEDITED),
            #[cfg(not(target_os = "linux"))]
            Barrier::Private | Barrier::Global => false,
            Barrier::WriterFences => true,
        }
    }
}

/// A number that a child made by `fork` or `clone` sees changed; 0 where that cannot be told.
pub fn process_generation() -> u64 {
    fork_word().map_or(0, current_generation)
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    Cpu, current_generation, fork_word, futex_wait, futex_wake, thread_alive, thread_id,
};
#[cfg(target_os = "linux")]
pub use linux::{check_pool_fd, process_thread_alive};

#[cfg(not(target_os = "linux"))]
mod other {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Cpu;
    impl Cpu {
        pub fn find() -> Cpu {
            Cpu
        }
        #[inline(always)]
        pub fn current(self) -> u16 {
            0
        }
        pub fn has_stamp(self) -> bool {
            false
        }
        #[inline(always)]
        pub fn stamp(self) -> (u64, u16) {
            (0, 0)
        }
    }
    static NO_FORK: AtomicU64 = AtomicU64::new(1);
    pub(crate) fn fork_word() -> io::Result<&'static AtomicU64> {
        Ok(&NO_FORK)
    }
    pub(crate) fn current_generation(word: &AtomicU64) -> u64 {
        word.load(Ordering::Relaxed)
    }
    pub(crate) fn thread_id() -> u32 {
        use std::sync::atomic::AtomicU32;
        static NEXT: AtomicU32 = AtomicU32::new(1);
        thread_local!(static ID: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
        ID.with(|id| {
            if id.get() == 0 {
                id.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            id.get()
        })
    }
    pub(crate) fn thread_alive(_tid: u32) -> bool {
        true
    }
    pub(crate) fn futex_wait(
        word: &std::sync::atomic::AtomicU32,
        expected: u32,
        timeout: std::time::Duration,
    ) {
        // No futex here: look often.
        let end = std::time::Instant::now() + timeout;
        while word.load(Ordering::Relaxed) == expected && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(1).min(timeout));
        }
    }
    pub(crate) fn futex_wake(word: &std::sync::atomic::AtomicU32) {
        word.store(0, Ordering::Relaxed);
    }
}
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    Cpu, current_generation, fork_word, futex_wait, futex_wake, thread_alive, thread_id,
};

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
    use std::sync::Once;
    use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

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

        fn map_at(
            fd: BorrowedFd<'_>,
            offset: u64,
            len: usize,
            writable: bool,
        ) -> io::Result<Memory> {
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

    // ---- fork ----------------------------------------------------------------------------------------------------

    const RANGES: usize = 128;
    static RANGE_PTR: [AtomicPtr<u8>; RANGES] =
        [const { AtomicPtr::new(std::ptr::null_mut()) }; RANGES];
    static RANGE_LEN: [AtomicUsize; RANGES] = [const { AtomicUsize::new(0) }; RANGES];
    static FORK_WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
    static GENERATIONS: AtomicU64 = AtomicU64::new(1);
    static AT_FORK: Once = Once::new();

    fn remember(ptr: *mut u8, len: usize) {
        for (p, l) in RANGE_PTR.iter().zip(&RANGE_LEN) {
            // The length marks the entry taken; the pointer, stored last, makes it valid.
            if l.compare_exchange(0, len, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                p.store(ptr, Ordering::Release);
                return;
            }
        }
        // Table full: a fork inside a handler inside a write to this range then faults in the child.
    }

    fn forget(ptr: *mut u8) {
        for (p, l) in RANGE_PTR.iter().zip(&RANGE_LEN) {
            if p.compare_exchange(ptr, std::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                l.store(0, Ordering::Release);
                return;
            }
        }
    }

    /// Private zeros over a range of ours; async-signal-safe.
    fn zeros(ptr: *mut u8, len: usize) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: the range belongs to a `Memory`, whose users know nothing of its content but by atomics and raw copies.
        let new = unsafe {
            libc::mmap(ptr.cast(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if new == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    extern "C" fn in_child() {
        let word = FORK_WORD.load(Ordering::Acquire);
        if !word.is_null() {
            // SAFETY: a page that is never unmapped. WIPEONFORK has zeroed it already, where the kernel knows it.
            unsafe { (*word).store(0, Ordering::Relaxed) };
        }
        for (p, l) in RANGE_PTR.iter().zip(&RANGE_LEN) {
            let (ptr, len) = (p.load(Ordering::Acquire), l.load(Ordering::Acquire));
            if !ptr.is_null() && len != 0 {
                // The range was ours in the parent and, by MADV_DONTFORK, is not mapped here; in the child of a fork no
                // other thread runs that could have taken it. A write in progress finds zeros of its own.
                let _ = zeros(ptr, len);
            }
        }
    }

    /// The page that a child of any kind but vfork finds zeroed. Made once in a process, never freed.
    pub(crate) fn fork_word() -> io::Result<&'static AtomicU64> {
        let mut word = FORK_WORD.load(Ordering::Acquire);
        if word.is_null() {
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
            // SAFETY: our own page. Where the kernel does not know the advice (before 4.14) the fork handler clears it.
            unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) };
            match FORK_WORD.compare_exchange(
                std::ptr::null_mut(),
                page.cast(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => word = page.cast(),
                Err(other) => {
                    // SAFETY: our own page, which nobody has seen.
                    unsafe { libc::munmap(page, 4096) };
                    word = other;
                }
            }
            AT_FORK.call_once(|| {
                // SAFETY: the handler is async-signal-safe: atomics and mmap.
                unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            });
        }
        // SAFETY: page-aligned, never unmapped.
        Ok(unsafe { &*word })
    }

    /// This process's generation, given anew when the page was wiped.
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

    // ---- membarrier ----------------------------------------------------------------------------------------------

    // linux/membarrier.h
    const QUERY: libc::c_int = 0;
    pub(super) const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
    const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
    pub(super) const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    pub(super) fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the system call takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register_private() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn register_global() -> bool {
        membarrier(REGISTER_GLOBAL_EXPEDITED)
    }

    pub(super) fn global_works() -> bool {
        // SAFETY: the system call takes no pointers.
        let known = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) };
        known > 0 && known & libc::c_long::from(GLOBAL_EXPEDITED) != 0
    }

    // ---- futex ---------------------------------------------------------------------------------------------------

    /// Waits while the word is `expected`. The word lies in memory that other processes may share.
    pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, timeout: std::time::Duration) {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
        };
        // SAFETY: the word outlives the call; the timeout is read only.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                std::ptr::from_ref(word),
                libc::FUTEX_WAIT,
                expected,
                &raw const timeout,
            );
        }
    }

    /// Wakes whoever waits. Async-signal-safe.
    pub(crate) fn futex_wake(word: &AtomicU32) {
        let before = errno();
        // SAFETY: the word outlives the call.
        unsafe { libc::syscall(libc::SYS_futex, std::ptr::from_ref(word), libc::FUTEX_WAKE, 1) };
        // SAFETY: the thread's own errno; a signal handler may be the caller.
        unsafe { *libc::__errno_location() = before };
    }

    // ---- threads and processors ----------------------------------------------------------------------------------

    pub(crate) fn thread_id() -> u32 {
        // SAFETY: takes and returns plain numbers.
        unsafe { libc::syscall(libc::SYS_gettid) as u32 }
    }

    /// Does this thread of this process still run? When the kernel does not say, yes.
    pub(crate) fn thread_alive(tid: u32) -> bool {
        let before = errno();
        // SAFETY: signal 0 only asks.
        let r = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as libc::c_int, 0) };
        let dead = r != 0 && errno() == libc::ESRCH;
        // A signal handler may be the caller.
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = before };
        !dead
    }

    fn errno() -> libc::c_int {
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() }
    }

    /// For a host in another process: does thread `tid` of process `pid` still run?
    pub fn process_thread_alive(pid: u32, tid: u32) -> bool {
        // SAFETY: signal 0 only asks.
        let r =
            unsafe { libc::syscall(libc::SYS_tgkill, pid as libc::c_int, tid as libc::c_int, 0) };
        !(r != 0 && errno() == libc::ESRCH)
    }

    /// How to read the processor number: from glibc's rseq area where there is one.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Cpu {
        /// Offset of `cpu_id` from the thread pointer; 0: none.
        rseq_cpu_id: isize,
    }

    impl Cpu {
        pub fn find() -> Cpu {
            #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
            let mut rseq_cpu_id = 0;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: dlsym with C strings; glibc (2.35 and later) documents the types of the two variables.
            unsafe {
                let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
                let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
                // The size is 0 when registration was turned off (glibc.pthread.rseq=0).
                if !size.is_null() && !offset.is_null() && *size.cast::<u32>() >= 8 {
                    rseq_cpu_id = *offset.cast::<isize>() + 4;
                }
            }
            Cpu { rseq_cpu_id }
        }

        /// May [`stamp`](Cpu::stamp) be asked?
        pub fn has_stamp(self) -> bool {
            cfg!(all(target_arch = "x86_64", not(loom))) && self.rseq_cpu_id != 0
        }

        /// TSC and processor.
        #[inline(always)]
        pub fn stamp(self) -> (u64, u16) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 has RDTSC.
            return (unsafe { core::arch::x86_64::_rdtsc() }, self.rseq_processor());
            #[cfg(not(target_arch = "x86_64"))]
            (RawClock::Tsc.now(), self.current())
        }

        /// With an offset only.
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn rseq_processor(self) -> u16 {
            let cpu: u32;
            // SAFETY: glibc keeps `struct rseq` at this offset from the thread pointer in every thread; `cpu_id` is its
            // second u32 (linux/rseq.h). With offset 0 it would be some other word that every thread has.
            unsafe {
                core::arch::asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) cpu,
                    in(reg) self.rseq_cpu_id, options(nostack, readonly, preserves_flags));
            }
            cpu as u16
        }

        #[inline(always)]
        pub fn current(self) -> u16 {
            #[cfg(target_arch = "x86_64")]
            if self.rseq_cpu_id != 0 {
                return self.rseq_processor();
            }
            let _ = self.rseq_cpu_id;
            // SAFETY: takes nothing; -1 becomes 65535, "unknown".
            unsafe { libc::sched_getcpu() as u16 }
        }
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// proc(5): a line a clock; the offset may be negative.
    #[test]
    fn offsets_of_a_time_namespace() {
        let text = "monotonic     86400       500\nboottime  7  0\n";
        assert_eq!(monotonic_offset(text), Some(86_400_000_000_500));
        assert_eq!(
            monotonic_offset("boottime 7 0\nmonotonic -2 5"),
            Some((-1_999_999_995i64) as u64)
        );
        for wrong in ["", "monotonic", "monotonic 5", "monotonic x 0", "boottime 1 1"] {
            assert_eq!(monotonic_offset(wrong), None, "{wrong}");
        }
    }
}
