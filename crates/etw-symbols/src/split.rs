//! [`SplitFiles`]: debug information that the compiler put into files of its own (`-gsplit-dwarf`). Each unit has a `.dwo` file, or is in the
//! `.dwp` file that `dwp` makes of them for a program. A unit is known by a number, which both the program and the file have.

use crate::bytes::{Bytes, Elf, Room};
use crate::regular_file::open;
use crate::scopes::Reader;
use crate::sections::{dwarf, endian, section};
use addr2line::SplitDwarfLoad;
use gimli::{Dwarf, DwarfPackage, EndianArcSlice};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where split files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SplitPlaces {
    /// Paths that `.dwp` files may have.
    pub packages: Vec<PathBuf>,
    /// The folder of the program, for paths that are relative.
    pub own_folder: Option<PathBuf>,
    /// Folders with `.dwo` files.
    pub folders: Vec<PathBuf>,
}

/// The split files of a program.
#[derive(Default)]
pub(crate) struct SplitFiles {
    pub places: SplitPlaces,
    packages: OnceCell<Vec<DwarfPackage<Reader>>>,
}

impl SplitFiles {
    /// The debug information of a unit. The room is for all of them together: a hostile program may name one large file for each of many units.
    pub fn unit(&self, wanted: &SplitDwarfLoad<Reader>, room: &Room) -> Option<Arc<Dwarf<Reader>>> {
        let packages = self.packages.get_or_init(|| {
            let paths = self.places.packages.iter();
            paths.filter_map(|path| package(&Bytes::of_file(open(path)?)?, room)).collect()
        });
        let in_package =
            packages.iter().find_map(|one| one.find_cu(wanted.dwo_id, &wanted.parent).ok()?);
        if let Some(unit) = in_package {
            return Some(Arc::new(unit));
        }
        self.paths(wanted)?.iter().find_map(|path| {
            let bytes = Bytes::of_file(open(path)?)?;
            let mut found = dwarf(&bytes, |id| id.dwo_name(), room)?;
            found.make_dwo(&wanted.parent);
            let first = found.unit(found.units().next().ok()??).ok()?;
            (first.dwo_id == Some(wanted.dwo_id)).then(|| Arc::new(found))
        })
    }

    /// Paths that the file of a unit may have.
    fn paths(&self, wanted: &SplitDwarfLoad<Reader>) -> Option<Vec<PathBuf>> {
        let path_of = |bytes: &Reader| Some(PathBuf::from(std::str::from_utf8(bytes).ok()?));
        let named = path_of(wanted.path.as_ref()?)?;
        let built_in = wanted.comp_dir.as_ref().and_then(path_of).unwrap_or_default();
        let whole = built_in.join(&named);
        let mut paths = Vec::new();
        match &self.places.own_folder {
            _ if whole.is_absolute() => paths.push(whole),
            Some(folder) => paths.push(folder.join(whole)),
            None => {}
        }
        let names =
            [Some(&*named).filter(|name| name.is_relative()), named.file_name().map(Path::new)];
        for folder in &self.places.folders {
            paths.extend(names.into_iter().flatten().map(|name| folder.join(name)));
        }
        Some(paths)
    }
}

fn package(bytes: &Bytes, room: &Room) -> Option<DwarfPackage<Reader>> {
    let file = Elf::parse(bytes).ok()?;
    let empty = EndianArcSlice::new(Arc::from(&[][..]), endian(&file));
    DwarfPackage::load(|id| section(bytes, &file, id.dwo_name(), room), empty).ok()
}
