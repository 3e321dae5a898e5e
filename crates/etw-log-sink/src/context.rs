//! Contexts: the properties and structures of a record.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::flat::Flat;
use crate::value::{Pair, Value};

/// Properties that a record belongs to: a structure whose members are the parent's structure, if there is one, and the
/// properties of its own.
///
/// ```
/// # use etw_log_sink::LogContext;
/// let server = LogContext::new("server").with("port", 8080u16);
/// let request = LogContext::with_parent("request", &server).with("path", "/orders");
/// assert_eq!(request.pairs().len(), 4);
/// ```
#[doc(alias = "LOG_CONTEXT_HANDLE")]
#[derive(Debug)]
pub struct LogContext<'a> {
    /// Flat, each structure before its members.
    pairs: Pairs<'a>,
    /// The properties as in a payload, from the second event with this context on.
    flat: OnceLock<Flat>,
    /// How often `flat` was asked for in vain, up to 2.
    asked: AtomicU8,
}

impl Clone for LogContext<'_> {
    fn clone(&self) -> Self {
        LogContext::of(self.pairs.clone())
    }
}

impl PartialEq for LogContext<'_> {
    fn eq(&self, other: &LogContext<'_>) -> bool {
        self.pairs == other.pairs
    }
}

/// (Not a `Cow`: that would tie every record to the context's own lifetime.)
#[derive(Clone, Debug)]
enum Pairs<'a> {
    Owned(Vec<Pair<'a>>),
    Borrowed(&'a [Pair<'a>]),
}

impl PartialEq for Pairs<'_> {
    fn eq(&self, other: &Pairs<'_>) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<'a> Pairs<'a> {
    fn as_slice(&self) -> &[Pair<'a>] {
        match self {
            Pairs::Owned(pairs) => pairs,
            Pairs::Borrowed(pairs) => pairs,
        }
    }
}

impl<'a> LogContext<'a> {
    const fn of(pairs: Pairs<'a>) -> LogContext<'a> {
        LogContext { pairs, flat: OnceLock::new(), asked: AtomicU8::new(0) }
    }

    /// An empty context; its name may be empty.
    pub fn new(name: &'a str) -> LogContext<'a> {
        LogContext::of(Pairs::Owned(vec![Pair::structure(name, 0)]))
    }

    /// A context whose first member is another one.
    pub fn with_parent(name: &'a str, parent: &LogContext<'a>) -> LogContext<'a> {
        let parent = parent.pairs();
        let head = Pair::structure(name, u8::from(!parent.is_empty()));
        let pairs = [head].into_iter().chain(parent.iter().cloned()).collect();
        LogContext::of(Pairs::Owned(pairs))
    }

    /// Pairs as they are, the head of their structure among them.
    pub const fn from_pairs(pairs: &'a [Pair<'a>]) -> LogContext<'a> {
        LogContext::of(Pairs::Borrowed(pairs))
    }

    /// Adds a property. A structure has at most 127; a context with more is left out of its events.
    #[must_use]
    pub fn with(self, name: &'a str, value: impl Into<Value<'a>>) -> LogContext<'a> {
        let mut pairs = match self.pairs {
            Pairs::Owned(pairs) => pairs,
            Pairs::Borrowed(pairs) => pairs.to_vec(),
        };
        if let Some(Pair { value: Value::Struct(count), .. }) = pairs.first_mut() {
            *count = count.saturating_add(1);
        }
        pairs.push(Pair::new(name, value));
        LogContext::of(Pairs::Owned(pairs))
    }

    /// All of it, flat.
    pub fn pairs(&self) -> &[Pair<'a>] {
        self.pairs.as_slice()
    }

    /// The properties as in a payload, if the context was logged before and all of its values can be encoded.
    #[inline(always)]
    pub(crate) fn flat(&self) -> Option<&Flat> {
        self.flat.get().or_else(|| self.flatten())
    }

    /// A context that is logged once costs no memory, so the second event makes its flat form. Only one thread does, and no other waits
    /// for it: the child of a `fork` may find it in the middle for ever.
    #[cold]
    #[inline(never)]
    fn flatten(&self) -> Option<&Flat> {
        let order = Ordering::Relaxed;
        match self.asked.load(order) {
            0 => self.asked.store(1, order),
            1 if self.asked.compare_exchange(1, 2, order, order).is_ok() => {
                let _ = self.flat.set(Flat::of(self.pairs())?);
                return self.flat.get();
            }
            _ => {}
        }
        None
    }
}
