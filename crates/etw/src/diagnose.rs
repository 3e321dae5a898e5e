//! `ETW_DIAGNOSE=1`: the program reports on stderr why its events arrive or do not arrive.
//!
//! One line for each step of the chain: runtime directory, host, registration, enablement.

use std::fmt::Display;
use std::sync::OnceLock;

/// Whether `ETW_DIAGNOSE` asks for reports.
fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| {
        std::env::var_os("ETW_DIAGNOSE").is_some_and(|value| !value.is_empty() && value != "0")
    })
}

/// Reports a step. The message is made only if reports are on.
pub(crate) fn report<M: Display>(message: impl FnOnce() -> M) {
    if is_on() {
        eprintln!("etw[{}]: {}", std::process::id(), message());
    }
}
