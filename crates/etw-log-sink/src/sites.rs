//! Metadata that came before: events of one shape travel by its number.

use etw::EventDescriptor;
use etw::rt::Site;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Shapes of a process that are kept, for ever. Programs log with few names of properties; where they are made at run time, later ones
/// travel in the event.
const LIMIT: usize = 2048;
/// Shapes of a thread that are found without a lock.
const RECENT: usize = 64;

type Recent = [Cell<Option<&'static Site>>; RECENT];

thread_local! {
    static MINE: Recent = const { [const { Cell::new(None) }; RECENT] };
}

/// By level and metadata.
type Sites = HashMap<(u8, &'static [u8]), &'static Site, foldhash::fast::RandomState>;

static ALL: Mutex<Option<Sites>> = Mutex::new(None);

/// Where a shape is looked for first: by its size and the end of its last name.
fn place_of(level: u8, metadata: &[u8]) -> usize {
    let last = metadata.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mixed = (last ^ (metadata.len() as u64) << 8 ^ u64::from(level))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize
}

/// The site of events with this metadata; `None` past the limit.
pub(crate) fn find(descriptor: &EventDescriptor, metadata: &[u8]) -> Option<&'static Site> {
    let place = place_of(descriptor.level.0, metadata);
    let mine = MINE.try_with(|mine| mine[place].get()).ok().flatten();
    match mine.filter(|site| site.level() == descriptor.level.0 && site.metadata() == metadata) {
        Some(site) => Some(site),
        None => find_slowly(place, descriptor, metadata),
    }
}

#[cold]
#[inline(never)]
fn find_slowly(
    place: usize,
    descriptor: &EventDescriptor,
    metadata: &[u8],
) -> Option<&'static Site> {
    let level = descriptor.level.0;
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let all = all.get_or_insert_with(Sites::default);
    let site = match all.get(&(level, metadata)) {
        Some(site) => *site,
        None if all.len() >= LIMIT => return None,
        None => {
            let bytes = [&descriptor.to_bytes()[..], metadata].concat();
            let site: &'static Site =
                Box::leak(Box::new(Site::new(Box::leak(bytes.into_boxed_slice()))));
            all.insert((level, site.metadata()), site);
            site
        }
    };
    // A thread at its end asks every time.
    let _ = MINE.try_with(|mine| mine[place].set(Some(site)));
    Some(site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_kept_up_to_a_limit() {
        let descriptor = EventDescriptor::default();
        let first = find(&descriptor, b"\x04\0\x80\0").unwrap();
        assert!(std::ptr::eq(first, find(&descriptor, b"\x04\0\x80\0").unwrap()));
        let made =
            (0..LIMIT + 100).filter(|n| find(&descriptor, &n.to_le_bytes()).is_some()).count();
        assert_eq!(made, LIMIT - 1);
        assert!(std::ptr::eq(first, find(&descriptor, b"\x04\0\x80\0").unwrap()));
    }
}
