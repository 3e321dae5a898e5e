//! `Trace`: the decoded events of files in order of time.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etw_decode::{Decoder, Event};
use etw_etl::DamageLog;
use etw_etl::read::{Records, TraceFile};
use etw_host::leftover::{Leftover, Overlay};
use etw_types::Clock;

/// Opens a trace file.
///
/// If a killed program or a running session has left `FILE.part` beside the file, its events are part of the trace; see
/// [`Trace::part_files`].
///
/// ```no_run
/// let mut trace = etw::open("shop.etl")?;
/// while let Some(event) = trace.next()? {
///     let count = event.get::<u32>("Count")?;
///     println!("{} {count}", event.name().unwrap_or("?"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ReadError::File`] if the file cannot be read or contains no events. Damage is not an error: see
/// [`Trace::damage`].
pub fn open(path: impl AsRef<Path>) -> Result<Trace, ReadError> {
    open_all([path])
}

/// Opens several files and merges their events by time.
///
/// # Errors
/// The error of [`open`] for the first file that fails.
pub fn open_all(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Trace, ReadError> {
    let mut files = Vec::new();
    let mut part_files = Vec::new();
    for path in paths {
        let path = path.as_ref();
        files.push(match Overlay::open(path) {
            Ok(None) => TraceFile::open(path)?,
            Ok(Some((overlay, leftover))) => {
                part_files.push(PartFile::new(path, Ok(&leftover)));
                TraceFile::from_source(path, Box::new(overlay))?
            }
            // The trace itself may be sound.
            Err(error) => {
                part_files.push(PartFile::new(path, Err(error)));
                TraceFile::open(path)?
            }
        });
    }
    let clocks = files.iter().map(|file| *file.clock()).collect();
    let (decoder, schema_problems) = registered_decoder(files.first());
    Ok(Trace { records: Records::new(files), clocks, decoder, part_files, schema_problems })
}

/// Trace files, read as one sequence of events in order of time. [`open`] makes it.
pub struct Trace {
    records: Records,
    /// Indexed by the number of the file.
    clocks: Vec<Clock>,
    decoder: Decoder,
    part_files: Vec<PartFile>,
    schema_problems: Vec<String>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.files().iter().map(TraceFile::path).collect();
        f.debug_struct("Trace").field("files", &paths).finish_non_exhaustive()
    }
}

impl Trace {
    /// The next event; `None` at the end of all files.
    ///
    /// # Errors
    /// None today: a file that changes or cannot be read further is [damage](Trace::damage).
    // Not `Iterator`: what it returns borrows from `self`.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, ReadError> {
        let Some(record) = self.records.next() else { return Ok(None) };
        let clock = self.clocks[record.position.file_index as usize];
        Ok(Some(self.decoder.decode_event(&record).with_clock(clock)))
    }

    /// The files, in the order in which they were named.
    pub fn files(&self) -> &[TraceFile] {
        self.records.files()
    }

    /// The decoder, to give it schemas.
    pub fn decoder_mut(&mut self) -> &mut Decoder {
        &mut self.decoder
    }

    /// Damage found so far; complete after [`next`](Trace::next) has returned `None`.
    pub fn damage(&self) -> &DamageLog {
        self.records.damage()
    }

    /// Registered schema files that cannot be read, each with its path and why.
    pub fn schema_problems(&self) -> &[String] {
        &self.schema_problems
    }

    /// Files that killed or running programs left beside those of the trace.
    pub fn part_files(&self) -> &[PartFile] {
        &self.part_files
    }
}

/// A decoder with the schemas that the user has registered, and a line for each schema file that cannot be read.
/// `first`: the trace whose build of Windows decides between packs.
pub(crate) fn registered_decoder(first: Option<&TraceFile>) -> (Decoder, Vec<String>) {
    let mut problems = Vec::new();
    let catalog = etw_decode::registered::catalog(&mut |problem| problems.push(problem));
    let mut decoder = Decoder::new();
    let build = first.and_then(|trace| trace.header()?.windows_build());
    decoder.set_own_catalog(Arc::new(catalog).for_build(build));
    (decoder, problems)
}

/// A part file that a program left beside its trace.
#[derive(Debug)]
#[non_exhaustive]
pub struct PartFile {
    /// The trace.
    pub trace: PathBuf,
    /// The session still runs.
    pub is_running: bool,
    /// Events that are in the part file and not, or perhaps not, in the trace.
    pub events: u64,
    /// Buffers of the part file that are damaged.
    pub damaged: u64,
    /// Why the part file cannot be read.
    pub error: Option<std::io::Error>,
}

impl PartFile {
    fn new(trace: &Path, found: Result<&Leftover, std::io::Error>) -> PartFile {
        let trace = trace.to_owned();
        match found {
            Ok(left) => PartFile {
                trace,
                is_running: left.is_running,
                events: left.events,
                damaged: left.damaged,
                error: None,
            },
            Err(error) => {
                PartFile { trace, is_running: false, events: 0, damaged: 0, error: Some(error) }
            }
        }
    }
}

/// Why events cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// A trace file cannot be read at all.
    File(etw_etl::Error),
    /// A session's host broke the protocol.
    #[cfg(any(target_os = "linux", windows))]
    Stream(crate::live_stream::StreamError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::File(error) => error.fmt(f),
            #[cfg(any(target_os = "linux", windows))]
            ReadError::Stream(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::File(error) => error.source(),
            #[cfg(any(target_os = "linux", windows))]
            ReadError::Stream(error) => error.source(),
        }
    }
}

impl From<etw_etl::Error> for ReadError {
    fn from(error: etw_etl::Error) -> ReadError {
        ReadError::File(error)
    }
}

#[cfg(any(target_os = "linux", windows))]
impl From<crate::live_stream::StreamError> for ReadError {
    fn from(error: crate::live_stream::StreamError) -> ReadError {
        ReadError::Stream(error)
    }
}
