//! Files of a session whose host was killed: opened again, with the buffers that were on their way.

#[cfg(unix)]
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use etw_etl::read::TraceFile;
use etw_session::{FileSlot, Place};
use etw_types::BufferHeader;

pub use crate::event_count::count_events;
use crate::facts::SessionFacts;
#[cfg(unix)]
use crate::facts::file_name;
#[cfg(unix)]
use crate::files::{Closing, Files, Reopened};

/// Buffers with their places.
pub type Placed = Vec<(Place, Vec<u8>)>;

/// Failures that do not end a session.
#[derive(Debug, Default)]
pub struct Failures {
    /// Buffers that a file did not take, because its disk is full for example.
    pub unstored: Vec<(Vec<u8>, io::Error)>,
    /// Files before the last one that could not be completed.
    pub incomplete: Vec<(PathBuf, io::Error)>,
}

#[cfg(unix)]
impl Failures {
    fn store(&mut self, files: &mut Files, place: Place, bytes: Vec<u8>, closing: Closing) {
        let header = &bytes[..BufferHeader::SIZE];
        let stored = files.store(place.file, place.slot, header, &bytes, closing);
        self.unstored.extend(stored.err().map(|error| (bytes, error)));
    }
}

/// The files of a session and the position that it had reached.
#[derive(Debug)]
pub struct KilledFiles<'a> {
    /// The name, or the pattern of a series.
    pub path: &'a Path,
    /// The contents of the headers.
    pub facts: &'a SessionFacts,
    /// The place of the next buffer.
    pub next: Place,
    /// The time of the last event.
    pub last_time: i64,
}

/// The contents of a file by slot, for a session that overwrites its oldest buffers.
///
/// # Errors
/// Those of reading it.
pub fn file_slots(path: &Path, buffer_size: u32) -> io::Result<Vec<FileSlot>> {
    use std::io::Read;
    let mut file = std::fs::File::open(path)?;
    let mut slots = Vec::new();
    let mut bytes = vec![0; buffer_size as usize];
    while file.read_exact(&mut bytes).is_ok() {
        let header = BufferHeader::read(bytes.first_chunk().ok_or(io::ErrorKind::InvalidData)?);
        let is_ours = !slots.is_empty() && header.buffer_size == buffer_size;
        let events = if is_ours { count_events(&bytes) } else { 0 };
        slots.push(FileSlot { sequence: header.sequence_number, events });
    }
    Ok(slots)
}

/// Events by file of a series that was found after its host was killed. `kept`: what the host knew of its files. Its counts are
/// complete for all files but the last, since buffers are stored in order. That file and later ones, up to `last`, are read;
/// files that were removed are left out.
#[cfg(unix)]
pub fn series_contents(
    pattern: &Path,
    kept: &[(u32, u64)],
    last: u32,
    buffer_size: u32,
) -> BTreeMap<u32, u64> {
    let mut contents: BTreeMap<u32, u64> = kept.iter().copied().collect();
    let first = contents.pop_last().map_or(1, |(file, _)| file.max(1));
    for file in first..=last {
        if let Ok(slots) = file_slots(&file_name(pattern, file), buffer_size) {
            contents.insert(file, slots.iter().map(|slot| slot.events).sum());
        }
    }
    contents
}

/// Whether a file exists and is finalised.
pub fn is_finalised(path: &Path) -> bool {
    TraceFile::open(path).is_ok_and(|file| file.is_finalised())
}

/// Opens the file that places call `number`, and writes the placed buffers into it.
///
/// # Errors
/// Those of opening it.
#[cfg(unix)]
pub fn resume_file(
    path: &Path,
    facts: &SessionFacts,
    number: u32,
    mut placed: Placed,
    failures: &mut Failures,
) -> io::Result<Files> {
    let (mut files, sequence) = match facts.is_compressed() {
        true => {
            let Reopened { files, sequence } = Files::reopen_compressed(path, facts.clone())?;
            (files.numbered(number), Some(sequence))
        }
        false => (Files::resume(path, facts.clone(), 1)?.numbered(number), None),
    };
    placed.sort_by_key(|(_, bytes)| BufferHeader::SEQUENCE_NUMBER.get(bytes));
    for (place, bytes) in placed {
        // A compressed file has no slots: buffers that it contains already are skipped.
        let is_new =
            |last| BufferHeader::SEQUENCE_NUMBER.get(&bytes).is_some_and(|number| number > last);
        if sequence.is_none_or(is_new) {
            failures.store(&mut files, Place { file: number, ..place }, bytes, Closing::default());
        }
    }
    Ok(files)
}

/// Opens the files of a series that the session had not completed, writes the placed buffers into them, and completes all but
/// the last one.
///
/// # Errors
/// Those of opening the last one.
#[cfg(unix)]
pub fn resume_series(
    killed: &KilledFiles<'_>,
    placed: Placed,
    closing: Closing,
    failures: &mut Failures,
) -> io::Result<Files> {
    let KilledFiles { path, facts, next, last_time } = *killed;
    // A file exists from its first buffer on.
    let last = if next.slot == 1 { next.file.saturating_sub(1).max(1) } else { next.file };
    let mut by_file: BTreeMap<u32, Placed> = BTreeMap::from([(last, Vec::new())]);
    for (place, bytes) in placed {
        by_file.entry(place.file).or_default().push((place, bytes));
    }
    // The file before may have been full and not completed.
    let first = by_file.keys().next().copied().unwrap_or(last);
    let before = file_name(path, first.saturating_sub(1));
    if first > 1 && TraceFile::open(&before).is_ok_and(|file| !file.is_finalised()) {
        by_file.insert(first - 1, Vec::new());
    }
    let most = by_file.keys().next_back().copied().unwrap_or(last);
    let mut current = None;
    for (number, buffers) in by_file {
        // A file exists from its first buffer on: somebody has removed this one, with its events.
        let is_begun = !buffers.is_empty() && buffers.iter().all(|(place, _)| place.slot > 1);
        if number < most && is_begun && !file_name(path, number).exists() {
            continue;
        }
        let mut files = match Files::resume(path, facts.clone(), number) {
            Ok(files) => files,
            Err(error) if number == most => return Err(error),
            // The session continues in later ones.
            Err(error) => {
                let unstored = |bytes| (bytes, io::Error::new(error.kind(), error.to_string()));
                failures.unstored.extend(buffers.into_iter().map(|(_, bytes)| unstored(bytes)));
                continue;
            }
        };
        let mut end_time = facts.start_raw.max(last_time);
        for (place, bytes) in buffers {
            end_time = end_time.max(BufferHeader::TIME_STAMP.get(&bytes).unwrap_or(0));
            failures.store(&mut files, place, bytes, closing);
        }
        if number < most {
            let end_time = facts.clock().filetime(end_time).map_or(0, |time| time.0);
            if let Err(error) = files.finish(Closing { end_time, ..closing }) {
                failures.incomplete.push((files.path(), error));
            }
        }
        current = Some(files);
    }
    current.ok_or(io::ErrorKind::NotFound.into())
}
