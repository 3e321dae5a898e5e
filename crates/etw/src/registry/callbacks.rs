//! Enable callbacks: one runs at a time, with none of the registry's locks held.

use std::cell::Cell;
use std::sync::Mutex;

use etw_types::{Guid, Keyword, Level};

use crate::lock::lock;
use crate::provider::{ControlCode, EnableChange, Provider};

/// Held while callbacks run.
static RUNNING: Mutex<()> = Mutex::new(());

thread_local! {
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// The provider's enable state as a callback gets it. `None`: no session has it enabled, and `only_enabled` is set.
pub(super) fn enable_state<'a>(
    provider: &Provider,
    source: Guid,
    only_enabled: bool,
) -> Option<EnableChange<'a>> {
    let state = provider.aggregate();
    if state.is_none() && only_enabled {
        return None;
    }
    let control = if state.is_some() { ControlCode::Enable } else { ControlCode::Disable };
    let none = (Level(0), Keyword(0), Keyword(0));
    let (level, any, all) = state.map_or(none, |state| (state.level, state.any, state.all));
    Some(EnableChange { control, level, any, all, source, filter_data: &[] })
}

/// Calls a provider's callbacks, or `only` one of them. `change` is asked when their turn comes, so they get what holds then.
pub(super) fn call(
    provider: &Provider,
    only: Option<u64>,
    change: impl FnOnce(&Provider) -> Option<EnableChange<'static>>,
    filter_data: &[u8],
) {
    let nested = IN_CALLBACK.get();
    let _running = (!nested).then(|| lock(&RUNNING));
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

/// Returns when the callback that runs now has ended; at once within a callback.
pub(super) fn wait_for_running() {
    if !IN_CALLBACK.get() {
        drop(lock(&RUNNING));
    }
}

struct Reset(bool);

impl Drop for Reset {
    fn drop(&mut self) {
        IN_CALLBACK.set(self.0);
    }
}
