//! Images of a trace by process, address and time: a process may load one where another one was.

use super::ANONYMOUS;
use super::labels::{ModuleFile, labels};
use etw_symbols::Module;
use etw_types::EventRecord;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Images of a trace; only a hostile one has more.
const LIMIT: usize = 1 << 20;
/// So many bases below an address are looked at: images do not overlap unless one has been unloaded.
const MAX_BASES: usize = 64;

/// A moment of a file's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub file_index: u32,
    pub time: i64,
}

impl Moment {
    /// The time of a record.
    pub fn of(record: &EventRecord<'_>) -> Moment {
        Moment { file_index: record.position.file_index, time: record.order_time }
    }
}

/// A loaded file.
#[derive(Debug)]
pub struct Image {
    pub size: u64,
    /// Subtracted from an address: the start of a Windows image, the load bias of an ELF file.
    pub zero: u64,
    pub name: Arc<str>,
    pub file: ModuleFile,
    /// The file with its symbols, if it was loaded on Linux.
    pub source: Option<SymbolSource>,
}

impl Image {
    /// Whether its code is that of a file, and not memory that programs fill at run time.
    pub fn has_file(&self) -> bool {
        is_of_file(&self.file.path)
    }
}

/// Whether the path of a mapping of Linux is that of a file that was loaded, and not that of memory that programs fill at run time.
fn is_of_file(path: &str) -> bool {
    const WRITTEN: [&str; 2] = ["/dev/shm/", "/memfd:"];
    !is_memory(path) && !WRITTEN.iter().any(|start| path.starts_with(start))
}

/// Whether the kernel names memory without a file by a path.
pub fn is_memory(path: &str) -> bool {
    const NAMES: [&str; 5] = [ANONYMOUS, "/anon_hugepage", "/dev/zero", "/SYSV", "["];
    NAMES.iter().any(|start| path.starts_with(start))
}

/// The file that has the symbols of an image.
#[derive(Debug)]
pub struct SymbolSource {
    pub module: Module,
    /// Subtracted from an address: the result is an address of the file's headers, or the distance from the kernel's start.
    pub bias: u64,
}

/// An event that names an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageEvent {
    /// It is loaded.
    Load,
    /// It is unloaded.
    Unload,
    /// It is loaded already, or still.
    Rundown,
}

/// An image while it is loaded.
#[derive(Debug)]
struct Loaded {
    file_index: u32,
    since: i64,
    /// The first moment when it is not loaded any more.
    until: i64,
    image: Image,
}

impl Loaded {
    fn is_at(&self, moment: Moment) -> bool {
        self.file_index == moment.file_index && (self.since..self.until).contains(&moment.time)
    }
}

/// The images of all processes.
#[derive(Debug, Default)]
pub struct Images {
    /// By process (0: the kernel) and base, in the order of their events.
    all: HashMap<u32, BTreeMap<u64, Vec<Loaded>>>,
    count: usize,
}

impl Images {
    /// Notes an image that an event names.
    pub fn add(
        &mut self,
        process: u32,
        base: u64,
        (event, moment): (ImageEvent, Moment),
        image: Image,
    ) {
        let Moment { file_index, time } = moment;
        let list = self.all.entry(process).or_default().entry(base).or_default();
        let last = list.iter_mut().rfind(|one| one.file_index == file_index);
        // Without an event of its load, it was loaded since the one before was not any more.
        let mut since = last.as_ref().map_or(i64::MIN, |last| last.until);
        if let Some(last) = last.filter(|last| last.until == i64::MAX) {
            match event {
                ImageEvent::Unload => return last.until = time,
                ImageEvent::Rundown if last.image.name == image.name => return,
                ImageEvent::Load | ImageEvent::Rundown => (last.until, since) = (time, time),
            }
        }
        let (since, until) = match event {
            ImageEvent::Load => (time, i64::MAX),
            ImageEvent::Rundown => (since, i64::MAX),
            ImageEvent::Unload => (since, time),
        };
        if self.count < LIMIT {
            self.count += 1;
            list.push(Loaded { file_index, since, until, image });
        }
    }

    /// Names images by more than their files' names where other files have these, too. For the end of a trace.
    pub fn label(&mut self) {
        let images =
            || self.all.values().flat_map(BTreeMap::values).flatten().map(|one| &one.image);
        let labels = labels(&images().map(|image| &image.file).collect());
        for one in self.all.values_mut().flat_map(BTreeMap::values_mut).flatten() {
            if let Some(label) = labels.get(&one.image.file) {
                one.image.name = label.as_str().into();
            }
        }
    }

    /// The image at an address of a process. If none is known to be loaded at that moment, the last one that was.
    pub fn at(&self, process: u32, address: u64, moment: Moment) -> Option<&Image> {
        self.loaded_at(process, address, moment)
            .or_else(|| self.with_address(process, address).next().map(|one| &one.image))
    }

    /// The image that is loaded at an address of a process at a moment.
    pub fn loaded_at(&self, process: u32, address: u64, moment: Moment) -> Option<&Image> {
        let mut all = self.with_address(process, address);
        all.find(|one| one.is_at(moment)).map(|one| &one.image)
    }

    /// Images that have an address, whenever they were loaded: those of nearer bases and later loads come first.
    fn with_address(&self, process: u32, address: u64) -> impl Iterator<Item = &Loaded> {
        let images = self.all.get(&process).into_iter();
        let bases = images.flat_map(move |all| all.range(..=address).rev().take(MAX_BASES));
        bases.flat_map(move |(base, list)| {
            list.iter().rev().filter(move |one| address - base < one.image.size)
        })
    }

    /// All images, with their processes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Image)> {
        self.all.iter().flat_map(|(process, images)| {
            images.values().flatten().map(move |one| (*process, &one.image))
        })
    }

    /// The last image at a base of a process.
    pub fn last(&self, process: u32, base: u64) -> Option<&Image> {
        self.all.get(&process)?.get(&base)?.last().map(|one| &one.image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, size: u64) -> Image {
        Image { size, zero: 0, name: name.into(), file: ModuleFile::default(), source: None }
    }

    fn at(time: i64) -> Moment {
        Moment { file_index: 0, time }
    }

    /// OV-23: code is named by the image that was loaded when it ran.
    #[test]
    fn an_address_has_the_image_of_its_time() {
        use ImageEvent::*;
        let mut images = Images::default();
        let mut add = |base, size, event, time, name: &str| {
            images.add(7, base, (event, at(time)), image(name, size));
        };
        add(0x1000, 0x1000, Rundown, 10, "first");
        add(0x1000, 0x1000, Unload, 20, "first");
        add(0x1000, 0x800, Load, 30, "second");
        add(0x1000, 0x800, Unload, 40, "second");
        // Inside of the first one's addresses, and with an end that the trace does not tell.
        add(0x1400, 0x800, Load, 50, "third");
        add(0x1400, 0x800, Rundown, 90, "third");
        // Only its end is known.
        add(0x9000, 0x100, Unload, 60, "fourth");
        let name = |address, time| images.at(7, address, at(time)).map(|image| &*image.name);
        assert_eq!(name(0x1500, 5), Some("first"));
        assert_eq!(name(0x1500, 19), Some("first"));
        assert_eq!(name(0x1500, 30), Some("second"));
        assert_eq!(name(0x1500, 39), Some("second"));
        assert_eq!(name(0x1500, 50), Some("third"));
        assert_eq!(name(0x1500, 100), Some("third"));
        assert_eq!(name(0x1900, 35), Some("third"), "no other one is known there");
        assert_eq!(name(0x9010, 50), Some("fourth"));
        assert_eq!((name(0x2000, 15), name(0xfff, 15)), (None, None));
        let elsewhere = Moment { file_index: 1, time: 15 };
        assert_eq!(images.at(7, 0x1010, elsewhere).map(|one| &*one.name), Some("second"));
    }

    /// A load without an unload of the image before: its event was lost.
    #[test]
    fn a_load_ends_the_image_before_it() {
        let mut images = Images::default();
        images.add(7, 0x1000, (ImageEvent::Load, at(10)), image("first", 0x100));
        images.add(7, 0x1000, (ImageEvent::Load, at(20)), image("second", 0x100));
        let name = |time| images.at(7, 0x1010, at(time)).map(|image| &*image.name);
        assert_eq!((name(10), name(20)), (Some("first"), Some("second")));
    }
}
