//! A child made by `fork` starts anew: no lock is left held by a thread of the parent, the parent's hosts are forgotten, and the
//! child may register, write and have sessions of its own. Gates in memory of the program are what holds in the child.
//! Callbacks are not called, since the program's locks may be held by threads that the child does not have.
//!
//! Children made by `clone` or `vfork` run no handlers: there the ring refuses every write, which needs no lock.

use std::cell::UnsafeCell;
use std::sync::{Once, OnceLock};

use crate::lock::HeldByFork;
use crate::registry;

struct Held(UnsafeCell<Option<registry::Lock>>);

// SAFETY: touched only by the handlers, between `prepare`, which takes the lock, and the two others, which give it back.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// The locks that a fork holds besides the registry's two, in the order in which it takes them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Handles,
    ClassicHandles,
    Classes,
    #[cfg(feature = "session")]
    Sessions,
}

static LOCKS: [OnceLock<&'static dyn HeldByFork>; 4] = [const { OnceLock::new() }; 4];

/// Announces a lock. Called before it is locked; each place has one lock.
#[inline]
pub(crate) fn hold(place: Place, lock: &'static dyn HeldByFork) {
    let _ = LOCKS[place as usize].set(lock);
}

/// Locks that the handlers took: a lock may be announced while a fork goes on.
static TAKEN: Taken = Taken(UnsafeCell::new([false; 4]));

struct Taken(UnsafeCell<[bool; 4]>);

// SAFETY: touched only by the handlers, while they hold the registry's lock.
unsafe impl Sync for Taken {}

/// Gives back all locks but the first.
fn give_back() {
    registry::turns().give_back();
    // SAFETY: the handlers hold the registry's lock.
    let taken = unsafe { *TAKEN.0.get() };
    for (lock, _) in LOCKS.iter().zip(taken).filter(|(_, taken)| *taken) {
        if let Some(lock) = lock.get() {
            lock.give_back();
        }
    }
}

/// Makes a child forget the sessions of its parent. Set before [`install`].
#[cfg(feature = "session")]
pub(crate) static FORGET_SESSIONS: OnceLock<fn()> = OnceLock::new();

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
    let registry = registry::lock();
    // SAFETY: this thread holds the lock, so no other thread is between the handlers.
    unsafe {
        *HELD.0.get() = Some(registry);
        registry::turns().hold();
        for (lock, taken) in LOCKS.iter().zip(&mut *TAKEN.0.get()) {
            *taken = lock.get().map(|lock| lock.hold()).is_some();
        }
    }
}

extern "C" fn in_parent() {
    give_back();
    // SAFETY: put there by `prepare` on this thread.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    give_back();
    // SAFETY: put there by `prepare` on the thread that this one is a copy of.
    if let Some(mut lock) = unsafe { (*HELD.0.get()).take() } {
        registry::forget_hosts(&mut lock);
        #[cfg(target_os = "linux")]
        if let Some(forget) = FORGET_DESCRIPTORS.get() {
            forget();
        }
        #[cfg(feature = "session")]
        if let Some(forget) = FORGET_SESSIONS.get() {
            forget();
        }
    }
}
