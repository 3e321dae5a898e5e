//! Classic providers of `evntrace.h`: their events have headers that sessions here do not write, so their calls say 50.

use etw_api::Status;

use crate::last_error::SetLastError;

macro_rules! not_supported {
    ($($name:ident)*) => {
        $(
            /// Its arguments, how many there may be, are not looked at.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> u32 {
                Status::ERROR_NOT_SUPPORTED.0
            }
        )*
    };
}

not_supported! {
    RegisterTraceGuidsW RegisterTraceGuidsA UnregisterTraceGuids TraceEvent TraceEventInstance CreateTraceInstanceId TraceMessage
    TraceMessageVa
}

/// A provider that is never enabled has no session's handle.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceLoggerHandle() -> u64 {
    SetLastError(Status::ERROR_NOT_SUPPORTED.0);
    u64::MAX
}

/// As above: the level is that of nothing.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceEnableLevel() -> u8 {
    SetLastError(Status::ERROR_NOT_SUPPORTED.0);
    0
}

/// As above.
#[unsafe(no_mangle)]
pub extern "C" fn GetTraceEnableFlags() -> u32 {
    SetLastError(Status::ERROR_NOT_SUPPORTED.0);
    0
}
