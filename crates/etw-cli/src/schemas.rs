//! Schemas that the user names on the command line.

use crate::output::Failure;
use clap::Args;
use etw_decode::pack::Pack;
use etw_decode::wevt::Messages;
use etw_decode::{Catalog, registered};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Args, Clone, Debug, Default)]
pub struct Schemas {
    /// Instrumentation manifest (XML, or a program or library with a compiled one), before what the trace itself says
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
    /// Reads them; warnings are told.
    pub fn load(&self) -> Result<Arc<Catalog>, Failure> {
        let mut catalog = Catalog::default();
        for path in &self.manifest {
            let text = read(path)?;
            if text.starts_with(b"MZ") {
                let mut messages = Messages::default();
                for mui in muis(path) {
                    if let Ok(bytes) = std::fs::read(&mui) {
                        messages.add_pe(&bytes).map_err(|error| refused(&mui, error))?;
                    }
                }
                catalog.add_pe(&text, &messages).map_err(|error| refused(path, error))?;
                continue;
            }
            let warnings = catalog.add_manifest(&text).map_err(|error| refused(path, error))?;
            tell(path, &warnings);
        }
        for path in &self.mof {
            let warnings = catalog.add_mof(&read(path)?);
            tell(path, &warnings);
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
}

/// What the user has registered; what cannot be read is told and left out.
pub fn own() -> Arc<Catalog> {
    Arc::new(registered::catalog(&mut |note| eprintln!("etw: note: {note}")))
}

pub fn open_pack(path: &Path) -> Result<Pack, Failure> {
    Pack::open(read(path)?.into()).map_err(|error| refused(path, error))
}

pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| refused(path, error))
}

/// Where Windows keeps the texts of a program: beside it, or in the folder of a language.
fn muis(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name() else { return Vec::new() };
    let mut name = name.to_owned();
    name.push(".mui");
    let folder = path.parent().unwrap_or(Path::new(""));
    vec![folder.join(&name), folder.join("en-US").join(&name), folder.join("en-us").join(&name)]
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
