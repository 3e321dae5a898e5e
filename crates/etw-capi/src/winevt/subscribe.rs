//! `EvtSubscribe`: new events, pushed to a callback or pulled after a signal.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use etw_eventlog::stored_record::StoredRecord;
use etw_eventlog::subscription::{Start, SubscribeError, Subscription, Watch};

use super::{
    ERROR_EVT_QUERY_RESULT_STALE, Failure, Object, Selected, handle, insert, local, lock, object,
    optional, remove, selected, wrong_kind,
};
use crate::abi::CallbackContext;

/// How often logs are looked at.
const INTERVAL: Duration = Duration::from_millis(100);
/// Events that wait for `EvtNext`; more are read when these were taken.
const QUEUE_LIMIT: usize = 4096;
/// `EvtSubscribeTolerateQueryErrors`
const TOLERATE: u32 = 0x1000;
/// `EvtSubscribeStrict`: events that are missing are an error, at the start and later.
const STRICT: u32 = 0x1_0000;

type Callback = unsafe extern "C" fn(i32, *mut c_void, *mut c_void) -> u32;
type Set = unsafe extern "C" fn(*mut c_void) -> i32;

/// The state that a subscriber shares with the thread of its subscription.
pub struct Shared {
    pub names: Vec<String>,
    queue: Mutex<VecDeque<Item>>,
    changed: Condvar,
    is_stopped: AtomicBool,
    /// Counts calls of `EvtCancel`.
    wakes: Mutex<u64>,
    thread: Mutex<Option<(std::thread::JoinHandle<()>, ThreadId)>>,
}

/// An item that waits for `EvtNext`.
enum Item {
    Event(StoredRecord),
    /// Events are missing here.
    Gap,
}

/// The receiver of events.
enum Receiver {
    Callback(Callback, CallbackContext),
    /// The signal and the function that sets it.
    Signal(CallbackContext, Option<Set>),
}

impl Shared {
    /// Takes events; waits up to `timeout` milliseconds for the first one.
    ///
    /// # Errors
    /// `ERROR_EVT_QUERY_RESULT_STALE`, once, where events are missing before the next one.
    pub fn take(&self, count: usize, timeout: u32) -> Result<Vec<StoredRecord>, Failure> {
        let until = Instant::now() + Duration::from_millis(u64::from(timeout));
        let wakes = *lock(&self.wakes);
        let mut queue = lock(&self.queue);
        while queue.is_empty()
            && !self.is_stopped.load(Ordering::Relaxed)
            && *lock(&self.wakes) == wakes
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut taken = Vec::new();
        let mut is_gap = false;
        while taken.len() < count && !is_gap {
            match queue.pop_front() {
                Some(Item::Event(record)) => taken.push(record),
                Some(Item::Gap) if taken.is_empty() => is_gap = true,
                Some(Item::Gap) => {
                    queue.push_front(Item::Gap);
                    break;
                }
                None => break,
            }
        }
        self.changed.notify_all();
        match is_gap {
            true => {
                Err(Failure::new(ERROR_EVT_QUERY_RESULT_STALE, "events are missing".to_owned()))
            }
            false => Ok(taken),
        }
    }

    /// Ends waits.
    pub fn wake(&self) {
        *lock(&self.wakes) += 1;
        drop(lock(&self.queue));
        self.changed.notify_all();
    }

    /// Ends the thread. After this returns, the callback is not called any more, unless it is the callback that calls this.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.wake();
        let thread = lock(&self.thread).take();
        if let Some((thread, id)) = thread
            && id != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }

    fn run(&self, mut subscription: Subscription, is_strict: bool, receiver: &Receiver) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            // Logs that cannot be read now may be readable later.
            let records = subscription.poll().unwrap_or_default();
            let has_gap = !subscription.take_gaps().is_empty();
            if has_gap && is_strict {
                self.deliver_gap(receiver);
            }
            self.deliver(records, receiver);
            let queue = lock(&self.queue);
            if !self.is_stopped.load(Ordering::Relaxed) {
                let waited = self.changed.wait_timeout(queue, INTERVAL);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn deliver(&self, records: Vec<StoredRecord>, receiver: &Receiver) {
        for record in records {
            if self.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            match receiver {
                Receiver::Callback(callback, context) => {
                    let event = insert(Object::Event(record));
                    // SAFETY: CALLBACK.
                    unsafe { callback(1, context.get(), event) };
                    // The callback may have closed it.
                    let _ = remove(event);
                }
                Receiver::Signal(signal, set) => self.queue(Item::Event(record), signal, *set),
            }
        }
    }

    /// Says that events are missing.
    fn deliver_gap(&self, receiver: &Receiver) {
        match receiver {
            Receiver::Callback(callback, context) => {
                let code =
                    std::ptr::without_provenance_mut(ERROR_EVT_QUERY_RESULT_STALE.0 as usize);
                // SAFETY: CALLBACK. With the action `EvtSubscribeActionError`, the event is an error code.
                unsafe { callback(0, context.get(), code) };
            }
            Receiver::Signal(signal, set) => self.queue(Item::Gap, signal, *set),
        }
    }

    /// Puts an item behind the others when there is room, and sets the signal.
    fn queue(&self, item: Item, signal: &CallbackContext, set: Option<Set>) {
        let mut queue = lock(&self.queue);
        while queue.len() >= QUEUE_LIMIT && !self.is_stopped.load(Ordering::Relaxed) {
            let waited = self.changed.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
        }
        queue.push_back(item);
        drop(queue);
        self.changed.notify_all();
        if let Some(set) = set.filter(|_| !signal.get().is_null()) {
            // SAFETY: CALLBACK: the signal is open until the subscription is closed.
            unsafe { set(signal.get()) };
        }
    }
}

/// # Safety
/// TEXT `channel`, `query`; HANDLE `signal`, `bookmark`; CALLBACK `callback`, `context`, and `set`, `signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_evt_subscribe(
    session: *mut c_void,
    signal: *mut c_void,
    set: Option<Set>,
    channel: *const u16,
    query: *const u16,
    bookmark: *mut c_void,
    context: *mut c_void,
    callback: Option<Callback>,
    flags: u32,
) -> *mut c_void {
    handle(|| {
        local(session)?;
        if callback.is_some() != signal.is_null() {
            return Err(Failure::invalid("either a callback or a signal receives events"));
        }
        // SAFETY: TEXT.
        let (channel, query) = unsafe { (optional(channel), optional(query)) };
        let (known, mut unknown) = selected(channel.as_deref(), false, query.as_deref())?;
        if !unknown.is_empty() && (flags & TOLERATE == 0 || known.is_empty()) {
            return Err(unknown.remove(0).failure);
        }
        let is_strict = flags & STRICT != 0;
        let start = match flags & 3 {
            1 => Start::Future,
            2 => Start::Oldest,
            3 => match &*object(bookmark)? {
                Object::Bookmark(list) => {
                    let list = lock(list).clone();
                    Start::After { list, is_strict }
                }
                _ => return wrong_kind(),
            },
            _ => return Err(Failure::invalid("the start of a subscription is 1 to 3")),
        };
        let names = known.iter().map(|one| one.name.clone()).collect();
        let watch = |Selected { name, file, selector, .. }| Watch { name, path: file, selector };
        let subscription = Subscription::new(known.into_iter().map(watch).collect(), &start);
        let subscription = subscription.map_err(|error| match &error {
            SubscribeError::Stale { .. } => {
                Failure::new(ERROR_EVT_QUERY_RESULT_STALE, error.to_string())
            }
            SubscribeError::Log { name, error } => Failure::of_log(name.as_ref(), error),
            _ => Failure::invalid("the subscription cannot be started"),
        })?;
        let receiver = match callback {
            Some(callback) => Receiver::Callback(callback, CallbackContext(context)),
            None => Receiver::Signal(CallbackContext(signal), set),
        };
        let shared = Arc::new(Shared {
            names,
            queue: Mutex::default(),
            changed: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            wakes: Mutex::new(0),
            thread: Mutex::new(None),
        });
        let of_thread = Arc::clone(&shared);
        let mut slot = lock(&shared.thread);
        let thread = std::thread::Builder::new().name("etw-evt".to_owned());
        let thread = thread.spawn(move || of_thread.run(subscription, is_strict, &receiver));
        let thread =
            thread.map_err(|error| Failure::new(super::status_of(&error), error.to_string()))?;
        let id = thread.thread().id();
        *slot = Some((thread, id));
        drop(slot);
        Ok(Object::Subscription(shared))
    })
}
