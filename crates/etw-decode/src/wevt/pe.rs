//! Resources of PE files.

use super::{Language, WevtError};
use object::LittleEndian as LE;
use object::read::pe::{
    ImageNtHeaders, ResourceDirectory, ResourceDirectoryEntryData, ResourceNameOrId, SectionTable,
};

/// A kind of resources.
pub(super) enum Kind {
    Id(u16),
    Name(&'static str),
}

impl Kind {
    /// RT_MESSAGETABLE
    pub const MESSAGE_TABLE: Kind = Kind::Id(11);
    pub const WEVT_TEMPLATE: Kind = Kind::Name("WEVT_TEMPLATE");
    /// Binary MOF.
    pub const MOF_DATA: Kind = Kind::Name("MOFDATA");
}

/// A resource.
pub(super) struct Resource<'f> {
    /// The number of its language; `None`: it has none.
    pub language: Option<u16>,
    pub bytes: &'f [u8],
}

/// The resources of a kind: those in the wanted language, then those in English, come first.
///
/// # Errors
/// [`WevtError::NotPe`].
pub(super) fn resources<'f>(
    file: &'f [u8],
    kind: &Kind,
    wanted: Option<&Language>,
) -> Result<Vec<Resource<'f>>, WevtError> {
    let not_pe = |error: object::Error| WevtError::NotPe(error.to_string());
    match object::FileKind::parse(file).map_err(not_pe)? {
        object::FileKind::Pe32 => of_image::<object::pe::ImageNtHeaders32>(file, kind, wanted),
        object::FileKind::Pe64 => of_image::<object::pe::ImageNtHeaders64>(file, kind, wanted),
        _ => Err(WevtError::NotPe("another kind of binary".to_owned())),
    }
}

/// Resources of one kind that are read.
const RESOURCE_LIMIT: usize = 4096;

/// The bytes of a file from an address to the end of the section that has it. A section's size in memory is not asked for: some linkers leave
/// it zero.
fn data_at<'f>(file: &'f [u8], sections: &SectionTable<'_>, at: u32) -> Option<&'f [u8]> {
    sections.iter().find_map(|section| {
        let offset = at.checked_sub(section.virtual_address.get(LE))?;
        let size = section.size_of_raw_data.get(LE);
        let start = section.pointer_to_raw_data.get(LE) as usize;
        let end = start.saturating_add(size as usize).min(file.len());
        let bytes = file.get(start.checked_add(offset as usize)?..end)?;
        (offset < size && !bytes.is_empty()).then_some(bytes)
    })
}

fn of_image<'f, Pe: ImageNtHeaders>(
    file: &'f [u8],
    kind: &Kind,
    wanted: Option<&Language>,
) -> Result<Vec<Resource<'f>>, WevtError> {
    let not_pe = |error: object::Error| WevtError::NotPe(error.to_string());
    let image = object::read::pe::PeFile::<Pe>::parse(file).map_err(not_pe)?;
    let sections = image.section_table();
    let place = image.data_directories().get(object::pe::IMAGE_DIRECTORY_ENTRY_RESOURCE);
    let Some((at, size)) = place.map(|place| place.address_range()).filter(|(at, _)| *at != 0)
    else {
        return Ok(Vec::new());
    };
    let Some(bytes) = data_at(file, &sections, at) else {
        return Err(WevtError::Bad {
            offset: at as usize,
            what: "the directory of the file's resources",
        });
    };
    let directory = ResourceDirectory::new(bytes.get(..size as usize).unwrap_or(bytes));
    let mut missing = None;
    let mut found: Vec<(u8, Resource<'f>)> = Vec::new();
    let root = directory.root().map_err(not_pe)?;
    for entry in root.entries {
        let is_kind = match (entry.name_or_id(), kind) {
            (ResourceNameOrId::Id(id), Kind::Id(wanted)) => id == *wanted,
            (ResourceNameOrId::Name(name), Kind::Name(wanted)) => {
                name.to_string_lossy(directory).is_ok_and(|name| name.eq_ignore_ascii_case(wanted))
            }
            _ => false,
        };
        // The tree has three levels: kind, name, language.
        let (true, Ok(ResourceDirectoryEntryData::Table(names))) = (is_kind, entry.data(directory))
        else {
            continue;
        };
        for name in names.entries {
            let Ok(ResourceDirectoryEntryData::Table(languages)) = name.data(directory) else {
                continue;
            };
            for language in languages.entries {
                let Ok(ResourceDirectoryEntryData::Data(data)) = language.data(directory) else {
                    continue;
                };
                let (at, size) = (data.offset_to_data.get(LE), data.size.get(LE) as usize);
                let Some(bytes) = data_at(file, &sections, at) else {
                    missing = missing.or(Some(at as usize));
                    continue;
                };
                // Its reader says where it is cut.
                let bytes = bytes.get(..size).unwrap_or(bytes);
                let language = language.name_or_id().id();
                let rank = Language::rank(wanted, language);
                let is_new = found.iter().all(|(_, known)| !std::ptr::eq(known.bytes, bytes));
                if found.len() < RESOURCE_LIMIT && is_new {
                    found.push((rank, Resource { language, bytes }));
                }
            }
        }
    }
    if let (Some(offset), true) = (missing, found.is_empty()) {
        return Err(WevtError::Bad { offset, what: "bytes in the file" });
    }
    found.sort_by_key(|(rank, _)| *rank);
    Ok(found.into_iter().map(|(_, resource)| resource).collect())
}
