//! Errors, which end an operation, and damage, which reading skips.

use std::fmt;
use std::io;

/// A log or record that cannot be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read or written.
    Io(io::Error),
    /// The file does not begin with `ElfFile`.
    NotEvtx,
    /// The file's major version is not 3.
    Unsupported {
        /// Major version of the header.
        major: u16,
        /// Minor version of the header.
        minor: u16,
    },
    /// Binary XML that contradicts itself.
    Corrupt {
        /// Offset in the chunk.
        offset: usize,
        /// The expectation that was not met.
        expected: &'static str,
    },
    /// A record whose text would exceed the limits of the crate.
    TooLarge,
    /// An event that does not fit an empty chunk.
    DoesNotFit {
        /// Bytes that the record needs.
        size: usize,
    },
    /// A log that keeps its oldest records (`retention`) and has reached its size.
    Full,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => write!(f, "{error}"),
            Error::NotEvtx => f.write_str("not an .evtx file: it does not begin with ElfFile"),
            Error::Unsupported { major, minor } => {
                write!(f, "version {major}.{minor} of the .evtx format is not supported; 3.x is")
            }
            Error::Corrupt { offset, expected } => {
                write!(f, "offset {offset:#x} of the chunk: expected {expected}")
            }
            Error::TooLarge => f.write_str("the record expands to more text than is allowed"),
            Error::DoesNotFit { size } => {
                write!(f, "the record needs {size} bytes, more than a chunk holds")
            }
            Error::Full => f.write_str("the log is full and keeps its oldest records"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

/// Bytes of a log that are not what the format requires. Reading continues behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the file.
    pub offset: u64,
    /// The kind of damage.
    pub kind: DamageKind,
}

/// The kinds of [`Damage`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The file header's checksum does not match. The header is not used.
    FileHeader,
    /// The file ends inside of its header of 4096 bytes, after this many of them.
    TruncatedHeader(u64),
    /// The file ends before the last chunk that its header counts.
    MissingChunks {
        /// Chunks that the header counts.
        counted: u64,
        /// Chunks that the file has.
        found: u64,
    },
    /// No chunk has the newest records that the file header counts.
    MissingRecords {
        /// Number of the first one.
        first: u64,
        /// Number of the last one.
        last: u64,
    },
    /// Chunks of zeros in front of chunks in use.
    ZeroChunks(u64),
    /// The file ends inside of a chunk, after this many bytes of it.
    TruncatedChunk(u64),
    /// A chunk does not begin with `ElfChnk`. Its records are searched for all the same.
    ChunkSignature,
    /// A checksum of a chunk does not match: of its header (false), of its records (true).
    ChunkChecksum {
        /// Whether it is the checksum of the records.
        of_records: bool,
    },
    /// Bytes that are no record, up to the next one.
    Skipped {
        /// How many.
        size: usize,
    },
    /// A record whose binary XML contradicts itself.
    Record {
        /// Its number.
        id: u64,
        /// Offset in the chunk.
        at: usize,
        /// The expectation that was not met.
        expected: &'static str,
    },
    /// A record whose size in front is wrong. The size at its end was used.
    RecordSize {
        /// Its number.
        id: u64,
    },
    /// A record whose size is not repeated at its end: bytes of it may be another record's, or zeros. It is given.
    Unclosed {
        /// Its number.
        id: u64,
    },
    /// A value that should be binary XML and is not. The record is given without it.
    Value {
        /// The record's number.
        id: u64,
        /// Offset in the chunk.
        at: usize,
        /// The expectation that was not met.
        expected: &'static str,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {:#x}: {}", self.offset, self.kind)
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DamageKind::FileHeader => f.write_str("the file header's checksum does not match"),
            DamageKind::TruncatedHeader(size) => {
                write!(f, "the file ends in its header, after {size} of 4096 bytes")
            }
            DamageKind::MissingChunks { counted, found } => write!(
                f,
                "the file header counts {counted} chunks, and the file has {found}: it was cut"
            ),
            DamageKind::MissingRecords { first, last } => write!(
                f,
                "records {first} to {last} are missing: the file header counts them, and no chunk has them"
            ),
            DamageKind::ZeroChunks(1) => f.write_str("a chunk of zeros in front of chunks in use"),
            DamageKind::ZeroChunks(count) => {
                write!(f, "{count} chunks of zeros in front of chunks in use")
            }
            DamageKind::TruncatedChunk(size) => {
                write!(f, "the file ends in this chunk, after {size} of 65536 bytes")
            }
            DamageKind::ChunkSignature => f.write_str("a chunk does not begin with ElfChnk"),
            DamageKind::ChunkChecksum { of_records: false } => {
                f.write_str("the chunk header's checksum does not match")
            }
            DamageKind::ChunkChecksum { of_records: true } => {
                f.write_str("the checksum of the chunk's records does not match")
            }
            DamageKind::Skipped { size } => write!(f, "{size} bytes that are no record, skipped"),
            DamageKind::Record { id, at, expected } => {
                write!(f, "record {id} cannot be read: expected {expected} at {at:#x} of its chunk")
            }
            DamageKind::RecordSize { id } => {
                write!(f, "the size in front of record {id} is wrong; the one behind it was used")
            }
            DamageKind::Unclosed { id } => {
                write!(f, "record {id} was overwritten in part; its values may be wrong")
            }
            DamageKind::Value { id, at, expected } => write!(
                f,
                "a value of record {id} cannot be read: expected {expected} at {at:#x} of its chunk"
            ),
        }
    }
}
