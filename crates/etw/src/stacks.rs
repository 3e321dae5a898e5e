//! Call stacks, for sessions that want them: the filters that decide which events get one, and the loaded modules.
//!
//! Without the feature `stacks`, and on systems that `etw-stack` does not support, events have no stack, and sessions count them so.

use std::sync::Mutex;

use etw_ring::prefix::MAX_FRAMES;
#[cfg(any(unix, feature = "session"))]
use etw_types::LoadedModule;
use etw_types::StackFilter;

use crate::lock::lock;

/// The addresses of a stack, in the form of a record.
pub(crate) struct Frames([u64; MAX_FRAMES], usize);

/// The number of different filters that are kept. A write may read one at any time, so none is ever freed.
const MAX_FILTERS: usize = 1024;

static FILTERS: Mutex<Vec<&'static StackFilter>> = Mutex::new(Vec::new());
static ALL: StackFilter = StackFilter { event_ids: None, event_names: None, level_keyword: None };

/// The same filter, kept for ever. Beyond the limit all events get a stack, and the host removes those that no session asked for.
pub(crate) fn intern(filter: &StackFilter) -> &'static StackFilter {
    if *filter == ALL {
        return &ALL;
    }
    let mut filters = lock(&FILTERS);
    if let Some(known) = filters.iter().find(|known| **known == filter) {
        return known;
    }
    if filters.len() >= MAX_FILTERS {
        return &ALL;
    }
    let kept = &*Box::leak(Box::new(filter.clone()));
    filters.push(kept);
    kept
}

/// Reads the loaded modules, for [`Frames::capture`]; the number changes whenever the modules do. Allocates, and takes the loader's
/// lock.
#[cfg(any(unix, feature = "session"))]
pub(crate) fn prepare() -> u64 {
    #[cfg(feature = "stacks")]
    return etw_stack::prepare();
    #[cfg(not(feature = "stacks"))]
    return 0;
}

/// The loaded modules, if they have changed since `seen`.
#[cfg(any(unix, feature = "session"))]
pub(crate) fn modules(seen: &mut u64) -> Option<Vec<LoadedModule>> {
    let now = prepare();
    if std::mem::replace(seen, now) == now {
        return None;
    }
    #[cfg(not(feature = "stacks"))]
    return None;
    #[cfg(feature = "stacks")]
    Some(etw_stack::modules().into_iter().map(loaded).collect())
}

#[cfg(all(feature = "stacks", any(unix, feature = "session")))]
fn loaded(module: etw_stack::Module) -> LoadedModule {
    let etw_stack::Module { path, range, file_offset, bias, build_id, .. } = module;
    LoadedModule {
        base: range.start,
        size: range.end - range.start,
        file_offset,
        bias,
        path: path.to_string_lossy().into_owned(),
        build_id,
    }
}

impl Frames {
    /// The calling thread's stack, from the calling function outward; `None` if it cannot be captured. Async-signal-safe.
    #[inline(always)]
    pub fn capture() -> Option<Frames> {
        #[cfg(feature = "stacks")]
        {
            let mut frames = Frames([0; MAX_FRAMES], 0);
            frames.1 = etw_stack::capture(&mut frames.0, 0);
            // All of a record is little-endian.
            frames.0.iter_mut().for_each(|address| *address = address.to_le());
            (frames.1 > 0).then_some(frames)
        }
        #[cfg(not(feature = "stacks"))]
        {
            None
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the first `self.1` addresses are set, eight bytes each.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), 8 * self.1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::IdFilter;

    #[test]
    fn equal_filters_are_kept_once_and_at_most_1024() {
        let filter = |id| StackFilter {
            event_ids: Some(IdFilter { include: true, ids: vec![id] }),
            ..StackFilter::default()
        };
        assert!(std::ptr::eq(intern(&StackFilter::default()), &ALL));
        assert!(std::ptr::eq(intern(&filter(7)), intern(&filter(7))));
        for id in 0..2 * MAX_FILTERS as u16 {
            intern(&filter(id));
        }
        assert!(FILTERS.lock().unwrap().len() <= MAX_FILTERS);
        assert!(std::ptr::eq(intern(&filter(u16::MAX)), &ALL));
    }
}
