//! The names that functions of `evntprov.h` have in `ntdll`.

use std::ffi::c_void;

use crate::abi::{RawData, RawDescriptor, RawGuid};
use crate::evntprov::{
    EventActivityIdControl, EventEnabled, EventProviderEnabled, EventRegister, EventSetInformation,
    EventUnregister, EventWriteEx, EventWriteString, RawCallback,
};
use crate::write::{EventWrite, EventWriteTransfer};

macro_rules! etw_names {
    ($($name:ident = $of:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// The name in `ntdll`.
        ///
        /// # Safety
        #[doc = concat!("As [`", stringify!($of), "`].")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            #[allow(unused_unsafe)]
            // SAFETY: the arguments and their clauses are those of the function with the other name.
            unsafe { $of($($argument),*) }
        }
    )*};
}

etw_names! {
    EtwEventRegister = EventRegister(provider: *const RawGuid, callback: Option<RawCallback>, context: *mut c_void, handle: *mut u64);
    EtwEventUnregister = EventUnregister(handle: u64);
    EtwEventSetInformation = EventSetInformation(handle: u64, class: u32, data: *const c_void, size: u32);
    EtwEventWrite = EventWrite(handle: u64, descriptor: *const RawDescriptor, count: u32, data: *const RawData);
    EtwEventWriteTransfer = EventWriteTransfer(handle: u64, descriptor: *const RawDescriptor, activity: *const RawGuid, related: *const RawGuid, count: u32, data: *const RawData);
    EtwEventWriteEx = EventWriteEx(handle: u64, descriptor: *const RawDescriptor, filter: u64, flags: u32, activity: *const RawGuid, related: *const RawGuid, count: u32, data: *const RawData);
    EtwEventWriteString = EventWriteString(handle: u64, level: u8, keyword: u64, text: *const u16);
    EtwEventActivityIdControl = EventActivityIdControl(code: u32, id: *mut RawGuid);
}

/// # Safety
/// ONE `descriptor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EtwEventEnabled(handle: u64, descriptor: *const RawDescriptor) -> u8 {
    // SAFETY: ONE.
    unsafe { EventEnabled(handle, descriptor) }
}

/// The name in `ntdll`.
#[unsafe(no_mangle)]
pub extern "C" fn EtwEventProviderEnabled(handle: u64, level: u8, keyword: u64) -> u8 {
    EventProviderEnabled(handle, level, keyword)
}
