//! `TDH_CONTEXT`: where formats of WPP messages are, and how wide pointers are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use etw_api::{Guid, Status};
use etw_decode::Catalog;
use etw_types::{EventRecord, HeaderType};

use crate::abi::utf16_of;

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

/// What the contexts of a call, or of a decoding handle, say.
#[derive(Clone, Default)]
pub struct Contexts {
    pub tmf_file: Option<String>,
    pub search_path: Option<String>,
    /// Times in messages are this project's in UTC anyway.
    pub is_gmt: bool,
    pub pointer_size: Option<u8>,
    pub pdb_path: Option<String>,
}

impl Contexts {
    /// # Safety
    /// So many contexts are there; texts that they lead to end in a NUL.
    pub unsafe fn read(count: u32, contexts: *const RawContext) -> Result<Contexts, Status> {
        let mut read = Contexts::default();
        if count > 0 && contexts.is_null() {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        for number in 0..count as usize {
            // SAFETY: the caller's promise.
            unsafe { read.set(&contexts.add(number).read_unaligned())? };
        }
        Ok(read)
    }

    /// # Safety
    /// A text that it leads to ends in a NUL.
    pub unsafe fn set(&mut self, context: &RawContext) -> Result<(), Status> {
        let text = || {
            let text = std::ptr::with_exposed_provenance::<u16>(context.value as usize);
            // SAFETY: the caller's promise.
            unsafe { utf16_of(text) }.ok_or(Status::ERROR_INVALID_PARAMETER)
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

    /// Formats of the messages of this record's source; `None` for records that are no messages, and where there are none.
    pub fn formats(&self, record: &EventRecord<'_>) -> Option<Arc<Catalog>> {
        let names_one =
            self.tmf_file.is_some() || self.search_path.is_some() || self.pdb_path.is_some();
        // Before there were messages WPP wrote classic events.
        let is_message = record.header == HeaderType::Message;
        let may_be = is_message || (record.header.is_classic() && names_one);
        if !may_be {
            return None;
        }
        let guid = record.provider.unwrap_or_default();
        let pdb = self.pdb_path.iter().flat_map(|path| path.split(';')).filter_map(|path| {
            // Several paths are several files.
            formats_of(&Source::Pdb(PathBuf::from(path.trim())))
        });
        let tmf = self.tmf_candidates(guid).filter_map(|path| formats_of(&Source::Tmf(path)));
        pdb.chain(tmf).find(|catalog| catalog.message_count() > 0)
    }

    /// Where TDH looks for a TMF: the file that is named, else that of the GUID's name; in the folders that are named, those of
    /// TRACE_FORMAT_SEARCH_PATH, and the current one.
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

/// Files that are kept read, or known not to be there.
const KEPT: usize = 256;

/// The formats of a file, read once.
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
