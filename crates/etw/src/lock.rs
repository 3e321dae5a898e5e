//! Locks whose holder may have panicked, and locks that a fork holds.

use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. A holder that panicked left its data whole: every change under these locks is one step.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that a fork takes, and gives back in the parent and in the child, once its module has [announced](crate::fork::hold) it. It is
/// held for a moment only, and never while a function of the program runs.
pub(crate) struct ForkLock<T: 'static> {
    mutex: Mutex<T>,
    /// The fork's guard. Only the thread that holds the lock touches it.
    held: UnsafeCell<Option<MutexGuard<'static, T>>>,
}

// SAFETY: the mutex makes the value shareable; `held` is touched only by the thread that forks, while it holds the lock.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    pub(crate) const fn new(value: T) -> ForkLock<T> {
        ForkLock { mutex: Mutex::new(value), held: UnsafeCell::new(None) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.mutex)
    }

    /// `None` while another thread has it.
    #[cfg(feature = "session")]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.mutex.try_lock().ok()
    }
}

/// A [`ForkLock`] of any value.
#[cfg_attr(windows, allow(dead_code))]
pub(crate) trait HeldByFork: Sync {
    fn hold(&'static self);
    /// Gives back what [`hold`](Self::hold) took on this thread, or on the thread that this one is a copy of.
    fn give_back(&'static self);
}

impl<T: Send> HeldByFork for ForkLock<T> {
    fn hold(&'static self) {
        let guard = self.lock();
        // SAFETY: this thread holds the lock.
        unsafe { *self.held.get() = Some(guard) };
    }

    fn give_back(&'static self) {
        // SAFETY: `hold` has locked it for this thread.
        drop(unsafe { (*self.held.get()).take() });
    }
}
