//! Schemas that the process has loaded: manifests, programs that contain them, MOF classes.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use etw_api::{Guid, Status};
use etw_decode::Catalog;
use etw_decode::manifest::{self, ManifestError};
use etw_decode::wevt::{self, Messages};

use crate::status::{ERROR_INVALID_DATA, ERROR_NOT_FOUND, ERROR_XML_PARSE_ERROR};

/// The key by which a source is unloaded.
#[derive(Clone, PartialEq, Eq)]
pub enum Key {
    Path(String),
    Bytes(Arc<[u8]>),
}

/// A provider of a source.
#[derive(Clone)]
pub struct Provider {
    pub guid: Guid,
    pub name: String,
}

struct Source {
    key: Key,
    bytes: Arc<[u8]>,
    is_mof: bool,
    providers: Vec<Provider>,
}

#[derive(Default)]
struct Loaded {
    sources: Vec<Source>,
    catalog: Arc<Catalog>,
    /// Counts changes; 0 before the first.
    generation: u64,
}

static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

fn with<T>(call: impl FnOnce(&mut Loaded) -> T) -> T {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    call(loaded.get_or_insert_default())
}

/// The loaded sources, and a number that changes with them.
pub fn catalog() -> (u64, Arc<Catalog>) {
    with(|loaded| (loaded.generation, Arc::clone(&loaded.catalog)))
}

/// The packs that the user has registered, read once. A program with more rights than its user reads none.
pub fn registered() -> Arc<Catalog> {
    static REGISTERED: OnceLock<Arc<Catalog>> = OnceLock::new();
    let read = || match is_privileged() {
        true => Arc::default(),
        // A library has no place to report what cannot be read.
        false => Arc::new(etw_decode::registered::catalog(&mut |_| ())),
    };
    Arc::clone(REGISTERED.get_or_init(read))
}

#[cfg(target_os = "linux")]
fn is_privileged() -> bool {
    // SAFETY: looks a number up.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_privileged() -> bool {
    false
}

/// Its providers, in the order in which they were loaded.
pub fn providers() -> Vec<Provider> {
    with(|loaded| loaded.sources.iter().flat_map(|source| source.providers.clone()).collect())
}

/// Loads a file; one that is loaded already is read anew.
pub fn load_file(path: &str) -> Status {
    let bytes: Arc<[u8]> = match std::fs::read(path) {
        Ok(bytes) => bytes.into(),
        Err(error) => {
            return match error.kind() {
                std::io::ErrorKind::NotFound => Status::ERROR_FILE_NOT_FOUND,
                std::io::ErrorKind::PermissionDenied => Status::ERROR_ACCESS_DENIED,
                std::io::ErrorKind::OutOfMemory => Status::ERROR_NOT_ENOUGH_MEMORY,
                _ => Status::ERROR_BAD_PATHNAME,
            };
        }
    };
    let extension = Path::new(path).extension();
    let is_mof = extension.is_some_and(|extension| extension.eq_ignore_ascii_case("mof"));
    load(Key::Path(path.to_owned()), bytes, is_mof)
}

/// Loads a manifest or a program in memory.
pub fn load_bytes(bytes: &[u8]) -> Status {
    let bytes: Arc<[u8]> = bytes.into();
    load(Key::Bytes(Arc::clone(&bytes)), bytes, false)
}

fn load(key: Key, bytes: Arc<[u8]>, is_mof: bool) -> Status {
    let mut source = Source { key, bytes, is_mof, providers: Vec::new() };
    // Read outside of the lock, and before anything that works is given up.
    let mut alone = Catalog::default();
    source.providers = match add(&mut alone, &source) {
        Ok(providers) => providers,
        Err(status) => return status,
    };
    with(|loaded| {
        let is_known = loaded.sources.iter().any(|other| other.key == source.key);
        if is_known {
            loaded.sources.retain(|other| other.key != source.key);
            loaded.sources.push(source);
            loaded.rebuild();
        } else {
            // The bytes were read just before.
            let _ = add(Arc::make_mut(&mut loaded.catalog), &source);
            loaded.sources.push(source);
            loaded.generation += 1;
        }
        Status::ERROR_SUCCESS
    })
}

/// Unloads what was loaded by this key.
pub fn unload(key: &Key) -> Status {
    with(|loaded| {
        let count = loaded.sources.len();
        loaded.sources.retain(|source| source.key != *key);
        if loaded.sources.len() == count {
            return ERROR_NOT_FOUND;
        }
        loaded.rebuild();
        Status::ERROR_SUCCESS
    })
}

impl Loaded {
    fn rebuild(&mut self) {
        let mut catalog = Catalog::default();
        for source in &self.sources {
            // Each was read when it was loaded.
            let _ = add(&mut catalog, source);
        }
        self.catalog = Arc::new(catalog);
        self.generation += 1;
    }
}

/// Adds a source's schemas; gives its providers.
fn add(catalog: &mut Catalog, source: &Source) -> Result<Vec<Provider>, Status> {
    if source.is_mof {
        let before = catalog.len();
        catalog.add_mof(&source.bytes);
        let is_any = catalog.len() > before || source.bytes.is_empty();
        return if is_any { Ok(Vec::new()) } else { Err(ERROR_INVALID_DATA) };
    }
    let messages = Messages::default();
    let manifest = match &source.bytes[..] {
        pe if pe.starts_with(b"MZ") => wevt::parse_pe(pe, &messages),
        bare if wevt::is_bare(bare) => wevt::parse(bare, &messages),
        text => Ok(manifest::parse(text).map_err(|error| status_of(&error))?),
    };
    let providers = manifest.map_err(|_| ERROR_INVALID_DATA)?.providers;
    let mut told = Vec::new();
    for provider in providers {
        told.push(Provider { guid: provider.guid, name: provider.name.clone() });
        catalog.add_provider(provider);
    }
    Ok(told)
}

fn status_of(error: &ManifestError) -> Status {
    match error {
        ManifestError::Xml { .. } => ERROR_XML_PARSE_ERROR,
        ManifestError::TooLarge => Status::ERROR_NOT_ENOUGH_MEMORY,
        _ => ERROR_INVALID_DATA,
    }
}
