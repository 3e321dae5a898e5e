//! The constant part of a callsite's events, built once for each combination of field kinds.

use crate::record::{Kind, Shape};
use etw::rt::Site;
use etw::{EventDescriptor, Keyword, Opcode, Provider};
use etw_tracelogging::{Count, MetadataBuilder};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, TryLockError};
use tracing_core::Metadata;

/// An event, or the part of a span that an event reports: start, stop, or values that come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Event,
    Start,
    Stop,
    Record,
    Follows,
}

/// Kept for ever, as callsites are.
#[derive(Debug)]
pub(crate) struct Known {
    pub provider: Arc<Provider>,
    /// `None`: names that no metadata can hold.
    pub site: Option<Site>,
    pub keyword: Keyword,
}

/// Layer, callsite, part, kinds.
type Key = (u32, usize, Part, Shape);
type Sites = HashMap<Key, &'static Known, foldhash::fast::RandomState>;

static ALL: Mutex<Option<Sites>> = Mutex::new(None);

/// Callsites that each thread used last, which are found without a hash.
const RECENT_COUNT: usize = 64;

type Recent = [Cell<Option<(Key, &'static Known)>>; RECENT_COUNT];

thread_local! {
    static RECENT: Recent = const { [const { Cell::new(None) }; RECENT_COUNT] };
    /// The sites that this thread has asked for.
    static MINE: RefCell<Sites> = RefCell::new(Sites::default());
}

/// The site of a callsite's events with such fields.
pub(crate) fn find(
    layer: u32,
    metadata: &'static Metadata<'static>,
    part: Part,
    shape: Shape,
    make: impl FnOnce() -> Option<Known>,
) -> Option<&'static Known> {
    let key = (layer, std::ptr::from_ref(metadata).addr(), part, shape);
    // Callsites lie some words apart.
    let place = (key.1 >> 4 ^ key.1 >> 10 ^ part as usize) % RECENT_COUNT;
    let recent = RECENT.try_with(|recent| recent[place].get());
    if let Ok(Some((found, known))) = recent {
        if found == key {
            return Some(known);
        }
    }
    let known = find_slowly(key, make)?;
    // A thread at its end asks every time.
    let _ = RECENT.try_with(|recent| recent[place].set(Some((key, known))));
    Some(known)
}

#[inline(never)]
fn find_slowly(key: Key, make: impl FnOnce() -> Option<Known>) -> Option<&'static Known> {
    let mine = MINE.try_with(|mine| mine.borrow().get(&key).copied());
    if let Ok(Some(known)) = mine {
        return Some(known);
    }
    let known = match ALL.try_lock() {
        Ok(mut all) => shared(&mut all, key, make)?,
        Err(TryLockError::Poisoned(all)) => shared(&mut all.into_inner(), key, make)?,
        // This does not wait for the lock: the child of a `fork` may find it held forever. A site of the thread's own has the same content.
        Err(TryLockError::WouldBlock) => Box::leak(Box::new(make()?)),
    };
    let _ = MINE.try_with(|mine| mine.borrow_mut().insert(key, known));
    Some(known)
}

fn shared(
    all: &mut Option<Sites>,
    key: Key,
    make: impl FnOnce() -> Option<Known>,
) -> Option<&'static Known> {
    let all = all.get_or_insert_with(Sites::default);
    match all.get(&key) {
        Some(known) => Some(known),
        None => {
            let known: &'static Known = Box::leak(Box::new(make()?));
            all.insert(key, known);
            Some(known)
        }
    }
}

/// Fields of the place in the source, before those of the event.
pub(crate) fn make(
    metadata: &'static Metadata<'static>,
    part: Part,
    shape: Shape,
    location: bool,
    descriptor: EventDescriptor,
) -> Option<Site> {
    // Without a name of its own, an event's is its place in the source.
    let name = match part {
        Part::Event if metadata.name().starts_with("event ") => metadata.target(),
        _ => metadata.name(),
    };
    let mut builder = MetadataBuilder::new(name, 0);
    let mut add = |name: &str, kind: Kind| {
        let (in_type, out_type) = kind.types();
        let whole = std::mem::replace(&mut builder, MetadataBuilder::new("", 0));
        builder = whole.field(name, in_type, out_type, Count::Scalar, 0);
    };
    if location {
        add("file", Kind::Text);
        add("line", Kind::U64);
    }
    let names: Vec<&'static str> = metadata.fields().iter().map(|field| field.name()).collect();
    for (index, kind) in shape.kinds() {
        add(names.get(index).copied().unwrap_or("field"), kind);
    }
    let opcode = match part {
        Part::Start => Opcode::START,
        Part::Stop => Opcode::STOP,
        _ => Opcode::INFO,
    };
    let descriptor = EventDescriptor { opcode, ..descriptor };
    let blob = builder.finish().ok()?;
    let bytes = [&descriptor.to_bytes()[..], &blob].concat();
    Some(Site::new(Box::leak(bytes.into_boxed_slice())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_lock_whose_owner_is_gone() {
        let key = |place| (0, place, Part::Event, Shape::default());
        let made = || {
            let provider = Provider::dynamic("Test", etw::Guid::default(), None).ok()?;
            Some(Known { provider, site: None, keyword: Keyword(1) })
        };
        let first = find_slowly(key(1), made).unwrap();
        // As in the child of a process that forked while another thread held it.
        let taken = ALL.lock().unwrap();
        let own = std::thread::spawn(move || {
            let own = find_slowly(key(1), made).unwrap();
            assert!(std::ptr::eq(own, find_slowly(key(1), || None).unwrap()));
            std::ptr::from_ref(own).addr()
        });
        assert_ne!(own.join().unwrap(), std::ptr::from_ref(first).addr());
        drop(taken);
        let shared = std::thread::spawn(move || {
            std::ptr::from_ref(find_slowly(key(1), || None).unwrap()).addr()
        });
        assert_eq!(shared.join().unwrap(), std::ptr::from_ref(first).addr());
    }
}
