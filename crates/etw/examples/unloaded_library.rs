//! A library that registers a provider and leaves it registered. The tests for Windows load and unload it: the provider must be
//! unregistered then, since its callback is gone.

use etw::{define_provider, write_event};

define_provider!(LIBRARY, "Windows.UnloadedLibrary");

/// Registers the provider for good.
#[unsafe(no_mangle)]
pub extern "C" fn register_provider() {
    std::mem::forget(LIBRARY.register());
}

/// Writes an event, and returns its status.
#[unsafe(no_mangle)]
pub extern "C" fn write_one_event() -> u32 {
    write_event!(LIBRARY, "Loaded", u32("Number", &7)).0
}
