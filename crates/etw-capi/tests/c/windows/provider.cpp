// A provider as programs for Windows are written: events by descriptor and by TraceLogging. Its includes are Windows'.
#include <windows.h>
#include <stdio.h>
#include <evntprov.h>
#include <TraceLoggingProvider.h>
#include <winmeta.h>

#pragma comment(lib, "advapi32.lib")

// {4B5C3A3D-08E0-4A38-8C06-4C3D5AC9F0E1}
static const GUID ProviderGuid =
    {0x4b5c3a3d, 0x8e0, 0x4a38, {0x8c, 0x6, 0x4c, 0x3d, 0x5a, 0xc9, 0xf0, 0xe1}};
TRACELOGGING_DEFINE_PROVIDER(g_hMyProvider, "Samples.Windows",
    (0x4b5c3a3d, 0x8e0, 0x4a38, 0x8c, 0x6, 0x4c, 0x3d, 0x5a, 0xc9, 0xf0, 0xe2));

#define MAX_PAYLOAD_DESCRIPTORS 9

enum Status { Idle, Busy = 5 };

static BOOLEAN g_bEnabled = FALSE;

void NTAPI EnableCallback(
    _In_ LPCGUID SourceId,
    _In_ ULONG IsEnabled,
    _In_ UCHAR Level,
    _In_ ULONGLONG MatchAnyKeyword,
    _In_ ULONGLONG MatchAllKeyword,
    _In_opt_ PEVENT_FILTER_DESCRIPTOR FilterData,
    _Inout_opt_ PVOID CallbackContext)
{
    UNREFERENCED_PARAMETER(SourceId);
    UNREFERENCED_PARAMETER(Level);
    UNREFERENCED_PARAMETER(MatchAnyKeyword);
    UNREFERENCED_PARAMETER(MatchAllKeyword);
    UNREFERENCED_PARAMETER(FilterData);
    UNREFERENCED_PARAMETER(CallbackContext);
    g_bEnabled = IsEnabled == EVENT_CONTROL_CODE_ENABLE_PROVIDER;
}

int wmain(int argc, wchar_t* argv[])
{
    DWORD status = ERROR_SUCCESS;
    REGHANDLE RegistrationHandle = NULL;
    EVENT_DESCRIPTOR EventDescriptor;
    EVENT_DATA_DESCRIPTOR Descriptors[MAX_PAYLOAD_DESCRIPTORS];
    DWORD i = 0;

    WCHAR Message[MAX_PATH] = L"";
    LPCWSTR pPath = L"C:\\Temp\\\x00fc";
    GUID ActivityId = GUID_NULL;
    SYSTEMTIME UtcNow = {};
    FILETIME Now = {};
    DWORD Scores[3] = {45, 63, 21};
    BOOL IsLocal = TRUE;
    ULONGLONG TransferKeyword = 0x1;
    Status State = Busy;
    DWORD Ticks = GetTickCount();

    status = EventRegister(&ProviderGuid, EnableCallback, NULL, &RegistrationHandle);
    if (ERROR_SUCCESS != status)
    {
        wprintf(L"EventRegister failed with %lu\n", status);
        goto cleanup;
    }
    if (FAILED(CoCreateGuid(&ActivityId)) || InlineIsEqualGUID(ActivityId, GUID_NULL))
    {
        wprintf(L"CoCreateGuid failed\n");
        goto cleanup;
    }
    GetSystemTimeAsFileTime(&Now);
    if (!FileTimeToSystemTime(&Now, &UtcNow) || UtcNow.wYear < 2020)
        goto cleanup;
    StringCchPrintf(Message, _countof(Message), L"%s at %02d, %u of %I64u: %hs", argc > 1 ? argv[1] : L"?", 7, 3u,
                    (ULONGLONG)9, "narrow");

    EventDescCreate(&EventDescriptor, 1, 0, 0, WINEVENT_LEVEL_INFO, 0, WINEVENT_OPCODE_INFO, TransferKeyword);
    EventDataDescCreate(&Descriptors[i++], pPath, (ULONG)(wcslen(pPath) + 1) * sizeof(WCHAR));
    EventDataDescCreate(&Descriptors[i++], Scores, sizeof(Scores));
    EventDataDescCreate(&Descriptors[i++], &ActivityId, sizeof(GUID));
    EventDataDescCreate(&Descriptors[i++], &IsLocal, sizeof(BOOL));
    EventDataDescCreate(&Descriptors[i++], &State, sizeof(State));
    EventDataDescCreate(&Descriptors[i++], Message, (ULONG)((wcslen(Message) + 1) * sizeof(WCHAR)));
    if (EventProviderEnabled(RegistrationHandle, EventDescriptor.Level, EventDescriptor.Keyword))
    {
        status = EventWriteTransfer(RegistrationHandle, &EventDescriptor, &ActivityId, NULL, i, &Descriptors[0]);
        if (status != ERROR_SUCCESS)
            wprintf(L"EventWrite failed with 0x%x", status);
    }

    TraceLoggingRegister(g_hMyProvider);
    TraceLoggingWrite(g_hMyProvider,
        "HelloWorldTestEvent",
        TraceLoggingLevel(WINEVENT_LEVEL_WARNING),
        TraceLoggingKeyword(0x1 | 0x20),
        TraceLoggingWideString(argc > 1 ? argv[1] : L"none", "arg0"),
        TraceLoggingValue(Message, "message"),
        TraceLoggingInt32((INT32)GetCurrentProcessId(), "pid"),
        TraceLoggingBool(IsLocal),
        TraceLoggingUInt32(GetTickCount() - Ticks < 60000u, "Ticks"));
    TraceLoggingUnregister(g_hMyProvider);
    status = ERROR_SUCCESS;

cleanup:
    if (RegistrationHandle)
        EventUnregister(RegistrationHandle);
    return status == ERROR_SUCCESS ? 0 : 1;
}
