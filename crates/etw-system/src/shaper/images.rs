//! Images: Image events, and those of their symbols.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use etw_types::Guid;

use super::lifecycle_stacks::{IMAGE_LOAD, IMAGE_UNLOAD};
use super::processes::file_name;
use super::{ProcessImages, Shaper};
use crate::flags::Flag;
use crate::neutral::{Detail, Image, NeutralEvent};
use crate::record::{Head, Payload, Records};

/// Identities of images: merging adds them on Windows.
const IMAGE_ID: Guid = Guid::from_u128(0xb3e675d7_2554_4f18_830b_2762732560de);
const DBG_ID_RSDS: u8 = 36;

/// The images that a mapping changes, with their records.
#[derive(Default)]
struct Changes {
    unloaded: Vec<Arc<Image>>,
    loaded: Vec<Arc<Image>>,
}

/// Adds an image where others may lie. A file that was loaded takes the place of all of them. Memory that became executable, and a mapped part of a
/// file, take the place of loaded files whose code lay there; inside of the others, such as in a program's own variables, they belong to those.
fn add_image(images: &mut BTreeMap<u64, Arc<Image>>, image: &Arc<Image>) -> Changes {
    let range = image.range();
    let is_load = !is_alone(image);
    let mut changes = Changes::default();
    let mut free = vec![range.clone()];
    let all = ProcessImages { by_base: images, version: 0 };
    let overlapped: Vec<Arc<Image>> = all.overlapped(&range).cloned().collect();
    for old in overlapped {
        let code = match is_load {
            false if image.is_anonymous() && old.is_anonymous() => old.code.clone(),
            false if !is_alone(&old) => hull_without(&old.code, &image.code),
            _ => 0..0,
        };
        if !code.is_empty() {
            free = free.into_iter().flat_map(|one| without(&one, &old.range())).collect();
            if code != old.code {
                images.insert(old.base, Arc::new(Image { code, ..(*old).clone() }));
            }
            continue;
        }
        images.remove(&old.base);
        if is_alone(&old) && !old.code.is_empty() {
            let rest =
                without(&old.range(), &range).map(|rest| Arc::new((*old).clone().clipped(rest)));
            changes.loaded.extend(rest);
        }
        changes.unloaded.push(old);
    }
    let is_whole = |free: &Range<u64>| *free == range;
    changes.loaded.extend(free.into_iter().map(|free| match is_whole(&free) {
        true => image.clone(),
        false => Arc::new((**image).clone().clipped(free)),
    }));
    images.extend(changes.loaded.iter().map(|image| (image.base, image.clone())));
    changes
}

/// Removes what is in a range of addresses. A loaded file stays as long as any of its code is elsewhere. `None`: nothing changes.
fn remove_code(images: &mut BTreeMap<u64, Arc<Image>>, range: &Range<u64>) -> Option<Changes> {
    let mut changes = Changes::default();
    let all = ProcessImages { by_base: images, version: 0 };
    let overlapped: Vec<Arc<Image>> = all.overlapped(range).cloned().collect();
    for old in overlapped {
        let code = if old.code.is_empty() { old.range() } else { old.code.clone() };
        if code.start >= range.end || range.start >= code.end {
            continue;
        }
        let rest = hull_without(&code, range);
        if !rest.is_empty() && !is_alone(&old) {
            images.insert(old.base, Arc::new(Image { code: rest, ..(*old).clone() }));
            continue;
        }
        images.remove(&old.base);
        if is_alone(&old) {
            let rest =
                without(&old.range(), range).map(|rest| Arc::new((*old).clone().clipped(rest)));
            changes.loaded.extend(rest);
        }
        changes.unloaded.push(old);
    }
    images.extend(changes.loaded.iter().map(|image| (image.base, image.clone())));
    (!changes.unloaded.is_empty()).then_some(changes)
}

/// Whether an image is one mapping, and no loaded file.
fn is_alone(image: &Image) -> bool {
    image.is_part || image.is_anonymous()
}

/// More of an image's code is known.
fn add_code(image: &mut Arc<Image>, code: &Range<u64>) {
    let known = &image.code;
    let hull = match known.is_empty() {
        true => code.clone(),
        false => known.start.min(code.start)..known.end.max(code.end),
    };
    if hull != *known {
        *image = Arc::new(Image { code: hull, ..(**image).clone() });
    }
}

/// The parts of a range outside of another one.
fn without(range: &Range<u64>, other: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let before = range.start..range.end.min(other.start);
    let behind = range.start.max(other.end)..range.end;
    [before, behind].into_iter().filter(|one| !one.is_empty())
}

/// The rest of a range outside of another one, and the addresses between two rests.
fn hull_without(range: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let mut parts = without(range, other);
    let first = parts.next().unwrap_or(0..0);
    let end = parts.next().map_or(first.end, |last| last.end);
    first.start..end
}

impl Shaper {
    /// A new process has the images of its parent.
    pub(super) fn inherit_images(&mut self, process: u32, parent: u32) {
        let images = self.processes.get(&parent).map(|parent| parent.images.clone());
        let Some(images) = images.filter(|images| !images.is_empty()) else { return };
        self.image_changes += 1;
        if let Some(one) = self.processes.get_mut(&process) {
            one.images = images;
            one.images_version = self.image_changes;
            one.has_untold_images = true;
            self.untold += 1;
        }
    }

    /// Adds the records of inherited images, if a process has some without. Most programs execute another one at once, and nobody needs them.
    pub(super) fn tell_images(&mut self, head: Head, process: u32, out: &mut Records) {
        if !self.forget_untold(process) {
            return;
        }
        let images = self.processes.get(&process).map(|one| one.images.clone());
        for image in images.iter().flat_map(BTreeMap::values) {
            self.image_record(head, IMAGE_LOAD, process, image, out);
        }
    }

    /// Adds those records before an event with an address of the program.
    pub(super) fn tell_needed_images(&mut self, event: &NeutralEvent<'_>, out: &mut Records) {
        if !event.stack.user.is_empty() || matches!(event.detail, Detail::Sample { .. }) {
            self.tell_images(self.head(event), event.process, out);
        }
    }

    /// Returns whether a process had images without records.
    pub(super) fn forget_untold(&mut self, process: u32) -> bool {
        let one = self.processes.get_mut(&process);
        let is_untold = one.is_some_and(|one| std::mem::take(&mut one.has_untold_images));
        self.untold -= u32::from(is_untold);
        is_untold
    }

    pub(super) fn mapped(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        image: &Arc<Image>,
        out: &mut Records,
    ) {
        if process != 0 {
            self.ensure(event, process, 0, out);
        } else if !self.processes.contains_key(&0) {
            return;
        }
        let head = match self.is_found {
            true => self.head(event),
            false => Head { process, thread: 0, ..self.head(event) },
        };
        self.tell_images(head, process, out);
        self.note_program(process, image);
        for process in self.shared_memory.of(process) {
            self.add_to_process(event, head, process, image, out);
        }
    }

    /// The first image of a program that is executed is its own, unless that one was lost.
    fn note_program(&mut self, process: u32, image: &Image) {
        let Some(one) = self.processes.get_mut(&process) else { return };
        let is_first = one.images.is_empty();
        let is_program = is_first && one.executed.is_some_and(|time| self.last_loss < time);
        if one.facts.exec.path.is_empty() && is_program {
            // The kernel says of a deleted file that it is one.
            let path = image.path.strip_suffix(b" (deleted)").unwrap_or(&image.path);
            one.facts.exec.path = path.to_vec();
        }
        if image.is_32_bit && (is_first || one.facts.exec.path == image.path) {
            self.calls.add_narrow(process);
        }
        if is_program && let Some(first) = self.threads.get_mut(&process) {
            first.entry = image.entry;
        }
    }

    fn add_to_process(
        &mut self,
        event: &NeutralEvent<'_>,
        head: Head,
        process: u32,
        image: &Arc<Image>,
        out: &mut Records,
    ) {
        let Some(one) = self.processes.get_mut(&process) else { return };
        if let Some(known) = one.images.get_mut(&image.base)
            && known.is_same(image)
        {
            add_code(known, &image.code);
            return;
        }
        let changes = add_image(&mut one.images, image);
        self.images_changed(event, head, (process, changes), out);
    }

    /// Adds the records of changes, if the process has records of its other images.
    fn images_changed(
        &mut self,
        event: &NeutralEvent<'_>,
        head: Head,
        (process, changes): (u32, Changes),
        out: &mut Records,
    ) {
        let Some(one) = self.processes.get_mut(&process) else { return };
        self.image_changes += 1;
        one.images_version = self.image_changes;
        if one.has_untold_images {
            return;
        }
        for old in changes.unloaded {
            self.image_record(head, IMAGE_UNLOAD, process, &old, out);
        }
        let hook = if self.is_found { IMAGE_LOAD } else { 0x1403 };
        for image in changes.loaded {
            let head = self.apart(head, out);
            self.image_record(head, hook, process, &image, out);
            if hook == IMAGE_LOAD && self.has(Flag::IMAGE) {
                let stack = self.map_stack(event.thread);
                self.add_stack(head, IMAGE_LOAD, stack.get(), out);
            }
        }
    }

    /// Whether images have records.
    pub fn records_images(&self) -> bool {
        self.has(Flag::IMAGE)
    }

    /// The process has no code of an image any more.
    pub(super) fn unmapped(
        &mut self,
        event: &NeutralEvent<'_>,
        process: u32,
        base: u64,
        out: &mut Records,
    ) {
        let head = self.head(event);
        self.tell_images(head, process, out);
        for process in self.shared_memory.of(process) {
            let one = self.processes.get_mut(&process);
            let Some(image) = one.and_then(|one| one.images.remove(&base)) else { continue };
            let changes = Changes { unloaded: vec![image], ..Changes::default() };
            self.images_changed(event, head, (process, changes), out);
        }
    }

    /// Memory of the process that ran is there no more: images end of which no code is left.
    pub(super) fn code_unmapped(
        &mut self,
        event: &NeutralEvent<'_>,
        range: Range<u64>,
        out: &mut Records,
    ) {
        let has_code = |images: ProcessImages<'_>| images.overlapped(&range).next().is_some();
        if range.is_empty() || !self.images_of(event.process).is_some_and(has_code) {
            return;
        }
        let head = self.head(event);
        for process in self.shared_memory.of(event.process) {
            let Some(one) = self.processes.get_mut(&process) else { continue };
            if let Some(changes) = remove_code(&mut one.images, &range) {
                self.images_changed(event, head, (process, changes), out);
            }
        }
    }

    pub(super) fn image_record(
        &mut self,
        head: Head,
        hook: u16,
        process: u32,
        image: &Image,
        out: &mut Records,
    ) {
        if !self.has(Flag::IMAGE) {
            return;
        }
        let id = &image.build_id;
        let stamp = id.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let head = Head { time: out.not_before(head.time), ..head };
        if hook != IMAGE_UNLOAD {
            // Its call stack has to follow the image's own record.
            self.symbol_records(head, process, image, out);
        }
        // Debuggers count addresses from the file's lowest one.
        if !id.is_empty() && !image.is_part && hook != IMAGE_UNLOAD {
            let mut guid = [0; 16];
            let known = id.len().min(16);
            guid[..known].copy_from_slice(&id[..known]);
            let mut name = file_name(&image.path).to_vec();
            name.extend(b".debug");
            let payload =
                Payload::new().u64(image.base).u32(process).bytes(&guid).u32(0).ansi(&name);
            out.classic(head, IMAGE_ID, DBG_ID_RSDS, 2, &payload);
        }
        let payload = Payload::new()
            .u64(image.base)
            .u64(image.size)
            .u32(process)
            .u32(0)
            .u32(stamp)
            .bytes(&[0; 4])
            .u64(image.default_base)
            .bytes(&[0; 16])
            .wide(&image.path);
        out.system(head, hook, 3, &payload);
    }
}
