//! Windows: Ctrl-C and the end of the console, waited for instead of handled.

use crate::output::Failure;
use std::sync::{Condvar, Mutex, PoisonError};

/// Console events that have not been waited for.
static EVENTS: Mutex<u32> = Mutex::new(0);
static NEW_EVENT: Condvar = Condvar::new();

/// The number that Linux' commands have for Ctrl-C, for exit statuses.
const INTERRUPT: i32 = 2;
/// `CTRL_C_EVENT`, `CTRL_BREAK_EVENT`; the others end the process when their handler returns.
const LAST_EVENT_OF_KEYS: u32 = 1;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn SetConsoleCtrlHandler(
        handler: Option<unsafe extern "system" fn(u32) -> i32>,
        add: i32,
    ) -> i32;
}

/// Console events of this process.
pub struct Signals(());

impl Signals {
    /// From here on, console events do not end the process.
    pub fn block() -> Result<Signals, Failure> {
        // SAFETY: a handler that touches statics alone.
        match unsafe { SetConsoleCtrlHandler(Some(on_event), 1) } {
            0 => Err(Failure::new(std::io::Error::last_os_error())),
            _ => Ok(Signals(())),
        }
    }

    /// Waits for Ctrl-C or the end of the console; its number as a signal.
    pub fn wait_for_end(&self) -> i32 {
        let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
        while *events == 0 {
            events = NEW_EVENT.wait(events).unwrap_or_else(PoisonError::into_inner);
        }
        *events -= 1;
        INTERRUPT
    }
}

/// The console's `HANDLER_ROUTINE`, on a thread of its own.
unsafe extern "system" fn on_event(event: u32) -> i32 {
    *EVENTS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    NEW_EVENT.notify_all();
    // The system ends the process when this returns, or after some seconds: time to stop the session.
    while event > LAST_EVENT_OF_KEYS {
        std::thread::park();
    }
    1
}
