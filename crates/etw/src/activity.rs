//! Activities: ids that tie events together, one of them current in each thread.

use std::sync::atomic::{AtomicU64, Ordering};

use etw_ring::{Thread, try_this_thread};
#[cfg(not(windows))]
use etw_ring::{replace_thread_word, thread_word};
use etw_types::{Guid, Status};

#[cfg(windows)]
pub(crate) use crate::system::activity_id as current;
#[cfg(windows)]
use crate::system::set_activity_id as replace;

/// The thread's current activity id, zero without one.
#[cfg(not(windows))]
#[inline(always)]
pub(crate) fn current() -> Guid {
    guid_of(thread_word())
}

/// The calling thread's data, if the thread certainly has no activity.
#[inline(always)]
pub(crate) fn thread_without() -> Option<&'static Thread> {
    #[cfg(not(windows))]
    return try_this_thread().filter(|thread| thread.word() == [0; 2]);
    // On Windows the system owns the id.
    #[cfg(windows)]
    try_this_thread().filter(|_| current().is_zero())
}

#[cfg(not(windows))]
fn replace(id: Guid) -> Guid {
    let [a, b, c, d, e, f, g, h, rest @ ..] = id.0;
    let words = [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes(rest)];
    guid_of(replace_thread_word(words))
}

#[cfg(not(windows))]
#[inline(always)]
fn guid_of(words: [u64; 2]) -> Guid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
    bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
    Guid(bytes)
}

/// An activity: its id, and the id of the activity it comes from.
///
/// ```
/// use etw::Activity;
///
/// let request = Activity::new();
/// {
///     let _scope = request.enter();
///     // Events written here carry the request's id.
///     let step = Activity::new();
///     assert_eq!(step.related_id(), Some(request.id()));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    id: Guid,
    related: Guid,
}

impl Activity {
    /// A new id, related to the activity that is current in this thread.
    pub fn new() -> Activity {
        Activity { id: create_id(), related: current() }
    }

    /// An activity whose id came from elsewhere: from another process, or a request's header.
    pub fn with_id(id: Guid, related: Option<Guid>) -> Activity {
        Activity { id, related: related.unwrap_or(Guid::ZERO) }
    }

    /// The id.
    pub fn id(&self) -> Guid {
        self.id
    }

    /// The activity in which this one was made, if there was one: for the start event.
    pub fn related_id(&self) -> Option<Guid> {
        (!self.related.is_zero()).then_some(self.related)
    }

    /// Makes this the thread's current activity. Dropping the scope restores the previous one.
    ///
    /// A scope belongs to its thread. A task that moves between threads must enter its activity at each poll: see
    /// [`instrument`](Self::instrument).
    pub fn enter(&self) -> Scope {
        Scope { previous: replace(self.id), not_send: std::marker::PhantomData }
    }

    /// A future that enters this activity at every poll, on whatever thread.
    pub fn instrument<F: Future>(self, future: F) -> ActivityFuture<F> {
        ActivityFuture { activity: self, future }
    }
}

impl Default for Activity {
    fn default() -> Activity {
        Activity::new()
    }
}

/// Keeps an activity the thread's current one; dropping it restores the previous one.
#[derive(Debug)]
#[must_use = "the activity ends when this is dropped"]
pub struct Scope {
    previous: Guid,
    not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for Scope {
    fn drop(&mut self) {
        replace(self.previous);
    }
}

/// A future that enters an activity at each poll and leaves it afterwards, so it may move between threads.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ActivityFuture<F> {
    activity: Activity,
    future: F,
}

impl<F: Future> Future for ActivityFuture<F> {
    type Output = F::Output;

    fn poll(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<F::Output> {
        let _scope = self.activity.enter();
        // SAFETY: the inner future is pinned with this one and never moved out.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(context)
    }
}

/// The operations of [`event_activity_id_control`].
#[doc(alias = "EVENT_ACTIVITY_CTRL_GET_ID")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum ActivityControl {
    /// Returns the thread's id.
    Get = 1,
    /// Sets the thread's id.
    Set = 2,
    /// Returns a new id.
    Create = 3,
    /// Sets the thread's id and returns the previous one.
    GetSet = 4,
    /// Sets a new id for the thread and returns the previous one.
    CreateSet = 5,
}

/// `EventActivityIdControl`: reads and changes the thread's activity id. Codes are those of [`ActivityControl`].
///
/// Returns `ERROR_INVALID_PARAMETER` for any other code.
#[doc(alias = "EventActivityIdControl")]
pub fn event_activity_id_control(code: u32, id: &mut Guid) -> Status {
    match code {
        1 => *id = current(),
        2 => drop(replace(*id)),
        3 => *id = create_id(),
        4 => *id = replace(*id),
        5 => *id = replace(create_id()),
        _ => return Status::ERROR_INVALID_PARAMETER,
    }
    Status::ERROR_SUCCESS
}

/// A new activity id: unique on this machine until it restarts, not random.
///
/// ```text
/// 0  u48 low bits of the time of the boot, FILETIME     6  u16 allocator     8  u64 counter, +1 an id
/// ```
///
/// The layout is that of ETW, as seen in real traces. There the allocator is a processor; here it is the low bits of the process
/// id. The counter starts at the FILETIME of the first use, mixed with the rest of the process id.
pub fn create_id() -> Guid {
    static BOOT: AtomicU64 = AtomicU64::new(0);
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    static PROCESS: AtomicU64 = AtomicU64::new(0);
    // The generation changes in a child made by fork, which would otherwise continue the parent's count.
    let generation = etw_ring::process_generation();
    let mut head = BOOT.load(Ordering::Relaxed);
    if PROCESS.load(Ordering::Acquire) != generation {
        let process = std::process::id();
        let now = filetime_now();
        // The counter only rises, so two threads that initialise it at once use no number twice. FILETIMEs have 57 bits.
        COUNTER.fetch_max(now | u64::from(process >> 16) << 57, Ordering::Relaxed);
        let boot = now.wrapping_sub(uptime()) & 0xffff_ffff_0000;
        head = boot | u64::from(process & 0xffff) << 48;
        BOOT.store(head, Ordering::Relaxed);
        PROCESS.store(generation, Ordering::Release);
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&head.to_le_bytes());
    bytes[8..].copy_from_slice(&COUNTER.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    Guid(bytes)
}

fn filetime_now() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_1970.map_or(0, |d| d.as_nanos() as u64 / 100) + 116_444_736_000_000_000
}

/// The time since the boot, in units of 100 ns.
fn uptime() -> u64 {
    etw_ring::RawClock::Monotonic.now() / 100
}
