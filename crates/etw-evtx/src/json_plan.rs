//! Plans: the JSON of events of one shape, with its constant text made once.
//!
//! Events of a template differ in their values; names, braces and hidden elements are the same as long as the values have the same types
//! and the same templates stand inside of values. Such events have one shape, and the innermost template keeps a [`Plan`] for each of its
//! first shapes: text with gaps, and the value for each gap.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::value::ValueType;

/// Plans of one template.
pub(crate) const MAX_PLANS: usize = 16;

/// The plans of a template.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    first: OnceLock<Box<Entry>>,
    /// Events that no plan fitted, up to a number.
    misses: AtomicU8,
}

#[derive(Debug)]
struct Entry {
    plan: Plan,
    next: OnceLock<Box<Entry>>,
}

/// A value's descriptor as a number, `u16 size, u8 type`, and the bits of it that belong to the shape: the type, and the size if it
/// follows from the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub descriptor: u32,
    pub mask: u32,
}

/// The value of an outer frame that is a fragment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    pub frame: usize,
    pub index: u16,
}

/// The values of the event, or of a fragment in one of its values.
#[derive(Debug)]
pub(crate) struct Frame {
    /// `None`: the event itself.
    pub within: Option<Within>,
    /// [`Facts::number`](crate::facts::Facts::number) of its template.
    pub template: u64,
    pub values: Vec<Expected>,
    /// The numbers of its arrays that have items. An array without items makes another shape: its element is not shown.
    pub arrays: Vec<usize>,
    /// The number of its first end among the ends of all frames: each frame has one in front of each value and one behind them.
    pub first: usize,
}

/// The form of a value in JSON. Values of one number, text, GUID, time or SID that are not [`Number`](Form::Number) stand in quotes,
/// which belong to the text of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Unsigned, of 1, 2, 4 or 8 bytes.
    Number,
    Hex,
    Guid,
    FileTime,
    Sid,
    Utf16,
    Any(ValueType),
    /// The items of an array, in brackets.
    Array(ValueType),
    /// A member for each item of an array: the number of its [`Repeated`].
    Members(usize),
}

/// An element that is repeated for each item of an array.
#[derive(Debug)]
pub(crate) struct Repeated {
    /// Its name as the content of a JSON string.
    pub name: Vec<u8>,
    /// Members of the same object that have the name already.
    pub known: usize,
    /// The object has no other member before it.
    pub is_first: bool,
    pub value_type: ValueType,
}

/// A gap in the text, and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    /// Offset in the text.
    pub at: usize,
    pub frame: usize,
    pub index: u16,
    /// The number of the end in front of the value among the ends of all frames.
    pub slot: usize,
    pub form: Form,
}

/// The JSON of one shape.
#[derive(Debug)]
pub(crate) struct Plan {
    pub frames: Vec<Frame>,
    /// The text without its gaps, and [`PADDING`] bytes behind it.
    pub text: Vec<u8>,
    pub gaps: Vec<Gap>,
    pub repeated: Vec<Repeated>,
    /// Work of an event without the bytes of its values.
    pub work: usize,
}

/// Bytes that are copied at once.
pub(crate) const PADDING: usize = 32;

impl Plans {
    /// The plans, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Plan> {
        let mut next = &self.first;
        std::iter::from_fn(move || {
            let entry = next.get()?;
            next = &entry.next;
            Some(&entry.plan)
        })
    }

    /// Whether to make a plan for an event that has none: not for the only event of a template, and not for ever.
    pub(crate) fn wants_plan(&self) -> bool {
        let misses = self.misses.load(Ordering::Relaxed);
        let is_wanted = (1..=MAX_PLANS as u8).contains(&misses);
        if misses <= MAX_PLANS as u8 {
            self.misses.store(misses + 1, Ordering::Relaxed);
        }
        is_wanted
    }

    /// Adds a plan.
    pub(crate) fn add(&self, plan: Plan) {
        let mut entry = Box::new(Entry { plan, next: OnceLock::new() });
        let mut next = &self.first;
        // Another thread may add one at the same time.
        while let Err(back) = next.set(entry) {
            entry = back;
            match next.get() {
                Some(known) => next = &known.next,
                None => return,
            }
        }
    }
}
