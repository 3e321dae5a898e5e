//! `TDH_CONTEXT`: the location of WPP formats, and the size of pointers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use etw_api::{Guid, Status};
use etw_decode::Catalog;
use etw_types::{EventRecord, HeaderType};

use crate::abi::{array, pointer, utf16_of};

/// `TDH_CONTEXT`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawContext {
    pub value: u64,
    pub kind: u32,
    pub size: u32,
}

pub const TMF_FILE: u32 = 0;
pub const TMF_SEARCH_PATH: u32 = 1;
pub const WPP_GMT: u32 = 2;
pub const POINTER_SIZE: u32 = 3;
pub const PDB_PATH: u32 = 4;

/// The contexts of a call or of a decoding handle.
#[derive(Clone, Default)]
pub struct Contexts {
    pub tmf_file: Option<String>,
    pub search_path: Option<String>,
    /// No effect: times in messages are always in UTC here.
    pub is_gmt: bool,
    pub pointer_size: Option<u8>,
    pub pdb_path: Option<String>,
}

impl Contexts {
    /// # Safety
    /// ARRAY `contexts`, `count`, and TEXT for each path.
    pub unsafe fn read(count: u32, contexts: *const RawContext) -> Result<Contexts, Status> {
        let mut read = Contexts::default();
        if count > 0 && contexts.is_null() {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        // SAFETY: ARRAY.
        for context in unsafe { array(contexts, count) } {
            // SAFETY: TEXT.
            unsafe { read.set(&context)? };
        }
        Ok(read)
    }

    /// # Safety
    /// TEXT for the path of `context`, if it is of a kind that has one.
    pub unsafe fn set(&mut self, context: &RawContext) -> Result<(), Status> {
        let text = || {
            // SAFETY: TEXT.
            unsafe { utf16_of(pointer(context.value)) }.ok_or(Status::ERROR_INVALID_PARAMETER)
        };
        match context.kind {
            TMF_FILE => self.tmf_file = Some(text()?),
            TMF_SEARCH_PATH => self.search_path = Some(text()?),
            WPP_GMT => self.is_gmt = context.value != 0,
            POINTER_SIZE => match context.value {
                4 => self.pointer_size = Some(4),
                8 => self.pointer_size = Some(8),
                _ => return Err(Status::ERROR_INVALID_PARAMETER),
            },
            PDB_PATH => self.pdb_path = Some(text()?),
            _ => return Err(Status::ERROR_INVALID_PARAMETER),
        }
        Ok(())
    }

    /// The formats of the record's message GUID; `None` if the record is not a message or there are no formats.
    pub fn formats(&self, record: &EventRecord<'_>) -> Option<Arc<Catalog>> {
        let names_one =
            self.tmf_file.is_some() || self.search_path.is_some() || self.pdb_path.is_some();
        // Before Windows XP, WPP wrote classic events instead of messages.
        let is_message = record.header == HeaderType::Message;
        let may_be = is_message || (record.header.is_classic() && names_one);
        if !may_be {
            return None;
        }
        let guid = record.provider.unwrap_or_default();
        let pdb = self
            .pdb_path
            .iter()
            .flat_map(|path| path.split(';'))
            .filter_map(|path| formats_of(&Source::Pdb(PathBuf::from(path.trim()))));
        let tmf = self.tmf_candidates(guid).filter_map(|path| formats_of(&Source::Tmf(path)));
        pdb.chain(tmf).find(|catalog| catalog.message_count() > 0)
    }

    /// The paths at which TDH looks for a TMF file. Its name is the given one, else that of the GUID; its folder is in the given search path,
    /// else in TRACE_FORMAT_SEARCH_PATH, else the current one.
    fn tmf_candidates(&self, guid: Guid) -> impl Iterator<Item = PathBuf> {
        let name = self.tmf_file.clone().unwrap_or_else(|| format!("{guid}.tmf"));
        let named = self.search_path.clone().unwrap_or_default();
        let usual = std::env::var("TRACE_FORMAT_SEARCH_PATH").unwrap_or_default();
        let is_whole = self.tmf_file.is_some() && Path::new(&name).is_absolute();
        let folders = format!("{named};{usual};.");
        let mut paths: Vec<PathBuf> = match is_whole {
            true => vec![PathBuf::from(&name)],
            false => {
                let folders = folders.split(';').map(str::trim).filter(|folder| !folder.is_empty());
                folders.map(|folder| Path::new(folder).join(&name)).collect()
            }
        };
        paths.dedup();
        paths.into_iter()
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Source {
    Tmf(PathBuf),
    Pdb(PathBuf),
}

/// The number of files whose formats, or whose absence, are cached.
const KEPT: usize = 256;

/// The formats of a file, which is read once.
fn formats_of(source: &Source) -> Option<Arc<Catalog>> {
    static FILES: Mutex<Option<HashMap<Source, Option<Arc<Catalog>>>>> = Mutex::new(None);
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let files = files.get_or_insert_default();
    if let Some(known) = files.get(source) {
        return known.clone();
    }
    let mut catalog = Catalog::default();
    let read = match source {
        Source::Tmf(path) => std::fs::read(path).ok().map(|text| {
            catalog.add_tmf(&text);
        }),
        Source::Pdb(path) => std::fs::read(path).ok().and_then(|file| {
            catalog.add_pdb(&file).ok()?;
            Some(())
        }),
    };
    let found = read.map(|()| Arc::new(catalog));
    if files.len() >= KEPT {
        files.clear();
    }
    files.insert(source.clone(), found.clone());
    found
}
