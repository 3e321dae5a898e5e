//! [`Visitor`]: what a walk calls for each value, array and struct.

use crate::field::Field;
use crate::integers::Integers;
use crate::value::Value;
use std::ops::Range;

/// Receives the fields of an event in their order.
pub trait Visitor {
    /// A value: of a single field, or the next one of the array that was begun last.
    fn value(&mut self, field: &Field, value: Value<'_>);
    /// `count` values or structs follow.
    fn begin_array(&mut self, field: &Field, count: usize);
    /// The array begun last is complete.
    fn end_array(&mut self, field: &Field);
    /// The members of a struct follow.
    fn begin_struct(&mut self, field: &Field);
    /// The struct begun last is complete.
    fn end_struct(&mut self, field: &Field);
    /// Elements of the array that was begun last, if they are integers that are shown as numbers. A visitor that does not need each of them takes
    /// them all at once; by default, each is a [`value`](Visitor::value).
    fn integers(&mut self, field: &Field, integers: &mut Integers<'_>) {
        visit_each(integers, field, self);
    }
    /// The range of payload bytes that the next value takes.
    fn place(&mut self, _bytes: Range<usize>) {}
    /// Whether the walk can end here. The walk asks after each field and after each element of an array.
    fn is_done(&self) -> bool {
        false
    }
}

/// Gives each element to a visitor, until it is done.
pub(crate) fn visit_each(
    integers: &mut Integers<'_>,
    field: &Field,
    visitor: &mut (impl Visitor + ?Sized),
) {
    while !visitor.is_done() {
        let Some((value, place)) = integers.next() else { return };
        visitor.place(place);
        visitor.value(field, value);
    }
}

/// Ignores everything, for callers that need only the size or the error of a walk.
impl Visitor for () {
    fn value(&mut self, _: &Field, _: Value<'_>) {}
    fn begin_array(&mut self, _: &Field, _: usize) {}
    fn end_array(&mut self, _: &Field) {}
    fn begin_struct(&mut self, _: &Field) {}
    fn end_struct(&mut self, _: &Field) {}
}
