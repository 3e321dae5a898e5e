// A consumer as programs for Windows are written: names and values of all events, with map entries. Its includes are Windows'.
#define INITGUID
#include <windows.h>
#include <stdio.h>
#include <comdef.h>
#include <guiddef.h>
#include <wbemidl.h>
#include <wmistr.h>
#include <evntrace.h>
#include <evntcons.h>
#include <tdh.h>
#include <in6addr.h>
#include <vector>

#pragma comment(lib, "tdh.lib")

ULONG g_TimerResolution = 0;
BOOL g_bUserMode = FALSE;
TRACEHANDLE g_hTrace = 0;

void WINAPI ProcessEvent(PEVENT_RECORD pEvent);
DWORD GetEventInformation(PEVENT_RECORD pEvent, PTRACE_EVENT_INFO& pInfo);

class PropertyPrinter
{
public:
    explicit PropertyPrinter(_In_ PEVENT_RECORD pEvent, _In_ PTRACE_EVENT_INFO pInfo)
        : m_pEvent(pEvent), m_pInfo(pInfo), m_pointerSize(4), m_pData(nullptr), m_pEnd(nullptr)
    {
        if (EVENT_HEADER_FLAG_32_BIT_HEADER != (pEvent->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER))
            m_pointerSize = 8;
        m_pData = (PBYTE)pEvent->UserData;
        m_pEnd = m_pData + pEvent->UserDataLength;
    }

    DWORD Print()
    {
        DWORD status = ERROR_SUCCESS;
        for (USHORT i = 0; i < m_pInfo->TopLevelPropertyCount && status == ERROR_SUCCESS; i++)
            status = PrintOne(i);
        return status;
    }

private:
    DWORD PrintOne(USHORT i)
    {
        EVENT_PROPERTY_INFO const& epi = m_pInfo->EventPropertyInfoArray[i];
        if ((epi.Flags & PropertyStruct) == PropertyStruct)
            return ERROR_SUCCESS;
        USHORT consumed = 0;
        DWORD size = 0;
        DWORD status;
        std::vector<wchar_t> text;
        do
        {
            status = TdhFormatProperty(m_pInfo, NULL, m_pointerSize, epi.nonStructType.InType,
                epi.nonStructType.OutType, epi.length, (USHORT)(m_pEnd - m_pData), m_pData, &size,
                text.empty() ? NULL : text.data(), &consumed);
            text.resize(size / sizeof(wchar_t) + 1);
        } while (status == ERROR_INSUFFICIENT_BUFFER);
        if (status != ERROR_SUCCESS)
        {
            wprintf(L"  event %hu: %lu\n", m_pEvent->EventHeader.EventDescriptor.Id, status);
        }
        else
        {
            wprintf(L"  %ls: %ls\n", (LPWSTR)((PBYTE)m_pInfo + epi.NameOffset), text.data());
            m_pData += consumed;
        }
        return status;
    }

    PEVENT_RECORD m_pEvent;
    PTRACE_EVENT_INFO m_pInfo;
    ULONG m_pointerSize;
    PBYTE m_pData;
    PBYTE m_pEnd;
};

int wmain(int argc, _In_reads_(argc) LPWSTR* argv)
{
    TDHSTATUS status = ERROR_SUCCESS;
    EVENT_TRACE_LOGFILE trace;
    TRACE_LOGFILE_HEADER* pHeader = &trace.LogfileHeader;

    ZeroMemory(&trace, sizeof(EVENT_TRACE_LOGFILE));
    trace.LogFileName = argc > 1 ? argv[1] : (LPWSTR)L"sample.etl";
    trace.EventRecordCallback = (PEVENT_RECORD_CALLBACK)(ProcessEvent);
    trace.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;

    g_hTrace = OpenTrace(&trace);
    if (INVALID_PROCESSTRACE_HANDLE == g_hTrace)
    {
        wprintf(L"OpenTrace failed with %lu\n", GetLastError());
        goto cleanup;
    }
    g_bUserMode = pHeader->LogFileMode & EVENT_TRACE_PRIVATE_LOGGER_MODE;
    if (pHeader->TimerResolution > 0)
        g_TimerResolution = pHeader->TimerResolution / 10000;
    wprintf(L"Number of events lost:  %lu\n", pHeader->EventsLost);
    wprintf(L"Pointer size: %u, %ls\n", pHeader->PointerSize, g_bUserMode ? L"private" : L"of all");

    status = ProcessTrace(&g_hTrace, 1, 0, 0);
    if (status != ERROR_SUCCESS && status != ERROR_CANCELLED)
        wprintf(L"ProcessTrace failed with %lu\n", status);

cleanup:
    if (INVALID_PROCESSTRACE_HANDLE != g_hTrace)
        status = CloseTrace(g_hTrace);
    return (int)status;
}

VOID WINAPI ProcessEvent(PEVENT_RECORD pEvent)
{
    DWORD status = ERROR_SUCCESS;
    PTRACE_EVENT_INFO pInfo = NULL;
    HRESULT hr = S_OK;
    ULONGLONG TimeStamp = 0;
    ULONGLONG Nanoseconds = 0;
    SYSTEMTIME st;
    SYSTEMTIME stLocal;
    FILETIME ft;
    WCHAR wszGuid[50];

    // The header event is the traces' own.
    if (IsEqualGUID(pEvent->EventHeader.ProviderId, EventTraceGuid) &&
        pEvent->EventHeader.EventDescriptor.Opcode == EVENT_TRACE_TYPE_INFO)
        return;
    status = GetEventInformation(pEvent, pInfo);
    if (ERROR_SUCCESS != status)
        goto cleanup;
    if (DecodingSourceWPP == pInfo->DecodingSource)
        goto cleanup;
    if (StringFromGUID2(pInfo->ProviderGuid, wszGuid, sizeof(wszGuid) / sizeof(wszGuid[0])) == 0)
    {
        hr = E_FAIL;
        goto cleanup;
    }
    wprintf(L"%s", wszGuid);
    if (DecodingSourceTlg == pInfo->DecodingSource)
        wprintf(L" %s", (LPWSTR)((PBYTE)(pInfo) + pInfo->EventNameOffset));
    wprintf(L" level %hu", pInfo->EventDescriptor.Level);

    ft.dwHighDateTime = pEvent->EventHeader.TimeStamp.HighPart;
    ft.dwLowDateTime = pEvent->EventHeader.TimeStamp.LowPart;
    FileTimeToSystemTime(&ft, &st);
    SystemTimeToTzSpecificLocalTime(NULL, &st, &stLocal);
    TimeStamp = pEvent->EventHeader.TimeStamp.QuadPart;
    Nanoseconds = (TimeStamp % 10000000) * 100;
    if (stLocal.wYear < 2020 || Nanoseconds > 999999999)
        wprintf(L" %02d/%02d/%02d %02d:%02d:%02d.%I64u", stLocal.wMonth, stLocal.wDay, stLocal.wYear, stLocal.wHour,
                stLocal.wMinute, stLocal.wSecond, Nanoseconds);
    wprintf(L"\n");
    status = PropertyPrinter(pEvent, pInfo).Print();

cleanup:
    if (ERROR_SUCCESS != status || FAILED(hr))
        wprintf(L"  no information: %lu\n", status);
    if (pInfo)
        free(pInfo);
}

DWORD GetEventInformation(PEVENT_RECORD pEvent, PTRACE_EVENT_INFO& pInfo)
{
    DWORD status = ERROR_SUCCESS;
    DWORD BufferSize = 0;
    status = TdhGetEventInformation(pEvent, 0, NULL, pInfo, &BufferSize);
    if (ERROR_INSUFFICIENT_BUFFER == status)
    {
        pInfo = (TRACE_EVENT_INFO*)malloc(BufferSize);
        if (pInfo == NULL)
            return ERROR_OUTOFMEMORY;
        status = TdhGetEventInformation(pEvent, 0, NULL, pInfo, &BufferSize);
    }
    return status;
}
