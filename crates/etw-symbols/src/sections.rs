//! Debug sections of an ELF file, unpacked.

use crate::bytes::{Bytes, Elf, Room};
use crate::scopes::Reader;
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::read::CompressedData;
use object::{CompressionFormat, Object, ObjectSection};
use std::sync::Arc;

/// The sections are damaged, or more than the room for them, which then knows it.
#[derive(Debug)]
pub(crate) struct Unread;

impl From<gimli::Error> for Unread {
    fn from(_: gimli::Error) -> Unread {
        Unread
    }
}

/// The sections of a file, by the names that they have in it. `None`: they are more than the room, or it is no ELF file.
pub(crate) fn dwarf(
    bytes: &Bytes,
    name: impl Fn(SectionId) -> Option<&'static str>,
    room: &Room,
) -> Option<Dwarf<Reader>> {
    let file = Elf::parse(bytes).ok()?;
    Dwarf::load(|id| section(bytes, &file, name(id), room)).ok()
}

/// A section, unpacked; an empty one: the file has none of the name, or its bytes are damaged.
pub(crate) fn section(
    bytes: &Bytes,
    file: &Elf<'_>,
    name: Option<&str>,
    room: &Room,
) -> Result<Reader, Unread> {
    let section = name.and_then(|name| file.section_by_name(name));
    let place = section.and_then(|section| section.compressed_file_range().ok());
    let unpacked = match place {
        None => None,
        Some(place) if !room.take(place.uncompressed_size.max(place.compressed_size)) => {
            return Err(Unread);
        }
        Some(place) => {
            let data = bytes.source.part(place.offset, place.compressed_size);
            match place.format {
                CompressionFormat::None => data,
                format => data.and_then(|data| {
                    let uncompressed_size = place.uncompressed_size;
                    // The size bounds what is unpacked.
                    let packed = CompressedData { format, data: &data, uncompressed_size };
                    packed.decompress().ok().map(Arc::from)
                }),
            }
        }
    };
    Ok(EndianArcSlice::new(unpacked.unwrap_or_default(), endian(file)))
}

pub(crate) fn endian(file: &Elf<'_>) -> RunTimeEndian {
    match file.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    }
}
