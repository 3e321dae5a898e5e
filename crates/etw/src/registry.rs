//! The process's providers and the hosts it is attached to.
//!
//! Lock order: the registry, then a host's own locks, then a provider's state. Callbacks run with none of them held but
//! the callback lock, which serialises them and lets `unregister` wait for a running one.

#![cfg_attr(not(feature = "session"), allow(dead_code))]

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etw_ring::{MAX_ATTACHMENTS, Writer};
use etw_types::{Guid, LevelKeyword, StackFilter, Status};

use crate::provider::{
    ControlCode, EnableCallback, EnableChange, Provider, ProviderRef, Registration,
};

/// The pools of the hosts we are attached to. A writer lives for ever: a write on another thread may hold it at any time.
pub(crate) static WRITERS: [AtomicPtr<Writer>; MAX_ATTACHMENTS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_ATTACHMENTS];

/// All of them, those of sessions that have ended too: to who looks for leaks, what is kept on purpose is not lost.
static KEPT: Mutex<Vec<&'static Writer>> = Mutex::new(Vec::new());

/// Shows the pool to writes.
fn show(attachment: usize, writer: &'static Writer) {
    // In a child of a fork somebody who is not here may hold it for ever: then it is kept all the same.
    if let Ok(mut kept) = KEPT.try_lock() {
        kept.push(writer);
    }
    WRITERS[attachment].store(std::ptr::from_ref(writer).cast_mut(), Ordering::Release);
}

/// What a provider's registration asks of a host, and a host of the registry.
pub(crate) trait Host: Send + Sync {
    /// A provider was registered: the number it shall use, and the sessions that have it enabled already.
    fn register(&self, provider: &Provider) -> (u32, Vec<Enable>);
    /// It is gone; its records may still be in the pool.
    fn unregister(&self, registration: u32);
    /// Waits a moment until the host has said what its sessions want of a new registration. Called without any lock.
    fn settle(&self, registration: u32) {
        let _ = registration;
    }
    /// Is it in another process? A child made by `fork` is then attached anew, by its first write.
    fn is_elsewhere(&self) -> bool {
        false
    }
}

/// One session's wish.
#[derive(Clone, Debug)]
pub(crate) struct Enable {
    pub slot: u8,
    pub wanted: LevelKeyword,
    /// Which events shall have a call stack.
    pub stacks: Option<StackFilter>,
    /// When it was asked for, in nanoseconds of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// The schematised filter, for the provider's callback; empty without one.
    pub filter_data: Vec<u8>,
}

#[derive(Default)]
pub(crate) struct Registry {
    providers: Vec<ProviderRef>,
    hosts: [Option<Arc<dyn Host>>; MAX_ATTACHMENTS],
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);
/// Held while callbacks run.
static CALLBACKS: Mutex<()> = Mutex::new(());

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The registry, held.
pub(crate) type Lock = MutexGuard<'static, Option<Registry>>;

pub(crate) fn lock() -> Lock {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In a child: the hosts are the parent's. They are not dropped, since their locks and threads are its too.
#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
pub(crate) fn forget_hosts(lock: &mut Lock) {
    let Some(registry) = lock.as_mut() else { return };
    for (attachment, host) in registry.hosts.iter_mut().enumerate() {
        let host = std::mem::ManuallyDrop::new(host.take());
        if host.as_ref().is_some_and(|host| host.is_elsewhere()) {
            // Stays enabled: the first write finds that its pool is not this process's.
            continue;
        }
        for provider in &registry.providers {
            provider.clear_slots(routes(attachment));
        }
        WRITERS[attachment].store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// In a child: nothing of what its parent was attached to is left. `false`: somebody who is not here holds the lock.
#[cfg(target_os = "linux")]
pub(crate) fn begin_anew() -> bool {
    let Ok(mut lock) = REGISTRY.try_lock() else { return false };
    let Some(registry) = lock.as_mut() else { return false };
    for (attachment, host) in registry.hosts.iter_mut().enumerate() {
        if is_attached(attachment) {
            // The child's own private session.
            continue;
        }
        std::mem::forget(host.take());
        for provider in &registry.providers {
            provider.clear_slots(routes(attachment));
        }
        WRITERS[attachment].store(std::ptr::null_mut(), Ordering::Release);
    }
    true
}

fn with<R>(change: impl FnOnce(&mut Registry) -> R) -> R {
    change(lock().get_or_insert_with(Registry::default))
}

fn route(attachment: usize, slot: u8) -> u64 {
    1 << (attachment * 8 + usize::from(slot))
}

/// The writer into a host's pool, if the host has one.
#[inline(always)]
pub(crate) fn writer(attachment: usize) -> Option<&'static Writer> {
    // SAFETY: null, or from a `&'static Writer`.
    unsafe { WRITERS[attachment % MAX_ATTACHMENTS].load(Ordering::Acquire).as_ref() }
}

/// Whether the host's pool still takes records of this process. Lock-free.
pub(crate) fn is_attached(attachment: usize) -> bool {
    writer(attachment).is_some_and(Writer::is_attached)
}

/// The routes of all sessions of an attachment.
pub(crate) fn routes(attachment: usize) -> u64 {
    0xff << (attachment * 8)
}

fn same(a: &Provider, b: &Provider) -> bool {
    std::ptr::eq(a, b)
}

pub(crate) fn register(
    provider: ProviderRef,
    callback: Option<Arc<EnableCallback>>,
) -> Registration {
    #[cfg(target_os = "linux")]
    crate::attach::begin();
    let mut filter_data = Vec::new();
    let (number, hosts) = with(|registry| {
        let (first, number) = provider.enter(callback);
        let mut hosts = Vec::new();
        if first {
            for (attachment, host) in registry.hosts.iter().enumerate() {
                if let Some(host) = host {
                    let data = introduce(&provider, attachment, &**host);
                    if !data.is_empty() {
                        filter_data = data;
                    }
                    let at_host = provider.registrations[attachment].load(Ordering::Relaxed);
                    hosts.push((host.clone(), at_host));
                }
            }
            registry.providers.push(provider.clone());
        }
        (number, hosts)
    });
    for (host, at_host) in hosts {
        host.settle(at_host);
    }
    if number.is_some() {
        // OV-15: enabled before it registered; the source is then not known.
        call(&provider, number, |provider| told(provider, Guid::ZERO, true), &filter_data);
    }
    Registration::new(provider, number)
}

/// Tells a host of a provider; the last schematised filter among what its sessions want.
fn introduce(provider: &Provider, attachment: usize, host: &dyn Host) -> Vec<u8> {
    let (number, enables) = host.register(provider);
    provider.registrations[attachment].store(number, Ordering::Relaxed);
    let mut filter_data = Vec::new();
    for enable in enables {
        // A ninth session was refused when it asked; one that is beyond for a provider that comes later stays without.
        let route = route(attachment, enable.slot);
        let _ = provider.want(route, &enable.wanted, enable.stacks.as_ref(), enable.since);
        if !enable.filter_data.is_empty() {
            filter_data = enable.filter_data;
        }
    }
    filter_data
}

pub(crate) fn unregister(provider: &ProviderRef, callback: Option<u64>) {
    if let Some(number) = callback {
        provider.remove_callback(number);
    }
    with(|registry| {
        if !provider.leave() {
            return;
        }
        provider.clear_slots(u64::MAX);
        registry.providers.retain(|other| !same(other, provider));
        for (attachment, host) in registry.hosts.iter().enumerate() {
            if let Some(host) = host {
                host.unregister(provider.registrations[attachment].load(Ordering::Relaxed));
            }
        }
    });
    if callback.is_some() && !IN_CALLBACK.get() {
        // A callback that is running now has ended when we return.
        drop(CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A new host: its pool, made for the attachment number that `make` is given.
///
/// # Errors
/// `full` when all attachments are taken, or what `make` says.
pub(crate) fn attach<T, E>(
    make: impl FnOnce(usize) -> Result<(Arc<dyn Host>, &'static Writer, T), E>,
    full: impl FnOnce() -> E,
) -> Result<(usize, T), E> {
    with(|registry| {
        let free = (0..MAX_ATTACHMENTS).find(|&n| registry.hosts[n].is_none());
        let attachment = free.ok_or_else(full)?;
        let (host, writer, more) = make(attachment)?;
        for provider in &registry.providers {
            // Callbacks of providers that are there are told when a session enables them.
            let _ = introduce(provider, attachment, &*host);
        }
        registry.hosts[attachment] = Some(host);
        // The old writer, if there was one, stays: a write may be on its way through it.
        show(attachment, writer);
        Ok((attachment, more))
    })
}

/// A new host in another process: it asks for a pool when a session wants something of this process.
#[cfg(target_os = "linux")]
pub(crate) fn attach_elsewhere(host: Arc<dyn Host>) -> Option<(usize, Vec<u32>)> {
    with(|registry| {
        let attachment = (0..MAX_ATTACHMENTS).find(|&n| registry.hosts[n].is_none())?;
        WRITERS[attachment].store(std::ptr::null_mut(), Ordering::Release);
        let mut numbers = Vec::new();
        for provider in &registry.providers {
            // Callbacks of providers that are there are told when a session enables them.
            let _ = introduce(provider, attachment, &*host);
            numbers.push(provider.registrations[attachment].load(Ordering::Relaxed));
        }
        registry.hosts[attachment] = Some(host);
        Some((attachment, numbers))
    })
}

/// The pool of such a host.
#[cfg(target_os = "linux")]
pub(crate) fn set_writer(attachment: usize, writer: &'static Writer) {
    show(attachment, writer);
}

/// What a session of a host wants (`Some`, with the time since when), or no longer wants, of the provider that the host knows by
/// `number`.
///
/// # Errors
/// `ERROR_NO_SYSTEM_RESOURCES` when the provider has eight sessions already, of all hosts together; nothing is changed then.
#[cfg(target_os = "linux")]
pub(crate) fn set(
    attachment: usize,
    number: u32,
    slot: u8,
    wanted: Option<(&LevelKeyword, Option<&StackFilter>, u64)>,
    source: Guid,
    filter_data: &[u8],
) -> Result<(), Status> {
    let route = route(attachment, slot);
    let changed = with(|registry| {
        // One that has unregistered meanwhile refuses nothing.
        let Some(provider) = by_number(registry, attachment, number) else { return Ok(None) };
        let changed = match wanted {
            Some((wanted, stacks, since)) => provider.want(route, wanted, stacks, since)?,
            None => provider.clear_slots(route),
        };
        Ok(changed.then_some(provider))
    })?;
    if let Some(provider) = changed {
        call(&provider, None, |provider| told(provider, source, false), filter_data);
    }
    Ok(())
}

/// Asks the provider that the host knows by `number` for its state.
#[cfg(target_os = "linux")]
pub(crate) fn capture(
    attachment: usize,
    number: u32,
    (level, any, all): (u8, u64, u64),
    source: Guid,
) {
    let change = EnableChange {
        control: ControlCode::CaptureState,
        level,
        any,
        all,
        source,
        filter_data: &[],
    };
    if let Some(provider) = with(|registry| by_number(registry, attachment, number)) {
        call(&provider, None, |_| Some(change), &[]);
    }
}

/// Has this process registered any?
#[cfg(all(target_os = "linux", feature = "control"))]
pub(crate) fn has_providers() -> bool {
    with(|registry| !registry.providers.is_empty())
}

/// Does a session of the host want call stacks of any provider?
#[cfg(target_os = "linux")]
pub(crate) fn wants_stacks(attachment: usize) -> bool {
    with(|registry| registry.providers.iter().any(|p| p.wants_stacks(attachment)))
}

/// Number, GUID and traits of every provider that a host knows.
#[cfg(target_os = "linux")]
pub(crate) fn introduced(attachment: usize) -> Vec<(u32, Guid, Vec<u8>)> {
    with(|registry| {
        let known = |provider: &ProviderRef| {
            let number = provider.registrations[attachment].load(Ordering::Relaxed);
            (number, provider.id(), provider.traits().to_vec())
        };
        registry.providers.iter().map(known).filter(|(number, ..)| *number != 0).collect()
    })
}

#[cfg(target_os = "linux")]
fn by_number(registry: &Registry, attachment: usize, number: u32) -> Option<ProviderRef> {
    let is_it = |provider: &&ProviderRef| {
        provider.registrations[attachment].load(Ordering::Relaxed) == number
    };
    registry.providers.iter().find(is_it).cloned()
}

/// The host is gone: nothing is sent to it any more.
pub(crate) fn detach(attachment: usize) {
    let touched = with(|registry| {
        registry.hosts[attachment] = None;
        let touched: Vec<_> = registry
            .providers
            .iter()
            .filter(|p| p.clear_slots(routes(attachment)))
            .cloned()
            .collect();
        touched
    });
    for provider in touched {
        call(&provider, None, |provider| told(provider, Guid::ZERO, false), &[]);
    }
}

/// A session wants (`Some`, with the time since when) or no longer wants (`None`) events of the provider or provider group `id`.
///
/// # Errors
/// `ERROR_NO_SYSTEM_RESOURCES` when a provider has eight sessions already; nothing is changed then.
pub(crate) fn enable(
    attachment: usize,
    slot: u8,
    id: Guid,
    wanted: Option<(&LevelKeyword, Option<&StackFilter>, u64)>,
    source: Guid,
    filter_data: &[u8],
) -> Result<(), Status> {
    let route = route(attachment, slot);
    let mut touched = Vec::new();
    let result = with(|registry| {
        let affected = registry.providers.iter().filter(|p| p.id() == id || p.group() == Some(id));
        for provider in affected {
            match wanted {
                Some((wanted, stacks, since))
                    if !provider.want(route, wanted, stacks, since)? =>
                {
                    continue;
                }
                Some(_) => {}
                None if !provider.clear_slots(route) => continue,
                None => {}
            }
            touched.push(provider.clone());
        }
        Ok(())
    });
    for provider in touched {
        call(&provider, None, |provider| told(provider, source, false), filter_data);
    }
    result
}

/// Asks the providers of `id` for the state that later events build on.
pub(crate) fn capture_state(id: Guid, level: u8, any: u64, all: u64, source: Guid) {
    let asked: Vec<ProviderRef> = with(|registry| {
        registry
            .providers
            .iter()
            .filter(|p| p.id() == id || p.group() == Some(id))
            .cloned()
            .collect()
    });
    let change = EnableChange {
        control: ControlCode::CaptureState,
        level,
        any,
        all,
        source,
        filter_data: &[],
    };
    for provider in asked {
        call(&provider, None, |_| Some(change), &[]);
    }
}

/// The state now, as a callback hears it. `only_enabled`: nothing to say when it is not.
fn told<'a>(provider: &Provider, source: Guid, only_enabled: bool) -> Option<EnableChange<'a>> {
    match provider.aggregate() {
        Some((level, any, all)) => Some(EnableChange {
            control: ControlCode::Enable,
            level,
            any,
            all,
            source,
            filter_data: &[],
        }),
        None if only_enabled => None,
        None => Some(EnableChange {
            control: ControlCode::Disable,
            level: 0,
            any: 0,
            all: 0,
            source,
            filter_data: &[],
        }),
    }
}

/// Calls a provider's callbacks, one change at a time, with what holds when their turn comes.
fn call(
    provider: &Provider,
    only: Option<u64>,
    change: impl FnOnce(&Provider) -> Option<EnableChange<'static>>,
    filter_data: &[u8],
) {
    let nested = IN_CALLBACK.get();
    let _one = (!nested).then(|| CALLBACKS.lock().unwrap_or_else(PoisonError::into_inner));
    let callbacks = provider.callbacks(only);
    if callbacks.is_empty() {
        return;
    }
    let Some(change) = change(provider) else { return };
    let change = EnableChange { filter_data, ..change };
    IN_CALLBACK.set(true);
    let reset = Reset(nested);
    for callback in callbacks {
        callback(&change);
    }
    drop(reset);
}

struct Reset(bool);

impl Drop for Reset {
    fn drop(&mut self) {
        IN_CALLBACK.set(self.0);
    }
}
