//! `OUT.etl.part`: what a private session would lose with its process, in a file beside its output.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 8 | magic `ETWPART1` |
//! | 8 | 4 | version, 1 |
//! | 0xc | 4 | raw clock: 1 TSC, 2 `CLOCK_MONOTONIC` |
//! | 0x10 | 4 | process id |
//! | 0x14 | 4 | buffer size |
//! | 0x18 | 4 | number of buffers |
//! | 0x1c | 4 | bytes of session facts |
//! | 0x20 | 8 | offset of the control |
//! | 0x28 | 8 | offset of the session buffers |
//! | 0x30 | 4 | segments of the pool |
//! | 0x40 | 32 | two pairs of raw clock and ns: the first, the last |
//! | 0x80 | 256 | offset and size of each segment, 16 × 2 × u64 |
//! | 0x800 | 2 KiB | absolute path of `OUT.etl.part`, up to a NUL; empty where that is longer |
//! | 0x1000 | 60 KiB | session facts: see [`SessionFacts`](crate::facts::SessionFacts) |
//! | 0x10000 | 960 KiB | registrations: u32 size of the whole, u32 number, GUID, traits; 0 ends them |
//! | 0x100000 | | control, pool, session buffers, further segments |
//!
//! It lies in `/dev/shm`, and `OUT.etl.part` is a symbolic link to it, unless the output's own file system is in memory or
//! there is no room: a mapped file on a disk makes its writers wait for write-back, and a write never waits.
//!
//! Control, segments and buffers are mapped; the rest is written with `pwrite`. All blocks are allocated when the file is made, so that a
//! full disk is an error at the start and not a fault in the middle of a write. Only its owner may read it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use etw_ring::{Control, Memory, PoolOptions, RawClock, layout};
use etw_types::{Guid, le};

use crate::clock::Pair;
use crate::registrations::Provider;

pub(crate) const MAGIC: &[u8; 8] = b"ETWPART1";
const VERSION: u32 = 1;
const FACTS: u64 = 0x1000;
const REGISTRATIONS: u64 = 0x10000;
const DATA: u64 = 0x100000;
const LINK: usize = 0x800;
const LINK_SIZE: usize = 0x800;

/// A `.part` file in the making, or one that was found.
#[derive(Debug)]
pub struct Part {
    file: File,
    /// `OUT.etl.part`, and what it links to.
    path: PathBuf,
    target: Option<PathBuf>,
    /// Where the next registration goes.
    registrations_end: u64,
    end: u64,
}

/// What stands at its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartHeader {
    pub raw_clock: RawClock,
    pub process_id: u32,
    pub buffer_size: u32,
    pub buffer_count: u32,
    pub control: u64,
    pub buffers: u64,
    pub segments: Vec<(u64, u64)>,
    pub pairs: (Pair, Pair),
    pub facts: Vec<u8>,
    pub registrations: Vec<(u32, Provider)>,
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
    /// Makes the file and maps its parts: control, pool, session buffers.
    ///
    /// # Errors
    /// `AlreadyExists`: a killed program left it, and it waits for `etw repair`. `StorageFull`, and what the system says.
    pub fn create(
        out: &Path,
        facts: &[u8],
        raw_clock: RawClock,
        pool: &PoolOptions,
        buffer_size: u32,
        buffer_count: u32,
    ) -> io::Result<(Part, Memory, Memory, Memory)> {
        let path = part_path(out);
        if std::fs::symlink_metadata(&path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let lay_out =
            |part: &mut Part| part.lay_out(facts, raw_clock, pool, buffer_size, buffer_count);
        if let Some((target, file)) = in_memory(&path)
            && let Some(made) = Part::link(&path, target, file, lay_out)?
        {
            return Ok(made);
        }
        let file = create_new(&path)?;
        let mut part =
            Part { file, path, target: None, registrations_end: REGISTRATIONS, end: DATA };
        match lay_out(&mut part) {
            Ok((control, segment, buffers)) => Ok((part, control, segment, buffers)),
            Err(error) => {
                part.remove();
                Err(error)
            }
        }
    }

    /// A file in memory with a link to it; `None` where there is no room, or links cannot be made.
    fn link(
        path: &Path,
        target: PathBuf,
        file: File,
        lay_out: impl Fn(&mut Part) -> io::Result<(Memory, Memory, Memory)>,
    ) -> io::Result<Option<(Part, Memory, Memory, Memory)>> {
        let mut part = Part {
            file,
            path: path.to_owned(),
            target: Some(target.clone()),
            registrations_end: REGISTRATIONS,
            end: DATA,
        };
        let made = lay_out(&mut part);
        #[cfg(unix)]
        let linked = made.is_ok().then(|| std::os::unix::fs::symlink(&target, path));
        #[cfg(not(unix))]
        let linked: Option<io::Result<()>> = None;
        match (made, linked) {
            (Ok((control, segment, buffers)), Some(Ok(()))) => {
                return Ok(Some((part, control, segment, buffers)));
            }
            // Somebody was faster: that is theirs, and not ours to remove.
            (_, Some(Err(error))) if error.kind() == io::ErrorKind::AlreadyExists => {
                let _ = std::fs::remove_file(&target);
                return Err(error);
            }
            _ => {}
        }
        let _ = std::fs::remove_file(&target);
        Ok(None)
    }

    fn lay_out(
        &mut self,
        facts: &[u8],
        raw_clock: RawClock,
        pool: &PoolOptions,
        buffer_size: u32,
        buffer_count: u32,
    ) -> io::Result<(Memory, Memory, Memory)> {
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
        let memories = (
            map(control, Control::SIZE)?,
            map(segment, pool.memory_size())?,
            map(buffers, buffers_size as usize)?,
        );
        lock(&self.file)?;
        // Last: a file without the magic is none.
        self.write(0, MAGIC)?;
        Ok(memories)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, at);
        #[cfg(not(unix))]
        return Err(io::Error::from(io::ErrorKind::Unsupported)).inspect_err(|_| drop((at, bytes)));
    }

    /// Notes a provider; before its first record.
    ///
    /// # Errors
    /// `StorageFull` when the table is (960 KiB), and what the system says.
    pub fn register(&mut self, number: u32, provider: &Provider) -> io::Result<()> {
        let size = 4 + 4 + 16 + provider.traits.len();
        // The end mark of the next one is part of the table.
        if self.registrations_end + size as u64 + 4 > DATA {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut bytes = Vec::with_capacity(size);
        bytes.extend((size as u32).to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend(provider.id.0);
        bytes.extend(&provider.traits);
        // The size last: a killed process leaves the whole entry or none.
        self.write(self.registrations_end + 4, &bytes[4..])?;
        self.write(self.registrations_end, &bytes[..4])?;
        self.registrations_end += size as u64;
        Ok(())
    }

    /// Notes how the raw clock runs.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_clock(&self, first: Pair, last: Pair) -> io::Result<()> {
        let mut bytes = [0; 32];
        for (at, value) in [first.raw, first.ns, last.raw, last.ns].into_iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
        self.write(0x40, &bytes)
    }

    /// A further segment for the pool, `number` from 1.
    ///
    /// # Errors
    /// `StorageFull`, and what the system says.
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

    /// Removes it: everything is in the output.
    pub fn remove(self) {
        // What cannot be removed stays, and `etw repair` finds that nothing is missing.
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

/// A new file in memory, unless `path` is to be in memory anyway.
#[cfg(target_os = "linux")]
fn in_memory(path: &Path) -> Option<(PathBuf, File)> {
    use std::os::unix::ffi::OsStrExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    let is_tmpfs = |folder: &Path| {
        let Ok(folder) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else {
            return false;
        };
        // SAFETY: zeroed is a valid value of the plain C struct, which then is a valid out pointer.
        unsafe {
            let mut fs: libc::statfs = std::mem::zeroed();
            libc::statfs(folder.as_ptr(), &raw mut fs) == 0 && fs.f_type as u64 == TMPFS_MAGIC
        }
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let shm = Path::new("/dev/shm");
    if is_tmpfs(folder.unwrap_or(Path::new("."))) || !is_tmpfs(shm) {
        return None;
    }
    sweep(shm);
    // Not guessable, and made with O_EXCL: the folder is everybody's.
    let random = std::hash::BuildHasher::hash_one(
        &std::collections::hash_map::RandomState::new(),
        NEXT.fetch_add(1, Ordering::Relaxed),
    );
    let target = shm.join(format!("openetw-{}-{random:016x}.part", std::process::id()));
    let file = create_new(&target).ok()?;
    Some((target, file))
}

/// Removes what programs of this user left in memory and no `.part` leads to any more: nobody can find it.
#[cfg(target_os = "linux")]
fn sweep(shm: &Path) {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    // SAFETY: takes nothing, gives a number.
    let user = unsafe { libc::geteuid() };
    let Ok(entries) = std::fs::read_dir(shm) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().as_bytes();
        // Closing a file ends this process's own lock on it: our sessions' are not touched.
        let is_part = name.starts_with(b"openetw-") && name.ends_with(b".part");
        if !is_part || is_own(&path) {
            continue;
        }
        // Opened without following a link that somebody put there.
        let mut options = OpenOptions::new();
        options.read(true);
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            libc::O_NOFOLLOW | libc::O_NONBLOCK,
        );
        let Ok(file) = options.open(&path) else { continue };
        let is_ours = file.metadata().is_ok_and(|m| m.is_file() && m.uid() == user);
        let mut head = [0; 0x1000];
        if !is_ours || file.read_exact_at(&mut head, 0).is_err() || is_locked(&file).unwrap_or(true)
        {
            continue;
        }
        let link = &head[LINK..LINK + LINK_SIZE];
        let link = &link[..link.iter().position(|byte| *byte == 0).unwrap_or(0)];
        let leads_here = std::fs::read_link(Path::new(std::ffi::OsStr::from_bytes(link)))
            .is_ok_and(|target| target == path);
        // One that is just being made is not locked yet, and has no magic.
        if &head[..8] == MAGIC && !link.is_empty() && !leads_here {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn in_memory(_path: &Path) -> Option<(PathBuf, File)> {
    None
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

/// A record lock: the process holds it for as long as it lives, children do not.
#[cfg(target_os = "linux")]
fn lock(file: &File) -> io::Result<()> {
    set_lock(file, libc::F_SETLK).map(drop)
}

#[cfg(target_os = "linux")]
fn set_lock(file: &File, command: libc::c_int) -> io::Result<libc::flock> {
    use std::os::fd::AsRawFd;
    // SAFETY: zeroed is a valid value of the plain C struct, which the call may change.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
        lock.l_len = 8;
        if libc::fcntl(file.as_raw_fd(), command, &raw mut lock) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(lock)
    }
}

/// Does the program that made the file still run?
#[cfg(target_os = "linux")]
pub(crate) fn is_locked(file: &File) -> io::Result<bool> {
    Ok(set_lock(file, libc::F_GETLK)?.l_type != libc::F_UNLCK as libc::c_short)
}

/// Does a session record to the file of this `.part`?
pub(crate) fn is_in_use(part: &Path) -> bool {
    // Not opened where it is this process's own: closing it would end its lock.
    if std::fs::read_link(part).is_ok_and(|target| is_own(&target)) {
        return true;
    }
    File::open(part).is_ok_and(|file| is_locked(&file).unwrap_or(false))
}

/// Was this file in memory made by this process?
fn is_own(target: &Path) -> bool {
    let own = format!("openetw-{}-", std::process::id());
    target.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own))
}

#[cfg(not(target_os = "linux"))]
fn lock(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_locked(_file: &File) -> io::Result<bool> {
    Ok(false)
}

/// Makes the blocks be there. Where the file system cannot, zeros are written.
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

impl PartHeader {
    /// Reads what stands at the beginning; every place and size is checked against the file's length.
    ///
    /// # Errors
    /// `InvalidData`, saying what is wrong.
    pub fn read(file: &dyn ReadAt, len: u64) -> io::Result<PartHeader> {
        let bad = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut head = vec![0; 0x1000];
        file.read_exact_at(&mut head, 0)?;
        if &head[..8] != MAGIC || le::u32(&head, 8) != Some(VERSION) {
            return Err(bad("not a .part file of version 1"));
        }
        let u32_at = |at| le::u32(&head, at).unwrap_or(0);
        let u64_at = |at| le::u64(&head, at).unwrap_or(0);
        let raw_clock = match u32_at(0xc) {
            1 => RawClock::Tsc,
            2 => RawClock::Monotonic,
            _ => return Err(bad("unknown raw clock")),
        };
        let inside = |offset: u64, size: u64| {
            offset >= DATA
                && offset.is_multiple_of(4096)
                && offset.checked_add(size).is_some_and(|end| end <= len)
        };
        let (buffer_size, buffer_count) = (u32_at(0x14), u32_at(0x18));
        let (control, buffers) = (u64_at(0x20), u64_at(0x28));
        if !(0x400..=16 << 20).contains(&buffer_size)
            || !inside(control, Control::SIZE as u64)
            || !inside(buffers, u64::from(buffer_size) * u64::from(buffer_count))
        {
            return Err(bad("a size in the header cannot be"));
        }
        let count = u32_at(0x30) as usize;
        let segments: Vec<(u64, u64)> = (0..count.min(layout::MAX_SEGMENTS))
            .map(|n| (u64_at(0x80 + n * 16), u64_at(0x88 + n * 16)))
            .collect();
        let largest = (layout::DATA_OFFSET + layout::MAX_SEGMENT_UNITS * layout::UNIT_SIZE) as u64;
        if count == 0
            || count > layout::MAX_SEGMENTS
            || segments.iter().any(|&(offset, size)| size > largest || !inside(offset, size))
        {
            return Err(bad("a segment of the pool cannot be"));
        }
        let facts_size = u32_at(0x1c) as usize;
        if facts_size as u64 > REGISTRATIONS - FACTS {
            return Err(bad("the session facts are too long"));
        }
        let mut facts = vec![0; facts_size];
        file.read_exact_at(&mut facts, FACTS)?;
        let pair = |at| Pair { raw: u64_at(at), ns: u64_at(at + 8) };
        let mut table = vec![0; (DATA - REGISTRATIONS) as usize];
        file.read_exact_at(&mut table, REGISTRATIONS)?;
        Ok(PartHeader {
            raw_clock,
            process_id: u32_at(0x10),
            buffer_size,
            buffer_count,
            control,
            buffers,
            segments,
            pairs: (pair(0x40), pair(0x50)),
            facts,
            registrations: registrations(&table),
        })
    }
}

/// Reads the beginning of a `.part` file of `len` bytes from what there is of it; the rest is zeros. For fuzzers.
///
/// # Errors
/// As a `.part` with this beginning.
#[doc(hidden)]
pub fn check_header(bytes: &[u8], len: u64) -> io::Result<()> {
    PartHeader::read(&Sparse(bytes), len).map(drop)
}

struct Sparse<'a>(&'a [u8]);

impl ReadAt for Sparse<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        buffer.fill(0);
        let there =
            usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or(&[]);
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        Ok(())
    }
}

/// The entries up to the first that is none.
fn registrations(mut table: &[u8]) -> Vec<(u32, Provider)> {
    let mut found = Vec::new();
    while let Some(size) = le::u32(table, 0).map(|size| size as usize) {
        let Some(entry) = table.get(..size).filter(|entry| entry.len() >= 24) else { break };
        let (Some(number), Some(id)) = (le::u32(entry, 4), Guid::read(entry, 8)) else { break };
        if number as usize > 1 << 20 {
            break;
        }
        found.push((number, Provider { id, traits: entry[24..].to_vec() }));
        table = &table[size..];
    }
    found
}

/// Reading at a place, of a file or of bytes in a test.
pub(crate) trait ReadAt {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset);
        #[cfg(not(unix))]
        return Err(io::Error::from(io::ErrorKind::Unsupported))
            .inspect_err(|_| drop((buffer, offset)));
    }
}
