//! [`Parsed`]: what a reader of a text format returns.

/// What could be read, and warnings about what could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed<T> {
    /// What could be read.
    pub value: T,
    /// What could not be read, each in a sentence for users.
    pub warnings: Vec<String>,
}
