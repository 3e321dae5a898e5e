//! An event that a session wants from the kernel, and which of its records.

use std::ffi::CString;

use super::{Attribute, Kind, Tracepoint};

/// An event that a session wants from the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub attribute: Attribute,
    pub kind: Kind,
    /// Which of its events are recorded.
    pub filter: Filter,
    /// There are others that differ only in the bytes of stacks that they copy.
    pub has_sizes: bool,
}

/// Which events of a tracepoint are recorded.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    All,
    /// Those of these system calls. Without the filter, more records come, which the shaper ignores.
    Calls(Vec<u64>),
    /// Those that are not from idle, or not of an idle CPU: a program records the others. The field has the id of the thread that ran.
    NotOfIdle {
        field: &'static str,
    },
}

impl Filter {
    /// A condition on the fields of the tracepoint.
    pub fn condition(&self) -> Option<CString> {
        let text = match self {
            Filter::All => return None,
            Filter::Calls(calls) => {
                let terms: Vec<String> =
                    calls.iter().map(|number| format!("id=={number}")).collect();
                terms.join("||")
            }
            Filter::NotOfIdle { field } => format!("{field}!=0"),
        };
        CString::new(text).ok()
    }
}

impl Wanted {
    /// It has no records.
    pub fn is_count(&self) -> bool {
        matches!(self.kind, Kind::Count { .. })
    }

    /// Its records have no call stack.
    pub fn needs_no_stack(&self) -> bool {
        matches!(self.kind, Kind::Tracepoint { has_stack: false, .. })
    }

    pub fn tracepoint(&self) -> Option<Tracepoint> {
        match self.kind {
            Kind::Tracepoint { point, .. } => Some(point),
            _ => None,
        }
    }
}

impl From<(Attribute, Kind)> for Wanted {
    fn from((attribute, kind): (Attribute, Kind)) -> Wanted {
        Wanted { attribute, kind, filter: Filter::All, has_sizes: false }
    }
}
