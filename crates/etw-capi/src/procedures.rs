//! `etw_procedure`: addresses of this library's functions by name, for `GetProcAddress` of the Windows headers.

use std::ffi::{c_char, c_void};

use crate::abi::text_of;

macro_rules! procedures {
    ($($name:ident)*) => {
        // The signatures do not matter: only the addresses are used.
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
    EvtCancel EvtClose EvtCreateBookmark EvtCreateRenderContext EvtExportLog EvtFormatMessage EvtGetEventInfo
    EvtGetEventMetadataProperty EvtGetExtendedStatus EvtGetLogInfo EvtGetObjectArrayProperty EvtGetObjectArraySize
    EvtGetPublisherMetadataProperty EvtGetQueryInfo EvtNext EvtNextEventMetadata EvtNextPublisherId EvtOpenEventMetadataEnum
    EvtOpenLog EvtOpenPublisherEnum EvtOpenPublisherMetadata EvtOpenSession EvtArchiveExportedLog EvtQuery EvtRender EvtSeek
    EvtUpdateBookmark
    EventWriteTransfer FlushTraceA FlushTraceW GetTraceEnableFlags GetTraceEnableLevel GetTraceLoggerHandle NtQuerySystemInformation
    NtSetSystemInformation OpenTraceA OpenTraceFromBufferStream OpenTraceFromFile OpenTraceFromRealTimeLogger
    OpenTraceFromRealTimeLoggerWithAllocationOptions OpenTraceW ProcessTrace QueryTraceProcessingHandle
    QueryAllTracesA QueryAllTracesW QueryTraceA QueryTraceW RegisterTraceGuidsA RegisterTraceGuidsW
    StartTraceA StartTraceW StopTraceA StopTraceW TdhAggregatePayloadFilters TdhCleanupPayloadEventFilterDescriptor
    TdhCloseDecodingHandle TdhCreatePayloadFilter TdhDeletePayloadFilter TdhEnumerateManifestProviderEvents
    TdhEnumerateProviderFieldInformation TdhEnumerateProviderFilters TdhEnumerateProviders
    TdhEnumerateProvidersForDecodingSource TdhFormatProperty TdhGetDecodingParameter TdhGetEventInformation
    TdhGetEventMapInformation TdhGetManifestEventInformation TdhGetProperty TdhGetPropertySize TdhGetWppMessage
    TdhGetWppProperty TdhLoadManifest TdhLoadManifestFromBinary TdhLoadManifestFromMemory TdhOpenDecodingHandle
    TdhQueryProviderFieldInformation TdhSetDecodingParameter TdhUnloadManifest TdhUnloadManifestFromMemory TraceEvent
    TraceEventInstance TraceMessage TraceMessageVa TraceQueryInformation TraceSetInformation UnregisterTraceGuids UpdateTraceA
    UpdateTraceW
    BackupEventLogA BackupEventLogW ClearEventLogA ClearEventLogW CloseEventLog DeregisterEventSource EvtClearLog
    EvtGetChannelConfigProperty EvtNextChannelPath EvtOpenChannelConfig EvtOpenChannelEnum EvtSaveChannelConfig
    EvtSetChannelConfigProperty GetEventLogInformation GetNumberOfEventLogRecords GetOldestEventLogRecord
    OpenBackupEventLogA OpenBackupEventLogW OpenEventLogA OpenEventLogW ReadEventLogA ReadEventLogW RegisterEventSourceA
    RegisterEventSourceW ReportEventA ReportEventW
}

/// The address of a function of this library, or NULL. The caller converts it to the type that its header declares.
///
/// # Safety
/// TEXT `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etw_procedure(name: *const c_char) -> *const c_void {
    // SAFETY: TEXT.
    unsafe { text_of(name) }
        .and_then(find)
        .map_or(std::ptr::null(), |procedure| procedure as *const c_void)
}
