//! The names of the files that were used last: those of all files would be more with every hour.
//!
//! When the young names are many, they take the place of the old ones. A name that is used is young again.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use super::KEY;
use crate::neutral::FileId;

/// Bytes of the young names, and of the old ones, at most.
const GENERATION_SIZE: usize = 2 << 20;
/// Bytes of a name in each of its two maps, beside its own.
const AROUND: usize = 96;
/// Keys of opened files have this bit: other numbers of files, which are counted, lack it or have one more.
const OPENED: u64 = 1 << 46;

/// The last name of a file.
#[derive(Clone, Debug)]
struct FileName {
    path: Vec<u8>,
    /// The file had it: it was deleted, or has another name. Its number may be that of a new file.
    is_gone: bool,
    /// Calls that run and take it from the file, if they succeed.
    takers: u32,
    /// The opened file.
    id: FileId,
}

#[derive(Clone, Debug, Default)]
struct Generation {
    by_key: BTreeMap<u64, FileName>,
    /// Keys by name: several names may lead to one file.
    keys: BTreeMap<Vec<u8>, u64>,
    /// Keys of opened files whose numbers may be those of others, too.
    by_id: BTreeMap<FileId, u64>,
    size: usize,
}

/// The names of files, and their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    young: Generation,
    old: Generation,
    /// Files whose names no record has yet: a folder above them has another name. With the hash of the name that a record has.
    untold: HashMap<u64, u64>,
}

/// Names of a folder that follow it when it has another name. Those of a larger one are learned again when their files are used.
const MAX_BELOW: usize = 1 << 12;

/// A name below a folder.
#[derive(Clone, Debug)]
pub(super) struct NameBelow {
    /// Behind the path of the folder.
    rest: Vec<u8>,
    key: u64,
    /// It is the name of the file, not another one that leads to it.
    is_name: bool,
}

/// Whether a path is that of a file without a name, as `/proc` has it: one that was made so, or was deleted.
pub(super) fn is_nameless(inode: u64, path: &[u8]) -> bool {
    let Some(last) = path.rsplit(|byte| *byte == b'/').next() else { return false };
    let number = last.strip_prefix(b"#").and_then(|number| std::str::from_utf8(number).ok());
    path.ends_with(DELETED) || number.and_then(|one| one.parse().ok()) == Some(inode)
}

fn hash_of(value: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// The key of a file by its device and number alone. Where these may be those of several files, no opened file has this key.
pub(super) fn key_of_number(id: FileId) -> u64 {
    key_of_hash(hash_of((id.device, id.inode)))
}

/// Whether a call has opened the file of a key, or it was found open.
pub(super) fn is_opened(key: u64) -> bool {
    key & 3 << 46 == OPENED
}

fn key_of_hash(hash: u64) -> u64 {
    KEY | OPENED | hash & (OPENED - 1)
}

/// The end of the path that `/proc` has of a file that was deleted.
const DELETED: &[u8] = b" (deleted)";

impl Names {
    fn get(&self, key: u64) -> Option<&FileName> {
        self.young.by_key.get(&key).or_else(|| self.old.by_key.get(&key))
    }

    fn get_mut(&mut self, key: u64) -> Option<&mut FileName> {
        let Names { young, old, .. } = self;
        young.by_key.get_mut(&key).or_else(|| old.by_key.get_mut(&key))
    }

    /// The last name of a file, which it may not have any more.
    pub fn path(&self, key: u64) -> Option<&[u8]> {
        self.get(key).map(|name| &name.path[..])
    }

    /// The file of a name.
    pub fn key(&self, path: &[u8]) -> Option<u64> {
        self.young.keys.get(path).or_else(|| self.old.keys.get(path)).copied()
    }

    /// The key of an opened file with this path. The same file has the same one again, also in the next recorder of the trace, which knows
    /// of no earlier file; another file has another one.
    pub fn key_of(&mut self, id: FileId, path: &[u8]) -> u64 {
        if id.is_on_device() {
            return key_of_number(id);
        }
        let key = self
            .key_of_id(id, path)
            .unwrap_or_else(|| key_of_hash(hash_of((id.device, id.inode, path))));
        if self.young.by_id.get(&id) != Some(&key) {
            self.make_room(AROUND);
            self.young.by_id.insert(id, key);
        }
        key
    }

    /// The key that a file without a device of its own has.
    fn key_of_id(&self, id: FileId, path: &[u8]) -> Option<u64> {
        let Names { young, old, .. } = self;
        if let Some(key) = young.by_id.get(&id).or_else(|| old.by_id.get(&id)) {
            return Some(*key);
        }
        // The kernel may have forgotten the inode and read it again; and `/proc` has other devices than the kernel's own.
        let is_same = |known: FileId| {
            let is_compared = known.address != 0 && id.address != 0;
            known.inode == id.inode && (known.device == id.device || !is_compared)
        };
        let of_path =
            self.key(path).filter(|key| self.get(*key).is_some_and(|one| is_same(one.id)));
        if of_path.is_some() {
            return of_path;
        }
        // Another path to the only file with this number.
        let range = FileId { address: 0, ..id }..=FileId { address: u64::MAX, ..id };
        let known = old.by_id.range(range.clone()).chain(young.by_id.range(range));
        let mut is_compared = id.address != 0;
        let mut keys = known.map(|(known, key)| {
            is_compared &= known.address != 0;
            *key
        });
        let first = keys.next()?;
        (keys.all(|key| key == first) && !is_compared).then_some(first)
    }

    /// A file with a name is this opened one.
    pub fn identify(&mut self, key: u64, id: FileId) {
        if let Some(name) = self.get_mut(key) {
            name.id = id;
        }
    }

    /// The number of an opened file; 0: not known.
    pub fn inode(&self, key: u64) -> u64 {
        self.get(key).map_or(0, |name| name.id.inode)
    }

    /// A file is used. Returns whether it has a name.
    pub fn is_used(&mut self, key: u64) -> bool {
        if let Some(name) = self.old.by_key.remove(&key) {
            self.make_room(2 * (AROUND + name.path.len()));
            if !name.is_gone {
                self.young.keys.entry(name.path.clone()).or_insert(key);
            }
            self.young.by_key.insert(key, name);
        }
        self.young.by_key.get(&key).is_some_and(|name| !name.is_gone)
    }

    /// Adds the name of a file, in place of the one that it had.
    pub fn add(&mut self, key: u64, path: &[u8]) {
        let id = self.get(key).map_or(FileId::default(), |name| name.id);
        self.make_room(2 * (AROUND + path.len()));
        self.untold.remove(&key);
        self.old.by_key.remove(&key);
        self.young.keys.insert(path.to_vec(), key);
        self.young
            .by_key
            .insert(key, FileName { path: path.to_vec(), is_gone: false, takers: 0, id });
    }

    fn make_room(&mut self, size: usize) {
        if self.young.size + size > GENERATION_SIZE {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.size += size;
    }

    /// A path names its file no more. Returns the file, if it is known.
    pub fn remove(&mut self, path: &[u8]) -> Option<u64> {
        let old = self.old.keys.remove(path);
        let key = self.young.keys.remove(path).or(old)?;
        if let Some(name) = self.get_mut(key).filter(|name| name.path == path) {
            name.is_gone = true;
        }
        Some(key)
    }

    /// A call begins that takes a name from its file, if it succeeds. Returns the file.
    pub fn begin_taking(&mut self, path: &[u8]) -> Option<u64> {
        let key = self.key(path)?;
        if let Some(name) = self.get_mut(key).filter(|name| name.path == path) {
            name.takers = name.takers.saturating_add(1);
        }
        Some(key)
    }

    /// The call has ended.
    pub fn end_taking(&mut self, path: &[u8], key: Option<u64>) {
        if let Some(name) = key.and_then(|key| self.get_mut(key)).filter(|name| name.path == path) {
            name.takers = name.takers.saturating_sub(1);
        }
    }

    /// Whether a file has a name.
    pub fn has_name(&self, key: u64) -> bool {
        self.get(key).is_some_and(|name| !name.is_gone)
    }

    /// Whether a file has a name that no running call takes from it.
    pub fn has_safe_name(&self, key: u64) -> bool {
        self.get(key).is_some_and(|name| !name.is_gone && name.takers == 0)
    }

    /// A path no longer names the file that it named when a call began (`key`). Another file may have got the name before the end of the call was
    /// seen. If no call had opened the first one, that is the same file.
    pub fn take_name(&mut self, path: &[u8], key: Option<u64>) -> Option<u64> {
        let has_it = |key: &u64| {
            let has_name = self.get(*key).is_some_and(|one| one.path == path && !one.is_gone);
            is_opened(*key) && has_name
        };
        let Some(key) = key.filter(has_it).filter(|key| self.key(path) != Some(*key)) else {
            return self.remove(path);
        };
        if let Some(name) = self.get_mut(key) {
            name.is_gone = true;
        }
        Some(key)
    }

    /// A file is a new one: another name with its number was that of an earlier file, whose deletion was not seen.
    pub fn replace(&mut self, key: u64, path: &[u8]) {
        if let Some(name) = self.get_mut(key).filter(|name| name.path != path) {
            name.is_gone = true;
        }
    }

    /// Whether a record has this name of a file.
    pub fn has_told(&self, key: u64, path: &[u8]) -> bool {
        self.path(key) == Some(path) && !self.untold.contains_key(&key)
    }

    /// The name of a file, if no record has it yet; the caller makes one.
    pub fn untold(&mut self, key: u64) -> Option<Vec<u8>> {
        if self.untold.is_empty() || self.untold.remove(&key).is_none() {
            return None;
        }
        self.path(key).map(<[u8]>::to_vec)
    }

    /// Takes all of these, in the order of their keys.
    pub fn take_untold(&mut self) -> Vec<(u64, Vec<u8>)> {
        let mut keys: Vec<u64> = self.untold.keys().copied().collect();
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| Some((key, self.untold(key)?))).collect()
    }

    /// Takes the names below a folder, which name their files no more.
    pub fn take_below(&mut self, folder: &[u8]) -> Vec<NameBelow> {
        if !folder.starts_with(b"/") || folder == b"/" {
            return Vec::new();
        }
        let start = [folder, b"/"].concat();
        let mut paths = BTreeMap::new();
        for generation in [&mut self.old, &mut self.young] {
            let below = generation.keys.range(start.clone()..);
            let below: Vec<Vec<u8>> = below
                .map(|(path, _)| path.clone())
                .take_while(|path| path.starts_with(&start))
                .collect();
            for path in below {
                if let Some(key) = generation.keys.remove(&path) {
                    paths.insert(path, key);
                }
            }
        }
        let mut all = Vec::new();
        for (path, key) in paths {
            let name = self.get_mut(key).filter(|name| name.path == path && !name.is_gone);
            let is_name = name.map(|name| name.is_gone = true).is_some();
            all.push(NameBelow { rest: path[folder.len()..].to_vec(), key, is_name });
        }
        all
    }

    /// Puts names below a folder.
    pub fn put_below(&mut self, folder: &[u8], names: Vec<NameBelow>) {
        for NameBelow { rest, key, is_name } in names.into_iter().take(MAX_BELOW) {
            let path = [folder, &rest].concat();
            if is_name {
                let told = self.untold.get(&key).copied();
                let told = told.or_else(|| self.path(key).map(hash_of));
                self.add(key, &path);
                if let Some(told) = told.filter(|told| *told != hash_of(&path)) {
                    self.untold.insert(key, told);
                }
            } else {
                self.make_room(2 * (AROUND + path.len()));
                self.young.keys.insert(path, key);
            }
        }
        if self.untold.len() > 4 * MAX_BELOW {
            let Names { young, old, untold } = self;
            untold.retain(|key, _| young.by_key.contains_key(key) || old.by_key.contains_key(key));
        }
    }

    /// Takes the names of all files, in the order of their keys.
    pub fn take(&mut self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let Names { young, old, .. } = std::mem::take(self);
        let mut all = old.by_key;
        all.extend(young.by_key);
        all.into_iter().map(|(key, name)| (key, name.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(number: u64) -> Vec<u8> {
        format!("/build/target/debug/incremental/{number}").into_bytes()
    }

    /// Names that are used stay, others go.
    #[test]
    fn names_of_files_that_are_used_again_are_kept() {
        const FILES: u64 = 100_000;
        let mut names = Names::default();
        for number in 1..FILES {
            assert!(!names.is_used(number));
            names.add(number, &path(number));
            assert!(names.is_used(number) && names.is_used(1), "{number}");
            assert!(names.young.size <= GENERATION_SIZE);
        }
        assert_eq!((names.path(1), names.key(&path(1))), (Some(&path(1)[..]), Some(1)));
        assert_eq!((names.path(2), names.key(&path(2))), (None, None));
        let all: Vec<(u64, Vec<u8>)> = names.take().collect();
        let count = all.len() as u64;
        assert!(all.is_sorted() && (10_000..FILES / 2).contains(&count), "{count}");
        assert!(all.iter().all(|(key, name)| *name == path(*key)));
        assert!(names.take().next().is_none());
    }

    /// Files whose numbers are the same keep their keys when others were remembered in their place, and in the next recorder.
    #[test]
    fn keys_are_the_same_when_their_files_were_forgotten() {
        const FILES: u64 = 60_000;
        let mut names = Names::default();
        let twin = |address| FileId { device: 30, inode: 257, address };
        let keys = |names: &mut Names, at: u64| {
            [(b"/a/f", 1), (b"/b/f", 2)].map(|(path, n)| names.key_of(twin(at + n), path))
        };
        let first = keys(&mut names, 0);
        assert_ne!(first[0], first[1]);
        for number in 0..FILES {
            names.key_of(FileId { device: 30, inode: 1000 + number, address: number }, b"/other");
            assert!(names.young.size <= GENERATION_SIZE);
        }
        let kept = names.young.by_id.len() + names.old.by_id.len();
        assert!(kept < FILES as usize && !names.old.by_id.contains_key(&twin(1)), "{kept}");
        assert_eq!((keys(&mut names, 10), keys(&mut Names::default(), 20)), (first, first));
    }

    #[test]
    fn a_name_that_a_file_had_is_not_its_name() {
        let mut names = Names::default();
        names.add(7, b"/a");
        assert_eq!(names.remove(b"/a"), Some(7));
        assert_eq!((names.remove(b"/a"), names.is_used(7)), (None, false));
        names.old = std::mem::take(&mut names.young);
        assert!(!names.is_used(7) && names.key(b"/a").is_none());
        names.add(7, b"/b");
        assert!(names.is_used(7));
        names.replace(7, b"/b");
        assert!(names.is_used(7));
        names.replace(7, b"/c");
        assert!(!names.is_used(7));
        assert_eq!(names.path(7), Some(&b"/b"[..]), "its last name");
    }
}
