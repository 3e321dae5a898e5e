//! Commands for the engine thread of a private session, and the state that it shares with the program.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use etw_ring::Control;
use etw_session::EnableInfo;
use etw_types::{Guid, SchemaRecord};

use super::options::{SessionStatistics, Stopped};
use crate::part::Part;
use crate::registrations::Provider;

pub(super) type Reply<T> = Sender<T>;

pub(super) enum Command {
    Enable(Guid, TimedEnablement, Reply<()>),
    Disable(Guid, Reply<()>),
    Schemas(Vec<SchemaRecord>, Reply<()>),
    Flush(Reply<io::Result<()>>),
    Query(Reply<SessionStatistics>),
    Snapshot(PathBuf, Reply<io::Result<u64>>),
    Stop(Reply<Stopped>),
}

/// State of a private session that the program's threads and the engine thread share.
pub(super) struct Shared {
    pub commands: Mutex<VecDeque<Command>>,
    /// Set with a command: the engine thread looks at it before it sleeps.
    pub has_commands: AtomicBool,
    pub registrations: Mutex<Registered>,
    pub control: Control,
    pub generation: u64,
}

impl Shared {
    pub fn new(control: Control, part: Option<Part>) -> Shared {
        Shared {
            commands: Mutex::default(),
            has_commands: AtomicBool::new(false),
            registrations: Mutex::new(Registered { part, ..Registered::default() }),
            control,
            generation: etw_ring::process_generation(),
        }
    }
}

/// An enablement, and when it was requested.
#[derive(Clone, Debug)]
pub struct TimedEnablement {
    /// The enablement.
    pub info: EnableInfo,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub since: u64,
}

/// Registrations and enablements.
#[derive(Default)]
pub(super) struct Registered {
    /// By number; number 0 names no provider.
    pub providers: Vec<Provider>,
    pub part: Option<Part>,
    pub enabled: HashMap<Guid, TimedEnablement>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
