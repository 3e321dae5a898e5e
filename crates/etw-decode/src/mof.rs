//! Classes of classic events in MOF, Microsoft's language of WMI classes.
//!
//! A class with a `Guid` is a provider's or an event's; a class below it with `EventType` describes events of these types. A version is that
//! of the class or the nearest above it. Properties lie packed, in the order of `WmiDataId`.
//!
//! Binary MOF has the same classes in compiled form. Source: Microsoft's documentation of MOF and of its qualifiers for event tracing.

mod binary;
mod compiler;
mod doublespace;
mod parser;

use crate::parsed::Parsed;
use crate::schema::Schema;
use crate::wpp::text_of;
use compiler::compile;
use etw_types::Guid;
use parser::{Class, Parser};
use std::collections::HashMap;

/// Text that is looked at.
const SIZE_LIMIT: usize = 64 << 20;
/// Fields of all events: each type of a class has its own.
const COPY_LIMIT: usize = 1 << 20;
/// A derived class has no more above it.
const DEPTH_LIMIT: usize = 64;

/// An event of a class.
#[derive(Clone, Debug)]
pub struct MofEvent {
    /// The class's GUID.
    pub class: Guid,
    /// Its type.
    pub kind: u8,
    /// Its version; a class without one stands for those that have no class of their own.
    pub version: Option<u8>,
    /// Names and fields.
    pub schema: Schema,
}

/// Whether bytes are binary MOF, which has the file extension `bmf`.
pub fn is_binary(bytes: &[u8]) -> bool {
    binary::is_binary(bytes)
}

/// Reads classes, as text or as binary MOF; returns warnings about what could not be read.
pub fn parse(bytes: &[u8]) -> Parsed<Vec<MofEvent>> {
    if bytes.len() > SIZE_LIMIT {
        let warnings = vec!["larger than 64 MiB".to_owned()];
        return Parsed { value: Vec::new(), warnings };
    }
    let mut warnings = Vec::new();
    let classes = match is_binary(bytes) {
        true => binary::classes(bytes, &mut warnings),
        false => classes_of_text(bytes, &mut warnings),
    };
    let by_name: HashMap<String, usize> = classes
        .iter()
        .enumerate()
        .map(|(index, class)| (class.name.to_ascii_lowercase(), index))
        .collect();
    let (mut events, mut copied) = (Vec::new(), 0);
    for class in &classes {
        compile(class, &classes, &by_name, &mut events, &mut copied, &mut warnings);
    }
    warnings.truncate(100);
    Parsed { value: events, warnings }
}

fn classes_of_text(bytes: &[u8], warnings: &mut Vec<String>) -> Vec<Class> {
    let text = text_of(bytes);
    let mut parser = Parser { text: &text, at: 0, warnings: Vec::new() };
    let mut classes = Vec::new();
    while parser.skip_blank() {
        let start = parser.at;
        match parser.class() {
            Some(Some(class)) => classes.push(class),
            Some(None) => {}
            None => {
                parser.warn(start, "no class");
                parser.resync(start);
            }
        }
    }
    *warnings = parser.warnings;
    classes
}

#[cfg(test)]
mod tests;
