//! The file of a mapping: the one at its path, as long as it is the file that was mapped, or else its segments in the memory of a process.
//!
//! A library that was removed, or replaced by a newer one, is in memory only. Its headers, build id and `.eh_frame` lie in segments that
//! are loaded; the process may have changed them, so nothing of a process's memory is used for another one.

use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
#[cfg(feature = "unwind")]
use std::{cell::RefCell, os::unix::fs::MetadataExt};

use crate::elf::{ElfFile, PAGE};
use crate::neutral::FileId;
#[cfg(feature = "unwind")]
use crate::neutral::Image;
#[cfg(feature = "unwind")]
use crate::process_files::each_mapping;
use crate::process_files::{DELETED, id_of};
use crate::process_root::{LastLink, open_here, open_in_root, path_of};
#[cfg(feature = "unwind")]
use crate::unwind::{FileIdentity, MappedFiles};

/// Why the file of a mapping is not at its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// No file is there, or none that this user may read.
    Unreadable,
    /// Another file is there.
    Replaced,
}

/// Opens the file at the path of a mapping, as its process sees it. `id`: the numbers of the file that was mapped, if they are known.
pub(crate) fn open_file(process: u32, path: &[u8], id: Option<FileId>) -> Result<File, Elsewhere> {
    if !path.starts_with(b"/") {
        return Err(Elsewhere::Unreadable);
    }
    let program = || {
        let link = PathBuf::from(format!("/proc/{process}/exe"));
        // The link of a deleted file has the path with a remark.
        let target = std::fs::read_link(&link).ok()?.into_os_string().into_vec();
        let is_it = target == path || target.strip_suffix(DELETED) == Some(path);
        is_it.then(|| open_here(&link, LastLink::Followed).ok()).flatten()
    };
    let named = || {
        let named = open_in_root(process, path_of(path), LastLink::Followed);
        named.or_else(|_| open_here(path_of(path), LastLink::Followed)).ok()
    };
    let mut missing = Elsewhere::Unreadable;
    let open: [&dyn Fn() -> Option<File>; 2] = [&named, &program];
    for file in open.iter().filter_map(|open| open()) {
        let found = file.metadata().ok().map(|data| id_of(&data));
        match id.is_none_or(|id| found.is_some_and(|found| found.may_be(&id))) {
            true => return Ok(file),
            false => missing = Elsewhere::Replaced,
        }
    }
    Err(missing)
}

pub(crate) fn read_bytes(file: &File, at: u64, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size];
    let count = file.read_at(&mut bytes, at).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

/// A file as it lies in the memory of a process.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    memory: File,
    pub elf: ElfFile,
    /// The distance of its addresses in memory from those in its headers.
    bias: u64,
}

impl LoadedFile {
    /// The file whose first byte lies at an address. `None`: there is none, or this user may not read the memory of the process.
    pub fn open(process: u32, start: u64) -> Option<LoadedFile> {
        // Where a program provides its pages itself (userfaultfd), this file has an error; process_vm_readv would wait for that program.
        let memory = File::open(format!("/proc/{process}/mem")).ok()?;
        let elf = ElfFile::read(|at, size| read_bytes(&memory, start.checked_add(at)?, size))?;
        let first = elf.segments.iter().find(|one| one.offset < PAGE)?;
        let bias = start.wrapping_sub(first.address & !(PAGE - 1));
        let file = LoadedFile { memory, elf, bias };
        // Notes may lie elsewhere than in the file.
        let elf = ElfFile::read(|at, size| file.read(at, size))?;
        Some(LoadedFile { elf, ..file })
    }

    /// Bytes from an offset of the file, as many as are loaded there together.
    pub fn read(&self, at: u64, size: usize) -> Option<Vec<u8>> {
        let found = self.elf.segments.iter().find_map(|one| {
            let end = one.offset.checked_add(one.file_size)?;
            ((one.offset & !(PAGE - 1))..end).contains(&at).then_some((one, end))
        });
        let Some((segment, end)) = found else { return Some(Vec::new()) };
        let in_headers = segment.address.wrapping_add(at.wrapping_sub(segment.offset));
        let size = usize::try_from(end - at).unwrap_or(size).min(size);
        read_bytes(&self.memory, self.bias.wrapping_add(in_headers), size)
    }

    /// Whether it is the file of an image, as far as is known.
    #[cfg(feature = "unwind")]
    fn is_of(&self, image: &Image) -> bool {
        let extent = self.elf.extent(image.base, 0);
        let has_place = extent.is_some_and(|one| (one.base, one.size) == (image.base, image.size));
        has_place && (image.build_id.is_empty() || image.build_id == self.elf.build_id)
    }
}

/// Things that are open while the records of one poll are read, by their keys: mostly one file has several of the wanted rules. Open for
/// longer, files would keep others from unmounting them.
#[cfg(feature = "unwind")]
#[derive(Debug)]
struct Open<K, T>(RefCell<Vec<(K, T)>>);

#[cfg(feature = "unwind")]
impl<K, T> Default for Open<K, T> {
    fn default() -> Open<K, T> {
        Open(RefCell::default())
    }
}

#[cfg(feature = "unwind")]
impl<K: PartialEq, T> Open<K, T> {
    const MAX: usize = 16;

    fn with<R>(
        &self,
        key: K,
        open: impl FnOnce() -> Option<T>,
        use_it: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        let mut all = self.0.borrow_mut();
        let at = match all.iter().position(|(known, _)| *known == key) {
            Some(at) => at,
            None => {
                let one = open()?;
                if all.len() >= Self::MAX {
                    all.remove(0);
                }
                all.push((key, one));
                all.len() - 1
            }
        };
        all.get(at).map(|(_, one)| use_it(one))
    }
}

/// A file at its path.
#[cfg(feature = "unwind")]
#[derive(Debug)]
struct NamedFile {
    file: File,
    identity: Option<FileIdentity>,
}

/// Files that are open.
#[cfg(feature = "unwind")]
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    /// By process, path and the numbers of the mapped file.
    named: Open<(u32, Vec<u8>, Option<FileId>), NamedFile>,
    /// By process and first address.
    loaded: Open<(u32, u64), LoadedFile>,
}

#[cfg(feature = "unwind")]
impl OpenFiles {
    /// Closes them.
    pub fn close(&mut self) {
        *self = OpenFiles::default();
    }
}

/// The files of a process, as it sees them, and the code that the kernel maps into all processes.
#[cfg(feature = "unwind")]
#[derive(Debug)]
pub(crate) struct FilesOf<'f> {
    pub process: u32,
    pub open: &'f OpenFiles,
}

#[cfg(feature = "unwind")]
impl FilesOf<'_> {
    /// Uses the file at the path of an image.
    fn with_named<R>(&self, image: &Image, use_it: impl FnOnce(&NamedFile) -> R) -> Option<R> {
        let open = || {
            let file = open_file(self.process, &image.path, image.file).ok()?;
            let identity = identity_of(&file);
            Some(NamedFile { file, identity })
        };
        let key = (self.process, image.path.clone(), image.file);
        self.open.named.with(key, open, use_it)
    }
}

#[cfg(feature = "unwind")]
fn identity_of(file: &File) -> Option<FileIdentity> {
    let data = file.metadata().ok()?;
    let changed = i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec());
    Some(FileIdentity { device: data.dev(), inode: data.ino(), changed })
}

#[cfg(feature = "unwind")]
impl MappedFiles for FilesOf<'_> {
    fn identity(&self, image: &Image) -> Option<FileIdentity> {
        match &image.path[..] {
            b"[vdso]" => Some(FileIdentity::default()),
            _ => self.with_named(image, |one| one.identity)?,
        }
    }

    fn read(
        &self,
        image: &Image,
        wanted: Option<FileIdentity>,
        at: u64,
        size: usize,
    ) -> Option<Vec<u8>> {
        if image.path == b"[vdso]" {
            static VDSO: std::sync::OnceLock<Option<Vec<u8>>> = std::sync::OnceLock::new();
            let bytes = VDSO.get_or_init(own_vdso).as_ref()?;
            let rest = bytes.get(usize::try_from(at).ok()?..).unwrap_or_default();
            return Some(rest[..size.min(rest.len())].to_vec());
        }
        if wanted.is_some() {
            let read = |one: &NamedFile| {
                (one.identity == wanted).then(|| read_bytes(&one.file, at, size)).flatten()
            };
            return self.with_named(image, read)?;
        }
        let open = || LoadedFile::open(self.process, image.base).filter(|one| one.is_of(image));
        self.open.loaded.with((self.process, image.base), open, |one| one.read(at, size))?
    }
}

/// This process's copy of the kernel's `[vdso]`: those of all 64-bit processes are the same.
#[cfg(feature = "unwind")]
fn own_vdso() -> Option<Vec<u8>> {
    let mut found = None;
    each_mapping(std::process::id(), |mapping, _| {
        if mapping.path == b"[vdso]" {
            found = Some((mapping.address, mapping.size));
        }
    });
    let (address, size) = found?;
    let memory = File::open("/proc/self/mem").ok()?;
    read_bytes(&memory, address, usize::try_from(size).ok()?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[cfg(feature = "unwind")]
    #[test]
    fn the_vdso_is_read_from_memory() {
        let own = std::process::id();
        let mut has_one = false;
        each_mapping(own, |mapping, _| has_one |= mapping.path == b"[vdso]");
        // Some machines run without one.
        let wanted = has_one.then(|| b"\x7fELF\x02\x01".to_vec());
        let vdso = Some(FileIdentity::default());
        let files = FilesOf { process: own, open: &OpenFiles::default() };
        let image = Image { path: b"[vdso]".to_vec(), ..Image::default() };
        assert_eq!(files.read(&image, vdso, 0, 6), wanted);
    }

    #[test]
    fn a_file_that_is_a_pipe_by_now_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("etw-pipe-{}", std::process::id()));
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a text with a NUL, and a number.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let opened = open_file(std::process::id(), path.as_os_str().as_bytes(), None);
        std::fs::remove_file(&path).unwrap();
        assert!(opened.is_err());
    }

    #[test]
    fn a_deleted_program_is_read_from_its_process() {
        let path = std::env::temp_dir().join(format!("etw-deleted-{}", std::process::id()));
        std::fs::copy("/bin/sleep", &path).unwrap();
        let mut child = std::process::Command::new(&path).arg("1000").spawn().unwrap();
        std::fs::remove_file(&path).unwrap();
        let opened = open_file(child.id(), path.as_os_str().as_bytes(), None);
        let other = open_file(child.id(), b"/no/such/file", None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(opened.is_ok() && other.is_err());
    }

    /// A file with other numbers is another one, unless only the device is another, and one of both belongs to a file system without one of
    /// its own.
    #[test]
    fn a_file_with_other_numbers_is_another_one() {
        let path = std::env::temp_dir().join(format!("etw-numbers-{}", std::process::id()));
        File::create_new(&path).unwrap();
        let id = id_of(&std::fs::metadata(&path).unwrap());
        let open =
            |id| open_file(std::process::id(), path.as_os_str().as_bytes(), Some(id)).map(|_| ());
        let on = |major: u32| FileId { device: major << 20 | 7, ..id };
        let other = FileId { inode: id.inode + 1, ..id };
        let found = [id, on(0), on(0xffe), other].map(open);
        std::fs::remove_file(&path).unwrap();
        let is_on_device = if id.is_on_device() { Err(Elsewhere::Replaced) } else { Ok(()) };
        assert_eq!(found, [Ok(()), Ok(()), is_on_device, Err(Elsewhere::Replaced)]);
        assert_eq!(open(id), Err(Elsewhere::Unreadable));
    }
}
