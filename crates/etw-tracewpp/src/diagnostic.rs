//! Errors and warnings, with their file and line.

use etw_types::Severity;
use std::fmt;

/// An error or a warning, at a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it prevents the outputs.
    pub severity: Severity,
    /// Path of the source, configuration or template; `command line` for options.
    pub file: String,
    /// Line, counted from 1; 0 where the whole file is meant.
    pub line: u32,
    /// The problem and its remedy.
    pub message: String,
}

impl Diagnostic {
    pub(crate) fn error(file: &str, line: u32, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, file: file.into(), line, message: message.into() }
    }

    pub(crate) fn warning(file: &str, line: u32, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(file, line, message) }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, file, line, message } = self;
        match line {
            0 => write!(f, "{file}: {severity}: {message}"),
            line => write!(f, "{file}:{line}: {severity}: {message}"),
        }
    }
}

/// The first characters of a text, for messages.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
