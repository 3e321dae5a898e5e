//! The end of the module that this crate is linked into. A DLL that is unloaded with a registered provider leaves the system a
//! callback into memory that is unmapped, so all remaining registrations are unregistered first.

use std::ffi::c_int;
#[cfg(feature = "session")]
use std::ffi::c_void;

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

/// Whether this code is linked into the program, and not into a library that it has loaded.
#[cfg(feature = "session")]
pub(crate) fn is_program() -> bool {
    const FROM_ADDRESS: u32 = 4;
    const UNCHANGED_COUNT: u32 = 2;
    let (mut own, mut program) = (std::ptr::null_mut(), std::ptr::null_mut());
    let address = is_program as *const () as *const c_void;
    // SAFETY: an address of this module, no name for that of the program, and places for both handles.
    unsafe {
        GetModuleHandleExA(FROM_ADDRESS | UNCHANGED_COUNT, address, &mut own);
        GetModuleHandleExA(UNCHANGED_COUNT, std::ptr::null(), &mut program);
    }
    std::ptr::eq(own, program)
}

#[cfg(feature = "session")]
#[link(name = "kernel32")]
unsafe extern "system" {
    fn GetModuleHandleExA(flags: u32, name: *const c_void, module: *mut *mut c_void) -> i32;
}

extern "C" fn unregister_all() {
    for SystemHandle { is_classic, handle } in registry::take_system_handles() {
        super::unregister(is_classic, handle);
    }
}
