//! Images of mappings: which addresses a file has, and which are others'.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::elf::{ElfFile, Extent};
use crate::neutral::{Image, StackBounds};
use crate::perf::Mapping;
use crate::process_files::{DELETED, each_mapping, open_file, read_bytes};
use crate::shaper::ProcessImages;

/// Files that are remembered. Those of programs that run again and again are soon known again.
const MAX_FILES: usize = 1 << 10;

/// Whether ranges have a number in common.
fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The mappings of a process now; none: it has ended.
#[derive(Debug, Default)]
pub(crate) struct MappingList {
    all: Vec<ListedMapping>,
    /// The stack of its first thread.
    pub stack: StackBounds,
}

#[derive(Debug)]
struct ListedMapping {
    range: Range<u64>,
    offset: u64,
    path: Vec<u8>,
    is_executable: bool,
}

impl MappingList {
    pub fn of(process: u32) -> MappingList {
        let mut all = Vec::new();
        let stack = each_mapping(process, |mapping, is_executable| {
            let Mapping { offset, path, .. } = *mapping;
            let (range, path) = (range_of(mapping), path.to_vec());
            all.push(ListedMapping { range, offset, path, is_executable });
        });
        MappingList { all, stack }
    }

    /// Whether a living process has no code of an image any more.
    pub fn lacks(&self, image: &Image) -> bool {
        let code = if image.code.is_empty() { image.range() } else { image.code.clone() };
        let has = |one: &ListedMapping| {
            one.is_executable && overlap(&one.range, &code) && is_same_file(&one.path, &image.path)
        };
        !self.all.is_empty() && !self.all.iter().any(has)
    }

    fn executable(&self) -> impl Iterator<Item = &ListedMapping> {
        self.all.iter().filter(|one| one.is_executable)
    }
}

fn range_of(mapping: &Mapping<'_>) -> Range<u64> {
    mapping.address..mapping.address.saturating_add(mapping.size)
}

fn is_file(path: &[u8]) -> bool {
    path.starts_with(b"/") && !path.starts_with(b"//")
}

/// Whether two paths can name one mapped file. A process with another root has other folders, and a deleted file has a remark in lists. All
/// memory without a file counts as one.
fn is_same_file(one: &[u8], other: &[u8]) -> bool {
    fn name(path: &[u8]) -> Option<&[u8]> {
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        is_file(path).then(|| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default())
    }
    name(one) == name(other)
}

/// A mapped file, as far as it can be read.
#[derive(Debug)]
enum KnownFile {
    Elf(ElfFile),
    Other,
    Unreadable,
}

/// The image of a mapping, if its whole file was loaded.
#[derive(Debug)]
struct Loaded {
    image: Image,
    /// The mapping alone shows that it was.
    is_sure: bool,
}

/// Images of mappings, with what is known of their files.
#[derive(Debug, Default)]
pub(crate) struct Images {
    files: HashMap<Vec<u8>, KnownFile>,
    /// The mappings of processes since the last [`forget_lists`](Images::forget_lists).
    lists: HashMap<u32, MappingList>,
}

impl Images {
    /// The images of a process that is listed.
    pub fn of_list(&mut self, process: u32, list: &MappingList) -> Vec<Arc<Image>> {
        let images = list.executable().map(|ListedMapping { range, offset, path, .. }| {
            let (address, size) = (range.start, range.end - range.start);
            let mapping = Mapping { process, address, size, offset: *offset, build_id: &[], path };
            let loaded = self.loaded(&mapping);
            Arc::new(self.settled(&mapping, loaded, list))
        });
        images.collect()
    }

    /// The image of a new mapping, and the bases of those that the process has no more. `known`: its images so far. If they do not fit, the
    /// list of its mappings says which are right.
    pub fn image(
        &mut self,
        mapping: &Mapping<'_>,
        known: Option<ProcessImages<'_>>,
    ) -> (Arc<Image>, Vec<u64>) {
        let loaded = self.loaded(mapping);
        let range = loaded.image.range();
        let known: Vec<&Arc<Image>> =
            known.map(|all| all.overlapped(&range).collect()).unwrap_or_default();
        let is_anonymous = loaded.image.is_anonymous();
        let fits = |old: &&Arc<Image>| is_anonymous && old.is_anonymous();
        let is_known = known.iter().any(|old| old.is_same(&loaded.image));
        if is_known || loaded.is_sure && known.iter().all(fits) {
            return (Arc::new(loaded.image), Vec::new());
        }
        let process = mapping.process;
        let list = self.lists.remove(&process).unwrap_or_else(|| MappingList::of(process));
        let gone = known.iter().filter(|old| list.lacks(old)).map(|old| old.base).collect();
        let image = Arc::new(self.settled(mapping, loaded, &list));
        self.lists.insert(process, list);
        (image, gone)
    }

    /// Later mappings need newer lists.
    pub fn forget_lists(&mut self) {
        self.lists.clear();
    }

    fn loaded(&mut self, mapping: &Mapping<'_>) -> Loaded {
        let Mapping { address, size, offset, path, .. } = *mapping;
        let own = Extent { base: address, size, ..Extent::default() };
        let is_file = is_file(path);
        let file = if is_file { self.file(mapping) } else { &KnownFile::Other };
        let of_elf = match file {
            KnownFile::Elf(file) => file.extent(address, offset).map(|extent| {
                let is_sure = file.is_loaded_by(offset, size);
                (extent, is_sure)
            }),
            _ => None,
        };
        let (extent, is_sure) = of_elf.unwrap_or(match file {
            KnownFile::Unreadable if offset <= address => {
                let size = size.saturating_add(offset);
                // The kernel finds build ids in files of code only.
                (Extent { base: address - offset, size, ..own }, !mapping.build_id.is_empty())
            }
            _ if is_file => (Extent { default_base: offset, ..own }, true),
            _ => (own, true),
        });
        let (build_id, is_32_bit) = match file {
            KnownFile::Elf(file) => (&file.build_id[..], file.is_32_bit),
            _ => (&[][..], false),
        };
        let build_id = if mapping.build_id.is_empty() { build_id } else { mapping.build_id };
        let Extent { base, size, default_base, entry, is_rest } = extent;
        let image = Image {
            base,
            size,
            default_base,
            path: path.to_vec(),
            build_id: build_id.to_vec(),
            entry,
            is_32_bit,
            is_part: is_rest || is_file && matches!(file, KnownFile::Other),
            code: range_of(mapping),
        };
        Loaded { image, is_sure }
    }

    /// The image of a mapping in a list: that of its whole file, or the mapping alone.
    fn settled(&mut self, mapping: &Mapping<'_>, loaded: Loaded, list: &MappingList) -> Image {
        let Loaded { image, is_sure } = loaded;
        let own = range_of(mapping);
        let is_of_file = |one: &ListedMapping| is_same_file(&one.path, mapping.path);
        let is_there = list.executable().any(|one| is_of_file(one) && overlap(&one.range, &own));
        let is_taken = |one: &ListedMapping| {
            is_file(&one.path) && !is_of_file(one) && overlap(&one.range, &image.range())
        };
        let whole = match (is_there && list.executable().any(is_taken), self.file(mapping)) {
            (true, _) => false,
            _ if is_sure => true,
            (_, file) => {
                let is_beside =
                    |one: &&ListedMapping| is_of_file(one) && !overlap(&one.range, &own);
                let mut others = list.all.iter().filter(is_beside);
                others.any(|ListedMapping { range, offset, .. }| match file {
                    KnownFile::Elf(file) => file
                        .extent(range.start, *offset)
                        .is_some_and(|extent| extent.base == image.base),
                    _ => range.start == image.base && *offset == 0,
                })
            }
        };
        match whole {
            true => image,
            false => Image { code: own.clone(), ..image.clipped(own) },
        }
    }

    fn file(&mut self, mapping: &Mapping<'_>) -> &KnownFile {
        let is_same = |file: &KnownFile| match file {
            KnownFile::Elf(file) => {
                mapping.build_id.is_empty() || file.build_id == mapping.build_id
            }
            _ => true,
        };
        // A file may be replaced by another one of its name.
        if !self.files.get(mapping.path).is_some_and(is_same) {
            if self.files.len() >= MAX_FILES {
                self.files.clear();
            }
            self.files.insert(mapping.path.to_vec(), read_file(mapping));
        }
        self.files.get(mapping.path).unwrap_or(&KnownFile::Unreadable)
    }
}

/// Reads the headers of a mapped file, as its process sees it.
fn read_file(mapping: &Mapping<'_>) -> KnownFile {
    let Some(file) = open_file(mapping.process, mapping.path) else { return KnownFile::Unreadable };
    let file = ElfFile::read(|at, size| read_bytes(&file, at, size));
    file.map_or(KnownFile::Other, KnownFile::Elf)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    const PAGE: u64 = 4096;

    /// Executable memory of this process: bytes of a file, or anonymous.
    fn map(path: Option<&str>, size: u64, offset: u64) -> Range<u64> {
        let file = path.map(|path| std::fs::File::open(path).unwrap());
        let descriptor = file.as_ref().map_or(-1, |file| file.as_raw_fd());
        let kind = if file.is_some() { 0 } else { libc::MAP_ANONYMOUS };
        let access = libc::PROT_READ | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | kind;
        let offset = offset as libc::off_t;
        // SAFETY: new memory, at an address that the kernel chooses.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size as usize, access, flags, descriptor, offset)
        };
        assert_ne!(at, libc::MAP_FAILED);
        at as u64..at as u64 + size
    }

    fn unmap(range: &Range<u64>) {
        let size = (range.end - range.start) as usize;
        // SAFETY: memory of `map`, which nobody uses.
        assert_eq!(unsafe { libc::munmap(range.start as *mut _, size) }, 0);
    }

    fn own_image(images: &mut Images, path: &[u8]) -> Arc<Image> {
        let own = std::process::id();
        let all = images.of_list(own, &MappingList::of(own));
        let found: Vec<_> = all.into_iter().filter(|one| one.path == path).collect();
        assert!(found.iter().all(|one| one.is_same(&found[0])));
        found[0].clone()
    }

    fn program() -> String {
        std::fs::read_link("/proc/self/exe").unwrap().to_str().unwrap().to_owned()
    }

    /// A program has the addresses of all its segments, whatever else of its file is mapped; a part of a file has those of its mapping.
    #[test]
    fn a_mapped_part_of_a_file_is_no_loaded_file() {
        let own = std::process::id();
        let mut images = Images::default();
        let path = program();
        let before = own_image(&mut images, path.as_bytes());
        let address = a_mapped_part_of_a_file_is_no_loaded_file as *const () as u64;
        assert!(before.range().contains(&address) && before.code.contains(&address));
        assert!(before.size > before.code.end - before.code.start && !before.is_part);
        // Two pages of its code, and of a file without code.
        let offset = (before.code.start - before.base) & !(PAGE - 1);
        for (path, offset) in [(&path[..], offset), ("/proc/self/exe", offset), ("/etc/passwd", 0)]
        {
            let range = map(Some(path), 2 * PAGE, offset);
            let list = MappingList::of(own);
            let all = images.of_list(own, &list);
            let part = all.iter().find(|one| one.base == range.start).unwrap();
            assert_eq!((part.range(), &part.code, part.is_part), (range.clone(), &range, true));
            let size = 2 * PAGE;
            let name = part.path.clone();
            let address = range.start;
            let mapping =
                Mapping { process: own, address, size, offset, build_id: &[], path: &name };
            let (new, gone) = images.image(&mapping, None);
            assert_eq!((&new, gone.len()), (part, 0));
            images.forget_lists();
            unmap(&range);
        }
    }

    /// A mapping in an image's place shows whether the process still has that one.
    #[test]
    fn images_that_are_gone_are_in_no_list() {
        let own = std::process::id();
        let mut images = Images::default();
        let program = own_image(&mut images, program().as_bytes());
        let range = map(None, PAGE, 0);
        let gone = Image { path: b"/no/library".to_vec(), ..(*program).clone() };
        let gone = Arc::new(gone.clipped(range.start - PAGE..range.end + PAGE));
        for (old, expected) in [(&gone, vec![gone.base]), (&program, Vec::new())] {
            let known = [(old.base, old.clone())].into();
            let known = ProcessImages { by_base: &known, version: 1 };
            let address = old.range().end - PAGE;
            let path = &b"//anon"[..];
            let mapping =
                Mapping { process: own, address, size: PAGE, offset: 0, build_id: &[], path };
            let (image, gone) = images.image(&mapping, Some(known));
            assert_eq!((image.base, gone), (address, expected));
            // A process that has ended has no list: nothing is known of its images.
            let ended = Mapping { process: u32::MAX >> 1, ..mapping };
            assert_eq!(images.image(&ended, Some(known)).1, []);
        }
        unmap(&range);
    }
}
