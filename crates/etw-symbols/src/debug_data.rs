//! [`DebugData`]: the debug information of one ELF file, with what other files have of it.

use crate::bytes::{Bytes, Elf, Room, Source};
use crate::scopes::Reader;
use crate::sections::dwarf;
use crate::split::SplitFiles;
use addr2line::{Context, LookupContinuation, LookupResult};
use object::{Object, ObjectSection};
use std::cell::{OnceCell, RefCell};
use std::io::Read;
use std::path::PathBuf;

/// Bytes of all debug sections of a program, unpacked, with those of its split files. Those of few programs are more; a hostile file's unpack to any
/// number.
const MAX_SECTIONS: u64 = 1 << 30;
/// Bytes of a packed symbol table, unpacked, and of the memory that unpacking needs; `xz -9` needs 64 MiB.
const MAX_TABLE: u64 = 256 << 20;
const MAX_DICTIONARY: usize = 64 << 20;

/// The section that every file with debug information has.
const DEBUG_SECTION: &str = ".debug_info";
/// An ELF file with the symbols of functions that the file itself lacks, packed by `xz`: Fedora's programs have it.
const TABLE_SECTION: &str = ".gnu_debugdata";

/// The file that has what the debug information of several programs has in common; `dwz` makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommonLink {
    /// Its path, perhaps relative to the folder of the file that names it.
    pub path: PathBuf,
    pub build_id: Vec<u8>,
}

/// The debug information of one ELF file.
pub(crate) struct DebugData {
    /// Until it is read.
    source: RefCell<Option<Source>>,
    /// The path of the file, if it was found at one.
    pub path: Option<PathBuf>,
    /// The file that has a part of it, until that is found.
    pub missing: Option<CommonLink>,
    common: RefCell<Option<Source>>,
    pub split: SplitFiles,
    room: Room,
    context: OnceCell<Option<Context<Reader>>>,
}

impl DebugData {
    /// The debug information of a file, if it has some.
    pub fn of(file: &Elf<'_>, bytes: &Bytes) -> Option<DebugData> {
        file.section_by_name(DEBUG_SECTION)?;
        let link = file.gnu_debugaltlink().ok().flatten();
        let missing = link.and_then(|(path, build_id)| {
            let path = PathBuf::from(std::str::from_utf8(path).ok()?);
            Some(CommonLink { path, build_id: build_id.to_vec() })
        });
        Some(DebugData {
            source: RefCell::new(Some(bytes.source.clone())),
            path: None,
            missing,
            common: RefCell::default(),
            split: SplitFiles::default(),
            room: Room::new(MAX_SECTIONS),
            context: OnceCell::new(),
        })
    }

    /// Adds the file that [`missing`](DebugData::missing) names, before the first answer.
    pub fn add_common(&mut self, other: &DebugData) {
        self.missing = None;
        self.common = RefCell::new(other.source.take());
    }

    /// Whether the debug information is more than is read.
    pub fn is_cut(&self) -> bool {
        self.room.was_exceeded()
    }

    /// Answers addresses; it is read when it is first needed. `None`: it is damaged, or too large.
    pub fn context(&self) -> Option<&Context<Reader>> {
        let read = || {
            // The files are closed behind this.
            let [source, common] = [&self.source, &self.common].map(RefCell::take);
            let read = |source| dwarf(&Bytes::of(source)?, |id| Some(id.name()), &self.room);
            let mut dwarf = read(source?)?;
            if let Some(common) = common.and_then(read) {
                dwarf.set_sup(common);
            }
            // Names and lines of a part would be others.
            if self.is_cut() { None } else { Context::from_dwarf(dwarf).ok() }
        };
        self.context.get_or_init(read).as_ref()
    }

    /// The result of a lookup, for which split files are read where it needs them.
    pub fn result<L>(&self, mut lookup: LookupResult<L>) -> L::Output
    where
        L: LookupContinuation<Buf = Reader>,
    {
        loop {
            lookup = match lookup {
                LookupResult::Output(result) => return result,
                LookupResult::Load { load, continuation } => {
                    continuation.resume(self.split.unit(&load, &self.room))
                }
            };
        }
    }
}

/// The ELF file with a packed symbol table, unpacked.
pub(crate) fn packed_table(file: &Elf<'_>) -> Option<Bytes> {
    let packed = file.section_by_name(TABLE_SECTION)?.data().ok()?;
    Bytes::of(Source::Memory(unpacked(packed, MAX_TABLE)?.into()))
}

/// Unpacks the bytes of `xz`. `None`: they are damaged, or more than `limit` when unpacked.
fn unpacked(packed: &[u8], limit: u64) -> Option<Vec<u8>> {
    const FIRST_DICTIONARY: usize = 1 << 20;
    const BUFFER: std::num::NonZeroUsize = std::num::NonZeroUsize::new(64 << 10).unwrap();
    let decoder =
        xz4rust::XzDecoder::in_heap_with_alloc_dict_size(FIRST_DICTIONARY, MAX_DICTIONARY);
    // The reader wants to own what it reads.
    let input = std::io::Cursor::new(packed.to_vec());
    let reader = xz4rust::XzReader::new_with_buffer_size_and_decoder(input, BUFFER, decoder);
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= limit).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "symbols\n" 1000 times, as `xz` packs it.
    const PACKED: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21,
        0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0xe0, 0x1f, 0x3f, 0x00, 0x30, 0x5d,
        0x00, 0x39, 0x9e, 0x49, 0xdd, 0x94, 0x71, 0x47, 0x96, 0x07, 0x4a, 0x16, 0x33, 0xca, 0x87,
        0x49, 0xcb, 0xaf, 0x97, 0x8c, 0x26, 0xeb, 0xeb, 0xc4, 0x71, 0x20, 0x2b, 0x1a, 0xfa, 0x64,
        0x7f, 0xf7, 0xf0, 0x29, 0xdc, 0x8e, 0x08, 0x7a, 0xf3, 0xe1, 0xe3, 0x89, 0x81, 0x74, 0xad,
        0x1f, 0xec, 0x45, 0x00, 0x00, 0xe6, 0x98, 0xc2, 0xf1, 0x43, 0xe9, 0xb0, 0xfd, 0x00, 0x01,
        0x4c, 0xc0, 0x3e, 0x00, 0x00, 0x00, 0x83, 0x79, 0x2e, 0x42, 0xb1, 0xc4, 0x67, 0xfb, 0x02,
        0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
    ];

    #[test]
    fn only_so_many_bytes_are_unpacked() {
        let all = unpacked(PACKED, 8000).unwrap();
        assert_eq!(all, b"symbols\n".repeat(1000));
        assert!(unpacked(PACKED, 7999).is_none());
        for cut in 0..PACKED.len() {
            assert!(unpacked(&PACKED[..cut], 8000).is_none(), "{cut}");
        }
        for at in 0..PACKED.len() {
            let mut damaged = PACKED.to_vec();
            damaged[at] ^= 0x10;
            // One byte means nothing.
            assert!(unpacked(&damaged, 8000).is_none_or(|same| same == all), "{at}");
        }
    }
}
