//! `wevtutil al`: the schemas of a log's publishers, kept beside the log, and found there.
//!
//! ```text
//! DIR/NAME.evtx
//! DIR/LocaleMetaData/NAME_LOCALE.etwpack
//! ```
//!
//! Windows keeps texts in files of this folder, too, in a format that is not public.

use super::log_source;
use crate::output::{Failure, Outcome};
use crate::output_file::NewFile;
use crate::schemas::{self, Schemas};
use etw_decode::pack::{Pack, PackBuilder};
use etw_decode::registered;
use etw_types::Guid;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const FOLDER: &str = "LocaleMetaData";
const DEFAULT_LOCALE: &str = "en-US";

/// The publishers of a log's records.
#[derive(Default)]
struct Publishers {
    guids: BTreeSet<Guid>,
    names: BTreeSet<String>,
}

impl Publishers {
    fn of(file: &Path) -> Result<Publishers, Failure> {
        let log = log_source::open(file, &Schemas::default())?.log;
        let mut publishers = Publishers::default();
        let mut records = log.records();
        let failure = |error: etw_evtx::Error| Failure::new(format!("{}: {error}", file.display()));
        while let Some(record) = records.next().map_err(failure)? {
            let system = record.system();
            publishers.guids.extend(system.provider());
            publishers.names.extend(system.provider_name().map(|name| name.to_lowercase()));
        }
        Ok(publishers)
    }

    fn are_in(&self, pack: &Pack) -> bool {
        pack.contents().any(|provider| {
            let name = provider.provider.as_deref().unwrap_or_default().to_lowercase();
            self.guids.contains(&provider.guid) || self.names.contains(&name)
        })
    }
}

/// `al`: writes the registered schemas of a log's publishers beside the log.
pub fn write(file: &Path, locale: Option<&str>) -> Result<Outcome, Failure> {
    let locale = locale.unwrap_or(DEFAULT_LOCALE);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if locale.is_empty() || !locale.bytes().all(is_name) {
        let what = format!("wevtutil al -l: {locale:?} is not a locale; give it as en-US");
        return Err(Failure::Usage(what));
    }
    let publishers = Publishers::of(file)?;
    let mut builder = PackBuilder::default();
    for (path, ..) in registered::pack_stamps() {
        let bytes = schemas::read(&path)?;
        let is_its = Pack::open(bytes.clone().into()).is_ok_and(|pack| publishers.are_in(&pack));
        if is_its {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let added = builder.add(&name, &bytes);
            added.map_err(|error| schemas::refused(&path, error))?;
        }
    }
    if builder.is_empty() {
        let path = file.display();
        eprintln!("etw: note: {path}: no schema of its publishers is registered; none is archived");
        return Ok(Outcome::Done);
    }
    let folder = folder_of(file);
    std::fs::create_dir_all(&folder).map_err(|error| schemas::refused(&folder, error))?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let new = NewFile::create(&folder.join(format!("{stem}_{locale}.etwpack")), &[], true)?;
    new.file().write_all(&builder.finish()).map_err(|error| new.failure(&error))?;
    new.keep()?;
    Ok(Outcome::Done)
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(FOLDER)
}

/// The packs that `al` wrote beside a log.
pub fn packs_of(file: &Path) -> Vec<PathBuf> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let is_its = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_pack = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("etwpack"));
        is_pack && name.rsplit_once('_').is_some_and(|(of, _)| of == stem) && path.is_file()
    };
    // Most logs have no such folder.
    let entries = std::fs::read_dir(folder_of(file)).into_iter().flatten().flatten();
    let mut packs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_its).collect();
    packs.sort();
    packs
}
