//! `.part` files in `/dev/shm`: created, and removed when no link leads to them any more.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::header::ReadAt;
use super::lock::{is_locked, is_of_this_process};
use super::{LINK, LINK_SIZE, MAGIC, create_new};

/// The folder of files in memory.
const SHARED_MEMORY: &str = "/dev/shm";

/// The memory of a private session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMemory {
    /// The file in memory.
    pub path: PathBuf,
    /// The `.part` that led to it when the session started.
    pub part: PathBuf,
    /// Bytes of memory.
    pub size: u64,
    /// Whether somebody still needs it.
    pub state: PartState,
}

/// The processes that need the memory of a private session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartState {
    /// The program runs.
    InUse,
    /// The program was killed. `etw repair` completes its trace.
    Left,
    /// The program was killed, and its `.part` or its folder was removed: no recovery can find the memory.
    Orphaned,
}

impl PartMemory {
    /// The trace that the session wrote.
    pub fn trace(&self) -> PathBuf {
        self.part.with_extension("")
    }
}

/// Whether a folder is on a file system in memory.
fn is_tmpfs(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    let Ok(folder) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: zeroed is a valid value of the plain C struct, which then is a valid out pointer.
    unsafe {
        let mut fs: libc::statfs = std::mem::zeroed();
        libc::statfs(folder.as_ptr(), &raw mut fs) == 0 && fs.f_type as u64 == TMPFS_MAGIC
    }
}

/// A new file in memory; `None` if `path` itself is in memory, or there is no such folder.
pub(super) fn create(path: &Path) -> Option<(PathBuf, File)> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let memory = Path::new(SHARED_MEMORY);
    if is_tmpfs(folder.unwrap_or(Path::new("."))) || !is_tmpfs(memory) {
        return None;
    }
    remove_orphaned_memory();
    // Every user can write to the folder: the name cannot be guessed, and the file is created with O_EXCL.
    let random = std::hash::BuildHasher::hash_one(
        &std::collections::hash_map::RandomState::new(),
        NEXT.fetch_add(1, Ordering::Relaxed),
    );
    let target = memory.join(format!("openetw-{}-{random:016x}.part", std::process::id()));
    let file = create_new(&target).ok()?;
    Some((target, file))
}

/// The memory of all private sessions of this user, except those of this process.
pub fn part_memory() -> Vec<PartMemory> {
    let Ok(entries) = std::fs::read_dir(SHARED_MEMORY) else { return Vec::new() };
    entries.flatten().filter_map(|entry| inspect(entry.path())).collect()
}

/// The memory that programs of this user left and that no `.part` leads to any more.
pub fn orphaned_memory() -> Vec<PartMemory> {
    part_memory().into_iter().filter(|memory| memory.state == PartState::Orphaned).collect()
}

/// Removes [`orphaned_memory`]; what was removed.
pub fn remove_orphaned_memory() -> Vec<PartMemory> {
    let orphans = orphaned_memory().into_iter();
    orphans.filter(|orphan| std::fs::remove_file(&orphan.path).is_ok()).collect()
}

fn inspect(path: PathBuf) -> Option<PartMemory> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    // SAFETY: takes nothing, returns a number.
    let user = unsafe { libc::geteuid() };
    let name = path.file_name()?.as_bytes();
    // A file of this process is not opened: closing it would release the process's lock.
    let is_part = name.starts_with(b"openetw-") && name.ends_with(b".part");
    if !is_part || is_of_this_process(&path) {
        return None;
    }
    // Opened without following a link that another user may have put there.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(&path).ok()?;
    let metadata = file.metadata().ok().filter(|m| m.is_file() && m.uid() == user)?;
    let mut head = [0; 0x1000];
    file.read_exact_at(&mut head, 0).ok()?;
    let link = &head[LINK..LINK + LINK_SIZE];
    let link = &link[..link.iter().position(|byte| *byte == 0).unwrap_or(0)];
    let part = Path::new(std::ffi::OsStr::from_bytes(link)).to_owned();
    let leads_here = std::fs::read_link(&part).is_ok_and(|target| target == path);
    let state = match () {
        () if is_locked(&file).unwrap_or(true) => PartState::InUse,
        // A file that is being created is not locked yet, and has no magic.
        () if &head[..8] != MAGIC => PartState::InUse,
        () if link.is_empty() || leads_here => PartState::Left,
        () => PartState::Orphaned,
    };
    Some(PartMemory { path, part, size: metadata.blocks() * 512, state })
}
