//! Resources of PE files.

use super::{Language, WevtError};
use object::LittleEndian as LE;
use object::read::pe::{ImageNtHeaders, ResourceDirectoryEntryData, ResourceNameOrId};

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

/// The resources of a kind: those in the wanted language, then those in English, come first.
///
/// # Errors
/// [`WevtError::NotPe`].
pub(super) fn resources<'f>(
    file: &'f [u8],
    kind: &Kind,
    wanted: Option<&Language>,
) -> Result<Vec<&'f [u8]>, WevtError> {
    let not_pe = |error: object::Error| WevtError::NotPe(error.to_string());
    match object::FileKind::parse(file).map_err(not_pe)? {
        object::FileKind::Pe32 => of_image::<object::pe::ImageNtHeaders32>(file, kind, wanted),
        object::FileKind::Pe64 => of_image::<object::pe::ImageNtHeaders64>(file, kind, wanted),
        _ => Err(WevtError::NotPe("another kind of binary".to_owned())),
    }
}

fn of_image<'f, Pe: ImageNtHeaders>(
    file: &'f [u8],
    kind: &Kind,
    wanted: Option<&Language>,
) -> Result<Vec<&'f [u8]>, WevtError> {
    let not_pe = |error: object::Error| WevtError::NotPe(error.to_string());
    let image = object::read::pe::PeFile::<Pe>::parse(file).map_err(not_pe)?;
    let sections = image.section_table();
    let Some(directory) =
        image.data_directories().resource_directory(file, &sections).map_err(not_pe)?
    else {
        return Ok(Vec::new());
    };
    let mut found: Vec<(u8, &[u8])> = Vec::new();
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
                let bytes = sections.pe_data_at(file, at).and_then(|bytes| bytes.get(..size));
                let rank = Language::rank(wanted, language.name_or_id().id());
                if found.len() < 4096 {
                    found.extend(bytes.map(|bytes| (rank, bytes)));
                }
            }
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    Ok(found.into_iter().map(|(_, bytes)| bytes).collect())
}
