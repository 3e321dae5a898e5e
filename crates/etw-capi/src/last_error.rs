//! `GetLastError`: why a call failed that returns no status.

use std::cell::Cell;

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
}

/// What the thread's last call of this kind said.
#[unsafe(no_mangle)]
pub extern "C" fn GetLastError() -> u32 {
    LAST.get()
}

/// Says it.
#[unsafe(no_mangle)]
pub extern "C" fn SetLastError(code: u32) {
    LAST.set(code);
}
