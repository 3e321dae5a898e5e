//! The archives of a log: files whose names a full log with autobackup gets before a new one begins.

use etw_evtx::{Error, Log};
use std::path::{Path, PathBuf};

/// Characters of the date in an archive's name: 2026-01-31-23-59-59-123.
const DATE: usize = 23;

/// The files that have the records behind `seen`, oldest first: archives, if the log was archived since that record was read, and the
/// log itself. An archive that cannot be read is left out.
///
/// # Errors
/// Those of reading the folder of the log.
pub fn logs_behind(path: &Path, log: Log, seen: u64) -> Result<Vec<Log>, Error> {
    let first = log.chunks().iter().map(|chunk| chunk.first_id).filter(|id| *id != 0).min();
    let mut logs = vec![log];
    if first.is_none_or(|first| first <= seen.saturating_add(1)) {
        return Ok(logs);
    }
    let mut archives = archives_of(path)?;
    archives.sort();
    for archive in archives.into_iter().rev() {
        let Ok(archive) = Log::open(&archive) else { continue };
        if archive.chunks().iter().all(|chunk| chunk.last_id <= seen) {
            break;
        }
        logs.push(archive);
    }
    logs.reverse();
    Ok(logs)
}

/// The archives of a log, in no order. Their names sort by time.
fn archives_of(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let start = archive_start(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut archives = Vec::new();
    for entry in std::fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let date = name.strip_prefix(&start).and_then(|rest| rest.strip_suffix(".evtx"));
        if date.is_some_and(|date| date.len() == DATE) {
            archives.push(entry.path());
        }
    }
    Ok(archives)
}

/// The name of an archive of a log; `date` is the start of a time in RFC 3339.
pub(crate) fn archive_file(path: &Path, date: &str) -> PathBuf {
    let date = date.get(..DATE).unwrap_or(date).replace(['T', ':', '.'], "-");
    path.with_file_name(format!("{}{date}.evtx", archive_start(path)))
}

fn archive_start(path: &Path) -> String {
    format!("Archive-{}-", path.file_stem().unwrap_or_default().to_string_lossy())
}
