//! A child made by `fork` starts anew: the registry's lock is not left held by a thread of the parent, the parent's hosts are
//! forgotten, and the child may have sessions of its own.
//!
//! Children made by `clone` or `vfork` run no handlers: there the ring refuses every write, which needs no lock.

use std::cell::UnsafeCell;
use std::sync::{Once, OnceLock};

use crate::registry;

struct Held(UnsafeCell<Option<registry::Lock>>);

// SAFETY: touched only by the handlers, between `prepare`, which takes the lock, and the two others, which give it back.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Functions that make a child forget state outside of the registry. They are async-signal-safe and set before [`install`].
pub(crate) struct InChild {
    /// The descriptors of connections to hosts.
    #[cfg(target_os = "linux")]
    pub descriptors: OnceLock<fn()>,
    /// Private sessions.
    #[cfg(feature = "session")]
    pub sessions: OnceLock<fn()>,
}

pub(crate) static IN_CHILD: InChild = InChild {
    #[cfg(target_os = "linux")]
    descriptors: OnceLock::new(),
    #[cfg(feature = "session")]
    sessions: OnceLock::new(),
};

/// Installs the handlers, once.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: handlers without arguments. If there is no memory for them, a fork is as unsafe as without them.
        unsafe {
            libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child));
        }
    });
}

extern "C" fn prepare() {
    let lock = registry::lock();
    // SAFETY: this thread holds the lock, so no other thread is between the handlers.
    unsafe { *HELD.0.get() = Some(lock) };
}

extern "C" fn in_parent() {
    // SAFETY: put there by `prepare` on this thread.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    // SAFETY: put there by `prepare` on the thread that this one is a copy of.
    if let Some(mut lock) = unsafe { (*HELD.0.get()).take() } {
        registry::forget_hosts(&mut lock);
        #[cfg(target_os = "linux")]
        if let Some(forget) = IN_CHILD.descriptors.get() {
            forget();
        }
        #[cfg(feature = "session")]
        if let Some(forget) = IN_CHILD.sessions.get() {
            forget();
        }
    }
}
