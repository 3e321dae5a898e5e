//! The files that `etw pack create` reads: those that are named, and those below a folder.

use crate::output::Failure;
use crate::schemas;
use etw_decode::pack::PackBuilder;
use etw_decode::wevt;
use std::path::{Path, PathBuf};

/// Extensions of files that are packed from a folder.
const EXTENSIONS: [&str; 11] =
    ["man", "xml", "exe", "dll", "sys", "bin", "tmf", "pdb", "mof", "bmf", "etwpack"];
/// Folders within folders that are searched.
const DEPTH_LIMIT: usize = 16;

/// Adds the sources. A bad file costs only itself if there are others: it is named, and counted at the end.
pub fn add_all(builder: &mut PackBuilder, sources: &[PathBuf]) -> Result<(), Failure> {
    let (mut added, mut left_out) = (0, 0);
    let libraries = schemas::text_libraries(sources);
    let is_library = |path: &Path| libraries.iter().any(|(library, _)| library == path);
    let texts: Vec<Vec<u8>> = libraries.iter().map(|(_, bytes)| bytes.clone()).collect();
    for source in sources {
        let files = match source.is_dir() {
            true => below(source)?,
            false => vec![source.clone()],
        };
        for path in &files {
            match add(builder, path, &texts) {
                Ok(()) => added += 1,
                Err(_) if is_library(path) && sources.len() > 1 => {}
                Err(failure) if sources.len() == 1 && !source.is_dir() => return Err(failure),
                Err(failure) => {
                    left_out += 1;
                    eprintln!("etw: note: left out: {}", failure.message().unwrap_or_default());
                }
            }
        }
    }
    if left_out > 0 {
        eprintln!("etw: note: {left_out} of {} files left out", added + left_out);
    }
    Ok(())
}

/// The files of a folder, and of the folders in it, that may describe events, by path. Links to folders are not followed.
fn below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut pending = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(schemas::refused(&folder, error)),
            Err(error) => {
                eprintln!("etw: note: left out: {}: {error}", folder.display());
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth < DEPTH_LIMIT {
                    pending.push((path, depth + 1));
                }
            } else if has_known_extension(&path) {
                // Reading a pipe or device would wait, perhaps for ever.
                if !path.is_file() {
                    eprintln!("etw: note: left out: {}: not a regular file", path.display());
                } else if describes_events(&path) {
                    found.push(path);
                }
            }
        }
    }
    found.sort();
    Ok(found)
}

fn has_known_extension(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Whether a file with a known extension may describe events: a `.bin` may also be the message table of the resource beside it.
fn describes_events(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    !extension.eq_ignore_ascii_case("bin") || schemas::is_bare_resource(path)
}

fn add(builder: &mut PackBuilder, path: &Path, libraries: &[Vec<u8>]) -> Result<(), Failure> {
    let bytes = schemas::read(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_pdb = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("pdb"));
    let mut texts = schemas::texts_beside(path, &bytes);
    if bytes.starts_with(b"MZ") || wevt::is_bare(&bytes) {
        texts.extend_from_slice(libraries);
    }
    let added = match is_pdb {
        true => builder.add_pdb(&name, &bytes),
        false if !texts.is_empty() => builder.add_compiled(&name, &bytes, &texts),
        false => builder.add(&name, &bytes),
    };
    let warnings = added.map_err(|error| schemas::refused(path, error))?;
    schemas::tell(path, &warnings);
    Ok(())
}
