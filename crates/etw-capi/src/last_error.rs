//! `GetLastError` and `SetLastError`: the status of functions that return none.

use std::cell::Cell;

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(0) };
}

/// The last error of the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn GetLastError() -> u32 {
    LAST.get()
}

/// Sets the last error of the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn SetLastError(code: u32) {
    LAST.set(code);
}
