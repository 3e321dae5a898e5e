//! Folding: the buffers of a `.part` file are written into the session's files.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use super::{EVENTS_LOST, events_lost, paths, pattern, read};
use crate::facts::file_name;
use crate::part::FoldStart;

/// The result of [`fold`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Events that were not in the file, or maybe not.
    pub events: u64,
    /// Buffers written.
    pub buffers: u64,
    /// Events that the program had counted as lost.
    pub lost: u64,
    /// Buffers, and places in the pool, with damage that no program of ours can have written. If there is any, nothing is folded.
    pub damaged: u64,
}

/// Writes the buffers of `OUT.etl.part` into the session's files, and removes it; `None` if it does not exist. A damaged one stays as it is.
///
/// Folding is idempotent, also after an interruption: the `.part` file says where it began.
///
/// # Errors
/// `ResourceBusy` while the program runs; `InvalidInput` for a file of another session than the trace; those of the system.
pub fn fold(path: &Path) -> io::Result<Option<Folded>> {
    let (out, part) = paths(path);
    let Some(leftover) = read(path)? else { return Ok(None) };
    let folded = Folded {
        events: leftover.events,
        buffers: leftover.buffers.len() as u64,
        lost: leftover.lost,
        damaged: leftover.damaged,
    };
    if folded.damaged > 0 && !leftover.is_running {
        return Ok(Some(folded));
    }
    if leftover.is_running {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the program that records this file still runs; stop it first",
        ));
    }
    let marked = OpenOptions::new().read(true).write(true).open(&part).and_then(|file| {
        crate::output_file::write_at(&file, &leftover.start.to_bytes(), FoldStart::OFFSET)?;
        file.sync_data()
    });
    marked.map_err(|error| {
        io::Error::new(error.kind(), format!("{} cannot be written: {error}", part.display()))
    })?;
    let pattern = pattern(&leftover.facts, &out);
    let mut number = None;
    let mut file = None;
    for (place, bytes) in &leftover.buffers {
        if number != Some(place.file) {
            number = Some(place.file);
            let path = file_name(&pattern, place.file);
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            if opened.metadata()?.len() < u64::from(leftover.facts.header.buffer_size) {
                let mut header = leftover.facts.header.clone();
                header.log_file_name = path.to_string_lossy().into_owned();
                crate::output_file::write_at(&opened, &leftover.facts.header_buffer(&header)?, 0)?;
            }
            if let Some(tail) = leftover.tail {
                // A buffer that was being written when the program was killed is written again.
                opened.set_len(tail)?;
            }
            file = Some(opened);
        }
        if let Some(file) = &file {
            crate::output_file::write_at(file, bytes, leftover.offset(*place))?;
        }
    }
    if file.is_none() {
        match OpenOptions::new().read(true).write(true).open(&out) {
            Ok(opened) => file = Some(opened),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(file) = file.filter(|_| leftover.lost > 0) {
        if file.metadata()?.len() >= u64::from(leftover.facts.header.buffer_size) {
            let lost = events_lost(Some(&file), leftover.lost)?;
            crate::output_file::write_at(&file, &lost, EVENTS_LOST)?;
        }
    }
    let target = std::fs::canonicalize(&part);
    std::fs::remove_file(&part)?;
    if let Ok(target) = target {
        if target != part && target.parent() == Some(Path::new("/dev/shm")) {
            // Only the link led to it.
            let _ = std::fs::remove_file(target);
        }
    }
    Ok(Some(folded))
}
