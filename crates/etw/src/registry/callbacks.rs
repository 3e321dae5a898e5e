//! Enable callbacks: one runs at a time, with none of the registry's locks held.

use std::cell::Cell;
use std::sync::{Condvar, PoisonError};

use etw_ring::process_generation;
use etw_types::{Guid, Keyword, Level, Wanted};

use super::with;
use crate::lock::ForkLock;
use crate::provider::{Begun, ControlCode, EnableChange, Listeners, Provider};

/// The turn of the thread that runs callbacks. The lock is held for a moment only, not while they run, so that a fork can wait for it.
struct Turns {
    /// The number of the turn that runs; 0: none.
    running: u64,
    last: u64,
    /// The process of the turn that runs. In the child of a fork, a turn of the parent's is none: its thread is not there.
    process: u64,
}

static TURNS: ForkLock<Turns> = ForkLock::new(Turns { running: 0, last: 0, process: 0 });
static ENDED: Condvar = Condvar::new();

/// The lock of the turns, for a fork.
#[cfg(any(target_os = "linux", all(unix, feature = "session")))]
pub(crate) fn turns() -> &'static dyn crate::lock::HeldByFork {
    &TURNS
}

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// A turn: no other thread runs callbacks meanwhile.
struct Turn(u64);

impl Turn {
    /// Waits for a turn. `None` within a callback: its turn goes on.
    fn take() -> Option<Turn> {
        if IN_CALLBACK.get() {
            return None;
        }
        let process = process_generation();
        let is_taken = |turns: &mut Turns| turns.running != 0 && turns.process == process;
        let turns = ENDED.wait_while(TURNS.lock(), is_taken);
        let mut turns = turns.unwrap_or_else(PoisonError::into_inner);
        turns.last += 1;
        *turns = Turns { running: turns.last, last: turns.last, process };
        Some(Turn(turns.last))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = TURNS.lock();
        // In the child of a fork within a callback, another thread of the child may have a turn by now.
        if turns.running == self.0 {
            turns.running = 0;
            ENDED.notify_all();
        }
    }
}

/// The provider's enable state as a callback gets it.
pub(super) fn enable_state<'a>(provider: &Provider, source: Guid) -> EnableChange<'a> {
    change_to(provider.aggregate(), source)
}

fn change_to<'a>(state: Option<Wanted>, source: Guid) -> EnableChange<'a> {
    let control = if state.is_some() { ControlCode::Enable } else { ControlCode::Disable };
    let none = (Level(0), Keyword(0), Keyword(0));
    let (level, any, all) = state.map_or(none, |state| (state.level, state.any, state.all));
    EnableChange { control, level, any, all, source, filter_data: &[] }
}

/// Calls a provider's callbacks. `change` is asked when their turn comes, so they get what holds then.
pub(super) fn call(
    provider: &Provider,
    listeners: Listeners,
    change: impl FnOnce(&Provider) -> EnableChange<'static>,
    filter_data: &[u8],
) {
    let _turn = Turn::take();
    let callbacks = with(|_| provider.callbacks(listeners));
    if callbacks.is_empty() {
        return;
    }
    let change = EnableChange { filter_data, ..change(provider) };
    let _within = Within::begin();
    for callback in callbacks {
        callback(&change);
    }
}

/// Ends a registration: calls its callback if the enable state is not the one that it knows, `known`. Later changes find the callback
/// in the list, and those that the state contains are not told again.
pub(super) fn begin(provider: &Provider, listener: u64, known: Option<Wanted>) {
    let _turn = Turn::take();
    let Some(begun) = with(|_| provider.begin_listener(listener)) else { return };
    let Begun { callback, state, filter_data } = begun;
    if state == known {
        return;
    }
    // OV-15: a session enabled the provider before it registered; which one is not known here.
    let change = EnableChange { filter_data: &filter_data, ..change_to(state, Guid::ZERO) };
    let _within = Within::begin();
    callback(&change);
}

/// Returns when the callback that runs now has ended; at once within a callback.
pub(super) fn wait_for_running() {
    drop(Turn::take());
}

/// Marks the thread as one that runs callbacks.
struct Within {
    before: bool,
}

impl Within {
    fn begin() -> Within {
        Within { before: IN_CALLBACK.replace(true) }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        IN_CALLBACK.set(self.before);
    }
}
