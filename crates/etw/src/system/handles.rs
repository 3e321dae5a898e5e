//! The system's handles for one provider.

use std::sync::atomic::{AtomicU64, Ordering};

/// The system's handles for one provider.
#[derive(Debug)]
pub(crate) struct Handles {
    /// `REGHANDLE`, or the `TRACEHANDLE` of a classic registration; 0 without one.
    pub(super) registration: AtomicU64,
    /// The session that enabled a classic provider.
    pub(super) logger: AtomicU64,
}

impl Handles {
    pub(crate) const fn new() -> Handles {
        Handles { registration: AtomicU64::new(0), logger: AtomicU64::new(0) }
    }

    /// Takes the registration; whoever takes it ends it.
    pub(crate) fn take(&self) -> u64 {
        self.registration.swap(0, Ordering::AcqRel)
    }

    pub(crate) fn set_logger(&self, logger: u64) {
        self.logger.store(logger, Ordering::Release);
    }
}
