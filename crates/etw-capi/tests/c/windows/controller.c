/* A controller written for Windows, in C: Windows' includes, and a wmain without parameters. */
#include <windows.h>
#include <stdio.h>
#include <conio.h>
#include <strsafe.h>
#include <wmistr.h>
#include <evntrace.h>
#include <evntprov.h>

#define LOGFILE_PATH L"sample-windows.etl"
#define LOGSESSION_NAME L"My Event Trace Session"

static const GUID SessionGuid =
{ 0xae44cb98, 0xbd11, 0x4069, { 0x80, 0x93, 0x77, 0xe, 0xc9, 0x25, 0x8a, 0x12 } };
static const GUID ProviderGuid =
{ 0x4b5c3a3d, 0x8e0, 0x4a38, { 0x8c, 0x6, 0x4c, 0x3d, 0x5a, 0xc9, 0xf0, 0xe1 } };
static const GUID TraceLoggingGuid =
{ 0x4b5c3a3d, 0x8e0, 0x4a38, { 0x8c, 0x6, 0x4c, 0x3d, 0x5a, 0xc9, 0xf0, 0xe2 } };

void wmain(void)
{
    ULONG status = ERROR_SUCCESS;
    TRACEHANDLE SessionHandle = 0;
    EVENT_TRACE_PROPERTIES* pSessionProperties = NULL;
    ULONG BufferSize = 0;
    BOOL TraceOn = TRUE;
    WCHAR GuidText[40];

    BufferSize = sizeof(EVENT_TRACE_PROPERTIES) + sizeof(LOGSESSION_NAME) + MAX_PATH * sizeof(WCHAR);
    pSessionProperties = (EVENT_TRACE_PROPERTIES*) malloc(BufferSize);
    if (NULL == pSessionProperties)
    {
        wprintf(L"Unable to allocate %lu bytes for properties structure.\n", BufferSize);
        goto cleanup;
    }

    ZeroMemory(pSessionProperties, BufferSize);
    pSessionProperties->Wnode.BufferSize = BufferSize;
    pSessionProperties->Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    pSessionProperties->Wnode.ClientContext = 1;
    pSessionProperties->Wnode.Guid = SessionGuid;
    pSessionProperties->LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
    pSessionProperties->MaximumFileSize = 1;
    pSessionProperties->LoggerNameOffset = sizeof(EVENT_TRACE_PROPERTIES);
    pSessionProperties->LogFileNameOffset = sizeof(EVENT_TRACE_PROPERTIES) + sizeof(LOGSESSION_NAME);
    StringCbCopy((LPWSTR)((char*)pSessionProperties + pSessionProperties->LogFileNameOffset), MAX_PATH * sizeof(WCHAR), LOGFILE_PATH);

    status = StartTrace((PTRACEHANDLE)&SessionHandle, LOGSESSION_NAME, pSessionProperties);
    if (ERROR_SUCCESS != status)
    {
        if (ERROR_ALREADY_EXISTS == status)
            wprintf(L"A session with that name is already in use.\n");
        else
            wprintf(L"StartTrace() failed with %lu\n", status);
        goto cleanup;
    }

    status = EnableTraceEx2(SessionHandle, (LPCGUID)&ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
                            TRACE_LEVEL_INFORMATION, 0, 0, 0, NULL);
    if (ERROR_SUCCESS == status)
        status = EnableTraceEx2(SessionHandle, &TraceLoggingGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
                                TRACE_LEVEL_VERBOSE, 0, 0, 0, NULL);
    if (ERROR_SUCCESS != status)
    {
        wprintf(L"EnableTrace() failed with %lu\n", status);
        TraceOn = FALSE;
        goto cleanup;
    }

    StringFromGUID2(&SessionGuid, GuidText, _countof(GuidText));
    wprintf(L"%s is %s; run the provider application. Then hit any key to stop the session.\n", LOGSESSION_NAME, GuidText);
    fflush(stdout);
    _getch();

cleanup:
    if (SessionHandle)
    {
        if (TraceOn)
            status = EnableTraceEx2(SessionHandle, &ProviderGuid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 0, NULL);
        status = ControlTrace(SessionHandle, LOGSESSION_NAME, pSessionProperties, EVENT_TRACE_CONTROL_STOP);
        if (ERROR_SUCCESS != status)
            wprintf(L"ControlTrace(stop) failed with %lu\n", status);
        else
            wprintf(L"%6lu lost; %ls\n", pSessionProperties->EventsLost,
                    (LPWSTR)((PBYTE)pSessionProperties + pSessionProperties->LoggerNameOffset));
    }
    if (pSessionProperties)
    {
        free(pSessionProperties);
        pSessionProperties = NULL;
    }
    exit((int)status);
}
