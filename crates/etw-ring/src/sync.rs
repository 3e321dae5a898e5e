//! The atomics of [`proto`](crate::proto): the real ones, or loom's.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// How a writer orders its announcement before its later reads (chunk word, clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Light {
    /// The host issues membarrier(2), which interrupts every running thread of the writer's process. The writer only needs a compiler
    /// fence.
    Compiler,
    /// Without membarrier, the writer executes a full fence, which costs some 20 cycles an event.
    Full,
}

#[inline(always)]
pub(crate) fn light_barrier(mode: Light) {
    match mode {
        #[cfg(not(loom))]
        Light::Compiler => compiler_fence(Ordering::SeqCst),
        // loom has no membarrier. It models the fallback: the same protocol with the fence in the writer.
        #[cfg(loom)]
        Light::Compiler => fence(Ordering::SeqCst),
        Light::Full => fence(Ordering::SeqCst),
    }
}
