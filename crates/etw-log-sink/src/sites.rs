//! Sites of log events: events of one shape share a site, so that their metadata is stored once.

use etw::EventDescriptor;
use etw::rt::Site;
use std::collections::HashMap;
use std::sync::{Mutex, TryLockError};

/// The limit of sites in a process; they are never freed. If a program makes more shapes at run time, later events carry their metadata.
const LIMIT: usize = 2048;

/// By level, channel and metadata.
type Sites = HashMap<(u8, u8, &'static [u8]), &'static Site, foldhash::fast::RandomState>;

static ALL: Mutex<Option<Sites>> = Mutex::new(None);

/// The site of events with this metadata; `None` past the limit. Encoders cache sites, so the lock is rarely taken. This function does not
/// wait for it, because the child of a `fork` may find it held forever: the event then carries its metadata, and a later event tries
/// again.
pub(crate) fn find(descriptor: &EventDescriptor, metadata: &[u8]) -> Option<&'static Site> {
    let (level, channel) = (descriptor.level.0, descriptor.channel.0);
    let mut all = match ALL.try_lock() {
        Ok(all) => all,
        Err(TryLockError::Poisoned(all)) => all.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    let all = all.get_or_insert_with(Sites::default);
    if let Some(site) = all.get(&(level, channel, metadata)) {
        return Some(site);
    }
    if all.len() >= LIMIT {
        return None;
    }
    let bytes = [&descriptor.to_bytes()[..], metadata].concat();
    let site: &'static Site = Box::leak(Box::new(Site::new(Box::leak(bytes.into_boxed_slice()))));
    all.insert((level, channel, site.metadata()), site);
    Some(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_kept_up_to_a_limit_without_waiting_for_the_lock() {
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
