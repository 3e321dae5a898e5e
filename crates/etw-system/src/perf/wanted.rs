//! An event that a session wants from the kernel, and which of its records.

use std::ffi::CString;

use super::{Attribute, Kind, Tracepoint};
use crate::process_files::numbered;
use crate::thread_ids::is_first_namespace;

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
    /// Those of some system calls. Without the filter, more records come, which the shaper ignores.
    Calls {
        /// `None`: of all.
        numbers: Option<Vec<u64>>,
        /// The host's own threads, which would fill the rings with their calls.
        without: Vec<u32>,
    },
    /// Those of `task_newtask` whose thread has other things together with its maker than threads or processes mostly have: threads all, processes
    /// nothing. Without the filter, more records come.
    UnusualClones,
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
            Filter::Calls { numbers, without } => {
                let numbers = numbers.iter().flatten().map(|number| format!("id=={number}"));
                let numbers = numbers.collect::<Vec<_>>().join("||");
                let numbers = (!numbers.is_empty()).then(|| format!("({numbers})"));
                let threads = without.iter().map(|thread| format!("common_pid!={thread}"));
                let terms: Vec<String> = numbers.into_iter().chain(threads).collect();
                if terms.is_empty() {
                    return None;
                }
                terms.join("&&")
            }
            // CLONE_THREAD; CLONE_FS, CLONE_FILES; these and CLONE_VM.
            Filter::UnusualClones => "((clone_flags&0x10000)&&(!(clone_flags&0x200)||!(clone_flags&0x400)))||(!(clone_flags&0x10000)&&(clone_flags&0x700))".to_owned(),
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

    /// Perf writes records of it.
    pub fn has_records(&self) -> bool {
        !self.is_count() && !self.attribute.is_by_program()
    }

    /// Samples with call stacks, which a program can record.
    pub fn is_sample_with_stack(&self) -> bool {
        self.kind == Kind::Sample { has_stack: true }
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

/// The threads of this process by the machine's ids; none if it has others.
pub(crate) fn own_threads() -> Vec<u32> {
    /// A condition has at most so many of them.
    const MOST: usize = 64;
    if !is_first_namespace() {
        return Vec::new();
    }
    let mut all = numbered("/proc/self/task");
    all.truncate(MOST);
    all
}

impl From<(Attribute, Kind)> for Wanted {
    fn from((attribute, kind): (Attribute, Kind)) -> Wanted {
        Wanted { attribute, kind, filter: Filter::All, has_sizes: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-23: calls of the host are left out by the kernel, before they take room in a ring.
    #[test]
    fn a_condition_leaves_the_hosts_own_calls_out() {
        let text = |numbers, without| {
            let filter = Filter::Calls { numbers, without };
            filter.condition().map(|text| text.into_string().unwrap())
        };
        let both = text(Some(vec![0, 257]), vec![7, 8]);
        assert_eq!(both.as_deref(), Some("(id==0||id==257)&&common_pid!=7&&common_pid!=8"));
        assert_eq!(text(None, vec![7]).as_deref(), Some("common_pid!=7"));
        assert_eq!(text(Some(vec![3]), vec![]).as_deref(), Some("(id==3)"));
        assert_eq!(text(None, vec![]), None);
        if is_first_namespace() {
            assert!(own_threads().contains(&std::process::id()));
        }
    }
}
