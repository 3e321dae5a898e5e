//! Schemas that the user names on the command line.

use crate::files;
use crate::output::{Failure, input_refused, is_same_file};
use clap::Args;
use etw_decode::pack::Pack;
use etw_decode::wevt::{self, Language, Messages, WevtError};
use etw_decode::{Catalog, registered};
use etw_etl::read::TraceFile;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args, Clone, Debug, Default)]
pub struct Schemas {
    /// Instrumentation manifest: XML, a program or library with a compiled one, or a bare WEVT_TEMPLATE (.bin)
    #[arg(long, value_name = "FILE")]
    pub manifest: Vec<PathBuf>,
    /// Formats of WPP messages: a TMF file, or a folder of them
    #[arg(long, value_name = "FILE|DIR")]
    pub tmf: Vec<PathBuf>,
    /// PDB file with the formats of WPP messages
    #[arg(long, value_name = "FILE")]
    pub pdb: Vec<PathBuf>,
    /// Schema pack, made by `etw pack`
    #[arg(long, value_name = "FILE")]
    pub pack: Vec<PathBuf>,
    /// Classes of classic events, before those that are built in
    #[arg(long, value_name = "FILE")]
    pub mof: Vec<PathBuf>,
}

impl Schemas {
    /// Rejects an output that is one of these files.
    pub fn check_output(&self, output: &Path) -> Result<(), Failure> {
        let Schemas { manifest, tmf, pdb, pack, mof } = self;
        let mut inputs = [manifest, tmf, pdb, pack, mof].into_iter().flatten();
        match inputs.any(|input| is_same_file(input, output)) {
            true => Err(input_refused(output)),
            false => Ok(()),
        }
    }

    /// Reads the schemas; prints warnings.
    pub fn load(&self) -> Result<Arc<Catalog>, Failure> {
        let mut catalog = Catalog::default();
        let libraries = text_libraries(&self.manifest);
        let is_library = |path: &PathBuf| libraries.iter().any(|(library, _)| library == path);
        for path in self.manifest.iter().filter(|path| !is_library(path)) {
            let text = read(path)?;
            let mut messages = Messages::default();
            for texts in texts_beside(path, &text) {
                match texts.starts_with(b"MZ") {
                    // A file that is no library has no texts.
                    true => drop(messages.add_pe(&texts)),
                    false => messages.add_table(&texts),
                }
            }
            for (_, library) in &libraries {
                drop(messages.add_pe(library));
            }
            let warnings = catalog.add_compiled(&text, &messages);
            let warnings = warnings.map_err(|error| refused(path, error))?;
            tell(path, &warnings);
            catalog.set_origin(&path.file_name().unwrap_or_default().to_string_lossy());
        }
        for path in &self.mof {
            let warnings = catalog.add_mof(&read(path)?);
            tell(path, &warnings);
            catalog.set_origin(&path.file_name().unwrap_or_default().to_string_lossy());
        }
        for path in self.tmf.iter().flat_map(|path| folder(path, "tmf")) {
            let path = path?;
            let warnings = catalog.add_tmf(&read(&path)?);
            tell(&path, &warnings);
        }
        for path in &self.pdb {
            let warnings = catalog.add_pdb(&read(path)?).map_err(|error| refused(path, error))?;
            tell(path, &warnings);
        }
        for path in &self.pack {
            catalog.add_pack(Arc::new(open_pack(path)?));
        }
        Ok(Arc::new(catalog))
    }

    /// [`load`](Schemas::load) for traces: of several packs of Windows, that of the traces' build comes first.
    pub fn load_for(&self, traces: &[TraceFile]) -> Result<Arc<Catalog>, Failure> {
        Ok(self.load()?.for_build(files::build(traces)))
    }
}

/// The user's registered schemas. Files that cannot be read are reported and left out.
pub fn own() -> Arc<Catalog> {
    Arc::new(registered::catalog(&mut |note| eprintln!("etw: note: {note}")))
}

/// [`own`] for traces, as [`Schemas::load_for`] orders packs.
pub fn own_for(traces: &[TraceFile]) -> Arc<Catalog> {
    own().for_build(files::build(traces))
}

pub fn open_pack(path: &Path) -> Result<Pack, Failure> {
    Pack::open(read(path)?.into()).map_err(|error| refused(path, error))
}

pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| refused(path, error))
}

/// The named libraries that have no manifest: their message tables are the texts of the manifests that lack some. Those in folders may
/// belong to anything.
pub fn text_libraries(sources: &[PathBuf]) -> Vec<(PathBuf, Vec<u8>)> {
    if sources.len() < 2 {
        return Vec::new();
    }
    let library = |path: &PathBuf| {
        let bytes = std::fs::read(path).ok().filter(|bytes| bytes.starts_with(b"MZ"))?;
        let found = wevt::parse_pe(&bytes, &Messages::default());
        let has_texts = wevt::has_messages(&bytes);
        (has_texts && matches!(found, Err(WevtError::NoTemplates))).then(|| (path.clone(), bytes))
    };
    sources.iter().filter(|path| path.is_file()).filter_map(library).collect()
}

/// The files beside a compiled manifest that have its texts: `.mui` libraries of a PE file, message tables of a bare resource.
pub fn texts_beside(path: &Path, bytes: &[u8]) -> Vec<Vec<u8>> {
    let files = match bytes {
        pe if pe.starts_with(b"MZ") => muis(path),
        bare if wevt::is_bare(bare) => message_tables(path),
        _ => Vec::new(),
    };
    files.iter().filter_map(|file| std::fs::read(file).ok()).collect()
}

/// Whether a file is a WEVT_TEMPLATE resource by itself.
pub fn is_bare_resource(path: &Path) -> bool {
    let start = |mut file: File| -> std::io::Result<[u8; 4]> {
        let mut bytes = [0; 4];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    File::open(path).and_then(start).is_ok_and(|bytes| wevt::is_bare(&bytes))
}

/// `NAME.mui` beside the file and in the folders of languages, English first; without regard to case, as Windows finds them.
fn muis(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name() else { return Vec::new() };
    let name = format!("{}.mui", name.to_string_lossy());
    let in_folder = |folder: &Path| -> Option<PathBuf> {
        let exact = folder.join(&name);
        if exact.is_file() {
            return Some(exact);
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let is_it =
            |path: &PathBuf| path.file_name().is_some_and(|it| it.eq_ignore_ascii_case(&name));
        entries.map(|entry| entry.path()).find(|path| is_it(path) && path.is_file())
    };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let tag = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut languages: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| tag(path).parse::<Language>().is_ok() && path.is_dir())
        .collect();
    languages.sort_by_key(|path| (!tag(path).starts_with("en"), path.clone()));
    let all = std::iter::once(folder.to_owned()).chain(languages);
    all.filter_map(|folder| in_folder(&folder)).collect()
}

/// Message tables that `mc` or its users put beside a resource: `NAME.msg.V.bin` and `NAME.msg.bin` of `NAME.wevt.V.bin`,
/// `NAME_MSG00001.bin` and `MSG00001.bin` of `NAMETEMP.BIN`; English tables have the lowest numbers.
fn message_tables(path: &Path) -> Vec<PathBuf> {
    let lower =
        |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let name = lower(path);
    let stem = name.strip_suffix(".bin").unwrap_or(&name);
    let (base, version) = match stem.split_once(".wevt") {
        Some((base, version)) => (base, version),
        None => (stem.strip_suffix("temp").unwrap_or(stem), ""),
    };
    let rank = |other: &str| -> Option<u8> {
        let stem = other.strip_suffix(".bin")?;
        Some(match stem.strip_prefix(base) {
            Some(rest) if rest.strip_prefix(".msg") == Some(version) => 0,
            Some(".msg" | "_msg" | "msg") => 1,
            Some(rest) if rest.trim_start_matches('_').starts_with("msg0") => 2,
            _ if stem.starts_with("msg0") => 3,
            _ => return None,
        })
    };
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    let mut found: Vec<(u8, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter_map(|path| Some((rank(&lower(&path))?, path)))
        .filter(|(_, path)| path.is_file())
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The path itself, or the files of a folder with an extension.
pub fn folder(path: &Path, extension: &str) -> Vec<Result<PathBuf, Failure>> {
    if !path.is_dir() {
        return vec![Ok(path.to_owned())];
    }
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => return vec![Err(refused(path, error))],
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension)))
        // Reading a pipe would wait, perhaps for ever.
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files.into_iter().map(Ok).collect()
}

pub fn refused(path: &Path, error: impl Display) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// The first few: a sloppy manifest is sloppy throughout.
pub fn tell(path: &Path, warnings: &[String]) {
    const SHOWN: usize = 5;
    for warning in warnings.iter().take(SHOWN) {
        eprintln!("etw: note: {}: {warning}", path.display());
    }
    if warnings.len() > SHOWN {
        eprintln!("etw: note: {}: {} further warnings", path.display(), warnings.len() - SHOWN);
    }
}
