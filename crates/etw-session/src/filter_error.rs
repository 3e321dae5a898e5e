//! The error of filters that break a limit of ETW.

use std::fmt;

/// Filters that break a limit of ETW.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterError {
    /// More than 64 event ids.
    EventIds(usize),
    /// Names of more than 4096 bytes.
    EventNames(usize),
    /// More than 8 processes.
    ProcessIds(usize),
    /// Names of more than 1024 bytes, as UTF-16 with separators.
    Executables(usize),
    /// More than 1024 bytes for the provider.
    Schematized(usize),
    /// The number of a payload filter that has no condition, or more than 8.
    Payload(usize),
    /// A condition whose values are too few, too many or of no use to its operator; with the field's name.
    Condition(String),
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterError::EventIds(n) => write!(f, "{n} event ids; at most 64"),
            FilterError::EventNames(n) => write!(f, "{n} bytes of event names; at most 4096"),
            FilterError::ProcessIds(n) => write!(f, "{n} process ids; a session takes at most 8"),
            FilterError::Executables(n) => write!(f, "{n} bytes of executable names; at most 1024"),
            FilterError::Schematized(n) => {
                write!(f, "{n} bytes for the provider's callback; at most 1024")
            }
            FilterError::Payload(n) => write!(f, "payload filter {n} must have 1 to 8 conditions"),
            FilterError::Condition(field) => {
                write!(f, "the values of the condition on {field} do not fit its operator")
            }
        }
    }
}

impl std::error::Error for FilterError {}
