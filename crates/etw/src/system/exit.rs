//! The end of the module that this crate is linked into. A DLL that is unloaded with a registered provider leaves the system a
//! callback into memory that is unmapped, so all remaining registrations are unregistered first.

use std::ffi::c_int;

use crate::registry::{self, SystemHandle};

unsafe extern "C" {
    /// The C runtime of a DLL runs these functions when the DLL is unloaded, that of a program when it ends.
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// Installs the handler. Without memory for it, unloading is as unsafe as without this module.
pub(super) fn install() {
    at_exit(unregister_all);
}

/// Runs a function at the end of the module.
pub(crate) fn at_exit(function: extern "C" fn()) {
    // SAFETY: a function of this module, which is there when the module's handlers run.
    unsafe { atexit(function) };
}

extern "C" fn unregister_all() {
    for SystemHandle { is_classic, handle } in registry::take_system_handles() {
        super::unregister(is_classic, handle);
    }
}
