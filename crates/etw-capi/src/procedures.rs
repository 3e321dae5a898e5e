//! Procedures by name, for programs that ask `GetProcAddress` whether a call is there.

use std::ffi::{CStr, c_char, c_void};

macro_rules! procedures {
    ($($name:ident)*) => {
        // Of any signature: only their addresses are taken.
        #[allow(clashing_extern_declarations)]
        unsafe extern "C" {
            $(fn $name();)*
        }

        fn find(wanted: &[u8]) -> Option<unsafe extern "C" fn()> {
            $(if wanted == stringify!($name).as_bytes() {
                return Some($name);
            })*
            None
        }
    };
}

procedures! {
    CloseTrace ControlTraceA ControlTraceW CreateTraceInstanceId EnableTrace EnableTraceEx EnableTraceEx2 EnumerateTraceGuids
    EnumerateTraceGuidsEx EtwEventActivityIdControl EtwEventEnabled EtwEventProviderEnabled EtwEventRegister
    EtwEventSetInformation EtwEventUnregister EtwEventWrite EtwEventWriteEx EtwEventWriteFull EtwEventWriteString
    EtwEventWriteTransfer EventAccessControl EventAccessQuery EventAccessRemove EventActivityIdControl EventEnabled
    EventProviderEnabled EventRegister EventSetInformation EventUnregister EventWrite EventWriteEx EventWriteString
    EventWriteTransfer FlushTraceA FlushTraceW GetTraceEnableFlags GetTraceEnableLevel GetTraceLoggerHandle OpenTraceA
    OpenTraceW ProcessTrace QueryAllTracesA QueryAllTracesW QueryTraceA QueryTraceW RegisterTraceGuidsA RegisterTraceGuidsW
    StartTraceA StartTraceW StopTraceA StopTraceW TdhAggregatePayloadFilters TdhCleanupPayloadEventFilterDescriptor
    TdhCloseDecodingHandle TdhCreatePayloadFilter TdhDeletePayloadFilter TdhEnumerateManifestProviderEvents
    TdhEnumerateProviderFieldInformation TdhEnumerateProviderFilters TdhEnumerateProviders
    TdhEnumerateProvidersForDecodingSource TdhFormatProperty TdhGetDecodingParameter TdhGetEventInformation
    TdhGetEventMapInformation TdhGetManifestEventInformation TdhGetProperty TdhGetPropertySize TdhGetWppMessage
    TdhGetWppProperty TdhLoadManifest TdhLoadManifestFromBinary TdhLoadManifestFromMemory TdhOpenDecodingHandle
    TdhQueryProviderFieldInformation TdhSetDecodingParameter TdhUnloadManifest TdhUnloadManifestFromMemory TraceEvent
    TraceEventInstance TraceMessage TraceMessageVa TraceQueryInformation TraceSetInformation UnregisterTraceGuids UpdateTraceA
    UpdateTraceW
}

/// Where the procedure of this name is; NULL where there is none. It takes what its header says.
///
/// # Safety
/// NULL, or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_procedure(name: *const c_char) -> *const c_void {
    if name.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    find(name.to_bytes()).map_or(std::ptr::null(), |procedure| procedure as *const c_void)
}
