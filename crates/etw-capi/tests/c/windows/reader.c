/*
 * Reads the Event Log as programs for Windows did before winevt.h. Arguments: a backup to write, a log of Windows XP with some records,
 * a trace with events, two more logs to write. Prints the events of both files that are read.
 */
#include <stddef.h>
#include <stdio.h>
#include <windows.h>
#include <winevt.h>

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%d: %s, last error %u\n", __LINE__, #condition, (unsigned)GetLastError()); \
            return 1;                                                                                \
        }                                                                                            \
    } while (0)

enum { RECORDS = 5 };

static DWORD buffer[4096];
static const WCHAR LISTED[] = L"<QueryList><Query><Select Path='Application'>*</Select>"
                              L"<Select Path='System'>*</Select></Query></QueryList>";

static int same(const EVENTLOGRECORD *record, const WCHAR *text, DWORD offset)
{
    return wcscmp((const WCHAR *)((const char *)record + offset), text) == 0;
}

/* Records of one call in a direction; the numbers of the first and the last. */
static int read_all(HANDLE log, DWORD flags, DWORD number, DWORD *first, DWORD *last)
{
    DWORD read, needed, at;
    int count = 0;
    if (!ReadEventLog(log, flags, number, buffer, sizeof buffer, &read, &needed))
        return -(int)GetLastError();
    for (at = 0; at < read; count++) {
        const EVENTLOGRECORD *record = (const EVENTLOGRECORD *)((char *)buffer + at);
        DWORD end = *(const DWORD *)((const char *)record + record->Length - 4);
        if (record->Reserved != 0x654c664c || end != record->Length)
            return -1;
        if (count == 0)
            *first = record->RecordNumber;
        *last = record->RecordNumber;
        at += record->Length;
    }
    return at == read ? count : -1;
}

static int query(const WCHAR *path)
{
    EVT_HANDLE events[16], result = EvtQuery(NULL, path, L"*", EvtQueryFilePath);
    DWORD returned;
    int count = 0;
    if (result == NULL)
        return -1;
    while (EvtNext(result, 16, events, 0, 0, &returned)) {
        count += (int)returned;
        while (returned > 0)
            EvtClose(events[--returned]);
    }
    EvtClose(result);
    return count;
}

/* Other computers, this one by its names, and files that are no logs. */
static int check_failures(const wchar_t *path)
{
    char name[MAX_COMPUTERNAME_LENGTH + 1];
    DWORD size = sizeof name, written;
    HANDLE handle, file;

    CHECK(OpenEventLogA("IDontExist", "Application") == NULL && GetLastError() == RPC_S_SERVER_UNAVAILABLE);
    CHECK(OpenEventLogA("IDontExist", NULL) == NULL && GetLastError() == ERROR_INVALID_PARAMETER);
    CHECK(OpenBackupEventLogA("\\\\IDontExist", "none.evtx") == NULL && GetLastError() == RPC_S_SERVER_UNAVAILABLE);
    CHECK(RegisterEventSourceA("IDontExist", "Reader") == NULL && GetLastError() == RPC_S_SERVER_UNAVAILABLE);
    CHECK(GetComputerNameA(name, &size));
    CHECK((handle = OpenEventLogA(name, "Application")) != NULL && CloseEventLog(handle));
    CHECK((handle = RegisterEventSourceW(L"", L"Reader")) != NULL && DeregisterEventSource(handle));
    CHECK((file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL)) != INVALID_HANDLE_VALUE);
    CHECK(OpenBackupEventLogW(NULL, path) == NULL && GetLastError() == ERROR_EVENTLOG_FILE_CORRUPT);
    CHECK(WriteFile(file, "Just some text", 14, &written, NULL) && CloseHandle(file));
    CHECK(OpenBackupEventLogW(NULL, path) == NULL && GetLastError() == ERROR_EVENTLOG_FILE_CORRUPT);
    CHECK(DeleteFileW(path));
    return 0;
}

int wmain(int argc, wchar_t **argv)
{
    const WCHAR *strings[2] = {L"first", L"gr\u00fc\u00dfe"};
    const EVENTLOGRECORD *record = (const EVENTLOGRECORD *)buffer;
    const DWORD forwards = EVENTLOG_SEQUENTIAL_READ | EVENTLOG_FORWARDS_READ;
    const DWORD backwards = EVENTLOG_SEQUENTIAL_READ | EVENTLOG_BACKWARDS_READ;
    unsigned char sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0}, data[3] = {1, 2, 3};
    DWORD number = 99, first = 0, last = 0, read, needed;
    EVENTLOG_FULL_INFORMATION full = {7};
    HANDLE log, other, event, source;
    int n;

    CHECK(argc == 6);
    /* The layouts of Microsoft's metadata. */
    CHECK(sizeof(EVENTLOGRECORD) == 56 && offsetof(EVENTLOGRECORD, EventType) == 24);
    CHECK(offsetof(EVENTLOGRECORD, ClosingRecordNumber) == 32 && offsetof(EVENTLOGRECORD, DataOffset) == 52);
    CHECK(sizeof(EVENTLOG_FULL_INFORMATION) == 4 && sizeof(EVT_VARIANT) == 16);
    CHECK(offsetof(EVT_VARIANT, Count) == 8 && offsetof(EVT_VARIANT, Type) == 12);
    CHECK(OpenEventLog(NULL, NULL) == NULL && GetLastError() == ERROR_INVALID_PARAMETER);
    CHECK(check_failures(argv[4]) == 0);
    /* A source without a log of its own has the Application log. */
    CHECK((log = OpenEventLog(NULL, L"Reader")) != NULL);
    CHECK(GetNumberOfEventLogRecords(log, &number) && number == 0);
    CHECK(GetOldestEventLogRecord(log, &number) && number == 0);
    CHECK(read_all(log, forwards, 0, &first, &last) == -(int)ERROR_HANDLE_EOF);
    /* The backup of a log to which nobody has written has no records. */
    CHECK(BackupEventLog(log, argv[4]));
    CHECK((other = OpenBackupEventLog(NULL, argv[4])) != NULL);
    CHECK(GetNumberOfEventLogRecords(other, &number) && number == 0 && CloseEventLog(other));

    CHECK((event = CreateEventW(NULL, FALSE, FALSE, NULL)) != NULL);
    CHECK(NotifyChangeEventLog(log, event));
    CHECK((source = RegisterEventSource(NULL, L"Reader")) != NULL);
    for (n = 1; n <= RECORDS; n++)
        CHECK(ReportEvent(source, n == 1 ? EVENTLOG_ERROR_TYPE : EVENTLOG_INFORMATION_TYPE, 3,
                          0xC0000000u + (DWORD)n, n == 1 ? sid : NULL, 2, n == 1 ? 3 : 0, strings, data));
    while (GetNumberOfEventLogRecords(log, &number) && number < RECORDS)
        CHECK(WaitForSingleObject(event, 60000) == WAIT_OBJECT_0);
    CHECK(number == RECORDS);
    /* The source of the log service has the System log. */
    CHECK((other = OpenEventLog(NULL, L"EventLog")) != NULL);
    CHECK(GetNumberOfEventLogRecords(other, &number) && number == 0 && CloseEventLog(other));

    /* The sizes that are not enough; then one record, and the rest. */
    CHECK(!ReadEventLog(log, forwards, 0, buffer, 8, &read, &needed));
    CHECK(GetLastError() == ERROR_INSUFFICIENT_BUFFER && read == 0 && needed > 56);
    CHECK(ReadEventLog(log, forwards, 0, buffer, needed, &read, &needed) && read == record->Length);
    CHECK(record->RecordNumber == 1 && record->EventID == 0xC0000001u);
    CHECK(record->EventType == EVENTLOG_ERROR_TYPE && record->EventCategory == 3);
    CHECK(record->TimeGenerated > 1700000000u && record->TimeWritten >= record->TimeGenerated);
    CHECK(same(record, L"Reader", sizeof *record));
    CHECK(record->NumStrings == 2 && same(record, L"first", record->StringOffset));
    CHECK(same(record, L"gr\u00fc\u00dfe", record->StringOffset + 12));
    CHECK(record->UserSidOffset % 8 == 0);
    CHECK(record->UserSidLength == 12 && memcmp((const char *)record + record->UserSidOffset, sid, 12) == 0);
    CHECK(record->DataLength == 3 && memcmp((const char *)record + record->DataOffset, data, 3) == 0);
    CHECK(read_all(log, forwards, 0, &first, &last) == RECORDS - 1 && first == 2 && last == RECORDS);
    CHECK(record->EventType == EVENTLOG_INFORMATION_TYPE && record->DataLength == 0);
    CHECK(read_all(log, forwards, 0, &first, &last) == -(int)ERROR_HANDLE_EOF);

    /* A sequential read continues with the records that are written later. */
    CHECK(ReportEvent(source, EVENTLOG_WARNING_TYPE, 0, 9, NULL, 0, 0, NULL, NULL));
    while (GetNumberOfEventLogRecords(log, &number) && number < RECORDS + 1)
        CHECK(WaitForSingleObject(event, 60000) == WAIT_OBJECT_0);
    CHECK(read_all(log, forwards, 0, &first, &last) == 1 && first == RECORDS + 1);
    CHECK(record->EventType == EVENTLOG_WARNING_TYPE && record->NumStrings == 0);

    /* Backwards, which starts with the last record that was read; forwards again; then from a number, in both directions. */
    CHECK(read_all(log, backwards, 0, &first, &last) == RECORDS + 1 && first == RECORDS + 1 && last == 1);
    CHECK(read_all(log, forwards, 0, &first, &last) == RECORDS + 1 && first == 1 && last == RECORDS + 1);
    CHECK(read_all(log, EVENTLOG_SEEK_READ | EVENTLOG_FORWARDS_READ, 4, &first, &last) == 3 && first == 4);
    CHECK(read_all(log, EVENTLOG_SEEK_READ | EVENTLOG_BACKWARDS_READ, 2, &first, &last) == 2 && last == 1);
    CHECK(read_all(log, EVENTLOG_SEEK_READ | EVENTLOG_FORWARDS_READ, 77, &first, &last) ==
          -(int)ERROR_INVALID_PARAMETER);
    CHECK(read_all(log, EVENTLOG_SEQUENTIAL_READ, 0, &first, &last) == -(int)ERROR_INVALID_PARAMETER);
    CHECK(read_all(log, EVENTLOG_FORWARDS_READ, 0, &first, &last) == -(int)ERROR_INVALID_PARAMETER);
    CHECK(GetEventLogInformation(log, EVENTLOG_FULL_INFO, &full, sizeof full, &needed));
    CHECK(full.dwFull == FALSE && needed == sizeof full);
    CHECK(!GetEventLogInformation(log, EVENTLOG_FULL_INFO, &full, 1, &needed));

    CHECK(!GetEventLogInformation(NULL, 1, NULL, 0, NULL) && GetLastError() == ERROR_INVALID_LEVEL);
    CHECK(!GetEventLogInformation(NULL, EVENTLOG_FULL_INFO, NULL, 0, NULL) && GetLastError() == ERROR_INVALID_HANDLE);
    CHECK(!GetEventLogInformation(log, EVENTLOG_FULL_INFO, NULL, 0, &needed) && GetLastError() == (DWORD)RPC_X_NULL_REF_POINTER);
    CHECK(!GetEventLogInformation(log, EVENTLOG_FULL_INFO, &full, sizeof full, NULL) &&
          GetLastError() == (DWORD)RPC_X_NULL_REF_POINTER);
    CHECK(!GetEventLogInformation(log, EVENTLOG_FULL_INFO, &full, 0, &needed) && GetLastError() == ERROR_INSUFFICIENT_BUFFER);
    CHECK(needed == sizeof full && GetProcAddress(GetModuleHandleA("advapi32.dll"), "GetEventLogInformation") != NULL);

    /* A backup is a log that is read alike, in 8 bits too, and is neither cleared nor watched. */
    CHECK(BackupEventLog(log, argv[1]));
    CHECK(!BackupEventLog(log, argv[1]) && GetLastError() == ERROR_ALREADY_EXISTS);
    CHECK((other = OpenBackupEventLog(NULL, argv[1])) != NULL);
    CHECK(GetNumberOfEventLogRecords(other, &number) && number == RECORDS + 1);
    CHECK(GetOldestEventLogRecord(other, &number) && number == 1);
    CHECK(ReadEventLogA(other, forwards, 0, buffer, sizeof buffer, &read, &needed));
    CHECK(strcmp((const char *)(record + 1), "Reader") == 0 && record->UserSidOffset % 8 == 0);
    CHECK(strcmp((const char *)record + record->StringOffset + 6, "gr\xc3\xbc\xc3\x9f"
                                                                  "e") == 0);
    CHECK(!ClearEventLog(other, NULL) && GetLastError() == ERROR_INVALID_HANDLE);
    CHECK(!NotifyChangeEventLog(other, event) && GetLastError() == ERROR_INVALID_HANDLE);
    CHECK(CloseEventLog(other));
    CHECK(!CloseEventLog(other) && GetLastError() == ERROR_INVALID_HANDLE);
    CHECK(!ReadEventLog(other, forwards, 0, buffer, sizeof buffer, &read, &needed));

    /* A query of several logs, one of them without a file yet, is exported into one. */
    CHECK(EvtExportLog(NULL, NULL, LISTED, argv[5], EvtExportLogChannelPath));
    CHECK(query(argv[5]) == RECORDS + 1);

    /* Numbers rise over a clear. */
    CHECK(!ClearEventLog(log, argv[1]) && GetLastError() == ERROR_ALREADY_EXISTS);
    CHECK(ClearEventLog(log, NULL));
    CHECK(GetNumberOfEventLogRecords(log, &number) && number == 0);
    CHECK(ReportEvent(source, EVENTLOG_SUCCESS, 0, 10, NULL, 0, 0, NULL, NULL));
    while (GetNumberOfEventLogRecords(log, &number) && number < 1)
        CHECK(WaitForSingleObject(event, 60000) == WAIT_OBJECT_0);
    CHECK(GetOldestEventLogRecord(log, &number) && number == RECORDS + 2);
    /* The handle of a log reports events, and that of a source has the source's log. */
    CHECK(ReportEvent(log, EVENTLOG_SUCCESS, 0, 11, NULL, 0, 0, NULL, NULL));
    while (GetNumberOfEventLogRecords(source, &number) && number < 2)
        CHECK(WaitForSingleObject(event, 60000) == WAIT_OBJECT_0);
    CHECK(ReadEventLog(source, backwards, 0, buffer, sizeof buffer, &read, &needed));
    CHECK(record->RecordNumber == RECORDS + 3 && record->EventID == 11 && same(record, L"Reader", sizeof *record));
    CHECK(CloseEventLog(log) && DeregisterEventSource(source) && CloseHandle(event));
    CHECK(!DeregisterEventSource(source) && GetLastError() == ERROR_INVALID_HANDLE);
    CHECK(!ReportEvent(source, EVENTLOG_SUCCESS, 0, 12, NULL, 0, 0, NULL, NULL) && GetLastError() == ERROR_INVALID_HANDLE);

    /* Files of other formats, by both interfaces. */
    CHECK((log = OpenBackupEventLog(NULL, argv[2])) != NULL);
    n = query(argv[2]);
    CHECK(n > 1 && GetNumberOfEventLogRecords(log, &number) && number == (DWORD)n);
    CHECK(GetOldestEventLogRecord(log, &number));
    CHECK(read_all(log, backwards, 0, &first, &last) == n && last == number && first > last);
    CHECK(CloseEventLog(log));
    printf("%d ", n);
    CHECK((log = EvtOpenLog(NULL, argv[2], EvtOpenFilePath)) != NULL && EvtClose(log));
    n = query(argv[3]);
    CHECK(n > 0);
    CHECK((log = OpenBackupEventLog(NULL, argv[3])) != NULL);
    CHECK(GetNumberOfEventLogRecords(log, &number) && number == (DWORD)n);
    CHECK(CloseEventLog(log));
    CHECK((log = EvtOpenLog(NULL, argv[3], EvtOpenFilePath)) != NULL && EvtClose(log));
    CHECK(OpenBackupEventLog(NULL, L"/no/such/file.evtx") == NULL && GetLastError() == ERROR_FILE_NOT_FOUND);
    printf("%d\n", n);
    return 0;
}
