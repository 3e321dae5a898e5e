//! Plans: the JSON of events of one shape, with its constant text made once.
//!
//! Events of a template differ in their values; names, braces and hidden elements are the same as long as the same values are absent
//! and the same templates stand inside of values. Such events have one shape, and the template keeps a [`Plan`] for each of its first
//! shapes: text with gaps, and the value for each gap.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Plans of one template.
pub(crate) const MAX_PLANS: usize = 8;

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

/// The kind of an argument. Those of all arguments are the shape of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Value,
    /// An element is repeated for each item.
    Array,
    Fragment,
}

/// The argument of an outer frame that is a fragment with this template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    pub frame: usize,
    pub index: u16,
    pub template: u64,
}

/// The arguments of the event, or of a fragment in one of its values.
#[derive(Debug)]
pub(crate) struct Frame {
    /// `None`: the event itself.
    pub within: Option<Within>,
    pub kinds: Vec<Kind>,
}

/// A gap in the text, and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    /// Offset in the text.
    pub at: usize,
    pub frame: usize,
    pub index: u16,
}

/// The JSON of one shape.
#[derive(Debug)]
pub(crate) struct Plan {
    pub frames: Vec<Frame>,
    pub text: String,
    pub gaps: Vec<Gap>,
    /// Work of an event without the bytes of its values.
    pub work: usize,
}

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
        self.misses.store(misses.saturating_add(1), Ordering::Relaxed);
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
