//! Mappings that begin while the recording runs.

use crate::mapped_images::Images;
use crate::neutral::Detail;
use crate::perf::{Mapping, Parsed};
use crate::record::Records;
use crate::shaper::Shaper;

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
