//! [`MetadataError`]: damage of a blob, and its offset.

use std::error::Error;
use std::fmt;

/// A blob of event metadata or provider traits is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MetadataError {
    /// The offset in the blob of the part that could not be read.
    pub offset: usize,
    /// The error in it.
    pub kind: MetadataErrorKind,
}

/// An error in a part of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetadataErrorKind {
    /// The blob's own size is too small for its head, or larger than the `room` bytes there are.
    BadSize {
        /// The size that the blob states.
        size: u16,
        /// The bytes that were given.
        room: usize,
    },
    /// The blob ends within a number or a custom schema.
    Truncated {
        /// The bytes this part takes.
        needed: usize,
        /// The bytes left.
        room: usize,
    },
    /// A name has no NUL.
    UnterminatedName,
    /// Every byte from here to the end announces another byte of the tag.
    UnterminatedTag,
    /// The size of a trait is below 3, which its own head takes, or more than is left.
    BadTraitSize {
        /// The size that the trait states, its head included.
        size: u16,
        /// The bytes left, its head included.
        room: usize,
    },
}

impl MetadataErrorKind {
    pub(crate) fn at(self, offset: usize) -> MetadataError {
        MetadataError { offset, kind: self }
    }
}

impl fmt::Display for MetadataErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetadataErrorKind::BadSize { size, room } => {
                write!(f, "size {size} of a blob that has {room} bytes")
            }
            MetadataErrorKind::Truncated { needed, room } => {
                write!(f, "{needed} bytes needed, {room} left")
            }
            MetadataErrorKind::UnterminatedName => f.write_str("name without NUL"),
            MetadataErrorKind::UnterminatedTag => f.write_str("tag without last byte"),
            MetadataErrorKind::BadTraitSize { size, room } => {
                write!(f, "trait size {size} where {room} bytes are left")
            }
        }
    }
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceLogging metadata, offset {}: {}", self.offset, self.kind)
    }
}

impl Error for MetadataError {}
