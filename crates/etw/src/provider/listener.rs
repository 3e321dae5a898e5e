//! The registrations of a provider that follow its enable state: by a callback, by a gate in memory of the program, or by both.
//!
//! The functions here are called with the registry's lock, so that no thread of the parent holds a provider's state in the child of a
//! fork.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use etw_types::Wanted;

use super::Provider;
use super::callback::{Callback, EnableCallback};

/// The level and keywords of all of a provider's sessions together, in memory of a program: `TraceLoggingProvider.h` compares an event
/// with them before it calls the library. The registry sets them; no callback is needed, so they are right in the child of a fork.
#[doc(hidden)]
#[derive(Debug, Default)]
#[repr(C)]
pub struct ProgramGate {
    /// 0: no session has the provider.
    level_plus_1: AtomicU32,
    any: AtomicU64,
    all: AtomicU64,
}

impl ProgramGate {
    fn set(&self, state: Option<Wanted>) {
        if let Some(Wanted { any, all, .. }) = state {
            self.any.store(any.0, Ordering::Relaxed);
            self.all.store(all.0, Ordering::Relaxed);
        }
        let level = state.map_or(0, |state| u32::from(state.level.0) + 1);
        self.level_plus_1.store(level, Ordering::Relaxed);
    }
}

/// A follower of a provider's enable state: a callback, a gate, or both.
#[derive(Clone, Default)]
pub(crate) struct Following {
    pub callback: Option<Arc<EnableCallback>>,
    pub gate: Option<&'static ProgramGate>,
}

impl Following {
    pub(crate) fn callback(callback: Option<Arc<EnableCallback>>) -> Following {
        Following { callback, gate: None }
    }
}

#[derive(Debug)]
pub(crate) struct Listener {
    number: u64,
    callback: Option<Callback>,
    gate: Option<&'static ProgramGate>,
    /// The number of the last change that the callback knew when its registration ended; `None` while that goes on.
    told: Option<u64>,
    /// The last schematised filter of a change while the registration goes on.
    filter_data: Vec<u8>,
}

impl Listener {
    pub(crate) fn has_callback(&self) -> bool {
        self.callback.is_some()
    }
}

/// The callbacks that a call is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listeners {
    /// Those that do not know of the change with this number. A registration that goes on gets all changes at its end.
    Of(u64),
    All,
}

/// A callback at the end of its registration.
pub(crate) struct Begun {
    pub callback: Arc<EnableCallback>,
    /// The provider's enable state; `None` without a session.
    pub state: Option<Wanted>,
    pub filter_data: Vec<u8>,
}

/// A registration that was added to a provider.
pub(crate) struct Entered {
    /// Whether the provider has no other.
    pub is_first: bool,
    /// The number of its listener, if anything follows the enable state.
    pub listener: Option<u64>,
}

impl Provider {
    /// Adds a registration. Its callback is not called before [`begin_listener`](Self::begin_listener).
    pub(crate) fn enter(&self, following: Following) -> Entered {
        let Following { callback, gate } = following;
        let state = self.aggregate();
        let mut of = self.state();
        of.registered += 1;
        if of.registered == 1 {
            // Enablements of an earlier registration do not count as newer.
            of.classic.since = 0;
        }
        let listener = (callback.is_some() || gate.is_some()).then(|| {
            of.next_listener += 1;
            let number = of.next_listener;
            if let Some(gate) = gate {
                gate.set(state);
            }
            let callback = callback.map(Callback);
            of.listeners.push(Listener {
                number,
                callback,
                gate,
                told: None,
                filter_data: Vec::new(),
            });
            number
        });
        Entered { is_first: of.registered == 1, listener }
    }

    /// Removes a registration; whether it was the last.
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.state();
        state.registered -= 1;
        state.registered == 0
    }

    /// Closes a listener's gate, and removes the listener. The caller drops it without the registry's lock.
    pub(crate) fn remove_listener(&self, number: u64) -> Option<Listener> {
        let mut state = self.state();
        let at = state.listeners.iter().position(|listener| listener.number == number)?;
        let listener = state.listeners.swap_remove(at);
        if let Some(gate) = listener.gate {
            gate.set(None);
        }
        Some(listener)
    }

    /// Ends the registration of a listener: from now on its callback is called for changes.
    pub(crate) fn begin_listener(&self, number: u64) -> Option<Begun> {
        let state = self.aggregate();
        let mut of = self.state();
        let changes = of.changes;
        let listener = of.listeners.iter_mut().find(|listener| listener.number == number)?;
        listener.told = Some(changes);
        let filter_data = std::mem::take(&mut listener.filter_data);
        Some(Begun { callback: listener.callback.as_ref()?.0.clone(), state, filter_data })
    }

    /// Sets the gates, and counts a change of the enable state; its number. `filter_data`: the schematised filter that came with it.
    pub(crate) fn count_change(&self, filter_data: &[u8]) -> u64 {
        self.set_program_gates();
        let mut state = self.state();
        state.changes += 1;
        for listener in state.listeners.iter_mut().filter(|listener| listener.told.is_none()) {
            if !filter_data.is_empty() {
                listener.filter_data = filter_data.to_vec();
            }
        }
        state.changes
    }

    /// Sets the gates in memory of the program to the enable state.
    pub(crate) fn set_program_gates(&self) {
        let state = self.aggregate();
        for gate in self.state().listeners.iter().filter_map(|listener| listener.gate) {
            gate.set(state);
        }
    }

    pub(crate) fn callbacks(&self, listeners: Listeners) -> Vec<Arc<EnableCallback>> {
        let state = self.state();
        let wanted = state.listeners.iter().filter(|listener| match listeners {
            Listeners::Of(change) => listener.told.is_some_and(|told| told < change),
            Listeners::All => true,
        });
        wanted.filter_map(|listener| Some(listener.callback.as_ref()?.0.clone())).collect()
    }
}
