//! Debug sections of an ELF file, unpacked.

use crate::scopes::Reader;
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSection};
use std::cell::Cell;
use std::sync::Arc;

/// Bytes that may still be read.
#[derive(Debug)]
pub(crate) struct Room(Cell<u64>);

impl Room {
    pub fn new(bytes: u64) -> Room {
        Room(Cell::new(bytes))
    }

    /// Takes bytes of the room; `false`: it has less.
    pub fn take(&self, bytes: u64) -> bool {
        let rest = self.0.get().checked_sub(bytes);
        self.0.set(rest.unwrap_or(self.0.get()));
        rest.is_some()
    }
}

/// The sections of a file, by the names that they have in it.
pub(crate) fn dwarf(
    bytes: &[u8],
    name: impl Fn(SectionId) -> Option<&'static str>,
    room: &Room,
) -> Option<Dwarf<Reader>> {
    let file = object::File::parse(bytes).ok()?;
    Dwarf::load(|id| section(&file, name(id), room)).ok()
}

/// A section, unpacked; an empty one: the file has none of the name, or its bytes are more than the room or damaged.
pub(crate) fn section(
    file: &object::File<'_>,
    name: Option<&str>,
    room: &Room,
) -> Result<Reader, gimli::Error> {
    let section = name.and_then(|name| file.section_by_name(name));
    // For a compressed section, this is the size of its contents.
    let section = section.filter(|section| {
        section.compressed_data().is_ok_and(|data| room.take(data.uncompressed_size))
    });
    let data = section.and_then(|section| section.uncompressed_data().ok());
    Ok(EndianArcSlice::new(Arc::from(data.as_deref().unwrap_or_default()), endian(file)))
}

pub(crate) fn endian(file: &object::File<'_>) -> RunTimeEndian {
    match file.is_little_endian() {
        true => RunTimeEndian::Little,
        false => RunTimeEndian::Big,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_share_their_room() {
        let room = Room::new(10);
        assert!(room.take(6) && !room.take(5) && room.take(4) && !room.take(1));
    }
}
