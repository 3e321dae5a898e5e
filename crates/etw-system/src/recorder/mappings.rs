//! Mappings that begin, or end unseen, while the recording runs.

use super::Recorder;
use super::rundown::Giver;
use crate::mapped_images::{Images, MappingList};
use crate::neutral::Detail;
use crate::perf::{Mapping, Parsed};
use crate::record::Records;
use crate::shaper::{Shaper, Turn};

/// Adds the image of a mapping, after the ends of those whose place it has taken.
pub(super) fn add_mapping(
    shaper: &mut Shaper,
    parsed: &Parsed<'_>,
    mapping: &Mapping<'_>,
    images: &mut Images,
    out: &mut Records,
) {
    let process = mapping.process;
    let (image, gone) = images.image(mapping, shaper.images_of(process));
    for base in gone {
        shaper.take(&parsed.event(Detail::Unmap { process, base }), out);
    }
    shaper.take(&parsed.event(Detail::Map { process, image: &image }), out);
}

impl Recorder {
    /// Ends the images that living processes have no more. The kernel's only record of `munmap` is one of system calls, which may not be
    /// recorded, or be lost, or be one of 32 bits.
    pub(super) fn end_unmapped_images(&mut self, turn: Turn) {
        if !self.shaper.records_images() {
            return;
        }
        for process in self.shaper.process_ids() {
            let Some(images) = self.shaper.images_of(process) else { continue };
            let list = MappingList::of(process);
            let gone = images.by_base.values().filter(|image| list.is_free(image));
            let gone: Vec<u64> = gone.map(|image| image.base).collect();
            // Otherwise it has just executed another program, or its id is another one's.
            if gone.len() < images.by_base.len() {
                let turn = Turn { process, thread: 0, ..turn };
                let mut give = Giver { shaper: &mut self.shaper, out: &mut self.out, turn };
                gone.into_iter().for_each(|base| give.event(Detail::Unmap { process, base }));
            }
        }
    }
}
