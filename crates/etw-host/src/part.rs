//! `OUT.etl.part`: the recoverable memory of a private session, in a file beside its output.
//!
//! | offset | size | contents |
//! |---|---|---|
//! | 0 | 8 | magic `ETWPART1` |
//! | 8 | 4 | version, 1 |
//! | 0xc | 4 | raw clock: 1 TSC, 2 `CLOCK_MONOTONIC` |
//! | 0x10 | 4 | process id |
//! | 0x14 | 4 | buffer size |
//! | 0x18 | 4 | number of buffers |
//! | 0x1c | 4 | bytes of session facts |
//! | 0x20 | 8 | offset of the control page |
//! | 0x28 | 8 | offset of the session buffers |
//! | 0x30 | 4 | segments of the pool |
//! | 0x40 | 32 | two readings of raw clock and ns: the first, the last |
//! | 0x80 | 256 | offset and size of each segment, 16 × 2 × u64 |
//! | 0x180 | 64 | where a repair began to fold; see `FoldStart` |
//! | 0x800 | 2 KiB | absolute path of `OUT.etl.part`, up to a NUL; empty where that is longer |
//! | 0x1000 | 60 KiB | session facts: see [`SessionFacts`](crate::facts::SessionFacts) |
//! | 0x10000 | 960 KiB | registrations: u32 size of the whole, u32 number, GUID, traits; 0 ends them |
//! | 0x100000 | | control page, pool, session buffers, further segments |
//!
//! The file is in `/dev/shm`, and `OUT.etl.part` is a symbolic link to it. If the output's own file system is in memory, or
//! `/dev/shm` has no space, the file itself is there: a mapped file on a disk would make writers wait for write-back, and a
//! write never waits.
//!
//! Control page, segments and buffers are mapped; the rest is written with `pwrite`. All blocks are allocated when the file is
//! created, so that a full disk is an error at the start and not a fault in the middle of a write. Only its owner may read it.

mod header;
mod lock;
#[cfg(target_os = "linux")]
mod shared_memory;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use etw_ring::{Control, Memory, PoolOptions, RawClock};

use crate::clock::Pair;
use crate::registrations::Provider;

pub use header::check_header;
pub(crate) use header::{FoldStart, PartHeader, ReadAt, SegmentSpan};
pub(crate) use lock::{is_in_use, is_locked};
#[cfg(target_os = "linux")]
pub use shared_memory::{
    PartMemory, PartState, orphaned_memory, part_memory, remove_orphaned_memory,
};

pub(crate) const MAGIC: &[u8; 8] = b"ETWPART1";
const VERSION: u32 = 1;
const FACTS: u64 = 0x1000;
const REGISTRATIONS: u64 = 0x10000;
const DATA: u64 = 0x100000;
const LINK: usize = 0x800;
const LINK_SIZE: usize = 0x800;

/// The `.part` file of a running session.
#[derive(Debug)]
pub struct Part {
    file: File,
    /// `OUT.etl.part`, and the file in memory that it links to.
    path: PathBuf,
    target: Option<PathBuf>,
    /// Offset of the next registration.
    registrations_end: u64,
    end: u64,
}

/// A new `.part` file and its mapped memories.
#[derive(Debug)]
pub struct NewPart {
    /// The file.
    pub part: Part,
    /// The memory of the control page.
    pub control: Memory,
    /// The first segment of the pool.
    pub segment: Memory,
    /// All buffers of the session.
    pub buffers: Memory,
}

/// The contents of a `.part` file to create.
#[derive(Clone, Copy, Debug)]
pub struct PartLayout<'a> {
    /// `SessionFacts::to_bytes`.
    pub facts: &'a [u8],
    /// The clock of the pool.
    pub raw_clock: RawClock,
    /// The pool.
    pub pool: &'a PoolOptions,
    /// Bytes of a buffer.
    pub buffer_size: u32,
    /// Number of buffers.
    pub buffer_count: u32,
}

/// The `.part` of an output file.
pub fn part_path(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn page(size: u64) -> u64 {
    size.next_multiple_of(4096)
}

impl Part {
    /// Creates the file and maps its parts.
    ///
    /// # Errors
    /// `AlreadyExists`: a killed program left it, and it waits for `etw repair`. `StorageFull`, and those of the system.
    pub fn create(out: &Path, layout: &PartLayout<'_>) -> io::Result<NewPart> {
        let path = part_path(out);
        if std::fs::symlink_metadata(&path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        #[cfg(target_os = "linux")]
        if let Some((target, file)) = shared_memory::create(&path) {
            if let Some(new) = Part::create_linked(&path, target, file, layout)? {
                return Ok(new);
            }
        }
        let file = create_new(&path)?;
        let part = Part::empty(file, &path, None);
        part.lay_out(layout).inspect_err(|_| {
            // Created here, so nobody else's.
            let _ = std::fs::remove_file(&path);
        })
    }

    /// Lays out a file in memory and links to it; `None` if there is no space, or no link can be made.
    #[cfg(target_os = "linux")]
    fn create_linked(
        path: &Path,
        target: PathBuf,
        file: File,
        layout: &PartLayout<'_>,
    ) -> io::Result<Option<NewPart>> {
        let made = Part::empty(file, path, Some(target.clone())).lay_out(layout);
        let linked = made.and_then(|new| {
            std::os::unix::fs::symlink(&target, path)?;
            Ok(new)
        });
        match linked {
            Ok(new) => Ok(Some(new)),
            Err(error) => {
                let _ = std::fs::remove_file(&target);
                // Another session was faster: its link stays.
                let is_other = error.kind() == io::ErrorKind::AlreadyExists;
                if is_other { Err(error) } else { Ok(None) }
            }
        }
    }

    fn empty(file: File, path: &Path, target: Option<PathBuf>) -> Part {
        let path = path.to_owned();
        Part { file, path, target, registrations_end: REGISTRATIONS, end: DATA }
    }

    fn lay_out(mut self, layout: &PartLayout<'_>) -> io::Result<NewPart> {
        let PartLayout { facts, raw_clock, pool, buffer_size, buffer_count } = *layout;
        if facts.len() as u64 > REGISTRATIONS - FACTS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "session facts are too long"));
        }
        let control = DATA;
        let segment = page(control + Control::SIZE as u64);
        let buffers = page(segment + pool.memory_size() as u64);
        let buffers_size = u64::from(buffer_size) * u64::from(buffer_count);
        self.end = page(buffers + buffers_size);
        allocate(&self.file, 0, self.end)?;

        let mut head = [0; 0x1000];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(8, &VERSION.to_le_bytes());
        put(0xc, &clock_number(raw_clock).to_le_bytes());
        put(0x10, &std::process::id().to_le_bytes());
        put(0x14, &buffer_size.to_le_bytes());
        put(0x18, &buffer_count.to_le_bytes());
        put(0x1c, &(facts.len() as u32).to_le_bytes());
        put(0x20, &control.to_le_bytes());
        put(0x28, &buffers.to_le_bytes());
        put(0x30, &1u32.to_le_bytes());
        put(0x80, &segment.to_le_bytes());
        put(0x88, &(pool.memory_size() as u64).to_le_bytes());
        if let Ok(path) = std::path::absolute(&self.path) {
            let path = path.as_os_str().as_encoded_bytes();
            if path.len() < LINK_SIZE {
                put(LINK, path);
            }
        }
        self.write(0, &head)?;
        self.write(FACTS, facts)?;
        let map = |offset, len| map(&self.file, offset, len);
        let (control, segment, buffers) = (
            map(control, Control::SIZE)?,
            map(segment, pool.memory_size())?,
            map(buffers, buffers_size as usize)?,
        );
        lock::lock(&self.file)?;
        // Last: a file without the magic is not a `.part` file.
        self.write(0, MAGIC)?;
        Ok(NewPart { part: self, control, segment, buffers })
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, at);
        #[cfg(not(unix))]
        {
            let _ = (at, bytes);
            Err(io::Error::from(io::ErrorKind::Unsupported))
        }
    }

    /// Adds a provider to the table, before its first record.
    ///
    /// # Errors
    /// `StorageFull` if the table (960 KiB) is full, and those of the system.
    pub fn register(&mut self, number: u32, provider: &Provider) -> io::Result<()> {
        let size = 4 + 4 + 16 + provider.traits.len();
        // The table includes the end mark behind the entry.
        if self.registrations_end + size as u64 + 4 > DATA {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut bytes = Vec::with_capacity(size);
        bytes.extend((size as u32).to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(provider.id.0);
        bytes.extend(&provider.traits);
        // The size is written last: a killed process leaves the whole entry or none.
        self.write(self.registrations_end + 4, &bytes[4..])?;
        self.write(self.registrations_end, &bytes[..4])?;
        self.registrations_end += size as u64;
        Ok(())
    }

    /// Writes the first and the last reading of the clocks.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_clock(&self, first: Pair, last: Pair) -> io::Result<()> {
        let mut bytes = [0; 32];
        for (at, value) in [first.raw, first.ns, last.raw, last.ns].into_iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
        self.write(0x40, &bytes)
    }

    /// Adds a segment of the pool, `number` from 1.
    ///
    /// # Errors
    /// `StorageFull`, and those of the system.
    pub fn add_segment(&mut self, number: usize, size: usize) -> io::Result<Memory> {
        let offset = self.end;
        let end = page(offset + size as u64);
        allocate(&self.file, offset, end - offset)?;
        let memory = map(&self.file, offset, size)?;
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&offset.to_le_bytes());
        entry[8..].copy_from_slice(&(size as u64).to_le_bytes());
        self.write(0x80 + number as u64 * 16, &entry)?;
        self.write(0x30, &(number as u32 + 1).to_le_bytes())?;
        self.end = end;
        Ok(memory)
    }

    /// Removes the file: everything is in the output.
    pub fn remove(self) {
        // If it cannot be removed, `etw repair` finds that nothing is missing.
        let _ = std::fs::remove_file(&self.path);
        if let Some(target) = &self.target {
            let _ = std::fs::remove_file(target);
        }
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn clock_number(clock: RawClock) -> u32 {
    match clock {
        RawClock::Tsc => 1,
        RawClock::Monotonic => 2,
    }
}

#[cfg(target_os = "linux")]
fn map(file: &File, offset: u64, len: usize) -> io::Result<Memory> {
    use std::os::fd::AsFd;
    Memory::map_file(file.as_fd(), offset, len, true)
}

#[cfg(not(target_os = "linux"))]
fn map(_file: &File, _offset: u64, _len: usize) -> io::Result<Memory> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Allocates blocks. If the file system cannot, the system library writes zeros.
#[cfg(target_os = "linux")]
fn allocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: plain numbers, an open descriptor.
    let code = unsafe {
        libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, len as libc::off_t)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
