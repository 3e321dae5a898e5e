//! The process's providers and the hosts that it is attached to.
//!
//! Lock order: the registry, then a host's own locks, then a provider's state. Callbacks run with none of them held, but
//! with the callback lock, which serialises them and lets `unregister` wait for a running one.

#![cfg_attr(not(feature = "session"), allow(dead_code))]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use etw_ring::{MAX_ATTACHMENTS, Writer};
#[cfg(target_os = "linux")]
use etw_types::SchemaRecord;
use etw_types::{Guid, LevelKeyword, StackFilter, Wanted};

use crate::diagnose::report;
use crate::lock::lock as lock_mutex;
use crate::pools::{self, route, routes};
use crate::provider::{Entered, Following, Listeners, Provider, ProviderRef};

mod callbacks;
mod change;
mod filter_data;

#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
pub(crate) use callbacks::turns;
use callbacks::{call, enable_state};
#[cfg(feature = "session")]
pub(crate) use change::schemas_of;
pub(crate) use change::{Providers, capture_state, set};

/// The interface of a host for the registry.
pub(crate) trait Host: Send + Sync {
    /// Registers a provider.
    fn register(&self, provider: &Provider) -> HostRegistration;
    /// Unregisters a provider; its records may still be in the pool.
    fn unregister(&self, registration: u32);
    /// Waits a moment until the host has sent its sessions' enablements for a new registration; those that it has not applied
    /// itself. Called without any lock.
    fn settle(&self, provider: &Provider, registration: u32) -> Vec<Enable> {
        let _ = (provider, registration);
        Vec::new()
    }
    /// Ends what [`settle`](Self::settle) began. Called without any lock, after [`unregister`](Self::unregister).
    fn ended(&self, provider: &Provider) {
        let _ = provider;
    }
    /// Whether the host is another process. The first write of a child made by `fork` then attaches the child anew.
    #[cfg(unix)]
    fn is_elsewhere(&self) -> bool {
        false
    }
}

/// A provider's registration with a host.
pub(crate) struct HostRegistration {
    /// The number by which the host knows it.
    pub number: u32,
    /// The sessions that have it enabled already.
    pub enables: Vec<Enable>,
}

/// A new host with its pool.
pub(crate) struct NewHost<T> {
    pub host: Arc<dyn Host>,
    /// The writer of its pool.
    pub writer: &'static Writer,
    /// The value that the caller keeps.
    pub kept: T,
}

/// A host that was attached.
pub(crate) struct Attached<T> {
    pub attachment: usize,
    pub kept: T,
}

/// One session's enablement of a provider.
#[derive(Clone, Debug)]
pub(crate) struct Enable {
    pub slot: u8,
    pub wanted: LevelKeyword,
    /// The events that get a call stack.
    pub stacks: Option<StackFilter>,
    /// The time of the request, in nanoseconds of `CLOCK_MONOTONIC`.
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

/// The registry, held.
pub(crate) type Lock = MutexGuard<'static, Option<Registry>>;

pub(crate) fn lock() -> Lock {
    lock_mutex(&REGISTRY)
}

fn with<R>(change: impl FnOnce(&mut Registry) -> R) -> R {
    change(lock().get_or_insert_with(Registry::default))
}

impl Registry {
    /// Removes a host's sessions from all providers, and its writer.
    #[cfg(any(target_os = "linux", all(unix, feature = "session")))]
    fn forget(&self, attachment: usize) {
        for provider in &self.providers {
            provider.clear_slots(routes(attachment));
            provider.set_program_gates();
        }
        pools::forget_number(attachment);
        pools::clear_writer(attachment);
    }

    /// Registers all providers with a new host; their numbers.
    fn introduce_all(&self, attachment: usize, host: &dyn Host) -> Vec<u32> {
        // Their callbacks run when a session enables them.
        let introduced =
            self.providers.iter().inspect(|provider| introduce(provider, attachment, host));
        introduced.map(|provider| number_of(provider, attachment)).collect()
    }

    /// The number of a free attachment.
    fn free_attachment(&self) -> Option<usize> {
        self.hosts.iter().position(Option::is_none).filter(|&free| !pools::is_system(free))
    }
}

/// In the child of a fork: forgets the parent's hosts. They are not dropped, since their locks and threads are the parent's.
#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
pub(crate) fn forget_hosts(lock: &mut Lock) {
    let Some(registry) = lock.as_mut() else { return };
    for attachment in 0..MAX_ATTACHMENTS {
        let host = std::mem::ManuallyDrop::new(registry.hosts[attachment].take());
        // A host in another process stays enabled: the first write finds that its pool is the parent's.
        if !host.as_ref().is_some_and(|host| host.is_elsewhere()) {
            registry.forget(attachment);
        }
    }
}

/// Sets the gates in memory of the program, if no thread has the registry. Async-signal-safe.
pub(crate) fn try_set_program_gates(provider: &Provider) {
    if let Ok(_registry) = REGISTRY.try_lock() {
        provider.set_program_gates();
    }
}

/// In the child of a fork: forgets all that the parent was attached to. `false`: a thread of the parent holds the lock.
#[cfg(target_os = "linux")]
pub(crate) fn begin_anew() -> bool {
    let Ok(mut lock) = REGISTRY.try_lock() else { return false };
    let Some(registry) = lock.as_mut() else { return false };
    // An attached pool belongs to the child's own private session.
    for attachment in (0..MAX_ATTACHMENTS).filter(|&n| !pools::is_attached(n)) {
        std::mem::forget(registry.hosts[attachment].take());
        registry.forget(attachment);
    }
    true
}

/// Registers a provider with all hosts, and waits a moment for their sessions' enablements; the listener's number. The callback is
/// called once, with what all sessions ask for, if that is not what it knows: `known`.
pub(crate) fn register(
    provider: &ProviderRef,
    following: Following,
    known: Option<Wanted>,
) -> Option<u64> {
    let (number, hosts) = with(|registry| {
        let Entered { is_first, listener: number } = provider.enter(following);
        let mut hosts = Vec::new();
        if is_first {
            for (attachment, host) in registry.hosts.iter().enumerate() {
                if let Some(host) = host {
                    introduce(provider, attachment, &**host);
                    hosts.push((attachment, host.clone(), number_of(provider, attachment)));
                }
            }
            registry.providers.push(provider.clone());
        }
        (number, hosts)
    });
    for (attachment, host, at_host) in hosts {
        let enables = host.settle(provider, at_host);
        with(|_| enable_all(provider, attachment, enables));
    }
    report(|| registration_report(provider));
    if let Some(number) = number {
        callbacks::begin(provider, number, known);
    }
    number
}

/// The report for a new registration.
fn registration_report(provider: &Provider) -> String {
    let (name, id) = (provider.name(), provider.id());
    let state = match provider.aggregate() {
        Some(state) => format!("enabled up to level {}, keywords {:#x}", state.level, state.any),
        None => "no session has it enabled".to_owned(),
    };
    let hint = match name.is_empty() || Guid::from_name(name) == id {
        true => "",
        false => {
            "; its GUID is not derived from its name, so sessions enable it by GUID or plain name, not as *Name"
        }
    };
    format!("registered {name} {id}: {state}{hint}")
}

/// Registers a provider with one host, and sets its sessions' enablements.
fn introduce(provider: &Provider, attachment: usize, host: &dyn Host) {
    let HostRegistration { number, enables } = host.register(provider);
    provider.registrations[attachment].store(number, Ordering::Relaxed);
    enable_all(provider, attachment, enables);
}

/// Sets the enablements of a new registration.
fn enable_all(provider: &Provider, attachment: usize, enables: Vec<Enable>) {
    for enable in enables {
        // A ninth session gets its refusal when it enables a registered provider; for a later registration it stays without.
        let route = route(attachment, enable.slot);
        let _ = provider.want(route, &enable.wanted, enable.stacks.as_ref(), enable.since);
        provider.count_change(&filter_data::with_instance(
            &enable.filter_data,
            attachment,
            enable.slot,
        ));
    }
}

/// Removes one registration; with the last one, the hosts' sessions.
pub(crate) fn unregister(provider: &ProviderRef, listener: Option<u64>) {
    let (removed, ended) = with(|registry| {
        let removed = listener.and_then(|number| provider.remove_listener(number));
        if !provider.leave() {
            return (removed, Vec::new());
        }
        provider.clear_slots(u64::MAX);
        report(|| {
            format!(
                "unregistered {} {}; keep the registration in a variable other than `_` for as long as events shall be recorded",
                provider.name(),
                provider.id()
            )
        });
        registry.providers.retain(|other| !std::ptr::eq::<Provider>(&**other, &**provider));
        let hosts = registry.hosts.iter().enumerate();
        let hosts = hosts.filter_map(|(attachment, host)| Some((attachment, host.clone()?)));
        let unregister = |(attachment, host): (usize, Arc<dyn Host>)| {
            host.unregister(number_of(provider, attachment));
            host
        };
        (removed, hosts.map(unregister).collect())
    });
    for host in ended {
        host.ended(provider);
    }
    if removed.is_some_and(|listener| listener.has_callback()) {
        callbacks::wait_for_running();
    }
}

/// Attaches a private session as a host: `make` gets the attachment's number and makes its pool.
///
/// # Errors
/// `full` if all attachments are taken, or the error of `make`.
pub(crate) fn attach<T, E>(
    make: impl FnOnce(usize) -> Result<NewHost<T>, E>,
    full: impl FnOnce() -> E,
) -> Result<Attached<T>, E> {
    with(|registry| {
        let attachment = registry.free_attachment().ok_or_else(full)?;
        let NewHost { host, writer, kept } = make(attachment)?;
        registry.introduce_all(attachment, &*host);
        registry.hosts[attachment] = Some(host);
        pools::number_private(attachment);
        pools::set_writer(attachment, writer);
        Ok(Attached { attachment, kept })
    })
}

/// Attaches a host in another process, which asks for a pool when a session enables a provider of this process. The numbers
/// are those of the registrations that the host now answers.
#[cfg(target_os = "linux")]
pub(crate) fn attach_elsewhere(host: Arc<dyn Host>) -> Option<Attached<Vec<u32>>> {
    with(|registry| {
        let attachment = registry.free_attachment()?;
        pools::clear_writer(attachment);
        pools::number_global(attachment);
        let numbers = registry.introduce_all(attachment, &*host);
        registry.hosts[attachment] = Some(host);
        Some(Attached { attachment, kept: numbers })
    })
}

/// Detaches a host: its sessions want nothing more.
pub(crate) fn detach(attachment: usize) {
    let changed: Vec<(ProviderRef, Listeners)> = with(|registry| {
        registry.hosts[attachment] = None;
        let changed = registry.providers.iter().filter(|p| p.clear_slots(routes(attachment)));
        let changed = changed.map(|p| (p.clone(), Listeners::Of(p.count_change(&[])))).collect();
        pools::forget_number(attachment);
        changed
    });
    for (provider, listeners) in changed {
        call(&provider, listeners, |provider| enable_state(provider, Guid::ZERO), &[]);
    }
}

/// Makes Windows itself a host, once; whether this call did.
#[cfg(windows)]
pub(crate) fn attach_system(attachment: usize, make: impl FnOnce() -> Arc<dyn Host>) -> bool {
    with(|registry| {
        let is_new = registry.hosts[attachment].is_none();
        if is_new {
            let host = make();
            registry.introduce_all(attachment, &*host);
            registry.hosts[attachment] = Some(host);
        }
        is_new
    })
}

/// A handle that Windows gave a provider.
#[cfg(windows)]
pub(crate) struct SystemHandle {
    pub is_classic: bool,
    pub handle: u64,
}

/// Takes the system's handles from all providers. Nothing, if another thread holds the registry.
#[cfg(windows)]
pub(crate) fn take_system_handles() -> Vec<SystemHandle> {
    let Ok(lock) = REGISTRY.try_lock() else { return Vec::new() };
    let providers = lock.iter().flat_map(|registry| &registry.providers);
    let handle_of = |provider: &ProviderRef| SystemHandle {
        is_classic: provider.is_classic(),
        handle: provider.system.take(),
    };
    providers.map(handle_of).collect()
}

/// Sets the session that the system enabled a classic provider for.
#[cfg(windows)]
pub(crate) fn set_system_logger(attachment: usize, number: u32, logger: u64) {
    with(|registry| {
        let named = |provider: &&ProviderRef| number_of(provider, attachment) == number;
        if let Some(provider) = registry.providers.iter().find(named) {
            provider.system.set_logger(logger);
        }
    });
}

/// Whether this process has registered any provider.
#[cfg(all(target_os = "linux", feature = "control"))]
pub(crate) fn has_providers() -> bool {
    with(|registry| !registry.providers.is_empty())
}

/// Whether a session of the host wants call stacks of any provider.
#[cfg(target_os = "linux")]
pub(crate) fn wants_stacks(attachment: usize) -> bool {
    with(|registry| registry.providers.iter().any(|p| p.wants_stacks(attachment)))
}

/// A provider as a host knows it.
#[cfg(target_os = "linux")]
pub(crate) struct Introduced {
    pub number: u32,
    pub id: Guid,
    pub traits: Vec<u8>,
    pub schemas: Vec<SchemaRecord>,
}

#[cfg(target_os = "linux")]
impl Introduced {
    pub fn of(provider: &Provider, number: u32) -> Introduced {
        let schemas = crate::schemas::of(provider);
        Introduced { number, id: provider.id(), traits: provider.traits().to_vec(), schemas }
    }
}

/// Every provider that the host knows.
#[cfg(target_os = "linux")]
pub(crate) fn introduced(attachment: usize) -> Vec<Introduced> {
    with(|registry| {
        let introduced =
            |provider: &ProviderRef| Introduced::of(provider, number_of(provider, attachment));
        registry.providers.iter().map(introduced).filter(|it| it.number != 0).collect()
    })
}

/// The number by which a host knows a provider.
fn number_of(provider: &Provider, attachment: usize) -> u32 {
    provider.registrations[attachment].load(Ordering::Relaxed)
}
