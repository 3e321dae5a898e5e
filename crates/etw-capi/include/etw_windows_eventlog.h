/*
 * Reports to the Event Log (winbase.h): RegisterEventSource, ReportEvent, DeregisterEventSource. Included by etw_windows.h.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 *
 * A host that runs keeps the reports in the log Application, or in the first log of the installed provider that has the source's name. If
 * none does, ReportEvent fails with RPC_S_SERVER_UNAVAILABLE. The server's name is ignored.
 */
#ifndef ETW_WINDOWS_EVENTLOG_H
#define ETW_WINDOWS_EVENTLOG_H

#define EVENTLOG_SUCCESS 0x0000
#define EVENTLOG_ERROR_TYPE 0x0001
#define EVENTLOG_WARNING_TYPE 0x0002
#define EVENTLOG_INFORMATION_TYPE 0x0004
#define EVENTLOG_AUDIT_SUCCESS 0x0008
#define EVENTLOG_AUDIT_FAILURE 0x0010

#ifdef __cplusplus
extern "C" {
#endif

HANDLE RegisterEventSourceA(const char *lpUNCServerName, const char *lpSourceName);
HANDLE RegisterEventSourceW(const WCHAR *lpUNCServerName, const WCHAR *lpSourceName);
BOOL DeregisterEventSource(HANDLE hEventLog);
BOOL ReportEventA(HANDLE hEventLog, WORD wType, WORD wCategory, DWORD dwEventID, PSID lpUserSid,
                  WORD wNumStrings, DWORD dwDataSize, const char **lpStrings, LPVOID lpRawData);
BOOL ReportEventW(HANDLE hEventLog, WORD wType, WORD wCategory, DWORD dwEventID, PSID lpUserSid,
                  WORD wNumStrings, DWORD dwDataSize, const WCHAR **lpStrings, LPVOID lpRawData);
/* For a wchar_t of 32 bits. */
HANDLE etw_register_event_source_wide(const wchar_t *lpUNCServerName, const wchar_t *lpSourceName);
BOOL etw_report_event_wide(HANDLE hEventLog, WORD wType, WORD wCategory, DWORD dwEventID,
                           PSID lpUserSid, WORD wNumStrings, DWORD dwDataSize,
                           const wchar_t **lpStrings, LPVOID lpRawData);

#ifdef __cplusplus
}
#if __SIZEOF_WCHAR_T__ == 4
extern "C++" inline HANDLE RegisterEventSourceW(const wchar_t *server, const wchar_t *source)
{
    return etw_register_event_source_wide(server, source);
}
extern "C++" inline BOOL ReportEventW(HANDLE source, WORD type, WORD category, DWORD id, PSID user,
                                      WORD count, DWORD size, const wchar_t **strings, LPVOID data)
{
    return etw_report_event_wide(source, type, category, id, user, count, size, strings, data);
}
#endif
#elif __SIZEOF_WCHAR_T__ == 4
#define RegisterEventSourceW(server, source)            \
    _Generic((source),                                  \
        wchar_t *: etw_register_event_source_wide,      \
        const wchar_t *: etw_register_event_source_wide, \
        default: RegisterEventSourceW)((server), (source))
#define ReportEventW(log, type, category, id, user, count, size, strings, data) \
    _Generic((strings),                                                         \
        wchar_t **: etw_report_event_wide,                                      \
        const wchar_t **: etw_report_event_wide,                                \
        default: ReportEventW)((log), (type), (category), (id), (user), (count), (size), (strings), (data))
#endif

#ifdef UNICODE
#define RegisterEventSource RegisterEventSourceW
#define ReportEvent ReportEventW
#else
#define RegisterEventSource RegisterEventSourceA
#define ReportEvent ReportEventA
#endif

#endif
