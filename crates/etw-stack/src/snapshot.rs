//! Snapshots of the loaded modules, which handlers can read.
//!
//! [`prepare`] makes a snapshot and publishes it with one store. Snapshots are never changed or freed, since a handler may read any of
//! them. They share their parts: unwind tables are copied once for each file, so a program that loads and unloads the same libraries
//! again and again adds some hundred bytes each time.
//!
//! Tables are copied because a library may be unloaded while a handler reads; those of the program and of the vdso, which
//! stay, are read in place.
#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::cfi::{self, Tables};
use crate::object::{self, Object};

/// A range of code.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) range: Range<u64>,
    pub(crate) tables: Option<&'static Tables<'static>>,
}

/// All code that was loaded at one time.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// A number that differs between snapshots; 0 means that there is no snapshot.
    pub(crate) generation: u64,
    /// Sorted by address.
    code: Vec<Code>,
    changes: (u64, u64),
}

/// Null before the first [`prepare`]. The release store pairs with the acquire load in [`current`].
static CURRENT: AtomicPtr<Snapshot> = AtomicPtr::new(core::ptr::null_mut());

/// The latest snapshot. Async-signal-safe.
#[inline]
pub(crate) fn current() -> Option<&'static Snapshot> {
    // SAFETY: null, or a complete snapshot that `prepare` leaked.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

impl Snapshot {
    /// The range of code that contains an address.
    pub(crate) fn find(&self, address: u64) -> Option<&Code> {
        let after = self.code.partition_point(|code| code.range.start <= address);
        self.code.get(after.checked_sub(1)?).filter(|code| code.range.contains(&address))
    }
}

/// Implements [`prepare`](crate::prepare).
pub(crate) fn prepare() -> u64 {
    loop {
        let before = CURRENT.load(Ordering::Acquire);
        // SAFETY: as in `current`.
        let old = unsafe { before.as_ref() };
        let Some(new) = look(old) else { return old.map_or(0, |old| old.generation) };
        let generation = new.generation;
        let new = Box::into_raw(Box::new(new));
        if CURRENT.compare_exchange(before, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return generation;
        }
        // Another thread was faster, but it may have read the modules before the caller's library was loaded.
        // SAFETY: made above, and no other thread has seen it.
        drop(unsafe { Box::from_raw(new) });
    }
}

/// A new snapshot, if anything has changed.
fn look(old: Option<&Snapshot>) -> Option<Snapshot> {
    let generation = old.map_or(0, |old| old.generation) + 1;
    let mut new = Snapshot { generation, code: Vec::new(), changes: (0, 0) };
    let mut same = false;
    object::each(|object| {
        new.changes = object.changes;
        // A loader without counters (0, 0) is asked for all objects each time.
        same |= object.changes != (0, 0) && old.is_some_and(|old| old.changes == object.changes);
        if same {
            return;
        }
        let tables = tables_of(object, old);
        let code = object.segments().filter(|s| s.executable && !s.range.is_empty());
        new.code.extend(code.map(|s| Code { range: s.range, tables }));
    });
    new.code.sort_by_key(|code| code.range.start);
    // A loader without counters, asked again and again.
    same |= old.is_some_and(|old| new.changes == (0, 0) && alike(&old.code, &new.code));
    (!same).then_some(new)
}

fn alike(a: &[Code], b: &[Code]) -> bool {
    let parts = |code: &Code| (code.range.clone(), code.tables.map(core::ptr::from_ref));
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| parts(a) == parts(b))
}

/// The object's unwind tables, from an older snapshot or copied.
fn tables_of(object: &Object, old: Option<&Snapshot>) -> Option<&'static Tables<'static>> {
    let header_at = object.find(libc::PT_GNU_EH_FRAME).next()?;
    let header = object.bytes(header_at.clone());
    let frame_at = cfi::frame_address(header, header_at.start)?;
    let frame = cfi::used_part(object.bytes(frame_at..u64::MAX));

    let known = || old.into_iter().flat_map(|old| &old.code).filter_map(|code| code.tables);
    let mut alike = known().filter(|t| t.header() == header && t.frame() == frame);
    let writable = |at| object.segment_of(at).is_none_or(|s| s.writable);
    let (header, frame) = if let Some(tables) = alike.next() {
        if let Some(same) = [tables].into_iter().chain(alike).find(|t| t.is_at(header_at.start)) {
            return Some(same);
        }
        (tables.header(), tables.frame())
    } else if object.is_permanent() && !writable(header_at.start) && !writable(frame_at) {
        // SAFETY: mapped until the process ends, and not written.
        unsafe {
            (
                core::slice::from_raw_parts(header.as_ptr(), header.len()),
                core::slice::from_raw_parts(frame.as_ptr(), frame.len()),
            )
        }
    } else {
        (&*header.to_vec().leak(), &*frame.to_vec().leak())
    };
    Some(Box::leak(Box::new(Tables::new(header, header_at.start, frame, frame_at)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_by_address() {
        prepare();
        let snapshot = current().unwrap();
        let here = code_is_found_by_address as *const () as u64;
        let code = snapshot.find(here).unwrap();
        assert!(code.range.contains(&here) && code.tables.is_some());
        assert!(snapshot.find(code.range.start).is_some());
        let heap = Box::new(0_u8);
        for address in [0, u64::MAX, (&raw const *heap) as u64, (&raw const snapshot) as u64] {
            assert!(snapshot.find(address).is_none(), "{address:x}");
        }
        assert!(snapshot.code.is_sorted_by(|a, b| a.range.end <= b.range.start));
    }

    #[test]
    fn nothing_new_makes_no_snapshot() {
        prepare();
        let before = current().unwrap().generation;
        prepare();
        assert_eq!(current().unwrap().generation, before);
    }

    #[test]
    fn tables_are_shared_between_snapshots() {
        prepare();
        let old = current().unwrap();
        let old = Snapshot {
            generation: 0,
            code: old.code.iter().map(|c| Code { range: c.range.clone(), ..*c }).collect(),
            changes: (0, 0),
        };
        let new = look(Some(&old)).unwrap();
        assert_eq!(old.code.len(), new.code.len());
        for (old, new) in old.code.iter().zip(&new.code) {
            assert_eq!(old.range, new.range);
            assert_eq!(old.tables.map(|t| t as *const _), new.tables.map(|t| t as *const _));
        }
    }
}
