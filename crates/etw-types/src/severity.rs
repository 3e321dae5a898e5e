//! [`Severity`]: of the diagnostics of compilers.

use std::fmt;

/// Whether a diagnostic of a compiler prevents its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// No output is written.
    Error,
    /// The outputs are written.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}
