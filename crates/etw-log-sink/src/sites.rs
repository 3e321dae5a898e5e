//! Metadata that came before: events of one shape travel by its number.

use etw::EventDescriptor;
use etw::rt::Site;
use std::collections::HashMap;
use std::sync::{Mutex, TryLockError};

/// Shapes of a process that are kept, for ever. Programs log with few names of properties; where they are made at run time, later ones
/// travel in the event.
const LIMIT: usize = 2048;

/// By level and metadata.
type Sites = HashMap<(u8, &'static [u8]), &'static Site, foldhash::fast::RandomState>;

static ALL: Mutex<Option<Sites>> = Mutex::new(None);

/// The site of events with this metadata; `None` past the limit. An encoder remembers what it was told: the lock is seldom taken. It is
/// never waited for, since the child of a `fork` may find it taken for ever: the event carries its metadata then, and a later one
/// asks again.
pub(crate) fn find(descriptor: &EventDescriptor, metadata: &[u8]) -> Option<&'static Site> {
    let level = descriptor.level.0;
    let mut all = match ALL.try_lock() {
        Ok(all) => all,
        Err(TryLockError::Poisoned(all)) => all.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    let all = all.get_or_insert_with(Sites::default);
    if let Some(site) = all.get(&(level, metadata)) {
        return Some(site);
    }
    if all.len() >= LIMIT {
        return None;
    }
    let bytes = [&descriptor.to_bytes()[..], metadata].concat();
    let site: &'static Site = Box::leak(Box::new(Site::new(Box::leak(bytes.into_boxed_slice()))));
    all.insert((level, site.metadata()), site);
    Some(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_kept_up_to_a_limit_and_nobody_waits_for_them() {
        let descriptor = EventDescriptor::default();
        let first = find(&descriptor, b"\x04\0\x80\0").unwrap();
        assert!(std::ptr::eq(first, find(&descriptor, b"\x04\0\x80\0").unwrap()));
        let made =
            (0..LIMIT + 100).filter(|n| find(&descriptor, &n.to_le_bytes()).is_some()).count();
        assert_eq!(made, LIMIT - 1);
        assert!(std::ptr::eq(first, find(&descriptor, b"\x04\0\x80\0").unwrap()));

        // As in the child of a process that forked while another thread held it.
        let taken = ALL.lock().unwrap();
        assert!(find(&descriptor, b"\x04\0\x80\0").is_none());
        drop(taken);
    }
}
