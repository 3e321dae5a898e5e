//! The atomics of [`proto`](crate::proto): the real ones, or loom's.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// How a writer orders "I am writing" before its later reads (revocation word, clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Light {
    /// The host issues membarrier(2), which interrupts every running thread of the writer's process; the writer only has
    /// to keep the compiler from moving anything.
    Compiler,
    /// No membarrier: the writer itself executes a full fence, at some 20 cycles an event.
    Full,
}

#[inline(always)]
pub(crate) fn light_barrier(mode: Light) {
    match mode {
        #[cfg(not(loom))]
        Light::Compiler => compiler_fence(Ordering::SeqCst),
        // loom has no membarrier: what it models is the fallback, the same protocol with the fence on the other side.
        #[cfg(loom)]
        Light::Compiler => fence(Ordering::SeqCst),
        Light::Full => fence(Ordering::SeqCst),
    }
}
