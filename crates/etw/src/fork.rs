//! A child made by `fork` begins anew: the registry's lock is not left held by a thread that is not there, the parent's
//! hosts are forgotten, and the child may have sessions of its own.
//!
//! Children made otherwise (`clone`, `vfork`) run no handlers: there the ring refuses every write, which needs no lock.

use std::cell::UnsafeCell;
use std::sync::Once;

use crate::registry;

struct Held(UnsafeCell<Option<registry::Lock>>);

// SAFETY: touched only by the handlers, between `prepare`, which takes the lock, and the two others, which give it back.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Installs the handlers, once.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: handlers without arguments. Where there is no room for them, a fork is as unsafe as before.
        unsafe {
            libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child));
        }
    });
}

extern "C" fn prepare() {
    let lock = registry::lock();
    // SAFETY: we hold the lock, so no other thread is between the handlers.
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
        crate::attach::forget_descriptors();
        #[cfg(feature = "session")]
        crate::session::forget_all();
    }
}
