//! A child made by `fork` starts anew: no lock is left held by a thread of the parent, the parent's hosts are forgotten, and the
//! child may register, write and have sessions of its own. Gates in memory of the program are what holds in the child.
//! Callbacks are not called, since the program's locks may be held by threads that the child does not have.
//!
//! Children made by `clone` or `vfork` run no handlers: there the ring refuses every write, which needs no lock.

use std::cell::UnsafeCell;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::sync::{MutexGuard, Once};

use crate::evntprov::handle;
#[cfg(feature = "session")]
use crate::session::own;
use crate::{evntrace, registry};

/// All locks that a child needs, in the order in which they are taken. Each is held for a moment only, and never while a program's
/// function runs.
struct Locks {
    registry: registry::Lock,
    _turns: MutexGuard<'static, registry::Turns>,
    _handles: MutexGuard<'static, handle::Table>,
    _classic: MutexGuard<'static, evntrace::registration::Table>,
    _classes: MutexGuard<'static, evntrace::class::Free>,
    #[cfg(feature = "session")]
    sessions: own::Live,
}

struct Held(UnsafeCell<Option<Locks>>);

// SAFETY: touched only by the handlers, between `prepare`, which takes the locks, and the two others, which give them back.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Makes a child forget the descriptors of connections to hosts. Async-signal-safe, and set before [`install`].
#[cfg(target_os = "linux")]
pub(crate) static FORGET_DESCRIPTORS: OnceLock<fn()> = OnceLock::new();

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
    let locks = Locks {
        registry: registry::lock(),
        _turns: registry::lock_turns(),
        _handles: handle::table(),
        _classic: evntrace::registration::table(),
        _classes: evntrace::class::free(),
        #[cfg(feature = "session")]
        sessions: own::live(),
    };
    // SAFETY: this thread holds the locks, so no other thread is between the handlers.
    unsafe { *HELD.0.get() = Some(locks) };
}

extern "C" fn in_parent() {
    // SAFETY: put there by `prepare` on this thread.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    // SAFETY: put there by `prepare` on the thread that this one is a copy of.
    if let Some(mut locks) = unsafe { (*HELD.0.get()).take() } {
        registry::forget_hosts(&mut locks.registry);
        #[cfg(target_os = "linux")]
        if let Some(forget) = FORGET_DESCRIPTORS.get() {
            forget();
        }
        #[cfg(feature = "session")]
        own::forget_all(&mut locks.sessions);
    }
}
