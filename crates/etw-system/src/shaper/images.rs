//! Images: Image events, and those of their symbols.

use std::collections::BTreeMap;
use std::sync::Arc;

use etw_types::Guid;

use super::Shaper;
use super::lifecycle_stacks::{IMAGE_LOAD, IMAGE_UNLOAD};
use super::processes::file_name;
use crate::flags::Flag;
use crate::neutral::{Detail, Image, NeutralEvent};
use crate::record::{Head, Payload, Records};

/// Identities of images: merging adds them on Windows.
const IMAGE_ID: Guid = Guid::from_u128(0xb3e675d7_2554_4f18_830b_2762732560de);
const DBG_ID_RSDS: u8 = 36;

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
        let hook = if self.is_found { IMAGE_LOAD } else { 0x1403 };
        let Some(one) = self.processes.get_mut(&process) else { return };
        let end = image.base.saturating_add(image.size);
        if one.images.get(&image.base).is_some_and(|known| known == image) {
            return;
        }
        // Mappings that this one replaces.
        let replaced: Vec<u64> = one
            .images
            .range(..end)
            .filter(|(base, old)| **base + old.size > image.base)
            .map(|(base, _)| *base)
            .collect();
        let replaced: Vec<_> = replaced.iter().filter_map(|base| one.images.remove(base)).collect();
        if one.facts.exec.path.is_empty() && process != 0 {
            // The kernel says of a deleted file that it is one.
            let path = image.path.strip_suffix(b" (deleted)").unwrap_or(&image.path);
            one.facts.exec.path = path.to_vec();
        }
        // The first image of a program that is executed is its own.
        let is_own = one.images.is_empty() || one.facts.exec.path == image.path;
        if image.is_32_bit && is_own {
            self.calls.add_narrow(process);
        }
        one.images.insert(image.base, image.clone());
        if one.is_executed
            && one.images.len() == 1
            && let Some(first) = self.threads.get_mut(&process)
        {
            first.entry = image.entry;
        }
        self.image_changes += 1;
        one.images_version = self.image_changes;
        for old in replaced {
            self.image_record(head, IMAGE_UNLOAD, process, &old, out);
        }
        let head = self.apart(head, out);
        self.image_record(head, hook, process, image, out);
        if hook == IMAGE_LOAD && self.has(Flag::IMAGE) {
            let stack = self.map_stack(event.thread);
            self.add_stack(head, IMAGE_LOAD, stack.get(), out);
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
        if !id.is_empty() && hook != IMAGE_UNLOAD {
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
