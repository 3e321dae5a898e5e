//! The parts of a manifest's text that all its elements refer to: strings and the positions of lines.

use std::collections::HashMap;

use roxmltree::Node;

use super::{Culture, Message, Place};

/// The parts of a manifest that its providers refer to.
pub struct Source<'m> {
    pub cultures: &'m [Culture],
    /// The messages of `messageTable` by their symbols and ids there, to which `$(mc.SYMBOL)` refers.
    pub table: &'m HashMap<String, Message>,
    pub places: &'m Places,
}

/// The starts of a text's lines.
#[derive(Default)]
pub struct Places {
    lines: Vec<usize>,
}

impl Places {
    pub fn of_text(text: &str) -> Places {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Places { lines: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    /// The position of an element's start. `text_pos_at` reads the text from its beginning, which is too slow for every event.
    pub fn of(&self, node: Node<'_, '_>) -> Place {
        let start = node.range().start;
        let line = self.lines.partition_point(|begin| *begin <= start);
        let begin = self.lines.get(line.wrapping_sub(1)).copied().unwrap_or(0);
        let before = node.document().input_text().get(begin..start).unwrap_or_default();
        Place { line: line as u32, column: before.chars().count() as u32 + 1 }
    }
}
