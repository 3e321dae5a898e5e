//! Errors and warnings of a manifest, with their position.

use etw_types::Severity;
use std::fmt;

/// An error or a warning, at a line and column of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it prevents the outputs.
    pub severity: Severity,
    /// Line, counted from 1.
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
    /// The problem and its remedy.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, line, column, message } = self;
        write!(f, "{line}:{column}: {severity}: {message}")
    }
}

/// Diagnostics under collection, bounded.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    pub list: Vec<Diagnostic>,
}

/// Most diagnostics that are kept.
pub(crate) const LIMIT: usize = 1000;

impl Diagnostics {
    pub fn error(&mut self, node: roxmltree::Node<'_, '_>, message: impl Into<String>) {
        self.error_at(node, node.range().start, message);
    }

    /// An error at an offset of the document that the element is in.
    pub fn error_at(
        &mut self,
        node: roxmltree::Node<'_, '_>,
        offset: usize,
        message: impl Into<String>,
    ) {
        self.add(Severity::Error, node, offset, message.into());
    }

    pub fn warn(&mut self, node: roxmltree::Node<'_, '_>, message: impl Into<String>) {
        self.add(Severity::Warning, node, node.range().start, message.into());
    }

    fn add(
        &mut self,
        severity: Severity,
        node: roxmltree::Node<'_, '_>,
        offset: usize,
        message: String,
    ) {
        // Warnings leave room for errors, without which the outputs would be written.
        let limit = if severity == Severity::Error { LIMIT } else { LIMIT / 2 };
        if self.list.len() < limit {
            let position = node.document().text_pos_at(offset);
            let (line, column) = (position.row, position.col);
            self.list.push(Diagnostic { severity, line, column, message });
        }
    }

    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|one| one.severity == Severity::Error)
    }
}
