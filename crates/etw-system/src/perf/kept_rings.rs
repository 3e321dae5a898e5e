//! Rings that live longer than the recording that fills them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::{Event, MAX_RING, Perf, Ring, RingSize};

/// A mapped ring that another process reads: its records stay when that process ends.
#[derive(Debug)]
pub struct HeldRing {
    /// Unmapped when it is dropped.
    _ring: Ring,
}

impl HeldRing {
    /// Maps the ring of an event, whose data have `size` bytes.
    ///
    /// # Errors
    /// The ring has another size, or the descriptor is that of no event.
    pub fn map(event: BorrowedFd<'_>, size: usize) -> io::Result<HeldRing> {
        let is_size = size.is_power_of_two() && size <= MAX_RING;
        let size = is_size.then_some(size).ok_or(io::ErrorKind::InvalidData)?;
        Ok(HeldRing { _ring: Ring::map(event.as_raw_fd(), size)? })
    }
}

/// The rings of a recording that has ended, still mapped. When they are dropped, a thread unmaps them and closes their events, which takes the
/// kernel long.
///
/// The kernel charges the memory of a ring to the process that maps it first, and gives it back to the one that unmaps it last. Another process
/// with a [`HeldRing`] has to unmap that one before these are dropped: otherwise this process can lock less and less memory. Rings of a process
/// before this one are unmapped already: their charge ended with that process, and this one would be given back what it never had.
#[derive(Debug, Default)]
pub struct FinishedRings(Option<Perf>);

impl FinishedRings {
    pub(crate) fn of(mut perf: Perf) -> FinishedRings {
        // They are the first ones.
        perf.rings.drain(..perf.adopted_rings.min(perf.rings.len()));
        FinishedRings(Some(perf))
    }

    /// Unmaps the rings here. What takes longer is left to the thread.
    pub fn unmap(&mut self) {
        if let Some(perf) = &mut self.0 {
            perf.rings.clear();
        }
    }
}

impl Drop for FinishedRings {
    fn drop(&mut self) {
        let Some(perf) = self.0.take() else { return };
        let closing = std::thread::Builder::new().name("etw-close".to_owned());
        // Without a thread they are closed here.
        drop(closing.spawn(move || drop(perf)));
    }
}

/// Maps a ring for an event; a smaller one, if the user may not lock so much memory. The kernel's answer is the same as the one to a user who may
/// not open the event: this error has no number, and is [no refusal](crate::wanted_events::is_refusal).
pub(super) fn map(event: &Event, size: RingSize) -> io::Result<Ring> {
    let mut size = size;
    loop {
        match Ring::map(event.raw(), size.0) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                let no_memory = || io::Error::new(io::ErrorKind::OutOfMemory, error);
                size = size.smaller().ok_or_else(no_memory)?;
            }
            result => return result,
        }
    }
}
