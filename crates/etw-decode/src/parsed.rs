//! [`Parsed`]: what a reader of a text format returns.

/// A file as far as it could be read, with warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed<T> {
    /// The readable part.
    pub value: T,
    /// A sentence for users about each part that could not be read.
    pub warnings: Vec<String>,
}
