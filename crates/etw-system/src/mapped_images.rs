//! Images of mappings: which addresses a file has, and which are others'.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::elf::{ElfFile, Extent};
use crate::mapped_file::{Elsewhere, LoadedFile, open_file, read_bytes};
use crate::neutral::{FileId, Image, StackBounds, names_file};
use crate::perf::Mapping;
use crate::process_files::{DELETED, each_mapping};
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
    file: Option<FileId>,
    path: Vec<u8>,
    is_executable: bool,
}

impl ListedMapping {
    /// Whether it can be one of the file with these numbers, or at this path.
    fn is_of(&self, file: Option<FileId>, path: &[u8]) -> bool {
        file.is_some() && self.file == file || is_same_file(&self.path, path)
    }
}

impl MappingList {
    pub fn of(process: u32) -> MappingList {
        let mut all = Vec::new();
        let stack = each_mapping(process, |mapping, is_executable| {
            let Mapping { offset, file, path, .. } = *mapping;
            let (range, path) = (range_of(mapping), path.to_vec());
            all.push(ListedMapping { range, offset, file, path, is_executable });
        });
        MappingList { all, stack }
    }

    /// Whether a living process has no code of an image any more.
    pub fn lacks(&self, image: &Image) -> bool {
        let code = if image.code.is_empty() { image.range() } else { image.code.clone() };
        let has = |one: &ListedMapping| {
            one.is_executable && overlap(&one.range, &code) && one.is_of(image.file, &image.path)
        };
        !self.all.is_empty() && !self.all.iter().any(has)
    }

    /// Whether a living process has nothing any more where an image had its code. Code of another file is enough: the file may have another
    /// name now.
    pub fn is_free(&self, image: &Image) -> bool {
        let code = if image.code.is_empty() { image.range() } else { image.code.clone() };
        // A compiler writes its code while nobody may execute it.
        let is_it = |one: &&ListedMapping| one.is_executable || image.is_anonymous();
        let mut there = self.all.iter().filter(is_it);
        !self.all.is_empty() && !there.any(|one| overlap(&one.range, &code))
    }

    /// Where the file of a mapping begins in memory; `None`: that part of it is not mapped, or the mapping has changed.
    fn start_of(&self, mapping: &Mapping<'_>) -> Option<u64> {
        let own = range_of(mapping);
        let is_own = |one: &&ListedMapping| {
            let start = one.range.start.wrapping_sub(one.offset);
            overlap(&one.range, &own) && start == own.start.wrapping_sub(mapping.offset)
        };
        let file = self.all.iter().find(is_own)?.file?;
        mapping.file.is_none_or(|wanted| wanted == file).then_some(())?;
        let is_start = |one: &&ListedMapping| {
            one.file == Some(file) && one.offset == 0 && one.range.start <= own.start
        };
        self.all.iter().rfind(is_start).map(|one| one.range.start)
    }

    fn executable(&self) -> impl Iterator<Item = &ListedMapping> {
        self.all.iter().filter(|one| one.is_executable)
    }
}

fn range_of(mapping: &Mapping<'_>) -> Range<u64> {
    mapping.address..mapping.address.saturating_add(mapping.size)
}

/// Whether two paths can name one mapped file. A process with another root has other folders, and a deleted file has a remark in lists. All
/// memory without a file counts as one.
fn is_same_file(one: &[u8], other: &[u8]) -> bool {
    fn name(path: &[u8]) -> Option<&[u8]> {
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        names_file(path).then(|| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default())
    }
    name(one) == name(other)
}

/// A mapped file, as far as it can be read.
#[derive(Debug)]
enum KnownFile {
    Elf(ElfFile),
    Other,
    None(Elsewhere),
}

/// The image of a mapping, if its whole file was loaded.
#[derive(Debug)]
struct Loaded {
    image: Image,
    file: Arc<KnownFile>,
    /// The mapping alone shows that it was.
    is_sure: bool,
}

/// Images of mappings, with what is known of their files.
#[derive(Debug, Default)]
pub(crate) struct Images {
    /// Files at their paths, as mappings with these numbers find them.
    files: HashMap<(Vec<u8>, Option<FileId>), Arc<KnownFile>>,
    /// The mappings of processes since the last [`forget_lists`](Images::forget_lists).
    lists: HashMap<u32, Arc<MappingList>>,
}

impl Images {
    /// The images of a process that is listed.
    pub fn of_list(&mut self, process: u32, list: &MappingList) -> Vec<Arc<Image>> {
        let images =
            list.executable().map(|ListedMapping { range, offset, file, path, .. }| {
                let (address, size) = (range.start, range.end - range.start);
                let (offset, file) = (*offset, *file);
                let mapping = Mapping { process, address, size, offset, build_id: &[], file, path };
                let loaded = self.loaded(&mapping, Some(list));
                Arc::new(Images::settled(&mapping, loaded, list))
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
        let loaded = self.loaded(mapping, None);
        let range = loaded.image.range();
        let known: Vec<&Arc<Image>> =
            known.map(|all| all.overlapped(&range).collect()).unwrap_or_default();
        let is_anonymous = loaded.image.is_anonymous();
        let fits = |old: &&Arc<Image>| is_anonymous && old.is_anonymous();
        let is_known = known.iter().any(|old| old.is_same(&loaded.image));
        if is_known || loaded.is_sure && known.iter().all(fits) {
            return (Arc::new(loaded.image), Vec::new());
        }
        let list = self.list(mapping.process);
        let gone = known.iter().filter(|old| list.lacks(old)).map(|old| old.base).collect();
        (Arc::new(Images::settled(mapping, loaded, &list)), gone)
    }

    /// Later mappings need newer lists.
    pub fn forget_lists(&mut self) {
        self.lists.clear();
    }

    fn list(&mut self, process: u32) -> Arc<MappingList> {
        let list = self.lists.entry(process).or_insert_with(|| Arc::new(MappingList::of(process)));
        list.clone()
    }

    /// `list`: the mappings of the process, if they are known.
    fn loaded(&mut self, mapping: &Mapping<'_>, list: Option<&MappingList>) -> Loaded {
        let Mapping { address, size, offset, path, .. } = *mapping;
        let own = Extent { base: address, size, ..Extent::default() };
        let is_file = names_file(path);
        let (file, is_replaced) = match is_file {
            true => self.file(mapping, list),
            false => (Arc::new(KnownFile::Other), false),
        };
        let of_elf = match &*file {
            KnownFile::Elf(file) => file.extent(address, offset).map(|extent| {
                let is_sure = file.is_loaded_by(offset, size);
                (extent, is_sure)
            }),
            _ => None,
        };
        let (extent, is_sure) = of_elf.unwrap_or(match &*file {
            KnownFile::None(_) if offset <= address => {
                let size = size.saturating_add(offset);
                // The kernel finds build ids in files of code only.
                (Extent { base: address - offset, size, ..own }, !mapping.build_id.is_empty())
            }
            _ if is_file => (Extent { default_base: offset, ..own }, true),
            _ => (own, true),
        });
        let (build_id, is_32_bit) = match &*file {
            KnownFile::Elf(file) => (&file.build_id[..], file.is_32_bit),
            _ => (&[][..], false),
        };
        let build_id = if mapping.build_id.is_empty() { build_id } else { mapping.build_id };
        let Extent { base, size, default_base, entry, is_rest } = extent;
        let mut path = path.to_vec();
        // Readers find by it that the file at this path is another one. A build id says so itself.
        if is_replaced && build_id.is_empty() && !path.ends_with(DELETED) {
            path.extend_from_slice(DELETED);
        }
        let image = Image {
            base,
            size,
            default_base,
            path,
            build_id: build_id.to_vec(),
            file: mapping.file,
            entry,
            is_32_bit,
            is_part: is_rest || is_file && matches!(*file, KnownFile::Other),
            code: range_of(mapping),
        };
        Loaded { image, file, is_sure }
    }

    /// The image of a mapping in a list: that of its whole file, or the mapping alone.
    fn settled(mapping: &Mapping<'_>, loaded: Loaded, list: &MappingList) -> Image {
        let Loaded { image, file, is_sure } = loaded;
        let own = range_of(mapping);
        let is_of_file = |one: &ListedMapping| one.is_of(mapping.file, mapping.path);
        let is_there = list.executable().any(|one| is_of_file(one) && overlap(&one.range, &own));
        let is_taken = |one: &ListedMapping| {
            names_file(&one.path) && !is_of_file(one) && overlap(&one.range, &image.range())
        };
        let whole = match is_there && list.executable().any(is_taken) {
            true => false,
            _ if is_sure => true,
            _ => {
                let is_beside =
                    |one: &&ListedMapping| is_of_file(one) && !overlap(&one.range, &own);
                let mut others = list.all.iter().filter(is_beside);
                others.any(|ListedMapping { range, offset, .. }| match &*file {
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

    /// The file of a mapping, and whether another one lies at its path.
    fn file(
        &mut self,
        mapping: &Mapping<'_>,
        list: Option<&MappingList>,
    ) -> (Arc<KnownFile>, bool) {
        let named = self.named(mapping);
        if is_file_of(&named, mapping) {
            return (named, false);
        }
        let is_replaced = !matches!(*named, KnownFile::None(Elsewhere::Unreadable));
        let own = if list.is_none() { Some(self.list(mapping.process)) } else { None };
        let loaded = list.or(own.as_deref()).and_then(|list| loaded_file(mapping, list));
        let loaded = loaded.map(KnownFile::Elf).filter(|file| is_file_of(file, mapping));
        let missing = Elsewhere::Unreadable;
        (Arc::new(loaded.unwrap_or(KnownFile::None(missing))), is_replaced)
    }

    /// The file at the path of a mapping.
    fn named(&mut self, mapping: &Mapping<'_>) -> Arc<KnownFile> {
        let key = (mapping.path.to_vec(), mapping.file);
        // Without numbers, it may be replaced by another one of its name.
        let known = self.files.get(&key);
        if let Some(known) =
            known.filter(|known| mapping.file.is_some() || is_file_of(known, mapping))
        {
            return known.clone();
        }
        if self.files.len() >= MAX_FILES {
            self.files.clear();
        }
        let file = Arc::new(read_file(mapping));
        self.files.insert(key, file.clone());
        file
    }
}

/// Whether a file can be that of a mapping whose numbers it has.
fn is_file_of(file: &KnownFile, mapping: &Mapping<'_>) -> bool {
    let build_id = match file {
        KnownFile::Elf(file) => &file.build_id[..],
        KnownFile::Other => &[],
        KnownFile::None(_) => return false,
    };
    mapping.build_id.is_empty() || build_id == mapping.build_id
}

/// Reads the headers of a mapped file, as its process sees it.
fn read_file(mapping: &Mapping<'_>) -> KnownFile {
    match open_file(mapping.process, mapping.path, mapping.file) {
        Ok(file) => {
            let file = ElfFile::read(|at, size| read_bytes(&file, at, size));
            file.map_or(KnownFile::Other, KnownFile::Elf)
        }
        Err(missing) => KnownFile::None(missing),
    }
}

/// Reads the headers of a mapped file from the memory of its process.
fn loaded_file(mapping: &Mapping<'_>, list: &MappingList) -> Option<ElfFile> {
    let start = list.start_of(mapping)?;
    let elf = LoadedFile::open(mapping.process, start)?.elf;
    let [own, first] = [(mapping.address, mapping.offset), (start, 0)]
        .map(|(address, offset)| elf.extent(address, offset).map(|extent| extent.base));
    (own.is_some() && own == first).then_some(elf)
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
            let mapping = Mapping {
                process: own,
                address,
                size,
                offset,
                build_id: &[],
                file: part.file,
                path: &name,
            };
            let (new, gone) = images.image(&mapping, None);
            assert_eq!((&new, gone.len()), (part, 0));
            images.forget_lists();
            unmap(&range);
        }
    }

    /// A copy of a library without its build id.
    fn without_build_id(mut library: Vec<u8>) -> Vec<u8> {
        const NOTE: &[u8] = b"\x03\0\0\0GNU\0";
        if let Some(at) = library.windows(NOTE.len()).position(|part| part == NOTE) {
            library[at] = 9;
        }
        library
    }

    /// A library that was removed, or replaced by another one, has the size and build id of the one in memory, and its bytes.
    #[test]
    fn a_library_that_is_not_at_its_path_is_known_from_memory() {
        use crate::process_files::id_of;
        let own = std::process::id();
        let mut library = Vec::new();
        each_mapping(own, |mapping, _| {
            if mapping.path.ends_with(b"/libc.so.6") {
                library = mapping.path.to_vec();
            }
        });
        if library.is_empty() {
            return eprintln!("left out: a static program");
        }
        let library = std::fs::read(crate::process_root::path_of(&library)).unwrap();
        let folder = std::env::temp_dir().join(format!("etw-gone-{own}"));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("libc.so.6");
        let name = path.to_str().unwrap().as_bytes();
        for has_id in [true, false] {
            let bytes = if has_id { library.clone() } else { without_build_id(library.clone()) };
            std::fs::write(&path, bytes).unwrap();
            let file = Some(id_of(&std::fs::metadata(&path).unwrap()));
            let mut child = std::process::Command::new("/bin/sleep")
                .arg("1000")
                .env("LD_LIBRARY_PATH", &folder)
                .spawn()
                .unwrap();
            let process = child.id();
            // The last segment is mapped when the program has its own code again.
            let is_loaded = |list: &MappingList| {
                list.executable().any(|one| one.file == file)
                    && list.all.iter().filter(|one| one.file == file).count() >= 4
            };
            let mut list = MappingList::of(process);
            while !is_loaded(&list) {
                list = MappingList::of(process);
            }
            let code = list.executable().find(|one| one.file == file).unwrap();
            let (address, size) = (code.range.start, code.range.end - code.range.start);
            let offset = code.offset;
            let id = &mut Vec::new();
            let mut images = || {
                let mut all = Images::default();
                let listed = all.of_list(process, &MappingList::of(process));
                let listed = listed.into_iter().find(|one| one.file == file).unwrap();
                let build_id = &id[..];
                let numbers = if build_id.is_empty() { file } else { None };
                let path = name;
                let mapping =
                    Mapping { process, address, size, offset, build_id, file: numbers, path };
                let (recorded, _) = all.image(&mapping, None);
                id.clone_from(&listed.build_id);
                (listed, recorded)
            };
            let (before, recorded) = images();
            let removed = std::fs::remove_file(&path).map(|()| images()).unwrap();
            std::fs::copy("/bin/sleep", &path).unwrap();
            let replaced = images();
            #[cfg(feature = "unwind")]
            let bytes = {
                use crate::mapped_file::{FilesOf, OpenFiles};
                use crate::unwind::MappedFiles;
                let files = FilesOf { process, open: &OpenFiles::default() };
                let bytes = |at| files.read(&replaced.0, None, at, 16);
                [bytes(0), bytes(0x1238)]
            };
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!((before.build_id.len() > 8, before.size > size), (has_id, true));
            assert_eq!((&recorded.path[..], recorded.base), (name, before.base));
            let facts = |one: &Image| {
                (one.base, one.size, one.default_base, one.build_id.clone(), one.is_part)
            };
            for one in [&removed.0, &removed.1, &replaced.0, &replaced.1] {
                assert_eq!(facts(one), facts(&before), "{has_id} {}", one.path.escape_ascii());
            }
            // Names are not looked up in the other file.
            let marked = [name, DELETED].concat();
            assert_eq!(replaced.1.path, if has_id { name } else { &marked });
            #[cfg(feature = "unwind")]
            for (at, bytes) in [0, 0x1238].into_iter().zip(bytes) {
                assert_eq!(bytes.as_deref(), Some(&library[at..at + 16]));
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
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
            let mapping = Mapping {
                process: own,
                address,
                size: PAGE,
                offset: 0,
                build_id: &[],
                file: None,
                path,
            };
            let (image, gone) = images.image(&mapping, Some(known));
            assert_eq!((image.base, gone), (address, expected));
            // A process that has ended has no list: nothing is known of its images.
            let ended = Mapping { process: u32::MAX >> 1, ..mapping };
            assert_eq!(images.image(&ended, Some(known)).1, []);
        }
        unmap(&range);
    }
}
