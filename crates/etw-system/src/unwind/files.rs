//! Files with rules, and the numbers by which rules are found. Images of processes that have ended leave nothing here.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::tables::Tables;
use super::{FileIdentity, MappedFiles};
use crate::elf::ElfFile;
use crate::neutral::Image;

/// Images, and files, are looked through when there are so many more than were in use at the last look, and as many again.
const LOOK_AFTER: usize = 1024;

/// Bytes of functions of files without search tables, and of unpacked entries, that are kept; further such files have no rules.
const MAX_KEPT: usize = 64 << 20;

/// A file whose rules are kept.
#[derive(Debug, Default)]
struct RuleFile {
    identity: Option<FileIdentity>,
    tables: KnownTables,
}

#[derive(Debug, Default)]
enum KnownTables {
    #[default]
    NotRead,
    None,
    Some(Tables),
}

/// The answer of a file about an address.
#[derive(Debug)]
pub(super) enum Answer<T> {
    Found(T),
    /// There is no rule.
    None,
    /// There are no rules at all.
    NoTables,
    /// The file is not the image's, or cannot be read any more: what it says is nothing for others with the file's number.
    Replaced,
}

/// The files of images.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The number of the file of each image, by the address of the image in this process.
    numbers: HashMap<usize, (Arc<Image>, u64), RandomState>,
    /// A file at another address has the same rules.
    by_identity: HashMap<(FileIdentity, Vec<u8>), u64, RandomState>,
    /// By number. No number is used twice.
    files: HashMap<u64, RuleFile, RandomState>,
    next: u64,
    images_in_use: usize,
    files_in_use: usize,
    /// Bytes that the tables keep.
    kept: usize,
}

impl KnownTables {
    fn bytes_kept(&self) -> usize {
        match self {
            KnownTables::Some(tables) => tables.bytes_kept(),
            _ => 0,
        }
    }
}

impl Files {
    /// The number of an image's file.
    pub fn number(&mut self, image: &Arc<Image>, files: &dyn MappedFiles) -> u64 {
        let key = Arc::as_ptr(image).addr();
        if let Some((_, number)) = self.numbers.get(&key) {
            return *number;
        }
        self.forget_unused();
        let identity = files.identity(image);
        let shared = identity.map(|identity| (identity, image.build_id.clone()));
        let known = shared.as_ref().and_then(|shared| self.by_identity.get(shared)).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.add(RuleFile { identity, ..RuleFile::default() });
            self.by_identity.extend(shared.map(|shared| (shared, number)));
            number
        });
        self.numbers.insert(key, (image.clone(), number));
        number
    }

    /// The number of a file for an image alone, whose file so far is [`Replaced`](Answer::Replaced). It is that in memory, or has no rules
    /// if that was the one.
    pub fn separate(&mut self, image: &Arc<Image>, before: u64) -> u64 {
        let was_named = self.files.get(&before).is_some_and(|one| one.identity.is_some());
        let tables = if was_named { KnownTables::NotRead } else { KnownTables::None };
        let number = self.add(RuleFile { identity: None, tables });
        self.numbers.insert(Arc::as_ptr(image).addr(), (image.clone(), number));
        number
    }

    fn add(&mut self, file: RuleFile) -> u64 {
        self.next += 1;
        self.files.insert(self.next, file);
        self.next
    }

    /// Forgets images that no process has any more, and files that no image has.
    fn forget_unused(&mut self) {
        if self.numbers.len() >= 2 * self.images_in_use + LOOK_AFTER {
            self.numbers.retain(|_, (image, _)| Arc::strong_count(image) > 1);
            self.images_in_use = self.numbers.len();
        }
        if self.files.len() >= 2 * self.files_in_use + LOOK_AFTER {
            self.numbers.retain(|_, (image, _)| Arc::strong_count(image) > 1);
            self.images_in_use = self.numbers.len();
            let used: HashSet<u64> = self.numbers.values().map(|(_, number)| *number).collect();
            self.files.retain(|number, _| used.contains(number));
            self.by_identity.retain(|_, number| used.contains(number));
            self.files_in_use = self.files.len();
            self.kept = self.files.values().map(|file| file.tables.bytes_kept()).sum();
        }
    }

    /// Asks the file with this number, which an image has.
    pub fn ask<T>(
        &mut self,
        number: u64,
        image: &Image,
        files: &dyn MappedFiles,
        ask: impl Fn(&Tables, &dyn Fn(u64, usize) -> Option<Vec<u8>>) -> Option<T>,
    ) -> Answer<T> {
        let Some(file) = self.files.get_mut(&number) else { return Answer::NoTables };
        let is_replaced = Cell::new(false);
        let read = |at, size| {
            let bytes = files.read(image, file.identity, at, size);
            is_replaced.set(is_replaced.get() || bytes.is_none());
            bytes
        };
        if let KnownTables::NotRead = file.tables {
            let is_image = || {
                image.build_id.is_empty()
                    || ElfFile::read(read).is_some_and(|file| file.build_id == image.build_id)
            };
            let room = MAX_KEPT.saturating_sub(self.kept);
            let tables = Tables::read(&read, room);
            if !is_image() || is_replaced.get() {
                return Answer::Replaced;
            }
            let tables = tables.filter(|one| one.bytes_kept() <= room);
            file.tables = tables.map_or(KnownTables::None, KnownTables::Some);
            self.kept += file.tables.bytes_kept();
        }
        let KnownTables::Some(tables) = &file.tables else { return Answer::NoTables };
        match ask(tables, &read) {
            _ if is_replaced.get() => Answer::Replaced,
            Some(found) => Answer::Found(found),
            None => Answer::None,
        }
    }

    /// Images and files that are remembered.
    #[cfg(test)]
    pub fn counts(&self) -> [usize; 3] {
        [self.numbers.len(), self.files.len(), self.by_identity.len()]
    }
}
