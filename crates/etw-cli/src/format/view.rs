//! The user's view of records: times, colours, fields, columns. The default changes no byte.

use crate::asked_names::AskedNames;
use crate::column::{Column, level_colour};
use crate::times::Times;
use etw_decode::{Field, Value, Visitor};
use etw_types::EventRecord;
use std::ops::Range;
use std::sync::Arc;

/// The columns and fields to show of each record, and the form of times.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub times: Times,
    pub has_colours: bool,
    /// Only these fields; none: all.
    pub fields: Vec<String>,
    /// Only these columns; none: the format's own.
    pub columns: Vec<Column>,
    /// The names of `fields` or `columns`, with those that a record had.
    pub asked: Arc<AskedNames>,
}

const NAME: &str = "\x1b[1m";
const WRONG: &str = "\x1b[31m";
const END: &[u8] = b"\x1b[0m";

impl View {
    pub fn put_coloured(&self, out: &mut Vec<u8>, colour: &str, text: &[u8]) {
        if self.has_colours && !colour.is_empty() {
            out.extend_from_slice(colour.as_bytes());
            out.extend_from_slice(text);
            out.extend_from_slice(END);
        } else {
            out.extend_from_slice(text);
        }
    }

    /// Colours what `put` appends.
    pub fn coloured(&self, out: &mut Vec<u8>, colour: &str, put: impl FnOnce(&mut Vec<u8>)) {
        let is_coloured = self.has_colours && !colour.is_empty();
        if is_coloured {
            out.extend_from_slice(colour.as_bytes());
        }
        put(out);
        if is_coloured {
            out.extend_from_slice(END);
        }
    }

    /// The colour of names of providers and events.
    pub fn name_colour(&self) -> &'static str {
        NAME
    }

    /// The colour of reasons and losses.
    pub fn wrong_colour(&self) -> &'static str {
        WRONG
    }

    /// The colour of a column.
    pub fn colour_of(&self, column: &str, record: &EventRecord<'_>) -> &'static str {
        match column {
            "level" => level_colour(record.descriptor.level),
            "provider" | "event" => NAME,
            _ => "",
        }
    }
}

/// Passes on the chosen fields only.
pub struct Chosen<'a, V> {
    pub visitor: &'a mut V,
    pub fields: &'a [String],
    asked: &'a AskedNames,
    /// Open arrays and structs that are passed on, and those that are not.
    shown: usize,
    hidden: usize,
}

impl<'a, V> Chosen<'a, V> {
    pub fn new(visitor: &'a mut V, view: &'a View) -> Chosen<'a, V> {
        Chosen { visitor, fields: &view.fields, asked: &view.asked, shown: 0, hidden: 0 }
    }

    fn is_chosen(&self, field: &Field) -> bool {
        self.hidden == 0 && (self.shown > 0 || self.fields.is_empty() || self.is_named(field))
    }

    fn is_named(&self, field: &Field) -> bool {
        let is_it = |name: &String| {
            name.eq_ignore_ascii_case(&field.name)
                || name.contains('#') && name.eq_ignore_ascii_case(field.unique_name())
        };
        let named = self.fields.iter().position(is_it);
        named.inspect(|number| self.asked.mark_found(*number)).is_some()
    }

    /// Counts an array or struct that begins; whether it is passed on.
    fn begin(&mut self, field: &Field) -> bool {
        let is_chosen = self.is_chosen(field);
        match is_chosen {
            true => self.shown += 1,
            false => self.hidden += 1,
        }
        is_chosen
    }

    fn end(&mut self) -> bool {
        match self.hidden {
            0 => {
                self.shown -= 1;
                true
            }
            _ => {
                self.hidden -= 1;
                false
            }
        }
    }
}

impl<V: Visitor> Visitor for Chosen<'_, V> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if self.is_chosen(field) {
            self.visitor.value(field, value);
        }
    }

    fn begin_array(&mut self, field: &Field, count: usize) {
        if self.begin(field) {
            self.visitor.begin_array(field, count);
        }
    }

    fn end_array(&mut self, field: &Field) {
        if self.end() {
            self.visitor.end_array(field);
        }
    }

    fn begin_struct(&mut self, field: &Field) {
        if self.begin(field) {
            self.visitor.begin_struct(field);
        }
    }

    fn end_struct(&mut self, field: &Field) {
        if self.end() {
            self.visitor.end_struct(field);
        }
    }

    fn place(&mut self, bytes: Range<usize>) {
        self.visitor.place(bytes);
    }

    fn is_done(&self) -> bool {
        self.visitor.is_done()
    }
}
