//! Damage: bytes of a file that are not what the format requires; and errors, for files that cannot be read at all.

use crate::lzxpress::LzxpressErrorKind;
use etw_types::BufferHeader;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Bytes of a file that are not what the format requires. Damage is local: reading continues behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Argument number of the file.
    pub file_index: u32,
    /// File offset of the record, or of its buffer if the buffer is compressed or damaged as a whole.
    pub offset: u64,
    /// The kind of damage, with what was found and what was expected.
    pub kind: DamageKind,
}

/// Kinds of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// `length` bytes that hold no buffer header were skipped.
    NoBuffer {
        /// Bytes skipped.
        length: u64,
        /// Whether all examined bytes are zero.
        zeros: bool,
    },
    /// A buffer header's size contradicts the file's; the reader used the file's.
    BufferSize {
        /// Size by the buffer's header.
        found: u32,
        /// Size by the file.
        expected: u32,
    },
    /// Neither length in a buffer header is possible; records were read up to the first invalid one.
    FilledLength {
        /// `Offset` as stored.
        found: u32,
        /// The longest possible.
        limit: u32,
    },
    /// The file ends early.
    Truncated {
        /// Bytes of the last buffer that are missing.
        missing_bytes: u64,
        /// Whole buffers that are missing, by the header's count.
        missing_buffers: u64,
    },
    /// No record header; the rest of the buffer was skipped.
    UnknownRecord {
        /// The first four bytes.
        marker: u32,
        /// Offset in the decompressed records of the buffer.
        at: u32,
        /// Bytes skipped.
        skipped: u32,
    },
    /// A record's size is less than its header or more than the bytes left; the rest of the buffer was skipped.
    RecordSize {
        /// Size as stored.
        size: u32,
        /// Bytes left in the buffer.
        room: u32,
        /// Offset in the decompressed records of the buffer.
        at: u32,
    },
    /// The extended items or parts of a record do not fit in it; the record was skipped.
    RecordParts {
        /// Offset in the decompressed records of the buffer.
        at: u32,
    },
    /// A compressed buffer cannot be decompressed to its end; records before that point were read.
    Compression {
        /// Why decompression stopped.
        kind: LzxpressErrorKind,
        /// Decompressed bytes that were lost.
        lost: u32,
    },
    /// The first buffer's logfile header cannot be read: no clock, no session, no pointer size.
    LogfileHeader,
    /// The file changed while it was read: an indexed buffer was replaced or removed.
    Changed,
    /// The header of another trace: files were joined byte by byte. Its records are read, but their times are by the clock of the first one.
    SecondHeader,
    /// The bytes of the buffer before it in its stream, again; its records were read once.
    RepeatedBuffer {
        /// Offset of the first one.
        first: u64,
    },
    /// Opening the buffer would have exceeded the memory limit for open buffers.
    OpenBuffers {
        /// Bytes allowed.
        limit: u64,
    },
    /// The system could not read the buffer.
    Io(io::ErrorKind),
    /// Damage of a file in another format, in the words of its reader.
    OtherFormat(Box<str>),
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DamageKind::NoBuffer { length, zeros: true } => {
                write!(f, "{length} zero bytes in place of a buffer, skipped")
            }
            DamageKind::NoBuffer { length, zeros: false } => {
                write!(f, "{length} bytes without a valid buffer header, skipped")
            }
            DamageKind::BufferSize { found, expected } => {
                write!(
                    f,
                    "buffer size {found} where the file has {expected} bytes up to the next; read as {expected}"
                )
            }
            DamageKind::FilledLength { found, limit } => write!(
                f,
                "filled length {found} is outside {}..={limit}; read up to the first bad record",
                BufferHeader::SIZE
            ),
            DamageKind::Truncated { missing_bytes, missing_buffers: 0 } => {
                write!(f, "the file ends {missing_bytes} bytes before its last buffer does")
            }
            DamageKind::Truncated { missing_bytes: 0, missing_buffers } => {
                write!(f, "the file ends {missing_buffers} buffers before its header says")
            }
            DamageKind::Truncated { missing_bytes, missing_buffers } => write!(
                f,
                "the file ends {missing_bytes} bytes before its last buffer does and {missing_buffers} buffers \
                 before its header says"
            ),
            DamageKind::UnknownRecord { marker: 0, skipped, at } => {
                write!(f, "zero bytes in place of a record at +{at}, {skipped} bytes skipped")
            }
            DamageKind::UnknownRecord { marker: u32::MAX, skipped, at } => write!(
                f,
                "end-of-buffer marker at +{at}, {skipped} bytes before the filled length; skipped"
            ),
            DamageKind::UnknownRecord { marker, skipped, at } => {
                let name = match marker >> 16 & 0xff {
                    0x0c if marker >> 30 == 3 => " (TIMED, which has no size)",
                    0x0e if marker >> 30 == 3 => " (WNODE, which has no size)",
                    _ => "",
                };
                write!(
                    f,
                    "unknown record type {marker:#010x}{name} at +{at}, {skipped} bytes skipped"
                )
            }
            DamageKind::RecordSize { size, room, at } => write!(
                f,
                "record size {size} at +{at} is less than its header or more than the {room} bytes left; skipped the rest of the buffer"
            ),
            DamageKind::RecordParts { at } => {
                write!(
                    f,
                    "extended items or parts of the record at +{at} exceed its size; skipped the record"
                )
            }
            DamageKind::Compression { kind, lost } => {
                write!(f, "bad compressed data ({kind}), {lost} decompressed bytes lost")
            }
            DamageKind::LogfileHeader => {
                f.write_str("the logfile header cannot be read: no clock, session or pointer size")
            }
            DamageKind::Changed => f.write_str("the file changed while it was read"),
            DamageKind::SecondHeader => f.write_str(
                "another trace begins here; the times of its records are wrong, as they are by the first one's clock",
            ),
            DamageKind::RepeatedBuffer { first } => {
                write!(f, "the buffer at {first:#x} again; its records were read once")
            }
            DamageKind::OpenBuffers { limit } => {
                write!(f, "skipped: open buffers would take more than {limit} bytes of memory")
            }
            DamageKind::Io(kind) => write!(f, "cannot be read: {kind}"),
            DamageKind::OtherFormat(text) => f.write_str(text),
        }
    }
}

/// The damage found so far. Beyond [`DamageLog::KEPT`] entries it is only counted.
#[derive(Clone, Debug, Default)]
pub struct DamageLog {
    kept: Vec<Damage>,
    count: u64,
}

impl DamageLog {
    /// Number of entries kept with their offset, so that a file full of damage cannot take all memory.
    pub const KEPT: usize = 10_000;

    /// Adds an entry.
    pub fn push(&mut self, damage: Damage) {
        self.count += 1;
        if self.kept.len() < DamageLog::KEPT {
            self.kept.push(damage);
        }
    }

    /// Adds the entries of one file under the file's number.
    pub(crate) fn append(&mut self, file_index: u32, other: &DamageLog) {
        for damage in &other.kept {
            self.push(Damage { file_index, ..damage.clone() });
        }
        self.count += other.count - other.kept.len() as u64;
    }

    /// Adds the entries of a log that was made behind this one.
    pub(crate) fn add_all(&mut self, other: &DamageLog) {
        other.kept.iter().for_each(|damage| self.push(damage.clone()));
        self.count += other.count - other.kept.len() as u64;
    }

    /// The kept entries, in the order in which they were found.
    pub fn kept(&self) -> &[Damage] {
        &self.kept
    }

    /// Number of entries found, those that were not kept included.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether no damage was found.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Why a file cannot be read at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system returned an error.
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A pipe, socket, directory or device: the reader needs to seek.
    NotAFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is locked or changes: a session is writing it.
    InUse {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file has no usable clock, so its records cannot be ordered among those of other files.
    NoClock {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file contains no buffer and no record.
    NotAnEtl {
        /// Path of the file.
        path: PathBuf,
        /// The contents found instead.
        found: FoundInstead,
    },
    /// A file of another format cannot be read.
    OtherFormat {
        /// Path of the file.
        path: PathBuf,
        /// The error of its reader.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The contents of a file that is no trace, where a buffer header and a logfile header belong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FoundInstead {
    /// Fewer bytes than a buffer header has.
    TooShort {
        /// Size of the file in bytes.
        size: usize,
    },
    /// Zeros.
    Zeros,
    /// An event log (`.evtx`, or `.evt` of Windows XP).
    EventLog,
    /// A file of another format, by its magic number: the format.
    Format(&'static str),
    /// Text: its start.
    Text(String),
    /// Other bytes: the first eight.
    Bytes(Vec<u8>),
    /// A buffer, but neither a logfile header nor a buffer with events.
    NoEvents,
}

impl fmt::Display for FoundInstead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FoundInstead::TooShort { size } => {
                write!(f, "{size} bytes, less than one buffer header")
            }
            FoundInstead::EventLog => f.write_str(
                "it is an event log; etw dump and etw log show read it, etw relog -o OUT.etl makes a trace of it, and in Rust \
                 etw_eventlog::trace::open opens it",
            ),
            FoundInstead::Format(name) => write!(f, "it is {name}"),
            FoundInstead::Zeros => f.write_str("it starts with zeros"),
            FoundInstead::Text(start) => write!(f, "it starts with the text {start:?}"),
            FoundInstead::Bytes(start) => {
                f.write_str("it starts with the bytes ")?;
                start.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(" where a buffer header and a logfile header belong")
            }
            FoundInstead::NoEvents => {
                f.write_str("no readable logfile header and no buffer with events")
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Error::NotAFile { path } => write!(
                f,
                "{}: not a regular file; save the trace to a file first, merging needs to seek",
                path.display()
            ),
            Error::InUse { path } => {
                write!(f, "{}: is being written; stop its session first", path.display())
            }
            Error::NoClock { path } => write!(
                f,
                "{}: no usable clock, so its records cannot be ordered among those of other files; relog this file alone",
                path.display()
            ),
            Error::NotAnEtl { path, found } => {
                write!(f, "{}: offset 0: not an .etl file: {found}", path.display())
            }
            Error::OtherFormat { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::OtherFormat { source, .. } => Some(&**source),
            _ => None,
        }
    }
}
