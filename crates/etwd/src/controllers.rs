//! [`Controllers`]: the number of connected controllers, and whether the host still takes new ones.

use std::sync::atomic::{AtomicUsize, Ordering};

/// In place of the count: the host ends, and takes no more controllers.
const CLOSED: usize = usize::MAX;

/// The controllers that the server has greeted. The server counts them; the engine closes the door before the host ends because it is idle.
///
/// ```text
///            enter (server)                close (engine)
///   n ─────────────────────► n + 1    0 ─────────────────► CLOSED
///   n + 1 ──────────────────► n         ◄─────────────────
///            leave (server)                reopen (engine)
/// ```
///
/// A controller sends requests only after its greeting, so a host that ends because it is idle loses none.
#[derive(Debug, Default)]
pub(crate) struct Controllers(AtomicUsize);

impl Controllers {
    /// Counts one more, before it is greeted. `false`: the host ends, and it must not be greeted.
    pub fn enter(&self) -> bool {
        let more = |count: usize| (count != CLOSED).then(|| count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// One that entered has left. Its requests are in the mailbox.
    pub fn leave(&self) {
        // Pairs with `close`, which then finds them there.
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether there is one.
    pub fn any(&self) -> bool {
        !matches!(self.0.load(Ordering::Relaxed), 0 | CLOSED)
    }

    /// Takes no more controllers, if there is none. `false`: there is one.
    pub fn close(&self) -> bool {
        self.0.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes controllers again, after [`close`](Self::close).
    pub fn reopen(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_closes_only_without_controllers_and_takes_none_then() {
        let controllers = Controllers::default();
        assert!(controllers.enter() && controllers.any() && !controllers.close());
        controllers.leave();
        assert!(!controllers.any() && controllers.close());
        assert!(!controllers.enter() && !controllers.any() && !controllers.close());
        controllers.reopen();
        assert!(controllers.enter());
    }
}
