//! The offsets of an event's values in its payload.

use std::ops::Range;

use etw_decode::event_info::{Companion, is_split_binary, utf16_z};
use etw_decode::{Decoded, Field, Kind, Length, PayloadError, Schema, Value, Visitor, Wire};
use etw_types::EventRecord;

use etw_api::Status;

use crate::status::{ERROR_EVT_INVALID_EVENT_DATA, ERROR_NOT_FOUND};

/// The values in the order in which they lie; behind a struct its members, behind an array its elements.
#[derive(Default)]
pub struct Places {
    nodes: Vec<Node>,
    /// Nodes of the event's own fields.
    top: Vec<u32>,
    /// The payload ends before the schema does.
    pub is_short: bool,
    /// The schema describes more values than an event can hold.
    pub is_bad: bool,
    /// Open arrays and structs.
    open: Vec<u32>,
    next: Range<usize>,
}

#[derive(Clone, Copy)]
struct Node {
    start: u32,
    end: u32,
    /// Behind the last node within.
    behind: u32,
    /// Nodes of each element of an array; 0 if the elements differ.
    stride: u32,
    kind: NodeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeKind {
    Value,
    Array,
    Struct,
}

/// Bytes of a property.
pub enum Found {
    /// A range of the payload, and the number of zero bytes at its end if it is a text with a NUL.
    Payload(Range<usize>, usize),
    /// The payload does not contain it in this form.
    Own(Vec<u8>),
}

/// A step of a path: name and element; `None` for the whole.
pub struct Step {
    pub name: String,
    pub element: Option<usize>,
}

impl Places {
    /// # Errors
    /// `ERROR_NOT_FOUND`: the event has no schema.
    pub fn find(record: &EventRecord<'_>, decoded: &Decoded<'_>) -> Result<Places, Status> {
        let mut places = Places::default();
        match decoded.visit(record, &mut places) {
            Ok(true) => {}
            Ok(false) => return Err(ERROR_NOT_FOUND),
            Err(PayloadError::Short { .. }) => places.is_short = true,
            Err(_) => places.is_bad = true,
        }
        // A truncated value extends to the end of the payload.
        while !places.open.is_empty() {
            places.close();
        }
        Ok(places)
    }

    /// The number of the event's own fields.
    pub fn top_level(&self) -> usize {
        self.top.len()
    }

    /// The number of elements if the event's field of this number is an array.
    pub fn count(&self, number: usize) -> usize {
        self.top.get(number).map_or(0, |node| self.elements(*node))
    }

    fn elements(&self, array: u32) -> usize {
        let node = &self.nodes[array as usize];
        match (node.behind - array - 1).checked_div(node.stride) {
            Some(count) => count as usize,
            None => self.children(array).count(),
        }
    }

    fn children(&self, parent: u32) -> impl Iterator<Item = u32> {
        let behind = self.nodes[parent as usize].behind;
        let first = (parent + 1 < behind).then_some(parent + 1);
        std::iter::successors(first, move |child| {
            let next = self.nodes[*child as usize].behind;
            (next < behind).then_some(next)
        })
    }

    fn element(&self, array: u32, number: usize) -> Option<u32> {
        let node = &self.nodes[array as usize];
        if node.stride > 0 {
            let place =
                u32::try_from(number).ok()?.checked_mul(node.stride)?.checked_add(array + 1)?;
            return (place < node.behind).then_some(place);
        }
        self.children(array).nth(number)
    }

    /// The bytes of a property.
    ///
    /// # Errors
    /// `ERROR_NOT_FOUND`; `ERROR_INVALID_PARAMETER` for an element that the array lacks; `ERROR_EVT_INVALID_EVENT_DATA` if the payload
    /// ends before the property.
    pub fn property(&self, schema: &Schema, path: &[Step]) -> Result<Found, Status> {
        let (mut range, mut owner) = (0..schema.top_level, None);
        for (number, step) in path.iter().enumerate() {
            let fields = schema.fields.get(range.clone()).ok_or(ERROR_NOT_FOUND)?;
            let child = |place: usize| match owner {
                None => self.top.get(place).copied(),
                Some(owner) => self.children(owner).nth(place),
            };
            let is_last = number + 1 == path.len();
            // TDH's texts may end in spaces, as in message tables; names are compared without them.
            let wanted = step.name.trim_end();
            let Some(place) = fields.iter().position(|field| field.name == wanted) else {
                return match companion(fields, wanted) {
                    Some((place, of)) if is_last => {
                        let node = child(place).ok_or_else(|| self.missing())?;
                        self.companion(node, of)
                    }
                    _ => Err(ERROR_NOT_FOUND),
                };
            };
            let field = &fields[place];
            if let Kind::Constant(text) = &field.kind {
                return Ok(Found::Own(utf16_z(text)));
            }
            let mut node = child(place).ok_or_else(|| self.missing())?;
            let is_array = self.nodes[node as usize].kind == NodeKind::Array;
            match step.element {
                Some(element) if is_array => {
                    let found = self.element(node, element);
                    node = found.ok_or(if self.is_short {
                        ERROR_EVT_INVALID_EVENT_DATA
                    } else {
                        Status::ERROR_INVALID_PARAMETER
                    })?;
                }
                None if is_array && !is_last => return Err(Status::ERROR_INVALID_PARAMETER),
                None | Some(0) => {}
                Some(_) => return Err(Status::ERROR_INVALID_PARAMETER),
            }
            if is_last {
                let found = &self.nodes[node as usize];
                let mut bytes = found.start as usize..found.end as usize;
                let is_split = is_split_binary(field) && step.element.is_none_or(|n| n == 0);
                if is_split && !is_array {
                    bytes.start = (bytes.start + 2).min(bytes.end);
                }
                return Ok(Found::Payload(bytes, nul_size(field)));
            }
            let Kind::Struct { first, count } = field.kind else { return Err(ERROR_NOT_FOUND) };
            (range, owner) = (first..first.saturating_add(count), Some(node));
        }
        Err(Status::ERROR_INVALID_PARAMETER)
    }

    fn missing(&self) -> Status {
        if self.is_short { ERROR_EVT_INVALID_EVENT_DATA } else { ERROR_NOT_FOUND }
    }

    /// The value of a property that TDH puts before a field: its count or its length.
    fn companion(&self, node: u32, of: Companion) -> Result<Found, Status> {
        let value = match of {
            Companion::Count => self.elements(node),
            Companion::Length => {
                let node = &self.nodes[node as usize];
                ((node.end - node.start) as usize).saturating_sub(2)
            }
        };
        Ok(Found::Own((value as u16).to_le_bytes().to_vec()))
    }

    fn begin(&mut self, kind: NodeKind) {
        let number = self.nodes.len() as u32;
        if self.open.is_empty() {
            self.top.push(number);
        }
        self.nodes.push(Node { start: u32::MAX, end: 0, behind: number + 1, stride: 0, kind });
        self.open.push(number);
    }

    fn close(&mut self) {
        let Some(number) = self.open.pop() else { return };
        let behind = self.nodes.len() as u32;
        let node = &mut self.nodes[number as usize];
        node.behind = behind;
        if node.start > node.end {
            (node.start, node.end) = (0, 0);
        }
        let is_array = node.kind == NodeKind::Array;
        if let (Some(parent), true) = (self.open.last(), node.end > 0) {
            let (start, end) = (node.start, node.end);
            let parent = &mut self.nodes[*parent as usize];
            (parent.start, parent.end) = (parent.start.min(start), parent.end.max(end));
        }
        if is_array && behind > number + 1 {
            let size = self.nodes[number as usize + 1].behind - number - 1;
            let is_even = self
                .children(number)
                .all(|child| self.nodes[child as usize].behind - child == size);
            self.nodes[number as usize].stride = if is_even { size } else { 0 };
        }
    }
}

impl Visitor for Places {
    fn place(&mut self, bytes: Range<usize>) {
        self.next = bytes;
    }

    fn value(&mut self, _: &Field, _: Value<'_>) {
        let number = self.nodes.len() as u32;
        if self.open.is_empty() {
            self.top.push(number);
        }
        // A payload has at most 64 KiB.
        let (start, end) = (self.next.start as u32, self.next.end as u32);
        self.nodes.push(Node { start, end, behind: number + 1, stride: 0, kind: NodeKind::Value });
        if let Some(parent) = self.open.last() {
            let parent = &mut self.nodes[*parent as usize];
            (parent.start, parent.end) = (parent.start.min(start), parent.end.max(end));
        }
    }

    fn begin_array(&mut self, _: &Field, _: usize) {
        self.begin(NodeKind::Array);
    }

    fn end_array(&mut self, _: &Field) {
        self.close();
    }

    fn begin_struct(&mut self, _: &Field) {
        self.begin(NodeKind::Struct);
    }

    fn end_struct(&mut self, _: &Field) {
        self.close();
    }
}

fn companion(fields: &[Field], wanted: &str) -> Option<(usize, Companion)> {
    fields.iter().enumerate().find_map(|(place, field)| {
        let of = Companion::of(field)?;
        (of.name(&field.name) == wanted).then_some((place, of))
    })
}

/// Bytes of the NUL that ends a text, where the schema gives no length.
fn nul_size(field: &Field) -> usize {
    match field.kind {
        Kind::Scalar { wire: Wire::Utf16, .. } if field.length == Length::Own => 2,
        Kind::Scalar { wire: Wire::Ansi, .. } if field.length == Length::Own => 1,
        _ => 0,
    }
}
