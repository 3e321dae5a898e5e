use crate::lzxpress::LzxpressErrorKind;
use etw_types::BufferHeader;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// One place where a file's bytes are not what they should be. It is local: reading goes on behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Argument number of the file.
    pub file_index: u32,
    /// File offset of the record, or of its buffer where that is compressed or bad as a whole.
    pub offset: u64,
    /// What was found and what was expected.
    pub kind: DamageKind,
}

/// What is wrong at a damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// `length` bytes that hold no buffer header were skipped.
    NoBuffer {
        /// Bytes skipped.
        length: u64,
        /// Whether all of them are zero, as far as was looked.
        zeros: bool,
    },
    /// A buffer header's size contradicts the file's; the file's was taken.
    BufferSize {
        /// What the header says.
        found: u32,
        /// What the file says.
        expected: u32,
    },
    /// Neither length in a buffer header is possible; records were read up to the first that is not one.
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
    /// A record's size is less than its header or more than the room; the rest of the buffer was skipped.
    RecordSize {
        /// As stored.
        size: u32,
        /// What is left in the buffer.
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
        /// What went wrong.
        kind: LzxpressErrorKind,
        /// Decompressed bytes that were lost.
        lost: u32,
    },
    /// The first buffer's logfile header cannot be read: no clock, no session, no pointer size.
    LogfileHeader,
    /// The file changed while it was read: a buffer is not the one that was indexed, or is gone.
    Changed,
    /// Opening the buffer would have passed the limit of memory for open buffers.
    OpenBuffers {
        /// Bytes allowed.
        limit: u64,
    },
    /// The system could not read the buffer.
    Io(io::ErrorKind),
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
                "record size {size} at +{at} does not fit its header and the {room} bytes left, skipped"
            ),
            DamageKind::RecordParts { at } => {
                write!(
                    f,
                    "extended items or parts of the record at +{at} do not fit in it, skipped"
                )
            }
            DamageKind::Compression { kind, lost } => {
                write!(f, "bad compressed data ({kind}), {lost} decompressed bytes lost")
            }
            DamageKind::LogfileHeader => {
                f.write_str("the logfile header cannot be read: no clock, session or pointer size")
            }
            DamageKind::Changed => f.write_str("the file changed while it was read"),
            DamageKind::OpenBuffers { limit } => {
                write!(f, "skipped: open buffers would take more than {limit} bytes of memory")
            }
            DamageKind::Io(kind) => write!(f, "cannot be read: {kind}"),
        }
    }
}

/// The damages found so far; beyond [`DamageLog::KEPT`] they are only counted.
#[derive(Clone, Debug, Default)]
pub struct DamageLog {
    kept: Vec<Damage>,
    count: u64,
}

impl DamageLog {
    /// How many are kept with their place, so that a file of nothing but damage cannot take all memory.
    pub const KEPT: usize = 10_000;

    /// Adds one.
    pub fn push(&mut self, damage: Damage) {
        self.count += 1;
        if self.kept.len() < DamageLog::KEPT {
            self.kept.push(damage);
        }
    }

    /// Adds those of one file under the file's number; what was only counted stays so.
    pub(crate) fn append(&mut self, file_index: u32, other: &DamageLog) {
        for damage in &other.kept {
            self.push(Damage { file_index, ..damage.clone() });
        }
        self.count += other.count - other.kept.len() as u64;
    }

    /// Those kept, in the order found.
    pub fn kept(&self) -> &[Damage] {
        &self.kept
    }

    /// All that were found.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A file that cannot be read at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A pipe, socket, directory or device: reading needs to go back and forth.
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// It is locked, or changes: a session is writing it.
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// Without a usable clock its records have no place among those of other files.
    NoClock {
        /// Which file.
        path: PathBuf,
    },
    /// No buffer and no record was found in it.
    NotAnEtl {
        /// Which file.
        path: PathBuf,
        /// What was found instead.
        found: String,
    },
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
                "{}: no usable clock, so its records have no place in time beside others; relog it by itself",
                path.display()
            ),
            Error::NotAnEtl { path, found } => {
                write!(f, "{}: offset 0: not an .etl file: {found}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
