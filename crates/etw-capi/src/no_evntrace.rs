//! `evntrace.h` for controllers on systems without a host for global sessions: every function returns 50.

use etw_api::Status;

macro_rules! not_supported {
    ($($name:ident)*) => {
        $(
            /// Returns 50 without reading its arguments.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> u32 {
                Status::ERROR_NOT_SUPPORTED.0
            }
        )*
    };
}

/// Returns `STATUS_NOT_SUPPORTED` without reading its arguments.
#[unsafe(no_mangle)]
pub extern "C" fn NtQuerySystemInformation() -> u32 {
    0xc000_00bb
}

/// Returns `STATUS_NOT_SUPPORTED` without reading its arguments.
#[unsafe(no_mangle)]
pub extern "C" fn NtSetSystemInformation() -> u32 {
    0xc000_00bb
}

not_supported! {
    StartTraceW StartTraceA StopTraceW StopTraceA QueryTraceW QueryTraceA UpdateTraceW UpdateTraceA FlushTraceW FlushTraceA
    ControlTraceW ControlTraceA QueryAllTracesW QueryAllTracesA EnableTrace EnableTraceEx EnableTraceEx2 TraceSetInformation
    TraceQueryInformation EnumerateTraceGuids EnumerateTraceGuidsEx
}
