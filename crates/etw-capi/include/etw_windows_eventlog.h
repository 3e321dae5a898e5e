/*
 * The Event Log by winbase.h: RegisterEventSource, ReportEvent, DeregisterEventSource; OpenEventLog, OpenBackupEventLog, ReadEventLog,
 * GetNumberOfEventLogRecords, GetOldestEventLogRecord, GetEventLogInformation, BackupEventLog, ClearEventLog, NotifyChangeEventLog,
 * CloseEventLog. Included by etw_windows.h.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 *
 * A host that runs keeps the reports in the log Application, or in the first log of the installed provider that has the source's name. If
 * none does, ReportEvent fails with RPC_S_SERVER_UNAVAILABLE. So does every call with the name of another computer. A handle of
 * RegisterEventSource can be used with the calls on logs, and one of OpenEventLog with ReportEvent.
 *
 * OpenEventLog opens the log of a channel by its name, and the Application log for any other name, as on Windows. OpenBackupEventLog opens
 * .evtx, .evt and .etl files. The number of a record is its EventRecordID; each value of its data is a string. Records may have levels that
 * are no types: critical is an error, verbose an information.
 */
#ifndef ETW_WINDOWS_EVENTLOG_H
#define ETW_WINDOWS_EVENTLOG_H

#define EVENTLOG_SUCCESS 0x0000
#define EVENTLOG_ERROR_TYPE 0x0001
#define EVENTLOG_WARNING_TYPE 0x0002
#define EVENTLOG_INFORMATION_TYPE 0x0004
#define EVENTLOG_AUDIT_SUCCESS 0x0008
#define EVENTLOG_AUDIT_FAILURE 0x0010

#define EVENTLOG_SEQUENTIAL_READ 0x0001
#define EVENTLOG_SEEK_READ 0x0002
#define EVENTLOG_FORWARDS_READ 0x0004
#define EVENTLOG_BACKWARDS_READ 0x0008

#define EVENTLOG_FULL_INFO 0

/* A record, with its source, its computer, a SID, strings and data behind it, at the offsets that it names. */
typedef struct _EVENTLOGRECORD {
    DWORD Length;
    DWORD Reserved;
    DWORD RecordNumber;
    DWORD TimeGenerated;
    DWORD TimeWritten;
    DWORD EventID;
    WORD EventType;
    WORD NumStrings;
    WORD EventCategory;
    WORD ReservedFlags;
    DWORD ClosingRecordNumber;
    DWORD StringOffset;
    DWORD UserSidLength;
    DWORD UserSidOffset;
    DWORD DataLength;
    DWORD DataOffset;
} EVENTLOGRECORD, *PEVENTLOGRECORD;

typedef struct _EVENTLOG_FULL_INFORMATION {
    DWORD dwFull;
} EVENTLOG_FULL_INFORMATION, *LPEVENTLOG_FULL_INFORMATION;

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
HANDLE OpenEventLogA(const char *lpUNCServerName, const char *lpSourceName);
HANDLE OpenEventLogW(const WCHAR *lpUNCServerName, const WCHAR *lpSourceName);
HANDLE OpenBackupEventLogA(const char *lpUNCServerName, const char *lpFileName);
HANDLE OpenBackupEventLogW(const WCHAR *lpUNCServerName, const WCHAR *lpFileName);
BOOL CloseEventLog(HANDLE hEventLog);
BOOL ReadEventLogA(HANDLE hEventLog, DWORD dwReadFlags, DWORD dwRecordOffset, LPVOID lpBuffer,
                   DWORD nNumberOfBytesToRead, DWORD *pnBytesRead, DWORD *pnMinNumberOfBytesNeeded);
BOOL ReadEventLogW(HANDLE hEventLog, DWORD dwReadFlags, DWORD dwRecordOffset, LPVOID lpBuffer,
                   DWORD nNumberOfBytesToRead, DWORD *pnBytesRead, DWORD *pnMinNumberOfBytesNeeded);
BOOL GetNumberOfEventLogRecords(HANDLE hEventLog, DWORD *NumberOfRecords);
BOOL GetOldestEventLogRecord(HANDLE hEventLog, DWORD *OldestRecord);
BOOL GetEventLogInformation(HANDLE hEventLog, DWORD dwInfoLevel, LPVOID lpBuffer, DWORD cbBufSize,
                            DWORD *pcbBytesNeeded);
BOOL BackupEventLogA(HANDLE hEventLog, const char *lpBackupFileName);
BOOL BackupEventLogW(HANDLE hEventLog, const WCHAR *lpBackupFileName);
BOOL ClearEventLogA(HANDLE hEventLog, const char *lpBackupFileName);
BOOL ClearEventLogW(HANDLE hEventLog, const WCHAR *lpBackupFileName);
/* The library's part of NotifyChangeEventLog: `set` makes `event` signalled. */
BOOL etw_notify_change_event_log(HANDLE log, HANDLE event, BOOL (*set)(HANDLE));
/* For a wchar_t of 32 bits. */
HANDLE etw_open_event_log_wide(const wchar_t *lpUNCServerName, const wchar_t *lpSourceName);
HANDLE etw_open_backup_event_log_wide(const wchar_t *lpUNCServerName, const wchar_t *lpFileName);
BOOL etw_backup_event_log_wide(HANDLE hEventLog, const wchar_t *lpBackupFileName);
BOOL etw_clear_event_log_wide(HANDLE hEventLog, const wchar_t *lpBackupFileName);
HANDLE etw_register_event_source_wide(const wchar_t *lpUNCServerName, const wchar_t *lpSourceName);
BOOL etw_report_event_wide(HANDLE hEventLog, WORD wType, WORD wCategory, DWORD dwEventID,
                           PSID lpUserSid, WORD wNumStrings, DWORD dwDataSize,
                           const wchar_t **lpStrings, LPVOID lpRawData);

/* Makes hEvent signalled when records are written to the log, until the log is closed. */
static inline BOOL NotifyChangeEventLog(HANDLE hEventLog, HANDLE hEvent)
{
#ifdef ETW_WINDOWS_THREADS_H
    return etw_notify_change_event_log(hEventLog, hEvent, SetEvent);
#else
    return etw_notify_change_event_log(hEventLog, hEvent, NULL);
#endif
}

#ifdef __cplusplus
}
#if __SIZEOF_WCHAR_T__ == 4
extern "C++" inline HANDLE OpenEventLogW(const wchar_t *server, const wchar_t *source)
{
    return etw_open_event_log_wide(server, source);
}
extern "C++" inline HANDLE OpenBackupEventLogW(const wchar_t *server, const wchar_t *file)
{
    return etw_open_backup_event_log_wide(server, file);
}
extern "C++" inline BOOL BackupEventLogW(HANDLE log, const wchar_t *file)
{
    return etw_backup_event_log_wide(log, file);
}
extern "C++" inline BOOL ClearEventLogW(HANDLE log, const wchar_t *file)
{
    return etw_clear_event_log_wide(log, file);
}
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
#define OpenEventLogW(server, source)            \
    _Generic((source),                           \
        wchar_t *: etw_open_event_log_wide,      \
        const wchar_t *: etw_open_event_log_wide, \
        default: OpenEventLogW)((server), (source))
#define OpenBackupEventLogW(server, file)               \
    _Generic((file),                                    \
        wchar_t *: etw_open_backup_event_log_wide,      \
        const wchar_t *: etw_open_backup_event_log_wide, \
        default: OpenBackupEventLogW)((server), (file))
#define BackupEventLogW(log, file)                 \
    _Generic((file),                               \
        wchar_t *: etw_backup_event_log_wide,      \
        const wchar_t *: etw_backup_event_log_wide, \
        default: BackupEventLogW)((log), (file))
#define ClearEventLogW(log, file)                 \
    _Generic((file),                              \
        wchar_t *: etw_clear_event_log_wide,      \
        const wchar_t *: etw_clear_event_log_wide, \
        default: ClearEventLogW)((log), (file))
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
#define OpenEventLog OpenEventLogW
#define OpenBackupEventLog OpenBackupEventLogW
#define ReadEventLog ReadEventLogW
#define BackupEventLog BackupEventLogW
#define ClearEventLog ClearEventLogW
#else
#define OpenEventLog OpenEventLogA
#define OpenBackupEventLog OpenBackupEventLogA
#define ReadEventLog ReadEventLogA
#define BackupEventLog BackupEventLogA
#define ClearEventLog ClearEventLogA
#define RegisterEventSource RegisterEventSourceA
#define ReportEvent ReportEventA
#endif

#endif
